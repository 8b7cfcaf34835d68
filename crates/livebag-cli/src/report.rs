//! What `record` and `info` tell of a container's topics.

use std::path::Path;

use livebag::{Account, Container, ContainerState, ContainerTopic, Query, Status, TopicStatus};
use livebag_format::Visible;
use livebag_format::container::{ClockJumps, Losses};
use serde::Serialize;

use crate::color::{self, To, Tone};
use crate::files;
use crate::outcome::CliError;
use crate::text::{self, Cell};

/// Messages that were published and are not in the recording, by cause.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lost {
    #[serde(flatten)]
    causes: Losses,
    /// Null where it is not known: the recorder died.
    total: Option<u64>,
    /// Since when it is not.
    #[serde(skip)]
    unknown_since_nanos: Option<u64>,
}

impl From<&Account> for Lost {
    fn from(account: &Account) -> Self {
        Self {
            causes: account.lost,
            total: account.is_complete().then(|| account.lost.total()),
            unknown_since_nanos: account.unknown_since_nanos,
        }
    }
}

impl Lost {
    /// Sum over all known causes.
    pub fn total(&self) -> u64 {
        self.causes.total()
    }

    /// `12 (10 lapped, 2 queue)`; `not known`, where the recorder died.
    pub fn cell(&self) -> String {
        let Losses { transport, queue, lapped, disk, abandoned } = self.causes;
        let causes = [
            ("transport", transport),
            ("queue", queue),
            ("lapped", lapped),
            ("disk", disk),
            ("abandoned", abandoned),
        ];
        let named: Vec<_> = causes
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(cause, count)| format!("{} {cause}", text::count(*count)))
            .collect();
        match (named.len(), self.unknown_since_nanos) {
            (0, None) => "0".into(),
            (0, Some(_)) => "not known".into(),
            (_, None) => format!("{} ({})", text::count(self.total()), named.join(", ")),
            (_, Some(_)) => {
                format!("{} or more ({})", text::count(self.total()), named.join(", "))
            }
        }
    }

    /// Red where something is lost.
    pub fn tone(&self) -> Option<Tone> {
        match (self.total(), self.unknown_since_nanos) {
            (0, None) => None,
            (0, Some(_)) => Some(Tone::Warning),
            _ => Some(Tone::Bad),
        }
    }

    /// The sentence, as standard output shows it.
    pub fn painted(&self) -> String {
        let sentence = self.sentence();
        self.tone().map_or(sentence.clone(), |tone| color::paint(To::Out, tone, &sentence))
    }

    /// `nothing lost`, `lost 12 (12 lapped)`, or since when that is not known.
    pub fn sentence(&self) -> String {
        match (self.total(), self.unknown_since_nanos) {
            (0, None) => "nothing lost".into(),
            (_, None) => format!("lost {}", self.cell()),
            (_, Some(since)) => format!(
                "lost {}: not all counted since {}, when the recorder's last count was written, or the copy of a \
                 recording that lacks messages was begun",
                text::count(self.total()),
                text::time(since)
            ),
        }
    }
}

