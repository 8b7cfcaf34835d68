//! How calls end: a status for the caller, a text for its log. No panic leaves the library.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use livebag::{ContainerError, EventError, RecordError, WriteError};

use crate::failure::{Failure, Status};
use crate::text::c_string;

impl From<ContainerError> for Failure {
    fn from(error: ContainerError) -> Self {
        let status = match error {
            ContainerError::NotFound(_) | ContainerError::NotAContainer(_) => Status::NotFound,
            ContainerError::NoTopic { .. } => Status::NoTopic,
            ContainerError::Manifest { .. } | ContainerError::Damaged { .. } => Status::Damaged,
            _ => Status::Io,
        };
        Self { status, text: error.to_string() }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let status = match error {
            RecordError::Failed(_) => Status::Failed,
            RecordError::Event(
                EventError::Name { .. } | EventError::Text { .. } | EventError::Backwards { .. },
            ) => Status::Invalid,
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

/// Why the last call of this thread that did not end with OK, END or TIMEOUT failed; empty if none has. Lives until
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
