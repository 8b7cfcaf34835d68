//! The known contents of an MCAP file, from its summary or from a scan.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use livebag_format::Topic;
use livebag_format::mcap::{MAGIC, RECORD_HEADER_BYTES, RecordHeader, opcode};
use livebag_format::rosbag2::BagMetadata;
use mcap::records::{Record, Statistics};

use super::file::{ForeignFile, Window};
use super::mcap_records::{RawRecord, message, parse_record, unpack, walk};
use super::merge::Blocks;
use super::{
    CHUNK_BYTES_MAX, ConvertError, MetadataRecord, SchemaBytes, SourceMessage, SourceTotals,
    Warnings,
};

/// Longest schema, channel or metadata record that is read.
pub(super) const RECORD_BYTES_MAX: u64 = 64 << 20;
/// rosbag2's own metadata record and the key that holds its YAML.
const ROSBAG2_RECORD: (&str, &str) = ("rosbag2", "serialized_metadata");

/// The known contents of the file.
pub(super) struct Contents {
    pub(super) file: Arc<ForeignFile>,
    pub(super) profile: String,
    pub(super) topics: Vec<Topic>,
    /// Topic by MCAP's channel.
    pub(super) channels: HashMap<u16, usize>,
    pub(super) schema_bytes: SchemaBytes,
    pub(super) blocks: Vec<Block>,
    pub(super) message_count: Option<u64>,
    pub(super) totals: Option<SourceTotals>,
    /// Of a summary that does not name everything.
    pub(super) statistics: Option<Statistics>,
    pub(super) metadata_records: Vec<MetadataRecord>,
    pub(super) bag_metadata: Option<BagMetadata>,
    /// Where their records begin.
    pub(super) attachments: VecDeque<u64>,
    /// Whether it ends without the mark that its writer puts at the end of the data.
    pub(super) is_unclosed: bool,
    /// Messages of damaged chunks, according to their message indexes.
    pub(super) lost_count: u64,
    pub(super) warnings: Warnings,
}

/// A part of the file that holds messages.
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Log time of its last message, according to the file's index.
    pub(super) end_time_nanos: u64,
    pub(super) kind: BlockKind,
}

pub(super) enum BlockKind {
    Chunk,
    /// The file ends before this chunk does.
    CutChunk,
    /// Records of the data section, messages among them.
    Run,
}

impl Contents {
    pub(super) fn new(file: ForeignFile) -> Self {
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
            is_unclosed: false,
            lost_count: 0,
            warnings: Warnings::default(),
        }
    }

    pub(super) fn has_end_mark(&self) -> Result<bool, ConvertError> {
        let at = self.file.length_bytes().saturating_sub(MAGIC.len() as u64);
        Ok(self.file.read_up_to(at, MAGIC.len())? == MAGIC)
    }

    /// Adds a channel, the first of its id.
    pub(super) fn add_topic(&mut self, channel: &mcap::Channel<'_>) -> Result<(), ConvertError> {
        if self.channels.contains_key(&channel.id) {
            return Ok(());
        }
        let bytes = channel.schema.as_ref().map_or(0, |schema| schema.data.len());
        self.schema_bytes.add(self.file.path(), bytes)?;
        self.channels.insert(channel.id, self.topics.len());
        self.topics.push(topic(channel));
        Ok(())
    }

    /// Earliest time in a chunk; `None` if it has no message or is damaged.
    pub(super) fn earliest(&self, offset: u64, bytes: u64) -> Result<Option<u64>, ConvertError> {
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
    pub(super) fn read_header(&mut self) -> Result<(), ConvertError> {
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

    pub(super) fn take_header(&mut self, body: &[u8]) {
        if let Ok(Record::Header(header)) = parse_record(opcode::HEADER, body) {
            self.profile = header.profile;
        }
    }

    pub(super) fn take_metadata(&mut self, body: &[u8]) {
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
pub(super) fn indexed(body: &[u8]) -> u64 {
    let bytes = body.get(2..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes)) / 16)
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
