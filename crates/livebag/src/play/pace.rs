//! When a message is due.

/// Maps log times of one round onto the clock. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    start_nanos: u64,
    first_log_nanos: u64,
    rate: f64,
}

impl Pace {
    /// The message with log time `first_log_nanos` is due at `start_nanos` of the clock.
    pub fn new(start_nanos: u64, first_log_nanos: u64, rate: f64) -> Self {
        Self { start_nanos, first_log_nanos, rate }
    }

    /// Clock time at which a message is due.
    pub fn due_nanos(&self, log_time_nanos: u64) -> u64 {
        let elapsed_nanos = log_time_nanos.saturating_sub(self.first_log_nanos);
        self.start_nanos.saturating_add(self.scale(elapsed_nanos))
    }

    /// The next round begins `round_nanos` of recorded time after this one.
    pub fn next_round(&mut self, round_nanos: u64) {
        self.start_nanos = self.start_nanos.saturating_add(self.scale(round_nanos));
    }

    fn scale(&self, nanos: u64) -> u64 {
        // Exact at the recorded rate; otherwise f64's 53 bits are microseconds over 200 years.
        if self.rate == 1.0 { nanos } else { (nanos as f64 / self.rate) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_follow_log_times() {
        let mut pace = Pace::new(100, 1_000, 1.0);
        assert_eq!(pace.due_nanos(1_000), 100);
        assert_eq!(pace.due_nanos(1_500), 600);
        assert_eq!(pace.due_nanos(900), 100, "before the first: at once");
        pace.next_round(2_000);
        assert_eq!(pace.due_nanos(1_500), 2_600);
    }

    #[test]
    fn the_rate_divides_time() {
        let mut pace = Pace::new(0, 0, 4.0);
        assert_eq!(pace.due_nanos(1_000), 250);
        pace.next_round(400);
        assert_eq!(pace.due_nanos(1_000), 350);
        assert_eq!(Pace::new(5, 0, 1e-300).due_nanos(1_000), u64::MAX);
    }
}
