//! A pass over an MCAP file that has no summary, is truncated, or has no chunks.

use livebag_format::mcap::{
    MAGIC, MESSAGE_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, opcode,
};
use mcap::records::Record;

use super::file::Window;
use super::mcap_contents::{Block, BlockKind, Contents, RECORD_BYTES_MAX, indexed};
use super::mcap_records::{message, parse_record, unpack};
use super::mcap_resync::{is_cut_chunk, next_record};
use super::merge::BlockPlace;
use super::{CHUNK_BYTES_MAX, ConvertError};

/// Messages outside of chunks are read in runs of about this length.
const RUN_BYTES: u64 = 1 << 20;

/// One pass over a file without a usable summary.
pub(super) struct Scan<'a> {
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
    pub(super) fn new(contents: &'a mut Contents) -> Self {
        Scan {
            contents,
            schemas: Default::default(),
            places: Vec::new(),
            message_count: 0,
            last: LastRecord::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Vec<BlockPlace>, ConvertError> {
        // The window borrows the file while `contents` is filled.
        let file = self.contents.file.again()?;
        let length = self.contents.file.length_bytes();
        let mut window = Window::new(&file);
        let mut at = MAGIC.len() as u64;
        self.contents.is_unclosed = true;
        while at < length {
            let header = RecordHeader::parse(window.up_to(at, RECORD_HEADER_BYTES)?);
            let end = header.and_then(|header| at.checked_add(header.total_bytes()?));
            let whole = header.zip(end.filter(|end| *end <= length));
            match whole.filter(|(header, _)| header.opcode != 0) {
                Some((header, _)) if matches!(header.opcode, opcode::DATA_END | opcode::FOOTER) => {
                    self.contents.is_unclosed = false;
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
                        match window.up_to(at, 1)?.first().copied() {
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

    /// Where to go on behind `at`, where there is no whole record. A message in a damaged chunk had a checksum that can
    /// no longer be checked, so it is skipped in files with chunks.
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

    /// Counts messages missing in the last record, whose index records have all been seen.
    fn settle(&mut self, next: LastRecord) {
        let last = std::mem::replace(&mut self.last, next);
        let missing = last.indexed.saturating_sub(last.found);
        // Messages found in a damaged chunk are counted when they are read.
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
                let start = window.up_to(at, MESSAGE_HEADER_BYTES)?;
                match MessageHeader::parse(start) {
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
