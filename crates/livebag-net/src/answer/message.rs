//! One message as an answer: its bytes, its values, or a picture of it.

use std::sync::PoisonError;
use std::time::Duration;

use livebag::{Buffer, Container, ContainerError, Query, Span, Topic};
use livebag_format::DecodeError;
use livebag_format::decode::{DecodeOptions, Decoder};

use super::{AnswerError, Outlet};
use crate::ask::{MessageForm, Step, full_names};
use crate::limits::{DECODED_VALUES_MAX, DECODED_VALUES_SMALL};
use crate::moment::Moment;
use crate::pool::Pool;
use crate::tell::MessageLine;
use crate::{picture, points};

/// The message's properties in the head of a response.
pub struct MessageHead {
    /// Topic, times, sequence; without values.
    pub line: MessageLine,
    /// Its type.
    pub type_name: String,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Newer messages that were skipped because they are damaged.
    pub damaged: u64,
    /// The frame that points are in.
    pub frame_id: Option<String>,
}

/// Which message.
pub struct MessageQuery {
    /// Topic name.
    pub topic: String,
    /// The last one up to then; without it the newest.
    pub at: Option<Moment>,
    /// The one behind or before that time instead.
    pub step: Option<Step>,
}

impl MessageQuery {
    /// The query whose newest message it is.
    fn resolve(&self, container: &Container) -> Result<Query, ContainerError> {
        let topics = full_names(container, std::slice::from_ref(&self.topic));
        let (start, end) = container
            .time_range()?
            .unwrap_or_else(|| (container.started_nanos(), container.started_nanos()));
        let at = self.at.map(|at| at.nanos(start));
        let span = match (self.step, at) {
            (None, None) => Span::All,
            (None, Some(at)) => Span::History(0, at),
            (Some(Step::Previous), at) => match at.unwrap_or(end).checked_sub(1) {
                Some(before) => Span::History(0, before),
                None => Span::History(1, 0),
            },
            (Some(Step::Next), at) => {
                let from = at.unwrap_or(end).saturating_add(1);
                let span = Span::History(from, u64::MAX);
                let mut cursor = container.query(&Query { topics: topics.clone(), span })?;
                // Nothing behind it: an empty time.
                let next = cursor.next_entry()?.map_or(0, |(_, entry)| entry.log_time_nanos);
                Span::History(from, next)
            }
        };
        Ok(Query { topics, span })
    }
}

/// Sends a message; `tell` gets its head first. All memory for it is reserved before it is read: a client that waits
/// longer than `patience` for it is refused.
///
/// # Errors
/// If the recording cannot be read, has no such message, or it cannot be given in that form.
pub fn send_message(
    container: &Container,
    query: &MessageQuery,
    form: MessageForm,
    (outlet, patience): (&mut Outlet, Duration),
    tell: impl FnOnce(MessageHead),
) -> Result<(), AnswerError> {
    let mut messages = container.newest_first(&query.resolve(container)?)?;
    while let Some((topic, entry)) = messages.next_entry()? {
        let factor = match form {
            MessageForm::Raw | MessageForm::Json { .. } => 1,
            MessageForm::Png { .. } | MessageForm::Jpeg { .. } => picture::BYTES_FOR_EACH,
        };
        let bytes = (entry.data_bytes as usize).saturating_mul(factor);
        let mut piece = outlet.piece_within(bytes, patience)?;
        let mut data = Buffer::default();
        let is_raw = matches!(form, MessageForm::Raw);
        // For a damaged one, the one before is sent.
        if !messages.append_to(if is_raw { piece.buffer() } else { &mut data })? {
            continue;
        }
        let topic = container.topics()[topic].topic();
        let line = MessageLine {
            topic: topic.name.clone(),
            log_time: entry.log_time_nanos,
            publish_time: entry.publish_time_nanos,
            sequence: entry.sequence,
            bytes: entry.data_bytes as usize,
            value: None,
            error: None,
        };
        match form {
            MessageForm::Raw => {}
            MessageForm::Png { width_max } => {
                picture::png_within(topic, &data, width_max, piece.buffer())?;
            }
            MessageForm::Jpeg { width_max } => {
                picture::jpeg_within(topic, &data, width_max, piece.buffer())?;
            }
            MessageForm::Json { array_items_max } => {
                let failed =
                    |error: String| AnswerError::Decode { topic: topic.name.clone(), error };
                let decoder = Decoder::new(topic).map_err(|error| failed(error.to_string()))?;
                let options = DecodeOptions { array_items_max };
                let decoded = decoded(&decoder, &data, &options, outlet.pool(), &mut |value| {
                    put(&MessageLine { value: Some(value), ..line.clone() }, piece.buffer());
                });
                decoded.map_err(|error| failed(error.to_string()))?;
            }
        }
        drop(data);
        let body_bytes = piece.buffer().len() as u64;
        let (type_name, damaged) = (topic.type_name.clone(), messages.damaged());
        tell(MessageHead { line, type_name, body_bytes, damaged, frame_id: None });
        return outlet.send(piece);
    }
    Err(AnswerError::NoMessage)
}

