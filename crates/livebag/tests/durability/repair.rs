//! `Container::recover` on damaged files: provable data is kept, damaged data is not returned.
//!
//! `LIVEBAG_DAMAGE_CASES` damaged containers are repaired (default 200), the first with the seed `LIVEBAG_DAMAGE_FIRST`
//! (0).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use livebag::{
    ChunkCompression, Compression, Container, ContainerState, NewMessage, Overflow, Query,
    Recorder, RecorderOptions, Topic,
};
use livebag_format::container::{SYNCED_FILE, SyncMark};
use livebag_format::index::{ENTRY_BYTES, entry_count, entry_offset};
use livebag_format::mcap::{
    CHUNK_HEADER_BYTES_MAX, ChunkHeader, MAGIC, MESSAGE_HEADER_BYTES, MESSAGE_INDEX_ENTRY_BYTES,
    MESSAGE_INDEX_HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, chunk_messages, opcode,
};

use crate::common::Random;

const TOPICS: usize = 3;
const MESSAGES: u64 = 60;
const SECTOR: u64 = 512;
const BLOCK: u64 = 4096;

/// How a recording is made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Kind {
    storage: Storage,
    is_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Storage {
    Bricks,
    Compressed,
    OneFile,
}

const KINDS: [Kind; 6] = [
    Kind { storage: Storage::Bricks, is_closed: true },
    Kind { storage: Storage::Compressed, is_closed: true },
    Kind { storage: Storage::OneFile, is_closed: true },
    Kind { storage: Storage::Bricks, is_closed: false },
    Kind { storage: Storage::Compressed, is_closed: false },
    Kind { storage: Storage::OneFile, is_closed: false },
];

/// A message by its topic and number.
type Key = (String, u32);

/// A chunk of an undamaged brick.
struct Chunk {
    /// The chunk and its message indexes.
    bytes: Vec<u8>,
    offset: u64,
    has_checksum: bool,
    /// Length of only the chunk record.
    record_bytes: usize,
    messages: BTreeSet<Key>,
    /// Of a chunk that is not compressed: its messages, and where each ends in `bytes`.
    ends: Vec<(usize, Key)>,
}

impl Chunk {
    /// Messages that are whole in a chunk that the end of a file cuts, which is all that is left of it.
    fn first_messages(&self, left: &[u8]) -> impl Iterator<Item = &Key> {
        let whole = self.ends.iter().take_while(move |(end, _)| {
            left.get(..*end).is_some_and(|left| left == &self.bytes[..*end])
        });
        whole.map(|(_, key)| key)
    }
}

/// A recording without damage.
struct Original {
    _folder: tempfile::TempDir,
    path: PathBuf,
    messages: BTreeMap<Key, Vec<u8>>,
    /// Bricks with their chunks.
    bricks: BTreeMap<String, Vec<Chunk>>,
    /// All topics of a brick are announced before this offset.
    defined_before: u64,
}

fn originals() -> &'static BTreeMap<Kind, Original> {
    static MADE: OnceLock<BTreeMap<Kind, Original>> = OnceLock::new();
    MADE.get_or_init(|| KINDS.into_iter().map(|kind| (kind, make(kind))).collect())
}

