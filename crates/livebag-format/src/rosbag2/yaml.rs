//! The keys of `metadata.yaml`, version by version.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::qos::{QosProfile, QosStyle};
use super::{BagMetadata, FileEntry, MetadataError, MetadataVersion, TopicEntry};

#[derive(Serialize, Deserialize)]
struct File {
    rosbag2_bagfile_information: Info,
}

/// `None` is a key that the version does not have.
#[derive(Default, Serialize, Deserialize)]
struct Info {
    version: u32,
    #[serde(default)]
    storage_identifier: String,
    #[serde(default)]
    duration: Duration,
    #[serde(default)]
    starting_time: Time,
    #[serde(default)]
    message_count: u64,
    #[serde(default)]
    topics_with_message_count: Vec<TopicCount>,
    #[serde(default)]
    compression_format: String,
    #[serde(default)]
    compression_mode: String,
    #[serde(default)]
    relative_file_paths: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Vec<FileInfo>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    custom_data: Option<BTreeMap<String, Option<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ros_distro: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
struct Duration {
    nanoseconds: i64,
}

#[derive(Default, Serialize, Deserialize)]
struct Time {
    nanoseconds_since_epoch: i64,
}

#[derive(Serialize, Deserialize)]
struct TopicCount {
    topic_metadata: TopicInfo,
    #[serde(default)]
    message_count: u64,
}

#[derive(Serialize, Deserialize)]
struct TopicInfo {
    name: String,
    r#type: String,
    #[serde(default)]
    serialization_format: String,
    #[serde(default)]
    offered_qos_profiles: Qos,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    type_description_hash: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Qos {
    Text(Option<String>),
    List(Vec<QosProfile>),
}

impl Default for Qos {
    fn default() -> Self {
        Qos::Text(None)
    }
}

#[derive(Serialize, Deserialize)]
struct FileInfo {
    path: String,
    starting_time: Time,
    duration: Duration,
    message_count: u64,
}

/// YAML of anything made of the structs above and QoS, whose serialisation has no way to fail.
pub(super) fn text(value: &impl Serialize) -> String {
    serde_saphyr::to_string(value).expect("plain structs, strings and numbers are YAML")
}

pub(super) fn parse(text: &str) -> Result<BagMetadata, MetadataError> {
    let file: File = crate::yaml::read(text)
        .map_err(|error| MetadataError::Yaml { reason: error.to_string() })?;
    file.rosbag2_bagfile_information.into_metadata()
}

pub(super) fn parse_record(text: &str) -> Result<BagMetadata, MetadataError> {
    let info: Info = crate::yaml::read(text)
        .map_err(|error| MetadataError::Yaml { reason: error.to_string() })?;
    info.into_metadata()
}

pub(super) fn write_file(metadata: &BagMetadata, version: MetadataVersion) -> String {
    text(&File { rosbag2_bagfile_information: Info::of(metadata, version) })
}

pub(super) fn write_record(metadata: &BagMetadata, version: MetadataVersion) -> String {
    text(&Info::of(metadata, version))
}

impl Info {
    fn into_metadata(self) -> Result<BagMetadata, MetadataError> {
        if self.version < 1 {
            return Err(MetadataError::Version { found: self.version });
        }
        let mut paths = self.relative_file_paths;
        if self.version < 4 {
            // Up to version 3 a path starts with the name of the bag's directory.
            for path in &mut paths {
                *path = path.rsplit('/').next().unwrap_or(path).to_owned();
            }
        }
        if let Some(path) = paths.iter().find(|path| !is_inside(path)) {
            return Err(MetadataError::PathOutside { path: path.clone() });
        }
        let custom_data = self.custom_data.unwrap_or_default();
        Ok(BagMetadata {
            version: self.version,
            storage_identifier: self.storage_identifier,
            // An empty bag starts at the end of time, with rosbag2.
            starting_time_nanos: if self.message_count == 0 {
                0
            } else {
                self.starting_time.nanos()
            },
            duration_nanos: self.duration.nanos(),
            message_count: self.message_count,
            topics: self.topics_with_message_count.into_iter().map(TopicCount::entry).collect(),
            compression_format: self.compression_format,
            compression_mode: self.compression_mode,
            relative_file_paths: paths,
            files: self.files.unwrap_or_default().into_iter().map(FileInfo::entry).collect(),
            custom_data: custom_data.into_iter().map(|(k, v)| (k, v.unwrap_or_default())).collect(),
            ros_distro: self.ros_distro.unwrap_or_default(),
        })
    }

