//! Named offsets of `docs/stream-layout.md`, and the arithmetic of where areas lie.

use crate::error::HeaderError;
use crate::kind::Kind;
use crate::limits::{
    HUGE_PAGE_BYTES, PAGE_BYTES, PAYLOAD_BYTES_MAX, SCHEMA_BYTES_MAX, SLOTS_DEFAULT_BYTES,
    SLOTS_DEFAULT_MAX, SLOTS_DEFAULT_MIN, SLOTS_MAX, SLOTS_MIN,
};

/// From this sum of payloads on, the payload area is laid out for huge pages.
pub(crate) const HUGE_AREA_BYTES_MIN: usize = 4 << 20;

pub(crate) const LAYOUT_VERSION: u32 = 1;
/// `LIVEBAGS`
pub(crate) const MAGIC_MAIN: u64 = u64::from_le_bytes(*b"LIVEBAGS");
/// `LIVEBAGW`
pub(crate) const MAGIC_WAKE: u64 = u64::from_le_bytes(*b"LIVEBAGW");

/// Smallest main object: static header, live words, one more page.
pub(crate) const MAIN_BYTES_MIN: usize = 3 * PAGE_BYTES;
pub(crate) const WAKE_BYTES: usize = PAGE_BYTES;

/// Every frame carries a CRC-32C.
pub(crate) const FLAG_CHECKSUM: u32 = 1;
/// The writer wakes at every publish; there is no wake object.
pub(crate) const FLAG_ALWAYS_WAKE: u32 = 2;

/// Offsets in the static header.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0x000;
    pub(crate) const LAYOUT_VERSION: usize = 0x008;
    pub(crate) const STATIC_CRC32C: usize = 0x00C;
    pub(crate) const CHECKED_FROM: usize = 0x010;
    pub(crate) const TOTAL_BYTES: usize = 0x010;
    pub(crate) const KIND: usize = 0x018;
    pub(crate) const FLAGS: usize = 0x01C;
    pub(crate) const SLOT_COUNT: usize = 0x020;
    pub(crate) const SLOT_HEADER_STRIDE_BYTES: usize = 0x024;
    pub(crate) const SLOT_HEADERS_OFFSET: usize = 0x028;
    pub(crate) const PAYLOADS_OFFSET: usize = 0x030;
    pub(crate) const PAYLOAD_STRIDE_BYTES: usize = 0x038;
    pub(crate) const PAYLOAD_BYTES_MAX: usize = 0x040;
    pub(crate) const SCHEMA_OFFSET: usize = 0x048;
    pub(crate) const SCHEMA_BYTES: usize = 0x050;
    pub(crate) const CREATED_REALTIME_NANOS: usize = 0x058;
    pub(crate) const INSTANCE: usize = 0x060;
    pub(crate) const TOPIC: usize = 0x100;
    pub(crate) const TYPE_NAME: usize = 0x300;
    pub(crate) const MESSAGE_ENCODING: usize = 0x400;
    pub(crate) const SCHEMA_ENCODING: usize = 0x440;
}

/// Offsets of the live words.
pub(crate) mod live {
    pub(crate) const LATEST: usize = 0x1000;
    pub(crate) const BEGUN: usize = 0x1080;
    pub(crate) const HEARTBEAT_MONOTONIC_NANOS: usize = 0x1100;
    pub(crate) const HEARTBEAT_COUNT: usize = 0x1108;
    pub(crate) const STATE: usize = 0x1180;
    pub(crate) const WRITER_PID: usize = 0x1188;
    pub(crate) const WRITER_START_TICKS: usize = 0x1190;
    pub(crate) const EPOCH: usize = 0x1198;
    pub(crate) const ATTACHED_REALTIME_NANOS: usize = 0x11A0;
    pub(crate) const PUBLISHED: usize = 0x1200;
    pub(crate) const ABANDONED: usize = 0x1208;
    pub(crate) const DROPPED: usize = 0x1210;
    pub(crate) const PUBLISH_GAP_MAX_NANOS: usize = 0x1218;
    pub(crate) const PAYLOAD_BYTES_PUBLISHED: usize = 0x1220;
}

/// Values of the live word `state`.
pub(crate) mod state {
    pub(crate) const LIVE: u64 = 1;
    pub(crate) const CLOSED: u64 = 2;
    pub(crate) const REPLACED: u64 = 3;
}

/// Offset of the schema.
pub(crate) const SCHEMA_OFFSET: usize = 0x2000;