fn make(kind: Kind) -> Original {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let options = RecorderOptions {
        overflow: Overflow::Block,
        one_file: (kind.storage == Storage::OneFile).then(|| "bag_0.mcap".to_owned()),
        compression: match kind.storage {
            Storage::Compressed => {
                ChunkCompression { compression: Compression::Zstd, ..ChunkCompression::default() }
            }
            _ => ChunkCompression::default(),
        },
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&path, options).unwrap();
    let topic = |at| Topic { name: format!("/t{at}"), type_name: "x/X".into(), ..Topic::default() };
    let writers: Vec<_> = (0..TOPICS).map(|at| recorder.topic(topic(at)).unwrap()).collect();
    let mut random = Random(7);
    let mut messages = BTreeMap::new();
    for k in 0..MESSAGES {
        for (at, writer) in writers.iter().enumerate() {
            let size = match random.below(12) {
                0 => 70_000 + random.below(9_000),
                1..=3 => 2_000 + random.below(6_000),
                _ => random.below(300),
            };
            let data: Vec<u8> = (0..size).map(|_| random.next() as u8).collect();
            let message = NewMessage {
                log_time_nanos: None,
                publish_time_nanos: None,
                sequence: k,
                data: &data,
            };
            writer.write_message(message).unwrap();
            messages.insert((format!("/t{at}"), k as u32), data);
        }
        if k % 10 == 9 {
            wait(&path, (k + 1) * TOPICS as u64);
        }
    }
    let path = match kind.is_closed {
        true => {
            recorder.finish().unwrap();
            path
        }
        // The files as a killed recorder leaves them.
        false => {
            let copy = folder.path().join("killed");
            copy_folder(&path, &copy);
            recorder.finish().unwrap();
            copy
        }
    };
    let (mut bricks, mut defined_before) = (BTreeMap::new(), 0);
    for brick in files(&path, "mcap") {
        let (chunks, defined) = chunks_of(&path.join(&brick));
        bricks.insert(brick, chunks);
        defined_before = defined.max(defined_before);
    }
    let known: usize = bricks.values().flatten().map(|chunk| chunk.messages.len()).sum();
    assert_eq!(known, messages.len(), "{kind:?}");
    Original { _folder: folder, path, messages, bricks, defined_before }
}

/// Waits until a live recording has committed `count` messages.
fn wait(path: &Path, count: u64) {
    loop {
        let container = Container::peek(path).unwrap();
        let counts = container.topics().iter().map(|topic| topic.message_count().unwrap());
        if counts.sum::<u64>() == count {
            return;
        }
        std::thread::yield_now();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// Recordings of the same messages at other times.
fn others() -> &'static BTreeMap<Kind, Original> {
    static MADE: OnceLock<BTreeMap<Kind, Original>> = OnceLock::new();
    MADE.get_or_init(|| KINDS.into_iter().map(|kind| (kind, make(kind))).collect())
}

/// A copy to damage, in a separate folder.
fn copy_of(original: &Original) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    copy_folder(&original.path, &path);
    (folder, path)
}

/// Names of the files with an extension, sorted.
fn files(path: &Path, extension: &str) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|file| file.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(&format!(".{extension}"))).collect();
    names.sort();
    names
}

