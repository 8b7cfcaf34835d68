//! A rosbag2 bag in either storage, written file by file through the storage's own library.

use livebag_bench::clock;
use std::fs::File;
use std::path::{Path, PathBuf};

use livebag::{Message, Topic};
use livebag_bags::{Sqlite3Options, Sqlite3Writer, write_bag_metadata};
use livebag_format::rosbag2::{BagMetadata, FileEntry, MetadataVersion, TopicEntry};
use mcap::WriteOptions;

use crate::bench::schedule::Schedule;
use crate::bench::settings::{Compression, McapSettings, Settings, Sqlite3Settings};
use crate::outcome::CliError;
use livebag_bench::double_buffer::Message as Cached;
use livebag_bench::mcap_file::{self, McapFile};
use livebag_bench::stats::Durations;

/// One file of a bag.
trait ContainerFile: Send {
    /// Writes a message of the topic with this index.
    fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), CliError>;
    /// The end of a batch swapped out of the cache.
    fn commit(&mut self) -> Result<(), CliError>;
    /// Closes it and makes it durable.
    fn finish(self: Box<Self>) -> Result<(), CliError>;
}

/// A bag being written.
pub struct BagWriter {
    directory: PathBuf,
    settings: Settings,
    topics: Vec<Topic>,
    bytes_max: u64,
    file: Option<Box<dyn ContainerFile>>,
    file_bytes: u64,
    files: Vec<FileEntry>,
    counts: Vec<u64>,
    latencies: Durations,
}

/// The result of writing.
pub struct Written {
    /// Messages by topic.
    pub counts: Vec<u64>,
    /// From due to written.
    pub latencies: Durations,
}

impl BagWriter {
    /// Makes the directory and begins the first file, which is split at `bytes_max` of messages; 0
    /// is never.
    pub fn create(
        directory: &Path,
        settings: &Settings,
        topics: Vec<Topic>,
        bytes_max: u64,
    ) -> Result<Self, CliError> {
        std::fs::create_dir(directory)
            .map_err(|source| CliError::file("making", directory, source))?;
        let mut writer = Self {
            directory: directory.to_owned(),
            settings: settings.clone(),
            counts: vec![0; topics.len()],
            topics,
            bytes_max,
            file: None,
            file_bytes: 0,
            files: Vec::new(),
            latencies: Durations::default(),
        };
        writer.begin_file()?;
        Ok(writer)
    }

    fn begin_file(&mut self) -> Result<(), CliError> {
        let stem = self.directory.file_name().unwrap_or("bag".as_ref()).to_string_lossy();
        let number = self.files.len();
        let extension = if matches!(self.settings, Settings::Mcap(_)) { "mcap" } else { "db3" };
        let name = format!("{stem}_{number}.{extension}");
        let path = self.directory.join(&name);
        self.file = Some(match &self.settings {
            Settings::Mcap(settings) => Box::new(Mcap::create(path, settings, &self.topics)?),
            Settings::Sqlite3(settings) => {
                Box::new(SqliteFile::create(&path, settings, &self.topics)?)
            }
            Settings::Livebag(_) => return Err(CliError::failed("containers are not bags")),
        });
        self.file_bytes = 0;
        self.files.push(FileEntry { path: name, ..FileEntry::default() });
        Ok(())
    }

    /// Writes a batch swapped out of the cache.
    pub fn write_batch(&mut self, batch: &[Cached], schedule: &Schedule) -> Result<(), CliError> {
        let is_database = matches!(self.settings, Settings::Sqlite3(_));
        for cached in batch {
            if self.bytes_max > 0 && self.file_bytes >= self.bytes_max {
                self.end_file()?;
                self.begin_file()?;
            }
            let Some(file) = &mut self.file else {
                return Err(CliError::failed("the bag was given up after a failure"));
            };
            file.write(cached.topic, &as_message(cached))?;
            self.counts[cached.topic] += 1;
            self.file_bytes += cached.data.len() as u64;
            let entry = self.files.last_mut().expect("a file was begun");
            note(entry, cached.time_nanos);
            if !is_database {
                let due = schedule.due_nanos(cached.topic, cached.sequence);
                self.latencies.record(clock::monotonic_nanos().saturating_sub(due));
            }
        }
        if let Some(file) = &mut self.file {
            file.commit()?;
        }
        if is_database {
            let now = clock::monotonic_nanos();
            for cached in batch {
                let due = schedule.due_nanos(cached.topic, cached.sequence);
                self.latencies.record(now.saturating_sub(due));
            }
        }
        Ok(())
    }

