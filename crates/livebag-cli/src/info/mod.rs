//! `livebag info`: shows the contents of a recording.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap_complete::ArgValueCompleter;
use livebag::internal::warning_of_missing;
use livebag::{Account, Container, Event};
use livebag_bags::Attachment;
use livebag_format::container::{CONTAINER_FILE, ClockJumps};
use livebag_format::visible;
use serde::Serialize;

use crate::color::{self, To, Tone};
use crate::complete;
use crate::outcome::{CliError, Outcome};
use crate::place::Trust;
use crate::place::{self, Place};
use crate::report::{self, Lost, TopicReport};
use crate::serve::ZenohArgs;
use crate::stored::Stored;
use crate::{event, files, select, text};

mod foreign;
mod remote;

/// Lines that may need colour.
const ENDED_EARLY: &str = "ended early";
const LOST: &str = "lost";

/// Show a recording's contents and losses
///
/// Show a recording: topics, counts, rates, losses by cause, and how it ended.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag info run1\n  \
    livebag info run1 --json | jq .lost.total\n  \
    livebag info drive.bag\n  \
    livebag info http://robot:8767/run1\n  \
    livebag info s3://fleet/robot7/run1\n  \
    livebag info 'zenoh/r2/*' --json")]
pub struct Args {
    /// The recording: a container, finished or still being written; a ROS 1 bag, a rosbag2 folder or an MCAP file,
    /// which are read completely; a recording in an object store (s3://BUCKET/PREFIX/NAME, gs://…, az://…) or on a
    /// server (http://HOST:PORT/NAME, https://…); or one on Zenoh (zenoh/ROBOT/NAME, with * for any).
    #[arg(required = true, value_name = "BAG", add = ArgValueCompleter::new(complete::recordings))]
    bags: Vec<PathBuf>,
    /// Show only these topics.
    #[arg(short, long = "topic", visible_alias = "topics", alias = "topic-name")]
    #[arg(value_name = "TOPIC", num_args = 1.., add = ArgValueCompleter::new(complete::topics))]
    topics: Vec<String>,
    /// Order of the topics.
    #[arg(long, value_enum, value_name = "BY")]
    sort: Option<Sort>,
    /// No effect, as in `ros2 bag info`: the contents tell the kind of a recording.
    #[arg(short, long, value_name = "STORAGE", hide = true)]
    storage: Option<String>,
    /// No effect, as in `ros2 bag info`: everything is shown.
    #[arg(short, long, hide = true)]
    verbose: bool,
    #[command(flatten)]
    server: Trust,
    #[command(flatten)]
    zenoh: ZenohArgs,
    /// Print one JSON object; for several recordings, or an address with *, an array. `lost` counts messages published
    /// but not recorded, by cause and in total. Null means unknown.
    #[arg(long)]
    json: bool,
}

/// What topics are ordered by.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Sort {
    Name,
    Type,
    Count,
}

/// Printed for a recording. Times are nanoseconds since the Unix epoch.
#[derive(Serialize)]
struct Info {
    path: String,
    storage: String,
    /// `live`, `closed`, `recovered`, `unrecovered`; `foreign` if it is not livebag's.
    state: String,
    /// What ended the recording early.
    failure: Option<String>,
    library: String,
    profile: String,
    /// Null where a server does not tell.
    files: Option<Vec<File>>,
    size_bytes: Option<u64>,
    #[serde(rename = "started_time", with = "livebag_format::json_time")]
    started_nanos: u64,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: Option<u64>,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: Option<u64>,
    duration_nanos: u64,
    message_count: u64,
    message_bytes: u64,
    /// Null where the format does not count losses.
    lost: Option<Lost>,
    /// Where every message is that was published; null where the format does not count.
    account: Option<Account>,
    /// How often the wall clock was set while recording; null if unknown.
    clock_jumps: Option<ClockJumps>,
    /// Files that the recording carries along (MCAP's attachments).
    /// Null where a server does not tell.
    attachments: Option<Vec<AttachmentReport>>,
    /// Named moments and time ranges, in order of time.
    events: Vec<Event>,
    /// What could not be read.
    warnings: Vec<String>,
    topics: Vec<TopicReport>,
}

