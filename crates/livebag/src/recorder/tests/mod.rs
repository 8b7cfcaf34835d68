use std::path::Path;
use std::sync::Arc;

use livebag_format::mcap::Compression;
use livebag_format::{Message, Topic};
use proptest::prelude::*;

use super::*;
use crate::query::{Container, ContainerState, Query};
use crate::storage::{Fault, ReadDisk, SimulatedDisk};

mod account;
mod damaged;
mod ending;
mod floods;
mod refused;
mod slow_disk;

const DIRECTORY: &str = "/bag";

fn topic(name: &str) -> Topic {
    Topic {
        name: name.into(),
        type_name: "std_msgs/msg/String".into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: b"string data".to_vec(),
        ..Topic::default()
    }
}

fn record_on(disk: &SimulatedDisk) -> Recorder {
    record_with(disk, RecorderOptions::default())
}

fn record_with(disk: &SimulatedDisk, options: RecorderOptions) -> Recorder {
    let options = RecorderOptions { overflow: Overflow::Block, ..options };
    Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap()
}

/// Message `k` of a topic: its bytes say which it is.
fn bytes_of(topic: usize, k: u64, size: usize) -> Vec<u8> {
    (0..size).map(|i| (topic as u64 * 31 + k * 7 + i as u64) as u8).collect()
}

fn message(k: u64, data: &[u8]) -> Message<'_> {
    Message { log_time_nanos: 1_000 + k, publish_time_nanos: 500 + k, sequence: k + 1, data }
}

/// Topic, sequence, length and CRC of a message: short enough to be shown by a failing test.
type Seen = (String, u64, usize, u32);

fn seen(topic: &str, sequence: u64, data: &[u8]) -> Seen {
    (topic.to_owned(), sequence, data.len(), crc32fast::hash(data))
}

/// Everything in the container, in the order of the answer.
fn read_all(container: &Container) -> Vec<Seen> {
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut all = Vec::new();
    let mut before = 0;
    while let Some((at, message)) = cursor.next().unwrap() {
        assert!(message.log_time_nanos >= before, "merged by log time");
        before = message.log_time_nanos;
        all.push(seen(&container.topics()[at].topic().name, message.sequence, message.data));
    }
    all
}

fn write_script(recorder: &Recorder, script: &[(usize, usize)]) -> Vec<Seen> {
    let names: Vec<_> = (0..3).map(|at| format!("/topic_{at}")).collect();
    let writers: Vec<_> = names.iter().map(|name| recorder.topic(topic(name)).unwrap()).collect();
    let mut counts = [0u64; 3];
    let mut model = Vec::new();
    for (k, &(at, size)) in script.iter().enumerate() {
        let data = bytes_of(at, counts[at], size);
        let message = Message { sequence: counts[at] + 1, ..message(k as u64, &data) };
        writers[at].write_message(&message).unwrap();
        counts[at] += 1;
        model.push(seen(&names[at], counts[at], &data));
    }
    model
}

fn scripts() -> impl Strategy<Value = Vec<(usize, usize)>> {
    let sizes = prop_oneof![0usize..300, 60_000usize..70_000, Just(200_000usize)];
    prop::collection::vec((0usize..3, sizes), 0..60)
}

