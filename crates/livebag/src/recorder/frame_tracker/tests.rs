use std::path::Path;

use livebag_shm::{FrameMeta, Owners, Reader, StreamOptions, Writer};

use super::*;
use crate::recorder::RecorderOptions;
use crate::source::First;
use crate::storage::SimulatedDisk;

/// A look-out that follows nothing yet.
fn tracker() -> FrameTracker {
    let disk = Arc::new(SimulatedDisk::new(1));
    FrameTracker::new(Arc::new(Shared::new(disk, Path::new("bag"), RecorderOptions::default())))
}

/// A stream of this many slots that `tracker` follows as its topic `number`.
fn follow(
    tracker: &FrameTracker,
    (number, name): (usize, &str),
    bytes: usize,
    slots: u32,
) -> (Writer, Arc<TopicQueue>) {
    let name = format!("test-{}-{name}", std::process::id());
    let options = StreamOptions::bytes(bytes).slots(slots).remove_on_drop(true);
    let writer = Writer::create(&name, &options).unwrap();
    let queue = tracker.shared.make_stream_queue(&name).unwrap();
    let clock = tracker.shared.options.clock.clone();
    let source =
        StreamSource::new(Reader::open(&name).unwrap(), Owners::Trusted, First::Next, clock);
    tracker.add(number, Some(source), queue.clone(), false);
    (writer, queue)
}

/// Half a lap before its slot is refilled a frame is copied; then nothing is urgent for it.
#[test]
fn frames_are_copied_before_they_are_overwritten() {
    let tracker = tracker();
    let (mut writer, _queue) = follow(&tracker, (0, "copied"), 100_000, 16);
    let frame = vec![7; 100_000];
    let copied = || {
        let watch = tracker.lock();
        watch.held.iter().filter(|held| matches!(held.kept, FrameLocation::Copied(_))).count()
    };
    for _ in 0..5 {
        writer.publish(&FrameMeta::bytes(), &frame).unwrap();
    }
    tracker.look();
    assert_eq!(copied(), 0);
    for _ in 0..5 {
        writer.publish(&FrameMeta::bytes(), &frame).unwrap();
    }
    // Nine are newer than the first.
    tracker.look();
    assert!((1..10).contains(&copied()), "{}", copied());
    let first = tracker.next_pending().unwrap();
    tracker.lock().held[0].deadline_nanos = 0;
    assert!(tracker.waiting().deadline_nanos > Some(0), "a copy's slot may be refilled");
    assert!(tracker.release(first.number, false).is_some());
}

/// Between choosing the frame that waits longest and its release, the watchdog may find it overwritten; then the next
/// one, of another topic, must not be released instead.
#[test]
fn a_frame_that_was_given_up_is_not_released_as_another() {
    let tracker = tracker();
    let mut writers: Vec<Writer> = [(0, "given-up-one"), (1, "given-up-other")]
        .map(|topic| follow(&tracker, topic, 100_000, 4).0)
        .into();
    let frame = vec![7; 100_000];
    writers[0].publish(&FrameMeta::bytes(), &frame).unwrap();
    tracker.look();
    writers[1].publish(&FrameMeta::bytes(), &frame).unwrap();
    tracker.look();
    let asked = tracker.next_pending().unwrap();
    assert_eq!(asked.topic, 0);
    for _ in 0..8 {
        writers[0].publish(&FrameMeta::bytes(), &frame).unwrap();
    }
    tracker.look();
    assert!(tracker.release(asked.number, false).is_none());
    let next = tracker.next_pending().unwrap();
    assert_eq!(next.topic, 1);
    let going = tracker.release(next.number, false).unwrap();
    assert_eq!(going.topic, 1);
    let Origin::Slot { number, .. } = going.from else { panic!("from its slot") };
    assert!(tracker.land(number).unwrap().frame.is_intact());
    assert!(tracker.land(number).is_none(), "once only");
    let lapped: u64 = tracker.take_losses().iter().map(|(_, unseen)| unseen.lapped).sum();
    // Nine were published, four slots can hold the last of them.
    assert!(lapped >= 5, "{lapped} were counted");
}
