//! `livebag convert`: between containers and rosbag2 bags, and from recordings of other makes.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use clap_complete::ArgValueCompleter;
use indicatif::{ProgressBar, ProgressStyle};
use livebag::Clock;
use livebag_bags::{ConvertError, MessageSource};
use livebag_bags::{
    Rosbag2Compression, Rosbag2Options, Rosbag2Storage, SinkCompression, SinkOptions,
    Sqlite3Options, TopicFilter,
};
use livebag_format::container::CONTAINER_FILE;
use livebag_format::rosbag2::MetadataVersion;
use serde::Serialize;

use crate::complete;
use crate::guarded::Guarded;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::select::{self, Selection};
use crate::stored::{self, Stored};
use crate::{absent, parse, place, text};

mod options;

/// Convert between containers, rosbag2 and ROS 1 bags, MCAP
///
/// Convert a recording: containers to rosbag2 bags and back, and ROS 1 bags, rosbag2 bags and MCAP files into either.
///
/// Every message keeps its bytes, both times, its sequence, schema, QoS and type hash, as far as the target can store
/// them. Attachments and metadata records are kept, whatever topics and times are chosen; sqlite3 bags cannot hold
/// them, and a warning is printed.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag convert run1 run1_rosbag2\n  \
    livebag convert drive.bag drive\n  \
    livebag convert drive.bag drive_ros2 --to-ros2     # messages in CDR\n  \
    livebag convert drive_rosbag2 small --storage mcap --compression zstd\n  \
    livebag convert run1 run1_db3 --storage sqlite3 --compression-mode message\n  \
    livebag convert run1 parts --storage mcap -b 1GiB\n  \
    livebag convert run1 part -t /imu --from 21:29:38 --to 21:30:00\n  \
    livebag convert -i front -i rear mcap -o outputs.yaml\n\n\
A bag in `mcap` storage is a folder with MCAP files and metadata.yaml: `ros2 bag play` reads it. \
`sqlite3` storage has only the log time of a message, and no sequence.\n\n\
-o FILE.yaml is rosbag2's file of outputs (output_bags: [{uri, storage_id, all_topics, topics, …}]); \
docs/rosbag2.md lists its keys. Compressed bags are unpacked below $TMPDIR for reading.\n\n\
Exit code 3: done, but messages or attachments of the source could not be read or re-encoded.\n\n\
Environment:\n  \
    LIVEBAG_STORAGE  how containers are written: io_uring (default) or pwrite, with ,buffered \
behind either")]
pub struct Args {
    /// The recording: a container, a ROS 1 bag, a rosbag2 folder or database, or an MCAP file; or its address in an
    /// object store (s3://BUCKET/PREFIX/NAME, …). With -i: the folder to create.
    #[arg(value_name = "IN", add = ArgValueCompleter::new(complete::recordings))]
    first: Option<PathBuf>,
    /// The folder to create.
    #[arg(value_name = "OUT")]
    second: Option<PathBuf>,
    /// A recording, optionally with its storage as in rosbag2 (mcap, sqlite3), which is ignored. Several are merged by
    /// log time.
    #[arg(short, long, value_names = ["URI", "STORAGE"], num_args = 1..=2)]
    input: Vec<String>,
    /// rosbag2's file of inputs (input_bags).
    #[arg(long, value_name = "FILE")]
    #[arg(hide_short_help = true)]
    input_options: Option<PathBuf>,
    /// rosbag2's file of outputs (output_bags), instead of OUT.
    #[arg(long, value_name = "FILE", conflicts_with_all = [
        "storage", "compression", "compression_mode", "max_bag_size", "max_bag_duration"])]
    #[arg(hide_short_help = true)]
    output_options: Option<PathBuf>,
    /// The folder to create, instead of OUT; rosbag2's file of outputs if it ends in .yaml or .yml.
    #[arg(short, long, value_name = "OUT", conflicts_with = "output_options")]
    output: Option<PathBuf>,
    /// Format to write [default: mcap from a container and with --to-ros2, else a container]
    #[arg(short, long, value_enum)]
    storage: Option<Storage>,
    /// Compression of an MCAP's chunks.
    #[arg(long, value_enum, default_value_t = Compression::None)]
    compression: Compression,
    /// rosbag2's own compression (zstd): each file, or each message (only sqlite3).
    #[arg(long, value_enum, default_value_t = CompressionMode::None)]
    #[arg(hide_short_help = true)]
    compression_mode: CompressionMode,
    /// Begin a new file of a rosbag2 bag at this size: 1GiB.
    #[arg(short = 'b', long, value_name = "BYTES", value_parser = parse::size_bytes)]
    max_bag_size: Option<u64>,
    /// Begin a new file of a rosbag2 bag after this time: 60, 10m.
    #[arg(short = 'd', long, value_name = "TIME", value_parser = parse::duration)]
    max_bag_duration: Option<Duration>,
    /// Re-encode ROS 1 messages for ROS 2: CDR, new type names, headers without seq, latched topics transient local.
    #[arg(long)]
    to_ros2: bool,
    /// Version of metadata.yaml: 5 or 7 for Humble and later (7 keeps type hashes and custom data),
    /// 9 for Jazzy and later (keeps the ROS distribution).
    #[arg(long, value_name = "V", default_value = "7", value_parser = metadata_version)]
    #[arg(hide_short_help = true)]
    metadata_version: MetadataVersion,
    /// Print a summary as one JSON object; a list of them with -o.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

