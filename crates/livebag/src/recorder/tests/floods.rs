//! Floods, stalls and faults: every published message is recorded or lost, by topic and by cause.

use livebag_format::container::Manifest;

use super::*;

/// What one thread does to its topic.
#[derive(Clone, Debug)]
struct Flood {
    /// Bytes of each message, and how many before it were lost on the way here.
    messages: Vec<(usize, u64)>,
    settings: TopicSettings,
}

#[derive(Clone, Debug)]
struct Weather {
    fault: Option<Fault>,
    cache_bytes_max: u64,
    compression: Compression,
    splits: Option<u64>,
    is_ring: bool,
}

fn floods() -> impl Strategy<Value = Vec<Flood>> {
    let sizes = prop_oneof![0usize..400, 1000usize..9000, 60_000usize..70_000];
    let messages =
        prop::collection::vec((sizes, prop_oneof![9 => Just(0u64), 1 => 1u64..5]), 0..200);
    let overflow = prop_oneof![Just(Overflow::DropNewest), Just(Overflow::DropOldest)];
    let priority =
        prop_oneof![Just(Priority::Critical), Just(Priority::Normal), Just(Priority::Low)];
    let bytes_max = prop_oneof![Just(None), (20_000u64..300_000).prop_map(Some)];
    let settings = (overflow, priority, bytes_max, any::<bool>());
    let settings = settings.prop_map(|(overflow, priority, bytes_max, latched)| TopicSettings {
        overflow: Some(overflow),
        priority: Some(priority),
        bytes_max,
        latched,
        ..TopicSettings::default()
    });
    prop::collection::vec((messages, settings), 1..5).prop_map(|floods| {
        floods.into_iter().map(|(messages, settings)| Flood { messages, settings }).collect()
    })
}

fn weather() -> impl Strategy<Value = Weather> {
    let fault = prop_oneof![
        3 => Just(None),
        1 => (20u64..400).prop_map(|at| Some(Fault::NoSpaceFrom(at))),
        1 => (20u64..400).prop_map(|at| Some(Fault::IoErrorAt(at))),
        1 => Just(Some(Fault::SyncFails)),
        1 => (0u64..100).prop_map(|at| Some(Fault::QueueRefusedAt(at))),
    ];
    let compression = prop_oneof![3 => Just(Compression::None), 1 => Just(Compression::Zstd)];
    let splits = prop_oneof![Just(None), (50_000u64..400_000).prop_map(Some)];
    (fault, 1u64..1_000_000, compression, splits, prop::bool::weighted(0.1)).prop_map(
        |(fault, cache_bytes_max, compression, splits, is_ring)| Weather {
            fault,
            cache_bytes_max,
            compression,
            splits,
            is_ring,
        },
    )
}

fn options_of(floods: &[Flood], weather: &Weather) -> RecorderOptions {
    let rule = |(at, flood): (usize, &Flood)| TopicRule::named(&format!("/{at}"), flood.settings);
    RecorderOptions {
        cache_bytes_max: weather.cache_bytes_max,
        topics: TopicRules(floods.iter().enumerate().map(rule).collect()),
        compression: ChunkCompression {
            compression: weather.compression,
            ..ChunkCompression::default()
        },
        split: SplitRules { bytes_max: weather.splits, ..SplitRules::default() },
        snapshot: weather.is_ring.then(SnapshotRing::default),
        ..RecorderOptions::default()
    }
}

