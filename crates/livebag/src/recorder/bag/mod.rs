//! Recording into a bag of another make, as a [`BagWriter`] writes it: SQLite databases, for example.
//!
//! Two threads, and between them nothing but the queues, bounded as always. The recorder's own thread takes frames out
//! of their streams before they are overwritten; the other one ([`writing`]) puts queued messages into transactions.
//! Messages that the writer cannot keep up with are lost in the queue, and counted.

mod writing;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag_format::container::{LOCK_FILE, Losses};
use livebag_format::rosbag2::BagMetadata;
use livebag_format::{Message, Topic};

use self::writing::{Order, Writing, Written};
use super::discovery::{Appeared, Discovery};
use super::files_left::FilesLeft;
use super::queues::QueueState;
use super::{Command, Counters, Machine, PanicLatch, RecordError, Shared};
use crate::limits::{
    FILL_BYTES_PER_NANO, JOBS_MAX, MANIFEST_INTERVAL, POLL_MAX, POLL_MIN, STREAM_FILES,
};
use crate::queue::{NewMessage, TopicQueue};
use crate::source::StreamSource;

/// Writes bags of another make: see [`Recorder::create_bag`](crate::Recorder::create_bag). Used by one thread.
pub trait BagWriter: Send {
    /// Extension of its files' names: `db3`.
    fn extension(&self) -> &'static str;

    /// Makes a file. `custom` are names and values to store in it.
    ///
    /// # Errors
    /// If it exists, or the disk refuses.
    fn create(
        &mut self,
        path: &Path,
        custom: &BTreeMap<String, String>,
    ) -> Result<Box<dyn BagFileWriter>, BagWriteError>;

    /// Makes the bag's `metadata.yaml`, which tells others that the bag is whole, from what its closed files have
    /// and from `custom`. `files` is `None` if one of them could not be closed: then the files must be read.
    ///
    /// # Errors
    /// If the disk refuses.
    fn finish(
        &mut self,
        directory: &Path,
        files: Option<&[BagMetadata]>,
        custom: BTreeMap<String, String>,
    ) -> Result<(), BagWriteError>;
}

/// One file of a [`BagWriter`]. Errors are whatever the disk refuses; nothing is written after the first.
pub trait BagFileWriter: Send {
    /// Adds a topic. Topics are numbered from 0 in the order in which they are added.
    ///
    /// # Errors
    /// See [`BagFileWriter`].
    fn add_topic(&mut self, topic: &Topic) -> Result<(), BagWriteError>;

    /// Adds a message of a topic to the open transaction.
    ///
    /// # Errors
    /// See [`BagFileWriter`].
    fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), BagWriteError>;

    /// Ends the transaction: its messages are recorded.
    ///
    /// # Errors
    /// See [`BagFileWriter`].
    fn commit(&mut self) -> Result<(), BagWriteError>;

    /// Length of the file so far.
    ///
    /// # Errors
    /// See [`BagFileWriter`].
    fn file_bytes(&mut self) -> Result<u64, BagWriteError>;

    /// Closes the file; returns its contents and its length.
    ///
    /// # Errors
    /// See [`BagFileWriter`].
    fn finish(self: Box<Self>) -> Result<(BagMetadata, u64), BagWriteError>;
}

/// Why a bag cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct BagWriteError {
    what: String,
    /// The system's refusal, if that was it.
    source: Option<io::Error>,
}

impl BagWriteError {
    /// The operation, and why it failed, in words; `source` is the system's refusal, if that was it.
    pub fn new(what: impl ToString, source: Option<io::Error>) -> Self {
        Self { what: what.to_string(), source }
    }

    /// The system's refusal, if that was it.
    pub(super) fn io_error(&self) -> Option<&io::Error> {
        self.source.as_ref()
    }

    /// What to do about it.
    pub(super) fn hint(&self) -> &'static str {
        self.source.as_ref().map_or("", super::hint)
    }
}

