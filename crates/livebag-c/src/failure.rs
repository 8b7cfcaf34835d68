//! Result of a failed call.

/// How a call ended. `livebag_last_error` has the text of everything but OK, END and TIMEOUT.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There are no more messages. Not an error.
    End = 1,
    /// An argument makes no sense: NULL where it may not be, text that is not UTF-8, a number out of range.
    Invalid = 2,
    /// There is no such recording, or it is no livebag recording.
    NotFound = 3,
    /// The recording has no such topic.
    NoTopic = 4,
    /// The recording is damaged there.
    Damaged = 5,
    /// The message was dropped, and counted as lost: the topic's queue was full.
    Full = 6,
    /// The recorder has stopped, or has been finished.
    Closed = 7,
    /// The disk or the system refused.
    Io = 8,
    /// The recording ended early; messages written before are kept and readable.
    Failed = 9,
    /// A fault of livebag itself; the handle must not be used any more, only freed.
    Internal = 10,
    /// Nothing came in the time that was given. Not an error.
    Timeout = 11,
}

/// Why a call failed.
pub(crate) struct Failure {
    pub status: Status,
    pub text: String,
}

pub(crate) fn invalid(text: impl Into<String>) -> Failure {
    Failure { status: Status::Invalid, text: text.into() }
}
