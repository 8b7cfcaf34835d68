//! Answers and virtual files, read by the `mcap` crate while the recording grows.

mod follow;

use std::path::PathBuf;
use std::time::Duration;

use livebag::{
    Buffer, ChunkCompression, Compression, Container, McapAnswer, Message, Overflow, Query,
    Recorder, RecorderOptions, Span, SplitRules, Topic, TopicWriter, VirtualFile, VirtualFileError,
};
use proptest::prelude::*;

/// What is in a recording: topic, log time, data.
type Known = Vec<(String, u64, Vec<u8>)>;

struct Fixture {
    _folder: tempfile::TempDir,
    path: PathBuf,
    recorder: Recorder,
    writers: Vec<TopicWriter>,
    names: Vec<String>,
    known: Known,
}

fn topic(name: &str) -> Topic {
    Topic {
        name: name.into(),
        type_name: "std_msgs/msg/String".into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        ..Default::default()
    }
}

impl Fixture {
    fn new(options: RecorderOptions, names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        let options = RecorderOptions { overflow: Overflow::Block, ..options };
        let recorder = Recorder::create(&path, options).unwrap();
        let writers = names.iter().map(|name| recorder.topic(topic(name)).unwrap()).collect();
        let names = names.iter().map(|&name| name.to_owned()).collect();
        Self { _folder: folder, path, recorder, writers, names, known: Vec::new() }
    }

    /// Log times are the writing's number in microseconds.
    fn write(&mut self, at: usize, bytes: usize) {
        let log_time_nanos = 1_000_000 + self.known.len() as u64 * 1000;
        let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + self.known.len()) as u8).collect();
        let message = Message { log_time_nanos, publish_time_nanos: 5, sequence: 1, data: &data };
        self.writers[at].write_message(&message).unwrap();
        self.known.push((self.names[at].clone(), log_time_nanos, data));
    }

    /// Waits until everything written can be read, and opens it.
    fn container(&self) -> Container {
        let count = |container: &Container| -> u64 {
            container.topics().iter().map(|topic| topic.message_count().unwrap()).sum()
        };
        loop {
            match Container::open(&self.path) {
                Ok(container) if count(&container) == self.known.len() as u64 => return container,
                _ => std::thread::yield_now(),
            }
        }
    }
}

/// Every message of an MCAP file, read in both ways.
fn contents(file: &[u8]) -> Known {
    let streamed = mcap::MessageStream::new(file).unwrap().map(|message| {
        let message = message.unwrap();
        (message.channel.topic.clone(), message.log_time, message.data.to_vec())
    });
    let mut streamed: Known = streamed.collect();
    let indexed = indexed(file);
    // Chunks hold their topic's messages in order; between topics the file may go back.
    streamed.sort_by_key(|(_, time, _)| *time);
    assert_eq!(streamed.len(), indexed.len());
    assert!(streamed == indexed, "stream and index tell the same");
    streamed
}

fn indexed(file: &[u8]) -> Known {
    let Some(summary) = mcap::Summary::read(file).unwrap() else { return Vec::new() };
    let mut indexed = Known::new();
    for chunk in &summary.chunk_indexes {
        let offsets = summary.read_message_indexes(file, chunk).unwrap();
        for (channel, entries) in offsets {
            for entry in entries {
                let message = summary.seek_message(file, chunk, &entry).unwrap();
                assert_eq!(message.channel.id, channel.id);
                assert_eq!(message.log_time, entry.log_time);
                indexed.push((channel.topic.clone(), message.log_time, message.data.to_vec()));
            }
        }
    }
    indexed.sort_by_key(|(_, time, _)| *time);
    let counted = summary.stats.unwrap().message_count;
    assert_eq!(counted, indexed.len() as u64);
    indexed
}

fn whole(file: &VirtualFile) -> Vec<u8> {
    let mut out = Buffer::default();
    file.read(0, file.len() as usize, &mut out).unwrap();
    assert_eq!(out.len() as u64, file.len());
    out.to_vec()
}

fn answer(container: &Container, query: &Query) -> Vec<u8> {
    let mut cursor = container.query(query).unwrap();
    let mut buffer = Buffer::default();
    let mut file = Vec::new();
    let mut answer = McapAnswer::new(container, &mut buffer);
    while answer.chunk(&mut cursor, &mut buffer).unwrap() {
        file.extend_from_slice(&buffer);
        buffer.clear();
    }
    answer.finish(&mut buffer);
    file.extend_from_slice(&buffer);
    file
}

#[test]
fn an_answer_is_a_whole_file_in_order_of_time() {
    let mut fixture = Fixture::new(RecorderOptions::default(), &["/a", "/b", "/c"]);
    for round in 0..300 {
        fixture.write(round % 2, 10 + round);
        if round % 20 == 0 {
            fixture.write(2, 200_000);
        }
    }
    let container = fixture.container();
    let file = answer(&container, &Query::default());
    let in_file: Known = mcap::MessageStream::new(&file)
        .unwrap()
        .map(|message| message.unwrap())
        .map(|message| (message.channel.topic.clone(), message.log_time, message.data.to_vec()))
        .collect();
    assert!(in_file == fixture.known, "the file's own order is that of time");
    assert!(contents(&file) == fixture.known);

    let (from, to) = (1_050_000, 1_100_000);
    let part = Query { topics: vec!["/b".into()], span: Span::History(from, to) };
    let wanted =
        |(name, time, _): &&(String, u64, Vec<u8>)| name == "/b" && (from..=to).contains(time);
    let expected: Known = fixture.known.iter().filter(wanted).cloned().collect();
    assert!(contents(&answer(&container, &part)) == expected);
    let nothing = Query { topics: vec!["/b".into()], span: Span::History(1, 2) };
    assert!(contents(&answer(&container, &nothing)).is_empty());
}

