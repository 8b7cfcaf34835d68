//! Messages that the transport carries, and that are recorded.

use std::net::TcpListener;

use serde::Serialize;

use super::party::{Found, Orders, Party, ROLE, Way};
use super::{Carrier, Ros2Args};
use crate::child::Process;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::record::matrix::Outcome;
use crate::report::{Row, figure, row};
use crate::stats::median;

/// Time for messages in transit to arrive.
const SETTLE_NANOS: u64 = 2_000_000_000;

/// The receiver of the messages.
#[derive(Clone, Copy)]
enum Taker {
    Idle,
    Recorder,
}

impl Taker {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle subscriber",
            Self::Recorder => "livebag",
        }
    }
}

/// One run.
#[derive(Serialize)]
struct Run {
    what: &'static str,
    network: &'static str,
    taker: &'static str,
    hertz: f64,
    bytes: usize,
    published: Found,
    taken: Found,
}

/// A way that no other run takes.
pub fn new_way(carrier: Carrier) -> Result<Way> {
    let listener = TcpListener::bind("127.0.0.1:0");
    let port = listener.and_then(|listener| listener.local_addr()).map(|address| address.port());
    let port = port.map_err(|e| BenchError::io("finding a free port", e))?;
    Ok(Way {
        carrier,
        endpoint: format!("tcp/127.0.0.1:{port}"),
        listens: false,
        domain: 100 + u32::from(port) % 100,
    })
}

/// Starts a process and waits until it has joined.
pub fn start(way: &Way, listens: bool, party: Party) -> Result<Process> {
    let orders = Orders { way: Way { listens, ..way.clone() }, party };
    let mut process = Process::start(ROLE, &orders)?;
    process.expect_ready()?;
    Ok(process)
}

/// Measures all rates.
pub fn measure(args: &Ros2Args, carrier: Carrier) -> Result<Outcome> {
    let mut outcome = Outcome { rows: Vec::new(), runs: Vec::new(), failures: Vec::new() };
    for &hertz in &args.hertz {
        let mut runs: [Vec<Run>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..args.repeats {
            for (taker, runs) in [Taker::Idle, Taker::Recorder].into_iter().zip(&mut runs) {
                let run = run(args, carrier, hertz, taker)?;
                outcome.runs.push(row(&run));
                runs.push(run);
            }
        }
        outcome.rows.extend(runs.iter().map(|runs| summary(runs)));
    }
    Ok(outcome)
}

fn run(args: &Ros2Args, carrier: Carrier, hertz: f64, taker: Taker) -> Result<Run> {
    let folder = tempfile::tempdir_in(args.place.directory());
    let folder = folder.map_err(|e| BenchError::io("making a folder", e))?;
    let way = new_way(carrier)?;
    let party = match taker {
        Taker::Idle => Party::Idle,
        Taker::Recorder => Party::Record { container: folder.path().join("bag") },
    };
    let mut taking = start(&way, true, party)?;
    taking.go()?;
    let publish = Party::Publish { bytes: args.bytes, hertz, seconds: args.seconds };
    let mut publishing = start(&way, false, publish)?;
    publishing.go()?;
    let published: Found = publishing.result(120 + args.seconds as u64)?;
    clock::sleep(SETTLE_NANOS);
    taking.go()?;
    let taken: Found = taking.result(300)?;
    publishing.go()?;
    publishing.finish()?;
    taking.finish()?;
    Ok(Run {
        what: "rate",
        network: carrier.name(),
        taker: taker.name(),
        hertz,
        bytes: args.bytes,
        published,
        taken,
    })
}

fn summary(runs: &[Run]) -> Row {
    let of = |figure: &dyn Fn(&Run) -> f64| median(&runs.iter().map(figure).collect::<Vec<_>>());
    let mut row = Row::new();
    let Some(first) = runs.first() else { return row };
    row.insert("what".to_owned(), first.what.into());
    row.insert("network".to_owned(), first.network.into());
    row.insert("taker".to_owned(), first.taker.into());
    row.insert("hertz".to_owned(), figure(Some(first.hertz)));
    let sum = |count: &dyn Fn(&Run) -> u64| runs.iter().map(count).sum::<u64>();
    row.insert("published".to_owned(), sum(&|run| run.published.messages).into());
    row.insert("taken".to_owned(), sum(&|run| run.taken.messages).into());
    let lost = |run: &Run| run.published.messages.saturating_sub(run.taken.messages);
    row.insert("lost".to_owned(), sum(&lost).into());
    let rate = |run: &Run| run.taken.bytes as f64 / 1e9 / run.published.seconds;
    row.insert("gb_per_s".to_owned(), figure(of(&rate)));
    if first.taken.p50_us.is_some() {
        row.insert("p50_us".to_owned(), figure(of(&|run| run.taken.p50_us.unwrap_or(f64::NAN))));
        row.insert("p99_us".to_owned(), figure(of(&|run| run.taken.p99_us.unwrap_or(f64::NAN))));
    }
    let cost = |run: &Run| run.taken.cpu_s / (run.taken.bytes as f64 / 1e9);
    row.insert("cpu_s_per_gb".to_owned(), figure(of(&cost)));
    row
}
