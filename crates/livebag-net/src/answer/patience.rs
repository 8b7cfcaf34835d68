//! Waits for a future on the current thread, without a timer of a runtime: that panics in a server which is being shut
//! down, and an answer's thread may outlive its server.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use livebag::Clock;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The future's output, or `None` if it takes longer than `patience`.
pub fn wait_within<F: Future>(future: F, patience: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let clock = Clock::system();
    let end_nanos = clock.monotonic_nanos().saturating_add(patience.as_nanos() as u64);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = end_nanos.saturating_sub(clock.monotonic_nanos());
        if left == 0 {
            return None;
        }
        thread::park_timeout(Duration::from_nanos(left));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_comes_is_given_up_and_what_comes_is_given() {
        assert_eq!(wait_within(std::future::pending::<()>(), Duration::from_millis(1)), None);
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        let sending = thread::Builder::new().spawn(move || sender.blocking_send(7)).unwrap();
        assert_eq!(wait_within(receiver.recv(), Duration::from_secs(600)), Some(Some(7)));
        sending.join().unwrap().unwrap();
    }

    /// The runtime has ended, and the answer's thread waits on: no panic.
    #[test]
    fn no_runtime_is_needed() {
        let semaphore = Arc::new(tokio::sync::Semaphore::new(0));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        runtime.shutdown_background();
        let _entered = handle.enter();
        assert!(wait_within(semaphore.acquire(), Duration::from_millis(1)).is_none());
    }
}
