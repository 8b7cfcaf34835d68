//! Copies of foreign files that are made to be read, below `$TMPDIR` (`/tmp`). At least [`FREE_BYTES_MIN`] stay free
//! there; a file that needs more is refused with an error.

use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::ConvertError;
use super::file::ForeignFile;

/// What copies leave free on the filesystem of `$TMPDIR`, in bytes.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Bytes written between two checks of the free space.
const PIECE_BYTES: usize = 16 << 20;

/// A folder of this process's own, removed with all that is in it when it is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    pub(super) fn new() -> Result<Self, ConvertError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("livebag-unpacked-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(|source| ConvertError::io("create", &folder, source))?;
        Ok(TemporaryFolder(folder))
    }

    /// Where a file of that name is, or would be.
    pub(super) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Writes all that `from` gives into a new file: its bytes, and the error that ended them early.
    pub(super) fn fill(
        &self,
        target: &Path,
        mut from: impl Read,
        refused: impl Fn() -> ConvertError,
    ) -> Result<(u64, Option<io::Error>), ConvertError> {
        let mut to = ForeignFile::create(target)?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut bytes = 0;
        let mut ended_by = None;
        loop {
            if !self.has_room() {
                return Err(refused());
            }
            let mut filled = 0;
            while filled < piece.len() && ended_by.is_none() {
                match from.read(&mut piece[filled..]) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => ended_by = Some(error),
                }
            }
            to.write_all(&piece[..filled])
                .map_err(|source| ConvertError::io("write", target, source))?;
            bytes += filled as u64;
            if filled < piece.len() {
                return Ok((bytes, ended_by));
            }
        }
    }

    fn has_room(&self) -> bool {
        let Ok(room) = rustix::fs::statvfs(&self.0) else { return true };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        free >= FREE_BYTES_MIN + PIECE_BYTES as u64
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Another process may have removed the temporary files already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
