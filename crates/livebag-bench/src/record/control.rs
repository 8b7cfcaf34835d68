//! The closed loop of unpaced runs.
//!
//! The recording process counts, per topic, the frames that it has done with; the producer
//! publishes a frame only into a slot whose frame was counted. So the recorder's own speed is
//! measured, and nothing can be lapped.

use std::sync::atomic::Ordering;

use crate::clock;
use crate::error::Result;
use crate::region::{PAGE_BYTES, Region};

/// One word per topic, a cache line apart.
const STRIDE_BYTES: usize = 64;

/// Counts of frames done with, by topic, and the moment of the first frame.
pub struct Control {
    region: Region,
    topics: usize,
}

impl Control {
    /// The producer's side.
    pub fn create(prefix: &str, topics: usize) -> Result<Self> {
        let bytes = ((topics + 1) * STRIDE_BYTES).next_multiple_of(PAGE_BYTES);
        Ok(Self { region: Region::create(&name(prefix), bytes)?, topics })
    }

    /// The recorder's side.
    pub fn open(prefix: &str, topics: usize) -> Result<Self> {
        Ok(Self { region: Region::open(&name(prefix))?, topics })
    }

    /// The producer publishes its first frame now, or has done so.
    pub fn start(&self) {
        let word = self.region.word64(self.topics * STRIDE_BYTES);
        if word.load(Ordering::Relaxed) == 0 {
            word.store(clock::monotonic_nanos(), Ordering::Release);
        }
    }

    /// When the first frame was published. Pairs with the release in [`Control::start`].
    pub fn started_nanos(&self) -> u64 {
        self.region.word64(self.topics * STRIDE_BYTES).load(Ordering::Acquire)
    }

    /// The recorder has done with the frames of `topic` up to `sequence`. Pairs with the acquire
    /// in [`Control::done`].
    pub fn set_done(&self, topic: usize, sequence: u64) {
        self.region.word64(topic * STRIDE_BYTES).store(sequence, Ordering::Release);
    }

    /// The last frame of `topic` that the recorder has done with.
    pub fn done(&self, topic: usize) -> u64 {
        self.region.word64(topic * STRIDE_BYTES).load(Ordering::Acquire)
    }
}

fn name(prefix: &str) -> String {
    format!("{prefix}.control")
}
