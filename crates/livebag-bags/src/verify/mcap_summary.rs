//! The end of an MCAP file: DataEnd, summary, footer.

use std::io;

use livebag_format::mcap::{MAGIC, RECORD_HEADER_BYTES, RecordHeader, opcode};
use mcap::records::{Footer, Record, Statistics};

use super::mcap_file::Walk;

/// The footer record.
const FOOTER_BYTES: u64 = RECORD_HEADER_BYTES as u64 + 8 + 8 + 4;
/// Longest record of a summary.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Bytes read at once for a checksum.
const PIECE_BYTES: usize = 1 << 20;

impl Walk<'_, '_> {
    fn footer_at(&self) -> Option<u64> {
        self.length.checked_sub(FOOTER_BYTES + MAGIC.len() as u64)
    }

    fn footer(&self) -> io::Result<Option<Footer>> {
        let Some(at) = self.footer_at() else { return Ok(None) };
        let mut bytes = [0; FOOTER_BYTES as usize];
        self.file.read_at(&mut bytes, at)?;
        let is_footer = RecordHeader::parse(&bytes).is_some_and(|record| {
            record.opcode == opcode::FOOTER && record.total_bytes() == Some(FOOTER_BYTES)
        });
        match mcap::parse_record(opcode::FOOTER, &bytes[RECORD_HEADER_BYTES..]) {
            Ok(Record::Footer(footer)) if is_footer => Ok(Some(footer)),
            _ => Ok(None),
        }
    }

