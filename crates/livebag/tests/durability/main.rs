//! What `docs/durability.md` says, on the simulated disk. Every test names its seed when it fails.

mod common;
mod crashes;
mod faults;
mod many;
#[expect(clippy::disallowed_methods, reason = "real files are damaged")]
mod repair;
