//! `livebag push`: recordings into an object store or a folder.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap_complete::ArgValueCompleter;
use livebag::Clock;
use livebag_push::{
    BucketError, GIVE_UP_AFTER_DEFAULT, PushError, PushOptions, PushProgress, Pushed, Target,
    TargetOptions, finish_removal, push,
};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;

use crate::complete;
use crate::outcome::{CliError, Outcome};
use crate::{parse, text, verify};

mod hold;
mod watch;

/// Between two looks for recordings, at least.
const EVERY_MIN: Duration = Duration::from_millis(50);
/// Between two lines of `--json` about one recording.
const LINE_NANOS: u64 = 1_000_000_000;

/// Copy recordings to an object store or a network drive
///
/// Copy recordings to an object store (S3, Google Cloud Storage, Azure) or a folder.
///
/// Nothing counts as pushed before the store confirmed its checksum. What makes a recording complete
/// there comes last. A push that was interrupted goes on where it stopped, and pushing again sends
/// nothing. With --watch it runs until it is stopped, and pushes every recording that is finished.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag push run1 s3://fleet/robot7\n  \
    livebag push run1 run2 s3://fleet/robot7 --max-rate 10Mbit/s\n  \
    livebag push drive.mcap gs://fleet/robot7 --name drive42.mcap\n  \
    livebag push run1 /mnt/nas --json | jq .state\n  \
    livebag push --watch /var/lib/livebag s3://fleet/robot7\n  \
    livebag push --watch runs s3://fleet --delete-pushed --min-free-space 50GB\n\n\
Credentials: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or AWS_PROFILE in \
~/.aws/credentials, or the instance's role; AWS_REGION and AWS_ENDPOINT_URL for other stores than \
AWS's. GOOGLE_APPLICATION_CREDENTIALS. AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY.\n\n\
docs/push.md says what lies in the store.")]
pub struct Args {
    /// Recordings: containers, rosbag2 folders, MCAP and other files. None may be live. With --watch,
    /// folders that have them below.
    #[arg(required = true, value_name = "BAG", add = ArgValueCompleter::new(complete::recordings))]
    bags: Vec<PathBuf>,
    /// Where to: s3://BUCKET/PREFIX, gs://…, az://CONTAINER/PREFIX, or a folder.
    #[arg(required = true, value_name = "TARGET")]
    target: String,
    /// The recording's name there [default: that of its folder or file].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The robot's name in the catalogue, if the recording's custom data has no `robot`
    /// [default: the machine's name]
    #[arg(long, value_name = "ROBOT")]
    robot: Option<String>,
    /// Push every finished recording below BAG, now and later, until interrupted; of live ones the
    /// closed splits. What fails is tried again, after growing pauses.
    #[arg(long, conflicts_with = "name")]
    watch: bool,
    /// With --watch: look for recordings this often.
    #[arg(long, value_name = "TIME", value_parser = pause)]
    #[arg(default_value = "5s", requires = "watch", hide_short_help = true)]
    every: Duration,
    /// With --watch: send in these hours only, in local time: --hours 22:00-06:00,12:00-13:00.
    #[arg(long, value_name = "FROM-TO", value_delimiter = ',', value_parser = hold::DayRange::parse)]
    #[arg(requires = "watch", hide_short_help = true)]
    hours: Vec<hold::DayRange>,
    /// With --watch: send nothing while anything below BAG is being recorded.
    #[arg(long, requires = "watch", hide_short_help = true)]
    not_while_recording: bool,
    /// Send these topics of a container before the others, in this order: --first /imu,/gps.
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    first: Vec<String>,
    /// Send no faster: 10Mbit/s, 2MB/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    max_rate: Option<u64>,
    /// End after so much time in which the store does not answer or is busy.
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero)]
    #[arg(default_value = "2m")]
    give_up_after: Duration,
    /// Read every object back, even where the store's checksum fits.
    #[arg(long)]
    read_back: bool,
    /// Remove each recording from this disk once the store has confirmed every file of it.
    #[arg(long)]
    delete_pushed: bool,
    /// With --watch --delete-pushed: keep recordings while more space than this is free, then remove
    /// the oldest first.
    #[arg(long, value_name = "SIZE", value_parser = parse::size_bytes, requires_all = ["watch", "delete_pushed"])]
    min_free_space: Option<u64>,
    /// Print JSON lines: progress once a second, and what became of each recording.
    #[arg(long)]
    json: bool,
    /// The recorder that started this process: end when it does.
    #[arg(long, value_name = "PID", hide = true)]
    recorder: Option<i32>,
}

