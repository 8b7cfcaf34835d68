//! Rebuilds a missing or damaged `container.yaml` from bricks and indexes.
//!
//! It is replaced as a whole, so a crash of a process never damages it; a power cut may. Bricks know
//! their topics (MCAP's schemas and channels), and an index belongs to the channel that its entries
//! point to. What only the manifest knew is gone: losses, metadata, when recording began.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use livebag_format::Topic;
use livebag_format::container::{
    ATTACHMENTS_FILE, CONTAINER_VERSION, ClockJumps, Manifest, ManifestError, Removed, State,
    TopicManifest,
};
use livebag_format::index::{ENTRY_BYTES, IndexEntry, entry_count, entry_offset, index_header};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES_MAX, ChunkHeader, Definition, MAGIC, MESSAGE_HEADER_BYTES, MessageHeader,
    RECORD_HEADER_BYTES, RecordHeader, opcode,
};

use super::says_the_same;
use crate::container::ContainerError;
use crate::container::FileNames;
use crate::container::read_manifest;
use crate::container::unpack::Unpacked;
use crate::storage::{Access, Disk, ReadFile, if_there, is_no_file};

/// Longest schema, channel or header that is read.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// Entries of an index that are tried to find its channel.
const ENTRIES_TRIED: u64 = 64;

/// Whether rebuilding the manifest can fix `error`: there are indexes, or only the files that a recorder creates first.
/// A manifest that is damaged without a power cut was changed by the medium or by a person: it is rebuilt only on
/// request (see [`crate::Container::recover`]).
pub(crate) fn can_help(disk: &dyn Disk, path: &Path, error: &ContainerError) -> bool {
    let files = disk.list(path).unwrap_or_default();
    let has_index = files.iter().any(|file| is_index(file) || is_split(disk, file).unwrap_or(true));
    match error {
        ContainerError::NotFound(_) | ContainerError::NotAContainer(_) => has_index,
        ContainerError::Manifest { source: ManifestError::Yaml(_), .. } => {
            // Files that a recorder creates before its first message, and those of an interrupted recovery.
            let ours = |file: &PathBuf| {
                let name = name_of(file);
                name.starts_with("container.")
                    || name.starts_with(".livebag-probe-")
                    || name.starts_with("split_")
                    || name == "control.sock"
                    || file.extension().is_some_and(|extension| extension == "mcap")
            };
            has_index || files.iter().all(ours)
        }
        _ => false,
    }
}

fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "idx")
}

fn is_brick(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "mcap")
}

/// The contents of a directory, without pipes and folders named like a brick or an index.
fn files_in(disk: &dyn Disk, path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = disk.list(path)?;
    let is_file = |file: &Path| !disk.open(file).is_err_and(|error| is_no_file(&error));
    files.retain(|file| !(is_brick(file) || is_index(file)) || is_file(file));
    Ok(files)
}

/// Whether a directory holds a later split. One that cannot be listed is an error: a manifest without it would hide it.
fn is_split(disk: &dyn Disk, path: &Path) -> Result<bool, ContainerError> {
    if !name_of(path).starts_with("split_") {
        return Ok(false);
    }
    match disk.list(path) {
        Ok(files) => Ok(!files.is_empty()),
        // A file of that name, or removed meanwhile.
        Err(error) if matches!(error.kind(), ErrorKind::NotADirectory | ErrorKind::NotFound) => {
            Ok(false)
        }
        Err(source) => Err(ContainerError::Io { path: path.to_owned(), source }),
    }
}

/// The number in the name of a later split: those from 10,000 on are longer.
fn number_of_split(name: &str) -> Option<u64> {
    name.strip_prefix("split_")?.parse().ok()
}

/// Names of the later splits' directories.
fn splits_among(disk: &dyn Disk, files: &[PathBuf]) -> Result<Vec<String>, ContainerError> {
    let mut names = Vec::new();
    for file in files {
        if is_split(disk, file)? {
            names.push(name_of(file));
        }
    }
    Ok(names)
}

