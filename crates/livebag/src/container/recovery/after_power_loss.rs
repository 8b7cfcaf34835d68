//! A container whose machine died: find out what the medium has of it.
//!
//! After a crash of the process the kernel still has all that it was given. After a crash of the
//! kernel or a power cut each sector that was not synced is there or not, whatever the order in which
//! it was written: an index entry may be there without its message. So nothing behind the last
//! [`SyncMark`] is believed that cannot be proven:
//!
//! - an index entry by its checksum,
//! - a gathered chunk by its checksum,
//! - a frame without a checksum by its entry, its headers, and by having no hole: bricks are only
//!   appended to, so a sector is either what was written or a hole. (A journal commits an extent as
//!   written after its data, and flushes the device's cache before it commits.)
//!
//! Each brick is walked from the mark on up to the first thing that is none of this. A message that is lost
//! takes those behind it in its topic along: nobody has counted it. The indexes are then written anew from the
//! mark on, and the container is as a crash of the process would have left it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag_format::container::{Manifest, SYNCED_FILE, SyncMark, TopicManifest};
use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset, index_header};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, CHUNK_HEADER_BYTES_MAX, ChunkHeader, Compression, MAGIC,
    MESSAGE_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, opcode, padding_header,
    put_channel, put_file_start, put_message_index, put_padding_to, put_schema,
};

use super::after_crash::UNCOMMITTED_BYTES_MIN;
use crate::limits::BLOCK_BYTES;
use crate::query::BagError;
use crate::storage::{Access, Disk, DiskFile};

/// Longest schema or channel record that is compared with the manifest's.
const DEFINITION_BYTES_MAX: u64 = 64 << 20;

/// The index of a topic, and what can be believed of it.
struct Index<'a> {
    topic: &'a TopicManifest,
    channel_id: u16,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    /// Entries below the sync mark.
    synced: Vec<IndexEntry>,
    /// Whole entries behind it.
    doubtful: Vec<IndexEntry>,
    /// Those of them that have been proven, and those made from proven chunks.
    proven: Vec<IndexEntry>,
}

/// A brick with the topics that are in it: place in the list of indexes, number of the brick there.
type Members = Vec<(usize, u16)>;

/// Cuts off whatever the medium does not have.
pub(super) fn distrust(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &Manifest,
) -> Result<(), BagError> {
    let mark = disk.read(&directory.join(SYNCED_FILE)).ok();
    let mark = mark.and_then(|bytes| SyncMark::parse(str::from_utf8(&bytes).ok()?));
    let mark = mark.unwrap_or_default();
    let mut indexes = Vec::with_capacity(manifest.topics.len());
    let mut bricks: BTreeMap<&str, Members> = BTreeMap::new();
    for topic in manifest.topics.iter().filter(|topic| !topic.index.is_empty()) {
        let at = indexes.len();
        let path = directory.join(&topic.index);
        let synced = mark.entries.get(&topic.index).copied().unwrap_or(0);
        let index = Index::open(disk, path.clone(), topic, synced);
        indexes.push(index.map_err(|source| BagError::Io { path, source })?);
        for (number, brick) in topic.bricks.iter().enumerate() {
            bricks.entry(brick).or_default().push((at, number as u16));
        }
    }
    for (name, members) in bricks {
        let path = directory.join(name);
        let walked = Walk::open(disk, &path, manifest, &members, &mut indexes).and_then(Walk::run);
        walked.map_err(|source| BagError::Io { path, source })?;
    }
    for index in &mut indexes {
        let rewritten = index.rewrite();
        rewritten.map_err(|source| BagError::Io { path: index.path.clone(), source })?;
    }
    Ok(())
}

fn open_or_create(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    match disk.open_for_repair(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(path, Access::Buffered)
        }
        opened => opened,
    }
}