    fn end_file(&mut self) -> Result<(), CliError> {
        self.file.take().map_or(Ok(()), ContainerFile::finish)
    }

    /// Closes the bag and makes it durable.
    pub fn finish(mut self) -> Result<Written, CliError> {
        self.end_file()?;
        let metadata = self.metadata();
        write_bag_metadata(&self.directory, &metadata, MetadataVersion::Jazzy)?;
        open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(|source| CliError::file("writing", &self.directory, source))?;
        Ok(Written { counts: self.counts, latencies: self.latencies })
    }

    fn metadata(&self) -> BagMetadata {
        let full = || self.files.iter().filter(|file| file.message_count > 0);
        let start = full().map(|file| file.starting_time_nanos).min().unwrap_or(0);
        let end = full().map(|file| file.starting_time_nanos + file.duration_nanos).max();
        let entry = |(topic, count): (&Topic, &u64)| TopicEntry {
            name: topic.name.clone(),
            type_name: topic.type_name.clone(),
            serialization_format: topic.message_encoding.clone(),
            message_count: *count,
            ..TopicEntry::default()
        };
        BagMetadata {
            storage_identifier: match self.settings {
                Settings::Mcap(_) => "mcap".to_owned(),
                Settings::Sqlite3(_) | Settings::Livebag(_) => "sqlite3".to_owned(),
            },
            starting_time_nanos: start,
            duration_nanos: end.unwrap_or(0).saturating_sub(start),
            message_count: self.counts.iter().sum(),
            topics: self.topics.iter().zip(&self.counts).map(entry).collect(),
            relative_file_paths: self.files.iter().map(|file| file.path.clone()).collect(),
            files: self.files.clone(),
            ..BagMetadata::default()
        }
    }
}

fn as_message(cached: &Cached) -> Message<'_> {
    Message {
        log_time_nanos: cached.time_nanos,
        publish_time_nanos: cached.time_nanos,
        sequence: cached.sequence,
        data: &cached.data,
    }
}

/// Counts a message of a file.
fn note(entry: &mut FileEntry, time_nanos: u64) {
    if entry.message_count == 0 {
        entry.starting_time_nanos = time_nanos;
    }
    let end = (entry.starting_time_nanos + entry.duration_nanos).max(time_nanos);
    entry.starting_time_nanos = entry.starting_time_nanos.min(time_nanos);
    entry.duration_nanos = end - entry.starting_time_nanos;
    entry.message_count += 1;
}

#[expect(clippy::disallowed_methods, reason = "the peers' files are not livebag's storage")]
fn open(path: &Path) -> std::io::Result<File> {
    File::open(path)
}

struct Mcap {
    path: PathBuf,
    file: McapFile<File>,
}

impl Mcap {
    fn create(path: PathBuf, settings: &McapSettings, topics: &[Topic]) -> Result<Self, CliError> {
        #[expect(clippy::disallowed_methods, reason = "the peers' files are not livebag's storage")]
        let file =
            File::create_new(&path).map_err(|source| CliError::file("making", &path, source))?;
        let file = McapFile::begin(file, write_options(settings), topics);
        let file = file.map_err(|error| refused(&path, &error))?;
        Ok(Self { path, file })
    }
}

fn refused(path: &Path, error: &mcap::McapError) -> CliError {
    CliError::failed(format!("writing {} failed: {error}", path.display()))
}

