//! A recording in a store, as a disk that can be read.
//!
//! Names, lengths and ETags come from one list when the disk is made, so that they cost no request later. Contents are
//! fetched with the ETag of that list, or else of the first answer: an object that was replaced since is an error, never
//! a mixture of two.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use livebag::{ReadDisk, ReadFile};
use object_store::ObjectMeta;
use object_store::path::Path as Key;

use crate::cache::{Cache, FileCache};
use crate::connection::Connection;
use crate::limits::{BLOCK_BYTES, FETCH_BYTES_MAX, WHOLE_BYTES_MAX};

/// The files of one recording in a store; see [`Bucket::disk`](crate::Bucket::disk). Their paths begin with the recording's address.
pub struct BucketDisk {
    root: PathBuf,
    files: BTreeMap<PathBuf, Arc<BucketFile>>,
}

impl BucketDisk {
    pub(crate) fn new(
        connection: &Arc<Connection>,
        cache: &Arc<Cache>,
        root: PathBuf,
        prefix: &Key,
        objects: Vec<ObjectMeta>,
    ) -> Self {
        let mut files = BTreeMap::new();
        for object in objects {
            let Some(parts) = object.location.prefix_match(prefix) else { continue };
            let path = parts.fold(root.clone(), |path, part| path.join(part.as_ref()));
            let file = BucketFile {
                cache: FileCache::new(cache, object),
                connection: connection.clone(),
                sequence: Mutex::default(),
            };
            files.insert(path, Arc::new(file));
        }
        Self { root, files }
    }

    /// The recording's address, the path of its folder or file on this disk.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the recording has a file of that name.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(&self.root.join(name))
    }

    /// Whether the recording is a single file.
    pub fn is_one_file(&self) -> bool {
        self.files.contains_key(&self.root)
    }

    /// The files in the folder `path` and below.
    fn below<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        let from = self
            .files
            .range::<Path, _>((Bound::Included(path), Bound::Unbounded))
            .map(|(file, _)| &**file);
        from.take_while(move |file| file.starts_with(path)).filter(move |file| *file != path)
    }
}

impl ReadDisk for BucketDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.files.get(path) {
            Some(file) => Ok(file.clone()),
            None if self.below(path).next().is_some() => Err(io::ErrorKind::IsADirectory.into()),
            None => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the store has no object of that name"))
            }
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let entry =
            |file: &Path| Some(file.ancestors().find(|at| at.parent() == Some(path))?.to_owned());
        let mut entries: Vec<PathBuf> = self.below(path).filter_map(entry).collect();
        entries.dedup();
        if entries.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(entries) }
    }

    /// Nobody records into a store.
    fn is_locked(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }
}

/// One object.
struct BucketFile {
    connection: Arc<Connection>,
    cache: FileCache,
    sequence: Mutex<Sequence>,
}

/// Recognises reading from front to back, which is worth large requests.
#[derive(Default)]
struct Sequence {
    /// Where the last request for a missing block ended.
    end: u64,
    bytes: u64,
}

impl Sequence {
    /// The end of a request that begins with the missing block at `start` and has all until `end`.
    fn extend(&mut self, start: u64, end: u64) -> u64 {
        self.bytes = match start == self.end && start > 0 {
            true => (self.bytes * 2).clamp(BLOCK_BYTES as u64, FETCH_BYTES_MAX),
            false => 0,
        };
        self.end = end.max(start + self.bytes);
        self.end
    }
}

impl BucketFile {
    /// The blocks that have the bytes from `start` to `end`, and all of a short object.
    fn widened(&self, start: u64, end: u64) -> (u64, u64) {
        let length = self.cache.length();
        if length <= WHOLE_BYTES_MAX {
            return (0, length);
        }
        let block = BLOCK_BYTES as u64;
        (start / block * block, end.next_multiple_of(block).min(length))
    }
}

impl ReadFile for BucketFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = self.cache.length().saturating_sub(offset);
        let count = (bytes.len() as u64).min(left) as usize;
        let mut filled = 0;
        while filled < count {
            let at = offset + filled as u64;
            filled += self.cache.read(&mut bytes[filled..count], at, |missing| {
                let (start, end) = self.widened(missing, offset + count as u64);
                let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
                let end = sequence.extend(start, end.min(start + FETCH_BYTES_MAX));
                let end = end.min(self.cache.length());
                drop(sequence);
                self.cache.fetch(&self.connection, start..end);
            })?;
        }
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.cache.length())
    }

    /// What the store lists is durable.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes).min(self.cache.length());
        if offset < end {
            let (start, end) = self.widened(offset, end);
            self.cache.fetch_ahead(&self.connection, start..end);
        }
    }
}
