//! Answers and virtual files, read by the `mcap` crate while the recording grows.

#![expect(clippy::disallowed_methods, reason = "real files are damaged")]

mod follow;

use std::path::PathBuf;
use std::time::Duration;

use livebag::{
    Buffer, ChunkCompression, Compression, Container, McapAnswer, Message, Overflow, Query,
    Recorder, RecorderOptions, Span, SplitRules, Topic, TopicWriter, VirtualFile, VirtualFileError,
};
use proptest::prelude::*;

/// The contents of a recording: topic, log time, data.
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
    // The same name, another container: the files of the first are gone.
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

/// Attachments and metadata records of an MCAP file, by its summary.
fn carried(file: &[u8]) -> (Vec<(String, Vec<u8>)>, Vec<String>) {
    let summary = mcap::Summary::read(file).unwrap().unwrap();
    let stats = summary.stats.as_ref().unwrap();
    let counted = (stats.attachment_count as usize, stats.metadata_count as usize);
    assert_eq!(counted, (summary.attachment_indexes.len(), summary.metadata_indexes.len()));
    let attachments = summary.attachment_indexes.iter().map(|index| {
        let attachment = mcap::read::attachment(file, index).unwrap();
        assert_eq!(
            (index.log_time, index.create_time, &index.name, &index.media_type),
            (attachment.log_time, attachment.create_time, &attachment.name, &attachment.media_type)
        );
        assert_eq!(index.data_size, attachment.data.len() as u64);
        (attachment.name, attachment.data.into_owned())
    });
    let metadata = summary
        .metadata_indexes
        .iter()
        .map(|index| mcap::read::metadata(file, index).unwrap().name);
    (attachments.collect(), metadata.collect())
}

/// Names of the events in an MCAP file, by its index.
fn event_names(file: &[u8]) -> Vec<String> {
    let summary = mcap::Summary::read(file).unwrap().unwrap();
    let records = summary.metadata_indexes.iter();
    let records = records.map(|index| mcap::read::metadata(file, index).unwrap());
    let events = records.filter(|record| record.name == "livebag.event");
    events.map(|record| record.metadata["name"].clone()).collect()
}

#[test]
fn a_virtual_file_has_the_events_also_those_that_come_afterwards() {
    let mut fixture = Fixture::new(RecorderOptions::default(), &["/a"]);
    fixture.write(0, 70_000);
    let mut file = VirtualFile::new(&fixture.container(), &Query::default()).unwrap();
    assert_eq!(event_names(&whole(&file)), [""; 0]);
    fixture.recorder.event("while recording", "words", None).unwrap();
    assert!(file.grow(&fixture.container()).unwrap());
    assert!(!file.grow(&fixture.container()).unwrap(), "nothing new, nothing changed");
    fixture.write(0, 100);
    assert!(file.grow(&fixture.container()).unwrap());
    let bytes = whole(&file);
    assert_eq!(event_names(&bytes), ["while recording"]);
    assert!(contents(&bytes) == fixture.known);

    let Fixture { recorder, path, _folder, known, .. } = fixture;
    recorder.finish().unwrap();
    let open = || Container::open(&path).unwrap();
    let mut file = VirtualFile::new(&open(), &Query::default()).unwrap();
    let before = whole(&file);
    let chunks = |file: &[u8]| {
        let indexes = mcap::Summary::read(file).unwrap().unwrap().chunk_indexes;
        indexes.iter().map(|chunk| chunk.chunk_start_offset).collect::<Vec<_>>()
    };
    for name in ["afterwards", "once more", "once more"] {
        let event = livebag::Event { name: name.into(), from_nanos: 1, ..Default::default() };
        livebag::add_event(&path, &livebag::Event { to_nanos: 2, ..event }).unwrap();
    }
    assert!(file.grow(&open()).unwrap());
    let grown = whole(&file);
    let anew = whole(&VirtualFile::new(&open(), &Query::default()).unwrap());
    for bytes in [&grown, &anew] {
        let mut names = event_names(bytes);
        names.sort();
        assert_eq!(names, ["afterwards", "once more", "once more", "while recording"]);
        assert!(contents(bytes) == known);
        assert_eq!(chunks(bytes), chunks(&before), "readers of before find their chunks");
    }
}