#[test]
fn newest_first_is_the_same_backward() {
    let rules = SplitRules { bytes_max: Some(100_000), ..Default::default() };
    let mut options = RecorderOptions { split: rules, ..Default::default() };
    options.compression.compression = Compression::Lz4;
    let mut fixture = Fixture::new(options, &["/a", "/b"]);
    for round in 0..2000 {
        fixture.write(round % 3 / 2, 50 + round % 300);
    }
    let container = fixture.container();
    let mut messages = container.newest_first(&Query::default()).unwrap();
    let mut buffer = Buffer::default();
    let mut read = Known::new();
    while let Some((topic, entry)) = messages.next_entry().unwrap() {
        buffer.clear();
        assert!(messages.append_to(&mut buffer).unwrap());
        let name = container.topics()[topic].topic().name.clone();
        read.push((name, entry.log_time_nanos, buffer.to_vec()));
    }
    read.reverse();
    assert!(read == fixture.known);
    assert_eq!(messages.damaged(), 0);
}

#[test]
fn what_a_virtual_file_has_told_stays_true_while_it_grows() {
    let mut fixture = Fixture::new(RecorderOptions::default(), &["/a", "/b"]);
    let mut file: Option<VirtualFile> = None;
    let mut told: Vec<(Vec<u8>, Known)> = Vec::new();
    for round in 0..6usize {
        for message in 0..40 {
            fixture.write(message % 2, if message % 7 == 0 { 90_000 } else { 100 + message });
        }
        if round == 3 {
            fixture.names.push("/late".into());
            fixture.writers.push(fixture.recorder.topic(topic("/late")).unwrap());
            fixture.write(2, 33);
        }
        let container = fixture.container();
        match &mut file {
            None => file = Some(VirtualFile::new(&container, &Query::default()).unwrap()),
            Some(file) => assert!(file.grow(&container).unwrap()),
        }
        let file = file.as_mut().unwrap();
        assert!(!file.grow(&container).unwrap(), "nothing new, nothing changed");
        let bytes = whole(file);
        assert!(contents(&bytes) == fixture.known, "after round {round}");
        for (old, known) in &told {
            // As a reader sees it that has learnt the length earlier.
            assert!(indexed(&bytes[..old.len()]) == *known);
            let changed = old.iter().zip(&bytes).filter(|(a, b)| a != b).count();
            assert!(changed <= 8 * round, "only jumps change, {changed} bytes did");
        }
        told.push((bytes, fixture.known.clone()));
    }
    let Fixture { recorder, path, _folder, known, .. } = fixture;
    recorder.finish().unwrap();
    let closed = Container::open(&path).unwrap();
    let mut file = file.unwrap();
    assert!(!file.grow(&closed).unwrap());
    assert!(contents(&whole(&file)) == known);
    let anew = whole(&VirtualFile::new(&closed, &Query::default()).unwrap());
    assert!(contents(&anew) == known);
    let again = whole(&VirtualFile::new(&closed, &Query::default()).unwrap());
    assert!(anew == again, "a finished recording has one file");
}

#[test]
fn retention_takes_parts_of_a_virtual_file_away() {
    let mut fixture = Fixture::new(RecorderOptions::default(), &["/a"]);
    fixture.write(0, 1000);
    let first = fixture.container();
    let mut file = VirtualFile::new(&first, &Query::default()).unwrap();
    // The same name, another container: none of the files of the first is there any more.
    let other = Fixture::new(RecorderOptions::default(), &["/a"]);
    assert!(!file.grow(&other.container()).unwrap());
    let mut out = Buffer::default();
    let refused = file.read(0, file.len() as usize, &mut out);
    assert!(matches!(refused, Err(VirtualFileError::Gone)));
    let latest = Query { span: Span::Latest(Duration::from_secs(1)), ..Default::default() };
    assert!(matches!(VirtualFile::new(&first, &latest), Err(VirtualFileError::Latest)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Any range is that part of the whole, in whatever pieces it is read; compressed or not.
    #[test]
    fn any_range_is_part_of_the_whole(
        sizes in proptest::collection::vec((0usize..3, 0usize..2000, 0u8..20), 1..200),
        cuts in proptest::collection::vec((any::<u32>(), 1usize..100_000), 1..20),
        compressed: bool,
    ) {
        let mut options = RecorderOptions::default();
        if compressed {
            options.compression = ChunkCompression { compression: Compression::Zstd, ..options.compression };
        }
        let mut fixture = Fixture::new(options, &["/a", "/b", "/c"]);
        for (at, bytes, large) in sizes {
            fixture.write(at, if large == 0 { bytes + 70_000 } else { bytes });
        }
        let container = fixture.container();
        let file = VirtualFile::new(&container, &Query::default()).unwrap();
        let bytes = whole(&file);
        prop_assert!(contents(&bytes) == fixture.known);
        for (start, count) in cuts {
            let start = u64::from(start) % (file.len() + 1);
            let mut out = Buffer::default();
            file.read(start, count, &mut out).unwrap();
            let end = bytes.len().min(start as usize + count);
            prop_assert!(*out == bytes[start as usize..end]);
        }
        prop_assert!(contents(&answer(&container, &Query::default())) == fixture.known);
    }
}
