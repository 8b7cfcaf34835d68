//! `livebag export`: what other programs take: pictures, tables, videos.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap_complete::ArgValueCompleter;
use livebag::{Clock, Topic};
use livebag_bags::{MessageSource, SourceMessage};
use livebag_format::visible_list;
use serde::Serialize;

use crate::complete;
use crate::convert::bar;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::select::{self, Selection};
use crate::{files, place, stored, text};

mod csv;
mod images;
#[cfg(feature = "parquet")]
mod lerobot;
#[cfg(feature = "parquet")]
mod parquet;
mod video;

use csv::Table;

/// Write images, tables and videos of a recording into a folder.
///
/// Each topic's images go into a folder, named by their log time in nanoseconds; JPEG and PNG messages
/// (sensor_msgs/msg/CompressedImage) are written unchanged. A table has a row for each message and a column for each
/// field; in CSV an array is one cell of JSON, in Parquet a list. A video shows each image until the next one; ffmpeg
/// makes it.
#[derive(clap::Args)]
#[command(override_usage = "livebag export [OPTIONS] <RUN> <DIR>\n       \
        livebag export [OPTIONS] <RUN>... --lerobot <DIR> --rules <FILE>")]
#[command(after_help = "Examples:\n  \
    livebag export run1 out --images png -t /camera_front\n  \
    livebag export run1 out --csv -t /imu --from +10s --to +20s\n  \
    livebag export drive.mcap out --images jpeg --csv\n  \
    livebag export run1 out --parquet\n  \
    livebag export run1 out --video mp4 -t /camera_front\n  \
    livebag export run1 run2 --lerobot dataset --rules rules.yaml\n\n\
Exit code 3: done, but some messages could not be read or exported.")]
pub struct Args {
    /// The recording: a container, an MCAP file, a rosbag2 folder or database, or a ROS 1 bag; or its address in an
    /// object store (s3://BUCKET/PREFIX/NAME, …).
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(complete::recordings))]
    bag: PathBuf,
    /// The folder to create.
    #[arg(value_name = "DIR", required_unless_present_any = ["output", "lerobot"])]
    directory: Option<PathBuf>,
    /// With --lerobot: further recordings.
    #[arg(value_name = "RUN", requires = "lerobot", add = ArgValueCompleter::new(complete::recordings))]
    more: Vec<PathBuf>,
    /// The same as DIR.
    #[arg(short, long, value_name = "DIR", conflicts_with = "directory")]
    output: Option<PathBuf>,
    /// Write each image as a file.
    #[arg(long, value_enum, value_name = "FORMAT")]
    images: Option<Format>,
    /// Write a table for each topic that has no images or point clouds.
    #[arg(long)]
    csv: bool,
    /// Write a Parquet file for each topic; with --images or --video, for each without images.
    #[arg(long)]
    parquet: bool,
    /// Make a video of each topic with images, with `ffmpeg`.
    #[arg(long, value_enum, value_name = "FORMAT")]
    video: Option<VideoFormat>,
    /// Make a LeRobot dataset (v3.0) of numbers and images of the recordings.
    #[arg(long, value_name = "DIR", requires = "rules")]
    #[arg(conflicts_with_all = ["output", "images", "csv", "parquet", "video"])]
    lerobot: Option<PathBuf>,
    /// The dataset's features, rate and episodes: docs/lerobot.md.
    #[arg(long, value_name = "FILE", requires = "lerobot")]
    rules: Option<PathBuf>,
    /// Print a summary as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

/// What images become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Keeps every value.
    Png,
    /// Small; 8 bits.
    Jpeg,
}

/// What videos become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VideoFormat {
    /// H.264.
    Mp4,
}

/// Printed at the end.
#[derive(Serialize)]
struct Summary {
    path: String,
    message_count: u64,
    /// Messages that could not be read, decoded or drawn.
    #[serde(rename = "damaged")]
    lost_messages: u64,
    topics: Vec<TopicSummary>,
    warnings: Vec<String>,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
}

#[derive(Serialize)]
struct TopicSummary {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    message_count: u64,
    #[serde(rename = "damaged")]
    lost_messages: u64,
    /// The folder of images, the table or the video; null where nothing was made of the topic.
    files: Vec<String>,
}

