//! A topic of a container, and its part of one split.

use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::container::Losses;
use livebag_format::index::IndexEntry;

use super::ContainerError;
use super::brick::{Brick, NO_CHUNK};
use super::index::IndexReader;
use crate::container::unpack::{UnpackError, Unpacked};

/// An index that was tampered with may promise messages of 4 GiB: from this length on its brick is
/// asked first, which costs a system call.
const LARGE_MESSAGE_BYTES: usize = 1 << 20;

/// The warning that messages cannot be reached, if any cannot.
pub fn warning_of_missing(count: u64) -> Option<String> {
    let messages = if count == 1 { "1 message was" } else { &format!("{count} messages were") };
    (count > 0).then(|| {
        format!(
            "{messages} recorded and cannot be reached: `livebag verify` names the files that are gone or cut"
        )
    })
}

/// A topic's part of one split.
pub(super) struct Segment {
    pub index: IndexReader,
    pub bricks: Vec<Brick>,
    pub message_bytes: u64,
    /// Messages according to the manifest of a split that has ended.
    pub promised: u64,
    /// Losses according to the split's manifest.
    pub lost: Losses,
}

impl Segment {
    pub fn time_range(&self) -> Result<Option<(u64, u64)>, ContainerError> {
        let count = self.index.count()?;
        let first = self.index.first_whole(0..count)?;
        let last = self.index.last_whole(0..count)?;
        Ok(first
            .zip(last)
            .map(|((_, first), (_, last))| (first.log_time_nanos, last.log_time_nanos)))
    }

    /// Numbers of the entries from one log time to another, both included.
    pub fn between(&self, from: u64, to: u64) -> Result<std::ops::Range<u64>, ContainerError> {
        let count = self.index.count()?;
        let first = self.index.lower_bound(count, from)?;
        let end = match to.checked_add(1) {
            Some(after) => self.index.lower_bound(count, after)?.max(first),
            None => count,
        };
        Ok(first..end)
    }

    /// Where the message of an entry is.
    pub fn brick(&self, entry: &IndexEntry) -> Result<&Brick, ContainerError> {
        self.bricks.get(usize::from(entry.brick)).ok_or_else(|| ContainerError::Damaged {
            path: self.index.path().to_owned(),
            offset: entry.offset,
            what: "the time index names a brick that the container does not have",
        })
    }

    /// Where the chunk of a message is in its brick.
    pub fn chunk(&self, entry: &IndexEntry) -> Result<u64, ContainerError> {
        let place = entry.checked_chunk_offset();
        place.ok_or_else(|| ContainerError::Damaged {
            path: self.index.path().to_owned(),
            offset: entry.offset,
            what: NO_CHUNK,
        })
    }

    /// Before memory is taken for a large message: whether its brick is that long.
    pub fn holds(&self, entry: &IndexEntry) -> Result<(), ContainerError> {
        // In a compressed chunk an offset is not a place in the file, and the chunk bounds the memory.
        if entry.compressed || (entry.data_bytes as usize) < LARGE_MESSAGE_BYTES {
            return Ok(());
        }
        self.brick(entry)?.reaches(entry)
    }

    /// Fills `out` with a message that is not compressed, from its byte `skip` on.
    pub fn read_at(
        &self,
        entry: &IndexEntry,
        skip: u64,
        out: &mut [u8],
    ) -> Result<(), ContainerError> {
        self.brick(entry)?.read(entry, skip, out)
    }

    /// A message of a chunk that is read, checked and decompressed whole.
    pub fn unpack<'a>(
        &self,
        entry: &IndexEntry,
        unpacked: &'a mut Unpacked,
    ) -> Result<&'a [u8], ContainerError> {
        let brick = self.brick(entry)?;
        let read = unpacked.message(&*brick.file, entry);
        let (header, data) = read.map_err(|error| match error {
            UnpackError::Io(source) => ContainerError::Io { path: brick.path.clone(), source },
            UnpackError::Damaged(what) => brick.damaged(entry, what),
        })?;
        brick.agrees(header, entry)?;
        Ok(data)
    }
}

/// One topic of a container.
pub struct ContainerTopic {
    pub(super) topic: Topic,
    /// In order of time. A topic without a message has none.
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) brick_names: Vec<String>,
    pub(super) lost: Losses,
    pub(super) skipped: u64,
    pub(super) repeated: u64,
    pub(super) damaged: u64,
    pub(super) writer_returns: u64,
    /// Of segments whose files are gone.
    pub(super) missing: u64,
}

impl ContainerTopic {
    /// Name, type, encodings, schema, metadata.
    pub fn topic(&self) -> &Topic {
        &self.topic
    }

    /// Hints that its indexes will be read soon.
    pub(super) fn will_be_read(&self) {
        self.segments.iter().for_each(|segment| segment.index.will_be_read());
    }

    /// Messages readable now.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn message_count(&self) -> Result<u64, ContainerError> {
        self.segments.iter().map(|segment| segment.index.count()).sum()
    }

    /// First and last log time; `None` without messages.
    ///
    /// # Errors
    /// If the index cannot be read or is damaged.
    pub fn time_range(&self) -> Result<Option<(u64, u64)>, ContainerError> {
        let mut range = None;
        for segment in &self.segments {
            if let Some((first, last)) = segment.time_range()? {
                let (start, end) = range.unwrap_or((first, last));
                range = Some((first.min(start), last.max(end)));
            }
        }
        Ok(range)
    }

    /// Messages lost, by cause, as last written by the recorder.
    pub fn lost(&self) -> &Losses {
        &self.lost
    }

    /// Bytes of encoded messages; of a live container as last written by the recorder.
    pub fn message_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.message_bytes).sum()
    }

    /// Messages left out on purpose: while paused, or more often than asked for.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// How often its writer died and came back.
    pub fn writer_returns(&self) -> u64 {
        self.writer_returns
    }

    /// Messages that were recorded and cannot be reached, because the topic's files are gone or cut: `livebag recover`
    /// rebuilds a time index from its brick. Files that retention removes from a live container are not counted here.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn missing(&self) -> Result<u64, ContainerError> {
        let mut missing = self.missing;
        for segment in &self.segments {
            missing += segment.promised.saturating_sub(segment.index.count()?);
        }
        Ok(missing)
    }

    /// File names of its bricks, relative to the container's directory.
    pub fn bricks(&self) -> &[String] {
        &self.brick_names
    }
}
