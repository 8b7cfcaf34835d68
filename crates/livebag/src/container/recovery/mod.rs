//! Repair of a container whose recorder died, or that is damaged.
//!
//! The truth about a message is its bytes in a brick, with a checksum or a commit mark. An index and a
//! manifest are caches of it that can be made again, each topic for itself. So recovery
//!
//! 1. makes the manifest again if it is gone or damaged ([`manifest`]),
//! 2. reads each index as a list of claims ([`index`]),
//! 3. walks each brick ([`walk`]), and finds all that can be proven ([`proof`], [`survey`]),
//! 4. repairs the brick and its indexes ([`mend`]).
//!
//! It adds and marks. It never shortens a file whose later chunks can be proven, and keeps the bytes
//! that it writes over: in `container.damaged`, `NAME.idx.damaged` and `container.yaml.damaged`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use livebag_format::container::{
    CONTAINER_FILE, LOCK_FILE, Manifest, ManifestError, SYNCED_FILE, State, SyncMark,
};
use livebag_format::index::IndexEntry;
use livebag_format::mcap::MessageHeader;

use super::{Opened, is_being_written, read_manifest};
use crate::container::{ContainerError, ContainerState};
use crate::limits::UNSETTLED_BYTES;
use crate::memory::memory_available;
use crate::storage::{Access, Disk, Owner, ReadDisk, if_there, is_out_of_files};

mod definitions;
mod index;
pub(super) mod manifest;
mod mend;
mod proof;
mod survey;
mod walk;

use index::{Claim, ENTRY_MEMORY_BYTES, Finding, TopicIndex};
use manifest::{correct_bricks, correct_splits, name_newest_files, rebuild};
use mend::mend_brick;
use proof::Trust;
use survey::Member;
use walk::Walk;

/// Determines the state of a container. Recovers it if its recorder is gone and this user may write: an unclosed one,
/// and with `is_thorough` also a closed one with damage.
pub(super) fn settle(
    disk: &dyn Disk,
    path: &Path,
    is_thorough: bool,
) -> Result<Opened, ContainerError> {
    let io_error = |source| ContainerError::Io { path: path.to_owned(), source };
    let live = || Ok(Opened::unchanged(ContainerState::Live, read_manifest(disk, path)?));
    if is_being_written(disk, path).map_err(io_error)? {
        return live();
    }
    // Before the lock is taken, which makes its file where there is none.
    let survived = kernel_survived(disk, path);
    let lock = match keep_owner(disk, path).and_then(|()| disk.lock(&path.join(LOCK_FILE))) {
        Ok(Some(lock)) => lock,
        Ok(None) => return live(),
        Err(error) if is_refused(&error) => {
            return Ok(Opened::unchanged(
                ContainerState::Unrecovered,
                read_or_imagine(disk, path)?,
            ));
        }
        Err(error) => return Err(io_error(error)),
    };
    // Exclusive: another process may have closed or recovered it before the lock was ours.
    let (mut manifest, whole) = read_or_rebuild(disk, path, survived)?;
    let is_ended = manifest.state != State::Recording;
    let recovered = match is_ended && !is_thorough {
        true => Ok(false),
        false => recover(disk, path, &mut manifest, (survived && whole, is_thorough)),
    };
    drop(lock);
    let is_mended = match recovered {
        Ok(is_mended) => is_mended,
        Err(ContainerError::Io { source, .. })
            if is_refused(&source) || (is_without_memory(&source) && !is_thorough) =>
        {
            return Ok(Opened::unchanged(ContainerState::Unrecovered, manifest));
        }
        Err(error) => return Err(error),
    };
    let state = match manifest.state {
        State::Closed => ContainerState::Closed,
        State::Recovered | State::Recording => ContainerState::Recovered,
    };
    Ok(Opened { state, manifest, is_mended })
}

/// Whether the kernel that the recorder wrote to is the one that answers now. If not, data that was not synced may be
/// gone.
pub(super) fn kernel_survived(disk: &dyn Disk, path: &Path) -> bool {
    let owner = read_owner(disk, path);
    owner.is_some_and(|owner| Some(owner.boot_id) == disk.boot_id())
}

/// The recorder's note about itself.
pub(crate) fn read_owner(disk: &dyn ReadDisk, path: &Path) -> Option<Owner> {
    let bytes = disk.read(&path.join(LOCK_FILE)).ok()?;
    Owner::parse(str::from_utf8(&bytes).ok()?)
}

