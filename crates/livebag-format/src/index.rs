//! The time index of a topic: fixed-size entries in the order of `log_time`.
//!
//! Layout: `docs/container-layout.md`. The file's length is the commit counter: an entry is appended after its message
//! can be read, and a file's length grows only after the bytes below it are in place. Each entry has a CRC-32C, so that
//! a tail of zeros or of half an entry, as a kernel crash may leave it, is recognised.

/// Length of one entry, and of the header in front of the first.
pub const ENTRY_BYTES: usize = 48;
/// First bytes of an index file.
pub const INDEX_MAGIC: [u8; 8] = *b"LBINDEX\x01";

/// Where one message is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    /// When the recorder took it; never smaller than that of the entry before.
    pub log_time_nanos: u64,
    /// When the source stamped it.
    pub publish_time_nanos: u64,
    /// The source's count.
    pub sequence: u64,
    /// File offset of the encoded message in its brick. In a compressed chunk: where it would be if
    /// the chunk were not compressed.
    pub offset: u64,
    /// Length of the encoded message.
    pub data_bytes: u32,
    /// Offset of the message record in its chunk's records; so the chunk's own place is known.
    pub inner: u32,
    /// Which of the topic's bricks, by its place in the container's list.
    pub brick: u16,
    /// Whether its chunk is compressed.
    pub compressed: bool,
    /// Whether it is not a published message, but one of an earlier split once more, at the head of
    /// this one.
    pub repeated: bool,
}

/// Bit of the flags that says that the chunk is compressed.
const FLAG_COMPRESSED: u16 = 1;
/// Bit of the flags that says that the message is repeated.
const FLAG_REPEATED: u16 = 2;

impl IndexEntry {
    /// The entry's 48 bytes.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..8].copy_from_slice(&self.log_time_nanos.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.publish_time_nanos.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.offset.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.data_bytes.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.inner.to_le_bytes());
        bytes[40..42].copy_from_slice(&self.brick.to_le_bytes());
        let flags = if self.compressed { FLAG_COMPRESSED } else { 0 }
            | if self.repeated { FLAG_REPEATED } else { 0 };
        bytes[42..44].copy_from_slice(&flags.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..44]);
        bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads an entry; `None` if its checksum is wrong or it has unknown flags.
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        if u32_at(44) != crc32c::crc32c(&bytes[..44]) {
            return None;
        }
        let flags = u16::from_le_bytes([bytes[42], bytes[43]]);
        if flags & !(FLAG_COMPRESSED | FLAG_REPEATED) != 0 {
            return None;
        }
        // Files end before 2^63: so that a place and a length can be added anywhere below.
        if u64_at(24).checked_add(u64::from(u32_at(32))).is_none_or(|end| end > i64::MAX as u64) {
            return None;
        }
        Some(Self {
            log_time_nanos: u64_at(0),
            publish_time_nanos: u64_at(8),
            sequence: u64_at(16),
            offset: u64_at(24),
            data_bytes: u32_at(32),
            inner: u32_at(36),
            brick: u16::from_le_bytes([bytes[40], bytes[41]]),
            compressed: flags & FLAG_COMPRESSED != 0,
            repeated: flags & FLAG_REPEATED != 0,
        })
    }

    /// File offset of the chunk record that holds the message (livebag's own chunks).
    pub fn chunk_offset(&self) -> u64 {
        self.offset
            - (crate::mcap::MESSAGE_HEADER_BYTES + crate::mcap::CHUNK_HEADER_BYTES) as u64
            - u64::from(self.inner)
    }

    /// The same of an entry that may make no sense: `None` if it points before any chunk.
    pub fn checked_chunk_offset(&self) -> Option<u64> {
        let before = crate::mcap::MESSAGE_HEADER_BYTES + crate::mcap::CHUNK_HEADER_BYTES;
        self.offset.checked_sub(before as u64)?.checked_sub(u64::from(self.inner))
    }

    /// Places the message by its chunk.
    pub fn set_chunk_offset(&mut self, offset: u64) {
        let before = crate::mcap::CHUNK_HEADER_BYTES + crate::mcap::MESSAGE_HEADER_BYTES;
        self.offset = offset + before as u64 + u64::from(self.inner);
    }

    /// End of the message record in its chunk's records.
    pub fn inner_end(&self) -> u64 {
        u64::from(self.inner)
            + crate::mcap::MESSAGE_HEADER_BYTES as u64
            + u64::from(self.data_bytes)
    }
}

/// The first [`ENTRY_BYTES`] of an index file.
pub fn index_header() -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[..8].copy_from_slice(&INDEX_MAGIC);
    bytes[8..12].copy_from_slice(&(ENTRY_BYTES as u32).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..44]);
    bytes[44..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Whether `bytes` are an index file's header that this version can read.
pub fn is_index_header(bytes: &[u8]) -> bool {
    bytes == index_header()
}

/// Number of whole entries in an index file of `file_bytes`.
pub fn entry_count(file_bytes: u64) -> u64 {
    file_bytes.saturating_sub(ENTRY_BYTES as u64) / ENTRY_BYTES as u64
}

/// File offset of entry `number`, counted from 0.
pub fn entry_offset(number: u64) -> u64 {
    (number + 1) * ENTRY_BYTES as u64
}
