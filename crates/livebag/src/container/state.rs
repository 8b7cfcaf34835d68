//! The state of a container, and why it cannot be read.

use std::io;
use std::path::PathBuf;

use livebag_format::container::{CONTAINER_FILE, ManifestError};
use livebag_format::{visible, visible_list};

/// The state of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerState {
    /// A recorder is writing it.
    Live,
    /// Closed in order.
    Closed,
    /// Its recorder died; the committed messages have been kept and the container closed.
    Recovered,
    /// Its recorder died, and this user may not write here: read as it is.
    Unrecovered,
}

impl std::fmt::Display for ContainerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Closed => "closed",
            Self::Recovered => "recovered",
            Self::Unrecovered => "unrecovered",
        })
    }
}

/// Why a container cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// Nothing there.
    #[error("{} does not exist", .0.display())]
    NotFound(PathBuf),
    /// Something else.
    #[error(
        "{} is not a livebag container (a directory with {CONTAINER_FILE}): `livebag convert` makes \
         one of ROS 1 bags, rosbag2 directories and MCAP files", .0.display()
    )]
    NotAContainer(PathBuf),
    /// `container.yaml` cannot be used.
    #[error("{}: {source}", path.display())]
    Manifest {
        /// The container.
        path: PathBuf,
        /// The error in it.
        source: ManifestError,
    },
    /// A topic that the container does not have.
    #[error("the container has no topic {}; it has: {}", visible(topic), visible_list(known))]
    NoTopic {
        /// The name asked for.
        topic: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// An index entry or the message it points to is damaged.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// The disk refused.
    #[error("reading {} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}
