//! Pushing one recording.
//!
//! 1. A claim is created, only if there is none: it names the recording by its manifest's checksum. Another recording
//!    of the same name is refused before a byte of it is sent.
//! 2. Files that the store does not have are sent, in parts that the journal remembers.
//! 3. The store is asked for the size and checksum of every object; where its checksum is none of ours, the object is
//!    read back.
//! 4. The list of checksums is written, then the manifest, only if there is none.
//! 5. The target's catalogue gets the recording's rows.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use livebag::Clock;
use livebag_format::container::CONTAINER_FILE;
use object_store::ObjectMeta;

use crate::digest::{Digests, sha256_of};
use crate::error::PushError;
use crate::fingerprint::fingerprint;
use crate::journal::Journal;
use crate::limits::{PROGRESS_EVERY, SENDS_MAX, TOGETHER_BYTES_MAX, TOGETHER_MAX};
use crate::recording::{
    LiveSplit, Manifest, Recording, SourceFile, name_of, names_of_push, parse_container,
};
use crate::removal;
use crate::target::{Target, folder_id};

mod catalogue;
mod objects;
mod sending;
mod verifying;

use sending::blocking;

/// How a recording is pushed.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PushOptions {
    /// Its name in the target; by default its own.
    pub name: Option<String>,
    /// Whether every object is read back, even where the store's checksum fits.
    pub read_back: bool,
    /// Whether a container that is being recorded is taken: its closed splits are pushed, and the next push goes on.
    pub while_recorded: bool,
    /// Topics whose files are sent before the others, in this order.
    pub first: Vec<String>,
    /// The robot, as the target's catalogue is to name it; a recording that names its own keeps it.
    pub robot: Option<String>,
}

/// How far a push has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushProgress {
    /// Bytes of the recording.
    pub bytes: u64,
    /// Of these, in the store.
    pub stored_bytes: u64,
    /// Bytes sent by this push, those sent again included.
    pub sent_bytes: u64,
}

/// A recording, or the closed splits of one, that is in the store, verified.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// Where.
    pub address: String,
    /// Whether it is complete there, and not being recorded.
    pub is_complete: bool,
    /// Of a container that is being recorded: how many of its first splits are there, those included that were removed
    /// since.
    pub split_count: Option<u32>,
    /// Its objects, without claim and checksums.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that this push sent; the others were there.
    pub sent_objects: usize,
    /// Bytes that this push sent, those sent again included.
    pub sent_bytes: u64,
    /// Objects that were read back.
    pub read_back_objects: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Of [`PushOptions::first`]: topics that it does not have.
    pub unknown_first: Vec<String>,
    recording: Recording,
    /// Splits that were removed here after they were pushed are not all in this place.
    lacks_splits: bool,
}

impl Pushed {
    /// Removes the recording from this disk, whole, after it was pushed to this target. Nothing is removed that was not
    /// pushed: [`PushError::Kept`] says what there is.
    ///
    /// # Errors
    /// See [`PushError`].
    pub fn remove_here(&self, target: &Target) -> Result<(), PushError> {
        if self.lacks_splits {
            let why = "splits that were removed from it are not in this target under this name; \
                       what is left here describes them: push it to where they were pushed";
            let path = self.recording.path.clone();
            return Err(PushError::Kept { path, why: why.to_owned() });
        }
        removal::remove(&self.recording, target)
    }
}

