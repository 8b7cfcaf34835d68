//! A recording's files in a store in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use livebag::ReadDisk;
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStoreExt};

use crate::bucket::Bucket;
use crate::disk::BucketDisk;
use crate::limits::CACHE_BYTES_MAX;

/// A bucket with these objects, and the disk of the recording `robot7/run1` in it.
fn disk(objects: &[(&str, &[u8])]) -> (Arc<Bucket>, BucketDisk) {
    let store = InMemory::new();
    let bucket = Bucket::of("s3://fleet/robot7/run1", Arc::new(store.clone()));
    for (key, contents) in objects {
        let (store, key, contents) = (store.clone(), Key::from(*key), contents.to_vec());
        let put = bucket.connection().wait(async move { store.put(&key, contents.into()).await });
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
        noise =
            noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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
    let (store, key) = (bucket.connection().objects().clone(), Key::from("robot7/run1/a"));
    let listed = bucket.connection().wait(async move { store.head(&key).await }).unwrap();
    let listed = vec![ObjectMeta { e_tag: None, ..listed }];
    let root = PathBuf::from("run1");
    let untagged = BucketDisk::new(
        bucket.connection(),
        bucket.cache(),
        root,
        &Key::from("robot7/run1"),
        listed,
    );
    let untagged = untagged.open(Path::new("run1/a")).unwrap();
    assert_eq!(untagged.read_at(&mut out, 0).unwrap(), 100);
    let store = bucket.connection().objects().clone();
    let changed = bucket.connection().wait(async move {
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
