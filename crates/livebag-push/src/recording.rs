//! Which files a recording consists of, in the order in which they are pushed.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use livebag::{Container, ContainerState, KernelDisk, ReadDisk};
use livebag_catalog::CATALOGUE_FOLDER;
use livebag_format::container::{CONTAINER_FILE, LOCK_FILE, Manifest as ContainerManifest, State};

use crate::error::PushError;

/// The manifest of a rosbag2 bag.
pub const METADATA_FILE: &str = "metadata.yaml";
/// Files of a container that mean something only where it was recorded.
pub const LOCAL_FILES: [&str; 3] = [LOCK_FILE, "container.reserve", "control.sock"];

/// A recording on a disk.
#[derive(Clone, Debug)]
pub struct Recording {
    /// As it was given.
    pub path: PathBuf,
    /// Its name in the target.
    pub name: String,
    /// Every file but the manifest.
    pub files: Vec<SourceFile>,
    /// The file that makes it complete, pushed last; none if it is one file.
    pub manifest: Option<Manifest>,
    /// Of a container that is being recorded: its closed splits. `files` has none then, and the manifest is as it is at
    /// the moment.
    pub live: Option<Vec<LiveSplit>>,
    /// Topics to send first that it does not have.
    pub unknown_first: Vec<String>,
}

/// A closed split of a container that is being recorded.
#[derive(Clone, Debug)]
pub struct LiveSplit {
    /// Its folder in the target.
    pub key: String,
    /// Every file but its manifest.
    pub files: Vec<SourceFile>,
    /// The first one has none of its own.
    pub manifest: Option<SourceFile>,
}

impl LiveSplit {
    /// The number of the split after this one.
    pub fn end(&self) -> u32 {
        // The first split's folder is the recording's own.
        let number = self.manifest.as_ref().and_then(|_| self.key.rsplit('_').next()?.parse().ok());
        number.unwrap_or(0) + 1
    }
}

/// A file to push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// On the disk.
    pub path: PathBuf,
    /// In the target, below its prefix.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// When it was last changed; since the Unix epoch.
    pub modified_nanos: u64,
    /// Whether it may grow after the recording is complete.
    pub grows: bool,
}

