//! `metadata.yaml` of the bags that are written, in either storage.

use std::io::Write;
use std::path::{Path, PathBuf};

use livebag_format::Topic;
use livebag_format::rosbag2::{
    BagMetadata, FileEntry, MetadataVersion, QosProfile, QosStyle, TopicEntry,
};

use super::ConvertError;
use super::file::ForeignFile;
use livebag::{Container, ContainerError};

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

/// Turns a container with one MCAP file for each split into a rosbag2 bag as well: adds hard links of later splits'
/// files beside the first one's, the only place where readers search, and writes `metadata.yaml`.
///
/// # Errors
/// If an index cannot be read, there is a `metadata.yaml` already, or the disk refuses.
pub fn make_rosbag2(bag: &Container, version: MetadataVersion) -> Result<(), ConvertError> {
    let mut metadata = container_metadata(bag)?;
    for file in &mut metadata.files {
        let inner = PathBuf::from(&file.path);
        let Some(name) = inner.file_name().filter(|name| *name != inner.as_os_str()) else {
            continue;
        };
        let (from, to) = (bag.path().join(&inner), bag.path().join(name));
        ForeignFile::name_again(&from, &to)?;
        file.path = name.to_string_lossy().into_owned();
    }
    metadata.relative_file_paths = metadata.files.iter().map(|file| file.path.clone()).collect();
    write_bag_metadata(bag.path(), &metadata, version)
}

fn container_metadata(bag: &Container) -> Result<BagMetadata, ContainerError> {
    let files = bag.files()?;
    let start = files.iter().map(|file| file.start_nanos).min().unwrap_or(0);
    let end = files.iter().map(|file| file.end_nanos).max().unwrap_or(0);
    let topics: Vec<Topic> = bag.topics().iter().map(|topic| topic.topic().clone()).collect();
    let counts: Vec<u64> =
        bag.topics().iter().map(|topic| topic.message_count()).collect::<Result<_, _>>()?;
    let entries: Vec<FileEntry> = files
        .iter()
        .map(|file| FileEntry {
            path: file.path.display().to_string(),
            starting_time_nanos: file.start_nanos,
            duration_nanos: file.end_nanos - file.start_nanos,
            message_count: file.message_count,
        })
        .collect();
    let custom = bag.metadata().iter().filter(|entry| entry.name == "custom_data");
    Ok(BagMetadata {
        storage_identifier: "mcap".into(),
        starting_time_nanos: start,
        duration_nanos: end - start,
        message_count: counts.iter().sum(),
        topics: topic_entries(&topics, &counts),
        relative_file_paths: entries.iter().map(|entry| entry.path.clone()).collect(),
        files: entries,
        custom_data: custom.flat_map(|entry| entry.values.clone()).collect(),
        ..BagMetadata::default()
    })
}

/// What several files of one bag hold together.
pub(crate) fn joined_metadata(files: &[BagMetadata]) -> BagMetadata {
    let mut all = files.first().cloned().unwrap_or_default();
    for more in files.iter().skip(1) {
        all.message_count += more.message_count;
        all.files.extend_from_slice(&more.files);
        for topic in &more.topics {
            match all.topics.iter_mut().find(|known| known.name == topic.name) {
                Some(known) => known.message_count += topic.message_count,
                None => all.topics.push(topic.clone()),
            }
        }
    }
    let with_messages = || all.files.iter().filter(|file| file.message_count > 0);
    let start = with_messages().map(|file| file.starting_time_nanos).min().unwrap_or(0);
    let end = with_messages().map(|file| file.starting_time_nanos + file.duration_nanos).max();
    all.starting_time_nanos = start;
    all.duration_nanos = end.unwrap_or(0) - start;
    all.relative_file_paths = all.files.iter().map(|file| file.path.clone()).collect();
    all
}

/// Of a bag with one file: its times, counts and topics.
pub(super) fn metadata_of_file(
    path: &Path,
    span: Option<(u64, u64)>,
    topics: &[Topic],
    message_counts: &[u64],
) -> BagMetadata {
    let (first, last) = span.unwrap_or((0, 0));
    let file = FileEntry {
        path: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        starting_time_nanos: first,
        duration_nanos: last - first,
        message_count: message_counts.iter().sum(),
    };
    BagMetadata {
        starting_time_nanos: file.starting_time_nanos,
        duration_nanos: file.duration_nanos,
        message_count: file.message_count,
        topics: topic_entries(topics, message_counts),
        relative_file_paths: vec![file.path.clone()],
        files: vec![file],
        ..BagMetadata::default()
    }
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

/// Both lists of profiles joined; only the first if they cannot be joined.
pub(super) fn joined(first: &str, second: String) -> String {
    match (QosProfile::parse_list(first), QosProfile::parse_list(&second)) {
        (Ok(profiles), Ok(_)) if profiles.is_empty() => second,
        (Ok(profiles), Ok(more)) if !more.is_empty() => {
            let numbered = |profiles: Vec<QosProfile>| -> Vec<_> {
                profiles.iter().map(|profile| profile.styled(QosStyle::Numbers)).collect()
            };
            let (mut profiles, more) = (numbered(profiles), numbered(more));
            if more == profiles {
                return first.to_owned();
            }
            profiles.extend(more);
            QosProfile::write_list(&profiles, QosStyle::Numbers)
        }
        _ => first.to_owned(),
    }
}
