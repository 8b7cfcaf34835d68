//! Why a recording cannot be played.

use livebag_format::{visible, visible_list};
use livebag_shm::{CreateError, PublishError};

use super::source::SourceError;
use crate::limits::PLAY_CLOCK_HZ_MAX;
use crate::query::ContainerError;
use crate::source::SelectorError;

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayError {
    /// The container cannot be read.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The recording of another make cannot be read.
    #[error("{0}")]
    Source(#[source] SourceError),
    /// A speed that is none.
    #[error("the rate is {found}, expected a number above 0: 2 plays twice as fast")]
    Rate {
        /// The number asked for.
        found: f64,
    },
    /// A topic that the recording does not have.
    #[error("the recording has no topic {}; it has: {}", visible(topic), visible_list(known))]
    NoTopic {
        /// The name asked for.
        topic: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A pattern that is none.
    #[error(transparent)]
    Pattern(#[from] SelectorError),
    /// Names and patterns leave nothing.
    #[error("no topic is left to play; the recording has: {}", visible_list(known))]
    NothingChosen {
        /// The names there are.
        known: Vec<String>,
    },
    /// A rate of `/clock` that is none.
    #[error(
        "the rate of /clock is {found} Hz, expected a number above 0 and up to {PLAY_CLOCK_HZ_MAX}"
    )]
    ClockRate {
        /// The number asked for.
        found: f64,
    },
    /// The system gives no thread to read with.
    #[error("no thread to read the recording with: {0}")]
    Thread(std::io::Error),
    /// The thread that reads has gone without a word.
    #[error("the thread that reads the recording has died: this is a mistake in livebag")]
    NoReader,
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
        /// What was refused, why, and a remedy.
        String,
    ),
}
