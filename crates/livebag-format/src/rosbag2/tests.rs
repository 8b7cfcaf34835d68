use super::*;

/// As Jazzy writes it.
const JAZZY: &str = "\
rosbag2_bagfile_information:
  version: 9
  storage_identifier: mcap
  duration:
    nanoseconds: 2500000000
  starting_time:
    nanoseconds_since_epoch: 1700000000000000000
  message_count: 5
  topics_with_message_count:
    - topic_metadata:
        name: /chatter
        type: std_msgs/msg/String
        serialization_format: cdr
        offered_qos_profiles:
          - history: unknown
            depth: 0
            reliability: reliable
            durability: volatile
            deadline:
              sec: 9223372036
              nsec: 854775807
            lifespan:
              sec: 9223372036
              nsec: 854775807
            liveliness: automatic
            liveliness_lease_duration:
              sec: 9223372036
              nsec: 854775807
            avoid_ros_namespace_conventions: false
        type_description_hash: RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18
      message_count: 5
  compression_format: \"\"
  compression_mode: \"\"
  relative_file_paths:
    - bag_0.mcap
  files:
    - path: bag_0.mcap
      starting_time:
        nanoseconds_since_epoch: 1700000000000000000
      duration:
        nanoseconds: 2500000000
      message_count: 5
  custom_data:
    run: 7
    empty: ~
  ros_distro: jazzy
";

/// As Foxy wrote it: paths begin with the directory, no QoS.
const VERSION_2: &str = "\
rosbag2_bagfile_information:
  version: 2
  storage_identifier: sqlite3
  relative_file_paths:
    - run/run_0.db3
  duration:
    nanoseconds: 10
  starting_time:
    nanoseconds_since_epoch: 20
  message_count: 1
  topics_with_message_count:
    - topic_metadata:
        name: /t
        type: std_msgs/msg/String
        serialization_format: cdr
      message_count: 1
";

fn reread(metadata: &BagMetadata, version: MetadataVersion) -> BagMetadata {
    BagMetadata::parse(&metadata.to_yaml(version)).unwrap()
}

#[test]
fn jazzy_is_read_and_written_back() {
    let metadata = BagMetadata::parse(JAZZY).unwrap();
    assert_eq!(metadata.starting_time_nanos, 1_700_000_000_000_000_000);
    assert_eq!(metadata.duration_nanos, 2_500_000_000);
    assert_eq!(metadata.files[0].message_count, 5);
    assert_eq!(metadata.custom_data["run"], "7");
    assert_eq!(metadata.custom_data["empty"], "");
    let profiles = metadata.topics[0].qos_profiles().unwrap();
    assert_eq!(profiles[0].reliability, Policy::Name("reliable".into()));
    assert_eq!(profiles[0].deadline.sec, 9_223_372_036);
    assert_eq!(reread(&metadata, MetadataVersion::Jazzy), metadata);
}

#[test]
fn older_versions_get_numbers_and_lose_only_what_they_have_no_key_for() {
    let metadata = BagMetadata::parse(JAZZY).unwrap();
    let iron = reread(&metadata, MetadataVersion::Iron);
    assert_eq!(iron.topics[0].type_description_hash, metadata.topics[0].type_description_hash);
    assert_eq!(iron.ros_distro, "");
    let humble = reread(&metadata, MetadataVersion::Humble);
    let profile = &humble.topics[0].qos_profiles().unwrap()[0];
    assert_eq!(
        (&profile.history, &profile.reliability, &profile.durability, &profile.liveliness),
        (&Policy::Number(3), &Policy::Number(1), &Policy::Number(2), &Policy::Number(1))
    );
    assert_eq!(humble.files, metadata.files);
    assert_eq!(humble.topics[0].type_description_hash, "");
    let again = reread(&humble, MetadataVersion::Jazzy);
    assert_eq!(again.topics[0].qos_profiles().unwrap(), metadata.topics[0].qos_profiles().unwrap());
}

