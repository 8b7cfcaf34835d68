//! What can be proven of a brick, found without changing it.
//!
//! The whole file is walked, record by record. A message is proven by
//!
//! - the checksum of its chunk,
//! - or, for a frame without one, by an index entry that says the same as its headers, or by standing
//!   in a whole chunk with its message index; and by having no hole: bricks are only appended to, so a
//!   block is either what was written or a hole,
//! - or by an entry below the mark in `container.synced`, or one that the kernel has had for long.
//!
//! What is no record, or cannot be proven, is passed over up to the next thing that can be.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES_MAX, ChunkExtent, ChunkHeader, Compression, Definition,
    MAGIC, MESSAGE_HEADER_BYTES, MESSAGE_INDEX_ENTRY_BYTES, MESSAGE_INDEX_HEADER_BYTES,
    MessageHeader, RECORD_HEADER_BYTES, RecordHeader, chunk_messages, opcode, put_channel,
    put_file_start, put_message_index, put_schema, schema_id,
};

use super::index::Claim;
use crate::limits::PROVEN_CHUNK_BYTES_MAX;
use crate::storage::ReadFile;

/// Longest schema or channel record that is compared with the manifest's.
const DEFINITION_BYTES_MAX: u64 = 64 << 20;
/// Bytes searched at once.
const SEARCH_BYTES: usize = 256 << 10;

/// A topic whose messages are in the brick.
pub(super) struct Member {
    pub channel_id: u16,
    pub topic: Topic,
    /// Number of the brick in the topic's entries.
    pub brick: u16,
}

/// Bytes that are to be written to the brick.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// A stretch without anything that could be proven.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub range: Range<u64>,
    /// Records that belong there and are known: they are written to its start.
    pub records: Vec<u8>,
}

/// What was found.
#[derive(Default)]
pub(super) struct Survey {
    /// Proven chunks, in the order of the file.
    pub chunks: Vec<ChunkExtent>,
    pub stretches: Vec<Stretch>,
    /// Message indexes and headers that are not what they must be.
    pub changes: Vec<Change>,
    /// Messages without an entry, by member.
    pub found: Vec<Vec<IndexEntry>>,
    /// Where the summary goes: behind the last thing that is kept.
    pub tail: u64,
    /// Where channels are announced, or will be.
    announced: Vec<(u64, u16)>,
}

impl Survey {
    /// Where the brick first announces a channel once it is mended; `None` if it does not.
    pub fn announced_at(&self, channel_id: u16) -> Option<u64> {
        let places = self.announced.iter().filter(|(_, id)| *id == channel_id);
        places.map(|(at, _)| *at).min()
    }
}

/// How much of the index is believed.
#[derive(Clone, Copy)]
pub(super) struct Trust {
    /// Chunks below this offset that have all their entries are believed: the kernel that was given
    /// them still runs, and has had the time to tell of a failure.
    pub settled_bytes: u64,
}

/// A chunk that has been proven.
struct Proven {
    extent: ChunkExtent,
    /// Its messages with their members; none where its claims are believed as they are.
    entries: Vec<(usize, IndexEntry)>,
    is_believed: bool,
    /// Whether the times in its header are those of its messages.
    has_right_times: bool,
}

/// What is at a place.
enum Step {
    /// Something whole that ends here.
    To(u64),
    /// Padding or what was in flight, up to here.
    Filler(u64),
    Chunk(Box<Proven>, u64),
    /// The end of the data.
    End,
    /// Nothing that can be believed; it may end here.
    Unknown(Option<u64>),
}

/// One pass over a brick.
pub(super) struct Walk<'a> {
    file: Arc<dyn ReadFile>,
    length: u64,
    profile: &'a str,
    library: &'a str,
    members: &'a [Member],
    /// In the order of their places.
    claims: &'a mut [Claim],
    trust: Trust,
    announced: BTreeSet<(u8, usize)>,
    /// Where the record before begins, if it is filler.
    last_filler: Option<u64>,
    /// Bytes that may still be read for candidates that prove nothing: hostile files have many.
    search_bytes_left: u64,
    survey: Survey,
}

