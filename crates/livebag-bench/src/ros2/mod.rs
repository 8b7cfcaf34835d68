//! `livebag-bench ros2`: ROS 2 networks, and livebag on them.
//!
//! - `rate`: a publisher's messages, received alternately by an idle subscription and by livebag's recorder. The first
//!   gets everything that the transport carries; the recorder must not get less.
//! - `replay`: a recording of 1,000 messages a second played into the network and recorded again: the change of the
//!   time between two messages.
//! - `bridge`: from a stream over the network into a stream, compared with the network's own path from publisher to
//!   receiver.
//!
//! Each party is a separate process.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::record::matrix::Outcome;

mod bridge;
pub mod party;
mod rate;
mod replay;

/// The measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum What {
    /// Messages carried and recorded
    Rate,
    /// Play, record, compare
    Replay,
    /// Stream, network, stream
    Bridge,
}

/// What carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// Zenoh, shared memory on
    Zenoh,
    /// Cyclone DDS on loopback
    Dds,
}

impl Carrier {
    fn name(self) -> &'static str {
        match self {
            Self::Zenoh => "zenoh",
            Self::Dds => "dds",
        }
    }
}

/// Options of `livebag-bench ros2`.
#[derive(Debug, Clone, Args)]
pub struct Ros2Args {
    /// What to measure; all, if nothing is named
    #[arg(long, value_enum, num_args = 1..)]
    pub what: Vec<What>,
    /// Networks
    #[arg(long, value_enum, num_args = 1.., default_values_t = [Carrier::Zenoh, Carrier::Dds])]
    pub network: Vec<Carrier>,
    /// Bytes of an image's pixels
    #[arg(long, value_name = "BYTES", default_value_t = 6_220_800)]
    pub bytes: usize,
    /// Images a second; 0: as fast as they go
    #[arg(long, value_name = "HZ", num_args = 1.., default_values_t = [30.0, 165.0, 0.0])]
    pub hertz: Vec<f64>,
    /// How long each run takes
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// How often each run is repeated
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: usize,
    #[command(flatten)]
    pub place: Place,
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "what",
    "network",
    "taker",
    "hertz",
    "published",
    "gb_per_s",
    "taken",
    "lost",
    "p50_us",
    "p99_us",
    "within_1ms_percent",
    "cpu_s_per_gb",
];

/// What livebag refused, as a failure of this program.
fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system("livebag", doing)(&e)
}

/// Runs the requested measurement.
pub fn measure(args: &Ros2Args) -> Result<Outcome> {
    args.place.prepare()?;
    let all = [What::Rate, What::Replay, What::Bridge];
    let mut outcome = Outcome { rows: Vec::new(), runs: Vec::new(), failures: Vec::new() };
    for what in if args.what.is_empty() { &all[..] } else { &args.what[..] } {
        for &carrier in &args.network {
            let measured = match what {
                What::Rate => rate::measure(args, carrier),
                What::Replay => replay::measure(args, carrier),
                What::Bridge => bridge::measure(args, carrier),
            };
            match measured {
                Ok(measured) => {
                    outcome.rows.extend(measured.rows);
                    outcome.runs.extend(measured.runs);
                }
                Err(error) => outcome.failures.push(error.to_string()),
            }
        }
    }
    Ok(outcome)
}
