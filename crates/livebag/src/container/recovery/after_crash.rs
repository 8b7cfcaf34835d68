//! A container whose recorder died: keep what was committed, end its files.
//!
//! What counts as committed is what has an index entry, or lies behind the last one in a chunk
//! whose checksum fits. A header that merely looks right is not enough: a frame's extent may have
//! been torn by its slot's writer.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::container::{CONTAINER_FILE, ContainerError, LOCK_FILE, Manifest, State};
use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_offset};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, ChunkHeader, Compression, MESSAGE_HEADER_BYTES, MESSAGE_INDEX_ENTRY_BYTES,
    MESSAGE_INDEX_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, opcode,
    padding_header, put_message_index,
};

use super::after_power_loss::distrust;
use super::manifest::{correct_splits, name_newest_files, rebuild};
use crate::container::{is_being_written, read_manifest};
use crate::limits::BLOCK_BYTES;
use crate::query::{BagError, BagState, IndexReader};
use crate::recorder::{ChunkWalk, write_summary};
use crate::storage::{Access, Disk, DiskFile, Owner};

/// The extent of a frame takes two blocks at least, what aligns something less.
pub(super) const UNCOMMITTED_BYTES_MIN: u64 = 2 * BLOCK_BYTES as u64;

/// Where a damaged `container.yaml` is kept.
const DAMAGED_FILE: &str = "container.yaml.damaged";

/// Decides what a container without a clean-close mark is, and recovers it if its recorder is gone
/// and this user may write.
pub(crate) fn settle(disk: &dyn Disk, path: &Path) -> Result<(BagState, Manifest), BagError> {
    let io_error = |source| BagError::Io { path: path.to_owned(), source };
    if is_being_written(disk, path).map_err(io_error)? {
        return Ok((BagState::Live, read_manifest(disk, path)?));
    }
    // Before the lock is taken, which makes its file where there is none.
    let survived = kernel_survived(disk, path);
    let lock = match keep_owner(disk, path).and_then(|()| disk.lock(&path.join(LOCK_FILE), false)) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok((BagState::Live, read_manifest(disk, path)?)),
        Err(error) if is_refused(&error) => {
            return Ok((BagState::Unrecovered, read_manifest(disk, path)?));
        }
        Err(error) => return Err(io_error(error)),
    };
    // Exclusive: another process may have closed or recovered it before the lock was ours.
    let (mut manifest, whole) = read_or_rebuild(disk, path, survived)?;
    let state = match manifest.state {
        State::Closed => BagState::Closed,
        State::Recovered => BagState::Recovered,
        State::Recording => match recover(disk, path, &mut manifest, survived) {
            Ok(()) => BagState::Recovered,
            Err(BagError::Io { source, .. }) if is_refused(&source) && whole => {
                BagState::Unrecovered
            }
            Err(error) => return Err(error),
        },
    };
    drop(lock);
    Ok((state, manifest))
}

/// Whether the kernel that the recorder wrote to is the one that answers now. If not, what was not
/// synced may be gone.
pub(crate) fn kernel_survived(disk: &dyn Disk, path: &Path) -> bool {
    let owner = read_owner(disk, path);
    owner.is_some_and(|owner| Some(owner.boot_id) == disk.boot_id())
}

/// What the recorder wrote about itself.
pub(crate) fn read_owner(disk: &dyn Disk, path: &Path) -> Option<Owner> {
    let bytes = disk.read(&path.join(LOCK_FILE)).ok()?;
    Owner::parse(str::from_utf8(&bytes).ok()?)
}

/// Makes the lock's file if a power cut has cost it, empty: who recovers must not pass for the
/// recorder.
fn keep_owner(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let file = path.join(LOCK_FILE);
    match disk.open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(&file, Access::Buffered).map(drop)
        }
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// The manifest, and whether it is the one that was written.
fn read_or_rebuild(
    disk: &dyn Disk,
    path: &Path,
    survived: bool,
) -> Result<(Manifest, bool), BagError> {
    let read = read_manifest(disk, path);
    let text = disk.read(&path.join(CONTAINER_FILE)).unwrap_or_default();
    let fits = Manifest::checksum_fits(&text);
    match read {
        // Changed by hand, or of a livebag that wrote no checksum: but a recorder's last words before
        // a power cut must be whole.
        Ok(manifest) if survived || fits == Some(true) || manifest.state != State::Recording => {
            Ok((manifest, true))
        }
        Ok(_)
        | Err(
            BagError::NotFound(_)
            | BagError::NotAContainer(_)
            | BagError::Manifest { source: ContainerError::Yaml(_), .. },
        ) => {
            let rebuilt = rebuild(disk, path)?;
            if !text.is_empty() {
                let aside = path.join(DAMAGED_FILE);
                let kept = disk.replace(&aside, &text, true);
                kept.map_err(|source| BagError::Io { path: aside, source })?;
            }
            Ok((rebuilt, false))
        }
        Err(error) => Err(error),
    }
}

