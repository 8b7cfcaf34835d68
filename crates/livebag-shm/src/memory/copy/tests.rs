use proptest::prelude::*;

use super::{copy_from_shared, copy_past_caches, copy_to_shared, portable, settle};

type Kernel = unsafe fn(*mut u8, *const u8, usize);

/// Copies a pattern between two buffers at the given offsets, and checks the bytes around it too.
fn check(kernel: Kernel, to_at: usize, from_at: usize, count: usize) {
    let from: Vec<u8> = (0..from_at + count).map(|i| (i % 249) as u8 + 1).collect();
    let mut to = vec![0; to_at + count + 64];
    // SAFETY: both buffers have room for `count` bytes at their offsets.
    unsafe { kernel(to.as_mut_ptr().add(to_at), from.as_ptr().add(from_at), count) };
    settle();
    assert_eq!(to[to_at..to_at + count], from[from_at..]);
    assert!(to[..to_at].iter().chain(&to[to_at + count..]).all(|&byte| byte == 0));
}

/// [`copy_past_caches`] as a kernel.
unsafe fn past_caches(to: *mut u8, from: *const u8, count: usize) {
    // SAFETY: `check` has room for `count` bytes in two buffers.
    let (to, from) = unsafe {
        (std::slice::from_raw_parts_mut(to, count), std::slice::from_raw_parts(from, count))
    };
    copy_past_caches(to, from);
}

proptest! {
    #[test]
    fn every_kernel_copies_exactly(
        to_at in 0usize..80, from_at in 0usize..80, count in 0usize..9000,
    ) {
        for kernel in [
            copy_from_shared as Kernel,
            copy_to_shared,
            portable::from_shared,
            portable::to_shared,
            past_caches,
        ] {
            check(kernel, to_at, from_at, count);
        }
    }
}
