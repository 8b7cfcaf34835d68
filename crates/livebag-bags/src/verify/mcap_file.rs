//! An MCAP file of anybody's making, from its first byte to its last.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use livebag_format::mcap::{
    MAGIC, MESSAGE_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, opcode,
};
use mcap::records::Record;

use super::Check;
use crate::mcap_records::{message, parse_record, unpack};
use livebag::ReadFile;

/// Longest chunk that is read into memory.
const CHUNK_BYTES_MAX: u64 = 1 << 30;
/// Longest other record that is read into memory.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Bytes of an attachment read at once: it may be larger than memory.
const PIECE_BYTES: usize = 1 << 20;

/// What an MCAP file holds.
#[derive(Default)]
pub(super) struct Contents {
    /// Messages by channel.
    pub channels: BTreeMap<u16, u64>,
    /// Checksums of header, schema and channel records by opcode and id: MCAP has no checksum for them, but they are
    /// repeated.
    pub definitions: BTreeMap<(u8, u16), u32>,
    pub chunks: Vec<Chunk>,
    /// Places and lengths of metadata records and attachments.
    pub metadata: Vec<(u64, u64)>,
    pub attachments: Vec<(u64, u64)>,
    pub start_nanos: u64,
    pub end_nanos: u64,
}

impl Contents {
    pub fn messages(&self) -> u64 {
        self.channels.values().sum()
    }

    fn count(&mut self, channel: u16, log_time_nanos: u64) {
        if self.messages() == 0 {
            (self.start_nanos, self.end_nanos) = (log_time_nanos, log_time_nanos);
        }
        self.start_nanos = self.start_nanos.min(log_time_nanos);
        self.end_nanos = self.end_nanos.max(log_time_nanos);
        *self.channels.entry(channel).or_default() += 1;
    }
}

/// A chunk, as its index should tell of it.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    pub offset: u64,
    pub bytes: u64,
    pub start_nanos: u64,
    pub end_nanos: u64,
}

/// A message of the chunk that was read last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    channel: u16,
    log_time_nanos: u64,
    offset: u64,
}

/// Checks the file at `path`. After damage it continues at the next chunk from the summary or `known_chunks`.
pub(super) fn check(
    check: &mut Check<'_>,
    path: &Path,
    file: &dyn ReadFile,
    known_chunks: Vec<u64>,
) -> io::Result<Contents> {
    let length = file.length()?;
    check.begin_file(length);
    let mut walk = Walk {
        check,
        path,
        file,
        length,
        position: 0,
        reported: 0,
        buffer: Vec::new(),
        known_chunks,
        contents: Contents::default(),
        last_chunk: None,
        indexed_channels: BTreeSet::new(),
        skipped: false,
    };
    walk.run()?;
    let (reported, contents) = (walk.reported, walk.contents);
    check.verified.messages += contents.messages();
    check.advance(length.saturating_sub(reported));
    Ok(contents)
}

pub(super) struct Walk<'c, 'd> {
    pub check: &'c mut Check<'d>,
    pub path: &'c Path,
    pub file: &'c dyn ReadFile,
    pub length: u64,
    pub position: u64,
    /// Bytes reported as progress.
    reported: u64,
    buffer: Vec<u8>,
    /// Where chunks begin, in order.
    known_chunks: Vec<u64>,
    pub contents: Contents,
    /// Messages of the chunk before, if it was whole.
    last_chunk: Option<Vec<Place>>,
    indexed_channels: BTreeSet<u16>,
    /// Whether something could not be read, so that counts cannot agree.
    pub skipped: bool,
}

impl Walk<'_, '_> {
    pub fn damage(&mut self, offset: impl Into<Option<u64>>, what: impl Into<String>) {
        self.check.damage(self.path, offset, what);
    }

    fn run(&mut self) -> io::Result<()> {
        let mut magic = [0; MAGIC.len()];
        let count = self.file.read_at(&mut magic, 0)?;
        if magic != MAGIC {
            self.damage(0, if count == 0 { "it is empty" } else { "it does not begin as an MCAP" });
        }
        if count == 0 {
            return Ok(());
        }
        self.learn_chunks()?;
        self.position = MAGIC.len() as u64;
        while self.position < self.length {
            match self.record()? {
                Some((record, end)) if record.opcode == opcode::DATA_END => {
                    self.end_of_chunk();
                    return self.end_of_data(end);
                }
                Some((record, end)) if is_of_data(record.opcode) => {
                    self.look_at(record, end)?;
                    self.position = end;
                    self.tell();
                }
                Some((record, _)) if record.opcode != 0 => {
                    let what = format!("a record of kind {:#04x} is out of place", record.opcode);
                    if !self.go_on(what) {
                        return Ok(());
                    }
                }
                _ => {
                    if !self.go_on("no whole record".to_owned()) {
                        return Ok(());
                    }
                }
            }
        }
        self.damage(self.length, "the file ends without an end of its data: not closed, or cut");
        Ok(())
    }

