//! Recording into SQLite: every published message is recorded or lost there too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{
    Overflow, Recorder, RecorderOptions, Selector, SnapshotRing, SplitRules, TopicRule, TopicRules,
    TopicSettings, TopicStatus, WriteError,
};
use livebag_format::{Message, Topic};
use livebag_shm::{FrameMeta, StreamOptions, Writer};

use crate::{Sqlite3Options, open_any, record_sqlite};

fn topic(name: &str) -> Topic {
    Topic {
        name: name.into(),
        type_name: "std_msgs/msg/String".into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        ..Topic::default()
    }
}

fn recorder_at(path: &Path, database: Sqlite3Options, options: RecorderOptions) -> Recorder {
    record_sqlite(path, options, database).unwrap()
}

/// Sequence numbers from the messages' bytes, by topic in the order of the bag.
fn read_back(path: &Path) -> BTreeMap<String, Vec<u64>> {
    let mut source = open_any(path).unwrap();
    let names: Vec<String> = source.topics().iter().map(|topic| topic.name.clone()).collect();
    let mut read = BTreeMap::new();
    while let Some(message) = source.next_message().unwrap() {
        let number = u64::from_le_bytes(message.data[..8].try_into().unwrap());
        read.entry(names[message.topic].clone()).or_insert_with(Vec::new).push(number);
    }
    read
}

/// Messages of several threads as fast as they go; how many each topic was given.
fn pour(recorder: &Recorder, names: &[&str], count: u64) {
    let writers: Vec<_> = names.iter().map(|name| recorder.topic(topic(name)).unwrap()).collect();
    std::thread::scope(|scope| {
        for (at, writer) in writers.iter().enumerate() {
            scope.spawn(move || {
                for number in 1..=count {
                    let mut data = vec![at as u8; [40, 3000, 70_000][(number % 3) as usize]];
                    data[..8].copy_from_slice(&number.to_le_bytes());
                    let written = writer.write(1, number, &data);
                    assert!(matches!(written, Ok(()) | Err(WriteError::Full { .. })));
                }
            });
        }
    });
}

fn bag() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    (folder, path)
}

/// Over too small a cache, into several files.
#[test]
fn what_sqlite_does_not_keep_up_with_is_counted() {
    const COUNT: u64 = 400;
    let (_folder, path) = bag();
    let options = RecorderOptions {
        cache_bytes_max: 600_000,
        split: SplitRules { bytes_max: Some(2_000_000), duration_max: None },
        ..RecorderOptions::default()
    };
    let recorder = recorder_at(&path, Sqlite3Options::default(), options);
    pour(&recorder, &["/a", "/b", "/c"], COUNT);
    let status = recorder.finish().unwrap();
    let read = read_back(&path);
    for topic in &status.topics {
        assert_eq!(topic.messages + topic.lost.queue, COUNT, "{topic:?}");
        assert_eq!(topic.lost.total(), topic.lost.queue);
        let numbers = &read[&topic.name];
        assert_eq!(numbers.len() as u64, topic.messages);
        assert!(numbers.is_sorted(), "in the order of writing");
    }
}

/// SQLite reports a full disk: committed messages are there, the others are counted, and the bag is closed.
#[test]
fn a_full_database_ends_the_recording() {
    const COUNT: u64 = 300;
    let (_folder, path) = bag();
    let database =
        Sqlite3Options { pragmas: vec!["max_page_count=500".into()], ..Sqlite3Options::default() };
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = recorder_at(&path, database, options);
    pour(&recorder, &["/a", "/b"], COUNT);
    let (status, ended) = recorder.finish_with_status();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the disk is full"), "{error}");
    let read = read_back(&path);
    for topic in &status.topics {
        assert_eq!(topic.messages + topic.lost.disk, COUNT, "{topic:?}");
        let numbers = read.get(&topic.name).map_or(0, Vec::len);
        assert_eq!(numbers as u64, topic.messages);
    }
    assert!(path.join("metadata.yaml").is_file());
}

