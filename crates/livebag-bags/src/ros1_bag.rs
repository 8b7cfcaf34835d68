//! ROS 1 bags, format 2.0, by their index; by a scan of their chunks if they were not closed.

use std::collections::HashMap;
use std::path::Path;

use livebag_format::Topic;
use livebag_format::ros1::bag::{
    self, ContainerError, HeadRead, Record, RecordHead, chunk_records, connection_topic,
    record_head,
};

use super::file::{ForeignFile, Window};
use super::merge::{BlockPlace, Blocks, TimeMerge};
use super::{CHUNK_BYTES_MAX, ConvertError, MessageSource, SourceMessage, Warnings};

/// A ROS 1 bag.
pub(super) struct Ros1Bag {
    chunks: Chunks,
    merge: TimeMerge,
}

struct Chunks {
    file: ForeignFile,
    places: Vec<ChunkPlace>,
    topics: Vec<Topic>,
    /// Topic by connection.
    connections: HashMap<u32, usize>,
    message_count: u64,
    lost_count: u64,
    warnings: Warnings,
}

/// Where a chunk is.
struct ChunkPlace {
    offset: u64,
    /// Messages in it, according to the bag's index.
    promised: u64,
}

impl Ros1Bag {
    pub(super) fn open(file: ForeignFile) -> Result<Self, ConvertError> {
        let head = file.read_up_to(0, bag::MAGIC.len())?;
        if head != bag::MAGIC {
            let version = String::from_utf8_lossy(&head[1..]).trim().to_owned();
            let reason = format!(
                "it has the format {version}; format ROSBAG V2.0 is read (rosbag reindex or rosbag fix \
                 bring older bags there)"
            );
            return Err(ConvertError::unsupported(file.path(), reason));
        }
        let mut chunks = Chunks {
            file,
            places: Vec::new(),
            topics: Vec::new(),
            connections: HashMap::new(),
            message_count: 0,
            lost_count: 0,
            warnings: Warnings::default(),
        };
        let places = chunks.index_or_scan()?;
        Ok(Ros1Bag { chunks, merge: TimeMerge::new(places) })
    }
}

impl MessageSource for Ros1Bag {
    fn topics(&self) -> &[Topic] {
        &self.chunks.topics
    }

    fn profile(&self) -> &str {
        "ros1"
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        self.merge.next(&mut self.chunks)
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.merge.start_time_nanos()
    }

    fn message_count(&self) -> Option<u64> {
        Some(self.chunks.message_count)
    }

    fn lost_count(&self) -> u64 {
        self.chunks.lost_count
    }

    fn warnings(&self) -> &[String] {
        self.chunks.warnings.all()
    }
}

/// A record's header from the file; `None` if the file ends or is damaged.
fn head_at(window: &mut Window<'_>, offset: u64) -> Result<Option<RecordHead>, ConvertError> {
    let mut wanted = 4;
    loop {
        let bytes = window.up_to(offset, wanted)?;
        let short = bytes.len() < wanted;
        match record_head(bytes) {
            Ok(HeadRead::Head(head)) => return Ok(Some(head)),
            Ok(HeadRead::NeedBytes(_)) if short => return Ok(None),
            Ok(HeadRead::NeedBytes(bytes)) => wanted = bytes,
            Err(_) => return Ok(None),
        }
    }
}

impl Chunks {
    fn damaged(&self, error: ContainerError) -> ConvertError {
        ConvertError::damaged(self.file.path(), error)
    }

    fn index_or_scan(&mut self) -> Result<Vec<BlockPlace>, ConvertError> {
        let start = bag::MAGIC.len() as u64;
        let head = head_at(&mut Window::new(&self.file), start)?;
        let Some(RecordHead {
            record: Record::BagHeader { index_offset, connection_count, chunk_count, encryptor },
            data_offset,
            data_bytes,
        }) = head
        else {
            let reason = "expected a bag header after the first line, found something else";
            return Err(ConvertError::damaged(self.file.path(), reason));
        };
        if !encryptor.is_empty() {
            let reason = format!("it is encrypted with {encryptor}; decrypt it with rosbag first");
            return Err(ConvertError::unsupported(self.file.path(), reason));
        }
        if index_offset != 0
            && let Some(places) = self.read_index(index_offset, connection_count, chunk_count)?
        {
            return Ok(places);
        }
        self.warnings.say(
            "the bag has no complete index (it was not closed, or is cut): all its chunks were \
             read to find the messages",
        );
        self.topics.clear();
        self.connections.clear();
        self.places.clear();
        self.scan(start + data_offset as u64 + u64::from(data_bytes))
    }

