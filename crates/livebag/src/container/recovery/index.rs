//! A topic's time index under repair: its entries are claims about a brick, to be proven there.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use livebag_format::index::{
    ENTRY_BYTES, IndexEntry, entry_count, entry_offset, index_header, is_index_header,
};

use super::keep_aside;
use crate::storage::{Disk, ReadFile, is_no_file};

/// Entries read at once.
const ENTRIES_AT_ONCE: u64 = 4096;

/// What an index says of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub entry: IndexEntry,
    /// Place in the index.
    pub number: u32,
    /// Place of the topic among those of its brick.
    pub member: u16,
    /// Whether the message is on the medium according to `container.synced`.
    pub is_synced: bool,
    pub finding: Finding,
}

/// What a brick has where an entry says that a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Finding {
    /// Nothing that could be proven.
    Nothing,
    /// The message.
    Proven,
    /// Another message: the entry is another recording's, and nothing of this one is lost with it.
    Another,
}

/// All claims of a brick are held in memory, and an index that must be rebuilt is built there, too.
pub(super) const ENTRY_MEMORY_BYTES: u64 = (size_of::<Claim>() + ENTRY_BYTES) as u64;
const _: () = assert!(ENTRY_MEMORY_BYTES == 104, "docs/durability.md says so");

/// The file and its known contents.
pub(super) struct TopicIndex {
    /// Place in the manifest.
    pub topic: usize,
    path: PathBuf,
    file: Option<Arc<dyn ReadFile>>,
    /// Whole entries in it.
    count: u64,
    length: u64,
    /// Whether it is a header and whole entries in the order of time, but for a torn end.
    is_whole: bool,
}

/// An index that has been mended.
pub(super) struct Mended {
    pub count: u64,
    pub bytes: u64,
    pub last_log_time_nanos: u64,
    /// Entries whose message could not be found.
    pub given_up: u64,
    pub is_changed: bool,
}

impl TopicIndex {
    /// Opens the index of a topic (by its place in the manifest), or its remains.
    pub fn open(disk: &dyn Disk, path: PathBuf, topic: usize) -> io::Result<Self> {
        let mut this = Self { topic, path, file: None, count: 0, length: 0, is_whole: false };
        match disk.open(&this.path) {
            Ok(file) => {
                this.length = file.length()?;
                this.file = Some(file);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_no_file(&error) => {}
            Err(error) => return Err(error),
        }
        Ok(this)
    }

    /// Entries that it has room for.
    pub fn room(&self) -> u64 {
        entry_count(self.length)
    }

    /// Reads its claims, for the topic with the place `member` among those of its brick. Entries below `synced` are on
    /// the medium.
    pub fn read(&mut self, member: u16, synced: u64, claims: &mut Vec<Claim>) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let mut head = [0; ENTRY_BYTES];
        file.read_at(&mut head, 0)?;
        self.is_whole = is_index_header(&head);
        let (room, first) = (entry_count(self.length), claims.len());
        let (mut at, mut before, mut has_damage) = (0, 0, false);
        let mut bytes = vec![0; room.min(ENTRIES_AT_ONCE) as usize * ENTRY_BYTES];
        while at < room {
            let count = (room - at).min(ENTRIES_AT_ONCE) as usize;
            let read = file.read_at(&mut bytes[..count * ENTRY_BYTES], entry_offset(at))?;
            for (number, bytes) in (at..).zip(bytes[..read].as_chunks().0) {
                let Some(entry) = IndexEntry::decode(bytes) else {
                    has_damage |= bytes.iter().any(|byte| *byte != 0);
                    continue;
                };
                let place = (claims.len() - first) as u64;
                self.is_whole &= number == place && entry.log_time_nanos >= before;
                before = entry.log_time_nanos;
                let (is_synced, number) = (number < synced, number as u32);
                claims.push(Claim { entry, number, member, is_synced, finding: Finding::Nothing });
            }
            at += ENTRIES_AT_ONCE;
        }
        self.count = (claims.len() - first) as u64;
        // Bytes other than zeros are not truncated, but kept beside the new index.
        self.is_whole &= !has_damage;
        Ok(())
    }

