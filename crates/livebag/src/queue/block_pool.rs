//! Free list of a topic's memory for large messages: a writer asks the system for none, and meets no page
//! fault, once the topic's sizes repeat.
//!
//! No thread waits here for one that has lost the processor: after some tries it does without the list.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crate::limits::{BLOCK_BYTES, SPARE_BLOCK_BYTES_MAX, SPARE_BLOCKS_MAX, SPARE_BLOCKS_MIN};
use crate::storage::{Block, FreeBlocks};

/// How often the lock is tried; it is held for some hundred instructions.
const TRIES: usize = 1024;

#[derive(Default)]
pub(super) struct BlockPool {
    free: Mutex<FreeBlocks>,
}

impl BlockPool {
    fn free(&self) -> Option<MutexGuard<'_, FreeBlocks>> {
        (0..TRIES).find_map(|_| match self.free.try_lock() {
            Ok(free) => Some(free),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => {
                std::hint::spin_loop();
                None
            }
        })
    }

    /// Memory for a large message whose extent takes `bytes`, if there is some.
    pub fn block(&self, bytes: usize) -> Option<Block> {
        self.free()?.take(bytes + BLOCK_BYTES..)
    }

    /// Takes a block back. If there is too much already, a smaller one is dropped.
    pub fn give_block(&self, block: Block) {
        let bytes = block.memory_bytes();
        let Some(mut free) = self.free() else { return };
        let is_full = |free: &FreeBlocks| {
            free.memory_bytes() + bytes > SPARE_BLOCK_BYTES_MAX || free.len() == SPARE_BLOCKS_MAX
        };
        let smaller = if is_full(&free) { free.take(..bytes) } else { None };
        if smaller.is_some() || !is_full(&free) {
            free.give(block);
        }
        // Dropped outside of the lock.
        drop(free);
        drop(smaller);
    }

    /// Sees to it that there are enough blocks of `bytes`: the recorder's thread, so that no writer has
    /// to. Of a size for which that many are too much, keep those that are returned.
    pub fn prepare_blocks(&self, bytes: usize) {
        if (bytes + BLOCK_BYTES) * SPARE_BLOCKS_MIN > SPARE_BLOCK_BYTES_MAX {
            return;
        }
        let count = self.free().map_or(SPARE_BLOCKS_MIN, |free| free.len());
        (count..SPARE_BLOCKS_MIN).for_each(|_| self.give_block(Block::touched(bytes)));
    }
}
