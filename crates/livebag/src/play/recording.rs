//! Recordings for the player: surveyed once, then read from any moment on, any number of times.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::container::CONTAINER_FILE;

use super::merge::Merge;
use super::options::MessageOrder;
use super::source::{Opener, PlaySource, Playable, SourceError, SourceTotals};
use super::{PlayError, packet::Packet};
use crate::limits::PLAY_PERIOD_ALONE;
use crate::query::{Buffer, Container, ContainerTopic, Cursor, Query, Span};

/// Something that can be played.
enum Recording {
    Container(Container),
    /// Opened again for every reading.
    Foreign {
        path: PathBuf,
        topics: Vec<Topic>,
        open: Opener,
    },
}

/// The recordings that are played as one. Their topics are numbered through.
pub(super) struct Recordings {
    parts: Vec<Recording>,
    topics: Vec<Topic>,
}

/// Times of the recording, in the order that is played; both included, nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub from_nanos: u64,
    pub until_nanos: u64,
}

impl Window {
    pub const ALL: Self = Self { from_nanos: 0, until_nanos: u64::MAX };

    pub fn has(&self, nanos: u64) -> bool {
        (self.from_nanos..=self.until_nanos).contains(&nanos)
    }
}

/// By how much messages were logged after they were published: least and most, in nanoseconds. With the
/// times of one clock that is the way to the recorder; with others', anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    pub least: i128,
    pub most: i128,
}

/// The recordings and topics to read.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// By topic.
    pub wanted: Vec<bool>,
    pub order: MessageOrder,
    pub window: Window,
    /// Of the topics wanted; only heeded in the order of sending.
    pub lag: Lag,
}

impl Plan {
    /// Log times among which all messages of the window are.
    fn log_times(&self) -> (u64, u64) {
        let Window { from_nanos, until_nanos } = self.window;
        if self.order == MessageOrder::Received {
            return (from_nanos, until_nanos);
        }
        let moved =
            |nanos: u64, by: i128| (i128::from(nanos) + by).clamp(0, i128::from(u64::MAX)) as u64;
        (moved(from_nanos, self.lag.least), moved(until_nanos, self.lag.most))
    }
}

/// Properties of a topic, known before playing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSurvey {
    /// Messages.
    pub messages: u64,
    /// Bytes of the largest.
    pub message_bytes_max: usize,
}

/// The topics of anything that can be played, with the number and size of their messages. `open` opens paths that are
/// not containers.
///
/// # Errors
/// If it cannot be read.
pub fn survey_with(
    path: &Path,
    open: impl Fn(&Path) -> Result<Playable, SourceError> + Send + Sync + 'static,
) -> Result<Vec<(Topic, TopicSurvey)>, PlayError> {
    let recordings = Recordings::open(&[path], Some(&(Arc::new(open) as Opener)))?;
    let wanted = vec![true; recordings.topics().len()];
    let survey = recordings.survey(&wanted, MessageOrder::Received, Window::ALL)?;
    Ok(recordings.topics.into_iter().zip(survey.topics).collect())
}

/// Properties of recordings, known before playing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Messages in the window.
    pub topics: Vec<TopicSurvey>,
    /// Time of the first message in the window; `None` without messages.
    pub first_nanos: Option<u64>,
    pub last_nanos: u64,
    pub lag: Option<Lag>,
    /// What could not be read.
    pub warnings: Vec<String>,
}

impl Recording {
    fn open(path: &Path, opener: Option<&Opener>) -> Result<Self, PlayError> {
        let is_foreign = !path.join(CONTAINER_FILE).exists();
        let Some(open) = opener.filter(|_| is_foreign) else {
            return Ok(Self::Container(Container::open(path)?));
        };
        Ok(match open(path).map_err(PlayError::Source)? {
            Playable::Container(container) => Self::Container(container),
            Playable::Source(source) => {
                let topics = source.topics().to_vec();
                Self::Foreign { path: path.to_owned(), topics, open: open.clone() }
            }
        })
    }

    fn topics(&self) -> Vec<&Topic> {
        match self {
            Self::Container(container) => {
                container.topics().iter().map(|topic| topic.topic()).collect()
            }
            Self::Foreign { topics, .. } => topics.iter().collect(),
        }
    }

