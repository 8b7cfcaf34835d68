//! rosbag2 directories: `metadata.yaml` and the files that it names, in either storage, compressed or not; or only the
//! files, if a crash left no `metadata.yaml`.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::rosbag2::{BagMetadata, QosProfile, QosStyle, TopicEntry};
use livebag_format::{Topic, definitions};

use super::compressed::{Unpacker, plain_name, standing_for};
use super::file::ForeignFile;
use super::{
    Attachment, ConvertError, MessageSource, MetadataRecord, SourceMessage, SourceTotals, Warnings,
    YAML_BYTES_MAX, add_records,
};

pub(crate) const METADATA_FILE: &str = "metadata.yaml";

/// A rosbag2 directory.
pub(super) struct Rosbag2Dir {
    profile: String,
    topics: Vec<Topic>,
    metadata: Option<BagMetadata>,
    metadata_records: Vec<MetadataRecord>,
    message_count: Option<u64>,
    /// Of all files, if each of them says.
    totals: Option<SourceTotals>,
    /// Files not yet begun, by their first message. Only those whose times overlap are open.
    parts: VecDeque<Part>,
    open: Vec<OpenPart>,
    /// Messages before this are not asked for.
    from_nanos: u64,
    /// Messages that could not be read of files that have ended.
    lost_count: u64,
    /// Files that may have attachments not yet given.
    attachment_files: VecDeque<PathBuf>,
    attachments_of: Option<Box<dyn MessageSource>>,
    files: Unpacker,
    warnings: Warnings,
}

struct Part {
    /// Its place in the bag: decides among equal times.
    number: usize,
    path: PathBuf,
    start_time_nanos: u64,
    /// Topic of the bag by topic of the file.
    topics: Arc<[usize]>,
}

struct OpenPart {
    part: Part,
    source: Box<dyn MessageSource>,
    next: SourceMessage,
}

impl Rosbag2Dir {
    pub(super) fn open(path: &Path) -> Result<Self, ConvertError> {
        let metadata = read_metadata(path)?;
        let files = match &metadata {
            Some(metadata) if !metadata.relative_file_paths.is_empty() => metadata
                .relative_file_paths
                .iter()
                .map(|file| path.join(file))
                .map(|file| standing_for(&file).unwrap_or(file))
                .collect(),
            _ => files_in(path)?,
        };
        let mut bag = Rosbag2Dir {
            profile: String::new(),
            topics: Vec::new(),
            metadata,
            metadata_records: Vec::new(),
            message_count: Some(0),
            totals: Some(SourceTotals::default()),
            parts: VecDeque::new(),
            open: Vec::new(),
            from_nanos: 0,
            lost_count: 0,
            attachment_files: VecDeque::new(),
            attachments_of: None,
            files: Unpacker::default(),
            warnings: Warnings::default(),
        };
        if bag.metadata.is_none() {
            bag.warnings.say("there is no metadata.yaml: the bag was read from its files");
        }
        bag.add_files(path, &files)?;
        bag.add_topics_without_messages();
        bag.parts.make_contiguous().sort_by_key(|part| (part.start_time_nanos, part.number));
        Ok(bag)
    }

