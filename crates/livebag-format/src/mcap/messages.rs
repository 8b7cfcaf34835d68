//! The messages of a chunk, one after the other, whatever its bytes are.

use super::{MESSAGE_HEADER_BYTES, MessageHeader};

/// A message record of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMessage<'a> {
    /// Offset of its record in the chunk's records.
    pub inner: u32,
    /// The header before its data.
    pub header: MessageHeader,
    /// The encoded message.
    pub data: &'a [u8],
}

/// Bytes that are no whole message record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no whole message at byte {at} of a chunk's records")]
pub struct Damaged {
    /// Offset in the chunk's records.
    pub at: usize,
}

/// See [`chunk_messages`].
#[derive(Clone, Debug)]
pub struct ChunkMessages<'a> {
    records: &'a [u8],
    at: usize,
}

/// The messages in `records`, a chunk's records before compression. Every length is checked before
/// it is added to anything; an error is the last item.
///
/// ```
/// let mut records = livebag_format::mcap::message_header(1, 7, 20, 10, 3).to_vec();
/// records.extend_from_slice(b"abc");
/// let messages: Result<Vec<_>, _> = livebag_format::mcap::chunk_messages(&records).collect();
/// assert_eq!(messages.unwrap()[0].data, b"abc");
/// ```
pub fn chunk_messages(records: &[u8]) -> ChunkMessages<'_> {
    ChunkMessages { records, at: 0 }
}

impl<'a> Iterator for ChunkMessages<'a> {
    type Item = Result<ChunkMessage<'a>, Damaged>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.records.get(self.at..).filter(|rest| !rest.is_empty())?;
        let message = (|| {
            let header = MessageHeader::parse(rest)?;
            let end = usize::try_from(header.data_bytes).ok()?.checked_add(MESSAGE_HEADER_BYTES)?;
            let data = rest.get(MESSAGE_HEADER_BYTES..end)?;
            Some((ChunkMessage { inner: u32::try_from(self.at).ok()?, header, data }, end))
        })();
        let at = self.at;
        self.at = message.map_or(self.records.len(), |(_, bytes)| at + bytes);
        Some(message.map(|(message, _)| message).ok_or(Damaged { at }))
    }
}