/// Creates the lock's file, empty, if a power cut has lost it: the recovering process must not be mistaken for the
/// recorder.
fn keep_owner(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let file = path.join(LOCK_FILE);
    match disk.open(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(&file, Access::Buffered).map(drop)
        }
        Err(error) => Err(error),
        Ok(_) => Ok(()),
    }
}

/// The manifest if nothing can be written: as it is, or as it would be rebuilt.
pub(super) fn read_or_imagine(disk: &dyn Disk, path: &Path) -> Result<Manifest, ContainerError> {
    read_manifest(disk, path).or_else(|error| {
        if manifest::can_help(disk, path, &error) { rebuild(disk, path) } else { Err(error) }
    })
}

/// The manifest, and whether it is the one that was written.
fn read_or_rebuild(
    disk: &dyn Disk,
    path: &Path,
    survived: bool,
) -> Result<(Manifest, bool), ContainerError> {
    let read = read_manifest(disk, path);
    let text = disk.read(&path.join(CONTAINER_FILE)).unwrap_or_default();
    let fits = Manifest::checksum_fits(&text);
    match read {
        // Changed by hand, or of a livebag that wrote no checksum: but a recorder's last words before
        // a power cut must be whole.
        Ok(manifest) if survived || fits == Some(true) || manifest.state != State::Recording => {
            Ok((manifest, true))
        }
        Ok(_)
        | Err(
            ContainerError::NotFound(_)
            | ContainerError::NotAContainer(_)
            | ContainerError::Manifest { source: ManifestError::Yaml(_), .. },
        ) => {
            let rebuilt = rebuild(disk, path)?;
            if !text.is_empty() {
                let file = path.join(CONTAINER_FILE);
                let kept = keep_aside(disk, &file, &text);
                kept.map_err(|source| ContainerError::Io { path: file, source })?;
            }
            Ok((rebuilt, false))
        }
        Err(error) => Err(error),
    }
}

/// Whether the container can be read, but not recovered here and now.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
    )
}

/// Copies a file that is to be replaced to `NAME.damaged`, or `NAME.damaged2` and so on: what an earlier recovery has kept
/// stays.
fn keep_aside(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    for number in 1.. {
        let mut name = path.as_os_str().to_owned();
        name.push(".damaged");
        if number > 1 {
            name.push(number.to_string());
        }
        let aside = Path::new(&name);
        match if_there(disk.read(aside))? {
            // By a recovery that was interrupted.
            Some(kept) if kept == bytes => break,
            Some(_) => {}
            None => return disk.replace(aside, bytes, true),
        }
    }
    Ok(())
}

/// Whether it needs more memory than there is.
fn is_without_memory(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::OutOfMemory
}

/// Memory that a recovery may still take, in bytes.
struct Memory(u64);

impl Memory {
    /// Three quarters of the available memory.
    fn new() -> Self {
        match memory_available() {
            0 => Self(u64::MAX),
            bytes => Self(bytes / 4 * 3),
        }
    }

    fn take(&mut self, bytes: u64) -> io::Result<()> {
        match self.0.checked_sub(bytes) {
            Some(left) => self.0 = left,
            None => {
                let what = format!(
                    "repairing it takes {bytes} bytes of memory, and {} can be had here and now: its time \
                     indexes are held in memory meanwhile",
                    self.0
                );
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, what));
            }
        }
        Ok(())
    }
}

