//! Rows from a recording's manifests and time indexes, and from nothing else.

use std::collections::BTreeMap;

use livebag_format::Topic;
use livebag_format::container::{Manifest, MetadataEntry, State};
use livebag_format::index::{IndexEntry, entry_count, entry_offset};
use livebag_format::rosbag2::BagMetadata;
use sha2::{Digest, Sha256};

use crate::row::{Row, StoredFile};

/// The metadata record with a recording's custom data.
const CUSTOM_DATA: &str = "custom_data";
/// The key in it, or in a record of its own, that names the robot.
const ROBOT: &str = "robot";
/// Hexadecimal digits of an ID: 96 bits.
const ID_DIGITS: usize = 24;

/// A recording in a store.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Its name there.
    pub name: String,
    /// The robot, if the recording itself does not name one.
    pub robot: Option<String>,
    /// SHA-256 of its manifest, or of its only file.
    pub sha256: String,
    /// Its objects.
    pub files: Vec<StoredFile>,
}

/// A split of a container.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its folder, below the recording's; empty for the first.
    pub folder: String,
    /// Its manifest.
    pub manifest: Manifest,
}

/// A topic of a recording that is one file.
#[derive(Clone, Debug)]
pub struct FileTopic {
    /// The topic.
    pub topic: Topic,
    /// Its messages, if the file says.
    pub message_count: Option<u64>,
}

/// The ID of a recording: of its name in the store and the checksum of its manifest.
pub fn recording_id(name: &str, sha256: &str) -> String {
    let mut id = sha256_of(format!("{name}\n{sha256}").as_bytes());
    id.truncate(ID_DIGITS);
    id
}

/// Where the first and the last entry of a time index of this length are; `None` if it has none.
pub fn index_ends(bytes: u64) -> Option<[u64; 2]> {
    let last = entry_count(bytes).checked_sub(1)?;
    Some([entry_offset(0), entry_offset(last)])
}

/// The log time of an entry; `None` if it is damaged.
pub fn entry_time(bytes: &[u8]) -> Option<u64> {
    IndexEntry::decode(bytes.try_into().ok()?).map(|entry| entry.log_time_nanos)
}

/// First and last log time.
type Range = (u64, u64);

/// Rows of a container. `times` gives the log times of the first and the last entry of the time index with this key.
///
/// # Errors
/// Those of `times`.
pub fn rows_of_container<E>(
    recorded: &Recorded,
    splits: &[Split],
    times: &mut dyn FnMut(&StoredFile) -> Result<Option<Range>, E>,
) -> Result<Vec<Row>, E> {
    let Some(first) = splits.first().map(|split| &split.manifest) else { return Ok(Vec::new()) };
    let metadata = flat(&first.metadata);
    let whole = Row {
        kind: "container".into(),
        state: match first.state {
            State::Closed => Some("closed".into()),
            State::Recovered => Some("recovered".into()),
            State::Recording => None,
        },
        started_nanos: Some(first.started_nanos),
        ..recorded.row(metadata)
    };
    let mut rows = Vec::new();
    for (number, Split { folder, manifest }) in splits.iter().enumerate() {
        for topic in &manifest.topics {
            let key = |file: &String| match folder.as_str() {
                "" => format!("{}/{file}", recorded.name),
                folder => format!("{}/{folder}/{file}", recorded.name),
            };
            let index = Some(&topic.index).filter(|index| !index.is_empty());
            let index = index.and_then(|index| recorded.file(&key(index)));
            let range = index.as_ref().map_or(Ok(None), &mut *times)?;
            let bricks = topic.bricks.iter().filter_map(|brick| recorded.file(&key(brick)));
            rows.push(Row {
                split: number as u32,
                topic: Some(topic.name.clone()),
                type_name: some(&topic.type_name),
                start_nanos: range.map(|range| range.0),
                end_nanos: range.map(|range| range.1),
                message_count: Some(topic.message_count),
                message_bytes: Some(topic.message_bytes),
                lost: Some(topic.lost),
                message_encoding: some(&topic.message_encoding),
                schema_sha256: topic.topic().ok().and_then(|topic| schema_sha256(&topic.schema)),
                files: bricks.chain(index.clone()).collect(),
                ..whole.clone()
            });
        }
    }
    Ok(or_one(rows, whole))
}

