//! The contents of a recording over time, as JSON.

use livebag::{Container, Timeline, TopicTimeline};
use livebag_format::container::Losses;
use mcap::sans_io::{SummaryReadEvent, SummaryReader, SummaryReaderOptions};
use serde::Serialize;

use super::{AnswerError, JsonOut, Outlet};
use crate::limits::{ATTACHMENTS_MARKED_MAX, SUMMARY_RECORD_BYTES_MAX};

#[derive(Serialize)]
struct Head {
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: u64,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: u64,
    bin_nanos: u64,
}

#[derive(Serialize)]
struct Lane<'a> {
    topic: &'a str,
    #[serde(rename = "type")]
    type_name: &'a str,
    message_counts: &'a [u64],
    bytes: &'a [u64],
    damaged: u64,
    lost: Vec<LostSpan>,
    lost_unplaced: Unplaced,
    gaps: Vec<Gap>,
}

#[derive(Serialize)]
struct LostSpan {
    #[serde(rename = "from_time", with = "livebag_format::json_time")]
    from_nanos: u64,
    #[serde(rename = "to_time", with = "livebag_format::json_time")]
    to_nanos: u64,
    count: u64,
    cause: Option<&'static str>,
}

/// Losses without a place, by cause.
#[derive(Serialize)]
struct Unplaced {
    transport: u64,
    queue: u64,
    lapped: u64,
    disk: u64,
    abandoned: u64,
    total: u64,
}

impl Unplaced {
    fn new(causes: Losses, total: u64) -> Self {
        let Losses { transport, queue, lapped, disk, abandoned } = causes;
        Self { transport, queue, lapped, disk, abandoned, total }
    }
}

#[derive(Serialize)]
struct Gap {
    #[serde(rename = "from_time", with = "livebag_format::json_time")]
    from_nanos: u64,
    #[serde(rename = "to_time", with = "livebag_format::json_time")]
    to_nanos: u64,
}

/// A moment of the whole recording.
#[derive(Serialize)]
struct Mark {
    kind: &'static str,
    name: String,
    text: String,
    #[serde(rename = "from_time", with = "livebag_format::json_time")]
    from_nanos: u64,
    #[serde(rename = "to_time", with = "livebag_format::json_time")]
    to_nanos: u64,
}

impl Mark {
    fn at(kind: &'static str, name: String, text: String, nanos: u64) -> Self {
        Self { kind, name, text, from_nanos: nanos, to_nanos: nanos }
    }
}

impl<'a> Lane<'a> {
    fn new(container: &'a Container, timeline: &'a TopicTimeline) -> Self {
        let topic = container.topics()[timeline.topic].topic();
        let lost = timeline.lost.iter().map(|lost| LostSpan {
            from_nanos: lost.from_nanos,
            to_nanos: lost.to_nanos,
            count: lost.count,
            cause: lost.cause.map(livebag::LossCause::name),
        });
        let gaps = timeline.silences.iter();
        Self {
            topic: &topic.name,
            type_name: &topic.type_name,
            message_counts: &timeline.message_counts,
            bytes: &timeline.message_bytes,
            damaged: timeline.damaged,
            lost: lost.collect(),
            lost_unplaced: Unplaced::new(timeline.unplaced, timeline.unplaced_total),
            gaps: gaps.map(|&(from_nanos, to_nanos)| Gap { from_nanos, to_nanos }).collect(),
        }
    }
}

/// Sends a timeline. Marks before and after its time are left out where its query has that bound: an event of a live
/// recording may be later than its last message.
///
/// # Errors
/// If the asker has gone.
pub fn send_timeline(
    container: &Container,
    timeline: &Timeline,
    (has_start, has_end): (bool, bool),
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let bins = timeline.bins;
    let (start_nanos, last_nanos) = (bins.start_nanos(), bins.last_nanos());
    let head =
        Head { start_nanos, end_nanos: last_nanos.saturating_add(1), bin_nanos: bins.bin_nanos() };
    let mut out = JsonOut::new(outlet);
    // An object that is continued below.
    let text = serde_json::to_string(&head).unwrap_or_default();
    out.text(text.trim_end_matches('}'))?;
    out.text(",\"topics\":[")?;
    for (at, topic) in timeline.topics.iter().enumerate() {
        out.text(if at > 0 { "," } else { "" })?;
        out.put(&Lane::new(container, topic))?;
    }
    let marks = marks(container, timeline);
    let is_within = |mark: &Mark| {
        (!has_start || mark.to_nanos >= start_nanos) && (!has_end || mark.from_nanos <= last_nanos)
    };
    let marks: Vec<Mark> = marks.into_iter().filter(is_within).collect();
    out.text("],\"marks\":")?;
    out.put(&marks)?;
    out.text("}")?;
    out.finish()
}

fn marks(container: &Container, timeline: &Timeline) -> Vec<Mark> {
    let splits = timeline.splits.iter();
    let mut marks: Vec<Mark> = splits
        .map(|(name, nanos)| Mark::at("split", name.clone(), String::new(), *nanos))
        .collect();
    // Unreadable attachments do not hide the others.
    marks.extend(attachments(container).unwrap_or_default());
    let events = container.events().unwrap_or_default();
    marks.extend(events.into_iter().map(|event| Mark {
        kind: "event",
        name: event.name,
        text: event.text,
        from_nanos: event.from_nanos,
        to_nanos: event.to_nanos,
    }));
    marks.sort_by_key(|mark| mark.from_nanos);
    marks
}

/// The files that the recording carries along, by the summary of their MCAP file.
fn attachments(container: &Container) -> Option<Vec<Mark>> {
    let path = container.attachments_path()?;
    let file = container.disk().open(&path).ok()?;
    let length = file.length().ok()?;
    let options = SummaryReaderOptions::default()
        .with_file_size(length)
        .with_record_length_limit(SUMMARY_RECORD_BYTES_MAX);
    let mut reader = SummaryReader::new_with_options(options);
    let mut at = 0u64;
    while let Some(event) = reader.next_event() {
        match event.ok()? {
            SummaryReadEvent::ReadRequest(bytes) => {
                let read = file.read_at(reader.insert(bytes), at).ok()?;
                at += read as u64;
                reader.notify_read(read);
            }
            SummaryReadEvent::SeekRequest(to) => {
                at = match to {
                    std::io::SeekFrom::Start(offset) => offset,
                    std::io::SeekFrom::End(offset) => length.checked_add_signed(offset)?,
                    std::io::SeekFrom::Current(offset) => at.checked_add_signed(offset)?,
                };
                reader.notify_seeked(at);
            }
        }
    }
    let indexes = reader.finish()?.attachment_indexes;
    let mark = |index: mcap::records::AttachmentIndex| {
        Mark::at("attachment", index.name, index.media_type, index.log_time)
    };
    Some(indexes.into_iter().take(ATTACHMENTS_MARKED_MAX).map(mark).collect())
}
