//! Reads the planned ranges of several topics, merged by log time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use livebag_format::Message;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES, MESSAGE_HEADER_BYTES};

use super::brick::{NO_CHUNK, PlainChunk, Use, WRONG_CHECKSUM, brick_ends, end_of, part};
use super::{Buffer, Container, ContainerError, Segment};
use crate::container::unpack::Unpacked;
use crate::limits::{
    CHUNK_BYTES_MAX, IN_PLACE_BYTES_MIN, READ_AHEAD_BYTES, READ_STRAIGHT_BYTES_MIN,
    READ_WINDOW_BYTES,
};
use crate::storage::{FilePart, Mapping, ReadFile, Stretch};

/// Index entries read at once.
const ENTRIES_AT_ONCE: usize = 512;
/// The messages of a query, oldest first.
pub struct Cursor<'container> {
    topics: Vec<TopicCursor<'container>>,
    /// (log time, place in `topics`), earliest first.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    remaining: u64,
    /// By place in [`Container::topics`].
    damaged: Vec<u64>,
    /// Place in `topics` and entry of the message that was come to last.
    last: Option<(usize, IndexEntry)>,
}

/// One topic's part of a query.
struct TopicCursor<'container> {
    segment: &'container Segment,
    /// Place in the container's list.
    number: usize,
    /// Entries not yet in `entries`.
    range: Range<u64>,
    entries: Vec<IndexEntry>,
    at: usize,
    window: Window,
    checked: Checked,
    unpacked: Unpacked,
    /// Whether enough is requested that the kernel may fetch it 2 MiB at a time; known once there are entries.
    is_long: Option<bool>,
}

/// The chunk that was checked last.
#[derive(Default)]
struct Checked {
    /// Brick and place.
    place: Option<(u16, u64)>,
    /// Description of the damage.
    damage: Option<&'static str>,
}

/// Bytes of a brick that have been read, or are in place.
struct Window {
    /// Whether they are to be in place, where that is possible.
    in_place: bool,
    /// In place they are here.
    stretch: Option<Stretch>,
    bytes: Vec<u8>,
    start: u64,
    filled: usize,
    brick: u16,
    /// Brick and file offset up to which messages are wanted.
    end: (u16, u64),
    /// File offset up to which the kernel has been asked to read.
    asked: u64,
}

impl<'container> Cursor<'container> {
    pub(super) fn plan(
        container: &'container Container,
        chosen: &[usize],
        from: u64,
        to: u64,
    ) -> Result<Self, ContainerError> {
        let mut this = Self {
            topics: Vec::new(),
            heap: BinaryHeap::new(),
            remaining: 0,
            damaged: vec![0; container.topics.len()],
            last: None,
        };
        for &number in chosen {
            this.damaged[number] += container.topics[number].missing()?;
            for segment in &container.topics[number].segments {
                this.plan_segment(segment, (number, container.in_place), from, to)?;
            }
        }
        Ok(this)
    }

    fn plan_segment(
        &mut self,
        segment: &'container Segment,
        (number, in_place): (usize, bool),
        from: u64,
        to: u64,
    ) -> Result<(), ContainerError> {
        let range = segment.between(from, to)?;
        if !range.is_empty() {
            self.remaining += range.end - range.start;
            let mut cursor = TopicCursor::new(segment, number, range)?;
            cursor.window.in_place = in_place;
            self.skip(number, cursor.feed()?);
            if let Some(first) = cursor.entries.first() {
                self.heap.push(Reverse((first.log_time_nanos, self.topics.len())));
                self.topics.push(cursor);
            }
        }
        Ok(())
    }

    /// Messages not yet given.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Messages left out so far because they, or their index entries, are damaged.
    pub fn damaged(&self) -> u64 {
        self.damaged.iter().sum()
    }

    /// The same by topic, in the order of [`Container::topics`].
    pub fn damaged_by_topic(&self) -> &[u64] {
        &self.damaged
    }

    fn skip(&mut self, topic: usize, damaged: u64) {
        self.damaged[topic] += damaged;
        self.remaining -= damaged;
    }

