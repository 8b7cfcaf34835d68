//! Full disks and failing syncs, at every operation.

use std::path::Path;
use std::time::Duration;

use livebag::{
    Container, Disk, Fault, Query, ReadDisk, RecordError, RecorderOptions, SimulatedDisk,
};

use crate::common::{
    DIRECTORY, FRAME_BYTES, Making, Model, Sequences, TOPICS, Wanted, counts, visible,
};

/// A short recording: small messages, a chunk of middling ones, frames, and its end.
fn record(disk: &SimulatedDisk) -> Option<(Model, Sequences, Result<(), String>)> {
    let mut making = Making::begin(disk).ok()?;
    for round in 0..3 {
        for at in 0..TOPICS {
            let size = [100, 3000, FRAME_BYTES + 10][(at + round) % 3];
            if making.write(at, size) {
                making.wait_for(at, making.model[at].len() as u64);
            }
        }
    }
    let model = making.model.clone();
    let shown = visible(&making.recorder.status());
    let ended = making.recorder.finish().map(drop).map_err(|error| error.to_string());
    Some((model, shown, ended))
}

fn operations() -> u64 {
    let disk = SimulatedDisk::new(1);
    record(&disk).unwrap().2.unwrap();
    disk.operation_count()
}

fn check(disk: &SimulatedDisk, model: &Model, shown: Sequences, what: String) {
    // By the time of reading, space has been made.
    let after = disk.crash();
    let wanted = Wanted {
        what,
        model,
        must_have: shown,
        may_be_gone: false,
        frames_may_be_torn: false,
        has_streams: false,
        may_lack_entries: true,
        may_have_holes: false,
    };
    wanted.check(&after);
}

/// `ENOSPC` once at every operation of a recording, and from every operation on: always a clean
/// error, and everything committed before is readable.
#[test]
fn a_disk_that_is_full_at_any_operation_costs_nothing_committed() {
    let mut failed = 0;
    for number in 0..operations() {
        for fault in [Fault::NoSpaceAtOperation(number), Fault::NoSpaceFromOperation(number)] {
            let disk = SimulatedDisk::new(number);
            disk.inject(fault);
            let Some((model, shown, ended)) = record(&disk) else { continue };
            if let Err(error) = &ended {
                let named = error.contains("No space") || error.contains("disk is full");
                assert!(named, "{fault:?}: {error}");
                failed += 1;
            }
            check(&disk, &model, shown, format!("{fault:?}"));
        }
    }
    assert!(failed > 40, "{failed}");
}

/// A container on a disk that is still full is read as it is.
#[test]
fn a_full_disk_can_be_read_without_recovery() {
    for number in 10..operations() {
        let disk = SimulatedDisk::new(number);
        disk.inject(Fault::NoSpaceFromOperation(number));
        let Some((_, shown, _)) = record(&disk) else { continue };
        let after = disk.crash();
        after.inject(Fault::NoSpaceFromOperation(0));
        let container = Container::open_on(&after, Path::new(DIRECTORY));
        let container = container.unwrap_or_else(|error| panic!("{number}: {error}"));
        let mut cursor = container.query(&Query::default()).unwrap();
        let mut messages = 0u64;
        let shown = counts(&shown);
        while cursor.next().unwrap().is_some() {
            messages += 1;
        }
        assert!(messages >= shown.iter().sum::<u64>(), "{number}: {messages} of {shown:?}");
    }
}

/// A failed fsync is reported, and a later successful one does not hide it.
#[test]
fn a_failed_sync_is_told() {
    for number in 0..4 {
        let disk = SimulatedDisk::new(number);
        disk.inject(Fault::SyncFailsOnce(number));
        let (model, shown, ended) = record(&disk).unwrap();
        let error = ended.expect_err("the sync failed");
        assert!(error.contains("closing"), "{error}");
        check(&disk, &model, shown, format!("sync {number}"));
    }
}

/// The same while recording: the first failure latches. Nothing is written afterwards as if nothing had
/// happened, everything offered is counted, and no sync that succeeds takes it back.
#[test]
fn a_failed_sync_while_recording_latches() {
    for number in 0..12 {
        let disk = SimulatedDisk::new(number);
        disk.inject(Fault::SyncFailsOnce(number));
        let sync_interval = Some(Duration::from_millis(20));
        let options = RecorderOptions { sync_interval, ..RecorderOptions::default() };
        let mut making = Making::begin_with(&disk, options).unwrap();
        let mut offered = 0;
        while making.recorder.status().failure.is_none() {
            assert!(offered < 100_000, "sync {number} never came");
            offered += u64::from(making.write((offered % TOPICS as u64) as usize, 100));
            making.let_age();
            std::thread::yield_now();
        }
        let failure = making.recorder.status().failure.unwrap();
        assert!(matches!(&*failure, RecordError::Io { doing: "syncing", .. }), "{failure}");
        assert!(failure.io_error().is_some());
        let shown = visible(&making.recorder.status());
        offered += (0..10).map(|_| u64::from(making.write(0, 100))).sum::<u64>();
        let model = making.model.clone();
        let status = making.recorder.status();
        let error = making.recorder.finish().expect_err("it failed").to_string();
        assert!(error.contains(&failure.to_string()), "{error}");
        let (messages, _, lost) = status.totals();
        assert!(messages + lost.total() <= offered, "{messages} {lost:?} {offered}");
        check(&disk, &model, shown, format!("sync {number} while recording"));
    }
}

/// After a failed fsync the kernel calls pages clean that the medium never had: a later sync that
/// succeeds does not bring them back.
#[test]
fn a_later_sync_does_not_mend_a_failed_one() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let path = Path::new("/file");
        let file = disk.create(path, livebag::Access::Buffered).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk.inject(Fault::SyncFailsOnce(1));
        file.write_at(b"bytes", 0).unwrap();
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert_eq!(disk.read(path).unwrap(), b"bytes", "the page cache still has them");
        lost += u32::from(disk.power_cut().read(path).unwrap() != b"bytes");
    }
    assert!(lost > 0 && lost < 20, "{lost}");
}