/// The chunks of an intact brick, from an independent reader, and the offset after the last topic's channel.
fn chunks_of(brick: &Path) -> (Vec<Chunk>, u64) {
    let bytes = fs::read(brick).unwrap();
    let mut topics = BTreeMap::new();
    let (mut chunks, mut defined) = (Vec::new(), 0);
    let mut at = MAGIC.len();
    while let Some(record) = RecordHeader::parse(&bytes[at..]) {
        let end = at + record.total_bytes().unwrap() as usize;
        match record.opcode {
            opcode::CHANNEL => {
                let body = &bytes[at + RECORD_HEADER_BYTES..end];
                let Ok(mcap::records::Record::Channel(channel)) =
                    mcap::parse_record(opcode::CHANNEL, body)
                else {
                    panic!("a channel")
                };
                topics.insert(channel.id, channel.topic);
                defined = end as u64;
            }
            opcode::CHUNK => {
                let head = &bytes[at..(at + CHUNK_HEADER_BYTES_MAX).min(bytes.len())];
                let header = ChunkHeader::parse(head).unwrap();
                let records = header.records(&bytes[at..end]).unwrap();
                let mut ends = Vec::new();
                for message in chunk_messages(&records) {
                    let message = message.unwrap();
                    let key = (topics[&message.header.channel_id].clone(), message.header.sequence);
                    let inner = message.inner as usize + MESSAGE_HEADER_BYTES + message.data.len();
                    ends.push((header.header_bytes() + inner, key));
                }
                let messages: BTreeSet<Key> = ends.iter().map(|(_, key)| key.clone()).collect();
                if header.compression != Compression::None {
                    ends.clear();
                }
                let record_bytes = end - at;
                let channels: BTreeSet<&String> = messages.iter().map(|(name, _)| name).collect();
                let indexes = channels.len() * MESSAGE_INDEX_HEADER_BYTES
                    + messages.len() * MESSAGE_INDEX_ENTRY_BYTES;
                let bytes = bytes[at..end + indexes].to_vec();
                let has_checksum = header.crc != 0;
                let offset = at as u64;
                chunks.push(Chunk { bytes, offset, has_checksum, record_bytes, messages, ends });
            }
            0 | opcode::DATA_END => break,
            _ => {}
        }
        at = end;
    }
    (chunks, defined)
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// One damage, in words.
fn damage(random: &mut Random, folder: &Path, from: u64) -> String {
    let kind = if random.chance(70) { "mcap" } else { "idx" };
    let names = files(folder, kind);
    let Some(name) = names.get(random.below(names.len().max(1) as u64) as usize) else {
        return "nothing: no file is left".into();
    };
    let path = folder.join(name);
    let from = if kind == "mcap" { from } else { 0 };
    let file = open(&path);
    let length = file.metadata().unwrap().len();
    if length <= from + SECTOR {
        return "nothing: too short".into();
    }
    let place = |random: &mut Random, unit: u64| {
        let first = from.div_ceil(unit);
        (first + random.below((length / unit).saturating_sub(first).max(1))) * unit
    };
    let sectors = 1 + random.below(8);
    match random.below(100) {
        0..=24 => {
            let at = place(random, SECTOR);
            let bytes = vec![0; (sectors * SECTOR).min(length.saturating_sub(at)) as usize];
            file.write_all_at(&bytes, at).unwrap();
            format!("{name}: {} zeros at {at}", bytes.len())
        }
        25..=44 => {
            let at = place(random, SECTOR);
            let count = (sectors * SECTOR).min(length.saturating_sub(at));
            let bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
            file.write_all_at(&bytes, at).unwrap();
            format!("{name}: {count} random bytes at {at}")
        }
        45..=59 => {
            let places = [place(random, SECTOR), place(random, SECTOR)];
            let whole = places.iter().all(|at| at + SECTOR <= length);
            if whole {
                let read = places.map(|at| {
                    let mut bytes = [0; SECTOR as usize];
                    file.read_exact_at(&mut bytes, at).unwrap();
                    bytes
                });
                file.write_all_at(&read[1], places[0]).unwrap();
                file.write_all_at(&read[0], places[1]).unwrap();
            }
            format!("{name}: sectors at {places:?} swapped")
        }
        60..=79 => {
            let at = from + random.below(length - from);
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ (1 << random.below(8))], at).unwrap();
            format!("{name}: a bit flipped at {at}")
        }
        80..=87 => {
            let at = place(random, BLOCK);
            use rustix::fs::{FallocateFlags, fallocate};
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, flags, at, BLOCK).unwrap();
            format!("{name}: block at {at} lost")
        }
        88..=95 => {
            let to = from + random.below(length - from);
            file.set_len(to).unwrap();
            format!("{name}: cut to {to} of {length}")
        }
        96..=97 if from == 0 => {
            file.set_len(0).unwrap();
            format!("{name}: emptied")
        }
        _ if from == 0 => {
            fs::remove_file(&path).unwrap();
            format!("{name}: removed")
        }
        _ => "nothing".into(),
    }
}

/// Gives a topic the index of another one, or of another recording, in words.
fn confuse_indexes(random: &mut Random, kind: Kind, folder: &Path) -> String {
    let names = files(folder, "idx");
    let [first, .., last] = &names[..] else { return "no indexes".into() };
    match random.below(3) {
        0 => {
            exchange(&folder.join(first), &folder.join(last));
            format!("{first} and {last} exchanged")
        }
        1 => {
            swap_entries(&folder.join(first), &folder.join(last), random.below(20));
            format!("ten entries of {first} and {last} swapped")
        }
        _ => {
            fs::copy(others()[&kind].path.join(first), folder.join(first)).unwrap();
            format!("{first} of another recording")
        }
    }
}