/// The file that makes a recording complete.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// In the target.
    pub key: String,
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl Recording {
    /// Lists the files of what is at `path`.
    ///
    /// # Errors
    /// If it is no recording, or one that is being written unless `takes_live`.
    pub fn survey(
        path: &Path,
        name: Option<&str>,
        takes_live: bool,
        first: &[String],
    ) -> Result<Self, PushError> {
        let wrong = |why: String| PushError::Source { path: path.to_owned(), why };
        let real = path.canonicalize().map_err(|error| wrong(error.to_string()))?;
        let own_name = name_of(&real);
        let name = name
            .or(own_name.as_deref())
            .ok_or_else(|| wrong("give it a name, with --name".to_owned()))?;
        if name.is_empty()
            || name.starts_with('.')
            || name.contains('/')
            || name == CATALOGUE_FOLDER
            // A list of checksums has a name in each line.
            || name.contains(char::is_control)
        {
            let why = format!(
                "`{}` is no name: expected one without `/` and line breaks, not beginning with `.`, \
                 and not {CATALOGUE_FOLDER}, which is the catalogue (--name gives it)",
                name.escape_debug()
            );
            return Err(wrong(why));
        }
        let disk = KernelDisk::for_reading();
        let mut this = Self {
            path: path.to_owned(),
            name: name.to_owned(),
            files: Vec::new(),
            manifest: None,
            live: None,
            unknown_first: Vec::new(),
        };
        if real.is_file() {
            this.files.push(SourceFile::of(&real, name.to_owned())?);
        } else if real.join(CONTAINER_FILE).exists() {
            this.add_container(&disk, &real, takes_live)?;
            this.leave_out_earlier_push(&disk, &real, CONTAINER_FILE)?;
            this.put_first(&disk, &real, first);
        } else if real.join(METADATA_FILE).exists() {
            this.add_files(&disk, &real, name, METADATA_FILE)?;
            this.leave_out_earlier_push(&disk, &real, METADATA_FILE)?;
            this.manifest = Some(this.read_manifest(&disk, &real, METADATA_FILE)?);
        } else {
            let why =
                format!("expected a file, or a folder with {CONTAINER_FILE} or {METADATA_FILE}");
            return Err(wrong(why));
        }
        Ok(this)
    }

    fn add_container(
        &mut self,
        disk: &KernelDisk,
        real: &Path,
        takes_live: bool,
    ) -> Result<(), PushError> {
        let wrong = |why: String| PushError::Source { path: self.path.clone(), why };
        let container = Container::peek(real).map_err(|error| wrong(error.to_string()))?;
        match container.state() {
            ContainerState::Closed | ContainerState::Recovered => {}
            ContainerState::Live if takes_live => return self.add_closed_splits(disk, real),
            ContainerState::Live => {
                return Err(wrong("it is being recorded: push it when it is closed".to_owned()));
            }
            _ => return Err(wrong("its recorder died: run `livebag recover` first".to_owned())),
        }
        let (name, splits) = (self.name.clone(), container.splits().to_vec());
        self.add_files(disk, real, &name, CONTAINER_FILE)?;
        for split in &splits {
            let (folder, key) = (real.join(split), format!("{name}/{split}"));
            self.add_files(disk, &folder, &key, CONTAINER_FILE)?;
            self.files.push(manifest_of_split(&folder, &key)?);
        }
        self.manifest = Some(self.read_manifest(disk, real, CONTAINER_FILE)?);
        Ok(())
    }

    /// Events come first, then the files of the topics `first`, in their order. The others stay in theirs: a split's
    /// manifest after its files.
    fn put_first(&mut self, disk: &KernelDisk, real: &Path, first: &[String]) {
        let mut ranks: HashMap<String, usize> = HashMap::new();
        let root = self.manifest.iter().filter_map(|manifest| parse_container(&manifest.bytes));
        let mut manifests: Vec<_> =
            root.filter(|_| !first.is_empty()).map(|root| (self.name.clone(), root)).collect();
        for split in manifests.first().map_or_else(Vec::new, |(_, root)| root.splits.clone()) {
            let bytes = disk.read(&real.join(&split).join(CONTAINER_FILE));
            // A split that cannot be read is in no special order.
            let parsed = bytes.ok().and_then(|bytes| parse_container(&bytes));
            manifests.extend(parsed.map(|parsed| (format!("{}/{split}", self.name), parsed)));
        }
        let mut unknown = first.to_vec();
        for (key, manifest) in &manifests {
            for topic in &manifest.topics {
                let is_it = |name: &String| {
                    topic.name.trim_start_matches('/') == name.trim_start_matches('/')
                };
                let Some(rank) = first.iter().position(is_it) else { continue };
                unknown.retain(|name| !is_it(name));
                for file in topic.bricks.iter().chain([&topic.index]) {
                    let known = ranks.entry(format!("{key}/{file}")).or_insert(rank);
                    *known = rank.min(*known);
                }
            }
        }
        let rank = |file: &SourceFile| match ranks.get(&file.key) {
            _ if file.grows => 0,
            Some(rank) => rank + 1,
            None => usize::MAX,
        };
        self.unknown_first = unknown;
        self.files.sort_by_key(rank);
        for split in self.live.iter_mut().flatten() {
            split.files.sort_by_key(rank);
        }
    }

    fn add_closed_splits(&mut self, disk: &KernelDisk, real: &Path) -> Result<(), PushError> {
        let manifest = self.read_manifest(disk, real, CONTAINER_FILE)?;
        let mut splits = Vec::new();
        let parsed = parse_container(&manifest.bytes);
        if let Some(closed) = parsed.as_ref().and_then(|parsed| closed_splits(disk, real, parsed)) {
            // The first split's files are beside those that are written last.
            let topics = parsed.iter().flat_map(|parsed| &parsed.topics);
            let names: BTreeSet<_> = topics
                .flat_map(|topic| topic.bricks.iter().chain([&topic.index]))
                .filter(|name| !name.is_empty())
                .collect();
            let mut files = Vec::new();
            for name in names {
                files.push(SourceFile::of(&real.join(name), format!("{}/{name}", self.name))?);
            }
            small_first(&mut files);
            splits.push(LiveSplit { key: self.name.clone(), files, manifest: None });
            for split in closed {
                let (folder, key) = (real.join(split), format!("{}/{split}", self.name));
                self.add_files(disk, &folder, &key, CONTAINER_FILE)?;
                let manifest = Some(manifest_of_split(&folder, &key)?);
                // Retention may have removed files before they were listed: half a split is not pushed.
                let bytes = disk.read(&folder.join(CONTAINER_FILE));
                let named = bytes.ok().and_then(|bytes| parse_container(&bytes));
                for topic in named.iter().flat_map(|split| &split.topics) {
                    let names = topic.bricks.iter().chain([&topic.index]);
                    for name in names.filter(|name| !name.is_empty()) {
                        SourceFile::of(&folder.join(name), format!("{key}/{name}"))?;
                    }
                }
                splits.push(LiveSplit { key, files: std::mem::take(&mut self.files), manifest });
            }
        }
        (self.manifest, self.live) = (Some(manifest), Some(splits));
        Ok(())
    }

    /// A copy that a push made has that push's claim and checksums. The next target gets its own.
    fn leave_out_earlier_push(
        &mut self,
        disk: &KernelDisk,
        real: &Path,
        manifest: &str,
    ) -> Result<(), PushError> {
        let own = files_of_push(disk, real, manifest);
        self.files.retain(|file| !own.contains(&file.path));
        let names = names_of_push(manifest).map(|name| real.join(name));
        let Some(file) = self.files.iter().find(|file| names.contains(&file.path)) else {
            return Ok(());
        };
        let why = format!(
            "the push would replace its {} in the target by a file of that name: rename it",
            file.path.file_name().unwrap_or_default().display()
        );
        Err(PushError::Source { path: self.path.clone(), why })
    }

    /// Small files first: with a bad link, many topics are there soon.
    fn add_files(
        &mut self,
        disk: &KernelDisk,
        folder: &Path,
        key: &str,
        manifest: &str,
    ) -> Result<(), PushError> {
        let paths = disk
            .list(folder)
            .map_err(|source| PushError::Read { path: folder.to_owned(), source })?;
        let mut files = Vec::new();
        for path in paths {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                let why = format!("the name of {} is not UTF-8", path.display());
                return Err(PushError::Source { path: self.path.clone(), why });
            };
            if !stays_here(name) && name != manifest && path.is_file() {
                files.push(SourceFile::of(&path, format!("{key}/{name}"))?);
            }
        }
        small_first(&mut files);
        self.files.extend(files);
        Ok(())
    }

    fn read_manifest(
        &self,
        disk: &KernelDisk,
        folder: &Path,
        name: &str,
    ) -> Result<Manifest, PushError> {
        let path = folder.join(name);
        let bytes = disk.read(&path).map_err(|source| PushError::Read { path, source })?;
        Ok(Manifest { key: format!("{}/{name}", self.name), bytes })
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let length = |manifest: &Manifest| manifest.bytes.len() as u64;
        let manifest = self.manifest.as_ref().filter(|_| self.live.is_none()).map_or(0, length);
        self.all_files().map(|file| file.bytes).sum::<u64>() + manifest
    }

    /// Files that are pushed now, but the manifest.
    pub fn all_files(&self) -> impl Iterator<Item = &SourceFile> {
        let live = self.live.iter().flatten();
        self.files.iter().chain(live.flat_map(|split| split.files.iter().chain(&split.manifest)))
    }
}

