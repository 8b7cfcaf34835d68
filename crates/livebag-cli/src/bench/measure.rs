//! One run: its processes, and their results.

use livebag_bench::clock;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::benchmark::{Benchmark, StorageId};
use super::plan::Combination;
use super::producers::Producers;
use super::producing::Produced;
use super::recording::{Orders, Recorded};
use super::roles::{Process, Role};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use livebag_bench::stats::Percentiles;
use livebag_bench::usage::Cores;

/// Time between the word to begin and the first message: all processes have heard it.
const LEAD_NANOS: u64 = 50_000_000;
/// Free space needed in addition to the messages: indexes, padding, closing.
const FREE_FACTOR: f64 = 1.2;

/// What one run found.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The storage.
    pub storage_id: StorageId,
    /// What tells the combination from others of its storage.
    pub parameters: String,
    /// Counted from 1.
    pub repeat: u64,
    /// Bytes of each half of the cache.
    pub max_cache_size: u64,
    /// Bytes at which a file is split; 0 for never.
    pub max_bag_size: u64,
    /// Name of the storage's settings.
    pub storage_config: String,
    /// `zstd` or nothing.
    pub compression: String,
    /// Messages that wait for compression.
    pub compression_queue_size: u64,
    /// Compressing threads; 0 for one by processor.
    pub compression_threads: u64,
    /// Messages published.
    pub produced: u64,
    /// Messages in the recording.
    pub recorded: u64,
    /// The same in per cent.
    pub recorded_pct: f64,
    /// Bytes of the recorded messages.
    pub recorded_bytes: u64,
    /// The same in per cent of the bytes to publish. A lost camera frame weighs more here.
    pub recorded_bytes_pct: f64,
    /// Messages in the recording, by group of publishers.
    pub recorded_by_group: Vec<u64>,
    /// Messages for which there was no room in memory.
    pub dropped: u64,
    /// Messages that their streams overwrote before they were taken.
    pub lapped: u64,
    /// From the first message's due time until everything was durable.
    pub seconds: f64,
    /// Recorded bytes of messages by that time.
    pub mb_per_s: f64,
    /// Processor time of the recorder by recorded bytes of messages.
    pub cpu_s_per_gb: f64,
    /// Processor time of the producing process, per cent of one processor; 0 where producers are
    /// calls into the recorder.
    pub producer_cpu_pct: f64,
    /// Processor time of the recording process, per cent of one processor.
    pub recorder_cpu_pct: f64,
    /// Busy time of each of the machine's processors, per cent.
    pub cores_pct: Vec<f64>,
    /// How long the producers' calls took.
    pub submit: Option<Percentiles>,
    /// From a message's due time until it was written.
    pub write: Option<Percentiles>,
    /// The recording process' largest resident set.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes that the recording process sent to the device.
    pub device_bytes: Option<u64>,
    /// Bytes of the recording's files.
    pub file_bytes: u64,
    /// The recording, where it stays.
    pub bag: Option<PathBuf>,
}

impl Run {
    /// Bytes that went to the device for each byte recorded; none where nothing was, or on a tmpfs.
    pub fn device_bytes_by_byte(&self) -> Option<f64> {
        let device = self.device_bytes.filter(|_| self.recorded_bytes > 0)?;
        Some(device as f64 / self.recorded_bytes as f64)
    }
}

/// Runs the combination once and removes its recording, unless that is to stay.
pub fn measure(
    benchmark: &Benchmark,
    producers: &Producers,
    combination: &Combination,
    repeat: u64,
    directory: &Path,
    interrupt: &Interrupt,
) -> Result<Run, CliError> {
    let room = Room::make(directory, benchmark.preserve_bags)?;
    check_space(directory, producers)?;
    settle(directory);
    let orders = Orders {
        producers: producers.clone(),
        settings: combination.settings.clone(),
        no_transport: benchmark.no_transport,
        bag: directory.join("bag"),
        cache_bytes: combination.cache_bytes,
        bag_bytes: combination.bag_bytes,
        producers_affinity: benchmark.producers_affinity.clone(),
        recorder_affinity: benchmark.recorder_affinity.clone(),
        stream_prefix: format!("bench-{}", std::process::id()),
    };
    let cores = Cores::now();
    let (recorded, produced) = match benchmark.no_transport {
        true => (Process::start(Role::Recorder, &orders, interrupt)?.answer()?, None),
        false => {
            let (recorded, produced) = with_transport(&orders, interrupt)?;
            (recorded, Some(produced))
        }
    };
    let cores_pct = Cores::now().percent_since(&cores);
    // Before it is opened: a reader of a database in WAL mode creates files beside it.
    let file_bytes = file_bytes(&orders.bag)?;
    check_recording(&orders.bag, &recorded)?;
    let run = Run {
        cores_pct,
        repeat,
        file_bytes,
        bag: benchmark.preserve_bags.then(|| orders.bag.clone()),
        ..describe(producers, combination, &recorded, produced)
    };
    drop(room);
    Ok(run)
}

