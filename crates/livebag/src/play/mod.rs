//! Plays a recording to an [`Output`], at the pace at which it was recorded.
//!
//! A message is due at a time that follows from the first one's and its own log time alone, so that
//! lateness never adds up.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use livebag_format::Topic;

use crate::clock::Clock;
use crate::limits::{PLAY_LEAD_IN, PLAY_SLEEP_MAX};

mod error;
mod name;
mod output;
mod pace;
mod publisher;
mod recording;
mod streams;

pub use error::PlayError;
pub use output::{Output, TopicOutput};
pub use publisher::Stamp;
pub use recording::{TopicSurvey, survey};
pub use streams::StreamOutput;

use pace::Pace;
use recording::{Recording, Survey, Visit};

/// How to play. `..PlayOptions::default()` gives the rest.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// Speed: 2.0 plays twice as fast as was recorded.
    pub rate: f64,
    /// Whether to begin again at the end, until stopped.
    pub repeat: bool,
    /// Topic names; empty for all.
    pub topics: Vec<String>,
    /// Time between the making of the streams and the first message, for recorders that wait for
    /// them to appear.
    pub lead_in: Duration,
    /// Where time comes from.
    pub clock: Clock,
}

impl Default for PlayOptions {
    fn default() -> Self {
        Self {
            rate: 1.0,
            repeat: false,
            topics: Vec::new(),
            lead_in: PLAY_LEAD_IN,
            clock: Clock::system(),
        }
    }
}

/// How it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlayStatus {
    /// Messages published.
    pub messages: u64,
    /// Bytes of those, encoded as recorded.
    pub bytes: u64,
    /// How often the end was reached.
    pub rounds: u64,
    /// Log time of the last message published, from the first.
    pub position: Duration,
    /// From the first to the last message.
    pub length: Duration,
    /// The most that a message came after its time, in this process's view.
    pub late_max: Duration,
}

/// A topic that is played, and its way out.
pub struct PlayedTopic {
    topic: Topic,
    output: Box<dyn TopicOutput>,
}

impl PlayedTopic {
    /// The topic, as the output was given it.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// What listeners know it by: see [`TopicOutput::name`].
    pub fn name(&self) -> &str {
        self.output.name()
    }

    /// What its messages become: see [`TopicOutput::kind`].
    pub fn kind(&self) -> &str {
        self.output.kind()
    }
}

/// A recording with its ways out, ready to be played.
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
/// use livebag::{PlayOptions, Player, StreamOutput};
/// let mut streams = StreamOutput::default();
/// let mut player = Player::open("run1".as_ref(), PlayOptions::default(), &mut streams)?;
/// player.run(&AtomicBool::new(false), &mut |_| {})?;
/// # Ok::<(), livebag::PlayError>(())
/// ```
///
/// What the output makes for its topics exists from [`Player::open`] until the player is dropped.
pub struct Player {
    recording: Recording,
    options: PlayOptions,
    played: Vec<PlayedTopic>,
    /// Place in `played` by place in the recording's topics; `None` for topics that are not played.
    route: Vec<Option<usize>>,
    survey: Survey,
}

impl Player {
    /// Opens a container, or anything that `livebag convert` reads, and a way out for every topic that
    /// has messages. A recording without an index is read through once, to know the size of its largest
    /// messages.
    ///
    /// # Errors
    /// If it cannot be read, if a topic is not in it, if the rate is not positive, or if the output
    /// refuses a topic.
    pub fn open(
        path: &Path,
        options: PlayOptions,
        output: &mut dyn Output,
    ) -> Result<Self, PlayError> {
        if !(options.rate.is_finite() && options.rate > 0.0) {
            return Err(PlayError::Rate { found: options.rate });
        }
        let recording = Recording::open(path)?;
        let wanted = choose(&recording.topics(), &options.topics)?;
        let survey = recording.survey(&wanted)?;
        let mut this = Self { recording, options, played: Vec::new(), route: Vec::new(), survey };
        this.open_outputs(&wanted, output)?;
        Ok(this)
    }

    /// Topics that differ in nothing an output tells (ROS 1 connections of one topic) share one.
    fn open_outputs(&mut self, wanted: &[bool], output: &mut dyn Output) -> Result<(), PlayError> {
        let topics = self.recording.topics();
        let mut largest: HashMap<Key<'_>, usize> = HashMap::new();
        for (at, topic) in topics.iter().enumerate() {
            let bytes = largest.entry(key(topic)).or_default();
            *bytes = (*bytes).max(self.survey.topics[at].message_bytes_max);
        }
        let mut made: HashMap<Key<'_>, usize> = HashMap::new();
        for (at, topic) in topics.iter().enumerate() {
            if !wanted[at] || self.survey.topics[at].messages == 0 {
                self.route.push(None);
                continue;
            }
            let key = key(topic);
            if let Some(&played) = made.get(&key) {
                self.route.push(Some(played));
                continue;
            }
            let output = output.open(topic, largest[&key])?;
            self.played.push(PlayedTopic { topic: (*topic).clone(), output });
            made.insert(key, self.played.len() - 1);
            self.route.push(Some(self.played.len() - 1));
        }
        Ok(())
    }

