//! `livebag-bench page`: the requests of a page that shows a recording, and their cost for the recorder.

mod asker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::{Args, ValueEnum};
use livebag::{Clock, Message, Overflow, Recorder, RecorderOptions, Topic};
use livebag_format::cdr::{ImageHeader, image_prefix};
use livebag_net::{Catalog, Server, ServerOptions};
use serde_json::json;

use crate::clock;
use crate::error::{BenchError, Result};
use crate::online;
use crate::place::Place;
use crate::record::matrix::{self, CACHE_BYTES, check_run, in_new_directory};
use crate::record::{Mode, RunOptions, System, Workload};
use crate::report::{Row, figure, row};
use crate::stats::{Durations, median};
use asker::Asker;

/// The measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The timeline of an hour of 78 topics
    Timeline,
    /// From a place on the time axis to the pictures of eight FullHD cameras
    Scrub,
    /// The recorder at 1.49 GB/s with ten open pages
    Beside,
}

/// Options of `livebag-bench page`.
#[derive(Debug, Clone, Args)]
pub struct PageArgs {
    /// Only these parts
    #[arg(long, value_name = "PART")]
    pub part: Vec<Part>,
    /// Length of the recording whose timeline is asked for
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub length: u64,
    /// Runs of the recorder without and with pages, alternating
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub repeats: u32,
    /// Seconds of each of those
    #[arg(long, value_name = "S", default_value_t = 4.0)]
    pub seconds: f64,
    #[command(flatten)]
    pub place: Place,
}

impl PageArgs {
    fn has(&self, part: Part) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// The columns of the table.
pub const COLUMNS: &[&str] = &[
    "what",
    "requests",
    "messages",
    "server_first_ms",
    "server_p50_ms",
    "server_p99_ms",
    "client_p50_ms",
    "client_p95_ms",
    "mb",
    "pages",
    "lost",
    "gb_per_s",
    "cpu_s_per_gb",
];

/// Questions of each kind.
const QUESTIONS: u64 = 100;
/// Cameras of [`Part::Scrub`], and pictures of each.
const CAMERAS: usize = 8;
const PICTURES: u64 = 24;
/// Columns of the pictures that a page shows side by side.
const SHOWN_WIDTH: u32 = 480;
/// Open pages during the recording.
const PAGES: usize = 10;
/// Bins of a page as wide as a screen.
const BINS: u32 = 600;

/// Rows and single runs.
#[derive(Default)]
pub struct Outcome {
    /// One for each question.
    pub rows: Vec<Row>,
    /// Every run of the recorder.
    pub runs: Vec<Row>,
}

/// Measures all parts that are wanted.
pub fn measure(args: &PageArgs) -> Result<Outcome> {
    let directory = args.place.prepare()?;
    let scratch = tempfile::tempdir_in(&directory).map_err(failed("making a directory"))?;
    let mut outcome = Outcome::default();
    if args.has(Part::Timeline) {
        timeline(args, &scratch.path().join("hour"), &mut outcome)?;
    }
    if args.has(Part::Scrub) {
        scrub(&scratch.path().join("cameras"), &mut outcome)?;
    }
    if args.has(Part::Beside) {
        beside(args, scratch.path(), &mut outcome)?;
    }
    Ok(outcome)
}

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |error| BenchError::System { system: "page", doing, cause: error.to_string() }
}

fn serve(folder: &Path) -> Result<Server> {
    let catalog = Catalog::new(&[folder.to_owned()], Clock::system(), None);
    let catalog = Arc::new(catalog.map_err(failed("serving"))?);
    let listen = vec![std::net::SocketAddr::from(([127, 0, 0, 1], 0))];
    let options = ServerOptions { listen, ..ServerOptions::default() };
    Server::start(catalog, options).map_err(failed("serving"))
}

fn create(directory: &Path) -> Result<Recorder> {
    let options = RecorderOptions {
        overflow: Overflow::Block,
        chunk_age_max: None,
        ..RecorderOptions::default()
    };
    Recorder::create(directory, options).map_err(failed("recording"))
}

/// Figures of the last request.
fn figures(what: &str, server: &Server, clients: &[u64], bytes: u64) -> Row {
    // The time of the network's last byte is known a moment later.
    clock::sleep(50_000_000);
    let server = Durations::of(server.take_timings().iter().map(|timing| timing.busy_nanos));
    let client = Durations::of(clients.iter().copied());
    let at = |durations: &Durations, percent| {
        figure(durations.percentile_us(percent).map(|us| us / 1000.0))
    };
    let mut row = row(&json!({ "what": what, "requests": clients.len() }));
    row.insert("server_p50_ms".into(), at(&server, 50.0));
    row.insert("server_p99_ms".into(), at(&server, 99.0));
    row.insert("client_p50_ms".into(), at(&client, 50.0));
    row.insert("client_p95_ms".into(), at(&client, 95.0));
    row.insert("mb".into(), figure(Some(bytes as f64 / 1e6)));
    row
}

