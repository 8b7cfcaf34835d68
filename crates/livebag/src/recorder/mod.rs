//! From queues and streams to bricks: the recorder and its handle.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use livebag_format::container::{ClockJumps, Losses};
use livebag_format::{Account, Topic};

use crate::limits::{JOBS_MAX, READ_INTEREST, TOPICS_MAX};
use crate::queue::{Budget, NewMessage, QueueOptions, TopicQueue};
use crate::source::Selector;
use crate::storage::{Disk, KernelDisk, MethodChoice};

mod bag;
mod brick;
mod close;
mod compress;
mod copy_buffers;
mod discovery;
mod engine;
mod flight;
mod frame_tracker;
mod keeper;
mod memory;
mod options;
mod pacing;
mod queues;
mod retention;
mod round_robin;
mod series;
mod split;
mod topic;
mod writer;

pub use crate::queue::{Overflow, Priority, WriteError};
pub use bag::{BagFileWriter, BagWriteError, BagWriter};
pub(crate) use close::{ends_with_summary, write_summary};
pub use memory::cache_bytes_available;
pub use options::{
    ChunkCompression, LowSpace, RecorderOptions, Retention, SnapshotRing, SplitRules, TopicRule,
    TopicRules, TopicSettings,
};

/// Why recording could not begin, or did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The container's directory is there already.
    #[error(
        "{} exists already: choose another name, or remove it; livebag never overwrites a \
         recording", .0.display()
    )]
    Exists(PathBuf),
    /// The folder in which the container should be is not there.
    #[error("the folder {} does not exist: make it first (mkdir -p)", .0.display())]
    NoParent(PathBuf),
    /// The disk refused something.
    #[error("{doing} {} failed: {source}{}", path.display(), hint(source))]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A bag of another make could not be written.
    #[error("{source}{}", source.hint())]
    Container {
        /// What was tried, and what was said.
        source: BagWriteError,
    },
    /// The recording was closed in order, but ended early.
    #[error("the recording ended early: {0}; everything written before it is kept and readable")]
    Failed(String),
    /// MCAP cannot number more topics.
    #[error("a container holds at most {max} topics: record some of them elsewhere")]
    TooManyTopics {
        /// The limit.
        max: usize,
    },
    /// The filesystem has less free space than was asked for.
    #[error(
        "{} has {free_bytes} B free, less than the {least_bytes} B that must stay free: free some \
         space, record elsewhere, or let old splits go (--low-free-space-action delete-oldest)",
        path.display()
    )]
    LowSpace {
        /// The recording.
        path: PathBuf,
        /// What is free.
        free_bytes: u64,
        /// What was asked for.
        least_bytes: u64,
    },
    /// A schedule that heeds the applications' cycles cannot see them.
    #[error(
        "the cycle board cannot be watched: {0}; use --schedule immediate, or fix the cause above"
    )]
    CycleBoard(#[source] livebag_shm::CycleError),
    /// The recorder's thread is gone.
    #[error("the recorder has stopped")]
    Stopped,
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            " (the disk is full, or has all the files that it can have (`df -i`): free some, or record \
             elsewhere)"
        }
        io::ErrorKind::PermissionDenied => {
            " (no right to write there: choose another folder, or change its owner)"
        }
        io::ErrorKind::ReadOnlyFilesystem => " (mounted read-only: record elsewhere)",
        _ => match error.raw_os_error() {
            Some(libc::EMFILE) => {
                " (too many open files, of which every topic has some: raise the hard limit, `ulimit -Hn` \
                 or LimitNOFILE= in systemd)"
            }
            _ => "",
        },
    }
}

/// Counters of a topic, readable from any thread.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub messages: AtomicU64,
    pub bytes: AtomicU64,
    pub repeated: AtomicU64,
    pub removed: AtomicU64,
    /// How often its writer died and came back.
    pub returns: AtomicU64,
    pub is_gone: AtomicBool,
    pub transport: AtomicU64,
    pub queue: AtomicU64,
    pub lapped: AtomicU64,
    pub disk: AtomicU64,
    pub abandoned: AtomicU64,
    pub skipped: AtomicU64,
}

