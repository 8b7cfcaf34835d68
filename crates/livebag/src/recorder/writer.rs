//! From memory to a committed message: lays messages out as extents, submits them, and commits completed ones.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, ChunkExtent, Compression, RECORD_HEADER_BYTES, chunk_header,
    padding_header, put_message_index,
};
use livebag_shm::FrameRef;

use super::compress::{Compressors, Done, Job};
use super::flight::{Content, Ended, Piece, Target, WritesInFlight};
use super::frame_tracker::{Completed, FrameNumber, FrameTracker, Origin, Submitted};
use super::series::{Place, SplitSeries};
use super::topic::{Cause, Outcome, SplitTopic};
use super::{RecordError, Shared};
use crate::limits::{BLOCK_BYTES, CHUNK_BYTES_MAX, IN_FLIGHT_BYTES_MAX, OWN_CHUNK_BYTES_MIN};
use crate::queue::{Batch, Extent, OwnedExtent, Queued, TopicQueue, published};
use crate::source::Encoder;
use crate::storage::{Access, Block, Part};

/// Where a topic's messages come from.
struct Source {
    queue: Arc<TopicQueue>,
    is_stream: bool,
}

/// See the module's text.
pub(super) struct Writer {
    shared: Arc<Shared>,
    tracker: Arc<FrameTracker>,
    /// By the topic's number in the recorder.
    sources: Vec<Source>,
    pub series: SplitSeries,
    pub writes: WritesInFlight,
    compressors: Option<Compressors>,
}

/// Earliest and latest log time of a chunk.
fn times_of(pieces: &[Piece]) -> (u64, u64) {
    let times = pieces.iter().flat_map(|piece| {
        let ends = [piece.entries.first(), piece.entries.last()];
        ends.into_iter().flatten().map(|entry| entry.log_time_nanos)
    });
    times.fold((u64::MAX, 0), |(a, b), time| (a.min(time), b.max(time)))
}

impl Writer {
    /// Makes the recording's directory.
    ///
    /// # Errors
    /// If it exists, the disk refuses, or a thread cannot be started.
    pub fn create(shared: Arc<Shared>, tracker: Arc<FrameTracker>) -> Result<Self, RecordError> {
        Ok(Self {
            compressors: Compressors::start(&shared)?,
            series: SplitSeries::create(shared.clone())?,
            writes: WritesInFlight::new(shared.disk.queue(), shared.options.clock.clone()),
            sources: Vec::new(),
            tracker,
            shared,
        })
    }

    pub fn add_topic(&mut self, topic: &SplitTopic, queue: Arc<TopicQueue>, is_stream: bool) {
        self.sources.push(Source { queue, is_stream });
        self.series.add_topic(topic);
    }

    /// Whether chunks are compressed.
    pub fn compresses(&self) -> bool {
        self.compressors.is_some()
    }

    /// Whether so much is in flight that the queues should keep their messages.
    pub fn is_busy(&self) -> bool {
        self.writes.memory_bytes() >= IN_FLIGHT_BYTES_MAX
            || self.compressors.as_ref().is_some_and(Compressors::is_busy)
    }

    /// Writes a frame from its slot, or the copy of it.
    pub fn write_frame(&mut self, frame: Submitted) {
        if self.shared.failure().is_some() {
            return self.give_up(frame, Cause::Disk);
        }
        let Some(place) = self.series.place_of(frame.topic, Access::Direct) else {
            return self.give_up(frame, Cause::Disk);
        };
        let Submitted { topic, entry, from } = frame;
        match from {
            Origin::Slot { number, frame, encoder } => {
                self.write_from_slot(topic, place, entry, (number, frame, encoder));
            }
            Origin::Copy(extent) => self.write_owned(topic, place, extent),
        }
    }

    /// Counts a frame that is not written any more.
    pub fn give_up(&mut self, frame: Submitted, cause: Cause) {
        let copy = match frame.from {
            Origin::Slot { number, .. } => self.tracker.land(number).and_then(|landed| landed.copy),
            Origin::Copy(extent) => Some(extent),
        };
        if let Some(extent) = copy {
            self.sources[frame.topic].queue.release(extent.block.len() as u64);
        }
        self.series.current().topics[frame.topic].lose(cause, 1);
    }

