//! The static header: a stream's own description, checked before any of it is used.

use crate::error::HeaderError;
use crate::kind::Kind;
use crate::layout::{
    FLAG_ALWAYS_WAKE, FLAG_CHECKSUM, Geometry, LAYOUT_VERSION, MAGIC_MAIN, MAIN_BYTES_MIN,
    SCHEMA_OFFSET, header as at,
};
use crate::limits::PAGE_BYTES;
use crate::limits::{
    ENCODING_NAME_BYTES_MAX, SCHEMA_BYTES_MAX, TOPIC_BYTES_MAX, TYPE_NAME_BYTES_MAX,
};

/// The static header as values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StaticHeader {
    pub(crate) kind: Kind,
    pub(crate) checksum: bool,
    pub(crate) always_wake: bool,
    pub(crate) geometry: Geometry,
    pub(crate) created_realtime_nanos: u64,
    pub(crate) instance: u64,
    pub(crate) topic: String,
    pub(crate) type_name: String,
    pub(crate) message_encoding: String,
    pub(crate) schema_encoding: String,
    pub(crate) schema: Vec<u8>,
}

impl StaticHeader {
    /// Whether a writer with the options `self` can continue in a region that has `found`.
    pub(crate) fn is_continued_by(&self, found: &StaticHeader) -> bool {
        let same_made = |header: &StaticHeader| StaticHeader {
            created_realtime_nanos: 0,
            instance: 0,
            ..header.clone()
        };
        same_made(self) == same_made(found)
    }

    /// The bytes of the first page, with the magic still 0.
    pub(crate) fn encode(&self) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        let geometry = &self.geometry;
        let mut flags = if self.checksum { FLAG_CHECKSUM } else { 0 };
        flags |= if self.always_wake { FLAG_ALWAYS_WAKE } else { 0 };
        put_u32(&mut page, at::LAYOUT_VERSION, LAYOUT_VERSION);
        put_u64(&mut page, at::TOTAL_BYTES, geometry.total_bytes as u64);
        put_u32(&mut page, at::KIND, self.kind as u32);
        put_u32(&mut page, at::FLAGS, flags);
        put_u32(&mut page, at::SLOT_COUNT, geometry.slot_count);
        let stride = geometry.slot_header_stride_bytes as u32;
        put_u32(&mut page, at::SLOT_HEADER_STRIDE_BYTES, stride);
        put_u64(&mut page, at::SLOT_HEADERS_OFFSET, geometry.slot_headers_offset as u64);
        put_u64(&mut page, at::PAYLOADS_OFFSET, geometry.payloads_offset as u64);
        put_u64(&mut page, at::PAYLOAD_STRIDE_BYTES, geometry.payload_stride_bytes as u64);
        put_u64(&mut page, at::PAYLOAD_BYTES_MAX, geometry.payload_bytes_max as u64);
        put_u64(&mut page, at::SCHEMA_OFFSET, SCHEMA_OFFSET as u64);
        put_u32(&mut page, at::SCHEMA_BYTES, geometry.schema_bytes as u32);
        put_u64(&mut page, at::CREATED_REALTIME_NANOS, self.created_realtime_nanos);
        put_u64(&mut page, at::INSTANCE, self.instance);
        put_text(&mut page, at::TOPIC, &self.topic);
        put_text(&mut page, at::TYPE_NAME, &self.type_name);
        put_text(&mut page, at::MESSAGE_ENCODING, &self.message_encoding);
        put_text(&mut page, at::SCHEMA_ENCODING, &self.schema_encoding);
        let crc = static_crc(&page, &self.schema);
        put_u32(&mut page, at::STATIC_CRC32C, crc);
        page
    }

    /// Reads and checks the header of an object of `object_bytes` bytes. `schema` copies that many
    /// bytes from [`SCHEMA_OFFSET`], which were found to lie inside the object.
    pub(crate) fn decode(
        page: &[u8; PAGE_BYTES],
        object_bytes: u64,
        schema: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<StaticHeader, HeaderError> {
        match get_u64(page, at::MAGIC) {
            MAGIC_MAIN => {}
            0 => return Err(HeaderError::BeingMade),
            found => return Err(HeaderError::Foreign { found }),
        }
        if object_bytes < MAIN_BYTES_MIN as u64 {
            return Err(HeaderError::TooSmall { found: object_bytes });
        }
        match get_u32(page, at::LAYOUT_VERSION) {
            LAYOUT_VERSION => {}
            found => return Err(HeaderError::Version { found }),
        }
        let number = get_u32(page, at::KIND);
        let kind = Kind::from_number(number).ok_or(HeaderError::Rule {
            field: "kind",
            expected: "0, 1 or 2",
            found: number.into(),
        })?;
        let geometry = decode_geometry(page)?;
        geometry.check(kind, object_bytes)?;
        let schema = schema(geometry.schema_bytes);
        let (found, expected) = (static_crc(page, &schema), get_u32(page, at::STATIC_CRC32C));
        if found != expected {
            return Err(HeaderError::Checksum { found, expected });
        }
        let flags = get_u32(page, at::FLAGS);
        if flags & !(FLAG_CHECKSUM | FLAG_ALWAYS_WAKE) != 0 {
            let expected = "only bits 0 and 1";
            return Err(HeaderError::Rule { field: "flags", expected, found: flags.into() });
        }
        let encoding_max = ENCODING_NAME_BYTES_MAX;
        Ok(StaticHeader {
            kind,
            checksum: flags & FLAG_CHECKSUM != 0,
            always_wake: flags & FLAG_ALWAYS_WAKE != 0,
            geometry,
            created_realtime_nanos: get_u64(page, at::CREATED_REALTIME_NANOS),
            instance: get_u64(page, at::INSTANCE),
            topic: get_text(page, "topic", at::TOPIC, TOPIC_BYTES_MAX)?,
            type_name: get_text(page, "type_name", at::TYPE_NAME, TYPE_NAME_BYTES_MAX)?,
            message_encoding: get_text(
                page,
                "message_encoding",
                at::MESSAGE_ENCODING,
                encoding_max,
            )?,
            schema_encoding: get_text(page, "schema_encoding", at::SCHEMA_ENCODING, encoding_max)?,
            schema,
        })
    }
}

