//! MCAP records, encoded and decoded one at a time.
//!
//! Bricks are written by livebag itself and not by the `mcap` crate, because the zero-copy path
//! must place each payload on a block boundary of the file. Source: the MCAP specification,
//! version 0 (`website/docs/spec/index.md`). Reading of foreign files is left to the `mcap` crate.

use std::collections::BTreeMap;

use crate::Topic;

mod attachment;
mod compress;
mod definition;
mod messages;
mod parse;
mod summary;

pub use attachment::AttachmentHead;
pub use compress::{Compression, Compressor, DecompressError, decompress, decompress_start};
pub use definition::Definition;
pub use messages::{ChunkMessage, ChunkMessages, Damaged, chunk_messages};
pub use parse::{ChunkHeader, MessageHeader, RecordHeader, lengths_fit};
pub use summary::{ChunkExtent, SummaryBuilder};

/// First and last bytes of every MCAP file.
pub const MAGIC: [u8; 8] = [0x89, b'M', b'C', b'A', b'P', b'0', b'\r', b'\n'];
/// Opcode and length in front of every record.
pub const RECORD_HEADER_BYTES: usize = 1 + 8;
/// A chunk record up to its first message, when its compression is `""`.
pub const CHUNK_HEADER_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 8 + 4 + 4 + 8;
/// Offset of the records' checksum in it.
pub const CHUNK_CRC_OFFSET: usize = RECORD_HEADER_BYTES + 8 + 8 + 8;
/// The same with the longest name of a compression.
pub const CHUNK_HEADER_BYTES_MAX: usize = CHUNK_HEADER_BYTES + 4;
/// A message record up to its data.
pub const MESSAGE_HEADER_BYTES: usize = RECORD_HEADER_BYTES + 2 + 4 + 8 + 8;
/// A message index record of one channel up to its entries.
pub const MESSAGE_INDEX_HEADER_BYTES: usize = RECORD_HEADER_BYTES + 2 + 4;
/// One entry of a message index: log time and offset.
pub const MESSAGE_INDEX_ENTRY_BYTES: usize = 8 + 8;

/// Opcodes of the records that livebag writes or reads.
pub mod opcode {
    #![allow(missing_docs, reason = "the names are the specification's")]
    pub const HEADER: u8 = 0x01;
    pub const FOOTER: u8 = 0x02;
    pub const SCHEMA: u8 = 0x03;
    pub const CHANNEL: u8 = 0x04;
    pub const MESSAGE: u8 = 0x05;
    pub const CHUNK: u8 = 0x06;
    pub const MESSAGE_INDEX: u8 = 0x07;
    pub const CHUNK_INDEX: u8 = 0x08;
    pub const ATTACHMENT: u8 = 0x09;
    pub const ATTACHMENT_INDEX: u8 = 0x0A;
    pub const STATISTICS: u8 = 0x0B;
    pub const METADATA: u8 = 0x0C;
    pub const METADATA_INDEX: u8 = 0x0D;
    pub const SUMMARY_OFFSET: u8 = 0x0E;
    pub const DATA_END: u8 = 0x0F;
    // Ours, from the private range 0x80 to 0xFF that every reader skips.
    /// Bytes without meaning.
    pub const PADDING: u8 = 0x80;
    /// An extent that is being written from a stream's slot, or was and has not been committed.
    pub const UNCOMMITTED: u8 = 0x81;
    /// What recovery found and could not prove, kept as it was but for this record's header.
    pub const GIVEN_UP: u8 = 0x82;
}

fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn put_map(out: &mut Vec<u8>, map: &BTreeMap<String, String>) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    for (key, value) in map {
        put_string(out, key.as_bytes());
        put_string(out, value.as_bytes());
    }
    let bytes = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
}

/// Appends a record whose body `body` writes, and fills in its length.
fn put_record(out: &mut Vec<u8>, opcode: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(opcode);
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    body(out);
    let bytes = (out.len() - at - 8) as u64;
    out[at..at + 8].copy_from_slice(&bytes.to_le_bytes());
}

/// Appends the file's magic and header record.
pub fn put_file_start(out: &mut Vec<u8>, profile: &str, library: &str) {
    out.extend_from_slice(&MAGIC);
    put_record(out, opcode::HEADER, |body| {
        put_string(body, profile.as_bytes());
        put_string(body, library.as_bytes());
    });
}

