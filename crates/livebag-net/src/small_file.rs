//! Files that people name: tokens and certificates.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Longest file with certificates or a key: a bundle of all authorities has 0.3 MB.
pub const PEM_BYTES_MAX: u64 = 16 << 20;
/// Longest file with a token.
pub const TOKEN_FILE_BYTES_MAX: u64 = 4 << 10;

/// Reads a file of at most `bytes_max`. Anything but a regular file may never end, or never begin.
///
/// # Errors
/// If it cannot be read, is longer, or is no regular file.
#[expect(clippy::disallowed_methods, reason = "a secret or a certificate, not a recording")]
pub fn small_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
    // Opening a FIFO without a writer waits for one.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(wrong("it is no regular file: copy what is wanted into one".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(wrong(format!("it is too long: at most {bytes_max} bytes are expected"))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files to be read")]
    fn what_never_ends_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(small_file(&path, 10).unwrap(), b"0123456789");
        assert!(small_file(&path, 9).unwrap_err().to_string().contains("at most 9 bytes"));
        let fifo = folder.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for never in [Path::new("/dev/zero"), Path::new("/dev/null"), folder.path(), &fifo] {
            let error = small_file(never, 10).unwrap_err();
            assert!(error.to_string().contains("regular"), "{}: {error}", never.display());
        }
    }
}