    fn totals(&self) -> Result<Option<SourceTotals>, PlayError> {
        Ok(match self {
            Self::Container(container) => {
                let counts = container.topics().iter().map(|topic| topic.message_count());
                let counts = counts.collect::<Result<_, _>>()?;
                Some(SourceTotals { counts, times_nanos: container.time_range()? })
            }
            Self::Foreign { path, open, .. } => opened(open, path)?.totals(),
        })
    }

    /// Log time of the first message of all topics.
    fn begin_nanos(&self) -> Result<Option<u64>, PlayError> {
        Ok(match self {
            Self::Container(container) => container.time_range()?.map(|(first, _)| first),
            Self::Foreign { path, open, .. } => {
                let first = opened(open, path)?.next_message().map_err(PlayError::Source)?;
                first.map(|message| message.log_time_nanos)
            }
        })
    }

    /// Tells `see` topic, log time, publish time and bytes of every message of the topics wanted,
    /// without reading those of a container.
    fn look(
        &self,
        wanted: &[bool],
        warnings: &mut Vec<String>,
        see: &mut dyn FnMut(usize, u64, u64, usize),
    ) -> Result<(), PlayError> {
        match self {
            Self::Container(container) => {
                let Some(query) = query(container, wanted, 0, u64::MAX) else { return Ok(()) };
                let mut cursor = container.query(&query)?;
                while let Some((topic, entry)) = cursor.next_entry()? {
                    let bytes = entry.data_bytes as usize;
                    see(topic, entry.log_time_nanos, entry.publish_time_nanos, bytes);
                }
            }
            Self::Foreign { path, open, .. } => {
                let mut source = opened(open, path)?;
                while let Some(message) = source.next_message().map_err(PlayError::Source)? {
                    if wanted[message.topic] {
                        let (log, publish) = (message.log_time_nanos, message.publish_time_nanos);
                        see(message.topic, log, publish, message.data.len());
                    }
                }
                warnings.extend_from_slice(source.warnings());
            }
        }
        Ok(())
    }

    /// Messages of the topics wanted that cannot be reached, because files are gone or cut.
    fn missing(&self, wanted: &[bool]) -> Result<u64, PlayError> {
        let Self::Container(container) = self else { return Ok(0) };
        let topics = container.topics().iter().zip(wanted).filter(|(_, wanted)| **wanted);
        Ok(topics.map(|(topic, _)| ContainerTopic::missing(topic)).sum::<Result<_, _>>()?)
    }

    /// The messages of the topics wanted from a log time to another.
    fn read(&self, wanted: &[bool], from: u64, until: u64) -> Result<Reader<'_>, PlayError> {
        Ok(match self {
            Self::Container(container) => match query(container, wanted, from, until) {
                Some(query) => Reader::Container {
                    missing: self.missing(wanted)?,
                    cursor: container.query(&query)?,
                },
                None => Reader::Nothing,
            },
            Self::Foreign { path, open, .. } => {
                let mut source = opened(open, path)?;
                source.skip_before(from);
                Reader::Foreign { source, from_nanos: from, until_nanos: until }
            }
        })
    }
}

fn opened(open: &Opener, path: &Path) -> Result<Box<dyn PlaySource>, PlayError> {
    match open(path).map_err(PlayError::Source)? {
        Playable::Source(source) => Ok(source),
        Playable::Container(_) => {
            Err(PlayError::Source(format!("{} has become a container", path.display()).into()))
        }
    }
}

/// `None` if no topic is wanted: a query without names asks for all of them.
fn query(container: &Container, wanted: &[bool], from: u64, until: u64) -> Option<Query> {
    let topics = container.topics().iter().zip(wanted).filter(|(_, wanted)| **wanted);
    let topics: Vec<_> = topics.map(|(topic, _)| topic.topic().name.clone()).collect();
    (!topics.is_empty()).then_some(Query { topics, span: Span::History(from, until) })
}

/// Reads one recording in order of log time.
pub(super) enum Reader<'a> {
    Nothing,
    /// `missing`: messages out of reach, which the cursor counts as damaged.
    Container {
        cursor: Cursor<'a>,
        missing: u64,
    },
    Foreign {
        source: Box<dyn PlaySource>,
        from_nanos: u64,
        until_nanos: u64,
    },
}

