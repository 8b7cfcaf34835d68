//! A topic's time index under repair: its entries are claims about a brick, to be proven there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::index::{
    ENTRY_BYTES, IndexEntry, entry_count, entry_offset, index_header, is_index_header,
};

use crate::storage::{Disk, ReadFile};

/// Entries read at once.
const ENTRIES_AT_ONCE: u64 = 4096;

/// What an index says of one message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub entry: IndexEntry,
    /// Place in the index.
    pub number: u64,
    /// Place of the topic among those of its brick.
    pub member: usize,
    /// Whether the message is on the medium according to `container.synced`.
    pub is_synced: bool,
    /// Whether the message has been found in the brick.
    pub is_proven: bool,
}

/// The file, and what is known of it.
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
    /// Reads the index of a topic (its place in the manifest, and among those of its brick), or what is
    /// left of it. Entries below `synced` are on the medium.
    pub fn read(
        disk: &dyn Disk,
        path: PathBuf,
        (topic, member, synced): (usize, usize, u64),
    ) -> io::Result<(Self, Vec<Claim>)> {
        let mut this = Self { topic, path, file: None, count: 0, length: 0, is_whole: false };
        let mut claims = Vec::new();
        let file = match disk.open(&this.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((this, claims)),
            Err(error) => return Err(error),
        };
        let mut head = [0; ENTRY_BYTES];
        file.read_at(&mut head, 0)?;
        this.is_whole = is_index_header(&head);
        this.length = file.length()?;
        let room = entry_count(this.length);
        let (mut at, mut before) = (0, 0);
        while at < room {
            let mut bytes = vec![0; (room - at).min(ENTRIES_AT_ONCE) as usize * ENTRY_BYTES];
            file.read_at(&mut bytes, entry_offset(at))?;
            for (number, bytes) in (at..).zip(bytes.as_chunks().0) {
                let Some(entry) = IndexEntry::decode(bytes) else { continue };
                this.is_whole &= number == claims.len() as u64 && entry.log_time_nanos >= before;
                before = entry.log_time_nanos;
                let is_synced = number < synced;
                claims.push(Claim { entry, number, member, is_synced, is_proven: false });
            }
            at += ENTRIES_AT_ONCE;
        }
        this.count = claims.len() as u64;
        this.file = Some(file);
        Ok((this, claims))
    }

    /// Leaves the entries that have been proven, and adds `found`, those of messages without an
    /// entry. What is given up is kept beside the index.
    pub fn mend(
        &self,
        disk: &dyn Disk,
        claims: &[Claim],
        mut found: Vec<IndexEntry>,
    ) -> io::Result<Mended> {
        let order = |entry: &IndexEntry| (entry.log_time_nanos, entry.sequence);
        found.sort_by_key(|entry| (order(entry), entry.offset));
        let given_up = claims.iter().filter(|claim| !claim.is_proven).count() as u64;
        let last = claims.last().map_or((0, 0), |claim| order(&claim.entry));
        let follow = found.first().is_none_or(|entry| order(entry) >= last);
        let kept = claims.iter().filter(|claim| claim.is_proven).map(|claim| claim.entry);
        let mut entries: Vec<IndexEntry> = kept.chain(found.iter().copied()).collect();
        let is_right = self.is_whole && given_up == 0 && follow;
        let is_changed = !is_right || !found.is_empty() || self.length != entry_offset(self.count);
        if !is_changed {
            self.file.as_ref().map_or(Ok(()), |file| file.sync())?;
        } else if is_right {
            self.append(disk, &found)?;
        } else {
            entries.sort_by_key(order);
            self.replace(disk, &entries)?;
        }
        Ok(Mended {
            count: entries.len() as u64,
            bytes: entries.iter().map(|entry| u64::from(entry.data_bytes)).sum(),
            last_log_time_nanos: entries.last().map_or(0, |entry| entry.log_time_nanos),
            given_up,
            is_changed,
        })
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

    fn replace(&self, disk: &dyn Disk, entries: &[IndexEntry]) -> io::Result<()> {
        if let Some(file) = &self.file {
            keep_aside(disk, &self.path, &**file)?;
        }
        let mut bytes = index_header().to_vec();
        bytes.extend(entries.iter().flat_map(IndexEntry::encode));
        disk.replace(&self.path, &bytes, true)
    }
}

/// Copies an index to `NAME.idx.damaged`, unless an earlier recovery has.
fn keep_aside(disk: &dyn Disk, path: &Path, file: &dyn ReadFile) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    let aside = PathBuf::from(name);
    if disk.open(&aside).is_ok() {
        return Ok(());
    }
    let mut bytes = vec![0; usize::try_from(file.length()?).map_err(io::Error::other)?];
    let count = file.read_at(&mut bytes, 0)?;
    disk.replace(&aside, &bytes[..count], true)
}
