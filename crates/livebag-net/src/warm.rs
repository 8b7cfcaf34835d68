//! The newest messages of a live recording, for who asks for them again and again.
//!
//! A recorder writes large frames past the page cache, so the first who asks for one waits for the device.
//! While somebody asks for the last seconds of a topic, the kernel is asked to fetch what has just been
//! committed of it, so that the next question finds it there. Only while, only those topics, and only so
//! much ([`WARM_BYTES_MAX`]): the device is the recorder's.

use std::sync::{Arc, Mutex, PoisonError};

use livebag::{BagState, Query, Span};
use tokio::sync::Notify;

use crate::catalog::ServedBag;
use crate::limits::{WARM_BYTES_MAX, WARM_INTEREST, WARM_INTERVAL, WARM_TOPICS_MAX};

/// What is asked for.
#[derive(Default)]
pub struct Warm {
    wanted: Mutex<Vec<Wanted>>,
    /// There is something again.
    begun: Notify,
}

#[derive(Clone)]
struct Wanted {
    served: Arc<ServedBag>,
    topics: Vec<String>,
    until_nanos: u64,
    /// Log time up to which messages have been fetched.
    fetched_nanos: u64,
}

impl Wanted {
    fn is(&self, served: &ServedBag, topics: &[String]) -> bool {
        self.served.name() == served.name() && self.topics == topics
    }

    /// Fetches what is new; whether there may be more to come.
    fn fetch(&mut self) -> bool {
        let Ok(bag) = self.served.bag() else { return false };
        let span = Span::History(self.fetched_nanos.saturating_add(1), u64::MAX);
        let query = Query { topics: self.topics.clone(), span };
        // A hint: what fails here is told to who asks for it.
        if let Ok(Some(newest)) = bag.will_need(&query, WARM_BYTES_MAX) {
            self.fetched_nanos = newest;
        }
        bag.state() == BagState::Live
    }
}

impl Warm {
    /// Somebody asks for the newest messages of some topics of a live recording.
    pub fn asked(&self, served: &Arc<ServedBag>, topics: &[String], now: u64) {
        let until_nanos = now.saturating_add(WARM_INTEREST.as_nanos() as u64);
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = wanted.iter_mut().find(|known| known.is(served, topics)) {
            known.until_nanos = until_nanos;
        } else if wanted.len() < WARM_TOPICS_MAX {
            let (served, topics) = (served.clone(), topics.to_vec());
            wanted.push(Wanted { served, topics, until_nanos, fetched_nanos: 0 });
            self.begun.notify_one();
        }
    }

    /// Fetches for everybody who still asks; whether anybody does.
    fn fetch(&self, now: u64) -> bool {
        let lock = || self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody who asks waits for the device here.
        let before = lock().clone();
        let mut kept = before.clone();
        kept.retain_mut(|wanted| wanted.until_nanos > now && wanted.fetch());
        let mut known = lock();
        known.retain_mut(|known| {
            let is_same = |other: &&Wanted| other.is(&known.served, &known.topics);
            if let Some(kept) = kept.iter().find(is_same) {
                known.fetched_nanos = kept.fetched_nanos;
                return true;
            }
            // What came meanwhile stays.
            !before.iter().any(|other| is_same(&other))
        });
        !known.is_empty()
    }
}

/// Fetches as long as the server runs. `now` is the time that [`Warm::asked`] is told.
pub async fn keep_warm(warm: Arc<Warm>, now: impl Fn() -> u64) {
    loop {
        warm.begun.notified().await;
        loop {
            let (round, now) = (warm.clone(), now());
            let fetched = tokio::task::spawn_blocking(move || round.fetch(now)).await;
            if !fetched.unwrap_or(false) {
                break;
            }
            tokio::time::sleep(WARM_INTERVAL).await;
        }
    }
}
