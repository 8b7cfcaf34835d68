//! A row of a catalogue.

use std::collections::BTreeMap;

use livebag_format::container::Losses;
use serde::Serialize;

/// A topic in a split of a recording. Times are log times, nanoseconds since the Unix epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Who recorded it, if known.
    pub robot: Option<String>,
    /// The recording's name in the store.
    pub recording: String,
    /// Tells recordings apart; the same for every push of one recording under one name.
    pub recording_id: String,
    /// `container`, `rosbag2` or `file`.
    pub kind: String,
    /// `closed` or `recovered`; `None` where the format does not say.
    pub state: Option<String>,
    /// Which split, from 0.
    pub split: u32,
    /// The topic; `None` for a recording without topics, or whose topics are not known.
    pub topic: Option<String>,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Of the first message.
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    pub start_nanos: Option<u64>,
    /// Of the last message.
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    pub end_nanos: Option<u64>,
    /// Messages.
    pub message_count: Option<u64>,
    /// Bytes of encoded messages.
    pub message_bytes: Option<u64>,
    /// Messages that are missing, by cause; `None` where the format does not count them.
    pub lost: Option<Losses>,
    /// When the recording began.
    #[serde(rename = "started_time", with = "livebag_format::json_time")]
    pub started_nanos: Option<u64>,
    /// Bytes of all objects of the recording.
    pub recording_bytes: u64,
    /// `cdr`, …
    pub message_encoding: Option<String>,
    /// SHA-256 of the type's definition, in hexadecimal digits.
    pub schema_sha256: Option<String>,
    /// The objects with the topic's messages, and its time index.
    pub files: Vec<StoredFile>,
    /// The recording's own values, such as custom data: `SUBJECT.KEY`, of custom data `KEY` alone.
    pub metadata: BTreeMap<String, String>,
}

/// An object of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoredFile {
    /// Its key, below the folder that has the catalogue.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// In hexadecimal digits.
    pub sha256: Option<String>,
}
