//! `livebag streams`: the streams of this machine, as their headers tell.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;

use clap::Subcommand;
use clap_complete::ArgValueCompleter;
use livebag::{Clock, stream_topic};
use livebag_shm::{Counters, Kind, Liveness, Owners, Reader, ReaderInfo, RemoveError};
use serde::Serialize;

use crate::color::Tone;
use crate::complete;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::text::Cell;
use crate::{parse, text};

/// How long rates are measured.
const MEASURE: Duration = Duration::from_millis(500);
/// Time between two looks with `--watch`.
const WATCH: Duration = Duration::from_secs(1);
/// Clears a terminal: cursor home, then everything below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// List the streams on this machine and their readers
///
/// List the streams on this machine: rate, size, whether their writers are alive, and their readers.
///
/// For each reader: frames taken, frames behind, and frames overwritten before it read them (laps). A reader that takes
/// only the newest frame is behind by design, and has no laps. A stream for a group has no table of readers.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        livebag streams\n  \
        livebag streams --watch\n  \
        livebag streams --json | jq '.[] | select(.writer != \"live\") | .name'\n  \
        livebag streams --json | jq '.[].readers[] | select(.lapped > 0)'\n  \
        livebag streams remove camera_front\n  \
        livebag streams remove --gone"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Open streams of other users, too. Any of them can end this command by truncating a stream.
    #[arg(long)]
    all_users: bool,
    /// Refresh every second, until Ctrl-C.
    #[arg(short, long)]
    watch: bool,
    /// Print a JSON array; with --watch one line every second.
    #[arg(long)]
    json: bool,
    /// A writer that has been idle for this long counts as stalled.
    #[arg(long, value_name = "D", default_value = "1s", value_parser = parse::duration_above_zero)]
    deadline: Duration,
}

#[derive(Subcommand)]
enum Action {
    /// Remove streams whose writers are gone. Readers keep their open streams.
    Remove {
        /// Names of the streams.
        #[arg(required_unless_present = "gone", add = ArgValueCompleter::new(complete::streams))]
        name: Vec<String>,
        /// Remove all streams whose writers are gone; with names, those of them.
        #[arg(long)]
        gone: bool,
    },
}

/// Printed for one stream.
#[derive(Serialize)]
struct Row {
    name: String,
    /// Why it cannot be read; everything below is empty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    topic: String,
    #[serde(rename = "type")]
    type_name: String,
    kind: &'static str,
    /// `live`, `stalled`, `gone`, `unreadable`.
    writer: &'static str,
    writer_pid: u64,
    /// How often a writer has attached.
    epoch: u64,
    rate_hz: f64,
    #[serde(rename = "message_bytes_per_s")]
    bytes_per_s: f64,
    slots: u32,
    payload_bytes_max: usize,
    region_bytes: usize,
    checksum: bool,
    published: u64,
    dropped: u64,
    abandoned: u64,
    publish_gap_max_nanos: u64,
    /// Since the newest frame was stamped; null without frames.
    newest_age_nanos: Option<u64>,
    /// Its readers; null where the stream has no table of them.
    readers: Option<Vec<ReaderRow>>,
}

/// Printed for one reader.
#[derive(Serialize)]
struct ReaderRow {
    /// As its process sees itself.
    pid: u32,
    /// The name it gives itself, or its program's name.
    label: String,
    taken: u64,
    lapped: u64,
    behind: u64,
    last_sequence: u64,
    /// Since it took a frame; null if it has taken none.
    idle_nanos: Option<u64>,
}

impl From<ReaderInfo> for ReaderRow {
    fn from(reader: ReaderInfo) -> Self {
        ReaderRow {
            pid: reader.pid,
            label: reader.label,
            taken: reader.taken,
            lapped: reader.lapped,
            behind: reader.behind,
            last_sequence: reader.last_sequence,
            idle_nanos: reader.idle.map(|idle| u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX)),
        }
    }
}

/// Streams kept open between polls, to compute rates.
struct Looks {
    clock: Clock,
    deadline: Duration,
    owners: Owners,
    open: BTreeMap<String, Look>,
}

struct Look {
    reader: Reader,
    at_nanos: u64,
    counters: Counters,
}

