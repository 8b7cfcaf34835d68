//! Real streams, the real disk: messages are read back bit for bit.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use livebag::{
    Access, ChunkCompression, Clock, Compression, Container, ContainerState, Disk, DiskFile,
    KernelDisk, Lock, Query, ReadDisk, ReadFile, Recorder, RecorderOptions, Schedule, Selector,
    Span, Topic, WriteQueue,
};
use livebag_format::cdr;
use livebag_shm::{Cycle, FrameMeta, PointsLayout, StreamOptions, Writer, remove_cycle_board};

fn unique(name: &str) -> String {
    format!("test-{}-{name}", std::process::id())
}

/// Waits for a condition, and fails after a time that no working machine needs.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a test's deadline")]
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::yield_now();
    }
}

fn committed(recorder: &Recorder, topic: &str) -> u64 {
    let status = recorder.status();
    status.topics.iter().find(|t| t.name == topic).map_or(0, |t| t.messages)
}

fn pixels(k: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i as u64).wrapping_mul(k * 2 + 1).to_le_bytes()[0]).collect()
}

fn record(directory: &Path, names: &[&str]) -> Recorder {
    let recorder = Recorder::create(directory, RecorderOptions::default()).unwrap();
    recorder.follow(Selector::names(names.iter().copied())).unwrap();
    until("following the streams", || recorder.status().topics.len() == names.len());
    recorder
}

fn read_topic(container: &Container, topic: &str) -> Vec<Vec<u8>> {
    let query = Query { topics: vec![topic.into()], span: Span::All };
    let mut cursor = container.query(&query).unwrap();
    let mut all = Vec::new();
    while let Some((_, message)) = cursor.next().unwrap() {
        all.push(message.data.to_vec());
    }
    all
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    (folder, path)
}

/// Large frames go by the zero-copy path, odd sizes included; they can be read while the recorder
/// runs, and decode to the same pixels.
#[test]
fn frames_are_read_back_while_they_are_recorded() {
    let sizes = [(640u32, 480u32, 3u32), (641, 479, 1), (333, 211, 3), (1920, 1080, 3), (16, 9, 1)];
    for (number, (width, height, channels)) in sizes.into_iter().enumerate() {
        let name = unique(&format!("frames-{number}"));
        let options = StreamOptions::image(width, height, channels).remove_on_drop(true);
        let mut writer = Writer::create(&name, &options).unwrap();
        let (_folder, path) = directory();
        let recorder = record(&path, &[&name]);
        let topic = format!("/{name}");
        let bytes = (width * height * channels) as usize;
        let encoding = if channels == 3 { "rgb8" } else { "mono8" };
        for k in 0..10 {
            let meta = FrameMeta::image(width, height, width * channels, encoding).frame_id("cam");
            writer.publish(&meta, &pixels(k, bytes)).unwrap();
            until("committing the frame", || committed(&recorder, &topic) == k + 1);
        }
        let live = Container::open(&path).unwrap();
        assert_eq!(live.state(), ContainerState::Live);
        check_images(&live, &topic, (width, height, encoding), bytes);
        let status = recorder.finish().unwrap();
        assert_eq!(status.totals().2.total(), 0);
        let closed = Container::open(&path).unwrap();
        assert_eq!(closed.state(), ContainerState::Closed);
        check_images(&closed, &topic, (width, height, encoding), bytes);
        check_brick(&path.join(&closed.topics()[0].bricks()[0]), 10);
    }
}

