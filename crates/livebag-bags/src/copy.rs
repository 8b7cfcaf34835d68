//! From any recording into a container, and from any recording into a rosbag2 bag.

use std::collections::BTreeMap;
use std::path::Path;

use livebag_format::Topic;
use livebag_format::container::{CONTAINER_FILE, MetadataEntry};
use livebag_format::event::{EVENT_RECORD, Event};

use super::accounts::{is_account, lacks};
use super::attachments::{AttachmentsFile, Taken};
use super::{
    Attachment, ConvertError, MessageSource, MetadataRecord, Rosbag2Options, Rosbag2Storage,
    Rosbag2Written, SinkOptions, SinkSummary, SourceMessage, Sqlite3Options, Sqlite3Summary,
    attachments, open_foreign, to_rosbag2,
};
use livebag::{Account, Container, ContainerState, Query, Span};
use livebag::{Overflow, Recorder, RecorderOptions, Status};

/// Name under which a container keeps rosbag2's `custom_data`.
const CUSTOM_DATA: &str = "rosbag2.custom_data";
/// Name and key under which a container keeps rosbag2's `ros_distro`.
const ROS_DISTRO: (&str, &str) = ("rosbag2", "ros_distro");

/// Progress of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages copied.
    pub messages: u64,
    /// Messages to copy, if the source says.
    pub messages_total: Option<u64>,
    /// Bytes of messages copied.
    pub bytes: u64,
}

/// Result of a conversion.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// Topics, also those without messages.
    pub topics: usize,
    /// Messages.
    pub messages: u64,
    /// Bytes of messages.
    pub bytes: u64,
    /// Attachments.
    pub attachments: u64,
    /// Attachments that were damaged and left out.
    pub lost_attachments: u64,
    /// What could not be read, or has no place in the target.
    pub warnings: Vec<String>,
}

impl Copied {
    pub(super) fn note(&mut self, taken: Taken) {
        self.attachments = taken.whole;
        self.lost_attachments = taken.lost;
        self.warnings.extend(taken.warnings);
    }
}

/// Opens anything that can be converted: a container, or what [`open_foreign`] takes.
///
/// # Errors
/// If it is none of these, or too damaged to read.
pub fn open_any(path: &Path) -> Result<Box<dyn MessageSource>, ConvertError> {
    match path.join(CONTAINER_FILE).exists() {
        true => container_source(Container::open(path)?),
        false => open_foreign(path),
    }
}

/// A container as a source.
///
/// # Errors
/// If it cannot be read.
pub fn container_source(bag: Container) -> Result<Box<dyn MessageSource>, ConvertError> {
    Ok(Box::new(ContainerSource::new(bag)?))
}

