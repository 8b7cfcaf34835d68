//! `livebag doctor`: checks this machine, and suggests a remedy for each problem.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;

#[cfg(any(feature = "bench", feature = "demo"))]
pub use disk::disk_bytes_per_s;

use crate::color::{self, To, Tone};
use crate::outcome::{CliError, Outcome};
use crate::parse;

mod disk;
mod system;

/// Check whether this machine is ready to record
///
/// Check whether this machine is ready to record, and suggest a remedy for each problem.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag doctor /data\n  \
    livebag doctor --json | jq '.[] | select(.ok | not)'\n\n\
Environment:\n  \
    LIVEBAG_STORAGE  how `livebag record` writes: io_uring (default) or pwrite, with ,buffered \
behind either")]
pub struct Args {
    /// Where recordings will go.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// The option's earlier name.
    #[arg(long, hide = true, conflicts_with = "directory")]
    dir: Option<PathBuf>,
    /// Do not measure the disk's speed, which writes and removes 256 MiB.
    #[arg(long)]
    no_disk_speed: bool,
    /// Print a JSON array.
    #[arg(long)]
    json: bool,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// Subject of the check.
    check: &'static str,
    /// Whether it is as good as it can be.
    ok: bool,
    /// Result of the check.
    found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

impl Check {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, ok: true, found: found.into(), advice: None }
    }

    fn lacking(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { check, ok: false, found: found.into(), advice: Some(advice.into()) }
    }

    /// `lacking` if `lack` has advice, else `ok`.
    fn new(check: &'static str, found: impl Into<String>, lack: Option<String>) -> Self {
        Self { check, ok: lack.is_none(), found: found.into(), advice: lack }
    }
}

/// Looks, and prints. Problems are findings, not failures: the exit code is still 0.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let directory = parse::renamed(args.dir.clone(), "--dir", "`livebag doctor DIR`");
    let directory = directory.unwrap_or_else(|| args.directory.clone());
    if !directory.is_dir() {
        return Err(CliError::failed(format!(
            "the folder {} does not exist: make it first (mkdir -p), or name another",
            directory.display()
        )));
    }
    let mut checks = system::checks();
    checks.extend(disk::checks(&directory, !args.no_disk_speed));
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&checks)?)?;
    } else {
        write!(out, "{}", render(&checks))?;
    }
    Ok(Outcome::Done)
}

fn render(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.check.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let state = match check.ok {
            true => "ok  ".to_owned(),
            false => color::paint(To::Out, Tone::Warning, "warn"),
        };
        out.push_str(&format!("{state}  {:<width$}  {}\n", check.check, check.found));
        if let Some(advice) = &check.advice {
            out.push_str(&format!("      {:<width$}  -> {advice}\n", ""));
        }
    }
    let lacks = checks.iter().filter(|check| !check.ok).count();
    out.push_str(&match lacks {
        0 => "all is well\n".to_owned(),
        1 => "1 thing could be better\n".to_owned(),
        _ => format!("{lacks} things could be better\n"),
    });
    out
}
