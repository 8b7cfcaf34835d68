use livebag_format::rosbag2::{MetadataVersion, QosProfile};
use rusqlite::Connection;

use super::*;

const QOS: &str = "- history: 1\n  depth: 5\n  reliability: 1\n  durability: 2\n  \
    deadline: {sec: 0, nsec: 0}\n  lifespan: {sec: 0, nsec: 0}\n  liveliness: 1\n  \
    liveliness_lease_duration: {sec: 0, nsec: 0}\n  avoid_ros_namespace_conventions: false\n";

fn message(time: u64) -> Message<'static> {
    Message { log_time_nanos: time, publish_time_nanos: time, sequence: 0, data: b"data" }
}

/// A topic with everything, one whose definition is bundled, and an unknown one.
fn topics() -> Vec<Topic> {
    let mut full = topic("/full");
    full.metadata.insert("offered_qos_profiles".into(), QOS.into());
    full.metadata.insert("topic_type_hash".into(), "RIHS01_x".into());
    let bare = Topic { schema: Vec::new(), schema_encoding: String::new(), ..topic("/bundled") };
    let bundled = Topic { type_name: "std_msgs/msg/Int64".into(), ..bare.clone() };
    let unknown =
        Topic { name: "/unknown".into(), type_name: "acme_msgs/msg/Anvil".into(), ..bare };
    vec![full, bundled, unknown]
}

/// Writes a bag of three messages a topic.
fn write_bag(directory: &Path, options: Sqlite3Options) -> Sqlite3Summary {
    std::fs::create_dir(directory).unwrap();
    let version = options.metadata_version;
    let mut writer = Sqlite3Writer::create(&directory.join("run_0.db3"), options).unwrap();
    for topic in &topics() {
        writer.add_topic(topic).unwrap();
    }
    for time in 10..19 {
        writer.write(time as usize % 3, &message(time)).unwrap();
    }
    let summary = writer.finish().unwrap();
    write_bag_metadata(directory, &summary.metadata, version).unwrap();
    summary
}

#[test]
fn what_is_written_reads_back_whole() {
    for preset in [Sqlite3Preset::None, Sqlite3Preset::Resilient] {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("run");
        let options = Sqlite3Options {
            preset,
            metadata_version: MetadataVersion::Jazzy,
            custom_data: [("run".to_owned(), "7".to_owned())].into(),
            ros_distro: "jazzy".into(),
            ..Sqlite3Options::default()
        };
        let summary = write_bag(&bag, options);
        assert_eq!(summary.metadata.message_count, 9);
        assert_eq!(summary.file_bytes, bag.join("run_0.db3").metadata().unwrap().len());
        assert_eq!(bag.read_dir().unwrap().count(), 2, "no log is left behind");

        let mut source = open_foreign(&bag).unwrap();
        assert_eq!(source.message_count(), Some(9));
        assert_eq!(source.bag_metadata().unwrap().ros_distro, "jazzy");
        assert_eq!(source.bag_metadata().unwrap().custom_data["run"], "7");
        let read = read_all(source.as_mut());
        for (read, time) in read.iter().zip(10..) {
            assert_eq!(read.as_message(), message(time));
            assert_eq!(source.topics()[read.topic].name, topics()[time as usize % 3].name);
        }
        assert_eq!(read.len(), 9);
        let full = &source.topics()[0];
        assert_eq!(full.schema, b"string data");
        assert_eq!(full.metadata["topic_type_hash"], "RIHS01_x");
        let qos = |text: &str| QosProfile::parse_list(text).unwrap();
        assert_eq!(qos(&full.metadata["offered_qos_profiles"])[0].depth, 5);
        let bundled = &source.topics()[1];
        assert_eq!(bundled.schema, b"int64 data\n");
        assert!(bundled.metadata.is_empty(), "{bundled:?}");
        assert!(source.topics()[2].schema.is_empty());
    }
}

#[test]
fn the_database_is_the_one_that_rosbag2_makes() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run");
    let options = Sqlite3Options { preset: Sqlite3Preset::Resilient, ..Sqlite3Options::default() };
    write_bag(&bag, options);
    let database = Connection::open(bag.join("run_0.db3")).unwrap();
    let text = |sql: &str| database.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(text("SELECT CAST(schema_version AS TEXT) FROM schema"), "4");
    assert_eq!(text("PRAGMA journal_mode"), "wal");
    assert_eq!(text("PRAGMA integrity_check"), "ok");
    assert_eq!(
        text("SELECT group_concat(name) FROM sqlite_master WHERE sql NOT NULL"),
        "schema,metadata,topics,message_definitions,messages,timestamp_idx"
    );
    assert_eq!(text("SELECT offered_qos_profiles FROM topics WHERE name = '/unknown'"), "[]");
    assert_eq!(
        text("SELECT count(*) || '' FROM message_definitions WHERE topic_type LIKE 'acme%'"),
        "0",
        "readers refuse encodings that they do not know"
    );
    let yaml = text("SELECT metadata FROM metadata ORDER BY id DESC LIMIT 1");
    let metadata = BagMetadata::parse_mcap_record(&yaml).unwrap();
    assert_eq!((metadata.message_count, &*metadata.storage_identifier), (9, "sqlite3"));
}

