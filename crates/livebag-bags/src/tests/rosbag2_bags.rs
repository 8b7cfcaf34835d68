//! rosbag2 bags of every kind that is written: read again, recovered, verified; parts and merges.
#![expect(clippy::disallowed_methods, reason = "tests look at files as users do")]

use std::time::Duration;

use livebag_format::rosbag2::{FileEntry, MetadataVersion};
use regex::Regex;

use super::*;

/// A hundred messages of 1 kB on two topics, 10 ms apart; the second topic is latched and hashed.
fn source(directory: &Path) -> Box<dyn MessageSource> {
    let path = directory.join("source.mcap");
    if !path.exists() {
        let qos = livebag_format::ros1::ToCdr::new(&Topic {
            message_encoding: "ros1".into(),
            schema_encoding: "ros1msg".into(),
            metadata: [("latching".to_owned(), "1".to_owned())].into(),
            ..topic("/b")
        });
        let mut latched = topic("/b");
        latched.metadata = qos.unwrap().topic().metadata.clone();
        let topics = [topic("/a"), latched, topic("/silent")];
        let mut sink =
            McapSink::create_file(&path, &topics, SinkOptions::default(), false).unwrap();
        for number in 0..100u64 {
            let mut data = vec![0, 1, 0, 0];
            data.resize(1000, number as u8);
            let time = 1_000_000_000 + number * 10_000_000;
            let message = Message {
                log_time_nanos: time,
                publish_time_nanos: time,
                sequence: 0,
                data: &data,
            };
            sink.write(number as usize % 2, &message).unwrap();
        }
        sink.finish().unwrap();
    }
    open_any(&path).unwrap()
}

fn storages(version: MetadataVersion) -> [Rosbag2Storage; 2] {
    let mcap = SinkOptions { metadata_version: version, ..SinkOptions::default() };
    let sqlite3 = Sqlite3Options { metadata_version: version, ..Sqlite3Options::default() };
    [Rosbag2Storage::Mcap(mcap), Rosbag2Storage::Sqlite3(sqlite3)]
}

fn is_mcap(storage: &Rosbag2Storage) -> bool {
    matches!(storage, Rosbag2Storage::Mcap(_))
}

