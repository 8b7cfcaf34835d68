//! The recording's rows in the target's catalogue, once it is complete.

use std::path::Path;

use livebag::{KernelDisk, ReadDisk};
use livebag_catalog::{
    Catalogue, FileTopic, Recorded, Row, Split, StoredFile, entry_time, index_ends, recording_id,
    rows_of_container, rows_of_file, rows_of_rosbag2,
};
use livebag_format::container::{CONTAINER_FILE, Manifest as ContainerManifest};
use livebag_format::index::ENTRY_BYTES;
use livebag_format::rosbag2::BagMetadata;

use super::{PushError, Pusher, blocking, file_name, sha256_of};
use crate::digest::Digests;
use crate::recording::{Manifest, Recording};

/// First bytes of files whose topics are known without reading their messages.
const WITH_SUMMARY: [&[u8]; 3] = [b"\x89MCAP0\r\n", b"#ROSBAG V2.0", b"SQLite format 3\0"];

impl Pusher<'_> {
    /// Adds the rows if the catalogue has none of this recording; `is_new` if it was not there before this push.
    pub(super) async fn add_to_catalogue(
        &mut self,
        recording: &Recording,
        digests: &[Digests],
        is_new: bool,
    ) -> Result<(), PushError> {
        let sha256 = match &recording.manifest {
            Some(manifest) => sha256_of(&manifest.bytes),
            None => digests.first().map(|digests| digests.sha256.clone()).unwrap_or_default(),
        };
        let target = self.target;
        let catalogue =
            Catalogue::new(target.store.clone(), target.prefix().clone(), target.address());
        if !is_new && catalogue.contains(&recording_id(&recording.name, &sha256)).await? {
            return Ok(());
        }
        let mut files: Vec<_> = recording
            .files
            .iter()
            .zip(digests)
            .map(|(file, digests)| StoredFile {
                key: file.key.clone(),
                bytes: file.bytes,
                sha256: Some(digests.sha256.clone()),
            })
            .collect();
        if let Some(manifest) = &recording.manifest {
            files.push(StoredFile {
                key: manifest.key.clone(),
                bytes: manifest.bytes.len() as u64,
                sha256: Some(sha256.clone()),
            });
        }
        let robot = self.options.robot.clone();
        let recorded = Recorded { name: recording.name.clone(), robot, sha256, files };
        let path = recording.path.clone();
        let manifest = recording
            .manifest
            .as_ref()
            .map(|manifest| (file_name(&manifest.key).to_owned(), manifest.bytes.clone()));
        // In a thread that may wait for a disk.
        let rows = blocking(move || match manifest {
            Some((name, bytes)) if name == CONTAINER_FILE => of_container(&path, &bytes, &recorded),
            Some((_, bytes)) => {
                let bag = BagMetadata::parse(&text(&path, bytes)?);
                let bag = bag.map_err(|error| source(&path, error))?;
                Ok(rows_of_rosbag2(&recorded, &bag))
            }
            None => of_file(&path, &recorded),
        })
        .await?;
        catalogue.add(&rows).await?;
        Ok(())
    }
}

impl Pusher<'_> {
    /// The same for a recording with splits that are only in the store.
    pub(super) async fn add_stored_to_catalogue(
        &self,
        recording: &Recording,
        manifest: &Manifest,
        is_new: bool,
    ) -> Result<(), PushError> {
        let target = self.target;
        let catalogue =
            Catalogue::new(target.store.clone(), target.prefix().clone(), target.address());
        let id = recording_id(&recording.name, &sha256_of(&manifest.bytes));
        if is_new || !catalogue.contains(&id).await? {
            catalogue.add_stored(&recording.name, self.options.robot.as_deref()).await?;
        }
        Ok(())
    }
}

fn of_container(path: &Path, manifest: &[u8], recorded: &Recorded) -> Result<Vec<Row>, PushError> {
    let disk = KernelDisk::for_reading();
    let parse = |path: &Path, bytes: Vec<u8>| {
        ContainerManifest::parse(&text(path, bytes)?).map_err(|error| source(path, error))
    };
    let first = parse(path, manifest.to_vec())?;
    let mut splits = vec![Split { folder: String::new(), manifest: first.clone() }];
    for folder in first.splits {
        let path = path.join(&folder).join(CONTAINER_FILE);
        let bytes = disk.read(&path).map_err(|error| read(&path, error))?;
        splits.push(Split { manifest: parse(&path, bytes)?, folder });
    }
    let mut times = |index: &StoredFile| {
        let Some(ends) = index_ends(index.bytes) else { return Ok(None) };
        let below = index.key.strip_prefix(&recorded.name).unwrap_or(&index.key);
        let path = path.join(below.trim_start_matches('/'));
        let file = disk.open(&path).map_err(|error| read(&path, error))?;
        let time = |offset| {
            let mut entry = [0; ENTRY_BYTES];
            file.read_at(&mut entry, offset).map_err(|error| read(&path, error))?;
            Ok::<_, PushError>(entry_time(&entry))
        };
        Ok(time(ends[0])?.zip(time(ends[1])?))
    };
    rows_of_container(recorded, &splits, &mut times)
}

fn of_file(path: &Path, recorded: &Recorded) -> Result<Vec<Row>, PushError> {
    let file = KernelDisk::for_reading().open(path).map_err(|error| read(path, error))?;
    let mut head = [0; 16];
    let count = file.read_at(&mut head, 0).map_err(|error| read(path, error))?;
    // A file whose topics cannot be read still gets a row.
    let opened = match WITH_SUMMARY.iter().any(|magic| head[..count].starts_with(magic)) {
        true => livebag_bags::open_foreign(path).ok(),
        false => None,
    };
    let Some(opened) = opened else { return Ok(rows_of_file(recorded, &[], None, &[])) };
    let totals = opened.totals();
    let topics: Vec<_> = opened
        .topics()
        .iter()
        .enumerate()
        .map(|(number, topic)| FileTopic {
            topic: topic.clone(),
            message_count: totals.as_ref().and_then(|totals| totals.counts.get(number).copied()),
        })
        .collect();
    let records: Vec<_> = opened
        .metadata_records()
        .iter()
        .map(|record| (record.name.clone(), record.values.clone()))
        .collect();
    Ok(rows_of_file(recorded, &topics, totals.and_then(|totals| totals.times_nanos), &records))
}

fn text(path: &Path, bytes: Vec<u8>) -> Result<String, PushError> {
    String::from_utf8(bytes).map_err(|error| source(path, error))
}

fn source(path: &Path, why: impl std::fmt::Display) -> PushError {
    PushError::Source { path: path.to_owned(), why: why.to_string() }
}

fn read(path: &Path, source: std::io::Error) -> PushError {
    PushError::Read { path: path.to_owned(), source }
}
