//! How much memory there is: for a recorder whose user has not said, and for a recovery.

use std::path::{Path, PathBuf};

use crate::limits::CACHE_BYTES_DEFAULT;

/// A bound for everything that waits in memory: a quarter of the memory that this machine and this process's
/// control groups have available now, and at least [`CACHE_BYTES_DEFAULT`]. It stays unused while the disk keeps up.
pub fn cache_bytes_available() -> u64 {
    (memory_available() / 4).max(CACHE_BYTES_DEFAULT)
}

/// The memory that this machine and this process's control groups have available now; 0 if they do not tell.
pub fn memory_available() -> u64 {
    available_bytes(Path::new("/"))
}

/// Available memory according to the files below `root`.
fn available_bytes(root: &Path) -> u64 {
    let groups = text(&root.join("proc/self/cgroup")).unwrap_or_default();
    let groups = groups.lines().flat_map(|line| group_bytes(root, line));
    machine_bytes(root).into_iter().chain(groups).min().unwrap_or(0)
}

fn machine_bytes(root: &Path) -> Option<u64> {
    let table = text(&root.join("proc/meminfo"))?;
    Some(field(&table, "MemAvailable:")?.saturating_mul(1024))
}

/// Memory that a line of `/proc/self/cgroup` (cgroups(7)) leaves: of the group and of all its parents with a limit.
/// Version 2 has one line with an empty list of controllers.
fn group_bytes(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { return Vec::new() };
    let (folder, limit, used, cached) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        _ if controllers.split(',').any(|name| name == "memory") => (
            "sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
        _ => return Vec::new(),
    };
    let folder = root.join(folder);
    let group: PathBuf = folder.join(path.trim_start_matches('/'));
    let left = |group: &Path| {
        // `max`: none here.
        let limit: u64 = text(&group.join(limit))?.trim().parse().ok()?;
        let used: u64 = text(&group.join(used))?.trim().parse().ok()?;
        let stat = text(&group.join("memory.stat")).unwrap_or_default();
        let cached = field(&stat, cached).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(cached)))
    };
    group.ancestors().take_while(|above| above.starts_with(&folder)).filter_map(left).collect()
}

/// The number behind `name` in a table of names and numbers.
fn field(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "the kernel's own files are on no disk")]
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            #[expect(clippy::disallowed_methods, reason = "the kernel's files, made up")]
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 2000000 kB\nMemFree: 5 kB\nMemAvailable: 1000000 kB\n");

    #[test]
    fn without_control_groups_it_is_what_the_machine_has() {
        assert_eq!(available_bytes(root(&[MEMINFO]).path()), 1_024_000_000);
        assert_eq!(available_bytes(root(&[]).path()), 0);
        let unlimited = [
            MEMINFO,
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/memory.current", "1000\n"),
        ];
        assert_eq!(available_bytes(root(&unlimited).path()), 1_024_000_000);
    }

    #[test]
    fn the_tightest_control_group_counts_less_what_it_can_give_back() {
        let groups = [
            MEMINFO,
            ("proc/self/cgroup", "0::/robot/recorder\n"),
            ("sys/fs/cgroup/robot/recorder/memory.max", "max\n"),
            ("sys/fs/cgroup/robot/recorder/memory.current", "1000\n"),
            ("sys/fs/cgroup/robot/memory.max", "500000000\n"),
            ("sys/fs/cgroup/robot/memory.current", "300000000\n"),
            ("sys/fs/cgroup/robot/memory.stat", "anon 5\ninactive_file 100000000\n"),
        ];
        assert_eq!(available_bytes(root(&groups).path()), 300_000_000);
        let version_1 = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/docker\n"),
            ("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "700000000\n"),
            ("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "100000000\n"),
        ];
        assert_eq!(available_bytes(root(&version_1).path()), 600_000_000);
    }
}
