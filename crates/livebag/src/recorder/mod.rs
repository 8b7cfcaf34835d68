//! From queues and streams to bricks: the recorder and its handle.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use livebag_format::event::Event;
use livebag_format::{Account, Topic};

use crate::container::{EventError, events};
use crate::limits::{JOBS_MAX, READ_INTEREST};
use crate::queue::{NewMessage, TopicQueue};
use crate::source::Selector;
use crate::storage::{Disk, KernelDisk, MethodChoice};

mod bag;
mod brick;
mod close;
mod compress;
mod copy_buffers;
mod discovery;
mod engine;
mod error;
mod files_left;
mod flight;
mod frame_tracker;
mod keeper;
mod options;
mod pacing;
mod queues;
mod retention;
mod round_robin;
mod series;
mod shared;
mod split;
mod status;
mod topic;
mod writer;

pub use crate::queue::{Overflow, Priority, WriteError};
pub use bag::{ACCOUNT_KEY, BagFileWriter, BagWriteError, BagWriter, REMOVED_KEY};
pub use error::RecordError;
use error::{hint, not_closed};
pub use options::{
    ChunkCompression, LowSpace, RecorderOptions, Retention, SnapshotRing, SplitRules, TopicRule,
    TopicRules, TopicSettings,
};
use shared::{Command, PanicLatch, Shared};
use status::Counters;
pub use status::{Status, TopicStatus};

/// Tells the recorder that the recording is being read. For a while it then commits small messages after
/// 5 ms instead of 50.
#[derive(Clone)]
pub struct ReaderNotice(Arc<Shared>);

impl ReaderNotice {
    /// The recording has just been read.
    pub fn is_read(&self) {
        let until = self.0.options.clock.monotonic_nanos() + READ_INTEREST.as_nanos() as u64;
        // Only the recorder's thread reads it, and only its value matters.
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
    thread: Option<JoinHandle<Result<(), Arc<RecordError>>>>,
    method: Option<MethodChoice>,
    /// Whether a container is written, which has a place for events.
    is_container: bool,
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
        Ok(disk)
    }

    /// Records into a bag of another make, which `writer` writes: files named as the directory with their number
    /// behind it. Of the options those about chunks, durability and schedules mean nothing there.
    ///
    /// # Errors
    /// As [`Recorder::create`], and errors of the writer.
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
        this.is_container = false;
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
        Ok(Self { shared, commands, thread: Some(thread), method: None, is_container: true })
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

    /// Says that messages are missing which nobody has counted, for copies of damaged recordings: in the account of the
    /// closed container it is then unknown what else was published.
    pub fn lacks_messages(&self) {
        self.shared.lacks_messages.store(true, Ordering::Relaxed);
    }

