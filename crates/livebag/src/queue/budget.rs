//! Memory shared by all queues of a recorder: a share for each topic, the rest in common.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::Priority;
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, POLL_MAX, TOPIC_BYTES_MIN};

/// Memory shared by all queues of a recorder.
///
/// Each topic has a share that no other topic can use, so that a flood on one topic drops no messages of others. Shares
/// use at most half of the total; the rest is common.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    /// Not passed for anything. Otherwise a topic's share would be occupied by messages that others still hold, and a
    /// message larger than the common part would never fit.
    is_strict: bool,
    used_bytes: AtomicU64,
    common_max_bytes: AtomicU64,
    common_used_bytes: AtomicU64,
    topics: AtomicU32,
    /// Writers waiting for room, of any topic: room that one returns may serve another.
    waiting: AtomicU32,
    gate: Mutex<()>,
    room: Condvar,
}

impl Budget {
    /// At most `bytes_max` in memory at once, all topics together; `is_strict` for a ring, which nothing drains.
    pub fn new(bytes_max: u64, is_strict: bool) -> Arc<Self> {
        Arc::new(Self {
            bytes_max,
            is_strict,
            used_bytes: AtomicU64::new(0),
            common_max_bytes: AtomicU64::new(bytes_max),
            common_used_bytes: AtomicU64::new(0),
            topics: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            gate: Mutex::new(()),
            room: Condvar::new(),
        })
    }

    /// Counts one more topic and gives its first share.
    pub fn add_topic(&self) -> u64 {
        let topics = u64::from(self.topics.fetch_add(1, Ordering::Relaxed)) + 1;
        let share = self.share_of(TOPIC_BYTES_MIN, topics);
        self.set_shares_sum(share * topics);
        share
    }

    /// The part of `bytes` that one of `topics` topics can have for itself; some is always there.
    fn share_of(&self, bytes: u64, topics: u64) -> u64 {
        bytes.min((self.bytes_max / 2 / topics.max(1)).max(CHUNK_BYTES_MIN as u64))
    }

    /// Shares in proportion to the topics' bytes in the last second, scaled to half of the total.
    pub fn shares(&self, bytes_per_second: &[u64]) -> Vec<u64> {
        let least = self.share_of(TOPIC_BYTES_MIN, bytes_per_second.len() as u64);
        let wanted: Vec<u64> = bytes_per_second.iter().map(|&bytes| bytes.max(least)).collect();
        let sum: u64 = wanted.iter().sum();
        let half = self.bytes_max / 2;
        let scaled = |bytes: u64| match sum > half {
            // Even for a small total, or a topic that is small relative to others, the share is not 0.
            true => ((u128::from(bytes) * u128::from(half) / u128::from(sum)) as u64)
                .max(CHUNK_BYTES_MIN as u64),
            false => bytes,
        };
        let shares: Vec<u64> = wanted.into_iter().map(scaled).collect();
        self.set_shares_sum(shares.iter().sum());
        shares
    }

    fn set_shares_sum(&self, bytes: u64) {
        let common = self.bytes_max - bytes.min(self.bytes_max / 2);
        self.common_max_bytes.store(common, Ordering::Relaxed);
    }

    /// Limit of a topic with this share in a nearly full ring: its part of the total.
    pub fn ring_bytes(&self, share_bytes: u64) -> u64 {
        match self.used_bytes() > self.bytes_max - self.bytes_max / 8 {
            true => 2 * share_bytes,
            false => u64::MAX,
        }
    }

    /// Bytes in memory now.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, of which `common_bytes` are beyond the topic's share. A message larger than
    /// everything fits when nothing else is there.
    pub fn take(&self, bytes: u64, common_bytes: u64, priority: Priority) -> bool {
        if common_bytes > 0 {
            let most = self.common_max_bytes.load(Ordering::Relaxed);
            let most = match priority {
                Priority::Critical => most,
                Priority::Normal => most - most / 16,
                Priority::Low => most / 2,
            };
            let used = self.common_used_bytes.fetch_add(common_bytes, Ordering::Relaxed);
            let is_alone = used == 0 && most > 0;
            if !is_alone && used + common_bytes > most {
                self.common_used_bytes.fetch_sub(common_bytes, Ordering::Relaxed);
                return false;
            }
        }
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.is_strict && used + bytes > self.bytes_max {
            self.give(bytes, common_bytes);
            return false;
        }
        true
    }

    /// Gives `bytes` back, of which `common_bytes` were beyond the topic's share. Waiting writers must be
    /// [woken](Self::wake).
    pub fn give(&self, bytes: u64, common_bytes: u64) {
        self.common_used_bytes.fetch_sub(common_bytes, Ordering::Relaxed);
        self.used_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Lets waiting writers look again. Notifying is a system call even without waiting threads.
    pub fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.room.notify_all();
        }
    }

    /// Waits until room has been given back, or a little while.
    pub fn wait(&self) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_add(1, Ordering::SeqCst);
        // A release before the line above wakes no thread: the timeout makes up for it.
        let waited = self.room.wait_timeout(gate, POLL_MAX).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        drop(waited);
    }

    /// Size at which a topic's chunk is closed: all open chunks take a sixteenth of the budget, so
    /// that hundreds of them stay in the processor's cache.
    pub fn chunk_bytes(&self) -> usize {
        let topics = u64::from(self.topics.load(Ordering::Relaxed)).max(1);
        let share = (self.bytes_max / (16 * topics)) as usize;
        share.clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
    }
}