fn exchange(one: &Path, other: &Path) {
    let aside = one.with_extension("aside");
    fs::rename(one, &aside).unwrap();
    fs::rename(other, one).unwrap();
    fs::rename(aside, other).unwrap();
}

/// Swaps ten entries of two indexes, from one number on.
fn swap_entries(one: &Path, other: &Path, from: u64) {
    let files = [one, other].map(open);
    let mut entries = [[0; 10 * ENTRY_BYTES]; 2];
    for (file, entries) in files.iter().zip(&mut entries) {
        if file.read_exact_at(entries, entry_offset(from)).is_err() {
            return;
        }
    }
    for (file, entries) in files.iter().zip(entries.iter().rev()) {
        file.write_all_at(entries, entry_offset(from)).unwrap();
    }
}

/// The contents of a folder: names and contents, without the lock.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let named = files.map(|file| (file.file_name().into_string().unwrap(), file.path()));
    named.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

fn read(container: &Container) -> (BTreeMap<Key, Vec<u8>>, u64) {
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut found = BTreeMap::new();
    while let Some((topic, message)) = cursor.next().unwrap() {
        let key = (container.topics()[topic].topic().name.clone(), message.sequence as u32);
        let before = found.insert(key.clone(), message.data.to_vec());
        assert!(before.is_none(), "{key:?} is there twice");
    }
    let damaged = cursor.damaged();
    (found, damaged)
}

/// Messages saved from a single brick, which must equal the recorded ones.
fn salvage(brick: &Path, original: &Original) -> Vec<Key> {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("saved.mcap");
    if livebag_bags::salvage(brick, &saved, livebag_bags::SinkCompression::None).is_err() {
        return Vec::new();
    }
    let bytes = fs::read(&saved).unwrap();
    let messages = mcap::MessageStream::new(&bytes).unwrap().map(|message| message.unwrap());
    let right = messages.filter_map(|message| {
        let key = (message.channel.topic.clone(), message.sequence);
        (original.messages.get(&key).is_some_and(|data| **data == *message.data)).then_some(key)
    });
    right.collect()
}