/// Exports.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if let (Some(directory), Some(rules)) = (&args.lerobot, &args.rules) {
        let inputs = [&args.bag].into_iter().chain(&args.directory).chain(&args.more);
        return dataset(args, &inputs.cloned().collect::<Vec<_>>(), directory, rules);
    }
    if args.images.is_none() && !args.csv && !args.parquet && args.video.is_none() {
        return Err(CliError::usage(
            "nothing to export: give --images png, --csv, --parquet or --video mp4",
        ));
    }
    if args.parquet && !cfg!(feature = "parquet") {
        return Err(crate::absent::error("parquet"));
    }
    let drawn = args.images.or(args.video.map(|_| Format::Jpeg));
    if drawn.is_some() && !cfg!(feature = "http") {
        return Err(crate::absent::error("http"));
    }
    if args.video.is_some() {
        video::check("--video", "export --images jpeg")?;
    }
    let Some(directory) = args.directory.as_ref().or(args.output.as_ref()) else {
        return Err(CliError::usage("give the folder to make behind the recording"));
    };
    if !stored::is_address(&args.bag) && !args.bag.exists() {
        return Err(place::missing(&args.bag, std::io::ErrorKind::NotFound.into()));
    }
    let clock = Clock::system();
    let interrupt = Interrupt::watch()?;
    let inputs = [args.bag.clone()];
    let source = stored::open_any(&args.bag)?;
    let mut source = select::chosen(source, &args.selection, &inputs)?;
    files::make_folder(directory)?;
    let mut topics = Topics::new(source.topics(), directory, args, drawn);
    // A part of a recording does not say how much it is.
    let bar = bar(source.message_count().filter(|_| args.selection.is_all()));
    while let Some(message) = source.next_message()? {
        bar.inc(1);
        if interrupt.has_come() {
            topics.finish_tables()?;
            return Err(CliError::failed(format!(
                "interrupted: {} has what was exported until then",
                directory.display()
            )));
        }
        topics.take(source.topics(), &message)?;
    }
    bar.finish_and_clear();
    topics.finish(args)?;
    conclude(&topics.summary(args, directory, &*source, clock.monotonic_nanos()), args)
}

#[cfg(feature = "parquet")]
fn dataset(
    args: &Args,
    inputs: &[PathBuf],
    directory: &Path,
    rules: &Path,
) -> Result<Outcome, CliError> {
    lerobot::run(args, inputs, directory, rules)
}

#[cfg(not(feature = "parquet"))]
fn dataset(_: &Args, _: &[PathBuf], _: &Path, _: &Path) -> Result<Outcome, CliError> {
    Err(crate::absent::error("parquet"))
}

/// Output for one topic.
enum Product {
    Csv(Box<Table>),
    #[cfg(feature = "parquet")]
    Parquet(parquet::File),
    Images(images::Folder),
}

struct Export {
    products: Vec<Product>,
    messages: u64,
    /// Messages of which not everything could be made, and why of the first.
    lost: u64,
    why: Option<String>,
    files: Vec<String>,
}

struct Topics {
    exports: Vec<Export>,
}

impl Topics {
    fn new(topics: &[Topic], directory: &Path, args: &Args, drawn: Option<Format>) -> Self {
        let mut names = BTreeSet::new();
        let export = |topic: &Topic| {
            let path = directory.join(file_name(&topic.name, &mut names));
            let mut products = Vec::new();
            match drawn {
                Some(format) if images::are_in(topic) => {
                    products.push(Product::Images(images::Folder::new(path, format)));
                }
                _ => {
                    if args.csv && csv::fits(topic) {
                        products.push(Product::Csv(Box::new(Table::new(&path))));
                    }
                    #[cfg(feature = "parquet")]
                    if args.parquet {
                        products.push(Product::Parquet(parquet::File::new(&path, topics.len())));
                    }
                }
            }
            Export { products, messages: 0, lost: 0, why: None, files: Vec::new() }
        };
        Self { exports: topics.iter().map(export).collect() }
    }

    fn take(&mut self, topics: &[Topic], message: &SourceMessage) -> Result<(), CliError> {
        let (export, topic) = (&mut self.exports[message.topic], &topics[message.topic]);
        let mut refusal = None;
        for product in &mut export.products {
            let taken = match product {
                Product::Csv(table) => table.add(topic, message)?,
                #[cfg(feature = "parquet")]
                Product::Parquet(file) => file.add(topic, message)?,
                Product::Images(folder) => folder.add(topic, message)?,
            };
            refusal = refusal.or(taken.err());
        }
        match refusal {
            None if export.products.is_empty() => {}
            None => export.messages += 1,
            Some(why) => {
                export.lost += 1;
                export.why.get_or_insert(why);
            }
        }
        Ok(())
    }

