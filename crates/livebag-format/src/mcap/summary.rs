//! The summary section of a brick, built piece by piece so that its size in memory stays small.

use std::collections::BTreeMap;

use super::{
    AttachmentHead, Compression, MAGIC, opcode, put_channel, put_record, put_schema, put_string,
    schema_id,
};
use crate::Topic;
use crate::index::IndexEntry;

/// Where a chunk lies, and whose messages it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkExtent {
    /// File offset of the chunk record.
    pub offset: u64,
    /// Length of the message records in it, before compression.
    pub records_bytes: u64,
    /// If they are compressed: how, and to what length.
    pub stored: Option<(Compression, u64)>,
    /// Earliest log time.
    pub start_nanos: u64,
    /// Latest log time.
    pub end_nanos: u64,
    /// For each channel, in the order of their message index records: the number of messages.
    pub counts: Vec<(u16, u64)>,
}

impl ChunkExtent {
    /// Length of the chunk record.
    pub fn chunk_bytes(&self) -> u64 {
        let (compression, stored_bytes) = self.stored.unwrap_or_else(|| self.plain());
        (super::CHUNK_HEADER_BYTES + compression.name().len()) as u64 + stored_bytes
    }

    fn plain(&self) -> (Compression, u64) {
        (Compression::None, self.records_bytes)
    }

    /// Adds the messages of another part of the same chunk.
    pub fn join(&mut self, part: &Self) {
        self.records_bytes = self.records_bytes.max(part.records_bytes);
        self.start_nanos = self.start_nanos.min(part.start_nanos);
        self.end_nanos = self.end_nanos.max(part.end_nanos);
        self.stored = self.stored.or(part.stored);
        for (id, count) in &part.counts {
            match self.counts.iter_mut().find(|(known, _)| known == id) {
                Some((_, counted)) => *counted += count,
                None => self.counts.push((*id, *count)),
            }
        }
    }

    /// Adds `count` messages of a channel, from `first` to `last` in the chunk's order.
    pub fn add(&mut self, channel_id: u16, first: &IndexEntry, last: &IndexEntry, count: u64) {
        self.records_bytes = self.records_bytes.max(last.inner_end());
        self.start_nanos = self.start_nanos.min(first.log_time_nanos);
        self.end_nanos = self.end_nanos.max(last.log_time_nanos);
        match self.counts.iter_mut().find(|(id, _)| *id == channel_id) {
            Some((_, counted)) => *counted += count,
            None => self.counts.push((channel_id, count)),
        }
    }
}

/// Writes DataEnd, the summary and the footer.
///
/// Feed the chunks in file order, and take the finished bytes with [`SummaryBuilder::take`] at any time; they follow
/// each other in the file from `offset` on.
pub struct SummaryBuilder {
    out: Vec<u8>,
    /// File offset of `out[0]`.
    offset: u64,
    summary_start: u64,
    crc: crc32fast::Hasher,
    crc_done: usize,
    groups: Vec<(u8, u64, u64)>,
    schema_count: u16,
    channel_counts: BTreeMap<u16, u64>,
    chunk_count: u32,
    attachment_count: u32,
    chunk_group_start: u64,
    start_nanos: u64,
    end_nanos: u64,
}

