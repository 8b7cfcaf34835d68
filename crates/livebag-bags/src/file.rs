//! Foreign files, read by offset. The only place in `convert` that opens them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ConvertError;
use livebag::{KernelDisk, ReadDisk, ReadFile};

/// A file of another program's making. Its length is the one it had when it was opened.
pub(super) struct ForeignFile {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    length_bytes: u64,
}

impl ForeignFile {
    pub(super) fn open(path: &Path) -> Result<Self, ConvertError> {
        Self::open_on(&KernelDisk::for_reading(), path)
    }

    /// On any disk.
    pub(super) fn open_on(disk: &dyn ReadDisk, path: &Path) -> Result<Self, ConvertError> {
        let file = disk.open(path).map_err(|source| ConvertError::io("open", path, source))?;
        Self::of(file, path)
    }

    /// The same file once more, with its length now.
    pub(super) fn again(&self) -> Result<Self, ConvertError> {
        Self::of(self.file.clone(), &self.path)
    }

    fn of(file: Arc<dyn ReadFile>, path: &Path) -> Result<Self, ConvertError> {
        let length = file.length().map_err(|source| ConvertError::io("open", path, source))?;
        Ok(ForeignFile { file, path: path.to_owned(), length_bytes: length })
    }

    /// Makes a file that must not exist yet, for writing.
    pub(super) fn create(path: &Path) -> Result<File, ConvertError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "an exported bag is an ordinary file, written front to back; the storage trait \
                      is for containers"
        )]
        File::create_new(path).map_err(|source| ConvertError::io("create", path, source))
    }

    /// Gives a file a second name; a symbolic one where the filesystem knows no other. Nothing if it
    /// has the name already.
    pub(super) fn name_again(from: &Path, to: &Path) -> Result<(), ConvertError> {
        if to.exists() {
            return Ok(());
        }
        std::fs::hard_link(from, to)
            .or_else(|_| std::os::unix::fs::symlink(from.canonicalize()?, to))
            .map_err(|source| ConvertError::io("name", to, source))
    }

    /// Syncs a file's contents, or the names in a directory.
    #[cfg(feature = "sqlite3")]
    pub(super) fn sync(path: &Path) -> Result<(), ConvertError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "an exported bag is an ordinary file; the storage trait is for containers"
        )]
        File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(|source| ConvertError::io("write", path, source))
    }

    /// The file from its start.
    pub(super) fn reader(&self) -> impl io::Read + use<'_> {
        Reader { file: self, at: 0 }
    }

    /// Fills `buffer` with the file's bytes at `offset`, as many as there are.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// The file's bytes at `offset`, at most `bytes`.
    pub(super) fn read_up_to(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, ConvertError> {
        let left = self.length_bytes.saturating_sub(offset);
        let mut out = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(bytes)];
        let mut filled = 0;
        while filled < out.len() {
            match self.file.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ConvertError::io("read", &self.path, error)),
            }
        }
        out.truncate(filled);
        Ok(out)
    }

    /// Exactly `bytes` at `offset`; damaged if the file ends before.
    pub(super) fn read(&self, offset: u64, bytes: usize) -> Result<Vec<u8>, ConvertError> {
        let out = self.read_up_to(offset, bytes)?;
        if out.len() < bytes {
            let reason = format!(
                "{bytes} bytes wanted at offset {offset}, and the file ends after {}",
                self.length_bytes
            );
            return Err(ConvertError::damaged(&self.path, reason));
        }
        Ok(out)
    }

    /// The whole file, if it is not longer than `bytes_max`.
    pub(super) fn read_all(&self, bytes_max: usize) -> Result<Vec<u8>, ConvertError> {
        if self.length_bytes > bytes_max as u64 {
            let reason = format!("at most {bytes_max} bytes were expected");
            return Err(ConvertError::damaged(&self.path, reason));
        }
        self.read(0, self.length_bytes as usize)
    }
}

struct Reader<'a> {
    file: &'a ForeignFile,
    at: u64,
}

impl io::Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads small things one after the other without a system call for each.
pub(super) struct Window<'a> {
    file: &'a ForeignFile,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    const BYTES: usize = 256 << 10;

    pub(super) fn new(file: &'a ForeignFile) -> Self {
        Window { file, start: 0, bytes: Vec::new() }
    }

    /// The file's bytes at `offset`, at most `bytes`.
    pub(super) fn up_to(&mut self, offset: u64, bytes: usize) -> Result<&[u8], ConvertError> {
        let inside = offset
            .checked_sub(self.start)
            .and_then(|past| usize::try_from(past).ok())
            .filter(|past| past.saturating_add(bytes) <= self.bytes.len());
        let past = match inside {
            Some(past) => past,
            None => {
                self.bytes = self.file.read_up_to(offset, bytes.max(Self::BYTES))?;
                self.start = offset;
                0
            }
        };
        let end = past.saturating_add(bytes).min(self.bytes.len());
        Ok(&self.bytes[past..end])
    }
}
