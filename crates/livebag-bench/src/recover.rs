//! `livebag-bench recover`: how long opening takes after a crash.
//!
//! The container is not recorded, but written as a killed recorder leaves it: eight FullHD cameras and an IMU; every
//! index entry, every header and the frames that recovery must prove exist; the pixels of earlier frames are holes,
//! which opening does not read. So 20 GB cost seconds of writing. `kill`: the kernel is trusted except for the last 256
//! MiB of each brick. `power cut`: the recorder ran under another kernel, and its last sync mark is a second old: later
//! messages must be proven.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use livebag::{
    Access, Container, ContainerState, ContainerTopic, Disk, DiskFile, KernelDisk, Owner, ReadDisk,
    Topic,
};
use livebag_format::container::{
    CONTAINER_FILE, ClockJumps, LOCK_FILE, Manifest, Removed, SYNCED_FILE, State, SyncMark,
    TopicManifest,
};
use livebag_format::index::{IndexEntry, index_header};
use livebag_format::mcap;
use serde_json::json;

use crate::error::{BenchError, Result};
use crate::place::Place;
use crate::report::{Row, figure, row};
use crate::{clock, files, stats};

const CAMERAS: u16 = 8;
/// FullHD, three bytes a pixel, with its CDR frame.
const FRAME_BYTES: u64 = 6_220_864;
const CAMERA_HZ: u64 = 30;
/// Frames that take up the last 256 MiB of a camera's brick.
const UNSETTLED_FRAMES: u64 = 45;
const IMU_BYTES: usize = 324;
const IMU_HZ: u64 = 200;
/// IMU messages of a gathered chunk: 50 ms.
const IMU_PER_CHUNK: u64 = 10;
const BLOCK_BYTES: u64 = 4096;
const START_NANOS: u64 = 1_700_000_000_000_000_000;
const SECOND_NANOS: u64 = 1_000_000_000;

/// Options of `livebag-bench recover`.
#[derive(Debug, Clone, Args)]
pub struct RecoverArgs {
    /// Only this length of recording; without it 1, 5 and 20 GB
    #[arg(long, value_name = "N")]
    pub gb: Option<u64>,
    /// How often each is opened; figures are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub repeats: u32,
    /// A run of under 50 s
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub place: Place,
}

/// The columns of the table.
pub const COLUMNS: &[&str] =
    &["system", "gb", "crash", "recover_ms", "max_ms", "again_ms", "messages", "tail_gb"];

/// The results of the runs.
pub struct Outcome {
    /// One per length and crash.
    pub rows: Vec<Row>,
    /// One per run.
    pub runs: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Crash {
    Kill,
    PowerCut,
}

impl Crash {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerCut => "power cut",
        }
    }
}

/// Lays containers out, and opens them.
pub fn measure(args: &RecoverArgs) -> Result<Outcome> {
    let directory = args.place.prepare()?;
    let folder = tempfile::Builder::new()
        .prefix("recover-")
        .tempdir_in(&directory)
        .map_err(|e| BenchError::io(format!("making a directory in {}", directory.display()), e))?;
    let lengths = match args.gb {
        Some(gb) => vec![gb],
        None if args.quick => vec![1, 20],
        None => vec![1, 5, 20],
    };
    let repeats = if args.quick { 2 } else { args.repeats };
    let mut outcome = Outcome { rows: Vec::new(), runs: Vec::new() };
    for gb in lengths {
        for crash in [Crash::Kill, Crash::PowerCut] {
            let mut opened = Vec::new();
            for repeat in 0..repeats {
                eprintln!("recover: {gb} GB, {}, {repeat}", crash.name());
                let container = folder.path().join("container");
                let frames = gb * 1_000_000_000 / (FRAME_BYTES * u64::from(CAMERAS));
                let in_tail = match crash {
                    Crash::Kill => UNSETTLED_FRAMES,
                    Crash::PowerCut => CAMERA_HZ,
                };
                let laid_out = lay_out(&container, frames, in_tail, crash)?;
                let times = open(&container, &laid_out)?;
                outcome.runs.push(row(&json!({
                    "system": "livebag", "gb": gb, "crash": crash.name(), "repeat": repeat,
                    "recover_ms": times.recover_ms, "again_ms": times.again_ms,
                    "messages": laid_out.messages,
                })));
                opened.push((times, laid_out));
                std::fs::remove_dir_all(&container)
                    .map_err(|e| BenchError::io(format!("removing {}", container.display()), e))?;
            }
            let all: Vec<f64> = opened.iter().map(|(times, _)| times.recover_ms).collect();
            let again: Vec<f64> = opened.iter().map(|(times, _)| times.again_ms).collect();
            let Some((_, laid_out)) = opened.last() else { continue };
            let mut line = row(&json!({
                "system": "livebag", "gb": gb, "crash": crash.name(),
                "messages": laid_out.messages, "tail_gb": laid_out.tail_bytes as f64 / 1e9,
            }));
            line.insert("recover_ms".into(), figure(stats::median(&all)));
            line.insert("max_ms".into(), figure(all.iter().copied().reduce(f64::max)));
            line.insert("again_ms".into(), figure(stats::median(&again)));
            outcome.rows.push(line);
        }
    }
    Ok(outcome)
}

