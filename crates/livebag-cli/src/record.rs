//! `livebag record`: from streams into a container.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Bag, Clock, RecordError, Recorder, RecorderOptions, Selector};
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::report::{self, Lost, TopicReport};
use crate::{parse, text};

mod names;
mod progress;

use names::Wanted;
use progress::Progress;

/// Time between two looks at the recorder.
const LOOK: Duration = Duration::from_millis(200);

/// Record streams into a container, until Ctrl-C or for a given time.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag record -a\n  \
    livebag record camera_front camera_rear /imu -o run1 --duration 60\n  \
    livebag record -e '^/camera' --exclude-regex depth -o run2\n\n\
Exit codes: 0 nothing lost, 1 failed or ended early, 2 wrong usage, 3 finished, but messages were lost.\n\n\
Environment:\n  \
    LIVEBAG_STORAGE  how bytes reach the disk: io_uring (default) or pwrite, with ,buffered behind \
either to go through the page cache")]
pub struct Args {
    /// Names of streams, or topics they carry (/camera_front).
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Record every stream, also those that appear later.
    #[arg(short, long)]
    all: bool,
    /// Record streams whose name or topic matches this regular expression.
    #[arg(short = 'e', long, value_name = "RE")]
    regex: Option<String>,
    /// Leave out streams whose name or topic matches this regular expression.
    #[arg(long, value_name = "RE")]
    exclude_regex: Option<String>,
    /// The container to make [default: livebag_%Y_%m_%d-%H_%M_%S]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Stop after this time: 60, 1.5s, 2m30s.
    #[arg(long, value_name = "S", value_parser = parse::duration_above_zero)]
    duration: Option<Duration>,
    /// Bound of everything waiting in memory: bytes, 100MiB, 1GB.
    #[arg(long, value_name = "B", default_value = "200MiB", value_parser = parse::size_bytes)]
    max_cache_size: u64,
    /// Print the final summary as one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    /// How bytes reached the disk, and why not by a better way.
    storage: Storage,
    /// What ended the recording early.
    failure: Option<String>,
    /// From the first look at the streams to the end.
    duration_s: f64,
    message_count: u64,
    bytes: u64,
    gb_per_s: f64,
    lost: Lost,
    /// Names asked for that never appeared.
    missing: Vec<String>,
    topics: Vec<TopicReport>,
}

#[derive(Serialize, Default)]
struct Storage {
    method: String,
    reasons: Vec<String>,
}

/// Records.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let selectors = selectors(args)?;
    let mut wanted = Wanted::new(&args.names)?;
    let clock = Clock::system();
    let directory = match &args.output {
        Some(directory) => directory.clone(),
        None => PathBuf::from(text::recording_name(clock.wall_nanos())),
    };
    let interrupt = Interrupt::watch()?;
    let options = RecorderOptions {
        cache_bytes_max: args.max_cache_size,
        clock: clock.clone(),
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&directory, options)?;
    let storage = announce(&recorder, &directory);
    for selector in selectors {
        recorder.follow(selector)?;
    }
    if args.all {
        for refusal in names::unreadable() {
            eprintln!("livebag: warning: not recorded: {refusal}");
        }
    }
    let began = clock.monotonic_nanos();
    let progress = Progress::begin(clock.clone(), &directory);
    watch(&recorder, &interrupt, args.duration, &clock, progress, &mut wanted);
    let elapsed_s = (clock.monotonic_nanos() - began) as f64 / 1e9;
    wanted.look(&recorder.status());
    let failure = match recorder.finish() {
        Ok(_) => None,
        Err(RecordError::Failed(failure)) => Some(failure),
        Err(error) => return Err(error.into()),
    };
    let missing = wanted.missing();
    conclude(&summary(&directory, storage, failure, elapsed_s, missing)?, args.json)
}

