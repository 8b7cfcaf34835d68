//! Many clients during a recording at 500 MB/s (Figure 16).

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use livebag::{Recorder, RecorderOptions, Selector};
use livebag_net::remote::Question;
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use serde_json::json;

use super::world::World;
use super::{OnlineArgs, Outcome, failed};
use crate::clock;
use crate::error::Result;
use crate::report::{figure, row};
use crate::stats::Durations;

/// Askers at once.
const CLIENTS: [usize; 4] = [1, 4, 16, 64];
/// The recording meanwhile: FullHD cameras of 6.2 MB at 27 Hz, 0.5 GB/s.
const CAMERAS: usize = 3;
const CAMERA_RATE_HZ: f64 = 27.0;
/// Every client requests this of an image topic of 9 MB/s.
const ASKED_SECONDS: u64 = 1;

/// Asks with 1 to 64 clients.
pub fn measure(args: &OnlineArgs, directory: &Path, outcome: &mut Outcome) -> Result<()> {
    let world = World::begin(directory, &[])?;
    let load = Load::begin(&directory.join("load"))?;
    clock::sleep(4_000_000_000);
    for clients in CLIENTS {
        let requests = args.requests(256, 64).max(clients as u32) as usize;
        world.server.take_timings();
        let began = clock::monotonic_nanos();
        let found = ask_all(&world, clients, requests)?;
        let seconds = (clock::monotonic_nanos() - began) as f64 / 1e9;
        clock::sleep(20_000_000);
        let timings = world.server.take_timings();
        let server = Durations::of(timings.iter().map(|timing| timing.busy_nanos));
        let client = Durations::of(found.nanos.iter().copied());
        let at = |durations: &Durations, percent| {
            figure(durations.percentile_us(percent).map(|us| us / 1000.0))
        };
        let mut row = row(&json!({
            "system": "livebag", "query": "history", "topic": "image", "clients": clients,
            "requests": requests, "asked": found.asked, "missing": found.missing,
            "lost": load.lost(), "refused": found.refused,
        }));
        row.insert("server_p50_ms".into(), at(&server, 50.0));
        row.insert("server_p99_ms".into(), at(&server, 99.0));
        row.insert("client_p50_ms".into(), at(&client, 50.0));
        row.insert("client_p95_ms".into(), at(&client, 95.0));
        row.insert("mb_per_s".into(), figure(Some(found.bytes as f64 / 1e6 / seconds)));
        outcome.runs.push(row.clone());
        outcome.rows.push(row);
    }
    let (messages, lost) = load.end()?;
    let uav = world.end()?.totals().2.total();
    for row in &mut outcome.rows {
        if row.get("clients").and_then(serde_json::Value::as_u64).is_some()
            && row.contains_key("mb_per_s")
        {
            row.insert("recorded_beside".into(), messages.into());
            row.insert("lost_beside".into(), (lost + uav).into());
        }
    }
    Ok(())
}

#[derive(Default)]
struct Found {
    nanos: Vec<u64>,
    asked: usize,
    missing: usize,
    refused: usize,
    bytes: u64,
}

fn ask_all(world: &World, clients: usize, requests: usize) -> Result<Found> {
    let found = Mutex::new(Found::default());
    let left = AtomicUsize::new(requests);
    let failure = Mutex::new(None);
    let take = || {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    };
    std::thread::scope(|scope| {
        for _ in 0..clients {
            let (found, failure, take) = (&found, &failure, &take);
            let work = move || {
                while take() {
                    if let Err(error) = ask(world, found) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            };
            // A thread that cannot be made asks nothing: the questions are the others'.
            let _ =
                std::thread::Builder::new().name("bench-asker".into()).spawn_scoped(scope, work);
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn ask(world: &World, found: &Mutex<Found>) -> Result<()> {
    // Certainly committed: 0.2 s before now.
    let to = clock::realtime_nanos() - 200_000_000;
    let from = to - ASKED_SECONDS * 1_000_000_000;
    let published = world.published(&["/image1"], from, to);
    let question = Question::history(Some(&from.to_string()), Some(&to.to_string()));
    let began = clock::monotonic_nanos();
    let mut messages = loop {
        match world.bag.messages(&question, &["/image1".into()]) {
            Ok(messages) => break messages,
            // The server refuses when it has too many: the client repeats the request, as instructed.
            Err(livebag_net::remote::RemoteError::Refused { status: 503, .. }) => {
                found.lock().unwrap_or_else(PoisonError::into_inner).refused += 1;
                clock::sleep(50_000_000);
            }
            Err(error) => return Err(failed("asking")(error)),
        }
    };
    let (mut count, mut bytes) = (0, 0);
    while let Some(message) = messages.next_message().map_err(failed("reading an answer"))? {
        count += 1;
        bytes += message.data.len() as u64;
    }
    let nanos = clock::monotonic_nanos() - began;
    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
    found.nanos.push(nanos);
    found.asked += published;
    found.missing += published.saturating_sub(count);
    found.bytes += bytes;
    Ok(())
}

/// A recording of cameras at 0.5 GB/s.
struct Load {
    recorder: Recorder,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Load {
    fn begin(directory: &Path) -> Result<Self> {
        let mut writers = Vec::new();
        let mut names = Vec::new();
        for camera in 0..CAMERAS {
            let name = format!("bench-online-{}-{camera}", std::process::id());
            let options = StreamOptions::image(1920, 1080, 3).slots(8).remove_on_drop(true);
            writers.push(Writer::create(&name, &options).map_err(failed("making a stream"))?);
            names.push(name);
        }
        let recorder = Recorder::create(directory, RecorderOptions::default());
        let recorder = recorder.map_err(failed("recording"))?;
        let selector = Selector::names(names.iter().map(String::as_str));
        recorder.follow(selector).map_err(failed("following streams"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("bench-cameras".into())
            .spawn(move || publish(writers, &stopped))
            .map_err(failed("starting a thread"))?;
        Ok(Self { recorder, stop, thread })
    }

    fn lost(&self) -> u64 {
        self.recorder.status().totals().2.total()
    }

    fn end(self) -> Result<(u64, u64)> {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        let status = self.recorder.finish().map_err(failed("finishing"))?;
        let (messages, _, lost) = status.totals();
        Ok((messages, lost.total()))
    }
}

fn publish(mut writers: Vec<Writer>, stop: &AtomicBool) {
    let meta = FrameMeta::image(1920, 1080, 1920 * 3, "rgb8");
    let mut due = clock::monotonic_nanos() + 500_000_000;
    while !stop.load(Ordering::Relaxed) {
        for writer in &mut writers {
            clock::sleep_until(due);
            due += (1e9 / CAMERA_RATE_HZ / CAMERAS as f64) as u64;
            // The frame's contents are those of the slot, which cost nothing here.
            let _ = writer.loan().publish(&meta, 1920 * 1080 * 3);
        }
    }
    // Streams stay until the recorder has taken their last frames.
    clock::sleep(300_000_000);
}