impl SourceFile {
    fn of(path: &Path, key: String) -> Result<Self, PushError> {
        let failed = |source| PushError::Read { path: path.to_owned(), source };
        let metadata = path.metadata().map_err(failed)?;
        let modified = metadata.modified().map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            grows: key.ends_with(livebag_format::event::EVENTS_FILE),
            key,
            bytes: metadata.len(),
            modified_nanos: modified
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| age.as_nanos() as u64),
        })
    }

    /// Whether it is still as it was.
    pub fn is_unchanged(&self) -> bool {
        Self::of(&self.path, self.key.clone()).is_ok_and(|now| now == *self)
    }
}

fn small_first(files: &mut [SourceFile]) {
    files.sort_by(|one, other| (one.bytes, &one.key).cmp(&(other.bytes, &other.key)));
}

fn manifest_of_split(folder: &Path, key: &str) -> Result<SourceFile, PushError> {
    SourceFile::of(&folder.join(CONTAINER_FILE), format!("{key}/{CONTAINER_FILE}"))
}

pub fn parse_container(bytes: &[u8]) -> Option<ContainerManifest> {
    ContainerManifest::parse(std::str::from_utf8(bytes).ok()?).ok()
}

/// Folders of the closed splits; the first split is closed as well if there is one. A recording that is to become a
/// rosbag2 bag has none: its files get other names when it is closed.
fn closed_splits<'a>(
    disk: &KernelDisk,
    real: &Path,
    manifest: &'a ContainerManifest,
) -> Option<&'a [String]> {
    let is_closed = |split: &String| {
        let bytes = disk.read(&real.join(split).join(CONTAINER_FILE)).ok();
        bytes
            .and_then(|bytes| parse_container(&bytes))
            .is_some_and(|split| split.state == State::Closed)
    };
    // One thread closes them one after the other.
    let last = manifest.splits.iter().rposition(is_closed).filter(|_| !manifest.one_file)?;
    Some(&manifest.splits[..=last])
}