impl<'a> Walk<'a> {
    pub fn new(
        file: Arc<dyn ReadFile>,
        (profile, library): (&'a str, &'a str),
        members: &'a [Member],
        claims: &'a mut [Claim],
        trust: Trust,
    ) -> io::Result<Self> {
        claims.sort_by_key(|claim| (place_of(&claim.entry), claim.number));
        let length = file.length()?;
        let survey = Survey { found: vec![Vec::new(); members.len()], ..Survey::default() };
        Ok(Self {
            file,
            length,
            profile,
            library,
            members,
            claims,
            trust,
            announced: BTreeSet::new(),
            last_filler: None,
            search_bytes_left: length.saturating_mul(4),
            survey,
        })
    }

    pub fn run(mut self) -> io::Result<Survey> {
        let mut at = self.start()?;
        while at < self.length {
            match self.step(at)? {
                Step::To(end) => {
                    self.survey.tail = end;
                    at = end;
                }
                Step::Filler(end) => {
                    self.last_filler = Some(at);
                    at = end;
                    continue;
                }
                Step::Chunk(proven, end) => {
                    self.take(at, *proven)?;
                    self.survey.tail = self.survey.tail.max(end);
                    at = end;
                }
                Step::End => match self.search(at + 1)? {
                    None => {
                        // The recorder that closed the brick may have put padding before it.
                        self.survey.tail = at;
                        break;
                    }
                    Some(next) => {
                        self.pass_over(at, next, false);
                        at = next;
                    }
                },
                Step::Unknown(end) => {
                    let next = match end {
                        Some(end) => Some(end),
                        None => self.search(at + 1)?,
                    };
                    let end = match next {
                        Some(next) => next,
                        None => self.end_of_bytes(at)?,
                    };
                    if end > at {
                        self.pass_over(at, end, next.is_none());
                    }
                    at = next.unwrap_or(self.length);
                }
            }
            self.last_filler = None;
        }
        self.define_empty_brick();
        Ok(self.survey)
    }

    /// The file's magic and header: where the walk begins.
    fn start(&mut self) -> io::Result<u64> {
        let mut wanted = Vec::new();
        put_file_start(&mut wanted, self.profile, self.library);
        let found = self.read(0, wanted.len() as u64)?;
        if found.get(..MAGIC.len()) != Some(&MAGIC) {
            self.survey.changes.push(Change { offset: 0, bytes: MAGIC.to_vec() });
        }
        let magic = MAGIC.len() as u64;
        self.survey.tail = magic;
        let header = self.record(magic)?.filter(|(record, _)| record.opcode == opcode::HEADER);
        let parses = match header {
            Some((_, end)) if end - magic <= DEFINITION_BYTES_MAX => {
                let record = self.read(magic, end)?;
                let body = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
                !body.is_empty() && Definition::parse(opcode::HEADER, body).is_some()
            }
            _ => false,
        };
        let whole = found == wanted || (parses && self.lands(header.map_or(0, |(_, end)| end))?);
        if !whole {
            // As far as the next proven thing, it is written again with what belongs behind it.
            let next = self.search(magic)?;
            let end = next.map_or(self.end_of_bytes(magic)?, |next| next);
            let records = wanted.split_off(MAGIC.len());
            let end = match next {
                Some(_) => end,
                None => end.max(magic + records.len() as u64),
            };
            self.survey.stretches.push(Stretch { range: magic..end, records });
            self.survey.tail = end;
            return Ok(next.unwrap_or(self.length));
        }
        let end = header.map_or(magic, |(_, end)| end);
        self.survey.tail = end;
        Ok(end)
    }

    /// Notes a stretch without anything. One that is too short for a record takes the filler before it
    /// along; behind the last one there is nothing that is kept.
    fn pass_over(&mut self, from: u64, to: u64, is_last: bool) {
        let is_short = |from: u64| to - from < RECORD_HEADER_BYTES as u64;
        let start = self.last_filler.filter(|_| is_short(from)).unwrap_or(from);
        let mut range = start..to;
        if is_short(start) && is_last {
            range.end = start + RECORD_HEADER_BYTES as u64;
        }
        self.survey.tail = range.end;
        self.survey.stretches.push(Stretch { range, records: Vec::new() });
    }

    fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let bytes = to.min(self.length).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        let count = self.file.read_at(&mut bytes, from)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// The record at a place, and its end, if that is inside the file.
    fn record(&self, at: u64) -> io::Result<Option<(RecordHeader, u64)>> {
        let mut head = [0; RECORD_HEADER_BYTES];
        let count = self.file.read_at(&mut head, at)?;
        let record = RecordHeader::parse(&head[..count]);
        let end = record.and_then(|record| at.checked_add(record.total_bytes()?));
        Ok(record.zip(end.filter(|end| *end <= self.length)))
    }

