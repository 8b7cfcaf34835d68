//! `livebag recover`: repairs a recording after a crash or on a damaged disk.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap_complete::ArgValueCompleter;
use livebag::{Clock, Container, ContainerError, ContainerState, ContainerTopic};
use livebag_bags::RecordingKind;
use livebag_bags::{SinkCompression, make_rosbag2};
use livebag_format::rosbag2::MetadataVersion;
use serde::Serialize;

use crate::complete;
use crate::outcome::{CliError, Outcome};
use crate::{stored, text};

/// Repair a damaged or unclosed recording.
///
/// A container is repaired in place, even a closed one. All of it is read, and everything provable is kept. Damaged
/// indexes and container.yaml are rebuilt, and overwritten bytes are saved beside it. A damaged MCAP file is not
/// changed, and everything provable is written into a new one, which says if messages are missing. A rosbag2 folder
/// gets a new metadata.yaml from its files; a damaged one is kept beside it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag recover run1\n  \
    livebag recover cut.mcap                     # writes cut.recovered.mcap\n  \
    livebag recover cut.mcap -o whole.mcap --compression zstd\n  \
    livebag recover rosbag2_2026_11_21           # ros2 bag reindex\n\n\
Exit code 3: done, but some messages of the recording are missing.")]
pub struct Args {
    /// The recording: a container, an MCAP file or a rosbag2 folder.
    #[arg(add = ArgValueCompleter::new(complete::recordings))]
    bag: PathBuf,
    /// The new MCAP file [default: NAME.recovered.mcap beside the damaged file].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Compression of the new MCAP file's chunks.
    #[arg(long, value_enum, default_value_t = Compression::None)]
    compression: Compression,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
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

/// The action taken.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    /// Nothing was wrong.
    None,
    /// A container was repaired in its place, and closed if it was not.
    Closed,
    /// A new file was written.
    Rewritten,
    /// metadata.yaml was written.
    Reindexed,
}

/// Printed result.
#[derive(Serialize)]
struct Report {
    path: String,
    kind: String,
    action: Action,
    /// The file that was written.
    output: Option<String>,
    message_count: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    /// Messages that the recording is known to have had and that cannot be read; null where that is not
    /// known.
    #[serde(rename = "damaged")]
    lost_messages: Option<u64>,
    /// Since when it is not known what was published and lost, because the recorder died or the file is cut;
    /// nanoseconds since the Unix epoch.
    #[serde(rename = "unknown_since_time", with = "livebag_format::json_time")]
    unknown_since_nanos: Option<u64>,
    damage: Vec<String>,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
}

/// Recovers.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let clock = Clock::system();
    stored::refuse(&args.bag, "recover")?;
    let Some(glance) = livebag_bags::glance(&args.bag) else {
        // A folder that its files' names do not reveal as a bag: the user knows that it is one.
        let is_bag = args.bag.is_dir() && livebag_bags::open_any(&args.bag).is_ok();
        if is_bag && args.output.is_none() {
            let report = rosbag2(&args.bag)?;
            let duration_s = clock.monotonic_nanos() as f64 / 1e9;
            return conclude(&Report { duration_s, ..report }, args.json);
        }
        return Err(if args.bag.exists() {
            CliError::failed(format!(
                "{} is no recording: expected a container, an MCAP file or a rosbag2 folder",
                args.bag.display()
            ))
        } else {
            ContainerError::NotFound(args.bag.clone()).into()
        });
    };
    if args.output.is_some() && glance.kind != RecordingKind::Mcap {
        return Err(CliError::usage(format!(
            "--output is for MCAP files: a {} is recovered in its place",
            glance.kind
        )));
    }
    if args.bag.extension().is_some_and(|extension| extension == "zstd") {
        return Err(CliError::failed(format!(
            "{} is compressed as a whole: decompress it first (zstd -d), or `livebag convert` it: that makes a \
             recording of all that can be read",
            args.bag.display()
        )));
    }
    let mut report = match glance.kind {
        RecordingKind::Container => container(&args.bag)?,
        RecordingKind::Mcap => mcap(args)?,
        RecordingKind::Rosbag2 => rosbag2(&args.bag)?,
        RecordingKind::Sqlite3 => {
            return Err(CliError::failed(format!(
                "{} is one database: give the folder it lies in to have its metadata.yaml made \
                 anew; `livebag convert` makes a recording of all that can be read of a damaged one",
                args.bag.display()
            )));
        }
        RecordingKind::Ros1Bag => {
            return Err(CliError::failed(format!(
                "{} is a ROS 1 bag: `livebag convert` makes a container of all that can be read",
                args.bag.display()
            )));
        }
    };
    report.duration_s = clock.monotonic_nanos() as f64 / 1e9;
    conclude(&report, args.json)
}

