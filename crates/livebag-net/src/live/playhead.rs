//! Which moment of a recording a client is shown. Time comes in, a log time goes out.

use super::Playable;
use super::protocol::{PlaybackRequest, PlaybackStatus};

/// Which moment is shown, and how it moves.
#[derive(Clone, Copy, Debug)]
pub struct Playhead {
    way: Way,
    speed: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The newest of a recording that is being written.
    Following,
    /// The log time `from_nanos` at the monotonic time `since_nanos`, and on from there.
    Playing { from_nanos: u64, since_nanos: u64 },
    /// This log time.
    Paused(u64),
    /// The end.
    Ended,
}

impl Playhead {
    /// Follows a live recording; plays a finished one from the beginning.
    pub fn new(playable: Playable, now_nanos: u64) -> Self {
        let way = match playable.is_live {
            true => Way::Following,
            false => Way::Playing { from_nanos: playable.range.0, since_nanos: now_nanos },
        };
        Self { way, speed: 1.0 }
    }

    /// The log time that is shown at the monotonic time `now_nanos`.
    pub fn at(&self, playable: Playable, now_nanos: u64) -> u64 {
        let (start, end) = playable.range;
        match self.way {
            Way::Following | Way::Ended => end,
            Way::Paused(nanos) => nanos.clamp(start, end),
            Way::Playing { from_nanos, since_nanos } => {
                let elapsed = now_nanos.saturating_sub(since_nanos) as f64;
                let moved = (elapsed * f64::from(self.speed)) as u64;
                from_nanos.saturating_add(moved).clamp(start, end)
            }
        }
    }

    /// Up to which log time messages are sent: whatever comes, where the newest is followed.
    pub fn until(&self, playable: Playable, now_nanos: u64) -> u64 {
        match self.way {
            Way::Following => u64::MAX,
            _ => self.at(playable, now_nanos),
        }
    }

    /// Comes to the end, if that has been reached; whether it has just now.
    pub fn advance(&mut self, playable: Playable, now_nanos: u64) -> bool {
        let is_over = self.at(playable, now_nanos) >= playable.range.1;
        match self.way {
            Way::Playing { .. } if is_over && playable.is_live => self.way = Way::Following,
            Way::Playing { .. } if is_over => self.way = Way::Ended,
            // Its recorder has closed it.
            Way::Following if !playable.is_live => self.way = Way::Ended,
            _ => return false,
        }
        self.way == Way::Ended
    }

    /// Executes a client's request.
    pub fn apply(&mut self, request: &PlaybackRequest, playable: Playable, now_nanos: u64) {
        let (start, end) = playable.range;
        let has_ended = self.way == Way::Ended;
        let at = match request.seek_nanos {
            Some(nanos) => nanos.clamp(start, end),
            // From the end there is nothing to go on to.
            None if has_ended && request.plays => start,
            None => self.at(playable, now_nanos),
        };
        self.speed = request.speed;
        self.way = match request.plays {
            true if playable.is_live && at >= end => Way::Following,
            true => Way::Playing { from_nanos: at, since_nanos: now_nanos },
            false => Way::Paused(at),
        };
    }

    /// The status for the client, and the speed.
    pub fn status(&self) -> (PlaybackStatus, f32) {
        let status = match self.way {
            Way::Following | Way::Playing { .. } => PlaybackStatus::Playing,
            Way::Paused(_) => PlaybackStatus::Paused,
            Way::Ended => PlaybackStatus::Ended,
        };
        (status, self.speed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn asked(plays: bool, speed: f32, seek_nanos: Option<u64>) -> PlaybackRequest {
        PlaybackRequest { plays, speed, seek_nanos, request_id: String::new() }
    }

    fn playable(is_live: bool, end: u64) -> Playable {
        Playable { range: (10 * SECOND, end), is_live }
    }

    #[test]
    fn a_finished_recording_plays_to_its_end_and_again() {
        let all = playable(false, 20 * SECOND);
        let mut head = Playhead::new(all, 0);
        assert_eq!(head.at(all, 3 * SECOND), 13 * SECOND);
        head.apply(&asked(true, 2.0, None), all, 3 * SECOND);
        assert_eq!(head.at(all, 4 * SECOND), 15 * SECOND);
        head.apply(&asked(false, 2.0, None), all, 4 * SECOND);
        assert_eq!(head.at(all, 9 * SECOND), 15 * SECOND);
        assert!(!head.advance(all, 9 * SECOND));
        head.apply(&asked(true, 1.0, Some(19 * SECOND)), all, 9 * SECOND);
        assert!(!head.advance(all, 9 * SECOND) && head.advance(all, 10 * SECOND));
        assert_eq!(head.status().0, PlaybackStatus::Ended);
        head.apply(&asked(true, 1.0, None), all, 11 * SECOND);
        assert_eq!(head.at(all, 12 * SECOND), 11 * SECOND);
    }

    #[test]
    fn a_recording_being_written_is_followed_left_and_caught_up_with() {
        let mut head = Playhead::new(playable(true, 20 * SECOND), 0);
        assert_eq!(head.at(playable(true, 21 * SECOND), SECOND), 21 * SECOND);
        head.apply(&asked(true, 4.0, Some(0)), playable(true, 21 * SECOND), SECOND);
        assert_eq!(head.at(playable(true, 22 * SECOND), 2 * SECOND), 14 * SECOND);
        // At twenty-five seconds it is where the recorder is, and follows from then on.
        assert!(!head.advance(playable(true, 25 * SECOND), 5 * SECOND));
        assert_eq!(head.at(playable(true, 26 * SECOND), 5 * SECOND), 26 * SECOND);
        assert_eq!(head.status().0, PlaybackStatus::Playing);
        assert!(head.advance(playable(false, 27 * SECOND), 7 * SECOND));
        assert_eq!(head.status().0, PlaybackStatus::Ended);
    }

    #[test]
    fn what_is_outside_is_moved_inside() {
        let all = playable(false, 20 * SECOND);
        let mut head = Playhead::new(all, 0);
        for seek in [0, u64::MAX] {
            head.apply(&asked(false, 1.0, Some(seek)), all, 0);
            assert!((10 * SECOND..=20 * SECOND).contains(&head.at(all, u64::MAX)));
        }
    }
}