/// The newest message of a latched topic stands at the head of every file, and is counted apart.
#[test]
fn latched_messages_are_repeated_in_every_file() {
    let (_folder, path) = bag();
    let latched = TopicSettings { latched: true, ..TopicSettings::default() };
    let options = RecorderOptions {
        topics: TopicRules(vec![TopicRule::named("/map", latched)]),
        ..RecorderOptions::default()
    };
    let recorder = recorder_at(&path, Sqlite3Options::default(), options);
    let writer = recorder.topic(topic("/map")).unwrap();
    for number in 1..=2u64 {
        writer.write(1, number, &number.to_le_bytes()).unwrap();
    }
    while recorder.status().totals().0 < 2 {
        std::thread::yield_now();
    }
    for splits in 2..=3 {
        recorder.split().unwrap();
        while recorder.status().splits < splits {
            std::thread::yield_now();
        }
    }
    let status = recorder.finish().unwrap();
    let map = &status.topics[0];
    assert_eq!((map.messages, map.repeated, map.lost.total()), (4, 2, 0));
    assert_eq!(read_back(&path)["/map"], [1, 2, 2, 2]);
}

#[test]
fn a_ring_goes_into_the_database_when_asked_for() {
    let (_folder, path) = bag();
    let options = RecorderOptions {
        cache_bytes_max: 2 << 20,
        snapshot: Some(SnapshotRing::default()),
        ..RecorderOptions::default()
    };
    let recorder = recorder_at(&path, Sqlite3Options::default(), options);
    pour(&recorder, &["/a"], 100);
    assert_eq!(recorder.status().totals().0, 0);
    recorder.snapshot().unwrap();
    while recorder.status().totals().0 == 0 {
        std::thread::yield_now();
    }
    let status = recorder.finish().unwrap();
    assert_eq!(status.totals().2.total(), 0, "what makes way in a ring is not lost");
    let numbers = &read_back(&path)["/a"];
    assert_eq!((numbers.len() as u64, numbers.last()), (status.totals().0, Some(&100)));
}

#[test]
fn a_snapshot_in_a_database_has_nothing_older_than_its_duration() {
    let (_folder, path) = bag();
    let duration_max = Some(std::time::Duration::from_secs(60));
    let options = RecorderOptions {
        snapshot: Some(SnapshotRing { duration_max }),
        ..RecorderOptions::default()
    };
    let recorder = recorder_at(&path, Sqlite3Options::default(), options);
    let writer = recorder.topic(topic("/a")).unwrap();
    let now = livebag::Clock::system().wall_nanos();
    for number in 0..10 {
        let age_nanos = if number < 5 { 3_600_000_000_000 } else { 1_000_000_000 };
        let log_time_nanos = now - age_nanos + number;
        let data = [&[0, 1, 0, 0][..], &number.to_le_bytes(), &[0; 70_000]].concat();
        let message =
            Message { log_time_nanos, publish_time_nanos: now, sequence: number, data: &data };
        writer.write_message(&message).unwrap();
    }
    recorder.snapshot().unwrap();
    let status = recorder.finish().unwrap();
    assert_eq!((status.totals().0, status.topics[0].skipped), (5, 5));
}

/// A writer that comes back, to its region or with another one, is counted as it is in a container.
#[test]
fn writers_that_come_back_are_counted() {
    let (_folder, path) = bag();
    let name = format!("sqlite-back-{}", std::process::id());
    let small = StreamOptions::bytes(10);
    let mut writer = Writer::create(&name, &small).unwrap();
    let recorder = recorder_at(&path, Sqlite3Options::default(), RecorderOptions::default());
    recorder.follow(Selector::names([&name])).unwrap();
    let until = |messages: u64, returns: u64| {
        let is_so =
            |topic: &TopicStatus| (topic.messages, topic.writer_returns) == (messages, returns);
        for _ in 0..60_000 {
            if recorder.status().topics.first().is_some_and(is_so) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("{messages} messages, {returns} returns: {:?}", recorder.status().topics);
    };
    // Streams that are there at the start are recorded from now on.
    until(0, 0);
    writer.publish(&FrameMeta::bytes(), &[1; 10]).unwrap();
    until(1, 0);
    drop(writer);
    writer = Writer::create(&name, &small).unwrap();
    writer.publish(&FrameMeta::bytes(), &[2; 10]).unwrap();
    until(2, 1);
    drop(writer);
    let large = StreamOptions::bytes(1000).remove_on_drop(true);
    writer = Writer::create(&name, &large).unwrap();
    writer.publish(&FrameMeta::bytes(), &[3; 1000]).unwrap();
    until(3, 2);
    drop(writer);
    assert_eq!(recorder.finish().unwrap().topics[0].writer_returns, 2);
}