#[derive(Serialize)]
struct File {
    name: String,
    bytes: u64,
}

#[derive(Serialize)]
struct AttachmentReport {
    name: String,
    media_type: String,
    bytes: u64,
    #[serde(rename = "log_time", with = "livebag_format::json_time")]
    log_time_nanos: u64,
    #[serde(rename = "create_time", with = "livebag_format::json_time")]
    create_time_nanos: u64,
}

impl From<&Attachment> for AttachmentReport {
    fn from(attachment: &Attachment) -> Self {
        AttachmentReport {
            name: attachment.name.clone(),
            media_type: attachment.media_type.clone(),
            bytes: attachment.data.bytes(),
            log_time_nanos: attachment.log_time_nanos,
            create_time_nanos: attachment.create_time_nanos,
        }
    }
}

/// Prints it.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let mut infos = Vec::new();
    let mut outcome = Outcome::Done;
    let mut is_one = args.bags.len() == 1;
    for bag in &args.bags {
        match of(bag, args) {
            Ok((found, is_whole, is_pattern)) => {
                infos.extend(found);
                is_one &= !is_pattern;
                if !is_whole {
                    outcome = Outcome::Loss;
                }
            }
            // The others are still shown.
            Err(error) if args.bags.len() > 1 => outcome = error.report(),
            Err(error) => return Err(error),
        }
    }
    for info in &mut infos {
        choose(info, args)?;
    }
    print(&infos, args.json, is_one)?;
    Ok(outcome)
}

/// What an argument stands for; whether all of it answered; whether it is a pattern.
fn of(bag: &Path, args: &Args) -> Result<(Vec<Info>, bool, bool), CliError> {
    Ok(match Place::of(bag)? {
        Place::Server(address) => (vec![remote::of_server(&address, &args.server)?], true, false),
        Place::Robots(address) => {
            let told = place::robots(&address, &args.zenoh)?;
            let is_whole = told.iter().all(|told| told.told.is_some());
            let is_pattern = address.robot.contains('*') || address.recording.contains('*');
            (remote::of_robots(told), is_whole, is_pattern)
        }
        Place::Stored(address) => (vec![in_store(&address)?], true, false),
        Place::Here(path) if path.exists() && !path.join(CONTAINER_FILE).exists() => {
            let source = livebag_bags::open_foreign(&path)?;
            (vec![foreign::read(source, &path, foreign::files_of(&path)?)?], true, false)
        }
        Place::Here(path) => {
            let bag = Container::open(&path)?;
            (vec![container(&bag, &|directory| files::list(directory))?], true, false)
        }
    })
}

/// Leaves the topics that are asked for, in the order that is asked for.
fn choose(info: &mut Info, args: &Args) -> Result<(), CliError> {
    if !args.topics.is_empty() {
        let known = || info.topics.iter().map(|topic| topic.name.as_str());
        let names = args.topics.iter().map(|name| select::full_name(name, known));
        let names: Vec<String> = names.collect::<Result<_, _>>()?;
        info.topics.retain(|topic| names.contains(&topic.name));
    }
    match args.sort {
        None => {}
        Some(Sort::Name) => info.topics.sort_by(|a, b| a.name.cmp(&b.name)),
        Some(Sort::Type) => info.topics.sort_by(|a, b| a.type_name.cmp(&b.type_name)),
        Some(Sort::Count) => {
            info.topics.sort_by_key(|topic| std::cmp::Reverse(topic.message_count))
        }
    }
    Ok(())
}

