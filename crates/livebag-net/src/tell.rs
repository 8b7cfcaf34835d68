//! A server's descriptions of its recordings, as JSON. Times are nanoseconds since the Unix epoch.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use livebag::{Account, Container, ContainerError, ContainerTopic, Event, Topic};
use livebag_format::container::{ClockJumps, Losses};
use serde::ser::{Error, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};

/// Messages that were published and are not in the recording, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Missing in the source's sequence.
    pub transport: u64,
    /// Dropped because the topic's queue was full.
    pub queue: u64,
    /// Overwritten in the stream's slot before the device had them.
    pub lapped: u64,
    /// Refused by the disk.
    pub disk: u64,
    /// Given up at the end on request.
    #[serde(default)]
    pub abandoned: u64,
    /// All of them; `null` where that is not known, because the recorder died.
    pub total: Option<u64>,
}

impl From<&Account> for Lost {
    fn from(account: &Account) -> Self {
        let lost = account.lost;
        Self {
            transport: lost.transport,
            queue: lost.queue,
            lapped: lost.lapped,
            disk: lost.disk,
            abandoned: lost.abandoned,
            total: account.is_complete().then(|| lost.total()),
        }
    }
}

impl Lost {
    /// Without the sum.
    pub fn causes(&self) -> Losses {
        let Self { transport, queue, lapped, disk, abandoned, .. } = *self;
        Losses { transport, queue, lapped, disk, abandoned }
    }
}

/// How far pushing a recording has come while it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushStatus {
    /// Where to.
    pub target: String,
    /// `waiting` (for a closed split, or the end), `pushing`, `splits_pushed` (all that are closed), `pushed`, `failed`.
    pub state: String,
    /// Whether it waits until it is told to go on.
    #[serde(default)]
    pub paused: bool,
    /// Bytes of what is to be pushed: of the splits that are closed.
    pub size_bytes: u64,
    /// Of these, in the target.
    pub stored_bytes: u64,
    /// Why it failed; `null` once more has arrived.
    pub error: Option<String>,
}

/// A recording in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BagRow {
    /// Name in this server's addresses.
    pub name: String,
    /// `live`, `closed`, `recovered`, `unrecovered`.
    pub state: String,
    /// MCAP's profile: `ros2`, `ros1` or empty.
    pub profile: String,
    /// When recording began.
    #[serde(rename = "started_time", with = "livebag_format::json_time")]
    pub started_nanos: u64,
    /// First log time.
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    pub start_nanos: Option<u64>,
    /// Last log time.
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    pub end_nanos: Option<u64>,
    /// Messages that can be read now.
    pub message_count: u64,
    /// Bytes of its files. An older server does not tell.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Topics.
    pub topic_count: usize,
    /// Events. An older server does not tell.
    #[serde(default)]
    pub event_count: Option<u64>,
    /// Losses by cause, those of removed splits included.
    pub lost: Lost,
}

impl BagRow {
    /// A recording in a list.
    ///
    /// # Errors
    /// If its indexes cannot be read.
    pub fn new(name: &str, container: &Container) -> Result<Self, ContainerError> {
        let range = container.time_range()?;
        let counts = container.topics().iter().map(ContainerTopic::message_count);
        Ok(Self {
            name: name.to_owned(),
            state: container.state().to_string(),
            profile: container.profile().to_owned(),
            started_nanos: container.started_nanos(),
            start_nanos: range.map(|(start, _)| start),
            end_nanos: range.map(|(_, end)| end),
            message_count: counts.sum::<Result<u64, _>>()?,
            size_bytes: Some(size_bytes(container)),
            topic_count: container.topics().len(),
            event_count: Some(container.events()?.len() as u64),
            lost: (&container.account()?).into(),
        })
    }
}

/// A recording that another robot announces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RobotRow {
    /// Its robot: it is asked for as `zenoh/ROBOT/NAME`.
    pub robot: String,
    /// Its name there.
    pub name: String,
    /// What a list says of it; `null` where the robot does not answer.
    pub recording: Option<BagRow>,
}

/// Bytes of a container's files.
fn size_bytes(container: &Container) -> u64 {
    let splits = container.splits().iter();
    let splits = splits.map(|name| files_bytes(container, &container.path().join(name)));
    files_bytes(container, container.path()) + splits.sum::<u64>()
}

/// Bytes of the files of a folder, folders in it left out.
pub(crate) fn files_bytes(container: &Container, folder: &Path) -> u64 {
    let Ok(entries) = folder.read_dir() else {
        // It is in a store, which has listed them.
        let files = container.disk().list(folder).unwrap_or_default();
        let length = |file: &PathBuf| container.disk().open(file).and_then(|file| file.length());
        return files.iter().filter_map(|file| length(file).ok()).sum();
    };
    let metadata = entries.filter_map(|entry| entry.ok()?.metadata().ok());
    metadata.filter(std::fs::Metadata::is_file).map(|file| file.len()).sum()
}

