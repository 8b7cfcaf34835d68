//! Policies against synthetic cycles, without a clock or a disk.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::limits::{CYCLE_ASK_AGAIN_MIN, CYCLE_BUSY_MAX};

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
const CAMERA_BYTES: u64 = 5_529_600;

/// An application that computes in given intervals, and may die.
#[derive(Clone, Debug)]
struct Program {
    weight: u32,
    computations: Vec<(u64, u64)>,
    dies_nanos: u64,
}

impl Program {
    /// Computes for `compute` every `period`, each begin shifted by what `jitter` says.
    fn regular(period: u64, compute: u64, until: u64, jitter: impl Fn(u64) -> u64) -> Program {
        let begin = |cycle: u64| (cycle + 1) * period + jitter(cycle);
        let computations =
            (0..until / period).map(|cycle| (begin(cycle), begin(cycle) + compute)).collect();
        Program { weight: 1, computations, dies_nanos: u64::MAX }
    }

    fn is_busy(&self, now: u64) -> bool {
        self.computations.iter().any(|&(from, to)| (from..to).contains(&now))
    }

    fn state(&self, id: u64, now: u64) -> Option<Application> {
        let begun = self.computations.partition_point(|&(from, _)| from <= now);
        let ended = self.computations.partition_point(|&(_, to)| to <= now);
        (now < self.dies_nanos).then(|| Application {
            id,
            weight: if begun > 0 { self.weight } else { 0 },
            busy: begun > ended,
            begins: begun as u64,
            begin_nanos: begun.checked_sub(1).map(|last| self.computations[last].0),
            end_nanos: ended.checked_sub(1).map(|last| self.computations[last].1),
        })
    }
}

/// A recorder with one queue and a disk of constant speed, asked as `Decision` says.
struct Simulation {
    programs: Vec<Program>,
    /// When messages come, and how large they are.
    arrivals: VecDeque<(u64, u64)>,
    bytes_per_second: u64,
    /// Time in which a frame's slot is lapped; none: messages are copies.
    lap_nanos: Option<u64>,
}

/// What became of it.
#[derive(Default, Debug)]
struct Outcome {
    bytes: u64,
    /// Bytes that the disk wrote while an application computed.
    disturbing_bytes: u64,
    longest_wait_nanos: u64,
    largest_backlog_bytes: u64,
    /// Frames that the disk had not had when their slot was due.
    late: u64,
    decisions: Vec<(Observed, Decision)>,
}

/// The part of an observation that bounds are about.
#[derive(Clone, Copy, Debug)]
struct Observed {
    now: u64,
    backlog_bytes: u64,
    oldest_nanos: Option<u64>,
}

impl Simulation {
    fn cameras(count: u64, rate_hz: u64, seconds: u64, programs: Vec<Program>) -> Simulation {
        let period = SECOND / rate_hz;
        let mut arrivals: Vec<(u64, u64)> = (0..seconds * rate_hz)
            .flat_map(|frame| {
                (0..count).map(move |camera| frame * period + camera * period / count)
            })
            .map(|time| (time, CAMERA_BYTES))
            .collect();
        arrivals.sort_unstable();
        let arrivals = arrivals.into();
        Simulation { programs, arrivals, bytes_per_second: 2_000_000_000, lap_nanos: None }
    }

    /// Bytes that the disk writes between `from` and `to` while an application computes.
    fn disturbing(&self, from: u64, to: u64) -> u64 {
        // Steps of 50 µs are finer than anything that is claimed.
        let step = 50_000;
        let steps = (from..to).step_by(step);
        let busy = steps.filter(|&at| self.programs.iter().any(|program| program.is_busy(at)));
        let nanos = (busy.count() * step) as u64;
        nanos.min(to - from) * self.bytes_per_second / SECOND
    }

