//! Records of MCAP files that others wrote, in memory: walked, and unpacked from chunks.
//!
//! The `mcap` crate decompresses and parses; lengths are checked here first, since its chunk reader
//! trusts the length of a record inside a chunk.

use livebag_format::mcap::{
    MESSAGE_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader, opcode,
};
use mcap::records::{ChunkHeader, Record};
use mcap::sans_io::{LinearReadEvent, LinearReader, LinearReaderOptions};

use super::CHUNK_BYTES_MAX;

/// One record: its opcode, its body, and the whole of it.
pub(crate) struct RawRecord<'a> {
    pub(crate) opcode: u8,
    pub(crate) body: &'a [u8],
}

/// A message record's header and data.
pub(crate) fn message<'a>(record: &RawRecord<'a>) -> Option<(MessageHeader, &'a [u8])> {
    let data = record.body.get(MESSAGE_HEADER_BYTES - RECORD_HEADER_BYTES..)?;
    let mut head = [0; MESSAGE_HEADER_BYTES];
    head[0] = opcode::MESSAGE;
    head[1..9].copy_from_slice(&(record.body.len() as u64).to_le_bytes());
    head[9..].copy_from_slice(&record.body[..MESSAGE_HEADER_BYTES - RECORD_HEADER_BYTES]);
    Some((MessageHeader::parse(&head)?, data))
}

/// Gives each record of `bytes` in turn; an error where they do not end with a record.
pub(crate) fn walk(bytes: &[u8], mut each: impl FnMut(RawRecord<'_>)) -> Result<(), String> {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = RecordHeader::parse(rest)
            .and_then(|header| usize::try_from(header.total_bytes()?).ok())
            .filter(|end| *end <= rest.len())
            .ok_or_else(|| format!("a record ends after byte {}", bytes.len()))?;
        each(RawRecord { opcode: rest[0], body: &rest[RECORD_HEADER_BYTES..end] });
        at += end;
    }
    Ok(())
}

/// Gives each record of a chunk in turn. `chunk` is the whole chunk record, or the part of it
/// that a cut file has. On a bad checksum nothing is given.
pub(crate) fn unpack(
    chunk: &[u8],
    is_whole: bool,
    each: impl FnMut(RawRecord<'_>),
) -> Result<(), String> {
    let body = chunk.get(RECORD_HEADER_BYTES..).unwrap_or_default();
    let (header, records) = chunk_header(body)?;
    if header.compressed_size.max(header.uncompressed_size) > CHUNK_BYTES_MAX {
        return Err("it is longer than 1 GiB".to_owned());
    }
    if !header.compression.is_empty() {
        return unpack_compressed(chunk, &header, is_whole, each);
    }
    let records = match usize::try_from(header.compressed_size) {
        Ok(length) if length <= records.len() => &records[..length],
        _ => records,
    };
    if is_whole && header.uncompressed_crc != 0 {
        let found = crc32fast::hash(records);
        if found != header.uncompressed_crc {
            let expected = header.uncompressed_crc;
            return Err(format!("its checksum is {found:#010x}, {expected:#010x} was stored"));
        }
    }
    walk(records, each)
}

/// The header of a chunk and what follows it.
fn chunk_header(body: &[u8]) -> Result<(ChunkHeader, &[u8]), String> {
    const FIXED_BYTES: usize = 8 + 8 + 8 + 4 + 4 + 8;
    let compression_bytes = body
        .get(28..32)
        .map(|raw| u32::from_le_bytes(raw.try_into().expect("four bytes")) as usize)
        .filter(|bytes| *bytes <= 64 && body.len() >= FIXED_BYTES + bytes)
        .ok_or("its header is cut")?;
    // With nothing in the chunk, the crate's parser gives the header whatever the chunk's length.
    let mut head = body[..FIXED_BYTES + compression_bytes].to_vec();
    let size_at = head.len() - 8;
    let compressed_size = u64::from_le_bytes(head[size_at..].try_into().expect("eight bytes"));
    head[size_at..].fill(0);
    match mcap::parse_record(opcode::CHUNK, &head) {
        Ok(Record::Chunk { header, .. }) => Ok((
            ChunkHeader { compressed_size, ..header },
            &body[FIXED_BYTES + compression_bytes..],
        )),
        _ => Err("its header does not parse".to_owned()),
    }
}

fn unpack_compressed(
    chunk: &[u8],
    header: &ChunkHeader,
    is_whole: bool,
    mut each: impl FnMut(RawRecord<'_>),
) -> Result<(), String> {
    // The reader holds the chunk's header to the limit too.
    let limit = header.compressed_size.max(header.uncompressed_size).max(4096) as usize;
    let mut reader = LinearReader::new_with_options(
        LinearReaderOptions::default()
            .with_skip_start_magic(true)
            .with_skip_end_magic(true)
            .with_prevalidate_chunk_crcs(is_whole)
            .with_record_length_limit(limit),
    );
    let mut rest = chunk;
    while let Some(event) = reader.next_event() {
        match event.map_err(|error| error.to_string())? {
            LinearReadEvent::ReadRequest(wanted) => {
                let count = wanted.min(rest.len());
                reader.insert(count).copy_from_slice(&rest[..count]);
                reader.notify_read(count);
                rest = &rest[count..];
            }
            LinearReadEvent::Record { data, opcode } => each(RawRecord { opcode, body: data }),
        }
    }
    Ok(())
}
