//! Counters of a recording.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use livebag_format::Account;
use livebag_format::container::{ClockJumps, Losses};

use super::RecordError;

/// Counters of a topic, readable from any thread.
#[derive(Debug, Default)]
pub(super) struct Counters {
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
    /// Why its files could not be made.
    pub refused: OnceLock<Arc<RecordError>>,
}

impl Counters {
    pub fn losses(&self) -> Losses {
        Losses {
            transport: self.transport.load(Ordering::Relaxed),
            queue: self.queue.load(Ordering::Relaxed),
            lapped: self.lapped.load(Ordering::Relaxed),
            disk: self.disk.load(Ordering::Relaxed),
            abandoned: self.abandoned.load(Ordering::Relaxed),
        }
    }
}

/// State of a topic while it is being recorded.
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
    /// Published were `messages - repeated + lost`, plus skipped ones.
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
    /// Why its files could not be made, if they could not: its messages are lost to the disk until they can be
    /// made, which is tried once a second.
    pub refused: Option<Arc<RecordError>>,
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

/// The state of a recorder.
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
    /// How often the wall clock was set while recording, and by how many nanoseconds at most.
    pub clock_jumps: ClockJumps,
    /// The first failure, which ended the recording.
    pub failure: Option<Arc<RecordError>>,
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
