//! Queries to the recording while it is being written.

use std::path::PathBuf;
use std::time::Duration;

use livebag::{Clock, Container, ContainerError, ContainerState, Query, Span};
use serde::Serialize;

use super::plan::Plan;
use crate::{files, text};

/// The queried time.
const LAST: Duration = Duration::from_secs(1);
/// Bytes of a second that are read whole; more would take the disk from the recorder.
const READ_BYTES_PER_S_MAX: f64 = 50e6;

/// The answers so far.
pub struct Watch {
    directory: PathBuf,
    clock: Clock,
    /// Topics of which every message is read.
    read_topics: Vec<String>,
    answers: Vec<Answer>,
}

/// One answer of `latest`. Times in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// From before opening the container to knowing every message of the answer.
    plan_nanos: u64,
    /// … to having read the first one.
    first_nanos: u64,
    /// Reading the small topics whole.
    read_nanos: u64,
    read_messages: u64,
    /// Messages of the last second.
    messages: u64,
    /// Age of the newest message.
    newest_nanos: u64,
    /// Messages of the recording.
    total_messages: u64,
    /// Bytes of its files.
    disk_bytes: u64,
}

/// Summary of all answers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueryReport {
    /// How often `latest --last 1s` was asked while recording.
    pub count: usize,
    /// Opening the container and planning the answer.
    pub plan_ms_median: f64,
    pub plan_ms_max: f64,
    /// The same with reading the first message.
    pub first_message_ms_median: f64,
    pub first_message_ms_max: f64,
    /// Age of the newest message in the answer.
    pub newest_age_ms_median: f64,
    pub newest_age_ms_max: f64,
    /// Reading every message of `read_topics` in the last second.
    pub read_ms_median: f64,
    pub read_messages: u64,
    pub read_topics: Vec<String>,
}

impl Watch {
    pub fn new(plan: &Plan, clock: Clock) -> Self {
        let mut sensors: Vec<_> = plan.sensors.iter().collect();
        sensors.sort_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s));
        let mut sum = 0.0;
        let small = sensors.into_iter().take_while(|sensor| {
            sum += sensor.bytes_per_s;
            sum <= READ_BYTES_PER_S_MAX
        });
        let read_topics = small.map(|sensor| sensor.topic.clone()).collect();
        Self { directory: plan.directory.clone(), clock, read_topics, answers: Vec::new() }
    }

    /// Asks once. Nothing is noted before there is a recording, and after its end.
    pub fn ask(&mut self) {
        if let Ok(Some(answer)) = self.answer() {
            self.answers.push(answer);
        }
    }

    fn answer(&self) -> Result<Option<Answer>, ContainerError> {
        let began = self.clock.monotonic_nanos();
        let since = |then: u64| self.clock.monotonic_nanos() - then;
        let bag = Container::open(&self.directory)?;
        let latest = Query { span: Span::Latest(LAST), ..Query::default() };
        let mut cursor = bag.query(&latest)?;
        let messages = cursor.remaining();
        let plan_nanos = since(began);
        let Some((_, newest)) = bag.time_range()? else { return Ok(None) };
        let newest_nanos = self.clock.wall_nanos().saturating_sub(newest);
        cursor.next()?;
        let first_nanos = since(began);
        if bag.state() != ContainerState::Live {
            return Ok(None);
        }
        let known = |topic: &&String| bag.topics().iter().any(|t| t.topic().name == **topic);
        let topics: Vec<_> = self.read_topics.iter().filter(known).cloned().collect();
        let read_began = self.clock.monotonic_nanos();
        let mut read_messages = 0;
        if !topics.is_empty() {
            let mut cursor = bag.query(&Query { topics, ..latest })?;
            while cursor.next()?.is_some() {
                read_messages += 1;
            }
        }
        let counts = bag.topics().iter().map(livebag::ContainerTopic::message_count);
        Ok(Some(Answer {
            plan_nanos,
            first_nanos,
            read_nanos: since(read_began),
            read_messages,
            messages,
            newest_nanos,
            total_messages: counts.sum::<Result<u64, _>>()?,
            // If the files cannot be listed, it is left out.
            disk_bytes: files::list(&self.directory)
                .map_or(0, |files| files.iter().map(|(_, bytes)| bytes).sum()),
        }))
    }

    /// The last answer in words.
    pub fn line(&self) -> Option<String> {
        let answer = self.answers.last()?;
        Some(format!(
            "{} recorded, {}; its last second: {}, found in {}, the newest {} old",
            text::messages(answer.total_messages),
            text::bytes(answer.disk_bytes as f64),
            text::messages(answer.messages),
            text::duration(answer.plan_nanos),
            text::duration(answer.newest_nanos),
        ))
    }

    /// All answers.
    pub fn report(&self) -> QueryReport {
        let plan = figures(self.answers.iter().map(|answer| answer.plan_nanos));
        let first = figures(self.answers.iter().map(|answer| answer.first_nanos));
        let newest = figures(self.answers.iter().map(|answer| answer.newest_nanos));
        let read = figures(self.answers.iter().map(|answer| answer.read_nanos));
        QueryReport {
            count: self.answers.len(),
            plan_ms_median: plan.0,
            plan_ms_max: plan.1,
            first_message_ms_median: first.0,
            first_message_ms_max: first.1,
            newest_age_ms_median: newest.0,
            newest_age_ms_max: newest.1,
            read_ms_median: read.0,
            read_messages: self.answers.last().map_or(0, |answer| answer.read_messages),
            read_topics: self.read_topics.clone(),
        }
    }
}

/// Median and maximum in milliseconds; 0 of nothing.
fn figures(nanos: impl Iterator<Item = u64>) -> (f64, f64) {
    let mut nanos: Vec<_> = nanos.collect();
    nanos.sort_unstable();
    let at = |place: usize| nanos.get(place).map_or(0.0, |nanos| *nanos as f64 / 1e6);
    (at(nanos.len() / 2), at(nanos.len().saturating_sub(1)))
}
