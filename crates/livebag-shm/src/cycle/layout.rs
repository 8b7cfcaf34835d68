//! Named offsets of `docs/cycle-layout.md`.

use crate::limits::PAGE_BYTES;

/// `LIVEBAGC`
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"LIVEBAGC");
pub(crate) const LAYOUT_VERSION: u32 = 1;

/// Applications that a board has room for.
pub const CYCLE_SLOTS: usize = 64;
/// Longest name of an application in bytes.
pub const CYCLE_NAME_BYTES_MAX: usize = 128;

pub(crate) const SLOT_STRIDE_BYTES: usize = 512;
pub(crate) const SLOTS_OFFSET: usize = PAGE_BYTES;
pub(crate) const BOARD_BYTES: usize = SLOTS_OFFSET + CYCLE_SLOTS * SLOT_STRIDE_BYTES;
/// Transitions that a slot remembers. Two are read; six may be stored meanwhile.
pub(crate) const RING_ENTRIES: u64 = 8;

/// Offsets in the header.
pub(crate) mod header {
    pub(crate) const MAGIC: usize = 0x000;
    pub(crate) const LAYOUT_VERSION: usize = 0x008;
    pub(crate) const STATIC_CRC32C: usize = 0x00C;
    pub(crate) const CHECKED_FROM: usize = 0x010;
    pub(crate) const TOTAL_BYTES: usize = 0x010;
    pub(crate) const SLOT_COUNT: usize = 0x018;
    pub(crate) const SLOT_STRIDE_BYTES: usize = 0x01C;
    pub(crate) const SLOTS_OFFSET: usize = 0x020;
    pub(crate) const RING_ENTRIES: usize = 0x024;
    pub(crate) const CHECKED_TO: usize = 0x028;
}

/// Offsets in a slot.
pub(crate) mod slot {
    pub(crate) const EPOCH: usize = 0x000;
    pub(crate) const BASE: usize = 0x008;
    pub(crate) const PID: usize = 0x010;
    pub(crate) const START_TICKS: usize = 0x018;
    pub(crate) const NAME_BYTES: usize = 0x020;
    pub(crate) const NAME: usize = 0x040;
    pub(crate) const TRANSITIONS: usize = 0x0C0;
    pub(crate) const RING: usize = 0x100;
    pub(crate) const ENTRY_BYTES: usize = 16;
    pub(crate) const ENTRY_NANOS: usize = 0;
    pub(crate) const ENTRY_WEIGHT: usize = 8;
}

const _: () = assert!(slot::NAME + CYCLE_NAME_BYTES_MAX == slot::TRANSITIONS);
const _: () = assert!(slot::RING + RING_ENTRIES as usize * slot::ENTRY_BYTES <= SLOT_STRIDE_BYTES);
const _: () = assert!(CYCLE_NAME_BYTES_MAX.is_multiple_of(8));

/// Offset of a slot in the region.
pub(crate) fn slot_offset(slot: usize) -> usize {
    SLOTS_OFFSET + slot * SLOT_STRIDE_BYTES
}
