//! Records of a ROS 1 bag, format 2.0, without I/O: the caller brings the bytes.
//!
//! A bag is [`MAGIC`], then records: header length, header fields, data length, data, every length
//! a little-endian u32. Chunks hold connections and messages and may be compressed; the index
//! section at the end repeats the connections and says where each chunk is and which times it
//! spans. Source: wiki.ros.org/Bags/Format/2.0.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;

use crate::Topic;

/// The first bytes of a bag.
pub const MAGIC: &[u8] = b"#ROSBAG V2.0\n";
/// What every version of the format begins with.
pub const MAGIC_ANY_VERSION: &[u8] = b"#ROSBAG V";
/// Longest accepted record header: topics and types are short, the other values are numbers.
const HEADER_BYTES_MAX: usize = 1 << 20;

/// Why bytes are not records of a ROS 1 bag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// A record's header does not parse.
    #[error("expected a bag record: {reason}")]
    Record {
        /// The damage.
        reason: &'static str,
    },
    /// A field that this kind of record must have is missing or has another size.
    #[error("a bag record of kind {op:#04x} has no usable field {name:?}")]
    Field {
        /// The record's `op`.
        op: u8,
        /// The field.
        name: &'static str,
    },
    /// A compression other than none, bz2 and lz4.
    #[error("chunk compression {found:?} is not read; none, bz2 and lz4 are")]
    Compression {
        /// The name in the bag.
        found: String,
    },
    /// Compressed data that does not decompress to the length the chunk states.
    #[error("a chunk compressed with {compression} does not decompress: {reason}")]
    Decompress {
        /// `bz2` or `lz4`.
        compression: &'static str,
        /// The decompressor's error.
        reason: String,
    },
}

/// One record's header, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Record {
    /// The first record.
    BagHeader {
        /// Offset of the index section; 0 if the bag was not closed.
        index_offset: u64,
        /// Connections in the index section.
        connection_count: u32,
        /// Chunks in the bag.
        chunk_count: u32,
        /// Name of the plugin that encrypted the bag; empty if none did.
        encryptor: String,
    },
    /// Its data are compressed connections and messages.
    Chunk {
        /// `none`, `bz2` or `lz4`.
        compression: String,
        /// Length of the data when decompressed.
        decompressed_bytes: u32,
    },
    /// A topic's connection; its data is the connection header.
    Connection {
        /// The number by which messages name it.
        id: u32,
        /// The topic that the bag stores it under.
        topic: String,
    },
    /// A message; its data is the serialised message.
    Message {
        /// The connection it came over.
        connection: u32,
        /// When it was recorded, nanoseconds since the Unix epoch.
        time_nanos: u64,
    },
    /// Where a chunk is and which times it spans.
    ChunkInfo {
        /// Offset of the chunk record.
        chunk_offset: u64,
        /// Earliest message, nanoseconds since the Unix epoch.
        start_time_nanos: u64,
        /// Latest message, nanoseconds since the Unix epoch.
        end_time_nanos: u64,
    },
    /// A chunk's index of one connection, or a kind from a later version.
    Other {
        /// The record's `op`.
        op: u8,
    },
}

/// A record's header and where its data is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// Its content.
    pub record: Record,
    /// Bytes from the start of the record to its data.
    pub data_offset: usize,
    /// Length of the data.
    pub data_bytes: u32,
}

/// Result of reading a record's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadRead {
    /// It is there.
    Head(RecordHead),
    /// At least this many bytes, from the start of the record, are needed.
    NeedBytes(usize),
}

/// Reads the header of the record that `bytes` begin with.
pub fn record_head(bytes: &[u8]) -> Result<HeadRead, ContainerError> {
    let Some(header_bytes) = u32_at(bytes, 0) else { return Ok(HeadRead::NeedBytes(4)) };
    let header_bytes = header_bytes as usize;
    if header_bytes > HEADER_BYTES_MAX {
        return Err(ContainerError::Record { reason: "its header is longer than any bag's" });
    }
    let data_offset = header_bytes + 8;
    let Some(data_bytes) = u32_at(bytes, header_bytes + 4) else {
        return Ok(HeadRead::NeedBytes(data_offset));
    };
    let fields = fields(&bytes[4..header_bytes + 4])?;
    Ok(HeadRead::Head(RecordHead {
        record: Record::from_fields(&fields)?,
        data_offset,
        data_bytes,
    }))
}

/// Decompresses a chunk's data.
pub fn decompress<'a>(
    compression: &str,
    data: &'a [u8],
    decompressed_bytes: u32,
) -> Result<Cow<'a, [u8]>, ContainerError> {
    match compression {
        "none" => Ok(Cow::Borrowed(data)),
        #[cfg(feature = "bzip2")]
        "bz2" => read_exactly("bz2", bzip2::read::BzDecoder::new(data), decompressed_bytes),
        "lz4" => read_exactly("lz4", lz4_flex::frame::FrameDecoder::new(data), decompressed_bytes),
        found => Err(ContainerError::Compression { found: found.to_owned() }),
    }
}

fn read_exactly(
    compression: &'static str,
    from: impl Read,
    bytes: u32,
) -> Result<Cow<'static, [u8]>, ContainerError> {
    let mut out = Vec::new();
    from.take(u64::from(bytes) + 1)
        .read_to_end(&mut out)
        .map_err(|error| ContainerError::Decompress { compression, reason: error.to_string() })?;
    if out.len() != bytes as usize {
        let reason = format!("{bytes} bytes expected, {} found", out.len());
        return Err(ContainerError::Decompress { compression, reason });
    }
    Ok(Cow::Owned(out))
}

