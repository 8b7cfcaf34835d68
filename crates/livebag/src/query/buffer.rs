//! Memory that answers are laid out in.

/// Bytes that grow at their end, in memory that is kept and not cleared between two uses: an answer's
/// messages are read straight into it.
#[derive(Default)]
pub struct Buffer {
    /// Behind `filled` lie bytes of an earlier use.
    memory: Vec<u8>,
    filled: usize,
}

impl Buffer {
    /// Bytes in use.
    pub fn len(&self) -> usize {
        self.filled
    }

    /// Whether no bytes are in use.
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Bytes of memory that it has.
    pub fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Marks all bytes as unused.
    pub fn clear(&mut self) {
        self.filled = 0;
    }

    /// Keeps the first `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.filled = self.filled.min(len);
    }

    /// Takes `count` more bytes into use, to be overwritten by the caller: they hold anything.
    pub fn room(&mut self, count: usize) -> &mut [u8] {
        let start = self.filled;
        self.filled += count;
        if self.memory.len() < self.filled {
            self.memory.resize(self.filled.max(self.memory.len() * 2), 0);
        }
        &mut self.memory[start..self.filled]
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(memory: Vec<u8>) -> Self {
        Self { filled: memory.len(), memory }
    }
}

/// The used bytes, without a copy.
impl From<Buffer> for Vec<u8> {
    fn from(mut buffer: Buffer) -> Self {
        buffer.memory.truncate(buffer.filled);
        buffer.memory
    }
}

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.filled]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.filled]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
