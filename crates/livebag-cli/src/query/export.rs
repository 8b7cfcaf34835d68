//! An answer as one MCAP file: chunked, indexed, with schemas, channel metadata and both times.

use std::io::{BufWriter, Write};
use std::path::Path;

use livebag::Topic;
use mcap::records::MessageHeader;
use mcap::{McapError, WriteOptions, Writer};

use super::answer::{Answer, Entry};
use crate::files::NewFile;
use crate::interrupt::Interrupt;
use crate::outcome::CliError;

/// Uncompressed size at which a chunk is closed.
const CHUNK_BYTES: u64 = 1 << 20;
/// Buffered bytes before a write to the file.
const BUFFER_BYTES: usize = 1 << 20;

/// The result of writing.
#[derive(Default)]
pub struct Exported {
    /// Messages.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
}

/// Writes the rest of an answer into the new file `path`. Nothing is left behind if that fails, and nothing is made of
/// an answer without messages: it would be in the way of the next try.
pub fn write(answer: &mut dyn Answer, path: &Path, replaces: bool) -> Result<Exported, CliError> {
    let interrupt = Interrupt::watch()?;
    let new = NewFile::create(path, replaces)?;
    let refused = |error| refused(path, error);
    let first = answer.next()?;
    if first.is_none() {
        return Ok(Exported::default());
    }
    let options = WriteOptions::new()
        .profile(answer.profile())
        .library(concat!("livebag ", env!("CARGO_PKG_VERSION")))
        .compression(None)
        .use_chunks(true)
        .chunk_size(Some(CHUNK_BYTES));
    let buffer = BufWriter::with_capacity(BUFFER_BYTES, new.file());
    let mut writer = options.create(buffer).map_err(refused)?;
    let copied = copy(answer, first, &mut writer, &interrupt).and_then(|exported| {
        writer.finish().map_err(Failure::Mcap)?;
        Ok(exported)
    });
    let exported = match copied {
        Ok(exported) => exported,
        Err(failure) => {
            // Dropped, the writer would write its summary to a disk that may just have failed.
            let _ = writer.into_inner().into_parts();
            return Err(match failure {
                Failure::Mcap(error) => refused(error),
                Failure::Cli(error) => error,
            });
        }
    };
    let mut buffer = writer.into_inner();
    buffer.flush().map_err(|source| CliError::file("writing", path, source))?;
    drop(buffer);
    new.publish()?;
    Ok(exported)
}

enum Failure {
    Mcap(McapError),
    Cli(CliError),
}

impl From<McapError> for Failure {
    fn from(error: McapError) -> Self {
        Self::Mcap(error)
    }
}

type FileWriter<'a> = Writer<BufWriter<&'a std::fs::File>>;

fn copy(
    answer: &mut dyn Answer,
    first: Option<Entry>,
    writer: &mut FileWriter<'_>,
    interrupt: &Interrupt,
) -> Result<Exported, Failure> {
    let mut channels: Vec<Option<u16>> = Vec::new();
    let mut exported = Exported::default();
    let mut next = first;
    while let Some(entry) = next {
        if interrupt.has_come() {
            return Err(Failure::Cli(CliError::failed("interrupted: nothing was written")));
        }
        if channels.len() <= entry.topic {
            channels.resize(entry.topic + 1, None);
        }
        let channel_id = match channels[entry.topic] {
            Some(id) => id,
            None => {
                let id = add_channel(writer, answer.topic(entry.topic))?;
                *channels[entry.topic].insert(id)
            }
        };
        if let Some(data) = answer.data().map_err(Failure::Cli)? {
            writer.write_to_known_channel(&header(channel_id, &entry), data)?;
            exported.messages += 1;
            exported.bytes += data.len() as u64;
        }
        next = answer.next().map_err(Failure::Cli)?;
    }
    Ok(exported)
}

fn header(channel_id: u16, entry: &Entry) -> MessageHeader {
    MessageHeader {
        channel_id,
        // MCAP counts in 32 bits.
        sequence: entry.sequence as u32,
        log_time: entry.log_time_nanos,
        publish_time: entry.publish_time_nanos,
    }
}

fn add_channel(writer: &mut FileWriter<'_>, topic: &Topic) -> Result<u16, McapError> {
    let has_schema = !topic.type_name.is_empty() || !topic.schema.is_empty();
    let schema_id = match has_schema {
        true => writer.add_schema(&topic.type_name, &topic.schema_encoding, &topic.schema)?,
        // MCAP's mark of a channel without schema.
        false => 0,
    };
    writer.add_channel(schema_id, &topic.name, &topic.message_encoding, &topic.metadata)
}

fn refused(path: &Path, error: McapError) -> CliError {
    match error {
        McapError::Io(source) => CliError::file("writing", path, source),
        error => CliError::failed(format!("writing {} failed: {error}", path.display())),
    }
}
