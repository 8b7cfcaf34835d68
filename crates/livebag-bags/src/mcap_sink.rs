//! Writes a rosbag2 bag: a directory with one MCAP and `metadata.yaml`.
//!
//! It follows the requirements of rosbag2 and the common readers: every channel has a schema (an empty one if need be),
//! every message is in a chunk, no chunk is without a message, the summary has statistics, and rosbag2's own metadata
//! record is at the beginning and at the end.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use livebag_format::rosbag2::{BagMetadata, MetadataVersion, QosProfile};
use livebag_format::{Message, Topic, definitions};
use mcap::records::MessageHeader;
use mcap::{Compression, WriteOptions, Writer};

use super::accounts;
use super::attachments::refused;
use super::bag_metadata::{metadata_of_file, write_bag_metadata};
use super::file::ForeignFile;
use super::{Attachment, ConvertError, MetadataRecord};

/// Uncompressed size at which a chunk is closed.
const CHUNK_BYTES: u64 = 1 << 20;
/// Buffered bytes before a write to the file.
const BUFFER_BYTES: usize = 1 << 20;

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SinkCompression {
    /// Not at all.
    #[default]
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

impl SinkCompression {
    /// Whether chunks are left as they are.
    pub fn is_none(self) -> bool {
        self == SinkCompression::None
    }
}

/// How a bag is written.
#[derive(Clone, Debug, Default)]
pub struct SinkOptions {
    /// `ros1`, `ros2`, or empty.
    pub profile: String,
    /// Version of `metadata.yaml`.
    pub metadata_version: MetadataVersion,
    /// Compression of chunks.
    pub compression: SinkCompression,
    /// How hard: the compressor's own level; 0 for its usual one.
    pub compression_level: u32,
    /// `custom_data` of the bag (from metadata version 6 on); in a conversion, in addition to the source's.
    pub custom_data: BTreeMap<String, String>,
    /// `ros_distro` of the bag (from metadata version 8 on).
    pub ros_distro: String,
}

/// The result of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SinkSummary {
    /// The MCAP file.
    pub mcap_path: PathBuf,
    /// Messages in it.
    pub message_count: u64,
    /// Its length.
    pub file_bytes: u64,
    /// What `metadata.yaml` says of a bag of this one file.
    pub metadata: BagMetadata,
}

/// A record other than a message.
enum Extra {
    Attachment(Attachment),
    Metadata(MetadataRecord),
}

type McapWriter = Writer<BufWriter<File>>;

/// A rosbag2 bag being written. [`finish`](McapSink::finish) makes it whole; a sink that is only
/// dropped leaves an MCAP without `metadata.yaml`.
pub struct McapSink {
    /// The bag's directory; `None` if only the file is written.
    directory: Option<PathBuf>,
    path: PathBuf,
    has_bag_record: bool,
    options: SinkOptions,
    topics: Vec<Topic>,
    /// MCAP's channel by topic, once it was written.
    channels: Vec<Option<u16>>,
    message_counts: Vec<u64>,
    /// First and last log time.
    span: Option<(u64, u64)>,
    /// Whether the last thing written was a message, whose chunk is still open.
    chunk_is_open: bool,
    /// Records added before the first message, in case there is none.
    extras: Vec<Extra>,
    /// `None` after a failure: nothing more is written then.
    writer: Option<McapWriter>,
}

impl McapSink {
    /// Makes the directory, which must not exist, and begins the MCAP in it.
    pub fn create(
        directory: &Path,
        topics: &[Topic],
        options: SinkOptions,
    ) -> Result<Self, ConvertError> {
        std::fs::create_dir(directory)
            .map_err(|source| ConvertError::io("create the directory", directory, source))?;
        let stem = directory.file_name().unwrap_or("bag".as_ref()).to_string_lossy();
        let path = directory.join(format!("{stem}_0.mcap"));
        Self::start(Some(directory.to_owned()), path, topics, options, true)
    }

    /// Begins the MCAP file `path`, which must not exist, without a bag around it; with rosbag2's
    /// own record only if `has_bag_record`.
    pub(super) fn create_file(
        path: &Path,
        topics: &[Topic],
        options: SinkOptions,
        has_bag_record: bool,
    ) -> Result<Self, ConvertError> {
        Self::start(None, path.to_owned(), topics, options, has_bag_record)
    }

