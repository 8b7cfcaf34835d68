//! A second pair of hands for who reads much of a brick in place.
//!
//! What is not in the page cache comes from the device when a mapping is looked at, and one who looks
//! at it in order never has the device do more than two things at once. So a second thread fetches
//! every other piece: by the time the cursor is through with its own, the next one is there. It only
//! fetches; whatever it meets is told to the cursor by its own look.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::limits::{AHEAD_PIECE_BYTES, AHEAD_PIECES, AHEAD_THREADS_MAX};
use crate::storage::Mapping;

/// Threads of all cursors of this process.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// One cursor's. Its thread ends with it, or a piece later.
pub(super) struct Ahead {
    shared: Arc<Shared>,
    range: Range<u64>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    news: Condvar,
}

#[derive(Default)]
struct State {
    /// The piece that the cursor is in, counted from the range's beginning.
    piece: u64,
    ends: bool,
}

/// Counts a thread as long as it lives.
struct Counted;

impl Counted {
    fn new() -> Option<Self> {
        let more = |count| (count < AHEAD_THREADS_MAX).then_some(count + 1);
        THREADS.fetch_update(Relaxed, Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    /// Waits until piece `number` is near; false at the end.
    fn wait_for(&self, number: u64) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let far = |state: &mut State| !state.ends && number > state.piece + AHEAD_PIECES;
        let state = self.news.wait_while(state, far);
        !state.unwrap_or_else(PoisonError::into_inner).ends
    }

    /// The first piece at or behind `number` that the cursor has not come to.
    fn next_free(&self, number: u64) -> u64 {
        let at = self.state.lock().unwrap_or_else(PoisonError::into_inner).piece;
        // Odd ones only: the others are the cursor's own.
        if number > at { number } else { (at + 1) | 1 }
    }
}

impl Ahead {
    /// Begins with a range of a mapping, if the device will have to be waited for and it is worth a thread.
    pub fn begin(mapping: &Arc<Mapping>, range: Range<u64>) -> Option<Self> {
        let second = range.start + AHEAD_PIECE_BYTES;
        if range.end <= second + AHEAD_PIECE_BYTES || mapping.is_there(second, 1) != Some(false) {
            return None;
        }
        let counted = Counted::new()?;
        let shared = Arc::new(Shared::default());
        let (mapping, theirs, all) = (mapping.clone(), shared.clone(), range.clone());
        let work = move || {
            let _counted = counted;
            let mut number = 1;
            while theirs.wait_for(number) {
                number = theirs.next_free(number);
                let start = all.start + number * AHEAD_PIECE_BYTES;
                let bytes = all.end.saturating_sub(start).min(AHEAD_PIECE_BYTES);
                if bytes == 0 || !mapping.fetched(start, bytes) {
                    break;
                }
                number += 2;
            }
        };
        let thread = std::thread::Builder::new().name("livebag-ahead".into()).spawn(work);
        // Without it, the cursor is slower.
        thread.ok().map(|_| Self { shared, range })
    }

    /// The cursor is about to look at `offset`.
    pub fn reach(&self, offset: u64) {
        let piece = offset.saturating_sub(self.range.start) / AHEAD_PIECE_BYTES;
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        if piece != state.piece {
            state.piece = piece;
            self.shared.news.notify_one();
        }
    }

    /// Whether it is about this offset.
    pub fn covers(&self, offset: u64) -> bool {
        self.range.contains(&offset)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).ends = true;
        self.shared.news.notify_one();
    }
}