/// Pushes the recording at `path`, and calls `on_progress` a few times a second: it may end the push. Pushing it again
/// sends what is missing.
///
/// # Errors
/// See [`PushError`]. Whatever the error, what was sent is not sent again by the next push.
pub fn push(
    path: &Path,
    target: &Target,
    options: &PushOptions,
    on_progress: &mut dyn FnMut(&PushProgress) -> ControlFlow<()>,
) -> Result<Pushed, PushError> {
    // Before anything is read: what changes from here on is pushed by the next push.
    let before = fingerprint(path).ok();
    let recording =
        Recording::survey(path, options.name.as_deref(), options.while_recorded, &options.first)?;
    target.check_folder()?;
    // In an address, a query or a fragment would begin there.
    if target.is_bucket() && recording.name.contains(['?', '#']) {
        let name = &recording.name;
        let why = format!(
            "`{name}` in a bucket could not be read again, because of its ? or #: give it another name, with --name"
        );
        return Err(PushError::Source { path: path.to_owned(), why });
    }
    // By device and number: it may be mounted there once more.
    let is_itself = |place: &std::path::Path| {
        let here = folder_id(path);
        here.is_some() && place.ancestors().any(|folder| folder_id(folder) == here)
    };
    if let Some(place) = target.place_of(&recording.name).filter(|place| is_itself(place)) {
        let why = format!(
            "the target is the recording's own place: the copy would be {}",
            place.display()
        );
        return Err(PushError::Source { path: path.to_owned(), why });
    }
    let clock = Clock::system();
    let journal = Journal::open(path, &recording.name, target.address())?;
    let stored_bytes = Arc::new(AtomicU64::new(0));
    let sent_before = target.pacer.sent_bytes();
    let bytes = recording.bytes();
    let mut pusher = Pusher {
        path,
        target,
        options,
        journal,
        stored_bytes: stored_bytes.clone(),
        gives_md5: false,
        sent_objects: 0,
        read_back_objects: 0,
        lacks_splits: false,
    };
    let progress = || PushProgress {
        bytes,
        // What is sent again is counted again.
        stored_bytes: stored_bytes.load(Ordering::Relaxed).min(bytes),
        sent_bytes: target.pacer.sent_bytes() - sent_before,
    };
    target.runtime.block_on(async {
        let mut work = pin!(pusher.push(&recording));
        loop {
            match select(work, pin!(tokio::time::sleep(PROGRESS_EVERY))).await {
                Either::Left((done, _)) => return done,
                Either::Right((_, unfinished)) => work = unfinished,
            }
            if on_progress(&progress()).is_break() {
                return Err(PushError::Interrupted { path: path.to_owned() });
            }
        }
    })?;
    let is_complete = recording.live.is_none();
    if let Some(fingerprint) = before.filter(|_| is_complete) {
        pusher.journal.set_pushed(&fingerprint)?;
    }
    let _ = on_progress(&progress());
    Ok(Pushed {
        address: target.address_of(&recording.name),
        is_complete,
        split_count: recording.live.as_ref().map(|splits| splits.last().map_or(0, LiveSplit::end)),
        objects: recording.all_files().count()
            + usize::from(is_complete && recording.manifest.is_some()),
        bytes,
        sent_objects: pusher.sent_objects,
        sent_bytes: target.pacer.sent_bytes() - sent_before,
        read_back_objects: pusher.read_back_objects,
        elapsed: Duration::from_nanos(clock.monotonic_nanos()),
        unknown_first: recording.unknown_first.clone(),
        recording,
        lacks_splits: pusher.lacks_splits,
    })
}

/// Whether the recording, with files of this [`fingerprint`], was pushed to the target before. Its journal says so; the
/// store is not asked.
pub fn was_pushed(path: &Path, target: &Target, options: &PushOptions, fingerprint: &str) -> bool {
    let name = options.name.clone().or_else(|| name_of(path)).unwrap_or_default();
    Journal::pushed(path, &name, target.address()).is_some_and(|pushed| pushed == fingerprint)
}

/// The manifest of a recording whose first splits were removed after they were pushed.
fn with_removed_splits(manifest: &Manifest) -> Option<Manifest> {
    let whole = parse_container(&manifest.bytes)?.with_released()?;
    let bytes = whole.to_yaml().ok()?.into_bytes();
    Some(Manifest { key: manifest.key.clone(), bytes })
}

/// A push at work.
struct Pusher<'a> {
    path: &'a Path,
    target: &'a Target,
    options: &'a PushOptions,
    journal: Journal,
    stored_bytes: Arc<AtomicU64>,
    /// Whether this store's ETags are MD5s, as seen from the claim.
    gives_md5: bool,
    sent_objects: usize,
    read_back_objects: usize,
    /// See [`Pushed`].
    lacks_splits: bool,
}

