//! The messages of a damaged database, read from its pages (<https://sqlite.org/fileformat2.html>): those of
//! every leaf of the table `messages` that is there, though the way to it may be lost.
//!
//! A leaf is known by its rows: no other table of rosbag2 has rows of a null (the id), two whole numbers and
//! a blob. An overflow page cannot be mistaken for a leaf: it begins with the number of the next one, and would have to
//! be followed by page 218,103,808 or a later one.

use std::collections::HashSet;
use std::path::Path;

use super::ConvertError;
use super::file::ForeignFile;

const TABLE_INTERIOR: u8 = 5;
const TABLE_LEAF: u8 = 13;
/// Levels that a table of 2^32 pages may have, and more.
const LEVELS_MAX: usize = 64;

/// A database's header, as far as it concerns pages.
struct Head {
    page_bytes: usize,
    /// Bytes of a page that hold content.
    usable: usize,
    /// Pages that the database had.
    promised: u32,
    first_free: u32,
}

impl Head {
    fn read(file: &ForeignFile) -> Result<Self, ConvertError> {
        let head = file.read(0, 100)?;
        let page_bytes = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 65536,
            bytes => usize::from(bytes),
        };
        let usable = page_bytes.saturating_sub(usize::from(head[20]));
        if !page_bytes.is_power_of_two() || page_bytes < 512 || usable < 480 {
            let reason = format!("its header has pages of {page_bytes} bytes, {usable} usable");
            return Err(ConvertError::damaged(file.path(), reason));
        }
        // Programs before SQLite 3.7 did not keep the number.
        let promised = if head[24..28] == head[92..96] { number_at(&head, 28) } else { 0 };
        Ok(Head { page_bytes, usable, promised, first_free: number_at(&head, 32) })
    }
}

/// Whether a database has lost its end. SQLite treats a missing part of the last page as zeros.
pub(super) fn is_cut(path: &Path) -> Result<bool, ConvertError> {
    let file = ForeignFile::open(path)?;
    let head = Head::read(&file)?;
    let page_bytes = head.page_bytes as u64;
    let is_short = file.length_bytes() < u64::from(head.promised) * page_bytes;
    Ok(is_short || !file.length_bytes().is_multiple_of(page_bytes))
}

/// The pages of a database.
pub(super) struct Pages {
    file: ForeignFile,
    head: Head,
    /// Pages that the file has, whole.
    count: u32,
    /// By time and id.
    rows: Vec<Row>,
}

/// A message, and the cell that it begins in.
pub(super) struct Row {
    timestamp: i64,
    id: i64,
    page: u32,
    cell: u16,
}

impl Row {
    /// Time and id.
    pub(super) fn key(&self) -> (i64, i64) {
        (self.timestamp, self.id)
    }
}

/// A row of a table, as far as it is in its leaf.
struct Cell<'a> {
    id: i64,
    payload_bytes: usize,
    local: &'a [u8],
    /// The page on which the row continues.
    overflow: Option<u32>,
}

/// The columns before a message's data.
struct Fields {
    topic_id: i64,
    timestamp: i64,
    /// Where the data begins in the payload.
    data_at: usize,
}

impl Pages {
    /// Scans every page.
    pub(super) fn open(path: &Path) -> Result<Self, ConvertError> {
        let file = ForeignFile::open(path)?;
        let head = Head::read(&file)?;
        let count = file.length_bytes() / head.page_bytes as u64;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut pages = Pages { file, head, count, rows: Vec::new() };
        pages.find_rows();
        Ok(pages)
    }

    /// Every message found, by time and id.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Messages that are gone, at least; rosbag2 numbers them from 1. `root` is the first page of their
    /// table.
    pub(super) fn lost_count(&self, root: u32) -> u64 {
        let found = self.rows.iter().map(|row| row.id).max().unwrap_or(0);
        let (told, is_end_known) = self.last_id(root);
        let last = u64::try_from(found.max(told)).unwrap_or(0);
        // A row takes no less than eight bytes, so a lying number is bounded.
        let most = u64::from(self.head.promised.max(self.count)) * self.head.page_bytes as u64 / 8;
        let lost = last.min(most).saturating_sub(self.rows.len() as u64);
        let has_unknown = self.head.promised > self.count || !is_end_known;
        lost.max(u64::from(has_unknown))
    }

    /// The data of a message and the id of its topic, if all of it is there.
    pub(super) fn message(&self, key: (i64, i64)) -> Option<(i64, Vec<u8>)> {
        let row = &self.rows[self.rows.binary_search_by_key(&key, Row::key).ok()?];
        let page = self.page(row.page)?;
        let cell = self.cell(&page, row.cell)?;
        let fields = Fields::of(&cell)?;
        let mut payload = cell.local.to_vec();
        let mut next = cell.overflow;
        while payload.len() < cell.payload_bytes {
            let page = self.page(next?)?;
            let bytes = (cell.payload_bytes - payload.len()).min(self.head.usable - 4);
            payload.extend_from_slice(&page[4..4 + bytes]);
            next = Some(number_at(&page, 0)).filter(|number| *number != 0);
        }
        payload.drain(..fields.data_at);
        Some((fields.topic_id, payload))
    }

    /// A page; `None` if the file does not have it, or the medium does not give it.
    fn page(&self, number: u32) -> Option<Vec<u8>> {
        let offset = u64::from(number.checked_sub(1)?) * self.head.page_bytes as u64;
        self.file.read(offset, self.head.page_bytes).ok()
    }

