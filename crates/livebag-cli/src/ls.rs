//! `livebag ls`: the recordings below a folder, in a store, on a server or on Zenoh, those being written among them.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use livebag_bags::Glance;
use livebag_net::tell::{BagRow, RecordingInfo};
use serde::Serialize;

use crate::below;
use crate::color::Tone;
use crate::complete;
use crate::outcome::{CliError, Outcome};
use crate::place::Trust;
use crate::place::{self, Place, Told};
use crate::serve::ZenohArgs;
use crate::text::{self, Cell};

/// List recordings
///
/// List the recordings below a folder, in an object store, on a server or on Zenoh: kind, state, start, duration, messages, size.
///
/// States: live (a recorder is writing it), closed, recovered, crashed (not closed), damaged; silent (a robot announces
/// it but does not answer). `ls` changes nothing and does not read whole recordings; `livebag verify` does.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag ls\n  \
    livebag ls /data/robots\n  \
    livebag ls http://robot:8767\n  \
    livebag ls s3://fleet/robot7\n  \
    livebag ls 'zenoh/r2/*'\n  \
    livebag ls --json | jq -r '.[] | select(.state == \"crashed\") | .path'")]
pub struct Args {
    /// Folders, or recordings; object stores with a catalogue (s3://BUCKET/PREFIX, gs://…, az://…);
    /// servers (http://HOST:PORT, https://…); or addresses on Zenoh (zenoh, zenoh/ROBOT/NAME, with * for any).
    #[arg(value_name = "DIR", default_value = ".", add = ArgValueCompleter::new(complete::recordings))]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    server: Trust,
    #[command(flatten)]
    zenoh: ZenohArgs,
    /// Print a JSON array. Values that need reading the recording are null.
    #[arg(long)]
    json: bool,
}

/// One recording. Times are nanoseconds since the Unix epoch.
#[derive(Serialize)]
struct Row {
    path: String,
    kind: String,
    /// `live`, `closed`, `recovered`, `crashed`, `damaged`, `silent`.
    state: String,
    problem: Option<String>,
    /// Unusual, but not wrong.
    note: Option<String>,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: Option<u64>,
    duration_nanos: Option<u64>,
    message_count: Option<u64>,
    event_count: Option<u64>,
    size_bytes: Option<u64>,
}

impl Row {
    fn new(path: &Path, glance: Glance) -> Self {
        Self {
            path: path.strip_prefix("./").unwrap_or(path).display().to_string(),
            kind: glance.kind.to_string(),
            state: glance.state.to_string(),
            problem: glance.problem,
            note: glance.note,
            start_nanos: glance.start_nanos,
            duration_nanos: glance.duration_nanos,
            message_count: glance.message_count,
            event_count: glance.event_count,
            size_bytes: Some(below::size_bytes(path, 0)),
        }
    }
}

impl Row {
    /// A remote recording as a row of this list.
    fn told(Told { address, told: row }: Told<BagRow>) -> Self {
        let problem = row.is_none().then(|| "it is announced and does not answer".to_owned());
        let state = row.as_ref().map_or("silent", |row| match &*row.state {
            "unrecovered" => "crashed",
            state => state,
        });
        let row = row.as_ref();
        let range = row.and_then(|row| row.start_nanos.zip(row.end_nanos));
        Self {
            path: address,
            kind: "container".into(),
            state: state.to_owned(),
            problem,
            note: None,
            start_nanos: row.map(|row| row.start_nanos.unwrap_or(row.started_nanos)),
            duration_nanos: range.map(|(start, end)| end.saturating_sub(start)),
            message_count: row.map(|row| row.message_count),
            event_count: row.and_then(|row| row.event_count),
            size_bytes: row.and_then(|row| row.size_bytes),
        }
    }
}

/// Lists them.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut rows = Vec::new();
    let mut outcome = Outcome::Done;
    for directory in &args.directories {
        match of(directory, args) {
            Ok(found) => rows.extend(found),
            // The others are still listed.
            Err(error) if args.directories.len() > 1 => outcome = error.report(),
            Err(error) => return Err(error),
        }
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else if rows.is_empty() {
        let names: Vec<_> =
            args.directories.iter().map(|path| path.display().to_string()).collect();
        say!("livebag: no recordings in {}", names.join(", "));
    } else {
        write!(out, "{}", table(&rows))?;
        for row in &rows {
            if let Some(problem) = &row.problem {
                complain!("livebag: {}: {problem}", row.path);
            }
            if let Some(note) = &row.note {
                say!("livebag: warning: {}: {note}", row.path);
            }
        }
    }
    Ok(outcome)
}

/// What an argument stands for.
fn of(directory: &Path, args: &Args) -> Result<Vec<Row>, CliError> {
    Ok(match Place::of(directory)? {
        Place::Here(path) => below(&path)?,
        Place::Stored(address) => stored(&address)?,
        Place::Server(address) => {
            place::rows(&address, &args.server)?.into_iter().map(Row::told).collect()
        }
        Place::Robots(address) => {
            let told = place::robots(&address, &args.zenoh)?.into_iter();
            let row = |Told { address, told }: Told<RecordingInfo>| Told {
                address,
                told: told.map(|info| info.row),
            };
            told.map(row).map(Row::told).collect()
        }
    })
}

/// Those that an object store's catalogue has.
#[cfg(feature = "bucket")]
fn stored(address: &Path) -> Result<Vec<Row>, CliError> {
    let found = crate::find::recordings(&address.to_string_lossy())?;
    let row = |(path, found): (String, crate::find::Recording)| Row {
        path,
        kind: found.kind,
        state: found.state.unwrap_or_else(|| "closed".to_owned()),
        problem: None,
        note: None,
        start_nanos: found.start_nanos.or(found.started_nanos),
        duration_nanos: found
            .start_nanos
            .zip(found.end_nanos)
            .map(|(start, end)| end.saturating_sub(start)),
        message_count: found.message_count,
        event_count: None,
        size_bytes: Some(found.bytes),
    };
    Ok(found.into_iter().map(row).collect())
}

#[cfg(not(feature = "bucket"))]
fn stored(_: &Path) -> Result<Vec<Row>, CliError> {
    Err(crate::absent::error("bucket"))
}

/// Those below a folder, or the one that is there.
fn below(directory: &Path) -> Result<Vec<Row>, CliError> {
    Ok(below::found(directory)?.into_iter().map(|(path, glance)| Row::new(&path, glance)).collect())
}

fn look(state: &str) -> Option<Tone> {
    match state {
        "damaged" => Some(Tone::Bad),
        "crashed" | "silent" => Some(Tone::Warning),
        _ => None,
    }
}

fn table(rows: &[Row]) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &Row| {
        // To the second: --json has the exact value.
        let start = row.start_nanos.map(text::time_to_the_second);
        vec![
            row.path.clone().into(),
            row.kind.clone().into(),
            Cell::new(&*row.state, look(&row.state)),
            known(start).into(),
            known(row.duration_nanos.map(text::duration)).into(),
            known(row.message_count.map(text::count)).into(),
            known(row.event_count.map(text::count)).into(),
            known(row.size_bytes.map(|bytes| text::bytes(bytes as f64))).into(),
        ]
    };
    let head = [
        "path",
        "=kind?1",
        "=state",
        "=start?4",
        ">duration?3",
        ">messages?2",
        ">events?1",
        ">size",
    ];
    text::table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}