    /// Runs until everything is on the disk. Bytes before `counted_from` are not counted.
    fn run(mut self, policy: &mut dyn Policy, counted_from: u64) -> Outcome {
        let mut outcome = Outcome::default();
        let mut speed = WriteSpeed::default();
        let mut backlog: VecDeque<(u64, u64)> = VecDeque::new();
        let mut flights: VecDeque<(u64, u64)> = VecDeque::new();
        let (mut now, mut disk_free) = (0, 0);
        while !(self.arrivals.is_empty() && backlog.is_empty() && flights.is_empty()) {
            while let Some(arrival) = self.arrivals.pop_front_if(|arrival| arrival.0 <= now) {
                backlog.push_back(arrival);
            }
            while let Some((_, bytes)) = flights.pop_front_if(|flight| flight.0 <= now) {
                speed.completed(now, bytes);
            }
            let programs = self.programs.iter().enumerate();
            let applications: Vec<_> =
                programs.filter_map(|(id, program)| program.state(id as u64, now)).collect();
            let oldest_nanos = backlog.front().map(|message| message.0);
            let backlog_bytes = backlog.iter().map(|message| message.1).sum();
            let decision = policy.decide(&Observation {
                now_nanos: now,
                backlog_bytes,
                next_bytes: backlog.front().map_or(0, |message| message.1),
                in_flight_bytes: speed.in_flight_bytes(),
                oldest_nanos,
                deadline_nanos: self.lap_nanos.and_then(|lap| Some(oldest_nanos? + lap)),
                applications: &applications,
                bytes_per_second: speed.bytes_per_second(),
            });
            outcome.largest_backlog_bytes = outcome.largest_backlog_bytes.max(backlog_bytes);
            outcome.decisions.push((Observed { now, backlog_bytes, oldest_nanos }, decision));
            let mut left = decision.submit_bytes;
            while let Some((arrived, bytes)) = backlog.pop_front_if(|message| message.1 <= left) {
                left -= bytes;
                let start = now.max(disk_free);
                disk_free = start + (bytes * SECOND / self.bytes_per_second).max(1);
                speed.submitted(now, bytes);
                flights.push_back((disk_free, bytes));
                outcome.longest_wait_nanos = outcome.longest_wait_nanos.max(now - arrived);
                outcome.late +=
                    u64::from(self.lap_nanos.is_some_and(|lap| disk_free > arrived + lap));
                if arrived >= counted_from {
                    outcome.bytes += bytes;
                    outcome.disturbing_bytes += self.disturbing(start, disk_free);
                }
            }
            let next_arrival = self.arrivals.front().map(|arrival| arrival.0);
            let next_completion = flights.front().map(|flight| flight.0);
            let events = next_arrival.into_iter().chain(next_completion);
            now = events.fold(decision.ask_again_nanos, u64::min).max(now + 1);
        }
        outcome
    }
}

impl Outcome {
    fn gap_share(&self) -> f64 {
        1.0 - self.disturbing_bytes as f64 / self.bytes as f64
    }

    fn bounds_reached(&self) -> usize {
        let is_bound = |reason| matches!(reason, Reason::Backlog | Reason::Age | Reason::Deadline);
        self.decisions.iter().filter(|(_, decision)| is_bound(decision.reason)).count()
    }
}

fn policy() -> CycleAware {
    CycleAware::new(CycleBounds::of_cache(200 << 20))
}

/// Without a pattern, below `limit`.
fn noise(seed: u64, limit: u64) -> u64 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32) % limit
}

#[test]
fn immediate_holds_nothing_back() {
    let programs = vec![Program::regular(33 * MILLI, 10 * MILLI, SECOND, |_| 0)];
    let outcome = Simulation::cameras(3, 36, 1, programs).run(&mut Immediate, 0);
    assert_eq!(outcome.longest_wait_nanos, 0);
    assert!(outcome.gap_share() < 0.9, "{}", outcome.gap_share());
}

#[test]
fn with_regular_cycles_the_gaps_get_the_bytes() {
    for cameras in [2, 5, 6] {
        let programs = vec![Program::regular(33 * MILLI, 10 * MILLI, 4 * SECOND, |_| 0)];
        let outcome = Simulation::cameras(cameras, 36, 4, programs).run(&mut policy(), 300 * MILLI);
        let share = outcome.gap_share();
        assert!(share >= 0.95, "{cameras} cameras: {share}");
        assert!(outcome.longest_wait_nanos <= 200 * MILLI, "{}", outcome.longest_wait_nanos);
    }
}

