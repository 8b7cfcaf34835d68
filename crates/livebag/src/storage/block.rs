//! Memory that begins on a block boundary.

use crate::limits::BLOCK_BYTES;

/// Owned bytes, aligned for direct I/O.
pub struct Block {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Block {
    /// `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        // Over-allocating keeps this free of `unsafe`; the surplus is never touched, so it costs
        // address space only.
        let memory = vec![0; bytes + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, start, bytes }
    }

    /// `bytes` of no matter what, in memory whose pages are there: filling it meets no page fault.
    pub fn touched(bytes: usize) -> Self {
        let mut block = Self { memory: vec![1; bytes + BLOCK_BYTES], start: 0, bytes };
        block.start = block.memory.as_ptr().align_offset(BLOCK_BYTES);
        block
    }

    /// The same memory for another `bytes`, whatever they are; `None` if they do not fit.
    pub fn reused(self, bytes: usize) -> Option<Self> {
        let start = self.memory.as_ptr().align_offset(BLOCK_BYTES);
        let fits = start.checked_add(bytes).is_some_and(|end| end <= self.memory.len());
        fits.then_some(Self { memory: self.memory, start, bytes })
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        self.memory.capacity()
    }

    /// Plain bytes that need no alignment, because they go through the page cache.
    pub fn unaligned(memory: Vec<u8>) -> Self {
        let bytes = memory.len();
        Self { memory, start: 0, bytes }
    }

    /// MCAP records and behind them a padding record up to whole blocks.
    pub fn padded(mut records: Vec<u8>) -> Self {
        let position = records.len() as u64;
        livebag_format::mcap::put_padding_to(&mut records, position, BLOCK_BYTES as u64);
        let mut block = Self::zeroed(records.len());
        block.copy_from_slice(&records);
        block
    }

    /// Gives the memory back, to be used again.
    pub fn into_vec(self) -> Vec<u8> {
        self.memory
    }

    /// Forgets all but the first `bytes`.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(bytes);
    }
}

impl std::ops::Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}

impl std::ops::DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}
