//! The queue of one topic: behind `TopicWriter::write`, and for small frames of streams.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use livebag_format::index::IndexEntry;
use livebag_format::mcap::MESSAGE_HEADER_BYTES;

use super::block_pool::BlockPool;
use super::waiting::{Waiting, finalize_headers};
use super::{Budget, NewMessage, Overflow, OwnedExtent, QueueOptions, Queued, WriteError};
use crate::clock::Clock;
use crate::limits::{MESSAGE_BYTES_MAX, OWN_CHUNK_BYTES_MIN};
use crate::storage::Block;

mod room;

/// No more messages are taken.
struct Closed;

/// The queue of one topic.
///
/// Room is reserved in the budget by atomic operations. What waits is under a lock, which is held while a small message
/// is copied, or while batches are moved. Large messages are copied outside of it.
pub struct TopicQueue {
    topic: Arc<str>,
    channel_id: u16,
    options: QueueOptions,
    budget: Arc<Budget>,
    clock: Clock,
    paused: Arc<AtomicBool>,
    /// Bytes that no other topic can take away.
    share_bytes: AtomicU64,
    /// Bytes taken from the budget and not given back.
    held_bytes: AtomicU64,
    /// Those of them beyond the topic's own share.
    common_bytes: AtomicU64,
    /// Those of them that no message uses yet. Below zero until a writer notices that it took too much.
    credit_bytes: AtomicI64,
    waiting: Mutex<Waiting>,
    /// Changes under the lock.
    is_closed: AtomicBool,
    block_pool: BlockPool,
    last_sequence: AtomicU64,
    /// Log time from which on the next message may come, if the rate is limited.
    due_nanos: AtomicU64,
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
            topic: topic.into(),
            channel_id,
            options,
            budget,
            clock,
            paused,
            share_bytes: AtomicU64::new(share_bytes),
            held_bytes: AtomicU64::new(0),
            common_bytes: AtomicU64::new(0),
            credit_bytes: AtomicI64::new(0),
            waiting: Mutex::default(),
            is_closed: AtomicBool::new(false),
            block_pool: BlockPool::default(),
            last_sequence: AtomicU64::new(0),
            due_nanos: AtomicU64::new(0),
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

