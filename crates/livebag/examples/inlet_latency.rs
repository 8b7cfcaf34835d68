//! Compares the wait-free inlet with a short lock for a real-time writer: `inlet_latency DIRECTORY [RUNS [SECONDS]]`.
//!
//! A thread with SCHED_FIFO (if permitted) records messages of 1 KiB at 1 kHz; the consumer has nice 19, with one busy
//! loop for each core. Alternating: `TopicWriter::write`, and a mutexed batch that a thread swaps out every 5 ms,
//! checks and writes. Prints one line of JSON for each run, and percentiles over all runs.

#![expect(clippy::disallowed_methods, reason = "a measurement has its own clock and files")]

use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use livebag::{Clock, Recorder, RecorderOptions, Topic};
use rustix::process::{Pid, setpriority_process};

const PERIOD: Duration = Duration::from_millis(1);
const MESSAGE_BYTES: usize = 1024;
const HEADER_BYTES: usize = 31;
/// As the recorder's.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNK_AGE: Duration = Duration::from_millis(50);
const POLL: Duration = Duration::from_millis(5);
const NICE: i32 = 19;
/// Batches that wait at most in this measurement.
const SPARES: usize = 16;

type Failed = Box<dyn Error + Send + Sync>;

/// Whether the calling thread has become a real-time thread.
fn become_real_time() -> bool {
    let parameters = libc::sched_param { sched_priority: 50 };
    #[expect(unsafe_code, reason = "a system call without a wrapper")]
    // SAFETY: the kernel reads the structure during the call.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
    answer == 0
}

/// Lowers the priority of a thread of this process, once it has given itself its name.
fn make_nice(name: &str) -> Result<(), Failed> {
    while !try_make_nice(name)? {
        std::thread::sleep(PERIOD);
    }
    Ok(())
}

