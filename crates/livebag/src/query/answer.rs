//! The answer to a query as one MCAP file, laid out piece by piece.

use std::collections::BTreeMap;

use livebag_format::Topic;
use livebag_format::index::IndexEntry;
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, ChunkExtent, MESSAGE_HEADER_BYTES, SummaryBuilder, chunk_header,
    message_header, put_definition, put_file_start, put_message_index, put_metadata,
};

use super::{Buffer, Container, ContainerError, Cursor, NewestFirst};
use crate::limits::{
    ANSWER_CHUNK_BYTES, ANSWER_CHUNK_BYTES_MAX, ANSWER_CHUNKS_BEFORE_DOUBLING, OWN_CHUNK_BYTES_MIN,
};
use crate::storage::FilePart;

/// The library named in an answer's file.
pub(super) const LIBRARY: &str = concat!("livebag ", env!("CARGO_PKG_VERSION"));

/// Name of the metadata record in an answer that tells of damaged messages.
pub const DAMAGED_RECORD: &str = "livebag.damaged";

/// What to do with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is in the answer.
    Take,
    /// It is not.
    Skip,
    /// It is not, and neither is what would come after it.
    End,
}

/// A chunk that has been laid out.
#[derive(Clone, Debug)]
pub enum Laid {
    /// There are no more messages.
    Nothing,
    /// It is in the buffer.
    Whole,
    /// It is in the buffer up to its last message, which is this. Its end comes first in the next
    /// buffer.
    UpTo(FilePart),
}

/// The messages of a query, in one order or the other.
pub trait Messages {
    /// The next message's topic (its place in [`Container::topics`]) and index entry.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn next_entry(&mut self) -> Result<Option<(usize, IndexEntry)>, ContainerError>;
    /// Appends the message of that entry; whether it could be. One that is damaged is counted.
    ///
    /// # Errors
    /// If the brick cannot be read.
    fn append_to(&mut self, out: &mut Buffer) -> Result<bool, ContainerError>;
    /// The message of that entry in place, for use in system calls only, if possible. One that is damaged is counted.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`] if it cannot be had.
    fn reference(&mut self) -> Result<Option<FilePart>, ContainerError> {
        Ok(None)
    }
    /// Messages left out so far because they, or their index entries, are damaged: by topic, in the order of
    /// [`Container::topics`].
    fn damaged_by_topic(&self) -> &[u64];
}

impl Messages for Cursor<'_> {
    fn next_entry(&mut self) -> Result<Option<(usize, IndexEntry)>, ContainerError> {
        Cursor::next_entry(self)
    }
    fn append_to(&mut self, out: &mut Buffer) -> Result<bool, ContainerError> {
        Cursor::append_to(self, out)
    }
    fn reference(&mut self) -> Result<Option<FilePart>, ContainerError> {
        Cursor::reference(self)
    }
    fn damaged_by_topic(&self) -> &[u64] {
        Cursor::damaged_by_topic(self)
    }
}

impl Messages for NewestFirst<'_> {
    fn next_entry(&mut self) -> Result<Option<(usize, IndexEntry)>, ContainerError> {
        NewestFirst::next_entry(self)
    }
    fn append_to(&mut self, out: &mut Buffer) -> Result<bool, ContainerError> {
        NewestFirst::append_to(self, out)
    }
    fn damaged_by_topic(&self) -> &[u64] {
        NewestFirst::damaged_by_topic(self)
    }
}

/// Lays out an MCAP file with chunks and a whole summary, in memory that does not grow with the
/// answer but for some 100 bytes a chunk.
///
/// ```no_run
/// use livebag::{Container, Buffer, McapAnswer, Query};
/// let container = Container::open("run1".as_ref())?;
/// let mut cursor = container.query(&Query::default())?;
/// let mut file = Vec::new();
/// let mut buffer = Buffer::default();
/// let mut answer = McapAnswer::new(&container, &mut buffer);
/// while answer.chunk(&mut cursor, &mut buffer)? {
///     file.extend_from_slice(&buffer);
///     buffer.clear();
/// }
/// answer.finish(&mut buffer);
/// file.extend_from_slice(&buffer);
/// # Ok::<(), livebag::ContainerError>(())
/// ```
pub struct McapAnswer<'container> {
    container: &'container Container,
    /// File offset of the first byte of the next piece.
    offset: u64,
    chunks: Vec<ChunkExtent>,
    /// Topics whose channel has been written, in that order; a channel's id is its topic's place + 1.
    announced: Vec<usize>,
    is_announced: Vec<bool>,
    /// Log time, offset in the chunk and channel of each message of the chunk being laid out.
    laid_out: Vec<(u64, u64, u16)>,
    /// The end of a chunk whose last message was given in place.
    end: Vec<u8>,
    messages: u64,
    message_bytes: u64,
    /// Messages left out, by topic.
    damaged: Vec<u64>,
}

