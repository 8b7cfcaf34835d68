//! `livebag query`: any moment of a recording, finished or running.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use clap_complete::ArgValueCompleter;
use livebag::{Clock, Container, Query, Span};
use livebag_bags::RecordingKind;
use livebag_format::container::CONTAINER_FILE;

use crate::complete;
use crate::outcome::{CliError, Outcome};
use crate::parse;
use crate::place::{Place, Trust};
use crate::select::{self, When};
use crate::serve::ZenohArgs;
use crate::stored::Stored;
use crate::text;
use answer::Answer;

mod answer;
mod events;
mod export;
mod follow;
mod foreign;
mod lines;
mod remote;
mod robots;
mod summary;

/// Read any moment of a recording, even while it is being written.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag query run1 latest --last 1s\n  \
    livebag query run1 latest --last 5s -t /camera_front /imu -o last.mcap\n  \
    livebag query run1 history --from +10s --to +12.5s --json\n  \
    livebag query run1 follow -t /imu --json\n  \
    livebag query drive.mcap history --from 21:29:38 --json\n  \
    livebag query run1 latest --last 100ms -t /imu --json --decode\n  \
    livebag query run1 history --from 2026-05-01T12:00:00Z --count\n  \
    livebag query s3://fleet/robot7/run1 history -t /imu -o imu.mcap\n  \
    livebag query http://robot:8767/run1 follow\n  \
    livebag query http://robot:8767/run1 auto --within 1s -o now.mcap\n  \
    livebag query 'zenoh/*/*' latest --last 1s --json\n  \
    livebag query 'zenoh/r2/*' auto --decimate /camera_front:5 -o now.mcap")]
pub struct Args {
    /// The recording: a container, finished or still being written; an MCAP file, a rosbag2 folder or database, or a
    /// ROS 1 bag; a recording in an object store (s3://BUCKET/PREFIX/NAME, gs://…, az://…) or on a server
    /// (http://HOST:PORT/NAME, https://…); or one on Zenoh (zenoh/ROBOT/NAME, with * for any).
    #[arg(add = ArgValueCompleter::new(complete::recordings))]
    bag: PathBuf,
    #[command(flatten)]
    server: Trust,
    #[command(flatten)]
    zenoh: ZenohArgs,
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand)]
enum Question {
    /// The newest messages.
    #[command(after_help = "Example:\n  livebag query run1 latest --last 500ms -t /imu --json")]
    Latest {
        /// How far back from the newest message of the topics asked for: 1s, 500ms, 2m30s.
        #[arg(long, value_name = "D", default_value = "1s", value_parser = parse::duration)]
        last: Duration,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// The messages between two times, both included.
    #[command(
        after_help = "Times: of day (21:29:38, in this machine's zone), after the first message (+1.5s, \
90s), RFC 3339 with a zone (2026-05-01T12:00:00Z), or since 1970: nanoseconds (a whole number) or seconds \
(with a decimal point).\n\n\
Example:\n  livebag query run1 history --from +10s --to +12s -t /camera_front -o part.mcap"
    )]
    History {
        /// First log time [default: the recording's start]
        #[arg(long, value_name = "T", value_parser = select::when)]
        from: Option<When>,
        /// Last log time [default: the recording's end]
        #[arg(long, value_name = "T", value_parser = select::when)]
        to: Option<When>,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// New messages as they are recorded, until the end or Ctrl-C.
    #[command(after_help = "Example:\n  livebag query run1 follow -t /diagnostics --json --decode")]
    Follow {
        /// Begin this long before the newest message [default: with the next one]
        #[arg(long, value_name = "D", value_parser = parse::duration)]
        last: Option<Duration>,
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Newest messages first, as many as arrive within the given time.
    #[command(
        after_help = "The server measures how fast this connection takes data, and stops in \
time; at least the newest message is sent.\n\n\
Example:\n  livebag query http://robot:8767/run1 auto --within 1s --decimate /camera_front:5"
    )]
    Auto {
        /// Time within which the answer arrives.
        #[arg(long, value_name = "D", default_value = "1s", value_parser = parse::duration_above_zero)]
        within: Duration,
        /// Go back no further than this from the newest message.
        #[arg(long, value_name = "D", value_parser = parse::duration)]
        last: Option<Duration>,
        /// At most HZ messages a second of that topic.
        #[arg(long, value_name = "TOPIC:HZ")]
        decimate: Vec<String>,
        #[command(flatten)]
        wanted: Wanted,
    },
}

