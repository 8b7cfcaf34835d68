//! `livebag verify`: checks that a recording is intact.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use indicatif::{ProgressBar, ProgressStyle};
use livebag::Clock;
use livebag_bags::{Damage, Verified, VerifyProgress};
use serde::Serialize;

use crate::color::{self, To, Tone};
use crate::complete;
use crate::outcome::{CliError, Outcome};
use crate::stored::{self, Stored};
use crate::text;

/// Check a recording and list damage
///
/// Check every structure and every checksum of a recording, and list damage.
///
/// Nothing is changed. Exit code 0: intact; 1: damaged.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag verify run1\n  \
    livebag verify drive.mcap --json | jq -r '.damage[].what'\n  \
    livebag verify rosbag2_2026_11_21 && rm -r rosbag2_2026_11_21_copy\n\n\
Frames from streams have no checksum: only their headers and places are checked, and they are counted \
as `unproven_messages`. In a live recording, committed messages are checked.")]
pub struct Args {
    /// The recording: a container, an MCAP file, a rosbag2 folder or database, or a ROS 1 bag; or its address in an
    /// object store (s3://BUCKET/PREFIX/NAME, …), from which all of it is fetched.
    #[arg(required = true, value_name = "BAG", add = ArgValueCompleter::new(complete::recordings))]
    bags: Vec<PathBuf>,
    /// Print one JSON object (an array for several recordings): `whole`, `damage` (file, offset, what), and the checks
    /// made.
    #[arg(long)]
    json: bool,
}

/// Printed result.
#[derive(Serialize)]
struct Report {
    path: String,
    kind: String,
    /// How a container was left; null for other kinds.
    state: Option<String>,
    whole: bool,
    file_count: u64,
    #[serde(rename = "size_bytes")]
    bytes: u64,
    message_count: u64,
    checksum_count: u64,
    unproven_messages: u64,
    damage_count: u64,
    damage: Vec<DamageReport>,
    /// Unusual, but not damaged.
    warnings: Vec<DamageReport>,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
}

#[derive(Serialize)]
struct DamageReport {
    file: String,
    offset: Option<u64>,
    what: String,
}

impl From<&Damage> for DamageReport {
    fn from(damage: &Damage) -> Self {
        let file = damage.file.display().to_string();
        Self { file, offset: damage.offset, what: damage.what.clone() }
    }
}

/// Checks.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut reports = Vec::new();
    let mut outcome = Outcome::Done;
    let mut out = io::stdout().lock();
    for path in &args.bags {
        let clock = Clock::system();
        let bar = bar();
        let mut show = |progress: &VerifyProgress| {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes);
        };
        let verified = checked(path, &mut show);
        bar.finish_and_clear();
        let verified = match verified {
            Ok(verified) => verified,
            // The others are still checked.
            Err(error) if args.bags.len() > 1 => {
                outcome = error.report();
                continue;
            }
            Err(error) => return Err(error),
        };
        let seconds = clock.monotonic_nanos() as f64 / 1e9;
        if !verified.is_whole() {
            outcome = Outcome::Failed;
        }
        match args.json {
            true => reports.push(report(path, &verified, seconds)),
            false => write!(out, "{}", render(path, &verified, seconds))?,
        }
    }
    match &reports[..] {
        _ if !args.json => {}
        [report] if args.bags.len() == 1 => {
            writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        }
        reports => writeln!(out, "{}", serde_json::to_string_pretty(reports)?)?,
    }
    Ok(outcome)
}

fn checked(path: &Path, show: &mut dyn FnMut(&VerifyProgress)) -> Result<Verified, CliError> {
    if stored::is_address(path) {
        let stored = Stored::open(path)?;
        return Ok(livebag_bags::verify_on(&*stored.disk, &stored.path, show)?);
    }
    Ok(livebag_bags::verify(path, show)?)
}

/// Bytes checked, on a terminal.
pub fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let template = "{wide_bar} {decimal_bytes}/{decimal_total_bytes}, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn report(path: &Path, verified: &Verified, duration_s: f64) -> Report {
    Report {
        path: path.display().to_string(),
        kind: verified.kind.to_string(),
        state: verified.state.map(|state| state.to_string()),
        whole: verified.is_whole(),
        file_count: verified.files,
        bytes: verified.bytes,
        message_count: verified.messages,
        checksum_count: verified.checksums,
        unproven_messages: verified.unproven_messages,
        damage_count: verified.damage_count,
        damage: verified.damage.iter().map(DamageReport::from).collect(),
        warnings: verified.warnings.iter().map(DamageReport::from).collect(),
        duration_s,
    }
}

fn render(path: &Path, verified: &Verified, seconds: f64) -> String {
    let what = match verified.state {
        Some(state) => format!("{}, {state}", verified.kind),
        None => verified.kind.to_string(),
    };
    let verdict = match verified.damage_count {
        0 => "whole".to_owned(),
        count => {
            let damaged = format!("damaged in {}", text::plural(count as usize, "place"));
            color::paint(To::Out, Tone::Bad, &damaged)
        }
    };
    let mut out = format!(
        "{}: {verdict} ({what}): {}, {}, {}, {} checksums, in {}\n",
        path.display(),
        text::plural(verified.files as usize, "file"),
        text::bytes(verified.bytes as f64),
        text::messages(verified.messages),
        text::count(verified.checksums),
        text::duration((seconds * 1e9) as u64),
    );
    if verified.unproven_messages > 0 {
        out.push_str(&format!(
            "  without a checksum, so that their bytes cannot be proven: {}\n",
            text::messages(verified.unproven_messages)
        ));
    }
    for damage in &verified.damage {
        out.push_str(&format!("  {damage}\n"));
    }
    for warning in &verified.warnings {
        let word = color::paint(To::Out, Tone::Warning, "warning:");
        out.push_str(&format!("  {word} {warning}\n"));
    }
    let listed = verified.damage.len() as u64;
    if listed < verified.damage_count {
        out.push_str(&format!("  and {} more\n", text::count(verified.damage_count - listed)));
    }
    out
}
