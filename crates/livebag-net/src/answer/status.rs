//! How a recording goes, twice a second, as server-sent events.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use livebag::{Clock, Container, ContainerError, ContainerState, TopicProgress};
use livebag_format::container::Losses;
use serde::Serialize;

use super::follow::put_text;
use super::{AnswerError, Outlet, message};
use crate::limits::{PIECE_BYTES, STATUS_INTERVAL, STATUS_LOOKS};
use crate::tell::{Lost, PushStatus, files_bytes};

/// Without a message for longer, a topic whose messages come unevenly is idle.
const IDLE_NANOS: u64 = 1_000_000_000;

/// A recorder's own status.
#[derive(Clone, Debug, Default)]
pub struct RecorderStatus {
    /// Whether messages are left out at the moment.
    pub paused: bool,
    /// Splits begun, the first included.
    pub splits: u64,
    /// Bytes waiting in its memory.
    pub cache_bytes: u64,
    /// Bound of those.
    pub cache_bytes_max: Option<u64>,
    /// Bytes waiting in the slots of streams.
    pub slot_bytes: Option<u64>,
    /// How pushing goes, if it pushes.
    pub push: Option<PushStatus>,
    /// Losses of all topics.
    pub lost: Losses,
    /// The topics, in the order of appearance.
    pub topics: Vec<RecorderTopic>,
}

/// A recorder's status of a topic.
#[derive(Clone, Debug, Default)]
pub struct RecorderTopic {
    /// Topic name.
    pub name: String,
    /// Losses by cause.
    pub lost: Losses,
    /// Whether its writer has died.
    pub is_gone: bool,
}

impl From<(livebag::Status, u64)> for RecorderStatus {
    /// Of a recorder in this process, with the bound of its memory.
    fn from((status, cache_bytes_max): (livebag::Status, u64)) -> Self {
        let topic = |topic: &livebag::TopicStatus| RecorderTopic {
            name: topic.name.clone(),
            lost: topic.lost,
            is_gone: topic.writer_gone,
        };
        Self {
            paused: status.paused,
            splits: status.splits.into(),
            cache_bytes: status.cache_bytes,
            cache_bytes_max: Some(cache_bytes_max),
            slot_bytes: Some(status.slot_bytes),
            push: None,
            lost: status.totals().2,
            topics: status.topics.iter().map(topic).collect(),
        }
    }
}

/// A recording whose status is sent.
pub trait StatusSource {
    /// The container as it is now.
    ///
    /// # Errors
    /// If it cannot be read.
    fn container(&self) -> Result<Arc<Container>, ContainerError>;

    /// Progress of its topics.
    ///
    /// # Errors
    /// If an index cannot be read.
    fn progress(&self, container: &Container) -> Result<Vec<TopicProgress>, ContainerError>;

    /// What its recorder says of itself, if it can be asked.
    fn recorder_status(&self) -> Option<RecorderStatus>;
}

/// How a recording goes.
#[derive(Serialize)]
struct RecordingStatus<'a> {
    state: String,
    /// Whether messages are left out at the moment.
    paused: Option<bool>,
    #[serde(rename = "now_time", with = "livebag_format::json_time")]
    now_nanos: u64,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: Option<u64>,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: Option<u64>,
    size_bytes: u64,
    free_bytes: Option<u64>,
    full_in_nanos: Option<u64>,
    bytes_per_s: Option<f64>,
    /// Waiting in memory of the recorder's own, and bound of that.
    cache_bytes: Option<u64>,
    cache_bytes_max: Option<u64>,
    /// Waiting in the slots of streams.
    slot_bytes: Option<u64>,
    push: Option<PushStatus>,
    splits: u64,
    message_count: u64,
    message_bytes: u64,
    lost: Lost,
    topics: Vec<TopicStatus<'a>>,
}