const _: () = assert!(GIVE_UP_AFTER_DEFAULT.as_secs() == 120, "the help says 2m");

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    path: String,
    target: String,
    /// The recording's own address there, once it or its closed splits are there.
    address: Option<&'a str>,
    /// `pushing`, `pushed`, `splits_pushed` (the recording is still being made), `deleted` (from this disk) or `failed`.
    state: &'static str,
    size_bytes: Option<u64>,
    stored_bytes: Option<u64>,
    sent_bytes: Option<u64>,
    /// Of a recording that is still being made: how many of its first splits are in the target.
    split_count: Option<u32>,
    file_count: Option<usize>,
    sent_file_count: Option<usize>,
    read_back_file_count: Option<usize>,
    elapsed_nanos: u64,
    error: Option<&'a str>,
}

/// Pushes.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if let Some(recorder) = args.recorder {
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
        // It has died already.
        if getppid().map(Pid::as_raw_nonzero).is_none_or(|parent| parent.get() != recorder) {
            return Ok(Outcome::Failed);
        }
    }
    if args.name.is_some() && args.bags.len() > 1 {
        return Err(CliError::usage("--name is for one recording"));
    }
    let mut options = TargetOptions::default();
    options.rate_bytes_per_s = args.max_rate;
    options.give_up_after = args.give_up_after;
    let target = match Target::open(&args.target, &options) {
        Ok(target) => target,
        Err(error) => {
            let text = error.to_string();
            if args.json {
                let line = Line::new(&args.bags[0], &args.target, "failed", &Clock::system());
                print(&Line { error: Some(&text), ..line })?;
            }
            return Err(match error {
                PushError::Bucket(BucketError::Address(_)) => CliError::usage(text),
                _ => CliError::failed(text),
            });
        }
    };
    // This thread computes the checksums of requests.
    livebag::lower_priority();
    if args.watch {
        let ended = watch::run(args, &target);
        if let (Err(error), true) = (&ended, args.json) {
            let error = error.to_string();
            print(&Line::failed(&args.bags[0], &target, &error, &Clock::system()))?;
        }
        return ended;
    }
    let mut outcome = Outcome::Done;
    for path in &args.bags {
        let clock = Clock::system();
        if args.delete_pushed && is_removed_now(path)? {
            print_deleted(args, path, &target, None, &clock)?;
            continue;
        }
        let mut go_on = || ControlFlow::Continue(());
        let mut done = push_one(args, path, &target, &clock, &mut go_on)?;
        if let Ok(pushed) = &done
            && args.delete_pushed
        {
            done = delete(args, path, &target, pushed, &clock)?.map(|()| pushed.clone());
        }
        if let Err(error) = done {
            if args.json {
                print(&Line::failed(path, &target, &error.to_string(), &clock))?;
            }
            // The others are pushed all the same.
            outcome = CliError::failed(error.to_string()).report();
        }
    }
    Ok(outcome)
}

fn push_options(args: &Args) -> PushOptions {
    let mut options = PushOptions::default();
    options.name = args.name.clone();
    options.read_back = args.read_back;
    options.while_recorded = args.watch;
    options.first = args.first.clone();
    let machine = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    options.robot = Some(args.robot.clone().unwrap_or_else(machine));
    options
}