    /// Completes the files with the rows so far.
    fn finish_tables(&mut self) -> Result<(), CliError> {
        for export in &mut self.exports {
            for product in &mut export.products {
                match product {
                    Product::Csv(table) => export.files.extend(table.finish()?),
                    #[cfg(feature = "parquet")]
                    Product::Parquet(file) => export.files.extend(file.finish()?),
                    Product::Images(_) => {}
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, args: &Args) -> Result<(), CliError> {
        self.finish_tables()?;
        for export in self.exports.iter_mut().filter(|export| export.messages > 0) {
            for product in &mut export.products {
                let Product::Images(folder) = product else { continue };
                if args.video.is_some() {
                    export.files.push(video::make(folder)?);
                }
                match args.images {
                    Some(_) => export.files.push(folder.path().display().to_string()),
                    None => folder.remove()?,
                }
            }
        }
        Ok(())
    }

    fn summary(
        &self,
        args: &Args,
        directory: &Path,
        source: &dyn MessageSource,
        nanos: u64,
    ) -> Summary {
        let mut warnings = source.warnings().to_vec();
        let mut left_out: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut topics = Vec::new();
        for (export, topic) in self.exports.iter().zip(source.topics()) {
            if export.products.is_empty() {
                left_out.entry(why_nothing(topic, args)).or_default().push(&topic.name);
            }
            if let Some(why) = &export.why {
                warnings.push(format!(
                    "{}: {} not exported: {why}",
                    topic.name,
                    text::messages(export.lost)
                ));
            }
            topics.push(TopicSummary {
                name: topic.name.clone(),
                type_name: topic.type_name.clone(),
                message_count: export.messages,
                lost_messages: export.lost,
                files: export.files.clone(),
            });
        }
        for (why, names) in left_out {
            warnings.push(format!("left out, {why}: {}", visible_list(names)));
        }
        Summary {
            path: directory.display().to_string(),
            message_count: self.exports.iter().map(|export| export.messages).sum(),
            lost_messages: source.lost_count()
                + self.exports.iter().map(|export| export.lost).sum::<u64>(),
            topics,
            warnings,
            duration_s: nanos as f64 / 1e9,
        }
    }
}

fn why_nothing(topic: &Topic, args: &Args) -> &'static str {
    match (images::are_in(topic), csv::fits(topic), args.csv) {
        (true, ..) => "images (--images png)",
        (_, false, true) => "too large for CSV (--parquet)",
        (_, false, false) => "not images (--parquet)",
        _ => "not images (--csv, --parquet)",
    }
}

fn conclude(summary: &Summary, args: &Args) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        for topic in summary.topics.iter().filter(|topic| !topic.files.is_empty()) {
            let name = livebag_format::visible(&topic.name).into_owned();
            let messages = text::messages(topic.message_count);
            writeln!(out, "{name}: {messages} in {}", topic.files.join(", "))?;
        }
        writeln!(
            out,
            "{}: {} in {}",
            summary.path,
            text::messages(summary.message_count),
            text::duration((summary.duration_s * 1e9) as u64)
        )?;
    }
    for warning in &summary.warnings {
        say!("livebag: warning: {warning}");
    }
    Ok(if summary.lost_messages > 0 { Outcome::Loss } else { Outcome::Done })
}

/// `/camera/front` as `camera.front`: a name that no other topic has, and that stays in its folder.
fn file_name(topic: &str, names: &mut BTreeSet<String>) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let plain: String = topic
        .trim_matches('/')
        .chars()
        .map(|c| {
            if c == '/' {
                '.'
            } else if is_plain(c) {
                c
            } else {
                '_'
            }
        })
        .take(100)
        .collect();
    let plain = match plain.trim_start_matches('.') {
        "" => "topic".to_owned(),
        plain => plain.to_owned(),
    };
    let mut name = plain.clone();
    let mut number = 2;
    while !names.insert(name.clone()) {
        name = format!("{plain}-{number}");
        number += 1;
    }
    name
}

/// A new file, written through a buffer.
fn create(path: &Path) -> Result<BufWriter<File>, CliError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "an export is an ordinary file; the storage trait is for containers"
    )]
    let file = File::create_new(path).map_err(|source| CliError::file("making", path, source))?;
    Ok(BufWriter::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_topics_become_names_of_files_that_stay_in_their_folder() {
        let mut names = BTreeSet::new();
        let mut name = |topic| file_name(topic, &mut names);
        assert_eq!(name("/camera/front"), "camera.front");
        assert_eq!(name("/camera.front"), "camera.front-2");
        assert_eq!(name("/../../etc"), "etc");
        assert_eq!(name("/a b\n"), "a_b_");
        assert_eq!(name("/"), "topic");
    }
}
