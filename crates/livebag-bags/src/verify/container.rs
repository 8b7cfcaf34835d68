//! A container: manifest, indexes, bricks, and whether they tell the same, split by split.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use livebag_format::container::{
    CONTAINER_FILE, Manifest, SYNCED_FILE, State, SyncMark, TopicManifest,
};
use livebag_format::event::{EVENTS_FILE, Events};
use livebag_format::mcap::{
    MAGIC, RECORD_HEADER_BYTES, opcode, put_channel, put_file_start, put_schema,
};

use super::index::{BrickFile, Depth, IndexCheck, Told};
use super::{Check, RecordingKind, Verified, VerifyError, VerifyProgress, mcap_file};
use livebag::ContainerState;
use livebag::ReadDisk;
use livebag::internal::is_being_written;

/// Checks the container at `path`.
pub(super) fn check(
    disk: &dyn ReadDisk,
    path: &Path,
    on_progress: &mut dyn FnMut(&VerifyProgress),
) -> Result<Verified, VerifyError> {
    let mut check = Check::new(disk, RecordingKind::Container, 0, on_progress);
    let manifest = read_manifest(&mut check, path)?;
    if let Some(manifest) = &manifest
        && manifest.state == State::Closed
        && manifest.unknown_since_nanos > 0
    {
        let what = "it is a copy of a recording that lacked messages: how many is not known";
        check.warn(&path.join(CONTAINER_FILE), None, what);
    }
    let splits = manifest.as_ref().map(|manifest| manifest.splits.clone()).unwrap_or_default();
    check.progress.bytes_total = total_bytes(disk, path, &splits);
    let mut root = Split::new(&mut check, path.to_owned());
    root.check_manifest(manifest)?;
    let live = check.verified.state == Some(ContainerState::Live);
    for name in &splits {
        let directory = path.join(name);
        match read_manifest(&mut check, &directory) {
            // Retention may have removed it meanwhile.
            Err(VerifyError::Io { source, .. })
                if live && source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(manifest) => Split::new(&mut check, directory).check_manifest(manifest)?,
        }
    }
    Ok(check.verified)
}

fn total_bytes(disk: &dyn ReadDisk, path: &Path, splits: &[String]) -> u64 {
    let directories = std::iter::once(path.to_owned()).chain(splits.iter().map(|s| path.join(s)));
    let files = directories.flat_map(|directory| disk.list(&directory).unwrap_or_default());
    let counted = |file: &PathBuf| {
        file.extension().is_some_and(|extension| extension == "mcap" || extension == "idx")
    };
    let length = |file: PathBuf| disk.open(&file).and_then(|file| file.length()).unwrap_or(0);
    files.filter(counted).map(length).sum()
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> VerifyError + '_ {
    |source| VerifyError::Io { path: path.to_owned(), source }
}

/// The manifest, if it can be read; damage if not.
fn read_manifest(check: &mut Check<'_>, directory: &Path) -> Result<Option<Manifest>, VerifyError> {
    let path = directory.join(CONTAINER_FILE);
    let text = match check.disk.read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if check.disk.list(directory).unwrap_or_default().is_empty() {
                return Err(io_error(&path)(error));
            }
            check.damage(&path, None, "it is missing; `livebag recover` makes it anew");
            return Ok(None);
        }
        Err(error) => return Err(io_error(&path)(error)),
    };
    check.begin_file(text.len() as u64);
    if let Some(fits) = Manifest::checksum_fits(&text) {
        check.verified.checksums += 1;
        if !fits {
            check.damage(&path, None, "its checksum does not match: damaged, or changed by hand");
        }
    } else {
        check.damage(&path, None, "it has no checksum: cut, or changed by hand");
    }
    match Manifest::parse(&String::from_utf8_lossy(&text)) {
        Ok(manifest) => Ok(Some(manifest)),
        Err(error) => {
            let first = error.to_string();
            let first = first.lines().next().unwrap_or_default();
            check.damage(&path, None, format!("{first}; `livebag recover` makes it anew"));
            Ok(None)
        }
    }
}

struct Split<'c, 'd> {
    check: &'c mut Check<'d>,
    directory: PathBuf,
    depth: Depth,
}

impl<'c, 'd> Split<'c, 'd> {
    fn new(check: &'c mut Check<'d>, directory: PathBuf) -> Self {
        Self { check, directory, depth: Depth::Whole }
    }