fn check(seed: u64) {
    let mut random = Random(seed);
    let kind = KINDS[random.below(KINDS.len() as u64) as usize];
    let original = &originals()[&kind];
    let (_folder, path) = copy_of(original);
    let mut said = vec![format!("{kind:?}")];
    let manifest_is_gone = random.chance(15);
    // Without a manifest, a topic is known by its definitions.
    let from = if manifest_is_gone { original.defined_before.next_multiple_of(BLOCK) } else { 0 };
    for _ in 0..1 + random.below(4) {
        said.push(damage(&mut random, &path, from));
    }
    if random.chance(15) {
        said.push(confuse_indexes(&mut random, kind, &path));
    }
    if manifest_is_gone {
        match random.below(3) {
            0 => fs::remove_file(path.join("container.yaml")).unwrap(),
            1 => fs::write(path.join("container.yaml"), b"").unwrap(),
            _ => fs::write(path.join("container.yaml"), [0; 600]).unwrap(),
        }
        said.push("manifest gone".into());
    }
    let lock_is_gone = random.chance(20);
    if lock_is_gone {
        let _ = fs::remove_file(path.join("container.lock"));
        said.push("lock gone".into());
    }
    let said = format!("seed {seed}: {}", said.join("; "));

    // Otherwise a power cut may have been what happened to it.
    let has_lost_no_sector = !manifest_is_gone && (kind.is_closed || !lock_is_gone);
    // Existing messages, provable or not.
    let (mut provable, mut changed) = (BTreeSet::new(), BTreeSet::new());
    let mut salvaged = Vec::new();
    for (brick, chunks) in &original.bricks {
        let bytes = fs::read(path.join(brick)).unwrap_or_default();
        let from_file = salvage(&path.join(brick), original);
        for chunk in chunks {
            // A message with another time, one of a chunk whose checksum tells of damage, and a frame without
            // checksum, entry and message index are not meant.
            let left = bytes.get(chunk.offset as usize..).unwrap_or_default();
            let left = &left[..left.len().min(chunk.record_bytes)];
            if chunk.has_checksum && left == &chunk.bytes[..left.len()] {
                salvaged
                    .extend(from_file.iter().filter(|key| chunk.messages.contains(*key)).cloned());
            }
            let range = chunk.offset as usize..chunk.offset as usize + chunk.bytes.len();
            let is_same = bytes.get(range).is_some_and(|bytes| bytes == chunk.bytes);
            let set = if is_same { &mut provable } else { &mut changed };
            let left = bytes.get(chunk.offset as usize..).unwrap_or_default();
            let is_cut = left.len() < chunk.record_bytes;
            let is_served_unproven = !is_same && (!chunk.has_checksum || is_cut);
            set.extend(chunk.messages.iter().map(|key| (key.clone(), is_served_unproven)));
            if is_cut && has_lost_no_sector {
                let first = chunk.first_messages(left);
                provable.extend(first.map(|key| (key.clone(), false)));
            }
        }
    }

    let container = Container::recover(&path).unwrap_or_else(|error| panic!("{said}: {error}"));
    let wanted = match (kind.is_closed, manifest_is_gone) {
        (true, false) => ContainerState::Closed,
        _ => ContainerState::Recovered,
    };
    assert_eq!(container.state(), wanted, "{said}");
    let (found, damaged_then) = read(&container);
    for (key, _) in &provable {
        assert!(found.get(key) == Some(&original.messages[key]), "{said}: {key:?} is lost");
    }
    // The container returns everything that its files return separately.
    if has_lost_no_sector {
        for key in &salvaged {
            let mut chunks = original.bricks.values().flatten();
            let chunk = chunks.find(|chunk| chunk.messages.contains(key)).unwrap();
            let (offset, bytes) = (chunk.offset, chunk.bytes.len());
            assert!(
                found.contains_key(key),
                "{said}: {key:?} is salvaged from its file alone, of {bytes} bytes at {offset}"
            );
        }
    }
    for (key, data) in &found {
        let known = original.messages.get(key);
        let is_right = known == Some(data);
        let is_frame = changed.contains(&(key.clone(), true));
        assert!(is_right || is_frame, "{said}: {key:?} is not what was recorded");
    }
    if kind.is_closed && !manifest_is_gone {
        let damaged: u64 =
            container.accounts().unwrap().iter().map(|account| account.damaged).sum();
        let lacking = (original.messages.len() - found.len()) as u64;
        assert_eq!(damaged.max(damaged_then), lacking, "{said}: counted");
    }
    let verified =
        livebag_bags::verify(&path, &mut |_| {}).unwrap_or_else(|e| panic!("{said}: {e}"));
    let is_known = |damage: &livebag_bags::Damage| damage.to_string().contains("damaged or gone");
    let left: Vec<_> = verified.damage.iter().filter(|damage| !is_known(damage)).collect();
    assert!(left.is_empty(), "{said}: {left:?}");

    let before = contents(&path);
    let again = Container::recover(&path).unwrap_or_else(|error| panic!("{said}: {error}"));
    assert!(!again.is_mended(), "{said}: mended twice");
    drop(again);
    assert!(contents(&path) == before, "{said}: a second recovery changed something");
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn everything_that_can_be_proven_is_kept() {
    let first = number("LIVEBAG_DAMAGE_FIRST", 0);
    let cases = number("LIVEBAG_DAMAGE_CASES", 200);
    originals();
    let next = std::sync::atomic::AtomicU64::new(first);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= first + cases {
                        break;
                    }
                    check(seed);
                }
            });
        }
    });
}

/// An intact container is not changed by a byte.
#[test]
fn what_is_sound_is_not_touched() {
    for kind in KINDS.into_iter().filter(|kind| kind.is_closed) {
        let before = contents(&originals()[&kind].path);
        let container = Container::recover(&originals()[&kind].path).unwrap();
        assert_eq!(
            (container.state(), container.is_mended()),
            (ContainerState::Closed, false),
            "{kind:?}"
        );
        assert!(contents(&originals()[&kind].path) == before, "{kind:?}");
    }
}

