//! Crashes of the process and cuts of the power, at moments and with luck from seeds.

use std::path::Path;

use livebag::{ChunkCompression, Compression, Disk, RecorderOptions, Retention, SimulatedDisk};

use crate::common::{
    DIRECTORY, FRAME_BYTES, Making, Model, Random, Sequences, TOPICS, Wanted, committed, counts,
    sync, visible,
};

/// Checked moments of a recording.
const MOMENTS: u64 = 10;
/// Disk operations that contain them: about as many as a recording needs.
const OPERATIONS: u64 = 80;

/// A recording with the disks that crashes during it left.
pub struct Recorded {
    disk: SimulatedDisk,
    model: Model,
    /// Number of an operation, the disk before it.
    pub moments: Vec<(u64, SimulatedDisk)>,
    /// Number of an operation, and the messages of each topic that are on the medium from it on.
    promises: Vec<(u64, Sequences)>,
    /// Operations until the container was made.
    made: u64,
    has_streams: bool,
}

fn record(seed: u64, syncs: bool) -> Recorded {
    record_with(seed, &Course { syncs, streams: seed % 2 == 1, ..Course::default() })
}

/// Events of a recording besides messages.
#[derive(Clone, Copy, Default)]
pub struct Course {
    pub syncs: bool,
    /// Topics come from streams.
    pub streams: bool,
    /// New splits are begun.
    pub splits: bool,
    /// Old splits are removed.
    pub retention: Retention,
    /// How chunks are compressed.
    pub compression: Compression,
}

pub fn record_with(seed: u64, course: &Course) -> Recorded {
    let mut random = Random(seed);
    let disk = SimulatedDisk::new(random.next());
    for _ in 0..MOMENTS {
        disk.watch(random.below(OPERATIONS * (1 + u64::from(course.splits))));
    }
    let options = RecorderOptions {
        retention: course.retention,
        compression: ChunkCompression {
            compression: course.compression,
            ..ChunkCompression::default()
        },
        ..RecorderOptions::default()
    };
    let mut making = match course.streams {
        true => Making::begin_with_streams(&disk, options),
        false => Making::begin_with(&disk, options).unwrap(),
    };
    let made = disk.operation_count();
    let mut promises = Vec::new();
    for _ in 0..10 + random.below(30) {
        let at = random.below(TOPICS as u64) as usize;
        making.write(at, random.size());
        if course.streams && random.chance(20) {
            // Small frames that wait behind a large one are written from their slots, and those behind them
            // gathered, while the first may still be in flight.
            for size in [FRAME_BYTES, 200, 3000, 400] {
                making.write(at, size);
            }
            std::thread::yield_now();
            making.write(at, 500);
            making.write(at, FRAME_BYTES);
        }
        match random.below(100) {
            0..=24 => making.let_age(),
            25..=34 => {
                let at = random.below(TOPICS as u64) as usize;
                making.wait_for(at, making.model[at].len() as u64);
            }
            35..=42 if course.syncs => {
                let promise = sync(&disk);
                promises.push((disk.operation_count(), promise));
            }
            43..=52 if course.splits => {
                making.recorder.split().unwrap();
                making.let_age();
            }
            _ => {}
        }
    }
    let model = making.model.clone();
    making.recorder.finish().unwrap();
    let has_streams = course.streams;
    Recorded { model, moments: disk.snapshots(), promises, made, has_streams, disk }
}

impl Recorded {
    fn promised(&self, operation: u64) -> Option<Sequences> {
        let kept = self.promises.iter().rfind(|(from, _)| *from <= operation);
        kept.map(|(_, promised)| promised.clone())
    }
}

/// A crash of the process: everything with an index entry is there, whatever was in flight.
pub fn check_crash(recorded: &Recorded, seed: u64, operation: u64, disk: &SimulatedDisk) {
    let wanted = Wanted {
        what: format!("seed {seed}, crash before operation {operation}"),
        model: &recorded.model,
        must_have: committed(disk),
        may_be_gone: operation < recorded.made,
        frames_may_be_torn: false,
        has_streams: recorded.has_streams,
        may_lack_entries: false,
        may_have_holes: true,
    };
    wanted.check(disk);
}

/// A power cut: everything below the last sync is there, and nothing else is wrong.
pub fn check_cut(
    recorded: &Recorded,
    seed: u64,
    operation: u64,
    disk: &SimulatedDisk,
    tears: bool,
) {
    let promised = recorded.promised(operation);
    let wanted = Wanted {
        what: format!("seed {seed}, power cut before operation {operation}, tearing: {tears}"),
        model: &recorded.model,
        may_be_gone: promised.is_none(),
        must_have: promised.unwrap_or_else(|| vec![Default::default(); TOPICS]),
        frames_may_be_torn: tears,
        has_streams: recorded.has_streams,
        may_lack_entries: false,
        may_have_holes: true,
    };
    wanted.check(disk);
}

