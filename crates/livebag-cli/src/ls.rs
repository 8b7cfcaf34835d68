//! `livebag ls`: the recordings below a folder, those being written among them.

use std::io::Write;
use std::path::{Path, PathBuf};

use livebag::Glance;
use serde::Serialize;

use crate::outcome::{CliError, Outcome};
use crate::text;

/// Folders below folders that are looked into.
const DEPTH_MAX: usize = 16;

/// List the recordings below a folder: kind, state, start, duration, messages, size.
///
/// States: live (a recorder is writing it), closed, recovered, crashed (not closed), damaged. Nothing
/// is read through and nothing is changed: `livebag verify` looks closer.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag ls\n  \
    livebag ls /data/robots\n  \
    livebag ls --json | jq -r '.[] | select(.state == \"crashed\") | .path' | xargs -n1 livebag recover")]
pub struct Args {
    /// The folder, or one recording.
    #[arg(value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Print JSON: an array. What cannot be told at a glance is null.
    #[arg(long)]
    json: bool,
}

/// One recording. Times are nanoseconds since the Unix epoch.
#[derive(Serialize)]
struct Row {
    path: String,
    kind: String,
    /// `live`, `closed`, `recovered`, `crashed`, `damaged`.
    state: String,
    problem: Option<String>,
    start_nanos: Option<u64>,
    duration_nanos: Option<u64>,
    message_count: Option<u64>,
    size_bytes: u64,
}

impl Row {
    fn new(path: &Path, glance: Glance) -> Self {
        Self {
            path: path.strip_prefix("./").unwrap_or(path).display().to_string(),
            kind: glance.kind.to_string(),
            state: glance.state.to_string(),
            problem: glance.problem,
            start_nanos: glance.start_nanos,
            duration_nanos: glance.duration_nanos,
            message_count: glance.message_count,
            size_bytes: size_bytes(path, 0),
        }
    }
}

/// Lists them.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut rows = Vec::new();
    let failed = |source| CliError::file("looking at", &args.directory, source);
    args.directory.metadata().map_err(failed)?;
    match livebag::glance(&args.directory) {
        Some(glance) => rows.push(Row::new(&args.directory, glance)),
        None if args.directory.is_dir() => walk(&args.directory, 0, &mut rows)?,
        None => {
            let path = args.directory.display();
            return Err(CliError::failed(format!("{path} is no recording and no folder")));
        }
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else if rows.is_empty() {
        eprintln!("livebag: no recordings below {}", args.directory.display());
    } else {
        write!(out, "{}", table(&rows))?;
        for row in &rows {
            if let Some(problem) = &row.problem {
                eprintln!("livebag: {}: {problem}", row.path);
            }
        }
    }
    Ok(Outcome::Done)
}

/// Adds what is below `directory`, in order of names. Symbolic links are not followed.
fn walk(directory: &Path, depth: usize, rows: &mut Vec<Row>) -> Result<(), CliError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(source) if depth > 0 => {
            eprintln!("livebag: warning: {}: {source}", directory.display());
            return Ok(());
        }
        Err(source) => return Err(CliError::file("listing", directory, source)),
    };
    // What goes away meanwhile is not there.
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            match livebag::glance(&path) {
                Some(glance) => rows.push(Row::new(&path, glance)),
                None if depth < DEPTH_MAX => walk(&path, depth + 1, rows)?,
                None => {}
            }
        } else if kind.is_file()
            && path.extension().is_some_and(|e| e == "mcap" || e == "db3" || e == "bag")
            && let Some(glance) = livebag::glance(&path)
        {
            rows.push(Row::new(&path, glance));
        }
    }
    Ok(())
}

/// Length of a file, or of all files in a folder.
fn size_bytes(path: &Path, depth: usize) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() || depth > DEPTH_MAX {
        return if metadata.is_file() { metadata.len() } else { 0 };
    }
    let Ok(entries) = path.read_dir() else { return 0 };
    entries.filter_map(Result::ok).map(|entry| size_bytes(&entry.path(), depth + 1)).sum()
}

fn table(rows: &[Row]) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &Row| {
        let start = row.start_nanos.map(text::time);
        // To the second: the rest is for --json.
        let start = start.map(|time| time.split('.').next().unwrap_or_default().replace('T', " "));
        vec![
            row.path.clone(),
            row.kind.clone(),
            row.state.clone(),
            known(start),
            known(row.duration_nanos.map(text::duration)),
            known(row.message_count.map(text::count)),
            text::bytes(row.size_bytes as f64),
        ]
    };
    let head = ["path", "kind", "state", "start", ">duration", ">messages", ">size"];
    text::table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}
