//! A finished MCAP file that exists nowhere: any range of it is built when it is asked for.
//!
//! It is built from a container's time indexes, finished or live, so that programs that open files by HTTP
//! ranges open a recording that is still being written. Bytes that have been served do not change while the
//! recording grows:
//!
//! ```text
//! start │ carried │ chunk … │ events │ jump │ summary 1 │ carried │ chunk … │ events │ jump │ summary 2 │ …
//!                                   ends the file until somebody opens it again
//! ```
//!
//! Carried are attachments and metadata records: all that there are when the file is opened and that it has not.
//!
//! A reader asks for the length once, reads the summary at that end, and the chunks that it names. When the
//! file is opened again, it continues behind the old summary. The jump, an empty padding record until then, now
//! spans that summary, so that a reader of the longer file skips it. All other bytes stay the same: readers of
//! the shorter file are not disturbed, and the server need not tell clients apart.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, ChunkExtent, MESSAGE_INDEX_ENTRY_BYTES, MESSAGE_INDEX_HEADER_BYTES,
    RECORD_HEADER_BYTES, SummaryBuilder, put_file_start,
};

use super::answer::{LIBRARY, put_topic, record_bytes};
use super::{Container, ContainerError, Query, Segment, Span};
use crate::limits::{VIRTUAL_CHUNK_BYTES, VIRTUAL_CHUNK_SPAN, VIRTUAL_CHUNKS_MAX};

mod carried;
mod read;

use carried::{Carried, Noted, Taken};

/// Why a virtual file cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VirtualFileError {
    /// The container.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// Its summary would be too large to be read at once.
    #[error(
        "one file of that much would have more than {VIRTUAL_CHUNKS_MAX} chunks, whose index no reader \
         could hold: choose topics, or a shorter time"
    )]
    TooLong,
    /// Names of attachments and metadata records would take too much memory.
    #[error(
        "the attachments and metadata records of this recording are more than one file on the fly can \
         hold: `livebag convert` makes one"
    )]
    TooMuchCarried,
    /// Retention has removed the split meanwhile.
    #[error("that part of the recording has been removed to keep within its limits")]
    Gone,
    /// Topics are chosen by name, and names change nothing once a file has been begun.
    #[error("a virtual file needs fixed times: use from=… and to=… instead of latest")]
    Latest,
}

/// Index entries read at once.
const ENTRIES_AT_ONCE: usize = 4096;
/// Summaries kept as they are; older ones are laid out again.
const SUMMARIES_KEPT: usize = 2;

/// See the module's description.
pub struct VirtualFile {
    topics: Vec<String>,
    from: u64,
    to: u64,
    /// In the order of appearance: a channel's id is its place here + 1.
    channels: Vec<Topic>,
    sources: Vec<Source>,
    /// Source by index file.
    by_index: HashMap<PathBuf, usize>,
    pieces: Vec<Piece>,
    bytes: u64,
    chunks: usize,
    messages: u64,
    carried: Taken,
    /// Summary by its piece's place, the newest last.
    kept: Vec<(usize, Arc<[u8]>)>,
}

/// A topic's part of one split.
struct Source {
    /// `None` once the split has been removed.
    segment: Option<Arc<Segment>>,
    channel_id: u16,
    /// Entries up to this one are in the file.
    seen: u64,
}

/// A part of the file.
struct Piece {
    /// Where it begins.
    offset: u64,
    kind: Kind,
}

enum Kind {
    Bytes(Arc<[u8]>),
    Chunk(Chunk),
    Attachment(Box<Carried>),
    Metadata(Box<Noted>),
    /// The record in front of a summary that spans it once the file has gone on behind it.
    Jump,
    /// Of all pieces before it and the first so many channels.
    Summary(usize),
}

/// Consecutive messages of one source.
#[derive(Clone, Debug)]
struct Chunk {
    source: u32,
    count: u32,
    first: u64,
    start_nanos: u64,
    end_nanos: u64,
    records_bytes: u64,
}

impl Chunk {
    /// The chunk and its message index.
    fn total_bytes(&self) -> u64 {
        CHUNK_HEADER_BYTES as u64
            + self.records_bytes
            + MESSAGE_INDEX_HEADER_BYTES as u64
            + u64::from(self.count) * MESSAGE_INDEX_ENTRY_BYTES as u64
    }
}

