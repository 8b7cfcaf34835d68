//! What the tests share.

use std::sync::atomic::{AtomicU32, Ordering};

/// A stream name that no other test uses.
pub fn unique(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{label}-{}-{count}", std::process::id())
}