    /// Writes messages from a topic's queue; small batches for the shared brick go to `shared`.
    pub fn write_queued(&mut self, topic: usize, queued: Queued, shared: &mut Vec<(usize, Batch)>) {
        if self.shared.failure().is_some() {
            return self.refuse(topic, &queued, Cause::Disk);
        }
        let access = match &queued {
            Queued::Own(_) => Access::Direct,
            Queued::Batch(_) => Access::Buffered,
        };
        let Some(place) = self.series.place_of(topic, access) else {
            return self.refuse(topic, &queued, Cause::Disk);
        };
        match queued {
            Queued::Own(extent) => {
                // The topic's collected messages come before it.
                if shared.iter().any(|(earlier, _)| *earlier == topic) {
                    self.write_shared(std::mem::take(shared));
                }
                self.write_owned(topic, place, extent);
            }
            Queued::Batch(batch) if self.series.brick(place).topics.len() > 1 => {
                shared.push((topic, batch));
            }
            Queued::Batch(batch) => self.write_chunk(place, vec![(topic, batch)]),
        }
    }

    /// Writes batches of the shared brick, many small ones as one chunk.
    pub fn write_shared(&mut self, batches: Vec<(usize, Batch)>) {
        let mut chunk: Vec<(usize, Batch)> = Vec::new();
        let mut bytes = 0;
        let Some(&(first, _)) = batches.first() else { return };
        // All of them are in the shared brick, which all of them need.
        let Some(place) = self.series.place_of(first, Access::Buffered) else { return };
        for (topic, batch) in batches {
            // A second batch of one topic needs a separate chunk: one message index per channel.
            let again = chunk.iter().any(|(earlier, _)| *earlier == topic);
            if again || bytes + batch.records_bytes() > CHUNK_BYTES_MAX {
                self.write_chunk(place, std::mem::take(&mut chunk));
                bytes = 0;
            }
            bytes += batch.records_bytes();
            chunk.push((topic, batch));
        }
        self.write_chunk(place, chunk);
    }

    /// Counts messages that are not written any more.
    pub fn refuse(&mut self, topic: usize, queued: &Queued, cause: Cause) {
        self.series.current().topics[topic].lose(cause, queued.published());
        self.sources[topic].queue.release(queued.held_bytes());
    }

    /// Writes compressed chunks; returns whether any are still being compressed.
    pub fn write_compressed(&mut self) -> bool {
        loop {
            let Some(compressors) = &mut self.compressors else { return false };
            match compressors.take() {
                Ok(Some(done)) => self.write_done(done),
                Ok(None) => return compressors.has_jobs(),
                Err(error) => self.series.fail_with(error),
            }
        }
    }

    /// Waits up to `wait` for writes to end, and commits their messages.
    pub fn reap(&mut self, wait: Duration) {
        if let Err(error) = self.writes.reap(wait) {
            let directory = self.shared.directory.clone();
            self.series.fail("submitting writes to", &directory, error);
        }
        while let Some(ended) = self.writes.next_ended() {
            self.complete(ended);
        }
        self.series.retire();
    }
}

/// From messages to extents.
impl Writer {
    /// Starts the zero-copy write of a large frame.
    fn write_from_slot(
        &mut self,
        topic: usize,
        place: Place,
        entry: IndexEntry,
        (number, frame, encoder): (FrameNumber, FrameRef, Encoder),
    ) {
        let (prefix, suffix) = encoder.wrapping(&frame);
        let channel_id = self.sources[topic].queue.channel_id();
        let payload_bytes = frame.payload_bytes();
        let mut extent = Extent::new(channel_id, entry, &prefix, payload_bytes, &suffix);
        let rest = payload_bytes - extent.slot_bytes;
        // Torn or not is asked once, after the device has had the whole.
        frame.copy_range_to(extent.slot_bytes, &mut extent.tail[..rest]);
        if self.shared.options.checksum {
            extent.seal(&frame, rest + suffix.len());
        }

        let target = self.target(place, extent.bytes());
        let mut entry = extent.entry;
        entry.offset += target.offset;
        let lead = extent.committed_lead();
        let ticket = self.series.issue(place, topic);
        let piece = Piece { topic, ticket, entries: vec![entry], held_bytes: 0 };
        let slot = Part::Slot(frame, extent.slot_bytes);
        let parts = vec![Part::Block(extent.head), slot, Part::Block(extent.tail)];
        self.submit(target, parts, Content::Slot { piece, number, lead });
    }

