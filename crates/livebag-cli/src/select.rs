//! Selection of messages by topics and times, the same for every verb.

use std::path::PathBuf;

use clap_complete::ArgValueCompleter;
use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use livebag::Topic;
use livebag_bags::{MessageSource, TopicFilter};
use livebag_format::{visible, visible_list};

use crate::complete;
use crate::outcome::CliError;
use crate::parse::{self, Moment};
use crate::{stored, text};

/// Jaro-Winkler similarity from which a name is taken for the one that was meant.
const SIMILAR: f64 = 0.85;

/// A moment as people type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// One that needs no date.
    Moment(Moment),
    /// `21:29:38` in the machine's time zone, on the recording's day.
    TimeOfDay(civil::Time),
}

/// What [`parse::moment`] takes, and times of day.
///
/// # Errors
/// With a sentence that says what would be right.
pub fn when(text: &str) -> Result<When, String> {
    let bare = text.trim();
    let is_time_of_day = bare.contains(':') && !bare.contains(['T', 't', '-', '+', ' ']);
    if !is_time_of_day {
        return parse::moment(bare).map(When::Moment);
    }
    let time = bare.parse().map(When::TimeOfDay);
    time.map_err(|_| {
        format!("`{bare}` is no time of day: expected something like 21:29:38 or 21:29")
    })
}

impl When {
    /// Nanoseconds since the Unix epoch, for a recording from `range.0` to `range.1`: a time of day means the one
    /// within the recording, or else the nearest one.
    pub fn nanos(self, range: (u64, u64)) -> u64 {
        let time = match self {
            Self::Moment(moment) => return moment.nanos(range.0),
            Self::TimeOfDay(time) => time,
        };
        let zone = TimeZone::system();
        let Ok(start) = Timestamp::from_nanosecond(i128::from(range.0)) else { return range.0 };
        let first_day = start.to_zoned(zone.clone()).date();
        let days = (range.1.saturating_sub(range.0) / 86_400_000_000_000).min(3_660) as i64 + 1;
        let on = |day: i64| {
            let date = first_day.checked_add(day.days()).ok()?;
            let zoned = date.to_datetime(time).to_zoned(zone.clone()).ok()?;
            u64::try_from(zoned.timestamp().as_nanosecond()).ok()
        };
        let distance =
            |nanos: &u64| range.0.saturating_sub(*nanos).max(nanos.saturating_sub(range.1));
        (-1..=days).filter_map(on).min_by_key(distance).unwrap_or(range.0)
    }

    /// The same as a moment that servers understand.
    pub fn moment(self, range: (u64, u64)) -> Moment {
        match self {
            Self::Moment(moment) => moment,
            Self::TimeOfDay(_) => Moment::At(self.nanos(range)),
        }
    }
}

/// A time range of a recording, both ends included.
///
/// # Errors
/// If the first time is after the second.
pub fn between(
    from: Option<When>,
    to: Option<When>,
    range: (u64, u64),
) -> Result<(u64, u64), CliError> {
    let from_nanos = from.map_or(0, |when| when.nanos(range));
    let to_nanos = to.map_or(u64::MAX, |when| when.nanos(range));
    if from_nanos > to_nanos {
        return Err(CliError::usage(format!(
            "--from ({}) is after --to ({}): exchange them",
            text::time(from_nanos),
            text::time(to_nanos)
        )));
    }
    Ok((from_nanos, to_nanos))
}

/// Which topics and times of a recording are taken.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Topics and times")]
pub struct Selection {
    /// Only these topics.
    #[arg(short, long = "topic", visible_alias = "topics", value_name = "TOPIC", num_args = 1..)]
    #[arg(add = ArgValueCompleter::new(complete::topics))]
    pub topics: Vec<String>,
    /// Only topics whose name matches this regular expression anywhere.
    #[arg(short = 'e', long, value_name = "RE")]
    regex: Option<String>,
    /// Leave out topics whose name matches this regular expression anywhere.
    #[arg(short = 'x', long, value_name = "RE")]
    exclude_regex: Option<String>,
    /// Leave out these topics.
    #[arg(long, value_name = "TOPIC", num_args = 1.., add = ArgValueCompleter::new(complete::topics))]
    #[arg(hide_short_help = true)]
    exclude_topics: Vec<String>,
    /// Only topics of these types (sensor_msgs/msg/Image).
    #[arg(long, value_name = "TYPE", num_args = 1..)]
    #[arg(hide_short_help = true)]
    topic_types: Vec<String>,
    /// Leave out topics of these types.
    #[arg(long, value_name = "TYPE", num_args = 1..)]
    #[arg(hide_short_help = true)]
    exclude_topic_types: Vec<String>,
    /// First log time: 21:29:38, +10s after the start, RFC 3339, or nanoseconds since 1970.
    #[arg(long, value_name = "T", value_parser = when)]
    pub from: Option<When>,
    /// Last log time [default: the end]
    #[arg(long, value_name = "T", value_parser = when)]
    pub to: Option<When>,
}

impl Selection {
    /// Whether everything is taken.
    pub fn is_all(&self) -> bool {
        !self.chooses() && !self.excludes() && self.from.is_none() && self.to.is_none()
    }

    /// These topics at all times.
    #[cfg(feature = "parquet")]
    pub fn of_topics(topics: Vec<String>) -> Self {
        Self { topics, ..Self::default() }
    }

    /// Whether at most times are chosen, no topics.
    #[cfg(feature = "parquet")]
    pub fn is_only_times(&self) -> bool {
        !self.chooses() && !self.excludes()
    }

