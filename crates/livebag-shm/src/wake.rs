//! The wake protocol (`docs/stream-layout.md`, section 4): no system call while no reader sleeps.
//!
//! Generic over its memory, so that loom runs this very code (`loom_tests.rs`).

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::memory::{ReadMemory, WriteMemory};

/// Raises `word` to `sequence`, and says whether sleepers must be woken.
///
/// `wanted` is the word that sleeping readers of `word` write; without one, always wakes.
pub(crate) fn announce<M: WriteMemory, W: ReadMemory>(
    memory: &M,
    word: usize,
    wanted: Option<(&W, usize)>,
    sequence: u64,
) -> bool {
    // Release: pairs with the acquire loads of `go_to_sleep` and of every polling reader.
    memory.store(word, sequence, Release);
    let Some((wake, wanted)) = wanted else { return true };
    // Pairs with the fence of `go_to_sleep`: one of the two sides sees the other's store.
    memory.fence(SeqCst);
    wake.load(wanted, Relaxed) >= sequence
}

/// The next step of a reader that waits for `word` to pass `after`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// Nothing: it has.
    Passed,
    /// Look again.
    Again,
    /// Sleep while the low half of `word` is this.
    Sleep(u32),
}

/// Prepares a sleep on `word`, so that the writer will know of it.
pub(crate) fn go_to_sleep<M: ReadMemory, W: WriteMemory>(
    memory: &M,
    word: usize,
    wanted: Option<(&W, usize)>,
    after: u64,
) -> Next {
    let seen = memory.load(word, Acquire);
    if seen > after {
        return Next::Passed;
    }
    if let Some((wake, wanted)) = wanted {
        wake.raise(wanted, seen.saturating_add(1), Relaxed);
    }
    // Pairs with the fence of `announce`.
    memory.fence(SeqCst);
    if memory.load(word, Acquire) != seen {
        return Next::Again;
    }
    Next::Sleep(seen as u32)
}
