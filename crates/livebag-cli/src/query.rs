//! `livebag query`: any moment of a recording, finished or running.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use livebag::{Bag, Clock, Query, Span};

use crate::outcome::{CliError, Outcome};
use crate::parse::{self, Moment};
use crate::text;

mod export;
mod lines;
mod summary;

/// Read any moment of a recording, also while it is being written.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag query run1 latest --last 1s\n  \
    livebag query run1 latest --last 5s -t /camera_front /imu -o last.mcap\n  \
    livebag query run1 history --from +10s --to +12.5s --json\n  \
    livebag query run1 latest --last 100ms -t /imu --json --decode\n  \
    livebag query run1 history --from 2026-05-01T12:00:00Z --to 2026-05-01T12:00:05Z --count")]
pub struct Args {
    /// The recording: a container, finished or still being written.
    bag: PathBuf,
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
        answer: Answer,
    },
    /// The messages between two times, both included.
    #[command(
        after_help = "Times: nanoseconds since 1970 (a whole number), seconds since 1970 (with a decimal \
point), RFC 3339 with a zone (2026-05-01T12:00:00Z), or after the first message (+1.5s, 90s).\n\n\
Example:\n  livebag query run1 history --from +10s --to +12s -t /camera_front -o part.mcap"
    )]
    History {
        /// First log time [default: the recording's start]
        #[arg(long, value_name = "T", value_parser = parse::moment)]
        from: Option<Moment>,
        /// Last log time [default: the recording's end]
        #[arg(long, value_name = "T", value_parser = parse::moment)]
        to: Option<Moment>,
        #[command(flatten)]
        answer: Answer,
    },
}

#[derive(clap::Args)]
struct Answer {
    /// Only these topics.
    #[arg(short, long, value_name = "TOPIC", num_args = 1..)]
    topics: Vec<String>,
    /// Write the messages into this new MCAP file.
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["json", "count"])]
    output: Option<PathBuf>,
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

/// Answers.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let clock = Clock::system();
    let bag = Bag::open(&args.bag)?;
    let (span, answer) = match &args.question {
        Question::Latest { last, answer } => (Span::Latest(*last), answer),
        Question::History { from, to, answer } => (history(&bag, *from, *to)?, answer),
    };
    let query = Query { topics: full_names(&bag, &answer.topics), span };
    let mut cursor = bag.query(&query)?;
    let planned_nanos = clock.monotonic_nanos();
    if cursor.remaining() == 0 {
        explain_nothing(&bag, span)?;
    }
    if let Some(path) = &answer.output {
        let answer = export::write(&bag, &mut cursor, path)?;
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{}: {} messages, {} in {}",
            path.display(),
            text::count(answer.messages),
            text::bytes(answer.bytes as f64),
            text::duration(clock.monotonic_nanos()),
        )?;
        return Ok(outcome(&bag, cursor.damaged()));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    match (answer.count, answer.json) {
        (true, false) => writeln!(out, "{}", cursor.remaining())?,
        (false, true) if answer.decode => {
            lines::write_decoded(&bag, &mut cursor, answer.array_items, &mut out)?;
        }
        (false, true) => lines::write(&bag, &mut cursor, &mut out)?,
        (count, _) => {
            let summary = summary::of(&bag, &mut cursor, &clock, planned_nanos)?;
            if count {
                writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
            } else {
                write!(out, "{}", summary.render())?;
            }
        }
    }
    out.flush()?;
    Ok(outcome(&bag, cursor.damaged()))
}

/// Says how many messages are not in the answer because their index entries are damaged.
fn outcome(bag: &Bag, damaged: u64) -> Outcome {
    if damaged == 0 {
        return Outcome::Done;
    }
    eprintln!(
        "livebag: {} left out, whose index entries are damaged: `livebag verify {}` names them",
        text::plural(damaged as usize, "message"),
        bag.path().display(),
    );
    Outcome::Loss
}

/// `imu` stands for `/imu` where there is no `imu`.
fn full_names(bag: &Bag, names: &[String]) -> Vec<String> {
    let is_topic = |name: &str| bag.topics().iter().any(|topic| topic.topic().name == name);
    let full = |name: &String| match format!("/{name}") {
        slashed if !is_topic(name) && is_topic(&slashed) => slashed,
        _ => name.clone(),
    };
    names.iter().map(full).collect()
}

fn history(bag: &Bag, from: Option<Moment>, to: Option<Moment>) -> Result<Span, CliError> {
    let start_nanos = bag.time_range()?.map_or(bag.started_nanos(), |(start, _)| start);
    let from_nanos = from.map_or(0, |moment| moment.nanos(start_nanos));
    let to_nanos = to.map_or(u64::MAX, |moment| moment.nanos(start_nanos));
    if from_nanos > to_nanos {
        return Err(CliError::usage(format!(
            "--from ({}) is after --to ({}): exchange them",
            text::time(from_nanos),
            text::time(to_nanos)
        )));
    }
    Ok(Span::History(from_nanos, to_nanos))
}

/// An empty answer is an answer, but often a mistyped time.
fn explain_nothing(bag: &Bag, span: Span) -> Result<(), CliError> {
    match (bag.time_range()?, span) {
        (None, _) => eprintln!("livebag: the recording has no messages yet"),
        (Some((start, end)), Span::History(from, to)) if from > end || to < start => eprintln!(
            "livebag: no messages from {} to {}; the recording goes from {} to {}",
            text::time(from),
            text::time(to),
            text::time(start),
            text::time(end)
        ),
        (_, Span::History(..)) => eprintln!("livebag: no messages in that time"),
        _ => eprintln!("livebag: the topics asked for have no messages yet"),
    }
    Ok(())
}
