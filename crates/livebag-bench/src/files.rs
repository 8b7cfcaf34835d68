//! The few plain files that benchmarks use besides the measured ones.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};

/// Creates (or empties) a file that a measured writer is to fill.
#[expect(clippy::disallowed_methods, reason = "the peers bring their own way to the disk")]
pub fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|e| BenchError::io(format!("creating {}", path.display()), e))
}

/// Opens a recording of a peer's.
#[expect(clippy::disallowed_methods, reason = "the peers bring their own way to the disk")]
pub fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| BenchError::io(format!("opening {}", path.display()), e))
}

/// Opens a file for reads past the page cache.
#[expect(clippy::disallowed_methods, reason = "what the device gives is measured beside livebag")]
pub fn open_direct(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    file.map_err(|e| BenchError::io(format!("opening {}", path.display()), e))
}

/// Maps a finished recording of a peer's.
pub fn map(path: &Path) -> Result<memmap2::Mmap> {
    let file = open(path)?;
    #[expect(unsafe_code, reason = "the peer's fastest way to read")]
    // SAFETY: the benchmark made the file, and nothing changes it while it is mapped.
    let map = unsafe { memmap2::Mmap::map(&file) };
    map.map_err(|e| BenchError::io(format!("mapping {}", path.display()), e))
}

/// A file, or the files of a directory.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |e| BenchError::io(format!("listing {}", path.display()), e);
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_of(&entry.map_err(failed)?.path())?);
    }
    Ok(files)
}

/// Drops the pages of a file or of a directory's files from the page cache.
pub fn drop_from_cache(path: &Path) -> Result<()> {
    for path in files_of(path)? {
        let file = open(&path)?;
        let failed = |e| BenchError::io(format!("dropping {} from the cache", path.display()), e);
        file.sync_data().map_err(failed)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|e| failed(e.into()))?;
    }
    Ok(())
}

/// Bytes of all files below a directory.
pub fn total_bytes(path: &Path) -> Result<u64> {
    let mut total = 0;
    for path in files_of(path)? {
        let failed = |e| BenchError::io(format!("looking at {}", path.display()), e);
        total += std::fs::metadata(&path).map_err(failed)?.len();
    }
    Ok(total)
}

/// Makes a directory of sparse files, each `factor` times as long as its model and with its last piece at its end;
/// files of less than 64 KiB are copied. Returns their length in bytes.
pub fn copy_sparse(from: &Path, to: &Path, factor: u64) -> Result<u64> {
    let failed = |e| BenchError::io(format!("copying {}", from.display()), e);
    std::fs::create_dir_all(to).map_err(failed)?;
    for path in files_of(from)? {
        let Some(name) = path.file_name() else { continue };
        let model = open(&path)?;
        let bytes = model.metadata().map_err(failed)?.len();
        let copy = create(&to.join(name))?;
        // Index entries have 48 bytes behind a header of 48: whole multiples stay aligned.
        let (piece, length) =
            if bytes < 64 << 10 { (bytes, bytes) } else { (4800.min(bytes), bytes * factor) };
        let mut buffer = vec![0; piece as usize];
        for (source, target) in [(0, 0), (bytes - piece, length - piece)] {
            model.read_exact_at(&mut buffer, source).map_err(failed)?;
            copy.write_all_at(&buffer, target).map_err(failed)?;
        }
    }
    total_bytes(to)
}

/// Writes `text` to `<directory>/<stem>.json`, or `<stem>-2.json` and so on, so that no earlier
/// result is lost. Returns the path.
#[expect(clippy::disallowed_methods, reason = "results, not recordings")]
pub fn write_new(directory: &Path, stem: &str, text: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(directory)
        .map_err(|e| BenchError::io(format!("creating {}", directory.display()), e))?;
    for attempt in 1..10_000 {
        let suffix = if attempt == 1 { String::new() } else { format!("-{attempt}") };
        let path = directory.join(format!("{stem}{suffix}.json"));
        match File::create_new(&path) {
            Ok(mut file) => {
                std::io::Write::write_all(&mut file, text.as_bytes())
                    .map_err(|e| BenchError::io(format!("writing {}", path.display()), e))?;
                return Ok(path);
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(BenchError::io(format!("creating {}", path.display()), e)),
        }
    }
    Err(BenchError::Usage(format!("{} is full of {stem} results", directory.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage;

    #[test]
    fn an_earlier_result_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let first = write_new(directory.path(), "2026-11-21-stream", "1").unwrap();
        let second = write_new(directory.path(), "2026-11-21-stream", "2").unwrap();
        assert_ne!(first, second);
        assert_eq!(usage::text(first).as_deref(), Some("1"));
        assert_eq!(usage::text(second).as_deref(), Some("2"));
    }
}
