//! New messages of a recording as server-sent events, as its recorder commits them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, Container, ContainerError, ContainerState, IndexEntry, Query, Span};
use serde::Serialize;

use super::{AnswerError, Outlet, message};
use crate::limits::{FOLLOW_BEHIND_MAX, FOLLOW_INTERVAL, FOLLOW_SIGN_INTERVAL, PIECE_BYTES};
use crate::tell::MessageLine;

/// Messages of one topic already sent.
#[derive(Clone, Copy)]
struct Told {
    /// Log time of the newest message sent, and the number sent with that time.
    time_nanos: u64,
    count: u64,
}

/// An event that tells of messages which the asker was too slow for.
#[derive(Serialize)]
struct LeftOut<'a> {
    topic: &'a str,
    message_count: u64,
}

/// Sends an event for each new message of `topics` until the recording ends; `now` gives it as it is. A slow client
/// makes it wait, at most as long as any answer; of the messages since then it gets the newest, and the count of the
/// others.
///
/// # Errors
/// If the recording cannot be read, has no such topic, or the asker has gone.
pub fn send_follow(
    now: impl Fn() -> Result<Arc<Container>, AnswerError>,
    topics: &[String],
    clock: &Clock,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut told = HashMap::new();
    let container = now()?;
    let newest =
        |topic: &livebag::ContainerTopic| topic.time_range().map(|range| range.map(|(_, end)| end));
    for (at, topic) in container.topics().iter().enumerate() {
        if let Some(time_nanos) = newest(topic)? {
            told.insert(at, Told { time_nanos, count: u64::MAX });
        }
    }
    // Fails if a topic does not exist.
    drop(container.query(&Query { topics: topics.to_vec(), span: Span::Latest(Duration::ZERO) })?);
    drop(container);
    // The head goes out at once.
    put_text(outlet, ": new messages follow\n\n")?;
    let mut silent = Duration::ZERO;
    loop {
        let container = now()?;
        let is_live = container.state() == ContainerState::Live;
        let sent = send_new(&container, topics, &mut told, outlet)?;
        if !is_live && !sent {
            return put_text(outlet, "event: end\ndata: {}\n\n");
        }
        silent = if sent { Duration::ZERO } else { silent + FOLLOW_INTERVAL };
        if silent >= FOLLOW_SIGN_INTERVAL {
            put_text(outlet, ":\n\n")?;
            silent = Duration::ZERO;
        }
        if outlet.is_gone() {
            return Err(AnswerError::Gone);
        }
        if !sent {
            clock.sleep(FOLLOW_INTERVAL);
        }
    }
}

pub(super) fn put_text(outlet: &mut Outlet, text: &str) -> Result<(), AnswerError> {
    let mut piece = outlet.piece(PIECE_BYTES);
    piece.buffer().put(text.as_bytes());
    outlet.send(piece)
}

/// Sends the new messages of each name; returns whether there were any.
fn send_new(
    container: &Container,
    topics: &[String],
    told: &mut HashMap<usize, Told>,
    outlet: &mut Outlet,
) -> Result<bool, AnswerError> {
    let names: BTreeSet<&str> =
        container.topics().iter().map(|topic| &*topic.topic().name).collect();
    let is_wanted = |name: &&str| topics.is_empty() || topics.iter().any(|wanted| wanted == name);
    let mut piece = outlet.piece(PIECE_BYTES);
    let mut has_any = false;
    for name in names.into_iter().filter(is_wanted) {
        let mut left_out = 0;
        let new = unseen(container, name, told, &mut left_out)?;
        if left_out > 0 {
            piece.buffer().put(b"event: left_out\ndata: ");
            message::put(&LeftOut { topic: name, message_count: left_out }, piece.buffer());
            piece.buffer().put(b"\n\n");
        }
        for entry in new {
            has_any = true;
            let line = MessageLine {
                topic: name.to_owned(),
                log_time: entry.log_time_nanos,
                publish_time: entry.publish_time_nanos,
                sequence: entry.sequence,
                bytes: entry.data_bytes as usize,
                value: None,
                error: None,
            };
            piece.buffer().put(b"data: ");
            message::put(&line, piece.buffer());
            piece.buffer().put(b"\n\n");
            if piece.buffer().len() >= PIECE_BYTES {
                outlet.send(piece)?;
                piece = outlet.piece(PIECE_BYTES);
            }
        }
    }
    if has_any {
        outlet.send(piece)?;
    }
    Ok(has_any)
}

/// The newest entries of a name that were not sent yet.
fn unseen(
    container: &Container,
    name: &str,
    told: &mut HashMap<usize, Told>,
    left_out: &mut u64,
) -> Result<Vec<IndexEntry>, ContainerError> {
    let numbers =
        (0..container.topics().len()).filter(|&at| container.topics()[at].topic().name == name);
    let from = numbers.map(|at| told.get(&at).map_or(0, |told| told.time_nanos)).min().unwrap_or(0);
    let span = Span::History(from, u64::MAX);
    let mut cursor = container.query(&Query { topics: vec![name.to_owned()], span })?;
    let before = told.clone();
    let mut passed: HashMap<usize, u64> = HashMap::new();
    let mut new = std::collections::VecDeque::new();
    while let Some((at, entry)) = cursor.next_entry()? {
        let known = told.entry(at).or_insert(Told { time_nanos: 0, count: 0 });
        if let Some(before) = before.get(&at) {
            if entry.log_time_nanos < before.time_nanos {
                continue;
            }
            let passed = passed.entry(at).or_default();
            if entry.log_time_nanos == before.time_nanos && *passed < before.count {
                *passed += 1;
                // Those that were there at the beginning have not been counted.
                if before.count == u64::MAX {
                    known.count = *passed;
                }
                continue;
            }
        }
        match known.time_nanos == entry.log_time_nanos {
            true => known.count += 1,
            false => *known = Told { time_nanos: entry.log_time_nanos, count: 1 },
        }
        if new.len() == FOLLOW_BEHIND_MAX {
            new.pop_front();
            *left_out += 1;
        }
        new.push_back(entry);
    }
    Ok(new.into())
}
