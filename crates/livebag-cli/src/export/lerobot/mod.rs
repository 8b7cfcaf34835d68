//! A LeRobot dataset (format v3.0, as lerobot 0.4.4 reads it): numbers at fixed times, in episodes.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use livebag::{Clock, Topic};
use livebag_format::visible;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Args, Format, images};
use crate::convert::bar;
use crate::files::{self, NewFile};
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::select::{self, Selection};
use crate::{place, stored, text};

mod colours;
mod frames;
mod picture;
mod rules;
mod stats;
mod tables;
mod values;
mod video;

use colours::Colours;
use frames::{Frames, Step, Value as FrameValue};
use picture::Picture;
use rules::{Episodes, Rules};
use stats::{Figures, Stats};
use tables::{Data, Episode};
use values::Extractor;
use video::Camera;

/// Messages so long before an episode may be held in its first frames.
const LOOK_BACK_NANOS: u64 = 10_000_000_000;
const OWN: [&str; 5] = ["timestamp", "frame_index", "episode_index", "index", "task_index"];

/// A feature whose size is known.
struct Column {
    key: String,
    names: Vec<String>,
}

/// How a topic's messages become values of a feature.
enum Maker {
    Numbers(Result<Extractor, String>),
    Pictures(Topic),
}

/// A range of log times that is read for its episodes.
struct Part {
    range: (u64, u64),
    task: String,
    /// Refused messages up to this log time have been counted.
    counted_to: Option<u64>,
}

#[derive(Serialize)]
struct Summary {
    path: String,
    fps: u64,
    episode_count: usize,
    frame_count: u64,
    tasks: Vec<String>,
    /// Messages that could not be read or decoded.
    #[serde(rename = "damaged")]
    lost_messages: u64,
    warnings: Vec<String>,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
}

/// Exports the recordings into `directory`, which is removed if that fails.
pub fn run(
    args: &Args,
    inputs: &[PathBuf],
    directory: &Path,
    rules: &Path,
) -> Result<Outcome, CliError> {
    let rules = Rules::read(rules)?;
    if !args.selection.is_only_times() {
        return Err(CliError::usage(
            "with --lerobot the rules name the topics: leave -t, -e, … away",
        ));
    }
    let is_missing = |path: &&PathBuf| !stored::is_address(path) && !path.exists();
    if let Some(missing) = inputs.iter().find(is_missing) {
        return Err(place::missing(missing, std::io::ErrorKind::NotFound.into()));
    }
    if rules.features.iter().any(rules::Feature::is_video) {
        if !cfg!(feature = "http") {
            return Err(crate::absent::error("http"));
        }
        super::video::check("a feature of images", "remove it from the rules")?;
    }
    let clock = Clock::system();
    files::make_folder(directory)?;
    let mut dataset = Dataset::new(directory, &rules);
    let made = dataset.read(inputs, &args.selection).and_then(|()| dataset.finish());
    if let Err(error) = made {
        if let Err(source) = std::fs::remove_dir_all(directory) {
            say!("livebag: warning: {}", CliError::file("removing", directory, source));
        }
        return Err(error);
    }
    dataset.conclude(args.json, clock.monotonic_nanos())
}

struct Dataset<'a> {
    directory: &'a Path,
    rules: &'a Rules,
    /// Names of the numbers of each feature, once a message has shown them.
    names: Vec<Option<Vec<String>>>,
    data: Option<Data>,
    /// Of the features that are videos, in their order.
    cameras: Vec<Camera>,
    tasks: Vec<String>,
    episodes: Vec<Episode>,
    frames: u64,
    /// Of the current episode and of all, for each feature of numbers and LeRobot's own columns.
    current: Vec<Stats>,
    total: Vec<Stats>,
    /// By topic: how many messages have no values, and why the first.
    refused: BTreeMap<String, (u64, String)>,
    lost: u64,
    too_short: u64,
    /// Episodes longer than LeRobot's times are exact.
    too_long: u64,
    warnings: Vec<String>,
}

