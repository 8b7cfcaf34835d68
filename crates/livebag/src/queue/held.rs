//! Messages taken out of the inlet that wait for the recorder: whole chunks and large messages, in order.

use std::collections::VecDeque;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES, message_header};

use super::inlet::{Record, Segment, record};
use super::{Batch, OwnedExtent, Queued};
use crate::limits::{CHUNK_BYTES_MAX, SPARE_BATCHES_MAX};

/// Messages that leave together.
pub struct Item {
    pub queued: Queued,
    /// Those of them that were published, and are not repeated.
    pub published: u64,
    /// Monotonic time of the first of them, or of one that came before it.
    pub opened_nanos: u64,
    /// Whether [`Order::finalize_headers`] has been here.
    pub is_final: bool,
}

impl Item {
    /// Log time of the newest message; before it is assigned, the time of its writer.
    pub fn newest_nanos(&self) -> u64 {
        match &self.queued {
            Queued::Batch(batch) if !self.is_final => Headers::of(&batch.records)
                .map(|(_, entry)| entry.log_time_nanos)
                .max()
                .unwrap_or(0),
            queued => queued.newest_nanos(),
        }
    }
}

/// The headers of a chunk's messages as their writers have left them, each with its place.
struct Headers<'a> {
    records: &'a [u8],
    at: usize,
}

impl<'a> Headers<'a> {
    fn of(records: &'a [u8]) -> Self {
        Self { records, at: CHUNK_HEADER_BYTES }
    }
}

impl Iterator for Headers<'_> {
    type Item = (usize, IndexEntry);

    fn next(&mut self) -> Option<(usize, IndexEntry)> {
        let (entry, _) = record::parse(self.records.get(self.at..)?)?;
        let at = self.at;
        self.at += MESSAGE_HEADER_BYTES + entry.data_bytes as usize;
        Some((at, entry))
    }
}

/// Waiting messages; the holder of the inlet's outlet owns them.
#[derive(Default)]
pub struct Held {
    items: VecDeque<Item>,
    bytes: u64,
    /// Memory for further segments.
    spare_records: Vec<Vec<u8>>,
}

impl Held {
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes that the topic holds for it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest waiting item.
    pub fn oldest(&self) -> Option<&Item> {
        self.items.front()
    }

    /// All items, to assign their headers.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut Item> {
        self.items.iter_mut()
    }

    /// Removes the oldest waiting item.
    pub fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.bytes -= item.queued.held_bytes();
        Some(item)
    }

    fn push(&mut self, queued: Queued, published: u64, opened_nanos: u64) {
        self.bytes += queued.held_bytes();
        self.items.push_back(Item { queued, published, opened_nanos, is_final: false });
    }

    /// Room for the segments of a poll, so that a writer that puts them here allocates no memory.
    pub fn reserve(&mut self, segments: u64) {
        self.items.reserve(segments as usize);
    }

    /// Appends a segment. Its memory is the chunk's, unless large messages lie between: then the small ones are copied.
    pub fn put(&mut self, mut segment: Segment<OwnedExtent>) {
        let opened_nanos = segment.opened_nanos;
        if !segment.has_own {
            let published = segment.published;
            let records = segment.into_records();
            if records.len() <= CHUNK_HEADER_BYTES {
                return self.keep_records(records);
            }
            let batch = Batch { records, entries: Vec::new(), opened_nanos };
            return self.push(Queued::Batch(batch), published, opened_nanos);
        }
        let mut batch = Batch::default();
        let mut published = 0;
        while let Some(record) = segment.next_record() {
            match record {
                Record::Small(entry, range) => {
                    if batch.records.is_empty() {
                        batch.records = self.take_records().unwrap_or_default();
                        batch.records.resize(CHUNK_HEADER_BYTES, 0);
                        batch.opened_nanos = opened_nanos;
                    }
                    let bytes = &segment.records()[CHUNK_HEADER_BYTES..][range];
                    batch.records.extend_from_slice(bytes);
                    published += u64::from(!entry.repeated);
                }
                Record::Own(entry, mut extent) => {
                    self.push_gathered(&mut batch, &mut published);
                    let IndexEntry { data_bytes, offset, inner, .. } = extent.entry;
                    extent.entry = IndexEntry { data_bytes, offset, inner, ..entry };
                    self.push(Queued::Own(extent), u64::from(!entry.repeated), opened_nanos);
                }
            }
        }
        self.push_gathered(&mut batch, &mut published);
        self.keep_records(segment.into_records());
    }

    fn push_gathered(&mut self, batch: &mut Batch, published: &mut u64) {
        if !batch.records.is_empty() {
            let batch = std::mem::take(batch);
            let opened_nanos = batch.opened_nanos;
            self.push(Queued::Batch(batch), std::mem::take(published), opened_nanos);
        }
    }

    /// Keeps memory for a further segment.
    pub fn keep_records(&mut self, records: Vec<u8>) {
        let fits = (1..=4 * CHUNK_BYTES_MAX).contains(&records.capacity());
        if fits && self.spare_records.len() < SPARE_BATCHES_MAX {
            self.spare_records.push(records);
        }
    }

    /// Memory for a segment, empty.
    pub fn take_records(&mut self) -> Option<Vec<u8>> {
        let mut records = self.spare_records.pop()?;
        records.clear();
        Some(records)
    }
}

/// State of a topic's order: log times never decrease. No writer comes here.
#[derive(Default)]
pub struct Order {
    pub last_log_time_nanos: u64,
    /// Memory for taken items while their headers are written.
    pub items: VecDeque<Item>,
}

impl Order {
    fn raise(&mut self, log_time_nanos: u64) -> u64 {
        self.last_log_time_nanos = self.last_log_time_nanos.max(log_time_nanos);
        self.last_log_time_nanos
    }

    /// Writes the headers of messages as in the file, and their index entries.
    pub fn finalize_headers(&mut self, channel_id: u16, item: &mut Item) {
        if std::mem::replace(&mut item.is_final, true) {
            return;
        }
        let batch = match &mut item.queued {
            Queued::Batch(batch) => batch,
            Queued::Own(extent) => {
                let log_time_nanos = self.raise(extent.entry.log_time_nanos);
                return extent.describe(channel_id, IndexEntry { log_time_nanos, ..extent.entry });
            }
        };
        let mut entries = Vec::with_capacity(item.published as usize);
        let mut at = CHUNK_HEADER_BYTES;
        while let Some((_, mut entry)) = (Headers { records: &batch.records, at }).next() {
            entry.log_time_nanos = self.raise(entry.log_time_nanos);
            entry.inner = (at - CHUNK_HEADER_BYTES) as u32;
            let head = message_header(
                channel_id,
                entry.sequence,
                entry.log_time_nanos,
                entry.publish_time_nanos,
                u64::from(entry.data_bytes),
            );
            batch.records[at..at + MESSAGE_HEADER_BYTES].copy_from_slice(&head);
            entries.push(entry);
            at += MESSAGE_HEADER_BYTES + entry.data_bytes as usize;
        }
        batch.entries = entries;
    }
}