    /// Writes one chunk of one or several batches.
    fn write_chunk(&mut self, place: Place, batches: Vec<(usize, Batch)>) {
        if batches.is_empty() {
            return;
        }
        let (bytes, mut pieces, records_end) = self.assemble(place, batches);
        let access = self.series.brick(place).access;
        if self.compresses() {
            return self.compress(Job {
                place,
                times: times_of(&pieces),
                pieces,
                records_end,
                indexes_end: bytes.len(),
                chunk: Block::unaligned(bytes),
                direct: access == Access::Direct,
                is_padded: false,
            });
        }
        let block = match access {
            Access::Direct => Block::padded(bytes),
            Access::Buffered => Block::unaligned(bytes),
        };
        let target = self.target(place, block.len() as u64);
        for entry in pieces.iter_mut().flat_map(|piece| &mut piece.entries) {
            entry.set_chunk_offset(target.offset);
        }
        let content = Content::Chunk { pieces, stored: None };
        self.submit(target, vec![Part::Block(block)], content);
    }

    /// Joins batches into a chunk record and its message indexes; tells where the records end.
    fn assemble(
        &mut self,
        place: Place,
        batches: Vec<(usize, Batch)>,
    ) -> (Vec<u8>, Vec<Piece>, usize) {
        let alone = batches.len() == 1;
        let mut bytes = Vec::new();
        let mut pieces = Vec::with_capacity(batches.len());
        if !alone {
            let records = batches.iter().map(|(_, batch)| batch.records_bytes()).sum::<usize>();
            bytes.reserve(records + records / 4 + CHUNK_HEADER_BYTES);
            bytes.resize(CHUNK_HEADER_BYTES, 0);
        }
        for (topic, mut batch) in batches {
            let held_bytes = batch.records_bytes() as u64;
            let mut entries = std::mem::take(&mut batch.entries);
            if alone {
                bytes = std::mem::take(&mut batch.records);
            } else {
                let shift = (bytes.len() - CHUNK_HEADER_BYTES) as u32;
                bytes.extend_from_slice(&batch.records[CHUNK_HEADER_BYTES..]);
                entries.iter_mut().for_each(|entry| entry.inner += shift);
                self.sources[topic].queue.recycle_records(batch.records);
            }
            let ticket = self.series.issue(place, topic);
            pieces.push(Piece { topic, ticket, entries, held_bytes });
        }
        let records_end = bytes.len();
        if !self.compresses() {
            let (start, end) = times_of(&pieces);
            let records = &bytes[CHUNK_HEADER_BYTES..];
            let head = chunk_header(start, end, records.len() as u64, crc32fast::hash(records));
            bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&head);
        }
        for piece in &pieces {
            let channel_id = self.sources[piece.topic].queue.channel_id();
            let entries = piece.entries.iter();
            let places = entries.map(|entry| (entry.log_time_nanos, u64::from(entry.inner)));
            put_message_index(&mut bytes, channel_id, places);
        }
        (bytes, pieces, records_end)
    }

    fn write_owned(&mut self, topic: usize, place: Place, extent: OwnedExtent) {
        let held_bytes = extent.block.len() as u64;
        let ticket = self.series.issue(place, topic);
        let piece = Piece { topic, ticket, entries: vec![extent.entry], held_bytes };
        self.write_owned_piece(place, extent, piece);
    }

    fn write_owned_piece(&mut self, place: Place, mut extent: OwnedExtent, piece: Piece) {
        if self.compresses() {
            let time = extent.entry.log_time_nanos;
            let direct = self.series.brick(place).access == Access::Direct;
            return self.compress(Job {
                place,
                pieces: vec![piece],
                records_end: extent.records_end(),
                indexes_end: extent.indexes_end(),
                chunk: extent.block,
                times: (time, time),
                direct,
                is_padded: true,
            });
        }
        if self.shared.options.checksum {
            extent.seal();
        }
        let target = self.target(place, extent.block.len() as u64);
        self.write_owned_at(target, extent, piece);
    }

    /// Writes the copy of a frame that was overwritten before the device had read it all: over the torn one, so that
    /// the file does not grow, and a padding record over the rest. With a checksum: after a power cut a sector may be
    /// that of the torn frame, and no hole tells of it.
    fn write_copy(&mut self, torn: Target, mut extent: OwnedExtent, piece: Piece) {
        if self.compresses() || extent.block.len() as u64 > torn.bytes {
            return self.write_owned_piece(torn.place, extent, piece);
        }
        extent.seal();
        self.write_owned_at(torn, extent, piece);
    }

    /// Writes a whole extent to its place, which may be some blocks longer.
    fn write_owned_at(&mut self, target: Target, extent: OwnedExtent, mut piece: Piece) {
        let offset = extent.entry.offset + target.offset;
        piece.entries = vec![IndexEntry { offset, ..extent.entry }];
        let rest_bytes = target.bytes - extent.block.len() as u64;
        let mut parts = vec![Part::Block(extent.block)];
        if rest_bytes > 0 {
            // Both extents are whole blocks.
            let mut rest = Block::zeroed(rest_bytes as usize);
            rest[..RECORD_HEADER_BYTES].copy_from_slice(&padding_header(rest_bytes));
            parts.push(Part::Block(rest));
        }
        self.submit(target, parts, Content::Chunk { pieces: vec![piece], stored: None });
    }

    /// Hands a chunk to the compressing threads.
    fn compress(&mut self, job: Job) {
        self.series.split(job.place.split).in_flight += 1;
        if let Some(compressors) = &mut self.compressors {
            compressors.push(job);
        }
    }

    fn write_done(&mut self, mut done: Done) {
        let place = done.place;
        if let Some(spare) = done.spare.take() {
            self.recycle(&done.pieces, vec![Part::Block(spare)]);
        }
        let target = self.target(place, done.chunk.len() as u64);
        for entry in done.pieces.iter_mut().flat_map(|piece| &mut piece.entries) {
            entry.set_chunk_offset(target.offset);
            entry.compressed = done.stored.is_some();
        }
        let content = Content::Chunk { pieces: done.pieces, stored: done.stored };
        self.submit(target, vec![Part::Block(done.chunk)], content);
        // Last: the write that follows has been counted by now.
        self.series.split(place.split).in_flight -= 1;
    }

    /// The next `bytes` of a brick.
    fn target(&mut self, place: Place, bytes: u64) -> Target {
        Target { place, offset: self.series.brick(place).place(bytes), bytes }
    }

    fn submit(&mut self, target: Target, parts: Vec<Part>, content: Content) {
        self.series.split(target.place.split).in_flight += 1;
        let file = self.series.brick(target.place).file.clone();
        self.writes.submit(file, target, parts, content);
    }
}

