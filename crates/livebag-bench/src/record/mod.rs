//! `livebag-bench record`: the share of published messages that reaches the disk, and its cost.
//!
//! For the sensor workloads a producer process publishes native frames into livebag's streams, and the recording
//! process takes every frame from there: livebag in its own way; the MCAP writers by one copy into a double buffer that
//! a second thread writes out, like rosbag2's subscription and cache; the floor by direct writes of the same memory.
//! For `small` the messages come from a thread of the recording process, the same for all, and its cost is in every
//! figure.

mod control;
mod feed;
mod floor;
mod livebag;
pub mod matrix;
pub mod mcap_writer;
pub mod producer;
pub mod recorder;

pub mod workload;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use workload::Workload;

/// The recorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// livebag's recorder.
    Livebag,
    /// The `mcap` crate without chunks and CRCs (rosbag2's preset `fastwrite`), behind a double
    /// buffer.
    McapFastwrite,
    /// The `mcap` crate with uncompressed chunks and no chunk CRC (rosbag2's default), behind a
    /// double buffer.
    McapChunked,
    /// io_uring direct writes of the same bytes from the same memory, in no format at all.
    Floor,
}

impl System {
    /// All of them, livebag first.
    pub const ALL: [Self; 4] = [Self::Livebag, Self::McapFastwrite, Self::McapChunked, Self::Floor];

    /// Whether the system takes part in a workload. The floor can only write the bytes of small messages in blocks, as
    /// fast as possible; and a frame that is no multiple of the device's block is rounded up, which makes sense only
    /// for large ones.
    pub fn can(self, workload: Workload, mode: Mode) -> bool {
        match (self, workload) {
            (Self::Floor, Workload::Automotive | Workload::Mixed) => false,
            (Self::Floor, Workload::Small) => mode == Mode::Unpaced,
            _ => true,
        }
    }
}

/// Whether messages come at the sensors' pace or as fast as they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// At the sensors' pace, whether the recorder keeps up or not.
    Paced,
    /// As fast as the recorder takes them; none is lost for lack of room.
    Unpaced,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOptions {
    /// The recorder.
    pub system: System,
    /// The published messages.
    pub workload: Workload,
    /// At what pace.
    pub mode: Mode,
    /// Duration; unpaced: as many messages as in that time at the sensors' pace.
    pub seconds: f64,
    /// Prefix of the streams' names, unique to the run.
    pub name: String,
    /// Where the recording goes; empty, removed after the run.
    pub directory: PathBuf,
    /// Bytes of each half of the peers' double buffer, and of livebag's queues.
    pub cache_bytes_max: u64,
    /// Which processors the processes are bound to, where they are.
    pub pins: Option<Pins>,
    /// Whether livebag writes while the applications on the cycle board rest.
    pub cycle_aware: bool,
    /// Whether sensors behave as hardware does: they go before everything else on the processors, where
    /// the system lets them, and never deliver late frames all at once.
    pub sensors_first: bool,
}

/// Processors by number.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Pins {
    /// The recorder's, with all its threads.
    pub recorder: usize,
    /// The producer's.
    pub producer: usize,
}