    fn start(
        directory: Option<PathBuf>,
        path: PathBuf,
        topics: &[Topic],
        options: SinkOptions,
        has_bag_record: bool,
    ) -> Result<Self, ConvertError> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, ForeignFile::create(&path)?);
        let mut sink = McapSink {
            directory,
            path,
            has_bag_record,
            options,
            topics: topics.to_vec(),
            channels: vec![None; topics.len()],
            message_counts: vec![0; topics.len()],
            span: None,
            chunk_is_open: false,
            extras: Vec::new(),
            writer: None,
        };
        sink.begin(file, true)?;
        Ok(sink)
    }

    /// The file with its header and rosbag2's record.
    fn begin(&mut self, file: BufWriter<File>, chunked: bool) -> Result<(), ConvertError> {
        let options = WriteOptions::new()
            .profile(&self.options.profile)
            .library(concat!("livebag ", env!("CARGO_PKG_VERSION")))
            .compression(match self.options.compression {
                SinkCompression::None => None,
                SinkCompression::Lz4 => Some(Compression::Lz4),
                SinkCompression::Zstd => Some(Compression::Zstd),
            })
            .compression_level(self.options.compression_level)
            .use_chunks(chunked)
            .chunk_size(Some(CHUNK_BYTES));
        let writer = options.create(file).map_err(|error| self.refused(error))?;
        self.writer = Some(writer);
        let metadata = self.metadata();
        self.with_writer(|sink, writer| sink.write_bag_record(writer, &metadata))
    }

    /// Writes the next message of the topic with this index. Messages of a topic must come in order
    /// of log time for readers that rely on it.
    pub fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), ConvertError> {
        let Some(known) = self.channels.get(topic).copied() else {
            let reason = format!("topic {topic} of {} was given", self.channels.len());
            return Err(ConvertError::Write { path: self.path.clone(), reason });
        };
        self.with_writer(|sink, writer| {
            let channel_id = match known {
                Some(id) => id,
                None => sink.add_channel(writer, topic)?,
            };
            sink.channels[topic] = Some(channel_id);
            let header = MessageHeader {
                channel_id,
                sequence: message.sequence as u32,
                log_time: message.log_time_nanos,
                publish_time: message.publish_time_nanos,
            };
            writer.write_to_known_channel(&header, message.data)
        })?;
        self.chunk_is_open = true;
        self.extras.clear();
        self.message_counts[topic] += 1;
        let time = message.log_time_nanos;
        let (first, last) = self.span.unwrap_or((time, time));
        self.span = Some((first.min(time), last.max(time)));
        Ok(())
    }

    /// Adds an attachment, which is read a piece at a time.
    pub fn attach(&mut self, attachment: Attachment) -> Result<(), ConvertError> {
        self.add_extra(Extra::Attachment(attachment))
    }

    /// Adds a metadata record.
    pub fn add_metadata(&mut self, record: MetadataRecord) -> Result<(), ConvertError> {
        self.add_extra(Extra::Metadata(record))
    }

    fn add_extra(&mut self, extra: Extra) -> Result<(), ConvertError> {
        self.with_writer(|sink, writer| {
            // It closes the chunk, and a new one must not be opened only for channels.
            if sink.chunk_is_open {
                sink.add_remaining_channels(writer)?;
            }
            write_extra(writer, &extra)
        })?;
        self.chunk_is_open = false;
        if self.span.is_none() {
            self.extras.push(extra);
        }
        Ok(())
    }

    /// Notes in rosbag2's record that messages of the recording are missing, and that it is not known how many.
    pub(super) fn lacks_messages(&mut self) {
        accounts::forget(&mut self.options.custom_data);
        self.has_bag_record = true;
    }

    /// Closes the MCAP, makes it durable, and writes `metadata.yaml`.
    pub fn finish(mut self) -> Result<SinkSummary, ConvertError> {
        if self.span.is_none() {
            self.begin_again_unchunked()?;
        }
        let metadata = self.metadata();
        self.with_writer(|sink, writer| {
            sink.add_remaining_channels(writer)?;
            sink.write_bag_record(writer, &metadata)?;
            writer.finish().map(|_| ())
        })?;
        let Some(writer) = self.writer.take() else { return Err(self.given_up()) };
        let io = |source| ConvertError::io("write", &self.path, source);
        let file = writer.into_inner().into_inner().map_err(|error| io(error.into_error()))?;
        file.sync_all().map_err(io)?;
        let file_bytes = file.metadata().map_err(io)?.len();
        if let Some(directory) = &self.directory {
            write_bag_metadata(directory, &metadata, self.options.metadata_version)?;
        }
        let message_count = self.message_counts.iter().sum();
        Ok(SinkSummary { mcap_path: self.path, message_count, file_bytes, metadata })
    }

    /// A bag without messages: its channels cannot be in a chunk, which must hold a message.
    fn begin_again_unchunked(&mut self) -> Result<(), ConvertError> {
        let Some(writer) = self.writer.take() else { return Err(self.given_up()) };
        let io = |source| ConvertError::io("write", &self.path, source);
        let mut file = writer.into_inner();
        file.seek(SeekFrom::Start(0)).map_err(io)?;
        file.get_ref().set_len(0).map_err(io)?;
        self.begin(file, false)?;
        let extras = std::mem::take(&mut self.extras);
        self.with_writer(|_, writer| extras.iter().try_for_each(|extra| write_extra(writer, extra)))
    }

    /// Runs `write`; after its first failure nothing is written any more.
    fn with_writer(
        &mut self,
        write: impl FnOnce(&mut Self, &mut McapWriter) -> mcap::McapResult<()>,
    ) -> Result<(), ConvertError> {
        let Some(mut writer) = self.writer.take() else { return Err(self.given_up()) };
        match write(self, &mut writer) {
            Ok(()) => {
                self.writer = Some(writer);
                Ok(())
            }
            Err(error) => {
                // Dropped, the writer would write its summary to a disk that has just failed.
                let _ = writer.into_inner().into_parts();
                Err(self.refused(error))
            }
        }
    }

    fn refused(&self, error: mcap::McapError) -> ConvertError {
        refused(&self.path, error)
    }

    fn given_up(&self) -> ConvertError {
        ConvertError::GivenUp { path: self.path.clone() }
    }

    /// The channels of topics without messages, into the open chunk.
    fn add_remaining_channels(&mut self, writer: &mut McapWriter) -> mcap::McapResult<()> {
        for topic in 0..self.topics.len() {
            if self.channels[topic].is_none() {
                self.channels[topic] = Some(self.add_channel(writer, topic)?);
            }
        }
        Ok(())
    }

    fn add_channel(&self, writer: &mut McapWriter, topic: usize) -> mcap::McapResult<u16> {
        let topic = &self.topics[topic];
        let bundled = (topic.schema.is_empty() && topic.message_encoding == "cdr")
            .then(|| definitions::schema(&topic.type_name))
            .flatten();
        let schema_id = match &bundled {
            Some(text) => writer.add_schema(&topic.type_name, "ros2msg", text.as_bytes())?,
            // MCAP's number for no schema.
            None if !topic.has_schema() => 0,
            None => writer.add_schema(&topic.type_name, &topic.schema_encoding, &topic.schema)?,
        };
        let mut metadata = topic.metadata.clone();
        if let Some(qos) = metadata.get_mut("offered_qos_profiles") {
            // Readers of older versions accept only numbers.
            *qos = QosProfile::restyled(qos, self.options.metadata_version.qos_style());
        }
        writer.add_channel(schema_id, &topic.name, &topic.message_encoding, &metadata)
    }

    fn write_bag_record(
        &self,
        writer: &mut McapWriter,
        metadata: &BagMetadata,
    ) -> mcap::McapResult<()> {
        if !self.has_bag_record {
            return Ok(());
        }
        let yaml = metadata.to_mcap_record(self.options.metadata_version);
        writer.write_metadata(&mcap::records::Metadata {
            name: "rosbag2".to_owned(),
            metadata: [("serialized_metadata".to_owned(), yaml)].into(),
        })
    }

    /// The metadata so far, in rosbag2's form.
    fn metadata(&self) -> BagMetadata {
        let (topics, counts) = (&self.topics, &self.message_counts);
        BagMetadata {
            version: self.options.metadata_version.number(),
            storage_identifier: "mcap".to_owned(),
            custom_data: self.options.custom_data.clone(),
            ros_distro: self.options.ros_distro.clone(),
            ..metadata_of_file(&self.path, self.span, topics, counts)
        }
    }
}

fn write_extra(writer: &mut McapWriter, extra: &Extra) -> mcap::McapResult<()> {
    match extra {
        Extra::Attachment(attachment) => attachment.write_to(writer),
        Extra::Metadata(record) => writer.write_metadata(&mcap::records::Metadata {
            name: record.name.clone(),
            metadata: record.values.clone(),
        }),
    }
}
