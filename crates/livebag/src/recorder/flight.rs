//! Extents on their way to the disk, from submission to commitment.

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, ChunkExtent, Compression, RECORD_HEADER_BYTES, chunk_header,
    padding_header, put_message_index,
};
use livebag_shm::FrameRef;

use super::brick::Brick;
use super::compress::Job;
use super::engine::Engine;
use super::frame_tracker::{Completed, FrameNumber, Origin, Submitted};
use super::topic::{Cause, Outcome, Ticket, TopicState};
use crate::limits::{BLOCK_BYTES, OWN_CHUNK_BYTES_MIN};
use crate::queue::{Batch, Extent, OwnedExtent, Queued, published};
use crate::source::Encoder;
use crate::storage::{Access, Block, Completion, Part, Write};

/// One topic's messages in an extent.
pub(super) struct Piece {
    topic: usize,
    ticket: Ticket,
    pub entries: Vec<IndexEntry>,
    /// Bytes of the topic's queue that the extent holds.
    held_bytes: u64,
}

/// What a write carries.
pub(super) enum Content {
    /// A chunk of gathered messages, of one topic or of several.
    Chunk {
        pieces: Vec<Piece>,
        /// If it is compressed: how, and to what length.
        stored: Option<(Compression, u64)>,
    },
    /// A frame fetched from its slot.
    Slot { piece: Piece, number: FrameNumber, lead: [u8; RECORD_HEADER_BYTES] },
    /// The header that commits a frame fetched from its slot.
    Commit { piece: Piece },
}

/// Where a write goes: a brick of a split.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub split: u32,
    brick: usize,
}

/// A write in flight.
pub(super) struct Flight {
    place: Place,
    offset: u64,
    bytes: u64,
    content: Content,
}

/// Earliest and latest log time of a chunk.
fn times_of(pieces: &[Piece]) -> (u64, u64) {
    let times = pieces.iter().flat_map(|piece| {
        let ends = [piece.entries.first(), piece.entries.last()];
        ends.into_iter().flatten().map(|entry| entry.log_time_nanos)
    });
    times.fold((u64::MAX, 0), |(a, b), time| (a.min(time), b.max(time)))
}

fn bytes_of(parts: &[Part]) -> u64 {
    parts.iter().map(|part| part.bytes() as u64).sum()
}

fn owned_bytes(parts: &[Part]) -> u64 {
    let owned = parts.iter().filter(|part| matches!(part, Part::Block(_)));
    owned.map(|part| part.bytes() as u64).sum()
}

impl Engine {
    pub fn brick(&mut self, place: Place) -> &mut Brick {
        &mut self.split(place.split).bricks[place.brick]
    }

    /// The brick that takes the topic's messages now.
    fn place_of(&mut self, topic: usize, access: Access) -> std::io::Result<Place> {
        let current = self.current();
        let name = current.topics[topic].topic.clone();
        let brick = current.brick_of(topic, &name.name, access)?;
        Ok(Place { split: current.number, brick })
    }

    fn issue(&mut self, place: Place, topic: usize) -> Ticket {
        let files = self.split(place.split).topics[topic].files.as_mut();
        files.expect("made with the brick").issue()
    }

    pub fn launch(
        &mut self,
        place: Place,
        offset: u64,
        bytes: u64,
        parts: Vec<Part>,
        content: Content,
    ) {
        let token = self.next_token;
        self.next_token += 1;
        self.split(place.split).in_flight += 1;
        self.flight_bytes += owned_bytes(&parts);
        let now = self.shared.options.clock.monotonic_nanos();
        self.gate.speed.submitted(now, bytes_of(&parts));
        let file = self.brick(place).file.clone();
        self.flights.insert(token, Flight { place, offset, bytes, content });
        self.queue.submit(Write { token, file, offset, parts });
    }

    /// Writes the frame that waits longest. `false` if it stays, for lack of room for the copy that is to be
    /// compressed.
    pub fn write_next_held(&mut self) -> bool {
        let Some(next) = self.tracker.next_pending() else { return false };
        let topic = next.topic;
        // While one of its frames waits, none enters the topic's queue: all there is older.
        self.take_queue(topic);
        let Some(going) = self.tracker.release(next.number, self.compresses()) else {
            let first = self.tracker.next_pending();
            return first.is_none_or(|first| first.number != next.number);
        };
        if self.shared.failure().is_some() {
            self.give_up(going, Cause::Disk);
            return true;
        }
        match self.place_of(topic, Access::Direct) {
            Ok(place) => self.write_going(place, going),
            Err(error) => {
                self.fail_brick(topic, error);
                self.give_up(going, Cause::Disk);
            }
        }
        true
    }

