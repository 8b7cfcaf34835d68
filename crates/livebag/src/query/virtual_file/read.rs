//! Any range of a virtual file.

use std::path::PathBuf;
use std::sync::Arc;

use livebag_format::container::ATTACHMENTS_FILE;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, MESSAGE_INDEX_ENTRY_BYTES, chunk_header, message_header, padding_header,
    put_message_index,
};

use super::{
    Carried, Chunk, ENTRIES_AT_ONCE, Kind, Segment, Source, VirtualFile, VirtualFileError,
};
use crate::container::unpack::Unpacked;
use crate::limits::READ_STRAIGHT_BYTES_MIN;
use crate::query::answer::record_bytes;
use crate::query::{Buffer, ContainerError};

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
        let mut view = View { skip: 0, left: count, out, unpacked: Unpacked::default() };
        for (nth, piece) in self.pieces.iter().enumerate().skip(at) {
            if view.left == 0 {
                break;
            }
            view.skip = offset.saturating_sub(piece.offset);
            match &piece.kind {
                Kind::Bytes(bytes) => view.put(bytes),
                Kind::Metadata(noted) => view.put(&noted.record),
                Kind::Attachment(carried) => view.attachment(carried)?,
                Kind::Jump => view.put(&padding_header(self.jump_bytes(nth))),
                Kind::Summary(channels) => view.put(&self.summary_at(nth, *channels)),
                Kind::Chunk(chunk) => {
                    view.chunk(chunk, &self.sources[chunk.source as usize])?;
                }
            }
        }
        Ok(())
    }

    /// The bytes that the jump at piece `at` spans: itself, and its summary unless that ends the file.
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

/// The requested part of the laid-out bytes.
struct View<'a> {
    /// Bytes that lie before it.
    skip: u64,
    /// Bytes wanted.
    left: usize,
    out: &'a mut Buffer,
    /// The chunk that small messages are taken from, checked.
    unpacked: Unpacked,
}

impl View<'_> {
    /// The requested part of `bytes`: its start and length.
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

    fn attachment(&mut self, carried: &Carried) -> Result<(), VirtualFileError> {
        let Some((start, count)) = self.clip(carried.head.record_bytes) else { return Ok(()) };
        let room = self.out.room(count);
        let path = || PathBuf::from(ATTACHMENTS_FILE);
        let read = carried.file.read_at(room, carried.at + start);
        let read = read.map_err(|source| ContainerError::Io { path: path(), source })?;
        if read < count {
            let what = "it was cut after the file was laid out";
            let offset = carried.at + start + read as u64;
            return Err(ContainerError::Damaged { path: path(), offset, what }.into());
        }
        Ok(())
    }

    fn chunk(&mut self, chunk: &Chunk, source: &Source) -> Result<(), VirtualFileError> {
        if self.skip >= chunk.total_bytes() {
            self.skip -= chunk.total_bytes();
            return Ok(());
        }
        let Some(segment) = &source.segment else { return Err(VirtualFileError::Gone) };
        self.unpacked = Unpacked::default();
        let index_at = CHUNK_HEADER_BYTES as u64 + chunk.records_bytes;
        let wants_index = self.skip + self.left as u64 > index_at;
        self.put(&chunk_header(chunk.start_nanos, chunk.end_nanos, chunk.records_bytes, 0));
        let mut times = Vec::with_capacity(chunk.count as usize);
        let mut entries = Vec::new();
        let (mut number, end) = (chunk.first, chunk.first + u64::from(chunk.count));
        let (mut inner, mut count, mut damaged) = (0, 0, 0);
        while number < end {
            number += segment.index.entries(number..end, ENTRIES_AT_ONCE, &mut entries)?;
            for entry in &entries {
                let bytes = record_bytes(entry.data_bytes);
                let is_passed = self.skip >= bytes || self.left == 0;
                if is_passed && !wants_index {
                    self.skip = self.skip.saturating_sub(bytes);
                } else if self.message(source.channel_id, entry, segment)? {
                    times.push((entry.log_time_nanos, inner));
                } else {
                    damaged += 1;
                }
                inner += bytes;
                count += 1;
            }
        }
        if inner != chunk.records_bytes || count != chunk.count {
            // It was whole when the file was laid out.
            return Err(ContainerError::Damaged {
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
            self.padding(damaged * MESSAGE_INDEX_ENTRY_BYTES as u64);
        }
        Ok(())
    }

    /// A message's record, of which nothing may be wanted; false if it is damaged, and padding is in its
    /// place.
    fn message(
        &mut self,
        channel_id: u16,
        entry: &IndexEntry,
        segment: &Segment,
    ) -> Result<bool, VirtualFileError> {
        let header = message_header(
            channel_id,
            entry.sequence,
            entry.log_time_nanos,
            entry.publish_time_nanos,
            u64::from(entry.data_bytes),
        );
        let is_large = !entry.compressed && entry.data_bytes as usize >= READ_STRAIGHT_BYTES_MIN;
        let mut unpacked = std::mem::take(&mut self.unpacked);
        // Only the header of a large one is checked: a part of it may be all that is wanted.
        let data = match is_large {
            true => segment.brick(entry)?.chunk_of(entry).map(|_| None),
            false => segment.unpack(entry, &mut unpacked).map(Some),
        };
        let is_whole = match data {
            Ok(data) => {
                self.put(&header);
                if let Some(data) = data {
                    self.put(data);
                } else if let Some((start, count)) = self.clip(u64::from(entry.data_bytes)) {
                    segment.read_at(entry, start, self.out.room(count))?;
                }
                true
            }
            Err(ContainerError::Damaged { .. }) => {
                self.padding(record_bytes(entry.data_bytes));
                false
            }
            Err(error) => return Err(error.into()),
        };
        self.unpacked = unpacked;
        Ok(is_whole)
    }

    /// A record that readers skip, instead of damaged bytes.
    fn padding(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let header = padding_header(bytes);
        self.put(&header);
        if let Some((_, count)) = self.clip(bytes - header.len() as u64) {
            self.out.room(count).fill(0);
        }
    }
}