#[test]
fn jitter_is_tolerated() {
    let jitter = |cycle| noise(cycle, 3 * MILLI);
    let programs = vec![Program::regular(33 * MILLI, 10 * MILLI, 4 * SECOND, jitter)];
    let outcome = Simulation::cameras(3, 36, 4, programs).run(&mut policy(), 700 * MILLI);
    assert!(outcome.gap_share() >= 0.95, "{}", outcome.gap_share());
    assert_eq!(outcome.bounds_reached(), 0);
}

#[test]
fn a_hiccup_in_eight_cycles_moves_nothing() {
    let hiccup = |cycle: u64| if cycle % 9 == 8 { 9 * MILLI } else { 0 };
    let programs = vec![Program::regular(33 * MILLI, 10 * MILLI, 4 * SECOND, hiccup)];
    let outcome = Simulation::cameras(3, 36, 4, programs).run(&mut policy(), 700 * MILLI);
    assert!(outcome.gap_share() >= 0.95, "{}", outcome.gap_share());
}

#[test]
fn the_gaps_that_two_applications_share_get_the_bytes() {
    let shifted = Program::regular(66 * MILLI, 8 * MILLI, 4 * SECOND, |_| 20 * MILLI);
    let regular = Program::regular(33 * MILLI, 8 * MILLI, 4 * SECOND, |_| 0);
    let outcome =
        Simulation::cameras(2, 36, 4, vec![regular, shifted]).run(&mut policy(), 700 * MILLI);
    assert!(outcome.gap_share() >= 0.95, "{}", outcome.gap_share());
}

#[test]
fn what_the_gaps_cannot_take_goes_beside_the_computation() {
    // 1.4 GB/s into gaps that take 1.2 GB/s.
    let programs = vec![Program::regular(33 * MILLI, 13 * MILLI, 6 * SECOND, |_| 0)];
    let outcome = Simulation::cameras(7, 36, 6, programs).run(&mut policy(), 0);
    assert!(outcome.largest_backlog_bytes <= (100 << 20) + 2 * CAMERA_BYTES);
    assert!(outcome.longest_wait_nanos <= 201 * MILLI, "{}", outcome.longest_wait_nanos);
    assert!(outcome.gap_share() > 0.6, "{}", outcome.gap_share());
}

#[test]
fn frames_leave_their_slots_in_time() {
    // Seven slots after the frame's own at 36 Hz, and an application that computes nearly all the time.
    let programs = vec![Program::regular(500 * MILLI, 400 * MILLI, 4 * SECOND, |_| 0)];
    let mut simulation = Simulation::cameras(3, 36, 4, programs);
    simulation.lap_nanos = Some(100 * MILLI);
    let outcome = simulation.run(&mut policy(), 0);
    assert!(outcome.bounds_reached() > 0);
    assert_eq!(outcome.late, 0);
}

#[test]
fn an_application_that_dies_while_it_computes_is_not_waited_for() {
    let mut program = Program::regular(33 * MILLI, 10 * MILLI, SECOND, |_| 0);
    program.dies_nanos = 500 * MILLI;
    // Busy forever, had it lived.
    program.computations.retain(|&(from, _)| from < 480 * MILLI);
    program.computations.push((490 * MILLI, 100 * SECOND));
    let outcome = Simulation::cameras(1, 36, 3, vec![program]).run(&mut policy(), 0);
    let after = outcome.decisions.iter().filter(|(observed, _)| observed.now > 500 * MILLI);
    assert!(after.clone().count() > 0);
    assert!(after.into_iter().all(|(_, decision)| decision.reason == Reason::Free));
}

