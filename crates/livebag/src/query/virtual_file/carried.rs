//! What a recording carries along beside its messages, in a virtual file: attachments, of which the file
//! that they lie in keeps the data, metadata records, and events.

use std::io;
use std::sync::Arc;

use livebag_format::container::MetadataEntry;
use livebag_format::event::{EVENT_RECORD, Event};
use livebag_format::mcap::{
    AttachmentHead, MAGIC, RECORD_HEADER_BYTES, RecordHeader, opcode, put_metadata,
};

use super::{Container, ContainerError, VirtualFileError};
use crate::container::events;
use crate::limits::VIRTUAL_CARRIED_BYTES_MAX;
use crate::storage::ReadFile;

/// Heads are read in this much, and again in full where a name is longer.
const HEAD_BYTES: usize = 1 << 10;

/// An attachment's record, as in the container's file.
pub(super) struct Carried {
    pub file: Arc<dyn ReadFile>,
    /// Where in that file.
    pub at: u64,
    pub head: AttachmentHead,
}

/// A metadata record.
pub(super) struct Noted {
    pub name: String,
    pub record: Vec<u8>,
}

/// How much of it a virtual file has.
#[derive(Default)]
pub(super) struct Taken {
    metadata: Vec<MetadataEntry>,
    /// Where in the attachments' file to go on.
    at: u64,
    /// Memory that it takes, about.
    pub bytes: usize,
}

impl Taken {
    /// What to go back to if a file cannot be extended.
    pub fn mark(&self) -> (usize, u64, usize) {
        (self.metadata.len(), self.at, self.bytes)
    }

    pub fn back_to(&mut self, (metadata, at, bytes): (usize, u64, usize)) {
        self.metadata.truncate(metadata);
        (self.at, self.bytes) = (at, bytes);
    }

    /// The metadata records of `container` that have not been taken.
    pub fn metadata(&mut self, container: &Container) -> Result<Vec<Noted>, VirtualFileError> {
        self.note(container.metadata())
    }

    /// Its events that have not been taken, as records.
    pub fn events(&mut self, container: &Container) -> Result<Vec<Noted>, VirtualFileError> {
        let Some(file) = &container.events else { return Ok(Vec::new()) };
        let events = events::read_file(&**file, container.path())?.events;
        let record = |event: &Event| MetadataEntry {
            name: EVENT_RECORD.to_owned(),
            values: event.to_values(),
        };
        self.note(&events.iter().map(record).collect::<Vec<_>>())
    }

    /// Those of `entries` that have not been taken.
    fn note(&mut self, entries: &[MetadataEntry]) -> Result<Vec<Noted>, VirtualFileError> {
        // A record may be there twice.
        let mut left: Vec<&MetadataEntry> = self.metadata.iter().collect();
        let mut new = Vec::new();
        for entry in entries {
            match left.iter().position(|known| *known == entry) {
                Some(at) => drop(left.swap_remove(at)),
                None => new.push(entry.clone()),
            }
        }
        let mut noted = Vec::new();
        for entry in new {
            let mut record = Vec::new();
            put_metadata(&mut record, &entry.name, &entry.values);
            // Once as bytes, once parsed.
            self.count(2 * record.len())?;
            noted.push(Noted { name: entry.name.clone(), record });
            self.metadata.push(entry);
        }
        Ok(noted)
    }

    /// The attachments of `container` that have not been taken and are whole; those that are being written
    /// are not yet.
    pub fn attachments(&mut self, container: &Container) -> Result<Vec<Carried>, VirtualFileError> {
        let Some(file) = &container.attachments else { return Ok(Vec::new()) };
        let path = container.attachments_path().unwrap_or_default();
        let in_file = |source| ContainerError::Io { path: path.clone(), source };
        let length = file.length().map_err(in_file)?;
        if self.at == 0 {
            let mut magic = [0; MAGIC.len()];
            let count = file.read_at(&mut magic, 0).map_err(in_file)?;
            if count < magic.len() || magic != MAGIC {
                return Ok(Vec::new());
            }
            self.at = MAGIC.len() as u64;
        }
        let mut carried = Vec::new();
        let mut bytes = Vec::new();
        loop {
            read_head(&**file, self.at, HEAD_BYTES, &mut bytes).map_err(in_file)?;
            let Some(record) = RecordHeader::parse(&bytes) else { break };
            let end = record.total_bytes().and_then(|total| self.at.checked_add(total));
            let Some(end) = end.filter(|end| *end <= length) else { break };
            match record.opcode {
                opcode::DATA_END => break,
                opcode::ATTACHMENT => {
                    let mut head = AttachmentHead::parse(&bytes);
                    if head.is_err() && bytes.len() == HEAD_BYTES {
                        read_head(&**file, self.at, AttachmentHead::BYTES_MAX, &mut bytes)
                            .map_err(in_file)?;
                        head = AttachmentHead::parse(&bytes);
                    }
                    // `verify` tells of one that makes no sense.
                    if let Ok(head) = head {
                        let texts = head.name.len() + head.media_type.len();
                        self.count(size_of::<Carried>() + texts)?;
                        carried.push(Carried { file: file.clone(), at: self.at, head });
                    }
                }
                _ => {}
            }
            debug_assert!(end >= self.at + RECORD_HEADER_BYTES as u64);
            self.at = end;
        }
        Ok(carried)
    }

    fn count(&mut self, bytes: usize) -> Result<(), VirtualFileError> {
        self.bytes += bytes;
        match self.bytes {
            0..=VIRTUAL_CARRIED_BYTES_MAX => Ok(()),
            _ => Err(VirtualFileError::TooMuchCarried),
        }
    }
}

fn read_head(file: &dyn ReadFile, at: u64, bytes: usize, out: &mut Vec<u8>) -> io::Result<()> {
    out.resize(bytes, 0);
    let count = file.read_at(out, at)?;
    out.truncate(count);
    Ok(())
}
