//! Numbers of messages over time: as they are where they are few, else the least, greatest, first and last of
//! each bin.

use std::time::Duration;

use livebag::{Container, Cursor, Query, Span, TimeBins};
use serde::{Serialize, Serializer};

use super::{AnswerError, JsonOut, Outlet};
use crate::ask::{BetweenError, full_names};
use crate::field::{FieldReader, fields};
use crate::limits::{
    PIECE_BYTES, SERIES_BATCH_BYTES, SERIES_BATCH_MESSAGES, SERIES_BYTES_MAX, SERIES_MESSAGES_MAX,
};

/// Which numbers.
pub struct SeriesQuery {
    /// Topic name.
    pub topic: String,
    /// Paths of fields.
    pub fields: Vec<String>,
    /// First and last log time.
    pub from_nanos: u64,
    /// See above.
    pub to_nanos: u64,
    /// Bins at most.
    pub bins_max: usize,
}

/// Values of a field by bin; NaN where there is none.
struct Bins {
    min: Vec<f64>,
    max: Vec<f64>,
    first: Vec<f64>,
    last: Vec<f64>,
    counts: Vec<u64>,
}

impl Bins {
    fn new(count: usize) -> Self {
        let none = || vec![f64::NAN; count];
        Self { min: none(), max: none(), first: none(), last: none(), counts: vec![0; count] }
    }

    fn add(&mut self, bin: usize, value: f64) {
        if !value.is_finite() {
            return;
        }
        // A missing value is replaced.
        self.min[bin] = self.min[bin].min(value);
        self.max[bin] = self.max[bin].max(value);
        if self.counts[bin] == 0 {
            self.first[bin] = value;
        }
        self.last[bin] = value;
        self.counts[bin] += 1;
    }
}

/// Where values go.
enum Values {
    Exact(Vec<(u64, f64)>),
    Bins(Bins),
}

impl Values {
    fn add(&mut self, bins: TimeBins, nanos: u64, value: f64) {
        match self {
            Self::Exact(values) => values.push((nanos, value)),
            Self::Bins(values) => {
                if let Some(bin) = bins.bin_of(nanos) {
                    values.add(bin, value);
                }
            }
        }
    }
}

/// Numbers, some of which are none; with the digits that a `float32` has.
struct Numbers<'a> {
    values: &'a [f64],
    is_short: bool,
}

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.values.iter().map(|value| Number(*value, self.is_short)))
    }
}

struct Number(f64, bool);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self(value, _) if !value.is_finite() => serializer.serialize_none(),
            Self(value, true) => serializer.serialize_f32(*value as f32),
            Self(value, false) => serializer.serialize_f64(*value),
        }
    }
}

struct Times<'a>(&'a [u64]);

impl Serialize for Times<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(u64::to_string))
    }
}

#[derive(Serialize)]
struct ExactField<'a> {
    field: &'a str,
    times: Times<'a>,
    values: Numbers<'a>,
}

#[derive(Serialize)]
struct BinnedField<'a> {
    field: &'a str,
    min: Numbers<'a>,
    max: Numbers<'a>,
    first: Numbers<'a>,
    last: Numbers<'a>,
    counts: &'a [u64],
}

#[derive(Serialize)]
struct Head<'a> {
    topic: &'a str,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: u64,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: u64,
    bin_nanos: u64,
    exact: bool,
    message_count: u64,
    /// Of this many messages one was read.
    every: u64,
    /// Messages that could not be read or decoded.
    damaged: u64,
}

/// The time of a question, which may name its ends.
///
/// # Errors
/// If they are the wrong way round, or an index cannot be read.
pub fn span_of(container: &Container, query: &Query) -> Result<(u64, u64), BetweenError> {
    let (start, end) = container
        .time_range()?
        .unwrap_or_else(|| (container.started_nanos(), container.started_nanos()));
    Ok(match query.span {
        Span::History(from, to) => {
            (if from == 0 { start } else { from }, if to == u64::MAX { end.max(from) } else { to })
        }
        Span::All | Span::Latest(_) => (start, end),
    })
}