#[test]
fn an_application_that_hangs_is_waited_for_within_the_bounds_only() {
    let mut program = Program::regular(33 * MILLI, 10 * MILLI, SECOND, |_| 0);
    program.computations.push((2 * SECOND, 100 * SECOND));
    let outcome = Simulation::cameras(1, 36, 6, vec![program]).run(&mut policy(), 0);
    assert!(outcome.longest_wait_nanos <= 201 * MILLI, "{}", outcome.longest_wait_nanos);
    let given_up = 2 * SECOND + CYCLE_BUSY_MAX.as_nanos() as u64;
    let after = outcome.decisions.iter().filter(|(observed, _)| observed.now > given_up);
    assert!(after.clone().count() > 0);
    assert!(after.into_iter().all(|(_, decision)| decision.reason == Reason::Free));
}

#[test]
fn an_application_that_pauses_holds_nothing_up_in_the_end() {
    let program = Program::regular(33 * MILLI, 10 * MILLI, SECOND, |_| 0);
    let outcome = Simulation::cameras(1, 36, 3, vec![program]).run(&mut policy(), 0);
    let after = outcome.decisions.iter().filter(|(observed, _)| observed.now > 1200 * MILLI);
    assert!(after.into_iter().all(|(_, decision)| decision.reason == Reason::Free));
}

/// A policy that has seen two applications of these weights, the first of which computes.
fn with_weights(weights: [u32; 2], backlog_bytes: u64) -> Decision {
    let mut policy = CycleAware::new(CycleBounds::of_cache(200));
    let applications = [0, 1].map(|at| Application {
        id: at as u64,
        weight: weights[at],
        busy: at == 0,
        begins: 1,
        begin_nanos: Some(0),
        end_nanos: (at == 1).then_some(1),
    });
    policy.decide(&Observation {
        now_nanos: 10,
        backlog_bytes,
        next_bytes: 1,
        in_flight_bytes: 0,
        oldest_nanos: Some(5),
        deadline_nanos: None,
        applications: &applications,
        bytes_per_second: Some(1_000),
    })
}

#[test]
fn the_fuller_the_backlog_the_heavier_must_be_what_holds_it_up() {
    assert_eq!(with_weights([1, 9], 40).reason, Reason::Busy);
    assert_eq!(with_weights([1, 9], 60).reason, Reason::Light);
    assert_eq!(with_weights([9, 1], 60).reason, Reason::Busy);
    assert_eq!(with_weights([9, 1], 94).reason, Reason::Busy);
    assert_eq!(with_weights([9, 1], 96).reason, Reason::Light);
    assert_eq!(with_weights([0, 1], 1).reason, Reason::Free);
    assert_eq!(with_weights([9, 1], 130).reason, Reason::Backlog);
    assert!(with_weights([9, 1], 130).submit_bytes >= 30);
}

#[test]
fn an_application_that_was_seen_is_translated_to_the_recorders_clock() {
    let board = format!("test-scheduler-{}", std::process::id());
    let mut monitor = livebag_shm::CycleMonitor::open_board(&board).unwrap();
    let mut cycle = livebag_shm::Cycle::join_on(&board, "planner").unwrap();
    cycle.begin(7);
    let seen = monitor.look()[0].clone();
    let begin = seen.begin_nanos.unwrap();
    let application = Application::seen(&seen, begin + 5, 1_000);
    assert_eq!((application.weight, application.busy, application.begins), (7, true, 1));
    assert_eq!(application.begin_nanos, Some(995));
    assert_eq!(Application::seen(&seen, begin - 5, 1_000).begin_nanos, Some(1_000));
    livebag_shm::remove_cycle_board(&board).unwrap();
}

#[test]
fn the_speed_is_that_of_the_time_in_which_the_disk_works() {
    let mut speed = WriteSpeed::default();
    let mebi = 1 << 20;
    for turn in 0..10 {
        let start = turn * SECOND;
        speed.submitted(start, 2 * mebi);
        speed.submitted(start, 2 * mebi);
        assert_eq!(speed.in_flight_bytes(), 4 * mebi);
        speed.completed(start + MILLI, 2 * mebi);
        speed.completed(start + 2 * MILLI, 2 * mebi);
    }
    let found = speed.bytes_per_second().unwrap();
    let expected = 2 * mebi * 1_000;
    assert!(found.abs_diff(expected) < expected / 100, "{found}, expected {expected}");
    let mut unknown = WriteSpeed::default();
    unknown.submitted(0, 100);
    unknown.completed(MILLI, 100);
    assert_eq!(unknown.bytes_per_second(), None, "a small write tells nothing");
}

