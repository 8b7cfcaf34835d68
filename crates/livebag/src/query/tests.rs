use std::path::Path;

use livebag_format::{Message, Topic};

use crate::{
    Bag, ChunkCompression, Compression, Cursor, Overflow, Query, Recorder, RecorderOptions,
};

/// Messages of two topics, from a byte to more than a read window; message `k` has bytes `k`.
fn record(directory: &Path, compression: Compression) {
    let compression = ChunkCompression { compression, ..ChunkCompression::default() };
    let overflow = Overflow::Block;
    let options = RecorderOptions { compression, overflow, ..RecorderOptions::default() };
    let recorder = Recorder::create(directory, options).unwrap();
    let topic = |name: &str| recorder.topic(Topic { name: name.into(), ..Topic::default() });
    let writers = [topic("/a").unwrap(), topic("/b").unwrap()];
    let sizes = [1usize, 300, 70_000, 5, 2_000_000, 65_536, 0, 1_000_000];
    for k in 0..60u64 {
        let data = vec![k as u8; sizes[k as usize % sizes.len()]];
        let log_time_nanos = 1_000 + k;
        let message =
            Message { log_time_nanos, publish_time_nanos: k, sequence: k + 1, data: &data };
        writers[k as usize % 3 / 2].write_message(&message).unwrap();
    }
    recorder.finish().unwrap();
}

fn every(mut cursor: Cursor<'_>) -> Vec<(usize, u64, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some((topic, message)) = cursor.next().unwrap() {
        all.push((topic, message.log_time_nanos, message.data.to_vec()));
    }
    all
}

#[test]
fn messages_read_into_the_callers_memory_are_the_same() {
    for compression in [Compression::None, Compression::Lz4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bag");
        record(&path, compression);
        let bag = Bag::open(&path).unwrap();
        let mut cursor = bag.query(&Query::default()).unwrap();
        let mut all = Vec::new();
        while let Some((topic, entry)) = cursor.next_entry().unwrap() {
            // What is left out is none of the next one's business.
            if all.len() % 7 == 3 {
                all.push((topic, entry.log_time_nanos, Vec::new()));
                continue;
            }
            let mut room = vec![0xff; entry.data_bytes as usize];
            cursor.read_into(&mut room).unwrap();
            // A chunk that does not become smaller is not compressed.
            assert!(cursor.place().is_some() || compression != Compression::None);
            if let Some((file, offset)) = cursor.place() {
                let mut same = vec![0; room.len()];
                assert_eq!(file.read_at(&mut same, offset).unwrap(), room.len());
                assert!(same == room);
            }
            all.push((topic, entry.log_time_nanos, room));
        }
        let mut expected = every(bag.query(&Query::default()).unwrap());
        assert_eq!(expected.len(), 60);
        expected.iter_mut().skip(3).step_by(7).for_each(|(_, _, data)| data.clear());
        assert!(all == expected, "{compression:?}");
    }
}

#[test]
fn a_brick_that_is_cut_costs_the_messages_behind_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bag");
    record(&path, Compression::None);
    let bag = Bag::open(&path).unwrap();
    for brick in bag.topics()[0].bricks() {
        let file = path.join(brick);
        #[expect(clippy::disallowed_methods, reason = "a test damages a file")]
        let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
        file.set_len(6_000_000).unwrap();
    }
    let mut cursor = bag.query(&Query::default()).unwrap();
    let (mut whole, mut cut) = (0, 0);
    while let Some((_, entry)) = cursor.next_entry().unwrap() {
        match cursor.read_into(&mut vec![0; entry.data_bytes as usize]) {
            Ok(()) => whole += 1,
            Err(_) => cut += 1,
        }
    }
    assert_eq!(whole + cut, 60);
    assert!(whole > 0 && cut > 0);
    assert_eq!(cursor.damaged(), cut);
}
