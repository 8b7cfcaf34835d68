//! A brick, open for reading.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, ChunkHeader, Compression, MESSAGE_HEADER_BYTES, MessageHeader,
};

use super::ContainerError;
use crate::container::says_the_same;
use crate::limits::READ_WINDOW_BYTES;
use crate::storage::{FilePart, Mapping, ReadFile};

/// The damage of a message whose chunk has a wrong checksum.
pub(super) const WRONG_CHECKSUM: &str = "the chunk's checksum does not match";
/// The damage of a message whose chunk does not begin where it should.
pub(super) const NO_CHUNK: &str = "the time index names a chunk that is not there";
/// The damage of a message that is not the one that its entry tells of.
const OTHER_MESSAGE: &str = "the time index tells of another message than the one that is there";

/// The start of a chunk that is not compressed.
pub(super) struct PlainChunk {
    /// CRC-32 of the records; 0 for none.
    pub crc: u32,
    pub records_bytes: u64,
}

impl PlainChunk {
    /// `None` if it is anything else.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = ChunkHeader::parse(bytes)?;
        let is_plain = header.compression == Compression::None;
        is_plain.then_some(Self { crc: header.crc, records_bytes: header.records_bytes })
    }

    /// Where the records of the chunk at `place` are; `None` if no file can be that long.
    pub fn records_at(&self, place: u64) -> Option<Range<u64>> {
        let start = place.checked_add(CHUNK_HEADER_BYTES as u64)?;
        let end = start.checked_add(self.records_bytes)?;
        (end <= i64::MAX as u64).then_some(start..end)
    }
}

/// One of a topic's files of messages.
pub(super) struct Brick {
    pub path: PathBuf,
    pub file: Arc<dyn ReadFile>,
    /// Channel of the topic that is read from it.
    channel_id: u16,
    mapped: Mutex<Mapped>,
}

/// A brick as memory.
#[derive(Default)]
enum Mapped {
    /// Not checked yet.
    #[default]
    NotYet,
    /// Mapped to the brick's length at that time; it may have grown.
    Until(Arc<Mapping>),
    /// It cannot be.
    Never,
}

impl Brick {
    pub fn new(path: PathBuf, file: Arc<dyn ReadFile>, channel_id: u16) -> Self {
        Self { path, file, channel_id, mapped: Mutex::default() }
    }

