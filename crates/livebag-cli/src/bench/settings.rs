//! How each storage is driven: rosbag2's presets and storage config files, and which of them
//! belong to which storage.

use std::time::Duration;

use livebag::{ChunkCompression, RecorderOptions};
use livebag_bags::Sqlite3Preset;
use serde::{Deserialize, Serialize};

use super::benchmark::{Config, StorageId};
use crate::outcome::CliError;
use crate::yaml::Node;

/// What one run writes with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Settings {
    /// livebag's container.
    Livebag(LivebagSettings),
    /// The `mcap` crate's writer.
    Mcap(McapSettings),
    /// SQLite.
    Sqlite3(Sqlite3Settings),
}

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// lz4.
    Lz4,
    /// zstd.
    Zstd,
}

/// The level of `zstd` for all writers: rosbag2's own (`zstd_common.hpp`), and the lowest that the `mcap` crate
/// accepts.
const ZSTD_LEVEL: u32 = 1;
/// As with `livebag record --preset resilient`.
const RESILIENT_SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// How livebag is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LivebagSettings {
    /// Compression of chunks.
    pub compression: Option<Compression>,
    /// The compressor's level.
    pub level: u32,
    /// Compressing threads; 0 for one for every two processors.
    pub threads: u32,
    /// Checksums of large frames, too.
    pub checksum: bool,
    /// Whether data is made durable every second.
    pub resilient: bool,
}

impl LivebagSettings {
    /// As the recorder takes them.
    pub fn apply(&self, options: RecorderOptions) -> RecorderOptions {
        RecorderOptions {
            compression: ChunkCompression {
                compression: match self.compression {
                    None => livebag::Compression::None,
                    Some(Compression::Lz4) => livebag::Compression::Lz4,
                    Some(Compression::Zstd) => livebag::Compression::Zstd,
                },
                level: self.level as i32,
                threads: self.threads as usize,
            },
            checksum: self.checksum,
            sync_interval: self.resilient.then_some(RESILIENT_SYNC_INTERVAL),
            ..options
        }
    }
}

/// How the MCAP writer is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McapSettings {
    /// Chunks with message indexes, or messages one after the other.
    pub chunked: bool,
    /// Bytes of a chunk before compression.
    pub chunk_bytes: u64,
    /// Compression of chunks.
    pub compression: Option<Compression>,
    /// The compressor's level; 0 for its usual one.
    pub level: u32,
    /// Compressing threads; 0 for one by processor.
    pub threads: u32,
    /// Checksum of each chunk.
    pub chunk_crc: bool,
    /// Checksum of the data section.
    pub data_crc: bool,
    /// Checksum of the summary.
    pub summary_crc: bool,
}

/// How SQLite is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sqlite3Settings {
    /// rosbag2's preset `resilient` in place of `none`.
    pub resilient: bool,
    /// Further pragmas.
    pub pragmas: Vec<String>,
}

impl Sqlite3Settings {
    /// The preset.
    pub fn preset(&self) -> Sqlite3Preset {
        if self.resilient { Sqlite3Preset::Resilient } else { Sqlite3Preset::None }
    }
}

impl Default for McapSettings {
    /// rosbag2's preset `none` (`mcap_storage.cpp`): no checksum of chunks, no compression.
    fn default() -> Self {
        Self {
            chunked: true,
            chunk_bytes: mcap::WriteOptions::DEFAULT_CHUNK_SIZE,
            compression: None,
            level: 0,
            threads: 0,
            chunk_crc: false,
            data_crc: false,
            summary_crc: true,
        }
    }
}

/// The combination's settings, or why it has no meaning and is left out.
pub fn resolve(
    storage: StorageId,
    config: &Config,
    compression: &str,
    threads: u64,
) -> Result<Result<Settings, String>, CliError> {
    let foreign = || Ok(Err(format!("{} is not for storage {storage}", config.label())));
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    let is_zstd = compression == "zstd";
    match storage {
        StorageId::Livebag => match livebag(config) {
            None => foreign(),
            Some(mut settings) => {
                settings.threads = threads;
                if is_zstd {
                    settings.compression = Some(Compression::Zstd);
                    settings.level = settings.level.max(ZSTD_LEVEL);
                }
                Ok(Ok(Settings::Livebag(settings)))
            }
        },
        StorageId::Sqlite3 if !compression.is_empty() => {
            Ok(Err(format!("compression {compression:?} is not for storage sqlite3")))
        }
        StorageId::Sqlite3 => match sqlite3(config)? {
            Some(settings) => Ok(Ok(Settings::Sqlite3(settings))),
            None => foreign(),
        },
        StorageId::Mcap => match mcap(config)? {
            None => foreign(),
            Some(settings) if !settings.chunked && !compression.is_empty() => {
                let config = config.label();
                Ok(Err(format!(
                    "compression {compression:?} with {config} is not for storage mcap: it has no \
                     chunks"
                )))
            }
            Some(mut settings) => {
                settings.threads = threads;
                if is_zstd {
                    settings.compression = Some(Compression::Zstd);
                    settings.level = settings.level.max(ZSTD_LEVEL);
                }
                Ok(Ok(Settings::Mcap(settings)))
            }
        },
    }
}

