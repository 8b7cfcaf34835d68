//! Waiting for a word of the region to pass a sequence.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::clock;
use crate::futex;
use crate::layout::{live, state, wake};
use crate::limits::{NAP_NANOS_MAX, SLEEP_NANOS_MAX};
use crate::memory::ReadMemory;
use crate::region::Region;
use crate::wake::{Next, go_to_sleep};

/// How to wait for a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Looks all the time: the shortest latency, for a whole core.
    Spin,
    /// Sleeps in the kernel until the writer wakes.
    Futex,
}

/// The words that one can sleep on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Sequence of the newest complete frame.
    Latest,
    /// Sequence of the newest frame that is being copied in, or is complete.
    Begun,
}

impl Word {
    fn offsets(self) -> (usize, usize) {
        match self {
            Word::Latest => (live::LATEST, wake::WANTED_LATEST),
            Word::Begun => (live::BEGUN, wake::WANTED_BEGUN),
        }
    }
}

impl Region {
    /// Waits until `word` has passed `after` (true), or until `deadline_nanos` of `CLOCK_MONOTONIC`,
    /// or until the region was replaced.
    pub(crate) fn wait(&self, word: Word, wait: Wait, after: u64, deadline_nanos: u64) -> bool {
        match wait {
            Wait::Spin => self.spin(word, after, deadline_nanos),
            Wait::Futex => self.sleep(word, after, deadline_nanos),
        }
    }

    fn spin(&self, word: Word, after: u64, deadline_nanos: u64) -> bool {
        const TURNS_PER_CLOCK: u32 = 64;
        let (word, _) = word.offsets();
        loop {
            for _ in 0..TURNS_PER_CLOCK {
                // Acquire: pairs with the release store in `announce`.
                if self.main.load(word, Acquire) > after {
                    return true;
                }
                std::hint::spin_loop();
            }
            if clock::monotonic_nanos() >= deadline_nanos || self.is_replaced() {
                return false;
            }
        }
    }

    pub(crate) fn sleep(&self, word: Word, after: u64, deadline_nanos: u64) -> bool {
        let (word, wanted) = word.offsets();
        loop {
            let wake = self.wake.as_ref().map(|wake| (wake, wanted));
            match go_to_sleep(&self.main, word, wake, after) {
                Next::Passed => return true,
                Next::Again => {}
                Next::Sleep(seen) => {
                    let left = deadline_nanos.saturating_sub(clock::monotonic_nanos());
                    if left == 0 || self.is_replaced() {
                        return false;
                    }
                    let is_told = wake.is_some() || self.header.always_wake;
                    let longest = if is_told { SLEEP_NANOS_MAX } else { NAP_NANOS_MAX };
                    futex::wait(&self.main, word, seen, left.min(longest));
                }
            }
        }
    }

    fn is_replaced(&self) -> bool {
        self.main.load(live::STATE, Relaxed) == state::REPLACED
    }

    /// Wakes all sleepers on this region, in any process. Harmless: they check again.
    pub(crate) fn rouse(&self, word: Word) {
        futex::wake_all(&self.main, word.offsets().0);
    }
}