/// All of a recording but its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordingInfo<Rows = Vec<TopicRow>> {
    /// Its row in the list.
    #[serde(flatten)]
    pub row: BagRow,
    /// Program and version that wrote it.
    pub library: String,
    /// What ended the recording early.
    pub failure: Option<String>,
    /// Where every message is that was published. An older server does not tell.
    #[serde(default)]
    pub account: Option<Account>,
    /// How often the wall clock was set while recording. An older server does not tell.
    #[serde(default)]
    pub clock_jumps: Option<ClockJumps>,
    /// Splits that retention has removed.
    pub removed_splits: u64,
    /// Named moments and time ranges, in order of time. An older server does not tell.
    #[serde(default)]
    pub events: Vec<Event>,
    /// The topics, in the order of appearance.
    pub topics: Rows,
}

impl<Rows> RecordingInfo<Rows> {
    /// All of it, with these rows of its topics.
    ///
    /// # Errors
    /// If its indexes cannot be read.
    pub fn with_rows(
        name: &str,
        container: &Container,
        topics: Rows,
    ) -> Result<Self, ContainerError> {
        Ok(Self {
            row: BagRow::new(name, container)?,
            library: container.library().to_owned(),
            failure: container.failure().map(str::to_owned),
            account: Some(container.account()?),
            clock_jumps: Some(container.clock_jumps()),
            removed_splits: container.removed().splits,
            events: container.events()?,
            topics,
        })
    }
}

impl RecordingInfo {
    /// Counts of all published messages, according to the server.
    pub fn account(&self) -> Account {
        self.account.unwrap_or_else(|| {
            let mut sum = Account { lost: self.row.lost.causes(), ..Account::default() };
            for topic in &self.topics {
                sum.recorded += topic.message_count;
                sum.skipped += topic.skipped;
            }
            sum
        })
    }
}

/// The rows of a recording's topics, each made when it is written.
pub struct TopicRows<'a> {
    container: &'a Container,
    with_definitions: bool,
    failure: Cell<Option<ContainerError>>,
}

impl<'a> TopicRows<'a> {
    /// Of all topics.
    pub fn new(container: &'a Container, with_definitions: bool) -> Self {
        Self { container, with_definitions, failure: Cell::default() }
    }

    /// Why they could not be made.
    pub fn failure(&self) -> Option<ContainerError> {
        self.failure.take()
    }
}

impl Serialize for TopicRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let topics = self.container.topics();
        let failed = |error: ContainerError| {
            let text = error.to_string();
            self.failure.set(Some(error));
            S::Error::custom(text)
        };
        let mut rows = serializer.serialize_seq(Some(topics.len()))?;
        for (topic, account) in topics.iter().zip(self.container.accounts().map_err(failed)?) {
            let row = TopicRow::new(topic, account).map_err(failed)?;
            match self.with_definitions {
                true => rows.serialize_element(&DescribedRow::new(row, topic.topic()))?,
                false => rows.serialize_element(&row)?,
            }
        }
        rows.end()
    }
}

/// A row with its definition, which is not copied: it may be long.
#[derive(Serialize)]
struct DescribedRow<'a> {
    #[serde(flatten)]
    row: TopicRow,
    schema: Described<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a BTreeMap<String, String>>,
}

impl<'a> DescribedRow<'a> {
    fn new(row: TopicRow, topic: &'a Topic) -> Self {
        let schema = match std::str::from_utf8(&topic.schema) {
            Ok(text) => Described::Text(text),
            Err(_) => Described::Hex(Digits(&topic.schema)),
        };
        let metadata = Some(&topic.metadata).filter(|metadata| !metadata.is_empty());
        Self { row, schema, metadata }
    }
}

/// [`Definition`], borrowed.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Described<'a> {
    Text(&'a str),
    Hex(Digits<'a>),
}

/// Bytes as hexadecimal digits.
struct Digits<'a>(&'a [u8]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Serialize for Digits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A topic of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicRow {
    /// Topic name.
    pub name: String,
    /// Type name.
    #[serde(rename = "type")]
    pub type_name: String,
    /// How messages are encoded.
    pub message_encoding: String,
    /// How the schema is written.
    pub schema_encoding: String,
    /// Messages that can be read now.
    pub message_count: u64,
    /// Messages per second between the first and the last.
    pub rate_hz: Option<f64>,
    /// First log time.
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    pub start_nanos: Option<u64>,
    /// Last log time.
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    pub end_nanos: Option<u64>,
    /// Losses by cause.
    pub lost: Lost,
    /// Messages left out on purpose.
    pub skipped: u64,
    /// Where every message is that was published. An older server does not tell.
    #[serde(default)]
    pub account: Option<Account>,
    /// How often its writer died and came back.
    #[serde(default)]
    pub writer_returns: u64,
    /// Bytes of the messages; of a live recording as its recorder last wrote them.
    pub message_bytes: u64,
    /// The definition, where definitions were asked for (`schemas=true`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Definition>,
    /// Further names and values, where definitions were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// A definition of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Definition {
    /// Text.
    Text(String),
    /// Bytes that are not text, in hexadecimal digits.
    Hex(String),
}

impl Definition {
    /// As it was stored; `None` if the digits are none.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Hex(digits) if digits.len() % 2 == 0 => {
                digits.as_bytes().chunks(2).map(byte).collect()
            }
            Self::Hex(_) => None,
        }
    }
}