impl<'a> Index<'a> {
    fn open(
        disk: &dyn Disk,
        path: PathBuf,
        topic: &'a TopicManifest,
        synced: u64,
    ) -> io::Result<Self> {
        let file = open_or_create(disk, &path)?;
        let bytes = file.length()?;
        let mut head = [0; ENTRY_BYTES];
        file.read_at(&mut head, 0)?;
        if head != index_header() {
            file.write_at(&index_header(), 0)?;
        }
        let mut whole = read_whole_entries(&*file, entry_count(bytes))?;
        let doubtful = whole.split_off((synced as usize).min(whole.len()));
        Ok(Self {
            topic,
            channel_id: topic.channel_id,
            path,
            file,
            synced: whole,
            doubtful,
            proven: Vec::new(),
        })
    }

    fn rewrite(&mut self) -> io::Result<()> {
        // A frame that was written again from a copy lies behind later ones.
        self.proven.sort_by_key(|entry| (entry.log_time_nanos, entry.brick, place_of(entry)));
        let start = entry_offset(self.synced.len() as u64);
        let bytes: Vec<u8> = self.proven.iter().flat_map(IndexEntry::encode).collect();
        self.file.set_len(start)?;
        if bytes.is_empty() { Ok(()) } else { self.file.write_at(&bytes, start) }
    }
}

/// Entries up to the first that is damaged or goes back in time.
fn read_whole_entries(file: &dyn DiskFile, count: u64) -> io::Result<Vec<IndexEntry>> {
    const AT_ONCE: u64 = 1024;
    let mut entries: Vec<IndexEntry> = Vec::new();
    let mut at = 0;
    while at < count {
        let mut bytes = vec![0; (count - at).min(AT_ONCE) as usize * ENTRY_BYTES];
        file.read_at(&mut bytes, entry_offset(at))?;
        for entry in bytes.as_chunks().0 {
            let Some(entry) = IndexEntry::decode(entry) else { return Ok(entries) };
            let before = entries.last().map_or(0, |last| last.log_time_nanos);
            if entry.log_time_nanos < before {
                return Ok(entries);
            }
            entries.push(entry);
        }
        at += AT_ONCE;
    }
    Ok(entries)
}

/// One pass over the part of a brick that a power cut may have damaged.
struct Walk<'a, 'm> {
    file: Arc<dyn DiskFile>,
    bytes: u64,
    manifest: &'a Manifest,
    members: &'a Members,
    indexes: &'a mut [Index<'m>],
    /// Doubtful entries by their message's place: index, entry.
    claimed: HashMap<(u64, u32), (usize, IndexEntry)>,
    /// Places of messages below the mark.
    believed: HashSet<(u64, u32)>,
    /// Where believing ends and proving begins.
    position: u64,
    last_log_times: HashMap<usize, u64>,
    /// A frame's extent has been passed that is padding: overtaken, or not committed.
    passed_extent: bool,
}

