use std::path::Path;

use livebag_shm::{FrameMeta, StreamOptions, Writer};

use super::*;
use crate::queue::Queued;
use crate::recorder::RecorderOptions;
use crate::storage::SimulatedDisk;

/// The kernel may take the processor away from the recorder's thread while it is at a queue's outlet. The
/// watchman then finds no memory for more than a few small frames; their slots hold them.
#[test]
fn small_frames_wait_in_their_slots_while_the_recorder_is_stopped_in_its_queue() {
    const FRAMES: u64 = 200;
    let options = RecorderOptions::default();
    let clock = options.clock.clone();
    let shared = Arc::new(Shared::new(Arc::new(SimulatedDisk::new(1)), Path::new("bag"), options));
    let lookout = Lookout::new(shared.clone());
    let name = format!("test-{}-stopped", std::process::id());
    let options = StreamOptions::bytes(10_000).slots(512).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let queue = shared.make_stream_queue(&name).unwrap();
    let reader = Reader::open(&name).unwrap();
    lookout.add(0, StreamSource::new(reader, true, clock), queue.clone(), false);
    // So that it has memory at all.
    writer.publish(&FrameMeta::bytes(), &[0; 10_000]).unwrap();
    lookout.look(false);
    let stopped = queue.stop_in_the_outlet();
    for _ in 1..FRAMES {
        writer.publish(&FrameMeta::bytes(), &[7; 10_000]).unwrap();
    }
    lookout.look(false);
    drop(stopped);
    let mut out = VecDeque::new();
    let mut taken = [0; 2];
    for count in &mut taken {
        queue.drain(u64::MAX, &mut u64::MAX.clone(), &mut out);
        for queued in out.drain(..) {
            let Queued::Batch(batch) = queued else { panic!("small ones") };
            *count += batch.entries.len() as u64;
        }
        lookout.look(false);
    }
    assert!(taken[0] > 0 && taken[1] > 0, "{taken:?}");
    assert_eq!(taken[0] + taken[1], FRAMES);
    assert_eq!(queue.counts(), [0; 3]);
    assert!(lookout.take_unseen().is_empty());
}

/// A copy takes the processor from an application that computes; once it is made, nothing is urgent.
#[test]
fn frames_are_copied_later_while_an_application_computes() {
    let options = RecorderOptions::default();
    let clock = options.clock.clone();
    let shared = Arc::new(Shared::new(Arc::new(SimulatedDisk::new(1)), Path::new("bag"), options));
    let lookout = Lookout::new(shared.clone());
    let name = format!("test-{}-bides", std::process::id());
    let options = StreamOptions::bytes(100_000).slots(16).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let reader = Reader::open(&name).unwrap();
    let queue = shared.make_stream_queue(&name).unwrap();
    lookout.add(0, StreamSource::new(reader, true, clock), queue, false);
    let frame = vec![7; 100_000];
    let copied = || {
        let watch = lookout.lock();
        watch.held.iter().filter(|held| matches!(held.kept, Kept::Copied(_))).count()
    };
    for _ in 0..10 {
        writer.publish(&FrameMeta::bytes(), &frame).unwrap();
    }
    // Nine newer ones than the first.
    lookout.look(true);
    assert_eq!(copied(), 0);
    lookout.look(false);
    assert!((1..10).contains(&copied()), "{}", copied());
    for _ in 0..3 {
        writer.publish(&FrameMeta::bytes(), &frame).unwrap();
    }
    // Twelve than the first, eleven than the second: three and four slots are left for them.
    lookout.look(true);
    let first = lookout.next_held().unwrap();
    {
        let held = &mut lookout.lock().held[0];
        assert!(matches!(held.kept, Kept::Copied(_)));
        held.deadline_nanos = 0;
    }
    assert!(lookout.waiting().deadline_nanos > Some(0), "a copy's slot may be refilled");
    assert!(lookout.release(first.number, false).is_some());
}

/// Between the question for the frame that waits longest and its release the watchman may find it
/// overwritten; then the next one, of another topic, must not go in its place.
#[test]
fn a_frame_that_was_given_up_is_not_released_as_another() {
    let options = RecorderOptions::default();
    let clock = options.clock.clone();
    let disk = Arc::new(SimulatedDisk::new(1));
    let shared = Arc::new(Shared::new(disk, Path::new("bag"), options));
    let lookout = Lookout::new(shared.clone());
    let mut writers: Vec<Writer> = ["one", "other"]
        .iter()
        .enumerate()
        .map(|(topic, name)| {
            let name = format!("test-{}-given-up-{name}", std::process::id());
            let options = StreamOptions::bytes(100_000).slots(4).remove_on_drop(true);
            let writer = Writer::create(&name, &options).unwrap();
            let reader = Reader::open(&name).unwrap();
            let queue = shared.make_stream_queue(&name).unwrap();
            lookout.add(topic, StreamSource::new(reader, true, clock.clone()), queue, false);
            writer
        })
        .collect();
    let frame = vec![7; 100_000];
    writers[0].publish(&FrameMeta::bytes(), &frame).unwrap();
    lookout.look(false);
    writers[1].publish(&FrameMeta::bytes(), &frame).unwrap();
    lookout.look(false);
    let asked = lookout.next_held().unwrap();
    assert_eq!(asked.topic, 0);
    for _ in 0..8 {
        writers[0].publish(&FrameMeta::bytes(), &frame).unwrap();
    }
    lookout.look(false);
    assert!(lookout.release(asked.number, false).is_none());
    let next = lookout.next_held().unwrap();
    assert_eq!(next.topic, 1);
    let going = lookout.release(next.number, false).unwrap();
    assert_eq!(going.topic, 1);
    let Origin::Slot { number, .. } = going.from else { panic!("from its slot") };
    assert!(lookout.land(number).frame.is_intact());
    let lapped: u64 = lookout.take_unseen().iter().map(|(_, unseen)| unseen.lapped).sum();
    // Nine were published, four slots can hold the last of them.
    assert!(lapped >= 5, "{lapped} were counted");
}
