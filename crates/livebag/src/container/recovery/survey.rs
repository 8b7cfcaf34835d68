//! What can be proven of a brick, found without changing it.
//!
//! The whole file is walked, record by record. A message is proven by
//!
//! - the checksum of its chunk,
//! - or, for a frame without one, by an index entry that says the same as its headers, or by standing
//!   in a whole chunk with its message index; and by having no hole: bricks are only appended to, so a
//!   block is either what was written or a hole,
//! - or by an entry below the mark in `container.synced`, or one that the kernel has had for long,
//! - or by standing whole in a chunk that the end of the file cuts, where nothing else can have happened
//!   to the file than being cut: the chunk's checksum can no longer be checked.
//!
//! What is no record, or cannot be proven, is passed over up to the next thing that can be.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::index::{ENTRY_BYTES, IndexEntry};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES_MAX, ChunkExtent, ChunkHeader, ChunkMessage,
    Compression, Compressor, Definition, MAGIC, MESSAGE_HEADER_BYTES, MESSAGE_INDEX_ENTRY_BYTES,
    MESSAGE_INDEX_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, chunk_messages,
    decompress_start, opcode, put_channel, put_compressed_chunk_header, put_file_start,
    put_message_index, put_schema, schema_id,
};

use super::Memory;
use super::index::Claim;
use crate::limits::PROVEN_CHUNK_BYTES_MAX;
use crate::storage::ReadFile;

/// Longest schema or channel record that is compared with the manifest's.
const DEFINITION_BYTES_MAX: u64 = 64 << 20;
/// Bytes searched at once.
const SEARCH_BYTES: usize = 256 << 10;

/// Memory for a message without an entry: in a list that grows, and once more when its index is written.
const FOUND_MEMORY_BYTES: u64 = 4 * ENTRY_BYTES as u64;
/// Memory for a chunk, in a list that grows.
const CHUNK_MEMORY_BYTES: u64 = 3 * size_of::<ChunkExtent>() as u64;

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
    /// The chunk that the end of the file cuts, with what is whole of it. Written before anything else:
    /// behind its old length nothing must be added while it claims to be longer.
    pub shortened: Option<Change>,
    /// Messages without an entry, by member.
    pub found: Vec<Vec<IndexEntry>>,
    /// Messages that no index claims, of chunks that could not be proven, as the message indexes behind
    /// them tell; by member.
    pub lost: Vec<u64>,
    /// Where the summary goes: behind the last thing that is kept.
    pub tail: u64,
    /// Where channels are first announced, or will be.
    announced: BTreeMap<u16, u64>,
}

impl Survey {
    /// Where the brick first announces a channel once it is mended; `None` if it does not.
    pub fn announced_at(&self, channel_id: u16) -> Option<u64> {
        self.announced.get(&channel_id).copied()
    }

    fn announce(&mut self, at: u64, channel_id: u16) {
        let first = self.announced.entry(channel_id).or_insert(at);
        *first = at.min(*first);
    }
}

/// How much of the index is believed.
#[derive(Clone, Copy)]
pub(super) struct Trust {
    /// Chunks below this offset that have all their entries are believed: the kernel that was given
    /// them still runs, and has had the time to tell of a failure.
    pub settled_bytes: u64,
    /// Whether what the kernel was given is in the file as far as the file goes: it still runs, or the
    /// recorder closed and synced it. Otherwise a power cut may have cost any sector.
    pub has_lost_no_sector: bool,
}

/// A chunk that has been proven.
struct Proven {
    extent: ChunkExtent,
    /// Its messages with their members; none where its claims are believed as they are.
    entries: Vec<(usize, IndexEntry)>,
    is_believed: bool,
    /// Whether the times in its header are those of its messages.
    has_right_times: bool,
    /// The chunk with its first messages alone, if the end of the file cuts it.
    shortened: Option<Vec<u8>>,
    /// The start of its record, if that is not what it must be.
    record_header: Option<[u8; RECORD_HEADER_BYTES]>,
}

