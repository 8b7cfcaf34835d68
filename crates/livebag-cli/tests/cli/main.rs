//! The command as its users meet it: one binary, so that it is linked once.
#![expect(clippy::disallowed_methods, reason = "tests look at files and clocks as users do")]

mod account;
mod ask;
mod bad_input;
#[cfg(feature = "bench")]
mod bench;
mod common;
mod complete;
mod control;
mod convert;
mod crash;
mod damage;
mod database;
#[cfg(feature = "demo")]
mod demo;
mod disk_gone;
mod ending;
mod event;
mod export;
mod few_files;
mod full_disk;
mod help;
mod json;
#[path = "../../../../tests/lacks_right.rs"]
mod lacks_right;
#[cfg(feature = "parquet")]
mod lerobot;
mod names;
mod older;
mod page;
mod play;
mod record;
mod remote;
mod retention;
#[cfg(feature = "zenoh")]
mod robots;
mod rosbag2;
mod rosbag2_versions;
#[path = "../../../../tests/skipped.rs"]
mod skipped;
mod terminal;