/// One damaged block of a closed brick, without index and manifest: it costs the chunk that it hit.
#[test]
fn a_damaged_chunk_costs_itself() {
    let original = &originals()[&KINDS[0]];
    let (_folder, path) = copy_of(original);
    let (brick, chunks) = original.bricks.iter().next().unwrap();
    let hit = chunks.iter().find(|chunk| chunk.has_checksum).unwrap();
    open(&path.join(brick)).write_all_at(b"damage", hit.offset + 60).unwrap();
    for index in files(&path, "idx") {
        fs::remove_file(path.join(index)).unwrap();
    }
    fs::write(path.join("container.yaml"), b"").unwrap();
    let length = fs::metadata(path.join(brick)).unwrap().len();
    let container = Container::recover(&path).unwrap();
    let (found, _) = read(&container);
    assert_eq!(found.len(), original.messages.len() - hit.messages.len());
    assert!(fs::metadata(path.join(brick)).unwrap().len() >= length.saturating_sub(BLOCK));
}

/// The index of one topic is gone: the others are read without a repair, and it is made again.
#[test]
fn a_lost_index_costs_no_other_topic_anything() {
    let original = &originals()[&KINDS[0]];
    for what in ["removed", "emptied", "cut"] {
        let (_folder, path) = copy_of(original);
        let index = path.join(&files(&path, "idx")[0]);
        match what {
            "removed" => fs::remove_file(&index).unwrap(),
            "emptied" => open(&index).set_len(0).unwrap(),
            _ => {
                let length = fs::metadata(&index).unwrap().len();
                open(&index).set_len(length / 2).unwrap();
            }
        }
        let container = Container::open(&path).unwrap();
        let missing: u64 = container.topics().iter().map(|topic| topic.missing().unwrap()).sum();
        let (found, damaged) = read(&container);
        assert_eq!(found.len() as u64 + missing, original.messages.len() as u64, "{what}");
        assert!(missing > 0 && damaged == missing, "{what}: {missing} {damaged}");
        let container = Container::recover(&path).unwrap();
        assert!(container.is_mended(), "{what}");
        assert_eq!(read(&container).0.len(), original.messages.len(), "{what}");
    }
}

/// Overwritten bytes are saved.
#[test]
fn bytes_that_are_given_up_are_kept() {
    let original = &originals()[&KINDS[0]];
    let (_folder, path) = copy_of(original);
    let (brick, chunks) = original.bricks.iter().next().unwrap();
    open(&path.join(brick)).write_all_at(&[0x55; 30], chunks[1].offset).unwrap();
    let container = Container::recover(&path).unwrap();
    assert!(container.is_mended());
    let kept = fs::read_to_string(path.join("container.damaged")).unwrap();
    let line = kept.lines().find(|line| line.starts_with(&format!("{} 5555", chunks[1].offset)));
    assert!(line.is_some_and(|line| line.ends_with(brick)), "{kept}");
}

/// A failure that was there before is not forgotten, and a second repair adds no second note.
#[test]
fn a_repair_says_what_it_found_once() {
    let original = &originals()[&KINDS[0]];
    let (_folder, path) = copy_of(original);
    let (brick, chunks) = original.bricks.iter().next().unwrap();
    let hit = chunks.iter().find(|chunk| chunk.has_checksum).unwrap();
    open(&path.join(brick)).write_all_at(b"damage", hit.offset + 60).unwrap();
    let said = Container::recover(&path).unwrap().failure().unwrap().to_owned();
    assert!(said.starts_with(&format!("{brick}: {} messages", hit.messages.len())), "{said}");
    assert_eq!(Container::recover(&path).unwrap().failure(), Some(said.as_str()));
}

