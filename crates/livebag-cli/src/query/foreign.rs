//! Queries of recordings that are no containers: MCAP files, databases, bags of ROS 1 and rosbag2.
//! Nothing is converted: their own index is used, and where there is none they are read through.

use std::path::Path;
use std::time::Duration;

use livebag::{Clock, Topic};
use livebag_bags::{MessageSource, SourceMessage, TopicFilter};

use super::answer::{Answer, Entry};
use super::{Args, Question, explain_nothing, give, outcome};
use crate::outcome::{CliError, Outcome};
use crate::select;

/// The time read before the newest message at first, to find the newest one of the requested topics.
const WINDOW_NANOS: u64 = 1_000_000_000;

/// Opens the recording, once for each reading.
type Open<'a> = &'a dyn Fn() -> Result<Box<dyn MessageSource>, CliError>;

/// Answers.
pub fn run(args: &Args, path: &Path, open: Open<'_>, clock: &Clock) -> Result<Outcome, CliError> {
    let wanted = args.question.wanted();
    let source = open()?;
    let known = || source.topics().iter().map(|topic| topic.name.as_str());
    let names = wanted.topics.iter().map(|name| select::full_name(name, known));
    let filter = filter(names.collect::<Result<_, _>>()?);
    let times = match source.totals().and_then(|totals| totals.times_nanos) {
        Some(times) => Some(times),
        None => read_through(path, open)?,
    };
    drop(source);
    let range = times.unwrap_or_default();
    let (from, to) = match &args.question {
        Question::History { from, to, .. } => select::between(*from, *to, range)?,
        Question::Latest { last, .. } => match newest(open, &filter, range)? {
            Some(newest) => (newest.saturating_sub(nanos(*last)), newest),
            None => (0, 0),
        },
        Question::Auto { .. } => {
            return Err(CliError::usage(format!(
                "auto is for recordings of livebag: ask `livebag query {} latest --last 1s`",
                path.display()
            )));
        }
        Question::Follow { .. } => {
            return Err(CliError::usage(format!(
                "{} does not grow: follow is for recordings that livebag writes",
                path.display()
            )));
        }
    };
    let source = open()?;
    let source = livebag_bags::selected(source, &filter, Some(from), Some(to));
    let mut answer = Foreign { source, current: None, has_any: false };
    give(&mut answer, wanted, clock, clock.monotonic_nanos(), &|| Ok(range.0))?;
    if !answer.has_any {
        explain_nothing(
            times,
            matches!(args.question, Question::History { .. }).then_some((from, to)),
        );
    }
    Ok(outcome(answer.damaged(), &args.bag))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn filter(topics: Vec<String>) -> TopicFilter {
    match topics.is_empty() {
        true => TopicFilter::all(),
        false => TopicFilter { topics, include_hidden_topics: true, ..TopicFilter::default() },
    }
}

/// Times of a recording that does not store them.
fn read_through(path: &Path, open: Open<'_>) -> Result<Option<(u64, u64)>, CliError> {
    say!("livebag: {} has no times: it is read once to find them", path.display());
    let mut source = open()?;
    let mut times: Option<(u64, u64)> = None;
    while let Some(message) = source.next_message()? {
        let time = message.log_time_nanos;
        times = Some(times.map_or((time, time), |(first, _)| (first, time)));
    }
    Ok(times)
}

/// Log time of the newest message of these topics: longer and longer stretches of the end are read.
fn newest(
    open: Open<'_>,
    filter: &TopicFilter,
    range: (u64, u64),
) -> Result<Option<u64>, CliError> {
    if filter.topics.is_empty() {
        return Ok(Some(range.1));
    }
    let mut window = WINDOW_NANOS;
    loop {
        let from = range.1.saturating_sub(window);
        let source = open()?;
        let mut source = livebag_bags::selected(source, filter, Some(from), None);
        let mut newest = None;
        while let Some(message) = source.next_message()? {
            newest = Some(message.log_time_nanos);
        }
        if newest.is_some() || from <= range.0 {
            return Ok(newest);
        }
        window = window.saturating_mul(8);
    }
}

/// Messages of a source.
struct Foreign {
    source: Box<dyn MessageSource>,
    current: Option<SourceMessage>,
    /// Whether a message has been given.
    has_any: bool,
}

impl Answer for Foreign {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        self.current = self.source.next_message()?;
        self.has_any |= self.current.is_some();
        Ok(self.current.as_ref().map(|message| Entry {
            topic: message.topic,
            log_time_nanos: message.log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            sequence: message.sequence,
            bytes: message.data.len() as u64,
        }))
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(self.current.as_ref().map(|message| &*message.data))
    }

    fn topic(&self, at: usize) -> &Topic {
        &self.source.topics()[at]
    }

    fn profile(&self) -> &str {
        self.source.profile()
    }

    fn damaged(&self) -> u64 {
        self.source.lost_count()
    }
}