/// Rows of a bag of rosbag2, which counts messages by topic for all of its files together.
pub fn rows_of_rosbag2(recorded: &Recorded, bag: &BagMetadata) -> Vec<Row> {
    let start = Some(bag.starting_time_nanos).filter(|_| bag.message_count > 0);
    let keys = bag.relative_file_paths.iter().map(|path| format!("{}/{path}", recorded.name));
    let files: Vec<_> = keys.filter_map(|key| recorded.file(&key)).collect();
    let whole = Row {
        kind: "rosbag2".into(),
        start_nanos: start,
        end_nanos: start.map(|start| start.saturating_add(bag.duration_nanos)),
        started_nanos: start,
        ..recorded.row(bag.custom_data.clone())
    };
    let row = |topic: &livebag_format::rosbag2::TopicEntry| {
        // The bag's times are not a topic's if it has no message.
        let has_times = topic.message_count > 0;
        Row {
            topic: Some(topic.name.clone()),
            type_name: some(&topic.type_name),
            message_count: Some(topic.message_count),
            message_encoding: some(&topic.serialization_format),
            files: files.clone(),
            start_nanos: whole.start_nanos.filter(|_| has_times),
            end_nanos: whole.end_nanos.filter(|_| has_times),
            ..whole.clone()
        }
    };
    or_one(bag.topics.iter().map(row).collect(), whole.clone())
}

/// Rows of a recording that is one file. `times` are those of all of its topics.
pub fn rows_of_file(
    recorded: &Recorded,
    topics: &[FileTopic],
    times: Option<(u64, u64)>,
    metadata: &[(String, BTreeMap<String, String>)],
) -> Vec<Row> {
    let entries: Vec<_> = metadata
        .iter()
        .map(|(name, values)| MetadataEntry { name: name.clone(), values: values.clone() })
        .collect();
    let whole = Row {
        kind: "file".into(),
        start_nanos: times.map(|times| times.0),
        end_nanos: times.map(|times| times.1),
        started_nanos: times.map(|times| times.0),
        files: recorded.files.clone(),
        ..recorded.row(flat(&entries))
    };
    let row = |FileTopic { topic, message_count }: &FileTopic| {
        let has_times = *message_count != Some(0);
        Row {
            topic: Some(topic.name.clone()),
            type_name: some(&topic.type_name),
            message_count: *message_count,
            message_encoding: some(&topic.message_encoding),
            schema_sha256: schema_sha256(&topic.schema),
            start_nanos: whole.start_nanos.filter(|_| has_times),
            end_nanos: whole.end_nanos.filter(|_| has_times),
            ..whole.clone()
        }
    };
    or_one(topics.iter().map(row).collect(), whole.clone())
}

impl Recorded {
    /// What all rows have.
    fn row(&self, metadata: BTreeMap<String, String>) -> Row {
        let named = metadata.get(ROBOT).or_else(|| metadata.get("robot.name"));
        Row {
            robot: named.cloned().or_else(|| self.robot.clone()),
            recording: self.name.clone(),
            recording_id: recording_id(&self.name, &self.sha256),
            recording_bytes: self.files.iter().map(|file| file.bytes).sum(),
            metadata,
            ..Row::default()
        }
    }

    fn file(&self, key: &str) -> Option<StoredFile> {
        self.files.iter().find(|file| file.key == key).cloned()
    }
}

/// A recording without topics has one row, so that it is listed.
fn or_one(rows: Vec<Row>, whole: Row) -> Vec<Row> {
    if rows.is_empty() { vec![whole] } else { rows }
}

fn flat(entries: &[MetadataEntry]) -> BTreeMap<String, String> {
    let values = entries.iter().flat_map(|entry| {
        entry.values.iter().map(|(key, value)| {
            let key = match &*entry.name {
                CUSTOM_DATA => key.clone(),
                name => format!("{name}.{key}"),
            };
            (key, value.clone())
        })
    });
    values.collect()
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn schema_sha256(schema: &[u8]) -> Option<String> {
    (!schema.is_empty()).then(|| sha256_of(schema))
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
