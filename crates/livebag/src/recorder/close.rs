//! The end of a recording: summaries, exact lengths, everything on the device.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::container::State;
use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES_MAX, ChunkExtent, ChunkHeader, Compression, SummaryBuilder,
};

use super::split::{Split, write_manifest};
use super::topic::SplitTopic;
use super::{RecordError, Shared};
use crate::storage::DiskFile;

/// Entries read from an index at once.
const ENTRIES_AT_ONCE: usize = 1024;
/// Bytes of a summary kept in memory before they are written.
const SUMMARY_PIECE_BYTES: usize = 1 << 20;

/// Reads an index from front to back, a piece at a time.
struct EntryReader {
    file: Arc<dyn DiskFile>,
    next: u64,
    count: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl EntryReader {
    fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let count = entry_count(file.length()?);
        Ok(Self { file, next: 0, count, buffer: Vec::new(), at: 0 })
    }

    /// The next entry, if it is in memory already and lies in the chunk at `offset`.
    fn next_of_chunk(&mut self, offset: u64, brick: u16) -> Option<IndexEntry> {
        let bytes = self.buffer.get(self.at..self.at + ENTRY_BYTES)?;
        let entry = IndexEntry::decode(bytes.try_into().expect("one entry"))?;
        let fits = entry.brick == brick && entry.chunk_offset() == offset;
        self.at += if fits { ENTRY_BYTES } else { 0 };
        fits.then_some(entry)
    }

    /// The next entry; one that the medium has spoilt is passed over.
    fn next(&mut self) -> io::Result<Option<IndexEntry>> {
        loop {
            if self.at == self.buffer.len() {
                let wanted = (self.count - self.next).min(ENTRIES_AT_ONCE as u64) as usize;
                if wanted == 0 {
                    return Ok(None);
                }
                self.buffer.resize(wanted * ENTRY_BYTES, 0);
                self.file.read_at(&mut self.buffer, entry_offset(self.next))?;
                self.next += wanted as u64;
                self.at = 0;
            }
            let bytes = self.buffer[self.at..self.at + ENTRY_BYTES].try_into().expect("one entry");
            self.at += ENTRY_BYTES;
            if let Some(entry) = IndexEntry::decode(bytes) {
                return Ok(Some(entry));
            }
        }
    }
}

/// The chunks of a brick in file order, told from the indexes of its topics alone: whatever has no
/// entry is not in the summary.
pub(crate) struct ChunkWalk {
    brick: Arc<dyn DiskFile>,
    readers: Vec<(u16, u16, EntryReader)>,
    /// (chunk's offset, offset within it, reader, entry), earliest in the file first.
    heap: BinaryHeap<Reverse<(u64, u32, usize, HeapEntry)>>,
}

/// Compared only after a place in the file, which no two entries share.
#[derive(Clone, Copy, PartialEq, Eq)]
struct HeapEntry(IndexEntry);

impl PartialOrd for HeapEntry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeapEntry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.offset.cmp(&other.0.offset)
    }
}

impl ChunkWalk {
    /// `brick` is asked for the sizes of compressed chunks. `indexes`: MCAP's channel, the brick's
    /// number in that topic's entries, the index.
    pub(crate) fn new(
        brick: Arc<dyn DiskFile>,
        indexes: Vec<(u16, u16, Arc<dyn DiskFile>)>,
    ) -> io::Result<Self> {
        let mut this = Self { brick, readers: Vec::new(), heap: BinaryHeap::new() };
        for (channel_id, brick, file) in indexes {
            this.readers.push((channel_id, brick, EntryReader::new(file)?));
            this.feed(this.readers.len() - 1)?;
        }
        Ok(this)
    }

    fn feed(&mut self, at: usize) -> io::Result<()> {
        let (_, brick, reader) = &mut self.readers[at];
        while let Some(entry) = reader.next()? {
            if entry.brick == *brick {
                let place = (entry.chunk_offset(), entry.inner, at, HeapEntry(entry));
                self.heap.push(Reverse(place));
                break;
            }
        }
        Ok(())
    }

