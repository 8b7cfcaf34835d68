//! The application: computes for 10 ms every 33 ms, and measures when it is done.

use livebag_shm::Cycle;
use serde::{Deserialize, Serialize};

use crate::child::{self, Process};
use crate::clock;
use crate::error::{BenchError, Result};

/// The hidden verb under which this program is started again.
pub const ROLE: &str = "cycle-application";

/// SPEED, section IV-D: 10 ms of computation, 33 ms from one to the next.
const COMPUTATION_NANOS: u64 = 10_000_000;
const PERIOD_NANOS: u64 = 33_000_000;

/// Rounds after which calibration has seen the processor at its usual clock.
const CALIBRATION_RUNS: u32 = 40;
const CALIBRATION_ROUNDS: u64 = 2_000_000;

/// The application's orders.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Orders {
    /// Its processor.
    pub core: usize,
    /// How much it computes each time; none: it finds out what takes 10 ms.
    pub rounds: Option<u64>,
    /// How many times.
    pub cycles: u64,
}

/// The application's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Computed {
    /// Of every computation in order: from the moment at which it was due to its end.
    pub completion_nanos: Vec<u64>,
    /// How much it computed each time.
    pub rounds: u64,
}

/// Cycles in this many seconds.
pub fn cycles_in(seconds: f64) -> u64 {
    (seconds * 1e9 / PERIOD_NANOS as f64).floor() as u64
}

/// Finds how many rounds take 10 ms on an idle processor.
pub fn calibrate(core: usize) -> Result<u64> {
    let mut process = Process::start(ROLE, &Orders { core, rounds: None, cycles: 0 })?;
    process.expect_ready()?;
    process.go()?;
    let computed: Computed = process.result(60)?;
    process.finish()?;
    Ok(computed.rounds)
}

/// The application process.
pub fn compute(orders: &str) -> Result<()> {
    let orders: Orders = child::orders(orders)?;
    child::bind_to(orders.core)?;
    let mut cycle = Cycle::join("livebag-bench cycle")
        .map_err(|e| BenchError::system("livebag", "joining the cycle board")(&e))?;
    child::ready_and_wait()?;
    let rounds = orders.rounds.unwrap_or_else(rounds_of_a_computation);
    let mut completion_nanos = Vec::with_capacity(orders.cycles as usize);
    let start = clock::monotonic_nanos() + PERIOD_NANOS;
    for number in 0..orders.cycles {
        let due = start + number * PERIOD_NANOS;
        clock::sleep_until(due);
        cycle.begin(1);
        spin(rounds);
        cycle.end();
        completion_nanos.push(clock::monotonic_nanos() - due);
    }
    child::answer(&Computed { completion_nanos, rounds })
}

fn rounds_of_a_computation() -> u64 {
    let mut shortest = u64::MAX;
    for _ in 0..CALIBRATION_RUNS {
        let start = clock::monotonic_nanos();
        spin(CALIBRATION_ROUNDS);
        shortest = shortest.min(clock::monotonic_nanos() - start);
    }
    CALIBRATION_ROUNDS * COMPUTATION_NANOS / shortest.max(1)
}

/// Arithmetic that depends on itself, round by round.
fn spin(rounds: u64) {
    let mut value = rounds;
    for round in 0..rounds {
        value = std::hint::black_box(value.wrapping_mul(0x5851_F42D_4C95_7F2D) ^ round);
    }
    std::hint::black_box(value);
}