impl SummaryBuilder {
    /// Begins at file offset `offset` with DataEnd, then repeats all schemas and channels.
    pub fn new<'a>(offset: u64, topics: impl Iterator<Item = (u16, &'a Topic)> + Clone) -> Self {
        let mut out = Vec::new();
        put_record(&mut out, opcode::DATA_END, |body| body.extend_from_slice(&[0; 4]));
        let data_end_bytes = out.len();
        let mut this = Self {
            out,
            offset,
            summary_start: offset + data_end_bytes as u64,
            crc: crc32fast::Hasher::new(),
            crc_done: data_end_bytes,
            groups: Vec::new(),
            schema_count: 0,
            channel_counts: BTreeMap::new(),
            chunk_count: 0,
            attachment_count: 0,
            chunk_group_start: 0,
            start_nanos: u64::MAX,
            end_nanos: 0,
        };
        let start = this.position();
        for (id, topic) in topics.clone() {
            if topic.has_schema() {
                put_schema(&mut this.out, id, topic);
                this.schema_count += 1;
            }
        }
        this.close_group(opcode::SCHEMA, start);
        let start = this.position();
        for (id, topic) in topics {
            put_channel(&mut this.out, id, schema_id(id, topic), topic);
            this.channel_counts.insert(id, 0);
        }
        this.close_group(opcode::CHANNEL, start);
        this.chunk_group_start = this.position();
        this
    }

    fn position(&self) -> u64 {
        self.offset + self.out.len() as u64
    }

    fn close_group(&mut self, group: u8, start: u64) {
        let bytes = self.position() - start;
        if bytes > 0 {
            self.groups.push((group, start, bytes));
        }
    }

    /// Adds a chunk's index. Chunks come in file order.
    pub fn chunk(&mut self, chunk: &ChunkExtent) {
        let chunk_bytes = chunk.chunk_bytes();
        let (compression, stored_bytes) = chunk.stored.unwrap_or_else(|| chunk.plain());
        put_record(&mut self.out, opcode::CHUNK_INDEX, |body| {
            body.extend_from_slice(&chunk.start_nanos.to_le_bytes());
            body.extend_from_slice(&chunk.end_nanos.to_le_bytes());
            body.extend_from_slice(&chunk.offset.to_le_bytes());
            body.extend_from_slice(&chunk_bytes.to_le_bytes());
            body.extend_from_slice(&(chunk.counts.len() as u32 * 10).to_le_bytes());
            let mut index_offset = chunk.offset + chunk_bytes;
            let index_start = index_offset;
            for &(channel_id, count) in &chunk.counts {
                body.extend_from_slice(&channel_id.to_le_bytes());
                body.extend_from_slice(&index_offset.to_le_bytes());
                index_offset += super::MESSAGE_INDEX_HEADER_BYTES as u64
                    + count * super::MESSAGE_INDEX_ENTRY_BYTES as u64;
            }
            body.extend_from_slice(&(index_offset - index_start).to_le_bytes());
            put_string(body, compression.name().as_bytes());
            body.extend_from_slice(&stored_bytes.to_le_bytes());
            body.extend_from_slice(&chunk.records_bytes.to_le_bytes());
        });
        self.chunk_count += 1;
        self.start_nanos = self.start_nanos.min(chunk.start_nanos);
        self.end_nanos = self.end_nanos.max(chunk.end_nanos);
        for &(channel_id, count) in &chunk.counts {
            *self.channel_counts.entry(channel_id).or_default() += count;
        }
    }

    /// Adds the index of attachments, each with where it lies; behind all chunks.
    pub fn attachments<'a>(
        &mut self,
        attachments: impl Iterator<Item = (u64, &'a AttachmentHead)>,
    ) {
        self.close_group(opcode::CHUNK_INDEX, self.chunk_group_start);
        let start = self.position();
        for (offset, head) in attachments {
            put_record(&mut self.out, opcode::ATTACHMENT_INDEX, |body| {
                body.extend_from_slice(&offset.to_le_bytes());
                body.extend_from_slice(&head.record_bytes.to_le_bytes());
                body.extend_from_slice(&head.log_time_nanos.to_le_bytes());
                body.extend_from_slice(&head.create_time_nanos.to_le_bytes());
                body.extend_from_slice(&head.data_bytes.to_le_bytes());
                put_string(body, head.name.as_bytes());
                put_string(body, head.media_type.as_bytes());
            });
            self.attachment_count += 1;
        }
        self.close_group(opcode::ATTACHMENT_INDEX, start);
        self.chunk_group_start = self.position();
    }

    /// Adds the metadata index and the statistics. `metadata` is where each metadata record lies:
    /// name, offset, length.
    fn statistics(&mut self, metadata: &[(String, u64, u64)]) {
        self.close_group(opcode::CHUNK_INDEX, self.chunk_group_start);
        let start = self.position();
        for (name, offset, bytes) in metadata {
            put_record(&mut self.out, opcode::METADATA_INDEX, |body| {
                body.extend_from_slice(&offset.to_le_bytes());
                body.extend_from_slice(&bytes.to_le_bytes());
                put_string(body, name.as_bytes());
            });
        }
        self.close_group(opcode::METADATA_INDEX, start);
        let start = self.position();
        let message_count: u64 = self.channel_counts.values().sum();
        let start_nanos = if message_count == 0 { 0 } else { self.start_nanos };
        put_record(&mut self.out, opcode::STATISTICS, |body| {
            body.extend_from_slice(&message_count.to_le_bytes());
            body.extend_from_slice(&self.schema_count.to_le_bytes());
            body.extend_from_slice(&(self.channel_counts.len() as u32).to_le_bytes());
            body.extend_from_slice(&self.attachment_count.to_le_bytes());
            body.extend_from_slice(&(metadata.len() as u32).to_le_bytes());
            body.extend_from_slice(&self.chunk_count.to_le_bytes());
            body.extend_from_slice(&start_nanos.to_le_bytes());
            body.extend_from_slice(&self.end_nanos.to_le_bytes());
            body.extend_from_slice(&(self.channel_counts.len() as u32 * 10).to_le_bytes());
            for (channel_id, count) in &self.channel_counts {
                body.extend_from_slice(&channel_id.to_le_bytes());
                body.extend_from_slice(&count.to_le_bytes());
            }
        });
        self.close_group(opcode::STATISTICS, start);
    }

    /// Takes the bytes that are finished; they go to the file at the returned offset.
    pub fn take(&mut self) -> (u64, Vec<u8>) {
        self.crc.update(&self.out[self.crc_done..]);
        self.crc_done = 0;
        let at = self.offset;
        self.offset += self.out.len() as u64;
        (at, std::mem::take(&mut self.out))
    }

    /// Bytes that [`SummaryBuilder::take`] would give now.
    pub fn pending_bytes(&self) -> usize {
        self.out.len()
    }

    /// Ends the file: statistics, summary offsets, footer, magic. Gives the last bytes and where
    /// they go.
    pub fn finish(mut self, metadata: &[(String, u64, u64)]) -> (u64, Vec<u8>) {
        self.statistics(metadata);
        let offsets_start = self.position();
        for (group, start, bytes) in std::mem::take(&mut self.groups) {
            put_record(&mut self.out, opcode::SUMMARY_OFFSET, |body| {
                body.push(group);
                body.extend_from_slice(&start.to_le_bytes());
                body.extend_from_slice(&bytes.to_le_bytes());
            });
        }
        self.out.push(opcode::FOOTER);
        self.out.extend_from_slice(&20u64.to_le_bytes());
        self.out.extend_from_slice(&self.summary_start.to_le_bytes());
        self.out.extend_from_slice(&offsets_start.to_le_bytes());
        self.crc.update(&self.out[self.crc_done..]);
        let crc = self.crc.clone().finalize();
        self.out.extend_from_slice(&crc.to_le_bytes());
        self.out.extend_from_slice(&MAGIC);
        (self.offset, self.out)
    }

    /// Messages so far, by channel.
    pub fn channel_counts(&self) -> &BTreeMap<u16, u64> {
        &self.channel_counts
    }
}
