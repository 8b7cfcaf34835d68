//! Memory that has been to the disk and is filled again: the way in asks for none of the system, and
//! meets no page fault, once a topic's sizes repeat.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use livebag_format::index::IndexEntry;

use super::{Batch, Queued};
use crate::limits::{CHUNK_BYTES_MAX, SPARE_BATCHES_MAX, SPARE_BLOCK_BYTES_MAX, SPARE_BLOCKS_MIN};
use crate::storage::Block;

#[derive(Default)]
struct Kept {
    records: Vec<Vec<u8>>,
    entries: Vec<Vec<IndexEntry>>,
    /// The one that came back first is filled first: what a device has just fetched lies in no cache
    /// of ours, and copying into it takes up to five times as long as into memory whose
    /// last use is some dozen messages ago.
    blocks: VecDeque<Block>,
    block_bytes: usize,
}

/// A topic's spare memory. Nobody holds its lock for longer than a few pointers take to move: memory
/// is asked for, given back, zeroed and faulted in outside.
#[derive(Default)]
pub(super) struct Spares(Mutex<Kept>);

impl Spares {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty batch, with memory if there is some.
    pub fn batch(&self) -> Batch {
        let mut kept = self.lock();
        let (records, entries) = (kept.records.pop(), kept.entries.pop());
        Batch {
            records: records.unwrap_or_default(),
            entries: entries.unwrap_or_default(),
            opened_nanos: 0,
        }
    }

    /// Memory for a large message, if there is some; it may be too small.
    pub fn block(&self) -> Option<Block> {
        let mut kept = self.lock();
        let block = kept.blocks.pop_front()?;
        kept.block_bytes -= block.memory_bytes();
        Some(block)
    }

    pub fn give_records(&self, mut records: Vec<u8>) {
        if records.capacity() == 0 || records.capacity() > 2 * CHUNK_BYTES_MAX {
            return;
        }
        records.clear();
        let mut kept = self.lock();
        if kept.records.len() < SPARE_BATCHES_MAX {
            kept.records.push(records);
        }
    }

    pub fn give_entries(&self, mut entries: Vec<IndexEntry>) {
        if entries.capacity() == 0 {
            return;
        }
        entries.clear();
        let mut kept = self.lock();
        if kept.entries.len() < SPARE_BATCHES_MAX {
            kept.entries.push(entries);
        }
    }

    /// Takes a block back. One more is made for it as long as there are few: by the recorder's thread,
    /// so that no writer has to.
    pub fn give_block(&self, block: Block) {
        let bytes = block.len();
        if self.keep_block(block) < SPARE_BLOCKS_MIN {
            self.keep_block(Block::touched(bytes));
        }
    }

    /// Tells how many there are now; no fewer than enough if there is no room for more.
    fn keep_block(&self, block: Block) -> usize {
        let bytes = block.memory_bytes();
        let mut kept = self.lock();
        if kept.block_bytes + bytes > SPARE_BLOCK_BYTES_MAX {
            return SPARE_BLOCKS_MIN;
        }
        kept.block_bytes += bytes;
        kept.blocks.push_back(block);
        // Another one of this size must have room too.
        let is_full = kept.block_bytes + bytes > SPARE_BLOCK_BYTES_MAX;
        if is_full { SPARE_BLOCKS_MIN } else { kept.blocks.len() }
    }

    /// Takes back the memory of messages that are not going to be written.
    pub fn give(&self, queued: Queued) {
        match queued {
            Queued::Batch(batch) => {
                self.give_records(batch.records);
                self.give_entries(batch.entries);
            }
            Queued::Own(extent) => drop(self.keep_block(extent.block)),
        }
    }
}
