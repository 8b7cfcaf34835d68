//! Memory that lies ready for copies of frames that are about to be overwritten.
//!
//! Such a copy is made when the machine is busy, and a busy machine may have no memory at hand: the kernel
//! then takes pages from the page cache first, frame by frame, while the sensor goes on. So a little is kept
//! ready, whose pages are there; the watching thread replaces what was used once it has nothing else to do.
//!
//! What has been written comes back and is used for the next copy, since who has to copy has to copy often and
//! a page of the kernel's costs more than filling it. Once no copy has been wanted for some time, all but
//! what lies ready goes back to the kernel.

use crate::limits::{
    LENT_BYTES_MIN, RESERVE_BLOCKS_MAX, RESERVE_BYTES, RESERVE_CALM_ROUNDS, RESERVE_STEP_BYTES,
};
use crate::storage::Block;

/// See the module's text.
#[derive(Default)]
pub(super) struct Reserve {
    blocks: Vec<Block>,
    /// Length of one.
    bytes: usize,
    /// Blocks of this length that were taken and are not back.
    away: usize,
    /// Rounds of the watching thread since one was taken.
    calm_rounds: u32,
}

impl Reserve {
    /// A copy may need so much. Nothing lies ready for what is larger than all of it may be, and for what the
    /// allocator has anyway.
    pub fn expect(&mut self, bytes: usize) {
        if bytes > self.bytes && (LENT_BYTES_MIN..=RESERVE_BYTES).contains(&bytes) {
            // Frames whose lengths vary are seldom longer than all before them.
            self.bytes = bytes.next_multiple_of(RESERVE_STEP_BYTES).min(RESERVE_BYTES);
            self.blocks.clear();
            self.away = 0;
        }
    }

    /// Memory for a copy: what is ready, or what the kernel gives. A small frame does not get the memory of
    /// a large one, all of which it would hold.
    pub fn take(&mut self, bytes: usize) -> Block {
        if bytes > self.bytes || bytes <= self.bytes / 2 {
            return Block::lent(bytes);
        }
        self.calm_rounds = 0;
        self.away += 1;
        let block = self.blocks.pop().unwrap_or_else(|| Block::lent(self.bytes));
        block.reused(bytes).unwrap_or_else(|| Block::lent(bytes))
    }

    /// Takes back what was taken; or gives it to the caller, to be let go, if it was not taken here.
    pub fn give_back(&mut self, block: Block) -> Option<Block> {
        if self.away == 0 || !block.is_lent() || block.memory_bytes() < self.bytes {
            return Some(block);
        }
        self.away -= 1;
        self.blocks.extend(block.reused(self.bytes));
        None
    }

    /// How many blocks lie ready when nothing is copied.
    fn wanted(&self) -> usize {
        let fits = RESERVE_BYTES.checked_div(self.bytes);
        fits.map_or(0, |fits| fits.clamp(1, RESERVE_BLOCKS_MAX))
    }

    /// Length of a block that is missing.
    pub fn missing(&self) -> Option<usize> {
        (self.blocks.len() < self.wanted()).then_some(self.bytes)
    }

    /// A block that was missing.
    pub fn put(&mut self, block: Block) {
        if block.len() >= self.bytes {
            self.blocks.push(block);
        }
    }

    /// A block to be let go, if no copies are made any more. Once in each round of the watching thread.
    pub fn surplus(&mut self) -> Option<Block> {
        self.calm_rounds = self.calm_rounds.saturating_add(1);
        let is_calm = self.calm_rounds > RESERVE_CALM_ROUNDS;
        if is_calm && self.blocks.len() > self.wanted() { self.blocks.pop() } else { None }
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

    #[test]
    fn what_comes_back_is_used_again_until_nothing_is_copied_any_more() {
        const COPIES: usize = 9;
        let mut reserve = Reserve::default();
        reserve.expect(RESERVE_BYTES / 2);
        let copies: Vec<Block> = (0..COPIES).map(|_| reserve.take(RESERVE_BYTES / 2 - 5)).collect();
        let places: Vec<*const u8> = copies.iter().map(|block| block.as_ptr()).collect();
        assert!(copies.into_iter().all(|block| reserve.give_back(block).is_none()));
        assert!(places.contains(&reserve.take(RESERVE_BYTES / 2).as_ptr()));
        for _ in 0..RESERVE_CALM_ROUNDS {
            assert!(reserve.surplus().is_none());
        }
        let mut let_go = 0;
        while reserve.surplus().is_some() {
            let_go += 1;
        }
        assert_eq!(let_go, COPIES - 1 - 2);
        assert!(reserve.missing().is_none());
    }

    #[test]
    fn memory_of_others_is_not_kept() {
        let mut reserve = Reserve::default();
        assert!(reserve.give_back(Block::lent(LENT_BYTES_MIN)).is_some());
        reserve.expect(RESERVE_BYTES / 2);
        assert!(reserve.give_back(Block::lent(RESERVE_BYTES / 2)).is_some());
        let taken = reserve.take(RESERVE_BYTES / 2);
        assert!(reserve.give_back(Block::lent(LENT_BYTES_MIN)).is_some());
        assert!(reserve.give_back(Block::zeroed(RESERVE_BYTES / 2)).is_some());
        assert!(reserve.give_back(taken).is_none());
    }
}
