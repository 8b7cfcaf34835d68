use proptest::prelude::*;

use super::*;

fn manifest(topic: &Topic) -> Manifest {
    Manifest {
        livebag_container: CONTAINER_VERSION,
        library: "livebag test".into(),
        profile: "ros2".into(),
        state: State::Closed,
        started_nanos: 1,
        ended_nanos: 2,
        written_nanos: 0,
        unknown_since_nanos: 0,
        failure: String::new(),
        metadata: Vec::new(),
        attachments: String::new(),
        splits: Vec::new(),
        one_file: false,
        clock_jumps: ClockJumps::default(),
        removed: Removed::default(),
        topics: vec![TopicManifest::new(topic, 1, "t.idx".into(), vec!["t.mcap".into()])],
    }
}

proptest! {
    /// Whatever a schema or a metadata value holds, the YAML gives it back byte for byte.
    #[test]
    fn every_topic_survives_yaml(
        name in "/[a-z_/]{1,20}",
        schema in prop_oneof![
            any::<Vec<u8>>(),
            "[ -~\n\t]{0,200}".prop_map(String::into_bytes),
            "\\PC{0,50}".prop_map(String::into_bytes),
        ],
        value in "(\\PC|\n){0,50}",
    ) {
        let topic = Topic {
            name,
            type_name: "a/msg/B".into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema,
            metadata: [("key".to_string(), value)].into(),
        };
        let text = manifest(&topic).to_yaml().unwrap();
        let back = Manifest::parse(&text).unwrap();
        prop_assert_eq!(&crate::yaml::read::<Manifest>(&text).unwrap(), &back);
        prop_assert_eq!(back.topics[0].topic().unwrap(), topic);
    }
}

#[test]
fn a_manifest_is_yaml_whatever_stands_in_it() {
    let text = "# crc32c: 00000000\n\t\u{0}\u{7}\u{7f}\u{85}\u{2028}\u{feff}\u{1f916} \"'\\/: - {}";
    let topic = Topic { name: "/t".into(), schema: text.into(), ..Topic::default() };
    let whole = Manifest { failure: text.into(), ..manifest(&topic) };
    let written = whole.to_yaml().unwrap();
    assert_eq!(Manifest::parse(&written).unwrap(), whole);
    assert_eq!(crate::yaml::read::<Manifest>(&written).unwrap(), whole);
    // As an older version wrote it, and as a person may write it today.
    let block = serde_saphyr::to_string(&whole).unwrap();
    assert!(block.contains("\ntopics:\n"), "{block}");
    assert_eq!(Manifest::parse(&block).unwrap(), whole);
}

#[test]
fn a_file_name_that_leaves_the_directory_is_refused() {
    let topic = Topic { name: "/t".into(), ..Topic::default() };
    for bad in ["../x", "/etc/passwd", ".hidden", ""] {
        let mut manifest = manifest(&topic);
        manifest.topics[0].bricks = vec![bad.into()];
        let text = manifest.to_yaml().unwrap();
        assert!(Manifest::parse(&text).is_err(), "{bad}");
        if !bad.is_empty() {
            let manifest = Manifest { attachments: bad.into(), topics: Vec::new(), ..manifest };
            assert!(Manifest::parse(&manifest.to_yaml().unwrap()).is_err(), "{bad}");
        }
    }
}

#[test]
fn a_newer_layout_and_garbage_are_refused() {
    assert!(Manifest::parse("{}").is_err());
    assert!(Manifest::parse("\u{0}\u{1}").is_err());
    let mut newer = manifest(&Topic::default());
    newer.livebag_container = 99;
    assert!(matches!(
        Manifest::parse(&newer.to_yaml().unwrap()),
        Err(ManifestError::Version { found: 99 })
    ));
}

#[test]
fn a_changed_manifest_is_known_by_its_checksum() {
    let whole = manifest(&Topic { name: "/t".into(), ..Topic::default() });
    let text = whole.to_yaml().unwrap();
    assert_eq!(Manifest::checksum_fits(text.as_bytes()), Some(true));
    assert_eq!(Manifest::parse(&text).unwrap(), whole);
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        assert_ne!(Manifest::checksum_fits(&bytes), Some(true), "byte {at}");
    }
    for end in 0..text.len() {
        assert_ne!(Manifest::checksum_fits(&text.as_bytes()[..end]), Some(true), "cut at {end}");
    }
}

#[test]
fn a_sync_mark_is_whole_or_not_there() {
    let entries = [("a.idx".to_owned(), 7), ("b c.idx".to_owned(), 0)].into();
    let mark = SyncMark { entries };
    let text = mark.to_text();
    assert_eq!(SyncMark::parse(&text), Some(mark));
    for end in 0..text.len() {
        assert_eq!(SyncMark::parse(&text[..end]), None, "cut at {end}");
    }
    assert_eq!(SyncMark::parse(&text.replace("7 a", "9 a")), None);
}
