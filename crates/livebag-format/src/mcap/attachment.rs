//! Attachment records: files stored in an MCAP. They may be larger than memory, so their heads are parsed separately.

use super::{RECORD_HEADER_BYTES, RecordHeader, opcode};

/// Longest name, and longest media type, that is read. A path has 4,096 bytes.
const TEXT_BYTES_MAX: usize = 64 << 10;
const TIMES_BYTES: usize = 8 + 8;
const CRC_BYTES: u64 = 4;

/// What an attachment record says in front of its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachmentHead {
    /// When it was recorded, nanoseconds since the Unix epoch.
    pub log_time_nanos: u64,
    /// When it was made, nanoseconds since the Unix epoch; 0 if unknown.
    pub create_time_nanos: u64,
    /// File name.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// Length of the data.
    pub data_bytes: u64,
    /// Where in the record the data begins.
    pub data_offset: u64,
    /// Length of the whole record.
    pub record_bytes: u64,
}

impl AttachmentHead {
    /// This much of a record is enough for any that is read.
    pub const BYTES_MAX: usize = RECORD_HEADER_BYTES + TIMES_BYTES + 2 * (4 + TEXT_BYTES_MAX) + 8;

    /// Parses the start of a record.
    ///
    /// # Errors
    /// The damage, if there is any.
    pub fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let cut = "its record is cut";
        let record = RecordHeader::parse(bytes).ok_or(cut)?;
        if record.opcode != opcode::ATTACHMENT {
            return Err("there is no attachment where the summary names one");
        }
        let mut rest = &bytes[RECORD_HEADER_BYTES..];
        let log_time_nanos = u64::from_le_bytes(*take(&mut rest).ok_or(cut)?);
        let create_time_nanos = u64::from_le_bytes(*take(&mut rest).ok_or(cut)?);
        let (name, media_type) = (text(&mut rest)?, text(&mut rest)?);
        let data_bytes = u64::from_le_bytes(*take(&mut rest).ok_or(cut)?);
        let data_offset = (bytes.len() - rest.len()) as u64;
        let end = data_offset.checked_add(data_bytes).and_then(|end| end.checked_add(CRC_BYTES));
        // Bytes behind the fields are to be ignored.
        let record_bytes =
            record.total_bytes().filter(|total| end.is_some_and(|end| end <= *total));
        let record_bytes = record_bytes.ok_or("the lengths in its record contradict each other")?;
        Ok(Self {
            log_time_nanos,
            create_time_nanos,
            name,
            media_type,
            data_bytes,
            data_offset,
            record_bytes,
        })
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

fn text(rest: &mut &[u8]) -> Result<String, &'static str> {
    let bytes = u32::from_le_bytes(*take(rest).ok_or("its record is cut")?) as usize;
    if bytes > TEXT_BYTES_MAX {
        return Err("its name or media type is longer than 64 KiB");
    }
    let (taken, left) = rest.split_at_checked(bytes).ok_or("its record is cut")?;
    *rest = left;
    let text = str::from_utf8(taken).map_err(|_| "its name or media type is not UTF-8")?;
    Ok(text.to_owned())
}
