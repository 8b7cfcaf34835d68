use std::os::unix::fs::FileExt;
use std::path::Path;

use livebag_format::index::{ENTRY_BYTES, entry_offset};
use livebag_format::mcap::padding_header;
use livebag_format::{Message, Topic};

use crate::limits::READ_STRAIGHT_BYTES_MIN;
use crate::storage::FilePart;
use crate::{
    Buffer, ChunkCompression, Compression, Container, ContainerState, Cursor, IndexEntry, Overflow,
    Query, Recorder, RecorderOptions, TopicWriter, VirtualFile,
};

/// Messages of two topics, from a byte to more than a read window; message `k` has bytes `k`.
fn record(directory: &Path, compression: Compression) {
    let compression = ChunkCompression { compression, ..ChunkCompression::default() };
    let overflow = Overflow::Block;
    let options = RecorderOptions { compression, overflow, ..RecorderOptions::default() };
    let recorder = Recorder::create(directory, options).unwrap();
    let topic = |name: &str| recorder.topic(Topic { name: name.into(), ..Topic::default() });
    let writers = [topic("/a").unwrap(), topic("/b").unwrap()];
    let sizes = [1usize, 300, 70_000, 5, 2_000_000, 65_536, 0, 1_000_000];
    for k in 0..60u64 {
        let data = vec![k as u8; sizes[k as usize % sizes.len()]];
        let log_time_nanos = 1_000 + k;
        let message =
            Message { log_time_nanos, publish_time_nanos: k, sequence: k + 1, data: &data };
        writers[k as usize % 3 / 2].write_message(&message).unwrap();
    }
    recorder.finish().unwrap();
}

#[expect(unsafe_code, reason = "a test writes nothing while it looks")]
fn in_place(path: &Path) -> Container {
    // SAFETY: tests that write bricks have no message borrowed meanwhile.
    unsafe { Container::open(path).unwrap().in_place() }
}

#[expect(unsafe_code, reason = "a test writes nothing while it looks")]
fn bytes_of(part: &FilePart) -> &[u8] {
    // SAFETY: as above.
    unsafe { part.look() }
}

fn every(mut cursor: Cursor<'_>) -> Vec<(usize, u64, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((topic, message)) = cursor.next().unwrap() {
        all.push((topic, message.log_time_nanos, message.data.to_vec()));
    }
    all
}

#[test]
fn messages_read_into_the_callers_memory_are_the_same() {
    for compression in [Compression::None, Compression::Lz4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        record(&path, compression);
        let container = Container::open(&path).unwrap();
        let mut cursor = container.query(&Query::default()).unwrap();
        let mut all = Vec::new();
        while let Some((topic, entry)) = cursor.next_entry().unwrap() {
            // Messages left out do not affect the next one.
            if all.len() % 7 == 3 {
                all.push((topic, entry.log_time_nanos, Vec::new()));
                continue;
            }
            let mut room = vec![0xff; entry.data_bytes as usize];
            cursor.read_into(&mut room).unwrap();
            let part = cursor.part().unwrap();
            // A chunk that does not become smaller is not compressed.
            let is_large = room.len() >= READ_STRAIGHT_BYTES_MIN;
            assert!(part.is_some() == is_large || compression != Compression::None);
            assert!(part.is_none_or(|part| *bytes_of(&part) == *room));
            all.push((topic, entry.log_time_nanos, room));
        }
        let mut expected = every(container.query(&Query::default()).unwrap());
        assert_eq!(expected.len(), 60);
        expected.iter_mut().skip(3).step_by(7).for_each(|(_, _, data)| data.clear());
        assert!(all == expected, "{compression:?}");
    }
}

#[test]
fn a_brick_that_is_cut_costs_the_messages_behind_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    record(&path, Compression::None);
    let container = Container::open(&path).unwrap();
    for brick in container.topics()[0].bricks() {
        let file = path.join(brick);
        #[expect(clippy::disallowed_methods, reason = "a test damages a file")]
        let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
        file.set_len(6_000_000).unwrap();
    }
    let mut cursor = container.query(&Query::default()).unwrap();
    let (mut whole, mut cut) = (0, 0);
    while let Some((_, entry)) = cursor.next_entry().unwrap() {
        match cursor.read_into(&mut vec![0; entry.data_bytes as usize]) {
            Ok(()) => whole += 1,
            Err(_) => cut += 1,
        }
    }
    assert_eq!(whole + cut, 60);
    assert!(whole > 0 && cut > 0);
    assert_eq!(cursor.damaged(), cut);
}

