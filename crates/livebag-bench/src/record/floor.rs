//! The floor: io_uring direct writes of the same bytes from the same memory, in no format at all.
#![expect(unsafe_code, reason = "io_uring's submission; the memory is held until completion")]

use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::{IoUring, opcode, types};
use livebag_shm::{FrameRef, Reader};
use rustix::fs::{Mode as FileMode, OFlags, fdatasync, open};

use super::control::Control;
use super::recorder::{Meter, Recorded};
use super::{Mode, RunOptions};
use crate::child;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::stats::Durations;

/// Frames under way at once.
const DEPTH: usize = 8;

/// Length and offset of a direct write are multiples of this. 4,096 serves every device.
const BLOCK_BYTES: usize = 4096;

/// Blocks in which the bytes of small messages are written.
const STAGED_BYTES: usize = 4 << 20;

/// Pause of the paced floor when no stream has a new frame: it looks, where a recorder would be
/// woken.
const LOOK_NANOS: u64 = 1_000_000;

/// Memory that stays as it is while the device reads it.
trait Source {
    /// Start, aligned to a block.
    fn start(&self) -> *const u8;
    /// Bytes, rounded up to a block; the memory up to there is mapped.
    fn bytes(&self) -> usize;
}

impl Source for FrameRef {
    fn start(&self) -> *const u8 {
        self.payload_ptr()
    }

    fn bytes(&self) -> usize {
        // Slots are whole pages, so the rest of the last page belongs to the slot.
        self.payload_bytes().next_multiple_of(BLOCK_BYTES)
    }
}

/// A page-aligned buffer of the process.
struct Staged {
    memory: Vec<u8>,
    start: usize,
}

impl Staged {
    fn new() -> Self {
        let memory = vec![0x5a; STAGED_BYTES + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self { memory, start }
    }
}

impl Source for &Staged {
    fn start(&self) -> *const u8 {
        self.memory[self.start..].as_ptr()
    }

    fn bytes(&self) -> usize {
        STAGED_BYTES
    }
}

/// One file, written in order, several writes under way.
struct DirectFile<S> {
    ring: IoUring,
    file: OwnedFd,
    offset: u64,
    /// The memory that the device is reading, with its owner's topic, by the write's number.
    held: Vec<Option<(usize, S)>>,
    submit: Durations,
}

impl<S: Source> DirectFile<S> {
    fn create(options: &RunOptions) -> Result<Self> {
        let path = options.directory.join("floor.bin");
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::DIRECT;
        let file = open(&path, flags, FileMode::RUSR | FileMode::WUSR).map_err(|e| {
            BenchError::io(format!("creating {} for direct I/O", path.display()), e)
        })?;
        let ring =
            IoUring::new(DEPTH as u32).map_err(|e| BenchError::io("setting up io_uring", e))?;
        let held = (0..DEPTH).map(|_| None).collect();
        Ok(Self { ring, file, offset: 0, held, submit: Durations::new() })
    }

    /// Whether another write may be started.
    fn has_room(&self) -> bool {
        self.held.iter().any(Option::is_none)
    }

    /// Starts a write of all of `source`.
    fn write(&mut self, topic: usize, source: S) -> Result<()> {
        let start = clock::monotonic_nanos();
        let Some(number) = self.held.iter().position(Option::is_none) else {
            unreachable!("callers ask has_room first")
        };
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::Write::new(fd, source.start(), source.bytes() as u32)
            .offset(self.offset)
            .build()
            .user_data(number as u64);
        self.offset += source.bytes() as u64;
        self.held[number] = Some((topic, source));
        // SAFETY: the memory belongs to `held[number]`, which is kept until the completion of this
        // very write; the file is open as long as `self`.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|e| BenchError::io("queueing a write", std::io::Error::other(e)))?;
        self.ring.submit().map_err(|e| BenchError::io("submitting a write", e))?;
        self.submit.record(clock::monotonic_nanos() - start);
        Ok(())
    }

    /// Takes completions, after waiting for one if `wait`.
    fn complete(&mut self, wait: bool, mut done: impl FnMut(usize, S)) -> Result<()> {
        if wait {
            self.ring.submit_and_wait(1).map_err(|e| BenchError::io("waiting for a write", e))?;
        }
        for completion in self.ring.completion() {
            let Some((topic, source)) = self.held[completion.user_data() as usize].take() else {
                unreachable!("a write completes once")
            };
            let written = completion.result();
            if written < 0 {
                let e = std::io::Error::from_raw_os_error(-written);
                return Err(BenchError::io("a direct write", e));
            }
            if written as usize != source.bytes() {
                let e = std::io::Error::other(format!("wrote {written} of {}", source.bytes()));
                return Err(BenchError::io("a direct write", e));
            }
            done(topic, source);
        }
        Ok(())
    }

    fn is_idle(&self) -> bool {
        self.held.iter().all(Option::is_none)
    }