/// The records of a decompressed chunk with their data, in order. Ends after the first error.
pub fn chunk_records(
    mut chunk: &[u8],
) -> impl Iterator<Item = Result<(Record, &[u8]), ContainerError>> {
    std::iter::from_fn(move || {
        if chunk.is_empty() {
            return None;
        }
        let whole = match record_head(chunk) {
            Ok(HeadRead::Head(head)) => {
                let end = head.data_offset + head.data_bytes as usize;
                chunk.get(head.data_offset..end).map(|data| (head.record, data, end))
            }
            Ok(HeadRead::NeedBytes(_)) => None,
            Err(error) => {
                chunk = &[];
                return Some(Err(error));
            }
        };
        let Some((record, data, end)) = whole else {
            chunk = &[];
            return Some(Err(ContainerError::Record { reason: "it ends after its chunk" }));
        };
        chunk = &chunk[end..];
        Some(Ok((record, data)))
    })
}

/// The topic of a connection record: `data` is the connection header. Its fields other than type and definition
/// (`md5sum`, `callerid`, `latching`, …) become the metadata.
pub fn connection_topic(topic: &str, data: &[u8]) -> Result<Topic, ContainerError> {
    let fields = fields(data)?;
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    let definition = fields.get("message_definition").copied().unwrap_or_default();
    let metadata = fields
        .iter()
        .filter(|(name, value)| match **name {
            "type" | "message_definition" => false,
            // The bag's own name for the topic leads; the publisher's is kept where it differs.
            "topic" => **value != topic.as_bytes(),
            _ => true,
        })
        .map(|(name, value)| ((*name).to_owned(), text(value)))
        .collect();
    Ok(Topic {
        name: topic.to_owned(),
        type_name: fields.get("type").map(|value| text(value)).unwrap_or_default(),
        message_encoding: "ros1".to_owned(),
        schema_encoding: "ros1msg".to_owned(),
        schema: definition.to_vec(),
        metadata,
    })
}

type Fields<'a> = BTreeMap<&'a str, &'a [u8]>;

/// `name=value` fields, each after its length.
fn fields(mut bytes: &[u8]) -> Result<Fields<'_>, ContainerError> {
    let mut fields = Fields::new();
    while !bytes.is_empty() {
        let field = u32_at(bytes, 0)
            .and_then(|length| bytes.get(4..(length as usize).checked_add(4)?))
            .ok_or(ContainerError::Record { reason: "a header field ends after its header" })?;
        let equals = field
            .iter()
            .position(|byte| *byte == b'=')
            .ok_or(ContainerError::Record { reason: "a header field has no '='" })?;
        let name = str::from_utf8(&field[..equals])
            .map_err(|_| ContainerError::Record { reason: "a header field's name is not text" })?;
        fields.insert(name, &field[equals + 1..]);
        bytes = &bytes[4 + field.len()..];
    }
    Ok(fields)
}

impl Record {
    fn from_fields(fields: &Fields<'_>) -> Result<Self, ContainerError> {
        let Some([op]) = fields.get("op").copied() else {
            return Err(ContainerError::Record { reason: "it has no field \"op\"" });
        };
        let get = Typed { op: *op, fields };
        Ok(match op {
            0x02 => Record::Message { connection: get.u32("conn")?, time_nanos: get.time("time")? },
            0x03 => Record::BagHeader {
                index_offset: get.u64("index_pos")?,
                connection_count: get.u32("conn_count")?,
                chunk_count: get.u32("chunk_count")?,
                encryptor: get.text("encryptor").unwrap_or_default(),
            },
            0x05 => Record::Chunk {
                compression: get.text("compression")?,
                decompressed_bytes: get.u32("size")?,
            },
            0x06 => Record::ChunkInfo {
                chunk_offset: get.u64("chunk_pos")?,
                start_time_nanos: get.time("start_time")?,
                end_time_nanos: get.time("end_time")?,
            },
            0x07 => Record::Connection { id: get.u32("conn")?, topic: get.text("topic")? },
            op => Record::Other { op: *op },
        })
    }
}

/// The fields of one record, read as the types that its kind gives them.
struct Typed<'a> {
    op: u8,
    fields: &'a Fields<'a>,
}

impl Typed<'_> {
    fn array<const N: usize>(&self, name: &'static str) -> Result<[u8; N], ContainerError> {
        let value = self.fields.get(name).and_then(|value| (*value).try_into().ok());
        value.ok_or(ContainerError::Field { op: self.op, name })
    }

    fn u32(&self, name: &'static str) -> Result<u32, ContainerError> {
        Ok(u32::from_le_bytes(self.array(name)?))
    }

    fn u64(&self, name: &'static str) -> Result<u64, ContainerError> {
        Ok(u64::from_le_bytes(self.array(name)?))
    }

    /// Seconds in the lower half, nanoseconds in the upper.
    fn time(&self, name: &'static str) -> Result<u64, ContainerError> {
        let raw = self.u64(name)?;
        Ok((raw & 0xffff_ffff) * 1_000_000_000 + (raw >> 32))
    }

    fn text(&self, name: &'static str) -> Result<String, ContainerError> {
        let value = self.fields.get(name).ok_or(ContainerError::Field { op: self.op, name })?;
        Ok(String::from_utf8_lossy(value).into_owned())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let raw = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_le_bytes(*raw))
}
