//! `livebag ctl`: tell a running recorder what to do.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use livebag::{Clock, Container, Disk, KernelDisk};

use crate::complete;
use crate::control::{self, Answer, NewEvent, Order};
use crate::event;
use crate::outcome::{CliError, Outcome};
use crate::select::{self, When};
use crate::{push_view, text};

/// Pause, resume, split, snapshot, stop a recorder; add events
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag ctl run1 split\n  \
    livebag ctl run1 status --json\n  \
    livebag ctl run1 event 'near miss' --text 'pedestrian at the crossing'\n  \
    livebag ctl run1 event roundabout --from +10s --to +25s\n\n\
Works for the recorder's user, through the socket control.sock in the container.")]
pub struct Args {
    /// The container being recorded.
    #[arg(value_name = "BAG", add = ArgValueCompleter::new(complete::recordings))]
    bag: PathBuf,
    /// The command.
    #[arg(value_enum)]
    order: Order,
    #[command(flatten)]
    event: Words,
    /// Print the answer as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Gives the order and tells the answer.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let answer = match args.order {
        Order::Event => control::event(&args.bag, &args.event.new_event(&args.bag)?)?,
        _ if !args.event.is_empty() => {
            return Err(CliError::usage("NAME, --text, --from and --to are for `event`"));
        }
        order => control::order(&args.bag, order)?,
    };
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
    } else if let Some(event) = &answer.event {
        writeln!(out, "{}", event::line(event))?;
    } else {
        let pushed = answer.push.as_ref().map(push_view::words);
        let pushed = pushed.map_or_else(String::new, |words| format!("\n{words}"));
        writeln!(out, "{}{}{pushed}", render(&answer), left(&args.bag))?;
    }
    match answer.error {
        None => Ok(Outcome::Done),
        Some(error) => Err(CliError::failed(error)),
    }
}

/// Space that is left where it records.
fn left(bag: &Path) -> String {
    let free = KernelDisk::for_reading().free_bytes(bag);
    free.map_or_else(
        |_| String::new(),
        |free| format!(", {} left on the disk", text::bytes(free as f64)),
    )
}

/// What an event is called and when it was, as options of `event`.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of event")]
struct Words {
    /// Name of the event.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// A short text.
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Its first log time: 21:29:38, +10s after the start, RFC 3339, or nanoseconds since 1970 [default: now]
    #[arg(long, value_name = "T", value_parser = select::when)]
    from: Option<When>,
    /// Its last log time [default: now]
    #[arg(long, value_name = "T", value_parser = select::when, requires = "from")]
    to: Option<When>,
}

impl Words {
    fn is_empty(&self) -> bool {
        self.name.is_none() && self.text.is_none() && self.from.is_none()
    }

    fn new_event(&self, bag: &Path) -> Result<NewEvent, CliError> {
        let name = self.name.clone().ok_or_else(|| {
            CliError::usage(format!(
                "an event has a name: livebag ctl {} event NAME",
                bag.display()
            ))
        })?;
        let span = match self.from {
            None => None,
            Some(from) => {
                let now = Clock::system().wall_nanos();
                Some(event::span(&Container::peek(bag)?, from, self.to, now)?)
            }
        };
        Ok(NewEvent { name, text: self.text.clone().unwrap_or_default(), span })
    }
}

fn render(answer: &Answer) -> String {
    let asked =
        if answer.is_pending { "; the split was asked for and has not begun yet" } else { "" };
    format!(
        "{}, {}, {}, {}, {} lost, {} left out, {} waiting in memory{asked}",
        if answer.paused { "paused" } else { "recording" },
        text::plural(answer.splits as usize, "split"),
        text::messages(answer.messages),
        text::bytes(answer.bytes as f64),
        text::count(answer.account.lost.total()),
        text::count(answer.skipped),
        text::bytes(answer.cache_bytes as f64),
    )
}