impl Reader<'_> {
    /// The next message, its topic by its place in the recording. `spare`: provides memory for a message of this many
    /// bytes.
    pub fn next(
        &mut self,
        spare: &mut dyn FnMut(usize) -> Buffer,
    ) -> Result<Option<Packet>, PlayError> {
        match self {
            Self::Nothing => Ok(None),
            Self::Container { cursor, .. } => loop {
                let Some((topic, entry)) = cursor.next_entry()? else { return Ok(None) };
                let mut data = spare(entry.data_bytes as usize);
                // Damaged messages are left out and counted.
                if cursor.append_to(&mut data)? {
                    return Ok(Some(Packet {
                        topic,
                        log_time_nanos: entry.log_time_nanos,
                        publish_time_nanos: entry.publish_time_nanos,
                        sequence: entry.sequence,
                        data,
                    }));
                }
            },
            Self::Foreign { source, from_nanos, until_nanos } => loop {
                let Some(message) = source.next_message().map_err(PlayError::Source)? else {
                    return Ok(None);
                };
                if message.log_time_nanos > *until_nanos {
                    return Ok(None);
                }
                if message.log_time_nanos >= *from_nanos {
                    return Ok(Some(message.into()));
                }
            },
        }
    }

    /// Damaged messages left out so far.
    pub fn damaged(&self) -> u64 {
        match self {
            Self::Container { cursor, missing } => cursor.damaged().saturating_sub(*missing),
            Self::Foreign { source, .. } => source.lost_count(),
            Self::Nothing => 0,
        }
    }
}

impl Recordings {
    /// `opener` opens paths that are not containers.
    pub fn open(paths: &[impl AsRef<Path>], opener: Option<&Opener>) -> Result<Self, PlayError> {
        let parts: Result<Vec<_>, _> =
            paths.iter().map(|path| Recording::open(path.as_ref(), opener)).collect();
        let parts = parts?;
        let topics = parts.iter().flat_map(Recording::topics).cloned().collect();
        Ok(Self { parts, topics })
    }

    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// The recordings, each with the number of its first topic and its part of `wanted`.
    fn parts<'a>(
        &'a self,
        wanted: &'a [bool],
    ) -> impl Iterator<Item = (&'a Recording, usize, &'a [bool])> {
        let mut base = 0;
        self.parts.iter().map(move |part| {
            let first = base;
            base += part.topics().len();
            (part, first, &wanted[first..base])
        })
    }

    /// Time of the first message of all topics, in the order that is played.
    pub fn begin_nanos(&self, order: MessageOrder) -> Result<Option<u64>, PlayError> {
        match order {
            MessageOrder::Received => {
                let begins: Result<Vec<_>, _> =
                    self.parts.iter().map(Recording::begin_nanos).collect();
                Ok(begins?.into_iter().flatten().min())
            }
            MessageOrder::Sent => {
                let survey = self.survey(&vec![true; self.topics.len()], order, Window::ALL)?;
                Ok(survey.first_nanos)
            }
        }
    }

    /// Reads every message of the topics `wanted` (by place) without publishing it.
    pub fn survey(
        &self,
        wanted: &[bool],
        order: MessageOrder,
        window: Window,
    ) -> Result<Survey, PlayError> {
        let mut survey = Survey::new(wanted.len());
        let mut warnings = Vec::new();
        for (part, base, wanted) in self.parts(wanted) {
            part.look(wanted, &mut warnings, &mut |topic, log, publish, bytes| {
                survey.lag(log, publish);
                let time_nanos = order.of(log, publish);
                if window.has(time_nanos) {
                    survey.add(base + topic, time_nanos, bytes);
                }
            })?;
        }
        survey.warnings = warnings;
        Ok(survey)
    }

    /// Messages of the topics `wanted` that cannot be reached, because files are gone or cut.
    pub fn missing(&self, wanted: &[bool]) -> Result<u64, PlayError> {
        self.parts(wanted).map(|(part, _, wanted)| part.missing(wanted)).sum()
    }

    /// Totals of the recordings, without reading them; sizes are not included. `None` if one does not say.
    pub fn totals(&self) -> Result<Option<Survey>, PlayError> {
        let mut survey = Survey::new(self.topics.len());
        let all = vec![true; self.topics.len()];
        for (part, base, _) in self.parts(&all) {
            let Some(totals) = part.totals()? else { return Ok(None) };
            for (topic, count) in totals.counts.iter().enumerate() {
                survey.topics[base + topic] =
                    TopicSurvey { messages: *count, message_bytes_max: usize::MAX };
            }
            if let Some((first, last)) = totals.times_nanos {
                let first_nanos = survey.first_nanos.get_or_insert(first);
                *first_nanos = first.min(*first_nanos);
                survey.last_nanos = survey.last_nanos.max(last);
            }
        }
        Ok(Some(survey))
    }

    /// The messages of a plan, in its order.
    pub fn read<'a>(&'a self, plan: &'a Plan) -> Result<Merge<'a>, PlayError> {
        let (from, until) = plan.log_times();
        let readers = self.parts(&plan.wanted).map(|(part, base, wanted)| {
            let reader = part.read(wanted, from, until)?;
            Ok((reader, base))
        });
        Ok(Merge::new(plan, readers.collect::<Result<_, PlayError>>()?))
    }
}

