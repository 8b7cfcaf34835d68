//! What a server tells of its recordings, as JSON. Times are nanoseconds since the Unix epoch.

use std::collections::BTreeMap;

use livebag::{Bag, BagError, BagTopic, Topic};
use livebag_format::container::Losses;
use serde::{Deserialize, Serialize};

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
    /// All of them.
    pub total: u64,
}

impl From<Losses> for Lost {
    fn from(lost: Losses) -> Self {
        Self {
            transport: lost.transport,
            queue: lost.queue,
            lapped: lost.lapped,
            disk: lost.disk,
            total: lost.total(),
        }
    }
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
    pub started_nanos: u64,
    /// First log time.
    pub start_nanos: Option<u64>,
    /// Last log time.
    pub end_nanos: Option<u64>,
    /// Messages that can be read now.
    pub message_count: u64,
    /// Topics.
    pub topic_count: usize,
    /// Messages lost, all causes.
    pub lost_count: u64,
}

impl BagRow {
    /// What a list says of a recording.
    ///
    /// # Errors
    /// If its indexes cannot be read.
    pub fn new(name: &str, bag: &Bag) -> Result<Self, BagError> {
        let range = bag.time_range()?;
        let counts = bag.topics().iter().map(BagTopic::message_count);
        Ok(Self {
            name: name.to_owned(),
            state: bag.state().to_string(),
            profile: bag.profile().to_owned(),
            started_nanos: bag.started_nanos(),
            start_nanos: range.map(|(start, _)| start),
            end_nanos: range.map(|(_, end)| end),
            message_count: counts.sum::<Result<u64, _>>()?,
            topic_count: bag.topics().len(),
            lost_count: bag.lost().total(),
        })
    }
}

/// All of a recording but its messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BagInfo {
    /// What a list says of it.
    #[serde(flatten)]
    pub row: BagRow,
    /// Program and version that wrote it.
    pub library: String,
    /// What ended the recording early.
    pub failure: Option<String>,
    /// Losses by cause, those of removed splits included.
    pub lost: Lost,
    /// Splits that retention has removed.
    pub removed_splits: u64,
    /// The topics, in the order of appearance.
    pub topics: Vec<TopicRow>,
}

impl BagInfo {
    /// All of it.
    ///
    /// # Errors
    /// If its indexes cannot be read.
    pub fn new(name: &str, bag: &Bag) -> Result<Self, BagError> {
        Ok(Self {
            row: BagRow::new(name, bag)?,
            library: bag.library().to_owned(),
            failure: bag.failure().map(str::to_owned),
            lost: bag.lost().into(),
            removed_splits: bag.removed().splits,
            topics: bag.topics().iter().map(TopicRow::new).collect::<Result<_, _>>()?,
        })
    }

    /// The same with the topics' definitions.
    pub fn with_definitions(mut self, bag: &Bag) -> Self {
        let topics = self.topics.into_iter().zip(bag.topics());
        self.topics = topics.map(|(row, topic)| row.with_definition(topic)).collect();
        self
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
    pub start_nanos: Option<u64>,
    /// Last log time.
    pub end_nanos: Option<u64>,
    /// Losses by cause.
    pub lost: Lost,
    /// Messages left out on purpose.
    pub skipped: u64,
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
    fn new(schema: &[u8]) -> Self {
        match std::str::from_utf8(schema) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(schema.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

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
    /// The same with what decodes its messages.
    fn with_definition(mut self, topic: &BagTopic) -> Self {
        self.schema = Some(Definition::new(&topic.topic().schema));
        self.metadata = topic.topic().metadata.clone();
        self
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
    pub fn new(topic: &BagTopic) -> Result<Self, BagError> {
        let message_count = topic.message_count()?;
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
            lost: (*topic.lost()).into(),
            skipped: topic.skipped(),
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
    pub log_time: u64,
    /// When the source stamped it.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_go_both_ways() {
        for schema in [&b"string data"[..], b"", &[0xff, 0, 0x9c]] {
            assert_eq!(Definition::new(schema).bytes().unwrap(), schema);
        }
        assert_eq!(Definition::Hex("zz".into()).bytes(), None);
        assert_eq!(Definition::Hex("\u{20ac}0".into()).bytes(), None);
    }
}