    /// The topics that have messages, with their ways out.
    pub fn topics(&self) -> &[PlayedTopic] {
        &self.played
    }

    /// Messages of one round.
    pub fn message_count(&self) -> u64 {
        self.survey.topics.iter().map(|topic| topic.messages).sum()
    }

    /// From the first to the last message, as recorded.
    pub fn length(&self) -> Duration {
        self.survey.length()
    }

    /// What was not as it should be, in sentences.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        let of_outputs = self.played.iter().flat_map(|played| played.output.warnings());
        self.survey.warnings.iter().chain(of_outputs).map(String::as_str)
    }

    /// Publishes until the end, or until `stop` is set. `progress` is called after every message
    /// and now and then while there is none.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&PlayStatus),
    ) -> Result<PlayStatus, PlayError> {
        let status = self.run_to_end(stop, progress)?;
        self.played.iter_mut().try_for_each(|played| played.output.finish())?;
        Ok(status)
    }

    fn run_to_end(
        &mut self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&PlayStatus),
    ) -> Result<PlayStatus, PlayError> {
        let mut status = PlayStatus { length: self.survey.length(), ..PlayStatus::default() };
        let Some(first_nanos) = self.survey.first_nanos else { return Ok(status) };
        let clock = &self.options.clock;
        let lead_in_nanos = self.options.lead_in.as_nanos() as u64;
        let start_nanos = clock.monotonic_nanos().saturating_add(lead_in_nanos);
        let mut pace = Pace::new(start_nanos, first_nanos, self.options.rate);
        while !stop.load(Ordering::Relaxed) {
            self.round(&pace, stop, &mut status, progress)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            status.rounds += 1;
            if !self.options.repeat {
                break;
            }
            pace.next_round(self.survey.round_nanos());
        }
        Ok(status)
    }

    fn round(
        &mut self,
        pace: &Pace,
        stop: &AtomicBool,
        status: &mut PlayStatus,
        progress: &mut dyn FnMut(&PlayStatus),
    ) -> Result<(), PlayError> {
        let Self { recording, options, played, route, survey } = self;
        let clock = &options.clock;
        let wanted: Vec<bool> = route.iter().map(Option::is_some).collect();
        recording.visit(&wanted, &mut |topic, message| {
            let Some(place) = route[topic] else { return Ok(Visit::Next) };
            let due_nanos = pace.due_nanos(message.log_time_nanos);
            while !stop.load(Ordering::Relaxed) {
                let now_nanos = clock.monotonic_nanos();
                let Some(left_nanos) = due_nanos.checked_sub(now_nanos).filter(|&left| left > 0)
                else {
                    break;
                };
                let left = Duration::from_nanos(left_nanos);
                if left > PLAY_SLEEP_MAX {
                    played.iter_mut().for_each(|played| played.output.heartbeat());
                    progress(status);
                }
                clock.sleep(left.min(PLAY_SLEEP_MAX));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Visit::Stop);
            }
            let late_nanos = clock.monotonic_nanos().saturating_sub(due_nanos);
            status.late_max = status.late_max.max(Duration::from_nanos(late_nanos));
            played[place].output.publish(message)?;
            status.messages += 1;
            status.bytes += message.data.len() as u64;
            let position = message.log_time_nanos.saturating_sub(survey.first_nanos.unwrap_or(0));
            status.position = Duration::from_nanos(position);
            progress(status);
            Ok(Visit::Next)
        })
    }
}

/// What tells one way out from another.
type Key<'a> = (&'a str, &'a str, &'a str, &'a [u8]);

fn key(topic: &Topic) -> Key<'_> {
    (&topic.name, &topic.type_name, &topic.message_encoding, &topic.schema)
}

/// Which topics are asked for by name.
fn choose(topics: &[&Topic], names: &[String]) -> Result<Vec<bool>, PlayError> {
    if let Some(missing) = names.iter().find(|name| topics.iter().all(|t| t.name != **name)) {
        let known = topics.iter().map(|topic| topic.name.clone()).collect();
        return Err(PlayError::NoTopic { topic: missing.clone(), known });
    }
    Ok(topics.iter().map(|topic| names.is_empty() || names.contains(&topic.name)).collect())
}

#[cfg(test)]
mod tests;
