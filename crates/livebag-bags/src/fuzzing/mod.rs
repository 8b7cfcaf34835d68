//! Fuzz targets: files in other formats, each passed to all its readers. The targets in `fuzz/` call these functions
//! with bytes that grow by coverage, the tests here with mutated seeds.
//!
//! Errors are fine; panics, hanging and memory without bound are not.

use std::path::Path;

use livebag_format::rosbag2::{BagMetadata, MetadataVersion};

use crate::{SinkCompression, open_foreign, salvage};
use crate::{glance, verify};

/// An MCAP file behind its magic; salvaged, too.
pub fn mcap(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.mcap");
    put(&path, &[&livebag_format::mcap::MAGIC, bytes]);
    read_everything(&path);
    let saved = folder.path().join("saved.mcap");
    if salvage(&path, &saved, SinkCompression::None).is_ok() {
        let saved = verify(&saved, &mut |_| {}).unwrap();
        assert!(saved.is_whole(), "{:?}", saved.damage);
    }
}

/// A ROS 1 bag behind its first line.
pub fn ros1_bag(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.bag");
    put(&path, &[livebag_format::ros1::bag::MAGIC, bytes]);
    read_everything(&path);
}

/// A database of rosbag2 behind SQLite's magic.
pub fn database(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.db3");
    put(&path, &[b"SQLite format 3\0", bytes]);
    read_everything(&path);
}

/// `metadata.yaml`, and the same as a record of an MCAP.
pub fn rosbag2(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let read = [BagMetadata::parse(&text), BagMetadata::parse_mcap_record(&text)];
    for metadata in read.into_iter().flatten() {
        for topic in &metadata.topics {
            let _ = topic.qos_profiles();
        }
        for number in 1..=9 {
            let Some(version) = MetadataVersion::from_number(number) else { continue };
            let written = metadata.to_yaml(version);
            let again = BagMetadata::parse(&written).unwrap();
            assert_eq!(again.to_yaml(version), written);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    put(&folder.path().join("metadata.yaml"), &[bytes]);
    read_everything(folder.path());
}

#[expect(clippy::disallowed_methods, reason = "a foreign file, not a recording")]
fn put(path: &Path, parts: &[&[u8]]) {
    std::fs::write(path, parts.concat()).unwrap();
}

fn read_everything(path: &Path) {
    let _ = glance(path);
    let _ = verify(path, &mut |_| {});
    let Ok(mut source) = open_foreign(path) else { return };
    let topics = source.topics().len();
    if let Some(totals) = source.totals() {
        assert_eq!(totals.counts.len(), topics);
    }
    let _ = (source.start_time_nanos(), source.message_count());
    while let Ok(Some(message)) = source.next_message() {
        assert!(message.topic < topics);
    }
    while let Ok(Some(attachment)) = source.next_attachment() {
        if let Ok(None) = attachment.damage() {
            let read = std::io::copy(&mut attachment.data.reader(), &mut std::io::sink()).unwrap();
            assert_eq!(read, attachment.data.bytes());
        }
    }
    let _ = (source.lost_count(), source.warnings(), source.metadata_records());
}

#[cfg(test)]
mod tests;
