//! The protocols' requirements on their memory.
//!
//! The slot protocol and the wake protocol are written once, against these traits. Production runs
//! them on [`Mapped`], a mapping of the shared object; loom runs the same code on its own atomics.
//!
//! Offsets count bytes from the start of an object; words are aligned to 8. An implementation must make word accesses
//! atomic with the requested order, and must make `copy_in` and `copy_out` behave as relaxed accesses of single bytes
//! in any order: they may race with the other side by design, and the protocol detects it afterwards.
//! [`WriteMemory::settle`] must order every `copy_in` and every plain store before it before every store after it, also
//! if the machine has stores that pass others (x86's non-temporal ones).

mod copy;
mod mapped;

use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

pub(crate) use copy::copy_from_shared;
pub use copy::copy_past_caches;
pub(crate) use mapped::{Access, Mapped};

/// Memory that is only read.
pub(crate) trait ReadMemory {
    /// Loads a word atomically.
    fn load(&self, at: usize, order: Ordering) -> u64;
    /// Copies payload bytes out.
    fn copy_out(&self, at: usize, to: &mut [MaybeUninit<u8>]);
    /// The fence that goes with these atomics.
    fn fence(&self, order: Ordering);
}

/// Memory that may be written too.
pub(crate) trait WriteMemory: ReadMemory {
    /// Stores a word atomically.
    fn store(&self, at: usize, value: u64, order: Ordering);
    /// Raises a word atomically.
    fn raise(&self, at: usize, value: u64, order: Ordering);
    /// Copies payload bytes in.
    fn copy_in(&self, at: usize, from: &[u8]);
    /// Orders the stores before it before those after it.
    fn settle(&self);
}
