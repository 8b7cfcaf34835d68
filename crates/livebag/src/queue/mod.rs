//! One queue per topic, bounded in bytes, under one budget for all.
//!
//! A message is encoded where it will leave from: small ones straight into the chunk that will
//! hold them, large ones into an aligned block that is their chunk. The recorder's thread takes
//! whole batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use livebag_format::Message;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, message_header};

use crate::clock::Clock;
use crate::limits::{
    CHUNK_BYTES_MAX, MESSAGE_BYTES_MAX, OWN_CHUNK_BYTES_MIN, QUEUE_CREDIT_BYTES,
    SPARE_BLOCK_BYTES_MAX,
};
use crate::storage::Block;

mod extent;

pub use extent::{Extent, OwnedExtent};

mod budget;

pub use budget::Budget;

/// What a full queue does with the next message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Drops it, and counts it as lost in the queue.
    #[default]
    DropNewest,
    /// Drops the oldest messages that are not on their way to the disk yet, and counts those.
    DropOldest,
    /// Makes its writer wait.
    Block,
}

/// Who loses first when memory runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// May take all of the common cache, and is written first.
    Critical,
    /// May take nearly all of it.
    #[default]
    Normal,
    /// May take half of it, and is written last.
    Low,
}

/// How one topic is queued.
#[derive(Clone, Debug, Default)]
pub struct QueueOptions {
    /// What a full queue does.
    pub overflow: Overflow,
    /// Who loses first.
    pub priority: Priority,
    /// Bytes that the topic holds at most; `None`: as many as its share and the common cache give.
    pub bytes_max: Option<u64>,
    /// Messages per second at most; more are left out on purpose.
    pub rate_max_hz: Option<f64>,
    /// Whether gaps in the sequence of messages written in this process are transport losses.
    pub count_gaps: bool,
    /// Whether the queue is a ring whose oldest messages make way for new ones without being lost.
    pub is_ring: bool,
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

impl Queued {
    /// Messages in it.
    pub fn messages(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.entries.len() as u64,
            Self::Own(_) => 1,
        }
    }

    /// Bytes that its topic holds for it.
    pub fn held_bytes(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.records_bytes() as u64,
            Self::Own(extent) => extent.block.len() as u64,
        }
    }

    /// The newest message: its index entry and its bytes.
    pub fn newest(&self) -> Option<(&IndexEntry, &[u8])> {
        match self {
            Self::Batch(batch) => {
                let entry = batch.entries.last()?;
                let start = CHUNK_HEADER_BYTES + entry.inner as usize + MESSAGE_HEADER_BYTES;
                Some((entry, batch.records.get(start..start + entry.data_bytes as usize)?))
            }
            Self::Own(extent) => Some((&extent.entry, extent.data())),
        }
    }

    fn newest_nanos(&self) -> u64 {
        match self {
            Self::Batch(batch) => batch.entries.last().map_or(0, |entry| entry.log_time_nanos),
            Self::Own(extent) => extent.entry.log_time_nanos,
        }
    }
}

#[derive(Default)]
struct State {
    open: Batch,
    ready: VecDeque<Queued>,
    spare: Vec<Batch>,
    /// Memory of large messages that have been written.
    spare_blocks: Vec<Block>,
    /// Bytes taken from the budget and not given back.
    held_bytes: u64,
    /// Those of them beyond the topic's own share.
    common_bytes: u64,
    /// Those of them that no message uses yet.
    credit_bytes: u64,
    /// Size at which the open batch is closed.
    chunk_bytes: usize,
    /// Monotonic time since which something has been waiting.
    waiting_nanos: u64,
    last_log_time_nanos: u64,
    last_sequence: u64,
    /// Log time from which on the next message may come, if the rate is limited.
    due_nanos: u64,
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
    options: QueueOptions,
    budget: Arc<Budget>,
    clock: Clock,
    paused: Arc<AtomicBool>,
    /// Bytes that no other topic can take away.
    share_bytes: AtomicU64,
    state: Mutex<State>,
    taken_bytes: AtomicU64,
    dropped: AtomicU64,
    gaps: AtomicU64,
    skipped: AtomicU64,
}

