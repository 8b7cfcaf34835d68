//! Admission: a topic's share of the cache, its part of the common rest, and which messages are evicted.

use std::sync::atomic::Ordering::Relaxed;

use super::TopicQueue;
use crate::limits::QUEUE_CREDIT_BYTES;
use crate::queue::waiting::Waiting;
use crate::queue::{Overflow, Queued};

impl TopicQueue {
    /// Takes room for a message, if need be that of the oldest ones.
    pub(super) fn take_room(&self, bytes: u64) -> bool {
        let makes_way = self.options.is_ring || self.options.overflow == Overflow::DropOldest;
        loop {
            if self.take_bytes(bytes) {
                return true;
            }
            if !makes_way {
                break;
            }
            let mut waiting = self.lock();
            // As much as needed, in one step: all these messages wait here already.
            let mut freed = 0;
            while freed < bytes
                && let Some(more) = self.drop_oldest(&mut waiting)
            {
                freed += more;
            }
            drop(waiting);
            if freed == 0 {
                // A message larger than all that a topic may have fits where it has nothing.
                let credit = self.take_credit();
                self.give_back(credit);
                if self.take_bytes(bytes) {
                    return true;
                }
                break;
            }
        }
        // Wanted, though not taken: the topic's share is to follow.
        self.taken_bytes.fetch_add(bytes, Relaxed);
        false
    }

    /// Drops the oldest waiting message, and returns its bytes; `None` if nothing waits. Its room is the topic's own
    /// next one.
    fn drop_oldest(&self, waiting: &mut Waiting) -> Option<u64> {
        if waiting.oldest().is_none() {
            waiting.end_open();
        }
        let oldest = waiting.pop()?;
        let count = if self.options.is_ring { &self.skipped } else { &self.dropped };
        count.fetch_add(oldest.published, Relaxed);
        let held_bytes = oldest.queued.held_bytes();
        self.credit_bytes.fetch_add(held_bytes as i64, Relaxed);
        match oldest.queued {
            Queued::Batch(batch) => waiting.keep_records(batch.records),
            Queued::Own(extent) => self.block_pool.give_block(extent.block),
        }
        Some(held_bytes)
    }

    /// Drops messages older than `nanos` (log time) from a ring.
    pub fn evict_before(&self, nanos: u64) {
        let mut waiting = self.lock();
        if waiting.oldest().is_none() {
            // All of the ring is where writers still add.
            waiting.end_open();
        }
        while waiting.oldest().is_some_and(|oldest| oldest.newest_nanos < nanos) {
            self.drop_oldest(&mut waiting);
        }
        drop(waiting);
        self.trim_credit();
    }

    /// Drops messages of a ring beyond `bytes`, so that topics which have become busy find room.
    pub fn evict_to(&self, bytes: u64) {
        if self.held_bytes.load(Relaxed) <= bytes {
            return;
        }
        let mut waiting = self.lock();
        while self.held_bytes.load(Relaxed) > bytes && self.drop_oldest(&mut waiting).is_some() {
            let credit = self.take_credit();
            self.give_back(credit);
        }
    }

    /// Takes room for a message. Small ones take some for their successors too: the budget is
    /// shared by all threads, and touching it for each message would cost more than the message.
    pub(super) fn take_bytes(&self, bytes: u64) -> bool {
        let wanted = bytes as i64;
        if self.credit_bytes.load(Relaxed) >= wanted {
            if self.credit_bytes.fetch_sub(wanted, Relaxed) >= wanted {
                return true;
            }
            self.credit_bytes.fetch_add(wanted, Relaxed);
        }
        let credit = self.take_credit();
        if credit >= bytes {
            self.credit_bytes.fetch_add((credit - bytes) as i64, Relaxed);
            return true;
        }
        for more in [QUEUE_CREDIT_BYTES, 0] {
            if self.take_from_budget(bytes - credit + more, bytes) {
                self.credit_bytes.fetch_add(more as i64, Relaxed);
                return true;
            }
        }
        self.credit_bytes.fetch_add(credit as i64, Relaxed);
        false
    }

    /// Takes all credit. Meanwhile other writers use the budget.
    fn take_credit(&self) -> u64 {
        let credit = self.credit_bytes.swap(0, Relaxed);
        u64::try_from(credit).unwrap_or_else(|_| {
            // A writer took too much, and is about to correct it.
            self.credit_bytes.fetch_add(credit, Relaxed);
            0
        })
    }

    /// Takes from the topic's own share first, then from what all have in common; for a message that takes
    /// `whole` bytes, which fits where there is nothing else.
    ///
    /// Of several threads that find room for one message only, none may get it: each adds before it
    /// looks, so that the bounds hold.
    pub(super) fn take_from_budget(&self, bytes: u64, whole: u64) -> bool {
        let held_bytes = self.held_bytes.fetch_add(bytes, Relaxed);
        let is_over = |most: u64| held_bytes + bytes > most.max(whole);
        // Bytes that others are about to add to `common_bytes` count as the topic's own until then, which leaves less
        // of the share, not more.
        let own_bytes = held_bytes.saturating_sub(self.common_bytes.load(Relaxed));
        let share = self.share_bytes.load(Relaxed).saturating_sub(own_bytes);
        let common_bytes = bytes - share.min(bytes);
        if self.options.bytes_max.is_some_and(is_over)
            || !self.budget.take(bytes, common_bytes, self.options.priority)
        {
            self.held_bytes.fetch_sub(bytes, Relaxed);
            return false;
        }
        self.common_bytes.fetch_add(common_bytes, Relaxed);
        true
    }

    /// Returns the room of written messages.
    pub fn release(&self, bytes: u64) {
        self.give_back(bytes);
        self.budget.wake();
    }

    /// The same without waking writers that wait, which takes a lock; they look again by themselves.
    pub(super) fn give_back(&self, bytes: u64) {
        // For a moment all of the common part is in one thread's hands, so that no other thread has to retry.
        let common_bytes = self.common_bytes.swap(0, Relaxed);
        // A writer that took room in that moment has not returned any: release the bytes beyond all held ones now.
        let held_bytes = self.held_bytes.load(Relaxed).saturating_sub(bytes);
        let given = common_bytes.min(bytes).max(common_bytes.saturating_sub(held_bytes));
        self.common_bytes.fetch_add(common_bytes - given, Relaxed);
        self.held_bytes.fetch_sub(bytes, Relaxed);
        self.budget.give(bytes, given);
    }

    /// Returns room that evictions freed and that was not used.
    pub(super) fn trim_credit(&self) {
        if self.credit_bytes.load(Relaxed) <= 2 * QUEUE_CREDIT_BYTES as i64 {
            return;
        }
        let credit = self.take_credit();
        let kept = credit.min(QUEUE_CREDIT_BYTES);
        self.credit_bytes.fetch_add(kept as i64, Relaxed);
        self.give_back(credit - kept);
    }
}
