//! Placement: each wish that is not granted becomes a warning that names the cure.

use std::io;

use crate::layout::Geometry;
use crate::limits::HUGE_PAGE_BYTES;
use crate::memory::Mapped;
use crate::options::{HugePages, Placement};

/// `MADV_COLLAPSE` of Linux 6.1.
const MADV_COLLAPSE: libc::c_int = 25;
const MPOL_BIND: libc::c_int = 2;

/// Wishes that must be known to the kernel before the memory is reserved.
pub(crate) fn before_reserving(memory: &Mapped, placement: &Placement, warnings: &mut Vec<String>) {
    let Some(node) = placement.numa_node else { return };
    let mut mask = [0u64; 16];
    let Some(word) = mask.get_mut(node as usize / 64) else {
        warnings.push(format!("NUMA node {node} does not exist; nodes 0 to 1023 are possible"));
        return;
    };
    *word = 1 << (node % 64);
    // SAFETY: mbind reads 1024 bits from `mask` and applies to the range of our own mapping.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            memory.pointer(0, memory.bytes()),
            memory.bytes(),
            MPOL_BIND,
            mask.as_ptr(),
            // The kernel uses one bit less than the given count.
            mask.len() * 64 + 1,
            0u32,
        )
    };
    if result != 0 {
        warnings.push(format!(
            "memory is not bound to NUMA node {node}: {}; see the nodes with `numactl --hardware`",
            io::Error::last_os_error()
        ));
    }
}

/// Wishes about memory that is there.
pub(crate) fn after_reserving(
    memory: &Mapped,
    geometry: &Geometry,
    placement: &Placement,
    warnings: &mut Vec<String>,
) {
    if placement.huge_pages != HugePages::Off {
        let result = make_huge(memory, geometry);
        if placement.huge_pages == HugePages::On
            && let Err(reason) = result
        {
            warnings.push(format!(
                "memory is not in huge pages: {reason}; needs Linux 6.1, frames of at least 4 MiB in all slots, and \"advise\" in /sys/kernel/mm/transparent_hugepage/shmem_enabled if it says \"deny\""
            ));
        }
    }
    memory.populate();
    if placement.lock_memory {
        // SAFETY: mlock applies to the range of our own mapping.
        let result = unsafe {
            libc::mlock(memory.pointer(0, memory.bytes()).cast_const().cast(), memory.bytes())
        };
        if result != 0 {
            warnings.push(format!(
                "memory is not locked: {}; raise the limit (`ulimit -l`, LimitMEMLOCK= in systemd) to at least {} KiB or grant CAP_IPC_LOCK",
                io::Error::last_os_error(),
                memory.bytes() / 1024
            ));
        }
    }
}

fn make_huge(memory: &Mapped, geometry: &Geometry) -> io::Result<()> {
    if !geometry.is_huge() {
        return Err(io::Error::other("the stream is small"));
    }
    let start = geometry.payloads_offset;
    let bytes = memory.bytes() - start;
    debug_assert!(bytes.is_multiple_of(HUGE_PAGE_BYTES));
    let address = memory.pointer(start, bytes).cast();
    for advice in [libc::MADV_HUGEPAGE, MADV_COLLAPSE] {
        // SAFETY: both kinds of advice change how the range of our own mapping is backed, not its
        // contents.
        if unsafe { libc::madvise(address, bytes, advice) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Wishes about the calling thread.
pub(crate) fn calling_thread(placement: &Placement, warnings: &mut Vec<String>) {
    if let Some(cpu) = placement.cpu {
        // SAFETY: `cpu_set_t` is a bit mask, for which all zeroes is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let fits = cpu < libc::CPU_SETSIZE as usize;
        if fits {
            // SAFETY: `cpu` is within the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        // SAFETY: reads one `cpu_set_t`; 0 is the calling thread.
        let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
        if !fits || result != 0 {
            warnings.push(format!(
                "the thread is not bound to CPU {cpu}: {}; see the CPUs with `lscpu -e` and the allowed ones with `taskset -p $$`",
                io::Error::last_os_error()
            ));
        }
    }
    if let Some(priority) = placement.fifo_priority {
        // SAFETY: `sched_param` is a struct of integers, for which all zeroes is a value.
        let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        parameters.sched_priority = priority;
        // SAFETY: reads one `sched_param`; 0 is the calling thread.
        let result =
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
        if result != 0 {
            warnings.push(format!(
                "the thread does not run as SCHED_FIFO {priority}: {}; raise the limit (`ulimit -r`, LimitRTPRIO= in systemd) or grant CAP_SYS_NICE; priorities are 1 to 99",
                io::Error::last_os_error()
            ));
        }
    }
}