#[test]
fn further_pragmas_win_and_wrong_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let create = |name: &str, pragma: &str| {
        let pragmas = vec![pragma.to_owned()];
        let options = Sqlite3Options { pragmas, ..Sqlite3Options::default() };
        Sqlite3Writer::create(&folder.path().join(name), options)
    };
    let mut writer = create("a.db3", "page_size = 8192").unwrap();
    let before = writer.file_bytes().unwrap();
    assert!(before > 0 && before % 8192 == 0, "{before}");
    assert!(create("b.db3", "journal_mode = ;").is_err());
    let error = create("a.db3", "synchronous = OFF").err().unwrap();
    assert!(matches!(error, ConvertError::Io { action: "create", .. }), "{error}");
}

#[test]
fn committed_messages_are_there_for_others_and_twins_are_one_topic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run_0.db3");
    let mut writer = Sqlite3Writer::create(&path, Sqlite3Options::default()).unwrap();
    let mut twin = topic("/a");
    twin.metadata.insert("offered_qos_profiles".into(), QOS.into());
    let (a, twin) = (writer.add_topic(&topic("/a")).unwrap(), writer.add_topic(&twin).unwrap());
    writer.write(a, &message(1)).unwrap();
    writer.write(twin, &message(2)).unwrap();
    writer.commit().unwrap();
    writer.commit().unwrap();
    let mut source = open_foreign(&path).unwrap();
    assert_eq!(read_all(source.as_mut()).len(), 2);
    assert_eq!(source.topics().len(), 1);
    assert!(source.topics()[0].metadata["offered_qos_profiles"].contains("depth"));
    let summary = writer.finish().unwrap();
    assert_eq!(summary.metadata.topics.len(), 1);
    assert_eq!(summary.metadata.topics[0].message_count, 2);
}

#[test]
fn a_conversion_says_what_has_no_place() {
    let folder = tempfile::tempdir().unwrap();
    let messages: Vec<_> = (10..2000).map(|time| ((time % 2) as usize, time)).collect();
    let mcap = mcap_bytes(mcap::WriteOptions::new(), &messages);
    let mcap = write_file(folder.path(), "a.mcap", &mcap);
    let bag = folder.path().join("bag");
    let mut source = open_any(&mcap).unwrap();
    let (copied, summary) =
        to_sqlite3(source.as_mut(), &bag, Sqlite3Options::default(), &mut |_| {}).unwrap();
    assert_eq!((copied.messages, summary.metadata.message_count), (1990, 1990));
    assert!(copied.warnings.iter().any(|w| w.contains("publish times")), "{:?}", copied.warnings);
    let mut before = open_any(&mcap).unwrap();
    let mut after = open_any(&bag).unwrap();
    assert_eq!(names_and_times(before.as_mut()), names_and_times(after.as_mut()));
    let error = to_sqlite3(before.as_mut(), &bag, Sqlite3Options::default(), &mut |_| {});
    assert!(matches!(error, Err(ConvertError::Io { .. })));
}

#[test]
fn times_that_one_side_cannot_hold_are_refused_or_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag_0.db3");
    let mut writer = Sqlite3Writer::create(&path, Sqlite3Options::default()).unwrap();
    let at = writer.add_topic(&topic("/t")).unwrap();
    writer.write(at, &message(0)).unwrap();
    let refused = writer.write(at, &message(1 << 63)).unwrap_err();
    assert!(refused.to_string().contains("2262"), "{refused}");
    writer.write(at, &message(i64::MAX as u64)).unwrap();
    writer.finish().unwrap();
    let database = Connection::open(&path).unwrap();
    database.execute("UPDATE messages SET timestamp = -5 WHERE timestamp = 0", ()).unwrap();
    drop(database);
    let mut source = open_foreign(&path).unwrap();
    for time in [0, i64::MAX as u64] {
        assert_eq!(source.next_message().unwrap().unwrap().log_time_nanos, time);
    }
    assert!(source.warnings().iter().any(|said| said.contains("1970")), "{:?}", source.warnings());
}

/// A type without fields has an empty definition, which is not the lack of one.
#[test]
fn a_type_without_fields_keeps_its_definition() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag_0.db3");
    let mut writer = Sqlite3Writer::create(&path, Sqlite3Options::default()).unwrap();
    let empty = Topic {
        type_name: "acme_msgs/msg/Nothing".into(),
        schema: Vec::new(),
        schema_encoding: "ros2msg".into(),
        ..topic("/t")
    };
    writer.add_topic(&empty).unwrap();
    writer.finish().unwrap();
    let source = open_foreign(&path).unwrap();
    assert_eq!(source.topics()[0].schema_encoding, "ros2msg");
    assert!(source.warnings().is_empty(), "{:?}", source.warnings());
}
