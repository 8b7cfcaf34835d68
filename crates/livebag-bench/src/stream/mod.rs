//! `livebag-bench stream`: latency from just before publishing to the frame in the reader's hands.
//!
//! Every process is its own; the systems take turns within each repeat, so that the machine's
//! moods fall on all of them.

pub mod matrix;
pub mod run;
mod systems;
pub mod torn;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use systems::System;

/// How a frame gets into and out of the system's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Copied in from a buffer of the writer's, copied out into one of the reader's.
    Copy,
    /// Made in place by the writer, read in place by the reader.
    Loan,
}

/// How a reader waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum WaitWay {
    /// Asleep, by the system's own means.
    Futex,
    /// Awake, looking all the time.
    Spin,
}

/// One measurement: one writer process, `readers` reader processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOptions {
    /// The system that carries the frames.
    pub system: System,
    /// Unique to the run.
    pub name: String,
    /// A directory that is removed after the run, for sockets.
    pub scratch: PathBuf,
    /// Bytes of a frame.
    pub payload_bytes: usize,
    /// Reader processes.
    pub readers: u32,
    /// How frames get in and out.
    pub way: Way,
    /// How readers wait.
    pub wait: WaitWay,
    /// Frames that count.
    pub frames: u64,
    /// Frames before those, for connections, page tables and caches.
    pub warm_up: u64,
    /// The pace of the writer.
    pub rate_hz: f64,
    /// Slots of a stream or of the floor; 0 for livebag's own default.
    pub slots: u32,
}
