//! Whether the files of a recording are still those of before.

use std::io;
use std::path::Path;
use std::time::UNIX_EPOCH;

use livebag::{KernelDisk, ReadDisk};

use crate::digest::sha256_of;
use crate::recording::stays_here;

/// Names, sizes and times of a recording's files, in short: another one after a file was written, added or removed.
///
/// # Errors
/// If they cannot be listed.
pub fn fingerprint(path: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    list_files(path, "", &mut files)?;
    files.sort();
    Ok(sha256_of(files.concat().as_bytes()))
}

fn list_files(path: &Path, name: &str, files: &mut Vec<String>) -> io::Result<()> {
    let metadata = path.metadata()?;
    if metadata.is_dir() {
        for entry in KernelDisk::for_reading().list(path)? {
            let own = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Splits are one level below.
            if !stays_here(&own) && (name.is_empty() || !entry.is_dir()) {
                list_files(&entry, &format!("{name}/{own}"), files)?;
            }
        }
        return Ok(());
    }
    let age = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    files.push(format!("{name} {} {}\n", metadata.len(), age.as_nanos()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests make files as users do")]
    fn it_is_another_after_a_file_was_written() {
        let bag = tempfile::tempdir().unwrap();
        std::fs::write(bag.path().join("a.mcap"), b"longer").unwrap();
        let before = fingerprint(bag.path()).unwrap();
        std::fs::write(bag.path().join(".push-1"), b"a journal is no file of the recording")
            .unwrap();
        assert_eq!(fingerprint(bag.path()).unwrap(), before);
        std::fs::write(bag.path().join("a.mcap"), b"short").unwrap();
        assert_ne!(fingerprint(bag.path()).unwrap(), before);
    }
}
