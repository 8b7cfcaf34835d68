//! One process: the monitor's view of the applications.

use super::protocol::Identity;
use super::*;

struct Name(String);

impl Name {
    fn new(test: &str) -> Name {
        Name(format!("test-cycle-{}-{test}", std::process::id()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = remove_cycle_board(&self.0);
    }
}

fn busy(monitor: &mut CycleMonitor) -> Vec<(String, bool, u32)> {
    let mut seen: Vec<_> =
        monitor.look().iter().map(|a| (a.name.clone(), a.busy, a.weight)).collect();
    seen.sort();
    seen
}

#[test]
fn the_monitor_sees_each_application_by_itself() {
    let board = Name::new("each");
    let mut monitor = CycleMonitor::open_board(&board.0).unwrap();
    assert!(monitor.look().is_empty());
    let mut planner = Cycle::join_on(&board.0, "planner").unwrap();
    let mut tracker = Cycle::join_on(&board.0, "tracker").unwrap();
    planner.begin(3);
    let planner_is_busy = [("planner".to_owned(), true, 3), ("tracker".to_owned(), false, 0)];
    assert_eq!(busy(&mut monitor), planner_is_busy);
    tracker.begin(5);
    planner.end();
    let tracker_is_busy = [("planner".to_owned(), false, 3), ("tracker".to_owned(), true, 5)];
    assert_eq!(busy(&mut monitor), tracker_is_busy);
    drop(tracker);
    assert_eq!(busy(&mut monitor), [("planner".to_owned(), false, 3)]);
    assert!(monitor.is_current());
}

#[test]
fn counts_and_times_are_those_of_the_calls() {
    let board = Name::new("counts");
    let mut cycle = Cycle::join_on(&board.0, "planner").unwrap();
    let mut monitor = CycleMonitor::open_board(&board.0).unwrap();
    cycle.end();
    assert_eq!(monitor.look()[0].ends, 0, "nothing had begun");
    let before = CycleMonitor::now_nanos();
    for _ in 0..100 {
        cycle.begin(1);
        cycle.end();
    }
    cycle.begin(2);
    cycle.begin(9);
    let after = CycleMonitor::now_nanos();
    let seen = monitor.look()[0].clone();
    assert_eq!((seen.begins, seen.ends, seen.busy, seen.weight), (102, 101, true, 9));
    let (begin, end) = (seen.begin_nanos.unwrap(), seen.end_nanos.unwrap());
    assert!(before <= end && end <= begin && begin <= after);
    assert_eq!(seen.pid, u64::from(std::process::id()));
}

#[test]
fn a_place_is_taken_again_by_somebody_else() {
    let board = Name::new("again");
    let mut monitor = CycleMonitor::open_board(&board.0).unwrap();
    let mut ids = std::collections::HashSet::new();
    for round in 0..5u32 {
        let mut cycle = Cycle::join_on(&board.0, &format!("round {round}")).unwrap();
        // Left while busy, every other time.
        cycle.begin(1);
        let seen = monitor.look()[0].clone();
        assert_eq!((seen.begins, seen.busy), (1, true));
        assert_eq!(seen.name, format!("round {round}"));
        assert!(ids.insert(seen.id));
        if round % 2 == 0 {
            cycle.end();
        }
    }
    assert!(monitor.look().is_empty());
}

#[test]
fn a_full_board_says_so_and_has_room_again() {
    let board = Name::new("full");
    let join = |at: usize| Cycle::join_on(&board.0, &format!("application {at}"));
    let mut all: Vec<Cycle> = (0..CYCLE_SLOTS).map(|at| join(at).unwrap()).collect();
    assert!(matches!(join(99), Err(CycleError::Full { slots: CYCLE_SLOTS })));
    let mut monitor = CycleMonitor::open_board(&board.0).unwrap();
    assert_eq!(monitor.look().len(), CYCLE_SLOTS);
    all.remove(17);
    let late = join(99).unwrap();
    assert_eq!(monitor.look().len(), CYCLE_SLOTS);
    drop((late, all));
    assert!(monitor.look().is_empty());
}

#[test]
fn names_are_checked() {
    let board = Name::new("names");
    for name in ["", &"x".repeat(CYCLE_NAME_BYTES_MAX + 1)] {
        let refused = Cycle::join_on(&board.0, name).unwrap_err();
        assert!(matches!(refused, CycleError::Name { .. }), "{refused}");
    }
    for bad in ["../passwd", "a/b", ""] {
        assert!(matches!(CycleMonitor::open_board(bad), Err(CycleError::Board(_))), "{bad}");
    }
    let long = "é".repeat(CYCLE_NAME_BYTES_MAX / 2);
    assert_eq!(Identity::new(&long, 1, 2).name(), Some(long));
    let not_text = Identity { name: vec![0xFF; 16], ..Identity::new("x", 1, 2) };
    assert_eq!(not_text.name(), None);
    let too_long = Identity { name_bytes: 1 << 40, ..Identity::new("x", 1, 2) };
    assert_eq!(too_long.name(), None);
}
