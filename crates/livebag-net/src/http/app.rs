//! What all requests share, and the turns in which they are answered.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use livebag::Clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cookie::Pass;
use super::error::HttpError;
use super::guard::Secrets;
use super::serve::AnswerTiming;
use crate::answer::{AnswerError, Outlet, Pieces};
use crate::catalog::{Catalog, ServedRecording};
use crate::limits::{
    ANSWERS_PER_ADDRESS_MAX, GIVE_BACK_BYTES_MIN, GIVE_BACK_INTERVAL, NAME_BYTES_MAX, ServerLimits,
};
use crate::link::KnownLinks;
use crate::live::{Seats, Viewer};
use crate::pool::{Pool, trim};
use crate::tell::ServerStatus;
use crate::zenoh::Others;

/// Timings kept for benchmarks.
const TIMINGS_MAX: usize = 4096;

/// What all requests share.
pub struct App {
    pub catalog: Arc<Catalog>,
    pub secrets: Secrets,
    pub clock: Clock,
    pub limits: ServerLimits,
    pub pool: Pool,
    pub links: KnownLinks,
    /// Live sockets.
    pub seats: Arc<Seats>,
    /// The viewer that the user has brought.
    pub viewer: Option<Viewer>,
    /// What other robots record.
    pub robots: Option<Arc<Others>>,
    /// What the page's login gives a browser; none without a token.
    pub pass: Option<Pass>,
    /// Whether clients come by TLS.
    pub is_encrypted: bool,
    turns: Arc<Semaphore>,
    /// Answers being built, by client.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    pub connections: AtomicUsize,
    answers: AtomicUsize,
    answered: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    timings: Mutex<VecDeque<AnswerTiming>>,
}

impl App {
    pub fn new(
        catalog: Arc<Catalog>,
        secrets: Secrets,
        clock: Clock,
        limits: ServerLimits,
    ) -> Self {
        Self {
            catalog,
            pass: secrets.has_token().then(Pass::new).flatten(),
            is_encrypted: false,
            secrets,
            clock,
            limits,
            pool: Pool::new(limits.answer_bytes_max),
            links: KnownLinks::default(),
            seats: Arc::new(Seats::new(limits.live_sockets_max)),
            viewer: None,
            robots: None,
            turns: Arc::new(Semaphore::new(limits.answers_max)),
            by_address: Mutex::default(),
            connections: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            timings: Mutex::default(),
        }
    }

    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            library: concat!("livebag ", env!("CARGO_PKG_VERSION")).into(),
            connections: self.connections.load(Ordering::Relaxed),
            answers: self.answers.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            held_bytes: self.pool.held_bytes() as u64,
            live_sockets: self.seats.count(),
            viewer: self.viewer.is_some(),
            robots: self.robots.is_some(),
        }
    }

    pub fn take_timings(&self) -> Vec<AnswerTiming> {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    pub fn container(&self, name: &str) -> Result<Arc<ServedRecording>, HttpError> {
        let shown = || HttpError::NoBag(name.chars().take(100).collect());
        if name.len() > NAME_BYTES_MAX {
            return Err(shown());
        }
        let served = self.catalog.container(name).ok_or_else(shown)?;
        if !served.is_open() {
            self.catalog.close_unused();
        }
        Ok(served)
    }

    /// Waits for the right to lay an answer out.
    pub async fn turn(self: &Arc<Self>, peer: IpAddr) -> Result<Turn, HttpError> {
        {
            let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            let count = by_address.entry(peer).or_default();
            if *count >= ANSWERS_PER_ADDRESS_MAX && !peer.is_loopback() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(HttpError::Busy("too many answers are under way to this address"));
            }
            *count += 1;
        }
        let mut turn = Turn { app: self.clone(), peer, permit: None };
        let waiting = self.turns.clone().acquire_owned();
        match tokio::time::timeout(self.limits.turn_timeout, waiting).await {
            Ok(Ok(permit)) => {
                turn.permit = Some(permit);
                self.answers.fetch_add(1, Ordering::Relaxed);
                Ok(turn)
            }
            _ => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(HttpError::Busy("too many answers are under way"))
            }
        }
    }
}

/// The right to lay one answer out and to send it: given back once the network has the last byte.
pub struct Turn {
    pub app: Arc<App>,
    peer: IpAddr,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.app.answers.fetch_sub(1, Ordering::Relaxed);
        }
        let mut by_address = self.app.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.peer);
            }
        }
    }
}

/// An answer being laid out.
pub struct Answer {
    pub pieces: Pieces,
    /// Kept by the thread that lays it out, and by every piece until the network has it.
    pub turn: Arc<Turn>,
}

/// Lays an answer out on a separate thread.
pub fn lay_out(
    turn: Turn,
    asked_nanos: u64,
    work: impl FnOnce(&App, &mut Outlet) -> Result<(), AnswerError> + Send + 'static,
) -> Answer {
    let runtime = tokio::runtime::Handle::current();
    let (mut outlet, pieces) =
        Outlet::new(&turn.app.pool, &turn.app.clock, &runtime, turn.app.limits.progress_timeout);
    let turn = Arc::new(turn);
    let answer = Answer { pieces, turn: turn.clone() };
    tokio::task::spawn_blocking(move || {
        let app = &turn.app;
        let result = work(app, &mut outlet);
        let timing = AnswerTiming {
            busy_nanos: outlet.busy_nanos(),
            total_nanos: app.clock.monotonic_nanos().saturating_sub(asked_nanos),
            bytes: outlet.bytes(),
        };
        app.answered.fetch_add(1, Ordering::Relaxed);
        app.bytes.fetch_add(outlet.bytes(), Ordering::Relaxed);
        let mut timings = app.timings.lock().unwrap_or_else(PoisonError::into_inner);
        if timings.len() == TIMINGS_MAX {
            timings.pop_front();
        }
        timings.push_back(timing);
        drop(timings);
        outlet.end(result);
    });
    answer
}

/// Returns memory to the system when no answer is in progress, while the server runs.
pub async fn give_back(pool: Pool) {
    let mut taken = 0;
    loop {
        tokio::time::sleep(GIVE_BACK_INTERVAL).await;
        let now = pool.taken_bytes();
        if now - taken >= GIVE_BACK_BYTES_MIN as u64 && pool.held_bytes() == 0 {
            taken = now;
            pool.forget_spares();
            // It may take some milliseconds for each 100 MB.
            let _ = tokio::task::spawn_blocking(trim).await;
        }
    }
}
