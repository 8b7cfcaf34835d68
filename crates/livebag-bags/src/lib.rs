//! Bags in other formats (rosbag2, MCAP, ROS 1): read as one stream of messages, written as rosbag2 bags, checked.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let (run, bag) = (folder.path().join("run1"), folder.path().join("run1_bag"));
//! # let recorder = livebag::Recorder::create(&run, livebag::RecorderOptions::default())?;
//! # let topic = livebag::Topic { name: "/note".into(), message_encoding: "json".into(), ..Default::default() };
//! # recorder.topic(topic)?.write(None, 1, b"{}")?;
//! # recorder.finish()?;
//! use livebag_bags::{Rosbag2Options, Rosbag2Storage, SinkOptions, open_any, to_rosbag2};
//!
//! let mut source = open_any(&run)?; // a container, a rosbag2 bag, an MCAP file or a ROS 1 bag
//! let storage = Rosbag2Storage::Mcap(SinkOptions::default());
//! to_rosbag2(&mut *source, &bag, storage, Rosbag2Options::default(), &mut |_| {})?;
//!
//! let mut source = open_any(&bag)?;
//! while let Some(message) = source.next_message()? {
//!     println!("{} {}", source.topics()[message.topic].name, message.log_time_nanos);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`open_foreign`] recognises a format by the contents. Every [`MessageSource`] promises:
//!
//! - Topics are known when it is open. One name may stand for several topics if the recording
//!   distinguishes publishers (ROS 1 connections, MCAP channels): they differ in metadata or schema.
//! - Messages come in order of `log_time`; those of equal time in the order of the recording.
//! - Memory is bounded by the chunks that overlap at one instant, not by the recording.
//! - Bytes, schemas, both times, sequences and metadata are those of the recording.
//! - Unreadable parts of a damaged recording are listed in [`MessageSource::warnings`], which is
//!   complete after the last message.

mod accounts;
mod attachments;
mod bag_metadata;
mod compressed;
mod copy;
mod error;
mod file;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod mcap_contents;
mod mcap_file;
mod mcap_records;
mod mcap_resync;
mod mcap_scan;
mod mcap_sink;
mod merge;
mod merged;
mod player;
mod record_sqlite;
mod reindex;
mod ros1_bag;
mod ros2;
mod rosbag2_dir;
mod rosbag2_writer;
mod salvage;
mod selected;
#[cfg(feature = "sqlite3")]
mod sqlite;
#[cfg(not(feature = "sqlite3"))]
mod sqlite_absent;
#[cfg(feature = "sqlite3")]
mod sqlite_connection;
mod sqlite_options;
#[cfg(feature = "sqlite3")]
mod sqlite_pages;
#[cfg(feature = "sqlite3")]
mod sqlite_writer;
mod temporary;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use livebag::Account;
use livebag_format::Topic;
use livebag_format::mcap::MAGIC as MCAP_MAGIC;
use livebag_format::ros1::bag::MAGIC_ANY_VERSION as ROS1_MAGIC;
use livebag_format::rosbag2::BagMetadata;

pub use attachments::{Attachment, AttachmentData, attachments};
pub(crate) use bag_metadata::joined_metadata;
pub use bag_metadata::{make_rosbag2, write_bag_metadata};
pub(crate) use compressed::{Unpacked, ZSTD_MAGIC, is_compressed, plain_name, standing_for};
pub use copy::{
    Copied, Progress, container_source, events, open_any, to_container, to_mcap, to_sqlite3,
};
pub use error::ConvertError;
pub use livebag::{SourceMessage, SourceTotals};
pub(crate) use mcap_file::{McapSummary, mcap_summary};
pub use mcap_sink::{McapSink, SinkCompression, SinkOptions, SinkSummary};
pub use merged::merged;
pub use player::{open_playable, open_player, playable, survey_play};
pub use record_sqlite::record_sqlite;
pub use reindex::{Reindexed, reindex};
pub(crate) use reindex::{difference, survey};
pub use ros2::to_ros2;
pub(crate) use rosbag2_dir::{METADATA_FILE, files_in, read_metadata};
pub use rosbag2_writer::{
    Rosbag2Compression, Rosbag2Options, Rosbag2Storage, Rosbag2Written, to_rosbag2,
};
pub use salvage::{Salvaged, salvage};
pub use selected::{TopicFilter, selected};
#[cfg(not(feature = "sqlite3"))]
pub use sqlite_absent::Sqlite3Writer;
#[cfg(not(feature = "sqlite3"))]
pub(crate) use sqlite_absent::check_integrity;
#[cfg(feature = "sqlite3")]
pub(crate) use sqlite_connection::check_integrity;
pub use sqlite_options::{Sqlite3Options, Sqlite3Preset, Sqlite3Summary};
#[cfg(feature = "sqlite3")]
pub use sqlite_writer::Sqlite3Writer;
pub use verify::{
    Damage, Glance, GlanceState, RecordingKind, Verified, VerifyError, VerifyProgress, glance,
    verify, verify_on,
};