    fn tell(&mut self) {
        const STEP_BYTES: u64 = 4 << 20;
        if self.position - self.reported.min(self.position) >= STEP_BYTES {
            self.check.advance(self.position - self.reported);
            self.reported = self.position;
        }
    }

    /// The record at `position`, and its end, if that is inside the file.
    pub fn record(&self) -> io::Result<Option<(RecordHeader, u64)>> {
        let mut head = [0; RECORD_HEADER_BYTES];
        let count = self.file.read_at(&mut head, self.position)?;
        let record = RecordHeader::parse(&head[..count]);
        let end = record.and_then(|record| self.position.checked_add(record.total_bytes()?));
        Ok(record.zip(end.filter(|end| *end <= self.length)))
    }

    /// Names damage at `position`, and goes to the next chunk known; `false` if there is none.
    fn go_on(&mut self, what: String) -> bool {
        self.skipped = true;
        self.last_chunk = None;
        let next = self.known_chunks.partition_point(|chunk| *chunk <= self.position);
        match self.known_chunks.get(next).copied() {
            Some(chunk) if chunk < self.length => {
                let bytes = chunk - self.position;
                self.damage(
                    self.position,
                    format!("{what}; {bytes} bytes to the next known chunk"),
                );
                self.position = chunk;
                true
            }
            _ => {
                let bytes = self.length - self.position;
                let rest = format!("{what}; the {bytes} bytes from here on are not checked");
                self.damage(self.position, rest);
                false
            }
        }
    }

    /// Reads a whole record into `buffer`, unless it is too long.
    pub fn load(&mut self, end: u64, most: u64) -> io::Result<bool> {
        let bytes = end - self.position;
        if bytes > most {
            self.skipped = true;
            self.damage(self.position, format!("a record of {bytes} bytes, more than {most}"));
            return Ok(false);
        }
        self.buffer.resize(bytes as usize, 0);
        let count = self.file.read_at(&mut self.buffer, self.position)?;
        self.buffer.truncate(count);
        Ok(true)
    }

