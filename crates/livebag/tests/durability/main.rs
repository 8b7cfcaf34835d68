//! What `docs/durability.md` says, on the simulated disk. Every test names its seed when it fails.

mod common;
mod crashes;
mod faults;
mod many;
mod repair;