fn names(path: &Path) -> Vec<String> {
    let entries = path.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Name, time and data of each message.
fn contents(source: &mut dyn MessageSource) -> Vec<(String, u64, Vec<u8>)> {
    let messages = read_all(source);
    let name = |topic: usize| source.topics()[topic].name.clone();
    messages.into_iter().map(|m| (name(m.topic), m.log_time_nanos, m.data)).collect()
}

#[test]
fn every_kind_is_read_recovered_and_verified() {
    use Rosbag2Compression::{File, Message, None};
    let folder = tempfile::tempdir().unwrap();
    let expected = contents(&mut *source(folder.path()));
    let versions = [MetadataVersion::Humble, MetadataVersion::Iron, MetadataVersion::Jazzy];
    for (number, version) in versions.into_iter().enumerate() {
        for storage in storages(version) {
            for compression in [None, File, Message] {
                if is_mcap(&storage) && compression == Message {
                    continue;
                }
                let name = format!("bag{number}{}{compression:?}", is_mcap(&storage));
                let bag = folder.path().join(&name);
                let options = Rosbag2Options {
                    compression,
                    file_duration_max: Some(Duration::from_millis(400)),
                    ..Rosbag2Options::default()
                };
                let mut source = source(folder.path());
                let storage = storage.clone();
                let (copied, written) =
                    to_rosbag2(&mut *source, &bag, storage, options, &mut |_| {}).unwrap();
                assert_eq!((copied.messages, &copied.warnings[..]), (100, &[][..]), "{name}");
                assert_eq!(written.files.len(), 3, "{name}");
                check(&bag, &expected, version);
            }
        }
    }
}

fn check(bag: &Path, expected: &[(String, u64, Vec<u8>)], version: MetadataVersion) {
    let name = bag.display();
    let mut read = open_any(bag).unwrap();
    assert_eq!(contents(&mut *read), expected, "{name}");
    assert_eq!(read.warnings(), &[] as &[String], "{name}");
    let topic = read.topics().iter().find(|topic| topic.name == "/b").unwrap();
    assert!(topic.metadata["topic_type_hash"].starts_with("RIHS01_"), "{name}");
    let qos =
        livebag_format::rosbag2::QosProfile::parse_list(&topic.metadata["offered_qos_profiles"]);
    assert_eq!(qos.unwrap().len(), 1, "{name}");
    let verified = crate::verify(bag, &mut |_| {}).unwrap();
    assert!(verified.is_whole(), "{name}: {:?}", verified.damage);

    let before = read_metadata(bag).unwrap().unwrap();
    assert_eq!(before.version, version.number());
    assert_eq!(
        before.files.iter().map(|file| file.message_count).collect::<Vec<_>>(),
        [40, 40, 20]
    );
    assert!(before.topics.iter().any(|topic| topic.name == "/silent"), "{name}");
    assert!(reindex(bag, None).unwrap().was_right, "{name}");
    std::fs::rename(bag.join("metadata.yaml"), bag.with_extension("yaml")).unwrap();
    assert_eq!(contents(&mut *open_any(bag).unwrap()), expected, "{name} without metadata");
    let reindexed = reindex(bag, None).unwrap();
    assert_eq!((reindexed.lost_messages, &reindexed.damage[..]), (0, &[][..]), "{name}");
    assert_eq!(read_metadata(bag).unwrap().unwrap(), before, "{name}");
    told_is_true(bag);
}

/// A bag's totals, known without reading it, match its contents.
fn told_is_true(bag: &Path) {
    let mut source = open_any(bag).unwrap();
    let totals = source.totals().unwrap();
    let mut read = SourceTotals { counts: vec![0; source.topics().len()], times_nanos: None };
    while let Some(message) = source.next_message().unwrap() {
        read.counts[message.topic] += 1;
        read.add_times(message.log_time_nanos, message.log_time_nanos);
    }
    assert_eq!(totals, read, "{}", bag.display());
}

#[test]
fn unpacked_files_are_gone_afterwards_and_a_cut_one_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let ours = format!("livebag-unpacked-{}-", std::process::id());
    let bag = folder.path().join("bag");
    let options = Rosbag2Options { compression: Rosbag2Compression::File, ..Default::default() };
    let storage = storages(MetadataVersion::Jazzy)[0].clone();
    to_rosbag2(&mut *source(folder.path()), &bag, storage, options, &mut |_| {}).unwrap();
    assert_eq!(names(&bag), ["bag_0.mcap.zstd", "metadata.yaml"]);
    let file = bag.join("bag_0.mcap.zstd");
    let unpacked = Unpacked::new(&file).unwrap();
    let place = unpacked.path().to_owned();
    assert!(place.is_file() && place.parent().unwrap().to_string_lossy().contains(&ours));
    drop(unpacked);
    assert!(!place.exists() && !place.parent().unwrap().exists());

    let single = open_any(&file).unwrap();
    assert_eq!(single.message_count(), Some(100));
    let bytes = std::fs::read(&file).unwrap();
    for length in [bytes.len() - 1, bytes.len() / 2, 40, 3] {
        std::fs::remove_file(&file).unwrap();
        write_file(&bag, "bag_0.mcap.zstd", &bytes[..length]);
        let Ok(mut source) = open_any(&bag) else { continue };
        let read = read_all(&mut *source).len();
        assert!(read <= 100);
        assert!(!source.warnings().is_empty(), "{length} bytes, {read} messages, and no word");
        assert!(!crate::verify(&bag, &mut |_| {}).unwrap().is_whole());
    }
}

#[test]
fn names_in_metadata_may_lack_the_suffix_of_compression() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let options = Rosbag2Options { compression: Rosbag2Compression::File, ..Default::default() };
    let storage = storages(MetadataVersion::Iron)[1].clone();
    to_rosbag2(&mut *source(folder.path()), &bag, storage, options, &mut |_| {}).unwrap();
    let path = bag.join("metadata.yaml");
    let yaml = std::fs::read_to_string(&path).unwrap().replace(".db3.zstd", ".db3");
    std::fs::remove_file(&path).unwrap();
    write_file(&bag, "metadata.yaml", yaml.as_bytes());
    assert_eq!(read_all(&mut *open_any(&bag).unwrap()).len(), 100);
}

#[test]
fn a_damaged_message_is_left_out_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag_0.db3");
    let mut writer = Sqlite3Writer::create(&path, Sqlite3Options::default()).unwrap();
    let number = writer.add_topic(&topic("/a")).unwrap();
    let whole = compressed::compress_message(&[0, 1, 0, 0, 5]).unwrap();
    for (time, data) in [(1, &whole[..]), (2, &whole[..whole.len() - 1]), (3, &[0, 1, 0, 0])] {
        let message = Message { log_time_nanos: time, publish_time_nanos: time, sequence: 0, data };
        writer.write(number, &message).unwrap();
    }
    writer.finish().unwrap();
    let mut source = open_any(folder.path()).unwrap();
    let read = read_all(&mut *source);
    assert_eq!(read.iter().map(|m| m.log_time_nanos).collect::<Vec<_>>(), [1, 3]);
    assert_eq!((&read[0].data[..], &read[1].data[..]), (&[0, 1, 0, 0, 5][..], &[0, 1, 0, 0][..]));
    assert_eq!(source.lost_count(), 1);
    assert!(source.warnings().iter().any(|warning| warning.contains("left out")));
}

