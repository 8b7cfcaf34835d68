//! Any range of a virtual file.

use std::sync::Arc;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{chunk_header, message_header, padding_header, put_message_index};

use super::{Chunk, ENTRIES_AT_ONCE, Kind, Segment, Source, VirtualFile, VirtualFileError};
use crate::limits::READ_STRAIGHT_BYTES_MIN;
use crate::query::answer::record_bytes;
use crate::query::brick::brick_ends;
use crate::query::unpack::Unpacked;
use crate::query::{BagError, Buffer};

impl VirtualFile {
    /// Appends up to `count` bytes of the file from `offset` on; fewer only at its end.
    ///
    /// # Errors
    /// If the recording cannot be read, or that part of it has been removed.
    pub fn read(
        &self,
        offset: u64,
        count: usize,
        out: &mut Buffer,
    ) -> Result<(), VirtualFileError> {
        let at = self.pieces.partition_point(|piece| piece.offset <= offset).saturating_sub(1);
        let mut view = View { skip: 0, left: count, out, window: Window::default() };
        for (nth, piece) in self.pieces.iter().enumerate().skip(at) {
            if view.left == 0 {
                break;
            }
            view.skip = offset.saturating_sub(piece.offset);
            match &piece.kind {
                Kind::Bytes(bytes) => view.put(bytes),
                Kind::Jump => view.put(&padding_header(self.jump_bytes(nth))),
                Kind::Summary(channels) => view.put(&self.summary_at(nth, *channels)),
                Kind::Chunk(chunk) => {
                    view.chunk(chunk, &self.sources[chunk.source as usize])?;
                }
            }
        }
        Ok(())
    }

    /// What the jump that is piece `at` spans: itself, and its summary unless that ends the file.
    fn jump_bytes(&self, at: usize) -> u64 {
        let end = match self.pieces.get(at + 2) {
            Some(after) => after.offset,
            None => self.pieces[at + 1].offset,
        };
        end - self.pieces[at].offset
    }

    fn summary_at(&self, at: usize, channels: usize) -> Arc<[u8]> {
        match self.kept.iter().find(|(kept, _)| *kept == at) {
            Some((_, bytes)) => bytes.clone(),
            None => self.summary(at, self.pieces[at].offset, channels).into(),
        }
    }
}

/// The part that is wanted of what is laid out.
struct View<'a> {
    /// Bytes that lie before it.
    skip: u64,
    /// Bytes wanted.
    left: usize,
    out: &'a mut Buffer,
    window: Window,
}

/// Bytes of a brick that were read for the small messages in them.
#[derive(Default)]
struct Window {
    brick: Option<u16>,
    start: u64,
    bytes: Vec<u8>,
    unpacked: Unpacked,
}

impl View<'_> {
    /// Of `bytes` what is wanted: where it begins, and how long it is.
    fn clip(&mut self, bytes: u64) -> Option<(u64, usize)> {
        if self.skip >= bytes {
            self.skip -= bytes;
            return None;
        }
        let start = std::mem::take(&mut self.skip);
        let count = (bytes - start).min(self.left as u64) as usize;
        self.left -= count;
        (count > 0).then_some((start, count))
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some((start, count)) = self.clip(bytes.len() as u64) {
            self.out.put(&bytes[start as usize..][..count]);
        }
    }

    fn chunk(&mut self, chunk: &Chunk, source: &Source) -> Result<(), VirtualFileError> {
        if self.skip >= chunk.total_bytes() {
            self.skip -= chunk.total_bytes();
            return Ok(());
        }
        let Some(segment) = &source.segment else { return Err(VirtualFileError::Gone) };
        self.window.brick = None;
        self.window.unpacked = Unpacked::default();
        self.put(&chunk_header(chunk.start_nanos, chunk.end_nanos, chunk.records_bytes, 0));
        let mut times = Vec::with_capacity(chunk.count as usize);
        let mut entries = Vec::new();
        let (mut number, end) = (chunk.first, chunk.first + u64::from(chunk.count));
        let mut inner = 0;
        while number < end {
            number += segment.index.entries(number..end, ENTRIES_AT_ONCE, &mut entries)?;
            for entry in &entries {
                times.push((entry.log_time_nanos, inner));
                inner += record_bytes(entry.data_bytes);
                if self.left > 0 {
                    self.message(source.channel_id, entry, segment)?;
                }
            }
        }
        if inner != chunk.records_bytes || times.len() != chunk.count as usize {
            // It was whole when the file was laid out.
            return Err(BagError::Damaged {
                path: segment.index.path().to_owned(),
                offset: chunk.first,
                what: "entries have changed since the file was laid out",
            }
            .into());
        }
        if self.left > 0 {
            let mut index = Vec::new();
            put_message_index(&mut index, source.channel_id, times.into_iter());
            self.put(&index);
        }
        Ok(())
    }

    fn message(
        &mut self,
        channel_id: u16,
        entry: &IndexEntry,
        segment: &Segment,
    ) -> Result<(), VirtualFileError> {
        self.put(&message_header(
            channel_id,
            entry.sequence,
            entry.log_time_nanos,
            entry.publish_time_nanos,
            u64::from(entry.data_bytes),
        ));
        let Some((start, count)) = self.clip(u64::from(entry.data_bytes)) else { return Ok(()) };
        if entry.compressed {
            let data = segment.unpack(entry, &mut self.window.unpacked)?;
            self.out.put(&data[start as usize..][..count]);
        } else if entry.data_bytes as usize >= READ_STRAIGHT_BYTES_MIN {
            segment.read_at(entry, start, self.out.room(count))?;
        } else {
            let data = self.window.message(entry, segment)?;
            self.out.put(&data[start as usize..][..count]);
        }
        Ok(())
    }
}

impl Window {
    fn message(&mut self, entry: &IndexEntry, segment: &Segment) -> Result<&[u8], BagError> {
        let bytes = entry.data_bytes as usize;
        let is_inside = self.brick == Some(entry.brick)
            && entry.offset >= self.start
            && entry.offset + bytes as u64 <= self.start + self.bytes.len() as u64;
        if !is_inside {
            let brick = segment.brick(entry)?;
            self.bytes.resize(READ_STRAIGHT_BYTES_MIN, 0);
            let read = brick.file.read_at(&mut self.bytes, entry.offset);
            let path = &brick.path;
            let read = read.map_err(|source| BagError::Io { path: path.clone(), source })?;
            self.bytes.truncate(read);
            (self.brick, self.start) = (Some(entry.brick), entry.offset);
            if read < bytes {
                return Err(brick_ends(path, entry));
            }
        }
        Ok(&self.bytes[(entry.offset - self.start) as usize..][..bytes])
    }
}