/// The last closed split of a container that is being recorded: another one when there is more to push.
pub fn last_closed_split(path: &Path) -> Option<String> {
    let disk = KernelDisk::for_reading();
    let manifest = parse_container(&disk.read(&path.join(CONTAINER_FILE)).ok()?)?;
    closed_splits(&disk, path, &manifest)?.last().cloned()
}

/// The name of a recording that is given none.
pub fn name_of(path: &Path) -> Option<String> {
    Some(path.canonicalize().ok()?.file_name()?.to_str()?.to_owned())
}

/// Whether a file of this name is not pushed.
pub fn stays_here(name: &str) -> bool {
    name.starts_with('.') || LOCAL_FILES.contains(&name)
}

/// The claim and the checksums that a push writes beside a manifest.
pub fn names_of_push(manifest: &str) -> [String; 2] {
    let stem = manifest.trim_end_matches(".yaml");
    [format!("{stem}.claim"), format!("{stem}.sha256")]
}

/// Those that a push has written in a folder, and the user has not.
pub fn files_of_push(disk: &KernelDisk, folder: &Path, manifest: &str) -> Vec<PathBuf> {
    let named = |path: &Path| -> Option<Vec<String>> {
        let text = String::from_utf8(disk.read(path).ok()?).ok()?;
        let name = |line: &str| {
            let (sha256, name) = line.split_once("  ")?;
            let is_one =
                sha256.len() == 64 && sha256.bytes().all(|digit| digit.is_ascii_hexdigit());
            is_one.then(|| name.to_owned())
        };
        text.lines().map(name).collect()
    };
    let [claim, sums] = names_of_push(manifest).map(|name| folder.join(name));
    if named(&claim).is_none_or(|names| names != [manifest]) {
        return Vec::new();
    }
    let has_sums = named(&sums).is_some_and(|names| names.iter().any(|name| name == manifest));
    [claim].into_iter().chain(has_sums.then_some(sums)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_counted_by_their_names() {
        let manifest = SourceFile {
            path: "x".into(),
            key: "x".into(),
            bytes: 0,
            modified_nanos: 0,
            grows: false,
        };
        let split =
            |key: &str, manifest| LiveSplit { key: key.into(), files: Vec::new(), manifest };
        assert_eq!(split("run_7", None).end(), 1);
        assert_eq!(split("run_7/split_0012", Some(manifest)).end(), 13);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests remove files as retention does")]
    fn a_split_that_is_being_removed_is_not_taken_for_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("run");
        let split = livebag::SplitRules { bytes_max: Some(1), duration_max: None };
        let options = livebag::RecorderOptions { split, ..Default::default() };
        let recorder = livebag::Recorder::create(&bag, options).unwrap();
        let topic = livebag::Topic { name: "/a".into(), ..Default::default() };
        let topic = recorder.topic(topic).unwrap();
        while recorder.status().splits < 3 {
            topic.write(None, 0, &[0; 100]).unwrap();
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        recorder.finish().unwrap();
        let survey = || {
            let mut recording = Recording {
                path: bag.clone(),
                name: "run".to_owned(),
                files: Vec::new(),
                manifest: None,
                live: None,
                unknown_first: Vec::new(),
            };
            recording.add_closed_splits(&KernelDisk::for_reading(), &bag)
        };
        survey().unwrap();
        std::fs::remove_file(bag.join("split_0001/a.mcap")).unwrap();
        assert!(matches!(survey(), Err(PushError::Read { .. })));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests make files as users do")]
    fn a_bag_is_its_files_small_ones_first_and_its_manifest_last() {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("bag");
        std::fs::create_dir(&bag).unwrap();
        for (name, bytes) in [("a.mcap", 30), ("b.mcap", 20), (".push-1", 1), ("metadata.yaml", 5)]
        {
            std::fs::write(bag.join(name), vec![0; bytes]).unwrap();
        }
        let recording = Recording::survey(&bag, Some("drive"), false, &[]).unwrap();
        let keys: Vec<_> = recording.files.iter().map(|file| file.key.as_str()).collect();
        assert_eq!(keys, ["drive/b.mcap", "drive/a.mcap"]);
        assert_eq!(recording.manifest.as_ref().unwrap().key, "drive/metadata.yaml");
        assert_eq!(recording.bytes(), 55);
        std::fs::write(bag.join("a.mcap"), b"shorter").unwrap();
        assert!(recording.files[0].is_unchanged() && !recording.files[1].is_unchanged());
        let wrong =
            Recording::survey(folder.path(), Some("x"), false, &[]).err().unwrap().to_string();
        assert!(wrong.contains("expected a file, or a folder with container.yaml"), "{wrong}");
    }
}