fn container(path: &Path) -> Result<Report, CliError> {
    let bag = Container::recover(path)?;
    match bag.state() {
        ContainerState::Live => {
            return Err(CliError::failed(format!(
                "{} is being written: its recorder closes it",
                path.display()
            )));
        }
        ContainerState::Unrecovered => {
            return Err(CliError::failed(format!(
                "{} cannot be recovered here and now: it needs the right to write there, and some \
                 free space",
                path.display()
            )));
        }
        _ => {}
    }
    if bag.is_one_file() && !path.join("metadata.yaml").exists() {
        // Its recorder died before it could write what makes it a bag of rosbag2.
        make_rosbag2(&bag, MetadataVersion::Iron)?;
    }
    let counts = bag.topics().iter().map(ContainerTopic::message_count);
    Ok(Report {
        path: path.display().to_string(),
        kind: RecordingKind::Container.to_string(),
        action: if bag.is_mended() { Action::Closed } else { Action::None },
        output: None,
        message_count: counts.sum::<Result<u64, _>>()?,
        bytes: bag.topics().iter().map(ContainerTopic::message_bytes).sum(),
        lost_messages: Some(bag.account()?.damaged),
        unknown_since_nanos: bag.unknown_since_nanos(),
        damage: bag.failure().map(str::to_owned).into_iter().collect(),
        duration_s: 0.0,
    })
}

fn mcap(args: &Args) -> Result<Report, CliError> {
    let mut report = Report {
        path: args.bag.display().to_string(),
        kind: RecordingKind::Mcap.to_string(),
        action: Action::None,
        output: None,
        message_count: 0,
        bytes: 0,
        lost_messages: Some(0),
        unknown_since_nanos: None,
        damage: Vec::new(),
        duration_s: 0.0,
    };
    let output = args.output.clone().unwrap_or_else(|| beside(&args.bag));
    if output.symlink_metadata().is_ok() {
        return Err(CliError::failed(format!(
            "{} exists already: choose another name with -o; livebag never overwrites a file",
            output.display()
        )));
    }
    let bar = crate::verify::bar();
    let verified = livebag_bags::verify(&args.bag, &mut |progress| {
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes);
    });
    bar.finish_and_clear();
    let verified = verified?;
    if verified.is_whole() {
        report.message_count = verified.messages;
        report.bytes = verified.bytes;
        return Ok(report);
    }
    let compression = match args.compression {
        Compression::None => SinkCompression::None,
        Compression::Lz4 => SinkCompression::Lz4,
        Compression::Zstd => SinkCompression::Zstd,
    };
    let saved = livebag_bags::salvage(&args.bag, &output, compression).map_err(|error| {
        let error = CliError::from(error);
        match output.exists() {
            true => CliError::failed(format!(
                "{error}; {} is incomplete: remove it before you try again",
                output.display()
            )),
            false => error,
        }
    })?;
    report.action = Action::Rewritten;
    report.output = Some(output.display().to_string());
    report.message_count = saved.messages;
    report.bytes = saved.bytes;
    report.lost_messages = Some(saved.lost_messages);
    report.unknown_since_nanos = saved.unknown_since_nanos;
    report.damage = verified.damage.iter().map(ToString::to_string).collect();
    for said in saved.damage {
        report.damage.push(format!("{}: {said}", args.bag.display()));
    }
    Ok(report)
}

/// `cut.mcap` becomes `cut.recovered.mcap`.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".recovered.mcap");
    path.with_file_name(name)
}

fn rosbag2(path: &Path) -> Result<Report, CliError> {
    let outcome = livebag_bags::reindex(path, None)?;
    let mut damage = outcome.damage;
    if let Some(aside) = outcome.moved_to {
        damage.push(format!("the damaged metadata.yaml is kept as {}", aside.display()));
    }
    Ok(Report {
        path: path.display().to_string(),
        kind: RecordingKind::Rosbag2.to_string(),
        action: if outcome.was_right { Action::None } else { Action::Reindexed },
        output: (!outcome.was_right).then(|| path.join("metadata.yaml").display().to_string()),
        message_count: outcome.metadata.message_count,
        bytes: 0,
        lost_messages: Some(outcome.lost_messages),
        unknown_since_nanos: None,
        damage,
        duration_s: 0.0,
    })
}

fn conclude(report: &Report, as_json: bool) -> Result<Outcome, CliError> {
    let mut out = io::stdout().lock();
    let lost = report.lost_messages.unwrap_or(0);
    if as_json {
        writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
    } else {
        let done = match report.action {
            Action::None => "nothing to recover",
            Action::Closed => "recovered",
            Action::Rewritten => "recovered into",
            Action::Reindexed => "metadata.yaml made anew:",
        };
        let output = match (&report.output, report.action) {
            (Some(output), Action::Rewritten) => format!(" {output}"),
            _ => String::new(),
        };
        writeln!(
            out,
            "{}: {done}{output} ({}): {} in {}",
            report.path,
            report.kind,
            text::messages(report.message_count),
            text::duration((report.duration_s * 1e9) as u64),
        )?;
    }
    for damage in &report.damage {
        say!("livebag: {damage}");
    }
    if let (Some(since), Action::Rewritten) = (report.unknown_since_nanos, report.action) {
        say!("livebag: what the file had behind {} is not known", text::time(since));
    }
    if lost > 0 {
        complain!("livebag: at least {} cannot be read", text::messages(lost));
        return Ok(Outcome::Loss);
    }
    Ok(Outcome::Done)
}