impl Args {
    /// Whether the command line has options that belong into the output file.
    fn says_what_is_made(&self) -> bool {
        self.storage.is_some()
            || self.compression != Compression::None
            || self.compression_mode != CompressionMode::None
            || self.max_bag_size.is_some()
            || self.max_bag_duration.is_some()
    }

    /// rosbag2's file of outputs.
    fn output_file(&self) -> Option<&Path> {
        let is_yaml = |path: &&PathBuf| path.extension().is_some_and(|e| e == "yaml" || e == "yml");
        self.output_options.as_ref().or(self.output.as_ref().filter(is_yaml)).map(PathBuf::as_path)
    }
}

/// Format to write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Storage {
    /// livebag's format: bricks with a time index.
    Container,
    /// A rosbag2 bag: MCAP with metadata.yaml.
    Mcap,
    /// A rosbag2 bag in its older storage: SQLite databases with metadata.yaml.
    Sqlite3,
}

/// How chunks are compressed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Compression {
    /// Not at all.
    None,
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

/// rosbag2's own compression.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CompressionMode {
    /// None.
    None,
    /// Each file, once it is closed.
    File,
    /// Each message.
    Message,
}

/// One thing to make.
pub struct Job {
    path: PathBuf,
    target: Target,
    filter: TopicFilter,
    from_nanos: Option<u64>,
    to_nanos: Option<u64>,
    /// Notes to print about it.
    notes: Vec<String>,
}

/// The output's kind.
#[derive(Clone)]
pub enum Target {
    /// A container.
    Container,
    /// A rosbag2 bag.
    Rosbag2(Rosbag2Storage, Rosbag2Options),
}

impl Target {
    fn storage(&self) -> Storage {
        match self {
            Target::Container => Storage::Container,
            Target::Rosbag2(Rosbag2Storage::Mcap(_), _) => Storage::Mcap,
            Target::Rosbag2(Rosbag2Storage::Sqlite3(_), _) => Storage::Sqlite3,
        }
    }
}

/// Printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    storage: Storage,
    #[serde(rename = "topic_count")]
    topics: usize,
    message_count: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    /// Attachments taken over, and those that were damaged and left out.
    #[serde(rename = "attachment_count")]
    attachments: u64,
    #[serde(rename = "damaged_attachments")]
    lost_attachments: u64,
    /// Messages that the source says it has; null where a part was asked for.
    source_message_count: Option<u64>,
    /// Messages that are known to have been there and could not be read or re-encoded.
    #[serde(rename = "damaged")]
    lost_messages: u64,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
    warnings: Vec<String>,
}