fn check_images(container: &Container, topic: &str, form: (u32, u32, &str), bytes: usize) {
    let messages = read_topic(container, topic);
    assert_eq!(messages.len(), 10);
    for (k, message) in messages.iter().enumerate() {
        let image = cdr::parse_image(message).unwrap();
        assert_eq!((image.header.width, image.header.height, image.header.encoding), form);
        assert_eq!(image.header.frame_id, "cam");
        assert_eq!(image.data, pixels(k as u64, bytes));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test looks at the file itself")]
fn check_brick(path: &Path, count: usize) {
    let file = std::fs::read(path).unwrap();
    let summary = mcap::Summary::read(&file).unwrap().expect("a summary");
    let indexed: usize = summary
        .chunk_indexes
        .iter()
        .map(|chunk| summary.stream_chunk(&file, chunk).unwrap().count())
        .sum();
    assert_eq!(indexed, count);
    assert_eq!(mcap::MessageStream::new(&file).unwrap().flatten().count(), count);
}

#[test]
fn points_and_bytes_become_standard_messages() {
    let (cloud, raw) = (unique("cloud"), unique("raw"));
    let options = StreamOptions::points(20_000, 16).remove_on_drop(true);
    let mut points = Writer::create(&cloud, &options).unwrap();
    let mut bytes = Writer::create(&raw, &StreamOptions::bytes(1000).remove_on_drop(true)).unwrap();
    let (_folder, path) = directory();
    let recorder = record(&path, &[&cloud, &raw]);
    let data = pixels(3, 16 * 10_001);
    points.publish(&FrameMeta::points(PointsLayout::xyz(10_001, 16)), &data).unwrap();
    bytes.publish(&FrameMeta::bytes(), &[1, 2, 3]).unwrap();
    until("committing both", || recorder.status().totals().0 == 2);
    recorder.finish().unwrap();
    let container = Container::open(&path).unwrap();
    let messages = read_topic(&container, &format!("/{cloud}"));
    let view = cdr::parse_points(&messages[0]).unwrap();
    assert_eq!((view.width, view.point_step, view.is_dense), (10_001, 16, true));
    assert_eq!(view.data, data);
    let messages = read_topic(&container, &format!("/{raw}"));
    assert_eq!(messages[0], [&[0, 1, 0, 0][..], &[0; 8], &[3, 0, 0, 0], &[1, 2, 3]].concat());
}

/// A writer that laps the recorder: published = recorded + lapped, and nothing torn is kept.
#[test]
fn frames_overtaken_on_the_way_are_counted_and_never_kept_torn() {
    let name = unique("lapping");
    let options = StreamOptions::bytes(400_000).slots(2).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let (_folder, path) = directory();
    let recorder = record(&path, &[&name]);
    let topic = format!("/{name}");
    for k in 0..300u64 {
        writer.publish(&FrameMeta::bytes(), &vec![k as u8; 400_000]).unwrap();
    }
    let accounted = || {
        let status = recorder.status();
        let (messages, _, lost) = status.totals();
        messages + lost.lapped == 300
    };
    until("accounting for every frame", accounted);
    let status = recorder.finish().unwrap();
    let container = Container::open(&path).unwrap();
    let messages = read_topic(&container, &topic);
    assert_eq!(messages.len() as u64, status.totals().0);
    for message in &messages {
        let payload = &message[16..];
        assert!(payload.iter().all(|byte| *byte == payload[0]), "a torn frame was kept");
    }
    if let Some(brick) = container.topics()[0].bricks().first() {
        check_brick(&path.join(brick), messages.len());
    }
}

#[test]
fn a_stream_that_appears_later_is_recorded_from_its_first_frame() {
    let name = unique("late");
    let (_folder, path) = directory();
    let recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
    let selector = Selector::regex(&format!("^{name}$")).unwrap();
    recorder.follow(selector).unwrap();
    // One discovery must have passed, or the stream would count as existing from the beginning.
    let decoy = unique("decoy");
    let _decoy = Writer::create(&decoy, &StreamOptions::bytes(10).remove_on_drop(true)).unwrap();
    recorder.follow(Selector::names([decoy])).unwrap();
    until("following the decoy", || recorder.status().topics.len() == 1);
    let options = StreamOptions::bytes(10).slots(16).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    for k in 0..10u8 {
        writer.publish(&FrameMeta::bytes(), &[k]).unwrap();
    }
    until("recording all ten", || committed(&recorder, &format!("/{name}")) == 10);
    recorder.finish().unwrap();
}

/// A driver that restarts with larger frames recreates its stream: recording continues on the same topic.
#[test]
fn a_stream_made_anew_is_followed_further() {
    let name = unique("anew");
    let (_folder, path) = directory();
    let topic = format!("/{name}");
    let small = StreamOptions::bytes(100).remove_on_drop(true);
    let mut writer = Writer::create(&name, &small).unwrap();
    let recorder = record(&path, &[&name]);
    writer.publish(&FrameMeta::bytes(), &[1; 100]).unwrap();
    until("recording the first", || committed(&recorder, &topic) == 1);
    drop(writer);
    let large = StreamOptions::bytes(200_000).remove_on_drop(true);
    let mut writer = Writer::create(&name, &large).unwrap();
    writer.publish(&FrameMeta::bytes(), &[2; 200_000]).unwrap();
    until("recording the second", || committed(&recorder, &topic) == 2);
    recorder.finish().unwrap();
    let container = Container::open(&path).unwrap();
    let sizes: Vec<_> = read_topic(&container, &topic).iter().map(Vec::len).collect();
    assert_eq!(sizes, [16 + 100, 16 + 200_000]);
}

/// A driver that comes back with the same options goes on in the region that it left.
#[test]
fn a_writer_that_comes_back_to_its_stream_is_counted() {
    let name = unique("back");
    let (_folder, path) = directory();
    let topic = format!("/{name}");
    let options = StreamOptions::bytes(10);
    let mut writer = Writer::create(&name, &options).unwrap();
    let recorder = record(&path, &[&name]);
    for round in 0..3 {
        writer.publish(&FrameMeta::bytes(), &[round; 10]).unwrap();
        until("recording it", || committed(&recorder, &topic) == u64::from(round) + 1);
        until("counting it", || recorder.status().topics[0].writer_returns == u64::from(round));
        if round < 2 {
            drop(writer);
            writer = Writer::create(&name, &options).unwrap();
        }
    }
    drop(writer);
    // Just before the end, too.
    drop(Writer::create(&name, &options.remove_on_drop(true)).unwrap());
    recorder.finish().unwrap();
    assert_eq!(Container::open(&path).unwrap().topics()[0].writer_returns(), 3);
}

/// A recorder whose time stands still, so that no limit is reached, with an application.
fn record_by_cycles(path: &Path, board: &str) -> Recorder {
    let options = RecorderOptions {
        schedule: Schedule::CycleAware,
        cycle_board: Some(board.to_owned()),
        clock: Clock::simulated(1),
        ..RecorderOptions::default()
    };
    Recorder::create(path, options).unwrap()
}

/// While an application computes, frames wait in their slots and messages in their queues; when it
/// rests they go, in order, small ones among large ones.
#[test]
fn writing_waits_for_the_end_of_a_computation() {
    let board = unique("cycle-board");
    let mut cycle = Cycle::join_on(&board, "planner").unwrap();
    cycle.begin(1);
    let name = unique("waiting");
    let options = StreamOptions::bytes(100_000).slots(8).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let (_folder, path) = directory();
    let recorder = record_by_cycles(&path, &board);
    let topic = Topic { name: "/in_process".into(), ..Topic::default() };
    let in_process = recorder.topic(topic).unwrap();
    recorder.follow(Selector::names([name.clone()])).unwrap();
    until("following the stream", || recorder.status().topics.len() == 2);

    let sizes = [100_000, 70, 100_000, 99_999];
    for (k, size) in sizes.into_iter().enumerate() {
        writer.publish(&FrameMeta::bytes(), &pixels(k as u64, size)).unwrap();
        in_process.write(0, 0, &pixels(k as u64, 10)).unwrap();
    }
    let held = sizes.iter().sum::<usize>() as u64;
    until("seeing the frames", || recorder.status().slot_bytes == held);
    assert_eq!(recorder.status().totals().0, 0, "nothing is written while it computes");
    cycle.end();
    until("writing", || recorder.status().totals().0 == 8);
    assert_eq!(recorder.status().slot_bytes, 0);
    recorder.finish().unwrap();
    let container = Container::open(&path).unwrap();
    for (k, message) in read_topic(&container, &format!("/{name}")).into_iter().enumerate() {
        // A header, a count of dimensions, an offset and a length precede the bytes.
        assert_eq!(message[16..], pixels(k as u64, sizes[k]));
    }
    assert_eq!(read_topic(&container, "/in_process").len(), 4);
    remove_cycle_board(&board).unwrap();
}

/// Of large frames, such that all sums of up to three neighbours differ.
fn size_of_frame(k: usize) -> usize {
    66_000 + 90 * k * k
}

/// Whether the newest of these frames has been seen in a stream of four slots, and the one whose slot is
/// next is no longer there.
fn only_newest_wait(recorder: &Recorder, sizes: &[usize]) -> bool {
    let waiting = recorder.status().slot_bytes;
    (1..=3).any(|count| waiting == sizes.iter().rev().take(count).sum::<usize>() as u64)
}

/// Waiting frames are lost neither by the end of the recording nor by the writer that laps them.
#[test]
fn frames_that_wait_are_written_before_they_are_lapped_and_at_the_end() {
    let board = unique("cycle-board-2");
    let mut cycle = Cycle::join_on(&board, "planner").unwrap();
    cycle.begin(1);
    let name = unique("lapping");
    let options = StreamOptions::bytes(100_000).slots(4).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let (_folder, path) = directory();
    let recorder = record_by_cycles(&path, &board);
    recorder.follow(Selector::names([name.clone()])).unwrap();
    until("following the stream", || recorder.status().topics.len() == 1);
    let mut sizes = Vec::new();
    for k in 0..12 {
        sizes.push(size_of_frame(k));
        writer.publish(&FrameMeta::bytes(), &pixels(k as u64, sizes[k])).unwrap();
        until("taking the frame", || only_newest_wait(&recorder, &sizes));
    }
    let status = recorder.finish().unwrap();
    assert_eq!((status.totals().0, status.totals().2.total()), (12, 0));
    remove_cycle_board(&board).unwrap();
}

/// A disk that creates directories as slowly as the test requires.
struct HeldUp {
    disk: KernelDisk,
    /// Whether a directory may be created; whether a thread waits for that.
    gate: Mutex<(bool, bool)>,
    opened: Condvar,
}

impl HeldUp {
    fn set_open(&self, open: bool) {
        self.gate.lock().unwrap().0 = open;
        self.opened.notify_all();
    }

    fn holds_somebody(&self) -> bool {
        self.gate.lock().unwrap().1
    }
}

/// Lets go of the recorder, also where the test fails.
struct LetGo(Arc<HeldUp>);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.set_open(true);
    }
}

