//! Memory that begins on a block boundary.

use memmap2::MmapMut;

use crate::limits::{BLOCK_BYTES, LENT_BYTES_MIN};

/// Owned bytes, aligned for direct I/O.
pub struct Block {
    memory: Memory,
    start: usize,
    bytes: usize,
}

enum Memory {
    Heap(Vec<u8>),
    /// Of the kernel, and the kernel's again afterwards.
    Lent(MmapMut),
}

impl std::ops::Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(memory) => memory,
            Self::Lent(memory) => memory,
        }
    }
}

impl std::ops::DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(memory) => memory,
            Self::Lent(memory) => memory,
        }
    }
}

impl Block {
    fn new(memory: Memory, bytes: usize) -> Self {
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, start, bytes }
    }

    /// `bytes` zeros.
    pub fn zeroed(bytes: usize) -> Self {
        // Over-allocating keeps this free of `unsafe`; the surplus is never touched, so it costs
        // address space only.
        Self::new(Memory::Heap(vec![0; bytes + BLOCK_BYTES]), bytes)
    }

    /// `bytes` zeros that are needed once, and seldom. The allocator would keep them (glibc's does, once it has seen
    /// their size), and a recorder that had one bad second would hold its memory for the rest of the day. Not in huge
    /// pages: when memory is short, the kernel makes the requesting thread move other pages.
    pub fn lent(bytes: usize) -> Self {
        let lent = (bytes >= LENT_BYTES_MIN).then(|| MmapMut::map_anon(bytes));
        let Some(Ok(memory)) = lent else { return Self::zeroed(bytes) };
        Self::new(Memory::Lent(memory), bytes)
    }

    /// `bytes` of no matter what, in memory whose pages are there: filling it meets no page fault.
    pub fn touched(bytes: usize) -> Self {
        Self::new(Memory::Heap(vec![1; bytes + BLOCK_BYTES]), bytes)
    }

    /// The same memory for another `bytes`, whatever they are; `None` if they do not fit.
    pub fn reused(self, bytes: usize) -> Option<Self> {
        let start = self.memory.as_ptr().align_offset(BLOCK_BYTES);
        let fits = start.checked_add(bytes).is_some_and(|end| end <= self.memory.len());
        fits.then_some(Self { memory: self.memory, start, bytes })
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        match &self.memory {
            Memory::Heap(memory) => memory.capacity(),
            Memory::Lent(memory) => memory.len(),
        }
    }

    /// Whether its memory goes back to the kernel.
    pub fn is_lent(&self) -> bool {
        matches!(self.memory, Memory::Lent(_))
    }

    /// Plain bytes that need no alignment, because they go through the page cache.
    pub fn unaligned(memory: Vec<u8>) -> Self {
        let bytes = memory.len();
        Self { memory: Memory::Heap(memory), start: 0, bytes }
    }

    /// MCAP records and behind them a padding record up to whole blocks.
    pub fn padded(mut records: Vec<u8>) -> Self {
        let position = records.len() as u64;
        livebag_format::mcap::put_padding_to(&mut records, position, BLOCK_BYTES as u64);
        let mut block = Self::zeroed(records.len());
        block.copy_from_slice(&records);
        block
    }

    /// Gives the memory back, to be used again, if it is not the kernel's.
    pub fn into_vec(self) -> Option<Vec<u8>> {
        match self.memory {
            Memory::Heap(memory) => Some(memory),
            Memory::Lent(_) => None,
        }
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