    /// Bytes that have entered since it was made, or found no room: the topic's measured rate.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Relaxed)
    }

    /// Sets the bytes that no other topic can take away.
    pub fn set_share(&self, bytes: u64) {
        self.share_bytes.store(bytes, Relaxed);
        self.trim_credit();
        // Two that gave back at once may have left more of the common part than is held at all.
        self.give_back(0);
    }

    /// MCAP's channel of the topic.
    pub fn channel_id(&self) -> u16 {
        self.channel_id
    }

    /// Messages lost because the queue was full, messages missing in the source's sequence, and
    /// messages left out on purpose.
    pub fn counts(&self) -> [u64; 3] {
        [&self.dropped, &self.gaps, &self.skipped].map(|count| count.load(Relaxed))
    }

    /// Whether a message is wanted: the recording is not paused, and the topic is not too fast. The log time
    /// is asked for only where the rate is limited. Messages left out are the caller's to count.
    fn wants(&self, log_time_nanos: impl FnOnce() -> u64) -> bool {
        if self.paused.load(Relaxed) {
            return false;
        }
        let Some(rate_max_hz) = self.options.rate_max_hz else { return true };
        let log_time_nanos = log_time_nanos();
        let due_nanos = self.due_nanos.load(Relaxed);
        if log_time_nanos < due_nanos {
            return false;
        }
        let period_nanos = (1e9 / rate_max_hz) as u64;
        // In step with the rate asked for, unless the source has fallen behind by a whole period.
        let late = log_time_nanos - due_nanos >= period_nanos;
        let next_nanos = if late { log_time_nanos } else { due_nanos } + period_nanos;
        // Of messages that come at the same moment on several threads, one is on time.
        self.due_nanos.compare_exchange(due_nanos, next_nanos, Relaxed, Relaxed).is_ok()
    }

    /// The same for a message that does not pass through this queue.
    pub fn wants_frame(&self) -> bool {
        self.wants(|| self.clock.wall_nanos())
    }

    /// Log time for a message that does not pass through this queue; never smaller than that of
    /// the message before.
    pub fn stamp(&self) -> u64 {
        self.lock().raise(self.clock.wall_nanos())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for a copy made outside; [`TopicQueue::release`] gives it back.
    pub fn take(&self, bytes: u64) -> bool {
        self.take_from_budget(bytes, bytes)
    }

    /// Counts messages that were lost on the way here.
    pub fn lose_in_transport(&self, count: u64) {
        self.gaps.fetch_add(count, Relaxed);
    }

    /// A gap in the source's sequence counts messages lost before they arrived here.
    fn count_gap(&self, sequence: u64) {
        if !self.options.count_gaps || sequence == 0 {
            return;
        }
        let last = self.last_sequence.swap(sequence, Relaxed);
        if last != 0 && sequence > last + 1 {
            self.gaps.fetch_add(sequence - last - 1, Relaxed);
        }
    }

    /// Copies a message in. Log times never decrease within a topic: an earlier one is raised to that of
    /// the message before.
    ///
    /// Waits for room only with [`Overflow::Block`]. It takes the queue's lock: a thread that is preempted while it holds
    /// the lock delays the call.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn write(&self, message: &NewMessage<'_>) -> Result<(), WriteError> {
        self.count_gap(message.sequence);
        if !self.wants(|| message.log_time_nanos.unwrap_or_else(|| self.clock.wall_nanos())) {
            self.skipped.fetch_add(1, Relaxed);
            return Ok(());
        }
        self.write_wanted(message)
    }

    /// The same for a message that is wanted in any case.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn write_wanted(&self, message: &NewMessage<'_>) -> Result<(), WriteError> {
        if message.data.len() > MESSAGE_BYTES_MAX {
            return Err(WriteError::TooLarge {
                topic: self.topic.clone(),
                bytes: message.data.len(),
                max: MESSAGE_BYTES_MAX,
            });
        }
        let waits = self.options.overflow == Overflow::Block && !self.options.is_ring;
        loop {
            if self.is_closed.load(Relaxed) {
                return Err(self.closed());
            }
            if self.take_room(Self::room_for(message).1) {
                return self.enter(message, false).map_err(|Closed| self.closed());
            }
            if !waits {
                return Err(self.full());
            }
            self.budget.wait();
        }
    }

    fn closed(&self) -> WriteError {
        WriteError::Closed { topic: self.topic.clone() }
    }

    /// Counts a message as lost.
    fn full(&self) -> WriteError {
        self.dropped.fetch_add(1, Relaxed);
        WriteError::Full { topic: self.topic.clone() }
    }

    /// The same for a frame, and without waiting for room.
    ///
    /// # Errors
    /// If there is no room, or the queue is closed. It counts as lost then.
    pub fn write_frame(&self, message: &NewMessage<'_>) -> Result<(), WriteError> {
        let fits = !self.is_closed.load(Relaxed) && self.take_room(Self::room_for(message).1);
        match fits && self.enter(message, false).is_ok() {
            true => Ok(()),
            false => Err(self.full()),
        }
    }

    /// The same for a message that was recorded before and is to be there once more. Without room it is left out:
    /// nothing is lost, and no message waits or is evicted for it.
    pub fn repeat(&self, message: &NewMessage<'_>) {
        if !self.is_closed.load(Relaxed) && self.take_bytes(Self::room_for(message).1) {
            // A queue that has been closed meanwhile does not accept it either.
            let _ = self.enter(message, true);
        }
    }

    /// Whether a message gets its own chunk, and the bytes that it needs.
    fn room_for(message: &NewMessage<'_>) -> (bool, u64) {
        let own = message.data.len() >= OWN_CHUNK_BYTES_MIN;
        let bytes = match own {
            true => OwnedExtent::bytes_for(message.data.len()),
            false => MESSAGE_HEADER_BYTES + message.data.len(),
        };
        (own, bytes as u64)
    }

    /// Inserts a message whose room has been reserved. A large one is copied first, so that later messages do not wait
    /// for the copy, and gets its log time after the copy.
    fn enter(&self, message: &NewMessage<'_>, repeated: bool) -> Result<(), Closed> {
        let (own, bytes) = Self::room_for(message);
        let extent = own.then(|| {
            let spare = self.block_pool.block(bytes as usize);
            OwnedExtent::copied(message.data, spare)
        });
        let mut waiting = self.lock();
        if self.is_closed.load(Relaxed) {
            drop(waiting);
            self.credit_bytes.fetch_add(bytes as i64, Relaxed);
            if let Some(extent) = extent {
                self.block_pool.give_block(extent.block);
            }
            return Err(Closed);
        }
        let log_time_nanos = message.log_time_nanos.unwrap_or_else(|| self.clock.wall_nanos());
        let entry = IndexEntry {
            log_time_nanos,
            publish_time_nanos: message.publish_time_nanos.unwrap_or(log_time_nanos),
            sequence: message.sequence,
            data_bytes: message.data.len() as u32,
            repeated,
            ..IndexEntry::default()
        };
        let now = self.clock.monotonic_nanos();
        match extent {
            Some(extent) => waiting.push_own(entry, extent, now),
            None => waiting.push_small(entry, message.data, (self.budget.chunk_bytes(), now)),
        }
        drop(waiting);
        self.taken_bytes.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Takes ended batches and large messages, and the open batch too if it was opened before `opened_before_nanos`
    /// (monotonic), but at most `left` bytes plus one batch. `out` is empty.
    pub fn drain(&self, opened_before_nanos: u64, left: &mut u64, out: &mut VecDeque<Queued>) {
        debug_assert!(out.is_empty());
        let mut waiting = self.lock();
        if waiting.open_since_nanos().is_some_and(|since| since <= opened_before_nanos) {
            waiting.end_open();
        }
        while *left > 0
            && let Some(item) = waiting.pop()
        {
            *left = left.saturating_sub(item.queued.held_bytes());
            out.push_back(item.queued);
        }
        drop(waiting);
        out.iter_mut().for_each(|queued| finalize_headers(self.channel_id, queued));
        self.trim_credit();
        if let Some(Queued::Own(extent)) = out.back() {
            self.block_pool.prepare_blocks(extent.block.len());
        }
    }

    /// What waits here: bytes, and since when (monotonic) the oldest of them at the earliest.
    pub fn waiting(&self) -> (u64, Option<u64>) {
        let waiting = self.lock();
        (waiting.bytes(), waiting.since_nanos())
    }

    /// Returns the memory of taken messages.
    pub fn recycle(&self, queued: Queued) {
        match queued {
            Queued::Batch(batch) => self.recycle_records(batch.records),
            Queued::Own(extent) => self.recycle_block(extent.block),
        }
    }

    /// Gives back the memory of a chunk of small messages.
    pub fn recycle_records(&self, records: Vec<u8>) {
        self.lock().keep_records(records);
    }

    /// Gives back the memory of a large message.
    pub fn recycle_block(&self, block: Block) {
        self.block_pool.give_block(block);
    }

    /// Takes no more messages.
    pub fn close(&self) {
        let waiting = self.lock();
        self.is_closed.store(true, Relaxed);
        drop(waiting);
        self.budget.wake();
    }
}