/// Pushes a recording and shows how that goes; `go_on` may end it. The caller reports its error.
fn push_one(
    args: &Args,
    path: &Path,
    target: &Target,
    clock: &Clock,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Result<Pushed, PushError>, CliError> {
    let bar = verify::bar();
    let line = |state, progress: &PushProgress| Line {
        size_bytes: Some(progress.bytes),
        stored_bytes: Some(progress.stored_bytes),
        sent_bytes: Some(progress.sent_bytes),
        ..Line::new(path, target.address(), state, clock)
    };
    let mut told_nanos = 0;
    let mut output = Ok(());
    let pushed = push(path, target, &push_options(args), &mut |progress| {
        bar.set_length(progress.bytes);
        bar.set_position(progress.stored_bytes);
        let now = clock.monotonic_nanos();
        if args.json && output.is_ok() && now - told_nanos >= LINE_NANOS {
            told_nanos = now;
            output = print(&line("pushing", progress));
        }
        go_on()
    });
    bar.finish_and_clear();
    output?;
    // A watch pushes recordings of all kinds.
    let unknown = pushed.iter().filter(|_| !args.watch).flat_map(|pushed| &pushed.unknown_first);
    for topic in unknown {
        say!("livebag: warning: {} has no topic {topic} to send first", path.display());
    }
    match &pushed {
        Ok(pushed) if args.json => print(&Line {
            size_bytes: Some(pushed.bytes),
            stored_bytes: Some(pushed.bytes),
            sent_bytes: Some(pushed.sent_bytes),
            split_count: pushed.split_count,
            file_count: Some(pushed.objects),
            sent_file_count: Some(pushed.sent_objects),
            read_back_file_count: Some(pushed.read_back_objects),
            address: Some(&pushed.address),
            ..Line::new(path, target.address(), state_of(pushed), clock)
        })?,
        Ok(pushed) => writeln!(std::io::stdout(), "{}", sentence(path, pushed))?,
        Err(_) => {}
    }
    Ok(pushed)
}

/// Removes what was just pushed from this disk, and says so.
fn delete(
    args: &Args,
    path: &Path,
    target: &Target,
    pushed: &Pushed,
    clock: &Clock,
) -> Result<Result<(), PushError>, CliError> {
    let removed = pushed.remove_here(target);
    if removed.is_ok() {
        print_deleted(args, path, target, Some(pushed.bytes), clock)?;
    }
    Ok(removed)
}

/// Whether an earlier command had begun to remove this recording; then the rest is removed.
fn is_removed_now(path: &Path) -> Result<bool, CliError> {
    let is_gone = path.symlink_metadata().is_err();
    let removed = if is_gone { finish_removal(path) } else { Ok(false) };
    removed.map_err(|error| {
        let path = path.display();
        CliError::failed(format!(
            "removing what was left of {path}, which is pushed, failed: {error}"
        ))
    })
}

fn print_deleted(
    args: &Args,
    path: &Path,
    target: &Target,
    size_bytes: Option<u64>,
    clock: &Clock,
) -> Result<(), CliError> {
    if args.json {
        return print(&Line { size_bytes, ..Line::new(path, target.address(), "deleted", clock) });
    }
    let freed =
        size_bytes.map_or_else(String::new, |size| format!(", {}", text::bytes(size as f64)));
    Ok(writeln!(std::io::stdout(), "{}: removed from this disk{freed}", path.display())?)
}

impl<'a> Line<'a> {
    fn new(path: &Path, target: &str, state: &'static str, clock: &Clock) -> Self {
        Self {
            path: path.display().to_string(),
            target: target.to_owned(),
            address: None,
            state,
            size_bytes: None,
            stored_bytes: None,
            sent_bytes: None,
            split_count: None,
            file_count: None,
            sent_file_count: None,
            read_back_file_count: None,
            elapsed_nanos: clock.monotonic_nanos(),
            error: None,
        }
    }

    fn failed(path: &Path, target: &Target, error: &'a str, clock: &Clock) -> Self {
        Self { error: Some(error), ..Self::new(path, target.address(), "failed", clock) }
    }
}

fn print(line: &Line) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    Ok(out.flush()?)
}

fn state_of(pushed: &Pushed) -> &'static str {
    if pushed.is_complete { "pushed" } else { "splits_pushed" }
}

fn sentence(path: &Path, pushed: &Pushed) -> String {
    let what = match pushed.sent_objects {
        0 => "was there already".to_owned(),
        sent => format!("{} sent", text::plural(sent, "file")),
    };
    format!(
        "{} -> {}: {}, {}; {what}, {} over the network in {}; verified{}",
        path.display(),
        pushed.address,
        text::plural(pushed.objects, "file"),
        text::bytes(pushed.bytes as f64),
        text::bytes(pushed.sent_bytes as f64),
        text::duration(pushed.elapsed.as_nanos() as u64),
        if pushed.is_complete { "" } else { "; still being recorded" },
    )
}

/// Each look lists folders.
fn pause(text: &str) -> Result<Duration, String> {
    match parse::duration(text)? {
        short if short < EVERY_MIN => {
            Err(format!("`{text}` is too often: expected 50ms or more, such as 5s"))
        }
        pause => Ok(pause),
    }
}

/// `10Mbit/s`, `2MB/s`: bytes a second.
fn rate(text: &str) -> Result<u64, String> {
    let wrong =
        |_| format!("`{text}` is not a rate: expected something like 10Mbit/s, 2MB/s or 500kB/s");
    let bare = text.trim().trim_end_matches("/s").trim_end_matches("ps");
    let bytes = match bare.strip_suffix("bit") {
        Some(bits) => parse::size_bytes(bits).map_err(wrong)? / 8,
        None => parse::size_bytes(bare).map_err(wrong)?,
    };
    match bytes {
        0..1000 => Err(format!("`{text}` is too slow: expected 8kbit/s or more")),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_or_bytes_a_second() {
        for (text, bytes) in [
            ("10Mbit/s", 1_250_000),
            ("2MB/s", 2_000_000),
            ("8kbit/s", 1000),
            ("1MiB", 1 << 20),
            ("80Mbitps", 10_000_000),
        ] {
            assert_eq!(rate(text), Ok(bytes), "{text}");
        }
        assert!(rate("fast").unwrap_err().contains("expected something like"));
        assert!(rate("0").unwrap_err().contains("too slow"));
    }
}
