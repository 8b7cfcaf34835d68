//! How a message of a brick is proven, by
//!
//! - the checksum of its chunk,
//! - or, for a frame without one, an index entry that says the same as its headers, or a whole chunk with
//!   its message index, where no entry of the same time says otherwise; and by having no hole: bricks are
//!   only appended to, so a block is either what was written or a hole,
//! - or an entry below the mark in `container.synced`, or one that the kernel has had for long,
//! - or a place in front of the end of a file that cuts its chunk, where nothing else can have happened to
//!   the file than being cut: the chunk's checksum can no longer be checked.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::Arc;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES_MAX, ChunkExtent, ChunkHeader, ChunkMessage,
    Compression, Compressor, MESSAGE_HEADER_BYTES, MESSAGE_INDEX_ENTRY_BYTES,
    MESSAGE_INDEX_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, chunk_messages,
    decompress_start, opcode, put_compressed_chunk_header, put_message_index,
};

use super::index::Claim;
use super::survey::Member;
use crate::limits::PROVEN_CHUNK_BYTES_MAX;
use crate::storage::ReadFile;

/// How much of the index is believed.
#[derive(Clone, Copy)]
pub(super) struct Trust {
    /// Chunks below this offset that have all their entries are believed: the kernel that was given
    /// them still runs, and has had the time to tell of a failure.
    pub settled_bytes: u64,
    /// Whether all data given to the kernel is in the file, up to the file's end: the kernel still runs, or the
    /// recorder closed and synced the file. Otherwise a power cut may have cost any sector.
    pub has_lost_no_sector: bool,
}

/// A chunk that has been proven.
pub(super) struct Proven {
    pub extent: ChunkExtent,
    /// Its messages with their members; none where its claims are believed as they are.
    pub entries: Vec<(usize, IndexEntry)>,
    pub is_believed: bool,
    /// Whether the times in its header are those of its messages.
    pub has_right_times: bool,
    /// The chunk with only its first messages, if the end of the file truncates it.
    pub shortened: Option<Vec<u8>>,
    /// The start of its record, if that is incorrect.
    pub record_header: Option<[u8; RECORD_HEADER_BYTES]>,
}

/// How a chunk begins.
pub(super) struct ChunkStart {
    /// Up to its first message.
    head: Vec<u8>,
    header: ChunkHeader,
    /// Where its record ends.
    pub end: u64,
    /// Whether its record begins as it must.
    is_right: bool,
}

/// A brick, and what indexes claim of it.
pub(super) struct Evidence<'a> {
    file: Arc<dyn ReadFile>,
    pub length: u64,
    pub members: &'a [Member],
    /// Place in `members` by channel.
    by_channel: HashMap<u16, usize>,
    /// In the order of their places.
    pub claims: &'a mut [Claim],
    trust: Trust,
}

impl<'a> Evidence<'a> {
    pub fn new(
        file: Arc<dyn ReadFile>,
        members: &'a [Member],
        claims: &'a mut [Claim],
        trust: Trust,
    ) -> io::Result<Self> {
        claims.sort_unstable_by_key(|c| (place_of(&c.entry), c.member, c.number));
        let length = file.length()?;
        let by_channel =
            members.iter().enumerate().rev().map(|(at, m)| (m.channel_id, at)).collect();
        Ok(Self { file, length, members, by_channel, claims, trust })
    }

    pub fn read(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let bytes = to.min(self.length).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
        let count = self.file.read_at(&mut bytes, from)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// The record at a place, and its end, if that is inside the file.
    pub fn record(&self, at: u64) -> io::Result<Option<(RecordHeader, u64)>> {
        let mut head = [0; RECORD_HEADER_BYTES];
        let count = self.file.read_at(&mut head, at)?;
        let record = RecordHeader::parse(&head[..count]);
        let end = record.and_then(|record| at.checked_add(record.total_bytes()?));
        Ok(record.zip(end.filter(|end| *end <= self.length)))
    }

    pub fn member_of(&self, channel_id: u16) -> Option<usize> {
        self.by_channel.get(&channel_id).copied()
    }

    /// Claims of the chunk at a place.
    pub fn claims_at(&self, at: u64) -> &[Claim] {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < at);
        let claims = &self.claims[first..];
        &claims[..claims.partition_point(|claim| place_of(&claim.entry).0 == at)]
    }

