//! Waiting for others so that Ctrl-C works meanwhile.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;

/// How long Python is not asked whether it was interrupted.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Does on a thread of its own what may wait for long. If Python is interrupted, the thread goes on until
/// what it waits for has come or has timed out, and nobody hears of it.
///
/// # Errors
/// What the interruption raised, or that no thread can be made.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = sync_channel(1);
    let work = move || {
        // Nobody waits any more after an interruption.
        let _ = sender.send(work());
    };
    std::thread::Builder::new().name("livebag-ask".into()).spawn(work).map_err(errors::other)?;
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(PATIENCE)) {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(errors::other("the question was given up: ask again"));
            }
        }
    }
}
