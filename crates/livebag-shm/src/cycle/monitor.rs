//! The recorder's side: reads, never writes.

use super::CycleError;
use super::board::Board;
use super::layout::CYCLE_SLOTS;
use super::protocol::Look;
use crate::clock;

/// An application on the board, as it was at the last look. All times are nanoseconds of `CLOCK_MONOTONIC`, stored by
/// the application itself and not checked: they may be in the future.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CycleApplication {
    /// Identifies it among all applications, past and future, on this board.
    pub id: u64,
    /// Its name; not unique.
    pub name: String,
    /// Its process id as it sees it itself.
    pub pid: u64,
    /// Whether it is between `begin` and `end`.
    pub busy: bool,
    /// The weight that its last `begin` stated; 0 before the first.
    pub weight: u32,
    /// How often it has begun.
    pub begins: u64,
    /// How often it has ended.
    pub ends: u64,
    /// When it last began.
    pub begin_nanos: Option<u64>,
    /// When it last ended.
    pub end_nanos: Option<u64>,
}

#[derive(Debug)]
struct Member {
    slot: usize,
    epoch: u64,
    base: u64,
}

/// Watches the applications on a board. It maps the board read-only.
///
/// ```
/// use livebag_shm::{Cycle, CycleMonitor};
/// # let board = format!("doc-monitor-{}", std::process::id());
/// let mut monitor = CycleMonitor::open_board(&board)?;
/// let mut cycle = Cycle::join_on(&board, "planner")?;
/// cycle.begin(3);
/// let planner = &monitor.look()[0];
/// assert!(planner.busy && planner.weight == 3 && planner.begins == 1);
/// # livebag_shm::remove_cycle_board(&board)?;
/// # Ok::<(), livebag_shm::CycleError>(())
/// ```
#[derive(Debug)]
pub struct CycleMonitor {
    board: Board,
    members: Vec<Member>,
    applications: Vec<CycleApplication>,
}

impl CycleMonitor {
    /// Watches the user's board, which is made if no application has joined yet.
    ///
    /// # Errors
    /// When the region is foreign or damaged, or when the system refuses memory or rights.
    pub fn open() -> Result<CycleMonitor, CycleError> {
        Self::of(Board::watch(None)?)
    }

    /// The same for a board with a name.
    ///
    /// # Errors
    /// As [`CycleMonitor::open`]; also when the name breaks the rules of stream names.
    pub fn open_board(board: &str) -> Result<CycleMonitor, CycleError> {
        Self::of(Board::watch(Some(board))?)
    }

    fn of(board: Board) -> Result<CycleMonitor, CycleError> {
        Ok(CycleMonitor { board, members: Vec::new(), applications: Vec::new() })
    }

    /// Whether new applications can be seen here: false once the board has been removed by hand.
    /// Open it again then. Two system calls; once a second is enough.
    pub fn is_current(&self) -> bool {
        self.board.is_named()
    }

    /// The clock of all times here: `CLOCK_MONOTONIC` in nanoseconds.
    pub fn now_nanos() -> u64 {
        clock::monotonic_nanos()
    }

    /// Reads the state of every living application. One load for each place, and one system call for each application
    /// (which asks whether its process lives).
    pub fn look(&mut self) -> &[CycleApplication] {
        for slot in 0..CYCLE_SLOTS {
            let member = self.members.iter().position(|member| member.slot == slot);
            let epoch = self.board.words(slot).in_use().filter(|_| self.board.is_alive(slot));
            let is_known = member.is_some_and(|at| Some(self.members[at].epoch) == epoch);
            if let Some(at) = member.filter(|_| !is_known) {
                self.forget(at);
            }
            match (epoch, member.filter(|_| is_known)) {
                (Some(_), Some(at)) => self.update(at),
                (Some(epoch), None) => self.meet(slot, epoch),
                (None, _) => {}
            }
        }
        &self.applications
    }

    fn forget(&mut self, at: usize) {
        self.members.swap_remove(at);
        self.applications.swap_remove(at);
    }

    fn meet(&mut self, slot: usize, epoch: u64) {
        let Some((identity, base)) = self.board.words(slot).identity(epoch) else { return };
        // Without a name that makes sense it is no application.
        let Some(name) = identity.name() else { return };
        self.members.push(Member { slot, epoch, base });
        self.applications.push(CycleApplication {
            id: epoch.wrapping_mul(CYCLE_SLOTS as u64).wrapping_add(slot as u64),
            name,
            pid: identity.pid,
            busy: false,
            weight: 0,
            begins: 0,
            ends: 0,
            begin_nanos: None,
            end_nanos: None,
        });
        self.update(self.members.len() - 1);
    }

    fn update(&mut self, at: usize) {
        let Member { slot, epoch, base } = self.members[at];
        match self.board.words(slot).look(epoch, base) {
            Look::Seen(seen) => {
                let application = &mut self.applications[at];
                application.busy = seen.transitions % 2 == 1;
                application.begins = seen.transitions.div_ceil(2);
                application.ends = seen.transitions / 2;
                application.begin_nanos = seen.begin.map(|begin| begin.nanos);
                application.end_nanos = seen.end.map(|end| end.nanos);
                let weight = seen.begin.map_or(0, |begin| begin.weight);
                application.weight = u32::try_from(weight).unwrap_or(u32::MAX);
            }
            Look::Overtaken => {}
            Look::Changed => self.forget(at),
        }
    }
}
