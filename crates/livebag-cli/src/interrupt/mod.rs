//! Ctrl-C and its like, as something to wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use livebag::Clock;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::control::Order;
use crate::outcome::{CliError, Outcome};

mod ending;

use ending::{Ending, GRACE, Reaction};

/// State: running, ending in order, or discarding waiting messages.
const RUNNING: u8 = 0;
const CLOSING: u8 = 1;
const ABANDONING: u8 = 2;

/// Environment variable with the seconds in which further signals change nothing.
pub const GRACE_VARIABLE: &str = "LIVEBAG_INTERRUPT_GRACE";

/// Said when the process ends before its work does.
const EXIT: &str = "stopped at once: unfinished work is lost";
/// The same of a recorder.
const EXIT_RECORDING: &str = "stopped at once: the recording is not closed, and discarded messages are not counted; \
                              `livebag recover` keeps what it has";

/// Once it exists, the first SIGINT, SIGTERM or SIGHUP ends the verb in order. Further ones within three seconds change
/// nothing: launchers and containers send several. A later signal stops the process at once. If the verb closes a
/// recording, the second discards waiting messages, and the third, three seconds later, stops the process.
pub struct Interrupt {
    asked: Arc<AtomicU8>,
    signals: Receiver<()>,
    grace: Duration,
}

impl Interrupt {
    /// Starts watching, for a verb that has nothing to discard.
    pub fn watch() -> Result<Self, CliError> {
        Self::watch_with(false)
    }

    /// Starts watching, for a verb that closes a recording and polls [`Interrupt::abandons`].
    pub fn watch_recording() -> Result<Self, CliError> {
        Self::watch_with(true)
    }

    fn watch_with(abandons: bool) -> Result<Self, CliError> {
        let grace = grace()?;
        let mut ending = Ending::new(abandons, grace);
        let refused =
            |error| CliError::failed(format!("watching for Ctrl-C is not possible: {error}"));
        let mut incoming = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
        let asked = Arc::new(AtomicU8::new(RUNNING));
        // At most one signal waits: a full channel already holds the same message.
        let (sender, signals) = sync_channel(1);
        let (clock, shared) = (Clock::system(), asked.clone());
        let watch = move || {
            for _ in incoming.forever() {
                match ending.signal(clock.monotonic_nanos()) {
                    Reaction::Close => shared.store(CLOSING, Ordering::Relaxed),
                    Reaction::Remind if abandons => {}
                    Reaction::Remind => say!(
                        "livebag: ending; interrupt again after {} s to stop at once",
                        grace.as_secs()
                    ),
                    Reaction::Ignore => {}
                    Reaction::Abandon => shared.store(ABANDONING, Ordering::Relaxed),
                    Reaction::Exit => {
                        say!("livebag: {}", if abandons { EXIT_RECORDING } else { EXIT });
                        std::process::exit(Outcome::Failed as i32);
                    }
                }
                let _ = sender.try_send(());
            }
        };
        std::thread::Builder::new().name("livebag-signals".into()).spawn(watch).map_err(refused)?;
        Ok(Self { asked, signals, grace })
    }

    /// Time after a signal that counted in which further ones change nothing.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Waits at most for `time`; returns whether an interruption has come, now or before.
    pub fn wait(&self, time: Duration) -> bool {
        if self.has_come() {
            return true;
        }
        !matches!(self.signals.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Waits at most for `time` for the next signal; returns whether one has come.
    pub fn wait_for_next(&self, time: Duration) -> bool {
        self.signals.recv_timeout(time).is_ok()
    }

    /// Whether the process was interrupted.
    pub fn has_come(&self) -> bool {
        self.asked.load(Ordering::Relaxed) != RUNNING
    }

    /// Whether what still waits is to be given up.
    pub fn abandons(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == ABANDONING
    }
}

/// Three seconds, or what `LIVEBAG_INTERRUPT_GRACE` says.
fn grace() -> Result<Duration, CliError> {
    match std::env::var(GRACE_VARIABLE) {
        Err(_) => Ok(GRACE),
        Ok(text) => text.parse().map(Duration::from_secs).map_err(|_| {
            CliError::usage(format!("{GRACE_VARIABLE}: `{text}` is no number of seconds"))
        }),
    }
}

/// What signals ask a recorder for: USR1 a new split, USR2 a snapshot.
pub struct SignalOrders {
    split: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
}

impl SignalOrders {
    /// Begins to watch.
    pub fn watch() -> Result<Self, CliError> {
        let this = Self { split: Arc::default(), snapshot: Arc::default() };
        for (signal, flag) in [(SIGUSR1, &this.split), (SIGUSR2, &this.snapshot)] {
            signal_hook::flag::register(signal, flag.clone()).map_err(|error| {
                CliError::failed(format!("watching for signals is not possible: {error}"))
            })?;
        }
        Ok(this)
    }

    /// Commands received since the last poll.
    pub fn take(&self) -> Vec<Order> {
        let asked = [(&self.split, Order::Split), (&self.snapshot, Order::Snapshot)];
        let asked = asked.into_iter().filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        asked.map(|(_, order)| order).collect()
    }
}
