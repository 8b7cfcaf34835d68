//! An MCAP file, written by the `mcap` crate as rosbag2 writes its own.

use std::io::{BufWriter, Seek, Write};

use livebag::{Message, Topic};
use mcap::records::MessageHeader;
use mcap::{McapError, McapResult, WriteOptions, Writer};

/// Gathers the small records around messages into one write; larger data pass it by. Without it
/// each record costs several writes.
const BUFFER_BYTES: usize = 1 << 20;

/// The options that all of rosbag2's presets have. CRCs are off, as they are there, but for those that a preset adds.
pub fn options() -> WriteOptions {
    WriteOptions::new()
        .profile("ros2")
        .compression(None)
        .calculate_chunk_crcs(false)
        .calculate_data_section_crc(false)
        .calculate_summary_section_crc(false)
        .calculate_attachment_crcs(false)
}

/// A file being written.
pub struct McapFile<W: Write + Seek> {
    writer: Writer<BufWriter<W>>,
    /// By topic, in the order in which they were added.
    channels: Vec<u16>,
}

impl<W: Write + Seek> McapFile<W> {
    /// Begins the file. Messages name topics by their index.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin(file: W, options: WriteOptions, topics: &[Topic]) -> McapResult<Self> {
        let mut writer = options.create(BufWriter::with_capacity(BUFFER_BYTES, file))?;
        let mut channels = Vec::new();
        for topic in topics {
            let schema =
                writer.add_schema(&topic.type_name, &topic.schema_encoding, &topic.schema)?;
            channels.push(writer.add_channel(
                schema,
                &topic.name,
                &topic.message_encoding,
                &topic.metadata,
            )?);
        }
        Ok(Self { writer, channels })
    }

    /// Writes a message.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, topic: usize, message: &Message<'_>) -> McapResult<()> {
        let header = MessageHeader {
            channel_id: self.channels[topic],
            sequence: message.sequence as u32,
            log_time: message.log_time_nanos,
            publish_time: message.publish_time_nanos,
        };
        self.writer.write_to_known_channel(&header, message.data)
    }

    /// Writes the summary, and gives the file back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> McapResult<W> {
        self.writer.finish()?;
        self.writer.into_inner().into_inner().map_err(|error| McapError::Io(error.into_error()))
    }
}
