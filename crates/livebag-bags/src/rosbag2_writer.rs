//! Writes rosbag2 bags: a directory with one file, or several splits, of either storage, compressed by
//! rosbag2's own rules or not, and `metadata.yaml`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag_format::rosbag2::BagMetadata;
use livebag_format::{Message, Topic};

use super::accounts::to_custom_data;
use super::attachments::Taken;
use super::bag_metadata::joined_metadata;
use super::compressed::{compress_file, compress_message};
use super::copy::{Progress, about_bag, copy};
use super::{
    ConvertError, Copied, McapSink, MessageSource, MetadataRecord, SinkOptions, Sqlite3Options,
    Sqlite3Writer, write_bag_metadata,
};

/// The storage of a rosbag2 bag, and how its files are written.
#[derive(Clone, Debug)]
pub enum Rosbag2Storage {
    /// `mcap`.
    Mcap(SinkOptions),
    /// `sqlite3`: a message has only its log time, and no sequence; only messages can be stored.
    Sqlite3(Sqlite3Options),
}

/// rosbag2's own compression, with Zstandard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rosbag2Compression {
    /// None. Chunks of an MCAP may still be compressed.
    #[default]
    None,
    /// Each file as a whole, once it is closed.
    File,
    /// Each message by itself; only in `sqlite3` storage.
    Message,
}

/// Options of a bag, besides its storage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rosbag2Options {
    /// rosbag2's own compression.
    pub compression: Rosbag2Compression,
    /// A new file starts before a message if the open one has reached this size. MCAP files with compressed
    /// chunks may become some 2 MiB longer.
    pub file_bytes_max: Option<u64>,
    /// A new file starts with a message that is this much later than the open one's first.
    pub file_duration_max: Option<Duration>,
}

/// The result of writing.
#[derive(Clone, Debug, Default)]
pub struct Rosbag2Written {
    /// What `metadata.yaml` says.
    pub metadata: BagMetadata,
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// Their length together, in bytes.
    pub file_bytes: u64,
}

/// Copies everything into a new rosbag2 bag. Warnings list what its storage cannot hold.
///
/// # Errors
/// If the source cannot be read, the bag cannot be written, or the storage does not go with the
/// compression.
pub fn to_rosbag2(
    source: &mut dyn MessageSource,
    directory: &Path,
    storage: Rosbag2Storage,
    options: Rosbag2Options,
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<(Copied, Rosbag2Written), ConvertError> {
    if matches!(storage, Rosbag2Storage::Mcap(_))
        && options.compression == Rosbag2Compression::Message
    {
        let reason = "mcap storage has no compression of single messages (nor has it in rosbag2): \
                      compress its chunks, or its files";
        return Err(ConvertError::Write { path: directory.to_owned(), reason: reason.to_owned() });
    }
    std::fs::create_dir(directory)
        .map_err(|source| ConvertError::io("create the directory", directory, source))?;
    let (of_bag, records) = about_bag(source);
    let mut storage = storage;
    let (custom_data, ros_distro) = match &mut storage {
        Rosbag2Storage::Mcap(options) => {
            options.profile = source.profile().to_owned();
            (&mut options.custom_data, &mut options.ros_distro)
        }
        Rosbag2Storage::Sqlite3(options) => (&mut options.custom_data, &mut options.ros_distro),
    };
    for (key, value) in of_bag.custom_data.into_iter().chain(to_custom_data(source)) {
        custom_data.entry(key).or_insert(value);
    }
    if ros_distro.is_empty() {
        *ros_distro = of_bag.ros_distro;
    }
    let mut bag = Container::begin(directory, source.topics(), storage, options)?;
    let mut taken = Taken::default();
    bag.add_extras(source, records, &mut taken)?;
    let mut loses_times = false;
    let mut copied = copy(source, on_progress, &mut |message| {
        loses_times |= message.publish_time_nanos != message.log_time_nanos;
        bag.write(message.topic, &message.as_message())
    })?;
    copied.note(taken);
    if loses_times && matches!(bag.storage, Rosbag2Storage::Sqlite3(_)) {
        let warning = "publish times and sequences were left out: sqlite3 bags hold one time a \
                       message, the log time";
        copied.warnings.push(warning.to_owned());
    }
    Ok((copied, bag.finish()?))
}

/// A bag being written.
struct Container<'a> {
    directory: &'a Path,
    topics: Vec<Topic>,
    storage: Rosbag2Storage,
    options: Rosbag2Options,
    open: ContainerFile,
    /// Log time of the open file's first message, and the bytes of its messages with their headers.
    first_nanos: Option<u64>,
    message_bytes: u64,
    done: Vec<BagMetadata>,
    files: Vec<PathBuf>,
}

enum ContainerFile {
    Mcap(Box<McapSink>),
    /// With the database's topic by topic.
    Sqlite3(Box<Sqlite3Writer>, Vec<usize>),
    /// Between two files, and after a failure.
    None,
}

/// Length of an MCAP message record before its data.
const MCAP_MESSAGE_BYTES: u64 = 31;

impl<'a> Container<'a> {
    fn begin(
        directory: &'a Path,
        topics: &[Topic],
        storage: Rosbag2Storage,
        options: Rosbag2Options,
    ) -> Result<Self, ConvertError> {
        let mut bag = Container {
            directory,
            topics: topics.to_vec(),
            storage,
            options,
            open: ContainerFile::None,
            first_nanos: None,
            message_bytes: 0,
            done: Vec::new(),
            files: Vec::new(),
        };
        bag.begin_file()?;
        Ok(bag)
    }

