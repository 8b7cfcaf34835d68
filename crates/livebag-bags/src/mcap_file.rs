//! MCAP files, by their summary; by a scan if they have none, are cut, or are not in chunks.
//!
//! A scan holds the place of each chunk, and of each run of about a mebibyte of messages outside of
//! chunks. Messages still come out in order of time: see [`super::merge`].

use std::collections::BTreeMap;

use livebag_format::Topic;
use livebag_format::mcap::{MAGIC, RECORD_HEADER_BYTES, RecordHeader, lengths_fit};
use livebag_format::rosbag2::BagMetadata;
use mcap::Summary;
use mcap::records::Statistics;
use mcap::sans_io::{SummaryReadEvent, SummaryReader, SummaryReaderOptions};

use super::file::{ForeignFile, Window};
use super::mcap_contents::{Block, BlockKind, Contents, RECORD_BYTES_MAX};
use super::mcap_scan::Scan;
use super::merge::{BlockPlace, TimeMerge};
use super::{Attachment, ConvertError, MessageSource, MetadataRecord, SourceMessage, SourceTotals};

/// The footer record and the magic after it.
const FOOTER_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 4 + MAGIC.len();

/// An MCAP file.
pub(super) struct McapFile {
    contents: Contents,
    merge: TimeMerge,
}

/// What an MCAP file says of itself at its end.
#[derive(Debug, Default)]
pub(crate) struct McapSummary {
    /// Messages, if it says.
    pub count: Option<u64>,
    /// Log times of the first and the last message.
    pub times: Option<(u64, u64)>,
    /// Whether the end is missing, and the damage.
    pub problem: Option<(bool, String)>,
    /// Unusual, but not wrong.
    pub note: Option<String>,
}

/// Reads the end of an MCAP file, and nothing else.
pub(crate) fn mcap_summary(path: &std::path::Path) -> Result<McapSummary, ConvertError> {
    let mut contents = Contents::new(ForeignFile::open(path)?);
    let summary = contents.summary()?;
    let Some(summary) = summary else {
        let Some(problem) = contents.warnings.all().first().cloned() else {
            let statistics = contents.statistics.as_ref();
            let note = "its summary does not name everything (optional parts are left out): \
                        readers read it whole"
                .to_owned();
            return Ok(McapSummary { note: Some(note), ..McapSummary::told(statistics) });
        };
        let is_cut = !contents.has_end_mark()?;
        return Ok(McapSummary { problem: Some((is_cut, problem)), ..McapSummary::default() });
    };
    Ok(McapSummary::told(summary.stats.as_ref()))
}

impl McapSummary {
    fn told(statistics: Option<&Statistics>) -> Self {
        let Some(statistics) = statistics else { return Self::default() };
        let times = (statistics.message_start_time, statistics.message_end_time);
        let count = statistics.message_count;
        let times = (count > 0).then_some(times);
        Self { count: Some(count), times, ..Self::default() }
    }
}

impl McapFile {
    pub(super) fn open(file: ForeignFile) -> Result<Self, ConvertError> {
        let mut contents = Contents::new(file);
        let places = match contents.summary()? {
            Some(summary) => contents.take_summary(&summary)?,
            None => Scan::new(&mut contents).run()?,
        };
        Ok(McapFile { contents, merge: TimeMerge::new(places) })
    }

    /// Whether its writer did not reach the end of the data: the missing messages are unknown.
    pub(super) fn is_unclosed(&self) -> bool {
        self.contents.is_unclosed
    }
}

impl MessageSource for McapFile {
    fn topics(&self) -> &[Topic] {
        &self.contents.topics
    }

    fn profile(&self) -> &str {
        &self.contents.profile
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        self.merge.next(&mut self.contents)
    }

    fn skip_before(&mut self, log_time_nanos: u64) {
        let blocks = &self.contents.blocks;
        self.merge.retain(|number| blocks[number].end_time_nanos >= log_time_nanos);
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.merge.start_time_nanos()
    }

    fn message_count(&self) -> Option<u64> {
        self.contents.message_count
    }