/// Both ways return the same messages, the first one in place if possible.
fn assert_same_in_place(path: &Path, expected: usize) {
    let copied = every(Container::open(path).unwrap().query(&Query::default()).unwrap());
    let container = in_place(path);
    assert!(every(container.query(&Query::default()).unwrap()) == copied);
    assert_eq!(copied.len(), expected);
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut parts = Vec::new();
    for (topic, nanos, data) in &copied {
        let (at, entry) = cursor.next_entry().unwrap().unwrap();
        assert_eq!((at, entry.log_time_nanos), (*topic, *nanos));
        // Before the part: it finds the copies' data in the page cache, and reads nothing.
        let reference = cursor.reference().unwrap();
        let part = cursor.part().unwrap();
        assert_eq!(part.as_ref().map(bytes_of), reference.as_ref().map(bytes_of));
        let is_large = entry.data_bytes as usize >= READ_STRAIGHT_BYTES_MIN;
        assert_eq!(part.is_some(), is_large && !entry.compressed);
        parts.extend(part.map(|part| (part, data)));
    }
    drop(cursor);
    drop(container);
    // They keep their memory.
    assert!(parts.iter().all(|(part, data)| *bytes_of(part) == **data));
}

#[test]
fn messages_in_place_are_the_same() {
    for compression in [Compression::None, Compression::Lz4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        record(&path, compression);
        assert_same_in_place(&path, 60);
    }
}

/// A frame of `bytes` bytes that says its number everywhere.
fn write_frame(writer: &TopicWriter, k: u64, bytes: usize) {
    let data = vec![k as u8; bytes];
    let message =
        Message { log_time_nanos: 1_000 + k, publish_time_nanos: k, sequence: k + 1, data: &data };
    writer.write_message(&message).unwrap();
}

fn wait_for(container: &Container, count: u64) {
    while container.topics()[0].message_count().unwrap() < count {
        std::thread::yield_now();
    }
}

#[test]
fn a_brick_is_mapped_again_when_it_has_grown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    (0..8).for_each(|k| write_frame(&writer, k, 300_001));
    let container = loop {
        let container = in_place(&path);
        if container.topics().first().is_some_and(|topic| !topic.bricks().is_empty()) {
            break container;
        }
    };
    assert_eq!(container.state(), ContainerState::Live);
    wait_for(&container, 8);
    let first = every(container.query(&Query::default()).unwrap());
    let mut cursor = container.query(&Query::default()).unwrap();
    cursor.next_entry().unwrap().unwrap();
    let part = cursor.part().unwrap().expect("a mapped brick");
    (8..40).for_each(|k| write_frame(&writer, k, 300_001));
    wait_for(&container, 40);
    let all = every(container.query(&Query::default()).unwrap());
    assert!(all[..8] == first[..]);
    for (k, (_, nanos, data)) in all.iter().enumerate() {
        assert_eq!((*nanos, data.len()), (1_000 + k as u64, 300_001));
        assert!(data.iter().all(|&byte| byte == k as u8), "frame {k}");
    }
    assert_eq!(all.len(), 40);
    recorder.finish().unwrap();
    assert!(bytes_of(&part).iter().all(|&byte| byte == 0), "what was given stays");
    assert_same_in_place(&path, 40);
}

#[test]
fn a_recovered_container_is_read_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    (0..20).for_each(|k| write_frame(&writer, k, 200_000));
    let live = loop {
        let container = Container::open(&path).unwrap();
        if container.topics().first().is_some_and(|topic| !topic.bricks().is_empty()) {
            break container;
        }
    };
    wait_for(&live, 20);
    let copy = folder.path().join("copy");
    copy_files(&path, &copy);
    recorder.finish().unwrap();
    assert_same_in_place(&copy, 20);
    assert_eq!(Container::open(&copy).unwrap().state(), ContainerState::Recovered);
}

/// A copy of a recording at this moment, which is not written.
fn copy_files(path: &Path, copy: &Path) {
    std::fs::create_dir(copy).unwrap();
    for file in std::fs::read_dir(path).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
}

