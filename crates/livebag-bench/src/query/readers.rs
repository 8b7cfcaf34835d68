//! Each system's way to open a recording and read one topic.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;

use livebag::{Container, Query, Span};
use mcap::sans_io::indexed_reader::{IndexedReadEvent, IndexedReader, IndexedReaderOptions};
use mcap::sans_io::summary_reader::{SummaryReadEvent, SummaryReader};
use rosbag::{ChunkRecord, IndexRecord, MessageRecord, RosBag};

use crate::clock;
use crate::error::{BenchError, Result};
use crate::files;

/// What is asked: a topic, and a range of log times (both ends included) or all.
pub struct Question<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// First and last log time.
    pub range: Option<(u64, u64)>,
}

/// What reading gave, and how long it took.
#[derive(Default)]
pub struct Answer {
    /// Opening alone.
    pub open_nanos: u64,
    /// Opening and reading.
    pub total_nanos: u64,
    /// Messages read.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Answer {
    /// Takes note of a message and loads one byte of each of its pages, so that a reader that hands
    /// out a mapped file's memory has its page faults here.
    fn see(&mut self, data: &[u8]) {
        self.messages += 1;
        self.bytes += data.len() as u64;
        for &byte in data.iter().step_by(4096) {
            // By value: of a reference, nothing but the address would be made sure of.
            black_box(byte);
        }
    }
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> BenchError + '_ {
    move |error| BenchError::Child { role: what.to_owned(), problem: error.to_string() }
}

/// livebag's container, large messages in place.
pub fn livebag(path: &Path, question: &Question<'_>) -> Result<Answer> {
    read_container(path, question, true)
}

/// The same, every message copied.
pub fn livebag_pread(path: &Path, question: &Question<'_>) -> Result<Answer> {
    read_container(path, question, false)
}

fn query_of(question: &Question<'_>) -> Query {
    let span = question.range.map_or(Span::All, |(from, to)| Span::History(from, to));
    Query { topics: vec![question.topic.to_owned()], span }
}

/// What the device needs for as many bytes from the same place on: direct reads of 1 MiB, two at a time,
/// and no index.
pub fn floor(path: &Path, question: &Question<'_>) -> Result<Answer> {
    let bag = Container::open(path).map_err(failed("livebag"))?;
    let mut cursor = bag.query(&query_of(question)).map_err(failed("livebag"))?;
    let mut answer = Answer::default();
    let mut first = None;
    while let Some((topic, entry)) = cursor.next_entry().map_err(failed("livebag"))? {
        first.get_or_insert((topic, entry.offset));
        answer.messages += 1;
        answer.bytes += u64::from(entry.data_bytes);
    }
    let Some((topic, offset)) = first else { return Ok(answer) };
    let brick = path.join(&bag.topics()[topic].bricks()[0]);
    let file = files::open_direct(&brick)?;
    files::drop_from_cache(&brick)?;
    let (begin, end) = (offset / BLOCK as u64 * BLOCK as u64, offset + answer.bytes);
    let start = clock::monotonic_nanos();
    let read: Vec<Result<()>> = std::thread::scope(|scope| {
        let reader = |first: u64| {
            let file = &file;
            let read = move || read_every_second(file, begin + (first << 20), end);
            std::thread::Builder::new().name("bench-direct".into()).spawn_scoped(scope, read)
        };
        let readers: Vec<_> = (0..2).map(reader).collect();
        readers
            .into_iter()
            .map(|reader| match reader.map_err(failed("starting a thread"))?.join() {
                Ok(read) => read,
                Err(_) => Err(failed("direct reads")("the thread has panicked")),
            })
            .collect()
    });
    answer.total_nanos = clock::monotonic_nanos() - start;
    read.into_iter().collect::<Result<()>>()?;
    Ok(answer)
}

/// Blocks that direct reads are aligned to.
const BLOCK: usize = 4096;

/// Reads the first MiB of every two from `at` on.
fn read_every_second(file: &File, mut at: u64, end: u64) -> Result<()> {
    let mut memory = vec![0u8; (1 << 20) + BLOCK];
    let aligned = memory.as_ptr().align_offset(BLOCK);
    let memory = &mut memory[aligned..aligned + (1 << 20)];
    while at < end {
        let wanted = (end - at).next_multiple_of(BLOCK as u64).min(1 << 20) as usize;
        file.read_at(&mut memory[..wanted], at).map_err(failed("direct reads"))?;
        at += 2 << 20;
    }
    Ok(())
}

fn read_container(path: &Path, question: &Question<'_>, in_place: bool) -> Result<Answer> {
    let start = clock::monotonic_nanos();
    let mut answer = Answer::default();
    let bag = Container::open(path).map_err(failed("livebag"))?;
    #[expect(unsafe_code, reason = "as the peer's memory map")]
    // SAFETY: nobody writes the recording while it is measured.
    let bag = if in_place { unsafe { bag.in_place() } } else { bag };
    answer.open_nanos = clock::monotonic_nanos() - start;
    let mut cursor = bag.query(&query_of(question)).map_err(failed("livebag"))?;
    while let Some((_, message)) = cursor.next().map_err(failed("livebag"))? {
        answer.see(message.data);
    }
    answer.total_nanos = clock::monotonic_nanos() - start;
    Ok(answer)
}