impl VirtualFile {
    /// The file of a query's messages as they are now.
    ///
    /// # Errors
    /// If a topic is not there, an index cannot be read, or there are too many chunks; or for
    /// [`Span::Latest`].
    pub fn new(container: &Container, query: &Query) -> Result<Self, VirtualFileError> {
        let (from, to) = match query.span {
            Span::All => (0, u64::MAX),
            Span::History(from, to) => (from, to),
            Span::Latest(_) => return Err(VirtualFileError::Latest),
        };
        container.choose(&query.topics)?;
        let mut start = Vec::new();
        put_file_start(&mut start, container.profile(), LIBRARY);
        let mut this = Self {
            topics: query.topics.clone(),
            from,
            to,
            channels: Vec::new(),
            sources: Vec::new(),
            by_index: HashMap::new(),
            pieces: Vec::new(),
            bytes: 0,
            chunks: 0,
            messages: 0,
            carried: Taken::default(),
            kept: Vec::new(),
        };
        this.add_bytes(start);
        this.extend(container)?;
        this.add_summary();
        Ok(this)
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "it has a start and an end at least")]
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Messages in it.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Memory that it takes, about.
    pub fn memory_bytes(&self) -> usize {
        let kept: usize = self.kept.iter().map(|(_, bytes)| bytes.len()).sum();
        self.pieces.len() * size_of::<Piece>() + self.carried.bytes + kept
    }

    /// Extends the file with messages recorded meanwhile; returns whether there were any. `container` is the same
    /// container, opened again if it has new splits or topics.
    ///
    /// # Errors
    /// As [`VirtualFile::new`]; the file is as it was then.
    pub fn grow(&mut self, container: &Container) -> Result<bool, VirtualFileError> {
        let (pieces, bytes, channels) = (self.pieces.len(), self.bytes, self.channels.len());
        let (sources, chunks, messages) = (self.sources.len(), self.chunks, self.messages);
        let carried = self.carried.mark();
        let seen: Vec<u64> = self.sources.iter().map(|source| source.seen).collect();
        let extended = self.extend(container);
        if extended.is_ok() && self.pieces.len() > pieces {
            self.add_summary();
            return Ok(true);
        }
        self.pieces.truncate(pieces);
        self.channels.truncate(channels);
        self.sources.truncate(sources);
        self.by_index.retain(|_, at| *at < sources);
        for (source, seen) in self.sources.iter_mut().zip(seen) {
            source.seen = seen;
        }
        (self.bytes, self.chunks, self.messages) = (bytes, chunks, messages);
        self.carried.back_to(carried);
        extended.map(|()| false)
    }

    fn add(&mut self, kind: Kind, bytes: u64) {
        self.pieces.push(Piece { offset: self.bytes, kind });
        self.bytes += bytes;
    }

    fn add_bytes(&mut self, bytes: Vec<u8>) {
        let count = bytes.len() as u64;
        self.add(Kind::Bytes(bytes.into()), count);
    }

    /// Adds what `container` has and the file has not.
    fn extend(&mut self, container: &Container) -> Result<(), VirtualFileError> {
        // They belong to the recording as a whole, whichever topics and times are chosen.
        for attachment in self.carried.attachments(container)? {
            let bytes = attachment.head.record_bytes;
            self.add(Kind::Attachment(Box::new(attachment)), bytes);
        }
        for noted in self.carried.metadata(container)? {
            let bytes = noted.record.len() as u64;
            self.add(Kind::Metadata(Box::new(noted)), bytes);
        }
        self.find_sources(container)?;
        let mut chunks = Vec::new();
        for at in 0..self.sources.len() {
            self.plan(at, &mut chunks)?;
        }
        // Reading the file in order, times increase as far as chunks allow.
        chunks.sort_by_key(|chunk| chunk.start_nanos);
        for chunk in chunks {
            self.chunks += 1;
            self.messages += u64::from(chunk.count);
            let bytes = chunk.total_bytes();
            self.add(Kind::Chunk(chunk), bytes);
        }
        // Behind the chunks, which stay where they are when a finished recording gets an event.
        for noted in self.carried.events(container)? {
            let bytes = noted.record.len() as u64;
            self.add(Kind::Metadata(Box::new(noted)), bytes);
        }
        Ok(())
    }

    fn find_sources(&mut self, container: &Container) -> Result<(), VirtualFileError> {
        let chosen = match self.topics.is_empty() {
            true => (0..container.topics.len()).collect(),
            // A topic that was there may have gone with the split that had it.
            false => {
                let is_wanted =
                    |&at: &usize| self.topics.contains(&container.topics[at].topic.name);
                (0..container.topics.len()).filter(is_wanted).collect::<Vec<_>>()
            }
        };
        let mut present = vec![false; self.sources.len()];
        let mut new_channels = Vec::new();
        // Of topics that are equal, the how many-th.
        let mut taken: Vec<bool> = vec![false; self.channels.len()];
        for at in chosen {
            let topic = &container.topics[at];
            let known = self.channels.iter().enumerate();
            let mut same = known.filter(|(at, known)| {
                !taken.get(*at).copied().unwrap_or(true) && **known == topic.topic
            });
            let channel = match same.next() {
                Some((channel, _)) => channel,
                None => {
                    self.channels.push(topic.topic.clone());
                    let id = self.channels.len() as u16;
                    put_topic(&mut new_channels, id, &topic.topic);
                    self.channels.len() - 1
                }
            };
            if let Some(taken) = taken.get_mut(channel) {
                *taken = true;
            }
            for segment in &topic.segments {
                let index = segment.index.path();
                if let Some(&known) = self.by_index.get(index) {
                    present[known] = true;
                    self.sources[known].segment = Some(segment.clone());
                    continue;
                }
                let first = segment.between(self.from, self.to)?.start;
                self.by_index.insert(index.to_owned(), self.sources.len());
                self.sources.push(Source {
                    segment: Some(segment.clone()),
                    channel_id: channel as u16 + 1,
                    seen: first,
                });
            }
        }
        for (source, _) in self.sources.iter_mut().zip(present).filter(|(_, present)| !present) {
            source.segment = None;
        }
        if !new_channels.is_empty() {
            self.add_bytes(new_channels);
        }
        Ok(())
    }

    /// Divides new messages of a source into chunks.
    fn plan(&mut self, at: usize, chunks: &mut Vec<Chunk>) -> Result<(), VirtualFileError> {
        let source = &mut self.sources[at];
        let Some(segment) = &source.segment else { return Ok(()) };
        let end = segment.between(self.from, self.to)?.end;
        let span_nanos = VIRTUAL_CHUNK_SPAN.as_nanos() as u64;
        let mut entries = Vec::new();
        let mut open: Option<Chunk> = None;
        while source.seen < end {
            // An entry that the medium has spoilt ends a chunk, whose messages are consecutive.
            let block = source.seen..end.min(source.seen + ENTRIES_AT_ONCE as u64);
            let looked = segment.index.entries(block.clone(), ENTRIES_AT_ONCE, &mut entries)?;
            let all_whole = entries.len() as u64 == looked;
            for (nth, number) in block.enumerate() {
                let entry = match all_whole {
                    true => entries[nth],
                    false => match segment.index.first_whole(number..number + 1)? {
                        Some((_, entry)) => entry,
                        None => {
                            chunks.extend(open.take());
                            continue;
                        }
                    },
                };
                let bytes = record_bytes(entry.data_bytes);
                if let Some(chunk) = &mut open
                    && chunk.records_bytes + bytes <= VIRTUAL_CHUNK_BYTES
                    && entry.log_time_nanos.saturating_sub(chunk.start_nanos) < span_nanos
                {
                    chunk.count += 1;
                    chunk.records_bytes += bytes;
                    chunk.end_nanos = entry.log_time_nanos;
                    continue;
                }
                chunks.extend(open.take());
                if self.chunks + chunks.len() >= VIRTUAL_CHUNKS_MAX {
                    return Err(VirtualFileError::TooLong);
                }
                open = Some(Chunk {
                    source: at as u32,
                    count: 1,
                    first: number,
                    start_nanos: entry.log_time_nanos,
                    end_nanos: entry.log_time_nanos,
                    records_bytes: bytes,
                });
            }
            source.seen += looked;
        }
        chunks.extend(open);
        Ok(())
    }

    /// Ends the file, for now.
    fn add_summary(&mut self) {
        self.add(Kind::Jump, RECORD_HEADER_BYTES as u64);
        let at = self.pieces.len();
        let summary: Arc<[u8]> = self.summary(at, self.bytes, self.channels.len()).into();
        if self.kept.len() == SUMMARIES_KEPT {
            self.kept.remove(0);
        }
        self.kept.push((at, summary.clone()));
        self.add(Kind::Summary(self.channels.len()), summary.len() as u64);
    }

    /// The summary of the first `pieces` pieces and `channels` channels, which begins at `offset`.
    fn summary(&self, pieces: usize, offset: u64, channels: usize) -> Vec<u8> {
        let topics = self.channels[..channels].iter().enumerate();
        let topics = topics.map(|(at, topic)| (at as u16 + 1, topic));
        let mut builder = SummaryBuilder::new(offset, topics);
        let pieces = &self.pieces[..pieces];
        for piece in pieces {
            if let Kind::Chunk(chunk) = &piece.kind {
                let channel_id = self.sources[chunk.source as usize].channel_id;
                builder.chunk(&ChunkExtent {
                    offset: piece.offset,
                    records_bytes: chunk.records_bytes,
                    stored: None,
                    start_nanos: chunk.start_nanos,
                    end_nanos: chunk.end_nanos,
                    counts: vec![(channel_id, u64::from(chunk.count))],
                });
            }
        }
        builder.attachments(pieces.iter().filter_map(|piece| match &piece.kind {
            Kind::Attachment(carried) => Some((piece.offset, &carried.head)),
            _ => None,
        }));
        let metadata = pieces.iter().filter_map(|piece| match &piece.kind {
            Kind::Metadata(noted) => {
                Some((noted.name.clone(), piece.offset, noted.record.len() as u64))
            }
            _ => None,
        });
        builder.finish(&metadata.collect::<Vec<_>>()).1
    }
}
