//! Plays recordings to an [`Output`], at the pace at which they were recorded.
//!
//! One thread reads ahead ([`read_ahead`]) from the recordings ([`recording`], [`merge`]). The caller's thread
//! publishes due messages ([`engine`], [`pace`]) and follows commands ([`control`]). A message's due time depends only
//! on the last change of pace and on its own time, so lateness never adds up.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use livebag_format::Topic;

mod clock_topic;
mod control;
mod engine;
mod error;
mod merge;
mod name;
mod options;
mod output;
mod pace;
mod packet;
mod publisher;
mod read_ahead;
mod recording;
mod source;
mod streams;

pub use control::{PlayControl, PlaySeek, PlayStatus};
pub use error::PlayError;
pub use options::{ClockTicks, MessageOrder, PlayOptions};
pub use output::{Output, TopicOutput};
pub use publisher::Stamp;
pub use recording::{TopicSurvey, survey_with};
pub use source::{PlaySource, Playable, SourceError, SourceMessage, SourceTotals};
pub use streams::StreamOutput;

use clock_topic::ClockTopic;
use engine::{Engine, Span};
use read_ahead::{CloseOnDrop, ReadAhead};
use recording::{Plan, Recordings, Survey, Window};
use source::Opener;

use crate::query::warning_of_missing;

/// The topic on which ROS 2 nodes with `use_sim_time` expect the time.
const CLOCK_TOPIC: &str = "/clock";

/// A topic that is played, and its output.
pub struct PlayedTopic {
    topic: Topic,
    output: Box<dyn TopicOutput>,
    /// The largest message that the output was opened for.
    bytes_max: usize,
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

/// Recordings with their ways out, ready to be played.
///
/// ```no_run
/// use livebag::{PlayOptions, Player, StreamOutput};
/// let mut streams = StreamOutput::default();
/// let mut player = Player::open(&["run1"], PlayOptions::default(), &mut streams)?;
/// player.run(&mut |_| {})?;
/// # Ok::<(), livebag::PlayError>(())
/// ```
///
/// The output's topics exist from [`Player::open`] until the player is dropped.
pub struct Player {
    recordings: Recordings,
    options: PlayOptions,
    control: PlayControl,
    played: Vec<PlayedTopic>,
    clock_topic: Option<ClockTopic>,
    /// Place in `played` by place in the recordings' topics; `None` for topics that are not played.
    route: Vec<Option<usize>>,
    plan: Plan,
    survey: Survey,
    warnings: Vec<String>,
    lost: u64,
}

impl Player {
    /// Opens containers to be played as one, and an output for every topic that has messages.
    ///
    /// # Errors
    /// If one cannot be read, if a topic is not in them, if an option makes no sense, or if the output
    /// refuses a topic.
    pub fn open(
        paths: &[impl AsRef<Path>],
        options: PlayOptions,
        output: &mut dyn Output,
    ) -> Result<Self, PlayError> {
        Self::open_all(paths, options, output, None)
    }

    /// The same with paths among them that are not folders of containers, which `open` opens:
    /// `livebag_bags::open_player` knows many. A recording without an index is read through once, to know the size of its largest messages.
    ///
    /// # Errors
    /// As of [`Player::open`].
    pub fn open_with(
        paths: &[impl AsRef<Path>],
        options: PlayOptions,
        output: &mut dyn Output,
        open: impl Fn(&Path) -> Result<Playable, SourceError> + Send + Sync + 'static,
    ) -> Result<Self, PlayError> {
        Self::open_all(paths, options, output, Some(&(Arc::new(open) as Opener)))
    }

    fn open_all(
        paths: &[impl AsRef<Path>],
        options: PlayOptions,
        output: &mut dyn Output,
        opener: Option<&Opener>,
    ) -> Result<Self, PlayError> {
        options.check()?;
        let recordings = Recordings::open(paths, opener)?;
        let wanted = options.choose(recordings.topics())?;
        let window = match options.needs_begin() {
            true => options.window(recordings.begin_nanos(options.order)?.unwrap_or_default()),
            false => options.window(0),
        };
        let is_plain = options.order == MessageOrder::Received && window == Window::ALL;
        let told = match is_plain && !output.needs_sizes() && !wanted.contains(&false) {
            true => recordings.totals()?,
            false => None,
        };
        let mut survey = match told {
            Some(survey) => survey,
            None => recordings.survey(&wanted, options.order, window)?,
        };
        // Messages that a running recorder adds from now on are not played: their sizes are unknown.
        let until_nanos = window.until_nanos.min(survey.last_nanos);
        let window = Window { until_nanos, ..window };
        let lag = survey.lag.unwrap_or_default();
        let mut warnings = options.strangers(recordings.topics());
        warnings.append(&mut survey.warnings);
        let missing = recordings.missing(&wanted)?;
        warnings.extend(warning_of_missing(missing));
        let mut this = Self {
            plan: Plan { wanted, order: options.order, window, lag },
            recordings,
            control: PlayControl::default(),
            played: Vec::new(),
            clock_topic: None,
            route: Vec::new(),
            survey,
            warnings,
            lost: missing,
            options,
        };
        this.open_outputs(output)?;
        Ok(this)
    }

