//! Waiting for other processes so that Ctrl-C works.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;

/// How long Python is not asked whether it was interrupted.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Runs a blocking operation on a separate thread. If Python is interrupted, the thread continues until its operation
/// ends or times out, and its result is dropped.
///
/// # Errors
/// The exception of the interruption, or that no thread can be created.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = sync_channel(1);
    let work = move || {
        // After an interruption no thread receives it.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("livebag-ask".into()).spawn(work).map_err(errors::other)?;
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(PATIENCE)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(errors::other("the request was interrupted: try again"));
            }
        }
    }
}