impl Counters {
    pub(crate) fn losses(&self) -> Losses {
        Losses {
            transport: self.transport.load(Ordering::Relaxed),
            queue: self.queue.load(Ordering::Relaxed),
            lapped: self.lapped.load(Ordering::Relaxed),
            disk: self.disk.load(Ordering::Relaxed),
            abandoned: self.abandoned.load(Ordering::Relaxed),
        }
    }
}

/// What is known of a topic while it is being recorded.
#[derive(Clone, Debug)]
pub struct TopicStatus {
    /// Topic name.
    pub name: String,
    /// Type name.
    pub type_name: String,
    /// How messages are encoded.
    pub message_encoding: String,
    /// Messages committed: on the disk and in the time index.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// How many of `messages` were recorded before and stand at the head of a split once more.
    /// Published were `messages - repeated + lost`, beside what was skipped.
    pub repeated: u64,
    /// Messages lost, by cause.
    pub lost: Losses,
    /// Messages left out on purpose: while paused, more often than asked for, or let go by a ring.
    pub skipped: u64,
    /// How many of `messages` retention has removed with their splits.
    pub removed: u64,
    /// Whether its writer has died.
    pub writer_gone: bool,
    /// How often its writer died and came back.
    pub writer_returns: u64,
}

impl TopicStatus {
    /// Where every message is that was published.
    pub fn account(&self) -> Account {
        Account {
            recorded: self.messages.saturating_sub(self.removed),
            removed: self.removed,
            damaged: 0,
            repeated: self.repeated,
            skipped: self.skipped,
            lost: self.lost,
            unknown_since_nanos: None,
        }
    }
}

/// A look at a recorder.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// By topic, in the order of appearance.
    pub topics: Vec<TopicStatus>,
    /// Bytes waiting in memory of the recorder's own.
    pub cache_bytes: u64,
    /// Bytes of frames that wait in the slots of their streams for a moment to be written.
    pub slot_bytes: u64,
    /// Whether messages are left out at the moment.
    pub paused: bool,
    /// Splits begun, the first included.
    pub splits: u32,
    /// How often the wall clock was set while recording, and by how many nanoseconds at the most.
    pub clock_jumps: ClockJumps,
    /// The first failure, which ended the recording.
    pub failure: Option<String>,
}

impl Status {
    /// The account of all topics together.
    pub fn account(&self) -> Account {
        let mut sum = Account::default();
        self.topics.iter().for_each(|topic| sum.add(&topic.account()));
        sum
    }

    /// Sum over all topics: messages, bytes, losses.
    pub fn totals(&self) -> (u64, u64, Losses) {
        let mut lost = Losses::default();
        let (mut messages, mut bytes) = (0, 0);
        for topic in &self.topics {
            messages += topic.messages;
            bytes += topic.bytes;
            lost.add(&topic.lost);
        }
        (messages, bytes, lost)
    }
}

/// What both the handle and the recorder's thread see.
pub(crate) struct Shared {
    pub directory: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub options: RecorderOptions,
    pub budget: Arc<Budget>,
    pub topics: Mutex<Vec<(Arc<Topic>, Arc<Counters>)>>,
    pub paused: Arc<AtomicBool>,
    pub splits: AtomicU32,
    pub clock_jumps: Mutex<ClockJumps>,
    pub slot_bytes: AtomicU64,
    channels_given: AtomicU32,
    /// What still waits is to be given up.
    pub abandoned: AtomicBool,
    /// Until when somebody is taken to be reading, on the clock's monotonic time.
    pub read_until_nanos: AtomicU64,
    pub failure: Mutex<Option<String>>,
}