/// Prints them.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if let Some(Action::Remove { name, gone }) = &args.action {
        return match gone {
            true => remove_gone(name),
            false => Ok(remove(name)),
        };
    }
    let interrupt = Interrupt::watch()?;
    let mut looks = Looks {
        clock: Clock::system(),
        deadline: args.deadline,
        owners: if args.all_users { Owners::All } else { Owners::Trusted },
        open: BTreeMap::new(),
    };
    looks.take()?;
    let mut pause = MEASURE;
    while !interrupt.wait(if looks.open.is_empty() && !args.watch { Duration::ZERO } else { pause })
    {
        let rows = looks.take()?;
        print(&rows, args)?;
        if !args.watch {
            break;
        }
        pause = WATCH;
    }
    Ok(Outcome::Done)
}

fn remove(names: &[String]) -> Outcome {
    let mut outcome = Outcome::Done;
    for name in names {
        if let Err(error) = livebag_shm::remove(name) {
            complain!("livebag: {error}");
            outcome = Outcome::Failed;
        }
    }
    outcome
}

/// Removes what dead programs have left.
fn remove_gone(chosen: &[String]) -> Result<Outcome, CliError> {
    let is_gone = |name: &String| {
        if !chosen.is_empty() && !chosen.contains(name) {
            return false;
        }
        let reader = Reader::open_of(name, Owners::Trusted);
        reader.is_ok_and(|reader| reader.unlisted().liveness(Duration::MAX) == Liveness::Gone)
    };
    let names: Vec<_> = livebag_shm::list()?.into_iter().filter(is_gone).collect();
    let mut outcome = Outcome::Done;
    let mut out = std::io::stdout().lock();
    for name in &names {
        match livebag_shm::remove(name) {
            Ok(()) => writeln!(out, "removed {}", livebag_format::visible(name))?,
            // Meanwhile its writer has restarted, or another process has removed it.
            Err(RemoveError::LiveWriter { .. } | RemoveError::NotFound { .. }) => {}
            Err(error) => {
                complain!("livebag: {error}");
                outcome = Outcome::Failed;
            }
        }
    }
    if names.is_empty() {
        say!("livebag: no stream's writer is gone");
    }
    Ok(outcome)
}

impl Looks {
    fn take(&mut self) -> Result<Vec<Row>, CliError> {
        let names = livebag_shm::list()?;
        self.open.retain(|name, _| names.contains(name));
        Ok(names.into_iter().map(|name| self.row(name)).collect())
    }

    fn row(&mut self, name: String) -> Row {
        let now = self.clock.monotonic_nanos();
        // Opened again every time: the region of a name may have been replaced.
        let reader = match Reader::open_of(&name, self.owners) {
            Ok(reader) => reader.unlisted(),
            Err(error) => {
                self.open.remove(&name);
                return unreadable(name, error.to_string());
            }
        };
        let counters = reader.counters();
        let before = self
            .open
            .get(&name)
            .filter(|look| look.reader.info().instance == reader.info().instance);
        let (rate_hz, bytes_per_s) = before.map_or((0.0, 0.0), |look| {
            let seconds = (now - look.at_nanos) as f64 / 1e9;
            let frames = counters.published.saturating_sub(look.counters.published);
            let bytes = counters
                .payload_bytes_published
                .saturating_sub(look.counters.payload_bytes_published);
            (frames as f64 / seconds, bytes as f64 / seconds)
        });
        let wall = self.clock.wall_nanos();
        let newest = reader.borrow_latest().map(|frame| frame.header().publish_time_nanos);
        let info = reader.info();
        let row = Row {
            error: None,
            topic: info.topic.clone(),
            type_name: stream_topic(info).type_name,
            kind: match info.kind {
                Kind::Bytes => "bytes",
                Kind::Image => "image",
                Kind::Points => "points",
            },
            writer: match reader.liveness(self.deadline) {
                Liveness::Live => "live",
                Liveness::Stalled => "stalled",
                Liveness::Gone => "gone",
            },
            writer_pid: counters.writer_pid,
            epoch: counters.epoch,
            rate_hz,
            bytes_per_s,
            slots: info.slots,
            payload_bytes_max: info.payload_bytes_max,
            region_bytes: info.region_bytes,
            checksum: info.checksum,
            published: counters.published,
            dropped: counters.dropped,
            abandoned: counters.abandoned,
            publish_gap_max_nanos: counters.publish_gap_max_nanos,
            newest_age_nanos: newest.map(|stamped| wall.saturating_sub(stamped)),
            readers: reader.readers().map(|all| all.into_iter().map(ReaderRow::from).collect()),
            name: name.clone(),
        };
        self.open.insert(name, Look { reader, at_nanos: now, counters });
        row
    }
}