    /// The index section at the end; `None` if it is not whole.
    fn read_index(
        &mut self,
        index_offset: u64,
        connection_count: u32,
        chunk_count: u32,
    ) -> Result<Option<Vec<BlockPlace>>, ConvertError> {
        let mut chunks = Vec::new();
        let mut connections = Vec::new();
        let mut window = Window::new(&self.file);
        let mut at = index_offset;
        while at < self.file.length_bytes() {
            let Some(head) = head_at(&mut window, at)? else { return Ok(None) };
            let data_at = at + head.data_offset as u64;
            match head.record {
                Record::Connection { id, topic } => {
                    let data = window.up_to(data_at, head.data_bytes as usize)?;
                    connections.push((id, topic, data.to_vec()));
                }
                Record::ChunkInfo { chunk_offset, start_time_nanos, .. } => {
                    // Connection and number of messages, four bytes each.
                    let counts = window.up_to(data_at, head.data_bytes as usize)?;
                    let promised = counts
                        .as_chunks::<8>()
                        .0
                        .iter()
                        .map(|[.., a, b, c, d]| u64::from(u32::from_le_bytes([*a, *b, *c, *d])))
                        .sum::<u64>();
                    chunks.push((chunk_offset, start_time_nanos, promised));
                }
                _ => {}
            }
            at = data_at + u64::from(head.data_bytes);
        }
        let whole = at == self.file.length_bytes()
            && connections.len() >= connection_count as usize
            && chunks.len() >= chunk_count as usize;
        if !whole {
            return Ok(None);
        }
        for (id, topic, data) in connections {
            self.add_connection(id, &topic, &data).map_err(|error| self.damaged(error))?;
        }
        self.message_count = chunks.iter().map(|(_, _, promised)| promised).sum();
        chunks.sort_unstable();
        let chunk = |&(offset, _, promised): &(u64, u64, u64)| ChunkPlace { offset, promised };
        self.places = chunks.iter().map(chunk).collect();
        let places = chunks.iter().enumerate();
        Ok(Some(
            places
                .map(|(number, (_, start_time_nanos, _))| BlockPlace {
                    start_time_nanos: *start_time_nanos,
                    number,
                })
                .collect(),
        ))
    }

    /// Every chunk from `at` on, up to the first damage.
    fn scan(&mut self, mut at: u64) -> Result<Vec<BlockPlace>, ConvertError> {
        let mut places = Vec::new();
        // The window borrows the file while `self` is filled.
        let file = self.file.again()?;
        let mut window = Window::new(&file);
        while at < self.file.length_bytes() {
            let head = head_at(&mut window, at)?;
            let end =
                head.as_ref().map(|head| at + head.data_offset as u64 + u64::from(head.data_bytes));
            let (Some(head), Some(end)) = (head, end) else {
                self.cut(at);
                break;
            };
            let is_cut = end > self.file.length_bytes();
            if is_cut {
                self.cut(at);
            }
            match head.record {
                // Messages of a chunk that is cut are there up to the cut, unless it is compressed.
                Record::Chunk { .. } => {
                    if let Some(start_time_nanos) = self.scan_chunk(at)? {
                        places.push(BlockPlace { start_time_nanos, number: self.places.len() });
                        self.places.push(ChunkPlace { offset: at, promised: 0 });
                    }
                }
                _ if is_cut => break,
                Record::Connection { id, ref topic } => {
                    let data_at = at + head.data_offset as u64;
                    let data = self.file.read(data_at, head.data_bytes as usize)?;
                    self.add_connection(id, topic, &data).map_err(|error| self.damaged(error))?;
                }
                _ => {}
            }
            at = end;
        }
        Ok(places)
    }

