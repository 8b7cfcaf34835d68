//! The `mcap` crate's writer behind a double buffer, as rosbag2 has it.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;

use super::{Found, Series};
use crate::clock;
use crate::double_buffer::{DoubleBuffer, Message};
use crate::error::{BenchError, Result};
use crate::files;
use crate::frame;
use crate::mcap_file::McapFile;
use crate::record::System;
use crate::record::mcap_writer::{bag_topic, write_options};
use crate::stats::Durations;

fn failed<E: std::fmt::Display>(doing: &'static str) -> impl Fn(E) -> BenchError {
    move |e| BenchError::system("mcap", doing)(&e)
}

/// A file that counts the time in its system calls.
struct Timed<'n> {
    file: File,
    nanos: &'n AtomicU64,
}

impl Timed<'_> {
    fn timed<T>(&mut self, call: impl FnOnce(&mut File) -> T) -> T {
        let start = clock::monotonic_nanos();
        let outcome = call(&mut self.file);
        self.nanos.fetch_add(clock::monotonic_nanos() - start, Ordering::Relaxed);
        outcome
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.timed(|file| file.write(data))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.timed(File::flush)
    }
}

impl Seek for Timed<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.timed(|file| file.seek(to))
    }
}

/// The writing thread's work, in nanoseconds.
struct Written {
    messages: u64,
    nanos: u64,
}

/// Writes out the cache until it is closed. The end of the file is not on any message's way.
fn drain(cache: &DoubleBuffer, system: System, timed: Timed<'_>) -> Result<Written> {
    let mut file =
        McapFile::begin(timed, write_options(system), &[bag_topic("/submit".to_owned())])
            .map_err(failed("beginning a file"))?;
    let mut written = Written { messages: 0, nanos: 0 };
    let mut batch = Vec::new();
    while cache.swap(&mut batch) {
        for message in &batch {
            let start = clock::monotonic_nanos();
            write(&mut file, message)?;
            written.nanos += clock::monotonic_nanos() - start;
            written.messages += 1;
        }
    }
    Ok(written)
}

fn write(file: &mut McapFile<Timed<'_>>, message: &Message) -> Result<()> {
    let written = livebag::Message {
        log_time_nanos: clock::realtime_nanos(),
        publish_time_nanos: message.time_nanos,
        sequence: message.sequence,
        data: &message.data,
    };
    file.write(message.topic, &written).map_err(failed("writing a message"))
}

/// Gives the series to the cache; a second thread writes it out.
pub fn by_write(
    series: Series,
    system: System,
    cache_bytes_max: u64,
    directory: &Path,
) -> Result<Found> {
    let syscall_nanos = AtomicU64::new(0);
    let file = files::create(&directory.join("recording.mcap"))?;
    let cache = DoubleBuffer::new(1, cache_bytes_max);
    let mut data = vec![0; series.payload_bytes];
    frame::fill(&mut data, 1);
    let mut handling = Durations::new();
    let mut handling_nanos = 0;
    let written = std::thread::scope(|scope| {
        let timed = Timed { file, nanos: &syscall_nanos };
        let writing = Builder::new()
            .name("write".to_owned())
            .spawn_scoped(scope, || drain(&cache, system, timed))
            .map_err(|e| BenchError::io("starting a thread", e))?;
        let given = series.pace(|sequence| {
            let start = clock::monotonic_nanos();
            let mut copy = cache.buffer(0, data.len());
            copy.copy_from_slice(&data);
            let time_nanos = clock::realtime_nanos();
            let message = Message { topic: 0, sequence, time_nanos, data: copy };
            let taken = cache.push(message, false);
            let nanos = clock::monotonic_nanos() - start;
            handling.record(nanos);
            handling_nanos += nanos;
            if taken { Ok(()) } else { Err(failed("recording")("the double buffer was full")) }
        });
        cache.close();
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        given.and(written)
    })?;
    let syscall_nanos = syscall_nanos.into_inner();
    Ok(Found {
        messages: written.messages,
        handling_nanos,
        preparation_nanos: written.nanos.saturating_sub(syscall_nanos),
        syscall_nanos,
        handling,
    })
}