    /// The record in `buffer`; damage if it does not parse.
    pub fn parse(&mut self) -> Option<Record<'static>> {
        let body = self.buffer.get(RECORD_HEADER_BYTES..).unwrap_or_default();
        let kind = self.buffer.first().copied().unwrap_or(0);
        match parse_record(kind, body) {
            Ok(record) => Some(record.into_owned()),
            Err(error) => {
                let what = format!("a record of kind {kind:#04x} does not parse: {error}");
                self.damage(self.position, what);
                self.skipped = true;
                None
            }
        }
    }

    fn look_at(&mut self, record: RecordHeader, end: u64) -> io::Result<()> {
        match record.opcode {
            opcode::CHUNK => {
                self.end_of_chunk();
                if self.load(end, CHUNK_BYTES_MAX)? {
                    self.chunk();
                }
            }
            opcode::MESSAGE => self.loose_message()?,
            opcode::HEADER
            | opcode::SCHEMA
            | opcode::CHANNEL
            | opcode::MESSAGE_INDEX
            | opcode::METADATA => {
                if self.load(end, RECORD_BYTES_MAX)?
                    && let Some(parsed) = self.parse()
                {
                    self.take(&parsed, end);
                }
            }
            opcode::ATTACHMENT => {
                self.contents.attachments.push((self.position, end - self.position));
                self.attachment(end)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn take(&mut self, record: &Record<'_>, end: u64) {
        match record {
            Record::Header(_) | Record::Schema { .. } | Record::Channel(_) => {
                let crc = self.body_crc();
                self.define(record, crc);
            }
            Record::Metadata(_) => {
                self.contents.metadata.push((self.position, end - self.position));
            }
            Record::MessageIndex(index) => {
                let places = index.records.iter().map(|entry| Place {
                    channel: index.channel_id,
                    log_time_nanos: entry.log_time,
                    offset: entry.offset,
                });
                self.message_index(index.channel_id, places.collect());
            }
            _ => {}
        }
    }

    /// Notes a header, schema or channel, whose body has this checksum.
    pub fn define(&mut self, record: &Record<'_>, crc: u32) {
        let key = match record {
            Record::Schema { header, .. } => (opcode::SCHEMA, header.id),
            Record::Channel(channel) => {
                let (id, schema) = (channel.id, channel.schema_id);
                let schema_known = schema == 0
                    || self.contents.definitions.contains_key(&(opcode::SCHEMA, schema));
                if !schema_known {
                    let what = format!("channel {id} names schema {schema}, unknown here");
                    self.damage(self.position, what);
                }
                self.contents.channels.entry(id).or_default();
                (opcode::CHANNEL, id)
            }
            _ => (opcode::HEADER, 0),
        };
        let before = *self.contents.definitions.entry(key).or_insert(crc);
        if before != crc {
            let name = if key.0 == opcode::SCHEMA { "schema" } else { "channel" };
            let what = format!("{name} {} is not what it was before in this file", key.1);
            self.damage(self.position, what);
        }
    }

    /// Checksum of the body of the record in `buffer`.
    pub fn body_crc(&self) -> u32 {
        crc32fast::hash(self.buffer.get(RECORD_HEADER_BYTES..).unwrap_or_default())
    }

    fn message_index(&mut self, channel: u16, mut told: Vec<Place>) {
        let Some(chunk) = &self.last_chunk else { return };
        let mut found: Vec<Place> =
            chunk.iter().filter(|place| place.channel == channel).copied().collect();
        told.sort_unstable();
        found.sort_unstable();
        self.indexed_channels.insert(channel);
        if told != found {
            let what = format!(
                "the message index of channel {channel} tells of {} messages, not of the {} in the \
                 chunk",
                told.len(),
                found.len()
            );
            self.damage(self.position, what);
        }
    }

    /// Everything that belongs to the chunk before has been seen.
    fn end_of_chunk(&mut self) {
        let indexed = std::mem::take(&mut self.indexed_channels);
        let Some(places) = self.last_chunk.take() else { return };
        // Message indexes are optional, but not for some channels only.
        let channels: BTreeSet<u16> = places.iter().map(|place| place.channel).collect();
        if !indexed.is_empty()
            && let Some(channel) = channels.difference(&indexed).next()
        {
            let what = format!("the chunk before has no message index of channel {channel}");
            self.damage(self.position, what);
        }
    }

    fn loose_message(&mut self) -> io::Result<()> {
        let mut head = [0; MESSAGE_HEADER_BYTES];
        let count = self.file.read_at(&mut head, self.position)?;
        match MessageHeader::parse(&head[..count]) {
            Some(message) if self.contents.channels.contains_key(&message.channel_id) => {
                self.contents.count(message.channel_id, message.log_time_nanos);
                self.check.verified.unproven_messages += 1;
            }
            Some(message) => {
                let what = format!("a message of the unknown channel {}", message.channel_id);
                self.damage(self.position, what);
            }
            None => self.damage(self.position, "a message is too short"),
        }
        Ok(())
    }

    /// The chunk in `buffer`.
    fn chunk(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut places = Vec::new();
        let mut definitions = Vec::new();
        let mut broken = false;
        let mut offset = 0;
        let unpacked = unpack(&buffer, true, |record| {
            match (record.opcode, message(&record)) {
                (opcode::MESSAGE, Some((header, _))) => places.push(Place {
                    channel: header.channel_id,
                    log_time_nanos: header.log_time_nanos,
                    offset,
                }),
                (opcode::SCHEMA | opcode::CHANNEL, _) => {
                    definitions.push((record.opcode, record.body.to_vec()));
                }
                _ => broken = true,
            }
            offset += (RECORD_HEADER_BYTES + record.body.len()) as u64;
        });
        for (kind, body) in definitions {
            match parse_record(kind, &body) {
                Ok(record) => self.define(&record, crc32fast::hash(&body)),
                Err(_) => broken = true,
            }
        }
        let unknown =
            places.iter().find(|place| !self.contents.channels.contains_key(&place.channel));
        let (unknown, whole) = (unknown.map(|place| place.channel), unpacked.is_ok() && !broken);
        match unpacked {
            Err(reason) => self.damage(self.position, format!("a chunk is damaged: {reason}")),
            Ok(()) if broken => self.damage(self.position, "a chunk has records that do not parse"),
            Ok(()) => {}
        }
        if let Some(channel) = unknown {
            let what = format!("a chunk has messages of the unknown channel {channel}");
            self.damage(self.position, what);
        }
        self.skipped |= !whole;
        self.note_chunk(&buffer, &places, whole);
        self.last_chunk = whole.then_some(places);
        self.buffer = buffer;
    }

    /// Counts a chunk's messages, and compares its times with theirs.
    fn note_chunk(&mut self, chunk: &[u8], places: &[Place], whole: bool) {
        let u64_at = |at: usize| {
            let bytes = chunk.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (start_nanos, end_nanos) = (u64_at(9), u64_at(17));
        let has_checksum = chunk.get(33..37).is_some_and(|crc| crc != [0; 4]);
        let bytes = chunk.len() as u64;
        let seen = Chunk { offset: self.position, bytes, start_nanos, end_nanos };
        self.contents.chunks.push(seen);
        let times = places.iter().map(|place| place.log_time_nanos);
        let bounds = times.clone().min().zip(times.max());
        if whole && bounds.is_some_and(|bounds| bounds != (start_nanos, end_nanos)) {
            self.damage(self.position, "a chunk's times are not those of its messages");
        }
        self.check.verified.checksums += u64::from(has_checksum);
        if !has_checksum {
            self.check.verified.unproven_messages += places.len() as u64;
        }
        for place in places {
            self.contents.count(place.channel, place.log_time_nanos);
        }
    }

    /// The attachment that ends at `end`: lengths that add up, and a checksum of everything before it.
    fn attachment(&mut self, end: u64) -> io::Result<()> {
        let body_at = self.position + RECORD_HEADER_BYTES as u64;
        let Some(crc_at) = self.crc_of_attachment(body_at, end)? else {
            self.damage(self.position, "an attachment's lengths contradict each other");
            return Ok(());
        };
        if end - crc_at > 4 {
            let bytes = end - crc_at - 4;
            let what = format!("an attachment has {bytes} bytes behind its fields, to be ignored");
            self.check.warn(self.path, self.position, what);
        }
        let mut stored = [0; 4];
        self.file.read_at(&mut stored, crc_at)?;
        let stored = u32::from_le_bytes(stored);
        if stored == 0 {
            return Ok(());
        }
        self.check.verified.checksums += 1;
        let mut crc = crc32fast::Hasher::new();
        let mut at = body_at;
        while at < crc_at {
            let left = usize::try_from(crc_at - at).unwrap_or(usize::MAX);
            self.buffer.resize(left.min(PIECE_BYTES), 0);
            let count = self.file.read_at(&mut self.buffer, at)?;
            if count == 0 {
                break;
            }
            crc.update(&self.buffer[..count]);
            at += count as u64;
        }
        if crc.finalize() != stored {
            self.damage(self.position, "an attachment's checksum does not match");
        }
        Ok(())
    }

    /// Where the checksum of an attachment lies: behind two times, two texts and the data, each text and
    /// the data behind its length. `None` if there are not four bytes before the end: more are to be ignored.
    fn crc_of_attachment(&mut self, body_at: u64, end: u64) -> io::Result<Option<u64>> {
        let mut at = body_at + 16;
        for length_bytes in [4, 4, 8] {
            let mut length = [0; 8];
            let count = self.file.read_at(&mut length[..length_bytes], at)?;
            let behind = at.checked_add(length_bytes as u64);
            let next = behind.and_then(|at| at.checked_add(u64::from_le_bytes(length)));
            match next.filter(|next| count == length_bytes && *next <= end) {
                Some(next) => at = next,
                None => return Ok(None),
            }
        }
        Ok((end - at >= 4).then_some(at))
    }

    /// Chunks from the summary, so that damage affects only the chunks it has hit.
    fn learn_chunks(&mut self) -> io::Result<()> {
        let told = self.chunks_of_summary()?;
        self.known_chunks.extend(told);
        self.known_chunks.sort_unstable();
        self.known_chunks.dedup();
        Ok(())
    }
}

/// Records that may stand before DataEnd. Kinds above it belong to applications, or to times to come.
fn is_of_data(kind: u8) -> bool {
    matches!(kind, opcode::HEADER | opcode::SCHEMA..=opcode::MESSAGE_INDEX)
        || matches!(kind, opcode::ATTACHMENT | opcode::METADATA)
        || kind > opcode::DATA_END
}