impl Shared {
    pub fn new(disk: Arc<dyn Disk>, directory: &Path, options: RecorderOptions) -> Self {
        Self {
            directory: directory.to_owned(),
            disk,
            budget: Budget::new(options.cache_bytes_max, options.snapshot.is_some()),
            topics: Mutex::default(),
            paused: Arc::new(AtomicBool::new(options.start_paused)),
            splits: AtomicU32::new(1),
            clock_jumps: Mutex::default(),
            slot_bytes: AtomicU64::new(0),
            channels_given: AtomicU32::new(0),
            abandoned: AtomicBool::new(false),
            read_until_nanos: AtomicU64::new(0),
            failure: Mutex::default(),
            options,
        }
    }

    /// A queue for one more topic, with a channel of its own.
    ///
    /// # Errors
    /// If MCAP's numbers are used up.
    pub fn make_queue(&self, name: &str, count_gaps: bool) -> Result<Arc<TopicQueue>, RecordError> {
        self.make_queue_with(name, self.options.queue_options(name, count_gaps))
    }

    fn make_queue_with(
        &self,
        name: &str,
        options: QueueOptions,
    ) -> Result<Arc<TopicQueue>, RecordError> {
        let given = self.channels_given.fetch_add(1, Ordering::Relaxed);
        let channel_id = u16::try_from(given + 1).ok().filter(|id| usize::from(*id) <= TOPICS_MAX);
        let channel_id = channel_id.ok_or(RecordError::TooManyTopics { max: TOPICS_MAX })?;
        Ok(Arc::new(TopicQueue::new(
            name.to_owned(),
            channel_id,
            options,
            self.budget.clone(),
            self.options.clock.clone(),
            self.paused.clone(),
        )))
    }

    /// The same for a stream, whose writer never waits: what is to wait for room is dropped there.
    ///
    /// # Errors
    /// If MCAP's numbers are used up.
    pub fn make_stream_queue(&self, name: &str) -> Result<Arc<TopicQueue>, RecordError> {
        let mut options = self.options.queue_options(name, false);
        if options.overflow == Overflow::Block {
            options.overflow = Overflow::DropNewest;
        }
        self.make_queue_with(name, options)
    }

    /// A look at the recorder.
    pub fn status(&self) -> Status {
        let topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let topics = topics.iter().map(|(topic, counters)| TopicStatus {
            name: topic.name.clone(),
            type_name: topic.type_name.clone(),
            message_encoding: topic.message_encoding.clone(),
            messages: counters.messages.load(Ordering::Acquire),
            bytes: counters.bytes.load(Ordering::Relaxed),
            repeated: counters.repeated.load(Ordering::Relaxed),
            lost: counters.losses(),
            skipped: counters.skipped.load(Ordering::Relaxed),
            removed: counters.removed.load(Ordering::Relaxed),
            writer_gone: counters.is_gone.load(Ordering::Relaxed),
            writer_returns: counters.returns.load(Ordering::Relaxed),
        });
        Status {
            topics: topics.collect(),
            cache_bytes: self.budget.used_bytes(),
            slot_bytes: self.slot_bytes.load(Ordering::Acquire),
            paused: self.paused.load(Ordering::Relaxed),
            splits: self.splits.load(Ordering::Relaxed),
            clock_jumps: self.clock_jumps(),
            failure: self.failure(),
        }
    }

    pub fn clock_jumps(&self) -> ClockJumps {
        *self.clock_jumps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what still waits is to be given up.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Notes a failure; only the first counts.
    pub fn fail(&self, what: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(what);
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Latches a panic of the thread that holds it as the recording's failure.
struct PanicLatch<'a>(&'a Shared, &'static str);

impl Drop for PanicLatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(format!("{} has stopped by a fault in livebag: please report it", self.1));
        }
    }
}

pub(crate) enum Command {
    AddTopic(Topic, Arc<TopicQueue>),
    Follow(Selector),
    Split,
    Snapshot,
    Finish,
}

