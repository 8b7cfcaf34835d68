//! One queue per topic, bounded in bytes, under one budget for all.
//!
//! A message is encoded where it will leave from: small ones straight into the chunk that will
//! hold them, large ones into an aligned block that is their chunk. The recorder's thread takes
//! whole batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use livebag_format::Message;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, message_header};

use crate::clock::Clock;
use crate::limits::{
    CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, MESSAGE_BYTES_MAX, OWN_CHUNK_BYTES_MIN, QUEUE_CREDIT_BYTES,
    TOPIC_BYTES_MIN,
};

mod extent;

pub use extent::{Extent, OwnedExtent};

/// What a full queue does with the next message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drops it, and counts it as lost in the queue.
    #[default]
    DropNewest,
    /// Makes its writer wait.
    Block,
}

/// Memory shared by all queues of a recorder.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    used_bytes: AtomicU64,
    topics: AtomicU32,
    /// Writers waiting for room, of whatever topic: what one gives back may serve another.
    waiting: AtomicU32,
    gate: Mutex<()>,
    room: Condvar,
}

impl Budget {
    /// At most `bytes_max` in memory at once, all topics together.
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            used_bytes: AtomicU64::new(0),
            topics: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            gate: Mutex::new(()),
            room: Condvar::new(),
        })
    }

    /// Bytes in memory now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes` if they fit, or if the topic, holding `topic_bytes`, is within its own share.
    pub fn take(&self, bytes: u64, topic_bytes: u64) -> bool {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = used + bytes <= self.bytes_max || topic_bytes + bytes <= TOPIC_BYTES_MIN;
        if !fits {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Gives `bytes` back.
    pub fn give(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::SeqCst);
        self.wake();
    }

    /// Lets waiting writers look again. Notifying is a system call even when nobody waits.
    fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.room.notify_all();
        }
    }

    /// Waits until room has been given back, or a little while.
    fn wait(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // Room given back before the line above has woken nobody: the time limit makes up for it.
        let limit = crate::limits::POLL_MAX;
        let waited = self.room.wait_timeout(gate, limit).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(waited);
    }

    /// Size at which a topic's chunk is closed: all open chunks take a sixteenth of the budget, so
    /// that hundreds of them stay in the processor's cache.
    fn chunk_bytes(&self) -> usize {
        let topics = u64::from(self.topics.load(Ordering::Relaxed)).max(1);
        let share = (self.bytes_max / (16 * topics)) as usize;
        share.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
    }
}

/// Small messages on their way into one chunk.
#[derive(Debug, Default)]
pub struct Batch {
    /// Room for the chunk's header, then the message records.
    pub records: Vec<u8>,
    /// One entry per message; `offset` is not known yet.
    pub entries: Vec<IndexEntry>,
    /// Monotonic time of the first message.
    pub opened_nanos: u64,
}

impl Batch {
    fn clear(&mut self) {
        self.records.clear();
        self.entries.clear();
    }

    /// Length of the message records.
    pub fn records_bytes(&self) -> usize {
        self.records.len().saturating_sub(CHUNK_HEADER_BYTES)
    }
}

/// What the recorder takes out of a queue.
pub enum Queued {
    /// Messages for one chunk.
    Batch(Batch),
    /// A message that is a chunk of its own.
    Own(OwnedExtent),
}

#[derive(Default)]
struct State {
    open: Batch,
    ready: VecDeque<Queued>,
    spare: Vec<Batch>,
    /// Bytes taken from the budget and not given back.
    held_bytes: u64,
    /// Those of them that no message uses yet.
    credit_bytes: u64,
    /// Size at which the open batch is closed.
    chunk_bytes: usize,
    last_log_time_nanos: u64,
    last_sequence: u64,
    closed: bool,
}

