//! Recordings on a simulated disk, and what must be left of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use livebag::{
    Clock, Container, ContainerError, ContainerState, Disk, NewMessage, Overflow, Query, ReadDisk,
    RecordError, Recorder, RecorderOptions, Selector, SimulatedDisk, Status, Topic, TopicWriter,
};
use livebag_format::container::{CONTAINER_FILE, LOCK_FILE, SYNCED_FILE, SyncMark};
use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count};
use livebag_shm::{FrameMeta, StreamOptions, Writer};

pub const DIRECTORY: &str = "/bag";
pub const TOPICS: usize = 3;
/// Messages from this size on are frames without a checksum.
pub const FRAME_BYTES: usize = 64 << 10;
/// Room for the largest message of all.
const STREAM_PAYLOAD_BYTES: usize = FRAME_BYTES + 5000;
/// More than a recording writes of a topic: no frame is overwritten.
const STREAM_SLOTS: u32 = 512;

#[path = "../../../../tests/random.rs"]
mod random;
pub use random::Random;

impl Random {
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Mostly small messages, some of several kilobytes, some frames.
    pub fn size(&mut self) -> usize {
        match self.below(10) {
            0..=6 => self.below(400) as usize,
            7..=8 => 1000 + self.below(10_000) as usize,
            _ => FRAME_BYTES + self.below(5000) as usize,
        }
    }
}

pub fn topic_name(at: usize) -> String {
    format!("/topic_{at}")
}

fn topic(at: usize) -> Topic {
    Topic {
        name: topic_name(at),
        type_name: "std_msgs/msg/String".into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        metadata: [("topic_type_hash".to_owned(), format!("RIHS01_{at}"))].into(),
    }
}

/// Message `k` of a topic: its bytes say which it is.
pub fn bytes_of(topic: usize, k: u64, size: usize) -> Vec<u8> {
    (0..size)
        .map(|i| (topic as u64 * 101 + k * 31 + i as u64 * 7 + (i as u64 >> 8)) as u8)
        .collect()
}

/// Sizes of the messages of each topic, in order.
pub type Model = Vec<Vec<usize>>;

/// A recording being made.
pub struct Making {
    pub recorder: Recorder,
    pub clock: Clock,
    pub model: Model,
    writers: Vec<Source>,
}

/// Where a topic's messages come from.
enum Source {
    Program(TopicWriter),
    /// A stream in shared memory: large frames are written from their slots, and small ones that
    /// come right behind a large one.
    Stream(Writer),
}

fn stream(at: usize) -> Writer {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("test-{}-crash-{number}", std::process::id());
    let Topic { name: topic, type_name, message_encoding, schema_encoding, schema, .. } = topic(at);
    let options = StreamOptions::message(&type_name, STREAM_PAYLOAD_BYTES)
        .encodings(&message_encoding, &schema_encoding)
        .schema(&schema)
        .topic(&topic)
        .slots(STREAM_SLOTS)
        .remove_on_drop(true);
    Writer::create(&name, &options).expect("a stream")
}

impl Making {
    pub fn begin(disk: &SimulatedDisk) -> Result<Self, RecordError> {
        Self::begin_with(disk, RecorderOptions::default())
    }

    pub fn begin_with(disk: &SimulatedDisk, options: RecorderOptions) -> Result<Self, RecordError> {
        let clock = Clock::simulated(1_000_000_000);
        let options =
            RecorderOptions { overflow: Overflow::Block, clock: clock.clone(), ..options };
        let recorder = Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options)?;
        let program = |at| Ok(Source::Program(recorder.topic(topic(at))?));
        let writers = (0..TOPICS).map(program).collect::<Result<_, RecordError>>()?;
        let model = vec![Vec::new(); TOPICS];
        Ok(Self { recorder, clock, model, writers })
    }

    /// All topics but the last come from streams.
    pub fn begin_with_streams(disk: &SimulatedDisk, options: RecorderOptions) -> Self {
        let clock = Clock::simulated(1_000_000_000);
        let options = RecorderOptions { clock: clock.clone(), ..options };
        let recorder =
            Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
        let streams: Vec<_> = (0..TOPICS - 1).map(stream).collect();
        let names: Vec<_> = streams.iter().map(|stream| stream.name().to_owned()).collect();
        recorder.follow(Selector::names(names)).unwrap();
        while recorder.status().topics.len() < streams.len() {
            std::thread::yield_now();
        }
        let last = recorder.topic(topic(TOPICS - 1)).unwrap();
        let writers = streams.into_iter().map(Source::Stream);
        let writers = writers.chain([Source::Program(last)]).collect();
        Self { recorder, clock, model: vec![Vec::new(); TOPICS], writers }
    }

    /// Writes one message; whether the recorder took it.
    pub fn write(&mut self, at: usize, size: usize) -> bool {
        let k = self.model[at].len() as u64;
        let data = bytes_of(at, k, size);
        let message = NewMessage {
            log_time_nanos: None,
            publish_time_nanos: Some(k),
            sequence: k + 1,
            data: &data,
        };
        let taken = match &mut self.writers[at] {
            Source::Program(writer) => writer.write_message(message).is_ok(),
            Source::Stream(writer) => {
                let meta = FrameMeta::bytes().publish_time_nanos(k);
                assert_eq!(writer.publish(&meta, &data).expect("it fits"), k + 1);
                true
            }
        };
        if taken {
            self.model[at].push(size);
        }
        taken
    }

    /// Lets gathered chunks grow old, so that they are closed.
    pub fn let_age(&self) {
        self.clock.advance(Duration::from_millis(60));
    }

    /// Waits until the topic has this many messages, or the recording has failed.
    pub fn wait_for(&self, at: usize, messages: u64) {
        let name = topic_name(at);
        let has = |status: &Status| {
            let mut topics = status.topics.iter();
            topics.any(|topic| topic.name == name && topic.messages >= messages)
        };
        loop {
            let status = self.recorder.status();
            if status.failure.is_some() || has(&status) {
                return;
            }
            self.let_age();
            std::thread::yield_now();
        }
    }
}

