//! Messages out of an MCAP file that is still arriving.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use livebag::DAMAGED_RECORD;
use livebag_format::Topic;
use mcap::parse_record;
use mcap::records::Record;
use mcap::sans_io::linear_reader::{LinearReadEvent, LinearReader, LinearReaderOptions};

use super::{RemoteAnswer, RemoteError};

/// Longest record that is believed: a message has at most 4 GiB.
const RECORD_BYTES_MAX: usize = (1 << 32) + (1 << 20);

/// One message. Times are nanoseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteMessage {
    /// Place of its topic in [`McapMessages::topics`].
    pub topic: usize,
    /// When the recorder took it.
    pub log_time_nanos: u64,
    /// When the source stamped it.
    pub publish_time_nanos: u64,
    /// The source's count; its lower 32 bits.
    pub sequence: u64,
    /// As it was encoded.
    pub data: Vec<u8>,
}

/// The messages of an answer, as they come.
pub struct McapMessages {
    answer: RemoteAnswer,
    reader: LinearReader,
    schemas: HashMap<u16, (String, String, Vec<u8>)>,
    topics: Vec<Topic>,
    /// Topic by channel.
    channels: HashMap<u16, usize>,
    damaged: BTreeMap<String, u64>,
    is_over: bool,
}

impl McapMessages {
    /// Reads an answer that is MCAP.
    pub fn new(answer: RemoteAnswer) -> Self {
        let options = LinearReaderOptions::default()
            .with_emit_chunks(false)
            .with_record_length_limit(RECORD_BYTES_MAX);
        Self {
            answer,
            reader: LinearReader::new_with_options(options),
            schemas: HashMap::new(),
            topics: Vec::new(),
            channels: HashMap::new(),
            damaged: BTreeMap::new(),
            is_over: false,
        }
    }

    /// The topics that have had messages so far.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// Messages that the server left out because they are damaged, by topic; known after the last message.
    pub fn damaged(&self) -> &BTreeMap<String, u64> {
        &self.damaged
    }

    /// The next message; `None` after the last.
    ///
    /// # Errors
    /// If the answer was cut off, or is not MCAP.
    pub fn next_message(&mut self) -> Result<Option<RemoteMessage>, RemoteError> {
        while !self.is_over {
            let url = || self.answer.url().to_owned();
            let event = match self.reader.next_event() {
                None => {
                    self.is_over = true;
                    break;
                }
                Some(event) => event,
            };
            let event = event
                .map_err(|error| RemoteError::Nonsense { url: url(), what: error.to_string() })?;
            let (opcode, data) = match event {
                LinearReadEvent::ReadRequest(bytes) => {
                    let read = self.answer.read(self.reader.insert(bytes));
                    let read = read.map_err(|error| self.answer.cut(error))?;
                    self.reader.notify_read(read);
                    continue;
                }
                LinearReadEvent::Record { opcode, data } => (opcode, data),
            };
            let record = parse_record(opcode, data)
                .map_err(|error| RemoteError::Nonsense { url: url(), what: error.to_string() })?;
            match record {
                Record::Schema { header, data } => {
                    let schema = (header.name, header.encoding, data.into_owned());
                    self.schemas.insert(header.id, schema);
                }
                Record::Channel(channel) if !self.channels.contains_key(&channel.id) => {
                    let (type_name, schema_encoding, schema) =
                        self.schemas.get(&channel.schema_id).cloned().unwrap_or_default();
                    self.channels.insert(channel.id, self.topics.len());
                    self.topics.push(Topic {
                        name: channel.topic,
                        type_name,
                        message_encoding: channel.message_encoding,
                        schema_encoding,
                        schema,
                        metadata: channel.metadata,
                    });
                }
                Record::Message { header, data } => {
                    let Some(&topic) = self.channels.get(&header.channel_id) else {
                        let what = "a message comes before its channel".into();
                        return Err(RemoteError::Nonsense { url: url(), what });
                    };
                    return Ok(Some(RemoteMessage {
                        topic,
                        log_time_nanos: header.log_time,
                        publish_time_nanos: header.publish_time,
                        sequence: header.sequence.into(),
                        data: data.into_owned(),
                    }));
                }
                Record::Metadata(record) if record.name == DAMAGED_RECORD => {
                    let counts = record.metadata.into_iter();
                    self.damaged =
                        counts.map(|(topic, count)| (topic, count.parse().unwrap_or(1))).collect();
                }
                // The following records repeat earlier ones.
                Record::DataEnd(_) => self.is_over = true,
                _ => {}
            }
        }
        Ok(None)
    }
}