impl<'container> McapAnswer<'container> {
    /// Puts the start of the file into `out`.
    pub fn new(container: &'container Container, out: &mut Buffer) -> Self {
        let mut start = Vec::new();
        put_file_start(&mut start, container.profile(), LIBRARY);
        out.put(&start);
        Self {
            container,
            offset: start.len() as u64,
            chunks: Vec::new(),
            announced: Vec::new(),
            is_announced: vec![false; container.topics().len()],
            laid_out: Vec::new(),
            end: Vec::new(),
            messages: 0,
            message_bytes: 0,
            damaged: Vec::new(),
        }
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of those.
    pub fn message_bytes(&self) -> u64 {
        self.message_bytes
    }

    /// Appends the next chunk to `out`; false once there are no more messages. A message of 64 KiB
    /// or more ends its chunk.
    ///
    /// # Errors
    /// If index or brick cannot be read.
    pub fn chunk(
        &mut self,
        cursor: &mut Cursor<'_>,
        out: &mut Buffer,
    ) -> Result<bool, ContainerError> {
        let wanted = self.wanted_bytes();
        let laid = self.chunk_of(cursor, out, (wanted, false), &mut |_, _| Verdict::Take)?;
        Ok(!matches!(laid, Laid::Nothing))
    }

    /// The same, but a message that is available in place ends its chunk and is not copied into `out`: it follows the
    /// current contents of `out`, and may only be passed to system calls ([`Cursor::reference`]).
    ///
    /// # Errors
    /// If index or brick cannot be read.
    pub fn chunk_in_parts(
        &mut self,
        cursor: &mut Cursor<'_>,
        out: &mut Buffer,
    ) -> Result<Laid, ContainerError> {
        let wanted = self.wanted_bytes();
        self.chunk_of(cursor, out, (wanted, true), &mut |_, _| Verdict::Take)
    }

    fn wanted_bytes(&self) -> u64 {
        let doublings = self.chunks.len() / ANSWER_CHUNKS_BEFORE_DOUBLING;
        let wanted = ANSWER_CHUNK_BYTES.checked_shl(doublings as u32);
        wanted.unwrap_or(u64::MAX).min(ANSWER_CHUNK_BYTES_MAX)
    }

    /// The same from the newest message on, in chunks of `chunk_bytes`. `judge` is called for each message in turn,
    /// with its topic's place and its entry.
    ///
    /// # Errors
    /// If index or brick cannot be read.
    pub fn chunk_newest_first(
        &mut self,
        messages: &mut NewestFirst<'_>,
        out: &mut Buffer,
        chunk_bytes: u64,
        judge: &mut dyn FnMut(usize, &IndexEntry) -> Verdict,
    ) -> Result<bool, ContainerError> {
        let laid = self.chunk_of(messages, out, (chunk_bytes, false), judge)?;
        Ok(!matches!(laid, Laid::Nothing))
    }

    fn chunk_of(
        &mut self,
        messages: &mut dyn Messages,
        out: &mut Buffer,
        (wanted_bytes, in_parts): (u64, bool),
        judge: &mut dyn FnMut(usize, &IndexEntry) -> Verdict,
    ) -> Result<Laid, ContainerError> {
        out.put(&std::mem::take(&mut self.end));
        let begin = out.len();
        // Channels come in front of the chunk, and which it needs is known at its end.
        let mut channels = Vec::new();
        let head = out.len();
        out.room(CHUNK_HEADER_BYTES);
        let records = out.len();
        let (mut start_nanos, mut end_nanos) = (u64::MAX, 0);
        self.laid_out.clear();
        let mut last = None;
        while let Some((topic, entry)) = messages.next_entry()? {
            match judge(topic, &entry) {
                Verdict::Take => {}
                Verdict::Skip => continue,
                Verdict::End => break,
            }
            let inner = out.len() - records;
            let channel_id = topic as u16 + 1;
            out.put(&message_header(
                channel_id,
                entry.sequence,
                entry.log_time_nanos,
                entry.publish_time_nanos,
                u64::from(entry.data_bytes),
            ));
            let is_there = match if in_parts { messages.reference() } else { Ok(None) } {
                Ok(None) => messages.append_to(out)?,
                Ok(part) => {
                    last = part;
                    true
                }
                Err(ContainerError::Damaged { .. }) => false,
                Err(error) => return Err(error),
            };
            if !is_there {
                out.truncate(records + inner);
                continue;
            }
            self.announce(topic, &mut channels);
            self.laid_out.push((entry.log_time_nanos, inner as u64, channel_id));
            self.messages += 1;
            self.message_bytes += u64::from(entry.data_bytes);
            start_nanos = start_nanos.min(entry.log_time_nanos);
            end_nanos = end_nanos.max(entry.log_time_nanos);
            let bytes = out.len() - records;
            let is_large = entry.data_bytes as usize >= OWN_CHUNK_BYTES_MIN;
            let is_enough = is_large && wanted_bytes <= ANSWER_CHUNK_BYTES;
            if last.is_some() || bytes as u64 >= wanted_bytes || is_enough {
                break;
            }
        }
        self.damaged.clear();
        self.damaged.extend_from_slice(messages.damaged_by_topic());
        if self.laid_out.is_empty() {
            out.truncate(begin);
            return Ok(Laid::Nothing);
        }
        let last_bytes = last.as_ref().map_or(0, |part| part.len()) as u64;
        let records_bytes = (out.len() - records) as u64 + last_bytes;
        let header = chunk_header(start_nanos, end_nanos, records_bytes, 0);
        out[head..records].copy_from_slice(&header);
        let mut extent = ChunkExtent {
            offset: self.offset + channels.len() as u64,
            records_bytes,
            stored: None,
            start_nanos,
            end_nanos,
            counts: Vec::new(),
        };
        let end = self.indexes(&mut extent);
        self.chunks.push(extent);
        insert_before(out, begin, &channels);
        self.offset += (out.len() - begin + end.len()) as u64 + last_bytes;
        Ok(match last {
            None => {
                out.put(&end);
                Laid::Whole
            }
            Some(part) => {
                self.end = end;
                Laid::UpTo(part)
            }
        })
    }

    /// Puts schema and channel of a topic into `channels`, the first time.
    fn announce(&mut self, topic: usize, channels: &mut Vec<u8>) {
        if std::mem::replace(&mut self.is_announced[topic], true) {
            return;
        }
        self.announced.push(topic);
        put_topic(channels, topic as u16 + 1, self.container.topics()[topic].topic());
    }

    /// The records after a chunk.
    fn indexes(&mut self, extent: &mut ChunkExtent) -> Vec<u8> {
        // Few topics are in one chunk; their messages stay in the order of the chunk.
        self.laid_out.sort_by_key(|(_, inner, channel)| (*channel, *inner));
        let mut index = Vec::new();
        for same in self.laid_out.chunk_by(|a, b| a.2 == b.2) {
            let entries = same.iter().map(|(log_time, inner, _)| (*log_time, *inner));
            put_message_index(&mut index, same[0].2, entries);
            extent.counts.push((same[0].2, same.len() as u64));
        }
        index
    }

    /// Appends the summary and the end of the file. Before them, a metadata record [`DAMAGED_RECORD`] has the number of
    /// damaged messages left out for each topic, if there are any.
    pub fn finish(mut self, out: &mut Buffer) {
        out.put(&std::mem::take(&mut self.end));
        let damaged = damaged_topics(self.container, &self.damaged);
        let mut metadata = Vec::new();
        if !damaged.is_empty() {
            let values = damaged.iter().map(|(name, count)| (name.clone(), count.to_string()));
            let mut record = Vec::new();
            let bytes = put_metadata(&mut record, DAMAGED_RECORD, &values.collect());
            metadata.push((DAMAGED_RECORD.to_owned(), self.offset, bytes));
            self.offset += bytes;
            out.put(&record);
        }
        let topics = self.announced.iter();
        let topics = topics.map(|&at| (at as u16 + 1, self.container.topics()[at].topic()));
        let mut summary = SummaryBuilder::new(self.offset, topics);
        self.chunks.iter().for_each(|chunk| summary.chunk(chunk));
        out.put(&summary.finish(&metadata).1);
    }
}

/// Damaged messages by the names of their topics; those without are not in it.
pub fn damaged_topics(container: &Container, damaged: &[u64]) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (topic, count) in container.topics().iter().zip(damaged).filter(|(_, count)| **count > 0) {
        *all.entry(topic.topic().name.clone()).or_default() += count;
    }
    all
}

/// Schema and channel of a topic.
pub(super) fn put_topic(out: &mut Vec<u8>, id: u16, topic: &Topic) {
    put_definition(out, id, topic);
}

/// Moves what `out` has from `at` on, to make room for `bytes`.
fn insert_before(out: &mut Buffer, at: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = out.len();
    out.room(bytes.len());
    out.copy_within(at..end, at + bytes.len());
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Length of a message record in a chunk.
pub(super) fn record_bytes(data_bytes: u32) -> u64 {
    MESSAGE_HEADER_BYTES as u64 + u64::from(data_bytes)
}
