//! Reading a time index, which may be growing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset, is_index_header};

use super::ContainerError;
use super::open::is_of_one_file;
use crate::limits::READ_AHEAD_BYTES;
use crate::storage::ReadFile;

/// Less than this the kernel reads ahead by itself.
const AHEAD_BYTES_MIN: u64 = 128 << 10;
/// Entries read at once where many are: 192 KiB, which stay in the processor's cache.
const ENTRIES_AT_ONCE: u64 = 4096;
/// Entries within about a page of the file.
const NEAR_ENTRIES: u64 = 64;

/// A topic's time index. Read with `pread` and not mapped: a file that is cut while it is mapped
/// kills its reader, and a binary search costs some thirty calls at most.
pub(super) struct IndexReader {
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// Whether its recorder died, and this process may not recover the file.
    may_be_torn: bool,
    /// Entries that can be used at most; known once the file has been read.
    limit: OnceLock<u64>,
}

impl IndexReader {
    /// Nothing is read yet: in an object store that costs a request.
    pub fn new(path: PathBuf, file: Arc<dyn ReadFile>, may_be_torn: bool) -> Self {
        Self { path, file, may_be_torn, limit: OnceLock::new() }
    }

    /// Reads the head if that was not done yet. One that makes no sense costs its entries, and no other topic anything.
    fn limit(&self) -> Result<u64, ContainerError> {
        if let Some(limit) = self.limit.get() {
            return Ok(*limit);
        }
        let limit = match self.check_head() {
            Ok(()) if self.may_be_torn => self.whole_entries()?,
            Ok(()) => u64::MAX,
            Err(error) if is_of_one_file(&error) => 0,
            Err(error) => return Err(error),
        };
        Ok(*self.limit.get_or_init(|| limit))
    }

    fn check_head(&self) -> Result<(), ContainerError> {
        let mut header = [0; ENTRY_BYTES];
        self.read(0, &mut header)?;
        // Behind a header that the medium has spoilt the entries are as good as ever.
        if !is_index_header(&header) && self.entry(0).is_err() {
            return Err(self.damaged(0, "not a time index of a version that this livebag reads"));
        }
        Ok(())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), ContainerError> {
        let read = self.file.read_at(bytes, offset);
        match read {
            Ok(count) if count == bytes.len() => Ok(()),
            Ok(_) => Err(self.damaged(offset, "the file ends inside an entry")),
            Err(source) => Err(ContainerError::Io { path: self.path.clone(), source }),
        }
    }

    fn damaged(&self, offset: u64, what: &'static str) -> ContainerError {
        ContainerError::Damaged { path: self.path.clone(), offset, what }
    }

    /// Entries committed by now.
    pub fn count(&self) -> Result<u64, ContainerError> {
        Ok(self.stored()?.min(self.limit()?))
    }

    /// Entries that the file has room for.
    fn stored(&self) -> Result<u64, ContainerError> {
        let bytes = self.file.length();
        let bytes =
            bytes.map_err(|source| ContainerError::Io { path: self.path.clone(), source })?;
        Ok(entry_count(bytes))
    }

    /// Entries up to the last whole one. A crash tears the end only.
    fn whole_entries(&self) -> Result<u64, ContainerError> {
        let mut count = self.stored()?;
        while count > 0 && matches!(self.entry(count - 1), Err(ContainerError::Damaged { .. })) {
            count -= 1;
        }
        Ok(count)
    }

    /// Entry `number`, counted from 0.
    pub fn entry(&self, number: u64) -> Result<IndexEntry, ContainerError> {
        let mut bytes = [0; ENTRY_BYTES];
        let offset = entry_offset(number);
        self.read(offset, &mut bytes)?;
        IndexEntry::decode(&bytes)
            .ok_or_else(|| self.damaged(offset, "the entry's checksum does not match"))
    }

    /// Hints that it will be read soon, for the first time.
    pub fn will_be_read(&self) {
        if self.limit.get().is_none() {
            self.file.will_need(0, ENTRY_BYTES as u64);
        }
    }

    /// Hints that `range` will be read soon.
    pub fn will_need(&self, range: &std::ops::Range<u64>) {
        let bytes = (range.end - range.start) * ENTRY_BYTES as u64;
        if bytes > AHEAD_BYTES_MIN {
            self.file.will_need(entry_offset(range.start), bytes.min(READ_AHEAD_BYTES));
        }
    }

    /// The first whole one of entries `range`, going forward, and its number. Damage exists only where a medium has
    /// changed written bytes.
    pub fn first_whole(
        &self,
        mut range: std::ops::Range<u64>,
    ) -> Result<Option<(u64, IndexEntry)>, ContainerError> {
        range.find_map(|number| self.whole(number)).transpose()
    }

