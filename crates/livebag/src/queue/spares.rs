//! Free list of blocks for large messages. In steady state `write` neither allocates nor page-faults.
//!
//! No call waits: a cell that another thread holds is skipped. A block that finds no free cell is freed;
//! where no block is found, the caller allocates one.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{OnceLock, PoisonError, TryLockError};

use super::sync::{AtomicU64, Mutex, MutexGuard};
use crate::limits::{BLOCK_BYTES, SPARE_BLOCK_BYTES_MAX, SPARE_BLOCKS_MAX, SPARE_BLOCKS_MIN};
use crate::storage::Block;

/// A topic's spare memory for large messages, in a ring: the block that came back first is filled first. What a
/// device has just fetched lies in no cache of ours, and copying into it takes up to five times as long as
/// into memory whose last use is some dozen messages ago.
pub(super) struct Spares {
    /// Made when the first block comes back: thousands of topics never have one.
    cells: OnceLock<Box<[Mutex<Option<Block>>]>>,
    /// Where the next block is looked for, and put; hints.
    take_at: AtomicU64,
    give_at: AtomicU64,
    /// What is here. All these numbers guard nothing: blocks are handed on under the cells' locks.
    count: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Spares {
    fn default() -> Self {
        Self {
            cells: OnceLock::new(),
            take_at: AtomicU64::new(0),
            give_at: AtomicU64::new(0),
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

impl Spares {
    /// The cells from one on, without those that are in use just now; and the number after each.
    fn cells(&self, from: u64) -> impl Iterator<Item = (u64, MutexGuard<'_, Option<Block>>)> {
        let make = || (0..SPARE_BLOCKS_MAX).map(|_| Mutex::new(None)).collect();
        let cells = self.cells.get_or_init(make);
        let count = cells.len() as u64;
        (from..from + count).filter_map(move |at| {
            let cell = match cells[(at % count) as usize].try_lock() {
                Ok(cell) => cell,
                Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
                Err(TryLockError::WouldBlock) => return None,
            };
            Some(((at + 1) % count, cell))
        })
    }

    /// Memory for a large message whose extent takes `bytes`, if there is some.
    pub fn block(&self, bytes: usize) -> Option<Block> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let fits = |block: &Block| block.memory_bytes() >= bytes + BLOCK_BYTES;
        let (next, block) = self
            .cells(self.take_at.load(Relaxed))
            .find_map(|(next, mut cell)| Some((next, cell.take_if(|block| fits(block))?)))?;
        self.take_at.store(next, Relaxed);
        self.went(&block);
        Some(block)
    }

    fn went(&self, block: &Block) {
        self.count.fetch_sub(1, Relaxed);
        self.bytes.fetch_sub(block.memory_bytes() as u64, Relaxed);
    }

    /// Takes a block back. If there is too much already, one that is smaller makes way.
    pub fn give_block(&self, block: Block) {
        let bytes = block.memory_bytes() as u64;
        if self.bytes.load(Relaxed) + bytes > SPARE_BLOCK_BYTES_MAX as u64
            && !self.drop_smaller_than(block.memory_bytes())
        {
            return;
        }
        let free = self.cells(self.give_at.load(Relaxed)).find(|(_, cell)| cell.is_none());
        let Some((next, mut cell)) = free else { return };
        // Before it can be taken, so that neither number ever falls below zero.
        self.count.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        *cell = Some(block);
        drop(cell);
        self.give_at.store(next, Relaxed);
    }

    fn drop_smaller_than(&self, bytes: usize) -> bool {
        let smaller = |block: &mut Block| block.memory_bytes() < bytes;
        let found =
            self.cells(self.take_at.load(Relaxed)).find_map(|(_, mut cell)| cell.take_if(smaller));
        found.inspect(|block| self.went(block)).is_some()
    }

    /// Sees to it that there are enough blocks of `bytes`: the recorder's thread, so that no writer has
    /// to. Of such size that so many of them are too much, there are those that come back.
    pub fn prepare_blocks(&self, bytes: usize) {
        if (bytes + BLOCK_BYTES) * SPARE_BLOCKS_MIN > SPARE_BLOCK_BYTES_MAX {
            return;
        }
        let count = self.count.load(Relaxed);
        (count..SPARE_BLOCKS_MIN as u64).for_each(|_| self.give_block(Block::touched(bytes)));
    }
}