    fn totals(&self) -> Option<SourceTotals> {
        self.contents.totals.clone()
    }

    fn lost_count(&self) -> u64 {
        self.contents.lost_count
    }

    fn warnings(&self) -> &[String] {
        self.contents.warnings.all()
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        let contents = &mut self.contents;
        let next = contents.attachments.pop_front();
        next.map(|offset| Attachment::in_file(&contents.file, offset)).transpose()
    }

    fn metadata_records(&self) -> &[MetadataRecord] {
        &self.contents.metadata_records
    }

    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.contents.bag_metadata.as_ref()
    }
}

impl Contents {
    /// The summary, if it is there and tells where everything is.
    fn summary(&mut self) -> Result<Option<Summary>, ConvertError> {
        let length = self.file.length_bytes();
        let tail_at = length.saturating_sub(FOOTER_BYTES as u64);
        let tail = self.file.read_up_to(tail_at, FOOTER_BYTES)?;
        if tail.len() < FOOTER_BYTES || !tail.ends_with(&MAGIC) {
            self.warnings.say(
                "the file was not closed or is cut (it has no end mark): what is there was found \
                 by reading all of it",
            );
            return Ok(None);
        }
        if !self.summary_fits(&tail)? {
            self.warnings.say(
                "the summary is damaged (a length in it is greater than its record's): the messages were \
                 found by reading the whole file",
            );
            return Ok(None);
        }
        let options = SummaryReaderOptions::default()
            .with_file_size(length)
            .with_record_length_limit(RECORD_BYTES_MAX as usize);
        let mut reader = SummaryReader::new_with_options(options);
        let mut at = 0;
        while let Some(event) = reader.next_event() {
            match event {
                Ok(SummaryReadEvent::ReadRequest(wanted)) => {
                    let bytes = self.file.read_up_to(at, wanted)?;
                    reader.insert(bytes.len()).copy_from_slice(&bytes);
                    reader.notify_read(bytes.len());
                    at += bytes.len() as u64;
                }
                Ok(SummaryReadEvent::SeekRequest(to)) => {
                    at = seek(at, length, to);
                    reader.notify_seeked(at);
                }
                // Channels may be repeated without their schemas, which are then in the data.
                Err(mcap::McapError::UnknownSchema(..)) => return Ok(None),
                Err(error) => {
                    self.warnings.say(format!(
                        "the summary is damaged ({error}): the messages were found by reading the \
                         whole file"
                    ));
                    return Ok(None);
                }
            }
        }
        let summary = reader.finish();
        self.statistics = summary.as_ref().and_then(|summary| summary.stats.clone());
        Ok(summary.filter(|summary| is_complete(summary) && is_possible(summary, length)))
    }

    /// Whether the lengths in a summary's records fit into them. `tail` is the footer and the magic.
    fn summary_fits(&self, tail: &[u8]) -> Result<bool, ConvertError> {
        let start =
            tail[RECORD_HEADER_BYTES..].first_chunk().map_or(0, |at| u64::from_le_bytes(*at));
        let end = self.file.length_bytes() - tail.len() as u64;
        let mut window = Window::new(&self.file);
        let mut at = if start == 0 { end } else { start };
        while at < end {
            let head = window.up_to(at, RECORD_HEADER_BYTES)?;
            let Some(record) = RecordHeader::parse(head) else { return Ok(false) };
            let next = record.total_bytes().and_then(|bytes| at.checked_add(bytes));
            let Some(next) = next.filter(|next| *next <= end) else { return Ok(false) };
            // Longer ones are refused.
            let bytes = record.body_bytes.min(RECORD_BYTES_MAX) as usize;
            let body = window.up_to(at + RECORD_HEADER_BYTES as u64, bytes)?;
            if !lengths_fit(record.opcode, body) {
                return Ok(false);
            }
            at = next;
        }
        Ok(true)
    }