/// What of an account a table of topics does not tell: left out, repeated, removed.
pub fn beside(account: &Account) -> Option<String> {
    let parts = [
        (account.repeated, "repeated at the head of a split"),
        (account.removed, "removed with old splits"),
        (account.damaged, "damaged"),
        (account.skipped, "left out (paused, throttled, or let go by the ring)"),
    ];
    let named: Vec<_> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", text::count(*count)))
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

/// What else happened, in sentences.
pub fn events(topics: &[TopicReport], clock: ClockJumps) -> Vec<String> {
    let returned = topics.iter().filter(|topic| topic.writer_returns > 0);
    let mut events: Vec<_> = returned
        .map(|topic| {
            let times = text::plural(topic.writer_returns as usize, "time");
            format!("{}: its writer died and came back {times}", Visible(&topic.name))
        })
        .collect();
    if clock.count > 0 {
        events.push(format!(
            "the clock was set {} while recording, by up to {}: log times jump there",
            text::plural(clock.count as usize, "time"),
            text::duration(clock.max_nanos)
        ));
    }
    events
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
    #[serde(rename = "message_bytes")]
    pub bytes: u64,
    /// Messages per second between the first and the last; null with fewer than two.
    pub rate_hz: Option<f64>,
    /// Log time of the first message.
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    pub start_nanos: Option<u64>,
    /// Log time of the last message.
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    pub end_nanos: Option<u64>,
    /// How many of `message_count` repeat an earlier message at the head of a split: all others were published, and so
    /// were the lost ones. While recording as of a second ago; null where servers do not tell.
    pub repeated: Option<u64>,
    /// Losses; null where the format does not count them.
    pub lost: Option<Lost>,
    /// Where every message is that was published; null where the format does not count.
    pub account: Option<Account>,
    /// How often its writer died and came back.
    pub writer_returns: u64,
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
pub fn topics(bag: &Container) -> Result<Vec<TopicReport>, CliError> {
    let bytes = match bag.state() {
        ContainerState::Closed | ContainerState::Recovered => {
            bag.topics().iter().map(ContainerTopic::message_bytes).collect()
        }
        _ => summed_bytes(bag)?,
    };
    let mut reports = Vec::with_capacity(bag.topics().len());
    for ((topic, bytes), account) in bag.topics().iter().zip(bytes).zip(bag.accounts()?) {
        let message_count = account.recorded;
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
            repeated: Some(account.repeated),
            lost: Some((&account).into()),
            account: Some(account),
            writer_returns: topic.writer_returns(),
            files: Some(topic.bricks().to_vec()),
        });
    }
    Ok(reports)
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
        message_count: topic.account().recorded,
        bytes: topic.bytes,
        rate_hz: (topic.messages > 1).then(|| topic.messages as f64 / duration_s.max(1e-9)),
        start_nanos: None,
        end_nanos: None,
        repeated: Some(topic.repeated),
        lost: Some((&topic.account()).into()),
        account: Some(topic.account()),
        writer_returns: topic.writer_returns,
        files: Some(names.clone()),
    };
    Ok(status.topics.iter().map(report).collect())
}

fn summed_bytes(bag: &Container) -> Result<Vec<u64>, CliError> {
    let mut bytes = vec![0; bag.topics().len()];
    let mut cursor = bag.query(&Query::default())?;
    while let Some((topic, entry)) = cursor.next_entry()? {
        bytes[topic] += u64::from(entry.data_bytes);
    }
    Ok(bytes)
}

/// The topics as a table; of the account what differs from the messages.
pub fn table(topics: &[TopicReport]) -> String {
    let counts_losses = topics.iter().all(|topic| topic.lost.is_some());
    let of = |topic: &TopicReport| topic.account.unwrap_or_default();
    let mut columns: Vec<Column> = vec![
        ("topic", |topic, _| topic.name.clone().into()),
        ("type?3", |topic, _| topic.type_name.clone().into()),
        (">messages", |topic, _| text::count(topic.message_count).into()),
        (">size?5", |topic, _| text::bytes(topic.bytes as f64).into()),
        (">rate?6", |topic, _| text::hertz(topic.rate_hz).into()),
    ];
    let counts: [(&str, Count); 4] = [
        (">repeated?1", |account| account.repeated),
        (">removed?4", |account| account.removed),
        (">damaged", |account| account.damaged),
        (">left out?4", |account| account.skipped),
    ];
    let shown = counts.iter().filter(|(_, count)| topics.iter().any(|topic| count(&of(topic)) > 0));
    let shown: Vec<_> = shown.collect();
    let mut head: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    head.extend(shown.iter().map(|(name, _)| *name));
    if counts_losses {
        columns.push((">lost", |topic, _| {
            let lost = topic.lost.unwrap_or_default();
            Cell::new(lost.cell(), lost.tone())
        }));
        columns.push((">published?2", |_, account| published(account).into()));
        head.extend([">lost", ">published?2"]);
    }
    let row = |topic: &TopicReport| {
        let account = of(topic);
        let cell = |column: &Column| column.1(topic, &account);
        let (first, last) = columns.split_at(5);
        let counts = shown.iter().map(|(name, count)| {
            let count = count(&account);
            let is_bad = *name == ">damaged" && count > 0;
            Cell::new(text::count(count), is_bad.then_some(Tone::Bad))
        });
        first.iter().map(cell).chain(counts).chain(last.iter().map(cell)).collect()
    };
    text::table(&head, &topics.iter().map(row).collect::<Vec<_>>())
}

/// One of an account's counts.
type Count = fn(&Account) -> u64;
/// A column's name, and how it is filled.
type Column = (&'static str, fn(&TopicReport, &Account) -> Cell);

fn published(account: &Account) -> String {
    let known = text::count(account.published());
    if account.is_complete() { known } else { format!("{known} or more") }
}