    pub fn give_up(&mut self, going: Submitted, cause: Cause) {
        let copy = match going.from {
            Origin::Slot { number, .. } => self.tracker.land(number).and_then(|landed| landed.copy),
            Origin::Copy(extent) => Some(extent),
        };
        if let Some(extent) = copy {
            self.topics[going.topic].queue.release(extent.block.len() as u64);
        }
        self.current().topics[going.topic].lose(cause, 1);
    }

    fn write_going(&mut self, place: Place, going: Submitted) {
        let Submitted { topic, entry, from } = going;
        match from {
            Origin::Slot { number, frame, encoder } => {
                self.write_from_slot(topic, place, entry, (number, frame, encoder));
            }
            Origin::Copy(extent) => {
                let held_bytes = extent.block.len() as u64;
                self.write_owned(topic, place, extent, held_bytes);
            }
        }
    }

    /// Starts the zero-copy write of a large frame.
    fn write_from_slot(
        &mut self,
        topic: usize,
        place: Place,
        entry: IndexEntry,
        (number, frame, encoder): (FrameNumber, FrameRef, Encoder),
    ) {
        let (prefix, suffix) = encoder.wrapping(&frame);
        let channel_id = self.topics[topic].queue.channel_id();
        let payload_bytes = frame.payload_bytes();
        let mut extent = Extent::new(channel_id, entry, &prefix, payload_bytes, &suffix);
        let rest = payload_bytes - extent.slot_bytes;
        // Torn or not is asked once, after the device has had the whole.
        frame.copy_range_to(extent.slot_bytes, &mut extent.tail[..rest]);
        if self.shared.options.checksum {
            extent.seal(&frame, rest + suffix.len());
        }

        let bytes = extent.bytes();
        let offset = self.brick(place).place(bytes);
        let mut entry = extent.entry;
        entry.offset += offset;
        let lead = extent.committed_lead();
        let ticket = self.issue(place, topic);
        let piece = Piece { topic, ticket, entries: vec![entry], held_bytes: 0 };
        let slot = Part::Slot(frame, extent.slot_bytes);
        let parts = vec![Part::Block(extent.head), slot, Part::Block(extent.tail)];
        let content = Content::Slot { piece, number, lead };
        self.launch(place, offset, bytes, parts, content);
    }

    /// Writes what came out of a topic's queue; small batches for the shared brick go to `shared`.
    pub fn write_queued(&mut self, topic: usize, queued: Queued, shared: &mut Vec<(usize, Batch)>) {
        if self.shared.failure().is_some() {
            return self.refuse(topic, &queued, Cause::Disk);
        }
        let access = match &queued {
            Queued::Own(_) => Access::Direct,
            Queued::Batch(_) => Access::Buffered,
        };
        let place = match self.place_of(topic, access) {
            Ok(place) => place,
            Err(error) => {
                self.fail_brick(topic, error);
                return self.refuse(topic, &queued, Cause::Disk);
            }
        };
        match queued {
            Queued::Own(extent) => {
                // What the topic has gathered before it comes before it.
                if shared.iter().any(|(earlier, _)| *earlier == topic) {
                    self.write_shared(std::mem::take(shared));
                }
                let held_bytes = extent.block.len() as u64;
                self.write_owned(topic, place, extent, held_bytes);
            }
            Queued::Batch(batch) if self.brick(place).topics.len() > 1 => {
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
        // All of them are in the shared brick, which none of them can be without.
        let Ok(place) = self.place_of(first, Access::Buffered) else { return };
        for (topic, batch) in batches {
            // A second batch of one topic needs a chunk of its own: one message index per channel.
            let again = chunk.iter().any(|(earlier, _)| *earlier == topic);
            if again || bytes + batch.records_bytes() > crate::limits::CHUNK_BYTES_MAX {
                self.write_chunk(place, std::mem::take(&mut chunk));
                bytes = 0;
            }
            bytes += batch.records_bytes();
            chunk.push((topic, batch));
        }
        self.write_chunk(place, chunk);
    }

    /// Writes one chunk of one or several batches.
    fn write_chunk(&mut self, place: Place, batches: Vec<(usize, Batch)>) {
        if batches.is_empty() {
            return;
        }
        let (bytes, mut pieces, records_end) = self.assemble(place, batches);
        if self.compresses() {
            let direct = self.brick(place).access == Access::Direct;
            return self.compress(Job {
                place,
                times: times_of(&pieces),
                pieces,
                records_end,
                indexes_end: bytes.len(),
                chunk: Block::unaligned(bytes),
                direct,
                is_padded: false,
            });
        }
        let block = match self.brick(place).access {
            Access::Direct => Block::padded(bytes),
            Access::Buffered => Block::unaligned(bytes),
        };
        let total = block.len() as u64;
        let offset = self.brick(place).place(total);
        for entry in pieces.iter_mut().flat_map(|piece| &mut piece.entries) {
            entry.set_chunk_offset(offset);
        }
        self.launch(
            place,
            offset,
            total,
            vec![Part::Block(block)],
            Content::Chunk { pieces, stored: None },
        );
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
                self.topics[topic].queue.recycle_records(batch.records);
            }
            let ticket = self.issue(place, topic);
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
            let channel_id = self.topics[piece.topic].queue.channel_id();
            let entries = piece.entries.iter();
            let places = entries.map(|entry| (entry.log_time_nanos, u64::from(entry.inner)));
            put_message_index(&mut bytes, channel_id, places);
        }
        (bytes, pieces, records_end)
    }