struct Times {
    /// The first opening, nothing in the page cache.
    recover_ms: f64,
    /// The next one.
    again_ms: f64,
}

fn failed(role: &str, problem: impl std::fmt::Display) -> BenchError {
    BenchError::Child { role: role.to_owned(), problem: problem.to_string() }
}

fn open(container: &Path, laid_out: &LaidOut) -> Result<Times> {
    files::drop_from_cache(container)?;
    let mut times = [0.0; 2];
    for time in &mut times {
        let start = clock::monotonic_nanos();
        let bag = Container::open(container).map_err(|e| failed("opening", e))?;
        *time = (clock::monotonic_nanos() - start) as f64 / 1e6;
        let counts = bag.topics().iter().map(ContainerTopic::message_count);
        let messages: u64 =
            counts.sum::<std::result::Result<_, _>>().map_err(|e| failed("opening", e))?;
        if (bag.state(), messages) != (ContainerState::Recovered, laid_out.messages) {
            let problem = format!("gave {messages} messages of {}", laid_out.messages);
            return Err(failed("opening", problem));
        }
    }
    Ok(Times { recover_ms: times[0], again_ms: times[1] })
}

/// The written container.
struct LaidOut {
    messages: u64,
    /// Bytes of the last second.
    tail_bytes: u64,
}

/// A brick and its index, being laid out.
struct Layout {
    topic: TopicManifest,
    brick: Arc<dyn DiskFile>,
    index: Arc<dyn DiskFile>,
    tail: u64,
    entries: Vec<u8>,
    messages: u64,
    synced: u64,
}

fn io<T>(what: &'static str) -> impl Fn(std::io::Result<T>) -> Result<T> {
    move |result| result.map_err(|e| BenchError::io(format!("writing a {what}"), e))
}

