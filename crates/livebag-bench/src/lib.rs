//! What livebag's benchmarks share: `livebag bench`, a feature of the command, and `livebag-bench`, the comparison
//! with other projects (feature `peers`).
//!
//! - [`DoubleBuffer`](double_buffer::DoubleBuffer) and [`McapFile`](mcap_file::McapFile) record as rosbag2 does.
//! - [`machine`] says what figures depend on, and which commit they belong to.
//! - [`clock`], [`usage`] and [`stats`] measure.

pub mod clock;
pub mod double_buffer;
pub mod machine;
pub mod mcap_file;
pub mod stats;
pub mod usage;
