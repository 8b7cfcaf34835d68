//! The machine of the measurements, as far as it can be read.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

use crate::usage::text;

/// The commit that this was built from: `0123456789ab`, `0123456789ab-dirty` or `unknown` (`build.rs`).
pub const BUILT_FROM: &str = env!("LIVEBAG_COMMIT");
/// `NAME VERSION, …` of the peers in `Cargo.lock` (`build.rs`).
const PEERS: &str = env!("LIVEBAG_PEERS");

/// Whether the program knows a commit whose code it has.
///
/// # Errors
/// If it does not, why that matters: its figures would belong to no code that can be found again.
pub fn check_commit() -> Result<(), String> {
    match BUILT_FROM == "unknown" || BUILT_FROM.ends_with("-dirty") {
        true => Err(format!(
            "this program's commit is {BUILT_FROM}, so its figures would belong to no known code: build it from \
             a commit, or allow it with --any-commit"
        )),
        false => Ok(()),
    }
}

/// The machine and the versions of everything measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's model name.
    pub cpu: String,
    /// Processors that this process may run on.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
    /// Physical memory.
    pub memory_bytes: u64,
    /// Filesystem and device of the directory that recordings go to.
    pub filesystem: String,
    /// Scheduler, direct-I/O and huge-page facts that change figures.
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// The commit that this binary was built from: `0123456789ab`, `0123456789ab-dirty` or `unknown`.
    pub built_from: &'static str,
    /// Versions of the compiler, livebag and the peers.
    pub versions: serde_json::Map<String, serde_json::Value>,
}

impl Machine {
    /// Reads the machine's properties; `directory` is where recordings go.
    pub fn describe(directory: &Path) -> Self {
        Self {
            cpu: processor(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel(),
            memory_bytes: memory_bytes(),
            filesystem: mount_of(directory).map_or_else(|| "unknown".to_owned(), |m| m.to_string()),
            settings: settings(),
            built_from: BUILT_FROM,
            versions: versions(),
        }
    }
}

/// The kernel's release: `6.18.44`.
pub fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The processor's model.
pub fn processor() -> String {
    let info = text("/proc/cpuinfo").unwrap_or_default();
    // aarch64 kernels have no model name: the implementer and part are all they tell.
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    field("model name")
        .or_else(|| Some(format!("{} part {}", field("CPU implementer")?, field("CPU part")?)))
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn memory_bytes() -> u64 {
    let kib = text("/proc/meminfo").and_then(|info| {
        info.lines().find_map(|line| {
            line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()
        })
    });
    kib.unwrap_or(0u64) * 1024
}

/// One line of the mount table.
#[derive(Debug, PartialEq)]
pub struct Mount {
    /// The filesystem's type, e.g. `ext4`.
    pub kind: String,
    /// The device, e.g. `/dev/vda`.
    pub device: String,
}

impl std::fmt::Display for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} on {}", self.kind, self.device)
    }
}

/// The mount that `path` (or the nearest of its parents that exists) is on.
pub fn mount_of(path: &Path) -> Option<Mount> {
    let existing = path.ancestors().find_map(|p| {
        let p = if p.as_os_str().is_empty() { Path::new(".") } else { p };
        std::fs::canonicalize(p).ok()
    })?;
    longest_mount(&text("/proc/self/mounts")?, &existing)
}

fn longest_mount(table: &str, path: &Path) -> Option<Mount> {
    let entries = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        Some((fields.next()?, Path::new(fields.next()?), fields.next()?))
    });
    entries
        .filter(|(_, point, _)| path.starts_with(point))
        // Of two mounts on one point, the later one covers the earlier.
        .max_by_key(|(_, point, _)| point.as_os_str().len())
        .map(|(device, _, kind)| Mount { kind: kind.to_owned(), device: device.to_owned() })
}

fn settings() -> serde_json::Map<String, serde_json::Value> {
    let files = [
        ("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        ("cpu_governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        ("transparent_huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
        ("shmem_huge_pages", "/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
        ("io_uring_disabled", "/proc/sys/kernel/io_uring_disabled"),
        ("dirty_ratio", "/proc/sys/vm/dirty_ratio"),
        ("dirty_background_ratio", "/proc/sys/vm/dirty_background_ratio"),
    ];
    files
        .into_iter()
        .filter_map(|(name, path)| Some((name.to_owned(), text(path)?.trim().into())))
        .collect()
}

fn versions() -> serde_json::Map<String, serde_json::Value> {
    let mut versions = serde_json::Map::new();
    versions.insert("livebag".into(), env!("CARGO_PKG_VERSION").into());
    let output = Command::new("rustc").arg("--version").output().ok();
    if let Some(output) = output.filter(|o| o.status.success()) {
        let text = String::from_utf8_lossy(&output.stdout);
        versions.insert("rustc".into(), text.trim().into());
    }
    for peer in PEERS.split(", ") {
        if let Some((name, version)) = peer.split_once(' ') {
            versions.insert(name.into(), version.into());
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_mount_point_wins() {
        let table =
            "/dev/vda / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n/dev/sdb /dev/shm xfs rw 0 0\n";
        let of = |path| longest_mount(table, Path::new(path)).unwrap();
        assert_eq!(
            of("/dev/shm/x").to_string(),
            "xfs on /dev/sdb",
            "the later one covers the earlier"
        );
        assert_eq!(of("/dev/shmother").kind, "ext4");
        assert_eq!(of("/home/x").device, "/dev/vda");
        assert_eq!(longest_mount("", Path::new("/")), None);
    }

    #[test]
    fn this_machine_is_described() {
        let machine = Machine::describe(Path::new("/"));
        assert!(machine.cores > 0 && machine.memory_bytes > 0 && !machine.cpu.is_empty());
        assert!(machine.versions.contains_key("mcap"), "{PEERS}");
    }
}
