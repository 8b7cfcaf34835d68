//! rosbag2's YAML files for `convert`: `input_bags` and `output_bags`, with the keys of rosbag2's
//! `StorageOptions` and `RecordOptions`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag_bags::{
    Rosbag2Compression, Rosbag2Options, Rosbag2Storage, SinkCompression, SinkOptions,
    Sqlite3Options, Sqlite3Preset, TopicFilter,
};
use livebag_format::rosbag2::MetadataVersion;

use super::{Job, Target};
use crate::outcome::CliError;
use crate::yaml::{self, Node};

/// Storages by the names that they have in rosbag2, and ours.
pub const STORAGE_IDS: [&str; 3] = ["mcap", "sqlite3", "container"];

/// Keys that are heeded in an output.
const OUTPUT_KEYS: [&str; 25] = [
    "uri",
    "storage_id",
    "max_bagfile_size",
    "max_bagfile_duration",
    "storage_preset_profile",
    "storage_config_uri",
    "custom_data",
    "all",
    "all_topics",
    "all_services",
    "topics",
    "topic_types",
    "services",
    "regex",
    "exclude",
    "exclude_regex",
    "exclude_topics",
    "exclude_topic_types",
    "exclude_services",
    "include_hidden_topics",
    "compression_mode",
    "compression_format",
    "start_time_ns",
    "end_time_ns",
    "rmw_serialization_format",
];

/// Keys of rosbag2 for recording, not for conversion: they are ignored.
const PASSED_OVER: [&str; 27] = [
    "max_cache_size",
    "max_cache_duration",
    "max_bag_files",
    "snapshot_mode",
    "is_discovery_disabled",
    "topic_polling_interval",
    "node_prefix",
    "compression_queue_size",
    "compression_threads",
    "compression_threads_priority",
    "topic_qos_profile_overrides",
    "include_unpublished_topics",
    "ignore_leaf_topics",
    "start_paused",
    "use_sim_time",
    "disable_keyboard_controls",
    "input_serialization_format",
    "output_serialization_format",
    "all_actions",
    "actions",
    "exclude_actions",
    "exclude_service_events",
    "static_topics_uri",
    "repeat_transient_local_topics",
    "repeat_all_transient_local_topics",
    "stats_max_publishing_rate",
    "send_timestamp_source",
];

/// The recordings that an `--input-options` file names, and their storages where it says.
pub fn inputs(path: &Path) -> Result<Vec<(PathBuf, String)>, CliError> {
    let name = path.display().to_string();
    let document = yaml::parse(&name, &yaml::read(path)?)?;
    let root = Node::root(&name, &document);
    root.only(&["input_bags"])?;
    root.get("input_bags")?.some(|bag| {
        bag.only(&[&["uri", "storage_id"], &OUTPUT_KEYS[2..7], &PASSED_OVER].concat())?;
        let storage_id = match bag.find("storage_id")? {
            Some(node) => storage_id(&node, &["", "mcap", "sqlite3", "container"])?,
            None => String::new(),
        };
        Ok((PathBuf::from(bag.get("uri")?.text()?), storage_id))
    })
}

/// The bags that an `--output-options` file asks for.
pub fn outputs(path: &Path, metadata_version: MetadataVersion) -> Result<Vec<Job>, CliError> {
    let name = path.display().to_string();
    let document = yaml::parse(&name, &yaml::read(path)?)?;
    let root = Node::root(&name, &document);
    root.only(&["output_bags"])?;
    root.get("output_bags")?.some(|bag| job(bag, path, metadata_version))
}

