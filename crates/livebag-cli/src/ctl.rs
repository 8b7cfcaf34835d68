//! `livebag ctl`: tell a running recorder what to do.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use livebag::{Disk, KernelDisk};

use crate::complete;
use crate::control::{self, Answer, Order};
use crate::outcome::{CliError, Outcome};
use crate::text;

/// Pause, resume, split, snapshot or stop a recorder
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag ctl run1 split\n  \
    livebag ctl run1 status --json\n\n\
Works for the user that runs the recorder, through the socket control.sock in the container.")]
pub struct Args {
    /// The container being recorded.
    #[arg(value_name = "BAG", add = ArgValueCompleter::new(complete::recordings))]
    bag: PathBuf,
    /// What to do.
    #[arg(value_enum)]
    order: Order,
    /// Print the answer as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Gives the order and tells the answer.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let answer = control::order(&args.bag, args.order)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
    } else {
        writeln!(out, "{}{}", render(&answer), left(&args.bag))?;
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

fn render(answer: &Answer) -> String {
    let asked =
        if answer.is_pending { "; the split was asked for and has not begun yet" } else { "" };
    format!(
        "{}, {}, {} messages, {}, {} lost, {} left out, {} waiting in memory{asked}",
        if answer.paused { "paused" } else { "recording" },
        text::plural(answer.splits as usize, "split"),
        text::count(answer.messages),
        text::bytes(answer.bytes as f64),
        text::count(answer.account.lost.total()),
        text::count(answer.skipped),
        text::bytes(answer.cache_bytes as f64),
    )
}
