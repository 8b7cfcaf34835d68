//! State shared by the handle and the recorder's threads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use livebag_format::container::ClockJumps;
use livebag_format::{Account, Topic};

use super::status::{Counters, Status, TopicStatus};
use super::{Overflow, RecordError, RecorderOptions};
use crate::limits::TOPICS_MAX;
use crate::queue::{Budget, QueueOptions, TopicQueue};
use crate::source::Selector;
use crate::storage::Disk;

/// What both the handle and the recorder's thread see.
pub(crate) struct Shared {
    pub directory: PathBuf,
    pub disk: Arc<dyn Disk>,
    pub options: RecorderOptions,
    pub budget: Arc<Budget>,
    pub topics: Mutex<Vec<(Arc<Topic>, Arc<Counters>)>>,
    pub paused: Arc<AtomicBool>,
    pub splits: AtomicU32,
    /// So many of the first splits may be removed.
    pub released_splits: AtomicU32,
    pub clock_jumps: Mutex<ClockJumps>,
    pub slot_bytes: AtomicU64,
    channels_given: AtomicU32,
    /// Messages are missing that nobody has counted.
    pub lacks_messages: AtomicBool,
    /// The accounts of a recording that this one is a copy of, by topic.
    pub inherited: OnceLock<Vec<Account>>,
    /// What still waits is to be given up.
    pub abandoned: AtomicBool,
    /// Time until which a reader is assumed, on the clock's monotonic time.
    pub read_until_nanos: AtomicU64,
    failure: OnceLock<Arc<RecordError>>,
    /// Held while an event is appended.
    pub events: Mutex<()>,
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
            released_splits: AtomicU32::new(0),
            clock_jumps: Mutex::default(),
            slot_bytes: AtomicU64::new(0),
            channels_given: AtomicU32::new(0),
            lacks_messages: AtomicBool::new(false),
            inherited: OnceLock::new(),
            abandoned: AtomicBool::new(false),
            read_until_nanos: AtomicU64::new(0),
            failure: OnceLock::new(),
            events: Mutex::default(),
            options,
        }
    }

    /// Log time before which messages are too old for the ring, if there is a ring bounded in time.
    pub fn ring_start_nanos(&self) -> Option<u64> {
        let duration = self.options.snapshot.as_ref()?.duration_max?;
        Some(self.options.clock.wall_nanos().saturating_sub(duration.as_nanos() as u64))
    }

    /// A queue for one more topic, with its own channel.
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

    /// The same for a stream, whose writer never waits: a message that would have to wait for room is dropped there.
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

    /// Counts and state at the moment.
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
            refused: counters.refused.get().cloned(),
        });
        Status {
            topics: topics.collect(),
            cache_bytes: self.budget.used_bytes(),
            slot_bytes: self.slot_bytes.load(Ordering::Acquire),
            paused: self.paused.load(Ordering::Relaxed),
            splits: self.splits.load(Ordering::Relaxed),
            clock_jumps: self.clock_jumps(),
            failure: self.failure().cloned(),
        }
    }

    pub fn clock_jumps(&self) -> ClockJumps {
        *self.clock_jumps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what still waits is to be given up.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Latches a failure; only the first counts.
    pub fn fail(&self, error: impl Into<Arc<RecordError>>) {
        // A later one follows from the first.
        let _ = self.failure.set(error.into());
    }

    /// The first failure.
    pub fn failure(&self) -> Option<&Arc<RecordError>> {
        self.failure.get()
    }

    /// The same for a manifest; empty if there was none.
    pub fn failure_text(&self) -> String {
        self.failure().map_or_else(String::new, |failure| failure.to_string())
    }
}

/// Latches a panic of the thread that holds it as the recording's failure.
pub(super) struct PanicLatch<'a>(pub &'a Shared, pub &'static str);

impl Drop for PanicLatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(RecordError::Fault(self.1));
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
