//! Round trips: whatever goes into a container and out again is the same.

use std::path::{Path, PathBuf};

use livebag_format::Message;

use super::super::*;

/// Everything of a recording that must survive.
type Everything = (Vec<Topic>, Vec<SourceMessage>, Vec<MetadataRecord>);

fn read_all(path: &Path) -> Everything {
    let mut source = open_any(path).unwrap();
    let mut messages = Vec::new();
    while let Some(message) = source.next_message().unwrap() {
        messages.push(message);
    }
    (source.topics().to_vec(), messages, source.metadata_records().to_vec())
}

/// Messages with their topic's name in place of its number, in an order that does not depend on
/// how equal log times were merged.
fn comparable(all: &Everything) -> Vec<(String, u64, u64, u32, Vec<u8>)> {
    let mut list: Vec<_> = all
        .1
        .iter()
        .map(|m| {
            let sequence = m.sequence as u32;
            let name = all.0[m.topic].name.clone();
            (name, m.log_time_nanos, m.publish_time_nanos, sequence, m.data.clone())
        })
        .collect();
    list.sort();
    list
}

fn there_and_back(recording: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let (container, bag) = (folder.path().join("container"), folder.path().join("bag"));
    let again = folder.path().join("again");
    let before = read_all(recording);
    let mut source = open_any(recording).unwrap();
    let copied = to_container(&mut *source, &container, &mut |_| {}).unwrap();
    assert_eq!(copied.messages as usize, before.1.len());
    let mut source = open_any(&container).unwrap();
    to_mcap(&mut *source, &bag, SinkOptions::default(), &mut |_| {}).unwrap();
    let mut source = open_any(&bag).unwrap();
    to_container(&mut *source, &again, &mut |_| {}).unwrap();
    for path in [&container, &bag, &again] {
        let after = read_all(path);
        assert_eq!(comparable(&after), comparable(&before), "{}", path.display());
        for topic in &before.0 {
            let same = after.0.iter().filter(|t| *t == topic).count();
            assert!(same > 0, "{} differs in {}: {:?}", topic.name, path.display(), after.0);
        }
    }
}

fn shared() -> Option<PathBuf> {
    let given = std::env::var_os("LIVEBAG_SHARED").map(PathBuf::from);
    let path = given.unwrap_or_else(|| {
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../../shared/data")
    });
    path.is_dir().then_some(path)
}

#[test]
fn real_recordings_survive_container_and_bag_if_shared_data_is_there() {
    let Some(shared) = shared() else {
        println!("SKIPPED: ../shared/data is not here");
        return;
    };
    for name in ["do.bag", "outdoor.bag", "rosbag2/mcap/wbag", "rosbag2/mcap/talker"] {
        there_and_back(&shared.join(name));
    }
}

#[test]
fn messages_of_one_instant_are_all_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let options = livebag::RecorderOptions {
        overflow: livebag::Overflow::Block,
        ..livebag::RecorderOptions::default()
    };
    let recorder = livebag::Recorder::create(&first, options).unwrap();
    for name in ["/a", "/b"] {
        let topic = Topic { name: name.into(), message_encoding: "cdr".into(), ..Topic::default() };
        let writer = recorder.topic(topic).unwrap();
        for sequence in 1..=10_000u64 {
            let log_time_nanos = 1_000 + sequence / 6_000;
            let data = &sequence.to_le_bytes()[..];
            let message = Message { log_time_nanos, publish_time_nanos: 7, sequence, data };
            writer.write_message(&message).unwrap();
        }
    }
    recorder.finish().unwrap();
    let mut source = open_any(&first).unwrap();
    to_container(&mut *source, &second, &mut |_| {}).unwrap();
    assert_eq!(read_all(&first), read_all(&second));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads a brick as another program does")]
fn a_topic_without_a_schema_has_none_in_bricks_and_virtual_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let options = livebag::RecorderOptions {
        overflow: livebag::Overflow::Block,
        ..livebag::RecorderOptions::default()
    };
    let recorder = livebag::Recorder::create(&path, options).unwrap();
    let topic = Topic { name: "/raw".into(), message_encoding: "raw".into(), ..Topic::default() };
    let message = Message { log_time_nanos: 1, publish_time_nanos: 1, sequence: 1, data: b"abc" };
    recorder.topic(topic).unwrap().write_message(&message).unwrap();
    recorder.finish().unwrap();
    assert_has_no_schema(&std::fs::read(path.join("raw.mcap")).unwrap());

    let bag = livebag::Container::open(&path).unwrap();
    let file = livebag::VirtualFile::new(&bag, &livebag::Query::default()).unwrap();
    let mut bytes = livebag::Buffer::default();
    while (bytes.len() as u64) < file.len() {
        file.read(bytes.len() as u64, 1 << 20, &mut bytes).unwrap();
    }
    assert_has_no_schema(&bytes);
    assert_eq!(verify(&path, &mut |_| {}).unwrap().damage_count, 0);
}

fn assert_has_no_schema(file: &[u8]) {
    let summary = mcap::Summary::read(file).unwrap().expect("the file has a summary");
    assert!(summary.schemas.is_empty(), "{:?}", summary.schemas);
    assert_eq!(summary.stats.unwrap().schema_count, 0);
    let messages: Vec<_> = mcap::MessageStream::new(file).unwrap().map(Result::unwrap).collect();
    assert_eq!(messages.len(), 1);
    assert!(messages[0].channel.schema.is_none());
}