fn job(bag: &Node, file: &Path, metadata_version: MetadataVersion) -> Result<Job, CliError> {
    bag.only(&[&OUTPUT_KEYS[..], &PASSED_OVER].concat())?;
    let path = PathBuf::from(bag.get("uri")?.text()?);
    let filter = filter(bag)?;
    if filter.is_empty() {
        return Err(
            bag.wrong("a selection of topics (all_topics: true, topics, topic_types, regex, …)")
        );
    }
    for key in ["rmw_serialization_format", "output_serialization_format"] {
        if let Some(node) = bag.find(key)?
            && !["", "cdr"].contains(&node.text()?)
        {
            return Err(node.wrong("cdr: messages are not re-encoded"));
        }
    }
    let storage = match bag.find("storage_id")? {
        Some(node) => storage_id(&node, &["", "mcap", "sqlite3", "container"])?,
        None => String::new(),
    };
    let mut notes = Vec::new();
    let target = match &*storage {
        "container" => container(bag)?,
        "sqlite3" => {
            let storage = Rosbag2Storage::Sqlite3(sqlite3(bag, file, metadata_version)?);
            Target::Rosbag2(storage, rosbag2(bag, true)?)
        }
        _ => {
            let storage = Rosbag2Storage::Mcap(mcap(bag, file, metadata_version, &mut notes)?);
            Target::Rosbag2(storage, rosbag2(bag, false)?)
        }
    };
    let (from_nanos, to_nanos) = (time(bag, "start_time_ns")?, time(bag, "end_time_ns")?);
    Ok(Job { path, target, filter, from_nanos, to_nanos, notes })
}

fn storage_id(node: &Node, known: &[&str]) -> Result<String, CliError> {
    let text = node.text()?;
    match known.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(node.wrong(&STORAGE_IDS.join(", "))),
    }
}

fn flag(bag: &Node, key: &str) -> Result<bool, CliError> {
    bag.find(key)?.map_or(Ok(false), |node| node.flag())
}

fn texts(bag: &Node, key: &str) -> Result<Vec<String>, CliError> {
    let Some(node) = bag.find(key)? else { return Ok(Vec::new()) };
    node.list()?.iter().map(|item| item.text().map(str::to_owned)).collect()
}

fn regex(bag: &Node, key: &str) -> Result<Option<regex::Regex>, CliError> {
    let Some(node) = bag.find(key)? else { return Ok(None) };
    let text = node.text()?;
    if text.is_empty() {
        return Ok(None);
    }
    let parsed = regex::Regex::new(text);
    parsed.map(Some).map_err(|error| node.wrong(&format!("a regular expression ({error})")))
}

fn filter(bag: &Node) -> Result<TopicFilter, CliError> {
    // `all` and `exclude` are what these were called up to Iron.
    let all = flag(bag, "all")?;
    let exclude_regex = match regex(bag, "exclude_regex")? {
        None => regex(bag, "exclude")?,
        given => given,
    };
    Ok(TopicFilter {
        all_topics: all || flag(bag, "all_topics")?,
        all_services: all || flag(bag, "all_services")?,
        topics: texts(bag, "topics")?,
        topic_types: texts(bag, "topic_types")?,
        services: texts(bag, "services")?,
        regex: regex(bag, "regex")?,
        exclude_regex,
        exclude_topics: texts(bag, "exclude_topics")?,
        exclude_topic_types: texts(bag, "exclude_topic_types")?,
        exclude_services: texts(bag, "exclude_services")?,
        include_hidden_topics: flag(bag, "include_hidden_topics")?,
    })
}

/// A time; -1 is rosbag2's word for none.
fn time(bag: &Node, key: &str) -> Result<Option<u64>, CliError> {
    let Some(node) = bag.find(key)? else { return Ok(None) };
    if node.is_negative() { Ok(None) } else { node.whole(0).map(Some) }
}

/// A limit; 0 is rosbag2's word for none.
fn limit(bag: &Node, key: &str) -> Result<Option<u64>, CliError> {
    let found = bag.find(key)?.map(|node| node.whole(0)).transpose()?;
    Ok(found.filter(|limit| *limit > 0))
}

fn rosbag2(bag: &Node, takes_messages: bool) -> Result<Rosbag2Options, CliError> {
    let mode = bag.find("compression_mode")?;
    let compression = match &mode {
        None => Rosbag2Compression::None,
        Some(node) => match &*node.text()?.to_ascii_lowercase() {
            "" | "none" => Rosbag2Compression::None,
            "file" => Rosbag2Compression::File,
            "message" if takes_messages => Rosbag2Compression::Message,
            "message" => {
                let known = "none or file: mcap storage has no compression of single messages \
                             (storage_preset_profile: zstd_fast compresses its chunks)";
                return Err(node.wrong(known));
            }
            _ => return Err(node.wrong("none, file or message")),
        },
    };
    if let Some(node) = bag.find("compression_format")?
        && !["", "zstd"].contains(&node.text()?)
    {
        return Err(node.wrong("zstd"));
    }
    Ok(Rosbag2Options {
        compression,
        file_bytes_max: limit(bag, "max_bagfile_size")?,
        file_duration_max: limit(bag, "max_bagfile_duration")?.map(Duration::from_secs),
    })
}