/// Corrects the manifest's list of splits by the directories on the medium. A power cut may have lost the last
/// manifest, and with it the names of splits begun since; or it may have restored an older one that still names splits
/// removed by retention.
///
/// # Errors
/// If a directory cannot be listed.
pub(super) fn correct_splits(
    disk: &dyn Disk,
    path: &Path,
    manifest: &mut Manifest,
) -> Result<(), ContainerError> {
    let last = manifest.splits.iter().filter_map(|name| number_of_split(name)).max().unwrap_or(0);
    let next = last.max(manifest.removed.splits.saturating_sub(1)) + 1;
    let in_directory = |source| ContainerError::Io { path: path.to_owned(), source };
    let mut begun = splits_among(disk, &disk.list(path).map_err(in_directory)?)?;
    begun.retain(|name| number_of_split(name).is_some_and(|number| number >= next));
    begun.sort_by_key(|name| number_of_split(name));
    manifest.splits.append(&mut begun);
    let is_removed = |name: &String| {
        let directory = path.join(name);
        // One that was being made has no manifest yet, and is rebuilt.
        let Ok(split) = read_manifest(disk, &directory) else { return false };
        let mut names = split.topics.iter().flat_map(|t| t.bricks.iter().chain([&t.index]));
        split.state != State::Recording
            && names.any(|name| {
                let file = (!name.is_empty()).then(|| disk.open(&directory.join(name)));
                // One that cannot be opened now is there.
                file.is_some_and(|file| matches!(if_there(file), Ok(None)))
            })
    };
    // Removal begins with the oldest.
    let gone = manifest.splits.iter().rposition(is_removed).map_or(0, |last| last + 1);
    manifest.splits.drain(..gone);
    manifest.removed.splits += gone as u64;
    Ok(())
}

/// Corrects which brick is whose where files have been exchanged: a brick belongs to the topic that it announces first.
/// Gives whether any were.
pub(super) fn correct_bricks(disk: &dyn Disk, path: &Path, manifest: &mut Manifest) -> bool {
    // By their names in the manifest, the names that the files have.
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let bricks: BTreeSet<_> = manifest.topics.iter().flat_map(|topic| &topic.bricks).collect();
    for name in bricks {
        let file = disk.open(&path.join(name));
        let Ok(Some(announced)) = file.and_then(|file| first_topic(&*file)) else { continue };
        let topic = manifest.topics.iter().find(|known| {
            (known.channel_id, known.name.as_str()) == (announced.0, announced.1.as_str())
        });
        if let Some([of_topic]) = topic.map(|topic| &*topic.bricks)
            && of_topic != name
        {
            names.insert(of_topic.clone(), name.clone());
        }
    }
    let (before, now): (BTreeSet<_>, BTreeSet<_>) = names.iter().unzip();
    if names.is_empty() || before != now {
        return false;
    }
    for brick in manifest.topics.iter_mut().flat_map(|topic| &mut topic.bricks) {
        if let Some(name) = names.get(brick) {
            brick.clone_from(name);
        }
    }
    true
}

/// Channel and name of the topic that a brick announces first, before any message.
fn first_topic(file: &dyn ReadFile) -> io::Result<Option<(u16, String)>> {
    let (mut at, length) = (MAGIC.len() as u64, file.length()?);
    while let Some((record, end)) = record_at(file, at, length)? {
        match record.opcode {
            0 | opcode::CHUNK | opcode::DATA_END => break,
            opcode::CHANNEL if record.body_bytes <= RECORD_BYTES_MAX => {
                let mut body = vec![0; record.body_bytes as usize];
                file.read_at(&mut body, at + RECORD_HEADER_BYTES as u64)?;
                if let Some(Definition::Channel { id, topic, .. }) =
                    Definition::parse(opcode::CHANNEL, &body)
                {
                    return Ok(Some((id, topic)));
                }
            }
            _ => {}
        }
        at = end;
    }
    Ok(None)
}

/// Path of a topic's index: beside its brick under the same name, or under its own if it shares the brick.
fn index_of(brick: &Path, topic: &Topic) -> PathBuf {
    let own_name = FileNames::default().give(&topic.name);
    if name_of(brick).starts_with(&own_name) {
        brick.with_extension("idx")
    } else {
        brick.with_file_name(format!("{own_name}.idx"))
    }
}

/// The same, or another name if a topic has that.
fn free_index_name(manifest: &Manifest, brick: &Path, topic: &Topic) -> String {
    let name = name_of(&index_of(brick, topic));
    let stem = name.trim_end_matches(".idx").to_owned();
    let numbered = (2..).map(|number| format!("{stem}_{number}.idx"));
    let mut names = std::iter::once(name).chain(numbered);
    let is_free = |name: &String| manifest.topics.iter().all(|topic| topic.index != *name);
    names.find(is_free).unwrap_or_default()
}

/// Whether anything in a file looks like a chunk.
fn may_have_chunk(file: &dyn ReadFile) -> io::Result<bool> {
    const PIECE_BYTES: usize = 1 << 20;
    let mut piece = vec![0; PIECE_BYTES + CHUNK_HEADER_BYTES_MAX];
    let mut at = 0;
    loop {
        let count = file.read_at(&mut piece, at)?;
        let starts = (0..count.min(PIECE_BYTES)).filter(|start| piece[*start] == opcode::CHUNK);
        if starts.into_iter().any(|start| ChunkHeader::parse(&piece[start..count]).is_some()) {
            return Ok(true);
        }
        if count < piece.len() {
            return Ok(false);
        }
        at += PIECE_BYTES as u64;
    }
}

