//! Layout of a message in its own chunk: an extent of whole blocks.
//!
//! ```text
//! zero copy  │ padding │ chunk header │ message header │ prefix ▌payload … ▌rest │ suffix │ message index │ padding │
//!            └───────────────── head ──────────────────┘└ slot ┘└─────────────────── tail ──────────────────────────┘
//! owned      │ chunk header │ message header │ data │ message index │ padding │
//! ```
//!
//! The payload begins on a block boundary of the file, so the device fetches whole blocks of it
//! from the slot. Until the frame has been found intact after its write, the record in front is "uncommitted" and
//! covers the whole extent; then it becomes padding up to the chunk, in one sector.

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_CRC_OFFSET, CHUNK_HEADER_BYTES, LONE_MESSAGE_INDEX_BYTES, MESSAGE_HEADER_BYTES,
    RECORD_HEADER_BYTES, chunk_header, lone_message_index, message_header, padding_header,
    put_padding_to, uncommitted_header,
};

use crate::limits::BLOCK_BYTES;
use crate::storage::Block;

const INDEX_BYTES: usize = LONE_MESSAGE_INDEX_BYTES;

/// Piece of a slot read at once for its checksum: it stays in the processor's first cache.
const CHECKSUM_PIECE_BYTES: usize = 16 << 10;