    fn check_manifest(&mut self, manifest: Option<Manifest>) -> Result<(), VerifyError> {
        let Some(manifest) = manifest else { return self.check_orphans(&BTreeSet::new()) };
        let live = is_being_written(self.check.disk, &self.directory)
            .map_err(io_error(&self.directory))?;
        let state = match manifest.state {
            State::Closed => ContainerState::Closed,
            State::Recovered => ContainerState::Recovered,
            State::Recording if live => ContainerState::Live,
            State::Recording => ContainerState::Unrecovered,
        };
        self.check.verified.state.get_or_insert(state);
        if state == ContainerState::Unrecovered {
            let path = self.directory.join(CONTAINER_FILE);
            let what = "its recorder died before it was closed: `livebag recover` closes it";
            self.check.damage(&path, None, what);
        }
        if manifest.state == State::Recording {
            self.depth = Depth::Committed;
        }
        self.check_sync_mark();
        self.check_events();
        let bricks = self.check_topics(&manifest)?;
        if self.depth == Depth::Whole {
            self.check_bricks(&manifest, &bricks)?;
            self.check_attachments(&manifest)?;
            let names = manifest.topics.iter().flat_map(|t| t.bricks.iter().chain([&t.index]));
            let mut named: BTreeSet<String> = names.cloned().collect();
            named.insert(manifest.attachments.clone());
            if manifest.one_file {
                named.extend(self.second_names(&manifest)?);
            }
            self.check_orphans(&named)?;
        }
        Ok(())
    }

    fn check_sync_mark(&mut self) {
        let path = self.directory.join(SYNCED_FILE);
        if let Ok(bytes) = self.check.disk.read(&path) {
            self.check.verified.checksums += 1;
            if str::from_utf8(&bytes).ok().and_then(SyncMark::parse).is_none() {
                self.check.damage(&path, None, "its checksum does not match");
            }
        }
    }

    fn check_events(&mut self) {
        let path = self.directory.join(EVENTS_FILE);
        if let Ok(bytes) = self.check.disk.read(&path) {
            let Events { events, damaged } = Events::parse(&bytes);
            self.check.verified.checksums += (events.len() + damaged) as u64;
            if damaged > 0 {
                let what = format!("{damaged} of its lines are cut or damaged, and left out");
                self.check.damage(&path, None, what);
            }
        }
    }

