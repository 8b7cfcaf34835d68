//! The slot protocol: a sequence lock per slot (`docs/stream-layout.md`, section 3).
//!
//! Generic over its memory, so that loom runs this very code (`loom_tests.rs`).

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::layout::{SlotPlace, slot};
use crate::memory::{ReadMemory, WriteMemory};

const PROGRESS_BITS: u32 = 48;
const PROGRESS_MASK: u64 = (1 << PROGRESS_BITS) - 1;

/// State of a slot with regard to one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The frame is neither complete nor being filled yet.
    Earlier,
    /// The frame is being filled.
    Filling,
    /// The whole frame.
    Whole,
    /// A later frame, or one that is being filled over it.
    Later,
}

/// One slot of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot<'m, M> {
    memory: &'m M,
    place: SlotPlace,
}

const fn filling(sequence: u64) -> u64 {
    sequence.wrapping_mul(2).wrapping_sub(1)
}

const fn complete(sequence: u64) -> u64 {
    sequence.wrapping_mul(2)
}

/// The frame that a value of `lock` says is complete, if any.
pub(crate) fn complete_sequence(lock: u64) -> Option<u64> {
    (lock > 0 && lock.is_multiple_of(2)).then_some(lock / 2)
}

impl<'m, M: ReadMemory> Slot<'m, M> {
    pub(crate) fn new(memory: &'m M, place: SlotPlace) -> Slot<'m, M> {
        Slot { memory, place }
    }

    /// The raw lock word. Acquire: pairs with the release stores of `begin` and `finish`.
    pub(crate) fn lock(&self) -> u64 {
        self.memory.load(self.place.header + slot::LOCK, Acquire)
    }

    /// First check: the slot's state. When the answer is `Whole`, the loads that follow see that frame or later stores.
    pub(crate) fn holds(&self, sequence: u64) -> Holds {
        match self.lock() {
            lock if lock == complete(sequence) => Holds::Whole,
            lock if lock == filling(sequence) => Holds::Filling,
            lock if lock < filling(sequence) => Holds::Earlier,
            _ => Holds::Later,
        }
    }

    /// Second check: whether everything loaded since the first check belongs to the frame.
    ///
    /// The acquire fence pairs with the release fence of `begin`: if a load saw a store of a later fill, this load of
    /// `lock` sees that fill's odd value or a later one.
    pub(crate) fn is_still_whole(&self, sequence: u64) -> bool {
        self.memory.fence(Acquire);
        self.memory.load(self.place.header + slot::LOCK, Relaxed) == complete(sequence)
    }

    /// A word of the slot header; only to be believed after the second check.
    pub(crate) fn header_word(&self, at: usize) -> u64 {
        self.memory.load(self.place.header + at, Relaxed)
    }

    /// Copies payload bytes; only to be believed after the second check.
    pub(crate) fn copy_out(&self, at: usize, to: &mut [MaybeUninit<u8>]) {
        self.memory.copy_out(self.place.payload + at, to);
    }

    /// The attempt that fills the slot, and how many payload bytes it has put in place.
    ///
    /// Acquire: pairs with the release store of `advance`, so those bytes are there.
    pub(crate) fn progress(&self) -> Progress {
        Progress(self.memory.load(self.place.header + slot::PROGRESS, Acquire))
    }

    /// Second check of a copy that began while the frame was being filled by `attempt`.
    ///
    /// `2k` alone is not enough here: a fill that was abandoned and repeated ends with the same lock, but with another
    /// attempt.
    pub(crate) fn is_still_whole_by(&self, sequence: u64, attempt: u16) -> bool {
        let whole = self.is_still_whole(sequence);
        let progress = self.memory.load(self.place.header + slot::PROGRESS, Relaxed);
        whole && Progress(progress).attempt() == attempt
    }
}

/// The word `progress` of a slot header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress(u64);

impl Progress {
    pub(crate) fn new(attempt: u16, bytes: usize) -> Progress {
        Progress(u64::from(attempt) << PROGRESS_BITS | (bytes as u64 & PROGRESS_MASK))
    }

    pub(crate) fn attempt(self) -> u16 {
        (self.0 >> PROGRESS_BITS) as u16
    }

    pub(crate) fn bytes(self) -> usize {
        (self.0 & PROGRESS_MASK) as usize
    }
}

impl<M: WriteMemory> Slot<'_, M> {
    /// Takes the slot for a frame, and returns the number of this attempt.
    pub(crate) fn begin(&self, sequence: u64) -> u16 {
        let header = self.place.header;
        let before = Progress(self.memory.load(header + slot::PROGRESS, Relaxed));
        let attempt = before.attempt().wrapping_add(1);
        self.memory.store(header + slot::PROGRESS, Progress::new(attempt, 0).0, Relaxed);
        // Release: pairs with the acquire load in `holds`, so that a reader that copies along sees this attempt's
        // progress or a later one.
        self.memory.store(header + slot::LOCK, filling(sequence), Release);
        // Pairs with the acquire fence in `is_still_whole`.
        self.memory.fence(Release);
        self.memory.settle();
        attempt
    }

    /// Stores a word of the slot header, between `begin` and `finish`.
    pub(crate) fn set_header_word(&self, at: usize, value: u64) {
        self.memory.store(self.place.header + at, value, Relaxed);
    }

    /// Copies payload bytes into the slot, between `begin` and `finish`.
    pub(crate) fn copy_in(&self, at: usize, from: &[u8]) {
        self.memory.copy_in(self.place.payload + at, from);
    }

    /// Says that the first `bytes` bytes of the payload are in place.
    pub(crate) fn advance(&self, attempt: u16, bytes: usize) {
        self.memory.settle();
        // Release: pairs with the acquire load in `progress`.
        let progress = Progress::new(attempt, bytes).0;
        self.memory.store(self.place.header + slot::PROGRESS, progress, Release);
    }

    /// Says that the frame is complete.
    pub(crate) fn finish(&self, sequence: u64) {
        self.memory.settle();
        // Release: pairs with the acquire load in `holds`.
        self.memory.store(self.place.header + slot::LOCK, complete(sequence), Release);
    }
}
