//! How calls end: a status for the caller, a text for its log. No panic leaves the library.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use livebag::{BagError, RecordError, WriteError};

use crate::text::c_string;

/// How a call ended. `livebag_last_error` has the text of everything but OK and END.
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
    /// The recording ended early; what was written before is kept and readable.
    Failed = 9,
    /// A fault of livebag itself; the handle must not be used any more, only freed.
    Internal = 10,
}

/// Why a call did not do what was asked.
pub(crate) struct Failure {
    pub status: Status,
    pub text: String,
}

pub(crate) fn invalid(text: impl Into<String>) -> Failure {
    Failure { status: Status::Invalid, text: text.into() }
}

impl From<BagError> for Failure {
    fn from(error: BagError) -> Self {
        let status = match error {
            BagError::NotFound(_) | BagError::NotAContainer(_) => Status::NotFound,
            BagError::NoTopic { .. } => Status::NoTopic,
            BagError::Manifest { .. } | BagError::Damaged { .. } => Status::Damaged,
            _ => Status::Io,
        };
        Self { status, text: error.to_string() }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let status = match error {
            RecordError::Failed(_) => Status::Failed,
            RecordError::Stopped => Status::Closed,
            _ => Status::Io,
        };
        Self { status, text: error.to_string() }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let status = match error {
            WriteError::Full { .. } => Status::Full,
            WriteError::Closed { .. } => Status::Closed,
            _ => Status::Invalid,
        };
        Self { status, text: error.to_string() }
    }
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Why the last call of this thread that did not end with OK or END failed; empty if none has. Lives until
/// the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn livebag_last_error() -> *const c_char {
    LAST_ERROR.with(|error| error.borrow().as_ptr())
}

/// Runs a call.
pub(crate) fn call(act: impl FnOnce() -> Result<Status, Failure>) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(status)) => return status,
        Ok(Err(failure)) => failure,
        Err(_) => Failure {
            status: Status::Internal,
            text: "livebag panicked; standard error says where. Please report it".into(),
        },
    };
    LAST_ERROR.with(|error| *error.borrow_mut() = c_string(&failure.text));
    failure.status
}

/// Runs a call that cannot fail but by a panic, which gives `otherwise`.
pub(crate) fn give<T>(otherwise: T, act: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or(otherwise)
}