/// Both processes. The recorder ends when all messages have been published.
fn with_transport(
    orders: &Orders,
    interrupt: &Interrupt,
) -> Result<(Recorded, Produced), CliError> {
    let _streams = Streams(orders);
    let mut producers = Process::start(Role::Producers, orders, interrupt)?;
    producers.wait_ready()?;
    let mut recorder = Process::start(Role::Recorder, orders, interrupt)?;
    if orders.producers.waits_for_subscriptions {
        recorder.wait_ready()?;
    }
    let start_nanos = clock::monotonic_nanos() + LEAD_NANOS;
    producers.go(start_nanos)?;
    if !orders.producers.waits_for_subscriptions {
        recorder.wait_ready()?;
    }
    recorder.go(start_nanos)?;
    let produced = producers.answer()?;
    recorder.stop()?;
    let recorded = recorder.answer()?;
    producers.stop()?;
    Ok((recorded, produced))
}

/// Streams that a killed producer leaves behind.
struct Streams<'a>(&'a Orders);

impl Drop for Streams<'_> {
    fn drop(&mut self) {
        for topic in 0..self.0.producers.topics().len() {
            // Those whose writer ended in order are gone.
            let _ = livebag_shm::remove(&self.0.stream_name(topic));
        }
    }
}

fn describe(
    producers: &Producers,
    combination: &Combination,
    recorded: &Recorded,
    produced: Option<Produced>,
) -> Run {
    let mut by_group = vec![0; producers.groups.len()];
    for (published, count) in producers.topics().iter().zip(&recorded.messages) {
        by_group[published.group] += count;
    }
    let sizes = producers.groups.iter().map(|group| group.encoded_bytes() as u64);
    let bytes: u64 = by_group.iter().zip(sizes).map(|(count, bytes)| count * bytes).sum();
    let count = by_group.iter().sum();
    let refused = produced.as_ref().map_or(0, |produced| produced.refused);
    Run {
        storage_id: combination.storage,
        parameters: combination.parameters(),
        repeat: 0,
        max_cache_size: combination.cache_bytes,
        max_bag_size: combination.bag_bytes,
        storage_config: combination.config.clone(),
        compression: combination.compression.clone(),
        compression_queue_size: combination.compression_queue,
        compression_threads: combination.compression_threads,
        produced: producers.messages() - refused,
        recorded: count,
        recorded_pct: count as f64 * 100.0 / producers.messages() as f64,
        recorded_bytes: bytes,
        recorded_bytes_pct: bytes as f64 * 100.0 / producers.bytes() as f64,
        recorded_by_group: by_group,
        dropped: recorded.dropped,
        lapped: recorded.lapped,
        seconds: recorded.seconds,
        mb_per_s: bytes as f64 / 1e6 / recorded.seconds,
        cpu_s_per_gb: recorded.cpu_s / (bytes as f64 / 1e9),
        producer_cpu_pct: produced.as_ref().map_or(0.0, |p| p.cpu_s * 100.0 / p.seconds),
        recorder_cpu_pct: recorded.cpu_s * 100.0 / recorded.seconds,
        cores_pct: Vec::new(),
        submit: produced.map_or(recorded.submit, |produced| produced.submit),
        write: recorded.write,
        memory_peak_bytes: recorded.memory_peak_bytes,
        device_bytes: recorded.device_bytes,
        file_bytes: 0,
        bag: None,
    }
}

/// Opens the recording and counts: the recorder's own counts are not enough.
fn check_recording(bag: &Path, recorded: &Recorded) -> Result<(), CliError> {
    let said: u64 = recorded.messages.iter().sum();
    let found = livebag_bags::open_any(bag)?.message_count();
    if found.is_none_or(|found| found == said) {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "{} holds {} messages, and its recorder counted {said}",
        bag.display(),
        found.unwrap_or(0)
    )))
}

/// Bytes of all files in a folder and those within it: a container has one by split.
fn file_bytes(directory: &Path) -> Result<u64, CliError> {
    let failed = |source| CliError::file("listing", directory, source);
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let metadata = entry.metadata().map_err(failed)?;
        bytes += if metadata.is_dir() { file_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

/// Has the disk take what earlier runs left it to do, the removal of their recordings, too.
fn settle(directory: &Path) {
    use rustix::fs::{Mode, OFlags, open, syncfs};
    // If it refuses, the run itself will tell.
    if let Ok(directory) = open(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
        let _ = syncfs(directory);
    }
}

fn check_space(directory: &Path, producers: &Producers) -> Result<(), CliError> {
    let Ok(space) = rustix::fs::statvfs(directory) else { return Ok(()) };
    let free = space.f_bavail as f64 * space.f_frsize as f64;
    let needed = producers.bytes() as f64 * FREE_FACTOR;
    if free >= needed {
        return Ok(());
    }
    Err(CliError::failed(format!(
        "a run of {} writes up to {}, and {} has {} left: free some space, choose another folder \
         (--out), or make it shorter (--duration)",
        producers.name,
        crate::text::bytes(needed),
        directory.display(),
        crate::text::bytes(free)
    )))
}

/// A run's folder, removed in the end unless it is to stay.
struct Room<'a> {
    directory: &'a Path,
    stays: bool,
}

impl<'a> Room<'a> {
    fn make(directory: &'a Path, stays: bool) -> Result<Self, CliError> {
        std::fs::create_dir(directory)
            .map_err(|source| CliError::file("making", directory, source))?;
        Ok(Self { directory, stays })
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(self.directory) {
            say!("livebag: removing {} failed: {error}", self.directory.display());
        }
    }
}
