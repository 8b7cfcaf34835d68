//! Where an MCAP continues after bytes that are no record.

use std::collections::HashMap;

use livebag_format::mcap::{
    CHUNK_HEADER_BYTES_MAX, ChunkHeader, MESSAGE_HEADER_BYTES, MessageHeader, RECORD_HEADER_BYTES,
    RecordHeader, opcode,
};

use super::ConvertError;
use super::file::Window;

/// A chunk record up to the name of its compression.
const CHUNK_FIXED_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 8 + 4 + 4;
/// Bytes searched at once.
const WINDOW_BYTES: usize = 64 << 10;
/// Records that must follow a message for it to be taken for one.
const FOLLOWERS: usize = 2;

/// Offset of the next record from `from` on that cannot be a coincidence: a chunk whose two lengths agree, or, if
/// channels are given, a message of one of them followed by complete records.
pub(super) fn next_record(
    window: &mut Window<'_>,
    from: u64,
    length: u64,
    channels: Option<&HashMap<u16, usize>>,
) -> Result<Option<u64>, ConvertError> {
    let mut start = from;
    while start < length {
        let bytes = window.up_to(start, WINDOW_BYTES)?;
        let candidates: Vec<u64> = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| matches!(**byte, opcode::CHUNK | opcode::MESSAGE))
            .map(|(at, _)| start + at as u64)
            .collect();
        start += bytes.len().max(1) as u64;
        for at in candidates {
            let is_record = is_chunk(window, at, length)?
                || match channels {
                    Some(channels) => is_message(window, at, length, channels)?,
                    None => false,
                };
            if is_record {
                return Ok(Some(at));
            }
        }
    }
    Ok(None)
}

/// Whether a chunk begins here that is longer than the file, and whose header is right.
pub(super) fn is_cut_chunk(
    window: &mut Window<'_>,
    at: u64,
    length: u64,
) -> Result<bool, ConvertError> {
    let head = window.up_to(at, CHUNK_HEADER_BYTES_MAX)?;
    let Some(header) = ChunkHeader::parse(head) else { return Ok(false) };
    Ok(header.stored_bytes.saturating_add(header.header_bytes() as u64) > length - at)
}

fn is_chunk(window: &mut Window<'_>, at: u64, length: u64) -> Result<bool, ConvertError> {
    let head = window.up_to(at, CHUNK_FIXED_BYTES + 4 + 8)?;
    let Some(record) = RecordHeader::parse(head).filter(|r| r.opcode == opcode::CHUNK) else {
        return Ok(false);
    };
    if head.len() < CHUNK_FIXED_BYTES {
        return Ok(false);
    }
    let u32_at = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let name_bytes = u32_at(CHUNK_FIXED_BYTES - 4) as usize;
    let (start_nanos, end_nanos) = (u64_at(9), u64_at(17));
    let name = head.get(CHUNK_FIXED_BYTES..CHUNK_FIXED_BYTES + name_bytes);
    let known = matches!(name, Some(b"" | b"lz4" | b"zstd"));
    if !known || start_nanos > end_nanos || head.len() < CHUNK_FIXED_BYTES + name_bytes + 8 {
        return Ok(false);
    }
    let before = (CHUNK_FIXED_BYTES - RECORD_HEADER_BYTES + name_bytes + 8) as u64;
    let records_bytes = u64_at(CHUNK_FIXED_BYTES + name_bytes);
    let end = record.total_bytes().and_then(|total| at.checked_add(total));
    Ok(record.body_bytes.checked_sub(before) == Some(records_bytes)
        && end.is_some_and(|end| end <= length))
}

fn is_message(
    window: &mut Window<'_>,
    at: u64,
    length: u64,
    channels: &HashMap<u16, usize>,
) -> Result<bool, ConvertError> {
    let head = window.up_to(at, MESSAGE_HEADER_BYTES)?;
    let Some(message) = MessageHeader::parse(head) else { return Ok(false) };
    if !channels.contains_key(&message.channel_id) {
        return Ok(false);
    }
    let mut next = at;
    for _ in 0..=FOLLOWERS {
        let record = RecordHeader::parse(window.up_to(next, RECORD_HEADER_BYTES)?);
        let known =
            record.filter(|record| (opcode::HEADER..=opcode::DATA_END).contains(&record.opcode));
        let end = known.and_then(|record| next.checked_add(record.total_bytes()?));
        match end {
            Some(end) if end == length => return Ok(true),
            Some(end) if end < length => next = end,
            _ => return Ok(false),
        }
    }
    Ok(true)
}