/// Attachments and metadata records are there when the file is laid out, or when it is opened again; even one whose
/// name is as long as its data. One that is still being written is not there yet.
#[test]
fn a_virtual_file_carries_attachments_and_metadata_records() {
    let entry = |name: &str| livebag::MetadataEntry {
        name: name.into(),
        values: [("k".into(), "v".into())].into(),
    };
    let metadata = vec![entry("a"), entry("b"), entry("a")];
    let options = RecorderOptions { has_attachments: true, metadata, ..Default::default() };
    let mut fixture = Fixture::new(options, &["/a"]);
    fixture.write(0, 100);
    let mut writer = mcap::WriteOptions::new()
        .use_chunks(false)
        .create(std::io::Cursor::new(Vec::new()))
        .unwrap();
    let samples = [("map", 3), ("", 0), (&*"long ".repeat(1000), 70_000), ("last", 1_500_000)];
    let samples = samples.map(|(name, bytes)| {
        (name.to_owned(), (0..bytes).map(|at| (at * 3 % 251) as u8).collect::<Vec<u8>>())
    });
    for (name, data) in &samples {
        let attachment = mcap::Attachment {
            log_time: 7,
            create_time: 5,
            media_type: "text/plain".into(),
            name: name.clone(),
            data: data.as_slice().into(),
        };
        writer.attach(&attachment).unwrap();
    }
    let written = writer.finish().unwrap().attachment_indexes;
    let ends: Vec<usize> = written.iter().map(|at| (at.offset + at.length) as usize).collect();
    let attachments = writer.into_inner().into_inner();
    let place = fixture.path.join("attachments.mcap");
    let records: Vec<String> = ["a", "b", "a"].map(str::to_owned).into();

    let mut file = VirtualFile::new(&fixture.container(), &Query::default()).unwrap();
    let mut before = whole(&file);
    assert_eq!(carried(&before), (vec![], records.clone()));
    for (count, end) in ends.iter().enumerate() {
        for (written, has) in [(end - 1, count), (*end, count + 1)] {
            std::fs::write(&place, &attachments[..written]).unwrap();
            let is_new = file.grow(&fixture.container()).unwrap();
            assert_eq!(is_new, has > count, "{count}: {written} bytes");
            let bytes = whole(&file);
            assert_eq!(carried(&bytes), (samples[..has].to_vec(), records.clone()));
            assert!(contents(&bytes) == fixture.known);
            assert_eq!(carried(&bytes[..before.len()]).0.len(), count, "a reader of before");
            let changed = before.iter().zip(&bytes).filter(|(a, b)| a != b).count();
            assert!(changed <= 8, "only a jump changes, {changed} bytes did");
            before = bytes;
        }
        fixture.write(0, 100);
        assert!(file.grow(&fixture.container()).unwrap());
        before = whole(&file);
    }
    std::fs::write(&place, &attachments).unwrap();
    fixture.recorder.finish().unwrap();
    let closed = Container::open(&fixture.path).unwrap();
    assert!(!file.grow(&closed).unwrap(), "all of it was there");
    let part = Query { topics: vec!["/a".into()], span: Span::History(1, 2) };
    for query in [Query::default(), part] {
        let file = VirtualFile::new(&closed, &query).unwrap();
        let bytes = whole(&file);
        assert_eq!(carried(&bytes), (samples.to_vec(), records.clone()));
        // Any range is that part of the whole.
        for start in (0..bytes.len()).step_by(100_003) {
            let mut out = Buffer::default();
            file.read(start as u64, 50_000, &mut out).unwrap();
            assert!(*out == bytes[start..bytes.len().min(start + 50_000)], "from {start}");
        }
    }
    // One that is cut afterwards is an error where it was, and nothing else is.
    let file = VirtualFile::new(&closed, &Query::default()).unwrap();
    std::fs::write(&place, &attachments[..ends[2]]).unwrap();
    let mut out = Buffer::default();
    assert!(file.read(0, 100, &mut out).is_ok());
    assert!(file.read(0, file.len() as usize, &mut out).is_err());
    std::fs::remove_file(&place).unwrap();
    let closed = Container::open(&fixture.path).unwrap();
    let bytes = whole(&VirtualFile::new(&closed, &Query::default()).unwrap());
    assert_eq!(carried(&bytes).0.len(), 0);
    assert!(contents(&bytes) == fixture.known);
}