/// Tells the recorder that the recording is being read. For a while it then commits small messages after
/// 5 ms instead of 50.
#[derive(Clone)]
pub struct ReaderNotice(Arc<Shared>);

impl ReaderNotice {
    /// The recording has just been read.
    pub fn is_read(&self) {
        let until = self.0.options.clock.monotonic_nanos() + READ_INTEREST.as_nanos() as u64;
        // Read by the recorder's thread alone, for nothing else than its value.
        self.0.read_until_nanos.fetch_max(until, Ordering::Relaxed);
    }

    /// How the recording goes: [`Recorder::status`], from any thread.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Bound of what waits in memory.
    pub fn cache_bytes_max(&self) -> u64 {
        self.0.options.cache_bytes_max
    }
}

/// A recording in progress. Dropping it closes the container, too, but only [`Recorder::finish`] reports
/// errors of that.
pub struct Recorder {
    shared: Arc<Shared>,
    commands: SyncSender<Command>,
    thread: Option<JoinHandle<Result<(), RecordError>>>,
    method: Option<MethodChoice>,
}

impl Recorder {
    /// Begins a recording in the new directory `directory`.
    ///
    /// # Errors
    /// If it exists, or cannot be made or written.
    pub fn create(directory: &Path, options: RecorderOptions) -> Result<Self, RecordError> {
        let disk = Self::probe_for(directory)?;
        let method = disk.choice().clone();
        let mut this = Self::create_on(Arc::new(disk), directory, options)?;
        this.method = Some(method);
        Ok(this)
    }

    /// The disk for a new recording, if one can be made there.
    fn probe_for(directory: &Path) -> Result<KernelDisk, RecordError> {
        let parent = match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        if !parent.is_dir() {
            return Err(RecordError::NoParent(parent.to_owned()));
        }
        if directory.exists() {
            return Err(RecordError::Exists(directory.to_owned()));
        }
        let disk = KernelDisk::probe(parent).map_err(|source| RecordError::Io {
            doing: "writing a probe file in",
            path: parent.to_owned(),
            source,
        })?;
        raise_file_limit();
        Ok(disk)
    }

    /// Records into a bag of another make, which `writer` writes: files named as the directory with their number
    /// behind it. Of the options those about chunks, durability and schedules mean nothing there.
    ///
    /// # Errors
    /// As of [`Recorder::create`], and what the writer refuses.
    pub fn create_bag(
        directory: &Path,
        options: RecorderOptions,
        writer: Box<dyn BagWriter>,
    ) -> Result<Self, RecordError> {
        let disk = Self::probe_for(directory)?;
        let method = disk.choice().clone();
        let shared = Arc::new(Shared::new(Arc::new(disk), directory, options));
        let mut this = Self::start(bag::Collector::create(shared.clone(), writer)?, shared)?;
        this.method = Some(method);
        Ok(this)
    }

    /// The same on any disk, a simulated one for example.
    ///
    /// # Errors
    /// If the directory exists, or cannot be made or written.
    pub fn create_on(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: RecorderOptions,
    ) -> Result<Self, RecordError> {
        let shared = Arc::new(Shared::new(disk, directory, options));
        Self::start(engine::Engine::create(shared.clone())?, shared)
    }

    fn start(
        machine: impl Machine + Send + 'static,
        shared: Arc<Shared>,
    ) -> Result<Self, RecordError> {
        let (commands, receiver) = sync_channel(JOBS_MAX);
        let thread = std::thread::Builder::new()
            .name("livebag-recorder".into())
            .spawn({
                let shared = shared.clone();
                move || {
                    let _latch = PanicLatch(&shared, "the recorder's thread");
                    run(machine, &receiver)
                }
            })
            .map_err(|source| RecordError::Io {
                doing: "starting a thread to record into",
                path: shared.directory.clone(),
                source,
            })?;
        Ok(Self { shared, commands, thread: Some(thread), method: None })
    }

    /// How bytes reach the disk, and why not by a better way; `None` on a simulated disk.
    pub fn method(&self) -> Option<&MethodChoice> {
        self.method.as_ref()
    }

