//! Options for writing rosbag2's SQLite databases, and the result.

use std::collections::BTreeMap;
use std::path::PathBuf;

use livebag_format::rosbag2::{BagMetadata, MetadataVersion};

/// rosbag2's presets for this storage (`sqlite_pragmas.hpp`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sqlite3Preset {
    /// `none`: `journal_mode=MEMORY`, `synchronous=OFF`. Fast; a crash while writing may leave a
    /// database that cannot be opened.
    #[default]
    None,
    /// `resilient`: `journal_mode=WAL`, `synchronous=NORMAL`. Survives the death of the process.
    Resilient,
}

impl Sqlite3Preset {
    /// The preset that rosbag2 calls so; the empty name is `none`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "" | "none" => Some(Self::None),
            "resilient" => Some(Self::Resilient),
            _ => None,
        }
    }

    #[cfg(feature = "sqlite3")]
    pub(super) fn pragmas(self) -> [&'static str; 2] {
        match self {
            Self::None => ["journal_mode=MEMORY", "synchronous=OFF"],
            Self::Resilient => ["journal_mode=WAL", "synchronous=NORMAL"],
        }
    }
}

/// How a database is written. Use `..Sqlite3Options::default()` for the others.
#[derive(Clone, Debug, Default)]
pub struct Sqlite3Options {
    /// Pragmas by their usual sets.
    pub preset: Sqlite3Preset,
    /// Further pragmas (`cache_size=4000`), which win over the preset's: `write.pragmas` of a
    /// storage config file of rosbag2.
    pub pragmas: Vec<String>,
    /// Version of the metadata in the database, and of how QoS profiles are spelt.
    pub metadata_version: MetadataVersion,
    /// `custom_data` of the bag (from metadata version 6 on); in a conversion, in addition to the source's.
    pub custom_data: BTreeMap<String, String>,
    /// `ros_distro` of the bag.
    pub ros_distro: String,
}

/// The result of writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sqlite3Summary {
    /// The database.
    pub path: PathBuf,
    /// Its length in bytes.
    pub file_bytes: u64,
    /// The metadata for [`write_bag_metadata`](super::write_bag_metadata), for a bag of this one file.
    pub metadata: BagMetadata,
}
