use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::limits::BLOCK_BYTES;
use crate::storage::{Access, Block, Disk, DiskFile, KernelDisk, Part};

fn submit(queue: &mut IoUringQueue, file: &Arc<dyn DiskFile>, token: u64) {
    let mut block = Block::zeroed(BLOCK_BYTES);
    block.fill(token as u8);
    let offset = token * BLOCK_BYTES as u64;
    queue.submit(Write { token, file: file.clone(), offset, parts: vec![Part::Block(block)] });
}

/// Puts something else in place of the ring's descriptor: from now on `io_uring_enter` fails.
fn break_ring(queue: &IoUringQueue) {
    #[expect(clippy::disallowed_methods, reason = "a device, which is on no disk")]
    let null = File::open("/dev/null").unwrap();
    #[expect(unsafe_code, reason = "the ring lends its descriptor as a number only")]
    // SAFETY: both descriptors are open, and the ring's is replaced, not closed.
    let replaced = unsafe { libc::dup2(null.as_raw_fd(), queue.ring.as_raw_fd()) };
    assert_eq!(replaced, queue.ring.as_raw_fd());
}

fn make(folder: &Path) -> Option<(IoUringQueue, Arc<dyn DiskFile>)> {
    let disk = KernelDisk::probe_as(folder, "").unwrap();
    let file = disk.create(&folder.join("file"), Access::Direct).unwrap();
    match IoUringQueue::new() {
        Ok(queue) => Some((queue, file)),
        Err(error) => {
            eprintln!("SKIPPED: this kernel gives no io_uring: {error}");
            None
        }
    }
}

/// Some writes are with the kernel, some in the ring, and more than fit the ring wait: each is completed and on the
/// disk, the refusal is reported once, and later writes are written as well.
#[test]
fn a_ring_that_the_kernel_refuses_costs_no_write() {
    const BEFORE: u64 = 40;
    const WRITES: u64 = BEFORE + 2 * WRITES_IN_FLIGHT_MAX as u64;
    let folder = tempfile::tempdir().unwrap();
    let Some((mut queue, file)) = make(folder.path()) else { return };
    (0..BEFORE).for_each(|token| submit(&mut queue, &file, token));
    queue.enter(Duration::ZERO).unwrap();
    (BEFORE..WRITES).for_each(|token| submit(&mut queue, &file, token));
    break_ring(&queue);
    let mut done = Vec::new();
    let refused = queue.reap(Duration::from_secs(1), &mut done).unwrap_err();
    assert!(refused.raw_os_error().is_some(), "{refused}");
    submit(&mut queue, &file, WRITES);
    while queue.in_flight() > 0 {
        queue.reap(Duration::from_secs(1), &mut done).unwrap();
    }
    let mut tokens: Vec<u64> = done.iter().map(|completion| completion.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..=WRITES).collect::<Vec<_>>());
    assert!(done.iter().all(|completion| completion.result.is_ok() && completion.parts.len() == 1));
    #[expect(clippy::disallowed_methods, reason = "read as others read it")]
    let bytes = std::fs::read(folder.path().join("file")).unwrap();
    assert_eq!(bytes.len(), (WRITES as usize + 1) * BLOCK_BYTES);
    for (token, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        assert!(block.iter().all(|byte| *byte == token as u8), "{token}");
    }
}

/// Even if its completions are not reaped any more.
#[test]
fn a_refused_ring_is_dropped_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let Some((mut queue, file)) = make(folder.path()) else { return };
    (0..600).for_each(|token| submit(&mut queue, &file, token));
    break_ring(&queue);
    drop(queue);
    assert_eq!(file.length().unwrap(), 600 * BLOCK_BYTES as u64);
}
