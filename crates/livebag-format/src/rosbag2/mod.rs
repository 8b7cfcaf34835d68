//! rosbag2's `metadata.yaml`: versions 1 to 9 are read; 5 (Humble), 7 (Iron) and 9 (Jazzy and
//! later) are written.
//!
//! YAML is read and written by `serde-saphyr`: it reads the output of yaml-cpp and ruamel, and both read its output.
//! `container.yaml` uses it too.

mod qos;
mod yaml;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use qos::{Policy, QosDuration, QosProfile, QosStyle};

/// The version of `metadata.yaml` to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataVersion {
    /// 5: readable by Humble and everything later.
    #[default]
    Humble,
    /// 7: adds custom data and type hashes.
    Iron,
    /// 9: adds the ROS distribution; QoS as a sequence with names, which Humble and Iron refuse.
    Jazzy,
}

impl MetadataVersion {
    /// The number in the file.
    pub fn number(self) -> u32 {
        match self {
            MetadataVersion::Humble => 5,
            MetadataVersion::Iron => 7,
            MetadataVersion::Jazzy => 9,
        }
    }

    /// How QoS profiles spell their policies.
    pub fn qos_style(self) -> QosStyle {
        match self {
            MetadataVersion::Jazzy => QosStyle::Names,
            MetadataVersion::Humble | MetadataVersion::Iron => QosStyle::Numbers,
        }
    }

    /// The version with this number, if it is one that is written.
    pub fn from_number(number: u32) -> Option<Self> {
        [Self::Humble, Self::Iron, Self::Jazzy].into_iter().find(|v| v.number() == number)
    }
}

/// What `metadata.yaml` says, whatever its version. Values that a version lacks are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BagMetadata {
    /// Version of the file that was read; not heeded when writing.
    pub version: u32,
    /// `mcap`, `sqlite3`, …
    pub storage_identifier: String,
    /// Log time of the first message, nanoseconds since the Unix epoch; 0 without messages.
    pub starting_time_nanos: u64,
    /// Nanoseconds from the first message to the last.
    pub duration_nanos: u64,
    /// Messages in all files.
    pub message_count: u64,
    /// The topics, also those without a message.
    pub topics: Vec<TopicEntry>,
    /// `zstd`, or empty.
    pub compression_format: String,
    /// `FILE`, `MESSAGE`, or empty (rosbag2 also writes `NONE`).
    pub compression_mode: String,
    /// The files in order, relative to the bag's directory. Versions up to 3 prefix the directory's name; it is removed
    /// on reading.
    pub relative_file_paths: Vec<String>,
    /// The same files with times and counts (from version 5 on; may be shorter or empty).
    pub files: Vec<FileEntry>,
    /// The user's own keys (from version 6 on).
    pub custom_data: BTreeMap<String, String>,
    /// `jazzy`, … (from version 8 on).
    pub ros_distro: String,
}

/// One topic of a bag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicEntry {
    /// Topic name.
    pub name: String,
    /// Type name: `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// `cdr`, …
    pub serialization_format: String,
    /// The QoS profiles as YAML text. Up to version 8 exactly as in the file; from version 9 on,
    /// where the file has a sequence in its place, that sequence written with names.
    pub offered_qos_profiles: String,
    /// `RIHS01_…`, or empty.
    pub type_description_hash: String,
    /// Messages on this topic.
    pub message_count: u64,
}

impl TopicEntry {
    /// `offered_qos_profiles` as values; an error if the text is not a list of profiles.
    pub fn qos_profiles(&self) -> Result<Vec<QosProfile>, MetadataError> {
        QosProfile::parse_list(&self.offered_qos_profiles)
    }
}

/// One file of a bag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileEntry {
    /// Path relative to the bag's directory.
    pub path: String,
    /// Log time of its first message, nanoseconds since the Unix epoch.
    pub starting_time_nanos: u64,
    /// Nanoseconds from its first message to its last.
    pub duration_nanos: u64,
    /// Messages in it.
    pub message_count: u64,
}

/// Why a `metadata.yaml` cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// Not YAML, or not with the keys of a rosbag2 bag.
    #[error("expected rosbag2's metadata.yaml (key rosbag2_bagfile_information): {reason}")]
    Yaml {
        /// The YAML reader's error, with line and column.
        reason: String,
    },
    /// Version 0, which no rosbag2 has written.
    #[error("metadata.yaml has version {found}; versions 1 and later are read")]
    Version {
        /// The version found.
        found: u32,
    },
    /// A file path that is absolute or leaves the bag's directory.
    #[error("metadata.yaml names the file {path:?}, which is not inside the bag's directory")]
    PathOutside {
        /// The path found.
        path: String,
    },
    /// QoS overrides that are none.
    #[error(
        "expected topics with QoS policies, as in `/scan: {{reliability: best_effort, depth: 5}}`: \
         {reason}"
    )]
    QosOverrides {
        /// The found value.
        reason: String,
    },
    /// A QoS list that is not one.
    #[error("expected a YAML list of QoS profiles: {reason}")]
    Qos {
        /// The YAML reader's error.
        reason: String,
    },
}

impl BagMetadata {
    /// Reads the text of a `metadata.yaml`.
    pub fn parse(text: &str) -> Result<Self, MetadataError> {
        yaml::parse(text)
    }

    /// The text of a `metadata.yaml`. Every key of the version is written, as rosbag2 demands.
    pub fn to_yaml(&self, version: MetadataVersion) -> String {
        yaml::write_file(self, version)
    }

    /// The same without the root key, as the `rosbag2` metadata record inside an MCAP has it.
    pub fn to_mcap_record(&self, version: MetadataVersion) -> String {
        yaml::write_record(self, version)
    }

    /// Reads the value `serialized_metadata` of an MCAP's `rosbag2` metadata record.
    pub fn parse_mcap_record(text: &str) -> Result<Self, MetadataError> {
        yaml::parse_record(text)
    }
}
