//! Between streams of this machine and topics of a network.
//!
//! [`ToRos2`] publishes a stream's frames: an image or a point cloud becomes the same message as in recordings, with
//! one copy out of its slot. [`StreamSink`] writes the topics of a [`Follower`](crate::Follower) into streams, images
//! and point clouds as native frames.

use std::sync::atomic::{AtomicU64, Ordering};

mod from_ros2;
mod to_ros2;

pub use from_ros2::StreamSink;
pub use to_ros2::ToRos2;

/// What became of a topic's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeCounts {
    /// Passed on.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Left out because they came more often than asked for.
    pub skipped: u64,
    /// Lost: overwritten in their stream, or by the network.
    pub lost: u64,
    /// Refused by the other side.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counters {
    messages: AtomicU64,
    bytes: AtomicU64,
    skipped: AtomicU64,
    lost: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    fn passed(&self, bytes: usize) {
        Self::add(&self.messages, 1);
        Self::add(&self.bytes, bytes as u64);
    }

    fn counts(&self) -> BridgeCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BridgeCounts {
            messages: read(&self.messages),
            bytes: read(&self.bytes),
            skipped: read(&self.skipped),
            lost: read(&self.lost),
            refused: read(&self.refused),
        }
    }
}

/// Lets this many messages a second pass.
#[derive(Debug)]
struct RateLimit {
    interval_nanos: u64,
    due_nanos: u64,
}

impl RateLimit {
    fn new(rate_max_hz: Option<f64>) -> Self {
        let interval = rate_max_hz.filter(|hz| *hz > 0.0).map_or(0.0, |hz| 1e9 / hz);
        Self { interval_nanos: interval as u64, due_nanos: 0 }
    }

    /// Whether a message passes at this monotonic time. The next is due an interval after this one was, so
    /// that a rate of 10 of 30 Hz is every third.
    fn passes(&mut self, now_nanos: u64) -> bool {
        if now_nanos < self.due_nanos {
            return false;
        }
        let behind = now_nanos - self.due_nanos;
        let base = if behind > self.interval_nanos { now_nanos } else { self.due_nanos };
        self.due_nanos = base + self.interval_nanos;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limited_rate_is_kept_over_time() {
        let passed = |hz: Option<f64>| {
            let mut limit = RateLimit::new(hz);
            (0..3000).filter(|frame| limit.passes(5_000_000_000 + frame * 33_333_333)).count()
        };
        assert_eq!(passed(None), 3000);
        assert!((990..=1010).contains(&passed(Some(10.0))), "{}", passed(Some(10.0)));
        assert!((690..=710).contains(&passed(Some(7.0))), "{}", passed(Some(7.0)));
        assert_eq!(passed(Some(1000.0)), 3000);
    }
}
