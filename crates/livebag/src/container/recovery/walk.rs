//! One pass over a brick, record by record, that changes nothing. Bytes that are no record, or cannot be proven, are
//! skipped up to the next provable record.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use livebag_format::index::ENTRY_BYTES;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES_MAX, ChunkExtent, ChunkHeader, Definition, MAGIC, MESSAGE_INDEX_ENTRY_BYTES,
    MESSAGE_INDEX_HEADER_BYTES, RECORD_HEADER_BYTES, opcode, put_file_start,
};

use super::Memory;
use super::definitions::Definitions;
use super::index::{Claim, Finding};
use super::proof::{ChunkStart, Evidence, Proven, Trust, end_of, place_of, same_message};
use super::survey::{Change, Member, Stretch, Survey};
use crate::storage::ReadFile;

/// Longest schema or channel record that is compared with the manifest's.
const DEFINITION_BYTES_MAX: u64 = 64 << 20;
/// Bytes searched at once.
const SEARCH_BYTES: usize = 256 << 10;

/// Memory for a message without an entry: in a list that grows, and once more when its index is written.
const FOUND_MEMORY_BYTES: u64 = 4 * ENTRY_BYTES as u64;
/// Memory for a chunk, in a list that grows.
const CHUNK_MEMORY_BYTES: u64 = 3 * size_of::<ChunkExtent>() as u64;

/// The content at a place.
enum Step {
    /// Something whole that ends here.
    To(u64),
    /// Padding or data that was in flight, up to here.
    Filler(u64),
    Chunk(Box<Proven>, u64),
    /// The end of the data.
    End,
    /// Nothing that can be believed; it may end here.
    Unknown(Option<u64>),
}

