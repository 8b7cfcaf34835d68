//! rosbag2 directories, made here and real ones.

use livebag_format::ros1;

use super::*;

fn split_bag(directory: &Path) {
    let options = || mcap::WriteOptions::new().compression(None);
    // The second file begins before the first ends; the tenth comes after the second.
    let files =
        [("bag_0", [(0, 1), (1, 5)]), ("bag_2", [(0, 4), (1, 9)]), ("bag_10", [(0, 9), (0, 12)])];
    for (name, messages) in files {
        write_file(directory, &format!("{name}.mcap"), &mcap_bytes(options(), &messages));
    }
}

#[test]
fn split_files_merge_also_without_metadata() {
    let directory = tempfile::tempdir().unwrap();
    split_bag(directory.path());
    let mut source = open_foreign(directory.path()).unwrap();
    assert!(source.warnings()[0].contains("metadata.yaml"));
    assert_eq!(source.topics().len(), 2);
    assert_eq!(source.message_count(), Some(6));
    let expected = [("/a", 1), ("/a", 4), ("/b", 5), ("/b", 9), ("/a", 9), ("/a", 12)];
    let expected: Vec<_> = expected.map(|(name, time)| (name.to_owned(), time)).into();
    assert_eq!(names_and_times(source.as_mut()), expected);
}

#[test]
fn metadata_fills_in_what_the_files_lack() {
    let directory = tempfile::tempdir().unwrap();
    split_bag(directory.path());
    let entry = |name: &str, type_name: &str| livebag_format::rosbag2::TopicEntry {
        name: name.into(),
        type_name: type_name.into(),
        serialization_format: "cdr".into(),
        offered_qos_profiles: "- depth: 3".into(),
        ..Default::default()
    };
    let metadata = BagMetadata {
        storage_identifier: "mcap".into(),
        message_count: 2,
        topics: vec![entry("/a", "std_msgs/msg/String"), entry("/c", "sensor_msgs/msg/Imu")],
        relative_file_paths: vec!["bag_0.mcap".into(), "bag_1.mcap".into()],
        ..Default::default()
    };
    let yaml = metadata.to_yaml(Default::default());
    write_file(directory.path(), "metadata.yaml", yaml.as_bytes());
    let mut source = open_foreign(directory.path()).unwrap();
    let names: Vec<_> = source.topics().iter().map(|topic| &*topic.name).collect();
    assert_eq!(names, ["/a", "/b", "/c"]);
    assert_eq!(source.topics()[0].metadata["offered_qos_profiles"], "- depth: 3");
    assert_eq!(source.topics()[0].metadata["key"], "value");
    assert!(source.topics()[2].schema.starts_with(b"std_msgs/Header header"));
    assert!(source.warnings()[0].contains("bag_1.mcap is missing"), "{:?}", source.warnings());
    assert_eq!(read_all(source.as_mut()).len(), 2);
}

#[test]
fn compressed_and_unknown_storages_are_refused_with_a_cure() {
    let refusal = |change: fn(&mut BagMetadata)| {
        let directory = tempfile::tempdir().unwrap();
        let mut metadata =
            BagMetadata { relative_file_paths: vec!["b.mcap".into()], ..Default::default() };
        change(&mut metadata);
        let yaml = metadata.to_yaml(Default::default());
        write_file(directory.path(), "metadata.yaml", yaml.as_bytes());
        open_foreign(directory.path()).err().unwrap().to_string()
    };
    let compressed = refusal(|metadata| {
        metadata.compression_mode = "FILE".into();
        metadata.compression_format = "lz4".into();
    });
    assert!(compressed.contains("ros2 bag convert"), "{compressed}");
    let unknown = refusal(|metadata| metadata.storage_identifier = "tape".into());
    assert!(unknown.contains("\"tape\""), "{unknown}");
    let missing = refusal(|_| ());
    assert!(missing.contains("b.mcap"), "{missing}");
}

#[test]
fn both_storages_of_one_recording_read_the_same_if_shared_data_is_there() {
    for name in ["wbag", "talker"] {
        let Some(mcap) = shared_data(&format!("rosbag2/mcap/{name}")) else { return };
        let Some(sqlite) = shared_data(&format!("rosbag2/sqlite3/{name}")) else { return };
        let mut sources = [open_foreign(&mcap).unwrap(), open_foreign(&sqlite).unwrap()];
        let read = sources.each_mut().map(|source| {
            let messages = read_all(source.as_mut());
            let name = |message: &SourceMessage| source.topics()[message.topic].name.clone();
            messages.into_iter().map(|m| (name(&m), m.log_time_nanos, m.data)).collect::<Vec<_>>()
        });
        assert_eq!(read[0].len(), if name == "wbag" { 6074 } else { 20 });
        assert_eq!(read[0], read[1], "{name}");
        for source in sources {
            assert_eq!(source.warnings(), &[] as &[String], "{name}");
        }
    }
}

#[test]
fn real_ros1_frames_parse_if_shared_data_is_there() {
    let (Some(indoor), Some(outdoor)) = (shared_data("do.bag"), shared_data("outdoor.bag")) else {
        return;
    };
    let mut source = open_foreign(&indoor).unwrap();
    let messages = read_all(source.as_mut());
    assert_eq!(messages.len(), 6);
    let images: Vec<_> = messages
        .iter()
        .filter(|message| source.topics()[message.topic].type_name == "sensor_msgs/Image")
        .map(|message| ros1::parse_image(&message.data).unwrap())
        .collect();
    let mut shapes: Vec<_> =
        images.iter().map(|i| (i.header.encoding, i.header.width, i.data.len())).collect();
    shapes.sort_unstable();
    assert_eq!(shapes, [("32FC1", 640, 1_228_800), ("bgr8", 640, 921_600)]);
    let mut source = open_foreign(&outdoor).unwrap();
    let messages = read_all(source.as_mut());
    let cloud = messages
        .iter()
        .find(|message| source.topics()[message.topic].name == "/velodyne_point_cloud")
        .unwrap();
    let points = ros1::parse_points(&cloud.data).unwrap();
    assert_eq!(points.data.len() as u32, points.row_step * points.height);
    assert_eq!(points.fields[0].name, "x");
}