/// The messages of [`online`]'s UAV at their paces, small: their contents are not read.
fn record_hour(directory: &Path, seconds: u64) -> Result<(u64, u64)> {
    let recorder = create(directory)?;
    let topics = online::topics();
    let mut writers = Vec::new();
    for topic in &topics {
        let topic = Topic { name: topic.name.clone(), ..Topic::default() };
        writers.push(recorder.topic(topic).map_err(failed("adding a topic"))?);
    }
    let start = clock::realtime_nanos() - seconds * 1_000_000_000;
    let mut count = 0;
    for second in 0..seconds {
        for (topic, writer) in topics.iter().zip(&writers) {
            let rate = topic.rate_hz as u64;
            for number in 0..rate {
                let nanos = second * 1_000_000_000 + number * 1_000_000_000 / rate;
                let log_time_nanos = start + nanos;
                let sequence = second * rate + number;
                let message = Message {
                    log_time_nanos,
                    publish_time_nanos: log_time_nanos,
                    sequence,
                    data: &[0; 8],
                };
                writer.write_message(&message).map_err(failed("writing"))?;
                count += 1;
            }
        }
    }
    recorder.finish().map_err(failed("finishing"))?;
    Ok((start, count))
}

fn timeline(args: &PageArgs, directory: &Path, outcome: &mut Outcome) -> Result<()> {
    let (start, messages) = record_hour(directory, args.length)?;
    let server = serve(directory)?;
    let mut asker = Asker::new(server.addresses()[0]);
    asker.get(&format!("/v1/bags/hour/timeline?bins={BINS}"))?;
    clock::sleep(50_000_000);
    let first = server.take_timings().first().map(|timing| timing.busy_nanos as f64 / 1e6);
    let span = args.length * 1_000_000_000;
    for (what, part) in [("timeline, all", 1), ("timeline, a sixtieth", 60)] {
        let (mut nanos, mut bytes) = (Vec::new(), 0);
        for number in 0..QUESTIONS {
            let from = start + span / part * (number % part);
            let to = from + span / part;
            let target = format!("/v1/bags/hour/timeline?bins={BINS}&from={from}&to={to}");
            let began = clock::monotonic_nanos();
            bytes += asker.get(&target)?;
            nanos.push(clock::monotonic_nanos() - began);
        }
        let mut row = figures(what, &server, &nanos, bytes);
        row.insert("messages".into(), messages.into());
        row.insert("server_first_ms".into(), figure(first.filter(|_| part == 1)));
        outcome.rows.push(row);
    }
    Ok(())
}

fn record_cameras(directory: &Path) -> Result<u64> {
    let recorder = create(directory)?;
    let (width, height) = (1920, 1080);
    let mut writers = Vec::new();
    for camera in 0..CAMERAS {
        let topic = Topic {
            name: format!("/camera{camera}"),
            type_name: "sensor_msgs/msg/Image".into(),
            message_encoding: "cdr".into(),
            ..Topic::default()
        };
        writers.push(recorder.topic(topic).map_err(failed("adding a topic"))?);
    }
    let header =
        ImageHeader { width, height, step: width * 3, encoding: "rgb8", ..Default::default() };
    let mut message = Vec::new();
    image_prefix(&header, width * height * 3, &mut message);
    let head = message.len();
    message.resize(head + (width * height * 3) as usize, 0);
    // A scene of gradients with some noise, as an encoder meets it.
    for (at, byte) in message[head..].iter_mut().enumerate() {
        let (row, column) = (at / (3 * width as usize), at / 3 % width as usize);
        let noise = (at as u32).wrapping_mul(2_654_435_761) >> 29;
        *byte = (row / 8 + column / 12 + noise as usize) as u8;
    }
    let start = clock::realtime_nanos() - 1_000_000_000;
    for picture in 0..PICTURES {
        for writer in &writers {
            let log_time_nanos = start + picture * 33_333_333;
            let message = Message {
                log_time_nanos,
                publish_time_nanos: log_time_nanos,
                sequence: picture,
                data: &message,
            };
            writer.write_message(&message).map_err(failed("writing"))?;
        }
    }
    recorder.finish().map_err(failed("finishing"))?;
    Ok(start)
}