impl ReadDisk for HeldUp {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.disk.open(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(path)
    }
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.disk.is_locked(path)
    }
}

impl Disk for HeldUp {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut gate = self.gate.lock().unwrap();
        while !gate.0 {
            gate.1 = true;
            gate = self.opened.wait(gate).unwrap();
        }
        drop(gate);
        self.disk.create_dir(path)
    }
    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path, access)
    }
    fn open_for_repair(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open_for_repair(path)
    }
    fn replace(&self, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
        self.disk.replace(path, bytes, durable)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        self.disk.lock(path)
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.disk.free_bytes(path)
    }
    fn queue(&self) -> Box<dyn WriteQueue> {
        self.disk.queue()
    }
}

/// The recorder's thread is stuck in a system call, as when others keep the disk busy, for many laps of a stream: every
/// frame is still copied into memory in time, in order.
#[test]
fn a_disk_that_stands_still_costs_no_frame() {
    let (folder, path) = directory();
    let disk = Arc::new(HeldUp {
        disk: KernelDisk::probe(folder.path()).unwrap(),
        gate: Mutex::new((true, false)),
        opened: Condvar::new(),
    });
    let name = unique("standstill");
    let options = StreamOptions::bytes(100_000).slots(4).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let recorder = Recorder::create_on(disk.clone(), &path, RecorderOptions::default()).unwrap();
    // Dropped before the recorder, which waits for its thread.
    let _let_go = LetGo(disk.clone());
    recorder.follow(Selector::names([name.clone()])).unwrap();
    until("following the stream", || recorder.status().topics.len() == 1);
    let mut sizes = vec![100_000, 70];
    for (k, size) in sizes.iter().enumerate() {
        writer.publish(&FrameMeta::bytes(), &pixels(k as u64, *size)).unwrap();
    }
    until("writing", || recorder.status().totals().0 == 2);

    disk.set_open(false);
    recorder.split().unwrap();
    until("standing still", || disk.holds_somebody());
    for k in 0..20 {
        writer.publish(&FrameMeta::bytes(), &pixels(sizes.len() as u64, size_of_frame(k))).unwrap();
        sizes.push(size_of_frame(k));
        until("taking the frame", || only_newest_wait(&recorder, &sizes[2..]));
    }
    assert_eq!(recorder.status().totals().0, 2, "nothing is written meanwhile");
    disk.set_open(true);
    let status = recorder.finish().unwrap();
    assert_eq!((status.totals().0, status.totals().2.total()), (sizes.len() as u64, 0));
    let messages = read_topic(&Container::open(&path).unwrap(), &format!("/{name}"));
    assert_eq!(messages.len(), sizes.len());
    for (k, message) in messages.into_iter().enumerate() {
        assert_eq!(message[16..], pixels(k as u64, sizes[k]));
    }
}