    /// Names that the files of later splits have here too, for rosbag2's readers.
    fn second_names(&self, manifest: &Manifest) -> Result<Vec<String>, VerifyError> {
        let mut names = Vec::new();
        for split in &manifest.splits {
            let directory = self.directory.join(split);
            let files = self.check.disk.list(&directory).map_err(io_error(&directory))?;
            names.extend(
                files
                    .iter()
                    .filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())),
            );
        }
        Ok(names)
    }

    /// Bricks and indexes that no topic has.
    fn check_orphans(&mut self, named: &BTreeSet<String>) -> Result<(), VerifyError> {
        let files = self.check.disk.list(&self.directory).map_err(io_error(&self.directory))?;
        for file in files {
            let is_data = file.extension().is_some_and(|e| e == "mcap" || e == "idx");
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if is_data && !named.contains(&name) {
                self.check.damage(&file, None, "no topic of container.yaml has this file");
            }
        }
        Ok(())
    }

    /// Checks the indexes; returns their data about each brick.
    fn check_topics(
        &mut self,
        manifest: &Manifest,
    ) -> Result<BTreeMap<String, BrickTold>, VerifyError> {
        let mut bricks: BTreeMap<String, BrickTold> = BTreeMap::new();
        for topic in &manifest.topics {
            if topic.index.is_empty() {
                if topic.message_count > 0 {
                    let what = format!("{} has messages and no time index", topic.name);
                    self.damage_manifest(what);
                }
                continue;
            }
            let Some(told) = self.check_index(topic)? else { continue };
            if self.depth == Depth::Whole {
                self.compare_counts(topic, &told);
            }
            for (number, name) in topic.bricks.iter().enumerate() {
                let number = number as u16;
                let brick = bricks.entry(name.clone()).or_default();
                brick.chunks.extend(told.chunks.get(&number).into_iter().flatten());
                let entries = told.by_brick.get(&number).copied().unwrap_or(0);
                *brick.channels.entry(topic.channel_id).or_default() += entries;
            }
        }
        Ok(bricks)
    }

    fn damage_manifest(&mut self, what: String) {
        self.check.damage(&self.directory.join(CONTAINER_FILE), None, what);
    }

    fn compare_counts(&mut self, topic: &TopicManifest, told: &Told) {
        if (topic.message_count, topic.message_bytes) != (told.entries, told.bytes) {
            self.damage_manifest(format!(
                "{} has {} messages of {} bytes, its time index has {} and {}",
                topic.name, topic.message_count, topic.message_bytes, told.entries, told.bytes
            ));
        }
    }

    fn check_index(&mut self, topic: &TopicManifest) -> Result<Option<Told>, VerifyError> {
        let path = self.directory.join(&topic.index);
        let file = match self.check.disk.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if self.depth == Depth::Whole {
                    self.check.damage(&path, None, "it is missing");
                }
                return Ok(None);
            }
            Err(error) => return Err(io_error(&path)(error)),
        };
        let bricks: Vec<Option<BrickFile>> = topic
            .bricks
            .iter()
            .map(|name| {
                let path = self.directory.join(name);
                self.check.disk.open(&path).ok().map(|file| BrickFile { path, file })
            })
            .collect();
        let index = IndexCheck {
            check: &mut *self.check,
            path: path.clone(),
            file,
            channel_id: topic.channel_id,
            bricks: &bricks,
            depth: self.depth,
            window: Vec::new(),
            window_start: 0,
            window_brick: 0,
            unpacked: None,
        };
        index.run().map(Some).map_err(io_error(&path))
    }

    fn check_bricks(
        &mut self,
        manifest: &Manifest,
        bricks: &BTreeMap<String, BrickTold>,
    ) -> Result<(), VerifyError> {
        for (name, told) in bricks {
            let path = self.directory.join(name);
            let file = match self.check.disk.open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.check.damage(&path, None, "it is missing");
                    continue;
                }
                Err(error) => return Err(io_error(&path)(error)),
            };
            let before = self.check.verified.damage_count;
            let chunks = told.chunks.iter().copied().collect();
            let found = mcap_file::check(self.check, &path, &*file, chunks);
            let found = found.map_err(io_error(&path))?;
            self.compare_definitions(&path, name, manifest, &found.definitions);
            // A disk that was full may have taken a message and refused its entry.
            let may_differ = !manifest.failure.is_empty();
            if self.check.verified.damage_count == before && !may_differ {
                self.compare_brick(&path, told, &found.channels);
            }
        }
        Ok(())
    }

    /// The recording's attachments.
    fn check_attachments(&mut self, manifest: &Manifest) -> Result<(), VerifyError> {
        if manifest.attachments.is_empty() {
            return Ok(());
        }
        let path = self.directory.join(&manifest.attachments);
        match self.check.disk.open(&path) {
            Ok(file) => mcap_file::check(self.check, &path, &*file, Vec::new())
                .map(|_| ())
                .map_err(io_error(&path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.check.damage(&path, None, "it is missing, container.yaml names it");
                Ok(())
            }
            Err(error) => Err(io_error(&path)(error)),
        }
    }

    /// Header, schemas and channels are those that the manifest tells of.
    fn compare_definitions(
        &mut self,
        path: &Path,
        name: &String,
        manifest: &Manifest,
        found: &BTreeMap<(u8, u16), u32>,
    ) {
        let mut wanted = Vec::new();
        let mut start = Vec::new();
        put_file_start(&mut start, &manifest.profile, &manifest.library);
        wanted.push(("header", (opcode::HEADER, 0), start.split_off(MAGIC.len())));
        for topic in manifest.topics.iter().filter(|topic| topic.bricks.contains(name)) {
            let Ok(described) = topic.topic() else { continue };
            let id = topic.channel_id;
            let (mut schema, mut channel) = (Vec::new(), Vec::new());
            put_schema(&mut schema, id, &described);
            // A topic without a schema has an empty one in recordings of before 0.1.0.
            let names_schema = described.has_schema() || found.contains_key(&(opcode::SCHEMA, id));
            put_channel(&mut channel, id, if names_schema { id } else { 0 }, &described);
            if names_schema {
                wanted.push(("schema", (opcode::SCHEMA, id), schema));
            }
            wanted.push(("channel", (opcode::CHANNEL, id), channel));
        }
        for (what, key, record) in wanted {
            if found.get(&key) != Some(&crc32fast::hash(&record[RECORD_HEADER_BYTES..])) {
                let what = format!("its {what} is not that of container.yaml");
                self.check.damage(path, None, what);
            }
        }
    }

    fn compare_brick(&mut self, path: &Path, told: &BrickTold, found: &BTreeMap<u16, u64>) {
        for (channel, entries) in &told.channels {
            let messages = found.get(channel).copied().unwrap_or(0);
            if messages != *entries {
                let what = format!(
                    "channel {channel} has {messages} messages, its time index has {entries}"
                );
                self.check.damage(path, None, what);
            }
        }
    }
}

/// Data of the indexes about a brick.
#[derive(Default)]
struct BrickTold {
    chunks: BTreeSet<u64>,
    /// Entries by channel.
    channels: BTreeMap<u16, u64>,
}