fn write_options(settings: &McapSettings) -> WriteOptions {
    let options = mcap_file::options()
        .use_chunks(settings.chunked)
        .chunk_size(Some(settings.chunk_bytes))
        .compression(settings.compression.map(|compression| match compression {
            Compression::Lz4 => mcap::Compression::Lz4,
            Compression::Zstd => mcap::Compression::Zstd,
        }))
        .compression_level(settings.level)
        .calculate_chunk_crcs(settings.chunk_crc)
        .calculate_data_section_crc(settings.data_crc)
        .calculate_summary_section_crc(settings.summary_crc);
    match settings.threads {
        0 => options,
        threads => options.compression_threads(threads),
    }
}

impl ContainerFile for Mcap {
    fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), CliError> {
        self.file.write(topic, message).map_err(|error| refused(&self.path, &error))
    }

    fn commit(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), CliError> {
        let Self { path, file } = *self;
        let file = file.finish().map_err(|error| refused(&path, &error))?;
        file.sync_all().map_err(|source| CliError::file("writing", &path, source))
    }
}

struct SqliteFile {
    writer: Sqlite3Writer,
    topics: Vec<usize>,
}

impl SqliteFile {
    fn create(path: &Path, settings: &Sqlite3Settings, topics: &[Topic]) -> Result<Self, CliError> {
        let options = Sqlite3Options {
            preset: settings.preset(),
            pragmas: settings.pragmas.clone(),
            metadata_version: MetadataVersion::Jazzy,
            ..Sqlite3Options::default()
        };
        let mut writer = Sqlite3Writer::create(path, options)?;
        let topics =
            topics.iter().map(|topic| writer.add_topic(topic)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { writer, topics })
    }
}

impl ContainerFile for SqliteFile {
    fn write(&mut self, topic: usize, message: &Message<'_>) -> Result<(), CliError> {
        Ok(self.writer.write(self.topics[topic], message)?)
    }

    fn commit(&mut self) -> Result<(), CliError> {
        Ok(self.writer.commit()?)
    }

    fn finish(self: Box<Self>) -> Result<(), CliError> {
        self.writer.finish()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::benchmark::{Config, StorageId};
    use crate::bench::producers::Producers;
    use crate::bench::{profiles, settings};

    fn schedule(producers: &Producers) -> Schedule {
        Schedule::new(&producers.topics(), 1)
    }

    #[test]
    fn every_preset_makes_a_bag_with_every_message_also_when_split() {
        let producers = profiles::producers("low_pubs").unwrap();
        let presets = ["", "none", "fastwrite", "zstd_fast", "zstd_small", "resilient"];
        let mut kinds = 0;
        for storage in [StorageId::Mcap, StorageId::Sqlite3] {
            for preset in presets {
                let config = match preset {
                    "" => Config::Usual,
                    name => Config::Preset(name.to_owned()),
                };
                let Ok(settings) = settings::resolve(storage, &config, "", 0).unwrap() else {
                    continue;
                };
                kinds += 1;
                let folder = tempfile::tempdir().unwrap();
                let bag = folder.path().join("bag");
                let topics: Vec<_> = producers.topics().into_iter().map(|t| t.topic).collect();
                let mut writer = BagWriter::create(&bag, &settings, topics, 50_000).unwrap();
                for number in 0..3 {
                    let cached = |topic| Cached {
                        topic,
                        sequence: number,
                        time_nanos: 1000 + number,
                        data: vec![1; 500],
                    };
                    let batch: Vec<_> = (0..101).map(cached).collect();
                    writer.write_batch(&batch, &schedule(&producers)).unwrap();
                }
                let written = writer.finish().unwrap();
                assert_eq!(written.counts, vec![3; 101]);
                assert!(written.latencies.percentiles().is_some());
                // Counted first: a reader of a database in WAL mode creates two files beside it.
                assert_eq!(bag.read_dir().unwrap().count(), 4 + 1, "{storage} {preset}");
                let source = livebag_bags::open_any(&bag).unwrap();
                assert_eq!(source.message_count(), Some(303), "{storage} {preset}");
            }
        }
        assert_eq!(kinds, 5 + 3);
    }
}
