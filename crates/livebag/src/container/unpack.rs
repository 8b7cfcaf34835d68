//! Messages of compressed chunks.

use std::io;

use livebag_format::index::IndexEntry;
use livebag_format::mcap::{CHUNK_HEADER_BYTES_MAX, ChunkHeader, MESSAGE_HEADER_BYTES};

use crate::storage::ReadFile;

/// Why a chunk cannot be read.
#[derive(Debug)]
pub(crate) enum UnpackError {
    Io(io::Error),
    /// Description of the damage.
    Damaged(&'static str),
}

impl From<io::Error> for UnpackError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The records of the chunk that was read last: a chunk is read and decompressed whole, once for
/// all of its messages.
#[derive(Default)]
pub(crate) struct Unpacked {
    /// Brick and place.
    at: Option<(u16, u64)>,
    records: Vec<u8>,
    /// The damage, remembered so that it is not checked again for each message.
    damage: Option<&'static str>,
}

impl Unpacked {
    /// Records of the chunk at `offset`.
    ///
    /// # Errors
    /// If it cannot be read, is truncated, or its checksum is wrong.
    pub fn records(
        &mut self,
        file: &dyn ReadFile,
        brick: u16,
        offset: u64,
    ) -> Result<&[u8], UnpackError> {
        if self.at != Some((brick, offset)) {
            (self.at, self.damage) = (None, None);
            // Two chunks at once would be twice the memory.
            self.records = Vec::new();
            match read_records(file, offset) {
                Ok(records) => self.records = records,
                Err(UnpackError::Damaged(what)) => self.damage = Some(what),
                Err(error) => return Err(error),
            }
            self.at = Some((brick, offset));
        }
        match self.damage {
            None => Ok(&self.records),
            Some(what) => Err(UnpackError::Damaged(what)),
        }
    }

    /// The record of a message: its header and its data.
    ///
    /// # Errors
    /// As [`Unpacked::records`]; also if the chunk is shorter than the entry says.
    pub fn message(
        &mut self,
        file: &dyn ReadFile,
        entry: &IndexEntry,
    ) -> Result<(&[u8], &[u8]), UnpackError> {
        let offset = entry.checked_chunk_offset();
        let offset = offset.ok_or(UnpackError::Damaged("the entry points before any chunk"))?;
        let records = self.records(file, entry.brick, offset)?;
        let record = records.get(entry.inner as usize..entry.inner_end() as usize);
        let record =
            record.ok_or(UnpackError::Damaged("the chunk is shorter than its index says"))?;
        Ok(record.split_at(MESSAGE_HEADER_BYTES))
    }
}

fn read_records(file: &dyn ReadFile, offset: u64) -> Result<Vec<u8>, UnpackError> {
    let mut head = [0; CHUNK_HEADER_BYTES_MAX];
    let count = file.read_at(&mut head, offset)?;
    let header = ChunkHeader::parse(&head[..count])
        .ok_or(UnpackError::Damaged("the time index names a chunk that is not there"))?;
    let end = (header.header_bytes() as u64)
        .checked_add(header.stored_bytes)
        .and_then(|bytes| offset.checked_add(bytes))
        .unwrap_or(u64::MAX);
    if end > file.length()? {
        return Err(UnpackError::Damaged("the brick ends inside a chunk"));
    }
    let mut chunk = vec![0; (end - offset) as usize];
    file.read_at(&mut chunk, offset)?;
    let records = header.records(&chunk);
    let records = records.map_err(|_| UnpackError::Damaged("the chunk does not unpack"))?;
    if header.crc != 0 && crc32fast::hash(&records) != header.crc {
        return Err(UnpackError::Damaged("the chunk's checksum does not match"));
    }
    Ok(records.into_owned())
}
