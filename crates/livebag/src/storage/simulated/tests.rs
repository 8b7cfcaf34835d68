use std::path::Path;

use super::*;
use crate::storage::{Block, Part, Write};

fn disk_with(seed: u64, bytes: usize) -> (SimulatedDisk, Arc<dyn DiskFile>) {
    let disk = SimulatedDisk::new(seed);
    let file = disk.create(Path::new("/d/f"), Access::Direct).unwrap();
    file.write_at(&vec![1; bytes], 0).unwrap();
    (disk, file)
}

fn left(disk: &SimulatedDisk) -> Option<Vec<u8>> {
    disk.read(Path::new("/d/f")).ok()
}

#[test]
fn a_process_crash_keeps_what_the_kernel_was_given() {
    for seed in 0..100 {
        let (disk, _file) = disk_with(seed, 5000);
        assert_eq!(left(&disk.crash()).unwrap(), vec![1; 5000]);
    }
}

#[test]
fn a_power_cut_keeps_what_was_synced_with_its_name() {
    for seed in 0..200 {
        let (disk, file) = disk_with(seed, 5000);
        file.sync().unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(&[2; 3000], 5000).unwrap();
        let after = left(&disk.power_cut()).unwrap();
        assert_eq!(after[..5000], vec![1; 5000]);
        assert!(after[5000..].iter().all(|byte| [0, 2].contains(byte)));
    }
}

#[test]
fn a_power_cut_takes_sectors_lengths_and_names() {
    let (mut gone, mut short, mut holed, mut whole) = (0, 0, 0, 0);
    for seed in 0..400 {
        let (disk, _file) = disk_with(seed, 5120);
        let cut = disk.power_cut();
        let Some(bytes) = left(&cut) else {
            gone += 1;
            continue;
        };
        let sectors = bytes.chunks(512);
        assert!(sectors.clone().all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        let file = cut.open(Path::new("/d/f")).unwrap();
        let has_zeros = bytes.contains(&0);
        let has_hole = !bytes.is_empty() && file.has_hole(0, bytes.len() as u64).unwrap();
        assert_eq!(has_zeros, has_hole, "a lost sector is a hole");
        short += u32::from(bytes.len() < 5120);
        holed += u32::from(has_zeros);
        whole += u32::from(bytes == vec![1; 5120]);
    }
    assert!([gone, short, holed, whole].iter().all(|count| *count > 10));
}

#[test]
fn a_tearing_medium_leaves_half_sectors() {
    let torn = (0..200).filter(|seed| {
        let (disk, _file) = disk_with(*seed, 5120);
        let bytes = left(&disk.power_cut_tearing()).unwrap_or_default();
        bytes.chunks(512).any(|sector| sector.contains(&0) && sector.contains(&1))
    });
    assert!(torn.count() > 10);
}

#[test]
fn a_replaced_file_is_the_old_or_the_new_if_it_is_durable() {
    for seed in 0..100 {
        let disk = SimulatedDisk::new(seed);
        disk.replace(Path::new("/d/f"), b"old", true).unwrap();
        disk.replace(Path::new("/d/f"), b"newer", false).unwrap();
        // The rename may arrive without the contents.
        let after = left(&disk.power_cut()).unwrap();
        let contents = [&b"old"[..], b"newer", b"", b"\0\0\0\0\0"];
        assert!(contents.contains(&&after[..]), "{after:?}");
        disk.replace(Path::new("/d/f"), b"last", true).unwrap();
        assert_eq!(left(&disk.power_cut()).unwrap(), b"last");
    }
}

#[test]
fn a_power_cut_is_another_run_of_the_kernel() {
    let (disk, _file) = disk_with(1, 10);
    assert_eq!(disk.crash().boot_id(), disk.boot_id());
    assert_ne!(disk.power_cut().boot_id(), disk.boot_id());
}

#[test]
fn a_full_disk_takes_what_there_is_room_for() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let (disk, file) = disk_with(seed, 10);
        disk.inject(Fault::NoSpaceAtOperation(disk.operation_count()));
        let error = file.write_at(&[3; 100], 10).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        lengths.insert(file.length().unwrap());
        file.write_at(&[4; 100], 10).unwrap();
    }
    assert!(lengths.len() > 10, "short counts of many lengths");
}

#[test]
fn a_crash_may_leave_any_part_of_a_write_in_flight() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let (disk, file) = disk_with(seed, 0);
        let mut queue = disk.queue();
        let parts = vec![Part::Block(Block::zeroed(4096))];
        queue.submit(Write { token: 1, file: file.clone(), offset: 0, parts });
        lengths.insert(left(&disk.crash()).unwrap().len());
    }
    assert!(lengths.contains(&0) && lengths.contains(&4096) && lengths.len() > 10);
}

#[test]
fn rot_and_misdirection_are_seen_by_every_reader() {
    let (disk, file) = disk_with(1, 2048);
    file.sync().unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.rot(Path::new("/d/f"), 7, 3).unwrap();
    let expected = |disk: &SimulatedDisk| left(disk).unwrap()[7];
    assert_eq!((expected(&disk), expected(&disk.power_cut())), (9, 9));
    disk.misdirect(Path::new("/d/f"), 0, 1024, 512).unwrap();
    let bytes = left(&disk).unwrap();
    assert_eq!((bytes[7], bytes[1031]), (0, 9));
}

#[test]
fn a_sector_is_written_back_with_all_that_it_has() {
    let mut seen = 0;
    for seed in 0..400 {
        let (disk, file) = disk_with(seed, 700);
        disk.sync_dir(Path::new("/d")).unwrap();
        file.write_at(&[2; 300], 700).unwrap();
        let after = left(&disk.power_cut()).unwrap();
        if after.get(700) == Some(&2) {
            assert_eq!(after[512..700], [1; 188]);
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}
