//! `livebag event`: name a moment or a time range of a recording.

use std::io::Write;
use std::path::PathBuf;

use livebag::{Container, ContainerState, Event, add_event};
use livebag_format::visible;

use crate::control::{self, NewEvent};
use crate::outcome::{CliError, Outcome};
use crate::select::{self, When};
use crate::stored::{self, Stored};
use crate::text;

/// Name moments and time ranges of a recording.
///
/// Name one, or list a recording's events.
///
/// Events are stored beside container.yaml and become metadata records in exports. They can only be added. While the
/// recording is written, its recorder adds them, as with `livebag ctl RUN event NAME`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag event run1 'near miss' --from +82.4s --text 'pedestrian crossing'\n  \
    livebag event run1 roundabout --from 14:03:10 --to 14:03:42\n  \
    livebag event run1 --list --json | jq -r '.[].name'")]
pub struct Args {
    /// The container.
    #[arg(value_name = "BAG")]
    bag: PathBuf,
    /// Name of the event.
    #[arg(value_name = "NAME", required_unless_present = "list", conflicts_with = "list")]
    name: Option<String>,
    /// Its first log time: 21:29:38, +10s after the start, RFC 3339, or nanoseconds since 1970.
    #[arg(
        long,
        value_name = "T",
        value_parser = select::when,
        required_unless_present = "list",
        conflicts_with = "list"
    )]
    from: Option<When>,
    /// Its last log time [default: --from]
    #[arg(long, value_name = "T", value_parser = select::when, conflicts_with = "list")]
    to: Option<When>,
    /// A short text.
    #[arg(long, value_name = "TEXT", conflicts_with = "list")]
    text: Option<String>,
    /// List the events in order of time.
    #[arg(long)]
    list: bool,
    /// Print the event as a JSON object; with --list a JSON array.
    #[arg(long)]
    json: bool,
}

/// Adds the event, or lists those that are there.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.list {
        // Listing changes nothing, also where a recorder died.
        let container = match stored::is_address(&args.bag) {
            true => Stored::open(&args.bag)?.container()?,
            false => Container::peek(&args.bag)?,
        };
        return list(&container.events()?, args.json);
    }
    stored::refuse(&args.bag, "event")?;
    let container = Container::open(&args.bag)?;
    let name = args.name.clone().unwrap_or_default();
    let text = args.text.clone().unwrap_or_default();
    let (from, to) = match args.from {
        Some(from) => span(&container, from, args.to.or(Some(from)), 0)?,
        None => return Err(CliError::usage("an event has a time: --from T")),
    };
    let event = if container.state() == ContainerState::Live {
        let asked = NewEvent { name, text, span: Some((from, to)) };
        let answer = control::event(&args.bag, &asked)?;
        answer.event.ok_or_else(|| {
            CliError::failed(answer.error.unwrap_or_else(|| "the recorder is too old".into()))
        })?
    } else {
        let event = Event { name, text, from_nanos: from, to_nanos: to };
        add_event(&args.bag, &event).map_err(|error| CliError::failed(error.to_string()))?;
        event
    };
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(&event)?)?,
        false => writeln!(out, "{}", line(&event))?,
    }
    Ok(Outcome::Done)
}

/// Log times of an event in a recording; without `to` it ends at `now`.
///
/// # Errors
/// If it would end before it begins, or the recording's times cannot be read.
pub fn span(
    container: &Container,
    from: When,
    to: Option<When>,
    now: u64,
) -> Result<(u64, u64), CliError> {
    let started = container.started_nanos();
    let range = container.time_range()?.unwrap_or((started, started));
    let from_nanos = from.nanos(range);
    let to_nanos = to.map_or(now, |when| when.nanos(range));
    if from_nanos > to_nanos {
        return Err(CliError::usage(format!(
            "--from ({}) is after the end of the event ({}): exchange them",
            text::time(from_nanos),
            text::time(to_nanos)
        )));
    }
    Ok((from_nanos, to_nanos))
}

fn list(events: &[Event], as_json: bool) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(events)?)?;
    } else if events.is_empty() {
        say!("livebag: no events");
    } else {
        for event in events {
            writeln!(out, "{}", line(event))?;
        }
    }
    Ok(Outcome::Done)
}

/// An event on one line.
pub fn line(event: &Event) -> String {
    let mut line = format!("{}, {}", event.name, text::time(event.from_nanos));
    if event.to_nanos > event.from_nanos {
        line.push_str(&format!(" for {}", text::duration(event.to_nanos - event.from_nanos)));
    }
    if !event.text.is_empty() {
        line.push_str(&format!(": {}", event.text));
    }
    visible(&line).to_string()
}
