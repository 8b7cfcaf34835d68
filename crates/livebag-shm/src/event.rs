//! Something that an event loop can hold: an eventfd, fed by a small thread that sleeps for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::EventfdFlags;

use crate::clock;
use crate::limits::SLEEP_NANOS_MAX;
use crate::region::Region;
use crate::wait::Word;

/// A descriptor that is readable when frames were published since the last
/// [`FrameEvent::drain`]. Made by [`crate::Reader::event`].
///
/// Costs a thread named `livebag-event`, which ends within a tenth of a second of the drop.
#[derive(Debug)]
pub struct FrameEvent {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    region: Arc<Region>,
    event: OwnedFd,
    is_over: AtomicBool,
}

impl FrameEvent {
    pub(crate) fn new(region: Arc<Region>) -> io::Result<FrameEvent> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let from = region.latest();
        let shared = Arc::new(Shared { region, event, is_over: AtomicBool::new(false) });
        let feeder = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("livebag-event".to_owned())
            .stack_size(64 << 10)
            .spawn(move || feeder.feed(from))?;
        Ok(FrameEvent { shared })
    }

    /// Makes the descriptor not readable, and returns how often frames were announced since the last
    /// time (several frames may be announced as one).
    pub fn drain(&self) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(&self.shared.event, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl Shared {
    fn feed(&self, mut seen: u64) {
        // Acquire: pairs with the release store in `drop`.
        while !self.is_over.load(Ordering::Acquire) {
            let deadline = clock::monotonic_nanos().saturating_add(SLEEP_NANOS_MAX);
            if self.region.sleep(Word::Latest, seen, deadline) {
                seen = self.region.latest();
                // Fails only when the count is full, and then it is readable anyway.
                let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
            }
        }
    }
}

impl AsFd for FrameEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl AsRawFd for FrameEvent {
    fn as_raw_fd(&self) -> RawFd {
        self.shared.event.as_raw_fd()
    }
}

impl Drop for FrameEvent {
    fn drop(&mut self) {
        // Release: pairs with the acquire load in `feed`.
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.region.rouse(Word::Latest);
    }
}