impl Pusher<'_> {
    /// Before contents are sent or read back.
    fn check_hold(&self) -> Result<(), PushError> {
        match self.target.is_held() {
            true => Err(PushError::Interrupted { path: self.path.to_owned() }),
            // A drive may have been unmounted.
            false => self.target.check_folder(),
        }
    }

    async fn push(&mut self, recording: &Recording) -> Result<(), PushError> {
        match (&recording.manifest, &recording.live) {
            (Some(manifest), Some(splits)) => self.push_splits(recording, manifest, splits).await,
            (Some(manifest), None) => self.push_folder(recording, manifest).await,
            (None, _) => self.push_file(recording).await,
        }
    }

    /// Each split is whole in the target or has no manifest. The recording has none until it is closed.
    async fn push_splits(
        &mut self,
        recording: &Recording,
        manifest: &Manifest,
        splits: &[LiveSplit],
    ) -> Result<(), PushError> {
        if self.get(&manifest.key).await?.is_some() {
            return Err(self.another(&manifest.key, "which is complete"));
        }
        let listed = self.list(&recording.name).await?;
        self.claim_folder(recording, manifest, &listed).await?;
        for split in splits {
            let is_there = |file: &SourceFile| {
                listed.get(&file.key).is_some_and(|there| there.size == file.bytes)
            };
            if self.journal.has_split(&split.key)
                && split.files.iter().chain(&split.manifest).all(is_there)
            {
                let bytes: u64 =
                    split.files.iter().chain(&split.manifest).map(|file| file.bytes).sum();
                self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
                continue;
            }
            self.send_all(&split.files, Some(&split.key), &listed, false).await?;
            self.send_all(split.manifest.as_slice(), None, &listed, false).await?;
            self.journal.add_split(&split.key)?;
        }
        Ok(())
    }

    /// Claims the name of a recording with a manifest, which is not in the target.
    async fn claim_folder(
        &mut self,
        recording: &Recording,
        manifest: &Manifest,
        listed: &HashMap<String, ObjectMeta>,
    ) -> Result<(), PushError> {
        let [claim_key, _] = names_of_push(&manifest.key);
        // Hidden files are what pushes to a folder have begun.
        let is_hidden = |key: &String| file_name(key).starts_with('.');
        if !listed.contains_key(&claim_key) && !listed.keys().all(is_hidden) {
            let why = "there are objects that no push has put there";
            return Err(self.another(&recording.name, why));
        }
        let folder = recording.path.metadata().map_or(0, |folder| folder.ino());
        let sha256 = match self.journal.claim(folder) {
            // The manifest has grown since.
            Some(claimed) => claimed.to_owned(),
            None => sha256_of(&manifest.bytes),
        };
        if recording.live.is_some() && self.journal.claim(folder).is_none() {
            self.journal.set_claim(&sha256, folder)?;
        }
        let claim = sums_line(&sha256, file_name(&manifest.key));
        self.claim(&claim_key, claim.as_bytes()).await
    }

    async fn push_folder(
        &mut self,
        recording: &Recording,
        manifest: &Manifest,
    ) -> Result<(), PushError> {
        let listed = self.list(&recording.name).await?;
        self.lacks_splits = self.lacks_removed_splits(recording, manifest, &listed);
        let whole = match self.lacks_splits {
            true => None,
            false => with_removed_splits(manifest),
        };
        let manifest = whole.as_ref().unwrap_or(manifest);
        let is_complete = match self.get(&manifest.key).await? {
            Some(there) if there.bytes == manifest.bytes => {
                self.gives_md5 = there.has_md5();
                true
            }
            Some(_) => return Err(self.another(&manifest.key, "with another manifest")),
            None => false,
        };
        if !is_complete {
            self.claim_folder(recording, manifest, &listed).await?;
        }
        let (files, name) = (&recording.files, Some(&*recording.name));
        let digests = self.send_all(files, name, &listed, is_complete).await?;
        let mut sums: Vec<_> = recording
            .files
            .iter()
            .zip(&digests)
            .map(|(file, digests)| sums_line(&digests.sha256, below(&recording.name, &file.key)))
            .collect();
        sums.push(sums_line(&sha256_of(&manifest.bytes), file_name(&manifest.key)));
        if whole.is_some() {
            let here: HashSet<_> = recording.files.iter().map(|file| &file.key).collect();
            let removed = listed.keys().filter(|key| !here.contains(key));
            let known = removed.filter_map(|key| Some((key, self.journal.sha256(key)?)));
            sums.extend(known.map(|(key, sha256)| sums_line(sha256, below(&recording.name, key))));
        }
        sums.sort_by(|one, other| one[64..].cmp(&other[64..]));
        let sums = sums.concat();
        let [_, sums_key] = names_of_push(&manifest.key);
        let is_there = listed.get(&sums_key).is_some_and(|there| there.size == sums.len() as u64);
        if !(is_complete && is_there && self.sent_objects == 0) {
            self.replace(&sums_key, sums.as_bytes()).await?;
        }
        if !is_complete {
            self.create(&manifest.key, &manifest.bytes, "with another manifest").await?;
            self.sent_objects += 1;
        }
        self.stored_bytes.fetch_add(manifest.bytes.len() as u64, Ordering::Relaxed);
        match whole {
            Some(whole) => self.add_stored_to_catalogue(recording, &whole, !is_complete).await,
            None => self.add_to_catalogue(recording, &digests, !is_complete).await,
        }
    }

    /// Whether there are splits that the recorder removed because they were pushed, and that this journal's pushes have
    /// not put there, or of which something is not there any more.
    fn lacks_removed_splits(
        &self,
        recording: &Recording,
        manifest: &Manifest,
        listed: &HashMap<String, ObjectMeta>,
    ) -> bool {
        let Some(parsed) = parse_container(&manifest.bytes) else { return false };
        let (name, removed) = (&recording.name, parsed.removed);
        let is_listed = |key: &str, bytes| listed.get(key).is_some_and(|there| there.size == bytes);
        let first =
            removed.first_split.iter().flat_map(|topic| topic.bricks.iter().chain([&topic.index]));
        let first = first.filter(|file| !file.is_empty());
        let first: Vec<_> = first.map(|file| format!("{name}/{file}")).collect();
        let is_there = |folder: &String| match folder.is_empty() {
            true => {
                let is_there = |key: &String| {
                    self.journal.bytes(key).is_some_and(|bytes| is_listed(key, bytes))
                };
                self.journal.has_split(name) && first.iter().all(is_there)
            }
            false => {
                let key = format!("{name}/{folder}");
                self.journal.has_split(&key)
                    && listed.contains_key(&format!("{key}/{CONTAINER_FILE}"))
                    && self.journal.files_in(&key).all(|(key, bytes)| is_listed(key, bytes))
            }
        };
        !removed.released.iter().all(is_there)
    }

    async fn push_file(&mut self, recording: &Recording) -> Result<(), PushError> {
        let [file] = recording.files.as_slice() else { return Ok(()) };
        let digests = self.digest(file).await?;
        let sums_key = format!("{}.sha256", file.key);
        let sums = sums_line(&digests.sha256, file_name(&file.key));
        let claim = self.get(&sums_key).await?;
        if claim.as_ref().is_some_and(|claim| claim.bytes != sums.as_bytes()) {
            return Err(self.another(&sums_key, "with another checksum"));
        }
        let listed: HashMap<String, ObjectMeta> = self
            .head(&file.key)
            .await?
            .map(|there| (file.key.clone(), there))
            .into_iter()
            .collect();
        // Sent by another program, it must be this very file: it may be the only copy of another recording.
        let is_complete = claim.is_none() && !listed.is_empty();
        if is_complete
            && self.why_not_stored(file, &digests, listed.get(&file.key)).await?.is_some()
        {
            return Err(self.another(&file.key, "with other contents"));
        }
        self.claim(&sums_key, sums.as_bytes()).await?;
        let was_there = !listed.is_empty();
        let digests = self.send_all(&recording.files, None, &listed, is_complete).await?;
        self.add_to_catalogue(recording, &digests, !was_there).await
    }

    /// Sends what is missing until the store has all files; gives their checksums. All are below `name`, if it is given.
    async fn send_all(
        &mut self,
        files: &[SourceFile],
        name: Option<&str>,
        listed: &HashMap<String, ObjectMeta>,
        is_complete: bool,
    ) -> Result<Vec<Digests>, PushError> {
        let mut digests = Vec::new();
        while let Some(file) = files.get(digests.len()) {
            match self.small_ones(&files[digests.len()..], listed) {
                [] => {
                    let there = listed.get(&file.key);
                    digests.push(self.send_if_missing(file, there, is_complete).await?);
                }
                small => digests.extend(self.send_together(small).await?),
            }
        }
        // Everything is asked for anew, what was there before this push, too.
        let listed = match name {
            Some(name) => self.list(name).await?,
            None => HashMap::new(),
        };
        for (file, digests) in files.iter().zip(&digests) {
            let mut why = self.why_not_stored(file, digests, listed.get(&file.key)).await?;
            for sends in 2..=SENDS_MAX {
                let Some(found) = why else { break };
                if is_complete || sends == SENDS_MAX {
                    return Err(PushError::NotVerified {
                        address: self.target.address_of(&file.key),
                        sends: sends - 1,
                        found,
                    });
                }
                self.send(file).await?;
                why = self.why_not_stored(file, digests, None).await?;
            }
        }
        Ok(digests)
    }

    /// Those that `files` begins with that are sent at once, none of which is there.
    fn small_ones<'f>(
        &self,
        files: &'f [SourceFile],
        listed: &HashMap<String, ObjectMeta>,
    ) -> &'f [SourceFile] {
        let mut bytes = 0;
        let is_one = |file: &&SourceFile| {
            bytes += file.bytes;
            // A split's manifest comes after its files.
            let is_last = file.grows || file_name(&file.key) == CONTAINER_FILE;
            bytes <= TOGETHER_BYTES_MAX
                && self.target.is_sent_whole(file.bytes)
                && !is_last
                && !listed.contains_key(&file.key)
        };
        &files[..files.iter().take(TOGETHER_MAX).take_while(is_one).count()]
    }

    async fn send_if_missing(
        &mut self,
        file: &SourceFile,
        there: Option<&ObjectMeta>,
        is_complete: bool,
    ) -> Result<Digests, PushError> {
        let Some(there) = there else { return self.send(file).await };
        if file.grows {
            return self.send_grown(file, there).await;
        }
        if there.size == file.bytes {
            let digests = self.digest(file).await?;
            if self.why_not_stored(file, &digests, Some(there)).await?.is_none() {
                self.stored_bytes.fetch_add(file.bytes, Ordering::Relaxed);
                return Ok(digests);
            }
        }
        match is_complete {
            true => Err(PushError::Differs {
                address: self.target.address_of(&file.key),
                path: file.path.clone(),
            }),
            false => self.send(file).await,
        }
    }

    fn another(&self, key: &str, why: &str) -> PushError {
        PushError::Another { address: self.target.address_of(key), why: why.to_owned() }
    }
}

