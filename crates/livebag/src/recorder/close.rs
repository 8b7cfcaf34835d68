//! The end of a recording: summaries, exact lengths, everything on the device.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use livebag_format::container::State;
use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset};
use livebag_format::mcap::{CHUNK_HEADER_BYTES_MAX, ChunkExtent, ChunkHeader, Compression};

use super::split::{Split, write_manifest};
use super::topic::SplitTopic;
use super::{RecordError, Shared};
use crate::container::write_summary;
use crate::storage::DiskFile;

/// Entries read from an index at once.
const ENTRIES_AT_ONCE: usize = 1024;

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

    /// The next entry, if it is in memory already and belongs to the chunk at `offset`.
    fn next_of_chunk(&mut self, offset: u64, brick: u16) -> Option<IndexEntry> {
        let bytes = self.buffer.get(self.at..self.at + ENTRY_BYTES)?;
        let entry = IndexEntry::decode(bytes.try_into().expect("one entry"))?;
        let fits = entry.brick == brick && entry.checked_chunk_offset() == Some(offset);
        self.at += if fits { ENTRY_BYTES } else { 0 };
        fits.then_some(entry)
    }

    /// The next entry; damaged ones are skipped.
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

/// The chunks of a brick in file order, from the indexes of its topics: a chunk without an entry is not in the summary.
/// Entries are in the order of commitment, and chunks are not: all of them are collected (some 100 bytes each), and
/// then sorted.
///
/// `brick` is asked for the sizes of compressed chunks. `indexes`: MCAP's channel, and the index.
fn chunks_of(
    brick: &dyn DiskFile,
    indexes: Vec<(u16, Arc<dyn DiskFile>)>,
) -> io::Result<Vec<ChunkExtent>> {
    // With the place of a topic's first message in the chunk, in whose order message indexes follow.
    let mut parts: Vec<(u64, u32, ChunkExtent)> = Vec::new();
    for (channel_id, file) in indexes {
        let mut reader = EntryReader::new(file)?;
        while let Some(first) = reader.next()? {
            let Some(offset) = first.checked_chunk_offset() else { continue };
            let mut last = first;
            let mut messages = 1;
            while let Some(entry) = reader.next_of_chunk(offset, first.brick) {
                last = entry;
                messages += 1;
            }
            let mut part = ChunkExtent { offset, start_nanos: u64::MAX, ..ChunkExtent::default() };
            part.add(channel_id, &first, &last, messages);
            part.stored = first.compressed.then_some((Compression::None, 0));
            parts.push((offset, first.inner, part));
        }
    }
    parts.sort_by_key(|(offset, inner, _)| (*offset, *inner));
    let mut chunks: Vec<ChunkExtent> = Vec::new();
    for (_, _, part) in parts {
        match chunks.last_mut() {
            Some(chunk) if chunk.offset == part.offset => chunk.join(&part),
            _ => chunks.push(part),
        }
    }
    for chunk in chunks.iter_mut().filter(|chunk| chunk.stored.is_some()) {
        chunk.stored = Some(stored(brick, chunk.offset)?);
    }
    Ok(chunks)
}

/// How a compressed chunk is stored, and to what length.
fn stored(brick: &dyn DiskFile, offset: u64) -> io::Result<(Compression, u64)> {
    let mut head = [0; CHUNK_HEADER_BYTES_MAX];
    let count = brick.read_at(&mut head, offset)?;
    let header = ChunkHeader::parse(&head[..count]).ok_or_else(|| {
        let what = format!("the index names a chunk at offset {offset}, and there is none");
        io::Error::new(io::ErrorKind::InvalidData, what)
    })?;
    Ok((header.compression, header.stored_bytes))
}

/// Closed means whole and on the medium; anything else is recovered at the next opening.
pub(super) fn ended_state(is_whole: bool) -> State {
    if is_whole { State::Closed } else { State::Recording }
}

impl Split {
    /// Ends all files. A later split gets its closed manifest too; the first one's is the
    /// recording's, and written last.
    pub fn close(&mut self, shared: &Shared) -> Result<(), Arc<RecordError>> {
        self.drop_reserve();
        // A disk that has failed is asked first whether it still takes anything. A correct one is not changed: ext4 on
        // a missing device may never return from a truncation.
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
        let closed = closed.map_err(Arc::new);
        if self.number == 0 {
            return closed;
        }
        if let Err(error) = &closed {
            shared.fail(error.clone());
        }
        let failure = shared.failure_text();
        let ended_nanos = shared.options.clock.wall_nanos();
        let times = (ended_nanos, ended_nanos);
        let manifest = self.manifest(ended_state(closed.is_ok()), times, failure);
        let written = write_manifest(&*self.disk, &self.directory, &manifest, true);
        drop(self.take_lock());
        closed.and(written.map_err(Arc::new))
    }

    /// Ends every brick and every index, and makes them durable. Continues after a failure, so that one bad file does
    /// not affect the others; returns the first failure.
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
        let chunks = match known {
            Some(chunks) => chunks,
            None => {
                let index =
                    |t: &SplitTopic| Some((t.channel_id, t.files.as_ref()?.index().clone()));
                chunks_of(&*repair, topics.filter_map(index).collect())?
            }
        };
        write_summary(&*repair, brick.tail, &described, chunks.into_iter().map(Ok))?;
        Ok(())
    }

    fn sync_files(&self) -> io::Result<()> {
        let mut files: Vec<&Arc<dyn DiskFile>> = self.bricks.iter().map(|b| &b.file).collect();
        files.extend(self.topics.iter().filter_map(|topic| Some(topic.files.as_ref()?.index())));
        self.disk.sync_files(&files)?;
        self.disk.sync_dir(&self.directory)
    }
}