    fn chooses(&self) -> bool {
        !self.topics.is_empty() || self.regex.is_some() || !self.topic_types.is_empty()
    }

    fn excludes(&self) -> bool {
        self.exclude_regex.is_some()
            || !self.exclude_topics.is_empty()
            || !self.exclude_topic_types.is_empty()
    }

    /// Which of a recording's topics are taken.
    ///
    /// # Errors
    /// If a pattern is none, or a topic that is named is not in the recording.
    pub fn filter(&self, topics: &[Topic]) -> Result<TopicFilter, CliError> {
        let pattern = |text: &Option<String>| {
            let pattern = text.as_ref().map(|text| livebag::pattern(text)).transpose();
            pattern.map_err(|error| CliError::usage(error.to_string()))
        };
        let known = || topics.iter().map(|topic| topic.name.as_str());
        let all = TopicFilter { include_hidden_topics: true, ..TopicFilter::default() };
        let base = if self.chooses() { all } else { TopicFilter::all() };
        Ok(TopicFilter {
            topics: self
                .topics
                .iter()
                .map(|name| full_name(name, known))
                .collect::<Result<_, _>>()?,
            topic_types: self.topic_types.clone(),
            regex: pattern(&self.regex)?,
            exclude_regex: pattern(&self.exclude_regex)?,
            exclude_topics: self
                .exclude_topics
                .iter()
                .map(|name| full_name(name, known))
                .collect::<Result<_, _>>()?,
            exclude_topic_types: self.exclude_topic_types.clone(),
            ..base
        })
    }
}

/// The topics and times that the command line chooses.
///
/// # Errors
/// If a topic is not there, or a time makes no sense.
pub fn chosen(
    source: Box<dyn MessageSource>,
    selection: &Selection,
    inputs: &[PathBuf],
) -> Result<Box<dyn MessageSource>, CliError> {
    let filter = selection.filter(source.topics())?;
    let (mut from, mut to) = (None, None);
    if selection.from.is_some() || selection.to.is_some() {
        let (from_nanos, to_nanos) =
            between(selection.from, selection.to, range_of(&*source, inputs)?)?;
        from = selection.from.map(|_| from_nanos);
        to = selection.to.map(|_| to_nanos);
    }
    Ok(livebag_bags::selected(source, &filter, from, to))
}

/// Start and end of the recordings, as far as known without reading them.
///
/// # Errors
/// If one cannot be read.
pub fn range_of(source: &dyn MessageSource, inputs: &[PathBuf]) -> Result<(u64, u64), CliError> {
    if let Some(range) = source.totals().and_then(|totals| totals.times_nanos) {
        return Ok(range);
    }
    let start = match source.start_time_nanos() {
        Some(start) => start,
        None => {
            let mut firsts = Vec::new();
            for input in inputs {
                let first = stored::open_any(input)?.next_message()?;
                firsts.extend(first.map(|message| message.log_time_nanos));
            }
            firsts.into_iter().min().unwrap_or(0)
        }
    };
    Ok((start, start))
}

/// The topic that `name` stands for: `imu` means `/imu`, and vice versa.
///
/// # Errors
/// If there is none; the sentence names those that there are.
pub fn full_name<'a, I: Iterator<Item = &'a str>>(
    name: &str,
    known: impl Fn() -> I,
) -> Result<String, CliError> {
    let bare = name.strip_prefix('/').unwrap_or(name);
    if known().any(|topic| topic == name) {
        return Ok(name.to_owned());
    }
    if let Some(topic) = known().find(|topic| topic.strip_prefix('/').unwrap_or(topic) == bare) {
        return Ok(topic.to_owned());
    }
    let meant = similar(name, known())
        .map_or_else(String::new, |meant| format!("; did you mean {}?", visible(meant)));
    let mut names: Vec<&str> = known().take(9).collect();
    if names.len() > 8 {
        names[8] = "…";
    }
    Err(CliError::failed(format!(
        "the recording has no topic {}{meant} (it has {})",
        visible(name),
        if names.is_empty() { "none".to_owned() } else { visible_list(names) }
    )))
}

/// The name that was probably meant by `name`.
pub fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |other: &str| {
        strsim::jaro_winkler(name.trim_start_matches('/'), other.trim_start_matches('/'))
    };
    let scored = known.map(|other| (likeness(other), other));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= SIMILAR).then_some(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_time_of_day_is_the_one_within_the_recording() {
        // From 20:00 to 01:00 of the next day, in the zone of the machine.
        let zone = TimeZone::system();
        let evening = civil::datetime(2026, 5, 1, 20, 0, 0, 0).to_zoned(zone).unwrap();
        let start = u64::try_from(evening.timestamp().as_nanosecond()).unwrap();
        let range = (start, start + 5 * 3600 * SECOND);
        let nanos = |text| when(text).unwrap().nanos(range);
        assert_eq!(nanos("21:29:38"), start + (3600 + 29 * 60 + 38) * SECOND);
        assert_eq!(nanos("00:30"), start + (4 * 3600 + 1800) * SECOND);
        assert_eq!(nanos("19:59:59"), start - SECOND);
        assert_eq!(nanos("+10s"), start + 10 * SECOND);
        assert!(when("25:00:00").is_err());
    }

    #[test]
    fn a_topic_that_is_not_there_is_answered_with_the_one_that_was_meant() {
        let known = || ["/imu", "/camera/front"].into_iter();
        assert_eq!(full_name("imu", known).unwrap(), "/imu");
        let error = full_name("/camera/frnt", known).unwrap_err().to_string();
        assert!(error.contains("did you mean /camera/front?"), "{error}");
    }
}