    /// For a copy of a recording: its topics' accounts, in the order in which the topics were added. What the recording
    /// lacks is in the closed container's account as well.
    pub fn inherit(&self, accounts: Vec<Account>) {
        // The first ones stay.
        let _ = self.shared.inherited.set(accounts);
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

    /// Allows the removal of the first `count` splits, when [`Retention::released_only`] is set and a limit is reached.
    pub fn release_splits(&self, count: u32) {
        self.shared.released_splits.fetch_max(count, Ordering::Relaxed);
    }

    /// Writes the ring's messages ([`RecorderOptions::snapshot`]) to the disk.
    ///
    /// # Errors
    /// If the recorder has stopped.
    pub fn snapshot(&self) -> Result<(), RecordError> {
        self.commands.send(Command::Snapshot).map_err(|_| RecordError::Stopped)
    }

    /// Adds a named event with a few words of `text` (or none): to the log times of `span`, both ends
    /// included, or to the present moment. The event is on the medium when this returns. The calling thread
    /// waits for that, the recording does not.
    ///
    /// # Errors
    /// If the name is empty, the name or text too long, the disk refuses, the recorder has stopped, or a bag of
    /// another make is written.
    pub fn event(
        &self,
        name: &str,
        text: &str,
        span: impl Into<Option<(u64, u64)>>,
    ) -> Result<Event, RecordError> {
        let now = || {
            let nanos = self.shared.options.clock.wall_nanos();
            (nanos, nanos)
        };
        let (from_nanos, to_nanos) = span.into().unwrap_or_else(now);
        let event = Event { name: name.to_owned(), text: text.to_owned(), from_nanos, to_nanos };
        events::check(&event)?;
        if !self.is_container {
            return Err(EventError::NoContainer.into());
        }
        let _turn = self.shared.events.lock().unwrap_or_else(PoisonError::into_inner);
        // A container that is closed has no lock any more.
        if self.has_closed() {
            return Err(RecordError::Stopped);
        }
        events::append(&*self.shared.disk, &self.shared.directory, &event)?;
        Ok(event)
    }

    /// Counts and state at the moment.
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// Records messages published until now, closes the container, and returns the final status.
    ///
    /// # Errors
    /// [`RecordError::Failed`] if the recording had ended early. The container is then closed and readable, unless the
    /// text says that closing also failed: then it is recovered when it is next opened.
    pub fn finish(self) -> Result<Status, RecordError> {
        let (status, ended) = self.finish_with_status();
        ended.map(|()| status)
    }

    /// The same, with the final status also if the recording had ended early.
    pub fn finish_with_status(mut self) -> (Status, Result<(), RecordError>) {
        let stopped = self.stop();
        let status = self.status();
        let ended = match (stopped, status.failure.clone()) {
            // The first failure caused the later ones.
            (Err(closing), Some(first)) if !Arc::ptr_eq(&first, &closing) => {
                Err(RecordError::Failed(Arc::new(RecordError::FailedTwice { first, closing })))
            }
            (Err(closing), _) => Err(not_closed(closing)),
            (Ok(()), Some(failure)) => Err(RecordError::Failed(failure)),
            (Ok(()), None) => Ok(()),
        };
        (status, ended)
    }

    /// Starts to close the container, and returns. [`Recorder::status`] shows how much is left to write;
    /// [`Recorder::finish`] waits for the end.
    pub fn close(&self) {
        // An error here means that the thread has ended; joining returns the reason.
        let _ = self.commands.send(Command::Finish);
    }

    /// Whether the container is closed, so that [`Recorder::finish`] returns at once.
    pub fn has_closed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Drops what still waits in memory when the container is closed, and counts it as abandoned. Data already
    /// submitted to the disk (at most about 128 MiB) is still written.
    pub fn abandon(&self) {
        self.shared.abandoned.store(true, Ordering::Relaxed);
    }

    fn stop(&mut self) -> Result<(), Arc<RecordError>> {
        self.close();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().map_err(|_| Arc::new(RecordError::Stopped))?
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            log::error!("closing {} failed: {error}", self.shared.directory.display());
        }
    }
}

/// A backend of the recorder's thread, called in rounds.
trait Machine {
    /// One round; `false` after a command to finish.
    fn turn(&mut self, commands: &Receiver<Command>) -> bool;
    /// The last round: everything published until now, then the ends of all files.
    fn close(self) -> Result<(), Arc<RecordError>>;
}

fn run<M: Machine>(mut machine: M, commands: &Receiver<Command>) -> Result<(), Arc<RecordError>> {
    while machine.turn(commands) {}
    machine.close()
}

/// Lets this process open as many files as the machine allows (`RLIMIT_NOFILE`), for programs that record or read
/// many topics: every topic of a container has its own files, and the usual soft limit of 1,024 is soon reached.
///
/// A program calls it, not the recorder: a process that uses `select` must not have descriptors above 1,023.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Without the right the soft limit stays, and opening a file will say so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
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
    /// Does not allocate once the topic's sizes repeat. It takes the topic's lock for the time of a small message's copy:
    /// a thread that is preempted while it holds that lock delays the call. `Overflow::Block` also waits for room.
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

    /// Records a message with its own log time, for conversions: a [`Message`](livebag_format::Message), or a
    /// [`NewMessage`] whose times may be absent. Log times never decrease within a topic: an earlier one is raised.
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

#[cfg(test)]
mod tests;
