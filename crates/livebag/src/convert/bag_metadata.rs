//! `metadata.yaml` of the bags that are written, in either storage.

use std::io::Write;
use std::path::Path;

use livebag_format::Topic;
use livebag_format::rosbag2::{BagMetadata, MetadataVersion, QosProfile, QosStyle, TopicEntry};

use super::ConvertError;
use super::file::ForeignFile;

/// Writes `metadata.yaml` into the directory of a rosbag2 bag and makes it durable. It is what
/// tells rosbag2 that the bag is whole, so it comes last.
///
/// # Errors
/// If there is such a file already, or the disk refuses.
pub fn write_bag_metadata(
    directory: &Path,
    metadata: &BagMetadata,
    version: MetadataVersion,
) -> Result<(), ConvertError> {
    let path = directory.join("metadata.yaml");
    let mut file = ForeignFile::create(&path)?;
    file.write_all(metadata.to_yaml(version).as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|source| ConvertError::io("write", &path, source))
}

/// One entry by name: rosbag2 knows no two topics of the same name. Counts are added up, QoS
/// profiles joined.
pub(super) fn topic_entries(topics: &[Topic], message_counts: &[u64]) -> Vec<TopicEntry> {
    let mut entries: Vec<TopicEntry> = Vec::new();
    for (topic, count) in topics.iter().zip(message_counts) {
        let value = |key| topic.metadata.get(key).cloned().unwrap_or_default();
        let qos = value("offered_qos_profiles");
        match entries.iter_mut().find(|entry| entry.name == topic.name) {
            Some(entry) => {
                entry.message_count += count;
                entry.offered_qos_profiles = joined(&entry.offered_qos_profiles, qos);
            }
            None => entries.push(TopicEntry {
                name: topic.name.clone(),
                type_name: topic.type_name.clone(),
                serialization_format: topic.message_encoding.clone(),
                offered_qos_profiles: qos,
                type_description_hash: value("topic_type_hash"),
                message_count: *count,
            }),
        }
    }
    entries
}

/// Both lists of profiles in one; the first alone if they cannot be joined.
pub(super) fn joined(first: &str, second: String) -> String {
    match (QosProfile::parse_list(first), QosProfile::parse_list(&second)) {
        (Ok(profiles), Ok(_)) if profiles.is_empty() => second,
        (Ok(mut profiles), Ok(more)) if !more.is_empty() && more != profiles => {
            profiles.extend(more);
            QosProfile::write_list(&profiles, QosStyle::Numbers)
        }
        _ => first.to_owned(),
    }
}
