//! A topic inside the recorder: its index, and the order in which its messages are committed.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use livebag_format::Topic;
use livebag_format::index::{ENTRY_BYTES, IndexEntry, index_header};

use super::Counters;
use crate::queue::TopicQueue;
use crate::source::StreamSource;
use crate::storage::{Access, Disk, DiskFile};

/// Why messages will not be in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Lapped,
    Disk,
}

/// How an extent ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Pending,
    Readable(Vec<IndexEntry>),
    Lost(Cause, u64),
}

/// Number of an extent in its topic's order.
pub(super) type Ticket = u64;

/// Entries are appended in ticket order, so that log times never decrease in the index although
/// writes complete in any order.
#[derive(Default)]
struct Tickets {
    first: Ticket,
    outcomes: VecDeque<Outcome>,
}

impl Tickets {
    fn issue(&mut self) -> Ticket {
        self.outcomes.push_back(Outcome::Pending);
        self.first + self.outcomes.len() as u64 - 1
    }

    fn settle(&mut self, ticket: Ticket, outcome: Outcome) {
        self.outcomes[(ticket - self.first) as usize] = outcome;
    }

    fn next_settled(&mut self) -> Option<Outcome> {
        if matches!(self.outcomes.front()?, Outcome::Pending) {
            return None;
        }
        self.first += 1;
        self.outcomes.pop_front()
    }
}

/// The index file of a topic being recorded.
struct IndexWriter {
    file: Arc<dyn DiskFile>,
    bytes: u64,
}

impl IndexWriter {
    fn create(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        let file = disk.create(path, Access::Buffered)?;
        file.write_at(&index_header(), 0)?;
        Ok(Self { file, bytes: ENTRY_BYTES as u64 })
    }

    fn append(&mut self, entries: &[IndexEntry]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
        for entry in entries {
            bytes.extend_from_slice(&entry.encode());
        }
        let end = self.bytes + bytes.len() as u64;
        self.file.write_at(&bytes, self.bytes)?;
        self.bytes = end;
        Ok(())
    }
}

/// A topic being recorded.
pub(super) struct TopicState {
    pub topic: Topic,
    pub channel_id: u16,
    pub queue: Arc<TopicQueue>,
    pub stream: Option<StreamSource>,
    /// Place in the engine's list of bricks, once there is something to write.
    pub brick: Option<usize>,
    pub file_name: String,
    pub counters: Arc<Counters>,
    index: IndexWriter,
    tickets: Tickets,
}

impl TopicState {
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        topic: Topic,
        queue: Arc<TopicQueue>,
        file_name: String,
    ) -> io::Result<Self> {
        let index = IndexWriter::create(disk, &directory.join(format!("{file_name}.idx")))?;
        Ok(Self {
            topic,
            channel_id: queue.channel_id(),
            queue,
            stream: None,
            brick: None,
            file_name,
            counters: Arc::default(),
            index,
            tickets: Tickets::default(),
        })
    }

    pub fn index_file(&self) -> &Arc<dyn DiskFile> {
        &self.index.file
    }

    /// Cuts off what a failed write has left behind the index's end.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn trim_index(&self) -> io::Result<()> {
        let index = &self.index;
        if index.file.length()? != index.bytes {
            index.file.set_len(index.bytes)?;
        }
        Ok(())
    }

    pub fn issue(&mut self) -> Ticket {
        self.tickets.issue()
    }

    /// Settles an extent, and commits all that are settled up to the first that is not.
    ///
    /// # Errors
    /// If the index cannot be written; the messages concerned are then counted as lost.
    pub fn settle(&mut self, ticket: Ticket, outcome: Outcome) -> io::Result<()> {
        self.tickets.settle(ticket, outcome);
        let mut failure = Ok(());
        while let Some(outcome) = self.tickets.next_settled() {
            match outcome {
                Outcome::Readable(entries) => {
                    if let Err(error) = self.commit(&entries) {
                        self.lose(Cause::Disk, entries.len() as u64);
                        failure = Err(error);
                    }
                }
                Outcome::Lost(cause, count) => self.lose(cause, count),
                Outcome::Pending => {}
            }
        }
        failure
    }

    fn commit(&mut self, entries: &[IndexEntry]) -> io::Result<()> {
        self.index.append(entries)?;
        let bytes: u64 = entries.iter().map(|entry| u64::from(entry.data_bytes)).sum();
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Recorder::status`, so that whoever sees the count
        // finds the index entries.
        self.counters.messages.fetch_add(entries.len() as u64, Ordering::Release);
        Ok(())
    }

    pub fn lose(&self, cause: Cause, count: u64) {
        let counter = match cause {
            Cause::Lapped => &self.counters.lapped,
            Cause::Disk => &self.counters.disk,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