fn decode_geometry(page: &[u8; PAGE_BYTES]) -> Result<Geometry, HeaderError> {
    let schema_offset = get_u64(page, at::SCHEMA_OFFSET);
    if schema_offset != SCHEMA_OFFSET as u64 {
        let (field, expected) = ("schema_offset", "8192");
        return Err(HeaderError::Rule { field, expected, found: schema_offset });
    }
    let schema_bytes = get_u32(page, at::SCHEMA_BYTES) as usize;
    debug_assert!(SCHEMA_BYTES_MAX < u32::MAX as usize);
    // usize is 64 bits wide on every supported target (lib.rs), so nothing is cut off.
    Ok(Geometry {
        total_bytes: get_u64(page, at::TOTAL_BYTES) as usize,
        slot_count: get_u32(page, at::SLOT_COUNT),
        slot_header_stride_bytes: get_u32(page, at::SLOT_HEADER_STRIDE_BYTES) as usize,
        slot_headers_offset: get_u64(page, at::SLOT_HEADERS_OFFSET) as usize,
        payloads_offset: get_u64(page, at::PAYLOADS_OFFSET) as usize,
        payload_stride_bytes: get_u64(page, at::PAYLOAD_STRIDE_BYTES) as usize,
        payload_bytes_max: get_u64(page, at::PAYLOAD_BYTES_MAX) as usize,
        schema_bytes,
    })
}

fn static_crc(page: &[u8; PAGE_BYTES], schema: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&page[at::CHECKED_FROM..]), schema)
}

fn put_u32(page: &mut [u8; PAGE_BYTES], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(page: &mut [u8; PAGE_BYTES], at: usize, value: u64) {
    page[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// The text must be within its limit: `StreamOptions` has checked it.
fn put_text(page: &mut [u8; PAGE_BYTES], at: usize, text: &str) {
    put_u32(page, at, text.len() as u32);
    page[at + 4..at + 4 + text.len()].copy_from_slice(text.as_bytes());
}

fn get_u32(page: &[u8; PAGE_BYTES], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&page[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn get_u64(page: &[u8; PAGE_BYTES], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&page[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn get_text(
    page: &[u8; PAGE_BYTES],
    field: &'static str,
    at: usize,
    bytes_max: usize,
) -> Result<String, HeaderError> {
    let bytes = get_u32(page, at) as usize;
    if bytes > bytes_max {
        let expected = "a length within the field";
        return Err(HeaderError::Rule { field, expected, found: bytes as u64 });
    }
    let text = std::str::from_utf8(&page[at + 4..at + 4 + bytes]);
    text.map(str::to_owned).map_err(|_| HeaderError::Text { field })
}

/// Makes the checksum of a header fit whatever the header says.
#[cfg(all(any(test, fuzzing), not(loom)))]
pub(crate) fn seal(main: &crate::memory::Mapped) {
    use std::sync::atomic::Ordering::Relaxed;

    use crate::memory::{ReadMemory, WriteMemory};

    let words = |start: usize, count: usize| -> Vec<u8> {
        let words = (start..start + count.next_multiple_of(8)).step_by(8);
        words.flat_map(|at| main.load(at, Relaxed).to_le_bytes()).take(count).collect()
    };
    let mut page = [0; PAGE_BYTES];
    page.copy_from_slice(&words(0, PAGE_BYTES));
    let schema_bytes = get_u32(&page, at::SCHEMA_BYTES) as usize;
    if schema_bytes > main.bytes() - SCHEMA_OFFSET - 8 {
        return;
    }
    let crc = static_crc(&page, &words(SCHEMA_OFFSET, schema_bytes));
    let version = get_u32(&page, at::LAYOUT_VERSION);
    main.store(at::LAYOUT_VERSION, u64::from(crc) << 32 | u64::from(version), Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests;
