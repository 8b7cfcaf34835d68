//! `livebag play`: from a recording into streams.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use livebag::{Clock, PlayError, PlayOptions, PlayStatus, PlayedTopic, Player, StreamOutput};
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::text;

/// Plain lines of progress come at most so often.
const LINE_NANOS: u64 = 10_000_000_000;
/// The bar moves at most so often.
const BAR_NANOS: u64 = 100_000_000;

/// Publish a recording into streams, at its own pace.
///
/// Image and PointCloud2 messages become native frames, all others stay the messages they are. A
/// topic's stream is named after it (/camera/front: camera.front) and is removed at the end.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag play run1\n  \
    livebag play run1 -r 2 --topics /imu /camera/front\n  \
    livebag play do.bag --loop\n\n\
ROS 1 bags, rosbag2 directories and MCAP files are read through once before they are played.")]
pub struct Args {
    /// The recording: a container, a ROS 1 bag, a rosbag2 directory or an MCAP file.
    bag: PathBuf,
    /// How fast: 2 is twice as fast as recorded.
    #[arg(short, long, value_name = "RATE", default_value_t = 1.0)]
    rate: f64,
    /// Begin again at the end, until Ctrl-C.
    #[arg(short = 'l', long = "loop")]
    repeat: bool,
    /// Play these topics only.
    #[arg(short, long, value_name = "TOPIC", num_args = 1..)]
    topics: Vec<String>,
    /// Print what was played as one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    message_count: u64,
    bytes: u64,
    /// How often the end was reached.
    rounds: u64,
    duration_s: f64,
    /// The most that a message came after its time.
    late_max_ms: f64,
    interrupted: bool,
    streams: Vec<StreamReport>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct StreamReport {
    name: String,
    topic: String,
    #[serde(rename = "type")]
    type_name: String,
    kind: String,
}

impl From<PlayError> for CliError {
    fn from(error: PlayError) -> Self {
        match error {
            PlayError::Rate { .. } | PlayError::NoTopic { .. } => Self::usage(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

/// Plays.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let interrupt = Interrupt::watch()?;
    let clock = Clock::system();
    let options = PlayOptions {
        rate: args.rate,
        repeat: args.repeat,
        topics: args.topics.clone(),
        clock: clock.clone(),
        ..PlayOptions::default()
    };
    let mut player = Player::open(&args.bag, options, &mut StreamOutput::default())?;
    let streams: Vec<_> = player.topics().iter().map(report).collect();
    announce(args, &player, &streams);
    let began_nanos = clock.monotonic_nanos();
    let mut progress = Progress::begin(clock.clone());
    let played = player.run(interrupt.flag(), &mut |status| progress.show(status));
    progress.end();
    let status = played?;
    let summary = Summary {
        path: args.bag.display().to_string(),
        message_count: status.messages,
        bytes: status.bytes,
        rounds: status.rounds,
        duration_s: (clock.monotonic_nanos() - began_nanos) as f64 / 1e9,
        late_max_ms: status.late_max.as_secs_f64() * 1e3,
        interrupted: interrupt.has_come(),
        streams,
        warnings: player.warnings().map(str::to_owned).collect(),
    };
    conclude(&summary, args.json)
}

fn report(played: &PlayedTopic) -> StreamReport {
    StreamReport {
        name: played.name().to_owned(),
        topic: played.topic().name.clone(),
        type_name: played.topic().type_name.clone(),
        kind: played.kind().to_owned(),
    }
}

fn announce(args: &Args, player: &Player, streams: &[StreamReport]) {
    let rate =
        if args.rate == 1.0 { String::new() } else { format!(", {} times as fast", args.rate) };
    let repeat = if args.repeat { ", in a loop (Ctrl-C ends it)" } else { "" };
    eprintln!(
        "livebag: playing {} ({} messages, {}{rate}{repeat})",
        args.bag.display(),
        text::count(player.message_count()),
        text::duration(player.length().as_nanos() as u64),
    );
    for stream in streams {
        eprintln!("livebag: {} in the stream {} ({})", stream.topic, stream.name, stream.kind);
    }
}

fn conclude(summary: &Summary, json: bool) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        writeln!(
            out,
            "published {} messages, {}, in {:.1} s; at most {} late{}",
            text::count(summary.message_count),
            text::bytes(summary.bytes as f64),
            summary.duration_s,
            text::duration((summary.late_max_ms * 1e6) as u64),
            if summary.interrupted { "; interrupted" } else { "" },
        )?;
    }
    for warning in &summary.warnings {
        eprintln!("livebag: warning: {warning}");
    }
    Ok(Outcome::Done)
}

/// How it goes, on standard error: a bar on a terminal, a line now and then elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    clock: Clock,
    shown_nanos: u64,
}

impl Progress {
    fn begin(clock: Clock) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, shown_nanos: clock.monotonic_nanos(), clock }
    }

    fn show(&mut self, status: &PlayStatus) {
        let now = self.clock.monotonic_nanos();
        let pause = if self.bar.is_some() { BAR_NANOS } else { LINE_NANOS };
        if now - self.shown_nanos < pause {
            return;
        }
        self.shown_nanos = now;
        let line = line(status);
        match &self.bar {
            Some(bar) => {
                bar.set_position(status.position.as_nanos() as u64);
                bar.set_length((status.length.as_nanos() as u64).max(1));
                bar.set_message(line);
            }
            None => eprintln!("livebag: {line}"),
        }
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(status: &PlayStatus) -> String {
    let at = |time: Duration| text::duration(time.as_nanos() as u64);
    let rounds = match status.rounds {
        0 => String::new(),
        rounds => format!(", round {}", rounds + 1),
    };
    format!(
        "{} of {}, {} messages{rounds}",
        at(status.position),
        at(status.length),
        text::count(status.messages)
    )
}