/// Writes a topic's messages as fast as they go; gives those published here and those that were
/// missing before they came here.
fn pour(writer: &TopicWriter, flood: &Flood, may_end: bool) -> (u64, u64) {
    let (mut sequence, mut published, mut missing) = (0, 0, 0);
    for &(size, gap) in &flood.messages {
        // Losses before the first message are unknown.
        let gap = if sequence == 0 { 0 } else { gap };
        sequence += gap + 1;
        missing += gap;
        published += 1;
        match writer.write(1, sequence, &vec![sequence as u8; size]) {
            Ok(()) | Err(WriteError::Full { .. }) => {}
            Err(error) => assert!(may_end, "{error}"),
        }
    }
    (published, missing)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// From several threads at once, with too small a cache and a disk that may fail: for each topic published =
    /// recorded + lost, each loss under its cause, the same in the status and in the container; and recorded messages
    /// can be read.
    #[test]
    fn published_is_recorded_or_lost(
        floods in floods(), weather in weather(), seed in any::<u64>(),
    ) {
        let disk = SimulatedDisk::new(seed);
        let options = options_of(&floods, &weather);
        let made = Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options);
        let recorder = made.unwrap();
        let name = |at: usize| format!("/{at}");
        let writers: Vec<_> =
            (0..floods.len()).map(|at| recorder.topic(topic(&name(at))).unwrap()).collect();
        // Later than the making of the recorder, which would only fail as a whole.
        if let Some(fault) = weather.fault {
            disk.inject(fault);
        }
        let poured: Vec<_> = std::thread::scope(|scope| {
            let pours: Vec<_> = writers
                .iter()
                .zip(&floods)
                .map(|(writer, flood)| scope.spawn(move || pour(writer, flood, false)))
                .collect();
            pours.into_iter().map(|pour| pour.join().unwrap()).collect()
        });
        if weather.is_ring {
            recorder.snapshot().unwrap();
        }
        let shared = recorder.shared.clone();
        let finished = recorder.finish();
        let topics = shared.topics.lock().unwrap();
        for (at, &(published, missing)) in poured.iter().enumerate() {
            let (_, counters) = topics.iter().find(|(topic, _)| topic.name == name(at)).unwrap();
            let (messages, lost) = (counters.messages.load(Ordering::Relaxed), counters.losses());
            let repeated = counters.repeated.load(Ordering::Relaxed);
            let recorded = messages - repeated;
            prop_assert!(repeated == 0 || floods[at].settings.latched);
            prop_assert_eq!(lost.transport, missing);
            prop_assert_eq!(lost.lapped, 0);
            if weather.is_ring {
                // Messages evicted from a ring are not lost.
                prop_assert!(recorded + lost.queue + lost.disk <= published);
            } else {
                prop_assert_eq!(recorded + lost.queue + lost.disk, published, "{:?}", &lost);
            }
            if finished.is_ok() {
                prop_assert_eq!(lost.disk, 0);
            }
        }
        if finished.is_ok() {
            let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
            let read = read_all(&container);
            for (topic, counters) in topics.iter() {
                let at = container.topics().iter().position(|t| t.topic().name == topic.name).unwrap();
                let messages = read.iter().filter(|seen| seen.0 == topic.name).count() as u64;
                prop_assert_eq!(messages, counters.messages.load(Ordering::Relaxed));
                prop_assert_eq!(*container.topics()[at].lost(), counters.losses());
                let repeated = repeated_in(&disk, &container, &topic.name);
                prop_assert_eq!(repeated, counters.repeated.load(Ordering::Relaxed));
            }
        }
    }
}

/// Repeated messages of a topic, as its index entries tell, and the manifests of its splits alike.
fn repeated_in(disk: &SimulatedDisk, container: &Container, topic: &str) -> u64 {
    let mut told = 0;
    for split in std::iter::once("").chain(container.splits().iter().map(String::as_str)) {
        let text = disk.read(&Path::new(DIRECTORY).join(split).join("container.yaml")).unwrap();
        let manifest = Manifest::parse(std::str::from_utf8(&text).unwrap()).unwrap();
        let ours = manifest.topics.iter().filter(|known| known.name == topic);
        told += ours.map(|known| known.repeated).sum::<u64>();
    }
    let mut cursor = container.query(&Query::default()).unwrap();
    let mut found = 0;
    while let Some((at, entry)) = cursor.next_entry().unwrap() {
        found += u64::from(entry.repeated && container.topics()[at].topic().name == topic);
    }
    assert_eq!(told, found, "{topic}");
    found
}