    /// Adds a topic that this process writes. Its files are made by the recorder's thread; should
    /// that fail, the recording ends early, as it does when any write fails.
    ///
    /// # Errors
    /// If there are too many topics, or the recorder has stopped.
    pub fn topic(&self, topic: Topic) -> Result<TopicWriter, RecordError> {
        self.add_topic(topic, self.shared.options.count_gaps)
    }

    /// The same for a topic with several publishers, whose sequences are independent. Losses on the way here
    /// are reported by [`TopicWriter::lost_in_transport`].
    ///
    /// # Errors
    /// As [`Recorder::topic`].
    pub fn topic_of_many(&self, topic: Topic) -> Result<TopicWriter, RecordError> {
        self.add_topic(topic, false)
    }

    fn add_topic(&self, topic: Topic, count_gaps: bool) -> Result<TopicWriter, RecordError> {
        let queue = self.shared.make_queue(&topic.name, count_gaps)?;
        let command = Command::AddTopic(topic, queue.clone());
        self.commands.send(command).map_err(|_| RecordError::Stopped)?;
        Ok(TopicWriter { queue })
    }

    /// Records every stream that `selector` takes, present or later.
    ///
    /// # Errors
    /// If the recorder has stopped.
    pub fn follow(&self, selector: Selector) -> Result<(), RecordError> {
        self.commands.send(Command::Follow(selector)).map_err(|_| RecordError::Stopped)
    }

    /// A handle that tells the recorder of readers, from any thread.
    pub fn reader_notice(&self) -> ReaderNotice {
        ReaderNotice(self.shared.clone())
    }

    /// Leaves messages out from now on; they are counted as skipped, not as lost.
    pub fn pause(&self) {
        self.shared.paused.store(true, Ordering::Relaxed);
    }

    /// Takes messages again.
    pub fn resume(&self) {
        self.shared.paused.store(false, Ordering::Relaxed);
    }

    /// Whether messages are left out at the moment.
    pub fn is_paused(&self) -> bool {
        self.shared.paused.load(Ordering::Relaxed)
    }

    /// Begins a new split now.
    ///
    /// # Errors
    /// If the recorder has stopped.
    pub fn split(&self) -> Result<(), RecordError> {
        self.commands.send(Command::Split).map_err(|_| RecordError::Stopped)
    }

    /// Writes what the ring holds ([`RecorderOptions::snapshot`]) to the disk.
    ///
    /// # Errors
    /// If the recorder has stopped.
    pub fn snapshot(&self) -> Result<(), RecordError> {
        self.commands.send(Command::Snapshot).map_err(|_| RecordError::Stopped)
    }

    /// Counts and state at the moment.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Records what has been published until now, closes the container, and returns the final status.
    ///
    /// # Errors
    /// [`RecordError::Failed`] if the recording had ended early. The container is then closed and readable,
    /// unless the text says that closing failed, too: then it is recovered when it is next opened.
    pub fn finish(self) -> Result<Status, RecordError> {
        let (status, ended) = self.finish_with_status();
        ended.map(|()| status)
    }

    /// The same, with the final status also if the recording had ended early.
    pub fn finish_with_status(mut self) -> (Status, Result<(), RecordError>) {
        let stopped = self.stop();
        let status = self.status();
        let ended = match (stopped, &status.failure) {
            // What went wrong first is the cause of what went wrong at the end.
            (Err(error), Some(first)) if *first != error.to_string() => {
                Err(RecordError::Failed(format!("{first}; closing it failed too: {error}")))
            }
            (Err(error), _) => Err(error),
            (Ok(()), Some(failure)) => Err(RecordError::Failed(failure.clone())),
            (Ok(()), None) => Ok(()),
        };
        (status, ended)
    }

