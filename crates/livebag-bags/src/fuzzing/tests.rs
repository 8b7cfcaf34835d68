//! The fuzzers' functions on mutated seeds.

#[path = "../../../../fuzz/rounds.rs"]
mod rounds;

use rounds::run;

use super::*;
use crate::tests::{mcap_bytes, ros1_bag::bag, sqlite::database as make_database};

fn slices(seeds: &[Vec<u8>]) -> Vec<&[u8]> {
    seeds.iter().map(Vec::as_slice).collect()
}

#[test]
fn mcap_files() {
    let options = || mcap::WriteOptions::new().chunk_size(Some(60)).calculate_chunk_crcs(false);
    let messages = [(0, 5), (1, 7), (0, 6), (1, 9), (0, 9)];
    let seeds: Vec<Vec<u8>> = [
        options().compression(None),
        options().compression(Some(mcap::Compression::Zstd)),
        options().compression(Some(mcap::Compression::Lz4)),
        options().use_chunks(false),
    ]
    .into_iter()
    .map(|options| mcap_bytes(options, &messages).split_off(livebag_format::mcap::MAGIC.len()))
    .collect();
    run("mcap", mcap, 600, &slices(&seeds));
}

/// What fuzzing by coverage has found: inputs of the function, without the file's magic.
#[test]
fn found_cases() {
    // Statistics whose counts by channel add up to more than 64 bits hold.
    mcap(include_bytes!("found/mcap-statistics-overflow"));
}

#[test]
fn ros1_bags() {
    let mut seeds = Vec::new();
    for compression in ["none", "bz2", "lz4"] {
        let mut bag = bag();
        bag.chunk(compression, &[(0, 5), (1, 7_000_000_000)]);
        bag.chunk("none", &[(1, 6)]);
        seeds.push(bag.close().split_off(livebag_format::ros1::bag::MAGIC.len()));
    }
    run("ros1_bag", ros1_bag, 800, &slices(&seeds));
}

#[test]
fn databases() {
    let folder = tempfile::tempdir().unwrap();
    let mut seeds = Vec::new();
    for is_new in [false, true] {
        let path = folder.path().join(format!("{is_new}.db3"));
        let database = rusqlite::Connection::open(&path).unwrap();
        // As small as pages are.
        database.execute_batch("PRAGMA page_size=512; VACUUM").unwrap();
        make_database(&path, is_new, &[(4, 5), (9, 6), (4, 6)]);
        #[expect(clippy::disallowed_methods, reason = "a foreign database")]
        let bytes = std::fs::read(&path).unwrap();
        seeds.push(bytes[16..].to_vec());
    }
    run("database", database, 300, &slices(&seeds));
}

#[test]
fn metadata() {
    let seeds: [&[u8]; 2] = [
        b"rosbag2_bagfile_information:\n  version: 9\n  storage_identifier: mcap\n  duration:\n    nanoseconds: 5\n  \
          starting_time:\n    nanoseconds_since_epoch: 17\n  message_count: 5\n  topics_with_message_count:\n    \
          - topic_metadata:\n        name: /a\n        type: std_msgs/msg/String\n        serialization_format: cdr\n        \
          offered_qos_profiles:\n          - history: unknown\n            depth: 0\n            reliability: reliable\n            \
          durability: volatile\n            deadline: {sec: 9223372036, nsec: 854775807}\n            \
          liveliness: automatic\n        type_description_hash: RIHS01_x\n      message_count: 5\n  \
          relative_file_paths: [bag_0.mcap]\n  files:\n    - path: bag_0.mcap\n      starting_time: {nanoseconds_since_epoch: 17}\n      \
          duration: {nanoseconds: 2}\n      message_count: 5\n  custom_data: {run: 7, empty: ~}\n  ros_distro: jazzy\n",
        b"version: 4\nstorage_identifier: sqlite3\nrelative_file_paths: [run_0.db3]\nduration: {nanoseconds: 1}\n\
          starting_time: {nanoseconds_since_epoch: 1}\nmessage_count: 1\ncompression_format: zstd\n\
          topics_with_message_count:\n- topic_metadata: {name: /a, type: p/msg/T, serialization_format: cdr, \
          offered_qos_profiles: \"- history: 3\\n  depth: 0\"}\n  message_count: 1\n",
    ];
    run("rosbag2", rosbag2, 400, &seeds);
}
