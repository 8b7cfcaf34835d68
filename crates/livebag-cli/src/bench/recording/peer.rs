//! `mcap` and `sqlite3` as rosbag2 drives them: one cache for all topics, one thread that writes it out; without a
//! cache every message is written in the producer's call.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use livebag::Clock;
use livebag_shm::{FrameRef, Reader};

use super::bag_writer::{BagWriter, Written};
use super::{Orders, Recorded, Source};
use crate::bench::roles::Parent;
use crate::bench::schedule::{Intake, Schedule};
use crate::outcome::CliError;
use livebag_bench::double_buffer::{DoubleBuffer, Message};
use livebag_bench::stats::Durations;

/// Interval at which the streams are polled; livebag's own recorder polls every 0.5 to 2 ms.
const LOOK: Duration = Duration::from_micros(500);

/// Records, and measures it.
pub fn record(orders: &Orders, parent: &mut Parent) -> Result<Recorded, CliError> {
    let topics: Vec<_> = orders.producers.topics().into_iter().map(|t| t.topic).collect();
    let count = topics.len();
    let writer = BagWriter::create(&orders.bag, &orders.settings, topics, orders.bag_bytes)?;
    let readers = if orders.no_transport { Vec::new() } else { open_readers(orders, count)? };
    let mut source = Source::new(orders, parent);
    let (schedule, meter) = source.start()?;
    let reception = Reception::default();
    let (submit, written, dropped) = if orders.cache_bytes == 0 {
        let direct = Direct::new(writer, &schedule);
        let submit = take(&mut source, &schedule, &direct, readers, &reception)?;
        (submit, direct.finish()?, 0)
    } else {
        let cache = DoubleBuffer::new(count, orders.cache_bytes);
        cached(&cache, writer, &schedule, || {
            take(&mut source, &schedule, &cache, readers, &reception)
        })?
    };
    let recorded = meter.end(submit, &written.latencies);
    let lapped = reception.lapped.into_inner();
    Ok(Recorded { messages: written.counts, dropped, lapped, ..recorded })
}

/// Runs `take` while a thread writes the cache out.
fn cached(
    cache: &DoubleBuffer,
    mut writer: BagWriter,
    schedule: &Schedule,
    take: impl FnOnce() -> Result<Option<Durations>, CliError>,
) -> Result<(Option<Durations>, Written, u64), CliError> {
    std::thread::scope(|scope| {
        let drain = move || {
            let mut batch = Vec::new();
            while cache.swap(&mut batch) {
                writer.write_batch(&batch, schedule)?;
            }
            writer.finish()
        };
        let writing = Builder::new().name("write".into()).spawn_scoped(scope, drain);
        let writing = writing.map_err(no_thread)?;
        let submit = take();
        cache.close();
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((submit?, written, cache.dropped()))
    })
}

fn no_thread(error: std::io::Error) -> CliError {
    CliError::failed(format!("starting a thread failed: {error}"))
}

/// Brings all messages to `intake`, from producers of this process or from streams.
fn take(
    source: &mut Source,
    schedule: &Schedule,
    intake: &dyn Intake,
    readers: Vec<Reader>,
    reception: &Reception,
) -> Result<Option<Durations>, CliError> {
    std::thread::scope(|scope| {
        let receiving = Builder::new()
            .name("receive".into())
            .spawn_scoped(scope, || reception.receive(readers, intake))
            .map_err(no_thread)?;
        let offered = source.offer(schedule, intake);
        reception.over.store(true, Ordering::Release);
        receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        offered
    })
}

fn open_readers(orders: &Orders, count: usize) -> Result<Vec<Reader>, CliError> {
    let open = |topic| {
        let reader = Reader::open(&orders.stream_name(topic));
        reader.map_err(|error| CliError::failed(format!("opening a stream failed: {error}")))
    };
    (0..count).map(open).collect()
}

/// All subscriptions in one thread, as rosbag2's executor has them.
#[derive(Default)]
struct Reception {
    over: AtomicBool,
    lapped: AtomicU64,
}

impl Reception {
    fn receive(&self, mut readers: Vec<Reader>, intake: &dyn Intake) {
        let clock = Clock::system();
        let mut buffer = Vec::new();
        for reader in &mut readers {
            reader.seek_oldest();
        }
        while !readers.is_empty() {
            // Read before polling for frames, so that earlier frames are taken.
            let over = self.over.load(Ordering::Acquire);
            for (topic, reader) in readers.iter_mut().enumerate() {
                self.drain(topic, reader, intake, &mut buffer);
            }
            if over {
                return;
            }
            clock.sleep(LOOK);
        }
    }

    fn drain(&self, topic: usize, reader: &mut Reader, intake: &dyn Intake, buffer: &mut Vec<u8>) {
        loop {
            let next = reader.next();
            self.lapped.fetch_add(next.lapped, Ordering::Relaxed);
            let Some(frame) = next.frame else { return };
            if copied(&frame, buffer) {
                intake.submit(topic, frame.sequence() - 1, buffer);
            } else {
                self.lapped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn copied(frame: &FrameRef, buffer: &mut Vec<u8>) -> bool {
    buffer.resize(frame.payload_bytes(), 0);
    frame.copy_to(buffer)
}

impl Intake for DoubleBuffer {
    fn submit(&self, topic: usize, number: u64, data: &[u8]) {
        let mut copy = self.buffer(topic, data.len());
        copy.copy_from_slice(data);
        let time_nanos = Clock::system().wall_nanos();
        self.push(Message { topic, sequence: number, time_nanos, data: copy }, false);
    }
}

/// Writing without a cache.
struct Direct<'a> {
    schedule: &'a Schedule,
    writer: Mutex<(BagWriter, Result<(), CliError>)>,
}

impl<'a> Direct<'a> {
    fn new(writer: BagWriter, schedule: &'a Schedule) -> Self {
        Self { schedule, writer: Mutex::new((writer, Ok(()))) }
    }

    fn finish(self) -> Result<Written, CliError> {
        let (writer, failure) = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure?;
        writer.finish()
    }
}

impl Intake for Direct<'_> {
    fn submit(&self, topic: usize, number: u64, data: &[u8]) {
        let mut guard = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (writer, failure) = &mut *guard;
        if failure.is_ok() {
            let time_nanos = Clock::system().wall_nanos();
            let message = Message { topic, sequence: number, time_nanos, data: data.to_vec() };
            *failure = writer.write_batch(&[message], self.schedule);
        }
    }
}
