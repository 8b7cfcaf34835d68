//! How fast the disk takes bytes.

use crate::limits::{SPEED_BURST_BYTES_MAX, SPEED_BURST_BYTES_MIN};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Measures the disk's speed from submissions and completions, over the time in which something was under way:
/// a disk that has nothing to do is not slow.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteSpeed {
    in_flight_bytes: u64,
    burst_bytes: u64,
    burst_began_nanos: u64,
    bytes_per_second: Option<u64>,
}

impl WriteSpeed {
    /// A write has been submitted.
    pub fn submitted(&mut self, now_nanos: u64, bytes: u64) {
        if self.in_flight_bytes == 0 {
            self.burst_bytes = 0;
            self.burst_began_nanos = now_nanos;
        }
        self.in_flight_bytes += bytes;
    }

    /// A write has ended, well or not.
    pub fn completed(&mut self, now_nanos: u64, bytes: u64) {
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(bytes);
        self.burst_bytes += bytes;
        let is_over = self.in_flight_bytes == 0 && self.burst_bytes >= SPEED_BURST_BYTES_MIN;
        if is_over || self.burst_bytes >= SPEED_BURST_BYTES_MAX {
            self.take_burst(now_nanos);
        }
    }

    fn take_burst(&mut self, now_nanos: u64) {
        let nanos = u128::from(now_nanos.saturating_sub(self.burst_began_nanos)).max(1);
        let speed = u128::from(self.burst_bytes) * NANOS_PER_SECOND / nanos;
        let speed = u64::try_from(speed).unwrap_or(u64::MAX).max(1);
        // A quarter of the new value: follows a change within a few bursts.
        let smoothed = |old: u64| old - old / 4 + speed / 4;
        self.bytes_per_second = Some(self.bytes_per_second.map_or(speed, smoothed));
        self.burst_bytes = 0;
        self.burst_began_nanos = now_nanos;
    }

    /// Bytes that were submitted and have not been completed.
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight_bytes
    }

    /// The speed; none before the first burst of writes that is long enough to tell.
    pub fn bytes_per_second(&self) -> Option<u64> {
        self.bytes_per_second
    }
}