use file::ForeignFile;

/// Longest chunk, compressed or not, that is read into memory from a foreign file.
const CHUNK_BYTES_MAX: u64 = 1 << 30;
/// Longest `metadata.yaml` that is read.
const YAML_BYTES_MAX: usize = 64 << 20;

/// Bytes of all topics' schemas, which many topics share in a file, and none in memory.
#[derive(Default)]
struct SchemaBytes(usize);

impl SchemaBytes {
    /// Ten times the size of a thousand of the longest real ones.
    const MAX: usize = 256 << 20;

    fn add(&mut self, path: &Path, bytes: usize) -> Result<(), ConvertError> {
        self.0 += bytes;
        if self.0 <= Self::MAX {
            return Ok(());
        }
        let reason = format!(
            "the schemas of its topics would take more than {} MiB of memory",
            Self::MAX >> 20
        );
        Err(ConvertError::unsupported(path, reason))
    }
}

/// Named keys and values stored in a recording (MCAP metadata).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct MetadataRecord {
    /// Their subject.
    pub name: String,
    /// The keys and values.
    pub values: BTreeMap<String, String>,
}

/// Adds the records of one more file. Records that earlier files have as often are not repeated: a recorder writes the
/// same record into each of its files.
fn add_records(all: &mut Vec<MetadataRecord>, of_file: &[MetadataRecord]) {
    let before = std::mem::take(all);
    let mut known: HashMap<&MetadataRecord, usize> = HashMap::new();
    for record in &before {
        *known.entry(record).or_default() += 1;
    }
    let mut new = Vec::new();
    for record in of_file {
        match known.get_mut(record) {
            Some(times) if *times > 0 => *times -= 1,
            _ => new.push(record.clone()),
        }
    }
    *all = before;
    all.append(&mut new);
}

/// A recording, read front to back; on any thread, one at a time.
pub trait MessageSource: Send {
    /// The recording whose messages this one passes on, changed or chosen: what this one does not say
    /// itself, that one says.
    fn inner(&self) -> Option<&dyn MessageSource> {
        None
    }
    /// The same, to be read.
    fn inner_mut(&mut self) -> Option<&mut dyn MessageSource> {
        None
    }
    /// The topics, also those without messages.
    fn topics(&self) -> &[Topic];
    /// `ros1`, `ros2`, or empty.
    fn profile(&self) -> &str;
    /// The next message in order of `log_time`; `None` after the last.
    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError>;
    /// Messages before this log time are not asked for, and are left out where that saves reading
    /// them; others may still come. To be called before the first message is taken.
    fn skip_before(&mut self, log_time_nanos: u64) {
        if let Some(inner) = self.inner_mut() {
            inner.skip_before(log_time_nanos);
        }
    }
    /// Log time of the next message, according to the recording's index.
    fn start_time_nanos(&self) -> Option<u64>;
    /// Messages in the recording, if it says.
    fn message_count(&self) -> Option<u64> {
        self.inner()?.message_count()
    }
    /// Totals of the recording, without reading its messages; `None` if it would have to be. To be called before the
    /// first message is taken.
    fn totals(&self) -> Option<SourceTotals> {
        self.inner()?.totals()
    }
    /// Known missing messages so far, a lower bound: a missing end of unknown length counts as one.
    fn lost_count(&self) -> u64 {
        self.inner().map_or(0, |inner| inner.lost_count())
    }
    /// Whether messages are known to be missing that were published while it was recorded: lost then, or damaged since.
    fn lacks_messages(&self) -> bool {
        self.lost_count() > 0
            || self.bag_metadata().is_some_and(accounts::lacks_messages)
            || self.inner().is_some_and(|inner| inner.lacks_messages())
    }
    /// The account of each topic, as its recorder counted; `None` if it is not known, as for a part of a recording. One
    /// whose count of recorded messages is not that of the messages given no longer holds.
    fn accounts(&self) -> Option<Vec<Account>> {
        match self.inner() {
            Some(inner) => inner.accounts(),
            None => accounts::of_bag(self.bag_metadata()?, self.topics()),
        }
    }
    /// Whether messages so far were compressed one by one (rosbag2's mode MESSAGE). They are given decompressed.
    fn has_compressed_messages(&self) -> bool {
        self.inner().is_some_and(|inner| inner.has_compressed_messages())
    }
    /// Warnings, as sentences.
    fn warnings(&self) -> &[String];
    /// Those warnings that tell of no damage, but of something unusual.
    fn notes(&self) -> &[String] {
        self.inner().map_or(&[], |inner| inner.notes())
    }
    /// The next attachment, damaged ones included ([`Attachment::damage`]); `None` after the last. In any
    /// order with the messages.
    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        self.inner_mut().map_or(Ok(None), |inner| inner.next_attachment())
    }
    /// Metadata records, rosbag2's own left out.
    fn metadata_records(&self) -> &[MetadataRecord] {
        self.inner().map_or(&[], |inner| inner.metadata_records())
    }
    /// What rosbag2 says of the bag, where it does (custom data, ROS distribution).
    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.inner()?.bag_metadata()
    }
}