    fn find_rows(&mut self) {
        let free = self.free_pages();
        let mut rows = Vec::new();
        for number in (1..=self.count).filter(|number| !free.contains(number)) {
            let Some(page) = self.page(number) else { continue };
            if page[0] != TABLE_LEAF {
                continue;
            }
            for index in 0..cell_count(&page) {
                let Some(cell) = self.cell(&page, index) else { continue };
                if let Some(fields) = Fields::of(&cell) {
                    let (timestamp, id) = (fields.timestamp, cell.id);
                    rows.push(Row { timestamp, id, page: number, cell: index });
                }
            }
        }
        rows.sort_unstable_by_key(|row| (row.id, row.page));
        rows.dedup_by_key(|row| row.id);
        rows.sort_unstable_by_key(Row::key);
        self.rows = rows;
    }

    /// Unused pages: deleted rows stay deleted.
    fn free_pages(&self) -> HashSet<u32> {
        let mut free = HashSet::new();
        let mut trunk = self.head.first_free;
        while let Some(page) = self.page(trunk) {
            if !free.insert(trunk) {
                break;
            }
            let count = (number_at(&page, 4) as usize).min(self.head.usable / 4 - 2);
            free.extend((0..count).map(|index| number_at(&page, 8 + 4 * index)));
            trunk = number_at(&page, 0);
        }
        free
    }

    /// The highest id that the pages on the way to a table's end tell of, and whether the end is there.
    fn last_id(&self, root: u32) -> (i64, bool) {
        let (mut number, mut last) = (root, 0);
        for _ in 0..LEVELS_MAX {
            match self.page(number) {
                Some(page) if page[0] == TABLE_LEAF => return (last, true),
                Some(page) if page[0] == TABLE_INTERIOR => {
                    let key = cell_count(&page).checked_sub(1).and_then(|index| {
                        let at = usize::from(u16_at(&page, 12 + 2 * usize::from(index))?);
                        Some(varint(page.get(at + 4..)?)?.0 as i64)
                    });
                    last = last.max(key.unwrap_or(0));
                    number = number_at(&page, 8);
                }
                _ => break,
            }
        }
        (last, false)
    }

    /// A cell of a table's leaf, if it is well-formed.
    fn cell<'a>(&self, page: &'a [u8], index: u16) -> Option<Cell<'a>> {
        let page = &page[..self.head.usable];
        let at = usize::from(u16_at(page, 8 + 2 * usize::from(index))?);
        let rest = page.get(at..)?;
        let (payload_bytes, taken) = varint(rest)?;
        let rest = &rest[taken..];
        let (id, taken) = varint(rest)?;
        let rest = &rest[taken..];
        let payload_bytes = usize::try_from(payload_bytes).ok()?;
        if payload_bytes as u64 > self.file.length_bytes() {
            return None;
        }
        let local_bytes = self.local_bytes(payload_bytes);
        let local = rest.get(..local_bytes)?;
        let overflow = match local_bytes < payload_bytes {
            true => Some(u32::from_be_bytes(*rest.get(local_bytes..)?.first_chunk()?)),
            false => None,
        };
        Some(Cell { id: id as i64, payload_bytes, local, overflow })
    }

    /// How much of a payload is in the leaf.
    fn local_bytes(&self, payload_bytes: usize) -> usize {
        let max = self.head.usable - 35;
        if payload_bytes <= max {
            return payload_bytes;
        }
        let min = (self.head.usable - 12) * 32 / 255 - 23;
        let local = min + (payload_bytes - min) % (self.head.usable - 4);
        if local <= max { local } else { min }
    }
}

impl Fields {
    /// Those of a message; `None` for a row of another table.
    fn of(cell: &Cell<'_>) -> Option<Self> {
        let (header_bytes, mut at) = varint(cell.local)?;
        let header_bytes = usize::try_from(header_bytes).ok()?;
        let mut kinds = [0; 4];
        for kind in &mut kinds {
            let (value, taken) = varint(cell.local.get(at..)?)?;
            *kind = value;
            at += taken;
        }
        let [0, topic, time, data] = kinds else { return None };
        if at != header_bytes || data < 12 || !data.is_multiple_of(2) {
            return None;
        }
        let (topic_id, taken) = integer(topic, &cell.local[at..])?;
        at += taken;
        let (timestamp, taken) = integer(time, &cell.local[at..])?;
        at += taken;
        let is_whole = (at as u64).checked_add((data - 12) / 2)? == cell.payload_bytes as u64;
        is_whole.then_some(Fields { topic_id, timestamp, data_at: at })
    }
}

fn cell_count(page: &[u8]) -> u16 {
    u16_at(page, 3).unwrap_or(0)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A page's number within a page that is long enough for it.
fn number_at(page: &[u8], at: usize) -> u32 {
    page.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// A number of one to nine bytes, and how many they are.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(8).enumerate() {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    Some((value << 8 | u64::from(*bytes.get(8)?), 9))
}

/// A whole number by its kind in the record's header, and how many bytes it took.
fn integer(kind: u64, bytes: &[u8]) -> Option<(i64, usize)> {
    let count = match kind {
        1..=4 => kind as usize,
        5 => 6,
        6 => 8,
        8 | 9 => return Some((kind as i64 - 8, 0)),
        _ => return None,
    };
    let bytes = bytes.get(..count)?;
    let sign = if bytes[0] & 0x80 == 0 { 0 } else { -1 };
    Some((bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte)), count))
}

#[cfg(test)]
mod tests;
