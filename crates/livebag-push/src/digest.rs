//! Checksums of files, as stores give them and as `sha256sum` does.

use std::sync::Arc;

use bytes::Bytes;
use livebag::{KernelDisk, ReadDisk, ReadFile};
use md5::Md5;
use ring::digest::{Context, SHA256, digest};

use crate::error::PushError;
use crate::recording::SourceFile;

/// What is known of a file's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// In hexadecimal digits.
    pub sha256: String,
    /// What S3 calls an ETag if nothing encrypts: the MD5 of an object, or of its parts' MD5s and their number.
    pub etag: String,
}

/// A part of a file.
pub struct Part {
    /// Its contents.
    pub bytes: Bytes,
    /// Their MD5 in hexadecimal digits.
    pub md5: String,
}

/// Reads a file part by part, with its checksums.
pub struct PartReader {
    source: SourceFile,
    file: Arc<dyn ReadFile>,
    part_bytes: u64,
    offset: u64,
    sha256: Context,
    md5s: Vec<[u8; 16]>,
    is_whole: bool,
}

impl PartReader {
    /// Of a file whose parts have `part_bytes`, or which `is_whole` for the store.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(source: &SourceFile, part_bytes: u64, is_whole: bool) -> Result<Self, PushError> {
        let file = KernelDisk::for_reading().open(&source.path);
        let file =
            file.map_err(|error| PushError::Read { path: source.path.clone(), source: error })?;
        let sha256 = Context::new(&SHA256);
        Ok(Self {
            source: source.clone(),
            file,
            part_bytes,
            offset: 0,
            sha256,
            md5s: Vec::new(),
            is_whole,
        })
    }

    /// The next part; an empty file has one.
    ///
    /// # Errors
    /// If it cannot be read, or became shorter.
    pub fn next(&mut self) -> Result<Option<Part>, PushError> {
        if self.offset >= self.source.bytes && !self.md5s.is_empty() {
            return Ok(None);
        }
        let length = self.part_bytes.min(self.source.bytes - self.offset) as usize;
        let mut bytes = vec![0; length];
        let count = self.file.read_at(&mut bytes, self.offset);
        let count =
            count.map_err(|source| PushError::Read { path: self.source.path.clone(), source })?;
        if count != length {
            return Err(PushError::Changed { path: self.source.path.clone() });
        }
        self.offset += length as u64;
        self.sha256.update(&bytes);
        let md5 = md5_of(&bytes);
        self.md5s.push(md5);
        Ok(Some(Part { bytes: bytes.into(), md5: hex(&md5) }))
    }

    /// The checksums of all parts.
    ///
    /// # Errors
    /// If the file has changed since it was listed.
    pub fn finish(self) -> Result<Digests, PushError> {
        if !self.source.is_unchanged() {
            return Err(PushError::Changed { path: self.source.path });
        }
        let etag = match self.md5s.as_slice() {
            [md5] if self.is_whole => hex(md5),
            md5s => format!("{}-{}", hex(&md5_of(md5s.as_flattened())), md5s.len()),
        };
        Ok(Digests { sha256: hex(self.sha256.finish().as_ref()), etag })
    }
}

/// SHA-256 in hexadecimal digits.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// MD5.
pub fn md5_of(bytes: &[u8]) -> [u8; 16] {
    <Md5 as md5::Digest>::digest(bytes).into()
}

/// In hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests make files as users do")]
    fn checksums_are_those_of_sha256sum_and_of_s3() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let digests = |contents: &[u8], part_bytes, is_whole| {
            std::fs::write(&path, contents).unwrap();
            let source = SourceFile {
                path: path.clone(),
                key: "x".into(),
                bytes: contents.len() as u64,
                modified_nanos: path
                    .metadata()
                    .unwrap()
                    .modified()
                    .unwrap()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap()
                    .as_nanos() as u64,
                grows: false,
            };
            let mut reader = PartReader::open(&source, part_bytes, is_whole).unwrap();
            while reader.next().unwrap().is_some() {}
            reader.finish().unwrap()
        };
        let whole = digests(b"abc", 8, true);
        assert_eq!(whole.etag, "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            whole.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        // printf abc | md5sum, printf d | md5sum: both, decoded, through md5sum.
        assert_eq!(
            digests(b"abcd", 3, false).etag,
            format!("{}-2", {
                let both = [md5_of(b"abc"), md5_of(b"d")].concat();
                hex(&md5_of(&both))
            })
        );
        assert_eq!(digests(b"", 8, true).etag, "d41d8cd98f00b204e9800998ecf8427e");
    }
}
