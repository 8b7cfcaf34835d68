//! Makes the `metadata.yaml` of a rosbag2 directory again, from its files.

use std::io::Write;
use std::path::{Path, PathBuf};

use livebag_format::Topic;
use livebag_format::rosbag2::{BagMetadata, FileEntry, MetadataVersion, TopicEntry};

use super::bag_metadata::topic_entries;
use super::file::ForeignFile;
use super::rosbag2_dir::{METADATA_FILE, files_in, read_metadata, storage_of};
use super::{ConvertError, is_compressed, open_file, plain_name};

/// The contents of a directory's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reindexed {
    /// The new `metadata.yaml`.
    pub metadata: BagMetadata,
    /// Where a damaged `metadata.yaml` was moved to.
    pub moved_to: Option<PathBuf>,
    /// Whether there was a `metadata.yaml` already that says the same: nothing was written then.
    pub was_right: bool,
    /// Messages that the files are known to have had and that cannot be read.
    pub lost_messages: u64,
    /// The damage, as sentences.
    pub damage: Vec<String>,
}

/// Reads every message of the files in `directory` and writes `metadata.yaml`: times and counts of
/// each file and topic, types, QoS and type hashes as the files have them. A damaged one is moved
/// aside; the files themselves are only read.
///
/// # Errors
/// If there is nothing to read, the files are of several storages, or nothing can be written.
pub fn reindex(
    directory: &Path,
    version: Option<MetadataVersion>,
) -> Result<Reindexed, ConvertError> {
    let mut survey = Survey::default();
    let there = read_metadata(directory);
    for file in &survey.chosen(directory, &there)? {
        survey.add(file)?;
    }
    survey.count_missing(&there);
    let (metadata, version) = survey.metadata(directory, version)?;
    let mut outcome = Reindexed {
        metadata,
        lost_messages: survey.lost_messages,
        damage: survey.damage,
        ..Reindexed::default()
    };
    let path = directory.join(METADATA_FILE);
    match there {
        Ok(Some(there)) if says_the_same(&there, &outcome.metadata) => {
            outcome.was_right = true;
            return Ok(outcome);
        }
        Ok(None) => {}
        Ok(Some(_)) => {
            outcome.damage.push("metadata.yaml said something else than the files".to_owned());
            outcome.moved_to = Some(move_aside(&path)?);
        }
        Err(error @ ConvertError::Unsupported { .. }) => return Err(error),
        Err(error) => {
            outcome.damage.push(error.to_string());
            outcome.moved_to = Some(move_aside(&path)?);
        }
    }
    let mut file = ForeignFile::create(&path)?;
    file.write_all(outcome.metadata.to_yaml(version).as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(|source| ConvertError::io("write", &path, source))?;
    Ok(outcome)
}

/// What `metadata.yaml` of a directory should say.
pub(crate) fn survey(directory: &Path) -> Result<BagMetadata, ConvertError> {
    let mut survey = Survey::default();
    for file in &survey.chosen(directory, &read_metadata(directory))? {
        survey.add(file)?;
    }
    Ok(survey.metadata(directory, None)?.0)
}

/// Whether `metadata.yaml` matches the files' contents and can stay.
pub(crate) fn says_the_same(there: &BagMetadata, found: &BagMetadata) -> bool {
    difference(there, found).is_none()
}

/// What `metadata.yaml` says that the files contradict. Topics without a message may be in only one of the two: rosbag2
/// lists them, and writes a channel with its first message only. Neither are times compared: those of rosbag2 are not
/// always those of its messages.
pub(crate) fn difference(there: &BagMetadata, found: &BagMetadata) -> Option<String> {
    let topics = |metadata: &BagMetadata| {
        let mut topics: Vec<_> = metadata
            .topics
            .iter()
            .filter(|topic| topic.message_count > 0)
            .map(|topic| (topic.name.clone(), topic.type_name.clone(), topic.message_count))
            .collect();
        topics.sort();
        topics
    };
    let mut files = (there.relative_file_paths.clone(), found.relative_file_paths.clone());
    files.0.sort();
    files.1.sort();
    let mode = |metadata: &BagMetadata| match &*metadata.compression_mode.to_ascii_uppercase() {
        "NONE" => String::new(),
        mode => mode.to_owned(),
    };
    if files.0 != files.1 {
        return Some(format!("it names the files {:?}; there are {:?}", files.0, files.1));
    }
    let storage = |metadata: &BagMetadata| (metadata.storage_identifier.clone(), mode(metadata));
    if storage(there) != storage(found) {
        let (told, is) = (storage(there), storage(found));
        return Some(format!("it has storage and compression {told:?}; the files have {is:?}"));
    }
    if there.message_count != found.message_count {
        let (told, is) = (there.message_count, found.message_count);
        return Some(format!("it has {told} messages; the files have {is}"));
    }
    let (told, is) = (topics(there), topics(found));
    let differs = told.iter().find(|topic| !is.contains(topic));
    let differs = differs.or_else(|| is.iter().find(|topic| !told.contains(topic)));
    differs.map(|(name, type_name, _)| {
        format!("its entry of the topic {name} ({type_name}) does not match the files")
    })
}

fn move_aside(path: &Path) -> Result<PathBuf, ConvertError> {
    let mut number = 1;
    loop {
        let aside = path.with_file_name(format!("{METADATA_FILE}.damaged{number}"));
        match rustix::fs::renameat_with(
            rustix::fs::CWD,
            path,
            rustix::fs::CWD,
            &aside,
            rustix::fs::RenameFlags::NOREPLACE,
        ) {
            Ok(()) => return Ok(aside),
            Err(rustix::io::Errno::EXIST) => number += 1,
            Err(error) => return Err(ConvertError::io("rename", path, error.into())),
        }
    }
}

/// Everything counted while the files are read.
#[derive(Default)]
struct Survey {
    topics: Vec<Topic>,
    counts: Vec<u64>,
    files: Vec<FileEntry>,
    storages: Vec<&'static str>,
    said: Option<BagMetadata>,
    lost_messages: u64,
    /// Names of files that cannot be read at all.
    left_out: Vec<String>,
    has_compressed_files: bool,
    has_compressed_messages: bool,
    damage: Vec<String>,
}

impl Survey {
    /// The files of the bag: those that its `metadata.yaml` names, and all that are there without one. A file that
    /// another bag's metadata names is not part of this bag.
    fn chosen(
        &mut self,
        directory: &Path,
        there: &Result<Option<BagMetadata>, ConvertError>,
    ) -> Result<Vec<PathBuf>, ConvertError> {
        let files = files_in(directory)?;
        let Ok(Some(there)) = there else { return Ok(files) };
        if there.relative_file_paths.is_empty() {
            return Ok(files);
        }
        let named: Vec<_> = there
            .relative_file_paths
            .iter()
            .map(|name| plain_name(&directory.join(name)))
            .collect();
        let (chosen, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| named.contains(&plain_name(file)));
        for file in others {
            self.damage.push(format!(
                "{} is left out: metadata.yaml does not name it (remove metadata.yaml to have it taken in)",
                file.display()
            ));
        }
        match chosen.is_empty() {
            true => Err(ConvertError::damaged(
                directory,
                "none of the files that its metadata.yaml names is there: remove metadata.yaml to have \
                 it made anew from the files that are",
            )),
            false => Ok(chosen),
        }
    }

    /// Counts messages in missing or unreadable files: as many as its `metadata.yaml` lists, and at least one
    /// otherwise.
    fn count_missing(&mut self, there: &Result<Option<BagMetadata>, ConvertError>) {
        let known: &[FileEntry] = match there {
            Ok(Some(there)) => &there.files,
            _ => &[],
        };
        let plain = |name: &str| plain_name(Path::new(name));
        for name in &self.left_out {
            let entry = known.iter().find(|entry| plain(&entry.path) == plain(name));
            self.lost_messages += entry.map_or(1, |entry| entry.message_count.max(1));
        }
        for entry in known {
            let has_name = |name: &str| plain(name) == plain(&entry.path);
            let is_left_out = self.left_out.iter().any(|name| has_name(name));
            if !is_left_out && !self.files.iter().any(|file| has_name(&file.path)) {
                self.lost_messages += entry.message_count;
                self.damage.push(format!(
                    "{} is gone, with the {} messages that metadata.yaml tells of",
                    entry.path, entry.message_count
                ));
            }
        }
    }

    fn add(&mut self, path: &Path) -> Result<(), ConvertError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.storages.extend(storage_of(path));
        self.has_compressed_files |= is_compressed(path);
        let mut source = match open_file(path) {
            Ok(source) => source,
            Err(error @ (ConvertError::Damaged { .. } | ConvertError::Foreign { .. })) => {
                self.damage.push(format!("{error}: it is left out"));
                self.left_out.push(name);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let places: Vec<usize> =
            source.topics().to_vec().iter().map(|topic| self.place_of(topic)).collect();
        let promised = source.message_count().unwrap_or(0);
        let (mut count, mut first, mut last, mut is_cut_off) = (0, u64::MAX, 0, false);
        loop {
            match source.next_message() {
                Ok(Some(message)) => {
                    self.counts[places[message.topic]] += 1;
                    count += 1;
                    first = first.min(message.log_time_nanos);
                    last = last.max(message.log_time_nanos);
                }
                Ok(None) => break,
                Err(error) => {
                    self.damage.push(error.to_string());
                    is_cut_off = true;
                    break;
                }
            }
        }
        self.has_compressed_messages |= source.has_compressed_messages();
        self.said = source.bag_metadata().cloned().or(self.said.take());
        let lost = promised.saturating_sub(count).max(source.lost_count());
        self.lost_messages += lost.max(u64::from(is_cut_off));
        self.damage.extend(source.warnings().iter().map(|warning| format!("{name}: {warning}")));
        self.files.push(FileEntry {
            path: name,
            starting_time_nanos: if count == 0 { 0 } else { first },
            duration_nanos: last.saturating_sub(first),
            message_count: count,
        });
        Ok(())
    }

    fn place_of(&mut self, topic: &Topic) -> usize {
        self.topics.iter().position(|known| known == topic).unwrap_or_else(|| {
            self.topics.push(topic.clone());
            self.counts.push(0);
            self.topics.len() - 1
        })
    }

    /// The topics as in the files; missing properties from the bag's metadata.
    fn topic_entries(&self, said: &BagMetadata) -> Vec<TopicEntry> {
        let mut entries = topic_entries(&self.topics, &self.counts);
        for entry in &mut entries {
            let of_bag = said.topics.iter().find(|topic| topic.name == entry.name);
            let Some(of_bag) = of_bag.filter(|topic| topic.type_name == entry.type_name) else {
                continue;
            };
            for (own, other) in [
                (&mut entry.type_description_hash, &of_bag.type_description_hash),
                (&mut entry.offered_qos_profiles, &of_bag.offered_qos_profiles),
            ] {
                if own.is_empty() {
                    own.clone_from(other);
                }
            }
        }
        // rosbag2 writes no channel of a topic before its first message.
        for topic in said.topics.iter().filter(|topic| topic.message_count == 0) {
            if !entries.iter().any(|entry| entry.name == topic.name) {
                entries.push(topic.clone());
            }
        }
        entries
    }

    fn metadata(
        &mut self,
        directory: &Path,
        version: Option<MetadataVersion>,
    ) -> Result<(BagMetadata, MetadataVersion), ConvertError> {
        if self.files.is_empty() {
            let reason = format!("none of its files can be read: {}", self.damage.join("; "));
            return Err(ConvertError::damaged(directory, reason));
        }
        self.storages.dedup();
        let [storage] = self.storages[..] else {
            let reason = "it has files of both storages, mcap and sqlite3: move one kind elsewhere";
            return Err(ConvertError::unsupported(directory, reason));
        };
        let said = self.said.clone().unwrap_or_default();
        let version = version.unwrap_or(match said.version {
            1..=5 => MetadataVersion::Humble,
            8.. => MetadataVersion::Jazzy,
            _ => MetadataVersion::Iron,
        });
        let with_messages = || self.files.iter().filter(|file| file.message_count > 0);
        let start = with_messages().map(|file| file.starting_time_nanos).min().unwrap_or(0);
        let end = with_messages().map(|file| file.starting_time_nanos + file.duration_nanos).max();
        let mode = match (self.has_compressed_files, self.has_compressed_messages) {
            (true, _) => "FILE",
            (false, true) => "MESSAGE",
            (false, false) => "",
        };
        let metadata = BagMetadata {
            version: version.number(),
            storage_identifier: storage.to_owned(),
            starting_time_nanos: start,
            duration_nanos: end.unwrap_or(0).saturating_sub(start),
            message_count: self.counts.iter().sum(),
            topics: self.topic_entries(&said),
            relative_file_paths: self.files.iter().map(|file| file.path.clone()).collect(),
            files: self.files.clone(),
            compression_format: if mode.is_empty() { "" } else { "zstd" }.to_owned(),
            compression_mode: mode.to_owned(),
            custom_data: said.custom_data,
            ros_distro: said.ros_distro,
        };
        Ok((metadata, version))
    }
}
