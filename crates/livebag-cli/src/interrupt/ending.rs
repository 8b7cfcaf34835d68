//! Meaning of a signal, depending on earlier ones. Pure: it is given the time.

use std::time::Duration;

/// Signals within this time of the one that counted change nothing: a launcher's process group, a container runtime and
/// an impatient hand all send several.
pub const GRACE: Duration = Duration::from_secs(3);

/// Effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The orderly end begins.
    Close,
    /// Nothing changes, and this is said once.
    Remind,
    /// Nothing changes.
    Ignore,
    /// What waits is given up and counted, and the recording is closed.
    Abandon,
    /// The process ends.
    Exit,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Running,
    Closing,
    Abandoning,
}

/// How far the end has been asked for.
pub struct Ending {
    stage: Stage,
    since_nanos: u64,
    /// Whether a signal can discard waiting messages before the immediate end.
    abandons: bool,
    grace: Duration,
    is_reminded: bool,
}

impl Ending {
    /// Of a verb; `abandons`: whether a signal can discard waiting messages before the immediate end.
    pub fn new(abandons: bool, grace: Duration) -> Self {
        Self { stage: Stage::Running, since_nanos: 0, abandons, grace, is_reminded: false }
    }

    /// A signal at `now_nanos`, on a monotonic clock.
    pub fn signal(&mut self, now_nanos: u64) -> Reaction {
        let is_early = now_nanos.saturating_sub(self.since_nanos) < self.grace.as_nanos() as u64;
        match self.stage {
            Stage::Running => self.enter(Stage::Closing, now_nanos, Reaction::Close),
            _ if is_early && std::mem::replace(&mut self.is_reminded, true) => Reaction::Ignore,
            _ if is_early => Reaction::Remind,
            Stage::Closing if self.abandons => {
                self.enter(Stage::Abandoning, now_nanos, Reaction::Abandon)
            }
            Stage::Closing | Stage::Abandoning => Reaction::Exit,
        }
    }

    fn enter(&mut self, stage: Stage, now_nanos: u64, reaction: Reaction) -> Reaction {
        (self.stage, self.since_nanos) = (stage, now_nanos);
        reaction
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000;

    /// As `ros2 launch` in a process group, `timeout -s INT`, docker and impatient people send them.
    #[test]
    fn signals_within_three_seconds_are_one() {
        for mut ending in [false, true].map(|abandons| Ending::new(abandons, GRACE)) {
            assert_eq!(ending.signal(5 * MILLI), Reaction::Close);
            assert_eq!(ending.signal(15 * MILLI), Reaction::Remind);
            for at in 1..10 {
                assert_eq!(ending.signal((15 + 290 * at) * MILLI), Reaction::Ignore);
            }
        }
    }

    #[test]
    fn abandoning_is_a_deliberate_act() {
        let mut ending = Ending::new(true, GRACE);
        assert_eq!(ending.signal(0), Reaction::Close);
        assert_eq!(ending.signal(3000 * MILLI), Reaction::Abandon);
        // And so is giving up even to close it.
        assert_eq!(ending.signal(3010 * MILLI), Reaction::Remind);
        assert_eq!(ending.signal(5990 * MILLI), Reaction::Ignore);
        assert_eq!(ending.signal(6000 * MILLI), Reaction::Exit);
    }

    #[test]
    fn what_hangs_can_be_stopped() {
        let mut ending = Ending::new(false, GRACE);
        assert_eq!(ending.signal(0), Reaction::Close);
        assert_eq!(ending.signal(2999 * MILLI), Reaction::Remind);
        assert_eq!(ending.signal(3000 * MILLI), Reaction::Exit);
    }
}