impl<'a, 'm> Walk<'a, 'm> {
    fn open(
        disk: &dyn Disk,
        path: &Path,
        manifest: &'a Manifest,
        members: &'a Members,
        indexes: &'a mut [Index<'m>],
    ) -> io::Result<Self> {
        let file = open_or_create(disk, path)?;
        let mut claimed = HashMap::new();
        let mut position = u64::MAX;
        let mut last_log_times = HashMap::new();
        for &(at, brick) in members {
            let index = &indexes[at];
            let synced = index.synced.iter().filter(|entry| entry.brick == brick);
            position = position.min(synced.filter_map(chunk_of).max().unwrap_or(0));
            let last = index.synced.last().map_or(0, |entry| entry.log_time_nanos);
            last_log_times.insert(at, last);
            let doubtful = index.doubtful.iter().filter(|entry| entry.brick == brick);
            // A frame written again from a copy lies behind frames that came after it.
            position =
                position.min(doubtful.clone().filter_map(chunk_of).min().unwrap_or(position));
            claimed.extend(doubtful.map(|entry| (place_of(entry), (at, *entry))));
        }
        let synced = members.iter().flat_map(|&(at, brick)| {
            indexes[at].synced.iter().filter(move |entry| entry.brick == brick)
        });
        let believed = synced.map(place_of).filter(|(chunk, _)| *chunk >= position).collect();
        let bytes = file.length()?;
        Ok(Self {
            file,
            bytes,
            manifest,
            members,
            indexes,
            claimed,
            believed,
            position,
            last_log_times,
            passed_extent: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        if self.position == 0 {
            self.restore_start()?;
            self.position = MAGIC.len() as u64;
        }
        while let Some((record, end)) = self.record()? {
            let proven = match record.opcode {
                opcode::PADDING => {
                    self.passed_extent |= end - self.position >= UNCOMMITTED_BYTES_MIN;
                    true
                }
                opcode::HEADER | opcode::MESSAGE_INDEX => true,
                opcode::SCHEMA | opcode::CHANNEL => self.is_ours(end)?,
                opcode::CHUNK => self.prove_chunk(end)?,
                _ => false,
            };
            if !proven {
                break;
            }
            self.position = end;
        }
        self.close_holes()
    }

    /// Takes back what lies behind a message that has been lost, in the order of its topic, and whatever shares a
    /// chunk with that.
    fn close_holes(&mut self) -> io::Result<()> {
        let mut dropped: HashSet<u64> = HashSet::new();
        loop {
            let count = dropped.len();
            for &(at, brick) in self.members {
                let index = &self.indexes[at];
                let of_brick = |entry: &&IndexEntry| entry.brick == brick;
                let proven: HashSet<_> =
                    index.proven.iter().filter(of_brick).map(place_of).collect();
                let is_there =
                    |place: &(u64, u32)| proven.contains(place) && !dropped.contains(&place.0);
                let claimed = index.doubtful.iter().filter(of_brick).map(place_of);
                let whole: HashSet<_> = claimed.clone().take_while(is_there).collect();
                if whole.len() < claimed.count() {
                    dropped.extend(proven.difference(&whole).map(|(chunk, _)| chunk));
                }
            }
            if dropped.len() == count {
                break;
            }
        }
        for &(at, brick) in self.members {
            let is_kept =
                |entry: &IndexEntry| entry.brick != brick || !dropped.contains(&place_of(entry).0);
            self.indexes[at].proven.retain(is_kept);
        }
        // Kept messages may lie behind them, and one with a message below the mark stays.
        let believed: HashSet<u64> = self.believed.iter().map(|(chunk, _)| *chunk).collect();
        for &chunk in dropped.difference(&believed) {
            self.position = chunk;
            if let Some((_, end)) = self.record()? {
                self.file.write_at(&padding_header(end - chunk), chunk)?;
            }
        }
        Ok(())
    }

    /// The record at `position`, and its end, if that is inside the file.
    fn record(&self) -> io::Result<Option<(RecordHeader, u64)>> {
        let mut head = [0; RECORD_HEADER_BYTES];
        let count = self.file.read_at(&mut head, self.position)?;
        let record = RecordHeader::parse(&head[..count]);
        let end = record.and_then(|record| self.position.checked_add(record.total_bytes()?));
        let end = end.filter(|end| *end <= self.bytes);
        Ok(record.zip(end))
    }

    fn read(&self, end: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (end - self.position) as usize];
        let count = self.file.read_at(&mut bytes, self.position)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// The beginning of the file is known from the manifest: a lost one is written again.
    fn restore_start(&mut self) -> io::Result<()> {
        if self.start_is_whole()? {
            return Ok(());
        }
        let first = self.claimed.values().min_by_key(|(_, entry)| place_of(entry));
        let made_for = first.map_or(self.members[0].0, |(at, _)| *at);
        let topic = self.indexes[made_for].topic;
        let mut start = Vec::new();
        put_file_start(&mut start, &self.manifest.profile, &self.manifest.library);
        if let Ok(described) = topic.topic() {
            put_schema(&mut start, topic.channel_id, &described);
            put_channel(&mut start, topic.channel_id, topic.channel_id, &described);
        }
        let position = start.len() as u64;
        put_padding_to(&mut start, position, BLOCK_BYTES as u64);
        self.file.write_at(&start, 0)?;
        self.bytes = self.bytes.max(start.len() as u64);
        Ok(())
    }

    fn start_is_whole(&mut self) -> io::Result<bool> {
        let mut magic = [0; MAGIC.len()];
        self.file.read_at(&mut magic, 0)?;
        if magic != MAGIC {
            return Ok(false);
        }
        let mut header = Vec::new();
        put_file_start(&mut header, &self.manifest.profile, &self.manifest.library);
        let mut found = vec![0; header.len()];
        self.file.read_at(&mut found, 0)?;
        self.position = header.len() as u64;
        let mut whole = found == header;
        for wanted in [opcode::SCHEMA, opcode::CHANNEL] {
            let Some((record, end)) = self.record()? else { return Ok(false) };
            whole = whole && record.opcode == wanted && self.is_ours(end)?;
            self.position = end;
        }
        // What pads the rest of the block.
        let aligned = self.position.is_multiple_of(BLOCK_BYTES as u64);
        let padded = self.record()?.is_some_and(|(record, _)| record.opcode == opcode::PADDING);
        Ok(whole && (aligned || padded))
    }

    /// Whether a schema or channel record is that of a topic of this brick.
    fn is_ours(&self, end: u64) -> io::Result<bool> {
        if end - self.position > DEFINITION_BYTES_MAX {
            return Ok(false);
        }
        let found = self.read(end)?;
        Ok(self.members.iter().any(|(at, _)| {
            let topic = self.indexes[*at].topic;
            let Ok(described) = topic.topic() else { return false };
            let (mut schema, mut channel) = (Vec::new(), Vec::new());
            put_schema(&mut schema, topic.channel_id, &described);
            put_channel(&mut channel, topic.channel_id, topic.channel_id, &described);
            found == schema || found == channel
        }))
    }

    fn prove_chunk(&mut self, end: u64) -> io::Result<bool> {
        let mut head = [0; CHUNK_HEADER_BYTES_MAX];
        let count = self.file.read_at(&mut head, self.position)?;
        let Some(chunk) = ChunkHeader::parse(&head[..count]) else { return Ok(false) };
        if chunk.crc == 0 && self.believed.contains(&(self.position, 0)) {
            return Ok(true);
        }
        let found =
            if chunk.crc == 0 { self.prove_frame(end)? } else { self.prove_gathered(end, &chunk)? };
        let Some(found) = found else { return Ok(false) };
        let is_new = |entry: &IndexEntry| !self.believed.contains(&place_of(entry));
        let in_order = found
            .iter()
            .all(|(at, entry)| !is_new(entry) || entry.log_time_nanos >= self.last_log_times[at]);
        // Behind an extent that was not committed, what nobody claims would leave a hole.
        let is_adopted = |entry| is_new(entry) && !self.claimed.contains_key(&place_of(entry));
        if self.passed_extent && found.iter().any(|(_, entry)| is_adopted(entry)) {
            return Ok(false);
        }
        let times = found.iter().map(|(_, entry)| entry.log_time_nanos);
        let bounds = (times.clone().min(), times.max());
        if !in_order || bounds != (Some(chunk.start_nanos), Some(chunk.end_nanos)) {
            return Ok(false);
        }
        self.restore_message_indexes(end, &found)?;
        for (at, entry) in found {
            if !self.believed.contains(&place_of(&entry)) {
                self.indexes[at].proven.push(entry);
            }
        }
        Ok(true)
    }

    /// A chunk without a checksum: one frame, and an entry that says the same as its headers.
    fn prove_frame(&self, end: u64) -> io::Result<Option<Vec<(usize, IndexEntry)>>> {
        let start = self.position;
        let offset = start + (CHUNK_HEADER_BYTES + MESSAGE_HEADER_BYTES) as u64;
        let Some(&(at, entry)) = self.claimed.get(&(start, 0)) else { return Ok(None) };
        let mut head = [0; MESSAGE_HEADER_BYTES];
        self.file.read_at(&mut head, start + CHUNK_HEADER_BYTES as u64)?;
        let fits = MessageHeader::parse(&head).is_some_and(|message| {
            says_the_same(&message, &entry, self.indexes[at].channel_id)
                && offset + message.data_bytes == end
        });
        let whole = fits && !self.file.has_hole(start, end - start)?;
        Ok(whole.then(|| vec![(at, entry)]))
    }

    /// A chunk with a checksum that fits is what was written, whether it has entries or not.
    fn prove_gathered(
        &self,
        end: u64,
        chunk: &ChunkHeader,
    ) -> io::Result<Option<Vec<(usize, IndexEntry)>>> {
        let bytes = self.read(end)?;
        let Ok(records) = chunk.records(&bytes) else { return Ok(None) };
        if crc32fast::hash(&records) != chunk.crc {
            return Ok(None);
        }
        let mut found = Vec::new();
        let mut inner = 0;
        while inner < records.len() {
            let Some(message) = MessageHeader::parse(&records[inner..]) else { return Ok(None) };
            let member = self.members.iter();
            let member =
                member.copied().find(|(at, _)| self.indexes[*at].channel_id == message.channel_id);
            let Some((at, brick)) = member else { return Ok(None) };
            let data = CHUNK_HEADER_BYTES + inner + MESSAGE_HEADER_BYTES;
            let mut entry = IndexEntry {
                log_time_nanos: message.log_time_nanos,
                publish_time_nanos: message.publish_time_nanos,
                sequence: u64::from(message.sequence),
                offset: self.position + data as u64,
                data_bytes: message.data_bytes as u32,
                inner: inner as u32,
                brick,
                compressed: chunk.compression != Compression::None,
                repeated: false,
            };
            // The entry has all 64 bits of the sequence.
            if let Some((_, claimed)) = self.claimed.get(&place_of(&entry))
                && says_the_same(&message, claimed, message.channel_id)
            {
                entry.sequence = claimed.sequence;
                entry.repeated = claimed.repeated;
            }
            found.push((at, entry));
            inner += MESSAGE_HEADER_BYTES + message.data_bytes as usize;
        }
        Ok(Some(found))
    }

    /// The message indexes behind a proven chunk have a known length and known contents.
    fn restore_message_indexes(
        &mut self,
        end: u64,
        found: &[(usize, IndexEntry)],
    ) -> io::Result<()> {
        let mut order: Vec<usize> = Vec::new();
        for (at, _) in found {
            if !order.contains(at) {
                order.push(*at);
            }
        }
        let mut bytes = Vec::new();
        for at in order {
            let entries = found.iter().filter(|(of, _)| *of == at).map(|(_, entry)| entry);
            let places = entries.map(|entry| (entry.log_time_nanos, u64::from(entry.inner)));
            put_message_index(&mut bytes, self.indexes[at].channel_id, places);
        }
        let mut there = vec![0; bytes.len()];
        let count = self.file.read_at(&mut there, end)?;
        if there[..count] != bytes {
            self.file.write_at(&bytes, end)?;
            self.bytes = self.bytes.max(end + bytes.len() as u64);
        }
        Ok(())
    }
}

/// Tells a message of a brick from every other: its chunk, and where in it.
fn place_of(entry: &IndexEntry) -> (u64, u32) {
    (chunk_of(entry).unwrap_or(u64::MAX), entry.inner)
}

/// Where an entry's chunk begins, unless the entry makes no sense.
fn chunk_of(entry: &IndexEntry) -> Option<u64> {
    entry.checked_chunk_offset()
}

/// Whether the headers in a brick and an entry of its index describe one message.
pub(crate) fn says_the_same(message: &MessageHeader, entry: &IndexEntry, channel_id: u16) -> bool {
    message.channel_id == channel_id
        && message.sequence == entry.sequence as u32
        && message.log_time_nanos == entry.log_time_nanos
        && message.publish_time_nanos == entry.publish_time_nanos
        && message.data_bytes == u64::from(entry.data_bytes)
}
