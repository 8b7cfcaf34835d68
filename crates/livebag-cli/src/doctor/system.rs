//! Kernel, limits, rights and shared memory.

use std::path::Path;
use std::sync::atomic::AtomicU32;

use livebag::{Disk, KernelDisk};
use rustix::process::{Resource, getrlimit};
use rustix::thread::futex;

use super::Check;
use crate::files::kernel_setting;
use crate::text;

/// Oldest kernel that livebag is made for.
const KERNEL_MIN: (u32, u32) = (5, 15);
/// Locked memory that eight FullHD cameras with four slots need, rounded up.
const LOCKED_BYTES_MIN: u64 = 256 << 20;
/// Shared memory for the same with room to spare.
const SHARED_BYTES_MIN: u64 = 512 << 20;
/// Files that a recording of 500 topics has open, rounded up.
const FILES_MIN: u64 = 4096;
/// Bit of CAP_SYS_NICE and of CAP_IPC_LOCK in /proc/self/status (capability.h).
const CAP_SYS_NICE: u32 = 23;
const CAP_IPC_LOCK: u32 = 14;

pub(super) fn checks() -> Vec<Check> {
    vec![
        kernel(),
        futex(),
        locked_memory(),
        real_time(),
        shared_memory(),
        huge_pages(),
        open_files(),
        dds_receive_buffer(),
        ros_definitions(),
    ]
}

/// What `--ros2 dds` asks the kernel for: the burst of some images of several megabytes.
const RECEIVE_BUFFER_BYTES: u64 = 32 << 20;

fn dds_receive_buffer() -> Check {
    let setting = kernel_setting("/proc/sys/net/core/rmem_max");
    let Some(bytes) = setting.and_then(|text| text.trim().parse::<u64>().ok()) else {
        return Check::ok("DDS receive buffer", "unknown: net.core.rmem_max cannot be read here");
    };
    let lack = (bytes < RECEIVE_BUFFER_BYTES).then(|| {
        format!(
            "with --ros2 dds, best-effort images of several megabytes are lost: sudo sysctl -w \
             net.core.rmem_max={RECEIVE_BUFFER_BYTES}"
        )
    });
    Check::new("DDS receive buffer", format!("at most {}", text::bytes(bytes as f64)), lack)
}

fn ros_definitions() -> Check {
    let prefixes = std::env::var("AMENT_PREFIX_PATH").unwrap_or_default();
    Check::ok(
        "ROS 2 definitions",
        match prefixes.split(':').filter(|prefix| !prefix.is_empty()).count() {
            0 => "the bundled common interfaces, and definitions from nodes".to_owned(),
            1 => format!("{prefixes}, the bundled ones, and definitions from nodes"),
            count => format!(
                "{count} folders of AMENT_PREFIX_PATH, the bundled ones, and definitions from nodes"
            ),
        },
    )
}

fn kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    let version: (u32, u32) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let lack = (version < KERNEL_MIN).then(|| {
        format!("livebag is made for Linux {}.{} and newer: upgrade", KERNEL_MIN.0, KERNEL_MIN.1)
    });
    Check::new("kernel", format!("Linux {release}, {}", name.machine().to_string_lossy()), lack)
}

fn futex() -> Check {
    // A wait for a value that is not there comes back at once where futexes work.
    let word = AtomicU32::new(1);
    match futex::wait(&word, futex::Flags::empty(), 0, None) {
        Err(rustix::io::Errno::AGAIN) => Check::ok("futex", "works"),
        Ok(()) => Check::ok("futex", "works"),
        Err(error) => Check::lacking(
            "futex",
            format!("refused: {error}"),
            "readers of streams cannot sleep and have to spin: let the sandbox permit futex(2)",
        ),
    }
}

fn has_capability(bit: u32) -> bool {
    let status = kernel_setting("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .is_some_and(|bits| bits & (1 << bit) != 0)
}

fn locked_memory() -> Check {
    let limit = getrlimit(Resource::Memlock).current;
    let found = match limit {
        _ if has_capability(CAP_IPC_LOCK) => "unlimited (CAP_IPC_LOCK)".into(),
        None => "unlimited".into(),
        Some(bytes) => text::bytes(bytes as f64),
    };
    let short = limit.is_some_and(|bytes| bytes < LOCKED_BYTES_MIN);
    let lack = (short && !has_capability(CAP_IPC_LOCK)).then(|| {
        "streams with Placement::lock may be swapped out, and large messages do not go through Zenoh's shared \
         memory: raise `ulimit -l` (memlock in \
         /etc/security/limits.d, LimitMEMLOCK= in systemd)"
            .to_owned()
    });
    Check::new("locked memory", found, lack)
}

fn real_time() -> Check {
    let limit = getrlimit(Resource::Rtprio).current;
    if has_capability(CAP_SYS_NICE) {
        return Check::ok("real-time rights", "any priority (CAP_SYS_NICE)");
    }
    match limit {
        None => Check::ok("real-time rights", "any priority"),
        Some(priority) if priority > 0 => {
            Check::ok("real-time rights", format!("SCHED_FIFO up to priority {priority}"))
        }
        Some(_) => Check::lacking(
            "real-time rights",
            "none",
            "writers cannot use SCHED_FIFO: set rtprio in /etc/security/limits.d (LimitRTPRIO= in \
             systemd), or give CAP_SYS_NICE",
        ),
    }
}

fn shared_memory() -> Check {
    const CHECK: &str = "shared memory";
    let path = Path::new("/dev/shm");
    match KernelDisk::for_reading().free_bytes(path) {
        Ok(free) => {
            let lack = (free < SHARED_BYTES_MIN).then(|| {
                "streams may not fit: `mount -o remount,size=2G /dev/shm` (docker run --shm-size=2g)"
                    .to_owned()
            });
            Check::new(CHECK, format!("{} free in /dev/shm", text::bytes(free as f64)), lack)
        }
        Err(error) => Check::lacking(
            CHECK,
            format!("/dev/shm: {error}"),
            "streams live there: `mount -t tmpfs tmpfs /dev/shm`",
        ),
    }
}

fn huge_pages() -> Check {
    const CHECK: &str = "huge pages (shm)";
    let setting = kernel_setting("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    let Some(setting) = setting else {
        return Check::lacking(
            CHECK,
            "this kernel has none",
            "large frames are copied a little slower: use a kernel with \
             CONFIG_TRANSPARENT_HUGEPAGE",
        );
    };
    let chosen = setting.split(['[', ']']).nth(1).unwrap_or("unknown").to_owned();
    let on = matches!(chosen.as_str(), "always" | "within_size" | "advise" | "force");
    let lack = (!on).then(|| {
        "large frames are copied a little slower: `echo advise > \
         /sys/kernel/mm/transparent_hugepage/shmem_enabled`"
            .to_owned()
    });
    Check::new(CHECK, chosen, lack)
}

fn open_files() -> Check {
    let limit = getrlimit(Resource::Nofile);
    // The command has raised its soft limit up to the hard one.
    let lack = limit.maximum.is_some_and(|files| files < FILES_MIN).then(|| {
        "every topic has its own files: raise the hard limit of open files (nofile in \
         /etc/security/limits.d, LimitNOFILE= in systemd)"
            .to_owned()
    });
    let found = limit.maximum.map_or("unlimited".into(), text::count);
    Check::new("open files", found, lack)
}