/// One pass over a brick.
pub(super) struct Walk<'a> {
    evidence: Evidence<'a>,
    profile: &'a str,
    library: &'a str,
    memory: Memory,
    definitions: Definitions<'a>,
    /// After it there are only zeros.
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
        let evidence = Evidence::new(file, members, claims, trust)?;
        let length = evidence.length;
        let survey = Survey {
            found: vec![Vec::new(); members.len()],
            lost: vec![0; members.len()],
            ..Survey::default()
        };
        Ok(Self {
            evidence,
            profile,
            library,
            memory,
            definitions: Definitions::new(members),
            end: Cell::new(length),
            last_filler: None,
            search_bytes_left: length.saturating_mul(4),
            survey,
        })
    }

    pub fn run(mut self) -> io::Result<Survey> {
        let mut at = self.start()?;
        while at < self.evidence.length {
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
                    if is_shortened && end < self.evidence.length {
                        self.pass_over(end, self.evidence.length, true);
                        at = self.evidence.length;
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
                    at = next.unwrap_or(self.evidence.length);
                }
            }
            self.last_filler = None;
        }
        self.definitions.define_empty_brick(&mut self.survey);
        Ok(self.survey)
    }

    /// The file's magic and header: where the walk begins.
    fn start(&mut self) -> io::Result<u64> {
        let mut wanted = Vec::new();
        put_file_start(&mut wanted, self.profile, self.library);
        let found = self.evidence.read(0, wanted.len() as u64)?;
        if found.get(..MAGIC.len()) != Some(&MAGIC) {
            self.survey.changes.push(Change { offset: 0, bytes: MAGIC.to_vec() });
        }
        let magic = MAGIC.len() as u64;
        self.survey.tail = magic;
        let header =
            self.evidence.record(magic)?.filter(|(record, _)| record.opcode == opcode::HEADER);
        let parses = match header {
            Some((_, end)) if end - magic <= DEFINITION_BYTES_MAX => {
                let record = self.evidence.read(magic, end)?;
                let body = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
                !body.is_empty() && Definition::parse(opcode::HEADER, body).is_some()
            }
            _ => false,
        };
        let whole = found == wanted || (parses && self.lands(header.map_or(0, |(_, end)| end))?);
        if !whole {
            // Up to the next proven record, it is written again with the records that must follow it.
            let next = self.search(magic)?;
            let end = next.map_or(self.end_of_bytes(magic)?, |next| next);
            let records = wanted.split_off(MAGIC.len());
            let end = match next {
                Some(_) => end,
                None => end.max(magic + records.len() as u64),
            };
            self.survey.stretches.push(Stretch { range: magic..end, records });
            self.survey.tail = end;
            return Ok(next.unwrap_or(self.evidence.length));
        }
        let end = header.map_or(magic, |(_, end)| end);
        self.survey.tail = end;
        Ok(end)
    }

    fn step(&mut self, at: u64) -> io::Result<Step> {
        if let Some(proven) = self.evidence.prove(at)? {
            let end = end_of(&proven.extent);
            return Ok(Step::Chunk(Box::new(proven), end));
        }
        let Some((record, end)) = self.evidence.record(at)? else { return Ok(Step::Unknown(None)) };
        if record.opcode == opcode::CHUNK {
            let head = self.evidence.read(at, at + CHUNK_HEADER_BYTES_MAX as u64)?;
            let jumps = ChunkHeader::parse(&head).is_some()
                && self.lands(end)?
                && !self.evidence.is_claimed(at + 1..end);
            if jumps {
                self.count_lost(at, end)?;
            }
            return Ok(Step::Unknown(jumps.then_some(end)));
        }
        let is_filler = matches!(record.opcode, opcode::PADDING..=opcode::GIVEN_UP);
        let lands = self.lands(end)? && !self.evidence.is_claimed(at + 1..end);
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

    /// The next place from `from` on where a chunk can be proven.
    fn search(&mut self, from: u64) -> io::Result<Option<u64>> {
        let mut start = from;
        while start < self.evidence.length {
            let bytes = self.evidence.read(start, start + SEARCH_BYTES as u64)?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let end = start + bytes.len() as u64;
            let is_chunk = |place: &(usize, &u8)| *place.1 == opcode::CHUNK;
            let marked = bytes.iter().enumerate().filter(is_chunk).map(|(at, _)| start + at as u64);
            let claimed = self.evidence.claims_in(start..end).map(|claim| place_of(&claim.entry).0);
            let mut places: Vec<u64> = marked.chain(claimed).collect();
            places.sort_unstable();
            places.dedup();
            for at in places {
                let bytes = match self.evidence.chunk_at(at)? {
                    Some(ChunkStart { end, .. }) => end - at,
                    // One that the end of the file cuts is read to there.
                    None if self.evidence.cut_chunk_at(at)?.is_some() => self.evidence.length - at,
                    None => continue,
                };
                if self.search_bytes_left < bytes {
                    continue;
                }
                if self.evidence.prove(at)?.is_some() {
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
        for (channel_id, _) in &proven.extent.counts {
            if let Some(place) = self.evidence.member_of(*channel_id) {
                self.definitions.require(place, &mut self.survey);
            }
        }
        let first = self.evidence.claims.partition_point(|claim| place_of(&claim.entry).0 < at);
        let end = end_of(&proven.extent);
        // Both are in the order of places.
        let mut entries = proven.entries.iter().peekable();
        for claim in self.evidence.claims[first..].iter_mut() {
            let place = place_of(&claim.entry);
            if place.0 >= end {
                break;
            }
            if place.0 > at {
                // In the middle of this chunk there is no other.
                claim.finding = Finding::Another;
                continue;
            }
            while entries.next_if(|(_, entry)| place_of(entry) < place).is_some() {}
            let is_it = entries.peek().is_some_and(|(member, entry)| {
                *member == usize::from(claim.member) && same_message(entry, &claim.entry)
            });
            claim.finding = match proven.is_believed || is_it {
                true => Finding::Proven,
                false => Finding::Another,
            };
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
            let (claims, found) = (&*self.evidence.claims, &mut self.survey.found);
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

    /// The message indexes behind a proven chunk have a known length and known contents.
    fn restore_message_indexes(&mut self, proven: &Proven) -> io::Result<()> {
        let bytes = self.evidence.message_indexes(&proven.extent, &proven.entries);
        let offset = proven.extent.offset + proven.extent.chunk_bytes();
        if self.evidence.read(offset, offset + bytes.len() as u64)? != bytes {
            // Kept until it is written, together with the overwritten bytes as text.
            self.memory.take(4 * bytes.len() as u64)?;
            self.survey.changes.push(Change { offset, bytes });
        }
        Ok(())
    }

    /// Counts messages of a chunk that could not be proven and that no index claims.
    fn count_lost(&mut self, at: u64, end: u64) -> io::Result<()> {
        if !self.evidence.claims_at(at).is_empty() {
            return Ok(());
        }
        let mut index_at = end;
        // Each channel has one message index.
        for _ in 0..self.evidence.members.len() {
            let head =
                self.evidence.read(index_at, index_at + MESSAGE_INDEX_HEADER_BYTES as u64)?;
            let Some((record, end)) = self.evidence.record(index_at)? else { break };
            let [.., low, high, _, _, _, _] = head[..] else { break };
            if record.opcode != opcode::MESSAGE_INDEX {
                break;
            }
            if let Some(member) = self.evidence.member_of(u16::from_le_bytes([low, high])) {
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
        let record = self.evidence.read(at, end)?;
        let id = record.get(9..11).and_then(|id| id.try_into().ok()).map(u16::from_le_bytes);
        if let Some(place) = id.and_then(|id| self.evidence.member_of(id)) {
            if !self.definitions.is_definition_of(place, &record) {
                return Ok(false);
            }
            self.definitions.note(record[0], place);
            if record[0] == opcode::CHANNEL {
                self.survey.announce(at, self.evidence.members[place].channel_id);
            }
            return Ok(true);
        }
        let body = record.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        Ok(Definition::parse(record[0], body).is_some())
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

    /// Whether a record may end here: the file does, or another record begins. A length has no
    /// checksum, so this is what tells a damaged one.
    fn lands(&self, end: u64) -> io::Result<bool> {
        if end == self.evidence.length {
            return Ok(true);
        }
        let known = |kind| {
            matches!(kind, opcode::HEADER..=opcode::DATA_END)
                || matches!(kind, opcode::PADDING..=opcode::GIVEN_UP)
        };
        Ok(self.evidence.record(end)?.is_some_and(|(record, _)| known(record.opcode)))
    }

    /// Where the bytes from `at` on end that are not zero.
    fn end_of_bytes(&self, at: u64) -> io::Result<u64> {
        // Zeros at the end are read once, however often it is asked.
        let mut end = self.end.get();
        while end > at {
            let start = end.saturating_sub(SEARCH_BYTES as u64).max(at);
            let bytes = self.evidence.read(start, end)?;
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
}