    fn begin_file(&mut self) -> Result<(), ConvertError> {
        let stem = self.directory.file_name().unwrap_or("bag".as_ref()).to_string_lossy();
        let number = self.done.len();
        self.open = match &self.storage {
            Rosbag2Storage::Mcap(options) => {
                let path = self.directory.join(format!("{stem}_{number}.mcap"));
                let sink = McapSink::create_file(&path, &self.topics, options.clone(), true)?;
                self.files.push(path);
                ContainerFile::Mcap(Box::new(sink))
            }
            Rosbag2Storage::Sqlite3(options) => {
                let path = self.directory.join(format!("{stem}_{number}.db3"));
                let mut writer = Sqlite3Writer::create(&path, options.clone())?;
                self.files.push(path);
                let topics = self.topics.iter().map(|topic| writer.add_topic(topic));
                let topics = topics.collect::<Result<_, _>>()?;
                ContainerFile::Sqlite3(Box::new(writer), topics)
            }
        };
        (self.first_nanos, self.message_bytes) = (None, 0);
        Ok(())
    }

    fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), ConvertError> {
        if self.is_due(message)? {
            self.end_file()?;
            self.begin_file()?;
        }
        self.first_nanos.get_or_insert(message.log_time_nanos);
        self.message_bytes += message.data.len() as u64 + MCAP_MESSAGE_BYTES;
        match &mut self.open {
            ContainerFile::Mcap(sink) => sink.write(topic, message),
            ContainerFile::Sqlite3(writer, topics) => {
                if self.options.compression == Rosbag2Compression::Message {
                    let data = compress_message(message.data).map_err(|source| {
                        ConvertError::io("compress a message for", self.directory, source)
                    })?;
                    return writer.write(topics[topic], &Message { data: &data, ..*message });
                }
                writer.write(topics[topic], message)
            }
            ContainerFile::None => Err(ConvertError::GivenUp { path: self.directory.to_owned() }),
        }
    }

    /// Whether this message belongs into a new file.
    fn is_due(&mut self, message: &Message<'_>) -> Result<bool, ConvertError> {
        let Some(first) = self.first_nanos else { return Ok(false) };
        let later = Duration::from_nanos(message.log_time_nanos.saturating_sub(first));
        if self.options.file_duration_max.is_some_and(|max| later >= max) {
            return Ok(true);
        }
        let Some(bytes_max) = self.options.file_bytes_max else { return Ok(false) };
        let bytes = match (&mut self.open, &self.storage) {
            (ContainerFile::Sqlite3(writer, _), _) => writer.file_bytes()?,
            (_, Rosbag2Storage::Mcap(options)) if options.compression.is_none() => {
                self.message_bytes
            }
            _ => self.files.last().map_or(0, |file| length(file)),
        };
        Ok(bytes >= bytes_max)
    }

    fn end_file(&mut self) -> Result<(), ConvertError> {
        let metadata = match std::mem::replace(&mut self.open, ContainerFile::None) {
            ContainerFile::Mcap(sink) => sink.finish()?.metadata,
            ContainerFile::Sqlite3(writer, _) => writer.finish()?.metadata,
            ContainerFile::None => return Ok(()),
        };
        self.done.push(metadata);
        if self.options.compression == Rosbag2Compression::File
            && let (Some(path), Some(metadata)) = (self.files.last_mut(), self.done.last_mut())
        {
            *path = compress_file(path)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            metadata.files.iter_mut().for_each(|file| file.path = name.clone());
        }
        Ok(())
    }

    /// Attachments and metadata records, into the first file.
    fn add_extras(
        &mut self,
        source: &mut dyn MessageSource,
        records: Vec<MetadataRecord>,
        taken: &mut Taken,
    ) -> Result<(), ConvertError> {
        let left_out = |what: &str, name: &str| {
            format!("the {what} {name} was left out: sqlite3 bags have none")
        };
        if let ContainerFile::Mcap(sink) = &mut self.open {
            while let Some(attachment) = taken.next(source)? {
                sink.attach(attachment)?;
            }
            return records.into_iter().try_for_each(|record| sink.add_metadata(record));
        }
        while let Some(attachment) = source.next_attachment()? {
            taken.say(left_out("attachment", &attachment.name));
        }
        for record in records {
            taken.say(left_out("metadata record", &record.name));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Rosbag2Written, ConvertError> {
        self.end_file()?;
        let mut metadata = joined_metadata(&self.done);
        let (mode, version) = (
            self.options.compression,
            match &self.storage {
                Rosbag2Storage::Mcap(options) => options.metadata_version,
                Rosbag2Storage::Sqlite3(options) => options.metadata_version,
            },
        );
        if mode != Rosbag2Compression::None {
            let name = if mode == Rosbag2Compression::File { "FILE" } else { "MESSAGE" };
            metadata.compression_mode = name.to_owned();
            metadata.compression_format = "zstd".to_owned();
        }
        write_bag_metadata(self.directory, &metadata, version)?;
        let file_bytes = self.files.iter().map(|file| length(file)).sum();
        Ok(Rosbag2Written { metadata, files: self.files, file_bytes })
    }
}

/// Length of a file as the filesystem has it; 0 if it does not tell.
fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}
