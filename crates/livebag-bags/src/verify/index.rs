//! A time index, entry by entry, and whether each message is where its entry says.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset, is_index_header};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES_MAX, ChunkHeader, Compression, MESSAGE_HEADER_BYTES,
    MessageHeader,
};

use super::Check;
use livebag::ReadFile;
use livebag::internal::says_the_same;

/// Entries read at once.
const ENTRIES_AT_ONCE: u64 = 1024;
/// Bytes of a brick read at once; the headers of a gathered chunk are near each other.
const WINDOW_BYTES: usize = 64 << 10;

/// A brick, as the entries of an index see it.
pub(super) struct BrickFile {
    pub path: PathBuf,
    pub file: Arc<dyn ReadFile>,
}

/// What an index tells.
#[derive(Default)]
pub(super) struct Told {
    pub entries: u64,
    pub bytes: u64,
    /// Entries by brick.
    pub by_brick: BTreeMap<u16, u64>,
    /// Where chunks begin, by brick.
    pub chunks: BTreeMap<u16, Vec<u64>>,
}

/// How much of a container can be there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Closed: bricks are complete files, and are also checked as such.
    Whole,
    /// Not closed: only messages with an entry count, and chunks are checked from here.
    Committed,
}

pub(super) struct IndexCheck<'c, 'd> {
    pub check: &'c mut Check<'d>,
    pub path: PathBuf,
    pub file: Arc<dyn ReadFile>,
    pub channel_id: u16,
    pub bricks: &'c [Option<BrickFile>],
    pub depth: Depth,
    pub window: Vec<u8>,
    pub window_start: u64,
    pub window_brick: u16,
    /// Brick, place and records of the chunk that was unpacked last; no records if it is damaged.
    pub unpacked: Option<(u16, u64, Option<Vec<u8>>)>,
}

impl IndexCheck<'_, '_> {
    /// Checks all of it.
    pub fn run(mut self) -> io::Result<Told> {
        let length = self.file.length()?;
        self.check.begin_file(length);
        let mut header = [0; ENTRY_BYTES];
        self.file.read_at(&mut header, 0)?;
        self.check.verified.checksums += 1;
        if !is_index_header(&header) {
            self.check.damage(&self.path, 0, "it does not begin as a time index");
        }
        let rest = length % ENTRY_BYTES as u64;
        if rest != 0 && self.depth == Depth::Whole {
            let at = length - rest;
            self.check.damage(&self.path, at, "the file ends inside an entry");
        }
        let count = entry_count(length);
        let mut told = Told::default();
        let mut before = 0;
        let mut at = 0;
        while at < count {
            let some = (count - at).min(ENTRIES_AT_ONCE);
            let mut bytes = vec![0; some as usize * ENTRY_BYTES];
            self.file.read_at(&mut bytes, entry_offset(at))?;
            for (number, raw) in bytes.as_chunks().0.iter().enumerate() {
                let offset = entry_offset(at + number as u64);
                self.check.verified.checksums += 1;
                let Some(entry) = IndexEntry::decode(raw) else {
                    let what =
                        format!("the checksum of entry {} does not match", at + number as u64);
                    self.check.damage(&self.path, offset, what);
                    continue;
                };
                if entry.log_time_nanos < before {
                    self.check.damage(&self.path, offset, "the entry goes back in time");
                }
                before = before.max(entry.log_time_nanos);
                self.note(&mut told, &entry, offset)?;
            }
            at += some;
            self.check.advance(bytes.len() as u64);
        }
        told.entries = count;
        Ok(told)
    }

    fn note(&mut self, told: &mut Told, entry: &IndexEntry, offset: u64) -> io::Result<()> {
        told.bytes += u64::from(entry.data_bytes);
        *told.by_brick.entry(entry.brick).or_default() += 1;
        if self.bricks.len() <= usize::from(entry.brick) {
            self.check.damage(&self.path, offset, "the entry names a brick that the topic has not");
            return Ok(());
        }
        let before = (CHUNK_HEADER_BYTES + MESSAGE_HEADER_BYTES) as u64 + u64::from(entry.inner);
        let Some(chunk_at) = entry.offset.checked_sub(before) else {
            self.check.damage(&self.path, offset, "the entry points before any chunk");
            return Ok(());
        };
        let chunks = told.chunks.entry(entry.brick).or_default();
        if chunks.last() != Some(&chunk_at) {
            chunks.push(chunk_at);
        }
        self.look_at_message(entry, chunk_at)
    }