impl TopicQueue {
    /// An empty queue for MCAP's channel `channel_id`; while `paused`, messages are left out.
    pub fn new(
        topic: String,
        channel_id: u16,
        options: QueueOptions,
        budget: Arc<Budget>,
        clock: Clock,
        paused: Arc<AtomicBool>,
    ) -> Self {
        let share_bytes = budget.add_topic();
        Self {
            topic,
            channel_id,
            options,
            budget,
            clock,
            paused,
            share_bytes: AtomicU64::new(share_bytes),
            state: Mutex::default(),
            taken_bytes: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
        }
    }

    /// How it queues.
    pub fn options(&self) -> &QueueOptions {
        &self.options
    }

    /// Bytes that have entered since it was made: the topic's measured rate.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Sets the bytes that no other topic can take away.
    pub fn set_share(&self, bytes: u64) {
        self.share_bytes.store(bytes, Ordering::Relaxed);
    }

    /// MCAP's channel of the topic.
    pub fn channel_id(&self) -> u16 {
        self.channel_id
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages lost because the queue was full, messages missing in the source's sequence, and
    /// messages left out on purpose.
    pub fn counts(&self) -> [u64; 3] {
        [&self.dropped, &self.gaps, &self.skipped].map(|count| count.load(Ordering::Relaxed))
    }

    /// Whether a message of `log_time_nanos` is wanted: the recording is not paused, and the topic
    /// is not too fast. Messages left out are the caller's to count.
    fn wants(&self, state: &mut State, log_time_nanos: u64) -> bool {
        if self.paused.load(Ordering::Relaxed) {
            return false;
        }
        let Some(rate_max_hz) = self.options.rate_max_hz else { return true };
        if log_time_nanos < state.due_nanos {
            return false;
        }
        let period_nanos = (1e9 / rate_max_hz) as u64;
        // In step with the rate asked for, unless the source has fallen behind by a whole period.
        let late = log_time_nanos - state.due_nanos >= period_nanos;
        state.due_nanos = if late { log_time_nanos } else { state.due_nanos } + period_nanos;
        true
    }

    /// The same for a message that does not pass through this queue.
    pub fn wants_frame(&self) -> bool {
        let now = self.clock.wall_nanos();
        self.wants(&mut self.lock(), now)
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
        self.take_from_budget(&mut self.lock(), bytes)
    }

    /// A source that counts says by a gap what was lost on the way here.
    fn count_gap(&self, state: &mut State, sequence: u64) {
        if !self.options.count_gaps || sequence == 0 {
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
        let mut state = self.lock();
        self.count_gap(&mut state, message.sequence);
        let given = (message.log_time_nanos != 0).then_some(message.log_time_nanos);
        let is_limited = self.options.rate_max_hz.is_some();
        let now = match given {
            Some(nanos) => nanos,
            None if is_limited => self.clock.wall_nanos(),
            None => 0,
        };
        if !self.wants(&mut state, now) {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        self.put(state, message)
    }

    /// The same for a message that is wanted in any case.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn write_wanted(&self, message: &Message<'_>) -> Result<(), WriteError> {
        self.put(self.lock(), message)
    }

    fn put(&self, state: MutexGuard<'_, State>, message: &Message<'_>) -> Result<(), WriteError> {
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
        let mut state = self.take_room(state, bytes)?;
        let now = match message.log_time_nanos {
            0 => self.clock.wall_nanos(),
            nanos => nanos,
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
            if state.ready.is_empty() && state.open.entries.is_empty() {
                state.waiting_nanos = self.clock.monotonic_nanos();
            }
            self.close_open(&mut state);
            let extent =
                OwnedExtent::new(self.channel_id, entry, message.data, state.spare_blocks.pop());
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
            if state.ready.is_empty() {
                state.waiting_nanos = state.open.opened_nanos;
            }
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

    fn take_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        bytes: u64,
    ) -> Result<MutexGuard<'a, State>, WriteError> {
        loop {
            if state.closed {
                return Err(WriteError::Closed { topic: self.topic.clone() });
            }
            if self.take_bytes(&mut state, bytes) {
                return Ok(state);
            }
            let makes_way = self.options.is_ring || self.options.overflow == Overflow::DropOldest;
            if makes_way && self.drop_oldest(&mut state) {
                continue;
            }
            if self.options.overflow == Overflow::Block && !self.options.is_ring {
                drop(state);
                self.budget.wait();
                state = self.lock();
            } else {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return Err(WriteError::Full { topic: self.topic.clone() });
            }
        }
    }

    /// Drops what has waited longest; `false` if nothing waits.
    fn drop_oldest(&self, state: &mut State) -> bool {
        if state.ready.is_empty() {
            self.close_open(state);
        }
        let Some(oldest) = state.ready.pop_front() else { return false };
        if !self.options.is_ring {
            self.dropped.fetch_add(oldest.messages(), Ordering::Relaxed);
        }
        self.give_back(state, oldest.held_bytes());
        true
    }

    /// Lets go of what is older than `nanos` (log time) in a ring.
    pub fn evict_before(&self, nanos: u64) {
        let mut state = self.lock();
        while state.ready.front().is_some_and(|oldest| oldest.newest_nanos() < nanos) {
            self.drop_oldest(&mut state);
        }
    }

    /// Takes room for a message. Small ones take some for their successors too: the budget is
    /// shared by all threads, and touching it for each message would cost more than the message.
    fn take_bytes(&self, state: &mut State, bytes: u64) -> bool {
        self.taken_bytes.store(self.taken_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        if state.credit_bytes >= bytes {
            state.credit_bytes -= bytes;
            return true;
        }
        let wanted = bytes - state.credit_bytes;
        for more in [QUEUE_CREDIT_BYTES, 0] {
            if self.take_from_budget(state, wanted + more) {
                state.credit_bytes = more;
                return true;
            }
        }
        false
    }

    /// Takes from the topic's own share first, then from what all have in common.
    fn take_from_budget(&self, state: &mut State, bytes: u64) -> bool {
        if self.options.bytes_max.is_some_and(|most| state.held_bytes + bytes > most.max(bytes)) {
            return false;
        }
        let own_bytes = state.held_bytes - state.common_bytes;
        let share = self.share_bytes.load(Ordering::Relaxed).saturating_sub(own_bytes);
        let common_bytes = bytes - share.min(bytes);
        if !self.budget.take(bytes, common_bytes, self.options.priority) {
            return false;
        }
        state.held_bytes += bytes;
        state.common_bytes += common_bytes;
        true
    }

    fn give_back(&self, state: &mut State, bytes: u64) {
        let common_bytes = bytes.min(state.common_bytes);
        state.common_bytes -= common_bytes;
        state.held_bytes -= bytes;
        self.budget.give(bytes, common_bytes);
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
    /// (monotonic), but no more than `left` bytes and what exceeds them by one batch.
    pub fn drain(&self, opened_before_nanos: u64, left: &mut u64, out: &mut Vec<Queued>) {
        let mut state = self.lock();
        if !state.open.entries.is_empty() && state.open.opened_nanos <= opened_before_nanos {
            self.close_open(&mut state);
        }
        while *left > 0
            && let Some(queued) = state.ready.pop_front()
        {
            *left = left.saturating_sub(queued.held_bytes());
            out.push(queued);
        }
    }

    /// What waits here: bytes, and since when (monotonic) the oldest of them at the earliest.
    pub fn waiting(&self) -> (u64, Option<u64>) {
        let state = self.lock();
        let ready: u64 = state.ready.iter().map(Queued::held_bytes).sum();
        let bytes = ready + state.open.records_bytes() as u64;
        (bytes, (bytes > 0).then_some(state.waiting_nanos))
    }

    /// Gives back the room of messages that have been written.
    pub fn release(&self, bytes: u64) {
        self.give_back(&mut self.lock(), bytes);
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

    /// Gives back the memory of a large message, to be filled again without a page fault.
    pub fn recycle_block(&self, block: Block) {
        let mut state = self.lock();
        let kept: usize = state.spare_blocks.iter().map(Block::memory_bytes).sum();
        if kept + block.memory_bytes() <= SPARE_BLOCK_BYTES_MAX {
            state.spare_blocks.push(block);
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
