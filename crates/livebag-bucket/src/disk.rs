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

use crate::bucket::Bucket;
use crate::cache::FileCache;
use crate::limits::{BLOCK_BYTES, FETCH_BYTES_MAX, WHOLE_BYTES_MAX};

/// The files of one recording in a store; see [`Bucket::disk`]. Their paths begin with the recording's address.
pub struct BucketDisk {
    root: PathBuf,
    files: BTreeMap<PathBuf, Arc<BucketFile>>,
}

impl BucketDisk {
    pub(crate) fn new(
        bucket: Arc<Bucket>,
        root: PathBuf,
        prefix: &Key,
        objects: Vec<ObjectMeta>,
    ) -> Self {
        let mut files = BTreeMap::new();
        for object in objects {
            let Some(parts) = object.location.prefix_match(prefix) else { continue };
            let path = parts.fold(root.clone(), |path, part| path.join(part.as_ref()));
            let file = BucketFile {
                cache: FileCache::new(bucket.cache(), object),
                bucket: bucket.clone(),
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
    bucket: Arc<Bucket>,
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
                self.cache.fetch(&self.bucket, start..end);
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
            self.cache.fetch_ahead(&self.bucket, start..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;
    use crate::limits::CACHE_BYTES_MAX;

    /// A bucket with these objects, and the disk of the recording `robot7/run1` in it.
    fn disk(objects: &[(&str, &[u8])]) -> (Arc<Bucket>, BucketDisk) {
        let store = InMemory::new();
        let bucket = Bucket::of("s3://fleet/robot7/run1", Arc::new(store.clone()));
        for (key, contents) in objects {
            let (store, key, contents) = (store.clone(), Key::from(*key), contents.to_vec());
            let put = bucket.wait(async move { store.put(&key, contents.into()).await });
            put.unwrap();
        }
        let disk = bucket.disk().unwrap();
        (bucket, disk)
    }

    fn names(disk: &BucketDisk, folder: &str) -> Vec<String> {
        let listed = disk.list(Path::new(folder)).unwrap();
        listed.iter().map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn names_are_those_of_the_recording_and_no_other() {
        let (_bucket, disk) = disk(&[
            ("robot7/run1/container.yaml", b"a"),
            ("robot7/run1/split_0001/container.yaml", b"b"),
            ("robot7/run1/split_0001/imu.idx", b"c"),
            ("robot7/run10/container.yaml", b"d"),
            ("robot7/run1.mcap", b"e"),
        ]);
        let root = "s3://fleet/robot7/run1";
        let (manifest, split) = (format!("{root}/container.yaml"), format!("{root}/split_0001"));
        assert_eq!(names(&disk, root), [manifest.clone(), split.clone()]);
        assert_eq!(
            names(&disk, &split),
            [format!("{split}/container.yaml"), format!("{split}/imu.idx")]
        );
        assert_eq!(disk.read(Path::new(&manifest)).unwrap(), b"a");
        let kind = |path: &str| disk.open(Path::new(path)).err().unwrap().kind();
        assert_eq!(kind(&split), io::ErrorKind::IsADirectory);
        assert_eq!(kind(&format!("{root}/imu.idx")), io::ErrorKind::NotFound);
        assert_eq!(kind("s3://fleet/robot7/run10/container.yaml"), io::ErrorKind::NotFound);
        assert!(disk.list(Path::new("s3://fleet/robot7/run10")).is_err());
        assert!(!disk.is_one_file());
    }

    #[test]
    fn reads_of_any_place_and_length_are_the_objects_bytes_in_bounded_memory() {
        let contents: Vec<u8> = (0..(CACHE_BYTES_MAX as u64 + (9 << 20) + 77) / 8)
            .flat_map(|word| (word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_le_bytes())
            .collect();
        let short = &contents[..100_000];
        let (bucket, disk) = disk(&[("robot7/run1/a", &contents), ("robot7/run1/b", short)]);
        let open = |name: &str| disk.open(&disk.root().join(name)).unwrap();
        let files = [(open("a"), &contents[..]), (open("b"), short)];
        let mut noise = 1u64;
        let mut random = |below: u64| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (noise >> 33) % below
        };
        let mut next = 0;
        for turn in 0..300 {
            let (file, contents) = &files[usize::from(turn % 5 == 0)];
            let length = contents.len() as u64;
            let offset = if random(2) == 0 { next % length } else { random(length + 10) };
            let count = if random(20) == 0 { random(20 << 20) } else { random(200_000) };
            if random(3) == 0 {
                file.will_need(offset, count * 4);
            }
            let mut out = vec![0; count as usize];
            let read = file.read_at(&mut out, offset).unwrap() as u64;
            let end = (offset + count).min(length);
            assert_eq!(read, end.saturating_sub(offset), "{count} at {offset}");
            assert!(out[..read as usize] == contents[offset.min(end) as usize..end as usize]);
            assert!(bucket.cache().bytes() <= CACHE_BYTES_MAX);
            next = end;
        }
    }

    #[test]
    fn an_object_that_was_replaced_or_removed_is_an_error() {
        let long = vec![1; 3 << 20];
        let (bucket, disk) = disk(&[("robot7/run1/a", &long), ("robot7/run1/b", &long)]);
        let file = |name: &str| disk.open(&disk.root().join(name)).unwrap();
        let (a, b) = (file("a"), file("b"));
        let mut out = vec![0; 100];
        assert_eq!(a.read_at(&mut out, 0).unwrap(), 100);
        // Some stores list no ETags.
        let (store, key) = (bucket.objects().clone(), Key::from("robot7/run1/a"));
        let listed = bucket.wait(async move { store.head(&key).await }).unwrap();
        let listed = vec![ObjectMeta { e_tag: None, ..listed }];
        let root = PathBuf::from("run1");
        let untagged = BucketDisk::new(bucket.clone(), root, &Key::from("robot7/run1"), listed);
        let untagged = untagged.open(Path::new("run1/a")).unwrap();
        assert_eq!(untagged.read_at(&mut out, 0).unwrap(), 100);
        let store = bucket.objects().clone();
        let changed = bucket.wait(async move {
            store.put(&Key::from("robot7/run1/a"), vec![2; 3 << 20].into()).await?;
            store.delete(&Key::from("robot7/run1/b")).await
        });
        changed.unwrap();
        let error = a.read_at(&mut out, 2 << 20).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
        let error = untagged.read_at(&mut out, 2 << 20).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
        assert_eq!(b.read_at(&mut out, 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