    /// The same, going backward.
    pub fn last_whole(
        &self,
        range: std::ops::Range<u64>,
    ) -> Result<Option<(u64, IndexEntry)>, ContainerError> {
        range.rev().find_map(|number| self.whole(number)).transpose()
    }

    fn whole(&self, number: u64) -> Option<Result<(u64, IndexEntry), ContainerError>> {
        match self.entry(number) {
            Ok(entry) => Some(Ok((number, entry))),
            Err(ContainerError::Damaged { .. }) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Reads at most `most` of the entries `range` into `out`, without damaged ones; returns how many of the range were
    /// read.
    pub fn entries(
        &self,
        range: std::ops::Range<u64>,
        most: usize,
        out: &mut Vec<IndexEntry>,
    ) -> Result<u64, ContainerError> {
        let count = (range.end - range.start).min(most as u64) as usize;
        let mut bytes = vec![0; count * ENTRY_BYTES];
        self.read(entry_offset(range.start), &mut bytes)?;
        out.clear();
        out.extend(bytes.as_chunks().0.iter().filter_map(IndexEntry::decode));
        Ok(count as u64)
    }

    /// Gives each of entries `range`, in large reads through `bytes`; `None` for one that is damaged.
    pub fn each(
        &self,
        range: std::ops::Range<u64>,
        bytes: &mut Vec<u8>,
        take: &mut impl FnMut(Option<IndexEntry>),
    ) -> Result<(), ContainerError> {
        let mut start = range.start;
        while start < range.end {
            let count = (range.end - start).min(ENTRIES_AT_ONCE);
            bytes.resize(count as usize * ENTRY_BYTES, 0);
            self.read(entry_offset(start), bytes)?;
            bytes.as_chunks().0.iter().for_each(|entry| take(IndexEntry::decode(entry)));
            start += count;
        }
        Ok(())
    }

    /// The first of `count` entries whose log time is not before `nanos`.
    pub fn lower_bound(&self, count: u64, nanos: u64) -> Result<u64, ContainerError> {
        if nanos == 0 {
            return Ok(0);
        }
        let Some((first, earliest)) = self.first_whole(0..count)? else { return Ok(0) };
        let Some((_, latest)) = self.last_whole(first..count)? else { return Ok(0) };
        if latest.log_time_nanos < nanos {
            return Ok(count);
        }
        let (low_nanos, high_nanos) = (earliest.log_time_nanos, latest.log_time_nanos);
        let mut range = Range { low: 0, low_nanos, high: count, high_nanos };
        while range.entries() > NEAR_ENTRIES {
            // Messages come evenly: a guess by time leads to the right page of the file, and its
            // neighbour closes the range. Plain bisection reads a page of the device at each step.
            let before = range.entries();
            let guess = range.guess(nanos);
            let beside = match self.narrow(&mut range, guess, nanos)? {
                true => (guess + NEAR_ENTRIES).min(range.high - 1),
                false => guess.saturating_sub(NEAR_ENTRIES).max(range.low),
            };
            if !range.is_empty() {
                self.narrow(&mut range, beside, nanos)?;
            }
            if range.entries() > before / 2 {
                let middle = range.middle();
                self.narrow(&mut range, middle, nanos)?;
            }
        }
        while !range.is_empty() {
            let middle = range.middle();
            self.narrow(&mut range, middle, nanos)?;
        }
        Ok(range.low)
    }

    /// Reads an entry within the range; returns whether it is before `nanos`.
    fn narrow(&self, range: &mut Range, at: u64, nanos: u64) -> Result<bool, ContainerError> {
        match self.first_whole(at..range.high)? {
            Some((number, entry)) if entry.log_time_nanos < nanos => {
                (range.low, range.low_nanos) = (number + 1, entry.log_time_nanos);
                Ok(true)
            }
            found => {
                range.high = at;
                range.high_nanos = found.map_or(range.high_nanos, |(_, e)| e.log_time_nanos);
                Ok(false)
            }
        }
    }
}

/// The rest of a search: entries before `low` are too early, from `high` on they are not. The times are those of
/// entries near the ends.
struct Range {
    low: u64,
    low_nanos: u64,
    high: u64,
    high_nanos: u64,
}

impl Range {
    fn entries(&self) -> u64 {
        self.high - self.low
    }

    fn is_empty(&self) -> bool {
        self.low == self.high
    }

    fn middle(&self) -> u64 {
        self.low + self.entries() / 2
    }

    /// Where a time would be if messages came evenly; within the range, which is not empty.
    fn guess(&self, nanos: u64) -> u64 {
        let span = self.high_nanos.saturating_sub(self.low_nanos);
        let since = nanos.saturating_sub(self.low_nanos);
        let part = u128::from(self.entries()) * u128::from(since) / u128::from(span.max(1));
        self.low + part.min(u128::from(self.entries() - 1)) as u64
    }
}

#[cfg(test)]
mod tests;