#[test]
fn text_of_older_versions_is_kept_to_the_byte() {
    let qos = "- history: 3\n  depth: 0\n  reliability: 1\n  durability:   2\n  deadline:\n    sec: \
               0\n    nsec: 0\n  lifespan:\n    sec: 0\n    nsec: 0\n  liveliness: 1\n  \
               liveliness_lease_duration:\n    sec: 0\n    nsec: 0\n  \
               avoid_ros_namespace_conventions: false";
    let topic = TopicEntry { offered_qos_profiles: qos.into(), ..Default::default() };
    let odd = TopicEntry { offered_qos_profiles: "not: qos\n\n".into(), ..Default::default() };
    let metadata = BagMetadata { topics: vec![topic, odd], ..Default::default() };
    let back = reread(&metadata, MetadataVersion::Humble);
    assert_eq!(back.topics, metadata.topics);
    let jazzy = reread(&metadata, MetadataVersion::Jazzy);
    assert_eq!(
        jazzy.topics[0].qos_profiles().unwrap()[0].durability,
        Policy::Name("volatile".into())
    );
    assert_eq!(jazzy.topics[1].offered_qos_profiles, "");
}

#[test]
fn the_first_versions_are_read() {
    let metadata = BagMetadata::parse(VERSION_2).unwrap();
    assert_eq!(metadata.relative_file_paths, ["run_0.db3"]);
    assert_eq!(metadata.topics[0].offered_qos_profiles, "");
}

#[test]
fn strings_that_look_like_yaml_come_back() {
    for odd in ["", "~", "null", "yes", "1e3", "- a", "a: b", "#c", "'", "\"", "é\n\tx ", "{", "|"]
    {
        let metadata = BagMetadata {
            version: 9,
            ros_distro: odd.into(),
            custom_data: [(format!("k{odd}"), odd.into())].into(),
            topics: vec![TopicEntry { name: odd.into(), ..Default::default() }],
            ..Default::default()
        };
        assert_eq!(reread(&metadata, MetadataVersion::Jazzy), metadata, "{odd:?}");
    }
}

#[test]
fn an_mcap_record_has_no_root_key() {
    let metadata = BagMetadata::parse(JAZZY).unwrap();
    let record = metadata.to_mcap_record(MetadataVersion::Jazzy);
    assert!(record.starts_with("version: 9\n"), "{record}");
    assert_eq!(BagMetadata::parse_mcap_record(&record).unwrap(), metadata);
}

#[test]
fn foreign_yaml_and_escaping_paths_are_refused() {
    for text in ["", "a: 1", "[", "rosbag2_bagfile_information: 3", "\u{0}"] {
        assert!(matches!(BagMetadata::parse(text), Err(MetadataError::Yaml { .. })), "{text:?}");
    }
    let old = JAZZY.replace("version: 9", "version: 0");
    assert!(matches!(BagMetadata::parse(&old), Err(MetadataError::Version { found: 0 })));
    for path in ["/etc/passwd", "../other.mcap", "a/../../b.mcap"] {
        let text = JAZZY.replace("    - bag_0.mcap", &format!("    - {path}"));
        assert!(
            matches!(BagMetadata::parse(&text), Err(MetadataError::PathOutside { .. })),
            "{path}"
        );
    }
}

#[test]
fn policies_change_style_both_ways() {
    let names = BagMetadata::parse(JAZZY).unwrap().topics[0].qos_profiles().unwrap();
    let numbers = QosProfile::write_list(&names, QosStyle::Numbers);
    assert!(numbers.contains("reliability: 1"), "{numbers}");
    let back = QosProfile::parse_list(&numbers).unwrap();
    assert_eq!(back[0].styled(QosStyle::Names), names[0]);
}

/// What each version added, as rosbag2's `metadata_io` history has it.
fn of_version(version: u32) -> String {
    let from =
        |since: u32, text: &str| if version >= since { text.to_owned() } else { String::new() };
    let folder = if version < 4 { "run/" } else { "" };
    let qos = match version {
        0..4 => "",
        4..9 => {
            "        offered_qos_profiles: \"- history: 1\\n  depth: 7\\n  reliability: 1\\n  durability: \
             1\\n  deadline: {sec: 0, nsec: 0}\\n  lifespan: {sec: 0, nsec: 0}\\n  liveliness: 1\\n  \
             liveliness_lease_duration: {sec: 0, nsec: 0}\\n  avoid_ros_namespace_conventions: \
             false\"\n"
        }
        _ => {
            "        offered_qos_profiles: [{history: keep_last, depth: 7, reliability: reliable, \
             durability: transient_local, deadline: {sec: 0, nsec: 0}, lifespan: {sec: 0, nsec: 0}, \
             liveliness: automatic, liveliness_lease_duration: {sec: 0, nsec: 0}, \
             avoid_ros_namespace_conventions: false}]\n"
        }
    };
    [
        format!("rosbag2_bagfile_information:\n  version: {version}\n  storage_identifier: sqlite3\n"),
        format!("  relative_file_paths: [{folder}run_0.db3.zstd, {folder}run_1.db3.zstd]\n"),
        "  duration: {nanoseconds: 10}\n  starting_time: {nanoseconds_since_epoch: 20}\n".into(),
        "  message_count: 3\n  topics_with_message_count:\n    - topic_metadata:\n".into(),
        "        name: /t\n        type: a/msg/B\n        serialization_format: cdr\n".into(),
        qos.to_owned(),
        from(7, "        type_description_hash: RIHS01_00\n"),
        "      message_count: 3\n".into(),
        from(3, "  compression_format: zstd\n  compression_mode: FILE\n"),
        from(5, "  files:\n    - path: run_0.db3.zstd\n      starting_time: {nanoseconds_since_epoch: 20}\n      \
                 duration: {nanoseconds: 4}\n      message_count: 3\n"),
        from(6, "  custom_data: {run: \"7\"}\n"),
        from(8, "  ros_distro: jazzy\n"),
    ]
    .concat()
}