#[derive(clap::Args)]
struct Wanted {
    /// Only these topics.
    #[arg(short, long = "topic", visible_alias = "topics", value_name = "TOPIC", num_args = 1..)]
    #[arg(add = ArgValueCompleter::new(complete::topics))]
    topics: Vec<String>,
    /// Write the messages into this new MCAP file.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "count"])]
    output: Option<PathBuf>,
    /// Replace that file if it is there.
    #[arg(long, requires = "output")]
    force: bool,
    /// Print a line of JSON for each message: topic, log_time, publish_time (nanoseconds since
    /// 1970), sequence, bytes. With --count, one object with the counts by topic.
    #[arg(long)]
    json: bool,
    /// Add the values of the messages to --json. Longer arrays become their length and first items.
    #[arg(long, requires = "json", conflicts_with = "count")]
    decode: bool,
    /// Items of an array that --decode gives.
    #[arg(long, value_name = "N", default_value_t = 64)]
    array_items: usize,
    /// Print only the number of messages.
    #[arg(long)]
    count: bool,
}

impl Question {
    fn wanted(&self) -> &Wanted {
        match self {
            Self::Latest { wanted, .. }
            | Self::History { wanted, .. }
            | Self::Follow { wanted, .. }
            | Self::Auto { wanted, .. } => wanted,
        }
    }
}

/// Answers.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let clock = Clock::system();
    match Place::of(&args.bag)? {
        Place::Server(_) => remote::run(args, &args.bag.to_string_lossy(), &clock),
        Place::Robots(address) => robots::run(args, &address, &clock),
        Place::Stored(address) => match (Stored::open(&address)?, &args.question) {
            (_, Question::Follow { .. }) => Err(CliError::usage(format!(
                "{} does not grow: follow is for recordings that a recorder is writing",
                address.display()
            ))),
            (stored, _) if stored.is_container() => local(args, &stored.container()?, &clock),
            (stored, _) => foreign::run(args, &address, &|| stored.source(), &clock),
        },
        Place::Here(path) => match &args.question {
            _ if !path.join(CONTAINER_FILE).exists() && !is_bare_container(&path) => {
                let open = || Ok(livebag_bags::open_foreign(&path)?);
                foreign::run(args, &path, &open, &clock)
            }
            Question::Follow { last, wanted } => follow::run(args, *last, wanted),
            _ => local(args, &Container::open(&path)?, &clock),
        },
    }
}

/// A folder without container.yaml that `glance` still recognises as a container.
fn is_bare_container(path: &std::path::Path) -> bool {
    livebag_bags::glance(path).is_some_and(|glance| glance.kind == RecordingKind::Container)
}

fn local(args: &Args, bag: &Container, clock: &Clock) -> Result<Outcome, CliError> {
    let wanted = args.question.wanted();
    let topics = named(bag, &wanted.topics)?;
    let span = match &args.question {
        Question::Latest { last, .. } => Span::Latest(*last),
        Question::History { from: None, to: None, .. } | Question::Follow { .. } => Span::All,
        Question::History { from, to, .. } => history(bag, *from, *to)?,
        Question::Auto { within, last, decimate, .. } => {
            let span = last.map_or(Span::All, Span::Latest);
            let query = Query { topics, span };
            return auto(bag, &query, *within, decimate, wanted, clock);
        }
    };
    let cursor = bag.query(&Query { topics, span })?;
    let planned_nanos = clock.monotonic_nanos();
    if cursor.remaining() == 0 {
        let asked = if let Span::History(from, to) = span { Some((from, to)) } else { None };
        explain_nothing(bag.time_range()?, asked);
    }
    if wanted.count && !wanted.json {
        writeln!(std::io::stdout().lock(), "{}", cursor.remaining())?;
        return Ok(outcome(cursor.damaged(), &args.bag));
    }
    let mut answer = answer::Local::new(bag, cursor);
    give(&mut answer, wanted, clock, planned_nanos, &|| start_of(bag))?;
    Ok(outcome(answer.damaged(), &args.bag))
}

/// The topics that are asked for, by their full names.
fn named(bag: &Container, names: &[String]) -> Result<Vec<String>, CliError> {
    let known = || bag.topics().iter().map(|topic| topic.topic().name.as_str());
    names.iter().map(|name| select::full_name(name, known)).collect()
}

