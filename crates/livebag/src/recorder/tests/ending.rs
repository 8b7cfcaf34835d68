//! The end, where the disk hangs.

use super::*;

/// Larger than the device's queue.
const MESSAGES: u64 = 160;
const BYTES: usize = 1 << 20;

fn record_on_hanging(disk: &SimulatedDisk, options: RecorderOptions) -> Recorder {
    disk.stall(true);
    let recorder = record_with(disk, options);
    let writers = ["/a", "/b"].map(|name| recorder.topic(topic(name)).unwrap());
    for k in 0..MESSAGES {
        let data = vec![k as u8; BYTES];
        let message = Message { sequence: k / 2 + 1, ..message(k, &data) };
        writers[k as usize % 2].write_message(&message).unwrap();
    }
    recorder
}

pub(super) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    panic!("waited in vain for: {what}");
}

#[test]
fn what_is_abandoned_is_counted_by_topic() {
    for compression in [Compression::None, Compression::Lz4] {
        let disk = SimulatedDisk::new(7);
        let compression = ChunkCompression { compression, level: 1, threads: 1 };
        let options = RecorderOptions { compression, ..RecorderOptions::default() };
        let recorder = record_on_hanging(&disk, options);
        recorder.close();
        assert!(!recorder.has_closed());
        recorder.abandon();
        wait_until("something is given up", || recorder.status().totals().2.abandoned > 0);
        disk.stall(false);
        let status = recorder.finish().unwrap();
        for topic in &status.topics {
            assert_eq!(topic.messages + topic.lost.abandoned, MESSAGES / 2, "{topic:?}");
            assert_eq!(topic.lost.total(), topic.lost.abandoned, "{topic:?}");
        }
        assert!(status.totals().0 > 0, "what the disk had been given is written");
        let container = Container::open_on(&disk, Path::new(DIRECTORY)).unwrap();
        assert_eq!(container.state(), ContainerState::Closed);
        assert_eq!(container.lost().abandoned, status.totals().2.abandoned);
        assert_eq!(read_all(&container).len() as u64, status.totals().0);
    }
}

#[test]
fn an_end_that_takes_long_loses_nothing() {
    let disk = SimulatedDisk::new(8);
    let recorder = record_on_hanging(&disk, RecorderOptions::default());
    recorder.close();
    wait_until("what waits is seen", || recorder.status().cache_bytes > 0);
    assert!(!recorder.has_closed());
    disk.stall(false);
    wait_until("the end", || recorder.has_closed());
    let status = recorder.finish().unwrap();
    assert_eq!((status.totals().0, status.totals().2.total()), (MESSAGES, 0));
}

/// A ring without a snapshot: left out on purpose, and not lost.
#[test]
fn a_ring_that_is_let_go_is_counted() {
    let disk = SimulatedDisk::new(9);
    let snapshot = Some(SnapshotRing::default());
    let options =
        RecorderOptions { snapshot, cache_bytes_max: 1 << 20, ..RecorderOptions::default() };
    let recorder = record_with(&disk, options);
    let writer = recorder.topic(topic("/a")).unwrap();
    for k in 0..100 {
        writer.write_message(&message(k, &[k as u8; 50_000])).unwrap();
    }
    let status = recorder.finish().unwrap();
    assert_eq!((status.totals().0, status.totals().2.total()), (0, 0));
    assert_eq!(status.topics[0].skipped, 100);
}

/// Also between two of the ring's own looks, a second apart.
#[test]
fn a_snapshot_has_nothing_that_is_older_than_asked_for() {
    let disk = SimulatedDisk::new(10);
    let duration_max = Some(std::time::Duration::from_secs(60));
    let snapshot = Some(SnapshotRing { duration_max });
    let recorder = record_with(&disk, RecorderOptions { snapshot, ..RecorderOptions::default() });
    let writer = recorder.topic(topic("/a")).unwrap();
    let now = crate::clock::Clock::system().wall_nanos();
    for k in 0..10 {
        let age_nanos = if k < 5 { 3_600_000_000_000 } else { 1_000_000_000 };
        let log_time_nanos = now - age_nanos + k;
        let data = [k as u8; 70_000];
        let message = Message { log_time_nanos, ..message(k, &data) };
        writer.write_message(&message).unwrap();
    }
    recorder.snapshot().unwrap();
    let status = recorder.finish().unwrap();
    assert_eq!((status.totals().0, status.topics[0].skipped), (5, 5));
}
