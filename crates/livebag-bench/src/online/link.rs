//! `auto` over slow links (Figure 15).
//!
//! The link is a relay that passes bytes at a rate and has a buffer of about 50 ms, like a radio, and loses no packets;
//! or a [`Namespace`], whose kernel does the same and loses some.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use livebag_net::remote::{Question, RemoteOptions, RemoteRecording};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;

use super::namespace::Namespace;
use super::world::World;
use super::{OnlineArgs, Outcome, failed};
use crate::clock;
use crate::error::Result;
use crate::report::{figure, row};
use crate::stats::{Durations, median};

/// Links in Mbit/s; the last changes between these every 2 s.
const LINKS: [(&str, &[f64]); 4] = [
    ("10", &[10.0]),
    ("50", &[50.0]),
    ("200", &[200.0]),
    ("10/50/200 by turns", &[10.0, 50.0, 200.0]),
];
const CHANGE_NANOS: u64 = 2_000_000_000;
const WITHIN_MS: f64 = 1000.0;
/// An answer that has arrived by then counts as in time.
const IN_TIME_MS: f64 = 1200.0;

/// Requests as much as arrives in a second.
pub fn measure(
    args: &OnlineArgs,
    namespace: Option<Namespace>,
    directory: &Path,
    outcome: &mut Outcome,
) -> Result<()> {
    let world = World::begin(directory, &[])?;
    clock::sleep(5_000_000_000);
    let (kind, loss_pct, useful) = match &namespace {
        Some(namespace) => ("namespace", namespace.loss_pct, namespace.useful()),
        None => ("relay", 0, 1.0),
    };
    let namespace = namespace.map(Arc::new);
    for (name, rates) in LINKS {
        let server = world.server.addresses()[0];
        let relay = match &namespace {
            Some(namespace) => Relay::of_namespace(namespace.clone(), server, rates)?,
            None => Relay::begin(server, rates)?,
        };
        let url = format!("http://{}/uav", relay.address);
        let bag =
            RemoteRecording::open(&url, RemoteOptions::default()).map_err(failed("asking"))?;
        let (mut times, mut used) = (Vec::new(), Vec::new());
        for request in 0..args.requests(40, 4) {
            if rates.len() > 1 {
                // Questions fall anywhere between two changes.
                clock::sleep(u64::from(request % 7) * 137_000_000);
            }
            let began = clock::monotonic_nanos();
            let could = relay.carried(began, began + WITHIN_MS as u64 * 1_000_000) * useful;
            let question = Question::auto("1s", None, &[]);
            let answer = bag.messages(&question, &["/image1".into(), "/image2".into()]);
            let mut answer = answer.map_err(failed("asking"))?;
            let (mut bytes, mut messages) = (0u64, 0u64);
            while let Some(message) = answer.next_message().map_err(failed("reading"))? {
                bytes += message.data.len() as u64;
                messages += 1;
            }
            let millis = (clock::monotonic_nanos() - began) as f64 / 1e6;
            times.push(millis);
            used.push(bytes as f64 * 100.0 / could);
            outcome.runs.push(row(&json!({
                "system": "livebag", "query": "auto", "link_mbit": name, "link": kind,
                "loss_pct": loss_pct, "client_ms": millis,
                "bytes": bytes, "messages": messages, "used_pct": bytes as f64 * 100.0 / could,
            })));
        }
        let client = Durations::of(times.iter().map(|ms| (ms * 1e6) as u64));
        let in_time = times.iter().filter(|&&ms| ms <= IN_TIME_MS).count();
        let at = |percent| figure(client.percentile_us(percent).map(|us| us / 1000.0));
        let mut found = row(&json!({
            "system": "livebag", "query": "auto", "topic": "group A", "clients": 1,
            "link_mbit": name, "link": kind, "loss_pct": loss_pct, "requests": times.len(),
        }));
        found.insert("client_p50_ms".into(), at(50.0));
        found.insert("client_p95_ms".into(), at(95.0));
        found.insert("used_pct".into(), figure(median(&used)));
        let least = used.iter().copied().reduce(f64::min);
        found.insert("used_least_pct".into(), figure(least));
        found.insert(
            "in_time_pct".into(),
            figure(Some(in_time as f64 * 100.0 / times.len() as f64)),
        );
        outcome.rows.push(found);
    }
    world.end()?;
    Ok(())
}