#[derive(Serialize)]
struct TopicStatus<'a> {
    topic: &'a str,
    state: &'static str,
    rate_hz: Option<f64>,
    message_bytes_per_s: Option<f64>,
    newest_age_nanos: Option<u64>,
    message_count: u64,
    message_bytes: u64,
    lost: Lost,
}

/// State at an earlier poll.
struct Look {
    nanos: u64,
    topics: Vec<TopicProgress>,
}

/// Builds the status of a recording.
struct Teller<'a> {
    served: &'a dyn StatusSource,
    clock: &'a Clock,
    looks: VecDeque<Look>,
    /// Bytes of splits that are finished.
    splits: HashMap<String, u64>,
}

/// Sends an event twice a second until the recording ends; one and the end if it has ended.
///
/// # Errors
/// If the recording cannot be read, or the asker has gone.
pub fn send_status(
    served: &dyn StatusSource,
    clock: &Clock,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut teller = Teller { served, clock, looks: VecDeque::new(), splits: HashMap::new() };
    loop {
        let container = served.container()?;
        let mut piece = outlet.piece(PIECE_BYTES);
        piece.buffer().put(b"event: status\ndata: ");
        message::put(&teller.look(&container)?, piece.buffer());
        piece.buffer().put(b"\n\n");
        outlet.send(piece)?;
        if container.state() != ContainerState::Live {
            return put_text(outlet, "event: end\ndata: {}\n\n");
        }
        drop(container);
        clock.sleep(STATUS_INTERVAL);
        if outlet.is_gone() {
            return Err(AnswerError::Gone);
        }
    }
}

impl Teller<'_> {
    fn look<'a>(
        &mut self,
        container: &'a Arc<Container>,
    ) -> Result<RecordingStatus<'a>, ContainerError> {
        let is_live = container.state() == ContainerState::Live;
        let recorder = self.served.recorder_status().filter(|_| is_live);
        let topics = self.served.progress(container)?;
        let (now_nanos, nanos) = (self.clock.wall_nanos(), self.clock.monotonic_nanos());
        // A topic that is new since then started from zero.
        let before = self.looks.front().filter(|_| is_live);
        let elapsed_s = before.map(|before| nanos.saturating_sub(before.nanos) as f64 / 1e9);
        let elapsed_s = elapsed_s.filter(|elapsed| *elapsed > 0.0);
        let since = |at: usize, of: &dyn Fn(&TopicProgress) -> u64| {
            let then = before?.topics.get(at).map_or(0, of);
            Some(of(&topics[at]).saturating_sub(then) as f64 / elapsed_s?)
        };
        let lost = lost_by_topic(container, recorder.as_ref())?;
        let mut bytes_per_s = elapsed_s.map(|_| 0.0);
        let mut rows = Vec::with_capacity(topics.len());
        for (at, topic) in container.topics().iter().enumerate() {
            let progress = topics[at];
            let rate_bytes = since(at, &|topic| topic.message_bytes);
            if let (Some(sum), Some(rate)) = (&mut bytes_per_s, rate_bytes) {
                *sum += rate;
            }
            let age = progress.newest_nanos.map(|newest| now_nanos.saturating_sub(newest));
            rows.push(TopicStatus {
                topic: &topic.topic().name,
                state: state_of(is_live, &progress, age, lost[at].1),
                rate_hz: since(at, &|topic| topic.message_count),
                message_bytes_per_s: rate_bytes,
                newest_age_nanos: age,
                message_count: progress.message_count,
                message_bytes: progress.message_bytes,
                lost: lost[at].0,
            });
        }
        let free_bytes = free_bytes(container.path());
        let full_in = |free: u64| {
            let rate = bytes_per_s.filter(|rate| is_live && *rate > 0.0)?;
            Some((free as f64 / rate * 1e9) as u64)
        };
        let ends = topics.iter().filter_map(|topic| topic.newest_nanos).max();
        let status = RecordingStatus {
            state: container.state().to_string(),
            paused: recorder.as_ref().map(|recorder| recorder.paused),
            now_nanos,
            start_nanos: container.time_range()?.map(|(start, _)| start),
            end_nanos: ends,
            size_bytes: self.size_bytes(container),
            free_bytes,
            full_in_nanos: free_bytes.and_then(full_in),
            bytes_per_s: bytes_per_s.filter(|_| is_live),
            cache_bytes: recorder.as_ref().map(|recorder| recorder.cache_bytes),
            cache_bytes_max: recorder.as_ref().and_then(|recorder| recorder.cache_bytes_max),
            slot_bytes: recorder.as_ref().and_then(|recorder| recorder.slot_bytes),
            push: recorder.as_ref().and_then(|recorder| recorder.push.clone()),
            splits: recorder
                .as_ref()
                .map_or(container.splits().len() as u64 + 1, |recorder| recorder.splits),
            message_count: topics.iter().map(|topic| topic.message_count).sum(),
            message_bytes: topics.iter().map(|topic| topic.message_bytes).sum(),
            lost: match &recorder {
                Some(recorder) => told(recorder.lost),
                None => (&container.account()?).into(),
            },
            topics: rows,
        };
        self.looks.push_back(Look { nanos, topics });
        if self.looks.len() > STATUS_LOOKS {
            self.looks.pop_front();
        }
        Ok(status)
    }

    /// Bytes of its files.
    fn size_bytes(&mut self, container: &Container) -> u64 {
        let mut sum = files_bytes(container, container.path());
        let Some((last, finished)) = container.splits().split_last() else { return sum };
        self.splits.retain(|name, _| finished.contains(name));
        for name in finished {
            let path = container.path().join(name);
            sum +=
                *self.splits.entry(name.clone()).or_insert_with(|| files_bytes(container, &path));
        }
        sum + files_bytes(container, &container.path().join(last))
    }
}