    fn sync(&self) -> Result<()> {
        fdatasync(&self.file).map_err(|e| BenchError::io("syncing the floor's file", e))
    }
}

impl<S> Drop for DirectFile<S> {
    fn drop(&mut self) {
        // After an error writes may still be under way: their memory must outlive them.
        let under_way = self.held.iter().filter(|h| h.is_some()).count();
        if under_way > 0 && self.ring.submit_and_wait(under_way).is_err() {
            std::mem::forget(std::mem::take(&mut self.held));
        }
    }
}

/// Frames and bytes that are on the disk.
#[derive(Default)]
struct Tally {
    messages: u64,
    bytes: u64,
    lapped: u64,
}

impl Tally {
    fn add(&mut self, frame: &FrameRef) {
        if frame.is_intact() {
            self.messages += 1;
            self.bytes += frame.payload_bytes() as u64;
        } else {
            self.lapped += 1;
        }
    }
}

/// Records the streams of the producer process.
pub fn from_streams(options: &RunOptions) -> Result<Recorded> {
    let topics = options.workload.topics();
    let control = Control::open(&options.name, topics.len())?;
    let mut readers = Vec::new();
    for topic in &topics {
        let reader = Reader::open(&topic.stream_name(&options.name))
            .map_err(|e| BenchError::system("floor", "opening a stream")(&e))?;
        readers.push(reader);
    }
    let mut file = DirectFile::create(options)?;
    child::ready_and_wait()?;
    let mut meter = Meter::start();
    let total: u64 = topics.iter().map(|t| t.count(options.seconds)).sum();
    let tally = match options.mode {
        Mode::Paced => paced(&mut readers, &mut file, total)?,
        Mode::Unpaced => unpaced(&mut readers, &mut file, total, &mut meter)?,
    };
    file.sync()?;
    if options.mode == Mode::Paced {
        meter.first_message_at(control.started_nanos());
    }
    let recorded = Recorded {
        messages: tally.messages,
        bytes: tally.bytes,
        lapped: tally.lapped,
        file_bytes: file.offset,
        ..meter.end(&file.submit)
    };
    for topic in 0..topics.len() {
        control.set_done(topic, u64::MAX / 2);
    }
    child::wait_for_go()?;
    Ok(recorded)
}

/// Writes every frame when it comes.
fn paced(readers: &mut [Reader], file: &mut DirectFile<FrameRef>, total: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut taken = 0;
    while taken < total {
        let mut any = false;
        for (topic, reader) in readers.iter_mut().enumerate() {
            if !file.has_room() {
                file.complete(true, |_, frame| tally.add(&frame))?;
            }
            let next = reader.next();
            tally.lapped += next.lapped;
            taken += next.lapped;
            if let Some(frame) = next.frame {
                taken += 1;
                any = true;
                file.write(topic, frame)?;
            }
        }
        file.complete(false, |_, frame| tally.add(&frame))?;
        if !any {
            clock::sleep(LOOK_NANOS);
        }
    }
    while !file.is_idle() {
        file.complete(true, |_, frame| tally.add(&frame))?;
    }
    Ok(tally)
}

/// Writes the frames in the streams over and over, so that only the device limits it. Only afterwards the slots are
/// free for the producer.
fn unpaced(
    readers: &mut [Reader],
    file: &mut DirectFile<FrameRef>,
    total: u64,
    meter: &mut Meter,
) -> Result<Tally> {
    let mut frames: Vec<(usize, FrameRef)> = Vec::new();
    let deadline = clock::monotonic_nanos() + 10_000_000_000;
    // The producer fills all slots but one of each stream and then waits.
    while frames.len() < readers.len() * 3 {
        for (topic, reader) in readers.iter_mut().enumerate() {
            frames.extend(reader.next().frame.map(|frame| (topic, frame)));
        }
        if clock::monotonic_nanos() > deadline {
            return Err(BenchError::system("floor", "waiting for the streams to be filled")(
                &"they were not within 10 s",
            ));
        }
    }
    frames.sort_by_key(|(topic, frame)| (frame.sequence(), *topic));
    let mut tally = Tally::default();
    meter.first_message_at(clock::monotonic_nanos());
    for (_, (topic, frame)) in (0..total).zip(frames.iter().cycle()) {
        if !file.has_room() {
            file.complete(true, |_, frame| tally.add(&frame))?;
        }
        file.write(*topic, frame.clone())?;
    }
    while !file.is_idle() {
        file.complete(true, |_, frame| tally.add(&frame))?;
    }
    Ok(tally)
}

/// Writes as many bytes as the small messages have, in blocks of one buffer.
pub fn from_memory(options: &RunOptions) -> Result<Recorded> {
    let (messages, bytes) = options.workload.volume(options.seconds);
    let staged = Staged::new();
    let mut file = DirectFile::create(options)?;
    child::ready_and_wait()?;
    let meter = Meter::start();
    for _ in 0..bytes.div_ceil(STAGED_BYTES as u64) {
        if !file.has_room() {
            file.complete(true, |_, _| ())?;
        }
        file.write(0, &staged)?;
    }
    while !file.is_idle() {
        file.complete(true, |_, _| ())?;
    }
    file.sync()?;
    let file_bytes = file.offset;
    Ok(Recorded { messages, bytes, file_bytes, ..meter.end(&file.submit) })
}
