//! The machine, for reports.

use std::path::Path;

use serde::Serialize;

use crate::outcome::CliError;
use crate::{doctor, files, text};

/// See `livebag-bench/build.rs`.
const BUILT_FROM: &str = env!("LIVEBAG_COMMIT");

/// Whether this command knows a commit whose code it has.
///
/// # Errors
/// If it does not: its figures would belong to no code that can be found again.
pub fn check_commit() -> Result<(), CliError> {
    match BUILT_FROM == "unknown" || BUILT_FROM.ends_with("-dirty") {
        true => Err(CliError::usage(format!(
            "this command's commit is {BUILT_FROM}, so its figures would belong to no known code: build it from \
             a commit, or allow it with --any-commit"
        ))),
        false => Ok(()),
    }
}

/// What figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
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
    /// What the disk took in direct writes right before the runs, bytes a second: no recorder can
    /// be faster for long.
    pub disk_before_bytes_per_s: Option<f64>,
    /// The same right after them: how far the two differ, figures may differ by themselves.
    pub disk_after_bytes_per_s: Option<f64>,
}

impl Machine {
    /// Looks at it, and measures the disk of `directory`.
    pub fn look(directory: &Path) -> Self {
        let info = files::kernel_setting("/proc/cpuinfo").unwrap_or_default();
        // aarch64 kernels have no model name.
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map_or(std::env::consts::ARCH, |(_, name)| name.trim());
        let mounts = files::kernel_setting("/proc/self/mounts").unwrap_or_default();
        let place = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        Self {
            processor: model.to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            filesystem: mount_of(&mounts, &place),
            livebag: env!("CARGO_PKG_VERSION").to_owned(),
            built_from: BUILT_FROM.to_owned(),
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

/// Type and device of the mount that `place` is on (proc(5), mounts).
fn mount_of(mounts: &str, place: &Path) -> Option<String> {
    let fields = |line: &'_ str| {
        let mut fields = line.split_whitespace().map(str::to_owned);
        Some((fields.next()?, fields.next()?, fields.next()?))
    };
    let on_the_way = mounts.lines().filter_map(fields).filter(|(_, at, _)| place.starts_with(at));
    // The last of several at one place hides the others.
    let (device, _, kind) = on_the_way.max_by_key(|(_, at, _)| at.len())?;
    Some(format!("{kind} on {device}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts =
            "/dev/vda / ext4 rw 0 0\ntmpfs /data tmpfs rw 0 0\n/dev/sdb /data xfs rw 0 0\n";
        let of = |place: &str| mount_of(mounts, Path::new(place)).unwrap();
        assert_eq!(of("/data/run"), "xfs on /dev/sdb");
        assert_eq!(of("/database"), "ext4 on /dev/vda");
        assert_eq!(mount_of("", Path::new("/")), None);
    }
}
