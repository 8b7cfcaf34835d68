//! The few plain files that benchmarks touch outside of what they measure.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::error::{BenchError, Result};

/// The text of a file, or nothing where it cannot be read (`/proc` and `/sys` differ by machine).
#[expect(clippy::disallowed_methods, reason = "machine facts and results, not recordings")]
pub fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// Creates (or empties) a file that a measured writer is to fill.
#[expect(clippy::disallowed_methods, reason = "the peers bring their own way to the disk")]
pub fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|e| BenchError::io(format!("creating {}", path.display()), e))
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

    #[test]
    fn an_earlier_result_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let first = write_new(directory.path(), "2026-11-21-stream", "1").unwrap();
        let second = write_new(directory.path(), "2026-11-21-stream", "2").unwrap();
        assert_ne!(first, second);
        assert_eq!(text(first).as_deref(), Some("1"));
        assert_eq!(text(second).as_deref(), Some("2"));
    }
}