fn programs() -> impl Strategy<Value = Vec<Program>> {
    let program = (1..200u64, 0..100u64, 0..10u32, 0..5u64, 0..40u64, 0..4_000u64).prop_map(
        |(period, share, weight, jitter, seed, dies)| {
            let until = 2 * SECOND;
            let (period, jitter) = (period * MILLI, jitter * MILLI);
            let jitter = |cycle| if jitter == 0 { 0 } else { noise(seed + cycle, jitter) };
            let mut program = Program::regular(period, period * share / 100 + 1, until, jitter);
            // Jitter must not let a computation begin before the one before has ended.
            let mut free = 0;
            for computation in &mut program.computations {
                computation.0 = computation.0.max(free);
                computation.1 = computation.1.max(computation.0 + 1);
                free = computation.1 + 1;
            }
            program.weight = weight;
            program.dies_nanos = dies * MILLI;
            program
        },
    );
    proptest::collection::vec(program, 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn bounds_win_whatever_applications_do(
        programs in programs(),
        arrivals in proptest::collection::vec((0..2_000u64, 1..30_000_000u64), 1..60),
        bytes_per_second in 20_000_000..3_000_000_000u64,
        lap in proptest::option::of(20..400u64),
    ) {
        let mut arrivals: Vec<_> =
            arrivals.into_iter().map(|(at, bytes)| (at * MILLI, bytes)).collect();
        arrivals.sort_unstable();
        let lap_nanos = lap.map(|lap| lap * MILLI);
        let simulation =
            Simulation { programs, arrivals: arrivals.into(), bytes_per_second, lap_nanos };
        let bounds = CycleBounds::of_cache(100_000_000);
        let outcome = simulation.run(&mut CycleAware::new(bounds), 0);
        let ask_again = CYCLE_ASK_AGAIN_MIN.as_nanos() as u64;
        // It ended, so nothing was delayed forever; and nothing for longer than the bound.
        prop_assert!(outcome.longest_wait_nanos <= bounds.age_nanos_max + ask_again);
        for (observed, decision) in &outcome.decisions {
            prop_assert!(decision.ask_again_nanos > observed.now);
            let excess = observed.backlog_bytes.saturating_sub(bounds.backlog_bytes_max);
            prop_assert!(decision.submit_bytes >= excess, "{observed:?} {decision:?}");
            let age = observed.oldest_nanos.map_or(0, |oldest| observed.now - oldest);
            if age >= bounds.age_nanos_max {
                prop_assert_eq!(decision.submit_bytes, u64::MAX);
            }
        }
    }

    #[test]
    fn wild_words_on_the_board_do_no_harm(
        words in proptest::collection::vec(
            (any::<u64>(), any::<u32>(), any::<bool>(), any::<u64>(),
             any::<Option<u64>>(), any::<Option<u64>>()),
            0..80,
        ),
        now_nanos in any::<u64>(),
        backlog_bytes in any::<u64>(),
        bytes_per_second in any::<Option<u64>>(),
        times in any::<[Option<u64>; 2]>(),
    ) {
        let mut policy = policy();
        for part in words.chunks(8) {
            let applications: Vec<_> = part.iter().map(|&(id, weight, busy, begins, from, to)| {
                Application { id: id % 4, weight, busy, begins, begin_nanos: from, end_nanos: to }
            }).collect();
            let decision = policy.decide(&Observation {
                now_nanos,
                backlog_bytes,
                next_bytes: backlog_bytes,
                in_flight_bytes: backlog_bytes,
                oldest_nanos: times[0],
                deadline_nanos: times[1],
                applications: &applications,
                bytes_per_second,
            });
            prop_assert!(decision.submit_bytes > 0 || backlog_bytes < (100 << 20));
        }
    }
}
