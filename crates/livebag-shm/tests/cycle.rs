//! The cycle board between processes, and invalid boards.
#![cfg(not(loom))]

mod common;

use std::os::unix::fs::{FileExt, PermissionsExt};

use common::{Role, delete, role_argument, unique, until};
use livebag_shm::{Cycle, CycleError, CycleMonitor, remove_cycle_board};

struct Board {
    name: String,
    path: String,
}

impl Board {
    fn new(label: &str) -> Board {
        let name = unique(label);
        let user = rustix::process::geteuid().as_raw();
        let path = format!("/dev/shm/livebag-cycles.{user}.{name}");
        Board { name, path }
    }

    /// A file in its place.
    fn put(&self, bytes: &[u8]) {
        delete(&self.path);
        #[expect(clippy::disallowed_methods, reason = "the damage is done from outside")]
        std::fs::write(&self.path, bytes).unwrap();
    }

    fn poke(&self, at: u64, bytes: &[u8]) {
        #[expect(clippy::disallowed_methods, reason = "the damage is done from outside")]
        let file = std::fs::File::options().write(true).open(&self.path).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    fn refused(&self) -> CycleError {
        let by_application = Cycle::join_on(&self.name, "planner").unwrap_err().to_string();
        let by_recorder = CycleMonitor::open_board(&self.name).unwrap_err();
        assert_eq!(by_application, by_recorder.to_string());
        by_recorder
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = remove_cycle_board(&self.name);
    }
}

/// Begins a computation that its death will end.
#[test]
fn role_computes_until_killed() {
    let Some(board) = role_argument() else { return };
    let mut cycle = Cycle::join_on(&board, "victim").unwrap();
    for _ in 0..1_000 {
        cycle.begin(1);
        cycle.end();
    }
    cycle.begin(4);
    loop {
        std::thread::park();
    }
}

#[test]
fn who_dies_while_computing_is_gone_and_leaves_its_place() {
    let board = Board::new("death");
    let mut monitor = CycleMonitor::open_board(&board.name).unwrap();
    for _ in 0..3 {
        let victim = Role::start("role_computes_until_killed", &board.name);
        until("the victim computes", || {
            monitor.look().first().is_some_and(|seen| seen.begins == 1_001 && seen.busy)
        });
        assert_eq!(monitor.look()[0].weight, 4);
        victim.kill();
        until("the victim is gone", || monitor.look().is_empty());
    }
    // Its place, left in the middle of a computation, is as good as a new one.
    let mut cycle = Cycle::join_on(&board.name, "heir").unwrap();
    let seen = monitor.look()[0].clone();
    assert_eq!((seen.name.as_str(), seen.busy, seen.begins, seen.ends), ("heir", false, 0, 0));
    cycle.begin(1);
    assert!(monitor.look()[0].busy);
}

#[test]
fn the_board_is_its_owners_alone() {
    let board = Board::new("rights");
    let _cycle = Cycle::join_on(&board.name, "planner").unwrap();
    let mode = std::fs::metadata(&board.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn foreign_and_damaged_boards_are_refused_and_left_alone() {
    let board = Board::new("foreign");
    board.put(b"a letter to somebody");
    assert!(matches!(board.refused(), CycleError::Foreign { .. }));
    board.put(&[b'x'; 40_000]);
    assert!(matches!(board.refused(), CycleError::Foreign { .. }));

    let damage = |at: u64| {
        delete(&board.path);
        drop(Cycle::join_on(&board.name, "planner").unwrap());
        board.poke(at, &[7]);
        board.refused()
    };
    assert!(matches!(damage(8), CycleError::Version { found: 7, .. }));
    for at in [12, 16, 24, 28, 32, 36] {
        assert!(matches!(damage(at), CycleError::Damaged { .. }), "byte {at}");
    }
}

#[test]
fn a_board_whose_maker_died_is_finished_by_the_next() {
    let board = Board::new("half");
    for bytes in [0, 4096 + 64 * 512] {
        board.put(&vec![0; bytes]);
        let mut monitor = CycleMonitor::open_board(&board.name).unwrap();
        let _cycle = Cycle::join_on(&board.name, "planner").unwrap();
        assert_eq!(monitor.look().len(), 1);
    }
}

#[test]
fn damaged_places_are_passed_over() {
    let board = Board::new("places");
    let mut monitor = CycleMonitor::open_board(&board.name).unwrap();
    let _first = Cycle::join_on(&board.name, "first").unwrap();
    let _second = Cycle::join_on(&board.name, "second").unwrap();
    // The length of the first one's name.
    board.poke(4096 + 0x20, &u64::MAX.to_le_bytes());
    let names: Vec<_> = monitor.look().iter().map(|seen| seen.name.clone()).collect();
    assert_eq!(names, ["second"]);
    // Counters that make no sense are only numbers.
    board.poke(4096 + 512 + 0xC0, &u64::MAX.to_le_bytes());
    assert_eq!(monitor.look().len(), 1);
}

#[test]
fn a_removed_board_is_not_current() {
    let board = Board::new("removed");
    let monitor = CycleMonitor::open_board(&board.name).unwrap();
    assert!(monitor.is_current());
    remove_cycle_board(&board.name).unwrap();
    assert!(!monitor.is_current());
    let _again = CycleMonitor::open_board(&board.name).unwrap();
    assert!(!monitor.is_current());
}