/// rosbag2's presets in livebag's terms, as `livebag record --preset` has them; a file is for the
/// others.
fn livebag(config: &Config) -> Option<LivebagSettings> {
    let usual = LivebagSettings::default();
    let zstd = |level| LivebagSettings {
        compression: Some(Compression::Zstd),
        level,
        ..LivebagSettings::default()
    };
    match config {
        Config::Usual => Some(usual),
        Config::Preset(name) => match name.as_str() {
            "none" | "fastwrite" => Some(usual),
            "resilient" => Some(LivebagSettings { checksum: true, resilient: true, ..usual }),
            // `record`'s level is below 0; the mcap crate's lowest, so that both do the same.
            "zstd_fast" => Some(zstd(ZSTD_LEVEL)),
            "zstd_small" => Some(LivebagSettings { checksum: true, ..zstd(19) }),
            _ => None,
        },
        Config::File { .. } => None,
    }
}

fn sqlite3(config: &Config) -> Result<Option<Sqlite3Settings>, CliError> {
    let preset = |resilient| Ok(Some(Sqlite3Settings { resilient, pragmas: Vec::new() }));
    match config {
        Config::Usual => preset(false),
        Config::Preset(name) => match Sqlite3Preset::from_name(name) {
            Some(known) => preset(known == Sqlite3Preset::Resilient),
            None => Ok(None),
        },
        Config::File { path, value, .. } => {
            let root = Node::root(path, value);
            let Some(write) = root.find("write")? else { return Ok(None) };
            let text = |node: &Node| node.text().map(str::to_owned);
            let pragmas = write.get("pragmas")?.some(text)?;
            Ok(Some(Sqlite3Settings { resilient: false, pragmas }))
        }
    }
}

fn mcap(config: &Config) -> Result<Option<McapSettings>, CliError> {
    let usual = McapSettings::default();
    let zstd = McapSettings { compression: Some(Compression::Zstd), ..usual.clone() };
    Ok(match config {
        Config::Usual => Some(usual),
        Config::Preset(name) => match name.as_str() {
            "none" => Some(usual),
            "fastwrite" => Some(McapSettings { chunked: false, summary_crc: false, ..usual }),
            // mcap-cpp's fastest is zstd's level -5; the crate's levels begin at 1.
            "zstd_fast" => Some(McapSettings { level: ZSTD_LEVEL, ..zstd }),
            "zstd_small" => Some(McapSettings { level: 19, chunk_bytes: 4 << 20, ..zstd }),
            _ => None,
        },
        Config::File { path, value, .. } => {
            let root = Node::root(path, value);
            // A file for SQLite.
            if root.find("write")?.is_some() || root.find("read")?.is_some() {
                return Ok(None);
            }
            Some(mcap_file(&root)?)
        }
    })
}

/// The keys of rosbag2's MCAP plugin that the `mcap` crate has, too.
fn mcap_file(root: &Node) -> Result<McapSettings, CliError> {
    root.only(&[
        "noChunkCRC",
        "enableDataCRC",
        "noSummaryCRC",
        "noChunking",
        "chunkSize",
        "compression",
        "compressionLevel",
    ])?;
    let flag = |key| root.find(key)?.map_or(Ok(false), |node| node.flag());
    let mut settings = McapSettings {
        chunked: !flag("noChunking")?,
        chunk_crc: !flag("noChunkCRC")?,
        data_crc: flag("enableDataCRC")?,
        summary_crc: !flag("noSummaryCRC")?,
        ..McapSettings::default()
    };
    if let Some(node) = root.find("chunkSize")? {
        settings.chunk_bytes = node.whole(1)?;
    }
    if let Some(node) = root.find("compression")? {
        settings.compression = match node.text()? {
            "None" => None,
            "Lz4" => Some(Compression::Lz4),
            "Zstd" => Some(Compression::Zstd),
            _ => return Err(node.wrong("None, Lz4 or Zstd")),
        };
    }
    if let Some(node) = root.find("compressionLevel")? {
        // mcap-cpp's levels for zstd (writer.inl), those below 1 raised to it.
        settings.level = match node.text()? {
            "Fastest" | "Fast" | "Default" => 1,
            "Slow" => 5,
            "Slowest" => 19,
            _ => return Err(node.wrong("Fastest, Fast, Default, Slow or Slowest")),
        };
    }
    Ok(settings)
}