/// Writes the checksum into a chunk's header.
fn put_checksum(chunk: &mut [u8], crc: u32) {
    chunk[CHUNK_CRC_OFFSET..CHUNK_CRC_OFFSET + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Length with padding to whole blocks behind it.
fn padded(bytes: usize) -> usize {
    let gap = livebag_format::mcap::padding_bytes(bytes as u64, BLOCK_BYTES as u64);
    bytes + gap as usize
}

fn put_headers(out: &mut Vec<u8>, channel_id: u16, entry: &IndexEntry) {
    let data_bytes = u64::from(entry.data_bytes);
    let log_time_nanos = entry.log_time_nanos;
    let records_bytes = MESSAGE_HEADER_BYTES as u64 + data_bytes;
    out.extend_from_slice(&chunk_header(log_time_nanos, log_time_nanos, records_bytes, 0));
    out.extend_from_slice(&message_header(
        channel_id,
        entry.sequence,
        log_time_nanos,
        entry.publish_time_nanos,
        data_bytes,
    ));
}

/// The blocks around a frame that is written from its slot.
pub struct Extent {
    /// Everything in front of the payload.
    pub head: Block,
    /// Length of the payload that goes straight from the slot: whole blocks.
    pub slot_bytes: usize,
    /// The payload's rest (to be filled in by the caller), suffix, message index, padding.
    pub tail: Block,
    /// The message's place, counted from the start of the extent.
    pub entry: IndexEntry,
    /// Length of the padding record in front, once the extent is committed.
    lead_bytes: u64,
}

impl Extent {
    /// Lays out a message of `prefix`, `payload_bytes` from a slot, and `suffix`; `entry` has all
    /// but the message's place and length.
    pub fn new(
        channel_id: u16,
        mut entry: IndexEntry,
        prefix: &[u8],
        payload_bytes: usize,
        suffix: &[u8],
    ) -> Self {
        entry.data_bytes = (prefix.len() + payload_bytes + suffix.len()) as u32;
        let fixed = CHUNK_HEADER_BYTES + MESSAGE_HEADER_BYTES + prefix.len();
        let head_bytes = (RECORD_HEADER_BYTES + fixed).next_multiple_of(BLOCK_BYTES);
        let lead_bytes = (head_bytes - fixed) as u64;
        let slot_bytes = payload_bytes / BLOCK_BYTES * BLOCK_BYTES;
        let rest_bytes = payload_bytes - slot_bytes;

        let mut tail = vec![0; rest_bytes];
        tail.extend_from_slice(suffix);
        tail.extend_from_slice(&lone_message_index(channel_id, entry.log_time_nanos, 0));
        let position = tail.len() as u64;
        put_padding_to(&mut tail, position, BLOCK_BYTES as u64);
        let mut tail_block = Block::zeroed(tail.len());
        tail_block.copy_from_slice(&tail);

        let total_bytes = (head_bytes + slot_bytes + tail.len()) as u64;
        let mut headers = Vec::with_capacity(fixed);
        put_headers(&mut headers, channel_id, &entry);
        headers.extend_from_slice(prefix);
        let mut head = Block::zeroed(head_bytes);
        head[..RECORD_HEADER_BYTES].copy_from_slice(&uncommitted_header(total_bytes));
        head[head_bytes - fixed..].copy_from_slice(&headers);

        entry.inner = 0;
        entry.offset = (head_bytes - prefix.len()) as u64;
        Self { head, slot_bytes, tail: tail_block, entry, lead_bytes }
    }

    /// Length of the whole extent.
    pub fn bytes(&self) -> u64 {
        (self.head.len() + self.slot_bytes + self.tail.len()) as u64
    }

    /// Sets the chunk's checksum. `records_bytes` of the tail belong to the message. The payload is read from its slot:
    /// a frame that is overwritten meanwhile is not committed.
    pub fn seal(&mut self, frame: &livebag_shm::FrameRef, records_bytes: usize) {
        let chunk = self.lead_bytes as usize;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&self.head[chunk + CHUNK_HEADER_BYTES..]);
        let mut piece = [0; CHECKSUM_PIECE_BYTES];
        for start in (0..self.slot_bytes).step_by(CHECKSUM_PIECE_BYTES) {
            let piece = &mut piece[..CHECKSUM_PIECE_BYTES.min(self.slot_bytes - start)];
            frame.copy_range_to(start, piece);
            crc.update(piece);
        }
        crc.update(&self.tail[..records_bytes]);
        put_checksum(&mut self.head[chunk..], crc.finalize());
    }

    /// The record header that commits the extent: it goes to the extent's first bytes.
    pub fn committed_lead(&self) -> [u8; RECORD_HEADER_BYTES] {
        padding_header(self.lead_bytes)
    }
}

/// A message in the recorder's memory, laid out as in its brick.
pub struct OwnedExtent {
    /// The whole extent.
    pub block: Block,
    /// The message's place, counted from the start of the extent.
    pub entry: IndexEntry,
}

impl OwnedExtent {
    /// Length of the extent of a message with `data_bytes`.
    pub fn bytes_for(data_bytes: usize) -> usize {
        padded(CHUNK_HEADER_BYTES + MESSAGE_HEADER_BYTES + data_bytes + INDEX_BYTES)
    }

    /// End of the message record in the block.
    pub fn records_end(&self) -> usize {
        self.entry.offset as usize + self.entry.data_bytes as usize
    }

    /// End of the message index in the block.
    pub fn indexes_end(&self) -> usize {
        self.records_end() + INDEX_BYTES
    }

    /// Sets the chunk's checksum.
    pub fn seal(&mut self) {
        let crc = crc32fast::hash(&self.block[CHUNK_HEADER_BYTES..self.records_end()]);
        put_checksum(&mut self.block, crc);
    }

    /// The encoded message.
    pub fn data(&self) -> &[u8] {
        let start = self.entry.offset as usize;
        &self.block[start..start + self.entry.data_bytes as usize]
    }

    /// An extent with a copy of `data`, in `spare` memory if it is enough. It is whole when it has been
    /// [described](Self::describe).
    pub fn copied(data: &[u8], spare: Option<Block>) -> Self {
        let mut extent = Self::with_room(data.len(), spare);
        livebag_shm::copy_past_caches(extent.data_mut(), data);
        extent
    }

    /// Makes an extent in `block`, with the length of [`OwnedExtent::bytes_for`]; `fill` writes the message of
    /// `data_bytes`; `None` if it says that it failed.
    pub fn with(
        (channel_id, entry): (u16, IndexEntry),
        data_bytes: usize,
        block: Block,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<Self> {
        let mut extent = Self::with_room(data_bytes, Some(block));
        if !fill(extent.data_mut()) {
            return None;
        }
        extent.describe(channel_id, entry);
        Some(extent)
    }

    /// The layout, without the message and its header fields.
    fn with_room(data_bytes: usize, spare: Option<Block>) -> Self {
        let bytes = Self::bytes_for(data_bytes);
        let spare = spare.and_then(|spare| spare.reused(bytes));
        let block = spare.unwrap_or_else(|| Block::zeroed(bytes));
        let entry = IndexEntry {
            data_bytes: data_bytes as u32,
            offset: (CHUNK_HEADER_BYTES + MESSAGE_HEADER_BYTES) as u64,
            ..IndexEntry::default()
        };
        let mut extent = Self { block, entry };
        let end = extent.indexes_end();
        let padding = &mut extent.block[end..];
        if !padding.is_empty() {
            let (head, rest) = padding.split_at_mut(RECORD_HEADER_BYTES);
            head.copy_from_slice(&padding_header((bytes - end) as u64));
            rest.fill(0);
        }
        extent
    }

    /// Writes around the message what `entry` says of it; the message's place and length stay.
    pub fn describe(&mut self, channel_id: u16, entry: IndexEntry) {
        let IndexEntry { data_bytes, offset, inner, .. } = self.entry;
        self.entry = IndexEntry { data_bytes, offset, inner, ..entry };
        let time = entry.log_time_nanos;
        let bytes = u64::from(data_bytes);
        let chunk = chunk_header(time, time, MESSAGE_HEADER_BYTES as u64 + bytes, 0);
        self.block[..CHUNK_HEADER_BYTES].copy_from_slice(&chunk);
        let (sequence, publish_time) = (entry.sequence, entry.publish_time_nanos);
        let head = message_header(channel_id, sequence, time, publish_time, bytes);
        self.block[CHUNK_HEADER_BYTES..offset as usize].copy_from_slice(&head);
        let index = lone_message_index(channel_id, time, 0);
        let (from, to) = (self.records_end(), self.indexes_end());
        self.block[from..to].copy_from_slice(&index);
    }

    fn data_mut(&mut self) -> &mut [u8] {
        let start = self.entry.offset as usize;
        let end = self.records_end();
        &mut self.block[start..end]
    }
}
