//! Why a board or a slot cannot be used.

use crate::error::NameError;

/// A cycle board could not be joined or watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CycleError {
    /// The application's name is out of bounds.
    #[error("an application's name has 1 to 128 bytes, this one has {found}")]
    Name {
        /// Bytes found.
        found: usize,
    },
    /// The board's name breaks the rules.
    #[error("the cycle board's name is not usable: {0}")]
    Board(#[from] NameError),
    /// All slots are taken by living applications.
    #[error(
        "all {slots} places of the cycle board are used by living applications; end some of them, \
         or let one process act for several"
    )]
    Full {
        /// Places of the board.
        slots: usize,
    },
    /// The region belongs to another user.
    #[error("{path} belongs to user {owner}, not to user {user}; remove it as its owner")]
    ForeignOwner {
        /// Path of the object.
        path: String,
        /// Owner found.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// Something else has the region's name.
    #[error("{path} is not a livebag cycle board: {found}; remove it")]
    Foreign {
        /// Path of the object.
        path: String,
        /// Its kind, or its first bytes.
        found: String,
    },
    /// Another layout version.
    #[error(
        "{path} has layout version {found}, this program reads version 1; use programs of one \
         livebag version, or end them all and remove it"
    )]
    Version {
        /// Path of the object.
        path: String,
        /// The version found.
        found: u32,
    },
    /// A field breaks a rule.
    #[error(
        "{path} is damaged: {field} is {found:#x}, expected {expected:#x}; end the applications \
         that use it and remove it"
    )]
    Damaged {
        /// Path of the object.
        path: String,
        /// The field of `docs/cycle-layout.md`.
        field: &'static str,
        /// Its rule.
        expected: u64,
        /// Its value.
        found: u64,
    },
    /// Others keep making and removing the region.
    #[error("other processes kept changing {path}; try again in a moment")]
    Contended {
        /// Path of the object.
        path: String,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    System {
        /// The operation.
        action: &'static str,
        /// Path of the object.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
}
