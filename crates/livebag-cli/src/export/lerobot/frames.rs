//! Messages as frames at fixed times: an episode's start + k / fps.

use std::collections::VecDeque;
use std::rc::Rc;

use super::picture::Picture;
use super::rules::{Feature, Resample};

const SECOND: u128 = 1_000_000_000;
/// If no feature has a message for longer, the recording was paused, or the clock was set: the episode ends.
const PAUSE_NANOS_MAX: u64 = 10_000_000_000;

/// What a message gives to a feature.
#[derive(Clone)]
pub enum Value {
    Numbers(Vec<f32>),
    Picture(Rc<Picture>),
}

struct Sample {
    nanos: u64,
    value: Value,
}

/// The messages of one feature that frames to come may need.
struct Track {
    resample: Resample,
    tolerance_nanos: u64,
    samples: VecDeque<Sample>,
}

impl Track {
    /// Whether messages from `now` on cannot change the value at `at`.
    fn is_decided(&self, at: u64, now: u64) -> bool {
        match self.resample {
            Resample::Hold => now > at,
            Resample::Nearest | Resample::Linear => {
                self.samples.back().is_some_and(|sample| sample.nanos >= at)
                    || now > at.saturating_add(self.tolerance_nanos)
            }
        }
    }

    fn value(&self, at: u64) -> Option<Value> {
        let next = self.samples.partition_point(|sample| sample.nanos <= at);
        let is_near = |sample: &&Sample| sample.nanos.abs_diff(at) <= self.tolerance_nanos;
        let before = next.checked_sub(1).map(|last| &self.samples[last]).filter(is_near);
        let after = self.samples.get(next).filter(is_near);
        match (self.resample, before, after) {
            (Resample::Hold, before, _) => before.map(|sample| sample.value.clone()),
            (Resample::Nearest, Some(before), Some(after)) => {
                let is_later_nearer = after.nanos - at < at - before.nanos;
                Some(if is_later_nearer { after } else { before }.value.clone())
            }
            (Resample::Nearest, before, after) => {
                before.or(after).map(|sample| sample.value.clone())
            }
            (Resample::Linear, Some(before), _) if before.nanos == at => Some(before.value.clone()),
            (Resample::Linear, Some(before), Some(after)) => {
                let part = (at - before.nanos) as f64 / (after.nanos - before.nanos) as f64;
                let between = |(a, b): (&f32, &f32)| {
                    (f64::from(*a) + (f64::from(*b) - f64::from(*a)) * part) as f32
                };
                Some(match (&before.value, &after.value) {
                    (Value::Numbers(before), Value::Numbers(after)) => {
                        Value::Numbers(before.iter().zip(after).map(between).collect())
                    }
                    // The rules allow no lines between pictures.
                    _ => before.value.clone(),
                })
            }
            (Resample::Linear, ..) => None,
        }
    }

    /// Forgets what frames from `at` on do not need.
    fn forget_before(&mut self, at: u64) {
        while self.samples.get(1).is_some_and(|second| second.nanos <= at) {
            self.samples.pop_front();
        }
    }
}

/// What comes out.
pub enum Step {
    /// The next frame of an episode: its number in it, and the values of each feature.
    Frame(u64, Vec<Value>),
    /// The episode has ended.
    End,
}

/// Frames within one range of log times. Messages come in order of log time.
pub struct Frames {
    tracks: Vec<Track>,
    fps: u64,
    to: u64,
    /// No frame is before.
    earliest: u64,
    /// Of the current episode.
    start: Option<u64>,
    frame: u64,
    newest: u64,
}

impl Frames {
    pub fn new(features: &[Feature], fps: u64, (from, to): (u64, u64)) -> Self {
        let track = |feature: &Feature| Track {
            resample: feature.resample,
            tolerance_nanos: feature.tolerance_nanos.unwrap_or(u64::MAX),
            samples: VecDeque::new(),
        };
        let tracks = features.iter().map(track).collect();
        Self { tracks, fps, to, earliest: from, start: None, frame: 0, newest: 0 }
    }

    /// Adds a message. [`Frames::step`] must have given all frames before.
    pub fn push(&mut self, feature: usize, nanos: u64, value: Value) {
        self.newest = self.newest.max(nanos);
        self.tracks[feature].samples.push_back(Sample { nanos, value });
    }