/// Messages visible in the status of a recording without splits, by topic.
pub fn visible(status: &Status) -> Sequences {
    let of = |at| {
        let name = topic_name(at);
        let topic = status.topics.iter().find(|topic| topic.name == name);
        (1..=topic.map_or(0, |topic| topic.messages)).collect()
    };
    (0..TOPICS).map(of).collect()
}

/// The directories of the splits, the first one's being the container's own.
pub fn splits(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let root = Path::new(DIRECTORY);
    let is_split = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("split_"))
    };
    let later = disk.list(root).unwrap_or_default().into_iter().filter(is_split);
    std::iter::once(root.to_owned()).chain(later).collect()
}

/// Messages by topic: their sequences.
pub type Sequences = Vec<BTreeSet<u64>>;

pub fn counts(sequences: &Sequences) -> Vec<u64> {
    sequences.iter().map(|topic| topic.len() as u64).collect()
}

/// Sequences of the first `count` entries of an index.
fn sequences_in(disk: &SimulatedDisk, index: &Path, count: u64) -> BTreeSet<u64> {
    let bytes = disk.read(index).unwrap_or_default();
    let entries = bytes.as_chunks::<ENTRY_BYTES>().0.iter().skip(1).take(count as usize);
    entries.map(|entry| IndexEntry::decode(entry).expect("whole").sequence).collect()
}

/// Like a recorder with a sync interval: counts, bricks, indexes, the others, and then the mark. Gives the messages
/// that are promised from now on.
pub fn sync(disk: &SimulatedDisk) -> Sequences {
    let mut promised = vec![BTreeSet::new(); TOPICS];
    for directory in splits(disk) {
        // A split that is just being made has nothing to promise.
        let Some(mark) = sync_split(disk, &directory) else { continue };
        for (at, promised) in promised.iter_mut().enumerate() {
            let index = format!("{}.idx", &topic_name(at)[1..]);
            let count = mark.entries.get(&index).copied().unwrap_or(0);
            promised.append(&mut sequences_in(disk, &directory.join(index), count));
        }
    }
    promised
}

fn sync_split(disk: &SimulatedDisk, directory: &Path) -> Option<SyncMark> {
    let files = disk.list(directory).unwrap();
    let with = |extension: &'static str| {
        files.iter().filter(move |file| file.extension().is_some_and(|found| found == extension))
    };
    let mut entries = BTreeMap::new();
    for path in with("idx") {
        let bytes = disk.open(path).unwrap().length().unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        entries.insert(name, entry_count(bytes));
    }
    for path in with("mcap").chain(with("idx")) {
        disk.open(path).unwrap().sync().unwrap();
    }
    for name in [CONTAINER_FILE, LOCK_FILE] {
        disk.open(&directory.join(name)).ok()?.sync().unwrap();
    }
    let mark = SyncMark { entries };
    disk.replace(&directory.join(SYNCED_FILE), mark.to_text().as_bytes(), true).unwrap();
    Some(mark)
}

/// The indexes of a dead recorder's container: all committed messages.
pub fn committed(disk: &SimulatedDisk) -> Sequences {
    let directories = splits(disk);
    let of = |at: usize| {
        let index = format!("{}.idx", &topic_name(at)[1..]);
        let in_split = |directory: &PathBuf| {
            let path = directory.join(&index);
            let bytes = disk.open(&path).map_or(0, |file| file.length().unwrap());
            sequences_in(disk, &path, entry_count(bytes))
        };
        directories.iter().flat_map(in_split).collect()
    };
    (0..TOPICS).map(of).collect()
}