/// Why a message did not enter its queue.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// The queue was full: the message is counted as lost in the queue.
    #[error("the queue of topic {topic} is full: the message was dropped and counted")]
    Full {
        /// The topic.
        topic: String,
    },
    /// The recorder has stopped taking messages.
    #[error("the recorder has stopped; topic {topic} takes no more messages")]
    Closed {
        /// The topic.
        topic: String,
    },
    /// No format here can hold it.
    #[error("a message of {bytes} B on topic {topic} is larger than the limit of {max} B")]
    TooLarge {
        /// The topic.
        topic: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

/// The queue of one topic.
pub struct TopicQueue {
    topic: String,
    channel_id: u16,
    overflow: Overflow,
    budget: Arc<Budget>,
    clock: Clock,
    count_gaps: bool,
    state: Mutex<State>,
    dropped: AtomicU64,
    gaps: AtomicU64,
}

impl TopicQueue {
    /// An empty queue for MCAP's channel `channel_id`.
    pub fn new(
        topic: String,
        channel_id: u16,
        overflow: Overflow,
        budget: Arc<Budget>,
        clock: Clock,
        count_gaps: bool,
    ) -> Self {
        budget.topics.fetch_add(1, Ordering::Relaxed);
        Self {
            topic,
            channel_id,
            overflow,
            budget,
            clock,
            count_gaps,
            state: Mutex::default(),
            dropped: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
        }
    }

    /// MCAP's channel of the topic.
    pub fn channel_id(&self) -> u16 {
        self.channel_id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages lost because the queue was full, and messages missing in the source's sequence.
    pub fn losses(&self) -> (u64, u64) {
        (self.dropped.load(Ordering::Relaxed), self.gaps.load(Ordering::Relaxed))
    }

    /// Log time for a message that does not pass through this queue; never smaller than that of
    /// the message before.
    pub fn stamp(&self) -> u64 {
        let mut state = self.lock();
        let log_time_nanos = self.clock.wall_nanos().max(state.last_log_time_nanos);
        state.last_log_time_nanos = log_time_nanos;
        log_time_nanos
    }

    /// Takes room for a copy made outside; [`TopicQueue::release`] gives it back.
    pub fn take(&self, bytes: u64) -> bool {
        let mut state = self.lock();
        let fits = self.budget.take(bytes, state.held_bytes);
        state.held_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// A source that counts says by a gap what was lost on the way here.
    fn count_gap(&self, state: &mut State, sequence: u64) {
        if !self.count_gaps || sequence == 0 {
            return;
        }
        if state.last_sequence != 0 && sequence > state.last_sequence + 1 {
            self.gaps.fetch_add(sequence - state.last_sequence - 1, Ordering::Relaxed);
        }
        state.last_sequence = sequence;
    }

    /// Copies a message in. A log time of 0 means now; log times never decrease within a topic, an
    /// earlier one is raised to that of the message before.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn write(&self, message: &Message<'_>) -> Result<(), WriteError> {
        if message.data.len() > MESSAGE_BYTES_MAX {
            return Err(WriteError::TooLarge {
                topic: self.topic.clone(),
                bytes: message.data.len(),
                max: MESSAGE_BYTES_MAX,
            });
        }
        let own_chunk = message.data.len() >= OWN_CHUNK_BYTES_MIN;
        let bytes = if own_chunk {
            OwnedExtent::bytes_for(message.data.len()) as u64
        } else {
            (MESSAGE_HEADER_BYTES + message.data.len()) as u64
        };
        let mut state = self.take_room(bytes, message.sequence)?;
        let now = if message.log_time_nanos == 0 {
            self.clock.wall_nanos()
        } else {
            message.log_time_nanos
        };
        let log_time_nanos = now.max(state.last_log_time_nanos);
        state.last_log_time_nanos = log_time_nanos;
        let mut entry = IndexEntry {
            log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            sequence: message.sequence,
            data_bytes: message.data.len() as u32,
            ..IndexEntry::default()
        };
        if own_chunk {
            self.close_open(&mut state);
            let extent = OwnedExtent::new(self.channel_id, entry, message.data);
            state.ready.push_back(Queued::Own(extent));
            return Ok(());
        }
        if state.open.records.is_empty() {
            // Room for the chunk, its last message and its index at once: nothing grows by copying.
            state.chunk_bytes = self.budget.chunk_bytes();
            let room = state.chunk_bytes + message.data.len();
            state.open.records.reserve(room + room / 4);
            state.open.records.resize(CHUNK_HEADER_BYTES, 0);
            let messages = state.chunk_bytes / bytes as usize + 1;
            state.open.entries.reserve(messages);
            state.open.opened_nanos = self.clock.monotonic_nanos();
        }
        let batch = &mut state.open;
        entry.inner = batch.records_bytes() as u32;
        batch.records.extend_from_slice(&message_header(
            self.channel_id,
            entry.sequence,
            log_time_nanos,
            entry.publish_time_nanos,
            message.data.len() as u64,
        ));
        batch.records.extend_from_slice(message.data);
        batch.entries.push(entry);
        if batch.records.len() >= state.chunk_bytes {
            self.close_open(&mut state);
        }
        Ok(())
    }

    fn take_room(&self, bytes: u64, sequence: u64) -> Result<MutexGuard<'_, State>, WriteError> {
        let mut state = self.lock();
        self.count_gap(&mut state, sequence);
        loop {
            if state.closed {
                return Err(WriteError::Closed { topic: self.topic.clone() });
            }
            if self.take_bytes(&mut state, bytes) {
                return Ok(state);
            }
            match self.overflow {
                Overflow::DropNewest => {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                    return Err(WriteError::Full { topic: self.topic.clone() });
                }
                Overflow::Block => {
                    drop(state);
                    self.budget.wait();
                    state = self.lock();
                }
            }
        }
    }

    /// Takes room for a message. Small ones take some for their successors too: the budget is
    /// shared by all threads, and touching it for each message would cost more than the message.
    fn take_bytes(&self, state: &mut State, bytes: u64) -> bool {
        if state.credit_bytes >= bytes {
            state.credit_bytes -= bytes;
            return true;
        }
        let wanted = bytes - state.credit_bytes;
        for more in [QUEUE_CREDIT_BYTES, 0] {
            if self.budget.take(wanted + more, state.held_bytes) {
                state.held_bytes += wanted + more;
                state.credit_bytes = more;
                return true;
            }
        }
        false
    }

    fn close_open(&self, state: &mut State) {
        if state.open.entries.is_empty() {
            return;
        }
        let fresh = state.spare.pop().unwrap_or_default();
        let batch = std::mem::replace(&mut state.open, fresh);
        state.ready.push_back(Queued::Batch(batch));
    }

    /// Takes what is ready, and the open batch too if it was opened before `opened_before_nanos`
    /// (monotonic).
    pub fn drain(&self, opened_before_nanos: u64, out: &mut Vec<Queued>) {
        let mut state = self.lock();
        if !state.open.entries.is_empty() && state.open.opened_nanos <= opened_before_nanos {
            self.close_open(&mut state);
        }
        out.extend(state.ready.drain(..));
    }

    /// Gives back the room of messages that have been written.
    pub fn release(&self, bytes: u64) {
        self.lock().held_bytes -= bytes;
        self.budget.give(bytes);
    }

    /// Gives back the memory of a batch, to be filled again without a page fault.
    pub fn recycle(&self, mut batch: Batch) {
        if batch.records.capacity() <= 2 * CHUNK_BYTES_MAX {
            batch.clear();
            let mut state = self.lock();
            if state.spare.len() < 2 {
                state.spare.push(batch);
            }
        }
    }

    /// Takes no more messages.
    pub fn close(&self) {
        self.lock().closed = true;
        self.budget.wake();
    }
}

#[cfg(test)]
mod tests;