    /// The next step before a message of log time `now`; without `now` no message comes any more.
    pub fn step(&mut self, now: Option<u64>) -> Option<Step> {
        loop {
            let at = self.next_time()?;
            let to = if now.is_none() { self.to.min(self.newest) } else { self.to };
            if at > to {
                return None;
            }
            if now.is_some_and(|now| !self.tracks.iter().all(|track| track.is_decided(at, now))) {
                return None;
            }
            if let Some(now) = now.filter(|now| *now > at)
                && at.saturating_sub(self.newest) > PAUSE_NANOS_MAX
            {
                // What is held remains.
                self.earliest = now;
                self.start = None;
                if std::mem::take(&mut self.frame) > 0 {
                    return Some(Step::End);
                }
                continue;
            }
            let values: Vec<_> = self.tracks.iter().map(|track| track.value(at)).collect();
            if values.iter().all(Option::is_some) {
                let frame = self.frame;
                self.frame += 1;
                return Some(Step::Frame(frame, values.into_iter().flatten().collect()));
            }
            // A feature is silent for too long: an episode may begin with its next message.
            for (track, value) in self.tracks.iter_mut().zip(&values) {
                if value.is_none() {
                    track.samples.retain(|sample| sample.nanos > at);
                }
            }
            self.earliest = at + 1;
            self.start = None;
            if self.frame > 0 {
                self.frame = 0;
                return Some(Step::End);
            }
        }
    }

    /// When the next frame is; an episode begins where all features have a value.
    fn next_time(&mut self) -> Option<u64> {
        let start = match self.start {
            Some(start) => start,
            None => {
                if self.tracks.iter().any(|track| track.samples.is_empty()) {
                    // Nothing before the newest can be needed.
                    self.tracks.iter_mut().for_each(|track| track.forget_before(u64::MAX));
                    return None;
                }
                let first = |track: &Track| track.samples.front().map(|sample| sample.nanos);
                let all = self.tracks.iter().filter_map(first).max()?;
                let start = all.max(self.earliest);
                self.start = Some(start);
                start
            }
        };
        let since = u128::from(self.frame) * SECOND / u128::from(self.fps);
        let at = start.saturating_add(u64::try_from(since).unwrap_or(u64::MAX));
        self.tracks.iter_mut().for_each(|track| track.forget_before(at));
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(resample: Resample, tolerance: u64, range: (u64, u64), at: &[u64]) -> Vec<String> {
        let feature = Feature {
            key: "a".into(),
            topic: "/a".into(),
            fields: Vec::new(),
            resample,
            tolerance_nanos: Some(tolerance),
        };
        let mut frames = Frames::new(&[feature], 1000, range);
        let mut said = Vec::new();
        let mut drain = |frames: &mut Frames, now| {
            while let Some(step) = frames.step(now) {
                said.push(match step {
                    Step::Frame(frame, values) => match &values[0] {
                        Value::Numbers(numbers) => format!("{frame}:{}", numbers[0]),
                        Value::Picture(_) => unreachable!("there are no pictures"),
                    },
                    Step::End => "end".to_owned(),
                });
            }
        };
        for nanos in at {
            drain(&mut frames, Some(*nanos));
            frames.push(0, *nanos, Value::Numbers(vec![*nanos as f32 / 1e6]));
        }
        drain(&mut frames, None);
        said
    }

    #[test]
    fn each_resampling_takes_its_messages() {
        let (all, ms) = ((0, u64::MAX), 1_000_000);
        let at = [0, ms * 6 / 10, ms * 14 / 10, 2 * ms];
        assert_eq!(frames(Resample::Hold, ms, all, &at), ["0:0", "1:0.6", "2:2"]);
        assert_eq!(frames(Resample::Nearest, ms, all, &at), ["0:0", "1:0.6", "2:2"]);
        assert_eq!(frames(Resample::Linear, ms, all, &at), ["0:0", "1:1", "2:2"]);
        assert_eq!(frames(Resample::Nearest, ms, all, &[0, ms * 12 / 10]), ["0:0", "1:1.2"]);
        // Within a range, held from before.
        assert_eq!(frames(Resample::Hold, ms, (ms, ms), &[ms / 2, 3 * ms]), ["0:0.5"]);
    }

    #[test]
    fn an_episode_ends_where_nothing_comes_for_ten_seconds() {
        let (ms, all) = (1_000_000, (0, u64::MAX));
        // A clock that was set from 1970 to 2026.
        let set = 1_790_000_000_000 * ms;
        let said = frames(Resample::Hold, u64::MAX, all, &[0, ms, set, set + ms]);
        assert_eq!(said.len(), 10_002 + 1 + 2);
        assert_eq!(said[10_001..10_003], ["10001:1", "end"]);
        assert!(said[10_003].starts_with("0:"));
    }

    #[test]
    fn an_episode_ends_where_a_topic_is_silent_for_longer_than_its_tolerance() {
        let ms = 1_000_000;
        let at = [0, ms, 9 * ms, 10 * ms];
        for resample in [Resample::Hold, Resample::Nearest] {
            let said = frames(resample, ms, (0, u64::MAX), &at);
            assert_eq!(said, ["0:0", "1:1", "2:1", "end", "0:9", "1:10"], "{resample:?}");
        }
        let said = frames(Resample::Linear, ms, (0, u64::MAX), &at);
        assert_eq!(said, ["0:0", "1:1", "end", "0:9", "1:10"]);
    }
}