/// Log time of the first message of all topics, which takes all indexes.
fn start_of(bag: &Container) -> Result<u64, CliError> {
    Ok(bag.time_range()?.map_or(0, |(start, _)| start))
}

/// The newest messages of a container on this machine, as many as can be written in the given time.
fn auto(
    bag: &Container,
    query: &Query,
    within: Duration,
    decimate: &[String],
    wanted: &Wanted,
    clock: &Clock,
) -> Result<Outcome, CliError> {
    if !decimate.is_empty() {
        return Err(CliError::usage("--decimate is for recordings on a server or a robot"));
    }
    let end_nanos = within.as_nanos() as u64;
    let mut is_first = true;
    let may_go_on = || std::mem::take(&mut is_first) || clock.monotonic_nanos() < end_nanos;
    let mut answer = answer::LocalNewest::new(bag, bag.newest_first(query)?, may_go_on);
    let planned_nanos = clock.monotonic_nanos();
    give(&mut answer, wanted, clock, planned_nanos, &|| start_of(bag))?;
    Ok(outcome(answer.damaged(), bag.path()))
}

/// Gives an answer in the form that is wanted. `start_nanos` gives the recording's start, where people read it.
fn give(
    answer: &mut dyn Answer,
    wanted: &Wanted,
    clock: &Clock,
    planned_nanos: u64,
    start_nanos: &dyn Fn() -> Result<u64, CliError>,
) -> Result<(), CliError> {
    if let Some(path) = &wanted.output {
        let exported = export::write(answer, path, wanted.force)?;
        if exported.messages == 0 {
            say!("livebag: no messages: {} was not made", path.display());
            return Ok(());
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{}: {}, {} in {}",
            path.display(),
            text::messages(exported.messages),
            text::bytes(exported.bytes as f64),
            text::duration(clock.monotonic_nanos()),
        )?;
        return Ok(());
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if wanted.json && wanted.decode {
        lines::write_decoded(answer, wanted.array_items, &mut out)?;
    } else if wanted.json && !wanted.count {
        lines::write(answer, &mut out)?;
    } else {
        let summary = summary::of(answer, clock, planned_nanos)?;
        match (wanted.count, wanted.json) {
            (true, true) => writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?,
            (true, false) => writeln!(out, "{}", summary.message_count())?,
            _ => write!(out, "{}", summary.render(start_nanos()?))?,
        }
    }
    out.flush()?;
    Ok(())
}

/// The error for `follow` with many robots.
fn no_follow() -> CliError {
    CliError::usage(
        "follow is for one recording, here or on a server (http://ROBOT:8767/RUN): over Zenoh ask latest again and \
         again",
    )
}

/// Says how many messages are not in the answer because they are damaged.
fn outcome(damaged: u64, bag: &Path) -> Outcome {
    if damaged == 0 {
        return Outcome::Done;
    }
    complain!(
        "livebag: left out, since they or their index entries are damaged: {} (`livebag verify {}` \
         names them)",
        text::messages(damaged),
        bag.display(),
    );
    Outcome::Loss
}

/// The same for an answer from elsewhere.
fn remote_outcome(damaged: u64) -> Outcome {
    if damaged == 0 {
        return Outcome::Done;
    }
    let messages = text::messages(damaged);
    complain!("livebag: left out, since they or their index entries are damaged: {messages}");
    Outcome::Loss
}

fn history(bag: &Container, from: Option<When>, to: Option<When>) -> Result<Span, CliError> {
    let range = bag.time_range()?.unwrap_or((bag.started_nanos(), bag.started_nanos()));
    let (from_nanos, to_nanos) = select::between(from, to, range)?;
    Ok(Span::History(from_nanos, to_nanos))
}

/// An empty answer is an answer, but often a mistyped time: `times` of the recording, and those asked for.
fn explain_nothing(times: Option<(u64, u64)>, asked: Option<(u64, u64)>) {
    match (times, asked) {
        (None, _) => say!("livebag: the recording has no messages yet"),
        (Some((start, end)), Some((from, to))) if from > end || to < start => say!(
            "livebag: no messages from {} to {}; the recording goes from {} to {}",
            text::time(from),
            text::time(to),
            text::time(start),
            text::time(end)
        ),
        (_, Some(_)) => say!("livebag: no messages in that time"),
        _ => say!("livebag: the requested topics have no messages yet"),
    }
}