    fn of(metadata: &BagMetadata, version: MetadataVersion) -> Info {
        let number = version.number();
        let files = metadata.files.iter().map(FileInfo::of).collect();
        let custom_data = metadata.custom_data.iter().map(|(k, v)| (k.clone(), Some(v.clone())));
        Info {
            version: number,
            storage_identifier: metadata.storage_identifier.clone(),
            duration: Duration::of(metadata.duration_nanos),
            starting_time: Time::of(metadata.starting_time_nanos),
            message_count: metadata.message_count,
            topics_with_message_count: metadata
                .topics
                .iter()
                .map(|topic| TopicCount::of(topic, number))
                .collect(),
            compression_format: metadata.compression_format.clone(),
            compression_mode: metadata.compression_mode.clone(),
            relative_file_paths: metadata.relative_file_paths.clone(),
            files: Some(files),
            custom_data: (number >= 6).then(|| custom_data.collect()),
            ros_distro: (number >= 8).then(|| metadata.ros_distro.clone()),
        }
    }
}

/// Whether a path is relative and never steps out of where it starts.
fn is_inside(path: &str) -> bool {
    let mut components = Path::new(path).components().peekable();
    components.peek().is_some()
        && components.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

impl Duration {
    fn of(nanos: u64) -> Self {
        Duration { nanoseconds: i64::try_from(nanos).unwrap_or(i64::MAX) }
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.nanoseconds).unwrap_or(0)
    }
}

impl Time {
    fn of(nanos: u64) -> Self {
        Time { nanoseconds_since_epoch: i64::try_from(nanos).unwrap_or(i64::MAX) }
    }

    fn nanos(&self) -> u64 {
        u64::try_from(self.nanoseconds_since_epoch).unwrap_or(0)
    }
}

impl TopicCount {
    fn entry(self) -> TopicEntry {
        let topic = self.topic_metadata;
        TopicEntry {
            name: topic.name,
            type_name: topic.r#type,
            serialization_format: topic.serialization_format,
            offered_qos_profiles: match topic.offered_qos_profiles {
                Qos::Text(text) => text.unwrap_or_default(),
                Qos::List(profiles) => QosProfile::write_list(&profiles, QosStyle::Names),
            },
            type_description_hash: topic.type_description_hash.unwrap_or_default(),
            message_count: self.message_count,
        }
    }

    fn of(topic: &TopicEntry, version: u32) -> Self {
        TopicCount {
            topic_metadata: TopicInfo {
                name: topic.name.clone(),
                r#type: topic.type_name.clone(),
                serialization_format: topic.serialization_format.clone(),
                offered_qos_profiles: qos_for(topic, version),
                type_description_hash: (version >= 7).then(|| topic.type_description_hash.clone()),
            },
            message_count: topic.message_count,
        }
    }
}

/// A list of names from version 9 on, text with numbers before: rosbag2 refuses the other. Text
/// that is no list of profiles is kept where text stands and left out where a list must.
fn qos_for(topic: &TopicEntry, version: u32) -> Qos {
    let verbatim = &topic.offered_qos_profiles;
    match (topic.qos_profiles(), version >= 9) {
        (Ok(profiles), true) => {
            Qos::List(profiles.iter().map(|profile| profile.styled(QosStyle::Names)).collect())
        }
        (Err(_), true) => Qos::List(Vec::new()),
        (Ok(profiles), false) => {
            let in_numbers: Vec<_> =
                profiles.iter().map(|profile| profile.styled(QosStyle::Numbers)).collect();
            let text = if in_numbers == profiles {
                verbatim.clone()
            } else {
                QosProfile::write_list(&in_numbers, QosStyle::Numbers)
            };
            Qos::Text(Some(text))
        }
        (Err(_), false) => Qos::Text(Some(verbatim.clone())),
    }
}

impl FileInfo {
    fn entry(self) -> FileEntry {
        FileEntry {
            path: self.path,
            starting_time_nanos: self.starting_time.nanos(),
            duration_nanos: self.duration.nanos(),
            message_count: self.message_count,
        }
    }

    fn of(file: &FileEntry) -> Self {
        FileInfo {
            path: file.path.clone(),
            starting_time: Time::of(file.starting_time_nanos),
            duration: Duration::of(file.duration_nanos),
            message_count: file.message_count,
        }
    }
}