    fn cut(&mut self, at: u64) {
        let lost = self.file.length_bytes() - at;
        self.warnings.say(format!("the bag is cut: its last {lost} bytes are no whole record"));
    }

    /// Takes the connections of a chunk; gives its earliest time, `None` if it has no message.
    fn scan_chunk(&mut self, offset: u64) -> Result<Option<u64>, ConvertError> {
        let mut start: Option<u64> = None;
        let chunk = match self.read_chunk(offset)? {
            Ok(chunk) => chunk,
            Err(error) => {
                self.warnings.say(format!("the chunk at offset {offset} is left out: {error}"));
                self.lost_count += 1;
                return Ok(None);
            }
        };
        for record in chunk_records(&chunk) {
            match record {
                Ok((Record::Connection { id, topic }, data)) => {
                    self.add_connection(id, &topic, data).map_err(|error| self.damaged(error))?;
                }
                Ok((Record::Message { time_nanos, .. }, _)) => {
                    start = Some(start.map_or(time_nanos, |start| start.min(time_nanos)));
                    self.message_count += 1;
                }
                Ok(_) => {}
                // Messages found in it are counted when they are read.
                Err(_) => {
                    self.lost_count += u64::from(start.is_none());
                    break;
                }
            }
        }
        Ok(start)
    }

    fn add_connection(&mut self, id: u32, topic: &str, data: &[u8]) -> Result<(), ContainerError> {
        if !self.connections.contains_key(&id) {
            self.connections.insert(id, self.topics.len());
            self.topics.push(connection_topic(topic, data)?);
        }
        Ok(())
    }

    /// A chunk's records, decompressed. The inner error is damage to this chunk only.
    fn read_chunk(&self, offset: u64) -> Result<Result<Vec<u8>, ContainerError>, ConvertError> {
        let head = head_at(&mut Window::new(&self.file), offset)?;
        let Some(RecordHead {
            record: Record::Chunk { compression, decompressed_bytes },
            data_offset,
            data_bytes,
        }) = head
        else {
            return Ok(Err(ContainerError::Record {
                reason: "the index says that a chunk is here",
            }));
        };
        if u64::from(decompressed_bytes.max(data_bytes)) > CHUNK_BYTES_MAX {
            return Ok(Err(ContainerError::Record { reason: "it is longer than 1 GiB" }));
        }
        let data = self.file.read_up_to(offset + data_offset as u64, data_bytes as usize)?;
        if compression == "none" {
            return Ok(Ok(data));
        }
        if data.len() < data_bytes as usize {
            return Ok(Err(ContainerError::Record { reason: "it ends after its file" }));
        }
        Ok(bag::decompress(&compression, &data, decompressed_bytes).map(|data| data.into_owned()))
    }
}

impl Blocks for Chunks {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn load(&mut self, number: usize) -> Result<Vec<SourceMessage>, ConvertError> {
        let ChunkPlace { offset, promised } = self.places[number];
        let mut messages = Vec::new();
        let chunk = match self.read_chunk(offset)? {
            Ok(chunk) => chunk,
            Err(error) => {
                self.warnings.say(format!("the chunk at offset {offset} is left out: {error}"));
                self.lost_count += promised.max(1);
                return Ok(messages);
            }
        };
        let mut is_cut = false;
        for record in chunk_records(&chunk) {
            match record {
                Ok((Record::Message { connection, time_nanos }, data)) => {
                    let Some(topic) = self.connections.get(&connection) else {
                        self.warnings.say(format!(
                            "a message of the unknown connection {connection} is left out"
                        ));
                        continue;
                    };
                    messages.push(SourceMessage {
                        topic: *topic,
                        log_time_nanos: time_nanos,
                        publish_time_nanos: time_nanos,
                        sequence: 0,
                        data: data.to_vec(),
                    });
                }
                Ok(_) => {}
                Err(error) => {
                    self.warnings.say(format!("the chunk at offset {offset} is cut: {error}"));
                    is_cut = true;
                    break;
                }
            }
        }
        let missing = promised.saturating_sub(messages.len() as u64);
        self.lost_count += missing.max(u64::from(is_cut));
        Ok(messages)
    }
}