/// A line as `sha256sum` writes it.
fn sums_line(sha256: &str, name: &str) -> String {
    format!("{sha256}  {name}\n")
}

fn file_name(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn below<'a>(name: &str, key: &'a str) -> &'a str {
    key.strip_prefix(name).map_or(key, |rest| rest.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::PART_BYTES;
    use crate::target::TargetOptions;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests make files as users do")]
    fn a_push_that_is_held_ends_after_its_part_and_goes_on_later() {
        let folder = tempfile::tempdir().unwrap();
        let (source, there) = (folder.path().join("drive.mcap"), folder.path().join("drive"));
        std::fs::write(&source, vec![7; 10 * PART_BYTES as usize]).unwrap();
        std::fs::create_dir(&there).unwrap();
        // A tenth of a second for each part.
        let options =
            TargetOptions { rate_bytes_per_s: Some(10 * PART_BYTES), ..TargetOptions::default() };
        let target = Target::open(there.to_str().unwrap(), &options).unwrap();
        let mut stored_bytes = 0;
        let mut hold = |progress: &PushProgress| {
            stored_bytes = stored_bytes.max(progress.stored_bytes);
            target.hold(progress.stored_bytes > 0);
            ControlFlow::Continue(())
        };
        let held = push(&source, &target, &PushOptions::default(), &mut hold).unwrap_err();
        assert!(matches!(held, PushError::Interrupted { .. }), "{held}");
        assert!((1..10 * PART_BYTES).contains(&stored_bytes), "{stored_bytes}");
        target.hold(false);
        let mut go_on = |_: &PushProgress| ControlFlow::Continue(());
        let pushed = push(&source, &target, &PushOptions::default(), &mut go_on).unwrap();
        // What had arrived is not sent again.
        let most = 10 * PART_BYTES - stored_bytes + (1 << 20);
        assert!(pushed.is_complete && pushed.sent_bytes <= most, "{pushed:?}");
    }
}