/// How a chunk begins.
struct ChunkStart {
    /// Up to its first message.
    head: Vec<u8>,
    header: ChunkHeader,
    /// Where its record ends.
    end: u64,
    /// Whether its record begins as it must.
    is_right: bool,
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
    /// Place in `members` by channel.
    by_channel: HashMap<u16, usize>,
    /// In the order of their places.
    claims: &'a mut [Claim],
    trust: Trust,
    memory: Memory,
    announced: BTreeSet<(u8, usize)>,
    /// Definition records by member, made when they are first asked for.
    definitions: Vec<OnceCell<Rc<[Vec<u8>]>>>,
    /// How many stretches have had no room for a definition, by member and record.
    tried: HashMap<(usize, usize), usize>,
    /// Behind it there are zeros alone.
    end: Cell<u64>,
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
        memory: Memory,
    ) -> io::Result<Self> {
        claims.sort_unstable_by_key(|c| (place_of(&c.entry), c.member, c.number));
        let length = file.length()?;
        let survey = Survey {
            found: vec![Vec::new(); members.len()],
            lost: vec![0; members.len()],
            ..Survey::default()
        };
        Ok(Self {
            file,
            length,
            profile,
            library,
            members,
            by_channel: members
                .iter()
                .enumerate()
                .rev()
                .map(|(at, m)| (m.channel_id, at))
                .collect(),
            claims,
            trust,
            memory,
            announced: BTreeSet::new(),
            definitions: vec![OnceCell::new(); members.len()],
            tried: HashMap::new(),
            end: Cell::new(length),
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
                    let is_shortened = proven.shortened.is_some();
                    self.take(at, *proven)?;
                    self.survey.tail = self.survey.tail.max(end);
                    at = end;
                    if is_shortened && end < self.length {
                        self.pass_over(end, self.length, true);
                        at = self.length;
                    }
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
        if let Some(proven) = self.prove(at)? {
            let end = end_of(&proven.extent);
            return Ok(Step::Chunk(Box::new(proven), end));
        }
        let Some((record, end)) = self.record(at)? else { return Ok(Step::Unknown(None)) };
        if record.opcode == opcode::CHUNK {
            let head = self.read(at, at + CHUNK_HEADER_BYTES_MAX as u64)?;
            let jumps = ChunkHeader::parse(&head).is_some()
                && self.lands(end)?
                && !self.is_claimed(at + 1..end);
            if jumps {
                self.count_lost(at, end)?;
            }
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

    /// Counts messages of a chunk that could not be proven and that no index claims.
    fn count_lost(&mut self, at: u64, end: u64) -> io::Result<()> {
        if !self.claims_at(at).is_empty() {
            return Ok(());
        }
        let mut index_at = end;
        // Each channel has one message index.
        for _ in 0..self.members.len() {
            let head = self.read(index_at, index_at + MESSAGE_INDEX_HEADER_BYTES as u64)?;
            let Some((record, end)) = self.record(index_at)? else { break };
            let [.., low, high, _, _, _, _] = head[..] else { break };
            if record.opcode != opcode::MESSAGE_INDEX {
                break;
            }
            if let Some(member) = self.member_of(u16::from_le_bytes([low, high])) {
                let entries = (end - index_at).saturating_sub(MESSAGE_INDEX_HEADER_BYTES as u64);
                self.survey.lost[member] += entries / MESSAGE_INDEX_ENTRY_BYTES as u64;
            }
            index_at = end;
        }
        Ok(())
    }

    /// Whether a schema or channel is one of a topic of this brick, or one that no topic knows.
    fn definition(&mut self, at: u64, end: u64) -> io::Result<bool> {
        if end - at > DEFINITION_BYTES_MAX {
            return Ok(false);
        }
        let record = self.read(at, end)?;
        let id = record.get(9..11).and_then(|id| id.try_into().ok()).map(u16::from_le_bytes);
        if let Some(place) = id.and_then(|id| self.member_of(id)) {
            if !self.is_definition_of(place, &record) {
                return Ok(false);
            }
            self.announced.insert((record[0], place));
            if record[0] == opcode::CHANNEL {
                self.survey.announce(at, self.members[place].channel_id);
            }
            return Ok(true);
        }
        let body = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        Ok(Definition::parse(record[0], body).is_some())
    }

    /// Where the bytes from `at` on end that are not zero.
    fn end_of_bytes(&self, at: u64) -> io::Result<u64> {
        // Zeros at the end are read once, however often it is asked.
        let mut end = self.end.get();
        while end > at {
            let start = end.saturating_sub(SEARCH_BYTES as u64).max(at);
            let bytes = self.read(start, end)?;
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                end = start + last as u64 + 1;
                self.end.set(end);
                return Ok(end);
            }
            end = start;
            self.end.set(end);
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
            let end = start + bytes.len() as u64;
            let is_chunk = |place: &(usize, &u8)| *place.1 == opcode::CHUNK;
            let marked = bytes.iter().enumerate().filter(is_chunk).map(|(at, _)| start + at as u64);
            let claimed = self.claims_in(start..end).map(|claim| place_of(&claim.entry).0);
            let mut places: Vec<u64> = marked.chain(claimed).collect();
            places.sort_unstable();
            places.dedup();
            for at in places {
                let bytes = match self.chunk_at(at)? {
                    Some(ChunkStart { end, .. }) => end - at,
                    // One that the end of the file cuts is read to there.
                    None if self.cut_chunk_at(at)?.is_some() => self.length - at,
                    None => continue,
                };
                if self.search_bytes_left < bytes {
                    continue;
                }
                if self.prove(at)?.is_some() {
                    return Ok(Some(at));
                }
                self.search_bytes_left -= bytes;
            }
            start += bytes.len() as u64;
        }
        Ok(None)
    }

    /// Takes the messages of a chunk over.
    fn take(&mut self, at: u64, proven: Proven) -> io::Result<()> {
        self.require_definitions(&proven.extent);
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < at);
        // Both are in the order of places.
        let mut entries = proven.entries.iter().peekable();
        for claim in self.claims[first..].iter_mut() {
            let place = place_of(&claim.entry);
            if place.0 != at {
                break;
            }
            while entries.next_if(|(_, entry)| place_of(entry) < place).is_some() {}
            let is_it = entries.peek().is_some_and(|(member, entry)| {
                *member == usize::from(claim.member) && same_message(entry, &claim.entry)
            });
            claim.is_proven = proven.is_believed || is_it;
        }
        if let Some(bytes) = proven.record_header {
            self.survey.changes.push(Change { offset: at, bytes: bytes.to_vec() });
        }
        if !proven.has_right_times {
            let ChunkExtent { start_nanos, end_nanos, .. } = proven.extent;
            let bytes = [start_nanos.to_le_bytes(), end_nanos.to_le_bytes()].concat();
            let offset = at + RECORD_HEADER_BYTES as u64;
            self.survey.changes.push(Change { offset, bytes });
        }
        if !proven.is_believed {
            let (claims, found) = (&*self.claims, &mut self.survey.found);
            let mut claims = claims[first..].iter().peekable();
            for (member, entry) in &proven.entries {
                let place = place_of(entry);
                let mut is_claimed = false;
                while let Some(claim) = claims.next_if(|claim| place_of(&claim.entry) <= place) {
                    is_claimed |=
                        usize::from(claim.member) == *member && same_message(&claim.entry, entry);
                }
                if !is_claimed {
                    self.memory.take(FOUND_MEMORY_BYTES)?;
                    found[*member].push(*entry);
                }
            }
            self.restore_message_indexes(&proven)?;
        }
        self.memory.take(CHUNK_MEMORY_BYTES + proven.extent.counts.len() as u64 * 32)?;
        self.survey.shortened = proven.shortened.map(|bytes| Change { offset: at, bytes });
        self.survey.chunks.push(proven.extent);
        Ok(())
    }

    /// Topics of a chunk whose schema and channel have not been seen before it: a stretch in front of
    /// it had them, and gets them again if it has the room.
    fn require_definitions(&mut self, chunk: &ChunkExtent) {
        for (channel_id, _) in &chunk.counts {
            let Some(place) = self.member_of(*channel_id) else { continue };
            for (nth, record) in self.definitions(place).clone().iter().enumerate() {
                if self.announced.contains(&(record[0], place)) {
                    continue;
                }
                // Stretches that had no room for it have none later.
                let tried = self.tried.entry((place, nth)).or_default();
                let first = std::mem::replace(tried, self.survey.stretches.len());
                let mut new = self.survey.stretches[first..].iter_mut();
                let stretch = new.find(|stretch| {
                    let room = stretch.range.end - stretch.range.start;
                    let taken = (stretch.records.len() + record.len()) as u64;
                    room == taken || room >= taken + RECORD_HEADER_BYTES as u64
                });
                if let Some(stretch) = stretch {
                    self.announced.insert((record[0], place));
                    let at = stretch.range.start + stretch.records.len() as u64;
                    stretch.records.extend_from_slice(record);
                    self.survey.announce(at, *channel_id);
                }
            }
        }
    }

    /// A topic's schema record, if it has a schema, and its channel record.
    fn definitions(&self, place: usize) -> &Rc<[Vec<u8>]> {
        self.definitions[place].get_or_init(|| definitions(&self.members[place]).into())
    }

    /// Whether `record` is a topic's schema or channel. A topic without a schema once had an empty one.
    fn is_definition_of(&self, place: usize, record: &[u8]) -> bool {
        let Member { channel_id: id, ref topic, .. } = self.members[place];
        if self.definitions(place).iter().any(|wanted| wanted == record) {
            return true;
        }
        let (mut schema, mut channel) = (Vec::new(), Vec::new());
        if !topic.has_schema() {
            put_schema(&mut schema, id, topic);
            put_channel(&mut channel, id, id, topic);
        }
        schema == record || channel == record
    }

    /// A brick of which nothing is left but its name still tells of its topics.
    fn define_empty_brick(&mut self) {
        let Survey { stretches, announced, chunks, tail, .. } = &mut self.survey;
        let [stretch] = stretches.as_mut_slice() else { return };
        if chunks.is_empty() && stretch.range.end == *tail {
            for member in self.members {
                let at = stretch.range.start + stretch.records.len() as u64;
                announced.entry(member.channel_id).or_insert(at);
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
        let bytes = self.message_indexes(&proven.extent, &proven.entries);
        let offset = proven.extent.offset + proven.extent.chunk_bytes();
        if self.read(offset, offset + bytes.len() as u64)? != bytes {
            // Kept until it is written, beside what it is written over as text.
            self.memory.take(4 * bytes.len() as u64)?;
            self.survey.changes.push(Change { offset, bytes });
        }
        Ok(())
    }

    /// The message index records behind a chunk.
    fn message_indexes(&self, chunk: &ChunkExtent, entries: &[(usize, IndexEntry)]) -> Vec<u8> {
        let mut places: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
        for (member, entry) in entries {
            let place = (entry.log_time_nanos, u64::from(entry.inner));
            places.entry(self.members[*member].channel_id).or_default().push(place);
        }
        let mut bytes = Vec::new();
        for (channel_id, _) in &chunk.counts {
            let places = places.remove(channel_id).unwrap_or_default();
            put_message_index(&mut bytes, *channel_id, places.into_iter());
        }
        bytes
    }

    /// Claims of the chunk at a place.
    fn claims_at(&self, at: u64) -> &[Claim] {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < at);
        let claims = &self.claims[first..];
        &claims[..claims.partition_point(|claim| place_of(&claim.entry).0 == at)]
    }

    /// Claims of chunks that begin in a range.
    fn claims_in(&self, range: Range<u64>) -> impl Iterator<Item = &Claim> {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < range.start);
        self.claims[first..].iter().take_while(move |c| place_of(&c.entry).0 < range.end)
    }

    /// The start of the chunk at a place. Where an index tells of a chunk, opcode and length follow from the rest of
    /// the header.
    fn chunk_at(&self, at: u64) -> io::Result<Option<ChunkStart>> {
        let mut head =
            self.read(at, at + (CHUNK_HEADER_BYTES_MAX + MESSAGE_HEADER_BYTES) as u64)?;
        let mut header = ChunkHeader::parse(&head);
        let is_right = header.is_some();
        if !is_right && !self.claims_at(at).is_empty() {
            header = ChunkHeader::without_record(&head);
        }
        let Some(header) = header else { return Ok(None) };
        head[..RECORD_HEADER_BYTES].copy_from_slice(&header.record());
        let end = header.total_bytes().and_then(|bytes| at.checked_add(bytes));
        let end = end.filter(|end| *end <= self.length);
        Ok(end.map(|end| ChunkStart { head, header, end, is_right }))
    }

    fn prove(&self, at: u64) -> io::Result<Option<Proven>> {
        let Some(ChunkStart { head, header, end, is_right }) = self.chunk_at(at)? else {
            return self.prove_cut(at);
        };
        let proven = self.prove_chunk(&head, (at, end), &header)?;
        let record_header = (!is_right).then(|| header.record());
        Ok(proven.map(|proven| Proven { record_header, ..proven }))
    }

    fn prove_chunk(
        &self,
        head: &[u8],
        (at, end): (u64, u64),
        header: &ChunkHeader,
    ) -> io::Result<Option<Proven>> {
        if header.records_bytes.max(header.stored_bytes) > PROVEN_CHUNK_BYTES_MAX {
            return Ok(None);
        }
        if let Some(extent) = self.believe(at, end, header)? {
            let entries = Vec::new();
            return Ok(Some(Proven {
                extent,
                entries,
                is_believed: true,
                has_right_times: true,
                shortened: None,
                record_header: None,
            }));
        }
        let is_frame = head
            .get(CHUNK_HEADER_BYTES..)
            .and_then(MessageHeader::parse)
            .and_then(|message| message.data_bytes.checked_add(MESSAGE_HEADER_BYTES as u64))
            == Some(header.records_bytes);
        let entries = match header.crc {
            0 if is_frame => self.prove_frame(head, (at, end), header)?,
            0 => self.prove_shortened((at, end), header)?,
            _ => self.prove_checksum((at, end), header)?,
        };
        let Some(entries) = entries.filter(|entries| !entries.is_empty()) else { return Ok(None) };
        let extent = self.extent_with(at, header, &entries);
        let times = (extent.start_nanos, extent.end_nanos);
        let has_right_times = times == (header.start_nanos, header.end_nanos);
        Ok(Some(Proven {
            extent,
            entries,
            is_believed: false,
            has_right_times,
            shortened: None,
            record_header: None,
        }))
    }

    fn extent_with(
        &self,
        at: u64,
        header: &ChunkHeader,
        entries: &[(usize, IndexEntry)],
    ) -> ChunkExtent {
        let of = |(member, entry): &(usize, IndexEntry)| {
            (self.members[*member].channel_id, entry.log_time_nanos)
        };
        extent_of(at, header, entries.iter().map(of))
    }

    /// The first messages of a chunk that the end of the file cuts. Its checksum is of no use, so they are
    /// given a chunk without one, which says what they are: not proven to the bit.
    fn prove_cut(&self, at: u64) -> io::Result<Option<Proven>> {
        let Some(header) = self.cut_chunk_at(at)? else { return Ok(None) };
        let chunk = self.read(at, self.length)?;
        let stored = chunk.get(header.header_bytes()..).unwrap_or_default();
        let records = match header.compression {
            Compression::None => Cow::Borrowed(stored),
            kind => Cow::Owned(decompress_start(kind, stored, header.records_bytes).0),
        };
        let (mut entries, mut kept) = (Vec::new(), 0);
        for message in chunk_messages(&records) {
            let Ok(message) = message else { break };
            let Some(member) = self.member_of(message.header.channel_id) else { break };
            let entry = self.entry_of(&message.header, (at, message.inner), member, &header);
            let claim = self.claim_at(at, message.inner);
            let is_right = match claim {
                Some(claim) => {
                    usize::from(claim.member) == member && same_message(&claim.entry, &entry)
                }
                None => {
                    let times = header.start_nanos..=header.end_nanos;
                    times.contains(&entry.log_time_nanos)
                }
            };
            let is_synced = claim.is_some_and(|claim| claim.is_synced);
            if !is_right || !(self.trust.has_lost_no_sector || is_synced) {
                break;
            }
            kept = message.inner as usize + MESSAGE_HEADER_BYTES + message.data.len();
            entries.push((member, entry));
        }
        let needed = match header.compression {
            Compression::None => (header.header_bytes() + kept) as u64,
            _ => self.length - at,
        };
        if entries.is_empty() || self.file.has_hole(at, needed)? {
            return Ok(None);
        }
        let kept = &records[..kept];
        let mut stored = Vec::new();
        if header.compression != Compression::None {
            Compressor::new(header.compression, 0)?.compress(kept, &mut stored)?;
        }
        let records_bytes = kept.len() as u64;
        let stored_bytes = match header.compression {
            Compression::None => records_bytes,
            _ => stored.len() as u64,
        };
        let short = ChunkHeader { records_bytes, stored_bytes, ..header };
        let extent = self.extent_with(at, &short, &entries);
        let times = (extent.start_nanos, extent.end_nanos);
        let sizes = (records_bytes, stored_bytes);
        let mut bytes = Vec::new();
        put_compressed_chunk_header(&mut bytes, times, sizes, 0, header.compression);
        // What is not compressed stays where it is.
        bytes.append(&mut stored);
        Ok(Some(Proven {
            extent,
            entries,
            is_believed: false,
            has_right_times: true,
            shortened: Some(bytes),
            record_header: None,
        }))
    }

    /// The header of a chunk that the end of the file cuts.
    fn cut_chunk_at(&self, at: u64) -> io::Result<Option<ChunkHeader>> {
        let head = self.read(at, at + CHUNK_HEADER_BYTES_MAX as u64)?;
        Ok(ChunkHeader::parse(&head).filter(|header| {
            let end = header.total_bytes().and_then(|bytes| at.checked_add(bytes));
            end.is_none_or(|end| end > self.length)
                && header.records_bytes.max(header.stored_bytes) <= PROVEN_CHUNK_BYTES_MAX
        }))
    }

    /// A chunk that [`Walk::prove_cut`] has shortened: small messages without a checksum.
    fn prove_shortened(
        &self,
        (at, end): (u64, u64),
        header: &ChunkHeader,
    ) -> io::Result<Option<Vec<(usize, IndexEntry)>>> {
        let chunk = self.read(at, end)?;
        let Ok(records) = header.records(&chunk) else { return Ok(None) };
        let Some(entries) = self.entries_of(&records, at, header) else { return Ok(None) };
        let mut whole_to = end;
        let is_claimed = |(member, entry): &(usize, IndexEntry)| {
            let claim = self.claim_at(at, entry.inner);
            claim.map(|claim| {
                usize::from(claim.member) == *member && same_message(&claim.entry, entry)
            })
        };
        let claimed: Vec<_> = entries.iter().map(is_claimed).collect();
        if claimed.contains(&Some(false)) {
            return Ok(None);
        }
        if claimed.contains(&None) {
            let extent = self.extent_with(at, header, &entries);
            let index = self.message_indexes(&extent, &entries);
            whole_to = end + index.len() as u64;
            let times = (extent.start_nanos, extent.end_nanos);
            if times != (header.start_nanos, header.end_nanos) || self.read(end, whole_to)? != index
            {
                return Ok(None);
            }
        }
        let whole = !self.file.has_hole(at, whole_to - at)?;
        Ok(whole.then_some(entries))
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
        let of = |claim: &Claim| {
            (self.members[usize::from(claim.member)].channel_id, claim.entry.log_time_nanos)
        };
        let extent = extent_of(at, header, claims.iter().map(of));
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
        let member = self.member_of(message.channel_id);
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
                // The header alone may have been moved here by a medium that mixes sectors up.
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
        Ok(self.entries_of(&records, at, header))
    }

    /// Entries of all messages in a chunk's records, if they are nothing but messages of members.
    fn entries_of(
        &self,
        records: &[u8],
        at: u64,
        header: &ChunkHeader,
    ) -> Option<Vec<(usize, IndexEntry)>> {
        let entry_of = |message: ChunkMessage<'_>| {
            let member = self.member_of(message.header.channel_id)?;
            Some((member, self.entry_of(&message.header, (at, message.inner), member, header)))
        };
        chunk_messages(records).map(|message| entry_of(message.ok()?)).collect()
    }

    fn member_of(&self, channel_id: u16) -> Option<usize> {
        self.by_channel.get(&channel_id).copied()
    }

    /// The claim of the message at a place of a chunk.
    fn claim_at(&self, at: u64, inner: u32) -> Option<&Claim> {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry) < (at, inner));
        self.claims.get(first).filter(|claim| place_of(&claim.entry) == (at, inner))
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
        // Damage may have made two claims of one place.
        let first = self.claims.partition_point(|claim| place_of(&claim.entry) < (at, inner));
        let here = self.claims[first..].iter().take_while(|c| place_of(&c.entry) == (at, inner));
        let mut same =
            here.filter(|c| usize::from(c.member) == member && same_message(&c.entry, &entry));
        same.next().map_or(entry, |claim| claim.entry)
    }
}

/// A chunk with messages, each given by its channel and its time.
fn extent_of(
    offset: u64,
    header: &ChunkHeader,
    messages: impl Iterator<Item = (u16, u64)>,
) -> ChunkExtent {
    let is_plain = header.compression == Compression::None;
    let mut extent = ChunkExtent {
        offset,
        records_bytes: header.records_bytes,
        stored: (!is_plain).then_some((header.compression, header.stored_bytes)),
        start_nanos: u64::MAX,
        ..ChunkExtent::default()
    };
    let mut places: HashMap<u16, usize> = HashMap::new();
    for (channel_id, log_time_nanos) in messages {
        extent.start_nanos = extent.start_nanos.min(log_time_nanos);
        extent.end_nanos = extent.end_nanos.max(log_time_nanos);
        let place = *places.entry(channel_id).or_insert(extent.counts.len());
        match extent.counts.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => extent.counts.push((channel_id, 1)),
        }
    }
    extent
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