/// Native frames compressed on their way, and frames sealed with a checksum on the zero-copy path:
/// official readers check both.
#[test]
fn frames_are_compressed_or_sealed_when_asked() {
    let compressed = |compression| RecorderOptions {
        compression: ChunkCompression { compression, ..ChunkCompression::default() },
        ..RecorderOptions::default()
    };
    let sealed = RecorderOptions { checksum: true, ..RecorderOptions::default() };
    let kinds = [compressed(Compression::Zstd), compressed(Compression::Lz4), sealed];
    for (number, options) in kinds.into_iter().enumerate() {
        let is_compressed = options.compression.compression != Compression::None;
        let name = unique(&format!("packed-{number}"));
        let stream = StreamOptions::image(641, 479, 3).slots(4).remove_on_drop(true);
        let mut writer = Writer::create(&name, &stream).unwrap();
        let (_folder, path) = directory();
        let recorder = Recorder::create(&path, options).unwrap();
        recorder.follow(Selector::names([name.clone()])).unwrap();
        until("following the stream", || recorder.status().topics.len() == 1);
        let topic = format!("/{name}");
        let bytes = 641 * 479 * 3;
        for k in 0..10 {
            let meta = FrameMeta::image(641, 479, 641 * 3, "rgb8").frame_id("cam");
            writer.publish(&meta, &pixels(k, bytes)).unwrap();
            until("committing the frame", || committed(&recorder, &topic) == k + 1);
        }
        recorder.finish().unwrap();
        let container = Container::open(&path).unwrap();
        check_images(&container, &topic, (641, 479, "rgb8"), bytes);
        let brick = path.join(&container.topics()[0].bricks()[0]);
        check_brick(&brick, 10);
        let size = brick.metadata().unwrap().len();
        assert_eq!(size < 2 * bytes as u64, is_compressed, "these pixels repeat: {size} B");
    }
}

/// A stream that was not requested is found when it is.
#[test]
fn a_stream_is_refused_until_it_is_asked_for() {
    let (name, other) = (unique("wanted"), unique("unwanted"));
    let options = StreamOptions::bytes(1000).slots(8).remove_on_drop(true);
    let _other = Writer::create(&other, &options).unwrap();
    let (_folder, path) = directory();
    let recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
    recorder.follow(Selector::names([name.clone()])).unwrap();
    let mut writer = Writer::create(&name, &options).unwrap();
    until("following the stream", || recorder.status().topics.len() == 1);
    writer.publish(&FrameMeta::bytes(), &pixels(1, 100)).unwrap();
    recorder.follow(Selector::names([other])).unwrap();
    until("following the other one too", || recorder.status().topics.len() == 2);
    recorder.finish().unwrap();
}