#[test]
fn splits_by_size_are_whole_bags() {
    let folder = tempfile::tempdir().unwrap();
    let expected = contents(&mut *source(folder.path()));
    for (storage, files) in storages(MetadataVersion::Iron).into_iter().zip([5, 2]) {
        let bag = folder.path().join(format!("bag{files}"));
        // An empty database takes some 40 kB, three messages 4 kB.
        let options = Rosbag2Options {
            file_bytes_max: Some(if is_mcap(&storage) { 20_500 } else { 90_000 }),
            ..Default::default()
        };
        let (_, written) =
            to_rosbag2(&mut *source(folder.path()), &bag, storage, options, &mut |_| {}).unwrap();
        assert_eq!(written.files.len(), files);
        assert_eq!(contents(&mut *open_any(&bag).unwrap()), expected);
        assert!(reindex(&bag, None).unwrap().was_right);
    }
}

#[test]
fn mcap_has_no_compressed_messages() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("bag");
    let options = Rosbag2Options { compression: Rosbag2Compression::Message, ..Default::default() };
    let storage = storages(MetadataVersion::Iron)[0].clone();
    let refused = to_rosbag2(&mut *source(folder.path()), &bag, storage, options, &mut |_| {});
    assert!(refused.unwrap_err().to_string().contains("chunks"));
    assert!(!bag.exists());
}

#[test]
fn several_recordings_are_one_in_order_of_time() {
    let directory = tempfile::tempdir().unwrap();
    let options = || mcap::WriteOptions::new().compression(None);
    let first = write_file(directory.path(), "1.mcap", &mcap_bytes(options(), &[(0, 1), (1, 5)]));
    let second = write_file(directory.path(), "2.mcap", &mcap_bytes(options(), &[(0, 2), (0, 5)]));
    let inputs = [&first, &second].map(|path| open_any(path).unwrap());
    let mut all = merged(inputs.into());
    assert_eq!((all.topics().len(), all.message_count(), all.profile()), (2, Some(4), "ros2"));
    assert_eq!(all.start_time_nanos(), Some(1));
    let expected = [("/a", 1), ("/a", 2), ("/b", 5), ("/a", 5)];
    assert_eq!(names_and_times(&mut *all), expected.map(|(name, time)| (name.to_owned(), time)));
}

/// What files claim to hold need not fit 64 bits together.
#[test]
fn claimed_counts_that_overflow_are_unknown() {
    let bag = tempfile::tempdir().unwrap();
    let mut bytes = mcap_bytes(mcap::WriteOptions::new(), &[(0, 1), (1, 5)]);
    // The count is the first field of the statistics: behind the opcode and the length. The footer has no checksum.
    let statistics = mcap::Summary::read(&bytes).unwrap().unwrap().stats.unwrap();
    let body = statistics.message_count.to_le_bytes();
    let is_record = |at: &usize| bytes[*at] == 0x0b && bytes[*at + 9..].starts_with(&body);
    let at = (0..bytes.len() - 17).rev().find(is_record).unwrap();
    bytes[at + 9..at + 17].copy_from_slice(&u64::MAX.to_le_bytes());
    let checksum = bytes.len() - 12;
    bytes[checksum..checksum + 4].fill(0);
    let files = ["run_0.mcap", "run_1.mcap"].map(|name| write_file(bag.path(), name, &bytes));
    let single = || files.iter().map(|file| open_any(file).unwrap());
    assert_eq!(single().next().unwrap().message_count(), Some(u64::MAX));
    assert_eq!(merged(single().collect()).message_count(), None);
    assert_eq!(open_any(bag.path()).unwrap().message_count(), None);

    let mut told = BagMetadata { storage_identifier: "mcap".into(), ..BagMetadata::default() };
    for number in 0..3 {
        let path = format!("run_{number}.mcap");
        let message_count = u64::MAX / 2 + 1;
        told.relative_file_paths.push(path.clone());
        told.files.push(FileEntry { path, message_count, ..FileEntry::default() });
    }
    std::fs::remove_file(&files[1]).unwrap();
    write_file(bag.path(), "metadata.yaml", told.to_yaml(MetadataVersion::Jazzy).as_bytes());
    assert_eq!(open_any(bag.path()).unwrap().lost_count(), u64::MAX);
}

