//! Finds out what a directory holds, and opens what a container has of each topic.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use livebag_format::container::{
    CONTAINER_FILE, LOCK_FILE, Losses, Manifest, State, TopicManifest,
};

use super::brick::Brick;
use super::index::IndexReader;
use super::topic::Segment;
use super::{BagError, BagState, BagTopic, rebuild, recover};
use crate::storage::Disk;

pub(super) fn read_manifest(disk: &dyn Disk, path: &Path) -> Result<Manifest, BagError> {
    let file = path.join(CONTAINER_FILE);
    let bytes = disk.read(&file).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !path.exists() => BagError::NotFound(path.to_owned()),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            BagError::NotAContainer(path.to_owned())
        }
        _ => BagError::Io { path: file.clone(), source },
    })?;
    let text = String::from_utf8_lossy(&bytes);
    Manifest::parse(&text).map_err(|source| BagError::Manifest { path: path.to_owned(), source })
}

/// The state and the manifest of one split; recovers it if its recorder died.
pub(super) fn settled(disk: &dyn Disk, path: &Path) -> Result<(BagState, Manifest), BagError> {
    // Only a power cut leaves a damaged manifest.
    settle_if(disk, path, &|disk, path| !recover::kernel_survived(disk, path))
}

/// The same for one whose manifest is damaged, whatever damaged it.
pub(super) fn settled_by_force(
    disk: &dyn Disk,
    path: &Path,
) -> Result<(BagState, Manifest), BagError> {
    settle_if(disk, path, &|_, _| true)
}

fn settle_if(
    disk: &dyn Disk,
    path: &Path,
    may_rebuild: &dyn Fn(&dyn Disk, &Path) -> bool,
) -> Result<(BagState, Manifest), BagError> {
    match read_manifest(disk, path) {
        Ok(manifest) => match manifest.state {
            State::Closed => Ok((BagState::Closed, manifest)),
            State::Recovered => Ok((BagState::Recovered, manifest)),
            State::Recording => recover::settle(disk, path),
        },
        Err(error) if may_rebuild(disk, path) && rebuild::can_help(disk, path, &error) => {
            recover::settle(disk, path)
        }
        Err(error) => Err(error),
    }
}

/// What a split is at the moment, without recovering it.
pub(super) fn as_it_is(disk: &dyn Disk, path: &Path) -> Result<(BagState, Manifest), BagError> {
    let manifest = read_manifest(disk, path)?;
    let live = is_being_written(disk, path);
    let live = live.map_err(|source| BagError::Io { path: path.to_owned(), source })?;
    let state = match manifest.state {
        State::Closed => BagState::Closed,
        State::Recovered => BagState::Recovered,
        State::Recording if live => BagState::Live,
        State::Recording => BagState::Unrecovered,
    };
    Ok((state, manifest))
}

/// Whether a topic's files are there: the container may have been opened before the recorder had made
/// them, and then its messages are seen by opening again.
fn has_files(described: &TopicManifest) -> bool {
    !described.index.is_empty() && !described.bricks.is_empty()
}

/// Adds what one split has, `directory`, called `split` in the container.
pub(super) fn add_topics(
    disk: &dyn Disk,
    directory: &Path,
    split: &str,
    manifest: &Manifest,
    state: BagState,
    topics: &mut Vec<BagTopic>,
) -> Result<(), BagError> {
    let open = |name: &String| {
        let path = directory.join(name);
        match disk.open(&path) {
            Ok(file) => Ok((path, file)),
            Err(source) => Err(BagError::Io { path, source }),
        }
    };
    // Heads of indexes that the page cache does not have come from the device together.
    let mut indexes = Vec::new();
    for described in manifest.topics.iter().filter(|topic| has_files(topic)) {
        let (path, file) = open(&described.index)?;
        IndexReader::head_will_be_read(&*file);
        indexes.push((path, file));
    }
    let mut indexes = indexes.into_iter();
    // Two topics may have one name: their order among those tells which is which.
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for described in &manifest.topics {
        let topic = described
            .topic()
            .map_err(|source| BagError::Manifest { path: directory.to_owned(), source })?;
        let skip = seen.entry(&described.name).or_default();
        let mut same = topics.iter().enumerate().filter(|(_, known)| known.topic == topic);
        let at = same.nth(*skip).map(|(at, _)| at);
        *skip += 1;
        let at = at.unwrap_or_else(|| {
            topics.push(BagTopic {
                topic,
                segments: Vec::new(),
                brick_names: Vec::new(),
                lost: Losses::default(),
                skipped: 0,
            });
            topics.len() - 1
        });
        let known = &mut topics[at];
        known.lost.add(&described.lost);
        known.skipped += described.skipped;
        if !has_files(described) {
            continue;
        }
        let Some((path, file)) = indexes.next() else { continue };
        known.segments.push(Arc::new(Segment {
            index: IndexReader::open(path, file, state == BagState::Unrecovered)?,
            bricks: described
                .bricks
                .iter()
                .map(|name| open(name).map(|(path, file)| Brick::new(path, file)))
                .collect::<Result<_, _>>()?,
            message_bytes: described.message_bytes,
        }));
        let named = described.bricks.iter().map(|name| Path::new(split).join(name));
        known.brick_names.extend(named.map(|path| path.display().to_string()));
    }
    Ok(())
}

/// Whether a recorder holds the container's lock.
pub(crate) fn is_being_written(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.lock(&path.join(LOCK_FILE), true) {
        Ok(lock) => Ok(lock.is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