fn unreadable(name: String, error: String) -> Row {
    Row {
        name,
        error: Some(error),
        topic: String::new(),
        type_name: String::new(),
        kind: "",
        writer: "unreadable",
        writer_pid: 0,
        epoch: 0,
        rate_hz: 0.0,
        bytes_per_s: 0.0,
        slots: 0,
        payload_bytes_max: 0,
        region_bytes: 0,
        checksum: false,
        published: 0,
        dropped: 0,
        abandoned: 0,
        publish_gap_max_nanos: 0,
        newest_age_nanos: None,
        readers: None,
    }
}

fn print(rows: &[Row], args: &Args) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let json = if args.watch {
            serde_json::to_string(rows)?
        } else {
            serde_json::to_string_pretty(rows)?
        };
        writeln!(out, "{json}")?;
    } else {
        if args.watch && out.is_terminal() {
            write!(out, "{CLEAR}")?;
        }
        write!(out, "{}", render(rows))?;
        if args.watch && !out.is_terminal() {
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn render(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no streams on this machine: start a writer (`livebag demo` has some)\n".into();
    }
    let head = [
        "stream",
        "topic?5",
        "type?6",
        "=writer",
        ">rate",
        ">throughput?8",
        ">slots?1",
        ">published?3",
        ">dropped?7",
        ">largest gap?2",
        ">newest?4",
        ">readers?7",
    ];
    let readable = rows.iter().filter(|row| row.error.is_none());
    let cells: Vec<_> = readable.map(cells).collect();
    let mut out = if cells.is_empty() { String::new() } else { text::table(&head, &cells) };
    out.push_str(&render_readers(rows));
    for row in rows {
        if let Some(error) = &row.error {
            out.push_str(&format!("{error}\n"));
        }
    }
    out
}

fn cells(row: &Row) -> Vec<Cell> {
    let idle = row.rate_hz == 0.0;
    let readers = row.readers.as_ref().map_or("-".into(), |readers| readers.len().to_string());
    let newest = row.newest_age_nanos;
    vec![
        row.name.clone().into(),
        row.topic.clone().into(),
        row.type_name.clone().into(),
        match row.writer {
            "gone" => Cell::new("gone", Some(Tone::Bad)),
            state => {
                let look = (state == "stalled").then_some(Tone::Warning);
                Cell::new(format!("{state} ({})", row.writer_pid), look)
            }
        },
        text::hertz(Some(row.rate_hz).filter(|_| !idle)).into(),
        if idle { "-".to_owned() } else { text::bytes_per_second(row.bytes_per_s) }.into(),
        format!("{} x {}", row.slots, text::bytes(row.payload_bytes_max as f64)).into(),
        text::count(row.published).into(),
        Cell::new(text::count(row.dropped), (row.dropped > 0).then_some(Tone::Bad)),
        text::duration(row.publish_gap_max_nanos).into(),
        newest.map_or("-".to_owned(), |age| format!("{} ago", text::duration(age))).into(),
        readers.into(),
    ]
}

/// The table of all readers, below that of the streams; nothing without readers.
fn render_readers(rows: &[Row]) -> String {
    let head = ["stream", "reader", ">pid?1", ">taken?2", ">behind", ">laps", ">last frame?3"];
    let cells = |row: &Row, reader: &ReaderRow| {
        vec![
            row.name.clone(),
            reader.label.clone(),
            reader.pid.to_string(),
            text::count(reader.taken),
            text::count(reader.behind),
            text::count(reader.lapped),
            reader.idle_nanos.map_or("-".into(), |idle| format!("{} ago", text::duration(idle))),
        ]
    };
    let of_row = |row: &Row| -> Vec<_> {
        row.readers.iter().flatten().map(|reader| cells(row, reader)).collect()
    };
    let all: Vec<_> = rows.iter().flat_map(of_row).collect();
    if all.is_empty() { String::new() } else { format!("\n{}", text::table(&head, &all)) }
}
