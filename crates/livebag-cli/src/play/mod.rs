//! `livebag play`: from recordings into streams, or into a ROS 2 network.

use std::io::Write;
use std::time::Duration;

use livebag::{
    Clock, Output, PlayError, PlayOptions, PlayStatus, PlayedTopic, Player, StreamOutput,
};
use livebag_ros2::RosOutput;
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::{stored, text};

mod args;
mod keys;
mod progress;

pub use args::Args;
use keys::Keys;
use progress::Progress;

/// Interval at which keys and progress are polled.
const LOOK: Duration = Duration::from_millis(10);

/// Printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    /// All of them.
    paths: Vec<String>,
    message_count: u64,
    /// Not published: damaged, out of reach since files are gone, or larger than a stream takes.
    #[serde(rename = "damaged")]
    lost_messages: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    /// How often the end was reached.
    rounds: u64,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
    /// Position at the end, and that of the last message; from the start of playing.
    #[serde(rename = "position_nanos", serialize_with = "crate::json::seconds")]
    position_s: f64,
    #[serde(rename = "length_nanos", serialize_with = "crate::json::seconds")]
    length_s: f64,
    /// The speed at the end.
    rate: f64,
    /// Messages on /clock.
    clock_message_count: u64,
    /// The most that a message came after its time.
    #[serde(rename = "late_max_nanos", serialize_with = "crate::json::milliseconds")]
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
            PlayError::Rate { .. }
            | PlayError::NoTopic { .. }
            | PlayError::NothingChosen { .. }
            | PlayError::Pattern(_)
            | PlayError::ClockRate { .. } => Self::usage(error.to_string()),
            _ => Self::failed(error.to_string()),
        }
    }
}

/// Plays.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    for notice in args.rosbag2.notices()? {
        say!("livebag: {notice}");
    }
    let interrupt = Interrupt::watch()?;
    let clock = Clock::system();
    let options = PlayOptions { clock: clock.clone(), ..args.options()? };
    let mut player =
        Player::open_with(&args.bags(), options, &mut *output(args)?, stored::playable)?;
    let streams: Vec<_> = player.topics().iter().chain(player.clock_topic()).map(report).collect();
    announce(args, &player, &streams);
    let began_nanos = clock.monotonic_nanos();
    let status = play(args, &mut player, &interrupt, clock.clone())?;
    let paths: Vec<_> = args.bags().iter().map(|path| path.display().to_string()).collect();
    let summary = Summary {
        path: paths.first().cloned().unwrap_or_default(),
        paths,
        message_count: status.messages,
        lost_messages: player.lost_count(),
        bytes: status.bytes,
        rounds: status.rounds,
        duration_s: (clock.monotonic_nanos() - began_nanos) as f64 / 1e9,
        position_s: status.position.as_secs_f64(),
        length_s: status.length.as_secs_f64(),
        rate: status.rate,
        clock_message_count: status.clock_messages,
        late_max_ms: status.late_max.as_secs_f64() * 1e3,
        interrupted: interrupt.has_come(),
        streams,
        warnings: player.warnings().map(str::to_owned).collect(),
    };
    conclude(&summary, args.json)
}

/// Where it is played to.
fn output(args: &Args) -> Result<Box<dyn Output>, CliError> {
    let Some(network) = args.network.join("livebag_player")? else {
        return Ok(Box::new(StreamOutput::default()));
    };
    say!("livebag: {}", network.describe());
    let output = RosOutput::new(network);
    Ok(Box::new(match args.wait_for_all_acked {
        Some(millis) => output.acknowledged_within(Duration::from_millis(millis)),
        None => output,
    }))
}

/// Plays on a separate thread, so that neither a slow terminal nor a key delays a message.
fn play(
    args: &Args,
    player: &mut Player,
    interrupt: &Interrupt,
    clock: Clock,
) -> Result<PlayStatus, CliError> {
    let mut keys = match args.disable_keyboard_controls {
        true => None,
        false => Keys::listen(args.rate),
    };
    if keys.is_some() {
        say!("livebag: {}", keys::HELP);
    }
    let control = player.control();
    let mut progress = Progress::begin(clock, args.progress_bar_update_rate);
    let played = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("livebag-play".into());
        let thread = thread.spawn_scoped(scope, || player.run(&mut |_| {}));
        let thread = thread.map_err(PlayError::Thread)?;
        while !thread.is_finished() {
            if interrupt.wait(LOOK) {
                control.stop();
                break;
            }
            let any = keys.as_mut().is_some_and(|keys| keys.look(&control));
            progress.show(&control.status(), any);
        }
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    progress.end();
    Ok(played?)
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
    let paused = if args.start_paused { ", paused" } else { "" };
    let repeat = if args.repeat { ", in a loop (Ctrl-C ends it)" } else { "" };
    say!(
        "livebag: playing {} ({}, {}{rate}{paused}{repeat})",
        args.bags().iter().map(|bag| bag.display().to_string()).collect::<Vec<_>>().join(", "),
        text::messages(player.message_count()),
        text::duration(player.length().as_nanos() as u64),
    );
    for stream in streams {
        let where_to = match args.network.ros2 {
            Some(_) => "on the topic",
            None => "in the stream",
        };
        say!("livebag: {} {where_to} {} ({})", stream.topic, stream.name, stream.kind);
    }
}

fn conclude(summary: &Summary, json: bool) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        writeln!(
            out,
            "published {}, {}, in {:.1} s; at most {} late{}",
            text::messages(summary.message_count),
            text::bytes(summary.bytes as f64),
            summary.duration_s,
            text::duration((summary.late_max_ms * 1e6) as u64),
            if summary.interrupted { "; interrupted" } else { "" },
        )?;
    }
    for warning in &summary.warnings {
        say!("livebag: warning: {warning}");
    }
    Ok(if summary.lost_messages > 0 { Outcome::Loss } else { Outcome::Done })
}