    /// Counts the message that was come to last as damaged.
    fn spoilt(&mut self) {
        if let Some((at, _)) = self.last {
            self.damaged[self.topics[at].number] += 1;
        }
    }

    fn step(&mut self) -> Result<Option<(usize, IndexEntry)>, ContainerError> {
        let Some(Reverse((_, at))) = self.heap.pop() else { return Ok(None) };
        let cursor = &mut self.topics[at];
        let entry = cursor.entries[cursor.at];
        cursor.at += 1;
        let damaged = if cursor.at == cursor.entries.len() { cursor.feed()? } else { 0 };
        if let Some(next) = cursor.entries.get(cursor.at) {
            self.heap.push(Reverse((next.log_time_nanos, at)));
        }
        let number = cursor.number;
        self.skip(number, damaged);
        self.remaining -= 1;
        self.last = Some((at, entry));
        Ok(self.last)
    }

    /// The next message's topic (its place in [`Container::topics`]) and index entry, without reading the
    /// message.
    ///
    /// # Errors
    /// If the index cannot be read or is damaged.
    pub fn next_entry(&mut self) -> Result<Option<(usize, IndexEntry)>, ContainerError> {
        self.last = self.step()?;
        Ok(self.last.map(|(at, entry)| (self.topics[at].number, entry)))
    }

    /// Bytes of the message that [`Cursor::next_entry`] will probably reach: damaged entries may be in between.
    pub fn next_data_bytes(&self) -> Option<u32> {
        let Reverse((_, at)) = self.heap.peek()?;
        let cursor = &self.topics[*at];
        cursor.entries.get(cursor.at).map(|entry| entry.data_bytes)
    }

