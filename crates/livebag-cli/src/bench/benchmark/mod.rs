//! The benchmark YAML of rosbag2's performance benchmark: the parameters to run with the producers.

use std::fmt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::outcome::CliError;
use crate::yaml::{self, Node, Value};

/// The document's root key.
pub const ROOT: &str = "rosbag2_performance_benchmarking";
const PRESETS: [&str; 5] = ["none", "resilient", "fastwrite", "zstd_fast", "zstd_small"];
/// rosbag2's own files and their contents, by their names here.
const KNOWN_FILES: [(&str, &str); 2] =
    [("storage_optimized.yaml", "none"), ("storage_resilient.yaml", "resilient")];

/// The compared storages.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum StorageId {
    /// livebag's containers.
    #[value(alias = "container")]
    Livebag,
    /// MCAP files through the `mcap` crate, as rosbag2 drives its writer.
    Mcap,
    /// SQLite databases, as rosbag2 drives them.
    Sqlite3,
}

impl StorageId {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Livebag, Self::Mcap, Self::Sqlite3];
}

impl fmt::Display for StorageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StorageId::Livebag => "livebag",
            StorageId::Mcap => "mcap",
            StorageId::Sqlite3 => "sqlite3",
        })
    }
}

/// A `storage_config_file`.
#[derive(Clone, Debug, PartialEq)]
pub enum Config {
    /// The storage's usual settings.
    Usual,
    /// A preset by its name in rosbag2.
    Preset(String),
    /// A file.
    File {
        /// As it is named in the benchmark.
        label: String,
        /// Where it was found.
        path: String,
        /// Its value.
        value: Value,
    },
}

impl Config {
    /// As it is named in the benchmark; empty for the usual settings.
    pub fn label(&self) -> &str {
        match self {
            Config::Usual => "",
            Config::Preset(label) | Config::File { label, .. } => label,
        }
    }
}

/// A benchmark.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The file's name without its extension.
    pub name: String,
    /// The document, to be kept with the results.
    pub text: String,
    /// Name of the file of results.
    pub result_file: String,
    /// Where results and recordings go.
    pub bag_root: PathBuf,
    /// Runs of each combination.
    pub repeat_each: u64,
    /// Whether producers write in the recorder's process.
    pub no_transport: bool,
    /// Whether recordings stay.
    pub preserve_bags: bool,
    /// Processors for publishing; all if empty.
    pub producers_affinity: Vec<usize>,
    /// Processors for recording; all if empty.
    pub recorder_affinity: Vec<usize>,
    /// The factors of the cross product.
    pub parameters: Parameters,
}

/// The lists of which every combination is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// Storages.
    pub storage: Vec<StorageId>,
    /// Bytes of each of the cache's two halves.
    pub cache_bytes: Vec<u64>,
    /// Bytes at which a file is split; 0 for never.
    pub bag_bytes: Vec<u64>,
    /// `zstd` or nothing.
    pub compression: Vec<String>,
    /// Messages that wait for compression.
    pub compression_queue: Vec<u64>,
    /// Compressing threads; 0 for one by processor.
    pub compression_threads: Vec<u64>,
    /// Settings of the storage.
    pub config: Vec<Config>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            storage: StorageId::ALL.to_vec(),
            cache_bytes: vec![100_000_000],
            bag_bytes: vec![0],
            compression: vec![String::new()],
            compression_queue: vec![1],
            compression_threads: vec![0],
            config: vec![Config::Usual],
        }
    }
}

impl Default for Benchmark {
    /// Every storage once with rosbag2's cache, without transport.
    fn default() -> Self {
        Self {
            name: "livebag".to_owned(),
            text: String::new(),
            result_file: "results.csv".to_owned(),
            bag_root: "livebag_bench".into(),
            repeat_each: 1,
            no_transport: true,
            preserve_bags: false,
            producers_affinity: Vec::new(),
            recorder_affinity: Vec::new(),
            parameters: Parameters::default(),
        }
    }
}