fn selectors(args: &Args) -> Result<Vec<Selector>, CliError> {
    let mut selectors = Vec::new();
    if args.all {
        selectors.push(Selector::all());
    }
    if !args.names.is_empty() {
        selectors.push(Selector::names(&args.names));
    }
    let refused = |error: livebag::SelectorError| CliError::usage(error.to_string());
    if let Some(pattern) = &args.regex {
        selectors.push(Selector::regex(pattern).map_err(refused)?);
    }
    if selectors.is_empty() {
        return Err(CliError::usage(
            "nothing to record: give names of streams or topics, a pattern (-e RE), or --all; \
             `livebag streams` lists what there is",
        ));
    }
    match &args.exclude_regex {
        None => Ok(selectors),
        Some(pattern) => {
            selectors.into_iter().map(|s| s.excluding(pattern).map_err(refused)).collect()
        }
    }
}

/// Says once where and how bytes go.
fn announce(recorder: &Recorder, directory: &Path) -> Storage {
    let storage = recorder.method().map_or_else(Storage::default, |choice| Storage {
        method: choice.method.to_string(),
        reasons: choice.reasons.clone(),
    });
    eprintln!("livebag: recording into {} ({})", directory.display(), storage.method);
    for reason in &storage.reasons {
        eprintln!("livebag: {reason}");
    }
    storage
}

fn watch(
    recorder: &Recorder,
    interrupt: &Interrupt,
    duration: Option<Duration>,
    clock: &Clock,
    mut progress: Progress,
    wanted: &mut Wanted,
) {
    let began = clock.monotonic_nanos();
    let end = duration.map(|time| began.saturating_add(time.as_nanos() as u64));
    loop {
        let status = recorder.status();
        wanted.look(&status);
        progress.show(&status);
        let left = end.map(|end| end.saturating_sub(clock.monotonic_nanos()));
        if status.failure.is_some() || left == Some(0) {
            break;
        }
        let pause = left.map_or(LOOK, |left| LOOK.min(Duration::from_nanos(left)));
        if interrupt.wait(pause) {
            break;
        }
    }
    progress.end();
}

/// What is on the disk now, as anybody who opens the container will find it.
fn summary(
    directory: &Path,
    storage: Storage,
    failure: Option<String>,
    duration_s: f64,
    missing: Vec<String>,
) -> Result<Summary, CliError> {
    let bag = Bag::open(directory)?;
    let topics = report::topics(&bag)?;
    let bytes = topics.iter().map(|topic| topic.bytes).sum();
    Ok(Summary {
        path: directory.display().to_string(),
        storage,
        failure,
        duration_s,
        message_count: topics.iter().map(|topic| topic.message_count).sum(),
        bytes,
        gb_per_s: bytes as f64 / 1e9 / duration_s.max(1e-9),
        lost: bag.lost().into(),
        missing,
        topics,
    })
}

fn conclude(summary: &Summary, json: bool) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        write!(out, "{}", render(summary))?;
    }
    for name in &summary.missing {
        eprintln!("livebag: warning: {name}");
    }
    if let Some(failure) = &summary.failure {
        eprintln!(
            "livebag: the recording ended early: {failure}; everything written before it is kept \
             and readable"
        );
        return Ok(Outcome::Failed);
    }
    Ok(if summary.lost.total() > 0 { Outcome::Loss } else { Outcome::Done })
}

fn render(summary: &Summary) -> String {
    let mut out = String::new();
    if summary.topics.is_empty() {
        out.push_str("no stream appeared, nothing was recorded\n");
    } else {
        out.push_str(&report::table(&summary.topics));
    }
    let lost = match summary.lost.total() {
        0 => "nothing lost".into(),
        _ => format!("lost {}", summary.lost.cell()),
    };
    out.push_str(&format!(
        "\n{}, {} messages, {} in {:.1} s ({:.2} GB/s), {lost}\n{path}   (livebag info {path})\n",
        text::plural(summary.topics.len(), "topic"),
        text::count(summary.message_count),
        text::bytes(summary.bytes as f64),
        summary.duration_s,
        summary.gb_per_s,
        path = summary.path,
    ));
    out
}