#[test]
fn a_part_of_a_recording_is_what_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let part = |filter: TopicFilter, from, to| {
        let mut part = selected(source(directory.path()), &filter, from, to);
        let read = names_and_times(&mut *part);
        let names: Vec<_> = part.topics().iter().map(|topic| topic.name.clone()).collect();
        (names.join(" "), read.len())
    };
    assert_eq!(part(TopicFilter::all(), None, None), ("/a /b /silent".into(), 100));
    let (from, to) = (Some(1_100_000_000), Some(1_190_000_000));
    assert_eq!(part(TopicFilter::all(), from, to).1, 10);
    let named = TopicFilter { topics: vec!["b".into()], ..TopicFilter::default() };
    assert_eq!(part(named, None, None), ("/b".into(), 50));
    let regex = TopicFilter {
        all_topics: true,
        exclude_regex: Some(Regex::new("^/(a|silent)$").unwrap()),
        ..TopicFilter::default()
    };
    assert_eq!(part(regex, None, to).1, 10);
    assert_eq!(part(TopicFilter::default(), None, None), (String::new(), 0));
}

#[test]
fn services_and_hidden_topics_are_taken_by_rosbag2s_rules() {
    let event = ("/add/_service_event", "example/srv/Add_Event");
    let hidden = ("/_hidden/topic", "a/msg/B");
    let all = TopicFilter { all_topics: true, ..TopicFilter::default() };
    assert!(all.takes("/topic", "a/msg/B"));
    assert!(!all.takes(event.0, event.1) && !all.takes(hidden.0, hidden.1));
    let services = TopicFilter { all_services: true, ..TopicFilter::default() };
    assert!(services.takes(event.0, event.1) && !services.takes("/topic", "a/msg/B"));
    let named = TopicFilter {
        services: vec!["/add".into()],
        topics: vec![hidden.0.into()],
        exclude_topic_types: vec!["a/msg/C".into()],
        topic_types: vec!["a/msg/C".into(), "a/msg/D".into()],
        ..TopicFilter::default()
    };
    assert!(named.takes(event.0, event.1) && named.takes(hidden.0, hidden.1));
    assert!(named.takes("/x", "a/msg/D") && !named.takes("/x", "a/msg/C"));
    assert!(TopicFilter::default().is_empty() && !named.is_empty());
}

#[test]
fn ros1_messages_become_ros2s() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ros1.mcap");
    let ros1 = |name: &str, callerid: &str, schema: &str| Topic {
        name: name.into(),
        type_name: "std_msgs/String".into(),
        message_encoding: "ros1".into(),
        schema_encoding: "ros1msg".into(),
        schema: schema.into(),
        metadata: [("callerid".to_owned(), callerid.to_owned())].into(),
    };
    let topics = [
        ros1("/t", "/one", "string data"),
        ros1("/t", "/two", "string data"),
        ros1("/unknown", "", "acme/Anvil anvil"),
    ];
    let options = SinkOptions { profile: "ros1".into(), ..SinkOptions::default() };
    let mut sink = McapSink::create_file(&path, &topics, options, false).unwrap();
    let data: [(usize, &[u8]); 4] =
        [(0, b"\x02\0\0\0hi"), (1, b"\0\0\0\0"), (2, b""), (0, b"\x09\0\0\0hi")];
    for (time, (topic, data)) in (1u64..).zip(data) {
        let message = Message { log_time_nanos: time, publish_time_nanos: time, sequence: 0, data };
        sink.write(topic, &message).unwrap();
    }
    sink.finish().unwrap();
    let mut ros2 = to_ros2(open_any(&path).unwrap());
    assert_eq!(ros2.profile(), "ros2");
    assert_eq!(ros2.topics().len(), 1);
    assert_eq!(ros2.topics()[0].type_name, "std_msgs/msg/String");
    let read = read_all(&mut *ros2);
    let data: Vec<_> = read.iter().map(|message| &message.data[..]).collect();
    assert_eq!(data, [&b"\0\x01\0\0\x03\0\0\0hi\0"[..], b"\0\x01\0\0\x01\0\0\0\0"]);
    assert_eq!(ros2.lost_count(), 2);
    assert_eq!(ros2.warnings().len(), 2, "{:?}", ros2.warnings());
}
