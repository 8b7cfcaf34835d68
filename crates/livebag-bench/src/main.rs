//! livebag compared with its peers: streams, recording, query.
//!
//! Every figure that livebag claims is measured here, alternating with its peers in one run. `livebag-bench <bench>
//! --json` prints one object, without `--json` a table; the raw results of every run are kept in `bench-runs/`.

mod cameras;
mod child;
mod cycle;
mod error;
mod files;
mod frame;
mod kernel_cpu;
mod online;
mod page;
mod place;
mod query;
mod record;
mod recover;
mod region;
mod report;
mod ros2;
mod soak;
mod stream;
mod submit;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use error::{BenchError, Result};
use livebag_bench::{clock, double_buffer, machine, mcap_file, stats, usage};
use machine::Machine;
use report::Report;
use stream::matrix::StreamArgs;

/// Measures livebag and its peers, alternating.
#[derive(Parser)]
#[command(version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  livebag-bench stream --payload 921600 --readers 1 --frames 500
  livebag-bench stream --torn
  livebag-bench record --workload fullhd8 --mode paced --json
  livebag-bench cameras --quick
  livebag-bench cycle --core 1 --seconds 10
  livebag-bench all --out bench-runs";

#[derive(Subcommand)]
enum Verb {
    /// Latency from just before publishing to the frame in the reader's hands
    Stream {
        #[command(flatten)]
        args: StreamArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Recording: how much arrives on the disk, how fast, at what cost
    Record {
        #[command(flatten)]
        args: record::matrix::RecordArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Opening a finished recording and reading one topic of it
    Query {
        #[command(flatten)]
        args: query::matrix::QueryArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// How long opening takes after a crash, by the length of the recording
    Recover {
        #[command(flatten)]
        args: recover::RecoverArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// How many cameras are recorded without a loss (SPEED, Figures 8 and 9)
    Cameras {
        #[command(flatten)]
        args: cameras::CamerasArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// The time of each step of a message on its way to the disk (SPEED, Figure 7)
    Submit {
        #[command(flatten)]
        args: submit::SubmitArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// What recording costs an application on the same processor (SPEED, Figure 10)
    Cycle {
        #[command(flatten)]
        args: cycle::CycleArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// A long recording in a bounded folder: memory, disk, losses
    Soak {
        #[command(flatten)]
        args: soak::SoakArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Queries of a live recording (ROSfs, Figures 13 to 16)
    Online {
        #[command(flatten)]
        args: online::OnlineArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// The requests of a page that shows a recording, and their cost for the recorder
    Page {
        #[command(flatten)]
        args: page::PageArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// ROS 2 networks: messages carried, recorded, played and bridged
    Ros2 {
        #[command(flatten)]
        args: ros2::Ros2Args,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Every benchmark with its defaults (but soak)
    All {
        #[command(flatten)]
        output: OutputArgs,
    },
    #[command(name = stream::run::WRITER_ROLE, hide = true)]
    StreamWriter { orders: String },
    #[command(name = stream::run::READER_ROLE, hide = true)]
    StreamReader { orders: String },
    #[command(name = stream::torn::READER_ROLE, hide = true)]
    StreamSlowReader { orders: String },
    #[command(name = stream::torn::HOG_ROLE, hide = true)]
    StreamHog { orders: String },
    #[command(name = record::producer::ROLE, hide = true)]
    RecordProducer { orders: String },
    #[command(name = record::recorder::ROLE, hide = true)]
    RecordRecorder { orders: String },
    #[command(name = cycle::APPLICATION_ROLE, hide = true)]
    CycleApplication { orders: String },
    #[command(name = ros2::party::ROLE, hide = true)]
    Ros2Party { orders: String },
}

#[derive(Args, Clone)]
struct OutputArgs {
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Where the raw results go
    #[arg(long, value_name = "DIR", default_value = "bench-runs")]
    out: PathBuf,
    /// Write results also if this binary was built from no known commit
    #[arg(long)]
    any_commit: bool,
}

fn main() -> ExitCode {
    livebag::raise_file_limit();
    match run(Cli::parse().verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("livebag-bench: {e}");
            ExitCode::from(e.exit_code())
        }
    }
}

impl Verb {
    /// Where a benchmark's results go; none for the processes that take part in one.
    fn output(&self) -> Option<&OutputArgs> {
        match self {
            Self::Stream { output, .. }
            | Self::Record { output, .. }
            | Self::Query { output, .. }
            | Self::Recover { output, .. }
            | Self::Cameras { output, .. }
            | Self::Submit { output, .. }
            | Self::Cycle { output, .. }
            | Self::Soak { output, .. }
            | Self::Online { output, .. }
            | Self::Page { output, .. }
            | Self::Ros2 { output, .. }
            | Self::All { output } => Some(output),
            _ => None,
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    if verb.output().is_some_and(|output| !output.any_commit) {
        machine::check_commit().map_err(BenchError::Usage)?;
    }
    match verb {
        Verb::Stream { args, output } => stream(&args, &output),
        Verb::Record { args, output } => record(&args, &output),
        Verb::Query { args, output } => query(&args, &output),
        Verb::Recover { args, output } => recover(&args, &output),
        Verb::Cameras { args, output } => cameras(&args, &output),
        Verb::Submit { args, output } => submit(&args, &output),
        Verb::Cycle { args, output } => cycle(&args, &output),
        Verb::Soak { args, output } => soak(&args, &output),
        Verb::Online { args, output } => online(&args, &output),
        Verb::Page { args, output } => page(&args, &output),
        Verb::Ros2 { args, output } => ros2(&args, &output),
        Verb::All { output } => all(&output),
        Verb::StreamWriter { orders } => stream::run::write(&orders),
        Verb::StreamReader { orders } => stream::run::read(&orders),
        Verb::StreamSlowReader { orders } => stream::torn::read(&orders),
        Verb::StreamHog { orders } => stream::torn::hog(&orders),
        Verb::RecordProducer { orders } => record::producer::produce(&orders),
        Verb::RecordRecorder { orders } => record::recorder::record(&orders),
        Verb::CycleApplication { orders } => cycle::compute(&orders),
        Verb::Ros2Party { orders } => ros2::party::run(&orders),
    }
}

fn stream(args: &StreamArgs, output: &OutputArgs) -> Result<()> {
    let machine = Machine::describe(Path::new("/dev/shm"));
    let outcome = if args.torn {
        let rows = stream::torn::demonstrate(args.frames)?;
        stream::matrix::Outcome { runs: rows.clone(), rows, failures: Vec::new() }
    } else {
        stream::matrix::measure(args)?
    };
    let stream::matrix::Outcome { rows, runs, failures } = outcome;
    publish(
        Report { bench: "stream", machine, rows, runs, failures },
        output,
        stream::matrix::COLUMNS,
    )
}

fn record(args: &record::matrix::RecordArgs, output: &OutputArgs) -> Result<()> {
    let outcome = record::matrix::measure(args)?;
    publish_recorded("record", &args.place.directory(), outcome, output, record::matrix::COLUMNS)
}

fn recover(args: &recover::RecoverArgs, output: &OutputArgs) -> Result<()> {
    let recover::Outcome { rows, runs } = recover::measure(args)?;
    let machine = Machine::describe(&args.place.directory());
    publish(
        Report { bench: "recover", machine, rows, runs, failures: Vec::new() },
        output,
        recover::COLUMNS,
    )
}

fn cameras(args: &cameras::CamerasArgs, output: &OutputArgs) -> Result<()> {
    let outcome = cameras::measure(args)?;
    publish_recorded("cameras", &args.place.directory(), outcome, output, cameras::COLUMNS)
}

fn submit(args: &submit::SubmitArgs, output: &OutputArgs) -> Result<()> {
    let outcome = submit::measure(args)?;
    publish_recorded("submit", &args.place.directory(), outcome, output, submit::COLUMNS)
}

fn cycle(args: &cycle::CycleArgs, output: &OutputArgs) -> Result<()> {
    let outcome = cycle::measure(args)?;
    publish_recorded("cycle", &args.place.directory(), outcome, output, cycle::COLUMNS)
}

fn soak(args: &soak::SoakArgs, output: &OutputArgs) -> Result<()> {
    let outcome = soak::measure(args)?;
    publish_recorded("soak", &args.place.directory(), outcome, output, soak::COLUMNS)
}

fn ros2(args: &ros2::Ros2Args, output: &OutputArgs) -> Result<()> {
    let outcome = ros2::measure(args)?;
    publish_recorded("ros2", &args.place.directory(), outcome, output, ros2::COLUMNS)
}

/// Prints the result of recording into `directory`, and keeps it.
fn publish_recorded(
    bench: &'static str,
    directory: &Path,
    outcome: record::matrix::Outcome,
    output: &OutputArgs,
    columns: &[&str],
) -> Result<()> {
    let machine = Machine::describe(directory);
    let record::matrix::Outcome { rows, runs, failures } = outcome;
    publish(Report { bench, machine, rows, runs, failures }, output, columns)
}

fn online(args: &online::OnlineArgs, output: &OutputArgs) -> Result<()> {
    let online::Outcome { rows, runs } = online::measure(args)?;
    let machine = Machine::describe(&args.place.directory());
    publish(
        Report { bench: "online", machine, rows, runs, failures: Vec::new() },
        output,
        online::COLUMNS,
    )
}

fn page(args: &page::PageArgs, output: &OutputArgs) -> Result<()> {
    let page::Outcome { rows, runs } = page::measure(args)?;
    let machine = Machine::describe(&args.place.directory());
    publish(
        Report { bench: "page", machine, rows, runs, failures: Vec::new() },
        output,
        page::COLUMNS,
    )
}

fn query(args: &query::matrix::QueryArgs, output: &OutputArgs) -> Result<()> {
    let query::matrix::Outcome { rows, runs } = query::matrix::measure(args)?;
    let machine = Machine::describe(&args.dir);
    publish(
        Report { bench: "query", machine, rows, runs, failures: Vec::new() },
        output,
        query::matrix::COLUMNS,
    )
}

/// Prints and keeps the report; a run that failed fails the command, after all is printed.
fn publish(report: Report, output: &OutputArgs, columns: &[&str]) -> Result<()> {
    report.publish(output.json, columns, &output.out)?;
    if report.failures.is_empty() {
        return Ok(());
    }
    let count = report.failures.len();
    Err(BenchError::Child {
        role: "measuring".to_owned(),
        problem: format!("failed in {count} runs, which are named above"),
    })
}

fn all(output: &OutputArgs) -> Result<()> {
    #[derive(Parser)]
    struct Defaults<A: Args> {
        #[command(flatten)]
        args: A,
    }
    fn defaults<A: Args>(words: &[&str]) -> A {
        Defaults::parse_from([&["all"], words].concat()).args
    }
    let steps = [
        stream(&defaults(&[]), output),
        stream(&defaults(&["--growth"]), output),
        stream(&defaults(&["--torn"]), output),
        record(&defaults(&[]), output),
        query(&defaults(&[]), output),
        recover(&defaults(&[]), output),
        cameras(&defaults(&[]), output),
        submit(&defaults(&[]), output),
        cycle(&defaults(&[]), output),
        online(&defaults(&[]), output),
        page(&defaults(&[]), output),
        ros2(&defaults(&[]), output),
    ];
    steps.into_iter().collect()
}