/// Appends the schema record of `topic`. `id` must not be 0.
pub fn put_schema(out: &mut Vec<u8>, id: u16, topic: &Topic) {
    debug_assert_ne!(id, 0, "0 means no schema in MCAP");
    put_record(out, opcode::SCHEMA, |body| {
        body.extend_from_slice(&id.to_le_bytes());
        put_string(body, topic.type_name.as_bytes());
        put_string(body, topic.schema_encoding.as_bytes());
        put_string(body, &topic.schema);
    });
}

/// Appends what describes `topic`: its schema, if it has one, and its channel, both numbered `id`.
pub fn put_definition(out: &mut Vec<u8>, id: u16, topic: &Topic) {
    if topic.has_schema() {
        put_schema(out, id, topic);
    }
    put_channel(out, id, schema_id(id, topic), topic);
}

/// The number of the schema of the topic with channel `id`: 0 means none in MCAP.
pub fn schema_id(id: u16, topic: &Topic) -> u16 {
    if topic.has_schema() { id } else { 0 }
}

/// Appends the channel record of `topic`.
pub fn put_channel(out: &mut Vec<u8>, id: u16, schema_id: u16, topic: &Topic) {
    put_record(out, opcode::CHANNEL, |body| {
        body.extend_from_slice(&id.to_le_bytes());
        body.extend_from_slice(&schema_id.to_le_bytes());
        put_string(body, topic.name.as_bytes());
        put_string(body, topic.message_encoding.as_bytes());
        put_map(body, &topic.metadata);
    });
}

/// Appends a metadata record and returns its length in bytes.
pub fn put_metadata(out: &mut Vec<u8>, name: &str, map: &BTreeMap<String, String>) -> u64 {
    let at = out.len();
    put_record(out, opcode::METADATA, |body| {
        put_string(body, name.as_bytes());
        put_map(body, map);
    });
    (out.len() - at) as u64
}

/// The start of an uncompressed chunk record whose messages take `records_bytes`.
///
/// `crc` is CRC-32 (ISO-HDLC) of the records, 0 for none.
pub fn chunk_header(
    start_nanos: u64,
    end_nanos: u64,
    records_bytes: u64,
    crc: u32,
) -> [u8; CHUNK_HEADER_BYTES] {
    let mut head = [0; CHUNK_HEADER_BYTES];
    head[0] = opcode::CHUNK;
    let body_bytes = (CHUNK_HEADER_BYTES - RECORD_HEADER_BYTES) as u64 + records_bytes;
    head[1..9].copy_from_slice(&body_bytes.to_le_bytes());
    head[9..17].copy_from_slice(&start_nanos.to_le_bytes());
    head[17..25].copy_from_slice(&end_nanos.to_le_bytes());
    head[25..33].copy_from_slice(&records_bytes.to_le_bytes());
    head[33..37].copy_from_slice(&crc.to_le_bytes());
    // 37..41: the length of the compression's name, 0.
    head[41..49].copy_from_slice(&records_bytes.to_le_bytes());
    head
}

