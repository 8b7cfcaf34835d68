//! Ctrl-C and its like, as something to wait for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::outcome::{CliError, Outcome};
use crate::record::control::Order;

/// From its making on, the first SIGINT, SIGTERM or SIGHUP ends what the verb does, in order; the
/// second ends the process at once.
pub struct Interrupt {
    arrived: Arc<AtomicBool>,
    signals: Receiver<()>,
}

impl Interrupt {
    /// Begins to watch.
    pub fn watch() -> Result<Self, CliError> {
        let refused =
            |error| CliError::failed(format!("watching for Ctrl-C is not possible: {error}"));
        let mut incoming = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
        let arrived = Arc::new(AtomicBool::new(false));
        let (sender, signals) = sync_channel(1);
        let flag = arrived.clone();
        let watch = move || {
            for _ in incoming.forever() {
                if flag.swap(true, Ordering::Relaxed) {
                    eprintln!("livebag: interrupted again: stopping at once");
                    std::process::exit(Outcome::Failed as i32);
                }
                // A full channel holds what this would say.
                let _ = sender.try_send(());
            }
        };
        std::thread::Builder::new().name("livebag-signals".into()).spawn(watch).map_err(refused)?;
        Ok(Self { arrived, signals })
    }

    /// Waits, at most for `time`; whether an interruption has come, now or before.
    pub fn wait(&self, time: Duration) -> bool {
        if self.has_come() {
            return true;
        }
        !matches!(self.signals.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Whether an interruption has come.
    pub fn has_come(&self) -> bool {
        self.arrived.load(Ordering::Relaxed)
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

    /// What has been asked for since the last look.
    pub fn take(&self) -> Vec<Order> {
        let asked = [(&self.split, Order::Split), (&self.snapshot, Order::Snapshot)];
        let asked = asked.into_iter().filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        asked.map(|(_, order)| order).collect()
    }
}
