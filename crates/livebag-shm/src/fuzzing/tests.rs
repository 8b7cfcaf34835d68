//! The fuzzers' functions on mutated seeds.

#[path = "../../../../fuzz/rounds.rs"]
mod rounds;

use rounds::{Random, run};

use super::*;

/// Words of the first three pages, where the headers are, get values that lie.
fn seeds(count: usize, words: usize) -> Vec<Vec<u8>> {
    let values = [0, 1, 2, 4096, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
    let mut random = Random(count as u64);
    let seed = |number: usize| {
        let mut bytes = vec![number as u8 | (number as u8) << 7];
        for _ in 0..random.below(4) {
            bytes.extend_from_slice(&(random.below(words) as u16).to_le_bytes());
            bytes.extend_from_slice(&values[random.below(values.len())].to_le_bytes());
        }
        bytes
    };
    (0..count).map(seed).collect()
}

#[test]
fn regions() {
    let seeds = seeds(600, 3 * 4096 / 8);
    run("region", region, 900, &seeds.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn boards() {
    let seeds = seeds(600, 2 * 4096 / 8);
    run("board", board, 900, &seeds.iter().map(Vec::as_slice).collect::<Vec<_>>());
}
