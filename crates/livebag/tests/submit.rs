//! The way in asks the system for no memory once a topic's sizes repeat.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use livebag::{Recorder, RecorderOptions, Topic, TopicWriter, WriteError};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator, counting what each thread asks it for.
struct Counting;

#[expect(unsafe_code, reason = "an allocator is made of nothing else")]
// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of its.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that `System` wants.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn wait_for(recorder: &Recorder, messages: u64) {
    while recorder.status().totals().0 < messages {
        std::thread::yield_now();
    }
}

/// Writes messages, each until the queue takes it, and returns how often this thread allocated memory, and how many
/// messages the queue refused: a recorder may be preempted for long.
fn write(writer: &TopicWriter, data: &[u8], sequences: std::ops::Range<u64>) -> (u64, u64) {
    let before = ALLOCATIONS.get();
    let mut refused = 0;
    for sequence in sequences {
        while let Err(error) = writer.write(1, sequence + 1, data) {
            assert!(matches!(error, WriteError::Full { .. }), "{error}");
            refused += 1;
            std::thread::yield_now();
        }
    }
    (ALLOCATIONS.get() - before, refused)
}

/// First more at once than ever after, then rounds, each of which is recorded before the next begins.
#[test]
fn writing_asks_for_no_memory() {
    for (bytes, count, burst) in
        [(100, 1000, 50_000), (16 << 10, 4, 100), (64 << 10, 4, 100), (300_000, 4, 10)]
    {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        let recorder = Recorder::create(&path, RecorderOptions::default()).unwrap();
        let topic = Topic { name: "/t".into(), message_encoding: "cdr".into(), ..Topic::default() };
        let writer = recorder.topic(topic).unwrap();
        let data = vec![7; bytes];
        let mut written = burst;
        let (_, mut lost) = write(&writer, &data, 0..burst);
        wait_for(&recorder, written);
        let mut round = || {
            let (asked, refused) = write(&writer, &data, written..written + count);
            written += count;
            lost += refused;
            wait_for(&recorder, written);
            asked
        };
        let _first: u64 = (0..10).map(|_| round()).sum();
        let asked: u64 = (0..20).map(|_| round()).sum();
        assert_eq!(asked, 0, "messages of {bytes} bytes");
        assert_eq!(recorder.finish().unwrap().totals().2.total(), lost);
    }
}
