//! The rules of a LeRobot dataset: a small YAML file.

use std::ops::Range;
use std::path::Path;

use crate::outcome::CliError;
use crate::parse;
use crate::yaml::{self, Node};

/// How far from its frame a message may be, where the rules do not say: for `nearest` and `linear`.
const TOLERANCE_NANOS: u64 = 100_000_000;
/// Messages of this time wait in memory, at most; pictures are larger.
const TOLERANCE_NANOS_MAX: u64 = 10_000_000_000;
const PICTURE_TOLERANCE_NANOS_MAX: u64 = 1_000_000_000;
/// Columns of LeRobot itself.
const RESERVED: [&str; 5] = ["timestamp", "frame_index", "episode_index", "index", "task_index"];

/// How a value at a frame's time is made of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resample {
    /// The nearest message; of two the earlier.
    Nearest,
    /// The newest message at or before the frame.
    Hold,
    /// On the line between the messages before and after.
    Linear,
}

/// Where episodes begin and end.
pub enum Episodes {
    /// Each recording is one.
    Recordings,
    /// Each event of this name is one.
    Events(String),
}

/// A field of messages, with its items where it is an array of which only some are wanted.
pub struct Field {
    pub path: String,
    pub items: Option<Range<usize>>,
}

/// A column of the dataset.
pub struct Feature {
    pub key: String,
    pub topic: String,
    /// None for videos of a topic's images.
    pub fields: Vec<Field>,
    pub resample: Resample,
    /// `None`: any distance.
    pub tolerance_nanos: Option<u64>,
}

impl Feature {
    /// Whether it is a video of images.
    pub fn is_video(&self) -> bool {
        self.fields.is_empty()
    }
}

/// All of the file.
pub struct Rules {
    pub fps: u64,
    /// `None`: that of the event.
    pub task: Option<String>,
    pub robot: Option<String>,
    pub episodes: Episodes,
    pub features: Vec<Feature>,
}

impl Rules {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, CliError> {
        let name = path.display().to_string();
        let value = yaml::parse(&name, &yaml::read(path)?)?;
        let root = Node::root(&name, &value);
        root.only(&["fps", "task", "robot", "episodes", "features"])?;
        let text = |key| root.find(key)?.map(|node| node.text().map(str::to_owned)).transpose();
        let features = root.get("features")?;
        let mut read = Vec::new();
        for (key, _) in features.keys()? {
            read.push(feature(key, &features.get(key)?)?);
        }
        if read.is_empty() {
            return Err(features.wrong("at least one feature"));
        }
        let fps = root.get("fps")?;
        let frames_per_second = fps.whole(1)?;
        if frames_per_second > 1000 {
            return Err(fps.wrong("at most 1000"));
        }
        let episodes = episodes(root.find("episodes")?)?;
        let task = match episodes {
            Episodes::Recordings => Some(root.get("task")?.text()?.to_owned()),
            Episodes::Events(_) => text("task")?,
        };
        Ok(Self { fps: frames_per_second, task, robot: text("robot")?, episodes, features: read })
    }

    /// Names of the features that are numbers.
    pub fn numbers(&self) -> impl Iterator<Item = &str> {
        self.features.iter().filter(|feature| !feature.is_video()).map(|feature| &*feature.key)
    }

    /// Names of the features that are videos.
    pub fn videos(&self) -> impl Iterator<Item = &str> {
        self.features.iter().filter(|feature| feature.is_video()).map(|feature| &*feature.key)
    }

    /// Messages so long after a frame may change it.
    pub fn wait_nanos(&self) -> u64 {
        let waiting = self.features.iter().filter(|feature| feature.resample != Resample::Hold);
        waiting.filter_map(|feature| feature.tolerance_nanos).max().unwrap_or(0)
    }
}

fn episodes(node: Option<Node<'_>>) -> Result<Episodes, CliError> {
    let Some(node) = node else { return Ok(Episodes::Recordings) };
    match node.text()?.trim().split_once(' ') {
        None if node.text()?.trim() == "recordings" => Ok(Episodes::Recordings),
        Some(("events", name)) => Ok(Episodes::Events(name.trim().to_owned())),
        _ => Err(node.wrong("`recordings` or `events NAME`")),
    }
}

fn feature(key: &str, node: &Node<'_>) -> Result<Feature, CliError> {
    node.only(&["topic", "fields", "resample", "tolerance"])?;
    // Videos are in folders of this name.
    let is_plain = |c: char| c.is_alphanumeric() || "._-".contains(c);
    if !key.chars().all(is_plain) || key.starts_with('.') || RESERVED.contains(&key) {
        let names = "a feature whose name has letters, digits, `.`, `_` and `-` and is not one of LeRobot's own";
        return Err(node.wrong(names));
    }
    let fields = node.find("fields")?.map(|node| node.some(field)).transpose()?.unwrap_or_default();
    let are_pictures = fields.is_empty();
    // LeRobot expects three channels there.
    if !are_pictures && key.contains("image") {
        return Err(node.wrong("`image` only in names of features without `fields`: videos"));
    }
    let resample = match node.find("resample")? {
        None => Resample::Nearest,
        Some(node) => match node.text()? {
            "nearest" => Resample::Nearest,
            "hold" => Resample::Hold,
            "linear" if are_pictures => {
                return Err(node.wrong("nearest or hold for images"));
            }
            "linear" => Resample::Linear,
            _ => return Err(node.wrong("nearest, hold or linear")),
        },
    };
    let waits = resample != Resample::Hold;
    let tolerance_nanos = match node.find("tolerance")? {
        None => waits.then_some(TOLERANCE_NANOS),
        Some(node) => {
            let duration = parse::duration(node.text()?).map_err(|_| node.wrong("100ms, or 2s"))?;
            let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            if waits && are_pictures && nanos > PICTURE_TOLERANCE_NANOS_MAX {
                return Err(node.wrong("at most 1s for images, except with `resample: hold`"));
            }
            if waits && nanos > TOLERANCE_NANOS_MAX {
                return Err(node.wrong("at most 10s, except with `resample: hold`"));
            }
            Some(nanos)
        }
    };
    Ok(Feature {
        key: key.to_owned(),
        topic: node.get("topic")?.text()?.to_owned(),
        fields,
        resample,
        tolerance_nanos,
    })
}

/// `linear.x`, `position`, `position[2]`, `position[0..6]`.
fn field(node: &Node<'_>) -> Result<Field, CliError> {
    let text = node.text()?;
    let wrong = || node.wrong("a field such as linear.x, position, position[2] or position[0..6]");
    let Some((path, rest)) = text.split_once('[') else {
        return Ok(Field { path: text.to_owned(), items: None });
    };
    let inner = rest.strip_suffix(']').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
    let items = match inner.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(inner)?..number(inner)?.saturating_add(1),
    };
    if items.is_empty() {
        return Err(wrong());
    }
    Ok(Field { path: path.to_owned(), items: Some(items) })
}