impl From<BagWriteError> for RecordError {
    fn from(source: BagWriteError) -> Self {
        Self::Container { source }
    }
}

/// Before a topic's name: the key of its account among rosbag2's custom data.
pub const ACCOUNT_KEY: &str = "livebag.account";

/// The key of the number of splits that retention has removed. Their messages are in the accounts.
pub const REMOVED_KEY: &str = "livebag.removed_splits";

/// A topic and its counters.
struct Source {
    topic: Arc<Topic>,
    counters: Arc<Counters>,
    state: QueueState,
    stream: Option<StreamSource>,
}

impl Source {
    fn note_counts(&mut self) {
        let [dropped, gaps, skipped] = self.state.new_counts();
        add(&self.counters.queue, dropped);
        add(&self.counters.transport, gaps);
        add(&self.counters.skipped, skipped);
    }

    /// Counts a writer that has come back to its stream.
    fn note_return(&mut self) {
        let has_returned = self.stream.as_mut().is_some_and(StreamSource::take_return);
        add(&self.counters.returns, has_returned.into());
    }
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// The recorder's thread: from streams into queues.
pub(super) struct Collector {
    shared: Arc<Shared>,
    discovery: Discovery,
    /// Topics of streams for which there are too few files, by the streams' names.
    waiting: HashMap<String, usize>,
    sources: Vec<Source>,
    scratch: Vec<u8>,
    orders: SyncSender<Order>,
    /// Until it is joined.
    writing: Option<JoinHandle<Written>>,
    next_share_nanos: u64,
}

impl Collector {
    /// Makes the directory and the first file in it.
    ///
    /// # Errors
    /// If the directory exists, or the disk refuses.
    pub fn create(shared: Arc<Shared>, writer: Box<dyn BagWriter>) -> Result<Self, RecordError> {
        let writing = Writing::create(shared.clone(), writer)?;
        let (orders, receiver) = sync_channel(JOBS_MAX);
        let writing = std::thread::Builder::new()
            .name("livebag-bag".into())
            .spawn({
                let shared = shared.clone();
                move || {
                    let _latch = PanicLatch(&shared, "the thread that writes the bag");
                    writing.run(&receiver)
                }
            })
            .map_err(|source| RecordError::Io {
                doing: "starting a thread to record into",
                path: shared.directory.clone(),
                source,
            })?;
        Ok(Self {
            shared,
            discovery: Discovery::new(),
            waiting: HashMap::new(),
            sources: Vec::new(),
            scratch: Vec::new(),
            orders,
            writing: Some(writing),
            next_share_nanos: 0,
        })
    }

    fn order(&self, order: Order) {
        // A thread that is gone has panicked, which joining will tell.
        let _ = self.orders.send(order);
    }

    fn take_commands(&mut self, commands: &Receiver<Command>) -> bool {
        loop {
            match commands.try_recv() {
                Ok(Command::AddTopic(topic, queue)) => self.add_topic(topic, queue, None),
                Ok(Command::Follow(selector)) => self.discovery.follow(selector),
                Ok(Command::Split) => self.order(Order::Split),
                Ok(Command::Snapshot) => {
                    // Messages published by now belong to it.
                    self.take_frames();
                    self.evict();
                    self.order(Order::Snapshot);
                }
                Ok(Command::Finish) | Err(TryRecvError::Disconnected) => return true,
                Err(TryRecvError::Empty) => return false,
            }
        }
    }

    fn add_topic(&mut self, topic: Topic, queue: Arc<TopicQueue>, stream: Option<StreamSource>) {
        let (topic, counters) = (Arc::new(topic), Arc::new(Counters::default()));
        let seen = (topic.clone(), counters.clone());
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        self.order(Order::Topic(topic.clone(), queue.clone(), counters.clone()));
        let state = QueueState::new(queue, false);
        self.sources.push(Source { topic, counters, state, stream });
    }

