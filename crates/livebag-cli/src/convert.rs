//! `livebag convert`: between containers and rosbag2 bags, and from recordings of other makes.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use livebag::Clock;
use livebag::convert::{self, Attachment, ConvertError, MessageSource, MetadataRecord};
use livebag::convert::{SinkCompression, SinkOptions, SourceMessage, Sqlite3Options};
use livebag_format::Topic;
use livebag_format::container::CONTAINER_FILE;
use livebag_format::rosbag2::{BagMetadata, MetadataVersion};
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::text;

/// Convert a recording: container to rosbag2 bag and back, ROS 1 bags, rosbag2 bags and MCAP files
/// into either.
///
/// Every message keeps its bytes, both times, its sequence, schema, QoS and type hash, as far as
/// the target has a place for them.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag convert run1 run1_rosbag2\n  \
    livebag convert drive.bag drive\n  \
    livebag convert drive_rosbag2 small --storage mcap --compression zstd\n  \
    livebag convert run1 run1_db3 --storage sqlite3\n\n\
A bag in `mcap` storage is a folder with one MCAP file and metadata.yaml: `ros2 bag play` takes it. \
`sqlite3` storage holds one time a message (the log time) and no sequence.\n\n\
Environment:\n  \
    LIVEBAG_STORAGE  how containers are written: io_uring (default) or pwrite, with ,buffered \
behind either")]
pub struct Args {
    /// The recording: a container, a ROS 1 bag, a rosbag2 folder or database, or an MCAP file.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The folder to make.
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// What to make [default: mcap of a container, a container of anything else]
    #[arg(short, long, value_enum)]
    storage: Option<Storage>,
    /// How chunks of an MCAP are compressed.
    #[arg(long, value_enum, default_value_t = Compression::None)]
    compression: Compression,
    /// Version of metadata.yaml: 5 or 7 for Humble and later (7 keeps type hashes and custom data),
    /// 9 for Jazzy and later (keeps the ROS distribution).
    #[arg(long, value_name = "V", default_value = "7", value_parser = metadata_version)]
    metadata_version: MetadataVersion,
    /// Print a summary as one JSON object.
    #[arg(long)]
    json: bool,
}

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Storage {
    /// livebag's own: bricks with a time index.
    Container,
    /// A rosbag2 bag: one MCAP with metadata.yaml.
    Mcap,
    /// A rosbag2 bag of the old storage: one SQLite database with metadata.yaml.
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

/// What is printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    storage: Storage,
    topics: usize,
    message_count: u64,
    bytes: u64,
    /// Messages that the source says it has.
    source_message_count: Option<u64>,
    duration_s: f64,
    warnings: Vec<String>,
}

fn metadata_version(text: &str) -> Result<MetadataVersion, String> {
    let number = text.parse().ok();
    number.and_then(MetadataVersion::from_number).ok_or_else(|| "expected 5, 7 or 9".to_owned())
}

/// Converts.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    check_output(&args.output)?;
    if !args.input.exists() {
        return Err(CliError::failed(format!("{} does not exist", args.input.display())));
    }
    let storage = args.storage.unwrap_or_else(|| {
        let is_container = args.input.join(CONTAINER_FILE).exists();
        if is_container { Storage::Mcap } else { Storage::Container }
    });
    if storage != Storage::Mcap && args.compression != Compression::None {
        return Err(CliError::usage("--compression is for --storage mcap: the others have none"));
    }
    let clock = Clock::system();
    let interrupt = Interrupt::watch()?;
    let inner = convert::open_any(&args.input)?;
    let source_message_count = inner.message_count();
    let mut source = Interruptible { inner, interrupt, path: &args.input };
    let copied =
        copy(&mut source, storage, args).map_err(|error| incomplete(error, &args.output))?;
    let summary = Summary {
        path: args.output.display().to_string(),
        storage,
        topics: copied.topics,
        message_count: copied.messages,
        bytes: copied.bytes,
        source_message_count,
        duration_s: clock.monotonic_nanos() as f64 / 1e9,
        warnings: copied.warnings,
    };
    conclude(&summary, args)
}

fn check_output(path: &Path) -> Result<(), CliError> {
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

fn copy(
    source: &mut dyn MessageSource,
    storage: Storage,
    args: &Args,
) -> Result<convert::Copied, ConvertError> {
    let bar = bar(source.message_count());
    let mut show = |progress: &convert::Progress| bar.set_position(progress.messages);
    let copied = match storage {
        Storage::Container => convert::to_container(source, &args.output, &mut show),
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
            convert::to_mcap(source, &args.output, options, &mut show).map(|(copied, _)| copied)
        }
        Storage::Sqlite3 => {
            let metadata_version = args.metadata_version;
            let options = Sqlite3Options { metadata_version, ..Sqlite3Options::default() };
            convert::to_sqlite3(source, &args.output, options, &mut show).map(|(copied, _)| copied)
        }
    };
    bar.finish_and_clear();
    copied
}

/// Messages copied, on a terminal.
fn bar(messages: Option<u64>) -> ProgressBar {
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

/// A failure that says that what was made must not be taken for the whole.
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

fn conclude(summary: &Summary, args: &Args) -> Result<Outcome, CliError> {
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        let seconds = summary.duration_s.max(1e-9);
        let took = text::duration((seconds * 1e9) as u64);
        writeln!(
            out,
            "{}: {}, {} messages, {} in {took} ({})",
            summary.path,
            text::plural(summary.topics, "topic"),
            text::count(summary.message_count),
            text::bytes(summary.bytes as f64),
            text::bytes_per_second(summary.bytes as f64 / seconds),
        )?;
    }
    for warning in &summary.warnings {
        eprintln!("livebag: warning: {warning}");
    }
    match summary.source_message_count {
        Some(promised) if promised > summary.message_count => {
            eprintln!(
                "livebag: {} says that it has {} messages, {} could be read",
                args.input.display(),
                text::count(promised),
                text::count(summary.message_count)
            );
            Ok(Outcome::Loss)
        }
        _ => Ok(Outcome::Done),
    }
}

/// A source that ends with an error when an interruption comes.
struct Interruptible<'a> {
    inner: Box<dyn MessageSource>,
    interrupt: Interrupt,
    path: &'a Path,
}

impl MessageSource for Interruptible<'_> {
    fn topics(&self) -> &[Topic] {
        self.inner.topics()
    }

    fn profile(&self) -> &str {
        self.inner.profile()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        if self.interrupt.has_come() {
            return Err(ConvertError::Io {
                action: "convert",
                path: self.path.to_owned(),
                source: io::ErrorKind::Interrupted.into(),
            });
        }
        self.inner.next_message()
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.inner.start_time_nanos()
    }

    fn message_count(&self) -> Option<u64> {
        self.inner.message_count()
    }

    fn warnings(&self) -> &[String] {
        self.inner.warnings()
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        self.inner.next_attachment()
    }

    fn metadata_records(&self) -> &[MetadataRecord] {
        self.inner.metadata_records()
    }

    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.inner.bag_metadata()
    }
}
