//! MCAP files, by their summary; by a scan if they have none, are cut, or are not in chunks.
//!
//! A scan holds the place of each chunk, and of each run of about a mebibyte of messages outside of
//! chunks. Messages come out in order of time all the same: see [`super::merge`].

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::mcap::{MAGIC, RECORD_HEADER_BYTES, RecordHeader, lengths_fit, opcode};
use livebag_format::rosbag2::BagMetadata;
use mcap::Summary;
use mcap::records::{Record, Statistics};
use mcap::sans_io::{SummaryReadEvent, SummaryReader, SummaryReaderOptions};

use super::file::{ForeignFile, Window};
use super::mcap_records::{RawRecord, message, parse_record, unpack, walk};
use super::mcap_resync::{is_cut_chunk, next_record};
use super::merge::{BlockPlace, Blocks, TimeMerge};
use super::{
    Attachment, CHUNK_BYTES_MAX, ConvertError, MessageSource, MetadataRecord, SchemaBytes,
    SourceMessage, SourceTotals, Warnings,
};

/// Longest schema, channel or metadata record that is read.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Messages outside of chunks are read in runs of about this length.
const RUN_BYTES: u64 = 1 << 20;
/// The footer record and the magic after it.
const FOOTER_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 4 + MAGIC.len();
/// rosbag2's own metadata record and the key that holds its YAML.
const ROSBAG2_RECORD: (&str, &str) = ("rosbag2", "serialized_metadata");

/// An MCAP file.
pub(super) struct McapFile {
    contents: Contents,
    merge: TimeMerge,
}

/// What the file is known to hold.
struct Contents {
    file: Arc<ForeignFile>,
    profile: String,
    topics: Vec<Topic>,
    /// Topic by MCAP's channel.
    channels: HashMap<u16, usize>,
    schema_bytes: SchemaBytes,
    blocks: Vec<Block>,
    message_count: Option<u64>,
    totals: Option<SourceTotals>,
    /// Of a summary that does not name everything.
    statistics: Option<Statistics>,
    metadata_records: Vec<MetadataRecord>,
    bag_metadata: Option<BagMetadata>,
    /// Where their records begin.
    attachments: VecDeque<u64>,
    /// Messages of damaged chunks, as far as their message indexes tell.
    lost_count: u64,
    warnings: Warnings,
}

/// A part of the file that holds messages.
struct Block {
    offset: u64,
    bytes: u64,
    /// Log time of its last message, as far as the file's index says.
    end_time_nanos: u64,
    kind: BlockKind,
}

enum BlockKind {
    Chunk,
    /// The file ends before this chunk does.
    CutChunk,
    /// Records of the data section, messages among them.
    Run,
}

/// What an MCAP file says of itself at its end.
#[derive(Debug, Default)]
pub(crate) struct McapSummary {
    /// Messages, if it says.
    pub count: Option<u64>,
    /// Log times of the first and the last message.
    pub times: Option<(u64, u64)>,
    /// Whether the end is missing, and what is wrong.
    pub problem: Option<(bool, String)>,
    /// What is unusual, though nothing is wrong.
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
    fn new(file: ForeignFile) -> Self {
        Contents {
            file: Arc::new(file),
            profile: String::new(),
            topics: Vec::new(),
            channels: HashMap::new(),
            schema_bytes: SchemaBytes::default(),
            blocks: Vec::new(),
            message_count: None,
            totals: None,
            statistics: None,
            metadata_records: Vec::new(),
            bag_metadata: None,
            attachments: VecDeque::new(),
            lost_count: 0,
            warnings: Warnings::default(),
        }
    }

    fn has_end_mark(&self) -> Result<bool, ConvertError> {
        let at = self.file.length_bytes().saturating_sub(MAGIC.len() as u64);
        Ok(self.file.read_up_to(at, MAGIC.len())? == MAGIC)
    }

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
                // Channels may be repeated without their schemas, which stand in the data then.
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
                // A chunk of schemas alone, or of messages at the beginning of time.
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