fn indexed(summary: &mcap::Summary, question: &Question<'_>) -> Result<IndexedReader> {
    let mut options = IndexedReaderOptions::new().include_topics([question.topic]);
    if let Some((from, to)) = question.range {
        options = options.starting_at(from).ending_before(to + 1);
    }
    IndexedReader::new_with_options(summary, options).map_err(failed("mcap"))
}

/// The `mcap` crate over a mapped file.
pub fn mcap_mapped(path: &Path, question: &Question<'_>) -> Result<Answer> {
    let start = clock::monotonic_nanos();
    let mut answer = Answer::default();
    let map = files::map(path)?;
    let summary = mcap::Summary::read(&map).map_err(failed("mcap"))?;
    let summary = summary.ok_or_else(|| failed("mcap")("the file has no summary"))?;
    answer.open_nanos = clock::monotonic_nanos() - start;
    let mut reader = indexed(&summary, question)?;
    while let Some(event) = reader.next_event() {
        match event.map_err(failed("mcap"))? {
            IndexedReadEvent::ReadChunkRequest { offset, length } => {
                let data = &map[offset as usize..][..length];
                reader.insert_chunk_record_data(offset, data).map_err(failed("mcap"))?;
            }
            IndexedReadEvent::Message { data, .. } => answer.see(data),
        }
    }
    answer.total_nanos = clock::monotonic_nanos() - start;
    Ok(answer)
}

fn read_summary(file: &File) -> Result<mcap::Summary> {
    let mut reader = SummaryReader::new();
    let size = file.metadata().map_err(failed("mcap"))?.len();
    let mut position = 0u64;
    while let Some(event) = reader.next_event() {
        match event.map_err(failed("mcap"))? {
            SummaryReadEvent::ReadRequest(need) => {
                let count = file.read_at(reader.insert(need), position).map_err(failed("mcap"))?;
                position += count as u64;
                reader.notify_read(count);
            }
            SummaryReadEvent::SeekRequest(to) => {
                position = match to {
                    std::io::SeekFrom::Start(at) => at,
                    std::io::SeekFrom::End(back) => size.saturating_add_signed(back),
                    std::io::SeekFrom::Current(by) => position.saturating_add_signed(by),
                };
                reader.notify_seeked(position);
            }
        }
    }
    reader.finish().ok_or_else(|| failed("mcap")("the file has no summary"))
}

/// The `mcap` crate with `pread`.
pub fn mcap_pread(path: &Path, question: &Question<'_>) -> Result<Answer> {
    let start = clock::monotonic_nanos();
    let mut answer = Answer::default();
    let file = files::open(path)?;
    let summary = read_summary(&file)?;
    answer.open_nanos = clock::monotonic_nanos() - start;
    let mut reader = indexed(&summary, question)?;
    let mut buffer = Vec::new();
    while let Some(event) = reader.next_event() {
        match event.map_err(failed("mcap"))? {
            IndexedReadEvent::ReadChunkRequest { offset, length } => {
                buffer.resize(length, 0);
                file.read_exact_at(&mut buffer, offset).map_err(failed("mcap"))?;
                reader.insert_chunk_record_data(offset, &buffer).map_err(failed("mcap"))?;
            }
            IndexedReadEvent::Message { data, .. } => answer.see(data),
        }
    }
    answer.total_nanos = clock::monotonic_nanos() - start;
    Ok(answer)
}

/// The `rosbag` crate: only chunks that hold the topic in the range.
pub fn rosbag1(path: &Path, question: &Question<'_>) -> Result<Answer> {
    let start = clock::monotonic_nanos();
    let mut answer = Answer::default();
    let bag = RosBag::new(path).map_err(failed("rosbag"))?;
    let (from, to) = question.range.unwrap_or((0, u64::MAX));
    let mut connection = None;
    let mut positions = Vec::new();
    for record in bag.index_records() {
        match record.map_err(failed("rosbag"))? {
            IndexRecord::Connection(known) if known.topic == question.topic => {
                connection = Some(known.id);
            }
            IndexRecord::ChunkInfo(info)
                if info.end_time >= from
                    && info.start_time <= to
                    && info.entries().any(|entry| Some(entry.conn_id) == connection) =>
            {
                positions.push(info.chunk_pos);
            }
            _ => {}
        }
    }
    answer.open_nanos = clock::monotonic_nanos() - start;
    let mut chunks = bag.chunk_records();
    for position in positions {
        chunks.seek(position).map_err(failed("rosbag"))?;
        let Some(record) = chunks.next() else { break };
        let ChunkRecord::Chunk(chunk) = record.map_err(failed("rosbag"))? else { continue };
        for message in chunk.messages() {
            if let MessageRecord::MessageData(message) = message.map_err(failed("rosbag"))?
                && Some(message.conn_id) == connection
                && (from..=to).contains(&message.time)
            {
                answer.see(message.data);
            }
        }
    }
    answer.total_nanos = clock::monotonic_nanos() - start;
    Ok(answer)
}
