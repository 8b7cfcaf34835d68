//! The queue of one topic: behind `TopicWriter::write`, and for small frames of streams.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES};

use super::block_pool::BlockPool;
use super::held::{Held, Order};
use super::inlet::{Inlet, Outlet, Refused, Reserved, SEGMENTS};
use super::{Budget, NewMessage, Overflow, OwnedExtent, QueueOptions, Queued, WriteError};
use crate::clock::Clock;
use crate::limits::{
    CHUNK_BYTES_MIN, MESSAGE_BYTES_MAX, OWN_CHUNK_BYTES_MIN, POLL_MIN, SEGMENT_TOUCHED_BYTES,
    SEGMENTS_AHEAD_MIN, SPARE_BATCHES_MAX,
};
use crate::storage::Block;

/// How often a writer tries the outlet, or drops the oldest message, before it sleeps or drops its message …
const TRIES: usize = 64;
/// … and how long it spins in between: together less than a tenth of a millisecond.
const SPINS: usize = 16;
/// How often it then sleeps for [`POLL_MIN`], so that a preempted holder of the outlet can run: a time slice of the
/// kernel's scheduler (about 3 ms) and a little more.
const NAPS: usize = 10;
/// Attempts to get a topic's very first memory.
const FIRST_LOOKS_MAX: usize = 10_000;

mod room;

type Way = Inlet<OwnedExtent, Held>;
type WayOut<'a> = Outlet<'a, OwnedExtent, Held>;

/// What to do with a message without prepared memory, while a preempted thread holds the outlet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Sleeps for a few milliseconds.
    Naps,
    /// Is refused.
    None,
}

/// Result of a writer's attempt to get memory for another segment.
enum Help {
    Done,
    /// Another thread holds the outlet.
    Busy,
    /// All segments are full, and the first of them has not been committed.
    Stuck,
}

