//! Records of MCAP files that others wrote, in memory: walked, and unpacked from chunks.
//!
//! The `mcap` crate parses the chunk's header. Its chunk reader is not used: it trusts the length of a record inside a
//! chunk, and allocates as much memory as the header claims.

use livebag_format::mcap::{
    Compression, MESSAGE_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES, RecordHeader,
    decompress_start, lengths_fit, opcode,
};
use mcap::records::{ChunkHeader, Record};

use super::CHUNK_BYTES_MAX;

/// A record's body, parsed by the `mcap` crate, if its lengths fit.
pub(crate) fn parse_record(opcode: u8, body: &[u8]) -> Result<Record<'_>, String> {
    if !lengths_fit(opcode, body) {
        return Err("a length in it is greater than the record's".to_owned());
    }
    mcap::parse_record(opcode, body).map_err(|error| error.to_string())
}

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

/// Calls `each` for every record of `bytes`; an error if they do not end with a record.
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

/// Calls `each` for every record of a chunk. `chunk` is the whole chunk record, or the part of it that a cut file has.
/// On a bad checksum nothing is given.
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
    let records = match usize::try_from(header.compressed_size) {
        Ok(length) if length <= records.len() => &records[..length],
        _ => records,
    };
    if !header.compression.is_empty() {
        return unpack_compressed(records, &header, is_whole, each);
    }
    if is_whole && header.uncompressed_crc != 0 {
        check(records, &header)?;
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
    match parse_record(opcode::CHUNK, &head) {
        Ok(Record::Chunk { header, .. }) => Ok((
            ChunkHeader { compressed_size, ..header },
            &body[FIXED_BYTES + compression_bytes..],
        )),
        _ => Err("its header does not parse".to_owned()),
    }
}

fn unpack_compressed(
    stored: &[u8],
    header: &ChunkHeader,
    is_whole: bool,
    each: impl FnMut(RawRecord<'_>),
) -> Result<(), String> {
    let name = &header.compression;
    let compression = Compression::by_name(name.as_bytes())
        .ok_or_else(|| format!("its compression {name:?} is none that is read (lz4, zstd)"))?;
    let (records, outcome) = decompress_start(compression, stored, header.uncompressed_size);
    let outcome = outcome.map_err(|error| error.to_string());
    if is_whole && header.uncompressed_crc != 0 {
        outcome?;
        check(&records, header)?;
        return walk(&records, each);
    }
    let walked = walk(&records, each);
    outcome.and(walked)
}

/// Checks the records of a chunk that has a checksum.
fn check(records: &[u8], header: &ChunkHeader) -> Result<(), String> {
    let (found, expected) = (crc32fast::hash(records), header.uncompressed_crc);
    match found == expected {
        true => Ok(()),
        false => Err(format!("its checksum is {found:#010x}, {expected:#010x} was stored")),
    }
}