fn try_make_nice(name: &str) -> Result<bool, Failed> {
    for task in std::fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        let comm = std::fs::read_to_string(path.join("comm"))?;
        // The kernel keeps 15 bytes of a name.
        if name.starts_with(comm.trim()) {
            let id = path.file_name().and_then(|id| id.to_str()?.parse().ok());
            let id = id.and_then(Pid::from_raw).ok_or("no id")?;
            setpriority_process(Some(id), NICE)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Calls `write` at 1 kHz, and gives how long each call took, in nanoseconds; and whether in real time.
fn pace(
    count: u64,
    mut write: impl FnMut(u64) + Send + 'static,
) -> Result<(Vec<u64>, bool), Failed> {
    let run = move || {
        let is_real_time = become_real_time();
        let mut taken = Vec::with_capacity(count as usize);
        let began = Instant::now();
        for k in 0..count {
            let due = began + PERIOD * k as u32;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let before = Instant::now();
            write(k);
            taken.push(before.elapsed().as_nanos() as u64);
        }
        (taken, is_real_time)
    };
    let thread = Builder::new().name("writer".into()).spawn(run)?;
    thread.join().map_err(|_| "the writer has panicked".into())
}

/// Calls of the recorder's own way in; and the messages that it lost.
fn by_inlet(directory: &Path, count: u64) -> Result<(Vec<u64>, bool, u64), Failed> {
    let path = directory.join("inlet");
    let recorder = Recorder::create(&path, RecorderOptions::default())?;
    let topic = Topic { name: "/a".into(), ..Topic::default() };
    let writer = recorder.topic(topic)?;
    make_nice("livebag-recorder")?;
    let data = [7; MESSAGE_BYTES];
    let (taken, is_real_time) = pace(count, move |k| {
        // A message that finds no room is counted by the recorder.
        let _ = writer.write(None, k + 1, &data);
    })?;
    let (_, _, lost) = recorder.finish()?.totals();
    Ok((taken, is_real_time, lost.total()))
}

struct Batch {
    records: Vec<u8>,
    /// Log time, place and length of each message.
    entries: Vec<(u64, u32, u32)>,
    opened: Option<Instant>,
}

impl Batch {
    /// Memory that is asked for, and faulted in, before a writer needs it, as the recorder's segments are.
    fn prepared() -> Self {
        let mut records = vec![1; CHUNK_BYTES];
        records.clear();
        let mut entries = vec![(1, 1, 1); CHUNK_BYTES / MESSAGE_BYTES];
        entries.clear();
        Self { records, entries, opened: None }
    }
}

/// State behind a lock: the open batch, full ones, and memory for the next ones.
struct Locked {
    open: Batch,
    full: VecDeque<Batch>,
    spare: Vec<Batch>,
}

impl Locked {
    fn new() -> Self {
        let spare = (0..SPARES).map(|_| Batch::prepared()).collect();
        Self { open: Batch::prepared(), full: VecDeque::with_capacity(SPARES), spare }
    }

    fn next(&mut self) -> Batch {
        let next = self.spare.pop().unwrap_or_else(Batch::prepared);
        std::mem::replace(&mut self.open, next)
    }
}

fn write_locked(queue: &Mutex<Locked>, clock: &Clock, data: &[u8]) {
    let Ok(mut queue) = queue.lock() else { return };
    let log_time = clock.wall_nanos();
    if queue.open.records.len() + HEADER_BYTES + data.len() > CHUNK_BYTES {
        let full = queue.next();
        queue.full.push_back(full);
    }
    let open = &mut queue.open;
    open.opened.get_or_insert_with(Instant::now);
    open.entries.push((log_time, open.records.len() as u32, data.len() as u32));
    open.records.extend_from_slice(&[0; HEADER_BYTES]);
    open.records.extend_from_slice(data);
}

/// Takes full or old batches, writes them and returns their memory, like the recorder.
fn drain_locked(queue: &Mutex<Locked>, file: &File, at: &mut u64) -> Result<(), Failed> {
    let mut taken = VecDeque::new();
    {
        let mut queue = queue.lock().map_err(|_| "the writer has panicked")?;
        std::mem::swap(&mut taken, &mut queue.full);
        if queue.open.opened.is_some_and(|opened| opened.elapsed() >= CHUNK_AGE) {
            taken.push_back(queue.next());
        }
    }
    for mut batch in taken {
        std::hint::black_box(crc32fast::hash(&batch.records));
        file.write_all_at(&batch.records, *at)?;
        *at += batch.records.len() as u64;
        batch.records.clear();
        batch.entries.clear();
        batch.opened = None;
        queue.lock().map_err(|_| "the writer has panicked")?.spare.push(batch);
    }
    Ok(())
}

fn by_lock(directory: &Path, count: u64) -> Result<(Vec<u64>, bool, u64), Failed> {
    let file = File::create(directory.join("lock"))?;
    let (queue, clock) = (Arc::new(Mutex::new(Locked::new())), Clock::system());
    let ends = Arc::new(AtomicBool::new(false));
    let (ours, until) = (queue.clone(), ends.clone());
    let consumer = Builder::new().name("consumer".into()).spawn(move || {
        let mut at = 0;
        while !until.load(Ordering::Relaxed) {
            drain_locked(&ours, &file, &mut at)?;
            std::thread::sleep(POLL);
        }
        Ok::<(), Failed>(())
    })?;
    make_nice("consumer")?;
    let data = [7; MESSAGE_BYTES];
    let (taken, is_real_time) = pace(count, move |_| write_locked(&queue, &clock, &data))?;
    ends.store(true, Ordering::Relaxed);
    consumer.join().map_err(|_| "the consumer has panicked")??;
    Ok((taken, is_real_time, 0))
}

fn percentiles(mut taken: Vec<u64>) -> String {
    taken.sort_unstable();
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    format!(
        r#""calls": {}, "p50_nanos": {}, "p99_nanos": {}, "p99_99_nanos": {}, "max_nanos": {}"#,
        taken.len(),
        at(0.5),
        at(0.99),
        at(0.9999),
        at(1.0)
    )
}

fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("usage: inlet_latency DIRECTORY [RUNS [SECONDS]]")?;
    let runs: usize = arguments.next().map_or(Ok(5), |runs| runs.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(20), |seconds| seconds.parse())?;
    let count = seconds * 1000;
    let ends = Arc::new(AtomicBool::new(false));
    let cores = std::thread::available_parallelism()?.get();
    for number in 0..cores {
        let ends = ends.clone();
        let spin = move || while !ends.load(Ordering::Relaxed) {};
        Builder::new().name(format!("busy-{number}")).spawn(spin)?;
    }
    let mut all = [Vec::new(), Vec::new()];
    for run in 1..=runs {
        for (kind, name) in ["inlet", "lock"].into_iter().enumerate() {
            let folder = Path::new(&directory).join(format!("{name}-{run}"));
            std::fs::create_dir_all(&folder)?;
            let (taken, is_real_time, lost) = match kind {
                0 => by_inlet(&folder, count)?,
                _ => by_lock(&folder, count)?,
            };
            let found = percentiles(taken.clone());
            println!(
                r#"{{"run": {run}, "way": "{name}", "real_time": {is_real_time}, "lost": {lost}, {found}}}"#
            );
            all[kind].extend(taken);
        }
    }
    for (taken, name) in all.into_iter().zip(["inlet", "lock"]) {
        println!(r#"{{"runs": {runs}, "way": "{name}", {}}}"#, percentiles(taken));
    }
    ends.store(true, Ordering::Relaxed);
    Ok(())
}