/// Reads the values.
struct Reading<'a> {
    reader: FieldReader,
    values: &'a mut [Values],
    bins: TimeBins,
    /// Log times of messages whose values have not been taken.
    times: Vec<u64>,
    bytes: usize,
    damaged: u64,
}

impl Reading<'_> {
    fn push(&mut self, nanos: u64, message: &[u8]) {
        let (values, bins) = (&mut *self.values, self.bins);
        let before = self.reader.rows();
        let pushed =
            self.reader.push(message, &mut |field, value| values[field].add(bins, nanos, value));
        if pushed.is_err() {
            self.damaged += 1;
        }
        if self.reader.rows() > before {
            self.times.push(nanos);
            self.bytes += message.len();
        }
        if self.times.len() >= SERIES_BATCH_MESSAGES || self.bytes >= SERIES_BATCH_BYTES {
            self.drain();
        }
    }

    fn drain(&mut self) {
        let (values, bins, times) = (&mut *self.values, self.bins, &self.times);
        self.reader.drain(&mut |row, field, value| values[field].add(bins, times[row], value));
        self.times.clear();
        self.bytes = 0;
    }
}

/// Sends the numbers of some fields. All memory for messages is reserved before they are read: a client that waits
/// longer than `patience` for it is refused.
///
/// # Errors
/// If the recording cannot be read, has no such topic or field, or the asker has gone.
pub fn send_series(
    container: &Container,
    query: &SeriesQuery,
    patience: Duration,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let topics = full_names(container, std::slice::from_ref(&query.topic));
    let span = Span::History(query.from_nanos, query.to_nanos);
    let mut cursor = container.query(&Query { topics: topics.clone(), span })?;
    // Of two topics of one name the first one that has the fields.
    let named = |at: &usize| container.topics()[*at].topic().name == topics[0];
    let numbers: Vec<usize> = (0..container.topics().len()).filter(named).collect();
    let mut found = None;
    for number in &numbers {
        let reader = FieldReader::new(container.topics()[*number].topic(), &query.fields);
        if found.as_ref().is_none_or(|(_, known): &(_, Result<_, _>)| known.is_err()) {
            found = Some((*number, reader));
        }
    }
    let Some((number, reader)) = found else { return Err(AnswerError::NoMessage) };
    let reader = reader?;
    let shorts: Vec<bool> = (0..query.fields.len()).map(|at| reader.is_short(at)).collect();

    let bins = TimeBins::new(query.from_nanos, query.to_nanos, query.bins_max);
    let message_count = cursor.remaining();
    let bytes_each = u64::from(cursor.next_data_bytes().unwrap_or(0));
    let every = message_count
        .div_ceil(SERIES_MESSAGES_MAX)
        .max(message_count.saturating_mul(bytes_each).div_ceil(SERIES_BYTES_MAX))
        .max(1);
    let exact = every == 1 && message_count <= query.bins_max as u64;
    let new_values = |_: &String| match exact {
        true => Values::Exact(Vec::new()),
        false => Values::Bins(Bins::new(bins.count())),
    };
    let mut values: Vec<Values> = query.fields.iter().map(new_values).collect();
    let mut reading =
        Reading { reader, values: &mut values, bins, times: Vec::new(), bytes: 0, damaged: 0 };
    read(&mut cursor, (number, every), &mut reading, patience, outlet)?;
    let damaged = reading.damaged + cursor.damaged();

    let (start_nanos, end_nanos) = (bins.start_nanos(), bins.last_nanos().saturating_add(1));
    let bin_nanos = bins.bin_nanos();
    let topic = &*topics[0];
    let head =
        Head { topic, start_nanos, end_nanos, bin_nanos, exact, message_count, every, damaged };
    let mut out = JsonOut::new(outlet);
    let text = serde_json::to_string(&head).unwrap_or_default();
    out.text(text.trim_end_matches('}'))?;
    out.text(",\"fields\":[")?;
    for (at, (field, values)) in query.fields.iter().zip(&values).enumerate() {
        out.text(if at > 0 { "," } else { "" })?;
        let is_short = shorts[at];
        match values {
            Values::Exact(points) => {
                let times: Vec<u64> = points.iter().map(|(time, _)| *time).collect();
                let values: Vec<f64> = points.iter().map(|(_, value)| *value).collect();
                let (times, values) = (Times(&times), Numbers { values: &values, is_short });
                out.put(&ExactField { field, times, values })?;
            }
            Values::Bins(bins) => out.put(&BinnedField {
                field,
                min: Numbers { values: &bins.min, is_short },
                max: Numbers { values: &bins.max, is_short },
                first: Numbers { values: &bins.first, is_short },
                last: Numbers { values: &bins.last, is_short },
                counts: &bins.counts,
            })?,
        }
    }
    out.text("]}")?;
    out.finish()
}

