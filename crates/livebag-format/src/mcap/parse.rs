//! The few records that recovery reads back from a brick.

use std::borrow::Cow;

use super::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, RECORD_HEADER_BYTES, opcode};
use super::{Compression, DecompressError, decompress};

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Opcode and body length of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// One of [`opcode`](super::opcode), or any other.
    pub opcode: u8,
    /// Length of what follows the header.
    pub body_bytes: u64,
}

impl RecordHeader {
    /// Reads the header at the start of `bytes`; `None` if there are fewer than nine.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < RECORD_HEADER_BYTES {
            return None;
        }
        Some(Self { opcode: bytes[0], body_bytes: u64_at(bytes, 1) })
    }

    /// Length with the header, `None` if it overflows.
    pub fn total_bytes(&self) -> Option<u64> {
        self.body_bytes.checked_add(RECORD_HEADER_BYTES as u64)
    }
}

/// The start of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Earliest log time.
    pub start_nanos: u64,
    /// Latest log time.
    pub end_nanos: u64,
    /// CRC-32 of the records; 0 for none.
    pub crc: u32,
    /// Length of the message records, before compression.
    pub records_bytes: u64,
    /// How they are stored.
    pub compression: Compression,
    /// Length of the stored data.
    pub stored_bytes: u64,
}

impl ChunkHeader {
    /// Reads a chunk's start; `None` if it is anything else, or compressed in a way that is not
    /// known. Of `bytes`, [`CHUNK_HEADER_BYTES_MAX`](super::CHUNK_HEADER_BYTES_MAX) are enough.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let record = RecordHeader::parse(bytes)?;
        let this = Self::without_record(bytes)?;
        (this.record() == bytes[..RECORD_HEADER_BYTES] && record.total_bytes().is_some())
            .then_some(this)
    }

    /// The same, ignoring the record's opcode and length: they follow from the bytes behind them.
    pub fn without_record(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < CHUNK_HEADER_BYTES {
            return None;
        }
        let name_bytes = u32_at(bytes, 37) as usize;
        let compression = Compression::by_name(bytes.get(41..41usize.checked_add(name_bytes)?)?)?;
        let stored = bytes.get(41 + name_bytes..49 + name_bytes)?;
        let this = Self {
            start_nanos: u64_at(bytes, 9),
            end_nanos: u64_at(bytes, 17),
            crc: u32_at(bytes, 33),
            records_bytes: u64_at(bytes, 25),
            compression,
            stored_bytes: u64_at(stored, 0),
        };
        let plain = compression != Compression::None || this.stored_bytes == this.records_bytes;
        (plain && this.total_bytes().is_some()).then_some(this)
    }

    /// Length of the whole record, `None` if it overflows.
    pub fn total_bytes(&self) -> Option<u64> {
        self.stored_bytes.checked_add(self.header_bytes() as u64)
    }

    /// The record's opcode and length.
    pub fn record(&self) -> [u8; RECORD_HEADER_BYTES] {
        let mut bytes = [opcode::CHUNK; RECORD_HEADER_BYTES];
        let body_bytes = (self.header_bytes() - RECORD_HEADER_BYTES) as u64;
        bytes[1..].copy_from_slice(&body_bytes.wrapping_add(self.stored_bytes).to_le_bytes());
        bytes
    }

    /// Length of what precedes the stored records.
    pub fn header_bytes(&self) -> usize {
        CHUNK_HEADER_BYTES + self.compression.name().len()
    }

    /// The records in `chunk`, a whole chunk record.
    ///
    /// # Errors
    /// If it is truncated, or the stored data does not match the header.
    pub fn records<'a>(&self, chunk: &'a [u8]) -> Result<Cow<'a, [u8]>, DecompressError> {
        let start = self.header_bytes().min(chunk.len());
        let stored = &chunk[start..];
        let bytes = usize::try_from(self.stored_bytes).unwrap_or(usize::MAX);
        let Some(stored) = stored.get(..bytes) else {
            let found = stored.len() as u64;
            return Err(DecompressError::Length { expected: self.stored_bytes, found });
        };
        match self.compression {
            Compression::None => Ok(Cow::Borrowed(stored)),
            compression => decompress(compression, stored, self.records_bytes).map(Cow::Owned),
        }
    }
}

/// The start of a message record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// MCAP's channel.
    pub channel_id: u16,
    /// Lower 32 bits of the source's count.
    pub sequence: u32,
    /// When the recorder took it.
    pub log_time_nanos: u64,
    /// When the source stamped it.
    pub publish_time_nanos: u64,
    /// Length of the encoded message.
    pub data_bytes: u64,
}

impl MessageHeader {
    /// Reads a message record's start; `None` if it is anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let record = RecordHeader::parse(bytes)?;
        if record.opcode != opcode::MESSAGE || bytes.len() < MESSAGE_HEADER_BYTES {
            return None;
        }
        let fixed = (MESSAGE_HEADER_BYTES - RECORD_HEADER_BYTES) as u64;
        Some(Self {
            channel_id: u16_at(bytes, 9),
            sequence: u32_at(bytes, 11),
            log_time_nanos: u64_at(bytes, 15),
            publish_time_nanos: u64_at(bytes, 23),
            data_bytes: record.body_bytes.checked_sub(fixed)?,
        })
    }
}

/// A part of a record's body.
enum Part {
    /// This many bytes.
    Bytes(usize),
    /// A text, an array or bytes, behind their length in bytes (32 bits).
    Counted,
    /// Texts in pairs, behind their length in bytes.
    Map,
}

/// Whether the lengths inside a record fit into its body. To be asked before others' parsers, which take
/// memory for a text of 4 GiB before they look whether it is there. Kinds without lengths inside fit.
pub fn lengths_fit(kind: u8, body: &[u8]) -> bool {
    use Part::{Bytes, Counted, Map};
    let parts: &[Part] = match kind {
        opcode::HEADER => &[Counted, Counted],
        opcode::SCHEMA => &[Bytes(2), Counted, Counted, Counted],
        opcode::CHANNEL => &[Bytes(2 + 2), Counted, Counted, Map],
        opcode::CHUNK => &[Bytes(8 + 8 + 8 + 4), Counted],
        opcode::MESSAGE_INDEX => &[Bytes(2), Counted],
        opcode::CHUNK_INDEX => &[Bytes(8 + 8 + 8 + 8), Counted, Bytes(8), Counted],
        opcode::ATTACHMENT => &[Bytes(8 + 8), Counted, Counted],
        opcode::ATTACHMENT_INDEX => &[Bytes(8 + 8 + 8 + 8 + 8), Counted, Counted],
        opcode::STATISTICS => &[Bytes(8 + 2 + 4 + 4 + 4 + 4 + 8 + 8), Counted],
        opcode::METADATA => &[Counted, Map],
        opcode::METADATA_INDEX => &[Bytes(8 + 8), Counted],
        _ => &[],
    };
    let mut rest = body;
    parts.iter().all(|part| match part {
        Bytes(count) => rest.split_off(..*count).is_some(),
        Counted => counted(&mut rest).is_some(),
        Map => counted(&mut rest).is_some_and(|mut map| {
            while !map.is_empty() {
                if counted(&mut map).is_none() {
                    return false;
                }
            }
            true
        }),
    })
}

fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = rest.split_off(..4)?;
    rest.split_off(..u32_at(length, 0) as usize)
}