/// A source's warnings about damage, each once, and a limited number of them.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Warnings {
    const MAX: usize = 100;

    fn say(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if self.0.len() < Self::MAX && !self.0.contains(&warning) {
            self.0.push(warning);
        } else if self.0.len() == Self::MAX {
            self.0.push("there is more damage, which is not listed".to_owned());
        }
    }

    fn all(&self) -> &[String] {
        &self.0
    }
}

/// Opens a ROS 1 bag, an MCAP file, a rosbag2 database or a rosbag2 directory, recognised by its contents.
pub fn open_foreign(path: &Path) -> Result<Box<dyn MessageSource>, ConvertError> {
    if path.is_dir() {
        return Ok(Box::new(rosbag2_dir::Rosbag2Dir::open(path)?));
    }
    open_file(path)
}

/// Opens a ROS 1 bag or an MCAP file on any disk.
pub fn open_foreign_on(
    disk: &dyn livebag::ReadDisk,
    path: &Path,
) -> Result<Box<dyn MessageSource>, ConvertError> {
    let file = ForeignFile::open_on(disk, path)?;
    let head = file.read_up_to(0, 16)?;
    match open_by_offset(file, &head)? {
        Some(source) => Ok(source),
        None if is_sqlite(&head) || is_compressed(path) => {
            let reason =
                "databases and compressed files are read on a disk only: copy it here first";
            Err(ConvertError::unsupported(path, reason))
        }
        None => Err(ConvertError::Foreign { path: path.to_owned(), found: describe(&head) }),
    }
}

/// Opens a single file.
fn open_file(path: &Path) -> Result<Box<dyn MessageSource>, ConvertError> {
    let file = ForeignFile::open(path)?;
    let head = file.read_up_to(0, 16)?;
    if let Some(source) = open_by_offset(file, &head)? {
        return Ok(source);
    }
    if is_sqlite(&head) {
        #[cfg(feature = "sqlite3")]
        let source: Box<dyn MessageSource> = Box::new(sqlite::SqliteBag::open(path)?);
        #[cfg(not(feature = "sqlite3"))]
        let source = sqlite_absent::open(path)?;
        Ok(compressed::with_messages_unpacked(source))
    } else if is_compressed(path) && !is_compressed(&plain_name(path)) {
        compressed::open_compressed(path)
    } else {
        Err(ConvertError::Foreign { path: path.to_owned(), found: describe(&head) })
    }
}

/// The formats of which only parts of the file are read. `None` if it is none of them.
fn open_by_offset(
    file: ForeignFile,
    head: &[u8],
) -> Result<Option<Box<dyn MessageSource>>, ConvertError> {
    if head.starts_with(ROS1_MAGIC) {
        return Ok(Some(Box::new(ros1_bag::Ros1Bag::open(file)?)));
    }
    if head.starts_with(&MCAP_MAGIC) {
        let source = Box::new(mcap_file::McapFile::open(file)?);
        return Ok(Some(compressed::with_messages_unpacked(source)));
    }
    Ok(None)
}

fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

/// The start of a file, in words.
fn describe(head: &[u8]) -> String {
    match head {
        [] => "an empty file".to_owned(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            "a zstd-compressed file (decompress it first: zstd -d)".to_owned()
        }
        _ if head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) => {
            format!("text that begins {:?}", String::from_utf8_lossy(head))
        }
        _ => {
            let hex: Vec<_> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
            format!("a file that begins with the bytes {}", hex.join(" "))
        }
    }
}