fn print(infos: &[Info], as_json: bool, is_one: bool) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match infos {
        [info] if as_json && is_one => {
            writeln!(out, "{}", serde_json::to_string_pretty(info)?)?;
        }
        _ if as_json => writeln!(out, "{}", serde_json::to_string_pretty(infos)?)?,
        _ => {
            let texts: Vec<String> = infos.iter().map(render).collect();
            write!(out, "{}", texts.join("\n"))?;
        }
    }
    for warning in infos.iter().flat_map(|info| &info.warnings) {
        say!("livebag: warning: {warning}");
    }
    Ok(())
}

fn in_store(address: &Path) -> Result<Info, CliError> {
    let stored = Stored::open(address)?;
    let list = |directory: &Path| files::list_on(&*stored.disk, directory);
    if stored.is_container() {
        return container(&stored.container()?, &list);
    }
    let length = stored.disk.open(&stored.path).and_then(|file| file.length());
    let bytes = length.map_err(|source| CliError::file("reading", &stored.path, source))?;
    let name = stored.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    foreign::read(stored.source()?, &stored.path, vec![File { name, bytes }])
}

/// Names and lengths of the files in a folder.
type List<'a> = &'a dyn Fn(&Path) -> Result<Vec<(String, u64)>, CliError>;

/// What retention has removed, as a sentence.
fn removed_splits(splits: u64, messages: u64) -> String {
    format!(
        "{} with {} were removed to keep within the limits of the recording",
        text::plural(splits as usize, "split"),
        text::messages(messages),
    )
}

fn container(bag: &Container, list: List<'_>) -> Result<Info, CliError> {
    let path = bag.path();
    // First, since it has all indexes fetched together.
    let range = bag.time_range()?;
    let topics = report::topics(bag)?;
    let mut files = Vec::new();
    for split in std::iter::once("").chain(bag.splits().iter().map(String::as_str)) {
        let listed = list(&path.join(split))?.into_iter();
        let named = |(name, bytes)| File { name: split_file(split, name), bytes };
        files.extend(listed.map(named));
    }
    let account = bag.account()?;
    let removed = bag.removed();
    let mut warnings = Vec::new();
    if removed.splits > 0 {
        warnings.push(removed_splits(removed.splits, removed.messages));
    }
    warnings.extend(warning_of_missing(bag.missing()?));
    Ok(Info {
        path: path.display().to_string(),
        storage: "container".into(),
        state: bag.state().to_string(),
        failure: bag.failure().map(str::to_owned),
        library: bag.library().to_owned(),
        profile: bag.profile().to_owned(),
        size_bytes: Some(files.iter().map(|file| file.bytes).sum()),
        files: Some(files),
        started_nanos: bag.started_nanos(),
        start_nanos: range.map(|(start, _)| start),
        end_nanos: range.map(|(_, end)| end),
        duration_nanos: range.map_or(0, |(start, end)| end - start),
        message_count: topics.iter().map(|topic| topic.message_count).sum(),
        message_bytes: topics.iter().map(|topic| topic.bytes).sum(),
        lost: Some((&account).into()),
        account: Some(account),
        clock_jumps: Some(bag.clock_jumps()),
        attachments: Some(
            livebag_bags::attachments(bag)?.iter().map(AttachmentReport::from).collect(),
        ),
        events: bag.events()?,
        warnings,
        topics,
    })
}

fn split_file(split: &str, name: String) -> String {
    if split.is_empty() { name } else { format!("{split}/{name}") }
}

