//! Damage of a medium that confuses its sectors.

use livebag_format::mcap::{ChunkHeader, opcode};

use super::ending::wait_until;
use super::*;
use crate::storage::Disk;

/// The header of a longer chunk in the place of another one, so that the file seems to end inside.
#[test]
fn a_chunk_that_seems_cut_costs_none_of_those_behind_it() {
    let disk = SimulatedDisk::new(7);
    let recorder = record_on(&disk);
    let writer = recorder.topic(topic("/a")).unwrap();
    for k in 0..3 {
        writer.write_message(&message(k, &[k as u8 + 10; 70_000])).unwrap();
        wait_until("it is recorded", || recorder.status().totals().0 == k + 1);
    }
    recorder.finish().unwrap();
    let path = Path::new(DIRECTORY).join("a.mcap");
    let bytes = disk.read(&path).unwrap();
    let is_chunk =
        |at: &usize| bytes[*at] == opcode::CHUNK && ChunkHeader::parse(&bytes[*at..]).is_some();
    let chunk = (0..bytes.len()).find(is_chunk).unwrap();
    let file = disk.open_for_repair(&path).unwrap();
    // The lengths of the record, of its messages, and of these as stored.
    for field in [1, 25, 41] {
        let at = chunk + field;
        let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) + (1 << 20);
        file.write_at(&length.to_le_bytes(), at as u64).unwrap();
    }
    let container = Container::recover_on(&disk, Path::new(DIRECTORY)).unwrap();
    let sequences: Vec<_> = read_all(&container).into_iter().map(|seen| seen.1).collect();
    assert!(sequences.ends_with(&[2, 3]), "{sequences:?}");
}