fn container(bag: &Node) -> Result<Target, CliError> {
    let foreign = ["compression_mode", "max_bagfile_size", "max_bagfile_duration"];
    for key in foreign {
        let Some(node) = bag.find(key)? else { continue };
        let is_none = node.whole(0).is_ok_and(|limit| limit == 0)
            || node.text().is_ok_and(|mode| mode.is_empty() || mode.eq_ignore_ascii_case("none"));
        if !is_none {
            return Err(node.wrong("nothing: a container that is converted into has neither"));
        }
    }
    Ok(Target::Container)
}

fn custom_data(bag: &Node) -> Result<std::collections::BTreeMap<String, String>, CliError> {
    let Some(node) = bag.find("custom_data")? else { return Ok(Default::default()) };
    let keys = node.keys()?.map(|(key, _)| Ok((key.to_owned(), node.get(key)?.text()?.to_owned())));
    keys.collect()
}

fn preset<'a>(bag: &Node<'a>) -> Result<Option<(Node<'a>, &'a str)>, CliError> {
    let Some(node) = bag.find("storage_preset_profile")? else { return Ok(None) };
    let name = node.text()?;
    Ok(Some((node, name)))
}

fn mcap(
    bag: &Node,
    file: &Path,
    metadata_version: MetadataVersion,
    notes: &mut Vec<String>,
) -> Result<SinkOptions, CliError> {
    use SinkCompression::{None, Zstd};
    // mcap-cpp's slowest is zstd's 19; its fastest is below what our writer can ask for.
    let (compression, compression_level) = match preset(bag)? {
        Option::None | Some((_, "" | "none" | "fastwrite")) => (None, 0),
        Some((_, "zstd_fast")) => (Zstd, 1),
        Some((_, "zstd_small")) => (Zstd, 19),
        Some((node, _)) => return Err(node.wrong("none, fastwrite, zstd_fast or zstd_small")),
    };
    let mut options = SinkOptions {
        metadata_version,
        compression,
        compression_level,
        custom_data: custom_data(bag)?,
        ..SinkOptions::default()
    };
    config(bag, file, |config| {
        for (key, _) in config.keys()? {
            let node = config.get(key)?;
            match key {
                "compression" => {
                    options.compression = match node.text()? {
                        "None" => None,
                        "Lz4" => SinkCompression::Lz4,
                        "Zstd" => Zstd,
                        _ => return Err(node.wrong("None, Lz4 or Zstd")),
                    };
                }
                key => notes.push(format!("{key} of the storage's settings is not heeded")),
            }
        }
        Ok(())
    })?;
    Ok(options)
}

fn sqlite3(
    bag: &Node,
    file: &Path,
    metadata_version: MetadataVersion,
) -> Result<Sqlite3Options, CliError> {
    let preset = match preset(bag)? {
        None => Sqlite3Preset::None,
        Some((node, name)) => {
            Sqlite3Preset::from_name(name).ok_or_else(|| node.wrong("none or resilient"))?
        }
    };
    let mut options = Sqlite3Options {
        preset,
        metadata_version,
        custom_data: custom_data(bag)?,
        ..Sqlite3Options::default()
    };
    config(bag, file, |config| {
        config.only(&["read", "write"])?;
        if let Some(write) = config.find("write")? {
            write.only(&["pragmas"])?;
            options.pragmas = texts(&write, "pragmas")?;
        }
        Ok(())
    })?;
    Ok(options)
}

/// Reads the file named by `storage_config_uri`: at that path, or relative to the options file.
fn config(
    bag: &Node,
    file: &Path,
    read: impl FnOnce(&Node) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let Some(node) = bag.find("storage_config_uri")? else { return Ok(()) };
    let name = node.text()?.trim_start_matches("file://");
    if name.is_empty() {
        return Ok(());
    }
    let beside = file.parent().unwrap_or(Path::new("")).join(name);
    let path = [PathBuf::from(name), beside].into_iter().find(|path| path.is_file());
    let path = path.ok_or_else(|| node.wrong("a file that is there"))?;
    let name = path.display().to_string();
    let document = yaml::parse(&name, &yaml::read(&path)?)?;
    read(&Node::root(&name, &document))
}