    /// Adds a channel, the first of its id.
    fn add_topic(&mut self, channel: &mcap::Channel<'_>) -> Result<(), ConvertError> {
        if self.channels.contains_key(&channel.id) {
            return Ok(());
        }
        let bytes = channel.schema.as_ref().map_or(0, |schema| schema.data.len());
        self.schema_bytes.add(self.file.path(), bytes)?;
        self.channels.insert(channel.id, self.topics.len());
        self.topics.push(topic(channel));
        Ok(())
    }

    /// What the statistics say; `None` if they do not add up.
    fn told(&self, statistics: &Statistics) -> Option<SourceTotals> {
        let mut counts = vec![0; self.topics.len()];
        for (channel, count) in &statistics.channel_message_counts {
            counts[*self.channels.get(channel)?] += count;
        }
        let times = (statistics.message_start_time, statistics.message_end_time);
        let is_whole = counts.iter().sum::<u64>() == statistics.message_count && times.0 <= times.1;
        let times_nanos = (statistics.message_count > 0).then_some(times);
        is_whole.then_some(SourceTotals { counts, times_nanos })
    }

    /// Earliest time in a chunk; `None` if it has no message or is damaged.
    fn earliest(&self, offset: u64, bytes: u64) -> Result<Option<u64>, ConvertError> {
        let record = self.file.read_up_to(offset, bytes.min(CHUNK_BYTES_MAX) as usize)?;
        let (messages, _) = self.messages(&record, &BlockKind::Chunk);
        Ok(messages.iter().map(|message| message.log_time_nanos).min())
    }

    /// Messages of the chunk that ends at `at`, as the index records behind it say.
    fn indexed_behind(&self, mut at: u64) -> Result<u64, ConvertError> {
        let mut count = 0;
        let mut window = Window::new(&self.file);
        loop {
            let head = window.up_to(at, RECORD_HEADER_BYTES + 6)?;
            let Some(header) = RecordHeader::parse(head) else { return Ok(count) };
            if header.opcode != opcode::MESSAGE_INDEX {
                return Ok(count);
            }
            count += indexed(head.get(RECORD_HEADER_BYTES..).unwrap_or_default());
            let Some(next) = header.total_bytes().and_then(|bytes| at.checked_add(bytes)) else {
                return Ok(count);
            };
            at = next;
        }
    }

    /// The profile, from the first record.
    fn read_header(&mut self) -> Result<(), ConvertError> {
        let at = MAGIC.len() as u64;
        let head = self.file.read_up_to(at, RECORD_HEADER_BYTES)?;
        if let Some(header) = RecordHeader::parse(&head)
            && header.opcode == opcode::HEADER
            && header.body_bytes <= RECORD_BYTES_MAX
        {
            let body = self
                .file
                .read_up_to(at + RECORD_HEADER_BYTES as u64, header.body_bytes as usize)?;
            self.take_header(&body);
        }
        Ok(())
    }

    fn take_header(&mut self, body: &[u8]) {
        if let Ok(Record::Header(header)) = parse_record(opcode::HEADER, body) {
            self.profile = header.profile;
        }
    }

    fn take_metadata(&mut self, body: &[u8]) {
        let Ok(Record::Metadata(record)) = parse_record(opcode::METADATA, body) else {
            self.warnings.say("a metadata record is damaged and left out");
            return;
        };
        if record.name == ROSBAG2_RECORD.0
            && let Some(yaml) = record.metadata.get(ROSBAG2_RECORD.1)
        {
            match BagMetadata::parse_mcap_record(yaml) {
                Ok(metadata) => self.bag_metadata = Some(metadata),
                Err(error) => self.warnings.say(format!("rosbag2's record is left out: {error}")),
            }
            return;
        }
        self.metadata_records.push(MetadataRecord { name: record.name, values: record.metadata });
    }

