//! What tests do where the machine does not let them. Crates take this file as a module.

/// Says why a test does nothing here: a right is missing (root, mounts), which no set-up can give.
pub fn lacks_right(why: &str) {
    println!("SKIPPED: {why}");
}