    /// Opens each file for its topics and first message, and closes it again: a bag may have more files than a process
    /// may have open.
    fn add_files(&mut self, path: &Path, files: &[PathBuf]) -> Result<(), ConvertError> {
        for (number, file) in files.iter().enumerate() {
            if !file.exists() && files.len() > 1 {
                self.warnings.say(format!("{} is missing", file.display()));
                self.count_missing(path, file);
                continue;
            }
            let source = match self.files.open(file) {
                Ok(source) => source,
                // The others are none the worse for it.
                Err(error @ (ConvertError::Damaged { .. } | ConvertError::Foreign { .. }))
                    if files.len() > 1 =>
                {
                    self.warnings.say(format!("{error}: it is left out"));
                    self.count_missing(path, file);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if self.profile.is_empty() {
                self.profile = source.profile().to_owned();
            }
            let topics: Arc<[usize]> =
                source.topics().iter().map(|topic| self.add_topic(topic)).collect();
            self.add_totals(&*source, &topics);
            add_records(&mut self.metadata_records, source.metadata_records());
            if self.metadata.is_none() {
                self.metadata = source.bag_metadata().cloned();
            }
            let count = source.message_count();
            self.message_count = self.message_count.and_then(|sum| sum.checked_add(count?));
            for warning in source.warnings() {
                self.warnings.say(format!("{}: {warning}", file.display()));
            }
            self.attachment_files.push_back(file.clone());
            if let Some(start_time_nanos) = source.start_time_nanos() {
                self.parts.push_back(Part { number, path: file.clone(), start_time_nanos, topics });
            }
        }
        if self.attachment_files.is_empty() {
            let reason = "none of the files that its metadata.yaml names is there and can be read";
            return Err(ConvertError::damaged(path, reason));
        }
        Ok(())
    }

    /// Counts the messages of a file that is gone: those that `metadata.yaml` tells of, one at least.
    fn count_missing(&mut self, path: &Path, file: &Path) {
        let name = file.strip_prefix(path).unwrap_or(file);
        let known = self.metadata.iter().flat_map(|metadata| &metadata.files);
        let mut known = known.filter(|entry| plain_name(entry.path.as_ref()) == plain_name(name));
        let lost = known.next().map_or(1, |entry| entry.message_count);
        self.lost_count = self.lost_count.saturating_add(lost);
        // The totals of the others would be incomplete.
        self.totals = None;
    }

    fn add_totals(&mut self, source: &dyn MessageSource, topics: &[usize]) {
        let Some(mut sum) = self.totals.take() else { return };
        let Some(totals) = source.totals() else { return };
        sum.counts.resize(self.topics.len(), 0);
        for (topic, count) in topics.iter().zip(totals.counts) {
            // What files claim need not fit.
            let Some(count) = sum.counts[*topic].checked_add(count) else { return };
            sum.counts[*topic] = count;
        }
        if let Some((first, last)) = totals.times_nanos {
            sum.add_times(first, last);
        }
        self.totals = Some(sum);
    }

    /// The bag's topic that equals a file's topic, QoS and hash filled in from `metadata.yaml`
    /// where the file has none.
    fn add_topic(&mut self, topic: &Topic) -> usize {
        let mut topic = topic.clone();
        let entry = self
            .metadata
            .as_ref()
            .and_then(|metadata| metadata.topics.iter().find(|entry| entry.name == topic.name));
        if let Some(entry) = entry {
            fill_in(&mut topic, entry);
        }
        match self.topics.iter().position(|known| *known == topic) {
            Some(index) => index,
            None => {
                self.topics.push(topic);
                self.topics.len() - 1
            }
        }
    }

    fn add_topics_without_messages(&mut self) {
        let Some(metadata) = &self.metadata else { return };
        for entry in &metadata.topics {
            if self.topics.iter().any(|topic| topic.name == entry.name) {
                continue;
            }
            let mut topic = Topic {
                name: entry.name.clone(),
                message_encoding: entry.serialization_format.clone(),
                ..Default::default()
            };
            if let Some(schema) = definitions::schema(&entry.type_name) {
                topic.schema_encoding = "ros2msg".to_owned();
                topic.schema = schema.into_bytes();
            }
            fill_in(&mut topic, entry);
            self.topics.push(topic);
        }
    }

    /// Opens the files that begin before the next message of those that are open.
    fn open_parts(&mut self) -> Result<(), ConvertError> {
        while let Some(part) = self.parts.front() {
            let first = self.open.iter().map(|open| open.next.log_time_nanos).min();
            if first.is_some_and(|first| first < part.start_time_nanos) {
                break;
            }
            let Some(part) = self.parts.pop_front() else { break };
            let mut source = self.files.open(&part.path)?;
            source.skip_before(self.from_nanos);
            match source.next_message()? {
                Some(next) => self.open.push(OpenPart { part, source, next }),
                None => self.take_leave(&part.path, source.as_ref()),
            }
        }
        Ok(())
    }

    /// Keeps the warnings of a file that has ended.
    fn take_leave(&mut self, path: &Path, source: &dyn MessageSource) {
        self.lost_count = self.lost_count.saturating_add(source.lost_count());
        for warning in source.warnings() {
            self.warnings.say(format!("{}: {warning}", path.display()));
        }
    }
}

impl MessageSource for Rosbag2Dir {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn profile(&self) -> &str {
        &self.profile
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        self.open_parts()?;
        let earliest = (0..self.open.len()).min_by_key(|index| {
            let open = &self.open[*index];
            (open.next.log_time_nanos, open.part.number)
        });
        let Some(index) = earliest else { return Ok(None) };
        let open = &mut self.open[index];
        let topics = Arc::clone(&open.part.topics);
        let mut message = match open.source.next_message()? {
            Some(next) => std::mem::replace(&mut open.next, next),
            None => {
                let open = self.open.swap_remove(index);
                self.take_leave(&open.part.path, open.source.as_ref());
                open.next
            }
        };
        message.topic = topics[message.topic];
        Ok(Some(message))
    }

    fn skip_before(&mut self, log_time_nanos: u64) {
        self.from_nanos = log_time_nanos;
    }

    fn start_time_nanos(&self) -> Option<u64> {
        let open = self.open.iter().map(|open| open.next.log_time_nanos).min();
        let part = self.parts.front().map(|part| part.start_time_nanos);
        open.into_iter().chain(part).min()
    }

    fn message_count(&self) -> Option<u64> {
        self.message_count
    }

    fn totals(&self) -> Option<SourceTotals> {
        let mut totals = self.totals.clone()?;
        // Those without messages come last.
        totals.counts.resize(self.topics.len(), 0);
        Some(totals)
    }

    fn lost_count(&self) -> u64 {
        let open = self.open.iter().map(|open| open.source.lost_count());
        open.fold(self.lost_count, u64::saturating_add)
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        loop {
            if self.attachments_of.is_none() {
                let Some(path) = self.attachment_files.pop_front() else { return Ok(None) };
                self.attachments_of = Some(self.files.open(&path)?);
            }
            let source = self.attachments_of.as_mut();
            match source.map(|source| source.next_attachment()).transpose()?.flatten() {
                Some(attachment) => return Ok(Some(attachment)),
                None => self.attachments_of = None,
            }
        }
    }

    fn metadata_records(&self) -> &[MetadataRecord] {
        &self.metadata_records
    }

    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.metadata.as_ref()
    }
}

/// Whether the profiles that a file gives its topic are among those of `metadata.yaml`, which is what
/// rosbag2 plays by. (Of several publishers each may have its own channel in an MCAP.)
fn has_qos_of(topic: &Topic, entry: &TopicEntry) -> bool {
    let own = topic.metadata.get("offered_qos_profiles").map_or("", String::as_str);
    let (Ok(own), Ok(of_bag)) = (QosProfile::parse_list(own), entry.qos_profiles()) else {
        return true;
    };
    let numbered = |profile: &QosProfile| profile.styled(QosStyle::Numbers);
    let of_bag: Vec<_> = of_bag.iter().map(numbered).collect();
    of_bag.is_empty() || own.iter().all(|profile| of_bag.contains(&numbered(profile)))
}

fn fill_in(topic: &mut Topic, entry: &TopicEntry) {
    if topic.type_name.is_empty() {
        topic.type_name = entry.type_name.clone();
    }
    if !has_qos_of(topic, entry) {
        topic.metadata.remove("offered_qos_profiles");
    }
    let known = [
        ("offered_qos_profiles", &entry.offered_qos_profiles),
        ("topic_type_hash", &entry.type_description_hash),
    ];
    for (key, value) in known {
        if !value.is_empty() && !topic.metadata.contains_key(key) {
            topic.metadata.insert(key.to_owned(), value.clone());
        }
    }
}

pub(crate) fn read_metadata(path: &Path) -> Result<Option<BagMetadata>, ConvertError> {
    let file = path.join(METADATA_FILE);
    if !file.exists() {
        return Ok(None);
    }
    let text =
        String::from_utf8(ForeignFile::open(&file)?.read_all(YAML_BYTES_MAX)?).map_err(|_| {
            ConvertError::damaged(&file, "expected YAML, found bytes that are not UTF-8")
        })?;
    let metadata =
        BagMetadata::parse(&text).map_err(|error| ConvertError::damaged(&file, error))?;
    let mode = metadata.compression_mode.to_ascii_uppercase();
    let is_read = match &*mode {
        "" | "NONE" => true,
        "FILE" | "MESSAGE" => metadata.compression_format.eq_ignore_ascii_case("zstd"),
        _ => false,
    };
    if !is_read {
        let reason = format!(
            "it is compressed by rosbag2 (compression mode {mode}, format {:?}); modes FILE and \
             MESSAGE of format zstd are read. Write it uncompressed with ros2 bag convert first",
            metadata.compression_format
        );
        return Err(ConvertError::unsupported(path, reason));
    }
    if !matches!(&*metadata.storage_identifier, "mcap" | "sqlite3" | "") {
        let reason =
            format!("its storage is {:?}; mcap and sqlite3 are read", metadata.storage_identifier);
        return Err(ConvertError::unsupported(path, reason));
    }
    Ok(Some(metadata))
}

/// The storage that a file is of, by its name.
pub(crate) fn storage_of(path: &Path) -> Option<&'static str> {
    match plain_name(path).extension()?.to_str()? {
        "mcap" => Some("mcap"),
        "db3" => Some("sqlite3"),
        _ => None,
    }
}

/// The MCAP files and databases of a directory, compressed or not, `bag_2` before `bag_10`.
pub(crate) fn files_in(path: &Path) -> Result<Vec<PathBuf>, ConvertError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        path.read_dir()?.map(|entry| Ok(entry?.path())).collect()
    };
    let mut files = list().map_err(|source| ConvertError::io("list", path, source))?;
    files.retain(|file| storage_of(file).is_some());
    if files.is_empty() {
        let found = "a directory without metadata.yaml, .mcap and .db3".to_owned();
        return Err(ConvertError::Foreign { path: path.to_owned(), found });
    }
    files.sort_by_cached_key(|file| {
        let name = plain_name(file);
        let name = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let number: Option<u64> = name[prefix.len()..].parse().ok();
        (prefix.to_owned(), number, name, file.clone())
    });
    // A crash while a file was being compressed leaves both; the plain one, which sorts first, is
    // whole.
    files.dedup_by_key(|file| plain_name(file));
    Ok(files)
}