fn compressions() -> impl Strategy<Value = RecorderOptions> {
    let compression = |(compression, level, threads)| RecorderOptions {
        compression: ChunkCompression { compression, level, threads },
        ..RecorderOptions::default()
    };
    let compressed =
        (prop_oneof![Just(Compression::Lz4), Just(Compression::Zstd)], -3..4, 1..3usize);
    prop_oneof![
        compressed.prop_map(compression),
        Just(RecorderOptions { checksum: true, ..RecorderOptions::default() }),
        Just(RecorderOptions { one_file: Some("bag".into()), ..RecorderOptions::default() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same with compressed chunks and with checksums everywhere; and the data after a crash is intact.
    #[test]
    fn compressed_or_sealed_it_comes_out_too(
        script in scripts(), seed in any::<u64>(), options in compressions(),
    ) {
        let disk = SimulatedDisk::new(seed);
        let seals_all = options.checksum;
        let recorder = record_with(&disk, options);
        let model = write_script(&recorder, &script);
        let committed = recorder.status();
        let crashed = disk.crash();
        let status = recorder.finish().unwrap();
        prop_assert_eq!(status.totals().0, model.len() as u64);
        prop_assert_eq!(status.totals().2.total(), 0);
        let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
        prop_assert_eq!(read_all(&container), model.clone());
        check_bricks(&disk, &container, &model);
        if seals_all {
            check_seals(&disk, &container);
        }
        let container = Container::open_on(&crashed, Path::new(DIRECTORY)).unwrap();
        let read = read_all(&container);
        for status in &committed.topics {
            let of = |all: &[Seen]| -> Vec<Seen> {
                all.iter().filter(|seen| seen.0 == status.name).cloned().collect()
            };
            let (read, written) = (of(&read), of(&model));
            let committed = status.messages as usize;
            prop_assert!(read.len() >= committed);
            prop_assert_eq!(&read[..committed], &written[..committed]);
            let mut rest = written[committed..].iter();
            prop_assert!(read[committed..].iter().all(|m| rest.any(|w| w == m)));
        }
    }

    /// A closed container returns the written messages in order, in whatever order the disk completed the writes; and
    /// every brick is an MCAP that the `mcap` crate reads completely.
    #[test]
    fn what_goes_in_comes_out(script in scripts(), seed in any::<u64>()) {
        let disk = SimulatedDisk::new(seed);
        let recorder = record_on(&disk);
        let model = write_script(&recorder, &script);
        let status = recorder.finish().unwrap();
        prop_assert_eq!(status.totals().0, model.len() as u64);
        prop_assert_eq!(status.totals().2.total(), 0);
        let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
        prop_assert_eq!(container.state(), ContainerState::Closed);
        prop_assert_eq!(read_all(&container), model.clone());
        check_bricks(&disk, &container, &model);
    }

    /// The process dies at some moment: what had been committed is all there, nothing is altered,
    /// and the bricks are whole.
    #[test]
    fn a_crash_costs_only_what_was_in_flight(script in scripts(), seed in any::<u64>()) {
        let disk = SimulatedDisk::new(seed);
        let recorder = record_on(&disk);
        let model = write_script(&recorder, &script);
        let committed = recorder.status();
        let after = disk.crash();
        drop(recorder);
        let container = Container::open_on(&after, Path::new(DIRECTORY)).unwrap();
        prop_assert_eq!(container.state(), ContainerState::Recovered);
        let read = read_all(&container);
        for status in &committed.topics {
            let wanted: Vec<_> = model.iter().filter(|m| m.0 == status.name).collect();
            let got: Vec<_> = read.iter().filter(|m| m.0 == status.name).collect();
            let committed = status.messages as usize;
            prop_assert!(got.len() >= committed, "{} of {committed}", got.len());
            prop_assert_eq!(&got[..committed], &wanted[..committed]);
            // After the last commit some may be missing, but none is altered or out of order.
            let mut rest = wanted[committed..].iter();
            prop_assert!(got[committed..].iter().all(|m| rest.any(|w| w == m)));
        }
        check_bricks(&after, &container, &read);
        // Opening again finds it recovered, and the same.
        let again = Container::open_on(&after, Path::new(DIRECTORY)).unwrap();
        prop_assert_eq!(again.state(), ContainerState::Recovered);
        prop_assert_eq!(read_all(&again), read);
    }

    /// The disk is full from some write on: everything is either readable or counted as lost.
    #[test]
    fn a_full_disk_loses_nothing_uncounted(script in scripts(), seed in any::<u64>(), from in 5u64..80) {
        let disk = SimulatedDisk::new(seed);
        disk.inject(Fault::NoSpaceFrom(from));
        let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
        let made = Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options);
        let Ok(recorder) = made else { return Ok(()) };
        let writers: Vec<_> =
            (0..3).filter_map(|at| recorder.topic(topic(&format!("/topic_{at}"))).ok()).collect();
        let mut written = 0;
        for (k, &(at, size)) in script.iter().enumerate() {
            let data = bytes_of(at, k as u64, size);
            let Some(writer) = writers.get(at) else { continue };
            written += u64::from(writer.write_message(&message(k as u64, &data)).is_ok());
        }
        let shared = recorder.shared.clone();
        let _ = recorder.finish();
        let topics = shared.topics.lock().unwrap();
        let accounted: u64 = topics.iter().map(|(_, counters)| {
            counters.messages.load(Ordering::Relaxed) + counters.losses().disk
        }).sum();
        prop_assert_eq!(accounted, written);
    }
}

/// Reads every brick with the `mcap` crate: by its index and front to back.
fn check_bricks(disk: &SimulatedDisk, container: &Container, expected: &[Seen]) {
    let mut names: Vec<_> = container.topics().iter().flat_map(|topic| topic.bricks()).collect();
    names.sort();
    names.dedup();
    let mut count = 0;
    for name in names {
        let file = disk.read(&Path::new(DIRECTORY).join(name)).unwrap();
        let summary = mcap::Summary::read(&file).unwrap().expect("a summary");
        let mut indexed = 0;
        for chunk in &summary.chunk_indexes {
            let places = summary.read_message_indexes(&file, chunk).unwrap();
            assert!(!places.is_empty());
            for message in summary.stream_chunk(&file, chunk).unwrap() {
                let message = message.unwrap();
                let sequence = u64::from(message.sequence);
                let found = seen(&message.channel.topic, sequence, &message.data);
                assert!(expected.contains(&found), "{found:?} was not expected");
                indexed += 1;
            }
        }
        let streamed =
            mcap::MessageStream::new(&file).unwrap().filter(|m| m.as_ref().is_ok()).count();
        assert_eq!(streamed, indexed, "no reader sees more than the index");
        assert_eq!(summary.stats.unwrap().message_count, indexed as u64);
        count += indexed;
    }
    assert_eq!(count, expected.len());
}

/// Every chunk has a checksum.
fn check_seals(disk: &SimulatedDisk, container: &Container) {
    for name in container.topics().iter().flat_map(|topic| topic.bricks()) {
        let file = disk.read(&Path::new(DIRECTORY).join(name)).unwrap();
        let summary = mcap::Summary::read(&file).unwrap().expect("a summary");
        for chunk in &summary.chunk_indexes {
            let head = &file[chunk.chunk_start_offset as usize..];
            let header = livebag_format::mcap::ChunkHeader::parse(head).expect("a chunk");
            assert_ne!(header.crc, 0);
        }
    }
}

#[test]
fn an_empty_recording_is_a_container_too() {
    let disk = SimulatedDisk::new(1);
    record_on(&disk).finish().unwrap();
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(container.time_range().unwrap(), None);
    assert!(read_all(&container).is_empty());
}

#[test]
fn a_gap_in_the_sequence_is_transport_loss() {
    let disk = SimulatedDisk::new(2);
    let recorder = record_on(&disk);
    let writer = recorder.topic(topic("/t")).unwrap();
    for sequence in [1, 2, 5, 6, 10] {
        writer.write(1, sequence, b"x").unwrap();
    }
    let status = recorder.finish().unwrap();
    assert_eq!(status.topics[0].lost.transport, 2 + 3);
    assert_eq!(status.topics[0].messages, 5);
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(container.lost().transport, 5);
}

#[test]
fn a_full_queue_drops_and_counts() {
    let disk = SimulatedDisk::new(3);
    let options = RecorderOptions { cache_bytes_max: 0, ..RecorderOptions::default() };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let writer = recorder.topic(topic("/t")).unwrap();
    let large = vec![0; 1 << 20];
    assert!(matches!(writer.write(1, 1, &large), Err(WriteError::Full { .. })));
    writer.write(1, 2, b"a topic's own share is always there").unwrap();
    let status = recorder.finish().unwrap();
    assert_eq!((status.topics[0].messages, status.topics[0].lost.queue), (1, 1));
    assert_eq!(Container::open_on(&disk, Path::new(DIRECTORY)).unwrap().lost().queue, 1);
}

#[test]
fn many_small_topics_share_a_brick() {
    let disk = SimulatedDisk::new(4);
    let recorder = record_on(&disk);
    let writers: Vec<_> =
        (0..100).map(|at| recorder.topic(topic(&format!("/t{at}"))).unwrap()).collect();
    let mut expected = Vec::new();
    for k in 0..20u64 {
        for (at, writer) in writers.iter().enumerate() {
            let data = bytes_of(at, k, 100);
            let sequence = k + 1;
            writer.write_message(&Message { sequence, ..message(k, &data) }).unwrap();
            expected.push(seen(&format!("/t{at}"), sequence, &data));
        }
    }
    recorder.finish().unwrap();
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    let mut bricks: Vec<_> = container.topics().iter().flat_map(|topic| topic.bricks()).collect();
    bricks.sort();
    bricks.dedup();
    assert_eq!(bricks.len(), crate::limits::OWN_GATHERED_BRICKS_MAX + 1);
    check_bricks(&disk, &container, &expected);
    let mut read = read_all(&container);
    read.sort();
    expected.sort();
    assert_eq!(read, expected);
}

#[test]
fn splits_follow_each_other_without_a_gap() {
    let disk = SimulatedDisk::new(7);
    let options = RecorderOptions {
        overflow: Overflow::Block,
        split: SplitRules { bytes_max: Some(200_000), duration_max: None },
        topics: TopicRules(vec![TopicRule::named(
            "/latched",
            TopicSettings { latched: true, ..TopicSettings::default() },
        )]),
        ..RecorderOptions::default()
    };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let latched = recorder.topic(topic("/latched")).unwrap();
    let writer = recorder.topic(topic("/t")).unwrap();
    latched.write(1, 1, b"the map").unwrap();
    // The message to repeat has left the queue: the splits below may all take less than a chunk's age.
    while recorder.status().totals().0 == 0 {
        std::thread::yield_now();
    }
    let mut expected = Vec::new();
    for k in 0..40u64 {
        let data = bytes_of(0, k, 100_000);
        writer.write_message(&message(k, &data)).unwrap();
        expected.push(seen("/t", k + 1, &data));
        // A split is begun when one is full: give the recorder's thread the time to see it.
        while recorder.status().topics.get(1).is_none_or(|topic| topic.messages <= k) {
            std::thread::yield_now();
        }
    }
    let status = recorder.finish().unwrap();
    let splits = status.splits;
    assert!(splits >= 10, "{splits}");
    let map = &status.topics[0];
    assert_eq!(map.messages - map.repeated, 1, "the map was published once");
    assert_eq!(status.topics[1].repeated, 0);
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(
        (container.state(), container.splits().len() as u32),
        (ContainerState::Closed, splits - 1)
    );
    let (repeated, read): (Vec<_>, Vec<_>) =
        read_all(&container).into_iter().partition(|seen| seen.0 == "/latched");
    assert_eq!(read, expected);
    assert!(repeated.len() > 1 && repeated.len() as u32 <= splits);
    for name in container.splits() {
        let alone = Container::open_on(&disk, &Path::new(DIRECTORY).join(name)).unwrap();
        assert_eq!(alone.state(), ContainerState::Closed, "{name} opens alone");
        assert!(
            alone.time_range().unwrap().is_some() || name == container.splits().last().unwrap()
        );
    }
}

#[test]
fn retention_removes_the_oldest_and_says_so() {
    let disk = SimulatedDisk::new(8);
    let options = RecorderOptions {
        overflow: Overflow::Block,
        retention: Retention { splits_max: Some(2), ..Retention::default() },
        ..RecorderOptions::default()
    };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let writer = recorder.topic(topic("/t")).unwrap();
    for k in 0..5u64 {
        writer.write_message(&message(k, &bytes_of(0, k, 100_000))).unwrap();
        while recorder.status().topics.first().is_none_or(|topic| topic.messages <= k) {
            std::thread::yield_now();
        }
        recorder.split().unwrap();
        while recorder.status().splits < k as u32 + 2 {
            std::thread::yield_now();
        }
    }
    let removed = || {
        Container::open_on(&disk, Path::new(DIRECTORY)).map(|container| container.removed().splits)
    };
    while removed().unwrap_or(0) < 4 {
        std::thread::yield_now();
    }
    recorder.finish().unwrap();
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!((container.removed().splits, container.removed().messages), (4, 4));
    assert_eq!(read_all(&container).len(), 1);
}

#[test]
fn retention_waits_until_splits_are_released() {
    let disk = SimulatedDisk::new(8);
    let clock = crate::Clock::simulated(1);
    let retention = Retention { splits_max: Some(1), released_only: true, ..Retention::default() };
    let options = RecorderOptions { retention, clock: clock.clone(), ..RecorderOptions::default() };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let writer = recorder.topic(topic("/t")).unwrap();
    let removed =
        || Container::open_on(&disk, Path::new(DIRECTORY)).map_or(0, |it| it.removed().splits);
    for k in 0..3u64 {
        writer.write_message(&message(k, &bytes_of(0, k, 1000))).unwrap();
        while recorder.status().topics.first().is_none_or(|topic| topic.messages <= k) {
            clock.advance(std::time::Duration::from_millis(100));
            std::thread::yield_now();
        }
        recorder.split().unwrap();
        while recorder.status().splits < k as u32 + 2 {
            clock.advance(std::time::Duration::from_millis(100));
            std::thread::yield_now();
        }
    }
    // Far beyond the interval at which old splits are looked for.
    for _ in 0..100 {
        clock.advance(std::time::Duration::from_secs(1));
        std::thread::yield_now();
    }
    assert_eq!(removed(), 0);
    recorder.release_splits(2);
    while removed() < 2 {
        clock.advance(std::time::Duration::from_secs(1));
        std::thread::yield_now();
    }
    recorder.finish().unwrap();
    assert_eq!(removed(), 2, "the third was not released");
}

#[test]
fn paused_and_too_frequent_messages_are_left_out_not_lost() {
    let disk = SimulatedDisk::new(9);
    let slow = TopicSettings { rate_max_hz: Some(10.0), ..TopicSettings::default() };
    let options = RecorderOptions {
        topics: TopicRules(vec![TopicRule::named("/slow", slow)]),
        start_paused: true,
        ..RecorderOptions::default()
    };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let writer = recorder.topic(topic("/slow")).unwrap();
    writer.write(1, 1, b"while paused").unwrap();
    recorder.resume();
    for k in 0..100u64 {
        // 10 ms apart: every tenth is wanted.
        let log_time_nanos = 1_000_000_000 + k * 10_000_000;
        let data = b"moving";
        let wanted = Message { log_time_nanos, publish_time_nanos: 1, sequence: k + 2, data };
        writer.write_message(&wanted).unwrap();
    }
    let status = recorder.finish().unwrap();
    assert_eq!((status.topics[0].messages, status.topics[0].skipped), (10, 91));
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!((container.lost().total(), container.topics()[0].skipped()), (0, 91));
}

#[test]
fn a_ring_is_written_when_asked_for() {
    let disk = SimulatedDisk::new(10);
    let options = RecorderOptions {
        cache_bytes_max: 2 << 20,
        snapshot: Some(SnapshotRing::default()),
        ..RecorderOptions::default()
    };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let writer = recorder.topic(topic("/t")).unwrap();
    for k in 0..50u64 {
        writer.write_message(&message(k, &bytes_of(0, k, 100_000))).unwrap();
    }
    recorder.snapshot().unwrap();
    while recorder.status().totals().0 == 0 {
        std::thread::yield_now();
    }
    let status = recorder.finish().unwrap();
    let (messages, _, lost) = status.totals();
    assert!((5..=20).contains(&messages), "{messages}");
    assert_eq!(lost.total(), 0, "what makes way in a ring is not lost");
    let newest = read_all(&Container::open_on(&disk, Path::new(DIRECTORY)).unwrap()).pop().unwrap();
    assert_eq!(newest.1, 50);
}