impl Survey {
    fn new(topics: usize) -> Self {
        Self { topics: vec![TopicSurvey::default(); topics], ..Self::default() }
    }

    fn add(&mut self, topic: usize, time_nanos: u64, bytes: usize) {
        let seen = &mut self.topics[topic];
        seen.messages += 1;
        seen.message_bytes_max = seen.message_bytes_max.max(bytes);
        let first_nanos = self.first_nanos.get_or_insert(time_nanos);
        *first_nanos = time_nanos.min(*first_nanos);
        self.last_nanos = self.last_nanos.max(time_nanos);
    }

    fn lag(&mut self, log_time_nanos: u64, publish_time_nanos: u64) {
        let lag = i128::from(log_time_nanos) - i128::from(publish_time_nanos);
        let seen = self.lag.get_or_insert(Lag { least: lag, most: lag });
        (seen.least, seen.most) = (seen.least.min(lag), seen.most.max(lag));
    }

    /// From `begin_nanos` to the last message.
    pub fn length_nanos(&self, begin_nanos: u64) -> u64 {
        self.last_nanos.saturating_sub(begin_nanos)
    }

    /// From the start of a round at `begin_nanos` to the start of the next, in recorded time: the
    /// length, and one period of the topic with the most messages. A topic with a single message is repeated at a
    /// camera's period.
    pub fn round_nanos(&self, begin_nanos: u64) -> u64 {
        let most = self.topics.iter().map(|topic| topic.messages).max().unwrap_or(0);
        let length = self.length_nanos(begin_nanos);
        let between = self.length_nanos(self.first_nanos.unwrap_or(self.last_nanos));
        let alone = PLAY_PERIOD_ALONE.as_nanos() as u64;
        match most.checked_sub(1) {
            Some(periods @ 1..) if between > 0 => length + (between / periods).max(1),
            _ => length.max(alone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(times: &[(usize, u64)]) -> Survey {
        let mut survey = Survey::new(2);
        for &(topic, nanos) in times {
            survey.add(topic, nanos, nanos as usize);
        }
        survey
    }

    #[test]
    fn a_round_is_one_period_longer_than_the_recording() {
        let survey = survey(&[(0, 100), (0, 200), (1, 210), (0, 300)]);
        assert_eq!(survey.first_nanos, Some(100));
        assert_eq!(survey.length_nanos(100), 200);
        assert_eq!(survey.round_nanos(100), 300);
        assert_eq!(survey.round_nanos(60), 340, "with the way to the first message");
        assert_eq!(survey.topics[0], TopicSurvey { messages: 3, message_bytes_max: 300 });
    }

    #[test]
    fn single_messages_are_repeated_at_30_hz() {
        let alone = PLAY_PERIOD_ALONE.as_nanos() as u64;
        assert_eq!(survey(&[(0, 100)]).round_nanos(100), alone);
        assert_eq!(survey(&[(0, 100), (1, 5_000)]).round_nanos(100), alone);
        assert_eq!(survey(&[(0, 7), (0, 7)]).round_nanos(7), alone, "no time between them");
        assert_eq!(survey(&[]).round_nanos(0), alone);
    }
}