    fn io(&self) -> impl Fn(std::io::Error) -> ContainerError + '_ {
        |source| ContainerError::Io { path: self.path.clone(), source }
    }

    /// Whether it has this length now. A page that has been fetched is zeros behind the end of the file.
    pub fn has(&self, bytes: u64) -> bool {
        self.file.length().is_ok_and(|length| length >= bytes)
    }

    /// Whether it is long enough for the message of an entry that is not compressed.
    ///
    /// # Errors
    /// If it is not, or does not tell.
    pub fn reaches(&self, entry: &IndexEntry) -> Result<(), ContainerError> {
        match self.file.length().map_err(self.io())? {
            length if length < end_of(entry) => Err(brick_ends(&self.path, entry)),
            _ => Ok(()),
        }
    }

    /// Checks that a message's header tells of the same message as its entry: an index may be another recording's.
    ///
    /// # Errors
    /// If it does not.
    pub fn agrees(&self, header: &[u8], entry: &IndexEntry) -> Result<(), ContainerError> {
        let header = MessageHeader::parse(header);
        match header.is_some_and(|header| says_the_same(&header, entry, self.channel_id)) {
            true => Ok(()),
            false => Err(self.damaged(entry, OTHER_MESSAGE)),
        }
    }

    /// Fills `out` with a message that is not compressed, from its byte `skip` on.
    ///
    /// # Errors
    /// If the brick ends before, or cannot be read.
    pub fn read(
        &self,
        entry: &IndexEntry,
        skip: u64,
        out: &mut [u8],
    ) -> Result<(), ContainerError> {
        match self.file.read_at(out, entry.offset + skip).map_err(self.io())? {
            count if count == out.len() => Ok(()),
            _ => Err(brick_ends(&self.path, entry)),
        }
    }

    /// The same for a whole large message, checked against its chunk's checksum if it has one.
    ///
    /// # Errors
    /// If the brick ends before, cannot be read, or the message is damaged.
    pub fn read_checked(&self, entry: &IndexEntry, room: &mut [u8]) -> Result<(), ContainerError> {
        let (chunk, place, head) = self.chunk_of(entry)?;
        self.read(entry, 0, room)?;
        if chunk.crc == 0 {
            return Ok(());
        }
        // It is alone in its chunk, except in chunks written by other programs.
        if chunk.records_bytes != entry.inner_end() || entry.inner != 0 {
            return self.check_records(entry, &chunk, place);
        }
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head);
        crc.update(room);
        match crc.finalize() == chunk.crc {
            true => Ok(()),
            false => Err(self.damaged(entry, WRONG_CHECKSUM)),
        }
    }

    /// Whether an unread message is as recorded, if its chunk has a checksum.
    ///
    /// # Errors
    /// If it is not, or cannot be read.
    pub fn check(&self, entry: &IndexEntry) -> Result<(), ContainerError> {
        let (chunk, place, _) = self.chunk_of(entry)?;
        match chunk.crc {
            0 => Ok(()),
            _ => self.check_records(entry, &chunk, place),
        }
    }

    fn check_records(
        &self,
        entry: &IndexEntry,
        chunk: &PlainChunk,
        place: u64,
    ) -> Result<(), ContainerError> {
        let records = chunk.records_at(place).ok_or_else(|| self.damaged(entry, NO_CHUNK))?;
        match self.damage_of(entry, chunk, records)? {
            None => Ok(()),
            Some(what) => Err(self.damaged(entry, what)),
        }
    }

    /// The chunk of a message that is not compressed: its start, where that is, and the message's header.
    ///
    /// # Errors
    /// If it is another message, or cannot be read.
    pub fn chunk_of(
        &self,
        entry: &IndexEntry,
    ) -> Result<(PlainChunk, u64, [u8; MESSAGE_HEADER_BYTES]), ContainerError> {
        let place = entry.checked_chunk_offset();
        let place = place.ok_or_else(|| self.damaged(entry, NO_CHUNK))?;
        let mut start = [0; CHUNK_HEADER_BYTES + MESSAGE_HEADER_BYTES];
        if self.file.read_at(&mut start, place).map_err(self.io())? < start.len() {
            return Err(brick_ends(&self.path, entry));
        }
        let chunk = PlainChunk::parse(&start).ok_or_else(|| self.damaged(entry, NO_CHUNK))?;
        let mut head = [0; MESSAGE_HEADER_BYTES];
        head.copy_from_slice(&start[CHUNK_HEADER_BYTES..]);
        if entry.inner != 0 {
            let at = entry.offset - MESSAGE_HEADER_BYTES as u64;
            if self.file.read_at(&mut head, at).map_err(self.io())? < head.len() {
                return Err(brick_ends(&self.path, entry));
            }
        }
        self.agrees(&head, entry)?;
        Ok((chunk, place, head))
    }

    /// The damage of a chunk's records, which are read a window at a time.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn damage_of(
        &self,
        entry: &IndexEntry,
        chunk: &PlainChunk,
        records: Range<u64>,
    ) -> Result<Option<&'static str>, ContainerError> {
        let mut window = vec![0; READ_WINDOW_BYTES.min((records.end - records.start) as usize)];
        let mut crc = crc32fast::Hasher::new();
        let mut at = records.start;
        while at < records.end {
            let bytes = window.len().min((records.end - at) as usize);
            let read = self.file.read_at(&mut window[..bytes], at).map_err(self.io())?;
            if read < bytes {
                return Err(brick_ends(&self.path, entry));
            }
            crc.update(&window[..bytes]);
            at += bytes as u64;
        }
        Ok((crc.finalize() != chunk.crc).then_some(WRONG_CHECKSUM))
    }

    pub fn damaged(&self, entry: &IndexEntry, what: &'static str) -> ContainerError {
        ContainerError::Damaged { path: self.path.clone(), offset: entry.offset, what }
    }

    /// A mapping that has a message that is not compressed. `None` if it must be read.
    ///
    /// # Errors
    /// If the brick ends before.
    pub fn mapping(&self, entry: &IndexEntry) -> Result<Option<Arc<Mapping>>, ContainerError> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        match &*mapped {
            Mapped::Until(known) if known.bytes() >= end_of(entry) => {
                return Ok(Some(known.clone()));
            }
            Mapped::Never => return Ok(None),
            Mapped::Until(_) | Mapped::NotYet => {}
        }
        // Before mapping: after the file's end there is nothing to read.
        let length = self.file.length().map_err(self.io())?;
        if length < end_of(entry) {
            return Err(brick_ends(&self.path, entry));
        }
        let mapping = self.file.map(length).ok().flatten().map(Arc::new);
        *mapped = mapping.clone().map_or(Mapped::Never, Mapped::Until);
        Ok(mapping)
    }
}

/// A message that is not compressed, in place. `None` if it must be read.
pub(super) fn part(mapping: &Arc<Mapping>, entry: &IndexEntry, purpose: Use) -> Option<FilePart> {
    let (offset, bytes) = (entry.offset, entry.data_bytes as usize);
    let part = match purpose {
        Use::Look => mapping.part(offset, bytes),
        Use::HandOn => mapping.reference(offset, bytes),
    };
    // If it cannot be fetched, it is read, which gives the error.
    part.unwrap_or_default()
}

/// The use of a part of a brick.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// The program reads it.
    Look,
    /// Only the kernel reads it, in a system call.
    HandOn,
}

/// File offset behind a message that is not compressed.
pub(super) fn end_of(entry: &IndexEntry) -> u64 {
    entry.offset.saturating_add(u64::from(entry.data_bytes))
}

pub(super) fn brick_ends(path: &Path, entry: &IndexEntry) -> ContainerError {
    ContainerError::Damaged {
        path: path.to_owned(),
        offset: entry.offset,
        what: "the brick ends before a message that its index promises",
    }
}
