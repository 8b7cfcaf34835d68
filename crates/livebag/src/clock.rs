//! The only place where time is read, so that tests can replay it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall time and monotonic time; real, or simulated for tests.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    System { origin: Instant },
    Simulated { nanos: Arc<AtomicU64>, jumped_nanos: Arc<AtomicI64> },
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock {
    /// The machine's clocks.
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    pub fn system() -> Self {
        Self(Kind::System { origin: Instant::now() })
    }

    /// A clock that stays at `nanos` until it is advanced.
    pub fn simulated(nanos: u64) -> Self {
        let jumped_nanos = Arc::new(AtomicI64::new(0));
        Self(Kind::Simulated { nanos: Arc::new(AtomicU64::new(nanos)), jumped_nanos })
    }

    /// Moves a simulated clock on; nothing for the real one.
    pub fn advance(&self, by: Duration) {
        if let Kind::Simulated { nanos, .. } = &self.0 {
            nanos.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// Sets a simulated wall clock forward or back, as a user sets a machine's clock; no effect on the real one.
    pub fn jump(&self, by_nanos: i64) {
        if let Kind::Simulated { jumped_nanos, .. } = &self.0 {
            jumped_nanos.fetch_add(by_nanos, Ordering::Relaxed);
        }
    }

    /// Nanoseconds since the Unix epoch. May step back.
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    pub fn wall_nanos(&self) -> u64 {
        match &self.0 {
            Kind::System { .. } => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |elapsed| elapsed.as_nanos() as u64),
            Kind::Simulated { nanos, jumped_nanos } => nanos
                .load(Ordering::Relaxed)
                .saturating_add_signed(jumped_nanos.load(Ordering::Relaxed)),
        }
    }

    /// Nanoseconds since this clock was made. Never steps back.
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    pub fn monotonic_nanos(&self) -> u64 {
        match &self.0 {
            Kind::System { origin } => Instant::now().duration_since(*origin).as_nanos() as u64,
            Kind::Simulated { nanos, .. } => nanos.load(Ordering::Relaxed),
        }
    }

    /// Waits. A simulated clock is moved on instead.
    pub fn sleep(&self, time: Duration) {
        match &self.0 {
            Kind::System { .. } => std::thread::sleep(time),
            Kind::Simulated { .. } => self.advance(time),
        }
    }
}