/// From ended writes to committed messages.
impl Writer {
    fn complete(&mut self, ended: Ended) {
        let Ended { target, content, parts, result } = ended;
        let place = target.place;
        match (result, content) {
            (Err(error), content) => self.fail_write(target, content, error),
            (Ok(()), Content::Chunk { pieces, stored }) => {
                self.series.brick(place).write_behind();
                self.note_chunk(place, &pieces, stored);
                if stored.is_none() {
                    self.recycle(&pieces, parts);
                }
                for piece in pieces {
                    self.commit(place, piece);
                }
            }
            (Ok(()), Content::Commit { piece }) => {
                self.note_chunk(place, std::slice::from_ref(&piece), None);
                self.commit(place, piece);
            }
            (Ok(()), Content::Slot { piece, number, lead }) => {
                let (piece, landed) = self.land(piece, number);
                match landed {
                    Some(landed) if landed.frame.is_intact() => {
                        self.commit_frame(target, piece, lead, parts);
                    }
                    Some(Completed { copy: Some(extent), .. }) => {
                        self.write_copy(target, extent, piece);
                    }
                    // The record in front already covers the torn extent.
                    _ => self.settle(place, piece, Outcome::Lost(Cause::Lapped, 1)),
                }
            }
        }
        // Last: what follows from this write has been counted by now.
        self.series.split(place.split).in_flight -= 1;
    }