    /// Appends the message whose entry [`Cursor::next_entry`] gave last; whether it could be. A damaged one is skipped
    /// and counted; `out` stays as it was.
    ///
    /// # Errors
    /// If the brick cannot be read.
    pub fn append_to(&mut self, out: &mut Buffer) -> Result<bool, ContainerError> {
        let Some((at, entry)) = self.last else { return Ok(false) };
        let filled = out.len();
        match self.topics[at].append_to(&entry, out) {
            Ok(()) => Ok(true),
            Err(ContainerError::Damaged { .. }) => {
                out.truncate(filled);
                self.spoilt();
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the message whose entry [`Cursor::next_entry`] gave last into the caller's memory. A large one
    /// is read straight from the file.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if this message does not match its entry; it counts as damaged, and later ones can
    /// still be read. Other errors mean that the brick cannot be read.
    ///
    /// # Panics
    /// If `room` is not `data_bytes` long, or no entry was given.
    pub fn read_into(&mut self, room: &mut [u8]) -> Result<(), ContainerError> {
        let (at, entry) = self.last.expect("an entry was given");
        assert_eq!(room.len(), entry.data_bytes as usize, "room for just this message");
        let read = self.topics[at].read_into(&entry, room);
        if matches!(read, Err(ContainerError::Damaged { .. })) {
            self.spoilt();
        }
        read
    }

    /// The message whose entry [`Cursor::next_entry`] gave last, in place, fetched from the device.
    /// `None` if it must be read ([`Cursor::read_into`]): it is small or compressed, too little is asked
    /// for, or its brick cannot be mapped.
    ///
    /// Dereferencing it may raise SIGBUS and is `unsafe` ([`FilePart::look`]); passing it to a system call is
    /// not.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if the brick ends before it, which counts as damaged.
    pub fn part(&mut self) -> Result<Option<FilePart>, ContainerError> {
        self.part_for(Use::Look)
    }

    /// Like [`Cursor::part`], for callers that only pass the bytes to a system call: pages already cached are
    /// not touched.
    ///
    /// # Errors
    /// As [`Cursor::part`].
    pub fn reference(&mut self) -> Result<Option<FilePart>, ContainerError> {
        self.part_for(Use::HandOn)
    }

    fn part_for(&mut self, purpose: Use) -> Result<Option<FilePart>, ContainerError> {
        let Some((at, entry)) = self.last else { return Ok(None) };
        let part = self.topics[at].part(&entry, purpose);
        if matches!(part, Err(ContainerError::Damaged { .. })) {
            self.spoilt();
        }
        part
    }

    /// The next message and its topic's place in [`Container::topics`].
    ///
    /// # Errors
    /// If index or brick cannot be read. Damaged messages are left out, see [`Cursor::damaged`].
    #[expect(clippy::should_implement_trait, reason = "the message borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<(usize, Message<'_>)>, ContainerError> {
        let (at, entry) = loop {
            let Some((at, entry)) = self.step()? else { return Ok(None) };
            match self.topics[at].read(&entry) {
                Ok(_) => break (at, entry),
                // The others are none the worse for it.
                Err(ContainerError::Damaged { .. }) => self.spoilt(),
                Err(error) => return Err(error),
            }
        };
        let cursor = &mut self.topics[at];
        let number = cursor.number;
        // It is in memory now.
        let data = cursor.read(&entry)?;
        let message = Message {
            log_time_nanos: entry.log_time_nanos,
            publish_time_nanos: entry.publish_time_nanos,
            sequence: entry.sequence,
            data,
        };
        Ok(Some((number, message)))
    }
}

impl<'container> TopicCursor<'container> {
    fn new(
        segment: &'container Segment,
        number: usize,
        range: Range<u64>,
    ) -> Result<Self, ContainerError> {
        segment.index.will_need(&range);
        let last = segment.index.last_whole(range.clone())?;
        let last = last.map(|(_, entry)| entry).unwrap_or_default();
        let window = Window {
            in_place: false,
            stretch: None,
            bytes: Vec::new(),
            start: 0,
            filled: 0,
            brick: u16::MAX,
            end: (last.brick, last.offset + u64::from(last.data_bytes)),
            asked: 0,
        };
        Ok(Self {
            segment,
            number,
            is_long: None,
            range,
            entries: Vec::new(),
            at: 0,
            window,
            checked: Checked::default(),
            unpacked: Unpacked::default(),
        })
    }

    /// Reads the next entries; gives how many damaged ones were left out.
    fn feed(&mut self) -> Result<u64, ContainerError> {
        self.at = 0;
        self.entries.clear();
        let mut damaged = 0;
        while self.entries.is_empty() && !self.range.is_empty() {
            let range = self.range.clone();
            let looked = self.segment.index.entries(range, ENTRIES_AT_ONCE, &mut self.entries)?;
            self.range.start += looked;
            damaged += looked - self.entries.len() as u64;
        }
        if let (None, Some(first)) = (self.is_long, self.entries.first()) {
            let (brick, end) = self.window.end;
            let wanted = end.saturating_sub(first.offset);
            self.is_long = Some(brick != first.brick || wanted >= IN_PLACE_BYTES_MIN);
        }
        Ok(damaged)
    }

    /// A message in place, where that is worth it and possible.
    fn part(&self, entry: &IndexEntry, purpose: Use) -> Result<Option<FilePart>, ContainerError> {
        let is_large = entry.data_bytes as usize >= READ_STRAIGHT_BYTES_MIN;
        let mapping = if is_large { self.mapping(entry)? } else { None };
        let Some(mapping) = mapping else { return Ok(None) };
        let brick = self.segment.brick(entry)?;
        let part = part(&mapping, entry, purpose).filter(|_| brick.has(end_of(entry)));
        if part.is_some() {
            brick.check(entry)?;
        }
        Ok(part)
    }

    /// A mapping of a message's brick, where one is worth it and possible.
    fn mapping(&self, entry: &IndexEntry) -> Result<Option<Arc<Mapping>>, ContainerError> {
        if entry.compressed || self.is_long != Some(true) {
            return Ok(None);
        }
        self.segment.brick(entry)?.mapping(entry)
    }

    fn read(&mut self, entry: &IndexEntry) -> Result<&[u8], ContainerError> {
        if entry.compressed {
            self.segment.brick(entry)?;
            return self.segment.unpack(entry, &mut self.unpacked);
        }
        self.check(entry)?;
        let start = entry.offset - MESSAGE_HEADER_BYTES as u64;
        self.fill(entry, start..end_of(entry))?;
        let header = self.window.bytes(start, MESSAGE_HEADER_BYTES);
        self.segment.brick(entry)?.agrees(header, entry)?;
        Ok(self.window.bytes(entry.offset, entry.data_bytes as usize))
    }

    /// Checks the chunk of a message against its checksum, once for all of its messages.
    fn check(&mut self, entry: &IndexEntry) -> Result<(), ContainerError> {
        self.segment.holds(entry)?;
        let place = self.segment.chunk(entry)?;
        if self.checked.place != Some((entry.brick, place)) {
            self.checked.place = None;
            let damage = self.damage(entry, place)?;
            self.checked = Checked { place: Some((entry.brick, place)), damage };
        }
        match self.checked.damage {
            Some(what) => Err(self.segment.brick(entry)?.damaged(entry, what)),
            None => Ok(()),
        }
    }

    /// The damage of the chunk at `place`, which has a message.
    fn damage(
        &mut self,
        entry: &IndexEntry,
        place: u64,
    ) -> Result<Option<&'static str>, ContainerError> {
        // The window grows to the size that is filled at once, and an entry may name a chunk of 4 GiB.
        if entry.inner as usize > READ_WINDOW_BYTES {
            return match self.segment.brick(entry)?.check(entry) {
                Ok(()) => Ok(None),
                Err(ContainerError::Damaged { what, .. }) => Ok(Some(what)),
                Err(error) => Err(error),
            };
        }
        self.fill(entry, place..end_of(entry))?;
        let Some(chunk) = PlainChunk::parse(self.window.bytes(place, CHUNK_HEADER_BYTES)) else {
            return Ok(Some(NO_CHUNK));
        };
        if chunk.crc == 0 {
            return Ok(None);
        }
        let Some(records) = chunk.records_at(place) else { return Ok(Some(NO_CHUNK)) };
        let bytes = records.end - records.start;
        if bytes > READ_WINDOW_BYTES as u64 && !self.window.has(&records) {
            return self.segment.brick(entry)?.damage_of(entry, &chunk, records);
        }
        self.fill(entry, place..records.end)?;
        let records = self.window.bytes(records.start, bytes as usize);
        Ok((crc32fast::hash(records) != chunk.crc).then_some(WRONG_CHECKSUM))
    }

    /// Makes sure that the window has a range of a message's brick, and some behind it.
    fn fill(&mut self, entry: &IndexEntry, range: Range<u64>) -> Result<(), ContainerError> {
        let brick = self.segment.brick(entry)?;
        let bytes = (range.end - range.start) as usize;
        let window = &mut self.window;
        let end = window.turn_to(entry.brick);
        if window.has(&range) {
            return Ok(());
        }
        // Whatever happens below, it holds nothing of before.
        (window.stretch, window.filled) = (None, 0);
        // With the rest of the last chunk, which its checksum covers.
        let wanted = end.saturating_sub(range.start).saturating_add(CHUNK_BYTES_MAX as u64);
        let wanted = wanted.min(READ_WINDOW_BYTES as u64).max(bytes as u64) as usize;
        if window.in_place
            && let Some(mapping) = self.mapping(entry)?
        {
            let wanted = self.stretch_bytes(entry, &range, mapping.bytes().min(end));
            let is_large = entry.data_bytes as usize >= READ_STRAIGHT_BYTES_MIN;
            // If it cannot be fetched, it is read, which gives the error.
            let stretch = match is_large || mapping.is_cached(range.start, wanted) == Some(true) {
                true => mapping.stretch(range.start, wanted).unwrap_or_default(),
                // Small ones come from the device sooner where the kernel reads far ahead.
                false => None,
            };
            if let Some(stretch) = stretch.filter(|_| brick.has(range.start + wanted as u64)) {
                let window = &mut self.window;
                (window.start, window.filled) = (range.start, wanted);
                window.stretch = Some(stretch);
                return Ok(());
            }
        }
        let window = &mut self.window;
        window.ask(&*brick.file, range.start, end);
        if window.bytes.len() < wanted {
            window.bytes.resize(wanted, 0);
        }
        let read = brick.file.read_at(&mut window.bytes[..wanted], range.start);
        let path = &brick.path;
        window.filled = read.map_err(|source| ContainerError::Io { path: path.clone(), source })?;
        window.start = range.start;
        if window.filled < bytes {
            return Err(brick_ends(path, entry));
        }
        Ok(())
    }

    /// The range fetched at once around a message: up to the last message that lies within a window and before `end`.
    /// Where those that are known lie densely, as those behind them will: the window.
    fn stretch_bytes(&self, entry: &IndexEntry, range: &Range<u64>, end: u64) -> usize {
        let most = end.min(range.start.saturating_add(READ_WINDOW_BYTES as u64));
        let known = &self.entries[self.at..];
        let (mut last, mut count, mut message_bytes) = (range.end, 0, 0);
        for next in known {
            let is_behind = next.brick == entry.brick && next.offset >= entry.offset;
            if !is_behind || next.compressed || end_of(next) > most {
                break;
            }
            (last, count) = (last.max(end_of(next)), count + 1);
            message_bytes += u64::from(next.data_bytes);
        }
        let is_dense = count > 0 && count == known.len() && message_bytes * 2 > last - entry.offset;
        (if is_dense { most.max(last) } else { last } - range.start) as usize
    }

    /// Appends a message. Memory is allocated only once the bytes are known to exist: a wrong entry may ask for
    /// gigabytes.
    fn append_to(&mut self, entry: &IndexEntry, out: &mut Buffer) -> Result<(), ContainerError> {
        if entry.compressed || (entry.data_bytes as usize) < READ_STRAIGHT_BYTES_MIN {
            out.put(self.read(entry)?);
            return Ok(());
        }
        self.segment.holds(entry)?;
        self.read_into(entry, out.room(entry.data_bytes as usize))
    }

    /// Reads a large message straight to where it is wanted.
    fn read_into(&mut self, entry: &IndexEntry, room: &mut [u8]) -> Result<(), ContainerError> {
        if entry.compressed || room.len() < READ_STRAIGHT_BYTES_MIN {
            room.copy_from_slice(self.read(entry)?);
            return Ok(());
        }
        let brick = self.segment.brick(entry)?;
        let end = self.window.turn_to(entry.brick);
        self.window.ask(&*brick.file, entry.offset, end);
        brick.read_checked(entry, room)
    }
}

impl Window {
    /// Whether a range of the brick is here.
    fn has(&self, range: &Range<u64>) -> bool {
        range.start >= self.start && range.end <= self.start + self.filled as u64
    }

    /// Bytes that are here.
    fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        match &self.stretch {
            Some(stretch) => stretch.bytes(offset, bytes),
            None => {
                let start = (offset - self.start) as usize;
                &self.bytes[start..start + bytes]
            }
        }
    }

    /// Drops data of other bricks than this; returns the file offset up to which messages of this one are needed.
    fn turn_to(&mut self, brick: u16) -> u64 {
        if brick != self.brick {
            (self.brick, self.start, self.filled, self.asked) = (brick, 0, 0, 0);
            self.stretch = None;
        }
        if brick == self.end.0 { self.end.1 } else { u64::MAX }
    }

    /// Keeps the kernel reading ahead of a range longer than one window.
    fn ask(&mut self, file: &dyn ReadFile, from: u64, end: u64) {
        let until = end.min(from.saturating_add(READ_AHEAD_BYTES));
        let start = self.asked.max(from);
        let worth = until.saturating_sub(start) >= READ_AHEAD_BYTES / 4 || until == end;
        // A frame that was written again from a copy lies behind later ones: `end` may be before it.
        if end.saturating_sub(from) > READ_WINDOW_BYTES as u64 && worth && until > start {
            file.will_need(start, until - start);
            self.asked = until;
        }
    }
}