impl<'a> Dataset<'a> {
    fn new(directory: &'a Path, rules: &'a Rules) -> Self {
        Self {
            directory,
            rules,
            names: vec![None; rules.features.len()],
            data: None,
            cameras: rules.videos().map(|key| Camera::new(directory, key, rules.fps)).collect(),
            tasks: Vec::new(),
            episodes: Vec::new(),
            frames: 0,
            current: Vec::new(),
            total: Vec::new(),
            refused: BTreeMap::new(),
            lost: 0,
            too_short: 0,
            too_long: 0,
            warnings: Vec::new(),
        }
    }

    fn read(&mut self, inputs: &[PathBuf], selection: &Selection) -> Result<(), CliError> {
        let interrupt = Interrupt::watch()?;
        let bar = bar(None);
        for input in inputs {
            let source = stored::open_any(input)?;
            let range = select::range_of(&*source, std::slice::from_ref(input))?;
            let (from, to) = select::between(selection.from, selection.to, range)?;
            let mut ranges = Vec::new();
            match &self.rules.episodes {
                Episodes::Recordings => ranges.push((from, to, None)),
                Episodes::Events(name) => {
                    let events = livebag_bags::events(&*source);
                    for event in events.into_iter().filter(|event| event.name == *name) {
                        let (start, end) = (event.from_nanos.max(from), event.to_nanos.min(to));
                        match start.cmp(&end) {
                            Ordering::Less => ranges.push((start, end, Some(event.name))),
                            Ordering::Equal => self.too_short += 1,
                            // Outside --from and --to.
                            Ordering::Greater => {}
                        }
                    }
                }
            }
            drop(source);
            // Ranges may overlap: what a recording has lost counts once.
            let (mut lost, mut counted_to) = (0, None);
            for (from, to, event) in ranges {
                let part = Part { range: (from, to), task: self.task(event), counted_to };
                let read = self.read_part(input, &part, &interrupt, &bar)?;
                (lost, counted_to) = (read.0.max(lost), read.1.max(counted_to));
            }
            self.lost += lost;
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn task(&self, event: Option<String>) -> String {
        self.rules.task.clone().or(event).unwrap_or_default()
    }

    /// The frames of a part of a recording; returns how many messages the recording has lost, and the last log time.
    fn read_part(
        &mut self,
        input: &Path,
        part: &Part,
        interrupt: &Interrupt,
        bar: &indicatif::ProgressBar,
    ) -> Result<(u64, Option<u64>), CliError> {
        let Part { range, task, counted_to } = part;
        let rules = self.rules;
        let source = stored::open_any(input)?;
        let known = || source.topics().iter().map(|topic| topic.name.as_str());
        let topics = rules.features.iter().map(|feature| select::full_name(&feature.topic, known));
        let topics: Vec<String> = topics.collect::<Result<_, _>>()?;
        let filter = Selection::of_topics(topics.clone()).filter(source.topics())?;
        let tolerances = rules.features.iter().filter_map(|feature| feature.tolerance_nanos);
        let from = range.0.saturating_sub(tolerances.max().unwrap_or(0).max(LOOK_BACK_NANOS));
        let mut source = livebag_bags::selected(source, &filter, (from > 0).then_some(from), None);
        // For each topic the features that are made of it.
        let users: Vec<Vec<(usize, Maker)>> = source
            .topics()
            .iter()
            .map(|topic| {
                let features = topics.iter().enumerate().filter(|(_, name)| **name == topic.name);
                features.map(|(at, _)| Ok((at, self.maker(at, topic)?))).collect()
            })
            .collect::<Result<_, CliError>>()?;
        let mut frames = Frames::new(&rules.features, rules.fps, *range);
        let end = range.1.saturating_add(rules.wait_nanos());
        let mut last = None;
        while let Some(message) = source.next_message()? {
            let now = message.log_time_nanos;
            if now > end {
                break;
            }
            bar.inc(1);
            if interrupt.has_come() {
                return Err(CliError::failed("interrupted: what was exported is removed"));
            }
            while let Some(step) = frames.step(Some(now)) {
                self.take(step, task)?;
            }
            let mut refusal = None;
            for (feature, maker) in &users[message.topic] {
                let made = match maker {
                    Maker::Numbers(extractor) => self.numbers(*feature, extractor, &message.data),
                    Maker::Pictures(topic) => self.picture(*feature, topic, &message.data),
                };
                match made {
                    Ok(value) => frames.push(*feature, now, value),
                    Err(why) => refusal = Some(why),
                }
            }
            if let Some(why) = refusal.filter(|_| Some(now) > *counted_to) {
                let topic = source.topics()[message.topic].name.clone();
                self.refused.entry(topic).or_insert((0, why)).0 += 1;
            }
            last = Some(now);
        }
        while let Some(step) = frames.step(None) {
            self.take(step, task)?;
        }
        self.end(task)?;
        for warning in source.warnings() {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        Ok((source.lost_count(), last))
    }

    fn maker(&self, feature: usize, topic: &Topic) -> Result<Maker, CliError> {
        let feature = &self.rules.features[feature];
        match (feature.is_video(), images::are_in(topic)) {
            (true, true) => Ok(Maker::Pictures(topic.clone())),
            (true, false) => Err(CliError::failed(format!(
                "{} has no images: name the `fields` of its messages for the feature {}",
                visible(&topic.name),
                feature.key
            ))),
            (false, _) => Ok(Maker::Numbers(Extractor::new(topic))),
        }
    }

    fn picture(
        &mut self,
        feature: usize,
        topic: &Topic,
        message: &[u8],
    ) -> Result<FrameValue, String> {
        let picture = match Picture::raw(topic, message) {
            Some(picture) => picture,
            None => {
                let (bytes, extension) = images::picture(topic, message, Format::Jpeg)?;
                Picture::file(bytes, extension)?
            }
        };
        let before = self.rules.features[..feature].iter().filter(|other| other.is_video());
        self.cameras[before.count()].check(&picture)?;
        Ok(FrameValue::Picture(Rc::new(picture)))
    }

    fn numbers(
        &mut self,
        feature: usize,
        extractor: &Result<Extractor, String>,
        message: &[u8],
    ) -> Result<FrameValue, String> {
        let extractor = extractor.as_ref().map_err(Clone::clone)?;
        let found = extractor.values(message, &self.rules.features[feature].fields)?;
        if found.is_empty() {
            return Err("its fields have no numbers".to_owned());
        }
        let (names, values): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let known = self.names[feature].get_or_insert_with(|| names.clone());
        match known.len() == names.len() {
            true => Ok(FrameValue::Numbers(values)),
            false => Err(format!(
                "its fields have {}, those of the first message {}",
                text::plural(names.len(), "number"),
                known.len()
            )),
        }
    }

    fn take(&mut self, step: Step, task: &str) -> Result<(), CliError> {
        let (frame, values) = match step {
            Step::End => return self.end(task),
            Step::Frame(frame, values) => (frame, values),
        };
        let mut cameras = self.cameras.iter_mut();
        let mut numbers = Vec::new();
        for value in values {
            match value {
                FrameValue::Numbers(values) => numbers.push(values),
                FrameValue::Picture(picture) => {
                    let Some(camera) = cameras.next() else { continue };
                    camera.add(frame, &picture)?;
                }
            }
        }
        let values = numbers;
        if self.data.is_none() {
            self.data = Some(Data::new(self.directory, &self.columns())?);
            let widths = values.iter().map(Vec::len).chain(OWN.iter().map(|_| 1));
            self.total = widths.map(Stats::new).collect();
        }
        if frame == 0 {
            let fresh = values.iter().map(Vec::len).chain(OWN.iter().map(|_| 1));
            self.current = fresh.map(Stats::new).collect();
        }
        let known = self.tasks.iter().position(|known| known == task);
        let task_index = known.unwrap_or(self.tasks.len());
        let timestamp = frame as f64 / self.rules.fps as f64;
        let (episode, index) = (self.episodes.len() as i64, (self.frames + frame) as i64);
        let counts = [frame as i64, episode, index, task_index as i64];
        let own = std::iter::once(timestamp).chain(counts.map(|count| count as f64));
        let rows = values
            .iter()
            .map(|values| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>())
            .chain(own.map(|value| vec![value]));
        self.current.iter_mut().zip(rows).for_each(|(stats, row)| stats.add(&row));
        match &mut self.data {
            Some(data) => data.add(&values, timestamp as f32, counts),
            None => Ok(()),
        }
    }

    /// Ends an episode. One frame is none: neither speeds nor deviations can be made of it.
    fn end(&mut self, task: &str) -> Result<(), CliError> {
        let current = std::mem::take(&mut self.current);
        let (Some(first), Some(data)) = (current.first(), &mut self.data) else { return Ok(()) };
        let length = first.count;
        if length < 2 {
            data.remove_last();
            self.cameras.iter_mut().for_each(Camera::forget);
            self.too_short += 1;
            return Ok(());
        }
        let file = data.file;
        data.end_episode()?;
        for camera in &mut self.cameras {
            camera.end_episode(length)?;
        }
        self.too_long += u64::from(length > video::FILE_SECONDS * self.rules.fps);
        if !self.tasks.iter().any(|known| known == task) {
            self.tasks.push(task.to_owned());
        }
        self.total.iter_mut().zip(&current).for_each(|(total, stats)| total.merge(stats));
        let keys = self.rules.numbers().chain(OWN);
        let stats = keys.map(str::to_owned).zip(current.iter().map(Stats::figures)).collect();
        let from_index = self.frames;
        self.frames += length;
        self.episodes.push(Episode { task: task.to_owned(), from_index, length, file, stats });
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let features = self.rules.features.iter().zip(&self.names);
        let column = |(feature, names): (&rules::Feature, &Option<Vec<String>>)| Column {
            key: feature.key.clone(),
            names: names.clone().unwrap_or_default(),
        };
        features.filter(|(feature, _)| !feature.is_video()).map(column).collect()
    }

    fn finish(&mut self) -> Result<(), CliError> {
        self.warnings.extend(self.refused.iter().map(|(topic, (count, why))| {
            format!("{topic}: {} not exported: {why}", text::messages(*count))
        }));
        if self.too_short > 0 {
            let count = usize::try_from(self.too_short).unwrap_or(usize::MAX);
            let episodes = text::plural(count, "episode");
            self.warnings.push(format!("{episodes} left out: shorter than two frames"));
        }
        if self.too_long > 0 && !self.cameras.is_empty() {
            let count = usize::try_from(self.too_long).unwrap_or(usize::MAX);
            self.warnings.push(format!(
                "{} longer than {} s: LeRobot's times are float32, and it may not find the frames at their ends; make \
                 shorter ones, with events or --from and --to",
                text::plural(count, "episode"),
                video::FILE_SECONDS
            ));
        }
        if self.episodes.is_empty() {
            let why: String = self.warnings.iter().map(|warning| format!("; {warning}")).collect();
            return Err(CliError::failed(format!(
                "no episode: at no time do all features have a value{why}; look at the topics with \
                 `livebag info`, and at resample and tolerance in the rules"
            )));
        }
        if let Some(data) = &mut self.data {
            data.finish()?;
        }
        for camera in &mut self.cameras {
            camera.finish()?;
        }
        tables::make_folders(&self.directory.join("meta"))?;
        tables::write_tasks(self.directory, &self.tasks)?;
        tables::write_episodes(self.directory, &self.episodes, &self.cameras, self.rules.fps)?;
        let keys = self.rules.numbers().chain(OWN);
        let mut stats: Map<String, Value> = keys
            .zip(&self.total)
            .map(|(key, stats)| (key.to_owned(), figures(stats.figures(), |value| json!(value))))
            .collect();
        for camera in &self.cameras {
            let mut all = Colours::default();
            camera.colours.iter().for_each(|colours| all.merge(colours));
            // Channels, of one row, of one column.
            let of_camera = figures(all.figures(), |value| json!([[value]]));
            stats.insert(camera.key.clone(), of_camera);
        }
        self.write_json("meta/stats.json", &Value::Object(stats))?;
        // Last: without it there is no dataset.
        self.write_json("meta/info.json", &self.info())
    }

    fn info(&self) -> Value {
        let mut features = Map::new();
        for Column { key, names } in self.columns() {
            let feature = json!({"dtype": "float32", "shape": [names.len()], "names": names});
            features.insert(key, feature);
        }
        for camera in &self.cameras {
            let (columns, rows) = camera.size();
            let info = json!({
                "video.height": rows, "video.width": columns, "video.codec": "h264",
                "video.pix_fmt": "yuv420p", "video.is_depth_map": false,
                "video.fps": self.rules.fps, "video.channels": 3, "has_audio": false,
            });
            let names = ["height", "width", "channels"];
            let feature = json!({"dtype": "video", "shape": [rows, columns, 3], "names": names, "info": info});
            features.insert(camera.key.clone(), feature);
        }
        for key in OWN {
            let kind = if key == "timestamp" { "float32" } else { "int64" };
            features.insert(key.to_owned(), json!({"dtype": kind, "shape": [1], "names": null}));
        }
        json!({
            "codebase_version": "v3.0",
            "robot_type": self.rules.robot,
            "total_episodes": self.episodes.len(),
            "total_frames": self.frames,
            "total_tasks": self.tasks.len(),
            "chunks_size": tables::FILES_PER_CHUNK,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": self.rules.fps,
            "splits": {"train": format!("0:{}", self.episodes.len())},
            "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
            "video_path": (!self.cameras.is_empty())
                .then_some("videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"),
            "features": features,
        })
    }

    fn write_json(&self, name: &str, value: &Value) -> Result<(), CliError> {
        let path = self.directory.join(name);
        let file = NewFile::create(&path, false)?;
        let text = serde_json::to_string_pretty(value)?;
        let written = file.file().write_all(text.as_bytes());
        written.map_err(|source| CliError::file("writing", &path, source))?;
        file.publish()
    }

    fn conclude(self, is_json: bool, nanos: u64) -> Result<Outcome, CliError> {
        let refused = self.refused.values().map(|(count, _)| count).sum::<u64>();
        let summary = Summary {
            path: self.directory.display().to_string(),
            fps: self.rules.fps,
            episode_count: self.episodes.len(),
            frame_count: self.frames,
            tasks: self.tasks,
            lost_messages: self.lost + refused,
            warnings: self.warnings,
            duration_s: nanos as f64 / 1e9,
        };
        let mut out = std::io::stdout().lock();
        if is_json {
            writeln!(out, "{}", serde_json::to_string_pretty(&summary)?)?;
        } else {
            writeln!(
                out,
                "{}: {}, {} in {}",
                summary.path,
                text::plural(summary.episode_count, "episode"),
                text::plural(usize::try_from(summary.frame_count).unwrap_or(usize::MAX), "frame"),
                text::duration(nanos)
            )?;
        }
        for warning in &summary.warnings {
            say!("livebag: warning: {warning}");
        }
        Ok(if summary.lost_messages > 0 { Outcome::Loss } else { Outcome::Done })
    }
}

fn figures(Figures { count, values }: Figures, number: impl Fn(f64) -> Value) -> Value {
    let list = |values: Vec<f64>| values.into_iter().map(&number).collect::<Value>();
    let values = values.into_iter().map(|(name, values)| (name, list(values)));
    let all = values.chain([("count", json!([count]))]);
    Value::Object(all.map(|(name, value)| (name.to_owned(), value)).collect())
}