/// Whether the container can be read, but not recovered here and now.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
    )
}

/// An index open for repair, with what is known of its end.
struct Index {
    topic: usize,
    channel_id: u16,
    brick: u16,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    count: u64,
    last_log_time_nanos: u64,
}

impl Index {
    fn append(&mut self, entries: &[IndexEntry]) -> Result<(), BagError> {
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
        for entry in entries {
            bytes.extend_from_slice(&entry.encode());
            self.last_log_time_nanos = entry.log_time_nanos;
        }
        let written = self.file.write_at(&bytes, entry_offset(self.count));
        written.map_err(|source| BagError::Io { path: self.path.clone(), source })?;
        self.count += entries.len() as u64;
        Ok(())
    }
}

fn recover(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &mut Manifest,
    survived: bool,
) -> Result<(), BagError> {
    let named = name_newest_files(disk, directory, manifest, survived);
    named.map_err(|source| BagError::Io { path: directory.to_owned(), source })?;
    if !survived {
        correct_splits(disk, directory, manifest);
        distrust(disk, directory, manifest)?;
    }
    let mut bricks: HashMap<String, Vec<Index>> = HashMap::new();
    for (topic, described) in manifest.topics.iter().enumerate() {
        if described.index.is_empty() {
            continue;
        }
        let path = directory.join(&described.index);
        // The manifest may have been written before the index: then there is nothing in it.
        let file = match disk.open_for_repair(&path) {
            Ok(file) => file,
            Err(source) => return Err(BagError::Io { path, source }),
        };
        let index = mend_index(path, file, topic, described.channel_id)?;
        if described.bricks.is_empty() {
            let synced = index.file.sync();
            synced.map_err(|source| BagError::Io { path: index.path.clone(), source })?;
        }
        if let Some((brick, name)) = described.bricks.iter().enumerate().next_back() {
            let index = Index { brick: brick as u16, ..index };
            bricks.entry(name.clone()).or_default().push(index);
        }
    }
    for (name, indexes) in &mut bricks {
        let path = directory.join(name);
        let mended =
            Brick::open(disk, &path).and_then(|mut brick| brick.mend(manifest, indexes, survived));
        mended.map_err(|error| match error {
            BrickError::Bag(error) => error,
            BrickError::Io(source) => BagError::Io { path, source },
        })?;
    }
    for index in bricks.values().flatten() {
        let described = &mut manifest.topics[index.topic];
        described.message_count = index.count;
        described.message_bytes = sum_bytes(index)?;
    }
    manifest.state = State::Recovered;
    manifest.unknown_since_nanos = manifest.written_nanos.max(manifest.started_nanos);
    manifest.ended_nanos =
        bricks.values().flatten().map(|index| index.last_log_time_nanos).max().unwrap_or_default();
    let synced = disk.sync_dir(directory);
    synced.map_err(|source| BagError::Io { path: directory.to_owned(), source })?;
    let path = directory.join(CONTAINER_FILE);
    let text =
        manifest.to_yaml().map_err(|source| BagError::Manifest { path: path.clone(), source })?;
    let replaced = disk.replace(&path, text.as_bytes(), true);
    replaced.map_err(|source| BagError::Io { path: path.clone(), source })?;
    // Left over from the recorder; gone already is as good.
    let _ = disk.remove(&directory.join("container.reserve"));
    Ok(())
}

/// Cuts what is not a whole entry off an index.
fn mend_index(
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    topic: usize,
    channel_id: u16,
) -> Result<Index, BagError> {
    let reader = IndexReader::open(path.clone(), file.clone(), true)?;
    let count = reader.count()?;
    let last = reader.last_whole(0..count)?;
    let last_log_time_nanos = last.map_or(0, |(_, entry)| entry.log_time_nanos);
    let cut = file.set_len(entry_offset(count));
    cut.map_err(|source| BagError::Io { path: path.clone(), source })?;
    Ok(Index { topic, channel_id, brick: 0, path, file, count, last_log_time_nanos })
}

