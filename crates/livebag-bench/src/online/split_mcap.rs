//! rosbag2's way: MCAP files that are split every few seconds, of which closed ones can be read.
//!
//! Written by the `mcap` crate on a separate thread behind a bounded queue, chunked and not compressed, as in rosbag2;
//! the list of closed files with their times replaces `metadata.yaml`.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use mcap::records::MessageHeader;
use mcap::{WriteOptions, Writer};

use super::failed;
use super::world::UavTopic;
use crate::error::Result;
use crate::files;

/// Messages that wait for the writing thread: rosbag2's cache of 100 MiB at this rate and more.
const QUEUE: usize = 8192;

/// A file that can be read.
#[derive(Clone)]
struct Closed {
    path: PathBuf,
    start_nanos: u64,
    end_nanos: u64,
}

struct Job {
    topic: usize,
    log_time_nanos: u64,
    sequence: u64,
    bytes: usize,
    payload: Arc<[u8]>,
}

/// Writes the splits.
pub struct SplitWriter {
    name: String,
    sender: Mutex<Option<SyncSender<Job>>>,
    closed: Arc<Mutex<Vec<Closed>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What reading gave.
#[derive(Default)]
pub struct SplitAnswer {
    /// Opening and reading.
    pub nanos: u64,
    /// Messages.
    pub messages: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Newest log time.
    pub newest_nanos: u64,
}

impl SplitWriter {
    /// Begins to write into `folder`.
    pub fn begin(folder: &Path, seconds: u64, topics: &[UavTopic]) -> Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let closed: Arc<Mutex<Vec<Closed>>> = Arc::default();
        let thread = {
            let (folder, topics, closed) = (folder.to_owned(), topics.to_vec(), closed.clone());
            std::thread::Builder::new()
                .name("bench-mcap".into())
                .spawn(move || {
                    if let Err(error) = write_splits(&folder, seconds, &topics, &receiver, &closed)
                    {
                        eprintln!("mcap splits: {error}");
                    }
                })
                .map_err(failed("starting a thread"))?
        };
        Ok(Self {
            name: format!("mcap-split-{seconds}s"),
            sender: Mutex::new(Some(sender)),
            closed,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Its name in the rows.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes a message; waits if the queue is full.
    pub fn write(
        &self,
        topic: usize,
        log_time_nanos: u64,
        sequence: u64,
        bytes: usize,
        payload: &Arc<[u8]>,
    ) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*sender {
            let payload = payload.clone();
            // Gone only if its thread has failed, which it has said.
            let _ = sender.send(Job { topic, log_time_nanos, sequence, bytes, payload });
        }
    }

    /// End of the readable messages.
    pub fn newest_closed(&self) -> u64 {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.iter().map(|file| file.end_nanos).max().unwrap_or(0)
    }

    /// Reads the messages of some topics between two times from the closed files, like a query that sends them: every
    /// message is copied or, with `in_place`, found in the mapped file and not read.
    pub fn read(
        &self,
        topics: &[&str],
        (from, to): (u64, u64),
        in_place: bool,
    ) -> Result<SplitAnswer> {
        let began = crate::clock::monotonic_nanos();
        let wanted_files: Vec<Closed> = {
            let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
            closed.iter().filter(|f| f.end_nanos >= from && f.start_nanos <= to).cloned().collect()
        };
        let mut answer = SplitAnswer::default();
        let mut copy: Vec<u8> = Vec::new();
        for file in wanted_files {
            let bytes = files::map(&file.path)?;
            let summary = mcap::Summary::read(&bytes).map_err(failed("reading a summary"))?;
            let Some(summary) = summary else { continue };
            let wanted: Vec<u16> = summary
                .channels
                .values()
                .filter(|channel| topics.contains(&channel.topic.as_str()))
                .map(|channel| channel.id)
                .collect();
            for chunk in &summary.chunk_indexes {
                let is_in = chunk.message_end_time >= from
                    && chunk.message_start_time <= to
                    && wanted.iter().any(|id| chunk.message_index_offsets.contains_key(id));
                if !is_in {
                    continue;
                }
                let indexes = summary.read_message_indexes(&bytes, chunk);
                for (channel, entries) in indexes.map_err(failed("reading an index"))? {
                    if !wanted.contains(&channel.id) {
                        continue;
                    }
                    for entry in entries.iter().filter(|e| e.log_time >= from && e.log_time <= to) {
                        let message = summary.seek_message(&bytes, chunk, entry);
                        let message = message.map_err(failed("reading a message"))?;
                        if in_place {
                            std::hint::black_box(&*message.data);
                        } else {
                            if copy.len() + message.data.len() > 4 << 20 {
                                copy.clear();
                            }
                            copy.extend_from_slice(&message.data);
                        }
                        answer.messages += 1;
                        answer.bytes += message.data.len() as u64;
                        answer.newest_nanos = answer.newest_nanos.max(entry.log_time);
                    }
                }
            }
        }
        std::hint::black_box(&copy);
        answer.nanos = crate::clock::monotonic_nanos() - began;
        Ok(answer)
    }
}

impl Drop for SplitWriter {
    fn drop(&mut self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

struct Split {
    writer: Writer<BufWriter<File>>,
    channels: Vec<u16>,
    path: PathBuf,
    start_nanos: u64,
    end_nanos: u64,
}

fn write_splits(
    folder: &Path,
    seconds: u64,
    topics: &[UavTopic],
    jobs: &Receiver<Job>,
    closed: &Mutex<Vec<Closed>>,
) -> Result<()> {
    let mut split: Option<Split> = None;
    let mut number = 0;
    while let Ok(job) = jobs.recv() {
        let is_full = split
            .as_ref()
            .is_some_and(|split| job.log_time_nanos >= split.start_nanos + seconds * 1_000_000_000);
        if is_full && let Some(full) = split.take() {
            close(full, closed)?;
        }
        if split.is_none() {
            split = Some(open(folder, number, topics, job.log_time_nanos)?);
            number += 1;
        }
        let Some(split) = &mut split else { continue };
        let header = MessageHeader {
            channel_id: split.channels[job.topic],
            sequence: job.sequence as u32,
            log_time: job.log_time_nanos,
            publish_time: job.log_time_nanos,
        };
        let written = split.writer.write_to_known_channel(&header, &job.payload[..job.bytes]);
        written.map_err(failed("writing a split"))?;
        split.end_nanos = job.log_time_nanos;
    }
    split.map_or(Ok(()), |last| close(last, closed))
}

fn open(folder: &Path, number: usize, topics: &[UavTopic], start_nanos: u64) -> Result<Split> {
    let path = folder.join(format!("split_{number}.mcap"));
    let file = files::create(&path)?;
    let options = WriteOptions::new().compression(None).profile("ros2").calculate_chunk_crcs(false);
    let mut writer = options
        .create(BufWriter::with_capacity(1 << 20, file))
        .map_err(failed("beginning a split"))?;
    let schema = writer.add_schema("bench/msg/Bytes", "ros2msg", b"uint8[] data");
    let schema = schema.map_err(failed("beginning a split"))?;
    let mut channels = Vec::new();
    for topic in topics {
        let channel = writer.add_channel(schema, &topic.name, "cdr", &Default::default());
        channels.push(channel.map_err(failed("beginning a split"))?);
    }
    Ok(Split { writer, channels, path, start_nanos, end_nanos: start_nanos })
}

fn close(mut split: Split, closed: &Mutex<Vec<Closed>>) -> Result<()> {
    split.writer.finish().map_err(failed("closing a split"))?;
    let mut buffer = split.writer.into_inner();
    std::io::Write::flush(&mut buffer).map_err(failed("closing a split"))?;
    let file =
        Closed { path: split.path, start_nanos: split.start_nanos, end_nanos: split.end_nanos };
    closed.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    Ok(())
}