    /// Places of chunks according to the summary, as far as it can be read.
    pub(super) fn chunks_of_summary(&mut self) -> io::Result<Vec<u64>> {
        let mut chunks = Vec::new();
        let (Some(footer), Some(end)) = (self.footer()?, self.footer_at()) else {
            return Ok(chunks);
        };
        if footer.summary_start == 0 {
            return Ok(chunks);
        }
        let mut at = footer.summary_start;
        while at < end {
            let mut head = [0; RECORD_HEADER_BYTES + 24];
            let count = self.file.read_at(&mut head, at)?;
            let Some(record) = RecordHeader::parse(&head[..count]) else { break };
            if record.opcode == opcode::CHUNK_INDEX && record.body_bytes > 24 {
                let start = &head[RECORD_HEADER_BYTES + 16..];
                chunks.push(u64::from_le_bytes(start.try_into().expect("eight bytes")));
            }
            match record.total_bytes().and_then(|bytes| at.checked_add(bytes)) {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(chunks)
    }

    /// CRC-32 of a part of the file.
    fn crc(&self, from: u64, to: u64) -> io::Result<u32> {
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = from;
        while at < to {
            let wanted = PIECE_BYTES.min((to - at) as usize);
            let count = self.file.read_at(&mut piece[..wanted], at)?;
            if count == 0 {
                break;
            }
            hasher.update(&piece[..count]);
            at += count as u64;
        }
        Ok(hasher.finalize())
    }

    /// Checks everything from DataEnd, which is at `position` and ends at `end`, to the file's end.
    pub(super) fn end_of_data(&mut self, end: u64) -> io::Result<()> {
        let data_end_at = self.position;
        if self.load(end, RECORD_BYTES_MAX)?
            && let Some(Record::DataEnd(record)) = self.parse()
            && record.data_section_crc != 0
        {
            self.check.verified.checksums += 1;
            if self.crc(0, data_end_at)? != record.data_section_crc {
                self.damage(data_end_at, "the checksum of the data section does not match");
            }
        }
        let mut magic = [0; MAGIC.len()];
        self.file.read_at(&mut magic, self.length.saturating_sub(MAGIC.len() as u64))?;
        if magic != MAGIC {
            self.damage(self.length, "it does not end as an MCAP: cut, or not closed");
        }
        let Some(footer) = self.footer()? else {
            self.damage(self.footer_at(), "there is no footer where it should be");
            return Ok(());
        };
        let footer_at = self.length - FOOTER_BYTES - MAGIC.len() as u64;
        if footer.summary_start == 0 {
            // A file without a summary is one that its writer made so.
            return Ok(());
        }
        if footer.summary_crc != 0 && footer.summary_start <= footer_at {
            self.check.verified.checksums += 1;
            // Up to the checksum itself.
            let to = self.length - MAGIC.len() as u64 - 4;
            if self.crc(footer.summary_start, to)? != footer.summary_crc {
                self.damage(footer.summary_start, "the checksum of the summary does not match");
            }
        }
        if footer.summary_start != end {
            let what = format!("the footer says that the summary is at {}", footer.summary_start);
            self.damage(end, what);
            return Ok(());
        }
        self.position = end;
        self.summary(footer_at)
    }

    fn summary(&mut self, footer_at: u64) -> io::Result<()> {
        let mut told = Told::default();
        while self.position < footer_at {
            let Some((record, end)) = self.record()?.filter(|(_, end)| *end <= footer_at) else {
                self.damage(self.position, "the summary has something that is no whole record");
                return Ok(());
            };
            if record.opcode <= opcode::DATA_END && self.load(end, RECORD_BYTES_MAX)? {
                match self.parse() {
                    Some(Record::ChunkIndex(index)) => {
                        told.chunks += 1;
                        self.chunk_index(&index);
                    }
                    Some(record @ (Record::Schema { .. } | Record::Channel(_))) => {
                        let crc = self.body_crc();
                        self.define(&record, crc);
                    }
                    Some(Record::Statistics(statistics)) => told.statistics = Some(statistics),
                    Some(Record::MetadataIndex(index)) => {
                        let place = (index.offset, index.length);
                        if !self.contents.metadata.contains(&place) && !self.skipped {
                            self.damage(self.position, "a metadata index points to no metadata");
                        }
                    }
                    Some(Record::AttachmentIndex(index)) => {
                        let place = (index.offset, index.length);
                        if !self.contents.attachments.contains(&place) && !self.skipped {
                            self.damage(self.position, "an attachment index points to none");
                        }
                    }
                    _ => {}
                }
            }
            self.position = end;
        }
        // Unreadable parts cannot be counted: they have been reported.
        if !self.skipped {
            self.compare(&told, footer_at);
        }
        Ok(())
    }

    fn chunk_index(&mut self, index: &mcap::records::ChunkIndex) {
        let chunks = &self.contents.chunks;
        let at = chunks.partition_point(|chunk| chunk.offset < index.chunk_start_offset);
        let found = chunks.get(at).filter(|chunk| chunk.offset == index.chunk_start_offset);
        let fits = found.is_some_and(|chunk| {
            chunk.bytes == index.chunk_length
                && chunk.start_nanos == index.message_start_time
                && chunk.end_nanos == index.message_end_time
        });
        if !fits && (found.is_some() || !self.skipped) {
            let what = format!(
                "the chunk index of byte {} does not match the chunk there",
                index.chunk_start_offset
            );
            self.damage(self.position, what);
        }
    }

    fn compare(&mut self, told: &Told, footer_at: u64) {
        let found = self.contents.chunks.len() as u64;
        if told.chunks > 0 && told.chunks != found {
            let what = format!("the summary has {} chunks, the file has {found}", told.chunks);
            self.damage(footer_at, what);
        }
        let Some(statistics) = &told.statistics else { return };
        let counts = [
            ("messages", statistics.message_count, self.contents.messages()),
            ("chunks", u64::from(statistics.chunk_count), found),
            (
                "attachments",
                u64::from(statistics.attachment_count),
                self.contents.attachments.len() as u64,
            ),
            (
                "metadata records",
                u64::from(statistics.metadata_count),
                self.contents.metadata.len() as u64,
            ),
        ];
        for (what, told, found) in counts {
            if told != found {
                let what = format!("the statistics have {told} {what}, the file has {found}");
                self.damage(footer_at, what);
            }
        }
        for (channel, told) in statistics.channel_message_counts.clone() {
            let found = self.contents.channels.get(&channel).copied().unwrap_or(0);
            if told != found {
                let what = format!(
                    "the statistics have {told} messages of channel {channel}, the file has {found}"
                );
                self.damage(footer_at, what);
            }
        }
    }
}

#[derive(Default)]
struct Told {
    chunks: u64,
    statistics: Option<Statistics>,
}