    /// Adds a stream, or only its topic while there are too few files for it. Whether it could.
    fn add_stream(&mut self, topic: Topic, stream: Option<StreamSource>) -> bool {
        let queue = self.shared.make_stream_queue(&topic.name);
        let queue = queue.map_err(|error| self.shared.fail(error)).ok();
        let is_made = queue.is_some();
        if let Some(queue) = queue {
            self.add_topic(topic, queue, stream);
        }
        is_made
    }

    fn discover(&mut self, now: u64) {
        if !self.discovery.is_due(now) {
            return;
        }
        let shared = self.shared.clone();
        let mut files = FilesLeft::new(&*shared.disk, STREAM_FILES, 0);
        let mut refused = Vec::new();
        for appeared in self.discovery.look(now, &shared.options.clock, &mut files) {
            match appeared {
                Appeared::Stream(stream) => self.take_stream(stream),
                Appeared::Refused { name, topic } => {
                    refused.push(topic.name.clone());
                    self.refuse_stream(name, topic, files.refusal());
                }
            }
        }
        if !refused.is_empty() {
            log::warn!("not recorded: {}: {}", refused.join(", "), files.refusal());
        }
        self.sources.iter_mut().for_each(Source::note_return);
        for at in 0..self.sources.len() {
            let stream = self.sources[at].stream.as_ref();
            let Some(stream) = stream.and_then(StreamSource::successor) else { continue };
            // The old region's remaining frames come first.
            self.take_frames();
            if stream.topic() == *self.sources[at].topic {
                add(&self.sources[at].counters.returns, 1);
                self.sources[at].stream = Some(stream);
            } else {
                self.sources[at].stream = None;
                self.add_stream(stream.topic(), Some(stream));
            }
        }
    }

    fn take_stream(&mut self, stream: StreamSource) {
        let topic = stream.topic();
        let waiting = self.waiting.remove(stream.name());
        match waiting.filter(|at| *self.sources[*at].topic == topic) {
            Some(at) => self.sources[at].stream = Some(stream),
            None => _ = self.add_stream(topic, Some(stream)),
        }
    }

    fn refuse_stream(&mut self, name: String, topic: Topic, why: RecordError) {
        // A region that took the name of another one that waits.
        let known = self.waiting.get(&name);
        if known.is_some_and(|at| *self.sources[*at].topic == topic) {
            return;
        }
        let number = self.sources.len();
        if self.add_stream(topic, None) {
            // The first reason stays.
            let _ = self.sources[number].counters.refused.set(Arc::new(why));
            self.waiting.insert(name, number);
        }
    }

    /// Counts what streams have published that waited for files to the end.
    fn count_missed(&self) {
        for (name, missed) in self.discovery.missed() {
            if let Some(at) = self.waiting.get(&name) {
                add(&self.sources[*at].counters.disk, missed);
            }
        }
    }

    /// Copies every frame that is new now of every stream into its queue.
    fn take_frames(&mut self) {
        let is_paused = self.shared.paused.load(Ordering::Relaxed);
        let has_failed = self.shared.failure().is_some();
        for Source { counters, state, stream, .. } in &mut self.sources {
            let Some(stream) = stream else { continue };
            let newest = stream.newest_sequence();
            loop {
                let next = stream.next();
                add(&counters.transport, next.damaged);
                add(if is_paused { &counters.skipped } else { &counters.lapped }, next.lapped);
                let Some(frame) = next.frame else { break };
                let is_newest = frame.sequence() >= newest;
                if !state.queue.wants_frame() {
                    add(&counters.skipped, 1);
                } else if has_failed {
                    add(&counters.disk, 1);
                } else if stream.encoder().encode(&frame, &mut self.scratch) {
                    let message = NewMessage {
                        log_time_nanos: None,
                        publish_time_nanos: Some(frame.header().publish_time_nanos),
                        sequence: frame.sequence(),
                        data: &self.scratch,
                    };
                    // A full queue has counted the message as lost.
                    let _ = state.queue.write_wanted(&message);
                } else {
                    add(&counters.lapped, 1);
                }
                if is_newest {
                    break;
                }
            }
        }
    }

