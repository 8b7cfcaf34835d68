//! When a message is due.

/// Maps times of the recording onto the clock, and back. Times in nanoseconds.
///
/// A line through one point, with the rate as its slope: without commands, every message's due time comes from the same
/// point, so that lateness and rounding never add up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// At this time of the clock …
    clock_nanos: u64,
    /// … the recording stands here.
    position_nanos: u64,
    rate: f64,
    /// Time stands still at `position_nanos`, at least until `clock_nanos`.
    held: bool,
}

impl Pace {
    /// Stays at a position until released, at least until `clock_nanos`.
    pub fn held(clock_nanos: u64, position_nanos: u64, rate: f64) -> Self {
        Self { clock_nanos, position_nanos, rate, held: true }
    }

    /// Where the recording stands.
    pub fn position_nanos(&self, now_nanos: u64) -> u64 {
        if self.held {
            return self.position_nanos;
        }
        let elapsed_nanos = now_nanos.saturating_sub(self.clock_nanos);
        let played_nanos = match self.rate == 1.0 {
            true => elapsed_nanos,
            false => (elapsed_nanos as f64 * self.rate) as u64,
        };
        self.position_nanos.saturating_add(played_nanos)
    }

    /// Clock time at which playing reaches a position, without further commands.
    pub fn due_nanos(&self, position_nanos: u64) -> u64 {
        let recorded_nanos = position_nanos.saturating_sub(self.position_nanos);
        // Exact at the recorded rate; otherwise f64's 53 bits are nanoseconds over 100 days.
        let nanos = match self.rate == 1.0 {
            true => recorded_nanos,
            false => (recorded_nanos as f64 / self.rate) as u64,
        };
        self.clock_nanos.saturating_add(nanos)
    }

    /// Stops time. A player that is late stops at the position that it has reached, at most `next_nanos`.
    pub fn hold(&mut self, now_nanos: u64, next_nanos: Option<u64>) {
        if !self.held {
            self.turn(now_nanos, next_nanos);
            self.held = true;
        }
    }

    /// Lets time flow.
    pub fn release(&mut self, now_nanos: u64) {
        if self.held {
            self.clock_nanos = self.clock_nanos.max(now_nanos);
            self.held = false;
        }
    }

    /// Goes to a position and stays there until released.
    pub fn jump(&mut self, position_nanos: u64) {
        self.position_nanos = position_nanos;
        self.held = true;
    }

    /// Changes the rate from now on; as for [`Pace::hold`].
    pub fn set_rate(&mut self, now_nanos: u64, next_nanos: Option<u64>, rate: f64) {
        if !self.held {
            self.turn(now_nanos, next_nanos);
        }
        self.rate = rate;
    }

    /// Continues from a position at a time of the clock.
    pub fn restart(&mut self, clock_nanos: u64, position_nanos: u64) {
        (self.clock_nanos, self.position_nanos) = (clock_nanos, position_nanos);
    }

    /// Moves the point of the line to now.
    fn turn(&mut self, now_nanos: u64, next_nanos: Option<u64>) {
        let position_nanos = self.position_nanos(now_nanos);
        self.position_nanos = next_nanos.map_or(position_nanos, |next| next.min(position_nanos));
        self.clock_nanos = self.clock_nanos.max(now_nanos);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flowing(clock_nanos: u64, position_nanos: u64, rate: f64) -> Pace {
        let mut pace = Pace::held(clock_nanos, position_nanos, rate);
        pace.release(0);
        pace
    }

    #[test]
    fn due_times_follow_recorded_times() {
        let mut pace = flowing(100, 1_000, 1.0);
        assert_eq!(pace.due_nanos(1_000), 100);
        assert_eq!(pace.due_nanos(1_500), 600);
        assert_eq!(pace.due_nanos(900), 100, "before the first: at once");
        assert_eq!((pace.position_nanos(50), pace.position_nanos(600)), (1_000, 1_500));
        pace.restart(pace.due_nanos(3_000), 1_000);
        assert_eq!(pace.due_nanos(1_500), 2_600);
    }

    #[test]
    fn the_rate_divides_time() {
        let pace = flowing(0, 0, 4.0);
        assert_eq!((pace.due_nanos(1_000), pace.position_nanos(250)), (250, 1_000));
        assert_eq!(flowing(5, 0, 1e-300).due_nanos(1_000), u64::MAX);
    }

    #[test]
    fn a_pause_moves_what_comes_after_it() {
        let mut pace = flowing(0, 1_000, 2.0);
        pace.hold(100, Some(5_000));
        assert_eq!(pace.position_nanos(900), 1_200);
        pace.release(700);
        assert_eq!((pace.position_nanos(700), pace.due_nanos(1_300)), (1_200, 750));
        pace.set_rate(750, None, 1.0);
        assert_eq!(pace.due_nanos(1_500), 950);
    }

    #[test]
    fn who_is_late_does_not_leap_after_a_pause() {
        let mut pace = flowing(0, 0, 1.0);
        pace.hold(500, Some(100));
        pace.release(600);
        assert_eq!((pace.due_nanos(100), pace.due_nanos(150)), (600, 650));
    }

    #[test]
    fn nothing_moves_before_its_time() {
        let mut pace = Pace::held(1_000, 70, 1.0);
        pace.release(10);
        assert_eq!((pace.position_nanos(900), pace.due_nanos(75)), (70, 1_005));
        pace.set_rate(20, None, 5.0);
        pace.hold(30, None);
        pace.release(40);
        assert_eq!(pace.due_nanos(75), 1_001);
    }
}