/// A frame that was in flight costs nothing that lies behind it and can be proven.
#[test]
fn chunks_behind_an_uncommitted_frame_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    write_frame(&writer, 0, 200_000);
    let live = loop {
        let container = Container::open(&path).unwrap();
        if container.topics().first().is_some_and(|topic| !topic.bricks().is_empty()) {
            break container;
        }
    };
    // Two gathered chunks.
    for from in [1, 4] {
        wait_for(&live, from);
        (from..from + 3).for_each(|k| write_frame(&writer, k, 3_000));
    }
    wait_for(&live, 7);
    let entries: Vec<IndexEntry> = {
        let mut cursor = live.query(&Query::default()).unwrap();
        std::iter::from_fn(|| Some(cursor.next_entry().unwrap()?.1)).collect()
    };
    let brick = live.topics()[0].bricks()[0].clone();
    for is_uncommitted in [false, true] {
        let copy = folder.path().join(format!("copy-{is_uncommitted}"));
        copy_files(&path, &copy);
        let index = std::fs::read_dir(&copy).unwrap().find_map(|file| {
            let file = file.unwrap().path();
            file.extension().is_some_and(|extension| extension == "idx").then_some(file)
        });
        open_to_damage(&index.unwrap()).set_len(entry_offset(1)).unwrap();
        let (first, second) = (entries[1].chunk_offset(), entries[4].chunk_offset());
        assert!((8192..65_536).contains(&(second - first)), "as long as a small frame's extent");
        if is_uncommitted {
            let file = open_to_damage(&copy.join(&brick));
            file.write_all_at(&padding_header(second - first), first).unwrap();
        }
        let container = Container::open(&copy).unwrap();
        assert_eq!(container.state(), ContainerState::Recovered);
        assert_eq!(
            container.topics()[0].message_count().unwrap(),
            if is_uncommitted { 4 } else { 7 }
        );
    }
    recorder.finish().unwrap();
}

#[expect(clippy::disallowed_methods, reason = "a test damages a file")]
fn open_to_damage(path: &Path) -> std::fs::File {
    std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_brick_that_is_cut_before_or_after_it_was_mapped_is_an_error() {
    for is_mapped_before in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        record(&path, Compression::None);
        let container = in_place(&path);
        if is_mapped_before {
            assert_eq!(every(container.query(&Query::default()).unwrap()).len(), 60);
        }
        for brick in container.topics()[0].bricks() {
            open_to_damage(&path.join(brick)).set_len(6_000_000).unwrap();
        }
        let mut cursor = container.query(&Query::default()).unwrap();
        let mut given = 0;
        while let Some((_, message)) = cursor.next().unwrap() {
            given += 1;
            let number = (message.log_time_nanos - 1_000) as u8;
            assert!(message.data.iter().all(|&byte| byte == number));
        }
        assert!(given > 0 && given < 60, "{given}");
        assert_eq!(cursor.damaged(), 60 - given);
        let mut cursor = container.query(&Query::default()).unwrap();
        while cursor.next_entry().unwrap().is_some() {
            // A truncated one is not returned; reading a returned one is safe.
            if let Ok(Some(part)) = cursor.part() {
                std::hint::black_box(bytes_of(&part)[part.len() - 1]);
            }
        }
    }
}

#[test]
fn entries_that_lie_of_place_and_length_are_not_followed_out_of_the_brick() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    record(&path, Compression::None);
    let honest = every(Container::open(&path).unwrap().query(&Query::default()).unwrap());
    let mut names = std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().path());
    let index = names.find(|path| path.extension().is_some_and(|e| e == "idx")).unwrap();
    let file = open_to_damage(&index);
    let lies: [fn(&mut IndexEntry); 4] = [
        |entry| entry.offset = 1 << 40,
        |entry| entry.offset = u64::MAX >> 2,
        |entry| entry.data_bytes = u32::MAX,
        |entry| entry.brick = 7,
    ];
    for (number, lie) in lies.iter().enumerate() {
        let mut bytes = [0; ENTRY_BYTES];
        // One of 2 MB: large ones are returned in place.
        let at = entry_offset(number as u64);
        file.read_exact_at(&mut bytes, at).unwrap();
        let mut entry = IndexEntry::decode(&bytes).unwrap();
        entry.data_bytes = 2_000_000;
        lie(&mut entry);
        file.write_all_at(&entry.encode(), at).unwrap();
    }
    let container = in_place(&path);
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut count = 0;
    while let Some((topic, message)) = cursor.next().unwrap() {
        count += 1;
        let same = |(at, nanos, data): &(usize, u64, Vec<u8>)| {
            (*at, *nanos, &**data) == (topic, message.log_time_nanos, message.data)
        };
        assert!(honest.iter().any(same));
    }
    assert_eq!((count, cursor.damaged()), (56, 4));
}