    /// Whether a record may end here: the file does, or another record begins. A length has no
    /// checksum, so this is what tells a damaged one.
    fn lands(&self, end: u64) -> io::Result<bool> {
        if end == self.length {
            return Ok(true);
        }
        let known = |kind| {
            matches!(kind, opcode::HEADER..=opcode::DATA_END)
                || matches!(kind, opcode::PADDING..=opcode::GIVEN_UP)
        };
        Ok(self.record(end)?.is_some_and(|(record, _)| known(record.opcode)))
    }

    /// Whether a chunk that an index tells of begins inside.
    fn is_claimed(&self, range: Range<u64>) -> bool {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < range.start);
        self.claims.get(first).is_some_and(|claim| place_of(&claim.entry).0 < range.end)
    }

    fn step(&mut self, at: u64) -> io::Result<Step> {
        let Some((record, end)) = self.record(at)? else { return Ok(Step::Unknown(None)) };
        if record.opcode == opcode::CHUNK {
            if let Some(proven) = self.prove(at, end)? {
                let end = end_of(&proven.extent);
                return Ok(Step::Chunk(Box::new(proven), end));
            }
            let head = self.read(at, at + CHUNK_HEADER_BYTES_MAX as u64)?;
            let jumps = ChunkHeader::parse(&head).is_some()
                && self.lands(end)?
                && !self.is_claimed(at + 1..end);
            return Ok(Step::Unknown(jumps.then_some(end)));
        }
        let is_filler = matches!(record.opcode, opcode::PADDING..=opcode::GIVEN_UP);
        let lands = self.lands(end)? && !self.is_claimed(at + 1..end);
        Ok(match record.opcode {
            opcode::GIVEN_UP if lands => Step::To(end),
            _ if is_filler && (lands || self.is_zero(end)?) => Step::Filler(end),
            opcode::SCHEMA | opcode::CHANNEL if lands => match self.definition(at, end)? {
                true => Step::To(end),
                false => Step::Unknown(None),
            },
            // Behind a chunk that could not be proven.
            opcode::MESSAGE_INDEX if lands => Step::Unknown(Some(end)),
            opcode::DATA_END if record.body_bytes == 4 => Step::End,
            _ => Step::Unknown(None),
        })
    }

    /// Whether a schema or channel is one of a topic of this brick, or one that no topic knows.
    fn definition(&mut self, at: u64, end: u64) -> io::Result<bool> {
        if end - at > DEFINITION_BYTES_MAX {
            return Ok(false);
        }
        let record = self.read(at, end)?;
        let ids = (record.first(), record.get(9..11));
        for (place, member) in self.members.iter().enumerate() {
            let of = member.channel_id.to_le_bytes();
            if ids.1 != Some(&of) {
                continue;
            }
            if !is_definition_of(member, &record) {
                return Ok(false);
            }
            self.announced.insert((record[0], place));
            if record[0] == opcode::CHANNEL {
                self.survey.announced.push((at, member.channel_id));
            }
            return Ok(true);
        }
        let body = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        Ok(Definition::parse(record[0], body).is_some())
    }

    /// Where the bytes from `at` on end that are not zero.
    fn end_of_bytes(&self, at: u64) -> io::Result<u64> {
        let mut end = self.length;
        while end > at {
            let start = end.saturating_sub(SEARCH_BYTES as u64).max(at);
            let bytes = self.read(start, end)?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                return Ok(start + last as u64 + 1);
            }
            end = start;
        }
        Ok(at)
    }

    fn is_zero(&self, at: u64) -> io::Result<bool> {
        Ok(self.end_of_bytes(at)? == at)
    }

    /// The next place from `from` on where a chunk can be proven.
    fn search(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut start = from;
        while start < self.length {
            let bytes = self.read(start, start + SEARCH_BYTES as u64)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            for (place, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == opcode::CHUNK) {
                let at = start + place as u64;
                let Some((_, end)) = self.record(at)? else { continue };
                let head = self.read(at, at + CHUNK_HEADER_BYTES_MAX as u64)?;
                if ChunkHeader::parse(&head).is_none() || self.search_bytes_left < end - at {
                    continue;
                }
                if self.prove(at, end)?.is_some() {
                    return Ok(Some(at));
                }
                self.search_bytes_left -= end - at;
            }
            start += bytes.len() as u64;
        }
        Ok(None)
    }

    /// Takes the messages of a chunk over.
    fn take(&mut self, at: u64, proven: Proven) -> io::Result<()> {
        self.require_definitions(&proven.extent);
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < at);
        for claim in self.claims[first..].iter_mut() {
            if place_of(&claim.entry).0 != at {
                break;
            }
            let is_it = |(member, entry): &(usize, IndexEntry)| {
                *member == claim.member && same_message(entry, &claim.entry)
            };
            claim.is_proven = proven.is_believed || proven.entries.iter().any(is_it);
        }
        if !proven.has_right_times {
            let ChunkExtent { start_nanos, end_nanos, .. } = proven.extent;
            let bytes = [start_nanos.to_le_bytes(), end_nanos.to_le_bytes()].concat();
            let offset = at + RECORD_HEADER_BYTES as u64;
            self.survey.changes.push(Change { offset, bytes });
        }
        if !proven.is_believed {
            for (member, entry) in &proven.entries {
                let mut claims = self.claims_at(at).iter();
                if !claims.any(|c| c.member == *member && same_message(entry, &c.entry)) {
                    self.survey.found[*member].push(*entry);
                }
            }
            self.restore_message_indexes(&proven)?;
        }
        self.survey.chunks.push(proven.extent);
        Ok(())
    }

    /// Topics of a chunk whose schema and channel have not been seen before it: a stretch in front of
    /// it had them, and gets them again if it has the room.
    fn require_definitions(&mut self, chunk: &ChunkExtent) {
        for (place, member) in self.members.iter().enumerate() {
            if !chunk.counts.iter().any(|(id, _)| *id == member.channel_id) {
                continue;
            }
            for record in definitions(member) {
                if self.announced.contains(&(record[0], place)) {
                    continue;
                }
                let stretch = self.survey.stretches.iter_mut().find(|stretch| {
                    let room = stretch.range.end - stretch.range.start;
                    let taken = (stretch.records.len() + record.len()) as u64;
                    room == taken || room >= taken + RECORD_HEADER_BYTES as u64
                });
                if let Some(stretch) = stretch {
                    self.announced.insert((record[0], place));
                    let at = stretch.range.start + stretch.records.len() as u64;
                    self.survey.announced.push((at, member.channel_id));
                    stretch.records.extend_from_slice(&record);
                }
            }
        }
    }

    /// A brick of which nothing is left but its name still tells of its topics.
    fn define_empty_brick(&mut self) {
        let [stretch] = self.survey.stretches.as_mut_slice() else { return };
        if self.survey.chunks.is_empty() && stretch.range.end == self.survey.tail {
            for member in self.members {
                let at = stretch.range.start + stretch.records.len() as u64;
                self.survey.announced.push((at, member.channel_id));
                stretch.records.extend(definitions(member).concat());
            }
            let end = stretch.range.start + stretch.records.len() as u64;
            if end + RECORD_HEADER_BYTES as u64 > stretch.range.end {
                stretch.range.end = end;
            }
            self.survey.tail = stretch.range.end;
        }
    }

    /// The message indexes behind a proven chunk have a known length and known contents.
    fn restore_message_indexes(&mut self, proven: &Proven) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (channel_id, _) in &proven.extent.counts {
            let entries = proven
                .entries
                .iter()
                .filter(|(member, _)| self.members[*member].channel_id == *channel_id);
            let places = entries.map(|(_, e)| (e.log_time_nanos, u64::from(e.inner)));
            put_message_index(&mut bytes, *channel_id, places);
        }
        let offset = proven.extent.offset + proven.extent.chunk_bytes();
        if self.read(offset, offset + bytes.len() as u64)? != bytes {
            self.survey.changes.push(Change { offset, bytes });
        }
        Ok(())
    }

    /// Claims of the chunk at a place.
    fn claims_at(&self, at: u64) -> &[Claim] {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < at);
        let claims = &self.claims[first..];
        &claims[..claims.partition_point(|claim| place_of(&claim.entry).0 == at)]
    }

    fn prove(&self, at: u64, end: u64) -> io::Result<Option<Proven>> {
        let head = self.read(at, at + (CHUNK_HEADER_BYTES_MAX + MESSAGE_HEADER_BYTES) as u64)?;
        let Some(header) = ChunkHeader::parse(&head) else { return Ok(None) };
        if header.records_bytes.max(header.stored_bytes) > PROVEN_CHUNK_BYTES_MAX {
            return Ok(None);
        }
        if let Some(extent) = self.believe(at, end, &header)? {
            let entries = Vec::new();
            let believed = Proven { extent, entries, is_believed: true, has_right_times: true };
            return Ok(Some(believed));
        }
        let entries = match header.crc {
            0 => self.prove_frame(&head, (at, end), &header)?,
            _ => self.prove_checksum((at, end), &header)?,
        };
        let Some(entries) = entries.filter(|entries| !entries.is_empty()) else { return Ok(None) };
        let mut extent = extent_of(at, &header);
        for (member, entry) in &entries {
            extent.add(self.members[*member].channel_id, entry, entry, 1);
        }
        extent.records_bytes = header.records_bytes;
        let times = (extent.start_nanos, extent.end_nanos);
        let has_right_times = times == (header.start_nanos, header.end_nanos);
        Ok(Some(Proven { extent, entries, is_believed: false, has_right_times }))
    }

    /// A chunk whose claims are believed, if they are as many as its message indexes say.
    fn believe(&self, at: u64, end: u64, header: &ChunkHeader) -> io::Result<Option<ChunkExtent>> {
        let claims = self.claims_at(at);
        let is_believed = |claim: &Claim| {
            (claim.is_synced || at < self.trust.settled_bytes)
                && claim.entry.inner_end() <= header.records_bytes
        };
        if claims.is_empty() || !claims.iter().all(is_believed) {
            return Ok(None);
        }
        let mut extent = extent_of(at, header);
        for claim in claims {
            let channel_id = self.members[claim.member].channel_id;
            extent.add(channel_id, &claim.entry, &claim.entry, 1);
        }
        extent.records_bytes = header.records_bytes;
        let mut index_at = end;
        for (channel_id, count) in &extent.counts {
            let head = self.read(index_at, index_at + MESSAGE_INDEX_HEADER_BYTES as u64)?;
            let mut wanted = Vec::new();
            put_message_index(&mut wanted, *channel_id, std::iter::empty());
            let entries_bytes = count * MESSAGE_INDEX_ENTRY_BYTES as u64;
            let body_bytes = (MESSAGE_INDEX_HEADER_BYTES - RECORD_HEADER_BYTES) as u64;
            wanted[1..9].copy_from_slice(&(body_bytes + entries_bytes).to_le_bytes());
            wanted[11..15].copy_from_slice(&(entries_bytes as u32).to_le_bytes());
            if head != wanted {
                return Ok(None);
            }
            index_at += MESSAGE_INDEX_HEADER_BYTES as u64 + entries_bytes;
        }
        let next = self.record(index_at)?.map(|(record, _)| record.opcode);
        Ok((next != Some(opcode::MESSAGE_INDEX)).then_some(extent))
    }

    /// A frame without a checksum.
    fn prove_frame(
        &self,
        head: &[u8],
        (at, end): (u64, u64),
        header: &ChunkHeader,
    ) -> io::Result<Option<Vec<(usize, IndexEntry)>>> {
        let message = head.get(CHUNK_HEADER_BYTES..).and_then(MessageHeader::parse);
        let Some(message) = message.filter(|_| header.compression == Compression::None) else {
            return Ok(None);
        };
        let records_bytes = message.data_bytes.checked_add(MESSAGE_HEADER_BYTES as u64);
        let member = self.members.iter().position(|m| m.channel_id == message.channel_id);
        let Some(member) = member.filter(|_| records_bytes == Some(header.records_bytes)) else {
            return Ok(None);
        };
        let entry = self.entry_of(&message, (at, 0), member, header);
        let claims = self.claims_at(at);
        let mut whole_to = end;
        if !claims.iter().any(|claim| same_message(&claim.entry, &entry)) {
            // An entry has a checksum: where the two differ, the brick is wrong.
            if !claims.is_empty() {
                return Ok(None);
            }
            // Its message index is written behind its data.
            let mut index = Vec::new();
            let place = std::iter::once((message.log_time_nanos, 0));
            put_message_index(&mut index, message.channel_id, place);
            whole_to = end + index.len() as u64;
            let times = (header.start_nanos, header.end_nanos);
            if times != (message.log_time_nanos, message.log_time_nanos)
                || self.read(end, whole_to)? != index
            {
                return Ok(None);
            }
        }
        let whole = !self.file.has_hole(at, whole_to - at)?;
        Ok(whole.then(|| vec![(member, entry)]))
    }

    /// A chunk whose checksum fits is what was written, whether it has entries or not.
    fn prove_checksum(
        &self,
        (at, end): (u64, u64),
        header: &ChunkHeader,
    ) -> io::Result<Option<Vec<(usize, IndexEntry)>>> {
        let chunk = self.read(at, end)?;
        let Ok(records) = header.records(&chunk) else { return Ok(None) };
        if crc32fast::hash(&records) != header.crc {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for message in chunk_messages(&records) {
            let Ok(message) = message else { return Ok(None) };
            let id = message.header.channel_id;
            let Some(member) = self.members.iter().position(|m| m.channel_id == id) else {
                return Ok(None);
            };
            let place = (at, message.inner);
            entries.push((member, self.entry_of(&message.header, place, member, header)));
        }
        Ok(Some(entries))
    }

    /// The index entry of a message; one that claims it knows all 64 bits of its sequence.
    fn entry_of(
        &self,
        message: &MessageHeader,
        (at, inner): (u64, u32),
        member: usize,
        chunk: &ChunkHeader,
    ) -> IndexEntry {
        let mut entry = IndexEntry {
            log_time_nanos: message.log_time_nanos,
            publish_time_nanos: message.publish_time_nanos,
            sequence: u64::from(message.sequence),
            offset: 0,
            data_bytes: message.data_bytes as u32,
            inner,
            brick: self.members[member].brick,
            compressed: chunk.compression != Compression::None,
            repeated: false,
        };
        entry.set_chunk_offset(at);
        let mut claims = self.claims_at(at).iter().filter(|claim| claim.member == member);
        match claims.find(|claim| same_message(&claim.entry, &entry)) {
            Some(claim) => claim.entry,
            None => entry,
        }
    }
}

