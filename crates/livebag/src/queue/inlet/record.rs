//! The layout of a message in a segment until the recorder takes it. It has the length of an MCAP record's header, but
//! the recorder's own fields:
//!
//! | bytes | |
//! | --- | --- |
//! | 0 | flags: 1 the message is elsewhere, 2 it is repeated, 4 there is none: a hole |
//! | 1..5 | length of the encoded message |
//! | 5..13 | sequence |
//! | 13..21 | log time, as its writer found it |
//! | 21..29 | publish time |
//! | 29..31 | 0 |

use livebag_format::index::IndexEntry;
use livebag_format::mcap::MESSAGE_HEADER_BYTES;

const FLAG_OWN: u8 = 1;
const FLAG_REPEATED: u8 = 2;
const FLAG_HOLE: u8 = 4;

/// Where the message of a header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Behind it.
    Here,
    /// In separate memory.
    Elsewhere,
    /// Nowhere: its writer has panicked.
    Hole,
}

/// The header of a message, which is behind it unless it `is_own`.
pub fn header(entry: &IndexEntry, is_own: bool) -> [u8; MESSAGE_HEADER_BYTES] {
    let mut bytes = [0; MESSAGE_HEADER_BYTES];
    bytes[0] = if is_own { FLAG_OWN } else { 0 } | if entry.repeated { FLAG_REPEATED } else { 0 };
    bytes[1..5].copy_from_slice(&entry.data_bytes.to_le_bytes());
    bytes[5..13].copy_from_slice(&entry.sequence.to_le_bytes());
    bytes[13..21].copy_from_slice(&entry.log_time_nanos.to_le_bytes());
    bytes[21..29].copy_from_slice(&entry.publish_time_nanos.to_le_bytes());
    bytes
}

/// The header of a reservation that was not filled, with the length of the bytes after it.
pub fn hole(data_bytes: u32) -> [u8; MESSAGE_HEADER_BYTES] {
    let mut bytes = header(&IndexEntry { data_bytes, ..IndexEntry::default() }, false);
    bytes[0] = FLAG_HOLE;
    bytes
}

/// Parses a header: its entry, and the place of the message. `None` if this is no header.
pub fn parse(bytes: &[u8]) -> Option<(IndexEntry, Kind)> {
    let bytes = bytes.first_chunk::<MESSAGE_HEADER_BYTES>()?;
    let word = |at: usize| bytes[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
    let entry = IndexEntry {
        data_bytes: u32::from_le_bytes(*bytes[1..].first_chunk()?),
        sequence: word(5)?,
        log_time_nanos: word(13)?,
        publish_time_nanos: word(21)?,
        repeated: bytes[0] & FLAG_REPEATED != 0,
        ..IndexEntry::default()
    };
    let kind = match bytes[0] {
        flags if flags & FLAG_HOLE != 0 => Kind::Hole,
        flags if flags & FLAG_OWN != 0 => Kind::Elsewhere,
        _ => Kind::Here,
    };
    Some((entry, kind))
}
