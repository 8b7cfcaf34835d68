//! `livebag-bench online`: queries of a live recording (ROSfs, Figures 13 to 16).
//!
//! The UAV's 78 topics of ROSfs's Table 4 are recorded by livebag and, at the same time and of the same
//! messages, in rosbag2's way: MCAP files split every few seconds, of which only closed ones can be
//! read. Both get the same queries, alternating.

mod clients;
mod latency;
mod link;
mod namespace;
mod split_mcap;
mod world;

use std::path::Path;

use clap::{Args, ValueEnum};

pub use world::topics;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::Row;

/// The measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Latest and history, one asker (Figures 13 and 14)
    Latency,
    /// Many clients during a recording at 500 MB/s (Figure 16)
    Clients,
    /// `auto` over slow links (Figure 15)
    Auto,
}

/// What makes a link slow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LinkKind {
    /// A relay of this process, which passes bytes on at a rate and loses none
    #[default]
    Relay,
    /// The loopback interface of a network namespace: a rate by tc, packets lost by nft
    Namespace,
}

/// Options of `livebag-bench online`.
#[derive(Debug, Clone, Args)]
pub struct OnlineArgs {
    /// Only these parts
    #[arg(long, value_name = "PART")]
    pub part: Vec<Part>,
    /// Questions for each topic and kind
    #[arg(long, value_name = "N")]
    pub requests: Option<u32>,
    /// A run of under 50 s: fewer questions
    #[arg(long)]
    pub quick: bool,
    /// What `auto`'s links are made of; the relay where a namespace is not to be had
    #[arg(long, value_enum, default_value_t)]
    pub link: LinkKind,
    /// Percentage of packets lost in a namespace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub loss: u32,
    #[command(flatten)]
    pub place: Place,
}

impl OnlineArgs {
    fn requests(&self, usual: u32, quick: u32) -> u32 {
        self.requests.unwrap_or(if self.quick { quick } else { usual })
    }

    fn has(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "system",
    "query",
    "topic",
    "clients",
    "link_mbit",
    "loss_pct",
    "requests",
    "server_p50_ms",
    "server_p99_ms",
    "client_p50_ms",
    "client_p95_ms",
    "newest_age_ms",
    "newest_age_p99_ms",
    "behind_ms",
    "behind_p99_ms",
    "missing",
    "lost",
    "used_pct",
    "in_time_pct",
    "faster",
];

/// Rows and single runs.
#[derive(Default)]
pub struct Outcome {
    /// One for each system and setting.
    pub rows: Vec<Row>,
    /// Every question.
    pub runs: Vec<Row>,
}

/// Measures all parts that are wanted.
pub fn measure(args: &OnlineArgs) -> Result<Outcome> {
    let namespace = match args.link {
        LinkKind::Relay => None,
        // Before there is anything that a process inside would have to do again.
        LinkKind::Namespace => match namespace::enter(args.loss) {
            Ok(namespace) => Some(namespace),
            Err(why) => {
                eprintln!("livebag-bench: no namespace, a relay takes its place: {why}");
                None
            }
        },
    };
    let directory = args.place.prepare()?;
    let scratch = tempfile::tempdir_in(&directory).map_err(|source| BenchError::Io {
        what: format!("making a directory in {}", directory.display()),
        source,
    })?;
    let mut outcome = Outcome::default();
    if args.has(Part::Latency) {
        latency::measure(args, &scratch.path().join("latency"), &mut outcome)?;
    }
    if args.has(Part::Clients) {
        clients::measure(args, &scratch.path().join("clients"), &mut outcome)?;
    }
    if args.has(Part::Auto) {
        link::measure(args, namespace, &scratch.path().join("auto"), &mut outcome)?;
    }
    Ok(outcome)
}

/// An error of something that is measured.
fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |error| BenchError::System { system: "online", doing, cause: error.to_string() }
}

fn make_directory(path: &Path) -> Result<()> {
    std::fs::create_dir(path).map_err(failed("making a directory"))
}