    /// How a compressed chunk is stored, and to what length.
    fn stored(&self, offset: u64) -> io::Result<(Compression, u64)> {
        let mut head = [0; CHUNK_HEADER_BYTES_MAX];
        let count = self.brick.read_at(&mut head, offset)?;
        let header = ChunkHeader::parse(&head[..count]).ok_or_else(|| {
            let what = format!("the index names a chunk at offset {offset}, and there is none");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        Ok((header.compression, header.stored_bytes))
    }

    fn next_chunk(&mut self) -> io::Result<Option<ChunkExtent>> {
        let Some(Reverse((offset, ..))) = self.heap.peek() else { return Ok(None) };
        let mut chunk =
            ChunkExtent { offset: *offset, start_nanos: u64::MAX, ..ChunkExtent::default() };
        let mut is_compressed = false;
        while let Some(Reverse((offset, ..))) = self.heap.peek()
            && *offset == chunk.offset
        {
            let Some(Reverse((_, _, at, HeapEntry(entry)))) = self.heap.pop() else { break };
            let (channel_id, brick, reader) = &mut self.readers[at];
            let mut last = entry;
            let mut messages = 1;
            // A chunk's messages of one topic follow each other: no need of the heap for them.
            while let Some(entry) = reader.next_of_chunk(chunk.offset, *brick) {
                last = entry;
                messages += 1;
            }
            chunk.add(*channel_id, &entry, &last, messages);
            is_compressed |= entry.compressed;
            self.feed(at)?;
        }
        if is_compressed {
            chunk.stored = Some(self.stored(chunk.offset)?);
        }
        Ok(Some(chunk))
    }
}

impl Iterator for ChunkWalk {
    type Item = io::Result<ChunkExtent>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk().transpose()
    }
}

/// Ends a brick at `tail` with its summary, and gives the file's length.
pub(crate) fn write_summary(
    file: &dyn DiskFile,
    tail: u64,
    topics: &[(u16, Topic)],
    chunks: impl Iterator<Item = io::Result<ChunkExtent>>,
) -> io::Result<u64> {
    // Cut first: what was half written behind the tail must not follow the footer.
    cut(file, tail)?;
    let mut summary = SummaryBuilder::new(tail, topics.iter().map(|(id, topic)| (*id, topic)));
    for chunk in chunks {
        summary.chunk(&chunk?);
        if summary.pending_bytes() >= SUMMARY_PIECE_BYTES {
            let (at, bytes) = summary.take();
            file.write_at(&bytes, at)?;
        }
    }
    let (at, bytes) = summary.finish(&[]);
    file.write_at(&bytes, at)?;
    let end = at + bytes.len() as u64;
    cut(file, end)?;
    Ok(end)
}

/// Cutting a file that has the right length already costs a journal entry.
fn cut(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    if file.length()? == bytes { Ok(()) } else { file.set_len(bytes) }
}

/// Closed means whole and on the medium; anything else is recovered at the next opening.
pub(super) fn ended_state(closed: &Result<(), RecordError>) -> State {
    if closed.is_ok() { State::Closed } else { State::Recording }
}

impl Split {
    /// Ends all files. A later split gets its closed manifest too; the first one's is the
    /// recording's, and written last.
    pub fn close(&mut self, shared: &Shared) -> Result<(), RecordError> {
        self.drop_reserve();
        // A disk that has failed is asked first whether it still takes anything. One that does not is
        // left alone: ext4 on a device that is gone may never come back from cutting a file.
        let answers = match shared.failure() {
            Some(_) => self.sync_files(),
            None => Ok(()),
        };
        let closed = match answers {
            Ok(()) => self.close_files(),
            Err(source) => {
                self.topics.iter_mut().for_each(SplitTopic::give_up_unindexed);
                let path = self.directory.clone();
                Err(RecordError::Io { doing: "closing", path, source })
            }
        };
        if self.number == 0 {
            return closed;
        }
        if let Err(error) = &closed {
            shared.fail(error.to_string());
        }
        let failure = shared.failure().unwrap_or_default();
        let ended_nanos = shared.options.clock.wall_nanos();
        let times = (ended_nanos, ended_nanos);
        let manifest = self.manifest(ended_state(&closed), times, failure);
        let written = write_manifest(&*self.disk, &self.directory, &manifest, true);
        drop(self.take_lock());
        closed.and(written)
    }

    /// Ends every brick and every index, and makes them durable. Goes on after a failure, so that
    /// one bad file does not cost the others; gives the first.
    fn close_files(&mut self) -> Result<(), RecordError> {
        let mut outcome = Ok(());
        let mut note = |path: PathBuf, result: io::Result<()>| {
            if let Err(source) = result
                && outcome.is_ok()
            {
                outcome = Err(RecordError::Io { doing: "closing", path, source });
            }
        };
        self.topics.iter_mut().for_each(SplitTopic::index_at_last);
        self.start_write_back();
        for at in 0..self.bricks.len() {
            let path = self.bricks[at].path.clone();
            let result = self.close_brick(at);
            note(path, result);
        }
        for files in self.topics.iter().filter_map(|topic| topic.files.as_ref()) {
            note(self.directory.join(&files.index_name), files.trim_index());
        }
        note(self.directory.clone(), self.sync_files());
        outcome
    }

    /// The device works while the summaries are made.
    fn start_write_back(&self) {
        for brick in &self.bricks {
            brick.file.start_write_back(0, brick.tail);
        }
        for file in self.topics.iter().filter_map(|topic| Some(topic.files.as_ref()?.index())) {
            file.start_write_back(0, file.length().unwrap_or_default());
        }
    }

    fn close_brick(&mut self, at: usize) -> io::Result<()> {
        let repair = self.disk.open_for_repair(&self.bricks[at].path)?;
        self.bricks[at].mend(&*repair)?;
        let known = self.bricks[at].take_chunks();
        let brick = &self.bricks[at];
        let topics = brick.topics.iter().map(|topic| &self.topics[*topic]);
        let described: Vec<_> =
            topics.clone().map(|t| (t.channel_id, (*t.topic).clone())).collect();
        if let Some(chunks) = known {
            write_summary(&*repair, brick.tail, &described, chunks.into_iter().map(Ok))?;
        } else {
            let index = |t: &SplitTopic| Some((t.channel_id, 0, t.files.as_ref()?.index().clone()));
            let indexes = topics.filter_map(index).collect();
            write_summary(
                &*repair,
                brick.tail,
                &described,
                ChunkWalk::new(repair.clone(), indexes)?,
            )?;
        }
        Ok(())
    }

    fn sync_files(&self) -> io::Result<()> {
        let mut files: Vec<&Arc<dyn DiskFile>> = self.bricks.iter().map(|b| &b.file).collect();
        files.extend(self.topics.iter().filter_map(|topic| Some(topic.files.as_ref()?.index())));
        self.disk.sync_files(&files)?;
        self.disk.sync_dir(&self.directory)
    }
}