/// Offsets in a slot header.
pub(crate) mod slot {
    pub(crate) const LOCK: usize = 0x000;
    pub(crate) const PROGRESS: usize = 0x008;
    pub(crate) const PUBLISH_TIME_NANOS: usize = 0x010;
    pub(crate) const PAYLOAD_BYTES: usize = 0x018;
    /// `crc32c` in the low half, `frame_flags` in the high half.
    pub(crate) const CRC_AND_FLAGS: usize = 0x020;
    /// `height`, `width`
    pub(crate) const HEIGHT_AND_WIDTH: usize = 0x028;
    /// `step`, `row_step`
    pub(crate) const STEPS: usize = 0x030;
    /// `frame_id_bytes`, `encoding_bytes`, `field_count`
    pub(crate) const COUNTS: usize = 0x038;
    pub(crate) const FRAME_ID: usize = 0x040;
    pub(crate) const ENCODING: usize = 0x140;
    pub(crate) const FIELDS: usize = 0x180;
    pub(crate) const FIELD_BYTES: usize = 48;
    pub(crate) const FIELD_OFFSET: usize = 32;
    pub(crate) const FIELD_COUNT: usize = 36;
    pub(crate) const FIELD_DATATYPE: usize = 40;
    pub(crate) const FIELD_NAME_BYTES: usize = 41;

    pub(crate) const FLAG_CRC: u32 = 1;
    pub(crate) const FLAG_BIGENDIAN: u32 = 2;
    pub(crate) const FLAG_DENSE: u32 = 4;
}

/// Offsets in the wake object.
pub(crate) mod wake {
    pub(crate) const MAGIC: usize = 0x000;
    pub(crate) const INSTANCE: usize = 0x008;
    pub(crate) const WANTED_LATEST: usize = 0x040;
    pub(crate) const WANTED_BEGUN: usize = 0x080;
}

/// The table of readers in the wake object.
pub(crate) mod reader_entry {
    pub(crate) const TABLE_OFFSET: usize = 0x100;
    pub(crate) const COUNT: usize = 30;
    /// Two cache lines: its identity, and the values stored with every frame.
    pub(crate) const STRIDE_BYTES: usize = 128;

    pub(crate) const TURN: usize = 0x00;
    pub(crate) const PID: usize = 0x08;
    pub(crate) const START_TICKS: usize = 0x10;
    pub(crate) const LABEL_BYTES: usize = 0x18;
    pub(crate) const LABEL: usize = 0x20;
    pub(crate) const TAKEN: usize = 0x40;
    pub(crate) const LAPPED: usize = 0x48;
    pub(crate) const LAST_SEQUENCE: usize = 0x50;
    pub(crate) const TAKEN_MONOTONIC_NANOS: usize = 0x58;
}

/// Where everything of a stream lies, in bytes from the start of the main object.
///
/// A value that came out of [`Geometry::plan`] or passed [`Geometry::check`] lies wholly inside
/// `total_bytes`; all later address arithmetic relies on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) total_bytes: usize,
    pub(crate) slot_count: u32,
    pub(crate) slot_header_stride_bytes: usize,
    pub(crate) slot_headers_offset: usize,
    pub(crate) payloads_offset: usize,
    pub(crate) payload_stride_bytes: usize,
    pub(crate) payload_bytes_max: usize,
    pub(crate) schema_bytes: usize,
}

/// Where one slot lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotPlace {
    pub(crate) header: usize,
    pub(crate) payload: usize,
}

/// Fewest bytes of a slot header of this kind.
pub(crate) const fn slot_header_bytes_min(kind: Kind) -> usize {
    match kind {
        Kind::Bytes | Kind::Image => slot::FIELDS,
        Kind::Points => slot::FIELDS + crate::limits::POINT_FIELDS_MAX * slot::FIELD_BYTES,
    }
}

/// The number of slots when the caller has no wish: more when they cost next to nothing.
pub(crate) fn default_slot_count(payload_bytes_max: usize) -> u32 {
    let stride = payload_bytes_max.max(1).next_multiple_of(PAGE_BYTES);
    let fitting = u32::try_from(SLOTS_DEFAULT_BYTES / stride).unwrap_or(SLOTS_DEFAULT_MAX);
    fitting.clamp(SLOTS_DEFAULT_MIN, SLOTS_DEFAULT_MAX)
}