fn sum_bytes(index: &Index) -> Result<u64, BagError> {
    let reader = IndexReader::open(index.path.clone(), index.file.clone(), false)?;
    let mut entries = Vec::new();
    let (mut at, mut bytes) = (0, 0);
    while at < index.count {
        at += reader.entries(at..index.count, 4096, &mut entries)?;
        bytes += entries.iter().map(|entry| u64::from(entry.data_bytes)).sum::<u64>();
    }
    Ok(bytes)
}

enum BrickError {
    Bag(BagError),
    Io(io::Error),
}

impl From<io::Error> for BrickError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Brick {
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl Brick {
    fn open(disk: &dyn Disk, path: &Path) -> Result<Self, BrickError> {
        let file = disk.open_for_repair(path)?;
        let bytes = file.length()?;
        Ok(Self { file, bytes })
    }

    fn record_at(&self, offset: u64) -> io::Result<Option<RecordHeader>> {
        let mut bytes = [0; RECORD_HEADER_BYTES];
        let count = self.file.read_at(&mut bytes, offset)?;
        Ok(RecordHeader::parse(&bytes[..count]))
    }

    /// Makes the brick a finished MCAP of its committed messages, and of those behind them, if it `adopts`.
    fn mend(
        &mut self,
        manifest: &Manifest,
        indexes: &mut [Index],
        adopts: bool,
    ) -> Result<(), BrickError> {
        let mut position = livebag_format::mcap::MAGIC.len() as u64;
        let walk = chunk_walk(&self.file, indexes)?;
        // With one topic everything unfinished lies behind the last commit; with several, chunks
        // without an entry may lie between others.
        let shared = indexes.len() > 1;
        for chunk in walk {
            let chunk = chunk?;
            if shared {
                self.mend_gap(position, chunk.offset)?;
            }
            let indexes: u64 = chunk.counts.iter().map(|(_, count)| index_bytes(*count)).sum();
            let end = chunk.offset + chunk.chunk_bytes() + indexes;
            position = position.max(end);
        }
        let tail = self.mend_tail(position, indexes, adopts)?;
        let topics: Vec<_> = indexes
            .iter()
            .map(|index| {
                let topic = manifest.topics[index.topic].topic();
                topic.map(|topic| (index.channel_id, topic)).map_err(|source| {
                    BrickError::Bag(BagError::Manifest { path: index.path.clone(), source })
                })
            })
            .collect::<Result<_, _>>()?;
        write_summary(&*self.file, tail, &topics, chunk_walk(&self.file, indexes)?)?;
        self.file.sync()?;
        for index in indexes {
            index.file.sync()?;
        }
        Ok(())
    }

    /// Leaves only records that are whole and not a chunk between two committed chunks.
    fn mend_gap(&self, start: u64, end: u64) -> io::Result<()> {
        let mut position = start;
        while position < end {
            let record = self.record_at(position)?;
            let next = record.and_then(|record| position.checked_add(record.total_bytes()?));
            let known = record.is_some_and(|record| {
                matches!(
                    record.opcode,
                    opcode::PADDING
                        | opcode::HEADER
                        | opcode::SCHEMA
                        | opcode::CHANNEL
                        | opcode::MESSAGE_INDEX
                )
            });
            match next {
                Some(next) if known && next <= end => position = next,
                // Not committed, but whole: channels that were made known behind it stay.
                Some(next) if next <= end && record.is_some_and(|r| r.opcode == opcode::CHUNK) => {
                    self.file.write_at(&padding_header(next - position), position)?;
                    position = next;
                }
                _ => {
                    // Nothing that begins here can be trusted up to the next commit.
                    self.file.write_at(&padding_header(end - position), position)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Walks the records behind the last commit; gives the end of what is kept. That is up to the
    /// first frame or chunk that the crash cost: what follows it would leave a hole that nobody has
    /// counted. After a power cut all that can be proven has been already ([`distrust`]).
    fn mend_tail(
        &mut self,
        start: u64,
        indexes: &mut [Index],
        adopts: bool,
    ) -> Result<u64, BrickError> {
        let mut position = start;
        loop {
            let Some(record) = self.record_at(position)? else { return Ok(position) };
            let next = record.total_bytes().and_then(|bytes| position.checked_add(bytes));
            let Some(next) = next.filter(|next| *next <= self.bytes) else { return Ok(position) };
            match record.opcode {
                // Alignment takes less. This is a frame that was not committed: a small one too may be
                // written from its slot, behind a large one that waits.
                opcode::PADDING if next - position >= UNCOMMITTED_BYTES_MIN => {
                    return Ok(position);
                }
                opcode::PADDING | opcode::HEADER | opcode::SCHEMA | opcode::CHANNEL => {}
                opcode::MESSAGE_INDEX => {}
                opcode::CHUNK => {
                    if !adopts || !self.adopt(position, next, indexes)? {
                        return Ok(position);
                    }
                    self.bytes = self.bytes.max(self.file.length()?);
                }
                // DataEnd: the recorder died while it wrote the summary. Anything else: not ours.
                _ => return Ok(position),
            }
            position = next;
        }
    }

    /// Indexes the messages of a chunk behind the last commit, if its checksum fits.
    fn adopt(&self, start: u64, end: u64, indexes: &mut [Index]) -> Result<bool, BrickError> {
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_at(&mut bytes, start)?;
        let Some(header) = ChunkHeader::parse(&bytes) else { return Ok(false) };
        let Ok(records) = header.records(&bytes) else { return Ok(false) };
        if header.crc == 0 || crc32fast::hash(&records) != header.crc {
            return Ok(false);
        }
        let mut found: Vec<Vec<IndexEntry>> = vec![Vec::new(); indexes.len()];
        let mut at = 0;
        while at < records.len() {
            let Some(message) = MessageHeader::parse(&records[at..]) else { return Ok(false) };
            let Some(place) = indexes.iter().position(|i| i.channel_id == message.channel_id)
            else {
                return Ok(false);
            };
            found[place].push(IndexEntry {
                log_time_nanos: message.log_time_nanos,
                publish_time_nanos: message.publish_time_nanos,
                sequence: u64::from(message.sequence),
                offset: start + (CHUNK_HEADER_BYTES + at + MESSAGE_HEADER_BYTES) as u64,
                data_bytes: message.data_bytes as u32,
                inner: at as u32,
                brick: indexes[place].brick,
                compressed: header.compression != Compression::None,
                repeated: false,
            });
            at += MESSAGE_HEADER_BYTES + message.data_bytes as usize;
        }
        let in_order = found.iter().zip(indexes.iter()).all(|(entries, index)| {
            entries.first().is_none_or(|e| e.log_time_nanos >= index.last_log_time_nanos)
        });
        if !in_order {
            return Ok(false);
        }
        self.write_message_indexes(end, &found, indexes)?;
        for (entries, index) in found.iter().zip(indexes) {
            index.append(entries).map_err(BrickError::Bag)?;
        }
        Ok(true)
    }
}

impl Brick {
    /// Writes the message indexes that belong behind an adopted chunk: the crash may have cost
    /// them. Whatever was there has the same length, or was the end of the file.
    fn write_message_indexes(
        &self,
        end: u64,
        found: &[Vec<IndexEntry>],
        indexes: &[Index],
    ) -> io::Result<()> {
        let mut order: Vec<usize> = (0..found.len()).filter(|at| !found[*at].is_empty()).collect();
        order.sort_by_key(|at| found[*at][0].inner);
        let mut bytes = Vec::new();
        for at in order {
            let entries = found[at].iter();
            let places = entries.map(|entry| (entry.log_time_nanos, u64::from(entry.inner)));
            put_message_index(&mut bytes, indexes[at].channel_id, places);
        }
        self.file.write_at(&bytes, end)
    }
}

fn index_bytes(count: u64) -> u64 {
    MESSAGE_INDEX_HEADER_BYTES as u64 + count * MESSAGE_INDEX_ENTRY_BYTES as u64
}

fn chunk_walk(brick: &Arc<dyn DiskFile>, indexes: &[Index]) -> io::Result<ChunkWalk> {
    let files = indexes.iter().map(|i| (i.channel_id, i.brick, i.file.clone())).collect();
    ChunkWalk::new(brick.clone(), files)
}