/// Repairs all files, and gives whether any had to be changed. If `is_thorough` nothing is believed
/// that the bricks do not prove.
fn recover(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &mut Manifest,
    (survived, is_thorough): (bool, bool),
) -> Result<bool, ContainerError> {
    let was_closed = manifest.state != State::Recording;
    let in_directory = |source| ContainerError::Io { path: directory.to_owned(), source };
    if !was_closed {
        name_newest_files(disk, directory, manifest).map_err(in_directory)?;
        if !survived {
            correct_splits(disk, directory, manifest)?;
        }
    }
    let mut is_changed = correct_bricks(disk, directory, manifest);
    let mark = disk.read(&directory.join(SYNCED_FILE)).ok().filter(|_| !is_thorough);
    let mark = mark.and_then(|bytes| SyncMark::parse(str::from_utf8(&bytes).ok()?));
    let mark = mark.unwrap_or_default();
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, topic) in manifest.topics.iter().enumerate() {
        if let (false, Some(brick)) = (topic.index.is_empty(), topic.bricks.first()) {
            groups.entry(brick.clone()).or_default().push(place);
        }
    }
    let settled = survived && !was_closed && !is_thorough;
    let mut notes = Vec::new();
    let mut last_log_time_nanos = 0;
    for (brick, topics) in &groups {
        let trust = Trust {
            settled_bytes: if settled { u64::MAX } else { 0 },
            has_lost_no_sector: survived || was_closed,
        };
        let mended = mend_group(disk, directory, manifest, (brick, topics), (&mark, trust));
        match mended {
            Ok(mended) => {
                last_log_time_nanos = last_log_time_nanos.max(mended.last_log_time_nanos);
                notes.extend(mended.note);
                is_changed |= mended.is_changed;
            }
            Err(source)
                if is_refused(&source)
                    || is_without_memory(&source)
                    || is_out_of_files(&source) =>
            {
                return Err(ContainerError::Io { path: directory.join(brick), source });
            }
            // A medium that fails here does not take the other topics along.
            Err(error) => {
                is_changed = true;
                notes.push(format!("{brick} could not be repaired: {error}"));
            }
        }
    }
    if was_closed && !is_changed {
        return Ok(false);
    }
    if !was_closed {
        manifest.state = State::Recovered;
        manifest.unknown_since_nanos = manifest.written_nanos.max(manifest.started_nanos);
        manifest.ended_nanos = last_log_time_nanos;
    }
    if !notes.is_empty() {
        let before = Some(&manifest.failure).filter(|failure| !failure.is_empty());
        manifest.failure = before.into_iter().chain(&notes).cloned().collect::<Vec<_>>().join("; ");
    }
    disk.sync_dir(directory).map_err(in_directory)?;
    let path = directory.join(CONTAINER_FILE);
    let text = manifest
        .to_yaml()
        .map_err(|source| ContainerError::Manifest { path: path.clone(), source })?;
    let replaced = disk.replace(&path, text.as_bytes(), true);
    replaced.map_err(|source| ContainerError::Io { path: path.clone(), source })?;
    // Left over from the recorder; gone already is as good.
    let _ = disk.remove(&directory.join("container.reserve"));
    Ok(true)
}

/// Result of mending a brick and the indexes of its topics.
struct MendedGroup {
    last_log_time_nanos: u64,
    /// A note about it.
    note: Option<String>,
    is_changed: bool,
}