    fn take_summary(&mut self, summary: &Summary) -> Result<Vec<BlockPlace>, ConvertError> {
        self.read_header()?;
        let channels: BTreeMap<_, _> = summary.channels.iter().collect();
        for channel in channels.into_values() {
            self.add_topic(channel)?;
        }
        let mut chunks: Vec<_> = summary.chunk_indexes.iter().collect();
        chunks.sort_by_key(|chunk| chunk.chunk_start_offset);
        let mut places = Vec::new();
        for chunk in chunks {
            let (offset, bytes) = (chunk.chunk_start_offset, chunk.chunk_length);
            let start_time_nanos = match (chunk.message_start_time, chunk.message_end_time) {
                // A chunk with only schemas, or of messages at the beginning of time.
                (0, 0) if chunk.message_index_offsets.is_empty() => {
                    match self.earliest(offset, bytes)? {
                        Some(start_time_nanos) => start_time_nanos,
                        None => continue,
                    }
                }
                (start_time_nanos, _) => start_time_nanos,
            };
            places.push(BlockPlace { start_time_nanos, number: self.blocks.len() });
            // An index that says 0 may not say anything.
            let end_time_nanos = match chunk.message_end_time {
                0 => u64::MAX,
                nanos => nanos,
            };
            self.blocks.push(Block { offset, bytes, end_time_nanos, kind: BlockKind::Chunk });
        }
        self.message_count = summary.stats.as_ref().map(|statistics| statistics.message_count);
        self.totals = summary.stats.as_ref().and_then(|statistics| self.told(statistics));
        for index in &summary.metadata_indexes {
            let bytes = index.length.min(RECORD_BYTES_MAX) as usize;
            let record = self.file.read_up_to(index.offset, bytes)?;
            self.take_metadata(record.get(RECORD_HEADER_BYTES..).unwrap_or_default());
        }
        self.attachments = summary.attachment_indexes.iter().map(|index| index.offset).collect();
        Ok(places)
    }

    /// Totals from the statistics; `None` if they do not add up.
    fn told(&self, statistics: &Statistics) -> Option<SourceTotals> {
        let mut counts = vec![0; self.topics.len()];
        for (channel, count) in &statistics.channel_message_counts {
            let sum: &mut u64 = &mut counts[*self.channels.get(channel)?];
            *sum = sum.checked_add(*count)?;
        }
        let sum = counts.iter().try_fold(0, |sum: u64, count| sum.checked_add(*count))?;
        let times = (statistics.message_start_time, statistics.message_end_time);
        let is_whole = sum == statistics.message_count && times.0 <= times.1;
        let times_nanos = (statistics.message_count > 0).then_some(times);
        is_whole.then_some(SourceTotals { counts, times_nanos })
    }
}

/// Whether a summary names every chunk and channel, so that no message is missed by trusting it.
fn is_complete(summary: &Summary) -> bool {
    // Without counts a summary may name chunks and leave out attachments and metadata.
    let Some(statistics) = &summary.stats else { return false };
    statistics.chunk_count as usize == summary.chunk_indexes.len()
        && statistics.channel_count as usize == summary.channels.len()
        && statistics.metadata_count as usize == summary.metadata_indexes.len()
        && statistics.attachment_count as usize == summary.attachment_indexes.len()
        && (statistics.message_count == 0 || statistics.chunk_count > 0)
}

/// Whether everything in a summary fits into a file of this length: no byte of a file belongs to two chunks, nor to two
/// metadata records. A small file would otherwise be read any number of times.
pub(super) fn is_possible(summary: &Summary, length: u64) -> bool {
    let chunks = summary.chunk_indexes.iter().map(|index| index.chunk_length);
    let metadata = summary.metadata_indexes.iter().map(|index| index.length);
    let attachments = summary.attachment_indexes.iter().map(|index| index.length);
    let mut all = chunks.chain(metadata).chain(attachments);
    all.try_fold(0, u64::checked_add).is_some_and(|bytes: u64| bytes <= length)
}

fn seek(at: u64, length: u64, to: std::io::SeekFrom) -> u64 {
    match to {
        std::io::SeekFrom::Start(to) => to,
        std::io::SeekFrom::End(by) => length.saturating_add_signed(by),
        std::io::SeekFrom::Current(by) => at.saturating_add_signed(by),
    }
}
