//! Opens the files of each of a container's topics.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use livebag_format::container::{Losses, Manifest, TopicManifest};

use super::brick::Brick;
use super::index::IndexReader;
use super::topic::Segment;
use super::{ContainerError, ContainerState, ContainerTopic};
use crate::storage::{ReadDisk, is_no_file};

/// Whether a topic's files are there: the container may have been opened before the recorder had made
/// them, and then its messages are seen by opening again.
fn has_files(described: &TopicManifest) -> bool {
    !described.index.is_empty() && !described.bricks.is_empty()
}

/// Adds what one split has, `directory`, called `split` in the container.
pub(super) fn add_topics(
    disk: &dyn ReadDisk,
    directory: &Path,
    split: &str,
    manifest: &Manifest,
    state: ContainerState,
    topics: &mut Vec<ContainerTopic>,
) -> Result<(), ContainerError> {
    let open = |name: &String| {
        let path = directory.join(name);
        match disk.open(&path) {
            Ok(file) => Ok((path, file)),
            Err(source) => Err(ContainerError::Io { path, source }),
        }
    };
    // Two topics may have one name: their order among those tells which is which.
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for described in &manifest.topics {
        let topic = described
            .topic()
            .map_err(|source| ContainerError::Manifest { path: directory.to_owned(), source })?;
        let skip = seen.entry(&described.name).or_default();
        let mut same = topics.iter().enumerate().filter(|(_, known)| known.topic == topic);
        let at = same.nth(*skip).map(|(at, _)| at);
        *skip += 1;
        let at = at.unwrap_or_else(|| {
            topics.push(ContainerTopic {
                topic,
                segments: Vec::new(),
                brick_names: Vec::new(),
                lost: Losses::default(),
                skipped: 0,
                repeated: 0,
                damaged: 0,
                writer_returns: 0,
                missing: 0,
            });
            topics.len() - 1
        });
        let known = &mut topics[at];
        known.lost.add(&described.lost);
        known.skipped += described.skipped;
        known.repeated += described.repeated;
        known.damaged += described.damaged;
        known.writer_returns += described.writer_returns;
        if !has_files(described) {
            continue;
        }
        let is_ended = matches!(state, ContainerState::Closed | ContainerState::Recovered);
        let promised = if is_ended { described.message_count } else { 0 };
        let segment = open(&described.index).and_then(|(path, file)| {
            Ok(Segment {
                index: IndexReader::new(path, file, state == ContainerState::Unrecovered),
                bricks: described
                    .bricks
                    .iter()
                    .map(|name| {
                        open(name).map(|(path, file)| Brick::new(path, file, described.channel_id))
                    })
                    .collect::<Result<_, _>>()?,
                message_bytes: described.message_bytes,
                promised,
                lost: described.lost,
            })
        });
        match segment {
            Ok(segment) => known.segments.push(Arc::new(segment)),
            // Files of one topic that are gone cost no other topic anything.
            Err(error) if is_of_one_file(&error) => known.missing += promised,
            Err(error) => return Err(error),
        }
        let named = described.bricks.iter().map(|name| Path::new(split).join(name));
        known.brick_names.extend(named.map(|path| path.display().to_string()));
    }
    Ok(())
}

/// Whether an error tells of the state of one file, and not of this process or the whole disk.
pub(super) fn is_of_one_file(error: &ContainerError) -> bool {
    match error {
        ContainerError::Damaged { .. } => true,
        ContainerError::Io { source, .. } => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
                || is_no_file(source)
                || source.raw_os_error() == Some(libc::EIO)
        }
        _ => false,
    }
}