/// Passes bytes on at a rate.
struct Relay {
    address: std::net::SocketAddr,
    rates: &'static [f64],
    began_nanos: u64,
    stop: Arc<AtomicBool>,
    passed: Arc<AtomicU64>,
}

fn rate_at(rates: &[f64], began: u64, now: u64) -> f64 {
    let turn = now.saturating_sub(began) / CHANGE_NANOS;
    rates[turn as usize % rates.len()] * 1e6 / 8.0
}

impl Relay {
    fn begin(server: std::net::SocketAddr, rates: &'static [f64]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("listening"))?;
        let address = listener.local_addr().map_err(failed("listening"))?;
        let began_nanos = clock::monotonic_nanos();
        let (stop, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), passed.clone());
        let accept = move || {
            while let Ok((asker, _)) = listener.accept() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let counted = counted.clone();
                let relayed = move || {
                    // A link that breaks is what links do.
                    let _ = relay(asker, server, rates, began_nanos, &counted);
                };
                let _ = std::thread::Builder::new().name("bench-relay".into()).spawn(relayed);
            }
        };
        std::thread::Builder::new()
            .name("bench-link".into())
            .spawn(accept)
            .map_err(failed("starting a thread"))?;
        Ok(Self { address, rates, began_nanos, stop, passed })
    }

    /// The same as the loopback interface of a namespace: the server is asked itself.
    fn of_namespace(
        namespace: Arc<Namespace>,
        server: std::net::SocketAddr,
        rates: &'static [f64],
    ) -> Result<Self> {
        namespace.shape(rates[0]).map_err(failed("shaping the link"))?;
        let began_nanos = clock::monotonic_nanos();
        let (stop, passed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let stopped = stop.clone();
        let change = move || {
            for turn in 1u64.. {
                clock::sleep_until(began_nanos + turn * CHANGE_NANOS);
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                // A rate that stays shows in the figures.
                let _ = namespace.shape(rates[turn as usize % rates.len()]);
            }
        };
        if rates.len() > 1 {
            let thread = std::thread::Builder::new().name("bench-link".into()).spawn(change);
            thread.map_err(failed("starting a thread"))?;
        }
        Ok(Self { address: server, rates, began_nanos, stop, passed })
    }

    /// Bytes that the link can carry between two times.
    fn carried(&self, from: u64, to: u64) -> f64 {
        let step = 10_000_000;
        (from..to).step_by(step).map(|now| rate_at(self.rates, self.began_nanos, now)).sum::<f64>()
            * step as f64
            / 1e9
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        std::hint::black_box(self.passed.load(Ordering::Relaxed));
    }
}

fn relay(
    asker: TcpStream,
    server: std::net::SocketAddr,
    rates: &'static [f64],
    began: u64,
    passed: &AtomicU64,
) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    let slowest = rates.iter().copied().fold(f64::MAX, f64::min) * 1e6 / 8.0;
    // The radio's buffer: 50 ms of its slowest rate, at least the amount that TCP needs.
    set_socket_recv_buffer_size(&server, ((slowest * 0.05) as usize).max(32 << 10))?;
    asker.set_nodelay(true)?;
    let (mut up_from, mut up_to) = (asker.try_clone()?, server.try_clone()?);
    let up = move || {
        let _ = std::io::copy(&mut up_from, &mut up_to);
        let _ = up_to.shutdown(Shutdown::Write);
    };
    std::thread::Builder::new().name("bench-relay-up".into()).spawn(up)?;
    let (mut from, mut to) = (server, asker);
    let mut bytes = vec![0; 16 << 10];
    let mut due = clock::monotonic_nanos();
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            return to.shutdown(Shutdown::Both);
        }
        let now = clock::monotonic_nanos();
        let rate = rate_at(rates, began, now);
        // Time in which nothing was sent is not made up for.
        due = due.max(now.saturating_sub(2_000_000)) + (read as f64 / rate * 1e9) as u64;
        clock::sleep_until(due);
        to.write_all(&bytes[..read])?;
        passed.fetch_add(read as u64, Ordering::Relaxed);
    }
}
