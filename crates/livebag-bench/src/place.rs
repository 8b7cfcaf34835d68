//! Where benchmarks put their recordings.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::error::{BenchError, Result};
use crate::machine;

/// Options about the place of recordings, of all benchmarks that record.
#[derive(Debug, Clone, Default, Args)]
pub struct Place {
    /// Where recordings go; they are removed afterwards (without: TMPDIR if that is a disk, else bench-runs/tmp)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    /// Where recordings go.
    pub fn directory(&self) -> PathBuf {
        if let Some(given) = &self.dir {
            return given.clone();
        }
        let usual = std::env::var_os("TMPDIR").map(PathBuf::from);
        usual.filter(|dir| is_disk(dir)).unwrap_or_else(|| PathBuf::from("bench-runs/tmp"))
    }

    /// Makes the directory; refuses one that is not on a disk.
    pub fn prepare(&self) -> Result<PathBuf> {
        let path = self.directory();
        std::fs::create_dir_all(&path)
            .map_err(|e| BenchError::io(format!("creating {}", path.display()), e))?;
        if is_disk(&path) {
            return Ok(path);
        }
        let filesystem = machine::mount_of(&path).map_or_else(String::new, |m| m.kind);
        Err(BenchError::NotADisk { path, filesystem })
    }
}

fn is_disk(path: &Path) -> bool {
    machine::mount_of(path).is_none_or(|m| !matches!(m.kind.as_str(), "tmpfs" | "ramfs"))
}
