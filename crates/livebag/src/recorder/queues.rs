//! The topics' queues, as the recorder's thread sees them.

use std::collections::VecDeque;
use std::sync::Arc;

use livebag_format::Message;
use livebag_format::index::IndexEntry;

use super::Shared;
use super::round_robin::PriorityRoundRobin;
use crate::queue::{NewMessage, Queued, TopicQueue};

/// A topic's queue, through all splits.
pub(super) struct QueueState {
    pub queue: Arc<TopicQueue>,
    /// What of the queue's counts has been taken over.
    noted: [u64; 3],
    /// The newest message, if it is repeated at the head of every split.
    pub latched: Option<Latched>,
    /// Bytes that had entered the queue at the last look.
    taken_bytes: u64,
}

/// The newest message of a topic that is repeated at the head of every split.
#[derive(Default)]
pub(super) struct Latched {
    publish_time_nanos: u64,
    sequence: u64,
    data: Vec<u8>,
}

impl Latched {
    /// Keeps this message instead.
    pub fn keep(&mut self, entry: &IndexEntry, data: &[u8]) {
        (self.publish_time_nanos, self.sequence) = (entry.publish_time_nanos, entry.sequence);
        self.data.clear();
        self.data.extend_from_slice(data);
    }

    /// The message once more; `None` if there has been none. A log time of 0 means now.
    pub fn message(&self, log_time_nanos: u64) -> Option<Message<'_>> {
        (!self.data.is_empty()).then_some(Message {
            log_time_nanos,
            publish_time_nanos: self.publish_time_nanos,
            sequence: self.sequence,
            data: &self.data,
        })
    }
}

impl QueueState {
    pub fn new(queue: Arc<TopicQueue>, is_latched: bool) -> Self {
        let latched = is_latched.then(Latched::default);
        Self { queue, noted: [0; 3], latched, taken_bytes: 0 }
    }

    /// Bytes that have entered the queue since the last call.
    pub fn taken_since(&mut self) -> u64 {
        let taken = self.queue.taken_bytes();
        taken - std::mem::replace(&mut self.taken_bytes, taken)
    }

    /// Counts at every iteration. Messages since the last one: dropped by the queue, missing before it, left out on
    /// purpose.
    pub fn new_counts(&mut self) -> [u64; 3] {
        let counts = self.queue.counts();
        let new = std::array::from_fn(|at| counts[at] - self.noted[at]);
        self.noted = counts;
        new
    }

    fn keep_latched(&mut self, queued: &Queued) {
        let Some(latched) = &mut self.latched else { return };
        if let Some((entry, data)) = queued.newest() {
            latched.keep(entry, data);
        }
    }
}

/// All of them.
pub(super) struct Queues {
    shared: Arc<Shared>,
    /// By the topic's number in the recorder.
    states: Vec<QueueState>,
    rounds: PriorityRoundRobin,
    /// Whether programs write into queues, or only streams are followed.
    pub is_written: bool,
    /// A snapshot has been asked for: the ring goes to the disk.
    is_flushing: bool,
}

impl Queues {
    pub fn new(shared: Arc<Shared>) -> Self {
        let rounds = PriorityRoundRobin::default();
        Self { shared, states: Vec::new(), rounds, is_written: false, is_flushing: false }
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn add(&mut self, queue: Arc<TopicQueue>, is_latched: bool) {
        self.rounds.add(queue.options().priority, self.states.len());
        self.states.push(QueueState::new(queue, is_latched));
    }

    /// The topics' numbers, most important first.
    pub fn next_round(&mut self) -> Vec<usize> {
        self.rounds.next()
    }

    /// A queue's counts since the last call: see [`QueueState::new_counts`].
    pub fn new_counts(&mut self, topic: usize) -> [u64; 3] {
        self.states[topic].new_counts()
    }

    /// Takes up to `left` bytes that entered a queue before a monotonic time, or make up a chunk.
    pub fn drain(&mut self, topic: usize, before_nanos: u64, left: &mut u64) -> VecDeque<Queued> {
        let mut drained = VecDeque::new();
        let state = &mut self.states[topic];
        state.queue.drain(before_nanos, left, &mut drained);
        drained.iter().for_each(|queued| state.keep_latched(queued));
        drained
    }

    /// Takes all that a queue has.
    pub fn drain_all(&mut self, topic: usize) -> VecDeque<Queued> {
        let mut everything = u64::MAX;
        self.drain(topic, u64::MAX, &mut everything)
    }

    /// What all queues hold, and since when the oldest of it waits.
    pub fn waiting(&self) -> (u64, Option<u64>) {
        let mut bytes = 0;
        let mut since: Option<u64> = None;
        for state in &self.states {
            let (more, from) = state.queue.waiting();
            bytes += more;
            since = since.into_iter().chain(from).min();
        }
        (bytes, since)
    }

    /// Requests a snapshot of the ring.
    pub fn flush(&mut self) {
        self.is_flushing = true;
    }

    /// Whether a snapshot of the ring is being written.
    pub fn is_flushing(&self) -> bool {
        self.is_flushing
    }

    /// Whether the queues are a ring that keeps its messages.
    pub fn holds_ring(&self) -> bool {
        self.shared.options.snapshot.is_some() && !self.is_flushing()
    }

    /// All queues have been read: a snapshot is complete.
    pub fn end_round(&mut self) {
        self.is_flushing = false;
    }

    /// Puts the newest messages of latched topics into their queues once more.
    pub fn repeat_latched(&self) {
        for state in &self.states {
            let latched = state.latched.as_ref();
            if let Some(message) = latched.and_then(|latched| latched.message(0)) {
                state.queue.repeat(&NewMessage::from(&message));
            }
        }
    }

    /// Sets the topics' shares by their bytes since the last time, about a second ago.
    pub fn share_out(&mut self) {
        let rates: Vec<u64> = self.states.iter_mut().map(QueueState::taken_since).collect();
        let shares = self.shared.budget.shares(&rates);
        for (state, &share) in self.states.iter().zip(&shares) {
            if self.shared.options.snapshot.is_some() {
                state.queue.evict_to(self.shared.budget.ring_bytes(share));
            }
            state.queue.set_share(share);
        }
    }

    /// Drops old messages from a ring.
    pub fn evict(&self) {
        if let Some(start) = self.shared.ring_start_nanos() {
            self.states.iter().for_each(|state| state.queue.evict_before(start));
        }
    }

    /// Frees messages that were taken out of a ring but are not needed.
    pub fn release(&self, topic: usize, queued: &Queued) {
        self.states[topic].queue.release(queued.held_bytes());
    }

    /// Takes no more messages.
    pub fn close(&self) {
        self.states.iter().for_each(|state| state.queue.close());
    }
}