fn metadata_version(text: &str) -> Result<MetadataVersion, String> {
    let number = text.parse().ok();
    number.and_then(MetadataVersion::from_number).ok_or_else(|| "expected 5, 7 or 9".to_owned())
}

/// Converts.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let (inputs, output) = inputs_and_output(args)?;
    let jobs = match (args.output_file(), output) {
        (Some(_), None) if args.says_what_is_made() => {
            let what = "the file of outputs says how bags are written: leave --storage, --compression, \
                        --compression-mode, -b and -d out";
            return Err(CliError::usage(what));
        }
        (Some(_), None) if !args.selection.is_all() => {
            let what = "the file of outputs says which topics and times: leave them out here";
            return Err(CliError::usage(what));
        }
        (Some(file), None) => options::outputs(file, args.metadata_version)?,
        (None, Some(output)) => vec![job(args, &inputs, output)?],
        (Some(_), Some(output)) => {
            let what = format!("-o says what to make: leave {} out", output.display());
            return Err(CliError::usage(what));
        }
        (None, None) => {
            let what = "nothing to make: give OUT behind IN, or rosbag2's file of outputs with -o";
            return Err(CliError::usage(what));
        }
    };
    let mut paths = BTreeSet::new();
    for job in &jobs {
        check_output(&job.path)?;
        if !paths.insert(&job.path) {
            let what = format!("{} is named twice", job.path.display());
            return Err(CliError::usage(what));
        }
    }
    if let Some(missing) = inputs.iter().find(|input| !stored::is_address(input) && !input.exists())
    {
        return Err(place::missing(missing, io::ErrorKind::NotFound.into()));
    }
    let mut summaries = Vec::new();
    for job in &jobs {
        summaries.push(convert_one(job, &inputs, args)?);
    }
    conclude(&summaries, &inputs, args)
}

/// The inputs, and the output unless an output file describes it.
fn inputs_and_output(args: &Args) -> Result<(Vec<PathBuf>, Option<&Path>), CliError> {
    let mut inputs = Vec::new();
    let mut had_storage = true;
    for word in &args.input {
        let is_storage = !had_storage && options::STORAGE_IDS.contains(&word.as_str());
        had_storage = is_storage;
        if !is_storage {
            inputs.push(PathBuf::from(word));
        }
    }
    if let Some(file) = &args.input_options {
        inputs.extend(options::inputs(file)?.into_iter().map(|(path, _)| path));
    }
    let (first, second) = (args.first.as_deref(), args.second.as_deref());
    let output = args.output.as_deref().filter(|_| args.output_file().is_none());
    if let (Some(output), Some(second)) = (output, second) {
        let what =
            format!("-o says what to make ({}): leave {} out", output.display(), second.display());
        return Err(CliError::usage(what));
    }
    let second = second.or(output.filter(|_| inputs.is_empty()));
    let first = first.or(output.filter(|_| !inputs.is_empty()));
    match (inputs.is_empty(), first, second) {
        (true, Some(first), second) => Ok((vec![first.to_owned()], second)),
        (false, first, None) => Ok((inputs, first)),
        (false, _, Some(second)) => {
            let what = format!("inputs are given with -i: {} is one too many", second.display());
            Err(CliError::usage(what))
        }
        (true, None, _) => {
            Err(CliError::usage("nothing to convert: give IN and OUT, or -i and -o"))
        }
    }
}

