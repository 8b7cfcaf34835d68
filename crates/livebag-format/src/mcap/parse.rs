//! The few records that recovery reads back from a brick.

use super::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, RECORD_HEADER_BYTES, opcode};

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

/// The start of an uncompressed chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Earliest log time.
    pub start_nanos: u64,
    /// Latest log time.
    pub end_nanos: u64,
    /// CRC-32 of the records; 0 for none.
    pub crc: u32,
    /// Length of the message records.
    pub records_bytes: u64,
}

impl ChunkHeader {
    /// Reads an uncompressed chunk's start; `None` if it is anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let record = RecordHeader::parse(bytes)?;
        if record.opcode != opcode::CHUNK || bytes.len() < CHUNK_HEADER_BYTES {
            return None;
        }
        let records_bytes = u64_at(bytes, 41);
        let plain = u32_at(bytes, 37) == 0
            && u64_at(bytes, 25) == records_bytes
            && record.body_bytes.checked_sub(records_bytes)
                == Some((CHUNK_HEADER_BYTES - RECORD_HEADER_BYTES) as u64);
        plain.then(|| Self {
            start_nanos: u64_at(bytes, 9),
            end_nanos: u64_at(bytes, 17),
            crc: u32_at(bytes, 33),
            records_bytes,
        })
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