/// Each look asks for the pictures of all cameras at once, as a page does.
fn scrub(directory: &Path, outcome: &mut Outcome) -> Result<()> {
    let start = record_cameras(directory)?;
    let server = serve(directory)?;
    let address = server.addresses()[0];
    let mut askers: Vec<Asker> = (0..CAMERAS).map(|_| Asker::new(address)).collect();
    for (what, width) in [
        ("scrub, 8 pictures 480 wide", format!("&width={SHOWN_WIDTH}")),
        ("scrub, 8 pictures FullHD", String::new()),
    ] {
        let (mut nanos, mut bytes) = (Vec::new(), 0);
        for number in 0..QUESTIONS / 2 {
            let at = start + number * 7 % PICTURES * 33_333_333;
            let began = clock::monotonic_nanos();
            let asked = std::thread::scope(|scope| {
                let ask = |(camera, asker): (usize, &mut Asker)| {
                    asker.get(&format!(
                        "/v1/bags/cameras/message?topic=/camera{camera}&at={at}&format=jpeg{width}"
                    ))
                };
                let asking: Vec<_> = askers
                    .iter_mut()
                    .enumerate()
                    .map(|each| scope.spawn(move || ask(each)))
                    .collect();
                asking.into_iter().map(|asking| asking.join()).collect::<Vec<_>>()
            });
            nanos.push(clock::monotonic_nanos() - began);
            for asked in asked {
                bytes += asked.unwrap_or_else(|_| Err(failed("asking")("a thread died")))?;
            }
        }
        let mut row = figures(what, &server, &nanos, bytes);
        row.insert("requests".into(), (nanos.len() * CAMERAS).into());
        outcome.rows.push(row);
    }
    Ok(())
}

/// The recorder alone and with ten open pages, alternating.
fn beside(args: &PageArgs, directory: &Path, outcome: &mut Outcome) -> Result<()> {
    check_run(Workload::Fullhd8, args.seconds, directory)?;
    let mut runs = [Vec::new(), Vec::new()];
    for repeat in 0..args.repeats.max(1) {
        for (turn, pages) in [0, PAGES].into_iter().enumerate() {
            let mut options = RunOptions {
                system: System::Livebag,
                workload: Workload::Fullhd8,
                mode: Mode::Paced,
                seconds: args.seconds,
                name: String::new(),
                directory: PathBuf::new(),
                cache_bytes_max: CACHE_BYTES,
                pins: None,
                cycle_aware: false,
                sensors_first: false,
            };
            let asked = Arc::new(AtomicU64::new(0));
            let found = in_new_directory(directory, &mut options, |options| {
                let open = OpenPages::open(pages, &options.directory, &asked)?;
                let figures = matrix::run(options);
                drop(open);
                figures
            })?;
            outcome.runs.push(row(&json!({
                "what": "recorder at 1.49 GB/s", "pages": pages, "repeat": repeat + 1,
                "requests": asked.load(Ordering::Relaxed), "lost": found.lost,
                "gb_per_s": figure(Some(found.gb_per_s)),
                "cpu_s_per_gb": figure(Some(found.process_cpu_s_per_gb)),
                "producer_late_ms": figure(Some(found.producer_late_ms)),
            })));
            runs[turn].push((found, asked.load(Ordering::Relaxed)));
        }
    }
    for (runs, pages) in runs.iter().zip([0, PAGES]) {
        let of = |of: fn(&matrix::Figures) -> f64| {
            figure(median(&runs.iter().map(|(run, _)| of(run)).collect::<Vec<_>>()))
        };
        outcome.rows.push(row(&json!({
            "what": "recorder at 1.49 GB/s", "pages": pages,
            "requests": runs.iter().map(|(_, asked)| asked).sum::<u64>(),
            "lost": runs.iter().map(|(run, _)| run.lost).sum::<u64>(),
            "gb_per_s": of(|run| run.gb_per_s),
            "cpu_s_per_gb": of(|run| run.process_cpu_s_per_gb),
        })));
    }
    Ok(())
}

/// Open pages of the live recording, served by this process.
struct OpenPages {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
    _server: Option<Server>,
}

impl OpenPages {
    fn open(count: usize, directory: &Path, asked: &Arc<AtomicU64>) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let server = (count > 0).then(|| serve(directory)).transpose()?;
        let mut threads = Vec::new();
        for page in 0..count {
            let Some(server) = &server else { break };
            let (stop, asked, address) = (stop.clone(), asked.clone(), server.addresses()[0]);
            let thread = std::thread::Builder::new().name("bench-page".into());
            let work = move || {
                let mut asker = Asker::new(address);
                let mut round = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    // The lanes once a second, two pictures twice a second; how it goes.
                    let camera = |at: usize| {
                        format!(
                            "message?topic=/camera_{}&format=jpeg&width={SHOWN_WIDTH}",
                            (page + at) % 8 + 1
                        )
                    };
                    let mut targets = vec![camera(0), camera(1)];
                    if round.is_multiple_of(2) {
                        targets.push(format!("timeline?bins={BINS}"));
                    }
                    for target in targets {
                        // Before there is a recording, there is nothing to see.
                        if asker.get(&format!("/v1/bags/container/{target}")).is_ok() {
                            asked.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    round += 1;
                    clock::sleep(500_000_000);
                }
            };
            threads.push(thread.spawn(work).map_err(failed("starting a thread"))?);
        }
        Ok(Self { stop, threads, _server: server })
    }
}

impl Drop for OpenPages {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has no result.
            let _ = thread.join();
        }
    }
}
