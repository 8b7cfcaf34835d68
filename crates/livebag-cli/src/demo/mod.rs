//! `livebag demo`: the main job on this machine, as one command.
//!
//! Sensors and the recorder (`livebag record`) are separate processes; this process queries the newest second of the
//! recording while it grows.

use std::path::PathBuf;
use std::time::Duration;

use livebag::{Clock, Container};

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::{parse, text};

mod plan;
mod processes;
pub mod sensor;
mod summary;
mod watch;

use plan::Plan;
use processes::{RecorderProcess, Sensors};
use summary::Summary;
use watch::Watch;

/// Time between two questions to the recording.
const QUESTION: Duration = Duration::from_millis(250);
/// Time between two lines of progress, in questions.
const LINE_QUESTIONS: u64 = 4;

/// Record simulated sensors, and query the recording.
///
/// Cameras, a LiDAR and an IMU: the recording is asked for its newest second while it grows.
///
/// Eight FullHD cameras at 30 Hz (1.49 GB/s), or as many as this machine can record, each a separate process that
/// publishes through shared memory. The recording is kept.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag demo\n  \
    livebag demo --duration 3 --cameras 2 -o /data/demo\n  \
    livebag demo --real do.bag\n\n\
Exit codes: 0 nothing lost, 1 failed, 2 wrong usage, 3 finished, but messages were lost.")]
pub struct Args {
    /// Publish the frames of this recording again and again, single ones at 30 Hz, in place of
    /// simulated sensors.
    #[arg(long, value_name = "BAG", conflicts_with = "cameras")]
    real: Option<PathBuf>,
    /// How long to record.
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero)]
    #[arg(default_value = "10")]
    duration: Duration,
    /// The option's earlier name.
    #[arg(long, value_parser = parse::duration_above_zero, hide = true)]
    #[arg(conflicts_with = "duration")]
    seconds: Option<Duration>,
    /// FullHD cameras [default: 8, or as many as this machine can record]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=64))]
    cameras: Option<u32>,
    /// The container to make [default: build/demo-<time>]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The option's earlier name.
    #[arg(long, hide = true, conflicts_with = "output")]
    dir: Option<PathBuf>,
    /// Print the summary as one JSON object.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn duration(&self) -> Duration {
        parse::renamed(self.seconds, "--seconds", "--duration").unwrap_or(self.duration)
    }

    fn output(&self) -> Option<PathBuf> {
        parse::renamed(self.dir.clone(), "--dir", "-o").or_else(|| self.output.clone())
    }
}

/// Records, queries, sums up.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let interrupt = Interrupt::watch()?;
    let clock = Clock::system();
    let plan = Plan::make(args, &clock)?;
    for note in &plan.notes {
        say!("livebag: {note}");
    }
    let sensors = Sensors::start(&plan)?;
    say!(
        "livebag: publishing processes: {}, with {} in all; a recorder takes it to {} for {:.0} s",
        plan.sensors.len(),
        text::bytes_per_second(plan.bytes_per_s()),
        plan.directory.display(),
        plan.duration.as_secs_f64(),
    );
    if interrupt.has_come() {
        return Err(CliError::failed("interrupted before anything was recorded"));
    }
    let recorder = RecorderProcess::start(sensors.streams(), &plan)?;
    let watch = accompany(&recorder, &plan, &interrupt, &clock);
    let recorded = recorder.end(&clock)?;
    drop(sensors);
    let bag = Container::open(&plan.directory)?;
    let summary = Summary::new(&plan, &bag, recorded.cpu_s, &watch)?;
    summary.print(args.json)?;
    Ok(if summary.lost() > 0 { Outcome::Loss } else { Outcome::Done })
}

/// Asks the recording until it has ended, or ends it when the user does.
fn accompany(
    recorder: &RecorderProcess,
    plan: &Plan,
    interrupt: &Interrupt,
    clock: &Clock,
) -> Watch {
    let mut watch = Watch::new(plan, clock.clone());
    let mut questions: u64 = 0;
    let mut is_told = false;
    while !recorder.has_ended() {
        if is_told {
            clock.sleep(QUESTION / 10);
            continue;
        }
        if interrupt.wait(QUESTION) {
            // Once: a second signal would end it without closing the container.
            recorder.interrupt();
            is_told = true;
            continue;
        }
        watch.ask();
        questions += 1;
        if questions.is_multiple_of(LINE_QUESTIONS)
            && let Some(line) = watch.line()
        {
            say!("livebag: {line}");
        }
    }
    watch
}