    /// Counters and work done once a second: shares, and old messages in a ring.
    fn keep(&mut self, now: u64) {
        self.sources.iter_mut().for_each(Source::note_counts);
        if now < self.next_share_nanos {
            return;
        }
        self.next_share_nanos = now + MANIFEST_INTERVAL.as_nanos() as u64;
        let rates: Vec<u64> =
            self.sources.iter_mut().map(|source| source.state.taken_since()).collect();
        let shares = self.shared.budget.shares(&rates);
        for (source, share) in self.sources.iter().zip(shares) {
            if self.shared.options.snapshot.is_some() {
                source.state.queue.evict_to(self.shared.budget.ring_bytes(share));
            }
            source.state.queue.set_share(share);
        }
        self.evict();
    }

    /// Drops old messages from a ring.
    fn evict(&self) {
        if let Some(start) = self.shared.ring_start_nanos() {
            self.sources.iter().for_each(|source| source.state.queue.evict_before(start));
        }
    }

    /// As long as the fastest stream and the queues allow.
    fn pause(&self) -> Duration {
        let streams = self.sources.iter().filter_map(|source| source.stream.as_ref());
        let lap = streams.map(StreamSource::lap_nanos).min().unwrap_or(u64::MAX);
        let fill = self.shared.options.cache_bytes_max / 16 / FILL_BYTES_PER_NANO;
        Duration::from_nanos((lap / 16).min(fill)).clamp(POLL_MIN, POLL_MAX)
    }

    /// `metadata.yaml`, which tells rosbag2 that the bag is whole.
    fn write_metadata(&self, written: &mut Written) -> Result<(), RecordError> {
        let mut custom = BTreeMap::new();
        for topic in self.shared.status().topics {
            if let Some(text) = lost_text(&topic.lost) {
                custom.insert(format!("livebag.lost{}", topic.name), text);
            }
            // The same that a container's manifest tells.
            if let Ok(account) = serde_json::to_string(&topic.account()) {
                custom.insert(format!("{ACCOUNT_KEY}{}", topic.name), account);
            }
        }
        if written.removed > 0 {
            custom.insert(REMOVED_KEY.to_owned(), written.removed.to_string());
        }
        let files = written.is_whole.then_some(&written.files[..]);
        Ok(written.writer.finish(&self.shared.directory, files, custom)?)
    }
}

/// `queue 3, disk 1`; `None` if nothing was lost.
fn lost_text(losses: &Losses) -> Option<String> {
    let Losses { transport, queue, lapped, disk, abandoned } = losses;
    let causes = [
        ("transport", transport),
        ("queue", queue),
        ("lapped", lapped),
        ("disk", disk),
        ("abandoned", abandoned),
    ];
    let texts: Vec<_> = causes
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(cause, count)| format!("{cause} {count}"))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

impl Machine for Collector {
    fn turn(&mut self, commands: &Receiver<Command>) -> bool {
        let finish = self.take_commands(commands);
        let now = self.shared.options.clock.monotonic_nanos();
        self.discover(now);
        if finish {
            return false;
        }
        self.take_frames();
        self.keep(now);
        self.shared.options.clock.sleep(self.pause());
        true
    }

    fn close(mut self) -> Result<(), Arc<RecordError>> {
        self.take_frames();
        self.count_missed();
        self.sources.iter_mut().for_each(Source::note_return);
        self.sources.iter().for_each(|source| source.state.queue.close());
        self.order(Order::Finish);
        let writing = self.writing.take().ok_or(RecordError::Stopped)?;
        let mut written = writing.join().map_err(|_| RecordError::Stopped)?;
        self.sources.iter_mut().for_each(Source::note_counts);
        let told = self.write_metadata(&mut written);
        // One that cannot be removed is only one more file, locked by no process.
        let _ = self.shared.disk.remove(&self.shared.directory.join(LOCK_FILE));
        drop(written.lock);
        Ok(told?)
    }
}