/// A finished recording of 4,000 messages of 1,001 bytes, each of which says its number everywhere.
fn record_small(path: &Path) {
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(path, options).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    (0..4_000).for_each(|k| write_frame(&writer, k, 1_001));
    recorder.finish().unwrap();
}

#[test]
fn small_messages_are_the_same_in_place_also_some_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    record_small(&path);
    assert_same_in_place(&path, 4_000);
    let container = in_place(&path);
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut room = [0; 1_001];
    // Those that are not read are in between.
    while let Some((_, entry)) = cursor.next_entry().unwrap() {
        if entry.sequence % 700 < 3 {
            cursor.read_into(&mut room).unwrap();
            assert!(room.iter().all(|&byte| byte == (entry.sequence - 1) as u8));
        }
    }
}

#[test]
fn of_small_messages_those_behind_a_cut_are_damaged_and_not_zeros() {
    for is_mapped_before in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        record_small(&path);
        let container = in_place(&path);
        if is_mapped_before {
            assert_eq!(every(container.query(&Query::default()).unwrap()).len(), 4_000);
        }
        // Within a page: its rest is zeros, and can be read.
        open_to_damage(&path.join(&container.topics()[0].bricks()[0])).set_len(2_000_100).unwrap();
        let mut cursor = container.query(&Query::default()).unwrap();
        let mut given = 0;
        while let Some((_, message)) = cursor.next().unwrap() {
            let number = (message.log_time_nanos - 1_000) as u8;
            assert!(message.data.iter().all(|&byte| byte == number));
            given += 1;
        }
        assert!((1_000..2_000).contains(&given), "{given}");
        assert_eq!(cursor.damaged(), 4_000 - given);
    }
}

/// Gives every message (its number and data) to another function, and how many are damaged.
type Way = fn(&Container, &mut dyn FnMut(u64, &[u8])) -> u64;

/// The result of a way of reading a recording whose message `k` has bytes `k`: (numbers, damaged).
fn through(container: &Container, way: Way) -> (Vec<u64>, u64) {
    let mut given = Vec::new();
    let damaged = way(container, &mut |sequence, data| {
        let number = (sequence - 1) as u8;
        assert!(data.iter().all(|&byte| byte == number), "damaged message {sequence} is given");
        given.push(sequence);
    });
    (given, damaged)
}

fn by_next(container: &Container, see: &mut dyn FnMut(u64, &[u8])) -> u64 {
    let mut cursor = container.query(&Query::default()).unwrap();
    while let Some((_, message)) = cursor.next().unwrap() {
        see(message.sequence, message.data);
    }
    cursor.damaged()
}

fn by_read_into(container: &Container, see: &mut dyn FnMut(u64, &[u8])) -> u64 {
    let mut cursor = container.query(&Query::default()).unwrap();
    while let Some((_, entry)) = cursor.next_entry().unwrap() {
        let mut room = vec![0; entry.data_bytes as usize];
        if cursor.read_into(&mut room).is_ok() {
            see(entry.sequence, &room);
        }
    }
    cursor.damaged()
}

fn by_part(container: &Container, see: &mut dyn FnMut(u64, &[u8])) -> u64 {
    let mut cursor = container.query(&Query::default()).unwrap();
    while let Some((_, entry)) = cursor.next_entry().unwrap() {
        let mut buffer = Buffer::default();
        match cursor.part() {
            Ok(Some(part)) => see(entry.sequence, bytes_of(&part)),
            Ok(None) if cursor.append_to(&mut buffer).unwrap() => see(entry.sequence, &buffer),
            _ => {}
        }
    }
    cursor.damaged()
}