    /// The messages of a block; with what could be read before the damage, the damage.
    fn messages(&self, record: &[u8], kind: &BlockKind) -> (Vec<SourceMessage>, Vec<String>) {
        let mut messages = Vec::new();
        let mut damage = Vec::new();
        let mut each = |record: RawRecord<'_>| {
            if record.opcode != opcode::MESSAGE {
                return;
            }
            let Some((header, data)) = message(&record) else {
                damage.push("a message record is too short and left out".to_owned());
                return;
            };
            let Some(topic) = self.channels.get(&header.channel_id) else {
                let id = header.channel_id;
                damage.push(format!("messages of the unknown channel {id} are left out"));
                return;
            };
            messages.push(SourceMessage {
                topic: *topic,
                log_time_nanos: header.log_time_nanos,
                publish_time_nanos: header.publish_time_nanos,
                sequence: u64::from(header.sequence),
                data: data.to_vec(),
            });
        };
        let outcome = match kind {
            BlockKind::Chunk => unpack(record, true, &mut each),
            BlockKind::CutChunk => unpack(record, false, &mut each),
            BlockKind::Run => walk(record, &mut each),
        };
        // That a cut chunk is cut has been said.
        if let (Err(reason), BlockKind::Chunk | BlockKind::Run) = (outcome, kind) {
            damage.push(reason);
        }
        (messages, damage)
    }
}

impl Blocks for Contents {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn load(&mut self, number: usize) -> Result<Vec<SourceMessage>, ConvertError> {
        let Block { offset, bytes, ref kind, .. } = self.blocks[number];
        let limit = CHUNK_BYTES_MAX + RECORD_BYTES_MAX;
        if bytes > limit {
            self.warnings.say(format!(
                "the part at offset {offset} is left out: its {bytes} bytes are more than {limit}"
            ));
            self.lost_count += 1;
            return Ok(Vec::new());
        }
        let record = self.file.read_up_to(offset, bytes as usize)?;
        let (messages, damage) = self.messages(&record, kind);
        if !damage.is_empty() {
            let indexed = self.indexed_behind(offset.saturating_add(bytes))?;
            self.lost_count += indexed.saturating_sub(messages.len() as u64).max(1);
        }
        for damage in damage {
            self.warnings.say(format!("the part at offset {offset} is damaged: {damage}"));
        }
        Ok(messages)
    }
}

/// Messages that a message index record tells of, by the start of its body: channel, then the length of the
/// entries.
fn indexed(body: &[u8]) -> u64 {
    let bytes = body.get(2..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)) / 16)
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

/// Whether what a summary names can all be in a file of this length: no byte of a file belongs to two chunks,
/// nor to two metadata records. A small file would otherwise be read any number of times.
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

fn topic(channel: &mcap::Channel<'_>) -> Topic {
    let schema = channel.schema.as_ref();
    Topic {
        name: channel.topic.clone(),
        type_name: schema.map(|schema| schema.name.clone()).unwrap_or_default(),
        message_encoding: channel.message_encoding.clone(),
        schema_encoding: schema.map(|schema| schema.encoding.clone()).unwrap_or_default(),
        schema: schema.map(|schema| schema.data.to_vec()).unwrap_or_default(),
        metadata: channel.metadata.clone(),
    }
}

/// One pass over a file without a usable summary.
struct Scan<'a> {
    contents: &'a mut Contents,
    schemas: mcap::read::ChannelAccumulator<'static>,
    places: Vec<BlockPlace>,
    message_count: u64,
    last: LastRecord,
}

/// The record that the next message index is about.
#[derive(Default)]
struct LastRecord {
    /// Messages found in it.
    found: u64,
    /// Messages that the index records behind it tell of.
    indexed: u64,
    /// Whether it is a chunk that is damaged.
    is_damaged: bool,
}

impl<'a> Scan<'a> {
    fn new(contents: &'a mut Contents) -> Self {
        Scan {
            contents,
            schemas: Default::default(),
            places: Vec::new(),
            message_count: 0,
            last: LastRecord::default(),
        }
    }