fn are_containers(inputs: &[PathBuf]) -> Result<bool, CliError> {
    for input in inputs {
        let is_container = match stored::is_address(input) {
            true => Stored::open(input)?.is_container(),
            false => input.join(CONTAINER_FILE).exists(),
        };
        if !is_container {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The conversion that the command line requests.
fn job(args: &Args, inputs: &[PathBuf], output: &Path) -> Result<Job, CliError> {
    let storage = match args.storage {
        Some(storage) => storage,
        None => match args.to_ros2 || are_containers(inputs)? {
            true => Storage::Mcap,
            false => Storage::Container,
        },
    };
    if storage != Storage::Mcap && args.compression != Compression::None {
        return Err(CliError::usage("--compression is for --storage mcap: the others have none"));
    }
    let rosbag2 = Rosbag2Options {
        compression: match args.compression_mode {
            CompressionMode::None => Rosbag2Compression::None,
            CompressionMode::File => Rosbag2Compression::File,
            CompressionMode::Message => Rosbag2Compression::Message,
        },
        // 0 is rosbag2's word for none.
        file_bytes_max: args.max_bag_size.filter(|bytes| *bytes > 0),
        file_duration_max: args.max_bag_duration.filter(|duration| !duration.is_zero()),
    };
    let is_rosbag2 = args.compression_mode != CompressionMode::None
        || rosbag2.file_bytes_max.is_some()
        || rosbag2.file_duration_max.is_some();
    let target = match storage {
        Storage::Container if is_rosbag2 => {
            let what = "--compression-mode, -b and -d are for --storage mcap and sqlite3: a container \
                        that is converted into has neither";
            return Err(CliError::usage(what));
        }
        Storage::Mcap if args.compression_mode == CompressionMode::Message => {
            let what = "--compression-mode message is for --storage sqlite3 (rosbag2's mcap storage \
                        has none): use --compression zstd, or --compression-mode file";
            return Err(CliError::usage(what));
        }
        Storage::Container => Target::Container,
        Storage::Mcap => {
            let options = SinkOptions {
                metadata_version: args.metadata_version,
                compression: match args.compression {
                    Compression::None => SinkCompression::None,
                    Compression::Lz4 => SinkCompression::Lz4,
                    Compression::Zstd => SinkCompression::Zstd,
                },
                ..SinkOptions::default()
            };
            Target::Rosbag2(Rosbag2Storage::Mcap(options), rosbag2)
        }
        Storage::Sqlite3 if !cfg!(feature = "sqlite3") => return Err(absent::error("sqlite3")),
        Storage::Sqlite3 => {
            let metadata_version = args.metadata_version;
            let options = Sqlite3Options { metadata_version, ..Sqlite3Options::default() };
            Target::Rosbag2(Rosbag2Storage::Sqlite3(options), rosbag2)
        }
    };
    Ok(Job {
        path: output.to_owned(),
        target,
        filter: TopicFilter::all(),
        from_nanos: None,
        to_nanos: None,
        notes: Vec::new(),
    })
}

fn check_output(path: &Path) -> Result<(), CliError> {
    let is_file_name = |extension: &std::ffi::OsStr| {
        ["mcap", "db3", "bag"].iter().any(|known| extension == *known)
    };
    if let Some(extension) = path.extension().filter(|extension| is_file_name(extension)) {
        let extension = extension.display();
        let mut text = format!(
            "{} looks like a file, and a folder is made: leave .{extension} out",
            path.display()
        );
        if extension.to_string() == "mcap" {
            let file = path.display();
            text.push_str(&format!(" (`livebag query RUN history -o {file}` makes one MCAP file)"));
        }
        return Err(CliError::usage(text));
    }
    if path.symlink_metadata().is_ok() {
        return Err(livebag::RecordError::Exists(path.to_owned()).into());
    }
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => {
            Err(livebag::RecordError::NoParent(parent.to_owned()).into())
        }
        _ => Ok(()),
    }
}

fn convert_one(job: &Job, inputs: &[PathBuf], args: &Args) -> Result<Summary, CliError> {
    let clock = Clock::system();
    let interrupt = Interrupt::watch()?;
    let mut sources = Vec::new();
    for input in inputs {
        let source = stored::open_any(input)?;
        sources.push(if args.to_ros2 { livebag_bags::to_ros2(source) } else { source });
    }
    let source = match (sources.len(), sources.pop()) {
        (1, Some(only)) => only,
        (_, last) => livebag_bags::merged(sources.into_iter().chain(last).collect()),
    };
    let source = match args.selection.is_all() {
        true => livebag_bags::selected(source, &job.filter, job.from_nanos, job.to_nanos),
        false => select::chosen(source, &args.selection, inputs)?,
    };
    let source_message_count = source.message_count();
    let path = inputs[0].clone();
    let mut source = Guarded::new(source, move |_| match interrupt.has_come() {
        false => Ok(()),
        true => Err(ConvertError::Io {
            action: "convert",
            path: path.clone(),
            source: io::ErrorKind::Interrupted.into(),
        }),
    });
    let copied = copy(&mut source, job).map_err(|error| incomplete(error, &job.path))?;
    Ok(Summary {
        path: job.path.display().to_string(),
        storage: job.target.storage(),
        topics: copied.topics,
        message_count: copied.messages,
        bytes: copied.bytes,
        attachments: copied.attachments,
        lost_attachments: copied.lost_attachments,
        source_message_count,
        lost_messages: source.lost_count(),
        duration_s: clock.monotonic_nanos() as f64 / 1e9,
        warnings: job.notes.iter().chain(&copied.warnings).cloned().collect(),
    })
}

fn copy(source: &mut dyn MessageSource, job: &Job) -> Result<livebag_bags::Copied, ConvertError> {
    let bar = bar(source.message_count());
    let mut show = |progress: &livebag_bags::Progress| bar.set_position(progress.messages);
    let copied = match job.target.clone() {
        Target::Container => livebag_bags::to_container(source, &job.path, &mut show),
        Target::Rosbag2(storage, options) => {
            livebag_bags::to_rosbag2(source, &job.path, storage, options, &mut show)
                .map(|(copied, _)| copied)
        }
    };
    bar.finish_and_clear();
    copied
}

/// Messages gone through, on a terminal.
pub fn bar(messages: Option<u64>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match messages {
        Some(messages) => {
            (ProgressBar::new(messages), "{wide_bar} {human_pos}/{human_len} messages, {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {human_pos} messages"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// An error which says that the output is incomplete.
fn incomplete(error: ConvertError, output: &Path) -> CliError {
    let error = CliError::from(error);
    if !output.exists() {
        return error;
    }
    CliError::failed(format!(
        "{error}; {} is incomplete: remove it before you try again",
        output.display()
    ))
}

fn conclude(summaries: &[Summary], inputs: &[PathBuf], args: &Args) -> Result<Outcome, CliError> {
    let mut out = io::stdout().lock();
    match summaries {
        [summary] if args.json && args.output_file().is_none() => {
            writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
        }
        summaries if args.json => writeln!(out, "{}", serde_json::to_string_pretty(summaries)?)?,
        _ => {}
    }
    let mut outcome = Outcome::Done;
    for summary in summaries {
        if !args.json {
            let seconds = summary.duration_s.max(1e-9);
            let took = text::duration((seconds * 1e9) as u64);
            let attachments = match summary.attachments {
                0 => String::new(),
                count => format!(", {}", text::plural(count as usize, "attachment")),
            };
            writeln!(
                out,
                "{}: {}, {}, {}{attachments} in {took} ({})",
                summary.path,
                text::plural(summary.topics, "topic"),
                text::messages(summary.message_count),
                text::bytes(summary.bytes as f64),
                text::bytes_per_second(summary.bytes as f64 / seconds),
            )?;
        }
        for warning in &summary.warnings {
            say!("livebag: warning: {warning}");
        }
        let names: Vec<_> = inputs.iter().map(|input| input.display().to_string()).collect();
        let names = names.join(", ");
        let promised = summary.source_message_count.unwrap_or(0);
        if promised > summary.message_count || summary.lost_messages > 0 {
            if promised > summary.message_count {
                complain!(
                    "livebag: {names}: of {} {} could be read and written",
                    text::messages(promised),
                    text::count(summary.message_count)
                );
            } else {
                let lost = text::messages(summary.lost_messages);
                complain!("livebag: {names}: at least {lost} could not be read or written");
            }
            outcome = Outcome::Loss;
        }
        if summary.lost_attachments > 0 {
            let lost = text::plural(summary.lost_attachments as usize, "attachment");
            complain!("livebag: {names}: {lost} could not be read");
            outcome = Outcome::Loss;
        }
    }
    Ok(outcome)
}