fn render(info: &Info) -> String {
    let state = match info.state.as_str() {
        "live" => "live (a recorder is writing it; losses are as of the last second)",
        "recovered" => {
            "recovered (its recorder died; committed messages that can be proven are here)"
        }
        "unrecovered" => {
            "unrecovered (its recorder died, and there is no right to write here: run `livebag \
             info` as its owner)"
        }
        "foreign" => "not livebag's (livebag convert makes a container of it)",
        state => state,
    };
    let time = |nanos: Option<u64>| match nanos {
        Some(nanos) => format!(
            "{} ({}.{:09} s)",
            text::time(nanos),
            nanos / 1_000_000_000,
            nanos % 1_000_000_000
        ),
        None => "-".into(),
    };
    let storage = match info.library.as_str() {
        "" => info.storage.clone(),
        library => format!("{}, by {library}", info.storage),
    };
    let mut lines =
        vec![("recording", info.path.clone()), ("storage", storage), ("state", state.to_owned())];
    if let Some(failure) = &info.failure {
        lines.push((ENDED_EARLY, failure.clone()));
    }
    let rate = info.message_bytes as f64 * 1e9 / info.duration_nanos.max(1) as f64;
    let mut messages =
        format!("{}, {}", text::count(info.message_count), text::bytes(info.message_bytes as f64));
    if info.duration_nanos > 0 {
        messages.push_str(&format!(", {}", text::bytes_per_second(rate)));
    }
    if let (Some(files), Some(bytes)) = (&info.files, info.size_bytes) {
        let mut line = text::plural(files.len(), "file");
        line.push_str(&format!(", {}", text::bytes(bytes as f64)));
        let of = |file: &File| Some(file.name.split_once('/')?.0.to_owned());
        let splits: BTreeSet<String> = files.iter().filter_map(of).collect();
        if !splits.is_empty() {
            // The first split's file is beside container.yaml, until retention removes it.
            let first = files.iter().any(|file| file.name.ends_with(".mcap") && of(file).is_none());
            let count = splits.len() + usize::from(first);
            line.push_str(&format!(" in {}", text::plural(count, "split")));
        }
        let share = bytes as f64 / info.message_bytes.max(1) as f64;
        if info.message_bytes > 0 && share < 0.98 {
            line.push_str(&format!(", compressed to {:.0} %", share * 100.0));
        }
        lines.push(("files", line));
    }
    lines.extend([
        ("start", time(info.start_nanos)),
        ("end", time(info.end_nanos)),
        ("duration", text::duration(info.duration_nanos)),
        ("messages", messages),
        (LOST, info.lost.map_or("not counted in this format".into(), |lost| lost.sentence())),
    ]);
    lines.extend(info.account.as_ref().and_then(report::beside).map(|beside| ("also", beside)));
    let incidents = report::events(&info.topics, info.clock_jumps.unwrap_or_default());
    lines.extend(incidents.into_iter().map(|incident| ("incident", incident)));
    for (number, event) in info.events.iter().enumerate() {
        lines.push((if number == 0 { "events" } else { "" }, event::line(event)));
    }
    for (number, attachment) in info.attachments.iter().flatten().enumerate() {
        let name = if number == 0 { "attachments" } else { "" };
        lines.push((name, attachment_line(attachment)));
    }
    let mut out = String::new();
    for (name, value) in lines {
        let tone = match name {
            ENDED_EARLY => Some(Tone::Bad),
            LOST => info.lost.and_then(|lost| lost.tone()),
            "state" if info.state == "unrecovered" => Some(Tone::Warning),
            _ => None,
        };
        let name = if name.is_empty() { String::new() } else { format!("{name}:") };
        let value = visible(&value);
        let value = tone.map_or(value.to_string(), |tone| color::paint(To::Out, tone, &value));
        out.push_str(&format!("{name:<13}{value}\n"));
    }
    if info.topics.is_empty() {
        out.push_str("no topics\n");
    } else {
        out.push('\n');
        out.push_str(&report::table(&info.topics));
    }
    out
}

fn attachment_line(attachment: &AttachmentReport) -> String {
    let mut line = format!("{}, {}", attachment.name, text::bytes(attachment.bytes as f64));
    if !attachment.media_type.is_empty() {
        line.push_str(&format!(", {}", attachment.media_type));
    }
    line.push_str(&format!(", {}", text::time(attachment.log_time_nanos)));
    line
}
