//! A time index, entry by entry, and whether each message is where its entry says.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset, is_index_header};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES_MAX, ChunkHeader, Compression, MESSAGE_HEADER_BYTES,
    MessageHeader, RECORD_HEADER_BYTES,
};

use super::Check;
use crate::query::says_the_same;
use crate::query::unpack::{UnpackError, Unpacked};
use crate::storage::DiskFile;

/// Entries read at once.
const ENTRIES_AT_ONCE: u64 = 1024;
/// Bytes of a brick read at once; the headers of a gathered chunk are near each other.
const WINDOW_BYTES: usize = 64 << 10;

/// A brick, as the entries of an index see it.
pub(super) struct BrickFile {
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
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
    /// Closed: bricks are whole files, and are checked as such beside this.
    Whole,
    /// Not closed: only what has an entry counts, and chunks are checked from here.
    Committed,
}

pub(super) struct IndexCheck<'c, 'd> {
    pub check: &'c mut Check<'d>,
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    pub channel_id: u16,
    pub bricks: &'c [Option<BrickFile>],
    pub depth: Depth,
    pub window: Vec<u8>,
    pub window_start: u64,
    pub window_brick: u16,
    /// Brick and place of the chunk whose checksum was compared last.
    pub proven: Option<(u16, u64)>,
    pub unpacked: Unpacked,
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
                    let what = format!("the checksum of entry {} does not fit", at + number as u64);
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
        let Some(chunk_at) = entry.checked_chunk_offset() else {
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
        let Some(chunk) = ChunkHeader::parse(head) else {
            self.check.damage(&path, chunk_at, "there is no chunk where the time index says");
            return Ok(());
        };
        if entry.compressed != (chunk.compression != Compression::None) {
            let what = "a chunk is compressed and its time index says the contrary";
            self.check.damage(&path, chunk_at, what);
            return Ok(());
        }
        if entry.compressed {
            return self.look_into_chunk(&*file, &path, entry, chunk_at, &chunk);
        }
        let message_at = entry.offset - MESSAGE_HEADER_BYTES as u64;
        let head = self.read(&*file, entry.brick, message_at, MESSAGE_HEADER_BYTES)?;
        let message = MessageHeader::parse(head);
        let same = message.is_some_and(|found| says_the_same(&found, entry, self.channel_id));
        if !same || entry.inner_end() > chunk.records_bytes {
            let what = "the message here is not the one that the time index tells of";
            self.check.damage(&path, message_at, what);
        }
        if self.depth == Depth::Committed {
            self.check.verified.messages += 1;
            self.prove_chunk(&*file, &path, entry.brick, chunk_at, &chunk)?;
        }
        Ok(())
    }

    /// The same for a message of a compressed chunk. Of a whole file the chunks are unpacked and
    /// their messages counted with the file.
    fn look_into_chunk(
        &mut self,
        file: &dyn DiskFile,
        path: &std::path::Path,
        entry: &IndexEntry,
        chunk_at: u64,
        chunk: &ChunkHeader,
    ) -> io::Result<()> {
        if entry.inner_end() > chunk.records_bytes {
            let what = "the chunk is shorter than the time index says";
            self.check.damage(path, chunk_at, what);
            return Ok(());
        }
        if self.depth == Depth::Committed {
            self.check.verified.messages += 1;
        }
        let is_new = self.proven.replace((entry.brick, chunk_at)) != Some((entry.brick, chunk_at));
        self.check.verified.checksums += u64::from(is_new);
        let what = match self.unpacked.message(file, entry) {
            Ok((head, _)) => {
                let message = MessageHeader::parse(head);
                let same =
                    message.is_some_and(|found| says_the_same(&found, entry, self.channel_id));
                (!same).then_some("a message in the chunk is not the one of the time index")
            }
            Err(UnpackError::Io(error)) => return Err(error),
            // Named once, not for each of its messages.
            Err(UnpackError::Damaged(what)) => is_new.then_some(what),
        };
        if let Some(what) = what {
            self.check.damage(path, chunk_at, what);
        }
        Ok(())
    }

    fn prove_chunk(
        &mut self,
        file: &dyn DiskFile,
        path: &std::path::Path,
        brick: u16,
        chunk_at: u64,
        chunk: &ChunkHeader,
    ) -> io::Result<()> {
        if chunk.crc == 0 {
            self.check.verified.unproven_messages += 1;
            return Ok(());
        }
        if self.proven.replace((brick, chunk_at)) == Some((brick, chunk_at)) {
            return Ok(());
        }
        let end = chunk_at + CHUNK_HEADER_BYTES as u64 + chunk.records_bytes;
        self.check.verified.checksums += 1;
        let crc = if end <= file.length()? {
            let mut records = vec![0; chunk.records_bytes as usize];
            file.read_at(&mut records, chunk_at + CHUNK_HEADER_BYTES as u64)?;
            Some(crc32fast::hash(&records))
        } else {
            None
        };
        if crc != Some(chunk.crc) {
            self.check.damage(path, chunk_at, "a chunk is damaged: its checksum does not fit");
        }
        Ok(())
    }

    /// Some bytes of a brick; zeros behind its end.
    fn read(
        &mut self,
        file: &dyn DiskFile,
        brick: u16,
        at: u64,
        bytes: usize,
    ) -> io::Result<&[u8]> {
        debug_assert!(bytes + RECORD_HEADER_BYTES <= WINDOW_BYTES, "headers are short");
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