impl Benchmark {
    /// Reads a document. Storage config files are searched for beside it.
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self, CliError> {
        let value = yaml::parse(file, text)?;
        let node = Node::root(file, &value).at(&[
            ROOT,
            "benchmark_node",
            "ros__parameters",
            "benchmark",
        ])?;
        node.only(&[
            "summary_result_file",
            "bag_root_folder",
            "repeat_each",
            "no_transport",
            "preserve_bags",
            "producers_cpu_affinity",
            "recorder_cpu_affinity",
            "parameters",
        ])?;
        let usual = Benchmark::default();
        let flag = |key, usual| node.find(key)?.map_or(Ok(usual), |node| node.flag());
        let affinity = |key| node.find(key)?.map_or(Ok(Vec::new()), |node| processors(&node));
        let result_file = match node.find("summary_result_file")? {
            None => usual.result_file,
            Some(node) => file_name(&node)?,
        };
        let root = node.find("bag_root_folder")?.map(|node| node.text().map(PathBuf::from));
        Ok(Benchmark {
            name: name.to_owned(),
            text: text.to_owned(),
            result_file,
            bag_root: root.transpose()?.unwrap_or(usual.bag_root),
            repeat_each: node.find("repeat_each")?.map_or(Ok(1), |node| node.whole(1))?,
            no_transport: flag("no_transport", usual.no_transport)?,
            preserve_bags: flag("preserve_bags", usual.preserve_bags)?,
            producers_affinity: affinity("producers_cpu_affinity")?,
            recorder_affinity: affinity("recorder_cpu_affinity")?,
            parameters: parameters(&node.get("parameters")?, Path::new(file))?,
        })
    }
}

fn parameters(node: &Node, file: &Path) -> Result<Parameters, CliError> {
    node.only(&[
        "storage_id",
        "max_cache_size",
        "max_bag_size",
        "compression",
        "compression_queue_size",
        "compression_threads",
        "storage_config_file",
    ])?;
    let usual = Parameters::default();
    let numbers = |key, usual| node.find(key)?.map_or(Ok(usual), |n| n.some(|n| n.whole(0)));
    let storage = |node: &Node| {
        StorageId::from_str(node.text()?, false).map_err(|_| node.wrong("livebag, mcap or sqlite3"))
    };
    let compression = |node: &Node| match node.text()? {
        known @ ("" | "zstd") => Ok(known.to_owned()),
        _ => Err(node.wrong("\"\" or \"zstd\"")),
    };
    let config = |node: &Node| config(node, file);
    Ok(Parameters {
        storage: node.find("storage_id")?.map_or(Ok(usual.storage), |n| n.some(storage))?,
        cache_bytes: numbers("max_cache_size", usual.cache_bytes)?,
        bag_bytes: numbers("max_bag_size", usual.bag_bytes)?,
        compression: node
            .find("compression")?
            .map_or(Ok(usual.compression), |n| n.some(compression))?,
        compression_queue: numbers("compression_queue_size", usual.compression_queue)?,
        compression_threads: numbers("compression_threads", usual.compression_threads)?,
        config: node.find("storage_config_file")?.map_or(Ok(usual.config), |n| n.some(config))?,
    })
}

/// A preset's name, or a file: at that path, beside the benchmark, or in `config/storage` as in rosbag2's tree.
fn config(node: &Node, benchmark: &Path) -> Result<Config, CliError> {
    let label = node.text()?;
    if label.is_empty() {
        return Ok(Config::Usual);
    }
    if PRESETS.contains(&label) {
        return Ok(Config::Preset(label.to_owned()));
    }
    let folder = benchmark.parent().unwrap_or(Path::new(""));
    let places = [Path::new(""), folder, &folder.join("../storage"), &folder.join("../../storage")]
        .map(|place| place.join(label));
    if let Some(path) = places.iter().find(|path| path.is_file()) {
        let name = path.display().to_string();
        let value = yaml::parse(&name, &yaml::read(path)?)?;
        return Ok(Config::File { label: label.to_owned(), path: name, value });
    }
    match KNOWN_FILES.iter().find(|(name, _)| *name == label) {
        Some((_, preset)) => Ok(Config::Preset((*preset).to_owned())),
        None => Err(node.wrong(&format!(
            "a file that is there (beside the benchmark, or in ../storage) or one of {}",
            PRESETS.join(", ")
        ))),
    }
}

/// Numbers of processors that this machine has.
fn processors(node: &Node) -> Result<Vec<usize>, CliError> {
    let allowed = livebag_bench::usage::allowed_processors();
    let one = |node: &Node| {
        let number = node.whole(0)? as usize;
        if allowed.contains(&number) {
            return Ok(number);
        }
        let all: Vec<_> = allowed.iter().map(usize::to_string).collect();
        Err(node.wrong(&format!("a processor that may be used here ({})", all.join(", "))))
    };
    node.list()?.iter().map(one).collect()
}

fn file_name(node: &Node) -> Result<String, CliError> {
    let name = node.text()?;
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(node.wrong("a file name without a folder"));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests;