    /// Leaves the entries that have been proven, and adds `found`, those of messages without an
    /// entry. Discarded bytes are kept beside the index.
    pub fn mend(
        &self,
        disk: &dyn Disk,
        claims: &mut [Claim],
        mut found: Vec<IndexEntry>,
    ) -> io::Result<Mended> {
        found.sort_unstable_by_key(|entry| (order(entry), entry.offset));
        let is_proven = |claim: &&Claim| claim.finding == Finding::Proven;
        let count = |finding| claims.iter().filter(|claim| claim.finding == finding).count() as u64;
        // An index that is another recording's does not tell what is lost.
        let is_ours = count(Finding::Another) <= count(Finding::Proven);
        let given_up = if is_ours { count(Finding::Nothing) } else { 0 };
        let is_whole = self.is_whole && claims.iter().all(|claim| is_proven(&claim));
        let last = claims.last().map_or((0, 0), |claim| order(&claim.entry));
        let follow = found.first().is_none_or(|entry| order(entry) >= last);
        let is_right = is_whole && follow;
        let is_changed = !is_right || !found.is_empty() || self.length != entry_offset(self.count);
        if !is_changed {
            self.file.as_ref().map_or(Ok(()), |file| file.sync())?;
        } else if is_right {
            self.append(disk, &found)?;
        } else {
            claims.sort_unstable_by_key(|claim| (order(&claim.entry), claim.number));
            self.replace(disk, claims, &found)?;
        }
        let kept = claims.iter().filter(is_proven).map(|claim| &claim.entry);
        let mut mended =
            Mended { count: 0, bytes: 0, last_log_time_nanos: 0, given_up, is_changed };
        for entry in kept.chain(&found) {
            mended.count += 1;
            mended.bytes += u64::from(entry.data_bytes);
            mended.last_log_time_nanos = mended.last_log_time_nanos.max(entry.log_time_nanos);
        }
        Ok(mended)
    }

    fn append(&self, disk: &dyn Disk, found: &[IndexEntry]) -> io::Result<()> {
        let file = disk.open_for_repair(&self.path)?;
        let end = entry_offset(self.count);
        if self.length != end {
            file.set_len(end)?;
        }
        let bytes: Vec<u8> = found.iter().flat_map(IndexEntry::encode).collect();
        if !bytes.is_empty() {
            file.write_at(&bytes, end)?;
        }
        file.sync()
    }

    /// Writes the entries that are proven and those that were found, both in order.
    fn replace(&self, disk: &dyn Disk, claims: &[Claim], found: &[IndexEntry]) -> io::Result<()> {
        if self.file.is_some() {
            keep_aside(disk, &self.path, &disk.read(&self.path)?)?;
        }
        let is_proven = |claim: &&Claim| claim.finding == Finding::Proven;
        let kept = || claims.iter().filter(is_proven).map(|claim| &claim.entry);
        let mut bytes = Vec::new();
        let room = entry_offset((kept().count() + found.len()) as u64);
        bytes.try_reserve_exact(usize::try_from(room).map_err(io::Error::other)?)?;
        bytes.extend_from_slice(&index_header());
        let mut found = found.iter().peekable();
        for entry in kept() {
            while let Some(before) = found.next_if(|found| order(found) < order(entry)) {
                bytes.extend_from_slice(&before.encode());
            }
            bytes.extend_from_slice(&entry.encode());
        }
        found.for_each(|entry| bytes.extend_from_slice(&entry.encode()));
        disk.replace(&self.path, &bytes, true)
    }
}

fn order(entry: &IndexEntry) -> (u64, u64) {
    (entry.log_time_nanos, entry.sequence)
}
