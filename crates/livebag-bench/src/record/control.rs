//! The closed loop of unpaced runs.
//!
//! The recording process counts, per topic, the frames that it has done with; the producer
//! publishes a frame only into a slot whose frame was counted. So the recorder's own speed is
//! measured, and nothing can be lapped.

use std::sync::atomic::Ordering;

use crate::error::Result;
use crate::region::{PAGE_BYTES, Region};

/// One word per topic, a cache line apart.
const STRIDE_BYTES: usize = 64;

/// Counts of frames done with, by topic.
pub struct Control(Region);

impl Control {
    /// The producer's side.
    pub fn create(prefix: &str, topics: usize) -> Result<Self> {
        let bytes = (topics * STRIDE_BYTES).next_multiple_of(PAGE_BYTES);
        Region::create(&name(prefix), bytes).map(Self)
    }

    /// The recorder's side.
    pub fn open(prefix: &str) -> Result<Self> {
        Region::open(&name(prefix)).map(Self)
    }

    /// The recorder has done with the frames of `topic` up to `sequence`. Pairs with the acquire
    /// in [`Control::done`].
    pub fn set_done(&self, topic: usize, sequence: u64) {
        self.0.word64(topic * STRIDE_BYTES).store(sequence, Ordering::Release);
    }

    /// The last frame of `topic` that the recorder has done with.
    pub fn done(&self, topic: usize) -> u64 {
        self.0.word64(topic * STRIDE_BYTES).load(Ordering::Acquire)
    }
}

fn name(prefix: &str) -> String {
    format!("{prefix}.control")
}
