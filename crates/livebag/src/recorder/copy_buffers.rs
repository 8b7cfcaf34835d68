//! Free list of the memory of large frames' copies.
//!
//! Frames are copied while the disk is slow, many in a row. New memory for each copy means page faults for each, which
//! makes a slow moment longer: of 7 runs with 8 cameras, 2 were recorded without loss with new memory and 7 with reused
//! memory (`bench-runs/0.1.0-epyc-2core/copies.txt`).

use crate::limits::{COPY_BUFFERS_IDLE_ROUNDS, LENT_BYTES_MIN};
use crate::storage::{Block, FreeBlocks};

/// See the module's text.
#[derive(Default)]
pub(super) struct CopyBuffers {
    free: FreeBlocks,
    /// Rounds of the watchdog since a buffer was taken.
    idle_rounds: u32,
}

impl CopyBuffers {
    /// Memory for a copy of `bytes` bytes. A small frame does not get the memory of a large one.
    pub fn take(&mut self, bytes: usize) -> Block {
        self.idle_rounds = 0;
        // Sensors whose frames vary in length get memory that fits most of them.
        let wanted =
            if bytes < LENT_BYTES_MIN { bytes } else { bytes.next_multiple_of(LENT_BYTES_MIN) };
        let reused = self.free.take(wanted..=2 * wanted);
        let block = reused.unwrap_or_else(|| Block::lent(wanted));
        block.reused(bytes).unwrap_or_else(|| Block::lent(bytes))
    }

    /// Keeps the memory of a written copy; returns a block that it does not keep, to be dropped.
    pub fn give_back(&mut self, block: Block) -> Option<Block> {
        // The allocator keeps smaller ones anyway.
        if !block.is_lent() {
            return Some(block);
        }
        self.free.give(block);
        None
    }

    /// A buffer to be dropped, if no copies are made any more. Called once in each round of the watchdog.
    pub fn take_idle(&mut self) -> Option<Block> {
        self.idle_rounds = self.idle_rounds.saturating_add(1);
        (self.idle_rounds > COPY_BUFFERS_IDLE_ROUNDS).then(|| self.free.take(..)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 3 * LENT_BYTES_MIN;

    #[test]
    fn buffers_are_reused_until_no_copies_are_made() {
        let mut buffers = CopyBuffers::default();
        let copies: Vec<Block> = (0..9).map(|_| buffers.take(BYTES - 5)).collect();
        let places: Vec<*const u8> = copies.iter().map(|block| block.as_ptr()).collect();
        assert!(copies.into_iter().all(|block| buffers.give_back(block).is_none()));
        let again = buffers.take(BYTES);
        assert_eq!(again.len(), BYTES);
        assert!(places.contains(&again.as_ptr()));
        for _ in 0..COPY_BUFFERS_IDLE_ROUNDS {
            assert!(buffers.take_idle().is_none());
        }
        assert_eq!(std::iter::from_fn(|| buffers.take_idle()).count(), 8);
    }

    #[test]
    fn a_small_frame_does_not_hold_a_large_buffer() {
        let mut buffers = CopyBuffers::default();
        let large = buffers.take(BYTES);
        assert!(buffers.give_back(large).is_none());
        for bytes in [1000, LENT_BYTES_MIN] {
            let small = buffers.take(bytes);
            assert_eq!(small.len(), bytes);
            assert!(small.memory_bytes() < BYTES);
        }
    }

    #[test]
    fn memory_of_the_allocator_is_not_kept() {
        assert!(CopyBuffers::default().give_back(Block::zeroed(BYTES)).is_some());
    }
}