    fn run(mut self) -> Result<Vec<BlockPlace>, ConvertError> {
        // The window borrows the file while the rest of `contents` is filled.
        let file = ForeignFile::open(self.contents.file.path())?;
        let length = self.contents.file.length_bytes();
        let mut window = Window::new(&file);
        let mut at = MAGIC.len() as u64;
        while at < length {
            let header = RecordHeader::parse(window.up_to(at, RECORD_HEADER_BYTES)?);
            let end = header.and_then(|header| at.checked_add(header.total_bytes()?));
            let whole = header.zip(end.filter(|end| *end <= length));
            match whole.filter(|(header, _)| header.opcode != 0) {
                Some((header, _)) if matches!(header.opcode, opcode::DATA_END | opcode::FOOTER) => {
                    break;
                }
                Some((header, end)) => {
                    self.record(&mut window, header, at)?;
                    at = end;
                }
                None => match self.next_record(&mut window, at, length)? {
                    Some(next) => {
                        let bytes = next - at;
                        self.contents.warnings.say(format!(
                            "{bytes} bytes at offset {at} are no record and left out"
                        ));
                        at = next;
                    }
                    None => {
                        self.cut(length - at);
                        match header.map(|header| header.opcode) {
                            // How many of its messages are gone is not known: one at least.
                            Some(opcode::CHUNK) if is_cut_chunk(&mut window, at, length)? => {
                                self.settle(LastRecord::default());
                                self.chunk(at, length - at, BlockKind::CutChunk)?;
                                self.last = LastRecord::default();
                                self.contents.lost_count += 1;
                            }
                            Some(opcode::MESSAGE | opcode::CHUNK) => self.contents.lost_count += 1,
                            _ => {}
                        }
                        break;
                    }
                },
            }
        }
        self.settle(LastRecord::default());
        self.contents.message_count = Some(self.message_count);
        Ok(self.places)
    }

    /// Where to go on behind `at`, where there is no whole record. A message in a damaged chunk had a checksum
    /// that can no longer be checked, so it is passed over where messages lie in chunks.
    fn next_record(
        &self,
        window: &mut Window<'_>,
        at: u64,
        length: u64,
    ) -> Result<Option<u64>, ConvertError> {
        let channels = &self.contents.channels;
        let is_plain = |block: &Block| matches!(block.kind, BlockKind::Run);
        // Blocks are of one kind, but in rare files.
        let last = self.contents.blocks.last();
        if last.is_some_and(is_plain) {
            return next_record(window, at + 1, length, Some(channels));
        }
        let next = next_record(window, at + 1, length, None)?;
        if next.is_some() || last.is_some() || is_cut_chunk(window, at, length)? {
            return Ok(next);
        }
        next_record(window, at + 1, length, Some(channels))
    }

    /// Counts what is missing of the last record, of which all index records have been seen.
    fn settle(&mut self, next: LastRecord) {
        let last = std::mem::replace(&mut self.last, next);
        let missing = last.indexed.saturating_sub(last.found);
        // What is found of a damaged chunk is counted when its messages are read.
        if last.found == 0 || !last.is_damaged {
            self.contents.lost_count += missing.max(u64::from(last.is_damaged));
        }
    }

    fn cut(&mut self, bytes: u64) {
        self.contents
            .warnings
            .say(format!("the file is cut: its last {bytes} bytes are no whole record"));
    }

    fn record(
        &mut self,
        window: &mut Window<'_>,
        header: RecordHeader,
        at: u64,
    ) -> Result<(), ConvertError> {
        let body_at = at + RECORD_HEADER_BYTES as u64;
        let total_bytes = RECORD_HEADER_BYTES as u64 + header.body_bytes;
        if header.opcode != opcode::MESSAGE_INDEX {
            self.settle(LastRecord::default());
        }
        match header.opcode {
            opcode::CHUNK => self.chunk(at, total_bytes, BlockKind::Chunk)?,
            opcode::MESSAGE => {
                let start = window.up_to(at, livebag_format::mcap::MESSAGE_HEADER_BYTES)?;
                match livebag_format::mcap::MessageHeader::parse(start) {
                    Some(message) => self.loose_message(at, total_bytes, message.log_time_nanos),
                    None => self.contents.warnings.say("a message record is too short, left out"),
                }
            }
            opcode::ATTACHMENT => self.contents.attachments.push_back(at),
            opcode::HEADER | opcode::SCHEMA | opcode::CHANNEL | opcode::METADATA
                if header.body_bytes <= RECORD_BYTES_MAX =>
            {
                let body = window.up_to(body_at, header.body_bytes as usize)?;
                match header.opcode {
                    opcode::HEADER => self.contents.take_header(body),
                    opcode::METADATA => self.contents.take_metadata(body),
                    opcode => self.definition(opcode, body)?,
                }
            }
            opcode::METADATA => self.contents.warnings.say(format!(
                "the metadata record at offset {at} is left out: it is longer than 64 MiB"
            )),
            opcode::MESSAGE_INDEX => self.last.indexed += indexed(window.up_to(body_at, 6)?),
            _ => {}
        }
        Ok(())
    }