    fn write_owned(&mut self, topic: usize, place: Place, extent: OwnedExtent, held_bytes: u64) {
        let ticket = self.issue(place, topic);
        let piece = Piece { topic, ticket, entries: vec![extent.entry], held_bytes };
        self.write_owned_piece(place, extent, piece);
    }

    fn write_owned_piece(&mut self, place: Place, mut extent: OwnedExtent, piece: Piece) {
        if self.compresses() {
            let time = extent.entry.log_time_nanos;
            let direct = self.brick(place).access == Access::Direct;
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
        let bytes = extent.block.len() as u64;
        let offset = self.brick(place).place(bytes);
        self.write_owned_at((place, offset, bytes), extent, piece);
    }

    /// Writes the copy of a frame that was overwritten before the device had all of it: over the torn one, so
    /// that the file grows no longer, and a padding record over what is left of that. With a checksum: after a
    /// power cut a sector may be that of the torn frame, and no hole tells of it.
    fn write_copy(&mut self, torn: (Place, u64, u64), mut extent: OwnedExtent, piece: Piece) {
        if self.compresses() || extent.block.len() as u64 > torn.2 {
            return self.write_owned_piece(torn.0, extent, piece);
        }
        extent.seal();
        self.write_owned_at(torn, extent, piece);
    }

    /// Writes a whole extent to its place, which may be some blocks longer.
    fn write_owned_at(
        &mut self,
        (place, offset, bytes): (Place, u64, u64),
        extent: OwnedExtent,
        mut piece: Piece,
    ) {
        piece.entries = vec![IndexEntry { offset: extent.entry.offset + offset, ..extent.entry }];
        let rest_bytes = bytes - extent.block.len() as u64;
        let mut parts = vec![Part::Block(extent.block)];
        if rest_bytes > 0 {
            // Both extents are whole blocks.
            let mut rest = Block::zeroed(rest_bytes as usize);
            rest[..RECORD_HEADER_BYTES].copy_from_slice(&padding_header(rest_bytes));
            parts.push(Part::Block(rest));
        }
        let content = Content::Chunk { pieces: vec![piece], stored: None };
        self.launch(place, offset, bytes, parts, content);
    }

    /// Handles a write that has ended.
    pub fn complete(&mut self, completion: Completion) {
        let Some(flight) = self.flights.remove(&completion.token) else { return };
        let Flight { place, offset, bytes, content } = flight;
        self.flight_bytes -= owned_bytes(&completion.parts);
        let now = self.shared.options.clock.monotonic_nanos();
        self.gate.speed.completed(now, bytes_of(&completion.parts));
        if let Err(error) = completion.result {
            self.fail_flight(place, (offset, bytes), content, error);
        } else {
            match content {
                Content::Chunk { pieces, stored } => {
                    self.brick(place).write_behind();
                    self.note_chunk(place, &pieces, stored);
                    if stored.is_none() {
                        self.recycle(&pieces, completion.parts);
                    }
                    self.commit_chunk(place, pieces);
                }
                Content::Commit { mut piece } => {
                    self.note_chunk(place, std::slice::from_ref(&piece), None);
                    let entries = std::mem::take(&mut piece.entries);
                    self.settle(place, piece, Outcome::Readable(entries));
                }
                Content::Slot { piece, number, lead } => {
                    let (piece, landed) = self.land(piece, number);
                    match landed {
                        Some(landed) if landed.frame.is_intact() => {
                            let parts = completion.parts;
                            self.commit_frame(place, (offset, bytes), piece, lead, parts);
                        }
                        Some(Completed { copy: Some(extent), .. }) => {
                            self.write_copy((place, offset, bytes), extent, piece);
                        }
                        // The padding record in front already covers the torn extent.
                        _ => self.settle(place, piece, Outcome::Lost(Cause::Lapped, 1)),
                    }
                }
            }
        }
        // Last: what follows from this write has been counted by now.
        self.split(place.split).in_flight -= 1;
    }

    /// Asks what has become of a frame; a copy's room is given back when its piece is settled.
    fn land(&self, mut piece: Piece, number: FrameNumber) -> (Piece, Option<Completed>) {
        let landed = self.tracker.land(number);
        let copy = landed.as_ref().and_then(|landed| landed.copy.as_ref());
        piece.held_bytes = copy.map_or(0, |copy| copy.block.len() as u64);
        (piece, landed)
    }

    fn fail_flight(
        &mut self,
        place: Place,
        extent: (u64, u64),
        content: Content,
        error: std::io::Error,
    ) {
        let brick = self.brick(place);
        brick.damaged.push(extent);
        let path = brick.path.clone();
        self.fail("writing", &path, error);
        let pieces = match content {
            Content::Chunk { pieces, .. } => pieces,
            Content::Slot { piece, number, .. } => vec![self.land(piece, number).0],
            Content::Commit { piece } => vec![piece],
        };
        for piece in pieces {
            let lost = Outcome::Lost(Cause::Disk, published(&piece.entries));
            self.settle(place, piece, lost);
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
                let channel_id = self.topics[piece.topic].queue.channel_id();
                chunk.add(channel_id, first, last, piece.entries.len() as u64);
            }
        }
        self.brick(place).note_chunk(chunk);
    }

