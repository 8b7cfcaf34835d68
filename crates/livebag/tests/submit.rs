//! The way in asks the system for no memory once a topic's sizes repeat.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use livebag::{Recorder, RecorderOptions, Topic, TopicWriter};

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

/// Writes `count` messages and tells how often this thread asked for memory meanwhile.
fn allocations_of(writer: &TopicWriter, data: &[u8], sequences: std::ops::Range<u64>) -> u64 {
    let before = ALLOCATIONS.get();
    for sequence in sequences {
        writer.write(1, sequence + 1, data).unwrap();
    }
    ALLOCATIONS.get() - before
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
        allocations_of(&writer, &data, 0..burst);
        wait_for(&recorder, written);
        let mut round = || {
            let asked = allocations_of(&writer, &data, written..written + count);
            written += count;
            wait_for(&recorder, written);
            asked
        };
        let _first: u64 = (0..10).map(|_| round()).sum();
        let asked: u64 = (0..20).map(|_| round()).sum();
        assert_eq!(asked, 0, "messages of {bytes} bytes");
        assert_eq!(recorder.finish().unwrap().totals().2.total(), 0);
    }
}
