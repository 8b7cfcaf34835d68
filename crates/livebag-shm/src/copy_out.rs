//! Copying a frame into the reader's own buffer: after it is complete, or along with the writer.

use crate::clock;
use crate::error::ReadError;
use crate::frame::FrameHeader;
use crate::limits::COPY_ALONG_STALL_NANOS_MAX;
use crate::memory::Mapped;
use crate::region::{Read, Region};
use crate::slot::{Holds, Slot};

/// Bytes copied between two checks whether the frame has been overwritten.
const CHECK_BYTES: usize = 512 << 10;

/// Copies the payload from `buffer.len()` on, up to `until` bytes; false when overtaken on the way.
fn extend(
    slot: &Slot<'_, Mapped>,
    buffer: &mut Vec<u8>,
    until: usize,
    sound: impl Fn() -> bool,
) -> bool {
    while buffer.len() < until {
        let start = buffer.len();
        let count = CHECK_BYTES.min(until - start);
        buffer.reserve(count);
        slot.copy_out(start, &mut buffer.spare_capacity_mut()[..count]);
        // SAFETY: the copy has initialised `count` bytes after the old length.
        unsafe { buffer.set_len(start + count) };
        if buffer.len() < until && !sound() {
            return false;
        }
    }
    true
}

impl Region {
    /// Copies a frame that is complete.
    pub(crate) fn copy_frame(&self, sequence: u64, buffer: &mut Vec<u8>) -> Read<FrameHeader> {
        let header = match self.read_header(sequence) {
            Read::Whole(header) => header,
            other => return other,
        };
        let slot = self.slot(sequence);
        buffer.clear();
        buffer.reserve(header.payload_bytes);
        let is_whole = || slot.is_still_whole(sequence);
        if !extend(&slot, buffer, header.payload_bytes, is_whole) || !is_whole() {
            return Read::Lapped;
        }
        self.verify(header, buffer)
    }

    /// Copies a frame that may still be on its way into the slot. `Lapped` also when the writer makes
    /// no progress, or fills the slot in place.
    pub(crate) fn copy_along(&self, sequence: u64, buffer: &mut Vec<u8>) -> Read<FrameHeader> {
        let slot = self.slot(sequence);
        match slot.holds(sequence) {
            Holds::Whole => return self.copy_frame(sequence, buffer),
            Holds::Filling => {}
            Holds::Earlier | Holds::Later => return Read::Lapped,
        }
        let attempt = slot.progress().attempt();
        let is_whole = || slot.is_still_whole_by(sequence, attempt);
        buffer.clear();
        buffer.reserve(self.info.payload_bytes_max);
        let mut stalled_since = None;
        loop {
            let progress = slot.progress();
            if progress.attempt() != attempt {
                return Read::Lapped;
            }
            let ready = progress.bytes().min(self.info.payload_bytes_max);
            if ready > buffer.len() {
                stalled_since = None;
                extend(&slot, buffer, ready, || true);
            }
            match slot.holds(sequence) {
                Holds::Whole => break,
                Holds::Filling => {}
                Holds::Earlier | Holds::Later => return Read::Lapped,
            }
            if ready <= buffer.len() && is_stalled(&mut stalled_since) {
                return Read::Lapped;
            }
        }
        let header = match (self.decode(sequence), is_whole()) {
            (_, false) => return Read::Lapped,
            (Ok(header), true) => header,
            (Err(error), true) => return Read::Damaged(error),
        };
        buffer.truncate(header.payload_bytes);
        if !extend(&slot, buffer, header.payload_bytes, is_whole) || !is_whole() {
            return Read::Lapped;
        }
        self.verify(header, buffer)
    }

    fn verify(&self, header: FrameHeader, buffer: &[u8]) -> Read<FrameHeader> {
        if let Some(expected) = header.crc32c {
            let found = crc32c::crc32c(buffer);
            if found != expected {
                let sequence = header.sequence;
                return Read::Damaged(ReadError::Checksum { sequence, found, expected });
            }
        }
        Read::Whole(header)
    }
}

/// Called while there is nothing new; true when that has lasted too long.
///
/// Gives the core away soon: the writer may have been put aside on this very core for the reader
/// that it has woken.
fn is_stalled(since: &mut Option<(u64, u32)>) -> bool {
    const TURNS_BEFORE_YIELD: u32 = 256;
    let (start, turns) = since.get_or_insert_with(|| (clock::monotonic_nanos(), 0));
    *turns = turns.saturating_add(1);
    if *turns < TURNS_BEFORE_YIELD {
        std::hint::spin_loop();
        return false;
    }
    std::thread::yield_now();
    clock::monotonic_nanos().saturating_sub(*start) > COPY_ALONG_STALL_NANOS_MAX
}
