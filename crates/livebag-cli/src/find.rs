//! `livebag find`: topics of recordings in a store, by its catalogue.

use std::collections::BTreeMap;
use std::io::Write;

use livebag_bucket::{BucketError, GIVE_UP_AFTER_DEFAULT};
use livebag_catalog::{CatalogueError, Columns, Filter, NamePattern, Opened, Row};
use serde::Serialize;

use crate::color::Tone;
use crate::outcome::{CliError, Outcome};
use crate::parse::{self, Moment};
use crate::select::{self, When};
use crate::text::{self, Cell};

/// So many objects of a catalogue take seconds to read.
const OBJECTS_MANY: usize = 500;

/// Find topics of recordings in an object store
///
/// Find topics of recordings in an object store or a folder, by the catalogue that `livebag push`
/// writes there. Prints a row for each topic and split. In names, `*` stands for anything.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag find s3://fleet/robot7 --topic /camera/*\n  \
    livebag find s3://fleet --type sensor_msgs/msg/Image --lost\n  \
    livebag find s3://fleet --robot r7 --json | jq -r '.[].address' | sort -u\n\n\
docs/catalog.md says how DuckDB and Polars read the same rows.")]
pub struct Args {
    /// s3://BUCKET/PREFIX, gs://…, az://CONTAINER/PREFIX, or a folder, that recordings were pushed to.
    /// Without a catalogue there, those of the folders in it.
    #[arg(value_name = "WHERE")]
    place: String,
    /// Only these topics.
    #[arg(short, long = "topic", value_name = "TOPIC", num_args = 1..)]
    topics: Vec<String>,
    /// Only topics of these types.
    #[arg(long = "type", value_name = "TYPE", num_args = 1..)]
    types: Vec<String>,
    /// Only recordings of these robots.
    #[arg(long = "robot", value_name = "ROBOT", num_args = 1..)]
    robots: Vec<String>,
    /// Only these recordings.
    #[arg(long = "recording", value_name = "NAME", num_args = 1..)]
    recordings: Vec<String>,
    /// With a message at this log time or later: RFC 3339, or nanoseconds since 1970.
    #[arg(long, value_name = "T", value_parser = time)]
    from: Option<u64>,
    /// With a message at this log time or earlier.
    #[arg(long, value_name = "T", value_parser = time)]
    to: Option<u64>,
    /// Only where messages were lost.
    #[arg(long)]
    lost: bool,
    /// Print a JSON array, with objects, checksums and metadata.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Found {
    /// The recording's.
    address: String,
    #[serde(flatten)]
    row: Row,
}

/// What a catalogue says of a recording.
#[derive(Default)]
pub struct Recording {
    pub kind: String,
    pub state: Option<String>,
    pub start_nanos: Option<u64>,
    pub end_nanos: Option<u64>,
    pub started_nanos: Option<u64>,
    /// `None` if one of its topics does not say.
    pub message_count: Option<u64>,
    pub bytes: u64,
}

/// Finds.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let patterns = |names: &[String]| names.iter().map(|name| NamePattern::new(name)).collect();
    let mut filter = Filter::default();
    filter.robots = patterns(&args.robots);
    filter.recordings = patterns(&args.recordings);
    filter.topics = patterns(&args.topics);
    filter.types = patterns(&args.types);
    (filter.from_nanos, filter.to_nanos) = (args.from, args.to);
    filter.has_lost = args.lost;
    if let (Some(from), Some(to)) = (args.from, args.to) {
        let at = |nanos| Some(When::Moment(Moment::At(nanos)));
        select::between(at(from), at(to), (from, to))?;
    }
    let columns = if args.json { Columns::All } else { Columns::Brief };
    let mut rows = Vec::new();
    let objects = open(&args.place)?
        .find(&filter, columns, &mut |catalogue, row| {
            let address = format!("{}/{}", catalogue.address(), row.recording);
            rows.push(Found { address, row });
        })
        .map_err(|error| CliError::failed(error.to_string()))?;
    advise(&args.place, objects);
    rows.sort_by(|one, other| {
        let key = |found: &Found| (found.row.start_nanos, found.row.split);
        let names = |found: &Found| (found.address.clone(), found.row.topic.clone());
        key(one).cmp(&key(other)).then_with(|| names(one).cmp(&names(other)))
    });
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else if rows.is_empty() {
        say!("livebag: nothing in {} fits", args.place);
    } else {
        write!(out, "{}", table(&rows))?;
    }
    Ok(Outcome::Done)
}

/// Opens the store with a catalogue.
pub fn open(place: &str) -> Result<Opened, CliError> {
    Opened::open(place, GIVE_UP_AFTER_DEFAULT).map_err(|error| match error {
        CatalogueError::Bucket(BucketError::Address(_)) => CliError::usage(error.to_string()),
        error => CliError::failed(error.to_string()),
    })
}

/// The recordings of a catalogue, by address.
pub fn recordings(place: &str) -> Result<BTreeMap<String, Recording>, CliError> {
    let mut recordings = BTreeMap::new();
    let objects = open(place)?
        .find(&Filter::default(), Columns::Brief, &mut |catalogue, row| {
            let address = format!("{}/{}", catalogue.address(), row.recording);
            let recording = recordings.entry(address).or_insert_with(|| Recording {
                kind: row.kind.clone(),
                state: row.state.clone(),
                started_nanos: row.started_nanos,
                message_count: Some(0),
                bytes: row.recording_bytes,
                ..Recording::default()
            });
            let earliest = recording.start_nanos.into_iter().chain(row.start_nanos).min();
            recording.start_nanos = earliest;
            recording.end_nanos = recording.end_nanos.max(row.end_nanos);
            // A container without topics has no messages.
            let count = row.message_count.or((row.kind == "container").then_some(0));
            recording.message_count =
                recording.message_count.zip(count).map(|(sum, count)| sum.saturating_add(count));
        })
        .map_err(|error| CliError::failed(error.to_string()))?;
    advise(place, objects);
    Ok(recordings)
}

/// Each object is a request.
fn advise(place: &str, objects: usize) {
    if objects > OBJECTS_MANY {
        let objects = text::count(objects as u64);
        say!(
            "livebag: the catalogue is in {objects} files; `livebag catalog compact {place}` makes this faster"
        );
    }
}

fn table(rows: &[Found]) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let cells = |Found { address, row }: &Found| {
        let lost = row.lost.map(|lost| lost.total());
        let look = lost.filter(|lost| *lost > 0).map(|_| Tone::Bad);
        let duration = row.start_nanos.zip(row.end_nanos);
        vec![
            address.clone().into(),
            known(row.robot.clone()).into(),
            row.split.to_string().into(),
            known(row.topic.clone()).into(),
            known(row.type_name.clone()).into(),
            known(row.start_nanos.map(text::time_to_the_second)).into(),
            known(duration.map(|(start, end)| text::duration(end.saturating_sub(start)))).into(),
            known(row.message_count.map(text::count)).into(),
            Cell::new(known(lost.map(text::count)), look),
        ]
    };
    let head = [
        "recording",
        "robot?4",
        ">split?5",
        "topic",
        "type?1",
        "=start?2",
        ">duration?3",
        ">messages",
        ">lost",
    ];
    text::table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// A moment that needs no recording.
fn time(text: &str) -> Result<u64, String> {
    match parse::moment(text)? {
        Moment::At(nanos) => Ok(nanos),
        Moment::After(_) => Err(format!(
            "`{text}` is after a recording's start: expected something like 2026-11-25T10:00:00Z"
        )),
    }
}
