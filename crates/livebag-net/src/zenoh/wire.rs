//! The attachment of every reply. Little-endian:
//!
//! | bytes | field |
//! | --- | --- |
//! | 0 | version of this layout: 1 |
//! | 1 | kind: 1 a message (the payload), 2 the end of the answer (JSON in the payload) |
//! | 2–3 | topic, by number in this answer |
//! | 4–11 | log time, nanoseconds since the Unix epoch |
//! | 12–19 | publish time, the same |
//! | 20–27 | sequence |
//! | 28– | with the first message of a topic: its description, in JSON |

use std::collections::BTreeMap;

use livebag_format::Topic;
use serde::{Deserialize, Serialize};

const VERSION: u8 = 1;
const KIND_MESSAGE: u8 = 1;
const KIND_END: u8 = 2;
const HEAD_BYTES: usize = 28;

/// A reply's attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attached {
    /// The payload is a message.
    Message {
        /// Number of its topic in this answer.
        topic: u16,
        /// When the recorder took it.
        log_time_nanos: u64,
        /// When the source stamped it.
        publish_time_nanos: u64,
        /// The source's count.
        sequence: u64,
        /// With the first of its topic.
        described: Option<Topic>,
    },
    /// The payload is an [`End`].
    End,
}

/// How an answer ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Messages in it.
    pub messages: u64,
    /// Left out because they are damaged.
    pub damaged: u64,
    /// Whether the answer is complete; if not, it continues at `next_nanos`.
    pub is_whole: bool,
    /// Log time at which it continues.
    pub next_nanos: u64,
    /// Messages of that time that were given already.
    pub next_skip: u64,
    /// The time asked for, as it was understood when the answer began: first.
    pub from_nanos: u64,
    /// And last.
    pub to_nanos: u64,
    /// Of topics that were to be decimated: log time of the last message that was given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decimated_nanos: BTreeMap<String, u64>,
}

/// A topic in JSON.
#[derive(Serialize, Deserialize)]
struct TopicJson {
    name: String,
    r#type: String,
    message_encoding: String,
    schema_encoding: String,
    /// Text, or bytes as numbers where it is not UTF-8.
    schema: SchemaJson,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SchemaJson {
    Text(String),
    Bytes(Vec<u8>),
}

#[cfg(any(feature = "server", test))]
impl From<&Topic> for TopicJson {
    fn from(topic: &Topic) -> Self {
        let schema = match std::str::from_utf8(&topic.schema) {
            Ok(text) => SchemaJson::Text(text.to_owned()),
            Err(_) => SchemaJson::Bytes(topic.schema.clone()),
        };
        Self {
            name: topic.name.clone(),
            r#type: topic.type_name.clone(),
            message_encoding: topic.message_encoding.clone(),
            schema_encoding: topic.schema_encoding.clone(),
            schema,
            metadata: topic.metadata.clone(),
        }
    }
}

impl From<TopicJson> for Topic {
    fn from(json: TopicJson) -> Self {
        Self {
            name: json.name,
            type_name: json.r#type,
            message_encoding: json.message_encoding,
            schema_encoding: json.schema_encoding,
            schema: match json.schema {
                SchemaJson::Text(text) => text.into_bytes(),
                SchemaJson::Bytes(bytes) => bytes,
            },
            metadata: json.metadata,
        }
    }
}

impl Attached {
    /// Its bytes.
    #[cfg(any(feature = "server", test))]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, KIND_END];
        bytes.resize(HEAD_BYTES, 0);
        if let Self::Message { topic, log_time_nanos, publish_time_nanos, sequence, described } =
            self
        {
            bytes[1] = KIND_MESSAGE;
            bytes[2..4].copy_from_slice(&topic.to_le_bytes());
            bytes[4..12].copy_from_slice(&log_time_nanos.to_le_bytes());
            bytes[12..20].copy_from_slice(&publish_time_nanos.to_le_bytes());
            bytes[20..28].copy_from_slice(&sequence.to_le_bytes());
            if let Some(topic) = described {
                // Strings and numbers can always be written.
                bytes.extend(serde_json::to_vec(&TopicJson::from(topic)).unwrap_or_default());
            }
        }
        bytes
    }

    /// Reads an attachment; `None` if it makes no sense.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        if head[0] != VERSION {
            return None;
        }
        let u64_at = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        match head[1] {
            KIND_END => Some(Self::End),
            KIND_MESSAGE => Some(Self::Message {
                topic: u16::from_le_bytes([head[2], head[3]]),
                log_time_nanos: u64_at(4),
                publish_time_nanos: u64_at(12),
                sequence: u64_at(20),
                described: match rest.is_empty() {
                    true => None,
                    false => Some(serde_json::from_slice::<TopicJson>(rest).ok()?.into()),
                },
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_go_both_ways() {
        let topic = Topic { name: "/a".into(), schema: vec![0xff, 0xfe], ..Default::default() };
        for described in [None, Some(topic)] {
            let message = Attached::Message {
                topic: 7,
                log_time_nanos: u64::MAX,
                publish_time_nanos: 2,
                sequence: 3,
                described,
            };
            assert_eq!(Attached::decode(&message.encode()), Some(message));
        }
        assert_eq!(Attached::decode(&Attached::End.encode()), Some(Attached::End));
        for wrong in [&[][..], &[1; 27], &[2; 28], &[1, 9, 0, 0], &[b'{'; 40]] {
            assert_eq!(Attached::decode(wrong), None);
        }
        let mut cut = Attached::End.encode();
        cut[1] = 1;
        cut.extend(b"{\"name\":");
        assert_eq!(Attached::decode(&cut), None);
    }
}
