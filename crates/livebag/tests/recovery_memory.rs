//! What recovery takes of memory for each message: docs/durability.md says how much at most.

#![expect(clippy::disallowed_methods, reason = "real files are damaged")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use livebag::{Container, NewMessage, Overflow, Recorder, RecorderOptions, Topic};

/// Counts the bytes in use, and the most that there were.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: all that is done with memory is done by the system's allocator.
#[expect(unsafe_code, reason = "an allocator that counts")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

const MESSAGES: u64 = 200_000;
/// Buffers, a chunk, the manifest.
const FIXED_BYTES: usize = 8 << 20;

/// Memory that a recovery took at most.
fn recover(path: &Path) -> usize {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let container = Container::recover(path).unwrap();
    let peak = PEAK.load(Relaxed) - before;
    assert_eq!(container.topics()[0].message_count().unwrap(), MESSAGES);
    peak
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap().path()) {
        // Recovery does not know that the kernel has it.
        if file.is_file() && !file.ends_with("container.lock") {
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
}

#[test]
fn memory_is_bounded_by_what_the_indexes_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let options = RecorderOptions { overflow: Overflow::Block, ..RecorderOptions::default() };
    let recorder = Recorder::create(&path, options).unwrap();
    let topic = Topic { name: "/a".into(), type_name: "x/X".into(), ..Topic::default() };
    let writer = recorder.topic(topic).unwrap();
    for sequence in 0..MESSAGES {
        let times = Some(1_000_000 + sequence);
        let (log_time_nanos, publish_time_nanos) = (times, times);
        let message = NewMessage { log_time_nanos, publish_time_nanos, sequence, data: &[7; 12] };
        writer.write_message(message).unwrap();
    }
    while Container::peek(&path).unwrap().topics()[0].message_count().unwrap() < MESSAGES {
        std::thread::yield_now();
    }
    let [killed, without_index, damaged] =
        ["killed", "without_index", "damaged"].map(|name| folder.path().join(name));
    for to in [&killed, &without_index, &damaged] {
        copy(&path, to);
    }
    recorder.finish().unwrap();
    fs::remove_file(without_index.join("a.idx")).unwrap();
    // An entry of the middle is wrong, so the index is written again.
    let mut index = fs::read(damaged.join("a.idx")).unwrap();
    let middle = index.len() / 2;
    index[middle] ^= 1;
    fs::write(damaged.join("a.idx"), index).unwrap();

    for (what, path, each) in [
        ("killed", killed, 56),
        ("damaged", damaged, 104),
        ("without its index", without_index, 192),
    ] {
        let peak = recover(&path);
        println!("{what}: {:.1} bytes a message", peak as f64 / MESSAGES as f64);
        let bound = each * MESSAGES as usize + FIXED_BYTES;
        assert!(peak <= bound, "{what}: {peak} bytes, at most {bound}");
    }
}
