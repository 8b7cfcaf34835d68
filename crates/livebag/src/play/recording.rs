//! A recording as playing needs it: surveyed once, visited once a round.

use std::path::{Path, PathBuf};

use livebag_format::container::CONTAINER_FILE;
use livebag_format::{Message, Topic};

use super::PlayError;
use crate::convert::open_foreign;
use crate::limits::PLAY_PERIOD_ALONE;
use crate::query::{Bag, Query};

/// Something that can be played.
pub(super) enum Recording {
    Container(Bag),
    /// Opened anew for every round.
    Foreign {
        path: PathBuf,
        topics: Vec<Topic>,
    },
}

/// What to do after a message.
pub(super) enum Visit {
    Next,
    Stop,
}

type Visitor<'a> = dyn FnMut(usize, &Message<'_>) -> Result<Visit, PlayError> + 'a;

/// What is known of a topic before it is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopicSurvey {
    /// Messages.
    pub messages: u64,
    /// Bytes of the largest.
    pub message_bytes_max: usize,
}

/// The topics of anything that can be played, with the number and size of their messages.
///
/// # Errors
/// If it cannot be read.
pub fn survey(path: &Path) -> Result<Vec<(Topic, TopicSurvey)>, PlayError> {
    let recording = Recording::open(path)?;
    let topics: Vec<_> = recording.topics().into_iter().cloned().collect();
    let survey = recording.survey(&vec![true; topics.len()])?;
    Ok(topics.into_iter().zip(survey.topics).collect())
}

/// What is known of a recording before it is played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    pub topics: Vec<TopicSurvey>,
    /// Log time of the first message; `None` without messages.
    pub first_nanos: Option<u64>,
    pub last_nanos: u64,
    /// What could not be read.
    pub warnings: Vec<String>,
}

impl Recording {
    pub fn open(path: &Path) -> Result<Self, PlayError> {
        if !path.exists() || path.join(CONTAINER_FILE).exists() {
            return Ok(Self::Container(Bag::open(path)?));
        }
        let topics = open_foreign(path)?.topics().to_vec();
        Ok(Self::Foreign { path: path.to_owned(), topics })
    }

    pub fn topics(&self) -> Vec<&Topic> {
        match self {
            Self::Container(bag) => bag.topics().iter().map(|topic| topic.topic()).collect(),
            Self::Foreign { topics, .. } => topics.iter().collect(),
        }
    }

    /// Looks at every message of the topics `wanted` (by place) without publishing it.
    pub fn survey(&self, wanted: &[bool]) -> Result<Survey, PlayError> {
        let mut survey = Survey::new(wanted.len());
        match self {
            Self::Container(bag) => {
                let Some(query) = query(bag, wanted) else { return Ok(survey) };
                let mut cursor = bag.query(&query)?;
                while let Some((topic, entry)) = cursor.next_entry()? {
                    survey.add(topic, entry.log_time_nanos, entry.data_bytes as usize);
                }
            }
            Self::Foreign { path, .. } => {
                let mut source = open_foreign(path)?;
                while let Some(message) = source.next_message()? {
                    if wanted[message.topic] {
                        survey.add(message.topic, message.log_time_nanos, message.data.len());
                    }
                }
                survey.warnings = source.warnings().to_vec();
            }
        }
        Ok(survey)
    }

    /// Gives every message of the topics `wanted` (by place) to `visitor`, oldest first.
    pub fn visit(&self, wanted: &[bool], visitor: &mut Visitor<'_>) -> Result<(), PlayError> {
        match self {
            Self::Container(bag) => {
                let Some(query) = query(bag, wanted) else { return Ok(()) };
                let mut cursor = bag.query(&query)?;
                while let Some((topic, message)) = cursor.next()? {
                    if let Visit::Stop = visitor(topic, &message)? {
                        break;
                    }
                }
            }
            Self::Foreign { path, .. } => {
                let mut source = open_foreign(path)?;
                while let Some(message) = source.next_message()? {
                    if !wanted[message.topic] {
                        continue;
                    }
                    if let Visit::Stop = visitor(message.topic, &message.as_message())? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// `None` if no topic is wanted: a query without names asks for all of them.
fn query(bag: &Bag, wanted: &[bool]) -> Option<Query> {
    let topics = bag.topics().iter().zip(wanted).filter(|(_, wanted)| **wanted);
    let topics: Vec<_> = topics.map(|(topic, _)| topic.topic().name.clone()).collect();
    (!topics.is_empty()).then(|| Query { topics, ..Query::default() })
}

impl Survey {
    fn new(topics: usize) -> Self {
        Self { topics: vec![TopicSurvey::default(); topics], ..Self::default() }
    }

    fn add(&mut self, topic: usize, log_time_nanos: u64, bytes: usize) {
        let seen = &mut self.topics[topic];
        seen.messages += 1;
        seen.message_bytes_max = seen.message_bytes_max.max(bytes);
        self.first_nanos.get_or_insert(log_time_nanos);
        self.last_nanos = self.last_nanos.max(log_time_nanos);
    }

    fn length_nanos(&self) -> u64 {
        self.last_nanos.saturating_sub(self.first_nanos.unwrap_or(self.last_nanos))
    }

    /// From the first to the last message.
    pub fn length(&self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.length_nanos())
    }

    /// From the start of a round to the start of the next, in recorded time: the length, and one
    /// period of the topic with the most messages. Topics of one message alone are repeated as a
    /// camera would.
    pub fn round_nanos(&self) -> u64 {
        let most = self.topics.iter().map(|topic| topic.messages).max().unwrap_or(0);
        let length = self.length_nanos();
        let alone = PLAY_PERIOD_ALONE.as_nanos() as u64;
        match most.checked_sub(1) {
            Some(periods @ 1..) if length > 0 => length + (length / periods).max(1),
            _ => length.max(alone),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(log_times: &[(usize, u64)]) -> Survey {
        let mut survey = Survey::new(2);
        for &(topic, nanos) in log_times {
            survey.add(topic, nanos, nanos as usize);
        }
        survey
    }

    #[test]
    fn a_round_is_one_period_longer_than_the_recording() {
        let survey = survey(&[(0, 100), (0, 200), (1, 210), (0, 300)]);
        assert_eq!(survey.first_nanos, Some(100));
        assert_eq!(survey.length_nanos(), 200);
        assert_eq!(survey.round_nanos(), 300);
        assert_eq!(survey.topics[0], TopicSurvey { messages: 3, message_bytes_max: 300 });
    }

    #[test]
    fn single_messages_are_repeated_at_30_hz() {
        let alone = PLAY_PERIOD_ALONE.as_nanos() as u64;
        assert_eq!(survey(&[(0, 100)]).round_nanos(), alone);
        assert_eq!(survey(&[(0, 100), (1, 5_000)]).round_nanos(), alone);
        assert_eq!(survey(&[(0, 7), (0, 7)]).round_nanos(), alone, "no time between them");
        assert_eq!(survey(&[]).round_nanos(), alone);
    }
}