/// Copies everything into a new container. Messages keep bytes, times, sequence and topic. The container
/// has the source's account ([`MessageSource::accounts`]); if there is none and the source lacks messages, or some could
/// not be read, it says that it is not known how many.
///
/// # Errors
/// If the source cannot be read, or the container cannot be written; the messages copied until then are in a closed
/// container.
pub fn to_container(
    source: &mut dyn MessageSource,
    directory: &Path,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<Copied, ConvertError> {
    let mut taken = Taken::default();
    let first = taken.next(source)?;
    let options = RecorderOptions {
        has_attachments: first.is_some(),
        overflow: Overflow::Block,
        chunk_age_max: None,
        profile: source.profile().to_owned(),
        count_gaps: false,
        metadata: container_metadata(source),
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(directory, options)?;
    if let Some(first) = first {
        let mut file = AttachmentsFile::create(directory, source.profile())?;
        file.add(&first)?;
        while let Some(attachment) = taken.next(source)? {
            file.add(&attachment)?;
        }
        file.finish()?;
    }
    for event in events(source) {
        recorder.event(&event.name, &event.text, (event.from_nanos, event.to_nanos))?;
    }
    let writers = source
        .topics()
        .iter()
        .map(|topic| recorder.topic(topic.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    let accounts = source.accounts();
    let mut counts = vec![0; writers.len()];
    let copied = copy(source, on_progress, &mut |message| {
        counts[message.topic] += 1;
        let written = writers[message.topic].write_message(&message.as_message());
        written.map_err(|error| ConvertError::Write {
            path: directory.to_owned(),
            reason: match recorder.status().failure {
                Some(failure) => failure.to_string(),
                None => error.to_string(),
            },
        })
    });
    let is_known = accounts.as_ref().is_some_and(|accounts| {
        accounts.iter().map(|account| account.recorded).eq(counts.iter().copied())
    });
    if source.lost_count() > 0 || (!is_known && source.lacks_messages()) {
        // By topic it is not known how many.
        recorder.lacks_messages();
    }
    if let Some(accounts) = accounts.filter(|_| is_known) {
        recorder.inherit(accounts);
    }
    let closed = recorder.finish();
    let mut copied = copied?;
    check_count(directory, &closed?, copied.messages)?;
    copied.note(taken);
    Ok(copied)
}

/// A container that lacks a message it was given is a failure, not a warning.
fn check_count(path: &Path, status: &Status, messages: u64) -> Result<(), ConvertError> {
    let (written, _, lost) = status.totals();
    if written == messages && lost.total() == 0 {
        return Ok(());
    }
    let reason = format!("{written} of {messages} messages are in it, {} lost", lost.total());
    Err(ConvertError::Write { path: path.to_owned(), reason })
}

/// Copies everything into a new rosbag2 bag: one MCAP with `metadata.yaml`.
///
/// # Errors
/// If the source cannot be read, or the bag cannot be written.
pub fn to_mcap(
    source: &mut dyn MessageSource,
    directory: &Path,
    options: SinkOptions,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<(Copied, SinkSummary), ConvertError> {
    let storage = Rosbag2Storage::Mcap(options);
    let (copied, mut written) =
        to_rosbag2(source, directory, storage, Rosbag2Options::default(), on_progress)?;
    let summary = SinkSummary {
        mcap_path: written.files.pop().unwrap_or_default(),
        message_count: written.metadata.message_count,
        file_bytes: written.file_bytes,
        metadata: written.metadata,
    };
    Ok((copied, summary))
}

/// Copies everything into a new rosbag2 bag: one SQLite database with `metadata.yaml`. A message
/// has one time there, its log time, and no sequence; nothing else has a place. Warnings list what was left out.
///
/// # Errors
/// If the source cannot be read, or the bag cannot be written.
pub fn to_sqlite3(
    source: &mut dyn MessageSource,
    directory: &Path,
    options: Sqlite3Options,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<(Copied, Sqlite3Summary), ConvertError> {
    let storage = Rosbag2Storage::Sqlite3(options);
    let (copied, mut written) =
        to_rosbag2(source, directory, storage, Rosbag2Options::default(), on_progress)?;
    let path = written.files.pop().unwrap_or_default();
    let Rosbag2Written { metadata, file_bytes, .. } = written;
    Ok((copied, Sqlite3Summary { path, file_bytes, metadata }))
}

/// What rosbag2's metadata say of the bag as a whole.
#[derive(Default)]
pub(super) struct AboutRecording {
    pub(super) custom_data: BTreeMap<String, String>,
    pub(super) ros_distro: String,
}

/// That, wherever the source has it, and its other metadata records.
pub(super) fn about_bag(source: &dyn MessageSource) -> (AboutRecording, Vec<MetadataRecord>) {
    let mut about = AboutRecording::default();
    if let Some(bag) = source.bag_metadata() {
        about.custom_data = bag.custom_data.clone();
        about.custom_data.retain(|key, _| !is_account(key));
        about.ros_distro = bag.ros_distro.clone();
    }
    let mut records = source.metadata_records().to_vec();
    records.retain(|record| {
        match record.name.as_str() {
            CUSTOM_DATA => about.custom_data = record.values.clone(),
            // A foreign record of that name has another meaning.
            name if name == ROS_DISTRO.0 && record.values.keys().eq([ROS_DISTRO.1]) => {
                about.ros_distro = record.values.get(ROS_DISTRO.1).cloned().unwrap_or_default();
            }
            _ => return true,
        }
        false
    });
    (about, records)
}

/// Messages between two reports of progress.
const PROGRESS_EVERY: u64 = 256;

pub(super) fn copy(
    source: &mut dyn MessageSource,
    on_progress: &mut dyn FnMut(&Progress),
    write: &mut dyn FnMut(&SourceMessage) -> Result<(), ConvertError>,
) -> Result<Copied, ConvertError> {
    let mut progress = Progress { messages_total: source.message_count(), ..Progress::default() };
    while let Some(message) = source.next_message()? {
        write(&message)?;
        progress.messages += 1;
        progress.bytes += message.data.len() as u64;
        if progress.messages.is_multiple_of(PROGRESS_EVERY) {
            on_progress(&progress);
        }
    }
    on_progress(&progress);
    Ok(Copied {
        topics: source.topics().len(),
        messages: progress.messages,
        bytes: progress.bytes,
        attachments: 0,
        lost_attachments: 0,
        warnings: source.warnings().to_vec(),
    })
}

fn container_metadata(source: &dyn MessageSource) -> Vec<MetadataEntry> {
    let mut all: Vec<_> = source
        .metadata_records()
        .iter()
        .filter(|record| event(record).is_none())
        .map(|record| MetadataEntry { name: record.name.clone(), values: record.values.clone() })
        .collect();
    if let Some(bag) = source.bag_metadata() {
        let mut values = bag.custom_data.clone();
        // The container has an account of its own.
        values.retain(|key, _| !is_account(key));
        if !values.is_empty() {
            all.push(MetadataEntry { name: CUSTOM_DATA.into(), values });
        }
        if !bag.ros_distro.is_empty() {
            let values = BTreeMap::from([(ROS_DISTRO.1.to_owned(), bag.ros_distro.clone())]);
            all.push(MetadataEntry { name: ROS_DISTRO.0.into(), values });
        }
    }
    all
}

/// The event of a metadata record, if a container can store it.
fn event(record: &MetadataRecord) -> Option<Event> {
    let event = Event::from_values(&record.values).filter(|_| record.name == EVENT_RECORD);
    event.filter(livebag::internal::is_event)
}

/// The events among a recording's metadata records, in order of time.
pub fn events(source: &dyn MessageSource) -> Vec<Event> {
    let mut events: Vec<_> = source.metadata_records().iter().filter_map(event).collect();
    events.sort_by_key(|event| event.from_nanos);
    events
}

/// A container as a source.
struct ContainerSource {
    bag: Container,
    topics: Vec<Topic>,
    records: Vec<MetadataRecord>,
    warnings: Vec<String>,
    /// According to its own account.
    lacks_messages: bool,
    accounts: Option<Vec<Account>>,
    attachments: std::vec::IntoIter<Attachment>,
    /// Index entries of the messages not yet given, a stretch at a time.
    stretch: std::vec::IntoIter<SourceMessage>,
    /// Start of the next stretch: messages already returned at exactly this log time are skipped.
    next_nanos: u64,
    given_at_next: u64,
    end_nanos: u64,
    message_count: u64,
    /// Recorded, and out of reach since files are gone or cut. Not in `message_count`.
    missing: u64,
    given: u64,
    done: bool,
}

/// Messages read at once: bounded in number and bytes.
const STRETCH_MESSAGES: usize = 4096;
const STRETCH_BYTES: usize = 16 << 20;

impl ContainerSource {
    fn new(bag: Container) -> Result<Self, ConvertError> {
        let mut warnings = Vec::new();
        if bag.state() == ContainerState::Live {
            warnings.push("the container is still being written: copied up to now".to_owned());
        }
        let lost = bag.lost().total();
        if lost > 0 {
            warnings.push(format!("{lost} messages were lost when it was recorded"));
        }
        let account = bag.account()?;
        let missing = bag.missing()?;
        let lacks_messages = missing > 0 || lacks(&account);
        let accounts = bag.accounts()?;
        // Older versions counted removed messages only for all topics together.
        let removed = accounts.iter().map(|account| account.removed).sum::<u64>();
        let accounts = (missing == 0 && removed == account.removed).then_some(accounts);
        let range = bag.time_range()?;
        let counts = bag.topics().iter().map(|topic| topic.message_count());
        let message_count = counts.sum::<Result<u64, _>>()?;
        let records = bag
            .metadata()
            .iter()
            .map(|entry| MetadataRecord { name: entry.name.clone(), values: entry.values.clone() });
        let events = bag.events()?.into_iter().map(|event| MetadataRecord {
            name: EVENT_RECORD.to_owned(),
            values: event.to_values(),
        });
        Ok(Self {
            topics: bag.topics().iter().map(|topic| topic.topic().clone()).collect(),
            records: records.chain(events).collect(),
            warnings,
            lacks_messages,
            accounts,
            attachments: attachments(&bag)?.into_iter(),
            stretch: Vec::new().into_iter(),
            next_nanos: range.map_or(0, |(start, _)| start),
            given_at_next: 0,
            end_nanos: range.map_or(0, |(_, end)| end),
            message_count,
            missing,
            given: 0,
            done: range.is_none(),
            bag,
        })
    }

    /// Reads on from where the last stretch ended. A cursor borrows the bag, so one cannot be kept;
    /// planning a new one every few thousand messages costs nothing that shows.
    fn read_stretch(&mut self) -> Result<(), ConvertError> {
        let span = Span::History(self.next_nanos, self.end_nanos);
        let mut cursor = self.bag.query(&Query { topics: Vec::new(), span })?;
        for _ in 0..self.given_at_next {
            // Not by entry: a damaged message was not given.
            cursor.next()?;
        }
        let mut messages = Vec::new();
        let mut bytes = 0;
        while messages.len() < STRETCH_MESSAGES && bytes < STRETCH_BYTES {
            let Some((topic, message)) = cursor.next()? else {
                self.done = true;
                break;
            };
            if message.log_time_nanos != self.next_nanos {
                (self.next_nanos, self.given_at_next) = (message.log_time_nanos, 0);
            }
            self.given_at_next += 1;
            bytes += message.data.len();
            messages.push(SourceMessage {
                topic,
                log_time_nanos: message.log_time_nanos,
                publish_time_nanos: message.publish_time_nanos,
                sequence: message.sequence,
                data: message.data.to_vec(),
            });
        }
        if cursor.damaged() > 0 {
            let warning = "damaged messages were left out: `livebag verify` names them";
            if self.warnings.iter().all(|said| said != warning) {
                self.warnings.push(warning.to_owned());
            }
        }
        self.stretch = messages.into_iter();
        Ok(())
    }
}

impl MessageSource for ContainerSource {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn profile(&self) -> &str {
        self.bag.profile()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        if self.stretch.len() == 0 && !self.done {
            self.read_stretch()?;
        }
        let next = self.stretch.next();
        self.given += u64::from(next.is_some());
        Ok(next)
    }

    fn lost_count(&self) -> u64 {
        match self.done && self.stretch.len() == 0 {
            true => self.message_count.saturating_sub(self.given).saturating_add(self.missing),
            false => 0,
        }
    }

    fn accounts(&self) -> Option<Vec<Account>> {
        self.accounts.clone()
    }

    fn lacks_messages(&self) -> bool {
        self.lacks_messages || self.lost_count() > 0
    }

    fn start_time_nanos(&self) -> Option<u64> {
        (!self.done).then_some(self.next_nanos)
    }

    fn message_count(&self) -> Option<u64> {
        Some(self.message_count)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        Ok(self.attachments.next())
    }

    fn metadata_records(&self) -> &[MetadataRecord] {
        &self.records
    }
}