fn newest_first(container: &Container, see: &mut dyn FnMut(u64, &[u8])) -> u64 {
    let mut messages = container.newest_first(&Query::default()).unwrap();
    while let Some((_, entry)) = messages.next_entry().unwrap() {
        let mut buffer = Buffer::default();
        if messages.append_to(&mut buffer).unwrap() {
            see(entry.sequence, &buffer);
        }
    }
    messages.damaged()
}

/// One flipped byte anywhere in a brick: no way of reading returns a message that differs from the recorded one, and
/// missing ones are counted.
#[test]
fn no_way_of_reading_gives_a_damaged_message_that_has_a_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    let options =
        RecorderOptions { overflow: Overflow::Block, checksum: true, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    let writer = recorder.topic(Topic { name: "/a".into(), ..Topic::default() }).unwrap();
    let sizes = [300, 1_000, 70_000, 20, 120_000, 5_000];
    (0..120).for_each(|k| write_frame(&writer, k, sizes[k as usize % sizes.len()]));
    recorder.finish().unwrap();
    let whole = Container::open(&path).unwrap();
    let mut cursor = whole.query(&Query::default()).unwrap();
    let entries: Vec<_> = std::iter::from_fn(|| Some(cursor.next_entry().unwrap()?.1)).collect();
    let brick = open_to_damage(&path.join(&whole.topics()[0].bricks()[0]));
    let ways: [Way; 4] = [by_next, by_read_into, by_part, newest_first];
    for (nth, entry) in entries.iter().enumerate().step_by(19) {
        let chunk = entry.chunk_offset();
        // Opcode, checksum and length of the chunk; a message's header, its first and its last byte.
        let places = [
            chunk,
            chunk + 33,
            chunk + 45,
            entry.offset - 20,
            entry.offset,
            entry.offset + u64::from(entry.data_bytes) - 1,
        ];
        for place in places {
            let mut byte = [0];
            brick.read_exact_at(&mut byte, place).unwrap();
            brick.write_all_at(&[byte[0] ^ 0x10], place).unwrap();
            for way in ways {
                for container in [Container::open(&path).unwrap(), in_place(&path)] {
                    let (given, damaged) = through(&container, way);
                    assert!(!given.contains(&entry.sequence), "message {nth}, byte {place}");
                    assert_eq!(given.len() as u64 + damaged, 120);
                }
            }
            brick.write_all_at(&byte, place).unwrap();
        }
    }
    assert!(ways.iter().all(|way| through(&whole, *way).0.len() == 120));
}

/// In a finished MCAP file that is laid out while it is read, readers find exactly the intact messages.
#[test]
fn a_virtual_file_has_padding_in_place_of_what_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    record_small(&path);
    let container = Container::open(&path).unwrap();
    let file = VirtualFile::new(&container, &Query::default()).unwrap();
    let read = |piece: usize| -> Vec<u8> {
        let mut out = Buffer::default();
        while (out.len() as u64) < file.len() {
            file.read(out.len() as u64, piece, &mut out).unwrap();
        }
        out.to_vec()
    };
    let whole = read(100_000);
    let mut cursor = container.query(&Query::default()).unwrap();
    let entry = std::iter::from_fn(|| cursor.next_entry().unwrap()).nth(1_500).unwrap().1;
    let brick = open_to_damage(&path.join(&container.topics()[0].bricks()[0]));
    brick.write_all_at(b"damaged", entry.offset + 100).unwrap();
    let damaged = read(100_000);
    assert_eq!(damaged.len(), whole.len());
    // Whatever ranges are asked for, the file is the same.
    assert!(damaged == read(usize::MAX >> 1) && damaged == read(250_001));
    let given = by_next(&container, &mut |_, _| {});
    assert!(given > 0);
    let mut messages = 0;
    for message in mcap::MessageStream::new(&damaged).unwrap() {
        let message = message.unwrap();
        let number = (message.log_time - 1_000) as u8;
        assert!(message.data.iter().all(|&byte| byte == number));
        messages += 1;
    }
    assert_eq!(messages, 4_000 - given);
    let summary = mcap::Summary::read(&damaged).unwrap().unwrap();
    let mut indexed = 0;
    for chunk in &summary.chunk_indexes {
        for (_, entries) in summary.read_message_indexes(&damaged, chunk).unwrap() {
            indexed += entries.len() as u64;
            for entry in entries {
                summary.seek_message(&damaged, chunk, &entry).unwrap();
            }
        }
    }
    assert_eq!(indexed, messages);
}
