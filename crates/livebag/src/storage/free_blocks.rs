//! Free list of blocks: large memory that is filled again instead of asked of the system.

use std::collections::VecDeque;
use std::ops::RangeBounds;

use super::Block;

/// The block that came back first is taken first. Memory that a device has just read is in no cache of the processor,
/// and copying into it takes up to five times as long as into memory last used some dozen messages ago.
#[derive(Default)]
pub struct FreeBlocks {
    blocks: VecDeque<Block>,
    bytes: usize,
}

impl FreeBlocks {
    /// Takes the first block whose memory is as large as this.
    pub fn take(&mut self, memory_bytes: impl RangeBounds<usize>) -> Option<Block> {
        let fits = |block: &Block| memory_bytes.contains(&block.memory_bytes());
        let block = self.blocks.remove(self.blocks.iter().position(fits)?)?;
        self.bytes -= block.memory_bytes();
        Some(block)
    }

    pub fn give(&mut self, block: Block) {
        self.bytes += block.memory_bytes();
        self.blocks.push_back(block);
    }

    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes of memory in all of them.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}
