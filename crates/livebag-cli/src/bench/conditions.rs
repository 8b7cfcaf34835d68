//! What figures depend on, for reports.

use std::path::Path;

use livebag_bench::machine;
use serde::Serialize;

use crate::{doctor, text};

/// What figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Conditions {
    /// Its model.
    pub processor: String,
    /// How many processors there are.
    pub processors: usize,
    /// `6.18.44`.
    pub kernel: String,
    /// Filesystem and device of the recordings: `ext4 on /dev/vda`.
    pub filesystem: Option<String>,
    /// livebag's version.
    pub livebag: String,
    /// The commit that this command was built from: `0123456789ab`, `0123456789ab-dirty` or `unknown`.
    pub built_from: String,
    /// The disk's speed in direct writes right before the runs, bytes a second: no recorder can be faster for long.
    pub disk_before_bytes_per_s: Option<f64>,
    /// The same right after them: how far the two differ, figures may differ by themselves.
    pub disk_after_bytes_per_s: Option<f64>,
}

impl Conditions {
    /// Reads the machine's properties, and measures the disk of `directory`.
    pub fn look(directory: &Path) -> Self {
        Self {
            processor: machine::processor(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: machine::kernel(),
            filesystem: machine::mount_of(directory).map(|mount| mount.to_string()),
            livebag: env!("CARGO_PKG_VERSION").to_owned(),
            built_from: machine::BUILT_FROM.to_owned(),
            // A disk that cannot be measured will say why when it is recorded to.
            disk_before_bytes_per_s: doctor::disk_bytes_per_s(directory).ok(),
            disk_after_bytes_per_s: None,
        }
    }

    /// Measures the disk again.
    pub fn look_again(&mut self, directory: &Path) {
        self.disk_after_bytes_per_s = doctor::disk_bytes_per_s(directory).ok();
    }

    /// In one line.
    pub fn describe(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or_else(|| "?".to_owned(), text::bytes_per_second);
        format!(
            "{}, {} processors, Linux {}, {}; livebag {} ({}); the disk took {} before the runs and {} \
             after them (256 MiB, direct).",
            self.processor,
            self.processors,
            self.kernel,
            self.filesystem.as_deref().unwrap_or("an unknown filesystem"),
            self.livebag,
            self.built_from,
            rate(self.disk_before_bytes_per_s),
            rate(self.disk_after_bytes_per_s),
        )
    }
}