/// Requirements for the remaining container.
pub struct Wanted<'a> {
    pub what: String,
    pub model: &'a Model,
    /// Messages of each topic that must be there.
    pub must_have: Sequences,
    /// Whether there may be no container at all.
    pub may_be_gone: bool,
    /// Whether the bytes of frames without a checksum that were not synced may be wrong: of large ones, and of all
    /// that come from streams.
    pub frames_may_be_torn: bool,
    pub has_streams: bool,
    /// Whether a brick may have a whole message whose index entry the disk refused.
    pub may_lack_entries: bool,
    /// Whether other messages may be missing before others: at the end of a split, where the next one
    /// was further already; or where retention has removed a split.
    pub may_have_holes: bool,
}

impl Wanted<'_> {
    /// Opens it, and reads all of it. Gives the messages of each topic.
    #[track_caller]
    pub fn check(&self, disk: &SimulatedDisk) -> Option<Vec<u64>> {
        let container = match Container::open_on(disk, Path::new(DIRECTORY)) {
            Ok(container) => container,
            Err(ContainerError::NotAContainer(_) | ContainerError::NotFound(_))
                if self.may_be_gone =>
            {
                return None;
            }
            Err(error) => panic!("{}: does not open: {error}", self.what),
        };
        assert!(
            matches!(container.state(), ContainerState::Recovered | ContainerState::Closed),
            "{}",
            self.what
        );
        let found = self.check_messages(&container);
        for (at, wanted) in self.must_have.iter().enumerate() {
            let missing: Vec<_> = wanted.difference(&found[at]).collect();
            assert!(missing.is_empty(), "{}: topic {at} lacks {missing:?}", self.what);
        }
        let counts = counts(&found);
        self.check_bricks(disk, &container, counts.iter().sum());
        let again = Container::open_on(disk, Path::new(DIRECTORY)).expect("it opens again");
        assert_eq!(again.state(), container.state(), "{}", self.what);
        assert_eq!(self.check_messages(&again), found, "{}", self.what);
        Some(counts)
    }

    fn check_messages(&self, container: &Container) -> Sequences {
        let mut found = vec![BTreeSet::new(); TOPICS];
        // The number of the next message of each topic.
        let mut reached = [0; TOPICS];
        let mut cursor = container.query(&Query::default()).expect("a query");
        let mut before = 0;
        loop {
            let next = cursor.next();
            let next = next.unwrap_or_else(|error| panic!("{}: {error}", self.what));
            let Some((place, message)) = next else { return found };
            assert!(message.log_time_nanos >= before, "{}: order", self.what);
            before = message.log_time_nanos;
            let name = &container.topics()[place].topic().name;
            let at = (0..TOPICS).find(|at| topic_name(*at) == *name);
            let at = at.unwrap_or_else(|| panic!("{}: the unknown topic {name:?}", self.what));
            let k = message.sequence - 1;
            let before = reached[at];
            assert!(k >= before, "{}: {name} {k} after {before}", self.what);
            let fits = k == before || self.may_have_holes;
            assert!(fits, "{}: no holes in {name}: {before} {k}", self.what);
            reached[at] = k + 1;
            let size = self.model[at][k as usize];
            assert_eq!(message.data.len(), size, "{}: {name} {k}", self.what);
            let is_promised = self.must_have[at].contains(&message.sequence);
            let is_frame = size >= FRAME_BYTES || (self.has_streams && at < TOPICS - 1);
            let excused = self.frames_may_be_torn && is_frame && !is_promised;
            let bytes = bytes_of(at, k, size);
            let wrong = message.data.iter().zip(&bytes).position(|(found, byte)| found != byte);
            assert!(excused || wrong.is_none(), "{}: {name} {k} of {size}: {wrong:?}", self.what);
            found[at].insert(message.sequence);
        }
    }

    /// The `mcap` crate reads every brick, by its index and front to back.
    fn check_bricks(&self, disk: &SimulatedDisk, container: &Container, messages: u64) {
        let mut indexed = 0;
        for name in container.topics().iter().flat_map(|topic| topic.bricks()) {
            let what = format!("{}: {name}", self.what);
            let file = disk.read(&Path::new(DIRECTORY).join(name)).unwrap();
            let summary = mcap::Summary::read(&file);
            let summary = summary.unwrap_or_else(|error| panic!("{what}: {error}")).expect("one");
            let statistics = summary.stats.as_ref().expect("statistics");
            for chunk in &summary.chunk_indexes {
                let places = summary.read_message_indexes(&file, chunk);
                let places = places.unwrap_or_else(|error| panic!("{what}: {error}"));
                indexed += places.values().map(Vec::len).sum::<usize>() as u64;
            }
            let stream = mcap::MessageStream::new(&file).expect("an MCAP");
            let streamed =
                stream.inspect(|message| assert!(message.is_ok(), "{message:?}")).count() as u64;
            let excess = streamed - statistics.message_count;
            assert!(excess == 0 || self.may_lack_entries, "{what}: streamed {streamed}");
        }
        assert_eq!(indexed, messages, "{}: bricks and indexes", self.what);
    }
}