/// The queue of one topic.
///
/// Writers come in by the wait-free [`Inlet`]. Only the recorder uses its outlet, except for writers that find no
/// prepared memory in a burst, or that evict the oldest messages. Those try its lock a bounded number of times (the
/// former with a few short sleeps), and drop their message if they do not get it.
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
    inlet: Way,
    /// Only the recorder's threads.
    order: Mutex<Order>,
    block_pool: BlockPool,
    /// Whether items taken from the inlet are waiting; changes under the outlet's lock.
    is_held: AtomicBool,
    /// The recorder found a writer at the outlet at its last look, and went on.
    missed: AtomicBool,
    /// A writer has slept in vain, and the outlet has not been free since: no other sleeps.
    is_stopped: AtomicBool,
    /// Largest record of a small message, so that segments have room for it.
    record_bytes: AtomicU64,
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
            inlet: Inlet::new(Held::default()),
            order: Mutex::default(),
            block_pool: BlockPool::default(),
            is_held: AtomicBool::new(false),
            missed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            record_bytes: AtomicU64::new(Way::OWN_RECORD_BYTES as u64),
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

    /// Whether something is over that could not be taken yet, as a writer is copying into it.
    pub fn is_behind(&self) -> bool {
        self.inlet.ended() > 0
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
        let mut order = self.order();
        if self.inlet.is_used() {
            // Earlier messages get their log times first.
            let mut outlet = self.inlet.outlet();
            self.end_open(&mut outlet);
            self.collect(&mut outlet);
            outlet.items_mut().for_each(|item| order.finalize_headers(self.channel_id, item));
        }
        let log_time_nanos = self.clock.wall_nanos().max(order.last_log_time_nanos);
        order.last_log_time_nanos = log_time_nanos;
        log_time_nanos
    }

    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Wait-free (see the module) unless the topic's overflow is [`Overflow::Block`] and there is no room. In a burst
    /// that has used up the prepared segments, and with the recorder stopped at the outlet, it sleeps for at most about
    /// 5 ms before it drops the message; the next calls do not sleep.
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
            let entered = match self.inlet.is_closed() {
                true => Err(Refused::Closed),
                false if self.take_room(Self::room_for(message).1) => {
                    self.enter(message, false, Patience::Naps)
                }
                false => Err(Refused::NoSegment),
            };
            match entered {
                Ok(()) => return Ok(()),
                Err(Refused::Closed) => {
                    return Err(WriteError::Closed { topic: self.topic.clone() });
                }
                Err(Refused::NoSegment | Refused::Contended) if waits => self.budget.wait(),
                Err(Refused::NoSegment | Refused::Contended) => {
                    self.dropped.fetch_add(1, Relaxed);
                    return Err(WriteError::Full { topic: self.topic.clone() });
                }
            }
        }
    }

    /// The same for a frame that its slot still holds, and without waiting. `false` if there is room for it, but no
    /// prepared memory, and a preempted thread that holds the outlet would have to prepare it: the frame can be offered
    /// again.
    ///
    /// # Errors
    /// If there is no room. It counts as lost then.
    pub fn write_frame(&self, message: &NewMessage<'_>) -> Result<bool, WriteError> {
        if !self.inlet.is_closed() && self.take_room(Self::room_for(message).1) {
            return Ok(self.enter(message, false, Patience::None).is_ok());
        }
        self.dropped.fetch_add(1, Relaxed);
        Err(WriteError::Full { topic: self.topic.clone() })
    }

    /// The same for a message that was recorded before and is to be there once more. Without room it is left out:
    /// nothing is lost, and no message waits or is evicted for it.
    pub fn repeat(&self, message: &NewMessage<'_>) {
        if !self.inlet.is_closed() && self.take_bytes(Self::room_for(message).1) {
            // A closed queue does not accept it either.
            let _ = self.enter(message, true, Patience::None);
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
    fn enter(
        &self,
        message: &NewMessage<'_>,
        repeated: bool,
        patience: Patience,
    ) -> Result<(), Refused> {
        let (own, bytes) = Self::room_for(message);
        let spare = own.then(|| self.block_pool.block(bytes as usize));
        let extent = spare.map(|spare| OwnedExtent::copied(message.data, spare));
        let log_time_nanos = message.log_time_nanos.unwrap_or_else(|| self.clock.wall_nanos());
        let entry = IndexEntry {
            log_time_nanos,
            publish_time_nanos: message.publish_time_nanos.unwrap_or(log_time_nanos),
            sequence: message.sequence,
            data_bytes: message.data.len() as u32,
            repeated,
            ..IndexEntry::default()
        };
        let record_bytes = if own { Way::OWN_RECORD_BYTES } else { bytes as usize };
        match (self.reserve(record_bytes, patience), extent) {
            (Ok(reserved), Some(extent)) => reserved.commit_own(&entry, extent),
            (Ok(reserved), None) => reserved.commit(&entry, message.data),
            (Err(refused), extent) => {
                self.credit_bytes.fetch_add(bytes as i64, Relaxed);
                if let Some(extent) = extent {
                    self.block_pool.give_block(extent.block);
                }
                return Err(refused);
            }
        }
        Ok(())
    }

    /// Takes the next place, and sees to memory for it where there is none.
    fn reserve(
        &self,
        bytes: usize,
        patience: Patience,
    ) -> Result<Reserved<'_, OwnedExtent>, Refused> {
        if bytes as u64 > self.record_bytes.load(Relaxed) {
            self.record_bytes.fetch_max(bytes as u64, Relaxed);
        }
        for nap in 0..=NAPS {
            match self.try_reserve(bytes) {
                Err(Refused::Contended) => {}
                reserved => return reserved,
            }
            if patience == Patience::None || nap == NAPS || self.is_stopped.load(Relaxed) {
                break;
            }
            std::thread::sleep(POLL_MIN);
        }
        if patience == Patience::Naps {
            self.is_stopped.store(true, Relaxed);
        }
        Err(Refused::Contended)
    }

    /// The same in less than a tenth of a millisecond.
    fn try_reserve(&self, bytes: usize) -> Result<Reserved<'_, OwnedExtent>, Refused> {
        for _ in 0..TRIES {
            match self.inlet.reserve(bytes) {
                Err(Refused::NoSegment) => match self.help() {
                    Help::Done => {}
                    // Another thread is allocating the first memory, which takes the system some time.
                    Help::Busy if !self.inlet.is_used() => self.await_first(),
                    Help::Busy => spin(),
                    Help::Stuck if self.inlet.is_closed() => return Err(Refused::Closed),
                    Help::Stuck => return Err(Refused::NoSegment),
                },
                Ok(reserved) => {
                    if reserved.is_first() {
                        reserved.open(self.clock.monotonic_nanos());
                    }
                    return Ok(reserved);
                }
                refused => return refused,
            }
        }
        Err(Refused::Contended)
    }

    /// Waits for a topic's first memory: before it is running, a queue may keep its writers waiting.
    fn await_first(&self) {
        let mut looks = 0;
        while !self.inlet.is_used() && looks < FIRST_LOOKS_MAX {
            std::thread::yield_now();
            looks += 1;
        }
    }

    /// A burst has used up the prepared segments.
    fn help(&self) -> Help {
        let Some(mut outlet) = self.inlet.try_outlet() else { return Help::Busy };
        self.collect(&mut outlet);
        // Others may have used up the prepared segments already, which is progress.
        match self.prepare(&mut outlet, 1) || self.inlet.ahead() > 0 {
            true => Help::Done,
            false => Help::Stuck,
        }
    }

    /// Takes ended segments out of the inlet.
    fn collect(&self, outlet: &mut WayOut<'_>) {
        if self.is_stopped.load(Relaxed) {
            self.is_stopped.store(false, Relaxed);
        }
        let before = outlet.bytes();
        while let Some(segment) = outlet.take() {
            outlet.put(segment);
        }
        self.prepare(outlet, 0);
        self.taken_bytes.fetch_add(outlet.bytes() - before, Relaxed);
        self.note_held(outlet);
    }

    fn note_held(&self, outlet: &WayOut<'_>) {
        self.is_held.store(!outlet.is_empty(), Relaxed);
    }

    /// Ends the open segment, if it has a message.
    fn end_open(&self, outlet: &mut WayOut<'_>) {
        if !outlet.end_open() {
            self.prepare(outlet, 1);
            // If there is still no memory, it is ended at a later poll.
            outlet.end_open();
        }
    }

    /// Size at which a segment is ended, and its capacity.
    fn segment_bytes(&self) -> (usize, usize) {
        let ends_at = self.budget.chunk_bytes();
        let record_bytes = self.record_bytes.load(Relaxed) as usize;
        (ends_at, ends_at + record_bytes.next_multiple_of(crate::limits::BLOCK_BYTES))
    }

    /// Memory for a segment, with room for the chunk, its last message and its index at once: nothing
    /// grows by copying.
    fn make_records(capacity: usize) -> Vec<u8> {
        Vec::with_capacity(CHUNK_HEADER_BYTES + capacity + capacity / 4)
    }

    /// Gives all spare memory to segments, and asks the system for more if fewer than `least` have some;
    /// `false` if no place in the ring is free for it.
    fn prepare(&self, outlet: &mut WayOut<'_>, least: u64) -> bool {
        let (ends_at, capacity) = self.segment_bytes();
        while self.inlet.ahead() < SPARE_BATCHES_MAX as u64 {
            let mut records = match outlet.take_records() {
                Some(records) if records.capacity() < CHUNK_HEADER_BYTES + capacity => continue,
                Some(records) => records,
                None if self.inlet.ahead() < least => Self::make_records(capacity),
                None => return true,
            };
            records.resize(CHUNK_HEADER_BYTES, 0);
            if let Err(records) = outlet.prepare(records, ends_at, capacity) {
                outlet.keep_records(records);
                return false;
            }
        }
        true
    }

    /// The recorder's look, at every turn, whether or not it takes anything: so that writers find memory and
    /// need not come to the outlet themselves. Costs a few loads where nothing is to be done.
    pub fn tend(&self) {
        let lacks = self.inlet.ahead() < SEGMENTS_AHEAD_MIN && !self.is_slow_of_many();
        if !self.inlet.is_used() || !(lacks || self.inlet.ended() > SEGMENTS / 4) {
            return;
        }
        // Allocated, and its first pages faulted in, without holding a lock.
        let records = lacks.then(|| {
            let (_, capacity) = self.segment_bytes();
            let mut records = Self::make_records(capacity);
            records.resize(SEGMENT_TOUCHED_BYTES.min(records.capacity()), 0);
            records
        });
        let Some(mut outlet) = self.inlet.try_outlet() else { return };
        outlet.reserve(SEGMENTS);
        self.collect(&mut outlet);
        if let Some(records) = records {
            outlet.keep_records(records);
        }
        self.prepare(&mut outlet, SEGMENTS_AHEAD_MIN);
    }

    /// Whether it is one of hundreds of topics and has not used half of its memory: most of that many topics write
    /// seldom, and prepared memory for each would exceed the cache.
    fn is_slow_of_many(&self) -> bool {
        let ends_at = self.budget.chunk_bytes();
        ends_at == CHUNK_BYTES_MIN && self.inlet.open().bytes < ends_at as u64 / 2
    }

    /// Whether there is something to take: ended segments and own chunks at once, the open segment after its age.
    fn is_due(&self, opened_before_nanos: u64) -> bool {
        let open = self.inlet.open();
        self.is_held.load(Relaxed)
            || self.inlet.ended() > 0
            || open.has_own
            || open.opened_nanos.is_some_and(|opened| opened <= opened_before_nanos)
    }

    /// Takes ready messages, and the open segment too if it was opened before `opened_before_nanos` (monotonic), but at
    /// most `left` bytes plus one batch. `out` is empty.
    ///
    /// A writer that is at the outlet just now is not waited for, unless that was so at the last look
    /// as well, or everything is asked for. After the end everything is taken: it waits for writers that are still
    /// copying.
    pub fn drain(&self, opened_before_nanos: u64, left: &mut u64, out: &mut VecDeque<Queued>) {
        debug_assert!(out.is_empty());
        let takes_all = opened_before_nanos == u64::MAX;
        if !takes_all && !self.is_due(opened_before_nanos) {
            return;
        }
        let mut order = self.order();
        let waits = takes_all || self.missed.load(Relaxed);
        let outlet = match waits {
            true => Some(self.inlet.outlet()),
            false => self.inlet.try_outlet(),
        };
        self.missed.store(outlet.is_none(), Relaxed);
        let Some(mut outlet) = outlet else { return };
        let open = self.inlet.open();
        let is_old = open.opened_nanos.is_some_and(|opened| opened <= opened_before_nanos);
        if takes_all || is_old || open.has_own {
            self.end_open(&mut outlet);
        }
        self.collect(&mut outlet);
        while takes_all && self.inlet.is_closed() && !outlet.is_drained() {
            drop(outlet);
            std::thread::sleep(POLL_MIN);
            outlet = self.inlet.outlet();
            self.collect(&mut outlet);
        }
        let mut items = std::mem::take(&mut order.items);
        while *left > 0
            && let Some(item) = outlet.pop()
        {
            *left = left.saturating_sub(item.queued.held_bytes());
            items.push_back(item);
        }
        self.note_held(&outlet);
        drop(outlet);
        for mut item in items.drain(..) {
            order.finalize_headers(self.channel_id, &mut item);
            out.push_back(item.queued);
        }
        order.items = items;
        drop(order);
        self.trim_credit();
        if let Some(Queued::Own(extent)) = out.back() {
            self.block_pool.prepare_blocks(extent.block.len());
        }
    }

    /// What waits here: bytes, and since when (monotonic) the oldest of them at the earliest.
    pub fn waiting(&self) -> (u64, Option<u64>) {
        let open = self.inlet.open();
        if open.bytes == 0 && self.inlet.ended() == 0 && !self.is_held.load(Relaxed) {
            return (0, None);
        }
        let mut outlet = self.inlet.outlet();
        if open.has_own {
            self.end_open(&mut outlet);
        }
        self.collect(&mut outlet);
        let open = self.inlet.open();
        let bytes = outlet.bytes() + open.bytes;
        let since = outlet.oldest().map(|oldest| oldest.opened_nanos).or(open.opened_nanos);
        let since = since.unwrap_or_else(|| self.clock.monotonic_nanos());
        (bytes, (bytes > 0).then_some(since))
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
        if self.inlet.ahead() >= SPARE_BATCHES_MAX as u64 {
            return;
        }
        let mut outlet = self.inlet.outlet();
        outlet.keep_records(records);
        self.prepare(&mut outlet, 0);
    }

    /// Gives back the memory of a large message.
    pub fn recycle_block(&self, block: Block) {
        self.block_pool.give_block(block);
    }

    /// Stands where the recorder would stop if the kernel took the processor away from it.
    #[cfg(test)]
    pub(crate) fn stop_in_the_outlet(&self) -> impl Sized + '_ {
        self.inlet.outlet()
    }

    /// Takes no more messages.
    pub fn close(&self) {
        self.inlet.outlet().close();
        self.budget.wake();
    }
}

/// A little while.
fn spin() {
    (0..SPINS).for_each(|_| std::hint::spin_loop());
}