    /// Topics that look the same to an output (ROS 1 connections of one topic, the same topic of several
    /// recordings) share one.
    fn open_outputs(&mut self, output: &mut dyn Output) -> Result<(), PlayError> {
        let topics = self.recordings.topics();
        let renamed: Vec<_> = topics.iter().map(|topic| self.options.played(topic)).collect();
        let mut largest: HashMap<Key<'_>, usize> = HashMap::new();
        for (topic, seen) in renamed.iter().zip(&self.survey.topics) {
            let bytes = largest.entry(key(topic)).or_default();
            *bytes = (*bytes).max(seen.message_bytes_max);
        }
        let mut made: HashMap<Key<'_>, usize> = HashMap::new();
        for (at, topic) in renamed.iter().enumerate() {
            if self.survey.topics[at].messages == 0 {
                self.route.push(None);
                continue;
            }
            let key = key(topic);
            if let Some(&played) = made.get(&key) {
                self.route.push(Some(played));
                continue;
            }
            let bytes_max = largest[&key];
            let output = output.open(topic, bytes_max)?;
            self.played.push(PlayedTopic { topic: topic.clone(), output, bytes_max });
            made.insert(key, self.played.len() - 1);
            self.route.push(Some(self.played.len() - 1));
        }
        if let Some(ticks) = &self.options.clock_ticks {
            let names = topics.iter().map(|topic| topic.name.as_str());
            self.clock_topic = Some(ClockTopic::open(ticks, names, output)?);
        }
        Ok(())
    }

    /// The topics that have messages, with their ways out; `/clock` is not among them.
    pub fn topics(&self) -> &[PlayedTopic] {
        &self.played
    }

    /// The output of `/clock`, if the time is published there.
    pub fn clock_topic(&self) -> Option<&PlayedTopic> {
        self.clock_topic.as_ref().map(|clock_topic| &clock_topic.played)
    }

    /// Controls this player while it runs.
    pub fn control(&self) -> PlayControl {
        self.control.clone()
    }

    /// Messages of one round.
    pub fn message_count(&self) -> u64 {
        self.survey.topics.iter().map(|topic| topic.messages).sum()
    }

    /// From the start of playing to the last message, as recorded.
    pub fn length(&self) -> Duration {
        self.span().map_or(Duration::ZERO, |span| {
            Duration::from_nanos(span.last_nanos.saturating_sub(span.begin_nanos))
        })
    }

    /// Chosen messages that were not published so far: damaged, out of reach since files are gone, or larger than
    /// an output accepts.
    pub fn lost_count(&self) -> u64 {
        self.lost
    }

    /// Warnings, as sentences.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        let of_outputs = self.played.iter().flat_map(|played| played.output.warnings());
        self.warnings.iter().chain(of_outputs).map(String::as_str)
    }

    /// `None` if there is nothing to play.
    fn span(&self) -> Option<Span> {
        let first_nanos = self.survey.first_nanos?;
        let begin_nanos = match self.options.begins_later() {
            true => self.plan.window.from_nanos,
            false => first_nanos,
        };
        Some(Span {
            begin_nanos,
            last_nanos: self.survey.last_nanos,
            round_nanos: self.survey.round_nanos(begin_nanos),
        })
    }

    /// Publishes until the end, or until stopped. `progress` is called after every message, after every
    /// command, and from time to time while waiting.
    ///
    /// # Errors
    /// If the recording cannot be read, or an output does not take a message.
    pub fn run(&mut self, progress: &mut dyn FnMut(&PlayStatus)) -> Result<PlayStatus, PlayError> {
        let Some(span) = self.span() else { return Ok(PlayStatus::default()) };
        // The reading of later rounds begins where the first one does.
        self.plan.window.from_nanos = span.begin_nanos;
        let Self { recordings, options, control, played, clock_topic, route, plan, .. } = self;
        let ahead = ReadAhead::new(span.begin_nanos, options.ahead_messages, options.repeat);
        let outcome = std::thread::scope(|scope| {
            let _close = CloseOnDrop(&ahead);
            std::thread::Builder::new()
                .name("livebag-read".into())
                .spawn_scoped(scope, || ahead.read(recordings, plan))
                .map_err(PlayError::Thread)?;
            let outputs = (played.as_mut_slice(), clock_topic.as_mut());
            Engine::new(options, control, &ahead, outputs, route, span, progress).run()
        });
        self.note(&ahead);
        let status = outcome?;
        self.lost += status.left_out;
        if status.left_out > 0 {
            self.warnings.push(format!(
                "{} messages that were recorded while the player was at work were left out: they are \
                 larger than those before them",
                status.left_out
            ));
        }
        let clock = self.clock_topic.as_mut().map(|clock_topic| &mut clock_topic.played);
        self.played.iter_mut().chain(clock).try_for_each(|played| played.output.finish())?;
        Ok(status)
    }

    /// What reading has found.
    fn note(&mut self, ahead: &ReadAhead) {
        let (damaged, early) = ahead.left_out();
        self.lost += damaged;
        if damaged > 0 {
            self.warnings.push(format!(
                "{damaged} messages are damaged and were left out; `livebag verify` lists them"
            ));
        }
        if early > 0 {
            self.warnings.push(format!(
                "{early} messages were not played in the order in which they were sent: they lie too \
                 far apart in the recording to be sorted in memory"
            ));
        }
    }
}

/// What distinguishes outputs.
type Key<'a> = (&'a str, &'a str, &'a str, &'a [u8]);

fn key(topic: &Topic) -> Key<'_> {
    (&topic.name, &topic.type_name, &topic.message_encoding, &topic.schema)
}

#[cfg(test)]
mod tests;