    /// Gets the state of a frame; a copy's room is released when its piece is complete.
    fn land(&self, mut piece: Piece, number: FrameNumber) -> (Piece, Option<Completed>) {
        let landed = self.tracker.land(number);
        let copy = landed.as_ref().and_then(|landed| landed.copy.as_ref());
        piece.held_bytes = copy.map_or(0, |copy| copy.block.len() as u64);
        (piece, landed)
    }

    /// The device has had an intact frame: the record in front becomes padding, which makes its chunk part of
    /// the file.
    fn commit_frame(
        &mut self,
        target: Target,
        piece: Piece,
        lead: [u8; RECORD_HEADER_BYTES],
        parts: Vec<Part>,
    ) {
        let head = parts.into_iter().next();
        let Some(Part::Block(mut head)) = head else { return };
        head.truncate(BLOCK_BYTES);
        head[..RECORD_HEADER_BYTES].copy_from_slice(&lead);
        debug_assert!(target.bytes >= head.len() as u64);
        // The target stays the whole extent: if this write fails, all of it becomes padding.
        self.submit(target, vec![Part::Block(head)], Content::Commit { piece });
    }

    fn fail_write(&mut self, target: Target, content: Content, error: io::Error) {
        let brick = self.series.brick(target.place);
        brick.damaged.push((target.offset, target.bytes));
        let path = brick.path.clone();
        self.series.fail("writing", &path, error);
        let pieces = match content {
            Content::Chunk { pieces, .. } => pieces,
            Content::Slot { piece, number, .. } => vec![self.land(piece, number).0],
            Content::Commit { piece } => vec![piece],
        };
        for piece in pieces {
            let lost = Outcome::Lost(Cause::Disk, published(&piece.entries));
            self.settle(target.place, piece, lost);
        }
    }

    fn note_chunk(&mut self, place: Place, pieces: &[Piece], stored: Option<(Compression, u64)>) {
        let Some(first) = pieces.first().and_then(|piece| piece.entries.first()) else { return };
        let mut chunk = ChunkExtent {
            offset: first.chunk_offset(),
            stored,
            start_nanos: u64::MAX,
            ..ChunkExtent::default()
        };
        for piece in pieces {
            if let (Some(first), Some(last)) = (piece.entries.first(), piece.entries.last()) {
                let channel_id = self.sources[piece.topic].queue.channel_id();
                chunk.add(channel_id, first, last, piece.entries.len() as u64);
            }
        }
        self.series.brick(place).note_chunk(chunk);
    }

    /// Gives the memory of a chunk back to where it came from.
    fn recycle(&self, pieces: &[Piece], parts: Vec<Part>) {
        let Some(Part::Block(block)) = parts.into_iter().next() else { return };
        let [piece] = pieces else { return };
        let Source { queue, is_stream } = &self.sources[piece.topic];
        let is_large = block.len() >= OWN_CHUNK_BYTES_MIN;
        match (is_stream, piece.entries.len()) {
            // A stream's frames seldom pass through memory: theirs goes, once that is over.
            (true, _) if is_large => self.tracker.give_back(block),
            (false, 1) if is_large => queue.recycle_block(block),
            _ => {
                if let Some(records) = block.into_vec() {
                    queue.recycle_records(records);
                }
            }
        }
    }

    fn commit(&mut self, place: Place, mut piece: Piece) {
        let entries = std::mem::take(&mut piece.entries);
        self.settle(place, piece, Outcome::Readable(entries));
    }

    fn settle(&mut self, place: Place, piece: Piece, outcome: Outcome) {
        if piece.held_bytes > 0 {
            self.sources[piece.topic].queue.release(piece.held_bytes);
        }
        self.series.settle(place, piece.topic, piece.ticket, outcome);
    }
}
