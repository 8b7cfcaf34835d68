//! A brick being written: where the next extent goes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::mcap::{
    ChunkExtent, RECORD_HEADER_BYTES, padding_header, put_definition, put_file_start,
    put_padding_to,
};

use crate::limits::{BLOCK_BYTES, CHUNKS_KEPT_MAX, WRITE_BEHIND_BYTES};
use crate::storage::{Access, Block, Disk, DiskFile};

/// Name and version that every file carries.
pub(crate) const LIBRARY: &str = concat!("livebag ", env!("CARGO_PKG_VERSION"));

pub(super) struct Brick {
    pub file_name: String,
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    pub access: Access,
    /// Where the next extent goes.
    pub tail: u64,
    /// Up to here write-back has been begun.
    written_back: u64,
    /// Topics with messages in it, by their place in the engine's list.
    pub topics: Vec<usize>,
    /// Extents whose write failed: they become padding when the brick is closed.
    pub damaged: Vec<(u64, u64)>,
    /// Its committed chunks, in order of commitment; `None` once they are too many to be kept, or
    /// a failure makes them doubtful: the indexes know them too.
    chunks: Option<Vec<ChunkExtent>>,
}

impl Brick {
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        file_name: String,
        access: Access,
        profile: &str,
        topics: &[(u16, &Topic)],
    ) -> io::Result<Self> {
        let path = directory.join(&file_name);
        let file = disk.create(&path, access)?;
        let mut start = Vec::new();
        put_file_start(&mut start, profile, LIBRARY);
        for (id, topic) in topics {
            put_definition(&mut start, *id, topic);
        }
        let position = start.len() as u64;
        put_padding_to(&mut start, position, BLOCK_BYTES as u64);
        let mut block = Block::zeroed(start.len());
        block.copy_from_slice(&start);
        file.write_at(&block, 0)?;
        let tail = block.len() as u64;
        Ok(Self {
            file_name,
            path,
            file,
            access,
            tail,
            written_back: 0,
            topics: Vec::new(),
            damaged: Vec::new(),
            chunks: Some(Vec::new()),
        })
    }

    /// Adds a topic to a brick that is being written. Its records are there when this returns, before
    /// any message of it is handed to the disk: no crash leaves a message without its channel.
    ///
    /// # Errors
    /// If the disk refuses.
    pub fn announce(&mut self, channel_id: u16, topic: &Topic) -> io::Result<()> {
        let mut records = Vec::new();
        put_definition(&mut records, channel_id, topic);
        let block = match self.access {
            Access::Direct => Block::padded(records),
            Access::Buffered => Block::unaligned(records),
        };
        let offset = self.place(block.len() as u64);
        let written = self.file.write_at(&block, offset);
        if written.is_err() {
            self.damaged.push((offset, block.len() as u64));
        }
        written
    }

    /// Sets an extent of `bytes` aside and gives its place.
    pub fn place(&mut self, bytes: u64) -> u64 {
        let offset = self.tail;
        self.tail += bytes;
        offset
    }

    /// Keeps a committed chunk for the summary.
    pub fn note_chunk(&mut self, chunk: ChunkExtent) {
        match &mut self.chunks {
            Some(chunks) if chunks.len() < CHUNKS_KEPT_MAX => chunks.push(chunk),
            _ => self.chunks = None,
        }
    }

    /// Leaves the summary to the indexes.
    pub fn doubt_chunks(&mut self) {
        self.chunks = None;
    }

    /// The committed chunks in file order, if they are all known.
    pub fn take_chunks(&mut self) -> Option<Vec<ChunkExtent>> {
        let mut chunks = self.chunks.take()?;
        chunks.sort_unstable_by_key(|chunk| chunk.offset);
        Some(chunks)
    }

    /// Starts writing back the page cache: the device then works while recording continues, and the end of the
    /// recording need not wait for it.
    pub fn write_behind(&mut self) {
        let dirty = self.tail - self.written_back;
        if self.access == Access::Buffered && dirty >= WRITE_BEHIND_BYTES {
            self.file.start_write_back(self.written_back, dirty);
            self.written_back = self.tail;
        }
    }

    /// Turns the extents whose write failed into padding, so that the file stays a sequence of
    /// records; drops them if they are the file's end.
    pub fn mend(&mut self, repair: &dyn DiskFile) -> io::Result<()> {
        self.damaged.sort_unstable();
        while let Some(&(offset, bytes)) = self.damaged.last()
            && offset + bytes == self.tail
        {
            self.tail = offset;
            self.damaged.pop();
        }
        for &(offset, bytes) in &self.damaged {
            debug_assert!(bytes >= RECORD_HEADER_BYTES as u64);
            repair.write_at(&padding_header(bytes), offset)?;
        }
        Ok(())
    }
}
