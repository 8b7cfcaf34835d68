//! Commands to a running player, and its status.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::PlayError;
use crate::limits::PLAY_ORDERS_MAX;

/// The state of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlayStatus {
    /// Messages published, those of `/clock` not counted.
    pub messages: u64,
    /// Bytes of those, encoded as recorded.
    pub bytes: u64,
    /// Messages published on `/clock`.
    pub clock_messages: u64,
    /// Messages left out because a recorder has added them since the player was opened, and they are
    /// larger than any of their topic until then.
    pub left_out: u64,
    /// How often the end was reached.
    pub rounds: u64,
    /// Position, from the start of playing.
    pub position: Duration,
    /// From the beginning to the last message.
    pub length: Duration,
    /// The most that a message came after its time, in this process's view.
    pub late_max: Duration,
    /// Speed: 2.0 is twice as fast as was recorded.
    pub rate: f64,
    /// Whether it is paused.
    pub paused: bool,
}

/// A place to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaySeek {
    /// A time of the recording, nanoseconds since the Unix epoch.
    Time(u64),
    /// From the start of playing.
    Offset(Duration),
    /// This far ahead.
    Ahead(Duration),
    /// This far back.
    Back(Duration),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PlayOrder {
    Pause,
    Resume,
    Toggle,
    Burst(u64),
    Rate(f64),
    Seek(PlaySeek),
}

/// Controls a player, from any thread; clones control the same one. A player follows commands in order,
/// within some milliseconds; commands from before it ran, too.
///
/// ```no_run
/// # use livebag::{PlayOptions, PlaySeek, Player, StreamOutput};
/// let mut player = Player::open(&["run1"], PlayOptions::default(), &mut StreamOutput::default())?;
/// let control = player.control();
/// let played = std::thread::Builder::new().spawn(move || player.run(&mut |_| {}))?;
/// control.set_rate(2.0)?;
/// control.seek(PlaySeek::Offset(std::time::Duration::from_secs(60)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PlayControl(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    orders: Mutex<VecDeque<PlayOrder>>,
    /// Whether there are orders: written under their lock, read without it.
    is_told: AtomicBool,
    stop: AtomicBool,
    status: Mutex<PlayStatus>,
}

impl PlayControl {
    /// Stands still after the message that is being published.
    pub fn pause(&self) {
        self.order(PlayOrder::Pause);
    }

    /// Continues.
    pub fn resume(&self) {
        self.order(PlayOrder::Resume);
    }

    /// Pauses or resumes.
    pub fn toggle(&self) {
        self.order(PlayOrder::Toggle);
    }

    /// Publishes the next message of a paused player, whose position is then that message's time. Does
    /// nothing while it plays.
    pub fn step(&self) {
        self.burst(1);
    }

    /// The same with the next `count` messages, one after the other without waiting for their times.
    pub fn burst(&self, count: u64) {
        self.order(PlayOrder::Burst(count));
    }

    /// Changes the speed.
    ///
    /// # Errors
    /// If it is not above 0.
    pub fn set_rate(&self, rate: f64) -> Result<(), PlayError> {
        check_rate(rate)?;
        self.order(PlayOrder::Rate(rate));
        Ok(())
    }

    /// Seeks, forward or backward; a position outside the played range is moved to the nearest end. A paused player
    /// stays paused.
    pub fn seek(&self, to: PlaySeek) {
        self.order(PlayOrder::Seek(to));
    }

    /// Ends playing.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it has been stopped.
    pub fn is_stopped(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// The state at the moment.
    pub fn status(&self) -> PlayStatus {
        *lock(&self.0.status)
    }

    /// More than [`PLAY_ORDERS_MAX`] waiting commands are ignored.
    fn order(&self, order: PlayOrder) {
        let mut orders = lock(&self.0.orders);
        if orders.len() < PLAY_ORDERS_MAX {
            orders.push_back(order);
        }
        self.0.is_told.store(true, Ordering::Relaxed);
    }

    /// The next thing to do.
    pub(super) fn next_order(&self) -> Option<PlayOrder> {
        if !self.0.is_told.load(Ordering::Relaxed) {
            return None;
        }
        let mut orders = lock(&self.0.orders);
        let order = orders.pop_front();
        if order.is_none() {
            self.0.is_told.store(false, Ordering::Relaxed);
        }
        order
    }

    pub(super) fn tell(&self, status: &PlayStatus) {
        *lock(&self.0.status) = *status;
    }
}

/// The guarded data is consistent between any two instructions.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn check_rate(rate: f64) -> Result<(), PlayError> {
    if rate.is_finite() && rate > 0.0 { Ok(()) } else { Err(PlayError::Rate { found: rate }) }
}