/// With files exchanged, readers return no message with a wrong time, and recovery restores all messages.
#[test]
fn indexes_and_bricks_that_were_exchanged_cost_nothing() {
    type Confuse = fn(&Path, &Original);
    let confusions: [(&str, Confuse); 5] = [
        ("an index of another recording", |path, other| {
            let name = &files(path, "idx")[0];
            fs::copy(other.path.join(name), path.join(name)).unwrap();
        }),
        ("all of another recording", |path, other| {
            for name in files(path, "idx") {
                fs::copy(other.path.join(&name), path.join(name)).unwrap();
            }
        }),
        ("two indexes", |path, _| {
            let names = files(path, "idx");
            exchange(&path.join(&names[0]), &path.join(&names[2]));
        }),
        ("ten entries of two indexes", |path, _| {
            let names = files(path, "idx");
            swap_entries(&path.join(&names[0]), &path.join(&names[1]), 5);
        }),
        ("two bricks", |path, _| {
            let names = files(path, "mcap");
            if let [first, .., last] = &names[..] {
                exchange(&path.join(first), &path.join(last));
            }
        }),
    ];
    for (kind, (what, confuse)) in KINDS.iter().flat_map(|kind| confusions.map(|c| (kind, c))) {
        let said = format!("{kind:?}: {what}");
        let original = &originals()[kind];
        let times = times(&Container::peek(&original.path).unwrap());
        let (_folder, path) = copy_of(original);
        // Entries that are marked as synced are believed where they fit.
        let entries = files(&path, "idx").into_iter().map(|name| {
            let bytes = fs::metadata(path.join(&name)).unwrap().len();
            (name, entry_count(bytes))
        });
        let mark = SyncMark { entries: entries.collect() };
        fs::write(path.join(SYNCED_FILE), mark.to_text()).unwrap();
        confuse(&path, &others()[kind]);
        let container = Container::peek(&path).unwrap();
        let found = self::times(&container);
        assert!(found.iter().all(|(key, time)| times[key] == *time), "{said}");
        drop(container);
        let container = match kind.is_closed {
            true => Container::recover(&path).unwrap(),
            // It is repaired when it is opened.
            false => Container::open(&path).unwrap(),
        };
        assert_eq!(self::times(&container), times, "{said}");
        assert!(read(&container).0 == original.messages, "{said}");
        let damaged: u64 = container.accounts().unwrap().iter().map(|a| a.damaged).sum();
        assert_eq!(damaged, 0, "{said}");
        let verified = livebag_bags::verify(&path, &mut |_| {}).unwrap();
        assert!(verified.damage.is_empty(), "{said}: {:?}", verified.damage);
    }
}

/// Messages before a cut are kept, whether an index is replaced by another recording's before or after the first repair.
#[test]
fn an_index_of_another_recording_costs_no_message_of_a_cut_chunk() {
    let kind = &KINDS[0];
    let original = &originals()[kind];
    let (brick, chunks) = original.bricks.iter().next().unwrap();
    let chunk = chunks.iter().rfind(|chunk| chunk.ends.len() > 1).unwrap();
    let whole = chunk.ends[chunk.ends.len() - 2].0;
    let index = brick.replace(".mcap", ".idx");
    let confuse = |path: &Path| {
        fs::copy(others()[kind].path.join(&index), path.join(&index)).unwrap();
    };
    let recovered = |steps: [&dyn Fn(&Path); 3]| {
        let (_folder, path) = copy_of(original);
        steps.iter().for_each(|step| step(&path));
        read(&Container::recover(&path).unwrap()).0
    };
    let cut = |path: &Path| {
        open(&path.join(brick)).set_len(chunk.offset + whole as u64 + 5).unwrap();
    };
    let repair = |path: &Path| drop(Container::recover(path).unwrap());
    let wanted = recovered([&cut, &|_| {}, &|_| {}]);
    assert!(chunk.first_messages(&chunk.bytes[..whole]).all(|key| wanted.contains_key(key)));
    assert!(recovered([&cut, &confuse, &|_| {}]) == wanted, "before the repair");
    assert!(recovered([&cut, &repair, &confuse]) == wanted, "after the repair");
}

/// The times of all messages that can be read.
fn times(container: &Container) -> BTreeMap<Key, u64> {
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut times = BTreeMap::new();
    while let Some((topic, message)) = cursor.next().unwrap() {
        let key = (container.topics()[topic].topic().name.clone(), message.sequence as u32);
        times.insert(key, message.log_time_nanos);
    }
    times
}