/// 250 recordings, some 4 moments each; `many.rs` has more.
#[test]
fn a_process_crash_costs_nothing_that_was_committed() {
    let mut crashes = 0;
    for seed in 0..250 {
        let recorded = record(seed, false);
        for (operation, disk) in &recorded.moments {
            check_crash(&recorded, seed, *operation, disk);
            crashes += 1;
        }
    }
    assert!(crashes >= 900, "{crashes}");
}

/// 250 recordings, some 4 moments each, most of them twice.
#[test]
fn a_power_cut_costs_nothing_that_was_synced() {
    let mut cuts = 0;
    for seed in 10_000..10_250 {
        let recorded = record(seed, seed % 4 != 0);
        for (operation, disk) in &recorded.moments {
            check_cut(&recorded, seed, *operation, &disk.power_cut(), false);
            cuts += 1;
            if operation % 4 != 0 {
                check_cut(&recorded, seed, *operation, &disk.power_cut(), false);
                cuts += 1;
            }
        }
    }
    assert!(cuts >= 1500, "{cuts}");
}

/// Disks promise to write a sector whole or not at all. One that does not can damage only frames
/// without a checksum that were not synced.
#[test]
fn a_medium_that_tears_sectors_harms_only_unsynced_frames() {
    for seed in 20_000..20_100 {
        let recorded = record(seed, true);
        for (operation, disk) in &recorded.moments {
            check_cut(&recorded, seed, *operation, &disk.power_cut_tearing(), true);
        }
    }
}

/// Recovery is itself cut: by a crash, and by a second power cut. Synced data stays.
#[test]
fn a_recovery_that_is_cut_is_done_again() {
    for seed in 30_000..30_150 {
        let recorded = record(seed, true);
        let mut random = Random(seed);
        for (operation, disk) in &recorded.moments {
            let cut = disk.power_cut();
            cut.watch(random.below(20));
            check_cut(&recorded, seed, *operation, &cut, false);
            for (_, again) in cut.snapshots() {
                check_cut(&recorded, seed, *operation, &again, false);
                check_cut(&recorded, seed, *operation, &again.power_cut(), false);
            }
        }
    }
}

/// A container that was closed in order is on the medium: all of it.
#[test]
fn a_power_cut_after_the_end_costs_nothing() {
    for seed in 40_000..40_200 {
        let recorded = record(seed, false);
        let wanted = Wanted {
            what: format!("seed {seed}"),
            model: &recorded.model,
            must_have: recorded
                .model
                .iter()
                .map(|topic| (1..=topic.len() as u64).collect())
                .collect(),
            may_be_gone: false,
            frames_may_be_torn: false,
            has_streams: recorded.has_streams,
            may_lack_entries: false,
            may_have_holes: true,
        };
        wanted.check(&recorded.disk.power_cut_tearing());
    }
}

/// Messages in a status are there after a crash at any later moment.
#[test]
fn what_a_status_shows_survives_a_crash() {
    for seed in 50_000..50_200 {
        let mut random = Random(seed);
        let disk = SimulatedDisk::new(seed);
        let mut making = Making::begin(&disk).unwrap();
        let mut crashes = Vec::new();
        for _ in 0..20 {
            making.write(random.below(TOPICS as u64) as usize, random.size());
            if random.chance(20) {
                making.let_age();
                let shown = visible(&making.recorder.status());
                crashes.push((shown, disk.crash()));
            }
        }
        for (shown, after) in crashes {
            let wanted = Wanted {
                what: format!("seed {seed}"),
                model: &making.model,
                must_have: shown,
                may_be_gone: false,
                frames_may_be_torn: false,
                has_streams: false,
                may_lack_entries: false,
                may_have_holes: true,
            };
            wanted.check(&after);
        }
    }
}

/// Whatever a power cut leaves of `container.yaml`, topics and messages are found again.
#[test]
fn a_damaged_manifest_is_made_anew() {
    for seed in 60_000..60_050 {
        let recorded = record(seed, true);
        for (operation, disk) in &recorded.moments {
            let Some(promised) = recorded.promised(*operation) else { continue };
            if counts(&promised).iter().sum::<u64>() == 0 {
                continue;
            }
            let cut = disk.power_cut();
            let manifest = Path::new(DIRECTORY).join("container.yaml");
            if seed % 2 == 0 {
                cut.remove(&manifest).unwrap();
            } else {
                cut.replace(&manifest, &[0; 700], true).unwrap();
            }
            let wanted = Wanted {
                what: format!("seed {seed}, operation {operation}"),
                model: &recorded.model,
                must_have: promised,
                may_be_gone: false,
                frames_may_be_torn: false,
                has_streams: recorded.has_streams,
                may_lack_entries: false,
                may_have_holes: true,
            };
            wanted.check(&cut);
        }
    }
}