fn extent_of(offset: u64, header: &ChunkHeader) -> ChunkExtent {
    let is_plain = header.compression == Compression::None;
    ChunkExtent {
        offset,
        stored: (!is_plain).then_some((header.compression, header.stored_bytes)),
        start_nanos: u64::MAX,
        ..ChunkExtent::default()
    }
}

/// End of the message indexes behind a chunk.
fn end_of(chunk: &ChunkExtent) -> u64 {
    let bytes = |(_, count): &(u16, u64)| {
        MESSAGE_INDEX_HEADER_BYTES as u64 + count * MESSAGE_INDEX_ENTRY_BYTES as u64
    };
    chunk.offset + chunk.chunk_bytes() + chunk.counts.iter().map(bytes).sum::<u64>()
}

/// A topic's schema record, if it has a schema, and its channel record.
fn definitions(member: &Member) -> Vec<Vec<u8>> {
    let (id, topic) = (member.channel_id, &member.topic);
    let mut records = Vec::new();
    if topic.has_schema() {
        records.push(Vec::new());
        put_schema(&mut records[0], id, topic);
    }
    records.push(Vec::new());
    put_channel(records.last_mut().expect("just pushed"), id, schema_id(id, topic), topic);
    records
}

/// Whether `record` is a topic's schema or channel. A topic without a schema once had an empty one.
fn is_definition_of(member: &Member, record: &[u8]) -> bool {
    let (id, topic) = (member.channel_id, &member.topic);
    let mut wanted = definitions(member);
    if !topic.has_schema() {
        let (mut schema, mut channel) = (Vec::new(), Vec::new());
        put_schema(&mut schema, id, topic);
        put_channel(&mut channel, id, id, topic);
        wanted.extend([schema, channel]);
    }
    wanted.iter().any(|wanted| wanted == record)
}

/// Tells a message of a brick from every other: its chunk, and where in it.
fn place_of(entry: &IndexEntry) -> (u64, u32) {
    (entry.checked_chunk_offset().unwrap_or(u64::MAX), entry.inner)
}

/// Whether two entries are of one message; a brick knows the lower half of a sequence only.
fn same_message(a: &IndexEntry, b: &IndexEntry) -> bool {
    place_of(a) == place_of(b)
        && (a.log_time_nanos, a.publish_time_nanos) == (b.log_time_nanos, b.publish_time_nanos)
        && (a.sequence as u32, a.data_bytes) == (b.sequence as u32, b.data_bytes)
        && a.compressed == b.compressed
}