fn told(lost: Losses) -> Lost {
    let Losses { transport, queue, lapped, disk, abandoned } = lost;
    Lost { transport, queue, lapped, disk, abandoned, total: Some(lost.total()) }
}

/// What each topic has lost, and whether its writer has died if that is known.
fn lost_by_topic(
    container: &Container,
    recorder: Option<&RecorderStatus>,
) -> Result<Vec<(Lost, bool)>, ContainerError> {
    let mut known: Vec<_> = recorder.iter().flat_map(|recorder| &recorder.topics).collect();
    let accounts = container.accounts()?;
    let rows = container.topics().iter().zip(&accounts).map(|(topic, account)| {
        // Two topics may have one name: their order tells which is which.
        let at = known.iter().position(|known| known.name == topic.topic().name);
        match at.map(|at| known.remove(at)) {
            Some(known) => (told(known.lost), known.is_gone),
            None => (account.into(), false),
        }
    });
    Ok(rows.collect())
}

fn state_of(
    is_live: bool,
    progress: &TopicProgress,
    age: Option<u64>,
    is_gone: bool,
) -> &'static str {
    let Some(age) = age.filter(|_| is_live) else { return "idle" };
    match progress.silence_nanos {
        _ if is_gone => "gone",
        Some(silence) if age > silence => "stalled",
        None if age > IDLE_NANOS => "idle",
        _ => "recording",
    }
}

fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_recording_stalled_gone_or_idle() {
        let even = TopicProgress { silence_nanos: Some(500_000_000), ..TopicProgress::default() };
        let uneven = TopicProgress { silence_nanos: None, ..even };
        for (progress, age, is_gone, state) in [
            (even, Some(400_000_000), false, "recording"),
            (even, Some(600_000_000), false, "stalled"),
            (even, Some(0), true, "gone"),
            (uneven, Some(900_000_000), false, "recording"),
            (uneven, Some(1_100_000_000), false, "idle"),
            (even, None, false, "idle"),
        ] {
            assert_eq!(state_of(true, &progress, age, is_gone), state);
            assert_eq!(state_of(false, &progress, age, is_gone), "idle");
        }
    }
}
