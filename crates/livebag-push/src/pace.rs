//! How fast bytes leave: a token bucket, and the count of them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use livebag::Clock;

use crate::limits::{BURST, SLICE_BYTES_MAX, SLICES_PER_S};

/// Shared by everything that sends.
#[derive(Debug)]
pub struct Pacer {
    clock: Clock,
    bytes_per_s: Option<u64>,
    /// When the next slice may leave, on the monotonic clock.
    next_nanos: Mutex<u64>,
    sent_bytes: AtomicU64,
    moved_nanos: AtomicU64,
}

impl Pacer {
    /// With a limit, or without.
    pub fn new(clock: Clock, bytes_per_s: Option<u64>) -> Self {
        let moved_nanos = AtomicU64::new(clock.monotonic_nanos());
        Self {
            clock,
            bytes_per_s,
            next_nanos: Mutex::new(0),
            sent_bytes: AtomicU64::new(0),
            moved_nanos,
        }
    }

    /// Bytes that may leave at once.
    pub fn slice_bytes(&self) -> usize {
        let paced = self.bytes_per_s.map_or(u64::MAX, |rate| (rate / SLICES_PER_S).max(512));
        SLICE_BYTES_MAX.min(usize::try_from(paced).unwrap_or(usize::MAX))
    }

    /// Waits until `bytes` may leave, and counts them.
    pub async fn take(&self, bytes: usize) {
        let wait = self.wait_for(bytes);
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        self.count(bytes);
    }

    /// The same for a thread that may block.
    pub fn take_blocking(&self, bytes: usize) {
        self.clock.sleep(self.wait_for(bytes));
        self.count(bytes);
    }

    fn count(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.moved_nanos.store(self.clock.monotonic_nanos(), Ordering::Relaxed);
    }

    /// Bytes that have left so far, those sent again included.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Time since a byte has left.
    pub fn idle(&self) -> Duration {
        let moved_nanos = self.moved_nanos.load(Ordering::Relaxed);
        Duration::from_nanos(self.clock.monotonic_nanos().saturating_sub(moved_nanos))
    }

    fn wait_for(&self, bytes: usize) -> Duration {
        let Some(rate) = self.bytes_per_s else { return Duration::ZERO };
        let now = self.clock.monotonic_nanos();
        let mut next_nanos =
            self.next_nanos.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let begin = (*next_nanos).max(now.saturating_sub(BURST.as_nanos() as u64));
        *next_nanos = begin + (bytes as u128 * 1_000_000_000 / u128::from(rate.max(1))) as u64;
        Duration::from_nanos(begin.saturating_sub(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [u64; 4] = [20_000, 1_250_000, 25_000_000, 1_000_000_000];

    #[test]
    fn any_ten_seconds_have_the_rate_within_a_twentieth() {
        for rate in RATES {
            let clock = Clock::simulated(1_000_000_000);
            let pacer = Pacer::new(clock.clone(), Some(rate));
            let (mut left, mut stalled_nanos) = (Vec::new(), 0);
            while clock.monotonic_nanos() < 41_000_000_000 {
                let bytes = pacer.slice_bytes();
                pacer.take_blocking(bytes);
                let now = clock.monotonic_nanos();
                left.push((now, bytes as u64));
                // A store that is slow to take a slice now and then.
                if now - stalled_nanos > 700_000_000 {
                    stalled_nanos = now;
                    clock.advance(Duration::from_millis(30));
                }
            }
            let wanted = rate as f64 * 10.0;
            for from in (1..30).map(|second| second * 1_000_000_000_u64) {
                let is_within = |nanos: u64| (from..from + 10_000_000_000).contains(&nanos);
                let bytes: u64 =
                    left.iter().filter(|(at, _)| is_within(*at)).map(|(_, bytes)| bytes).sum();
                let share = bytes as f64 / wanted;
                assert!((0.95..=1.05).contains(&share), "{rate}: {share} of it from {from}");
            }
        }
    }

    #[test]
    fn a_long_pause_is_not_made_up_for() {
        let clock = Clock::simulated(0);
        let pacer = Pacer::new(clock.clone(), Some(1_000_000));
        pacer.take_blocking(1000);
        clock.advance(Duration::from_secs(60));
        let began = clock.monotonic_nanos();
        (0..1000).for_each(|_| pacer.take_blocking(1000));
        let took = Duration::from_nanos(clock.monotonic_nanos() - began);
        assert!(took >= Duration::from_millis(890), "a second's bytes in {took:?}");
    }

    #[test]
    fn no_limit_never_waits() {
        let clock = Clock::simulated(0);
        let pacer = Pacer::new(clock.clone(), None);
        pacer.take_blocking(1 << 40);
        assert_eq!((clock.monotonic_nanos(), pacer.sent_bytes()), (0, 1 << 40));
    }
}