impl Layout {
    fn begin(disk: &dyn Disk, directory: &Path, id: u16, name: &str, of: &str) -> Result<Self> {
        let topic = Topic {
            name: format!("/{name}"),
            type_name: of.to_owned(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"byte[] data".to_vec(),
            metadata: BTreeMap::new(),
        };
        let mut start = Vec::new();
        mcap::put_file_start(&mut start, "ros2", LIBRARY);
        mcap::put_definition(&mut start, id, &topic);
        let position = start.len() as u64;
        mcap::put_padding_to(&mut start, position, BLOCK_BYTES);
        let (brick_name, index_name) = (format!("{name}.mcap"), format!("{name}.idx"));
        let made = |name: &String| io("file")(disk.create(&directory.join(name), Access::Buffered));
        let (brick, index) = (made(&brick_name)?, made(&index_name)?);
        io("brick")(brick.write_at(&start, 0))?;
        Ok(Self {
            topic: TopicManifest::new(&topic, id, index_name, vec![brick_name]),
            brick,
            index,
            tail: start.len() as u64,
            entries: index_header().to_vec(),
            messages: 0,
            synced: 0,
        })
    }

    fn entry(&mut self, log_time_nanos: u64, offset: u64, inner: u64, data_bytes: u64) {
        self.messages += 1;
        let entry = IndexEntry {
            log_time_nanos,
            publish_time_nanos: log_time_nanos,
            sequence: self.messages,
            offset,
            data_bytes: data_bytes as u32,
            inner: inner as u32,
            brick: 0,
            compressed: false,
            repeated: false,
        };
        self.entries.extend_from_slice(&entry.encode());
    }

    fn frame(&mut self, nanos: u64, payload: Option<&[u8]>) -> Result<()> {
        let id = self.topic.channel_id;
        let records = mcap::MESSAGE_HEADER_BYTES as u64 + FRAME_BYTES;
        let mut head = mcap::chunk_header(nanos, nanos, records, 0).to_vec();
        head.extend(mcap::message_header(id, self.messages + 1, nanos, nanos, FRAME_BYTES));
        let data = self.tail + head.len() as u64;
        let write = |bytes: &[u8], at| io("brick")(self.brick.write_at(bytes, at));
        write(&head, self.tail)?;
        if let Some(payload) = payload {
            write(payload, data)?;
        }
        let mut end = Vec::new();
        mcap::put_message_index(&mut end, id, std::iter::once((nanos, 0)));
        let at = data + FRAME_BYTES;
        let position = at + end.len() as u64;
        mcap::put_padding_to(&mut end, position, BLOCK_BYTES);
        write(&end, at)?;
        self.tail = at + end.len() as u64;
        self.entry(nanos, data, 0, FRAME_BYTES);
        Ok(())
    }

    /// Fifty milliseconds of a topic of small messages.
    fn gathered(&mut self, first_nanos: u64) -> Result<()> {
        let id = self.topic.channel_id;
        let step = SECOND_NANOS / IMU_HZ;
        let (mut records, mut places) = (Vec::new(), Vec::new());
        for number in 0..IMU_PER_CHUNK {
            let nanos = first_nanos + number * step;
            let inner = records.len() as u64;
            let sequence = self.messages + 1;
            records.extend(mcap::message_header(id, sequence, nanos, nanos, IMU_BYTES as u64));
            let data = self.tail + (mcap::CHUNK_HEADER_BYTES + records.len()) as u64;
            records.resize(records.len() + IMU_BYTES, number as u8);
            places.push((nanos, inner));
            self.entry(nanos, data, inner, IMU_BYTES as u64);
        }
        let last_nanos = first_nanos + (IMU_PER_CHUNK - 1) * step;
        let crc = crc32(&records);
        let mut bytes =
            mcap::chunk_header(first_nanos, last_nanos, records.len() as u64, crc).to_vec();
        bytes.extend(records);
        mcap::put_message_index(&mut bytes, id, places.into_iter());
        io("brick")(self.brick.write_at(&bytes, self.tail))?;
        self.tail += bytes.len() as u64;
        Ok(())
    }

    /// A frame that was in flight: its extent is still padding.
    fn in_flight(&mut self) -> Result<()> {
        let padding = mcap::uncommitted_header(FRAME_BYTES.next_multiple_of(BLOCK_BYTES));
        io("brick")(self.brick.write_at(&padding, self.tail))?;
        io("brick")(self.brick.set_len(self.tail + FRAME_BYTES.next_multiple_of(BLOCK_BYTES)))
    }

    fn end(&mut self) -> Result<()> {
        io("index")(self.index.write_at(&self.entries, 0))?;
        io("index")(self.index.sync())?;
        io("brick")(self.brick.sync())
    }
}

const LIBRARY: &str = concat!("livebag ", env!("CARGO_PKG_VERSION"));

/// CRC-32 as MCAP has it (ISO-HDLC), for some kilobytes.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    };
    !bytes.iter().fold(!0, step)
}

