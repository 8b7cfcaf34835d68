//! What waits in a topic's queue: ended batches and large messages, oldest first, and the open batch.
//!
//! Until the recorder takes a batch, a message in it has the layout of its MCAP record, but the record's header, of the
//! same length, holds what the index needs (MCAP's has 32 bits for the sequence):
//!
//! | bytes | |
//! | --- | --- |
//! | 0 | 1 if it repeats an earlier message |
//! | 1..5 | length of the encoded message |
//! | 5..13 | sequence |
//! | 13..21 | log time |
//! | 21..29 | publish time |
//! | 29..31 | 0 |

use std::collections::VecDeque;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, message_header};

use super::{Batch, OwnedExtent, Queued};
use crate::limits::{BLOCK_BYTES, CHUNK_BYTES_MAX, SPARE_BATCHES_MAX};

/// Messages that leave together.
pub struct Item {
    pub queued: Queued,
    /// Those of them that were published, and are not repeated.
    pub published: u64,
    /// Monotonic time of the first of them.
    pub opened_nanos: u64,
    /// Log time of the last of them.
    pub newest_nanos: u64,
}

/// Everything that waits, under the queue's lock.
#[derive(Default)]
pub struct Waiting {
    /// Ended.
    items: VecDeque<Item>,
    open: Batch,
    /// Messages in the open batch that were published.
    open_published: u64,
    bytes: u64,
    last_log_time_nanos: u64,
    /// Largest record of a small message: batches have room for it.
    record_bytes_max: usize,
    spare_records: Vec<Vec<u8>>,
}

impl Waiting {
    /// Raises a log time to that of the message before: they never decrease within a topic.
    pub fn raise(&mut self, log_time_nanos: u64) -> u64 {
        self.last_log_time_nanos = self.last_log_time_nanos.max(log_time_nanos);
        self.last_log_time_nanos
    }

    /// Bytes that the topic holds for it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Since when (monotonic) the oldest message waits at the earliest.
    pub fn since_nanos(&self) -> Option<u64> {
        self.oldest().map(|item| item.opened_nanos).or(self.open_since_nanos())
    }

    /// When (monotonic) the open batch got its first message.
    pub fn open_since_nanos(&self) -> Option<u64> {
        (self.open.records_bytes() > 0).then_some(self.open.opened_nanos)
    }

    /// The oldest of what has ended.
    pub fn oldest(&self) -> Option<&Item> {
        self.items.front()
    }

    /// Takes the oldest of what has ended.
    pub fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.bytes -= item.queued.held_bytes();
        Some(item)
    }

    /// Copies a small message into the open batch, which ends when its records have `ends_at` bytes.
    pub fn push_small(&mut self, mut entry: IndexEntry, data: &[u8], (ends_at, now): (usize, u64)) {
        entry.log_time_nanos = self.raise(entry.log_time_nanos);
        let record_bytes = MESSAGE_HEADER_BYTES + data.len();
        self.record_bytes_max = self.record_bytes_max.max(record_bytes);
        if self.open.records_bytes() == 0 {
            self.open =
                Batch { records: self.records(ends_at), entries: Vec::new(), opened_nanos: now };
        }
        self.open.records.extend_from_slice(&waiting_header(&entry));
        self.open.records.extend_from_slice(data);
        self.open_published += u64::from(!entry.repeated);
        self.bytes += record_bytes as u64;
        if self.open.records_bytes() >= ends_at {
            self.end_open();
        }
    }

    /// Moves a large message in.
    pub fn push_own(&mut self, mut entry: IndexEntry, mut extent: OwnedExtent, now: u64) {
        self.end_open();
        entry.log_time_nanos = self.raise(entry.log_time_nanos);
        let IndexEntry { data_bytes, offset, inner, .. } = extent.entry;
        extent.entry = IndexEntry { data_bytes, offset, inner, ..entry };
        self.bytes += extent.block.len() as u64;
        self.items.push_back(Item {
            queued: Queued::Own(extent),
            published: u64::from(!entry.repeated),
            opened_nanos: now,
            newest_nanos: entry.log_time_nanos,
        });
    }

    /// Ends the open batch, if it has a message.
    pub fn end_open(&mut self) {
        if self.open.records_bytes() == 0 {
            return;
        }
        let batch = std::mem::take(&mut self.open);
        self.items.push_back(Item {
            published: std::mem::take(&mut self.open_published),
            opened_nanos: batch.opened_nanos,
            newest_nanos: self.last_log_time_nanos,
            queued: Queued::Batch(batch),
        });
    }

    /// Memory for a batch, with room for its chunk, its last message and its index: nothing grows by copying.
    fn records(&mut self, ends_at: usize) -> Vec<u8> {
        let capacity = ends_at + self.record_bytes_max.next_multiple_of(BLOCK_BYTES);
        let enough = CHUNK_HEADER_BYTES + capacity;
        let mut records = loop {
            match self.spare_records.pop() {
                Some(records) if records.capacity() < enough => {}
                Some(records) => break records,
                None => break Vec::with_capacity(enough + capacity / 4),
            }
        };
        records.clear();
        records.resize(CHUNK_HEADER_BYTES, 0);
        records
    }

    /// Keeps the memory of a batch for another.
    pub fn keep_records(&mut self, records: Vec<u8>) {
        let fits = (1..=4 * CHUNK_BYTES_MAX).contains(&records.capacity());
        if fits && self.spare_records.len() < SPARE_BATCHES_MAX {
            self.spare_records.push(records);
        }
    }
}

/// Writes the headers of messages as the file will have them, and what the index will say.
pub fn finalize_headers(channel_id: u16, queued: &mut Queued) {
    let batch = match queued {
        Queued::Batch(batch) => batch,
        Queued::Own(extent) => return extent.describe(channel_id, extent.entry),
    };
    let mut at = CHUNK_HEADER_BYTES;
    while let Some(mut entry) = batch.records.get(at..).and_then(waiting_entry) {
        entry.inner = (at - CHUNK_HEADER_BYTES) as u32;
        let head = message_header(
            channel_id,
            entry.sequence,
            entry.log_time_nanos,
            entry.publish_time_nanos,
            u64::from(entry.data_bytes),
        );
        batch.records[at..at + MESSAGE_HEADER_BYTES].copy_from_slice(&head);
        batch.entries.push(entry);
        at += MESSAGE_HEADER_BYTES + entry.data_bytes as usize;
    }
}

fn waiting_header(entry: &IndexEntry) -> [u8; MESSAGE_HEADER_BYTES] {
    let mut bytes = [0; MESSAGE_HEADER_BYTES];
    bytes[0] = u8::from(entry.repeated);
    bytes[1..5].copy_from_slice(&entry.data_bytes.to_le_bytes());
    bytes[5..13].copy_from_slice(&entry.sequence.to_le_bytes());
    bytes[13..21].copy_from_slice(&entry.log_time_nanos.to_le_bytes());
    bytes[21..29].copy_from_slice(&entry.publish_time_nanos.to_le_bytes());
    bytes
}

/// `None` at the end of a batch.
fn waiting_entry(bytes: &[u8]) -> Option<IndexEntry> {
    let bytes = bytes.first_chunk::<MESSAGE_HEADER_BYTES>()?;
    let word = |at: usize| bytes[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
    Some(IndexEntry {
        data_bytes: u32::from_le_bytes(*bytes[1..].first_chunk()?),
        sequence: word(5)?,
        log_time_nanos: word(13)?,
        publish_time_nanos: word(21)?,
        repeated: bytes[0] != 0,
        ..IndexEntry::default()
    })
}
