//! How recordings reach the disk, and how fast.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Access, Block, Clock, Disk, KernelDisk, Method, Part, Write};
use rustix::fs::{AtFlags, StatxFlags, statx};

use super::Check;
use crate::text;

/// Bytes written to measure the disk.
const WRITTEN_BYTES: u64 = 256 << 20;
/// In writes of this size, about that of a FullHD frame,
const WRITE_BYTES: usize = 8 << 20;
/// this many at once.
const IN_FLIGHT_MAX: usize = 4;
/// Less than this is eight FullHD cameras at 30 Hz.
const BYTES_PER_SECOND_MIN: f64 = 1.5e9;
/// Space for a minute of those.
const FREE_BYTES_MIN: u64 = 90_000_000_000;

pub(super) fn checks(directory: &Path, measure: bool) -> Vec<Check> {
    let disk = match KernelDisk::probe(directory) {
        Ok(disk) => disk,
        Err(error) => {
            return vec![Check::lacking(
                "writing",
                format!("{}: {error}", directory.display()),
                "recordings cannot go there: free some space, change the folder's owner, or name \
                 another folder",
            )];
        }
    };
    let mut checks = vec![io_uring(&disk), direct(&disk, directory), free(&disk, directory)];
    if measure {
        checks.push(speed(&disk, directory));
    }
    checks
}

/// Why a method was not used; names the remedy.
fn reason(disk: &KernelDisk, about: &str) -> String {
    let reasons = &disk.choice().reasons;
    let found = reasons.iter().find(|reason| reason.contains(about));
    found.or(reasons.first()).cloned().unwrap_or_default()
}

fn io_uring(disk: &KernelDisk) -> Check {
    match disk.choice().method {
        Method::IoUringDirect | Method::IoUringBuffered => Check::ok("io_uring", "works"),
        Method::PwriteDirect | Method::PwriteBuffered => Check::lacking(
            "io_uring",
            "not used: recordings are written with pwrite",
            reason(disk, "io_uring"),
        ),
    }
}

fn direct(disk: &KernelDisk, directory: &Path) -> Check {
    match disk.choice().method {
        Method::IoUringDirect | Method::PwriteDirect => {
            let kernel = match stated_alignment(disk, directory) {
                Some(bytes) => format!("the kernel asks for {bytes} B"),
                None => "the kernel states none; it does from Linux 6.1 on".into(),
            };
            let ours = Block::ALIGNMENT;
            Check::ok("direct I/O", format!("works; alignment: livebag keeps {ours} B, {kernel}"))
        }
        Method::IoUringBuffered | Method::PwriteBuffered => Check::lacking(
            "direct I/O",
            "not used: recordings go through the page cache, at several times the CPU",
            format!("{}; ext4 and xfs have it", reason(disk, "irect")),
        ),
    }
}

/// The alignment of direct I/O according to the kernel (`STATX_DIOALIGN`).
fn stated_alignment(disk: &KernelDisk, directory: &Path) -> Option<u32> {
    /// `STATX_DIOALIGN` of linux/stat.h.
    const DIOALIGN: u32 = 0x2000;
    let path = probe_path(directory);
    let file = disk.create(&path, Access::Direct).ok()?;
    let wanted = StatxFlags::from_bits_retain(DIOALIGN);
    let answer = file.descriptor().map(|fd| statx(fd, "", AtFlags::EMPTY_PATH, wanted));
    // It has just been made here.
    let _ = disk.remove(&path);
    let answer = answer?.ok().filter(|answer| answer.stx_mask & DIOALIGN != 0)?;
    let bytes = answer.stx_dio_offset_align.max(answer.stx_dio_mem_align);
    (bytes > 0).then_some(bytes)
}

fn probe_path(directory: &Path) -> PathBuf {
    directory.join(format!(".livebag-doctor-{}", std::process::id()))
}

fn free(disk: &KernelDisk, directory: &Path) -> Check {
    const CHECK: &str = "free space";
    match disk.free_bytes(directory) {
        Ok(free) => {
            let lack = (free < FREE_BYTES_MIN).then(|| {
                "less than a minute of eight FullHD cameras: free some space, or record elsewhere"
                    .to_owned()
            });
            Check::new(CHECK, text::bytes(free as f64), lack)
        }
        Err(error) => Check::lacking(CHECK, error.to_string(), "name another folder"),
    }
}

fn speed(disk: &KernelDisk, directory: &Path) -> Check {
    const CHECK: &str = "disk speed";
    let path = probe_path(directory);
    let measured = measure(disk, &path);
    // It may never have been made.
    let _ = disk.remove(&path);
    match measured {
        Ok(rate) => {
            let lack = (rate < BYTES_PER_SECOND_MIN).then(|| {
                format!(
                    "eight FullHD cameras at 30 Hz need {}: record fewer of them, or to a faster \
                     disk (NVMe)",
                    text::bytes_per_second(BYTES_PER_SECOND_MIN)
                )
            });
            let written = text::bytes(WRITTEN_BYTES as f64);
            Check::new(
                CHECK,
                format!("{} ({written}, {})", text::bytes_per_second(rate), disk.choice().method),
                lack,
            )
        }
        Err(error) => Check::lacking(
            CHECK,
            format!("not measured: {error}"),
            "free some space (256 MiB are written and removed), or leave it out with \
             --no-disk-speed",
        ),
    }
}

/// How fast a container in `directory` can be written, in bytes per second: 256 MiB are written and
/// removed.
#[cfg(any(feature = "bench", feature = "demo"))]
pub fn disk_bytes_per_s(directory: &Path) -> io::Result<f64> {
    let disk = KernelDisk::probe(directory)?;
    let path = probe_path(directory);
    let measured = measure(&disk, &path);
    // It may never have been made.
    let _ = disk.remove(&path);
    measured
}

/// Bytes per second of writing, and of syncing data written through the page cache.
fn measure(disk: &KernelDisk, path: &Path) -> io::Result<f64> {
    let file = disk.create(path, Access::Direct)?;
    file.reserve(0, WRITTEN_BYTES)?;
    let mut queue = disk.queue();
    let mut spare: Vec<Block> = (0..IN_FLIGHT_MAX).map(|_| noise()).collect();
    let mut done = Vec::new();
    let clock = Clock::system();
    let mut offset = 0;
    while offset < WRITTEN_BYTES || queue.in_flight() > 0 {
        while offset < WRITTEN_BYTES
            && let Some(block) = spare.pop()
        {
            let parts = vec![Part::Block(block)];
            queue.submit(Write { token: offset, file: file.clone(), offset, parts });
            offset += WRITE_BYTES as u64;
        }
        queue.reap(Duration::from_secs(1), &mut done)?;
        for completion in done.drain(..) {
            completion.result?;
            let blocks = completion.parts.into_iter().filter_map(|part| match part {
                Part::Block(block) => Some(block),
                Part::Slot(..) => None,
            });
            spare.extend(blocks);
        }
    }
    file.sync()?;
    Ok(WRITTEN_BYTES as f64 * 1e9 / clock.monotonic_nanos().max(1) as f64)
}

/// A block that no disk can compress away.
fn noise() -> Block {
    let mut block = Block::zeroed(WRITE_BYTES);
    // xorshift64 (Marsaglia, 2003); any seed but 0.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in block.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    block
}
