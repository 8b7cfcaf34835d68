//! Why a recording cannot be played.

use livebag_shm::{CreateError, PublishError};

use crate::convert::ConvertError;
use crate::query::BagError;

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The container cannot be read.
    #[error(transparent)]
    Bag(#[from] BagError),
    /// The recording of another make cannot be read.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// A speed that is none.
    #[error("the rate is {found}, expected a number above 0: 2 plays twice as fast")]
    Rate {
        /// The number asked for.
        found: f64,
    },
    /// A topic that the recording does not have.
    #[error("the recording has no topic {topic}; it has: {}", known.join(", "))]
    NoTopic {
        /// The name asked for.
        topic: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A stream cannot be made.
    #[error("no stream for the topic {topic}: {source}")]
    Stream {
        /// The topic.
        topic: String,
        /// Why.
        source: CreateError,
    },
    /// A message does not fit its stream.
    #[error("a message of {topic} cannot be published: {source}")]
    Publish {
        /// The topic.
        topic: String,
        /// Why.
        source: PublishError,
    },
    /// An output of another make refused.
    #[error("{0}")]
    Output(
        /// What it refused, why, and what to do.
        String,
    ),
}
