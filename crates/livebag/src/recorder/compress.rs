//! Threads that compress chunks on their way from the queues to the disk.
//!
//! A chunk gets its place in its topic's order before it is compressed (its ticket), and its place in the file
//! after. Chunks that wait here count against the cache, like those in the queues. When there is much of it, the
//! queues keep their messages, and messages without room there are lost and counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use livebag_format::mcap::{
    CHUNK_HEADER_BYTES, Compression, Compressor, chunk_header, put_compressed_chunk_header,
};

use super::flight::Piece;
use super::series::Place;
use super::{ChunkCompression, RecordError, Shared};
use crate::limits::{BLOCK_BYTES, IN_FLIGHT_BYTES_MAX, JOBS_MAX};
use crate::storage::Block;

/// A chunk to be compressed.
pub(super) struct Job {
    pub place: Place,
    pub pieces: Vec<Piece>,
    /// Room for a chunk's header, the message records, their message indexes, and no matter what.
    pub chunk: Block,
    /// End of the records in it.
    pub records_end: usize,
    /// End of the message indexes in it.
    pub indexes_end: usize,
    /// Earliest and latest log time.
    pub times: (u64, u64),
    /// Whether it goes to the disk in whole blocks.
    pub direct: bool,
    /// Whether `chunk` is padded to whole blocks already.
    pub is_padded: bool,
}

/// A chunk that is ready to be written.
pub(super) struct Done {
    number: u64,
    pub place: Place,
    pub pieces: Vec<Piece>,
    bytes: u64,
    pub chunk: Block,
    /// If it is compressed: how, and to what length.
    pub stored: Option<(Compression, u64)>,
    /// The compressed source, if it is not `chunk`.
    pub spare: Option<Block>,
}

/// The threads' handle.
pub(super) struct Compressors {
    jobs: Option<SyncSender<(u64, Job)>>,
    done: Receiver<Done>,
    /// What does not fit into the channel.
    waiting: VecDeque<(u64, Job)>,
    /// Ready before one that was submitted earlier. In a brick a topic's chunks are in the topic's order, or a crash
    /// could lose a message and keep the one after it.
    early: BTreeMap<u64, Done>,
    next_in: u64,
    next_out: u64,
    /// Jobs that are not back.
    count: usize,
    bytes: u64,
    threads: Vec<JoinHandle<()>>,
}

impl Compressors {
    /// None if nothing is to be compressed.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(shared: &Shared) -> Result<Option<Self>, RecordError> {
        let options = shared.options.compression;
        if options.compression == Compression::None {
            return Ok(None);
        }
        let (jobs, todo) = sync_channel(JOBS_MAX);
        let (finished, done) = sync_channel(JOBS_MAX);
        let todo = Arc::new(Mutex::new(todo));
        let mut threads = Vec::new();
        for number in 0..options.threads_or_default() {
            let (todo, finished) = (todo.clone(), finished.clone());
            let thread = std::thread::Builder::new()
                .name(format!("livebag-zip-{number}"))
                .spawn(move || work(options, &todo, &finished));
            threads.push(thread.map_err(|source| RecordError::Io {
                doing: "starting a thread to compress for",
                path: shared.directory.clone(),
                source,
            })?);
        }
        Ok(Some(Self {
            jobs: Some(jobs),
            done,
            waiting: VecDeque::new(),
            early: BTreeMap::new(),
            next_in: 0,
            next_out: 0,
            count: 0,
            bytes: 0,
            threads,
        }))
    }

    /// Whether the queues should keep their messages for now.
    pub fn is_busy(&self) -> bool {
        self.bytes >= IN_FLIGHT_BYTES_MAX || self.count >= JOBS_MAX
    }

    /// Whether chunks are on their way through the threads.
    pub fn has_jobs(&self) -> bool {
        self.count > 0
    }

    /// Hands a chunk over.
    pub fn push(&mut self, job: Job) {
        self.count += 1;
        self.bytes += job.chunk.len() as u64;
        self.waiting.push_back((self.next_in, job));
        self.next_in += 1;
        self.feed();
    }

    fn feed(&mut self) {
        while let (Some(jobs), Some(job)) = (&self.jobs, self.waiting.pop_front()) {
            match jobs.try_send(job) {
                Ok(()) => {}
                Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                    self.waiting.push_front(job);
                    return;
                }
            }
        }
    }

    /// The next chunk in the order of handing over, if it is ready. Threads that are gone come as an
    /// error, once.
    pub fn take(&mut self) -> Result<Option<Done>, RecordError> {
        loop {
            if let Some(done) = self.early.remove(&self.next_out) {
                self.next_out += 1;
                self.count -= 1;
                self.bytes -= done.bytes;
                self.feed();
                return Ok(Some(done));
            }
            match self.done.try_recv() {
                Ok(done) => {
                    self.early.insert(done.number, done);
                }
                Err(TryRecvError::Disconnected) if self.count > 0 => {
                    self.count = 0;
                    return Err(RecordError::Stopped);
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(None),
            }
        }
    }
}

impl Drop for Compressors {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it; only this counts its chunk as lost.
            let _ = thread.join();
        }
    }
}

fn work(
    options: ChunkCompression,
    todo: &Mutex<Receiver<(u64, Job)>>,
    finished: &SyncSender<Done>,
) {
    // Without memory for its tables chunks are stored as they are.
    let mut compressor = Compressor::new(options.compression, options.level).ok();
    let mut out = Vec::new();
    loop {
        let job = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, job)) = job else { return };
        let done = compress(number, job, options, compressor.as_mut(), &mut out);
        if finished.send(done).is_err() {
            return;
        }
    }
}

fn compress(
    number: u64,
    job: Job,
    options: ChunkCompression,
    compressor: Option<&mut Compressor>,
    out: &mut Vec<u8>,
) -> Done {
    let Job { place, pieces, mut chunk, records_end, indexes_end, times, direct, is_padded } = job;
    let bytes = chunk.len() as u64;
    let records = &chunk[CHUNK_HEADER_BYTES..records_end];
    let crc = crc32fast::hash(records);
    out.clear();
    let compressed = compressor.is_some_and(|c| c.compress(records, out).is_ok());
    if !compressed || out.len() >= records.len() {
        let head = chunk_header(times.0, times.1, records.len() as u64, crc);
        chunk[..CHUNK_HEADER_BYTES].copy_from_slice(&head);
        let whole = if is_padded { chunk } else { block_of(chunk[..indexes_end].to_vec(), direct) };
        return Done { number, place, pieces, bytes, chunk: whole, stored: None, spare: None };
    }
    let sizes = (records.len() as u64, out.len() as u64);
    let indexes = &chunk[records_end..indexes_end];
    let mut whole = Vec::with_capacity(out.len() + indexes.len() + 2 * BLOCK_BYTES);
    put_compressed_chunk_header(&mut whole, times, sizes, crc, options.compression);
    whole.extend_from_slice(out);
    whole.extend_from_slice(indexes);
    let stored = Some((options.compression, sizes.1));
    let whole = block_of(whole, direct);
    Done { number, place, pieces, bytes, chunk: whole, stored, spare: Some(chunk) }
}

fn block_of(bytes: Vec<u8>, direct: bool) -> Block {
    if direct { Block::padded(bytes) } else { Block::unaligned(bytes) }
}
