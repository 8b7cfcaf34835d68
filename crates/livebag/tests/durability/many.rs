//! As many crashes as requested: `LIVEBAG_CRASH_SEEDS=10000`.
//!
//! Every seed is a recording of three topics with frames, small chunks, syncs and, in two of three, splits; it crashes
//! at moments chosen by the seed, in one of five ways.

use livebag::{Compression, Retention};

use crate::common::Random;
use crate::crashes::{Course, Recorded, check_crash, check_cut, record_with};

/// Default number of crashes.
const CRASHES_DEFAULT: u64 = 600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    Process,
    Power,
    /// On a medium that tears sectors.
    PowerTearing,
    /// The recovery after a power cut crashes.
    Recovering,
    /// The recovery after a power cut is cut itself.
    RecoveringCut,
}

const CRASHES: [Crash; 5] =
    [Crash::Process, Crash::Power, Crash::PowerTearing, Crash::Recovering, Crash::RecoveringCut];

/// Of recordings in turn.
const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Zstd, Compression::None, Compression::Lz4];

fn wanted() -> u64 {
    let asked = std::env::var("LIVEBAG_CRASH_SEEDS").ok();
    asked.and_then(|number| number.parse().ok()).unwrap_or(CRASHES_DEFAULT)
}

/// Crashes as `crash` says at every moment of a recording; gives how many there were.
fn crash(recorded: &Recorded, seed: u64, crash: Crash, random: &mut Random, most: u64) -> u64 {
    let mut crashes = 0;
    for (operation, disk) in &recorded.moments {
        if crashes >= most {
            break;
        }
        match crash {
            Crash::Process => check_crash(recorded, seed, *operation, disk),
            Crash::Power => check_cut(recorded, seed, *operation, &disk.power_cut(), false),
            Crash::PowerTearing => {
                check_cut(recorded, seed, *operation, &disk.power_cut_tearing(), true);
            }
            Crash::Recovering | Crash::RecoveringCut => {
                let cut = disk.power_cut();
                cut.watch(random.below(20));
                check_cut(recorded, seed, *operation, &cut, false);
                for (_, again) in cut.snapshots() {
                    let again =
                        if crash == Crash::RecoveringCut { again.power_cut() } else { again };
                    check_cut(recorded, seed, *operation, &again, false);
                    crashes += 1;
                }
            }
        }
        crashes += 1;
    }
    crashes
}

#[test]
fn crashes_of_many_seeds() {
    let wanted = wanted();
    let mut done = [0; CRASHES.len()];
    let mut with_splits = 0;
    let mut seed = 1_000_000;
    while done.iter().sum::<u64>() < wanted {
        let mut random = Random(seed);
        let way = random.below(CRASHES.len() as u64) as usize;
        let course = Course {
            syncs: random.chance(70),
            streams: random.chance(50),
            splits: seed % 3 != 0,
            compression: COMPRESSIONS[(seed % 4) as usize],
            ..Course::default()
        };
        let recorded = record_with(seed, &course);
        let most = wanted - done.iter().sum::<u64>();
        let crashes = crash(&recorded, seed, CRASHES[way], &mut random, most);
        done[way] += crashes;
        with_splits += if course.splits { crashes } else { 0 };
        seed += 1;
    }
    for (crash, count) in CRASHES.iter().zip(done) {
        println!("{crash:?}: {count}");
    }
    let seeds = seed - 1_000_000;
    println!(
        "{} crashes in {seeds} recordings, {with_splits} of them with splits",
        done.iter().sum::<u64>()
    );
    println!("every committed message was there, intact and in order");
}

/// Power cuts while retention removes splits: whatever part of the removal is on the medium, the others open and are
/// intact.
#[test]
fn a_removal_that_is_cut_leaves_the_rest() {
    for seed in 70_000..70_150 {
        let retention = Retention { splits_max: Some(2), ..Retention::default() };
        let recorded = record_with(seed, &Course { splits: true, retention, ..Course::default() });
        for (operation, disk) in &recorded.moments {
            check_cut(&recorded, seed, *operation, &disk.power_cut(), false);
        }
    }
}