impl Geometry {
    /// Lays a stream out. The arguments must be within [`crate::limits`].
    pub(crate) fn plan(
        kind: Kind,
        slot_count: u32,
        payload_bytes_max: usize,
        schema_bytes: usize,
    ) -> Geometry {
        debug_assert!((SLOTS_MIN..=SLOTS_MAX).contains(&slot_count));
        debug_assert!((1..=PAYLOAD_BYTES_MAX).contains(&payload_bytes_max));
        let slots = slot_count as usize;
        let slot_header_stride_bytes = slot_header_bytes_min(kind).next_power_of_two();
        let slot_headers_offset = (SCHEMA_OFFSET + schema_bytes).next_multiple_of(PAGE_BYTES);
        let payload_stride_bytes = payload_bytes_max.next_multiple_of(PAGE_BYTES);
        let huge = payload_stride_bytes * slots >= HUGE_AREA_BYTES_MIN;
        let alignment = if huge { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let headers_end = slot_headers_offset + slot_header_stride_bytes * slots;
        let payloads_offset = headers_end.next_multiple_of(alignment);
        let end = payloads_offset + payload_stride_bytes * slots;
        Geometry {
            total_bytes: end.next_multiple_of(alignment),
            slot_count,
            slot_header_stride_bytes,
            slot_headers_offset,
            payloads_offset,
            payload_stride_bytes,
            payload_bytes_max,
            schema_bytes,
        }
    }

    /// Whether the payload area was laid out for huge pages.
    pub(crate) fn is_huge(&self) -> bool {
        self.payloads_offset.is_multiple_of(HUGE_PAGE_BYTES)
            && self.total_bytes.is_multiple_of(HUGE_PAGE_BYTES)
    }

    /// Checks every rule of the layout page against the real size of the object.
    pub(crate) fn check(&self, kind: Kind, object_bytes: u64) -> Result<(), HeaderError> {
        rule("total_bytes", "at most the size of the object", self.total_bytes, |bytes| {
            bytes as u64 <= object_bytes
        })?;
        rule("slot_count", "2 to 1024", self.slot_count as usize, |count| {
            (SLOTS_MIN as usize..=SLOTS_MAX as usize).contains(&count)
        })?;
        let stride = self.slot_header_stride_bytes;
        rule("slot_header_stride_bytes", "a multiple of 64, large enough", stride, |stride| {
            stride.is_multiple_of(64) && stride >= slot_header_bytes_min(kind)
        })?;
        rule("payload_bytes_max", "1 to 4294967295", self.payload_bytes_max, |bytes| {
            (1..=PAYLOAD_BYTES_MAX).contains(&bytes)
        })?;
        rule(
            "payload_stride_bytes",
            "a multiple of 4096, at least payload_bytes_max",
            self.payload_stride_bytes,
            |stride| stride.is_multiple_of(PAGE_BYTES) && stride >= self.payload_bytes_max,
        )?;
        rule("schema_bytes", "at most 1 MiB", self.schema_bytes, |bytes| {
            bytes <= SCHEMA_BYTES_MAX
        })?;
        let headers_bytes = self.area("slot headers", stride)?;
        let payloads_bytes = self.area("payloads", self.payload_stride_bytes)?;
        let schema_end = SCHEMA_OFFSET + self.schema_bytes;
        rule(
            "slot_headers_offset",
            "a multiple of 64 after the schema",
            self.slot_headers_offset,
            |offset| offset.is_multiple_of(64) && offset >= schema_end,
        )?;
        let headers_end = self.slot_headers_offset.checked_add(headers_bytes);
        rule(
            "payloads_offset",
            "a multiple of 4096 after the slot headers",
            self.payloads_offset,
            |offset| offset.is_multiple_of(PAGE_BYTES) && headers_end.is_some_and(|e| offset >= e),
        )?;
        let end = self.payloads_offset.checked_add(payloads_bytes);
        rule("total_bytes", "at least the end of the payloads", self.total_bytes, |bytes| {
            end.is_some_and(|end| end <= bytes)
        })
    }

    fn area(&self, field: &'static str, stride: usize) -> Result<usize, HeaderError> {
        stride.checked_mul(self.slot_count as usize).ok_or(HeaderError::Rule {
            field,
            expected: "an area that fits the address space",
            found: stride as u64,
        })
    }

    /// The slot of a frame.
    pub(crate) fn slot(&self, sequence: u64) -> SlotPlace {
        let index = (sequence % u64::from(self.slot_count)) as usize;
        SlotPlace {
            header: self.slot_headers_offset + index * self.slot_header_stride_bytes,
            payload: self.payloads_offset + index * self.payload_stride_bytes,
        }
    }
}

fn rule(
    field: &'static str,
    expected: &'static str,
    found: usize,
    holds: impl FnOnce(usize) -> bool,
) -> Result<(), HeaderError> {
    if holds(found) {
        Ok(())
    } else {
        Err(HeaderError::Rule { field, expected, found: found as u64 })
    }
}
