//! Memory that has been to the disk and is filled again: the way in asks for none of the system, and
//! meets no page fault, once a topic's sizes repeat.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use livebag_format::index::IndexEntry;

use super::{Batch, Queued};
use crate::limits::{
    BLOCK_BYTES, CHUNK_BYTES_MAX, SPARE_BATCHES_MAX, SPARE_BLOCK_BYTES_MAX, SPARE_BLOCKS_MIN,
};
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

    /// Takes a block back.
    pub fn give_block(&self, block: Block) {
        let bytes = block.memory_bytes();
        let mut kept = self.lock();
        if kept.block_bytes + bytes <= SPARE_BLOCK_BYTES_MAX {
            kept.block_bytes += bytes;
            kept.blocks.push_back(block);
        }
    }

    /// Sees to it that there are enough blocks of `bytes`: the recorder's thread, so that no writer has
    /// to. Of such size that so many of them are too much, there are those that come back.
    pub fn prepare_blocks(&self, bytes: usize) {
        if (bytes + BLOCK_BYTES) * SPARE_BLOCKS_MIN > SPARE_BLOCK_BYTES_MAX {
            return;
        }
        let count = self.lock().blocks.len();
        (count..SPARE_BLOCKS_MIN).for_each(|_| self.give_block(Block::touched(bytes)));
    }

    /// Takes back the memory of messages that are not going to be written.
    pub fn give(&self, queued: Queued) {
        match queued {
            Queued::Batch(batch) => {
                self.give_records(batch.records);
                self.give_entries(batch.entries);
            }
            Queued::Own(extent) => self.give_block(extent.block),
        }
    }
}
