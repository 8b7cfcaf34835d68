//! A brick being written: where the next extent goes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::mcap::{
    RECORD_HEADER_BYTES, padding_header, put_channel, put_file_start, put_padding_to, put_schema,
};

use crate::limits::BLOCK_BYTES;
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
    /// Topics with messages in it, by their place in the engine's list.
    pub topics: Vec<usize>,
    /// Extents whose write failed: they become padding when the brick is closed.
    pub damaged: Vec<(u64, u64)>,
    /// Schema and channel records of topics that joined later, for the next extent.
    announcements: Vec<u8>,
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
            put_schema(&mut start, *id, topic);
            put_channel(&mut start, *id, *id, topic);
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
            topics: Vec::new(),
            damaged: Vec::new(),
            announcements: Vec::new(),
        })
    }

    /// Adds a topic to a brick that is being written.
    pub fn announce(&mut self, channel_id: u16, topic: &Topic) {
        put_schema(&mut self.announcements, channel_id, topic);
        put_channel(&mut self.announcements, channel_id, channel_id, topic);
    }

    /// The records that must precede the next message.
    pub fn take_announcements(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.announcements)
    }

    /// Sets an extent of `bytes` aside and gives its place.
    pub fn place(&mut self, bytes: u64) -> u64 {
        let offset = self.tail;
        self.tail += bytes;
        offset
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
