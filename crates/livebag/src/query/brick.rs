//! A brick, open for reading.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use livebag_format::index::IndexEntry;

use super::BagError;
use crate::storage::{DiskFile, FilePart, Mapping};

/// One of a topic's files of messages.
pub(super) struct Brick {
    pub path: PathBuf,
    pub file: Arc<dyn DiskFile>,
    mapped: Mutex<Mapped>,
}

/// A brick as memory.
#[derive(Default)]
enum Mapped {
    /// Nobody has asked.
    #[default]
    NotYet,
    /// As long as the brick was then; it may have grown.
    Until(Arc<Mapping>),
    /// It cannot be.
    Never,
}

impl Brick {
    pub fn new(path: PathBuf, file: Arc<dyn DiskFile>) -> Self {
        Self { path, file, mapped: Mutex::default() }
    }

    fn io(&self) -> impl Fn(std::io::Error) -> BagError + '_ {
        |source| BagError::Io { path: self.path.clone(), source }
    }

    /// Whether it is so long now. A page that has been fetched is zeros behind the end of the file.
    pub fn has(&self, bytes: u64) -> bool {
        self.file.length().is_ok_and(|length| length >= bytes)
    }

    /// Whether it is long enough for the message of an entry that is not compressed.
    ///
    /// # Errors
    /// If it is not, or does not tell.
    pub fn reaches(&self, entry: &IndexEntry) -> Result<(), BagError> {
        match self.file.length().map_err(self.io())? {
            length if length < end_of(entry) => Err(brick_ends(&self.path, entry)),
            _ => Ok(()),
        }
    }

    /// Fills `out` with a message that is not compressed, from its byte `skip` on.
    ///
    /// # Errors
    /// If the brick ends before, or cannot be read.
    pub fn read(&self, entry: &IndexEntry, skip: u64, out: &mut [u8]) -> Result<(), BagError> {
        match self.file.read_at(out, entry.offset + skip).map_err(self.io())? {
            count if count == out.len() => Ok(()),
            _ => Err(brick_ends(&self.path, entry)),
        }
    }

    /// A mapping that has a message that is not compressed. `None` if it must be read.
    ///
    /// # Errors
    /// If the brick ends before.
    pub fn mapping(&self, entry: &IndexEntry) -> Result<Option<Arc<Mapping>>, BagError> {
        let mut mapped = self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        match &*mapped {
            Mapped::Until(known) if known.bytes() >= end_of(entry) => {
                return Ok(Some(known.clone()));
            }
            Mapped::Never => return Ok(None),
            Mapped::Until(_) | Mapped::NotYet => {}
        }
        // Before it is mapped: behind the file's end there is nothing to look at.
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
    // What cannot be fetched is read: that tells what is the matter.
    part.unwrap_or_default()
}

/// What is done with a part of a brick.
#[derive(Clone, Copy)]
pub(super) enum Use {
    /// Somebody looks at it.
    Look,
    /// The kernel gets it, and nobody else looks.
    HandOn,
}

/// File offset behind a message that is not compressed.
fn end_of(entry: &IndexEntry) -> u64 {
    entry.offset.saturating_add(u64::from(entry.data_bytes))
}

pub(super) fn brick_ends(path: &Path, entry: &IndexEntry) -> BagError {
    BagError::Damaged {
        path: path.to_owned(),
        offset: entry.offset,
        what: "the brick ends before a message that its index promises",
    }
}