/// Sends at most `points_max` points of a message, as [`send_message`] sends it.
///
/// # Errors
/// As [`send_message`].
pub fn send_points(
    container: &Container,
    query: &MessageQuery,
    points_max: usize,
    (outlet, patience): (&mut Outlet, Duration),
    tell: impl FnOnce(MessageHead),
) -> Result<(), AnswerError> {
    let mut messages = container.newest_first(&query.resolve(container)?)?;
    while let Some((topic, entry)) = messages.next_entry()? {
        // Its points are in memory twice: as it has them, and as they are given.
        let bytes = entry.data_bytes as usize + points::bytes_of(points_max);
        let mut piece = outlet.piece_within(bytes, patience)?;
        let mut data = Buffer::default();
        if !messages.append_to(&mut data)? {
            continue;
        }
        let topic = container.topics()[topic].topic();
        let frame_id = points::points(topic, &data, points_max, piece.buffer())?.to_owned();
        let line = MessageLine {
            topic: topic.name.clone(),
            log_time: entry.log_time_nanos,
            publish_time: entry.publish_time_nanos,
            sequence: entry.sequence,
            bytes: entry.data_bytes as usize,
            value: None,
            error: None,
        };
        drop(data);
        let body_bytes = piece.buffer().len() as u64;
        let (type_name, damaged) = (topic.type_name.clone(), messages.damaged());
        tell(MessageHead { line, type_name, body_bytes, damaged, frame_id: Some(frame_id) });
        return outlet.send(piece);
    }
    Err(AnswerError::NoMessage)
}

/// Decodes a message for `take`. One of very many values takes its turn: values take many times the
/// memory of the message.
///
/// # Errors
/// If it cannot be decoded, or has more than [`DECODED_VALUES_MAX`].
pub fn decoded(
    decoder: &Decoder,
    message: &[u8],
    options: &DecodeOptions,
    pool: &Pool,
    take: &mut dyn FnMut(serde_json::Value),
) -> Result<(), DecodeError> {
    match decoder.decode_at_most(message, options, DECODED_VALUES_SMALL) {
        Err(DecodeError::Values { .. }) => {
            let _turn = pool.decoding().lock().unwrap_or_else(PoisonError::into_inner);
            take(decoder.decode_at_most(message, options, DECODED_VALUES_MAX)?);
        }
        decoded => take(decoded?),
    }
    Ok(())
}

/// Appends a line without its end.
pub fn put(line: &impl serde::Serialize, out: &mut Buffer) {
    // Names and numbers can always be written, and memory takes them.
    let _ = serde_json::to_writer(out, line);
}

/// A decoder for each topic, made when its first message comes.
pub struct Decoders {
    options: DecodeOptions,
    by_topic: Vec<Option<Result<Decoder, String>>>,
    pool: Pool,
}

impl Decoders {
    /// For the topics of a recording.
    pub fn new(container: &Container, array_items_max: usize, pool: &Pool) -> Self {
        let by_topic = container.topics().iter().map(|_| None).collect();
        Self { options: DecodeOptions { array_items_max }, by_topic, pool: pool.clone() }
    }

    /// Appends a line with a message's values, or with why there are none.
    pub fn put(
        &mut self,
        at: usize,
        topic: &Topic,
        message: &livebag::Message<'_>,
        out: &mut Buffer,
    ) {
        let decoder = self.by_topic[at]
            .get_or_insert_with(|| Decoder::new(topic).map_err(|error| error.to_string()));
        let line = MessageLine {
            topic: topic.name.clone(),
            log_time: message.log_time_nanos,
            publish_time: message.publish_time_nanos,
            sequence: message.sequence,
            bytes: message.data.len(),
            value: None,
            error: None,
        };
        let result = match decoder {
            Err(error) => Err(error.clone()),
            Ok(decoder) => {
                let mut take =
                    |value| put(&MessageLine { value: Some(value), ..line.clone() }, out);
                let decoded = decoded(decoder, message.data, &self.options, &self.pool, &mut take);
                decoded.map_err(|error| error.to_string())
            }
        };
        if let Err(error) = result {
            put(&MessageLine { error: Some(error), ..line }, out);
        }
        out.put(b"\n");
    }
}