/// Writes this many frames of every camera, the last `in_tail` with their pixels.
fn lay_out(directory: &Path, frames: u64, in_tail: u64, crash: Crash) -> Result<LaidOut> {
    let disk = KernelDisk::for_reading();
    io("directory")(disk.create_dir(directory))?;
    let mut cameras = Vec::new();
    for number in 1..=CAMERAS {
        let name = format!("camera_{number}");
        let of = "sensor_msgs/msg/Image";
        cameras.push(Layout::begin(&disk, directory, number, &name, of)?);
    }
    let mut imu = Layout::begin(&disk, directory, CAMERAS + 1, "imu", "sensor_msgs/msg/Imu")?;
    let pixels = vec![0x5a; FRAME_BYTES as usize];
    let chunk_nanos = SECOND_NANOS * IMU_PER_CHUNK / IMU_HZ;
    let mut next_chunk = START_NANOS;
    for frame in 0..frames {
        let nanos = START_NANOS + frame * SECOND_NANOS / CAMERA_HZ;
        while next_chunk + chunk_nanos <= nanos {
            imu.gathered(next_chunk)?;
            next_chunk += chunk_nanos;
        }
        let is_in_tail = frame + in_tail >= frames;
        for camera in &mut cameras {
            camera.frame(nanos, is_in_tail.then_some(&pixels[..]))?;
        }
        if !is_in_tail {
            for layout in cameras.iter_mut().chain([&mut imu]) {
                layout.synced = layout.messages;
            }
        }
    }
    for camera in &mut cameras {
        camera.in_flight()?;
    }
    let mut topics = Vec::new();
    let mut mark = SyncMark::default();
    let mut messages = 0;
    for layout in cameras.iter_mut().chain([&mut imu]) {
        layout.end()?;
        messages += layout.messages;
        mark.entries.insert(layout.topic.index.clone(), layout.synced);
        topics.push(layout.topic.clone());
    }
    write_rest(&disk, directory, topics, &mark, crash)?;
    let tail_frames = frames.min(in_tail) * u64::from(CAMERAS);
    Ok(LaidOut { messages, tail_bytes: tail_frames * FRAME_BYTES })
}

/// Manifest, lock and sync mark.
fn write_rest(
    disk: &KernelDisk,
    directory: &Path,
    topics: Vec<TopicManifest>,
    mark: &SyncMark,
    crash: Crash,
) -> Result<()> {
    let manifest = Manifest {
        livebag_container: 1,
        library: LIBRARY.into(),
        profile: "ros2".into(),
        state: State::Recording,
        started_nanos: START_NANOS,
        ended_nanos: 0,
        written_nanos: 0,
        unknown_since_nanos: 0,
        failure: String::new(),
        metadata: Vec::new(),
        attachments: String::new(),
        splits: Vec::new(),
        one_file: false,
        clock_jumps: ClockJumps::default(),
        removed: Removed::default(),
        topics,
    };
    let text = manifest.to_yaml().map_err(|e| failed("laying out", e))?;
    let boot_id = match crash {
        Crash::Kill => disk.boot_id().unwrap_or_default(),
        Crash::PowerCut => "another".to_owned(),
    };
    let owner = Owner { pid: 1, boot_id };
    let write = |name: &str, text: &str| {
        io("file")(disk.replace(&directory.join(name), text.as_bytes(), true))
    };
    write(CONTAINER_FILE, &text)?;
    write(LOCK_FILE, &owner.to_text())?;
    if crash == Crash::PowerCut {
        write(SYNCED_FILE, &mark.to_text())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_laid_out_is_recovered_whole() {
        let folder = tempfile::tempdir().unwrap();
        for (in_tail, crash) in [(6, Crash::Kill), (2, Crash::PowerCut)] {
            let container = folder.path().join(in_tail.to_string());
            let laid_out = lay_out(&container, 6, in_tail, crash).unwrap();
            open(&container, &laid_out).unwrap();
            let verified = livebag_bags::verify(&container, &mut |_| {}).unwrap();
            assert_eq!(verified.damage, []);
            assert_eq!(verified.messages, laid_out.messages);
        }
    }

    #[test]
    fn the_checksum_is_that_of_mcap() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
