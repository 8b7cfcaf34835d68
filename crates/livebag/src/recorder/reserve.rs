//! Memory that lies ready for copies of frames that are about to be overwritten.
//!
//! Such a copy is made when the machine is busy, and a busy machine may have no memory at hand: the kernel
//! then takes pages from the page cache first, frame by frame, while the sensor goes on. So a little is kept
//! ready, whose pages are there; the watching thread replaces what was used once it has nothing else to do.

use crate::limits::{LENT_BYTES_MIN, RESERVE_BLOCKS_MAX, RESERVE_BYTES, RESERVE_STEP_BYTES};
use crate::storage::Block;

/// See the module's text.
#[derive(Default)]
pub(super) struct Reserve {
    blocks: Vec<Block>,
    /// Length of one.
    bytes: usize,
}

impl Reserve {
    /// A copy may need so much. Nothing lies ready for what is larger than all of it may be, and for what the
    /// allocator has anyway.
    pub fn expect(&mut self, bytes: usize) {
        if bytes > self.bytes && (LENT_BYTES_MIN..=RESERVE_BYTES).contains(&bytes) {
            // Frames whose lengths vary are seldom longer than all before them.
            self.bytes = bytes.next_multiple_of(RESERVE_STEP_BYTES).min(RESERVE_BYTES);
            self.blocks.clear();
        }
    }

    /// Memory for a copy: what is ready, or what the kernel gives. A small frame does not get the memory of
    /// a large one, all of which it would hold.
    pub fn take(&mut self, bytes: usize) -> Block {
        let suits = bytes <= self.bytes && bytes > self.bytes / 2;
        let ready = if suits { self.blocks.pop() } else { None };
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

    fn fill(reserve: &mut Reserve) -> usize {
        let mut count = 0;
        while let Some(bytes) = reserve.missing() {
            reserve.put(Block::ready(bytes).unwrap());
            count += 1;
        }
        count
    }

    #[test]
    fn what_was_taken_is_missing() {
        let mut reserve = Reserve::default();
        reserve.expect(LENT_BYTES_MIN - 1);
        assert_eq!(fill(&mut reserve), 0);
        reserve.expect(RESERVE_BYTES / 2);
        assert_eq!(fill(&mut reserve), 2);
        assert_eq!(reserve.take(RESERVE_BYTES / 2 - 5).len(), RESERVE_BYTES / 2 - 5);
        assert_eq!(fill(&mut reserve), 1);
    }

    #[test]
    fn small_frames_and_very_large_ones_leave_it_alone() {
        let mut reserve = Reserve::default();
        reserve.expect(RESERVE_BYTES / 2);
        fill(&mut reserve);
        assert_eq!(reserve.take(1000).len(), 1000);
        reserve.expect(RESERVE_BYTES + 1);
        assert_eq!(reserve.take(RESERVE_BYTES + 1).len(), RESERVE_BYTES + 1);
        assert_eq!(fill(&mut reserve), 0);
    }

    #[test]
    fn what_is_too_short_by_now_is_forgotten() {
        let mut reserve = Reserve::default();
        reserve.expect(RESERVE_BYTES / 2);
        let short = Block::ready(RESERVE_BYTES / 2).unwrap();
        reserve.expect(RESERVE_BYTES);
        reserve.put(short);
        assert_eq!(fill(&mut reserve), 1);
    }
}
