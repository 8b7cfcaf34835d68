//! The queue of one topic: the way in of `TopicWriter::write`, and of streams' small frames.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use livebag_format::Message;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, message_header};

use super::spares::Spares;
use super::{Batch, Budget, Overflow, OwnedExtent, QueueOptions, Queued, WriteError};
use crate::clock::Clock;
use crate::limits::{MESSAGE_BYTES_MAX, OWN_CHUNK_BYTES_MIN, QUEUE_CREDIT_BYTES};
use crate::storage::Block;

/// Nothing waits.
const NOTHING: u64 = u64::MAX;

#[derive(Default)]
struct State {
    open: Batch,
    ready: VecDeque<Queued>,
    /// Bytes in `ready`.
    ready_bytes: u64,
    /// Those bytes taken from the budget that no message uses yet.
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

impl State {
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.open.entries.is_empty()
    }

    fn push(&mut self, queued: Queued) {
        self.ready_bytes += queued.held_bytes();
        self.ready.push_back(queued);
    }

    fn pop(&mut self) -> Option<Queued> {
        let queued = self.ready.pop_front()?;
        self.ready_bytes -= queued.held_bytes();
        Some(queued)
    }

    /// Monotonic time from which on there is something to take: at once what is ready, the open batch
    /// from its age on.
    fn due_from(&self) -> u64 {
        match (self.ready.is_empty(), self.open.entries.is_empty()) {
            (false, _) => 0,
            (true, false) => self.open.opened_nanos,
            (true, true) => NOTHING,
        }
    }
}

