//! Why an answer ends early.

use livebag::{ContainerError, VirtualFileError};

use crate::ask::{AskError, BetweenError};
use crate::field::FieldError;
use crate::picture::PictureError;
use crate::points::PointsError;

/// Why an answer ends early, or does not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The request makes no sense.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The recording cannot be read.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The recording cannot be given as one file.
    #[error(transparent)]
    File(#[from] VirtualFileError),
    /// The file that the asker has read from is not known any more.
    #[error(
        "this live file has been laid out anew since it was opened, with other places for the same messages: \
         open it again (HEAD, or a range from 0)"
    )]
    LaidOutAnew,
    /// Too many files are kept for their readers.
    #[error("too many different parts of live recordings are being read: ask again in a minute")]
    FilesInUse,
    /// There is no picture.
    #[error(transparent)]
    Picture(#[from] PictureError),
    /// There are no points.
    #[error(transparent)]
    Points(#[from] PointsError),
    /// There are no such numbers.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A message cannot be understood.
    #[error("a message of {topic} cannot be decoded: {error}")]
    Decode {
        /// Its topic.
        topic: String,
        /// The error.
        error: String,
    },
    /// An answer in JSON could not be written.
    #[error("the answer could not be written: {0}")]
    Written(String),
    /// Other answers have all the memory.
    #[error("the answers that are under way have all the memory that answers may have")]
    Memory,
    /// Zenoh refuses.
    #[error("other robots cannot be asked: {0}")]
    Robots(String),
    /// Nothing is there.
    #[error("there is no message of that topic at that time")]
    NoMessage,
    /// The asker has gone, or takes nothing any more.
    #[error("the asker has gone")]
    Gone,
}

impl From<BetweenError> for AnswerError {
    fn from(error: BetweenError) -> Self {
        match error {
            BetweenError::Order(error) => Self::Ask(error),
            BetweenError::Container(error) => Self::Container(error),
        }
    }
}