    /// Gives the memory of a chunk back to where it came from.
    pub fn recycle(&mut self, pieces: &[Piece], parts: Vec<Part>) {
        let Some(Part::Block(block)) = parts.into_iter().next() else { return };
        let [piece] = pieces else { return };
        let TopicState { queue, is_stream, .. } = &self.topics[piece.topic];
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

    fn commit_chunk(&mut self, place: Place, pieces: Vec<Piece>) {
        for mut piece in pieces {
            let entries = std::mem::take(&mut piece.entries);
            self.settle(place, piece, Outcome::Readable(entries));
        }
    }

    /// The device has had an intact frame: shorten the padding in front of it, which makes its
    /// chunk part of the file.
    fn commit_frame(
        &mut self,
        place: Place,
        (offset, bytes): (u64, u64),
        piece: Piece,
        lead: [u8; RECORD_HEADER_BYTES],
        parts: Vec<Part>,
    ) {
        let head = parts.into_iter().next();
        let Some(Part::Block(mut head)) = head else { return };
        head.truncate(BLOCK_BYTES);
        head[..RECORD_HEADER_BYTES].copy_from_slice(&lead);
        debug_assert!(bytes >= head.len() as u64);
        let content = Content::Commit { piece };
        // `bytes` stays the whole extent's: if this write fails, all of it becomes padding.
        self.launch(place, offset, bytes, vec![Part::Block(head)], content);
    }

    fn settle(&mut self, place: Place, piece: Piece, outcome: Outcome) {
        // A brick is named before the first entry points into it, also while closing.
        if matches!(outcome, Outcome::Readable(_)) {
            self.name_bricks(place.split);
        }
        if piece.held_bytes > 0 {
            self.topics[piece.topic].queue.release(piece.held_bytes);
        }
        let split = self.split(place.split);
        let settled = split.topics[piece.topic].settle(piece.ticket, outcome);
        if let Err(error) = settled {
            let files = split.topics[piece.topic].files.as_ref();
            let name = files.map_or("", |files| files.index_name.as_str());
            let path = split.directory.join(name);
            self.fail("writing", &path, error);
        }
    }

    fn fail_brick(&mut self, topic: usize, error: std::io::Error) {
        let current = self.current();
        let path = current.directory.join(current.topics[topic].topic.name.trim_start_matches('/'));
        self.fail("making the files of a topic at", &path, error);
    }

    /// Counts messages that are not written any more.
    pub fn refuse(&mut self, topic: usize, queued: &Queued, cause: Cause) {
        self.current().topics[topic].lose(cause, queued.published());
        self.topics[topic].queue.release(queued.held_bytes());
    }
}
