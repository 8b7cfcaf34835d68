//! Memory that lies ready for copies of frames that are about to be overwritten.
//!
//! Such a copy is made when the machine is busy, and a busy machine may have no memory at hand: the kernel
//! then takes pages from the page cache first, frame by frame, while the sensor goes on. So a little is kept
//! ready, whose pages are there; who has a quiet moment replaces what was used.

use crate::limits::{RESERVE_BLOCKS_MAX, RESERVE_BYTES};
use crate::storage::Block;

/// See the module's text.
#[derive(Default)]
pub(super) struct Reserve {
    blocks: Vec<Block>,
    /// Length of one.
    bytes: usize,
}

impl Reserve {
    /// A copy may need so much.
    pub fn expect(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.bytes = bytes;
            self.blocks.clear();
        }
    }

    /// Memory for a copy: what is ready, or what the kernel gives.
    pub fn take(&mut self, bytes: usize) -> Block {
        let ready = if bytes <= self.bytes { self.blocks.pop() } else { None };
        ready.and_then(|block| block.reused(bytes)).unwrap_or_else(|| Block::lent(bytes))
    }

    /// Length of a block that is missing.
    pub fn missing(&self) -> Option<usize> {
        let fits = RESERVE_BYTES.checked_div(self.bytes)?;
        (self.blocks.len() < fits.clamp(1, RESERVE_BLOCKS_MAX)).then_some(self.bytes)
    }

    /// A block that was missing.
    pub fn put(&mut self, block: Block) {
        if block.len() >= self.bytes {
            self.blocks.push(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_missing_and_what_is_too_short_is_forgotten() {
        let mut reserve = Reserve::default();
        assert_eq!(reserve.missing(), None);
        reserve.expect(RESERVE_BYTES / 2);
        for _ in 0..2 {
            reserve.put(Block::ready(reserve.missing().unwrap()));
        }
        assert_eq!(reserve.missing(), None);
        assert_eq!(reserve.take(1000).len(), 1000);
        assert_eq!(reserve.missing(), Some(RESERVE_BYTES / 2));
        assert_eq!(reserve.take(RESERVE_BYTES).len(), RESERVE_BYTES);
        let short = Block::ready(RESERVE_BYTES / 2);
        // A frame larger than all: one block of its size.
        reserve.expect(RESERVE_BYTES * 2);
        reserve.put(short);
        assert_eq!(reserve.missing(), Some(RESERVE_BYTES * 2));
        reserve.put(Block::ready(RESERVE_BYTES * 2));
        assert_eq!(reserve.missing(), None);
    }
}
