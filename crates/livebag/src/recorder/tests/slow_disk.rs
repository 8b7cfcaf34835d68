//! Streams with a disk that completes nothing for a while: an engine that is stepped by hand.

use livebag_format::container::Losses;
use livebag_shm::{FrameMeta, StreamOptions, Writer};

use super::*;
use crate::source::Selector;
use std::sync::mpsc::sync_channel;

const FRAME_BYTES: usize = 100_000;

struct Hand {
    disk: SimulatedDisk,
    engine: engine::Engine,
    shared: Arc<Shared>,
    commands: Receiver<Command>,
    writer: Writer,
    published: u64,
}

impl Hand {
    fn new(name: &str, cache_bytes_max: u64) -> Self {
        let disk = SimulatedDisk::new(5);
        let options = RecorderOptions { cache_bytes_max, ..RecorderOptions::default() };
        let shared = Shared::new(Arc::new(disk.clone()), Path::new(DIRECTORY), options);
        let shared = Arc::new(shared);
        let mut engine = engine::Engine::create(shared.clone()).unwrap();
        // One frame at a time.
        engine.writer.writes.device_bytes_max = 1;
        let name = format!("test-slow-{name}-{}", std::process::id());
        let options = StreamOptions::bytes(FRAME_BYTES).slots(8).remove_on_drop(true);
        let writer = Writer::create(&name, &options).unwrap();
        let (orders, commands) = sync_channel(1);
        orders.send(Command::Follow(Selector::names([name]))).unwrap();
        assert!(engine.turn(&commands));
        // A dropped sender would be the order to finish.
        std::mem::forget(orders);
        Self { disk, engine, shared, commands, writer, published: 0 }
    }

    fn publish(&mut self, frames: u64) {
        for _ in 0..frames {
            self.published += 1;
            self.writer
                .publish(&FrameMeta::bytes(), &vec![self.published as u8; FRAME_BYTES])
                .unwrap();
        }
        assert!(self.engine.turn(&self.commands));
    }

    /// Losses, and the sequences that are in the container.
    fn finish(self) -> (Losses, Vec<u64>, SimulatedDisk) {
        self.disk.stall(false);
        self.engine.close().unwrap();
        assert!(self.shared.failure().is_none());
        let lost = self.shared.topics.lock().unwrap()[0].1.losses();
        let container = Container::open_on(&self.disk, Path::new(DIRECTORY)).unwrap();
        let read = read_all(&container);
        check_bricks(&self.disk, &container, &read);
        (lost, read.iter().map(|seen| seen.1).collect(), self.disk)
    }
}

/// The cache has room for one copy only, and the disk stops for a while: frames whose slots are not refilled meanwhile
/// are recorded from there.
#[test]
fn frames_that_find_no_room_stay_in_their_slots() {
    let mut hand = Hand::new("room", 150_000);
    hand.disk.stall(true);
    // The first is with the device. The older ones of eight slots are about to be overwritten.
    for _ in 0..8 {
        hand.publish(1);
    }
    let (lost, recorded, _) = hand.finish();
    assert_eq!(lost.total(), 0, "{lost:?}");
    assert_eq!(recorded, (1..=8).collect::<Vec<_>>());
}

/// Those that are refilled are lost for lack of room, and counted as that.
#[test]
fn frames_that_found_no_room_until_the_end_are_dropped() {
    let mut hand = Hand::new("full", 150_000);
    hand.disk.stall(true);
    for _ in 0..20 {
        hand.publish(1);
    }
    let (lost, recorded, _) = hand.finish();
    assert!(lost.queue > 0 && lost.lapped == 0, "{lost:?}");
    assert_eq!(recorded.len() as u64 + lost.total(), 20);
}

/// A frame that was overwritten while the device fetched it is written again, over itself.
#[test]
fn a_torn_frame_takes_no_more_space_than_a_whole_one() {
    const OVERTAKEN: u64 = 5;
    let mut hand = Hand::new("torn", 64 << 20);
    for _ in 0..OVERTAKEN {
        hand.disk.stall(true);
        for _ in 0..9 {
            hand.publish(1);
        }
        hand.disk.stall(false);
        while !hand.engine.writer.writes.is_empty() || hand.engine.tracker.next_pending().is_some()
        {
            assert!(hand.engine.turn(&hand.commands));
        }
    }
    let published = hand.published;
    let (lost, recorded, disk) = hand.finish();
    assert_eq!(lost.total(), 0, "{lost:?}");
    assert_eq!(recorded, (1..=published).collect::<Vec<_>>());
    let files = disk.list(Path::new(DIRECTORY)).unwrap();
    let brick = files.iter().find(|file| file.extension().is_some_and(|e| e == "mcap")).unwrap();
    let bytes = disk.read(brick).unwrap().len();
    let frames = FRAME_BYTES.next_multiple_of(4096) + 2 * 4096;
    assert!(bytes < published as usize * frames + 64_000, "{bytes} for {published} frames");
}