/// Repairs a brick and the indexes of its topics.
fn mend_group(
    disk: &dyn Disk,
    directory: &Path,
    manifest: &mut Manifest,
    (brick, topics): (&str, &[usize]),
    (mark, mut trust): (&SyncMark, Trust),
) -> io::Result<MendedGroup> {
    let path = directory.join(brick);
    let (mut indexes, mut members) = (Vec::new(), Vec::new());
    for &place in topics {
        let described = &manifest.topics[place];
        indexes.push(TopicIndex::open(disk, directory.join(&described.index), place)?);
        let topic = described.topic().map_err(io::Error::other)?;
        members.push(Member { channel_id: described.channel_id, topic, brick: 0 });
    }
    if members.len() > usize::from(u16::MAX) {
        return Err(io::Error::other("it has more topics than an MCAP can have channels"));
    }
    let mut memory = Memory::new();
    let room = indexes.iter().fold(0, |room: u64, index| room.saturating_add(index.room()));
    memory.take(room.saturating_mul(ENTRY_MEMORY_BYTES))?;
    let (mut claims, mut others): (Vec<Claim>, Vec<Claim>) = (Vec::new(), Vec::new());
    claims.try_reserve_exact(usize::try_from(room).map_err(io::Error::other)?)?;
    for (member, index) in (0..).zip(&mut indexes) {
        let described = &manifest.topics[index.topic];
        let synced = mark.entries.get(&described.index).copied().unwrap_or(0);
        index.read(member, synced, &mut claims)?;
    }
    // A recorder makes one brick for a topic: data in another one is not changed.
    let is_kept =
        |claim: &Claim| manifest.topics[indexes[usize::from(claim.member)].topic].bricks.len() > 1;
    others.extend(claims.extract_if(.., |claim| claim.entry.brick != 0));
    for claim in others.iter_mut().filter(|claim| is_kept(claim)) {
        claim.finding = Finding::Proven;
    }
    let file = match disk.open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(&path, Access::Buffered)?
        }
        opened => opened?,
    };
    trust.settled_bytes = trust.settled_bytes.min(file.length()?.saturating_sub(UNSETTLED_BYTES));
    let names = (manifest.profile.as_str(), manifest.library.as_str());
    let mut survey = Walk::new(file, names, &members, &mut claims, trust, memory)?.run()?;
    let found = std::mem::take(&mut survey.found);
    // The summary repeats the topics in the order in which the brick announces them.
    let place = |member: &Member| survey.announced_at(member.channel_id).unwrap_or(u64::MAX);
    members.sort_by_key(place);
    let topics: Vec<_> = members.into_iter().map(|m| (m.channel_id, m.topic)).collect();
    let mut mended = MendedGroup { last_log_time_nanos: 0, note: None, is_changed: false };
    // Indexes first, and synced: so no entry claims bytes that are then overwritten in the brick.
    let mut gone = 0;
    claims.extend(others);
    claims.sort_unstable_by_key(|claim| (claim.member, claim.number));
    let mut of_members = claims.chunk_by_mut(|a, b| a.member == b.member).peekable();
    let lost = std::mem::take(&mut survey.lost);
    for (member, (index, found)) in (0..).zip(indexes.iter().zip(found)) {
        let claims = of_members.next_if(|claims| claims[0].member == member).unwrap_or_default();
        let index_mended = index.mend(disk, claims, found)?;
        let described = &mut manifest.topics[index.topic];
        // The manifest of a closed container knows how many there were, whatever its index says.
        let gone_here = match manifest.state {
            State::Recording => index_mended.given_up + lost[usize::from(member)],
            _ => described.message_count.saturating_sub(index_mended.count),
        };
        mended.is_changed |= index_mended.is_changed
            || (described.message_count, described.message_bytes)
                != (index_mended.count, index_mended.bytes);
        described.message_count = index_mended.count;
        described.message_bytes = index_mended.bytes;
        described.damaged += gone_here;
        gone += gone_here;
        mended.last_log_time_nanos =
            mended.last_log_time_nanos.max(index_mended.last_log_time_nanos);
    }
    let brick_mended = mend_brick(disk, &path, survey, &topics)?;
    mended.is_changed |= brick_mended.is_changed;
    mended.note = (gone > 0).then(|| {
        format!(
            "{brick}: {gone} messages are damaged or gone, and left out; {} bytes that could not be \
             proven are kept in it",
            brick_mended.covered_bytes
        )
    });
    Ok(mended)
}

/// Whether the headers in a brick and an entry of its index describe one message.
pub fn says_the_same(message: &MessageHeader, entry: &IndexEntry, channel_id: u16) -> bool {
    message.channel_id == channel_id
        && message.sequence == entry.sequence as u32
        && message.log_time_nanos == entry.log_time_nanos
        && message.publish_time_nanos == entry.publish_time_nanos
        && message.data_bytes == u64::from(entry.data_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimulatedDisk;

    #[test]
    fn a_rebuilt_manifest_has_splits_in_the_order_of_their_numbers() {
        let (disk, bag) = (SimulatedDisk::new(1), Path::new("/bag"));
        disk.create_dir(bag).unwrap();
        let names = ["split_0001", "split_9999", "split_10000"];
        for name in names {
            disk.create_dir(&bag.join(name)).unwrap();
            disk.create(&bag.join(name).join("a.idx"), Access::Buffered).unwrap();
        }
        assert_eq!(rebuild(&disk, bag).unwrap().splits, names);
    }

    #[test]
    fn every_file_that_recovery_replaces_is_kept() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/bag/a.idx"));
        for bytes in [b"one", b"two", b"one", b"six"] {
            keep_aside(&disk, path, bytes).unwrap();
        }
        let kept = ["", "2", "3"]
            .map(|number| disk.read(Path::new(&format!("/bag/a.idx.damaged{number}"))).unwrap());
        assert_eq!(kept, [b"one", b"two", b"six"]);
        assert!(disk.read(Path::new("/bag/a.idx.damaged4")).is_err());
    }
}
