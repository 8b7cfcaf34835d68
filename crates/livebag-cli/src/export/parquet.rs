//! A topic as a Parquet file: the columns that Python's `to_arrow` has.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use livebag::Topic;
use livebag_bags::SourceMessage;
use livebag_format::decode::BatchBuilder;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::files::NewFile;
use crate::outcome::CliError;

/// What all files being written hold in memory, …
const MEMORY_BYTES_MAX: usize = 256 << 20;
/// … and one of them, at most and at least: a row group is written at this size.
const SHARE_BYTES: std::ops::RangeInclusive<usize> = 256 << 10..=64 << 20;
/// Rows that are turned into columns at once.
const BATCH_ROWS_MAX: usize = 16 << 10;

/// One file, made with its first row.
pub struct File {
    path: PathBuf,
    share_bytes: usize,
    state: State,
}

enum State {
    Unopened,
    Open(Box<Open>),
    /// The topic makes no table.
    Refused(String),
}

struct Open {
    builder: BatchBuilder,
    writer: ArrowWriter<Whole>,
}

/// A new file as Parquet's writer needs it.
pub struct Whole(pub NewFile);

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.file().flush()
    }
}

impl File {
    /// A file that is written together with `files - 1` others.
    pub fn new(path: &Path, files: usize) -> Self {
        let mut name = path.as_os_str().to_owned();
        name.push(".parquet");
        let share_bytes = MEMORY_BYTES_MAX / files.max(1);
        let share_bytes = share_bytes.clamp(*SHARE_BYTES.start(), *SHARE_BYTES.end());
        Self { path: name.into(), share_bytes, state: State::Unopened }
    }

    /// Adds a message; the inner error says why it has no row.
    pub fn add(
        &mut self,
        topic: &Topic,
        message: &SourceMessage,
    ) -> Result<Result<(), String>, CliError> {
        if matches!(self.state, State::Unopened) {
            self.state = match BatchBuilder::new(topic) {
                Ok(builder) => self.open(builder)?,
                Err(error) => State::Refused(error.to_string()),
            };
        }
        let open = match &mut self.state {
            State::Open(open) => open,
            State::Refused(why) => return Ok(Err(why.clone())),
            State::Unopened => return Ok(Ok(())),
        };
        let times = (message.log_time_nanos, message.publish_time_nanos);
        if let Err(error) = open.builder.push(times.0, times.1, &message.data) {
            return Ok(Err(error.to_string()));
        }
        // Half of the share is for messages, half for the row group.
        let is_full = open.builder.bytes() >= self.share_bytes / 2;
        if is_full || open.builder.rows() >= BATCH_ROWS_MAX {
            open.write(self.share_bytes / 2).map_err(|error| failed(&self.path, error))?;
        }
        Ok(Ok(()))
    }

    fn open(&self, builder: BatchBuilder) -> Result<State, CliError> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("livebag ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .build();
        let file = Whole(NewFile::create(&self.path, false)?);
        match ArrowWriter::try_new(file, builder.schema(), Some(properties)) {
            Ok(writer) => Ok(State::Open(Box::new(Open { builder, writer }))),
            Err(ParquetError::External(error)) => {
                Err(failed(&self.path, ParquetError::External(error)))
            }
            Err(error) => Ok(State::Refused(error.to_string())),
        }
    }

    /// Writes the remaining rows; returns the file's name, if there is a file.
    pub fn finish(&mut self) -> Result<Option<String>, CliError> {
        let State::Open(mut open) = std::mem::replace(&mut self.state, State::Unopened) else {
            return Ok(None);
        };
        let failed = |error| failed(&self.path, error);
        open.write(self.share_bytes / 2).map_err(failed)?;
        let Whole(file) = open.writer.into_inner().map_err(failed)?;
        file.publish()?;
        Ok(Some(self.path.display().to_string()))
    }
}

impl Open {
    fn write(&mut self, group_bytes_max: usize) -> Result<(), ParquetError> {
        let batch = self.builder.take()?;
        self.writer.write(&batch)?;
        if self.writer.memory_size() >= group_bytes_max {
            self.writer.flush()?;
        }
        Ok(())
    }
}

pub fn failed(path: &Path, error: ParquetError) -> CliError {
    let error = match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(source) => return CliError::file("writing", path, *source),
            Err(error) => ParquetError::External(error),
        },
        error => error,
    };
    CliError::failed(format!("writing {} failed: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    #[test]
    fn a_row_group_ends_at_its_share_of_the_memory() {
        let topic = Topic {
            type_name: "std_msgs/msg/UInt8MultiArray".into(),
            message_encoding: "cdr".into(),
            ..Topic::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let mut file = File::new(&folder.path().join("numbers"), usize::MAX);
        // No dimensions, an offset, and 64 KiB that do not compress.
        let mut data = vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        let mut noise = 1_u64;
        data.extend((0..64 << 10).map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        }));
        for at in 0..20 {
            let message = SourceMessage {
                topic: 0,
                sequence: at,
                log_time_nanos: at,
                publish_time_nanos: at,
                data: data.clone(),
            };
            assert_eq!(file.add(&topic, &message).unwrap(), Ok(()));
        }
        let path = file.finish().unwrap().unwrap();
        #[expect(clippy::disallowed_methods, reason = "a test looks at the file as users do")]
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        let metadata = reader.metadata();
        assert_eq!(metadata.file_metadata().num_rows(), 20);
        assert!(metadata.num_row_groups() > 4, "{}", metadata.num_row_groups());
    }
}