#[test]
fn every_version_says_what_it_has_keys_for() {
    for version in 1..=9 {
        let metadata = BagMetadata::parse(&of_version(version)).unwrap();
        assert_eq!(metadata.version, version);
        assert_eq!(metadata.relative_file_paths, ["run_0.db3.zstd", "run_1.db3.zstd"]);
        assert_eq!((metadata.message_count, metadata.topics[0].message_count), (3, 3));
        assert_eq!(metadata.compression_mode, if version < 3 { "" } else { "FILE" });
        let profiles = metadata.topics[0].qos_profiles().unwrap();
        let numbered: Vec<_> =
            profiles.iter().map(|profile| profile.styled(QosStyle::Numbers)).collect();
        assert_eq!(numbered.len(), usize::from(version >= 4));
        assert!(numbered.iter().all(|qos| qos.depth == 7 && qos.durability == Policy::Number(1)));
        assert_eq!(metadata.files.len(), usize::from(version >= 5));
        assert_eq!(metadata.custom_data.len(), usize::from(version >= 6));
        assert_eq!(!metadata.topics[0].type_description_hash.is_empty(), version >= 7);
        assert_eq!(metadata.ros_distro, if version < 8 { "" } else { "jazzy" });
    }
}

#[test]
fn overrides_are_read_as_rosbag2_has_them() {
    let yaml = "/scan:\n  reliability: BEST_EFFORT\n  history: keep_all\n  \
        deadline:\n    sec: 1\n    nsec: 5\n/map:\n  durability: 1\n  depth: 1\n";
    let overrides = QosProfile::parse_overrides(yaml).unwrap();
    let name = |name: &str| Policy::Name(name.to_owned());
    let scan = &overrides["/scan"];
    assert_eq!((&scan.reliability, &scan.history), (&name("best_effort"), &name("keep_all")));
    assert_eq!((scan.deadline, scan.depth), (QosDuration { sec: 1, nsec: 5 }, 10));
    let map = QosProfile { durability: name("transient_local"), depth: 1, ..Default::default() };
    assert_eq!(overrides["/map"], map);
    for empty in ["", "# nothing\n", "{}"] {
        assert!(QosProfile::parse_overrides(empty).unwrap().is_empty(), "{empty}");
    }
}

#[test]
fn profiles_keep_their_text_unless_their_style_changes() {
    let metadata = BagMetadata::parse(&of_version(8)).unwrap();
    let text = &metadata.topics[0].offered_qos_profiles;
    assert_eq!(&QosProfile::restyled(text, QosStyle::Numbers), text);
    let named = QosProfile::restyled(text, QosStyle::Names);
    assert!(named.contains("durability: transient_local"), "{named}");
    assert_eq!(QosProfile::restyled("no list", QosStyle::Names), "no list");
    assert_eq!(QosProfile::restyled("", QosStyle::Names), "");
}

#[test]
fn overrides_that_are_none_are_named() {
    let wrong = [
        ("/scan:\n  reliability: perhaps\n", "/scan: reliability is perhaps, expected system"),
        ("/scan:\n  durability: 17\n", "durability is 17, expected"),
        ("/scan:\n  colour: red\n", "colour"),
        ("/scan:\n  depth: -1\n", "depth"),
        ("/scan: reliable\n", "topics with QoS policies"),
        ("- /scan\n", "topics with QoS policies"),
        ("{", "topics with QoS policies"),
    ];
    for (yaml, words) in wrong {
        let error = QosProfile::parse_overrides(yaml).unwrap_err().to_string();
        assert!(error.contains(words), "{yaml}: {error}");
    }
}