    /// A schema or a channel.
    fn definition(&mut self, opcode: u8, body: &[u8]) -> Result<(), ConvertError> {
        let outcome = match parse_record(opcode, body) {
            Ok(Record::Schema { header, data }) => {
                let added = self.schemas.add_schema(header, data.into_owned().into());
                added.map_err(|error| error.to_string())
            }
            Ok(Record::Channel(channel)) => {
                let id = channel.id;
                let added = self.schemas.add_channel(channel).map_err(|error| error.to_string());
                if let (Ok(()), Some(channel)) = (&added, self.schemas.get(id)) {
                    self.contents.add_topic(&channel)?;
                }
                added
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            self.contents.warnings.say(format!("a schema or channel is left out: {error}"));
        }
        Ok(())
    }

    fn chunk(&mut self, offset: u64, bytes: u64, kind: BlockKind) -> Result<(), ConvertError> {
        if bytes > CHUNK_BYTES_MAX + RECORD_BYTES_MAX {
            self.contents
                .warnings
                .say(format!("the chunk at offset {offset} is too long: left out"));
            self.last.is_damaged = true;
            return Ok(());
        }
        let record = self.contents.file.read_up_to(offset, bytes as usize)?;
        let mut definitions = Vec::new();
        let mut start: Option<u64> = None;
        let mut count = 0;
        let outcome = unpack(&record, matches!(kind, BlockKind::Chunk), |record| {
            if let (opcode::MESSAGE, Some((header, _))) = (record.opcode, message(&record)) {
                let time = header.log_time_nanos;
                start = Some(start.map_or(time, |start| start.min(time)));
                count += 1;
            } else if matches!(record.opcode, opcode::SCHEMA | opcode::CHANNEL) {
                definitions.push((record.opcode, record.body.to_vec()));
            }
        });
        self.last.found = count;
        self.last.is_damaged = outcome.is_err();
        if let (Err(reason), BlockKind::Chunk) = (outcome, &kind) {
            self.contents
                .warnings
                .say(format!("the chunk at offset {offset} is damaged: {reason}"));
        }
        for (opcode, body) in definitions {
            self.definition(opcode, &body)?;
        }
        if let Some(start_time_nanos) = start {
            self.message_count += count;
            self.places.push(BlockPlace { start_time_nanos, number: self.contents.blocks.len() });
            self.contents.blocks.push(Block { offset, bytes, end_time_nanos: u64::MAX, kind });
        }
        Ok(())
    }

    /// Lengthens the last run, or begins one.
    fn loose_message(&mut self, at: u64, bytes: u64, time_nanos: u64) {
        self.message_count += 1;
        if let (Some(block), Some(place)) =
            (self.contents.blocks.last_mut(), self.places.last_mut())
            && matches!(block.kind, BlockKind::Run)
            && at + bytes - block.offset <= RUN_BYTES
        {
            block.bytes = at + bytes - block.offset;
            place.start_time_nanos = place.start_time_nanos.min(time_nanos);
            return;
        }
        let number = self.contents.blocks.len();
        self.places.push(BlockPlace { start_time_nanos: time_nanos, number });
        let (end_time_nanos, kind) = (u64::MAX, BlockKind::Run);
        self.contents.blocks.push(Block { offset: at, bytes, end_time_nanos, kind });
    }
}