    /// Claims of chunks that begin in a range.
    pub fn claims_in(&self, range: Range<u64>) -> impl Iterator<Item = &Claim> {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < range.start);
        self.claims[first..].iter().take_while(move |c| place_of(&c.entry).0 < range.end)
    }

    /// The claim of the message at a place of a chunk.
    fn claim_at(&self, at: u64, inner: u32) -> Option<&Claim> {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry) < (at, inner));
        self.claims.get(first).filter(|claim| place_of(&claim.entry) == (at, inner))
    }

    /// Whether a chunk that an index tells of begins inside.
    pub fn is_claimed(&self, range: Range<u64>) -> bool {
        let first = self.claims.partition_point(|claim| place_of(&claim.entry).0 < range.start);
        self.claims.get(first).is_some_and(|claim| place_of(&claim.entry).0 < range.end)
    }

    /// The start of the chunk at a place. If an index names a chunk, its opcode and length follow from the rest of the
    /// header.
    pub fn chunk_at(&self, at: u64) -> io::Result<Option<ChunkStart>> {
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

    /// The header of a chunk that the end of the file cuts.
    pub fn cut_chunk_at(&self, at: u64) -> io::Result<Option<ChunkHeader>> {
        let head = self.read(at, at + CHUNK_HEADER_BYTES_MAX as u64)?;
        Ok(ChunkHeader::parse(&head).filter(|header| {
            let end = header.total_bytes().and_then(|bytes| at.checked_add(bytes));
            end.is_none_or(|end| end > self.length)
                && header.records_bytes.max(header.stored_bytes) <= PROVEN_CHUNK_BYTES_MAX
        }))
    }

    pub fn prove(&self, at: u64) -> io::Result<Option<Proven>> {
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
        let entries = match header.crc {
            0 if frame_of(head, header).is_some() => self.prove_frame(head, (at, end), header)?,
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

    /// A chunk whose claims are accepted, if they have its times, and their number equals that of its message indexes.
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
        if (extent.start_nanos, extent.end_nanos) != (header.start_nanos, header.end_nanos) {
            return Ok(None);
        }
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

    /// A chunk with a correct checksum is as written, with or without entries.
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

    /// A frame without a checksum.
    fn prove_frame(
        &self,
        head: &[u8],
        (at, end): (u64, u64),
        header: &ChunkHeader,
    ) -> io::Result<Option<Vec<(usize, IndexEntry)>>> {
        let Some(message) = frame_of(head, header) else { return Ok(None) };
        let Some(member) = self.member_of(message.channel_id) else { return Ok(None) };
        let entry = self.entry_of(&message, (at, 0), member, header);
        let claims = self.claims_at(at);
        let mut whole_to = end;
        if !claims.iter().any(|claim| same_message(&claim.entry, &entry)) {
            // Its message index is written behind its data.
            let mut index = Vec::new();
            let place = std::iter::once((message.log_time_nanos, 0));
            put_message_index(&mut index, message.channel_id, place);
            whole_to = end + index.len() as u64;
            let times = (header.start_nanos, header.end_nanos);
            if times != (message.log_time_nanos, message.log_time_nanos)
                || self.read(end, whole_to)? != index
            {
                // The header alone may have been moved here by a medium that confuses sectors.
                return Ok(None);
            }
            // An entry has a checksum: where the two differ, the brick is wrong; but one that tells of another time
            // than all three places in the brick is another recording's.
            if claims.iter().any(|claim| claim.entry.log_time_nanos == message.log_time_nanos) {
                return Ok(None);
            }
        }
        let whole = !self.file.has_hole(at, whole_to - at)?;
        Ok(whole.then(|| vec![(member, entry)]))
    }

    /// The first messages of a chunk that the end of the file cuts. Its checksum is useless, so they are given a chunk
    /// without one, which marks them as not proven to the bit.
    fn prove_cut(&self, at: u64) -> io::Result<Option<Proven>> {
        let Some(header) = self.cut_chunk_at(at)? else { return Ok(None) };
        if self.is_claimed(at + 1..self.length) {
            // Others are behind it: not the file is cut, but the length is wrong.
            return Ok(None);
        }
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
            let times = header.start_nanos..=header.end_nanos;
            let claim = self.claim_at(at, message.inner);
            // One of another time than the chunk's is another recording's.
            let claim = claim.filter(|claim| times.contains(&claim.entry.log_time_nanos));
            let is_right = match claim {
                Some(claim) => {
                    usize::from(claim.member) == member && same_message(&claim.entry, &entry)
                }
                None => times.contains(&entry.log_time_nanos),
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
        // Uncompressed data keeps its place.
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

    /// A chunk that [`Evidence::prove_cut`] has shortened: small messages without a checksum.
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
            // As in `prove_frame`.
            let claim = claim.filter(|claim| claim.entry.log_time_nanos == entry.log_time_nanos);
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

    /// The message index records behind a chunk.
    pub fn message_indexes(&self, chunk: &ChunkExtent, entries: &[(usize, IndexEntry)]) -> Vec<u8> {
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

/// The header of the message that is alone in a chunk that is not compressed.
fn frame_of(head: &[u8], header: &ChunkHeader) -> Option<MessageHeader> {
    let message = MessageHeader::parse(head.get(CHUNK_HEADER_BYTES..)?)?;
    let records_bytes = message.data_bytes.checked_add(MESSAGE_HEADER_BYTES as u64);
    let is_alone =
        header.compression == Compression::None && records_bytes == Some(header.records_bytes);
    is_alone.then_some(message)
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
pub(super) fn end_of(chunk: &ChunkExtent) -> u64 {
    let bytes = |(_, count): &(u16, u64)| {
        MESSAGE_INDEX_HEADER_BYTES as u64 + count * MESSAGE_INDEX_ENTRY_BYTES as u64
    };
    chunk.offset + chunk.chunk_bytes() + chunk.counts.iter().map(bytes).sum::<u64>()
}

/// Tells a message of a brick from every other: its chunk, and where in it.
pub(super) fn place_of(entry: &IndexEntry) -> (u64, u32) {
    (entry.checked_chunk_offset().unwrap_or(u64::MAX), entry.inner)
}

/// Whether two entries are of one message; a brick knows the lower half of a sequence only.
pub(super) fn same_message(a: &IndexEntry, b: &IndexEntry) -> bool {
    place_of(a) == place_of(b)
        && (a.log_time_nanos, a.publish_time_nanos) == (b.log_time_nanos, b.publish_time_nanos)
        && (a.sequence as u32, a.data_bytes) == (b.sequence as u32, b.data_bytes)
        && a.compressed == b.compressed
}