impl TopicRow {
    /// Counts of all published messages, according to the server.
    pub fn account(&self) -> Account {
        self.account.unwrap_or_else(|| Account {
            recorded: self.message_count,
            skipped: self.skipped,
            lost: self.lost.causes(),
            ..Account::default()
        })
    }

    /// The topic as a recording describes it, without its definition unless that was asked for.
    pub fn topic(&self) -> Topic {
        Topic {
            name: self.name.clone(),
            type_name: self.type_name.clone(),
            message_encoding: self.message_encoding.clone(),
            schema_encoding: self.schema_encoding.clone(),
            schema: self.schema.as_ref().and_then(Definition::bytes).unwrap_or_default(),
            metadata: self.metadata.clone(),
        }
    }

    /// All of a topic.
    ///
    /// # Errors
    /// If its index cannot be read.
    pub fn new(topic: &ContainerTopic, account: Account) -> Result<Self, ContainerError> {
        let message_count = account.recorded;
        let range = topic.time_range()?;
        let rate = |(start, end): (u64, u64)| {
            (message_count > 1 && end > start)
                .then(|| (message_count - 1) as f64 * 1e9 / (end - start) as f64)
        };
        Ok(Self {
            name: topic.topic().name.clone(),
            type_name: topic.topic().type_name.clone(),
            message_encoding: topic.topic().message_encoding.clone(),
            schema_encoding: topic.topic().schema_encoding.clone(),
            message_count,
            rate_hz: range.and_then(rate),
            start_nanos: range.map(|(start, _)| start),
            end_nanos: range.map(|(_, end)| end),
            lost: (&account).into(),
            skipped: account.skipped,
            account: Some(account),
            writer_returns: topic.writer_returns(),
            message_bytes: topic.message_bytes(),
            schema: None,
            metadata: BTreeMap::new(),
        })
    }
}

/// One message without its contents, or with its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageLine {
    /// Topic name.
    pub topic: String,
    /// When the recorder took it.
    #[serde(with = "livebag_format::json_time")]
    pub log_time: u64,
    /// When the source stamped it.
    #[serde(with = "livebag_format::json_time")]
    pub publish_time: u64,
    /// The source's count.
    pub sequence: u64,
    /// Length of the encoded message.
    pub bytes: usize,
    /// Its values, where they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_json::Value>,
    /// Why there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The last line of an answer that is not whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DamagedLine {
    /// Messages left out because they, or their index entries, are damaged, by topic.
    #[serde(rename = "damaged_by_topic")]
    pub damaged: BTreeMap<String, u64>,
}

/// How a server is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Program and version.
    pub library: String,
    /// Connections at the moment.
    pub connections: usize,
    /// Answers being laid out at the moment.
    pub answers: usize,
    /// Answers since it began.
    pub answered: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Requests turned away because there were too many.
    pub refused: u64,
    /// Bytes of memory that answers hold at the moment.
    #[serde(default)]
    pub held_bytes: u64,
    /// Live sockets at the moment.
    #[serde(default)]
    pub live_sockets: usize,
    /// Whether a viewer is at `/viewer/`.
    #[serde(default)]
    pub viewer: bool,
    /// Whether `/v1/robots` lists what other robots record.
    #[serde(default)]
    pub robots: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> TopicRow {
        TopicRow {
            name: "/a".into(),
            type_name: "a/A".into(),
            message_encoding: String::new(),
            schema_encoding: String::new(),
            message_count: 0,
            rate_hz: None,
            start_nanos: None,
            end_nanos: None,
            lost: Lost::default(),
            skipped: 0,
            account: None,
            writer_returns: 0,
            message_bytes: 0,
            schema: None,
            metadata: BTreeMap::new(),
        }
    }

    #[test]
    fn definitions_go_both_ways() {
        for schema in [&b"string data"[..], b"", &[0xff, 0, 0x9c]] {
            let topic = Topic { schema: schema.to_vec(), ..Default::default() };
            let told = serde_json::to_string(&DescribedRow::new(row(), &topic)).unwrap();
            let row: TopicRow = serde_json::from_str(&told).unwrap();
            assert_eq!(row.schema.unwrap().bytes().unwrap(), schema, "{told}");
        }
        assert_eq!(Definition::Hex("zz".into()).bytes(), None);
        assert_eq!(Definition::Hex("\u{20ac}0".into()).bytes(), None);
    }
}
