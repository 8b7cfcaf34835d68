//! The questions, the repeats, and the rows.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::data::{SECONDS, SOURCES, START_NANOS, total_bytes};
use super::readers::{self, Answer, Question};
use super::write::{Recordings, write_all};
use crate::error::{BenchError, Result};
use crate::files;
use crate::report::{Row, figure, row};
use crate::stats;

/// Ranges in seconds, besides the whole topic.
const RANGES: [u64; 3] = [1, 5, 20];

/// Options of `livebag-bench query`. Without them: everything.
#[derive(Debug, Clone, Args)]
pub struct QueryArgs {
    /// Length of the recording, 1 for 45 s and 2.9 GB in each of three formats
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    pub scale: f64,
    /// How often all is repeated; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeats: u32,
    /// Only these topics
    #[arg(long, value_name = "TOPIC")]
    pub topic: Vec<String>,
    /// Where the recordings are made, and removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench-runs/tmp")]
    pub dir: PathBuf,
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "topic",
    "range_s",
    "cache",
    "open_ms",
    "total_ms",
    "messages",
    "bytes",
    "gb_per_s",
    "this_over_livebag",
];

type Reader = fn(&Path, &Question<'_>) -> Result<Answer>;

/// What the runs gave.
pub struct Outcome {
    /// One per system and question.
    pub rows: Vec<Row>,
    /// One per run.
    pub runs: Vec<Row>,
}

fn systems(recordings: &Recordings, cold: bool) -> Vec<(&'static str, &Path, Reader)> {
    let mut systems: Vec<(_, &Path, Reader)> = vec![
        ("livebag", &recordings.container, readers::livebag),
        ("livebag-pread", &recordings.container, readers::livebag_pread),
        ("mcap-chunked", &recordings.mcap, readers::mcap_mapped),
        ("mcap-chunked-pread", &recordings.mcap, readers::mcap_pread),
        ("rosbag1", &recordings.bag, readers::rosbag1),
    ];
    if cold {
        systems.push(("floor", &recordings.container, readers::floor));
    }
    systems
}

/// Writes the recordings, asks every question of every system in turn, and removes them.
pub fn measure(args: &QueryArgs) -> Result<Outcome> {
    if !(args.scale > 0.0 && total_bytes(args.scale) * 3 < 20_000_000_000) {
        let problem = format!("--scale {} is not between 0 and 2", args.scale);
        return Err(BenchError::Usage(problem));
    }
    std::fs::create_dir_all(&args.dir)
        .map_err(|e| BenchError::io(format!("creating {}", args.dir.display()), e))?;
    let folder = tempfile::tempdir_in(&args.dir)
        .map_err(|e| BenchError::io(format!("creating a folder in {}", args.dir.display()), e))?;
    eprintln!("query: writing {:.1} GB three times", total_bytes(args.scale) as f64 / 1e9);
    let recordings = write_all(folder.path(), args.scale)?;
    let mut outcome = Outcome { rows: Vec::new(), runs: Vec::new() };
    let is_wanted = |name: &str| args.topic.is_empty() || args.topic.iter().any(|t| t == name);
    for source in SOURCES.iter().filter(|source| is_wanted(source.name)) {
        for range_s in [None].into_iter().chain(RANGES.map(Some)) {
            // From a third of the recording on, so that ranges lie inside it.
            let from = START_NANOS + (15e9 * args.scale) as u64;
            let range = range_s.map(|s| (from, from + (s as f64 * args.scale * 1e9) as u64));
            let question = Question { topic: source.name, range };
            for cold in [true, false] {
                eprintln!("query: {} {range_s:?} s, cold {cold}", source.name);
                ask(args, &recordings, &question, (range_s, cold), &mut outcome)?;
            }
        }
    }
    open_a_terabyte(&recordings.container, folder.path(), &mut outcome)?;
    Ok(outcome)
}

fn ask(
    args: &QueryArgs,
    recordings: &Recordings,
    question: &Question<'_>,
    (range_s, cold): (Option<u64>, bool),
    outcome: &mut Outcome,
) -> Result<()> {
    let systems = systems(recordings, cold);
    let mut totals: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut opens: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut counts = BTreeMap::new();
    for repeat in 0..=args.repeats {
        for (system, path, read) in &systems {
            if cold {
                files::drop_from_cache(path)?;
                touch_memory(args.scale, range_s);
            }
            let answer = read(path, question)?;
            // The first round warms the cache, or settles the device.
            if repeat == 0 {
                continue;
            }
            let (open_ms, total_ms) =
                (answer.open_nanos as f64 / 1e6, answer.total_nanos as f64 / 1e6);
            opens.entry(system).or_default().push(open_ms);
            totals.entry(system).or_default().push(total_ms);
            counts.insert(*system, (answer.messages, answer.bytes));
            outcome.runs.push(row(&json!({
                "system": system, "topic": question.topic, "range_s": range_s,
                "cache": if cold { "cold" } else { "warm" }, "repeat": repeat,
                "open_ms": open_ms, "total_ms": total_ms,
                "messages": answer.messages, "bytes": answer.bytes,
            })));
        }
    }
    let expected = counts["livebag"];
    for (system, ..) in &systems {
        if counts[system] != expected {
            let problem = format!("{:?}, livebag found {expected:?}", counts[system]);
            return Err(BenchError::Child { role: format!("{system}'s answer"), problem });
        }
        let total_ms = stats::median(&totals[system]);
        let mut line = row(&json!({
            "system": system, "topic": question.topic, "range_s": range_s,
            "cache": if cold { "cold" } else { "warm" },
            "messages": expected.0, "bytes": expected.1,
            "this_over_livebag": stats::ratio(&totals[system], &totals["livebag"]),
        }));
        line.insert("open_ms".into(), figure(stats::median(&opens[system])));
        line.insert("total_ms".into(), figure(total_ms));
        line.insert("gb_per_s".into(), figure(total_ms.map(|ms| expected.1 as f64 / ms / 1e6)));
        outcome.rows.push(line);
    }
    Ok(())
}

/// Uses as much memory as the page cache will take, and gives it back. A virtual machine's host takes memory
/// that has been free for two seconds (free page reporting), and gives it again more slowly than the device
/// reads: who comes after a reader that left much memory free would wait for that, and for no device.
fn touch_memory(scale: f64, range_s: Option<u64>) {
    let share = range_s.map_or(1.0, |seconds| seconds as f64 / SECONDS);
    let bytes = total_bytes(scale) as f64 * share;
    let mut memory = vec![0u8; bytes as usize];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
}

/// Opens the container, and one whose indexes and bricks claim a thousand times its size (sparse
/// files: lengths without contents).
fn open_a_terabyte(container: &Path, folder: &Path, outcome: &mut Outcome) -> Result<()> {
    let huge = folder.join("terabyte");
    let bytes = files::copy_sparse(container, &huge, 400)?;
    for (path, bytes) in [(container, files::total_bytes(container)?), (&*huge, bytes)] {
        let mut times = Vec::new();
        for _ in 0..20 {
            let start = crate::clock::monotonic_nanos();
            let bag = livebag::Container::open(path).map_err(|e| BenchError::Child {
                role: "opening".into(),
                problem: e.to_string(),
            })?;
            std::hint::black_box(bag.topics().len());
            times.push((crate::clock::monotonic_nanos() - start) as f64 / 1e6);
        }
        let mut line =
            row(&json!({"system": "livebag", "topic": "(open)", "cache": "warm", "bytes": bytes}));
        line.insert("open_ms".into(), figure(stats::median(&times)));
        outcome.rows.push(line);
    }
    Ok(())
}