/// Reads each `every`th message of topic `number`.
fn read(
    cursor: &mut Cursor<'_>,
    (number, every): (usize, u64),
    reading: &mut Reading<'_>,
    patience: Duration,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut piece = outlet.piece_within(PIECE_BYTES, patience)?;
    let mut passed = 0u64;
    while let Some((topic, entry)) = cursor.next_entry()? {
        passed += 1;
        if topic != number || !(passed - 1).is_multiple_of(every) {
            continue;
        }
        // The message, and its decoded form.
        let bytes = 2 * entry.data_bytes as usize;
        if bytes > piece.room() {
            drop(piece);
            piece = outlet.piece_within(bytes, patience)?;
        }
        if cursor.append_to(piece.buffer())? {
            reading.push(entry.log_time_nanos, piece.buffer());
        }
        piece.buffer().clear();
        if passed.is_multiple_of(SERIES_BATCH_MESSAGES as u64) && outlet.is_gone() {
            return Err(AnswerError::Gone);
        }
    }
    reading.drain();
    Ok(())
}

#[derive(Serialize)]
struct TopicFields<'a> {
    topic: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    fields: Vec<crate::field::FieldRow>,
}

/// Sends the fields of a topic's messages.
///
/// # Errors
/// If there is no such topic, or its messages cannot be decoded.
pub fn send_fields(
    container: &Container,
    topic: &str,
    patience: Duration,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let topics = full_names(container, &[topic.to_owned()]);
    let mut newest = container.newest_first(&Query { topics: topics.clone(), span: Span::All })?;
    let named = container.topics().iter().find(|known| known.topic().name == topics[0]);
    let Some(topic) = named.map(|topic| topic.topic()) else { return Err(AnswerError::NoMessage) };
    let mut message = None;
    if topic.message_encoding == "json"
        && let Some((_, entry)) = newest.next_entry()?
    {
        let mut piece = outlet.piece_within(entry.data_bytes as usize, patience)?;
        newest.append_to(piece.buffer())?;
        message = Some(piece);
    }
    let fields = fields(topic, message.as_mut().map(|piece| &**piece.buffer()))?;
    drop(message);
    let mut out = JsonOut::new(outlet);
    out.put(&TopicFields { topic: &topic.name, type_name: &topic.type_name, fields })?;
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_has_least_greatest_first_and_last() {
        let mut bins = Bins::new(2);
        for value in [3.0, f64::NAN, -1.0, f64::INFINITY, 2.0] {
            bins.add(0, value);
        }
        assert_eq!((bins.min[0], bins.max[0], bins.first[0], bins.last[0]), (-1.0, 3.0, 3.0, 2.0));
        assert_eq!(bins.counts, [3, 0]);
        assert!(bins.min[1].is_nan());
        let text = serde_json::to_string(&Numbers { values: &bins.max, is_short: false }).unwrap();
        assert_eq!(text, "[3.0,null]");
        let values = &[f64::from(0.1f32)];
        let short = serde_json::to_string(&Numbers { values, is_short: true }).unwrap();
        assert_eq!(short, "[0.1]");
    }
}
