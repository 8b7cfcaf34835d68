//! Every frame in order, for recorders: returned in place, with an exact count of missed ones.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::frame::FrameHeader;
use crate::region::{Read, Region};

/// A reader's position in the order of frames: the last sequence it has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cursor(u64);

/// The answer of [`crate::Reader::next`].
///
/// Every sequence number of the stream is, in the end, in exactly one of three places: a frame,
/// `lapped`, or `damaged`.
#[derive(Debug, Default)]
pub struct Next {
    /// Frames overwritten before they could be returned, since the last call.
    pub lapped: u64,
    /// Frames that were whole and made no sense (a length beyond the slot, text that is not UTF-8),
    /// since the last call. 0 unless the writer is broken.
    pub damaged: u64,
    /// The next frame, if there is one.
    pub frame: Option<FrameRef>,
}

impl Cursor {
    pub(crate) fn after(sequence: u64) -> Cursor {
        Cursor(sequence)
    }

    pub(crate) fn sequence(self) -> u64 {
        self.0.saturating_add(1)
    }

    /// Ends: each turn moves on towards `latest`, which grows by at most one frame per fill.
    pub(crate) fn next(&mut self, region: &Arc<Region>) -> Next {
        let mut next = Next::default();
        loop {
            let latest = region.latest();
            if latest <= self.0 {
                return next;
            }
            let slots = u64::from(region.info.slots);
            let oldest = latest.saturating_sub(slots).saturating_add(1).max(self.sequence());
            next.lapped = next.lapped.saturating_add(oldest - self.sequence());
            self.0 = oldest;
            match region.read_header(oldest) {
                Read::Whole(header) => {
                    next.frame = Some(FrameRef { region: Arc::clone(region), header });
                    return next;
                }
                Read::Lapped => next.lapped = next.lapped.saturating_add(1),
                Read::Damaged(_) => next.damaged += 1,
            }
        }
    }
}

/// A frame in the stream's own memory, which it keeps mapped: may be sent to another thread and
/// held for any time.
///
/// The writer may overwrite the frame at any time. If you use the bytes in place (a device that writes them to disk),
/// call [`FrameRef::is_intact`] afterwards, and discard the result if it is false.
#[derive(Debug, Clone)]
pub struct FrameRef {
    region: Arc<Region>,
    header: FrameHeader,
}

impl FrameRef {
    /// The frame's header: intact, checked when the frame was returned.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// The frame's sequence.
    pub fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// The payload, page-aligned, mapped read-only. Valid while this value or a clone of it exists.
    pub fn payload_ptr(&self) -> *const u8 {
        self.region.payload(self.header.sequence)
    }

    /// Bytes of the payload.
    pub fn payload_bytes(&self) -> usize {
        self.header.payload_bytes
    }

    /// Whether the frame was whole until now.
    pub fn is_intact(&self) -> bool {
        self.region.slot(self.header.sequence).is_still_whole(self.header.sequence)
    }

    /// How many more frames the writer can publish before it begins to overwrite this one. 0: the
    /// next fill does it, or has done it.
    pub fn frames_left(&self) -> u64 {
        let overwriting = self.header.sequence.saturating_add(u64::from(self.region.info.slots));
        overwriting.saturating_sub(self.region.latest()).saturating_sub(1)
    }

    /// Copies the payload, and tells whether the copy is whole.
    ///
    /// # Panics
    /// When `to` does not have exactly [`FrameRef::payload_bytes`] bytes.
    pub fn copy_to(&self, to: &mut [u8]) -> bool {
        assert_eq!(to.len(), self.header.payload_bytes, "a buffer of the payload's size");
        // SAFETY: MaybeUninit<u8> has the layout of u8, and only initialised bytes are written to it.
        let to = unsafe { &mut *(std::ptr::from_mut(to) as *mut [MaybeUninit<u8>]) };
        self.region.slot(self.header.sequence).copy_out(0, to);
        self.is_intact()
    }

    /// Copies a part of the payload, from `start` on, without a word on whether it is whole: for a
    /// recorder that asks [`FrameRef::is_intact`] once, after all parts have been taken.
    ///
    /// # Panics
    /// If the part is not within the payload.
    pub fn copy_range_to(&self, start: usize, to: &mut [u8]) {
        let end = start.checked_add(to.len());
        assert!(end.is_some_and(|end| end <= self.header.payload_bytes), "a part of the payload");
        // SAFETY: MaybeUninit<u8> has the layout of u8, and only initialised bytes are written to it.
        let to = unsafe { &mut *(std::ptr::from_mut(to) as *mut [MaybeUninit<u8>]) };
        self.region.slot(self.header.sequence).copy_out(start, to);
    }

    /// Whether the bytes match the frame's CRC-32C, and the frame was whole until now. True, without reading the bytes,
    /// if the stream has no checksum.
    pub fn verify_checksum(&self) -> bool {
        let matches = self.header.crc32c.is_none_or(|expected| {
            self.region.crc32c_in_place(self.header.sequence, self.header.payload_bytes) == expected
        });
        matches && self.is_intact()
    }
}
