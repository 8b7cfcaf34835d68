//! Rounds of a fuzz target in `cargo test`: seeds, mutated with a seeded random, and a bound on memory.
//! The tests of every crate that has targets include this file.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn mutated(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len());
        match random.below(8) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.insert(at, random.next() as u8),
            3 => drop(bytes.remove(at)),
            4 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
            5 => bytes.truncate(at),
            // A length, or a place.
            6 => {
                let value = [0, u64::MAX, 1 << 63, 1 << 31, 1 << 30, u64::MAX - 8][random.below(6)];
                let end = (at + [4, 8][random.below(2)]).min(bytes.len());
                bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
            }
            _ => {
                let end = (at + random.below(16)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.extend_from_slice(&part);
            }
        }
    }
    bytes
}

/// Memory limit of a target for any input: this much, plus a multiple of the input's length.
const BYTES_MAX: usize = 64 << 20;
const TIMES_MAX: usize = 64;

/// Runs a target on its seeds and on `rounds` mutations of them. With `LIVEBAG_FUZZ_SEEDS=FOLDER` the seeds
/// are written to `FOLDER/NAME` instead, for `scripts/fuzz.sh`.
#[expect(clippy::disallowed_methods, reason = "a corpus, not a recording")]
pub fn run(name: &str, target: fn(&[u8]), rounds: u64, seeds: &[&[u8]]) {
    if let Some(folder) = std::env::var_os("LIVEBAG_FUZZ_SEEDS") {
        let folder = Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
        return;
    }
    let mut random = Random(rounds);
    for round in 0..seeds.len() as u64 + rounds {
        let input = match seeds.get(round as usize) {
            Some(seed) => seed.to_vec(),
            None => {
                let seed = random.below(seeds.len());
                mutated(&mut random, seeds[seed])
            }
        };
        let before = LIVE.get();
        PEAK.set(before);
        target(&input);
        let (taken, most) = (PEAK.get() - before, BYTES_MAX + TIMES_MAX * input.len());
        assert!(taken <= most as i64, "{name}: {taken} bytes for an input of {}", input.len());
    }
}

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most since it was asked.
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(live.get())));
    });
}

struct Counting;

#[expect(unsafe_code, reason = "an allocator's methods are unsafe; these only count")]
// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes as i64 - layout.size() as i64);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(memory, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
