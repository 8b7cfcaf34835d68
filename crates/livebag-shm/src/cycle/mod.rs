//! The cycle word: applications tell when they compute, so that the recorder can write in between.
//!
//! `docs/cycle-layout.md` is the byte layout and the protocol; `cpp/include/livebag/cycle.hpp` is
//! the same for C++. SPEED's hints (section III-B) are messages to the recorder; here a hint is a
//! few stores to memory that the recorder maps.

/// The shared region: made, found, checked.
mod board;
/// Why a board or a slot cannot be used.
mod error;
/// Named offsets of `docs/cycle-layout.md`.
mod layout;
/// The recorder's side.
mod monitor;
/// The order of stores and loads.
pub(crate) mod protocol;
#[cfg(all(test, not(loom)))]
mod tests;

pub use error::CycleError;
pub use layout::{CYCLE_NAME_BYTES_MAX, CYCLE_SLOTS};
pub use monitor::{CycleApplication, CycleMonitor};

use crate::clock;
use crate::object;
use board::Board;
use protocol::Owned;

/// An application's place on the cycle board of its user.
///
/// ```
/// use livebag_shm::Cycle;
/// # fn plan() {}
/// # let board = format!("doc-cycle-{}", std::process::id());
/// # let mut cycle = Cycle::join_on(&board, "planner")?;
/// # livebag_shm::remove_cycle_board(&board)?;
/// # #[cfg(any())]
/// let mut cycle = Cycle::join("planner")?;
/// cycle.begin(1); // from here on the recorder should hold back …
/// plan();
/// cycle.end(); // … until here
/// # Ok::<(), livebag_shm::CycleError>(())
/// ```
///
/// `begin` and `end` are wait-free and make no system call: three stores and a reading of the clock through the vDSO.
/// Nothing that the recorder does can hold the application up, and the recorder trusts nothing that it finds here: at
/// worst it writes at a bad moment.
///
/// The place is given back when this value is dropped, and reclaimed when the process dies. (A child made by
/// `fork` without `exec` shares it until both have ended.)
#[derive(Debug)]
pub struct Cycle {
    board: Board,
    slot: usize,
    owned: Owned,
}

impl Cycle {
    /// Joins the user's board under a name that people will read: 1 to 128 bytes of text. It need not be
    /// unique.
    ///
    /// # Errors
    /// When the name is out of bounds, when all slots are taken by living applications, when
    /// the region is foreign or damaged, or when the system refuses memory or rights.
    pub fn join(name: &str) -> Result<Cycle, CycleError> {
        Self::join_board(Board::open_default()?, name)
    }

    /// The same on a board with a name (named like a stream), which a recorder sees only with that name: for tests, and
    /// for several robots simulated on one machine.
    ///
    /// # Errors
    /// As [`Cycle::join`]; also when the board's name breaks the rules of stream names.
    pub fn join_on(board: &str, name: &str) -> Result<Cycle, CycleError> {
        Self::join_board(Board::open(board)?, name)
    }

    fn join_board(board: Board, name: &str) -> Result<Cycle, CycleError> {
        if name.is_empty() || name.len() > CYCLE_NAME_BYTES_MAX {
            return Err(CycleError::Name { found: name.len() });
        }
        let slot = board.claim()?;
        let ticks = object::process_start_ticks();
        let who = protocol::Identity::new(name, std::process::id().into(), ticks);
        let owned = board.words(slot).claim(&who);
        Ok(Cycle { board, slot, owned })
    }

    /// A computation begins. `weight` is the application's importance, compared with that of the other applications; 0
    /// means that it may be disturbed.
    ///
    /// A computation that has not ended yet ends here.
    pub fn begin(&mut self, weight: u32) {
        let words = self.board.words(self.slot);
        let now = clock::monotonic_nanos();
        if self.owned.is_busy() {
            words.end(&mut self.owned, now);
        }
        words.begin(&mut self.owned, now, weight);
    }

    /// The computation has ended; nothing happens if none had begun.
    pub fn end(&mut self) {
        if self.owned.is_busy() {
            self.board.words(self.slot).end(&mut self.owned, clock::monotonic_nanos());
        }
    }
}

impl Drop for Cycle {
    fn drop(&mut self) {
        self.end();
        self.board.words(self.slot).leave(&mut self.owned);
        self.board.release(self.slot);
    }
}

/// The path of a board with a name.
#[cfg(all(any(test, fuzzing), not(loom)))]
pub(crate) fn board_path(board: &str) -> String {
    board::path_of(crate::name::Name::new(board).ok().as_ref())
}

/// Removes a board with a name. Applications on it keep their slots, but are not seen.
///
/// # Errors
/// When its name breaks the rules, or the right is missing.
pub fn remove_cycle_board(board: &str) -> Result<(), CycleError> {
    Board::remove(board)
}
