//! What `record` and `info` tell of a container's topics.

use std::collections::BTreeMap;
use std::path::Path;

use livebag::storage::{Disk, KernelDisk};
use livebag::{Bag, BagState, BagTopic, Query, Status, TopicStatus};
use livebag_format::container::{CONTAINER_FILE, Losses, Manifest};
use livebag_net::tell;
use serde::Serialize;

use crate::files;
use crate::outcome::CliError;
use crate::text;

/// Messages that were published and are not in the recording, by cause.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lost {
    #[serde(flatten)]
    causes: Losses,
    total: u64,
}

impl From<Losses> for Lost {
    fn from(causes: Losses) -> Self {
        Self { causes, total: causes.total() }
    }
}

impl From<tell::Lost> for Lost {
    fn from(lost: tell::Lost) -> Self {
        let tell::Lost { transport, queue, lapped, disk, abandoned, .. } = lost;
        Losses { transport, queue, lapped, disk, abandoned }.into()
    }
}

impl Lost {
    /// Sum over all causes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// `12 (10 lapped, 2 queue)`.
    pub fn cell(&self) -> String {
        let causes = [
            ("transport", self.causes.transport),
            ("queue", self.causes.queue),
            ("lapped", self.causes.lapped),
            ("disk", self.causes.disk),
            ("abandoned", self.causes.abandoned),
        ];
        let named: Vec<_> = causes
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| format!("{} {cause}", text::count(*count)))
            .collect();
        match named.len() {
            0 => "0".into(),
            _ => format!("{} ({})", text::count(self.total), named.join(", ")),
        }
    }
}

/// One topic of a recording. Times are nanoseconds since the Unix epoch.
#[derive(Debug, Serialize)]
pub struct TopicReport {
    /// Topic name.
    pub name: String,
    /// Type name.
    #[serde(rename = "type")]
    pub type_name: String,
    /// How messages are encoded.
    pub message_encoding: String,
    /// Messages recorded.
    pub message_count: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Messages per second between the first and the last; null with fewer than two.
    pub rate_hz: Option<f64>,
    /// Log time of the first message.
    pub start_nanos: Option<u64>,
    /// Log time of the last message.
    pub end_nanos: Option<u64>,
    /// How many of `message_count` were recorded before and stand at the head of a split once more:
    /// published are all others, and the lost ones. While recording as of a second ago; null where
    /// servers do not tell.
    pub repeated: Option<u64>,
    /// Losses; null where the format does not count them.
    pub lost: Option<Lost>,
    /// Files that hold its messages; null where servers do not tell.
    pub files: Option<Vec<String>>,
}

impl TopicReport {
    /// The rate of `count` messages from `start_nanos` to `end_nanos`.
    pub fn rate(count: u64, range: Option<(u64, u64)>) -> Option<f64> {
        let (start, end) = range?;
        (count > 1 && end > start).then(|| (count - 1) as f64 * 1e9 / (end - start) as f64)
    }
}

/// Every topic of a container. Only the ends of the time indices are read, unless it was not
/// closed: sizes are then summed up entry by entry.
pub fn topics(bag: &Bag) -> Result<Vec<TopicReport>, CliError> {
    let bytes = match bag.state() {
        BagState::Closed | BagState::Recovered => {
            bag.topics().iter().map(BagTopic::message_bytes).collect()
        }
        _ => summed_bytes(bag)?,
    };
    let repeated = repeated_by_topic(bag);
    let mut reports = Vec::with_capacity(bag.topics().len());
    for (topic, bytes) in bag.topics().iter().zip(bytes) {
        let message_count = topic.message_count()?;
        let range = topic.time_range()?;
        reports.push(TopicReport {
            name: topic.topic().name.clone(),
            type_name: topic.topic().type_name.clone(),
            message_encoding: topic.topic().message_encoding.clone(),
            message_count,
            bytes,
            rate_hz: TopicReport::rate(message_count, range),
            start_nanos: range.map(|(start, _)| start),
            end_nanos: range.map(|(_, end)| end),
            repeated: Some(repeated.get(&topic.topic().name).copied().unwrap_or(0)),
            lost: Some((*topic.lost()).into()),
            files: Some(topic.bricks().to_vec()),
        });
    }
    Ok(reports)
}

/// Messages that stand at the heads of splits once more, as the splits' manifests tell.
fn repeated_by_topic(bag: &Bag) -> BTreeMap<String, u64> {
    let mut repeated = BTreeMap::new();
    for split in std::iter::once("").chain(bag.splits().iter().map(String::as_str)) {
        let path = bag.path().join(split).join(CONTAINER_FILE);
        // A split of a recording in progress may have been removed since the bag was opened.
        let Ok(text) = KernelDisk::for_reading().read(&path) else { continue };
        let Ok(manifest) = Manifest::parse(&String::from_utf8_lossy(&text)) else { continue };
        for topic in manifest.topics {
            *repeated.entry(topic.name).or_insert(0) += topic.repeated;
        }
    }
    repeated
}

/// Every topic of a bag of databases that has just been recorded; rates are those of the whole time.
pub fn topics_of(
    status: &Status,
    directory: &Path,
    duration_s: f64,
) -> Result<Vec<TopicReport>, CliError> {
    let names = files::list(directory)?.into_iter().map(|(name, _)| name);
    let names: Vec<String> = names.filter(|name| name.ends_with(".db3")).collect();
    let report = |topic: &TopicStatus| TopicReport {
        name: topic.name.clone(),
        type_name: topic.type_name.clone(),
        message_encoding: topic.message_encoding.clone(),
        message_count: topic.messages,
        bytes: topic.bytes,
        rate_hz: (topic.messages > 1).then(|| topic.messages as f64 / duration_s.max(1e-9)),
        start_nanos: None,
        end_nanos: None,
        repeated: Some(topic.repeated),
        lost: Some(topic.lost.into()),
        files: Some(names.clone()),
    };
    Ok(status.topics.iter().map(report).collect())
}

fn summed_bytes(bag: &Bag) -> Result<Vec<u64>, CliError> {
    let mut bytes = vec![0; bag.topics().len()];
    let mut cursor = bag.query(&Query::default())?;
    while let Some((topic, entry)) = cursor.next_entry()? {
        bytes[topic] += u64::from(entry.data_bytes);
    }
    Ok(bytes)
}

/// The topics as a table; the column of losses only where they are counted.
pub fn table(topics: &[TopicReport]) -> String {
    let counts_losses = topics.iter().all(|topic| topic.lost.is_some());
    let mut head = vec!["topic", "type", ">messages", ">size", ">rate"];
    if counts_losses {
        head.push(">lost");
    }
    let row = |topic: &TopicReport| {
        let mut row = vec![
            topic.name.clone(),
            topic.type_name.clone(),
            text::count(topic.message_count),
            text::bytes(topic.bytes as f64),
            text::hertz(topic.rate_hz),
        ];
        if counts_losses {
            row.push(topic.lost.unwrap_or_default().cell());
        }
        row
    };
    text::table(&head, &topics.iter().map(row).collect::<Vec<_>>())
}