fn make_index(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let file = match disk.open_for_repair(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(path, Access::Buffered)?
        }
        opened => opened?,
    };
    if file.length()? < ENTRY_BYTES as u64 {
        file.write_at(&index_header(), 0)?;
    }
    Ok(())
}

/// Adds files that a recorder created just before it died and had not named yet: a brick belongs to the topic that it
/// declares, and so does the index of the same name. What announces nothing holds nothing, and is removed.
pub(super) fn name_newest_files(
    disk: &dyn Disk,
    path: &Path,
    manifest: &mut Manifest,
) -> io::Result<()> {
    let files = files_in(disk, path)?;
    let is_named = |manifest: &Manifest, file: &Path| {
        let name = name_of(file);
        manifest.topics.iter().any(|topic| topic.index == name || topic.bricks.contains(&name))
    };
    for brick in files.iter().filter(|file| is_brick(file)) {
        if is_named(manifest, brick) || name_of(brick) == manifest.attachments {
            continue;
        }
        let file = disk.open(brick)?;
        let mut magic = [0; MAGIC.len()];
        let count = file.read_at(&mut magic, 0)?;
        let is_ours = MAGIC.starts_with(&magic[..count]);
        let read = read_brick(brick, file.clone())?;
        if read.is_attachments() && manifest.attachments.is_empty() {
            manifest.attachments = read.name;
            continue;
        }
        let is_empty = read.topics.is_empty() && !read.has_other_records;
        if is_empty && is_ours && !may_have_chunk(&*file)? {
            disk.remove(brick)?;
        }
        for (channel_id, announced) in &read.topics {
            let topics = &mut manifest.topics;
            let at = topics.iter().position(|topic| topic.channel_id == *channel_id);
            let at = at.unwrap_or_else(|| {
                let index = String::new();
                topics.push(TopicManifest::new(announced, *channel_id, index, Vec::new()));
                topics.len() - 1
            });
            // A topic has one brick: another one is not a recorder's.
            if topics[at].index.is_empty() {
                let index = index_of(brick, announced);
                make_index(disk, &index)?;
                (topics[at].index, topics[at].bricks) = (name_of(&index), vec![name_of(brick)]);
            }
        }
    }
    for index in files.iter().filter(|file| is_index(file)) {
        if !is_named(manifest, index) && entry_count(disk.open(index)?.length()?) == 0 {
            disk.remove(index)?;
        }
    }
    Ok(())
}

/// A brick's own metadata.
struct Brick {
    name: String,
    file: std::sync::Arc<dyn ReadFile>,
    library: String,
    profile: String,
    /// Channels with their topics, in the order in which they were announced.
    topics: Vec<(u16, Topic)>,
    /// Whether it has attachments or metadata records, which no recorder puts into a brick.
    has_other_records: bool,
}