    /// Whether the chunk and the message are where the entry says, and say the same.
    fn look_at_message(&mut self, entry: &IndexEntry, chunk_at: u64) -> io::Result<()> {
        let Some(brick) = &self.bricks[usize::from(entry.brick)] else { return Ok(()) };
        let (file, path) = (brick.file.clone(), brick.path.clone());
        let head = self.read(&*file, entry.brick, chunk_at, CHUNK_HEADER_BYTES_MAX)?;
        let chunk = ChunkHeader::parse(head);
        let is_compressed = |chunk: &ChunkHeader| chunk.compression != Compression::None;
        let Some(chunk) = chunk.filter(|chunk| is_compressed(chunk) == entry.compressed) else {
            self.check.damage(&path, chunk_at, "there is no such chunk where the time index says");
            return Ok(());
        };
        let committed = self.depth == Depth::Committed;
        self.check.verified.messages += u64::from(committed);
        self.check.verified.unproven_messages += u64::from(committed && chunk.crc == 0);
        // Of a whole brick the checksums are compared when it is walked.
        if entry.compressed || (committed && chunk.crc != 0) {
            self.unpack(&*file, &path, entry.brick, chunk_at, &chunk)?;
        }
        let message = if entry.compressed {
            let Some((_, _, Some(records))) = &self.unpacked else { return Ok(()) };
            let start = entry.inner as usize;
            records.get(start..start + MESSAGE_HEADER_BYTES).and_then(MessageHeader::parse)
        } else {
            let message_at = entry.offset - MESSAGE_HEADER_BYTES as u64;
            MessageHeader::parse(self.read(
                &*file,
                entry.brick,
                message_at,
                MESSAGE_HEADER_BYTES,
            )?)
        };
        let same = message.is_some_and(|found| says_the_same(&found, entry, self.channel_id));
        if !same || entry.inner_end() > chunk.records_bytes {
            let what = "the message here does not match the time index";
            self.check.damage(&path, entry.offset, what);
        }
        Ok(())
    }

    /// Reads a chunk's records into `unpacked`, unless they are there; nothing if it is damaged.
    fn unpack(
        &mut self,
        file: &dyn ReadFile,
        path: &Path,
        brick: u16,
        chunk_at: u64,
        chunk: &ChunkHeader,
    ) -> io::Result<()> {
        if self.unpacked.as_ref().is_some_and(|(of, at, _)| (*of, *at) == (brick, chunk_at)) {
            return Ok(());
        }
        let bytes = chunk.header_bytes() as u64 + chunk.stored_bytes;
        let mut records = Err("the brick ends inside of it".to_owned());
        if chunk_at.saturating_add(bytes) <= file.length()? {
            let mut whole = vec![0; bytes as usize];
            file.read_at(&mut whole, chunk_at)?;
            records = match chunk.records(&whole) {
                Err(error) => Err(error.to_string()),
                Ok(found) if chunk.crc != 0 && crc32fast::hash(&found) != chunk.crc => {
                    Err("its checksum does not match".to_owned())
                }
                Ok(found) => Ok(found.into_owned()),
            };
        }
        if self.depth == Depth::Committed {
            self.check.verified.checksums += u64::from(chunk.crc != 0);
            if let Err(why) = &records {
                self.check.damage(path, chunk_at, format!("a chunk is damaged: {why}"));
            }
        }
        self.unpacked = Some((brick, chunk_at, records.ok()));
        Ok(())
    }

    /// Some bytes of a brick; zeros behind its end.
    fn read(
        &mut self,
        file: &dyn ReadFile,
        brick: u16,
        at: u64,
        bytes: usize,
    ) -> io::Result<&[u8]> {
        debug_assert!(bytes <= WINDOW_BYTES, "headers are short");
        let end = self.window_start + self.window.len() as u64;
        let inside =
            brick == self.window_brick && at >= self.window_start && at + bytes as u64 <= end;
        if !inside {
            self.window.resize(WINDOW_BYTES, 0);
            let count = file.read_at(&mut self.window, at)?;
            self.window[count..].fill(0);
            (self.window_start, self.window_brick) = (at, brick);
        }
        let start = (at - self.window_start) as usize;
        Ok(&self.window[start..start + bytes])
    }
}