/// Appends the start of a chunk record whose `records_bytes` of messages are stored as
/// `stored_bytes` that follow it. `crc` is that of the messages before compression.
pub fn put_compressed_chunk_header(
    out: &mut Vec<u8>,
    (start_nanos, end_nanos): (u64, u64),
    (records_bytes, stored_bytes): (u64, u64),
    crc: u32,
    compression: Compression,
) {
    let name = compression.name();
    out.push(opcode::CHUNK);
    let fixed_bytes = (CHUNK_HEADER_BYTES - RECORD_HEADER_BYTES + name.len()) as u64;
    out.extend_from_slice(&(fixed_bytes + stored_bytes).to_le_bytes());
    out.extend_from_slice(&start_nanos.to_le_bytes());
    out.extend_from_slice(&end_nanos.to_le_bytes());
    out.extend_from_slice(&records_bytes.to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
    put_string(out, name.as_bytes());
    out.extend_from_slice(&stored_bytes.to_le_bytes());
}

/// The start of a message record with `data_bytes` of data.
///
/// MCAP's sequence has 32 bits; the time index keeps all 64.
pub fn message_header(
    channel_id: u16,
    sequence: u64,
    log_time_nanos: u64,
    publish_time_nanos: u64,
    data_bytes: u64,
) -> [u8; MESSAGE_HEADER_BYTES] {
    let mut head = [0; MESSAGE_HEADER_BYTES];
    head[0] = opcode::MESSAGE;
    let body_bytes = (MESSAGE_HEADER_BYTES - RECORD_HEADER_BYTES) as u64 + data_bytes;
    head[1..9].copy_from_slice(&body_bytes.to_le_bytes());
    head[9..11].copy_from_slice(&channel_id.to_le_bytes());
    head[11..15].copy_from_slice(&(sequence as u32).to_le_bytes());
    head[15..23].copy_from_slice(&log_time_nanos.to_le_bytes());
    head[23..31].copy_from_slice(&publish_time_nanos.to_le_bytes());
    head
}

/// Appends a message index record: for each message of `channel_id`, its log time and its offset
/// in the chunk's records.
pub fn put_message_index(
    out: &mut Vec<u8>,
    channel_id: u16,
    entries: impl Iterator<Item = (u64, u64)>,
) {
    put_record(out, opcode::MESSAGE_INDEX, |body| {
        body.extend_from_slice(&channel_id.to_le_bytes());
        let at = body.len();
        body.extend_from_slice(&[0; 4]);
        for (log_time_nanos, offset) in entries {
            body.extend_from_slice(&log_time_nanos.to_le_bytes());
            body.extend_from_slice(&offset.to_le_bytes());
        }
        let bytes = (body.len() - at - 4) as u32;
        body[at..at + 4].copy_from_slice(&bytes.to_le_bytes());
    });
}

/// Length of a message index record of one entry.
pub const LONE_MESSAGE_INDEX_BYTES: usize = MESSAGE_INDEX_HEADER_BYTES + MESSAGE_INDEX_ENTRY_BYTES;

/// A message index record of one entry, as [`put_message_index`] writes it.
pub fn lone_message_index(
    channel_id: u16,
    log_time_nanos: u64,
    offset: u64,
) -> [u8; LONE_MESSAGE_INDEX_BYTES] {
    let mut record = [0; LONE_MESSAGE_INDEX_BYTES];
    let (head, entry) = record.split_at_mut(MESSAGE_INDEX_HEADER_BYTES);
    head[0] = opcode::MESSAGE_INDEX;
    let body_bytes = (LONE_MESSAGE_INDEX_BYTES - RECORD_HEADER_BYTES) as u64;
    head[1..9].copy_from_slice(&body_bytes.to_le_bytes());
    head[9..11].copy_from_slice(&channel_id.to_le_bytes());
    head[11..15].copy_from_slice(&(MESSAGE_INDEX_ENTRY_BYTES as u32).to_le_bytes());
    entry[..8].copy_from_slice(&log_time_nanos.to_le_bytes());
    entry[8..].copy_from_slice(&offset.to_le_bytes());
    record
}

/// The start of a padding record that takes `total_bytes` with its own header.
///
/// # Panics
/// If `total_bytes` is smaller than a record header (9).
pub fn padding_header(total_bytes: u64) -> [u8; RECORD_HEADER_BYTES] {
    private_header(opcode::PADDING, total_bytes)
}

/// The start of an [`opcode::UNCOMMITTED`] record that takes `total_bytes` with its own header.
///
/// # Panics
/// As [`padding_header`].
pub fn uncommitted_header(total_bytes: u64) -> [u8; RECORD_HEADER_BYTES] {
    private_header(opcode::UNCOMMITTED, total_bytes)
}

/// The start of an [`opcode::GIVEN_UP`] record that takes `total_bytes` with its own header.
///
/// # Panics
/// As [`padding_header`].
pub fn given_up_header(total_bytes: u64) -> [u8; RECORD_HEADER_BYTES] {
    private_header(opcode::GIVEN_UP, total_bytes)
}

fn private_header(opcode: u8, total_bytes: u64) -> [u8; RECORD_HEADER_BYTES] {
    assert!(total_bytes >= RECORD_HEADER_BYTES as u64, "no record takes {total_bytes} B");
    let mut head = [0; RECORD_HEADER_BYTES];
    head[0] = opcode;
    head[1..].copy_from_slice(&(total_bytes - RECORD_HEADER_BYTES as u64).to_le_bytes());
    head
}

/// Appends a padding record so that `position + bytes appended` is a multiple of `alignment`;
/// nothing if it is one already.
pub fn put_padding_to(out: &mut Vec<u8>, position: u64, alignment: u64) {
    let total_bytes = padding_bytes(position, alignment);
    if total_bytes > 0 {
        out.extend_from_slice(&padding_header(total_bytes));
        out.resize(out.len() + total_bytes as usize - RECORD_HEADER_BYTES, 0);
    }
}

/// How long a padding record from `position` to a multiple of `alignment` is: 0, or at least 9.
pub fn padding_bytes(position: u64, alignment: u64) -> u64 {
    let gap_bytes = position.next_multiple_of(alignment) - position;
    if gap_bytes > 0 && gap_bytes < RECORD_HEADER_BYTES as u64 {
        gap_bytes + alignment
    } else {
        gap_bytes
    }
}

#[cfg(test)]
mod tests;