/// Makes a manifest in state `recording` of the files in a directory.
pub(super) fn rebuild(disk: &dyn Disk, path: &Path) -> Result<Manifest, ContainerError> {
    let io_error = |source| ContainerError::Io { path: path.to_owned(), source };
    let files = files_in(disk, path).map_err(io_error)?;
    let mut bricks = Vec::new();
    let mut attachments = None;
    for file in &files {
        if is_brick(file) {
            let opened = disk.open(file);
            let opened =
                opened.map_err(|source| ContainerError::Io { path: file.clone(), source })?;
            let brick = read_brick(file, opened).map_err(io_error)?;
            if brick.is_attachments() {
                attachments = Some(brick.name);
            } else {
                bricks.push(brick);
            }
        }
    }
    let mut manifest = Manifest {
        livebag_container: CONTAINER_VERSION,
        library: bricks.iter().map(|brick| brick.library.clone()).max().unwrap_or_default(),
        profile: bricks.iter().map(|brick| brick.profile.clone()).max().unwrap_or_default(),
        state: State::Recording,
        started_nanos: 0,
        ended_nanos: 0,
        written_nanos: 0,
        unknown_since_nanos: 0,
        failure: "container.yaml was damaged and has been made anew".into(),
        metadata: Vec::new(),
        attachments: attachments.unwrap_or_default(),
        splits: splits_among(disk, &files)?,
        one_file: false,
        clock_jumps: ClockJumps::default(),
        removed: Removed::default(),
        topics: Vec::new(),
    };
    let mut started = u64::MAX;
    let mut indexes = Vec::new();
    for path in files.iter().filter(|file| is_index(file)) {
        let entries = first_entries(disk, path).map_err(io_error)?;
        started = entries.first().map_or(started, |first| started.min(first.log_time_nanos));
        indexes.push((path, entries));
    }
    let matched = match_channels(&indexes, &bricks);
    for &(index, brick, channel) in &matched {
        let brick = &bricks[brick];
        let (channel_id, topic) = &brick.topics[channel];
        let index = name_of(indexes[index].0);
        let bricks = vec![brick.name.clone()];
        manifest.topics.push(TopicManifest::new(topic, *channel_id, index, bricks));
    }
    // Their indexes are gone, and are rebuilt from the brick.
    for (at, brick) in bricks.iter().enumerate() {
        for (channel, (channel_id, topic)) in brick.topics.iter().enumerate() {
            if matched.iter().any(|(_, of, which)| (*of, *which) == (at, channel)) {
                continue;
            }
            let index = free_index_name(&manifest, Path::new(&brick.name), topic);
            let bricks = vec![brick.name.clone()];
            manifest.topics.push(TopicManifest::new(topic, *channel_id, index, bricks));
        }
    }
    manifest.splits.sort_by_key(|name| (number_of_split(name), name.clone()));
    manifest.topics.sort_by_key(|topic| topic.channel_id);
    manifest.started_nanos = if started == u64::MAX { 0 } else { started };
    Ok(manifest)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn first_entries(disk: &dyn Disk, path: &Path) -> io::Result<Vec<IndexEntry>> {
    let file = disk.open(path)?;
    let mut entries = Vec::new();
    for number in 0..entry_count(file.length()?).min(ENTRIES_TRIED) {
        let mut bytes = [0; ENTRY_BYTES];
        file.read_at(&mut bytes, entry_offset(number))?;
        entries.extend(IndexEntry::decode(&bytes));
    }
    Ok(entries)
}

/// Which index is that of which channel: places in `indexes`, `bricks` and the brick's topics. An index belongs to the
/// channel to whose messages most of its entries point, and every channel has one; an index without such entries
/// belongs to the first channel in the brick of the same name.
fn match_channels(
    indexes: &[(&PathBuf, Vec<IndexEntry>)],
    bricks: &[Brick],
) -> Vec<(usize, usize, usize)> {
    let mut candidates = Vec::new();
    for (index, (path, entries)) in indexes.iter().enumerate() {
        for (at, brick) in bricks.iter().enumerate() {
            let same_name = Path::new(&brick.name).file_stem() == path.file_stem();
            for (channel, (channel_id, _)) in brick.topics.iter().enumerate() {
                let points = |entry: &&IndexEntry| brick.has_message(entry, *channel_id);
                let pointing = entries.iter().filter(points).count();
                if pointing > 0 || (same_name && channel == 0) {
                    candidates.push(((pointing, same_name), (index, at, channel)));
                }
            }
        }
    }
    candidates.sort_by_key(|(fits, _)| std::cmp::Reverse(*fits));
    let mut chosen: Vec<(usize, usize, usize)> = Vec::new();
    for (_, (index, brick, channel)) in candidates {
        let is_free = |taken: &(usize, usize, usize)| {
            taken.0 != index && (taken.1, taken.2) != (brick, channel)
        };
        if chosen.iter().all(is_free) {
            chosen.push((index, brick, channel));
        }
    }
    chosen
}

impl Brick {
    /// Whether it is the file with the attachments, not a brick.
    fn is_attachments(&self) -> bool {
        self.has_other_records && self.topics.is_empty() && self.name == ATTACHMENTS_FILE
    }

    /// Whether the entry points to a message of the channel that says the same.
    fn has_message(&self, entry: &IndexEntry, channel_id: u16) -> bool {
        if entry.compressed {
            let mut unpacked = Unpacked::default();
            let read = unpacked.message(&*self.file, entry);
            let message = read.ok().and_then(|(head, _)| MessageHeader::parse(head));
            return message.is_some_and(|message| says_the_same(&message, entry, channel_id));
        }
        let mut head = [0; MESSAGE_HEADER_BYTES];
        let at = entry.offset.checked_sub(MESSAGE_HEADER_BYTES as u64);
        let read = at.is_some_and(|at| self.file.read_at(&mut head, at).is_ok());
        let message = MessageHeader::parse(&head).filter(|_| read);
        message.is_some_and(|message| says_the_same(&message, entry, channel_id))
    }
}

fn read_brick(path: &Path, file: std::sync::Arc<dyn ReadFile>) -> io::Result<Brick> {
    let mut brick = Brick {
        name: name_of(path),
        file,
        library: String::new(),
        profile: String::new(),
        topics: Vec::new(),
        has_other_records: false,
    };
    let length = brick.file.length()?;
    let mut schemas = Vec::new();
    read_definitions(&mut brick, &mut schemas, MAGIC.len() as u64, length)?;
    // A closed brick says it again at its end, whatever has become of its beginning.
    if let Some(start) = summary_start(&*brick.file, length)? {
        read_definitions(&mut brick, &mut schemas, start, length)?;
    }
    Ok(brick)
}

/// Where the summary begins, if the file ends with a footer.
fn summary_start(file: &dyn ReadFile, length: u64) -> io::Result<Option<u64>> {
    const FOOTER_BYTES: usize = RECORD_HEADER_BYTES + 8 + 8 + 4;
    let Some(at) = length.checked_sub((FOOTER_BYTES + MAGIC.len()) as u64) else { return Ok(None) };
    let mut end = [0; FOOTER_BYTES + MAGIC.len()];
    file.read_at(&mut end, at)?;
    if end[0] != opcode::FOOTER || !end.ends_with(&MAGIC) {
        return Ok(None);
    }
    let start = end[RECORD_HEADER_BYTES..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    Ok(start.filter(|start| *start > 0 && *start < length))
}

/// Notes the topics that records from `at` on announce, up to the first thing that is no record.
fn read_definitions(
    brick: &mut Brick,
    schemas: &mut Vec<Definition>,
    mut at: u64,
    length: u64,
) -> io::Result<()> {
    while let Some((record, end)) = record_at(&*brick.file, at, length)? {
        let wanted = matches!(record.opcode, opcode::HEADER | opcode::SCHEMA | opcode::CHANNEL);
        if wanted && brick.file.has_hole(at, end - at)? {
            break;
        }
        if wanted && record.body_bytes <= RECORD_BYTES_MAX {
            let mut body = vec![0; record.body_bytes as usize];
            brick.file.read_at(&mut body, at + RECORD_HEADER_BYTES as u64)?;
            match Definition::parse(record.opcode, &body) {
                Some(Definition::Header { profile, library }) => {
                    (brick.profile, brick.library) = (profile, library);
                }
                Some(schema @ Definition::Schema { .. }) => schemas.push(schema),
                Some(Definition::Channel { id, schema_id, topic, message_encoding, metadata }) => {
                    let topic =
                        Topic { name: topic, message_encoding, metadata, ..Topic::default() };
                    take_channel(brick, id, schema_id, topic, schemas);
                }
                None => {}
            }
        }
        brick.has_other_records |= matches!(record.opcode, opcode::ATTACHMENT | opcode::METADATA);
        if matches!(record.opcode, 0 | opcode::DATA_END) {
            break;
        }
        at = end;
    }
    Ok(())
}

fn record_at(file: &dyn ReadFile, at: u64, length: u64) -> io::Result<Option<(RecordHeader, u64)>> {
    let mut head = [0; RECORD_HEADER_BYTES];
    let count = file.read_at(&mut head, at)?;
    let record = RecordHeader::parse(&head[..count]);
    let end = record.and_then(|record| at.checked_add(record.total_bytes()?));
    Ok(record.zip(end.filter(|end| *end <= length)))
}

fn take_channel(brick: &mut Brick, number: u16, of: u16, mut topic: Topic, schemas: &[Definition]) {
    let known = brick.topics.iter().any(|(id, _)| *id == number);
    // Neither is given by a recorder.
    if known || number == 0 || topic.name.is_empty() {
        return;
    }
    let schema =
        schemas.iter().find(|schema| matches!(schema, Definition::Schema { id, .. } if *id == of));
    if let Some(Definition::Schema { name, encoding, data, .. }) = schema {
        topic.type_name.clone_from(name);
        topic.schema_encoding.clone_from(encoding);
        topic.schema.clone_from(data);
    }
    if !is_torn(&topic) {
        brick.topics.push((number, topic));
    }
}

/// Whether a medium that tears sectors has left zeros in what describes a topic: no text has them.
fn is_torn(topic: &Topic) -> bool {
    let Topic { name, type_name, message_encoding, schema_encoding, schema, metadata } = topic;
    let metadata = metadata.iter().flat_map(|(key, value)| [key, value]);
    let mut texts =
        [name, type_name, message_encoding, schema_encoding].into_iter().chain(metadata);
    let is_binary = matches!(schema_encoding.as_str(), "protobuf" | "flatbuffer");
    texts.any(|text| text.contains('\0')) || (!is_binary && schema.contains(&0))
}