/// The queue of one topic.
///
/// Writers hold its lock while they copy a small message; the recorder holds it while it moves a few
/// pointers, and only when something is due. A large message is copied outside of it.
pub struct TopicQueue {
    topic: String,
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
    state: Mutex<State>,
    spares: Spares,
    /// [`State::due_from`], so that a look at a queue without news is one load.
    due_from_nanos: AtomicU64,
    /// The recorder found a writer in the queue at its last look, and went on.
    missed: AtomicBool,
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
            held_bytes: AtomicU64::new(0),
            common_bytes: AtomicU64::new(0),
            state: Mutex::default(),
            spares: Spares::default(),
            due_from_nanos: AtomicU64::new(NOTHING),
            missed: AtomicBool::new(false),
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
        self.take_from_budget(bytes)
    }

    /// Counts messages that were lost on the way here.
    pub fn lose_in_transport(&self, count: u64) {
        self.gaps.fetch_add(count, Ordering::Relaxed);
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

    /// The same for a message that was recorded before and is to be there once more. Where it finds no
    /// room it is left out: nothing is lost, nothing waits or makes way for it.
    pub fn repeat(&self, message: &Message<'_>) {
        let mut state = self.lock();
        let (own, bytes) = Self::room_for(message);
        if state.closed || !self.take_bytes(&mut state, bytes) {
            return;
        }
        if own {
            drop(state);
            // A queue that has closed meanwhile wants no repeats.
            let _ = self.put_own(message, bytes, true);
        } else {
            self.append(&mut state, message, true);
        }
    }

    /// Whether a message is a chunk of its own, and the bytes that it takes.
    fn room_for(message: &Message<'_>) -> (bool, u64) {
        let own = message.data.len() >= OWN_CHUNK_BYTES_MIN;
        let bytes = match own {
            true => OwnedExtent::bytes_for(message.data.len()),
            false => MESSAGE_HEADER_BYTES + message.data.len(),
        };
        (own, bytes as u64)
    }

    fn put(&self, state: MutexGuard<'_, State>, message: &Message<'_>) -> Result<(), WriteError> {
        if message.data.len() > MESSAGE_BYTES_MAX {
            return Err(WriteError::TooLarge {
                topic: self.topic.clone(),
                bytes: message.data.len(),
                max: MESSAGE_BYTES_MAX,
            });
        }
        let (own, bytes) = Self::room_for(message);
        let mut state = self.take_room(state, bytes)?;
        if !own {
            self.append(&mut state, message, false);
            return Ok(());
        }
        drop(state);
        self.put_own(message, bytes, false)
    }

    /// Puts a large message in, whose room has been taken. It is copied while nobody is kept out, and
    /// has its place in the order, and its log time, from when it is there.
    fn put_own(&self, message: &Message<'_>, bytes: u64, repeated: bool) -> Result<(), WriteError> {
        let mut extent = OwnedExtent::copied(message.data, self.spares.block());
        let mut state = self.lock();
        if state.closed {
            // The recorder has had its last look.
            self.release(bytes);
            return Err(WriteError::Closed { topic: self.topic.clone() });
        }
        let entry = IndexEntry { repeated, ..self.entry_of(&mut state, message) };
        extent.describe(self.channel_id, entry);
        if state.is_empty() {
            state.waiting_nanos = self.clock.monotonic_nanos();
        }
        self.close_open(&mut state);
        state.push(Queued::Own(extent));
        self.note_due(&state);
        Ok(())
    }

    /// Adds a small message to the open batch.
    fn append(&self, state: &mut State, message: &Message<'_>, repeated: bool) {
        let mut entry = IndexEntry { repeated, ..self.entry_of(state, message) };
        if state.open.entries.is_empty() {
            self.open(state, MESSAGE_HEADER_BYTES + message.data.len());
        }
        let batch = &mut state.open;
        entry.inner = batch.records_bytes() as u32;
        batch.records.extend_from_slice(&message_header(
            self.channel_id,
            entry.sequence,
            entry.log_time_nanos,
            entry.publish_time_nanos,
            message.data.len() as u64,
        ));
        batch.records.extend_from_slice(message.data);
        batch.entries.push(entry);
        if batch.records.len() >= state.chunk_bytes {
            self.close_open(state);
        }
        self.note_due(state);
    }

    /// Begins a batch whose first message takes `bytes`, with room for the chunk, its last message and
    /// its index at once: nothing grows by copying.
    fn open(&self, state: &mut State, bytes: usize) {
        state.open = self.spares.batch();
        state.chunk_bytes = self.budget.chunk_bytes();
        let room = state.chunk_bytes + bytes;
        state.open.records.reserve(room + room / 4);
        state.open.records.resize(CHUNK_HEADER_BYTES, 0);
        state.open.entries.reserve(state.chunk_bytes / bytes + 1);
        state.open.opened_nanos = self.clock.monotonic_nanos();
        if state.ready.is_empty() {
            state.waiting_nanos = state.open.opened_nanos;
        }
    }

    /// What the index will say of a message that enters now.
    fn entry_of(&self, state: &mut State, message: &Message<'_>) -> IndexEntry {
        let now = match message.log_time_nanos {
            0 => self.clock.wall_nanos(),
            nanos => nanos,
        };
        let log_time_nanos = now.max(state.last_log_time_nanos);
        state.last_log_time_nanos = log_time_nanos;
        IndexEntry {
            log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            sequence: message.sequence,
            data_bytes: message.data.len() as u32,
            ..IndexEntry::default()
        }
    }

    /// Only with the state's lock: what is stored last holds.
    fn note_due(&self, state: &State) {
        self.due_from_nanos.store(state.due_from(), Ordering::Relaxed);
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
        let Some(oldest) = state.pop() else { return false };
        if !self.options.is_ring {
            self.dropped.fetch_add(oldest.published(), Ordering::Relaxed);
        }
        self.note_due(state);
        self.release(oldest.held_bytes());
        self.spares.give(oldest);
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
            if self.take_from_budget(wanted + more) {
                state.credit_bytes = more;
                return true;
            }
        }
        false
    }

    /// Takes from the topic's own share first, then from what all have in common.
    fn take_from_budget(&self, bytes: u64) -> bool {
        // Only what is given back can change these meanwhile, which leaves more room and not less:
        // who takes has the state's lock, or is the recorder of a stream.
        let held_bytes = self.held_bytes.load(Ordering::Relaxed);
        if self.options.bytes_max.is_some_and(|most| held_bytes + bytes > most.max(bytes)) {
            return false;
        }
        let own_bytes = held_bytes.saturating_sub(self.common_bytes.load(Ordering::Relaxed));
        let share = self.share_bytes.load(Ordering::Relaxed).saturating_sub(own_bytes);
        let common_bytes = bytes - share.min(bytes);
        if !self.budget.take(bytes, common_bytes, self.options.priority) {
            return false;
        }
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.common_bytes.fetch_add(common_bytes, Ordering::Relaxed);
        true
    }

    /// Gives back the room of messages that have been written.
    pub fn release(&self, bytes: u64) {
        let less = |common: u64| Some(common - common.min(bytes));
        let common = &self.common_bytes;
        let before = common.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let common_bytes = before.unwrap_or_else(|common| common).min(bytes);
        self.held_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.give(bytes, common_bytes);
    }

    fn close_open(&self, state: &mut State) {
        if !state.open.entries.is_empty() {
            let batch = std::mem::take(&mut state.open);
            state.push(Queued::Batch(batch));
        }
    }

    /// Takes what is ready, and the open batch too if it was opened before `opened_before_nanos`
    /// (monotonic), but no more than `left` bytes and what exceeds them by one batch. `out` is empty.
    ///
    /// A writer that is in the queue just now is not waited for, unless that was so at the last look
    /// as well, or everything is asked for.
    pub fn drain(&self, opened_before_nanos: u64, left: &mut u64, out: &mut VecDeque<Queued>) {
        debug_assert!(out.is_empty());
        let takes_all = opened_before_nanos == u64::MAX;
        if !takes_all && self.due_from_nanos.load(Ordering::Relaxed) > opened_before_nanos {
            return;
        }
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if takes_all || self.missed.load(Ordering::Relaxed) => {
                self.lock()
            }
            Err(TryLockError::WouldBlock) => return self.missed.store(true, Ordering::Relaxed),
        };
        self.missed.store(false, Ordering::Relaxed);
        if !state.open.entries.is_empty() && state.open.opened_nanos <= opened_before_nanos {
            self.close_open(&mut state);
        }
        if state.ready_bytes <= *left {
            *left -= std::mem::take(&mut state.ready_bytes);
            std::mem::swap(&mut state.ready, out);
        }
        while *left > 0
            && let Some(queued) = state.pop()
        {
            *left = left.saturating_sub(queued.held_bytes());
            out.push_back(queued);
        }
        self.note_due(&state);
        drop(state);
        if let Some(Queued::Own(extent)) = out.back() {
            self.spares.prepare_blocks(extent.block.len());
        }
    }

    /// What waits here: bytes, and since when (monotonic) the oldest of them at the earliest.
    pub fn waiting(&self) -> (u64, Option<u64>) {
        if self.due_from_nanos.load(Ordering::Relaxed) == NOTHING {
            return (0, None);
        }
        let state = self.lock();
        let bytes = state.ready_bytes + state.open.records_bytes() as u64;
        (bytes, (bytes > 0).then_some(state.waiting_nanos))
    }

    /// Gives back the memory of what has been taken.
    pub fn recycle(&self, queued: Queued) {
        self.spares.give(queued);
    }

    /// Gives back the memory of a chunk of small messages.
    pub fn recycle_records(&self, records: Vec<u8>) {
        self.spares.give_records(records);
    }

    /// Gives back the memory of a chunk's index entries.
    pub fn recycle_entries(&self, entries: Vec<IndexEntry>) {
        self.spares.give_entries(entries);
    }

    /// Gives back the memory of a large message.
    pub fn recycle_block(&self, block: Block) {
        self.spares.give_block(block);
    }

    /// Takes no more messages.
    pub fn close(&self) {
        self.lock().closed = true;
        self.budget.wake();
    }
}
