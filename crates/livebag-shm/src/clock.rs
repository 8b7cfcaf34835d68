//! The two clocks of a stream. Nanoseconds as u64 last until the year 2554.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: heartbeats, gaps, deadlines.
pub(crate) fn monotonic_nanos() -> u64 {
    nanos(ClockId::Monotonic)
}

/// The same as of the last tick, some milliseconds ago at most: a few loads, where the full clock reads a
/// counter.
pub(crate) fn monotonic_coarse_nanos() -> u64 {
    nanos(ClockId::MonotonicCoarse)
}

/// Nanoseconds of `CLOCK_REALTIME`: publish times.
pub(crate) fn realtime_nanos() -> u64 {
    nanos(ClockId::Realtime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}
