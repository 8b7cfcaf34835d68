use livebag_format::rosbag2::MetadataVersion;

use super::*;

fn message(time: u64) -> Message<'static> {
    Message { log_time_nanos: time, publish_time_nanos: time + 1, sequence: time, data: b"data" }
}

fn options() -> SinkOptions {
    SinkOptions {
        profile: "ros2".into(),
        metadata_version: MetadataVersion::Jazzy,
        ros_distro: "jazzy".into(),
        custom_data: [("run".to_owned(), "7".to_owned())].into(),
        ..Default::default()
    }
}

/// Topics with a schema, with a bundled one, with none, and one of the same name.
fn topics() -> Vec<Topic> {
    let bundled = Topic { schema: Vec::new(), schema_encoding: String::new(), ..topic("/bundled") };
    let unknown = Topic { type_name: "acme_msgs/msg/Anvil".into(), ..bundled.clone() };
    let mut twin = topic("/full");
    twin.metadata.insert("callerid".into(), "/other".into());
    twin.metadata.insert("topic_type_hash".into(), "RIHS01_x".into());
    vec![
        topic("/full"),
        Topic { name: "/bundled".into(), ..bundled },
        Topic { name: "/unknown".into(), ..unknown },
        twin,
    ]
}

#[test]
fn what_is_written_reads_back_whole() {
    for compression in [SinkCompression::None, SinkCompression::Lz4, SinkCompression::Zstd] {
        let directory = tempfile::tempdir().unwrap();
        let bag = directory.path().join("run");
        let options = SinkOptions { compression, ..options() };
        let mut sink = McapSink::create(&bag, &topics(), options).unwrap();
        for time in 10..20 {
            sink.write([0, 2, 3][time as usize % 3], &message(time)).unwrap();
        }
        let summary = sink.finish().unwrap();
        assert_eq!(summary.message_count, 10);
        assert_eq!(summary.mcap_path, bag.join("run_0.mcap"));
        let mut source = open_foreign(&bag).unwrap();
        assert_eq!(source.profile(), "ros2");
        let read = read_all(source.as_mut());
        assert_eq!(read.len(), 10);
        for (read, time) in read.iter().zip(10..) {
            assert_eq!(read.as_message(), message(time));
            let written = &topics()[[0, 2, 3][time as usize % 3]];
            let known = &source.topics()[read.topic];
            assert_eq!((&known.name, &known.schema), (&written.name, &written.schema));
            assert_eq!(known.metadata.get("callerid"), written.metadata.get("callerid"));
        }
        let bundled = source.topics().iter().find(|topic| topic.name == "/bundled").unwrap();
        assert_eq!(bundled.schema, b"string data\n");
        assert_eq!(source.warnings(), &[] as &[String]);
        let metadata = source.bag_metadata().unwrap();
        assert_eq!((metadata.starting_time_nanos, metadata.duration_nanos), (10, 9));
        assert_eq!(metadata.custom_data["run"], "7");
        let counts: Vec<_> = metadata.topics.iter().map(|t| (&*t.name, t.message_count)).collect();
        assert_eq!(counts, [("/full", 6), ("/bundled", 0), ("/unknown", 4)].map(|c| c));
    }
}

/// The rules of rosbag2's readers, on the file itself.
#[test]
fn every_chunk_has_a_message_and_every_channel_a_schema() {
    for count in [0, 1, 3] {
        let directory = tempfile::tempdir().unwrap();
        let mut sink =
            McapSink::create(&directory.path().join("run"), &topics(), options()).unwrap();
        let record = MetadataRecord { name: "extra".into(), values: Default::default() };
        let attachment = Attachment { name: "a.txt".into(), ..Default::default() };
        sink.add_metadata(record.clone()).unwrap();
        for time in 0..count {
            sink.write(0, &message(time)).unwrap();
            sink.attach(attachment.clone()).unwrap();
        }
        if count == 0 {
            sink.attach(attachment.clone()).unwrap();
        }
        let summary = sink.finish().unwrap();
        let bytes = ForeignFile::open(&summary.mcap_path).unwrap().read_all(1 << 20).unwrap();
        let summary = mcap::Summary::read(&bytes).unwrap().unwrap();
        let statistics = summary.stats.as_ref().unwrap();
        assert_eq!(statistics.message_count, count);
        assert_eq!(summary.channels.len(), 4);
        assert!(summary.channels.values().all(|channel| channel.schema.is_some()));
        for chunk in &summary.chunk_indexes {
            assert!(!chunk.message_index_offsets.is_empty(), "a chunk without messages");
        }
        assert_eq!(statistics.chunk_count as u64, count);
        let mut source = open_foreign(&directory.path().join("run")).unwrap();
        assert_eq!(source.metadata_records(), [record]);
        let mut attachments = 0;
        while source.next_attachment().unwrap().is_some() {
            attachments += 1;
        }
        assert_eq!(attachments, count.max(1));
    }
}

#[test]
fn nothing_is_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let error = McapSink::create(directory.path(), &topics(), options()).err().unwrap();
    assert!(matches!(error, ConvertError::Io { .. }), "{error}");
}

#[test]
fn a_topic_that_was_not_announced_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut sink = McapSink::create(&directory.path().join("run"), &topics(), options()).unwrap();
    assert!(matches!(sink.write(4, &message(1)), Err(ConvertError::Write { .. })));
    sink.write(0, &message(1)).unwrap();
    assert_eq!(sink.finish().unwrap().message_count, 1);
}