/// One topic's flood uses the common cache and its own share, and no other topic's.
#[test]
fn a_flood_drops_nobody_elses_messages() {
    let disk = SimulatedDisk::new(7);
    let options = RecorderOptions {
        cache_bytes_max: 4 << 20,
        // Everything waits: nothing leaves the queues while the ring holds it.
        snapshot: Some(SnapshotRing::default()),
        ..RecorderOptions::default()
    };
    let recorder =
        Recorder::create_on(Arc::new(disk.clone()), Path::new(DIRECTORY), options).unwrap();
    let flooding = recorder.topic(topic("/flood")).unwrap();
    let quiet = recorder.topic(topic("/quiet")).unwrap();
    for sequence in 1..=300 {
        flooding.write(1, sequence, &[1; 60_000]).unwrap();
        if sequence % 3 == 0 {
            quiet.write(1, sequence / 3, &[2; 100]).unwrap();
        }
    }
    recorder.snapshot().unwrap();
    recorder.finish().unwrap();
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    let read = read_all(&container);
    let of = |name: &str| read.iter().filter(|seen| seen.0 == name).count();
    assert_eq!(of("/quiet"), 100);
    assert!((1..300).contains(&of("/flood")), "{}", of("/flood"));
}

/// A kernel that refuses io_uring ends the recording like a failing disk: accepted writes are in the container, which
/// is closed; later messages are counted.
#[test]
fn a_refused_queue_ends_the_recording_in_order() {
    let disk = SimulatedDisk::new(3);
    let recorder = record_on(&disk);
    let writer = recorder.topic(topic("/t")).unwrap();
    let mut published = 0;
    let mut write = |size| {
        published += 1;
        let _ = writer.write(1, published, &vec![1; size]);
        published
    };
    write(100_000);
    while recorder.status().totals().0 == 0 {
        std::thread::yield_now();
    }
    disk.inject(Fault::QueueRefusedAt(disk.reap_count() + 10));
    while recorder.status().failure.is_none() {
        std::thread::yield_now();
    }
    for size in [100, 100_000] {
        write(size);
    }
    let published = write(100);
    let (status, ended) = recorder.finish_with_status();
    let said = ended.unwrap_err().to_string();
    assert!(said.contains("submitting writes"), "{said}");
    let (messages, _, lost) = status.totals();
    assert_eq!((messages, lost.disk), (1, 3));
    let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
    assert_eq!(container.state(), ContainerState::Closed);
    assert_eq!(read_all(&container).len() as u64 + container.lost().total(), published);
}

/// Topics of all sizes take turns in being busy: the ring never exceeds its limit, and a topic that becomes busy finds
/// room although others filled the ring before.
#[test]
fn a_ring_never_holds_more_than_the_cache() {
    const CACHE_BYTES: u64 = 2 << 20;
    let disk = SimulatedDisk::new(11);
    let options = RecorderOptions {
        cache_bytes_max: CACHE_BYTES,
        snapshot: Some(SnapshotRing::default()),
        ..RecorderOptions::default()
    };
    let shared = Arc::new(Shared::new(Arc::new(disk.clone()), Path::new(DIRECTORY), options));
    let queues: Vec<_> =
        (0..4).map(|at| shared.make_queue(&format!("/{at}"), false).unwrap()).collect();
    for busy in [0, 1, 2, 3, 1, 0] {
        let before = queues[busy].counts()[0];
        for k in 0..400usize {
            let size = [100, 5_000, 70_000, 300_000][(k + busy) % 4];
            let data = vec![busy as u8; size];
            let _ = queues[busy].write(&(&message(k as u64, &data)).into());
            let held = shared.budget.used_bytes();
            assert!(held <= CACHE_BYTES, "{held} of {CACHE_BYTES}");
            // A second's work of the recorder's, now and then.
            if k % 50 == 49 {
                let rates: Vec<u64> =
                    (0..4).map(|at| if at == busy { 5_000_000 } else { 0 }).collect();
                for (queue, share) in queues.iter().zip(shared.budget.shares(&rates)) {
                    queue.evict_to(shared.budget.ring_bytes(share));
                    queue.set_share(share);
                }
            }
        }
        let refused = queues[busy].counts()[0] - before;
        // At first the ring is full of another's.
        assert!(refused < 100, "{refused} found no room");
    }
}
