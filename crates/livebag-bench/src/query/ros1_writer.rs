//! A ROS 1 bag, version 2.0, uncompressed: only what the benchmark's peer reads.
//!
//! Source: the ROS wiki's "Bags/Format/2.0". livebag itself only reads this format.

use std::collections::BTreeMap;
use std::io::{self, Seek, SeekFrom, Write};

/// rosbag's default.
const CHUNK_BYTES: usize = 768 << 10;
/// The bag header record is padded to this length, so that it can be written again.
const BAG_HEADER_BYTES: usize = 4096;
const VERSION: &[u8] = b"#ROSBAG V2.0\n";

struct ChunkInfo {
    position: u64,
    start: u64,
    end: u64,
    counts: BTreeMap<u32, u32>,
}

/// Writes messages into chunks.
pub struct Ros1Writer<W: Write + Seek> {
    out: W,
    topics: Vec<String>,
    chunk: Vec<u8>,
    index: BTreeMap<u32, Vec<(u64, u32)>>,
    times: (u64, u64),
    chunks: Vec<ChunkInfo>,
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(&((name.len() + 1 + value.len()) as u32).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
    out.extend_from_slice(value);
}

/// A ROS time: seconds and nanoseconds, 32 bits each.
fn time(nanos: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&((nanos / 1_000_000_000) as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&((nanos % 1_000_000_000) as u32).to_le_bytes());
    bytes
}

fn record(header: &[u8], data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + header.len() + data.len());
    bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes
}

impl<W: Write + Seek> Ros1Writer<W> {
    /// Begins a bag with these topics; connection ids are their places.
    pub fn new(mut out: W, topics: &[&str]) -> io::Result<Self> {
        out.write_all(VERSION)?;
        out.write_all(&bag_header(0, 0, 0))?;
        Ok(Self {
            out,
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            chunk: Vec::new(),
            index: BTreeMap::new(),
            times: (u64::MAX, 0),
            chunks: Vec::new(),
        })
    }

    /// Adds a message.
    pub fn write(&mut self, connection: u32, nanos: u64, data: &[u8]) -> io::Result<()> {
        if !self.index.contains_key(&connection) {
            let known = self.connection(connection);
            self.chunk.extend_from_slice(&known);
        }
        let offset = self.chunk.len() as u32;
        self.index.entry(connection).or_default().push((nanos, offset));
        let mut header = Vec::new();
        field(&mut header, "op", &[0x02]);
        field(&mut header, "conn", &connection.to_le_bytes());
        field(&mut header, "time", &time(nanos));
        self.chunk.extend_from_slice(&record(&header, data));
        self.times = (self.times.0.min(nanos), self.times.1.max(nanos));
        if self.chunk.len() >= CHUNK_BYTES {
            self.close_chunk()?;
        }
        Ok(())
    }

    fn connection(&self, number: u32) -> Vec<u8> {
        let topic = self.topics[number as usize].as_bytes();
        let mut header = Vec::new();
        field(&mut header, "op", &[0x07]);
        field(&mut header, "conn", &number.to_le_bytes());
        field(&mut header, "topic", topic);
        let mut data = Vec::new();
        field(&mut data, "topic", topic);
        field(&mut data, "type", b"std_msgs/ByteMultiArray");
        field(&mut data, "md5sum", b"70ea476cbcfd65ac2f68f3cda1e891fe");
        field(&mut data, "message_definition", b"byte[] data");
        record(&header, &data)
    }

    fn close_chunk(&mut self) -> io::Result<()> {
        if self.index.is_empty() {
            return Ok(());
        }
        let position = self.out.stream_position()?;
        let mut header = Vec::new();
        field(&mut header, "op", &[0x05]);
        field(&mut header, "compression", b"none");
        field(&mut header, "size", &(self.chunk.len() as u32).to_le_bytes());
        self.out.write_all(&record(&header, &self.chunk))?;
        self.chunk.clear();
        let mut counts = BTreeMap::new();
        for (connection, entries) in std::mem::take(&mut self.index) {
            counts.insert(connection, entries.len() as u32);
            let mut header = Vec::new();
            field(&mut header, "op", &[0x04]);
            field(&mut header, "ver", &1u32.to_le_bytes());
            field(&mut header, "conn", &connection.to_le_bytes());
            field(&mut header, "count", &(entries.len() as u32).to_le_bytes());
            let mut data = Vec::new();
            for (nanos, offset) in entries {
                data.extend_from_slice(&time(nanos));
                data.extend_from_slice(&offset.to_le_bytes());
            }
            self.out.write_all(&record(&header, &data))?;
        }
        let (start, end) = std::mem::replace(&mut self.times, (u64::MAX, 0));
        self.chunks.push(ChunkInfo { position, start, end, counts });
        Ok(())
    }

    /// Ends the bag: connections, chunk infos, and the header again.
    pub fn finish(mut self) -> io::Result<W> {
        self.close_chunk()?;
        let index_position = self.out.stream_position()?;
        for number in 0..self.topics.len() as u32 {
            let known = self.connection(number);
            self.out.write_all(&known)?;
        }
        for chunk in &self.chunks {
            let mut header = Vec::new();
            field(&mut header, "op", &[0x06]);
            field(&mut header, "ver", &1u32.to_le_bytes());
            field(&mut header, "chunk_pos", &chunk.position.to_le_bytes());
            field(&mut header, "start_time", &time(chunk.start));
            field(&mut header, "end_time", &time(chunk.end));
            field(&mut header, "count", &(chunk.counts.len() as u32).to_le_bytes());
            let mut data = Vec::new();
            for (connection, count) in &chunk.counts {
                data.extend_from_slice(&connection.to_le_bytes());
                data.extend_from_slice(&count.to_le_bytes());
            }
            self.out.write_all(&record(&header, &data))?;
        }
        self.out.seek(SeekFrom::Start(VERSION.len() as u64))?;
        let (connections, chunks) = (self.topics.len() as u32, self.chunks.len() as u32);
        self.out.write_all(&bag_header(index_position, connections, chunks))?;
        Ok(self.out)
    }
}

fn bag_header(index_position: u64, connections: u32, chunks: u32) -> Vec<u8> {
    let mut header = Vec::new();
    field(&mut header, "op", &[0x03]);
    field(&mut header, "index_pos", &index_position.to_le_bytes());
    field(&mut header, "conn_count", &connections.to_le_bytes());
    field(&mut header, "chunk_count", &chunks.to_le_bytes());
    let padding = vec![b' '; BAG_HEADER_BYTES - 8 - header.len()];
    record(&header, &padding)
}