    /// Starts to close the container, and returns. [`Recorder::status`] shows what is left to write;
    /// [`Recorder::finish`] waits for the end.
    pub fn close(&self) {
        // An error here means that the thread has ended; joining tells why.
        let _ = self.commands.send(Command::Finish);
    }

    /// Whether the container is closed, so that [`Recorder::finish`] returns at once.
    pub fn has_closed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Drops what still waits in memory when the container is closed, and counts it as abandoned. What has
    /// been submitted to the disk (at most some 128 MiB) is still written.
    pub fn abandon(&self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }

    fn stop(&mut self) -> Result<(), RecordError> {
        self.close();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| RecordError::Stopped)?
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("livebag: closing {} failed: {error}", self.shared.directory.display());
        }
    }
}

/// What the recorder's thread does, in rounds.
trait Machine {
    /// One round; `false` when the recorder has been told to finish.
    fn turn(&mut self, commands: &Receiver<Command>) -> bool;
    /// The last round: everything published until now, then the ends of all files.
    fn close(self) -> Result<(), RecordError>;
}

fn run<M: Machine>(mut machine: M, commands: &Receiver<Command>) -> Result<(), RecordError> {
    while machine.turn(commands) {}
    machine.close()
}

/// Every topic has files of its own; the usual soft limit of 1,024 is soon reached.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    // Without the right the soft limit stays, and opening a file will say so.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Records messages of this process into one topic; from any thread, and cheap to clone.
#[derive(Clone)]
pub struct TopicWriter {
    queue: Arc<TopicQueue>,
}

impl TopicWriter {
    /// Records a message with the present time as its log time. Without a publish time, that is the publish
    /// time, too. Copies `data` once, into the memory it is written from.
    ///
    /// Wait-free, and without allocating once the topic's sizes repeat. Blocks in two cases:
    /// `Overflow::Block` waits for room; and if a burst exhausts the prepared segments while the recorder
    /// thread is preempted, the call waits up to 5 ms before the message is counted as lost.
    ///
    /// # Errors
    /// If the topic's queue is full (counted as loss), or the recorder has stopped.
    pub fn write(
        &self,
        publish_time_nanos: impl Into<Option<u64>>,
        sequence: u64,
        data: &[u8],
    ) -> Result<(), WriteError> {
        let publish_time_nanos = publish_time_nanos.into();
        self.write_message(NewMessage { log_time_nanos: None, publish_time_nanos, sequence, data })
    }

    /// Records a message with a log time of its own, as conversions do: a [`Message`](livebag_format::Message),
    /// or a [`NewMessage`] whose times may be absent. Log times never decrease within a topic: an earlier
    /// one is raised.
    ///
    /// # Errors
    /// As [`TopicWriter::write`].
    pub fn write_message<'a>(&self, message: impl Into<NewMessage<'a>>) -> Result<(), WriteError> {
        self.queue.write(&message.into())
    }

    /// Counts messages that were lost before they came here.
    pub fn lost_in_transport(&self, count: u64) {
        self.queue.lose_in_transport(count);
    }
}

/// Names of bricks already given, so that two topics never share one by accident.
#[derive(Default)]
pub(crate) struct FileNames(BTreeMap<String, u32>);

impl FileNames {
    /// With the names taken that a container has for something else.
    pub fn of_container() -> Self {
        let mut names = Self::default();
        names.give("attachments");
        names
    }

    /// A file name for `topic`, without extension: `/camera/front` becomes `camera.front`.
    pub fn give(&mut self, topic: &str) -> String {
        let mut name: String = topic
            .trim_start_matches('/')
            .chars()
            .take(200)
            .map(|c| if c == '/' { '.' } else { c })
            .map(|c| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' })
            .collect();
        if name.is_empty() || name.starts_with('.') {
            name.insert_str(0, "topic");
        }
        loop {
            let count = self.0.entry(name.clone()).or_insert(0);
            *count += 1;
            if *count == 1 {
                return name;
            }
            name = format!("{name}-{count}");
        }
    }
}

#[cfg(test)]
mod tests;
