//! The contents of a file in the kernel, and on the medium.

use std::ops::Range;

use super::random::Random;

/// A medium keeps or loses bytes in units of this.
pub(super) const SECTOR_BYTES: usize = 512;

/// Something that the kernel was given and the medium need not have yet.
#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Length(u64),
}

/// Bytes, and which of their sectors were ever written: the others read as zeros and are holes.
#[derive(Clone, Default)]
struct Contents {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

impl Contents {
    fn set_length(&mut self, bytes: usize) {
        self.bytes.resize(bytes, 0);
        self.written.resize(bytes.div_ceil(SECTOR_BYTES), false);
    }

    fn put(&mut self, bytes: &[u8], offset: usize) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if self.bytes.len() < end {
            self.set_length(end);
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        self.written[offset / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES)].fill(true);
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { offset, bytes } => self.put(bytes, *offset as usize),
            Change::Length(bytes) => self.set_length(*bytes as usize),
        }
    }
}

/// How much unsynced data of one file survives a power cut.
struct Luck {
    /// Percentage of sectors that are kept.
    kept_percent: u64,
    tears_sectors: bool,
}

/// One file.
#[derive(Clone, Default)]
pub(super) struct Inode {
    cached: Contents,
    durable: Contents,
    pending: Vec<Change>,
}

impl Inode {
    /// The bytes as every process sees them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.cached.bytes
    }

    pub(super) fn has_hole(&self, offset: u64, bytes: u64) -> bool {
        let first = offset as usize / SECTOR_BYTES;
        let end = (offset + bytes).div_ceil(SECTOR_BYTES as u64) as usize;
        self.cached.written.get(first..end).is_none_or(|sectors| sectors.contains(&false))
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if !bytes.is_empty() {
            self.cached.put(bytes, offset as usize);
            self.pending.push(Change::Write { offset, bytes: bytes.to_vec() });
        }
    }

    pub(super) fn set_len(&mut self, bytes: u64) {
        self.cached.set_length(bytes as usize);
        self.pending.push(Change::Length(bytes));
    }

    pub(super) fn sync(&mut self) {
        for change in self.pending.drain(..) {
            self.durable.apply(&change);
        }
    }

    /// A failed fsync: the kernel marks the dirty pages clean, whether the device took them or not.
    /// A later sync has nothing to write, and succeeds.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        for change in std::mem::take(&mut self.pending) {
            if random.chance(50) {
                self.durable.apply(&change);
            }
        }
    }

    /// Changes a byte on the medium and in every cache, without anybody having written it.
    pub(super) fn rot(&mut self, offset: u64, mask: u8) {
        for contents in [&mut self.cached, &mut self.durable] {
            if let Some(byte) = contents.bytes.get_mut(offset as usize) {
                *byte ^= mask;
            }
        }
    }

    /// The contents after a power cut: each unsynced sector is kept or lost independently, and the length is any of the
    /// lengths that the file has had since the last sync.
    pub(super) fn after_power_cut(&self, random: &mut Random, tears_sectors: bool) -> Self {
        let kept_percent = [0, 50, 90, 99, 100][random.below(5) as usize];
        let luck = Luck { kept_percent, tears_sectors };
        let mut left = self.durable.clone();
        // The page cache after each change: a sector that is written back has all of it.
        let mut cached = self.durable.clone();
        let mut length = left.bytes.len() as u64;
        let mut lengths = vec![length];
        for change in &self.pending {
            cached.apply(change);
            match change {
                Change::Write { offset, bytes } => {
                    length = length.max(offset + bytes.len() as u64);
                    let range = *offset as usize..*offset as usize + bytes.len();
                    keep_sectors(&mut left, &cached.bytes, range, &luck, random);
                }
                Change::Length(bytes) => {
                    length = *bytes;
                    if random.chance(kept_percent) {
                        left.set_length(*bytes as usize);
                    }
                }
            }
            lengths.push(length);
        }
        let chosen = if random.chance(kept_percent) {
            length
        } else {
            lengths[random.below(lengths.len() as u64) as usize]
        };
        left.set_length(chosen as usize);
        Self { cached: left.clone(), durable: left, pending: Vec::new() }
    }
}

/// Keeps or loses each sector that a write to `range` has changed, as the page cache then had it.
fn keep_sectors(
    left: &mut Contents,
    cached: &[u8],
    range: Range<usize>,
    luck: &Luck,
    random: &mut Random,
) {
    for sector in range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(cached.len());
        if random.chance(luck.kept_percent) {
            left.put(&cached[start..end], start);
        } else if luck.tears_sectors && random.chance(30) {
            let kept = start + random.below((end - start) as u64 + 1) as usize;
            left.put(&cached[start..kept], start);
        }
    }
}
