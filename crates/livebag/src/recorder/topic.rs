//! A topic inside the recorder: its files in a split, and the order in which its messages are
//! committed.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use livebag_format::Topic;
use livebag_format::container::{Losses, TopicManifest};
use livebag_format::index::{ENTRY_BYTES, IndexEntry, index_header};

use super::{Counters, RecordError};
use crate::queue::published;
use crate::storage::{Access, Disk, DiskFile};

/// Why messages will not be in the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Transport,
    Queue,
    Lapped,
    Disk,
    Abandoned,
}

impl Cause {
    fn of(self, losses: &mut Losses) -> &mut u64 {
        match self {
            Self::Transport => &mut losses.transport,
            Self::Queue => &mut losses.queue,
            Self::Lapped => &mut losses.lapped,
            Self::Disk => &mut losses.disk,
            Self::Abandoned => &mut losses.abandoned,
        }
    }
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

/// A topic's files in one split.
pub(super) struct TopicFiles {
    /// Place in the split's list of bricks.
    pub brick: usize,
    pub index_name: String,
    index: Arc<dyn DiskFile>,
    index_bytes: u64,
    tickets: Tickets,
}

impl TopicFiles {
    pub fn create(
        disk: &dyn Disk,
        directory: &Path,
        index_name: String,
        brick: usize,
    ) -> io::Result<Self> {
        let index = disk.create(&directory.join(&index_name), Access::Buffered)?;
        index.write_at(&index_header(), 0)?;
        let index_bytes = ENTRY_BYTES as u64;
        Ok(Self { brick, index_name, index, index_bytes, tickets: Tickets::default() })
    }

    pub fn index(&self) -> &Arc<dyn DiskFile> {
        &self.index
    }

    pub fn issue(&mut self) -> Ticket {
        self.tickets.issue()
    }

    fn append(&mut self, entries: &[IndexEntry]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY_BYTES);
        for entry in entries {
            bytes.extend_from_slice(&entry.encode());
        }
        self.index.write_at(&bytes, self.index_bytes)?;
        self.index_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Truncates bytes that a failed write has left after the index's end.
    ///
    /// # Errors
    /// If the file cannot be cut.
    pub fn trim_index(&self) -> io::Result<()> {
        if self.index.length()? != self.index_bytes {
            self.index.set_len(self.index_bytes)?;
        }
        Ok(())
    }
}

/// A topic's part of one split.
pub(super) struct SplitTopic {
    pub topic: Arc<Topic>,
    pub channel_id: u16,
    pub counters: Arc<Counters>,
    /// Once there is something to write.
    pub files: Option<TopicFiles>,
    /// Name of the files, once they were to be made.
    pub file_stem: Option<String>,
    /// Its files could not be made just now.
    pub is_refused: bool,
    /// Why they could not be made the first time; empty if they could.
    refused: String,
    /// Entries of messages that are in the brick, for which the index had no room. Few: a failed index
    /// ends the recording.
    unindexed: Vec<IndexEntry>,
    messages: u64,
    bytes: u64,
    repeated: u64,
    lost: Losses,
    skipped: u64,
    returns: u64,
}

impl SplitTopic {
    pub fn new(topic: Arc<Topic>, channel_id: u16, counters: Arc<Counters>) -> Self {
        Self {
            topic,
            channel_id,
            counters,
            files: None,
            file_stem: None,
            is_refused: false,
            refused: String::new(),
            unindexed: Vec::new(),
            messages: 0,
            bytes: 0,
            repeated: 0,
            lost: Losses::default(),
            skipped: 0,
            returns: 0,
        }
    }

    /// The same topic in the next split.
    pub fn anew(&self) -> Self {
        Self::new(self.topic.clone(), self.channel_id, self.counters.clone())
    }

    /// Completes an extent, and commits all complete ones up to the first incomplete one.
    ///
    /// # Errors
    /// If the index cannot be written; the messages concerned wait for [`SplitTopic::index_at_last`].
    pub fn settle(&mut self, ticket: Ticket, outcome: Outcome) -> io::Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        files.tickets.settle(ticket, outcome);
        let mut failure = Ok(());
        while let Some(outcome) = self.files.as_mut().and_then(|f| f.tickets.next_settled()) {
            match outcome {
                Outcome::Readable(entries) => {
                    let earlier = self.index_again();
                    if let Err(error) = earlier.and_then(|()| self.commit(&entries)) {
                        self.unindexed.extend_from_slice(&entries);
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
        if let Some(files) = &mut self.files {
            files.append(entries)?;
        }
        let bytes: u64 = entries.iter().map(|entry| u64::from(entry.data_bytes)).sum();
        let repeated = entries.len() as u64 - published(entries);
        self.repeated += repeated;
        self.counters.repeated.fetch_add(repeated, Ordering::Relaxed);
        self.messages += entries.len() as u64;
        self.bytes += bytes;
        self.counters.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Release: pairs with the Acquire in `Recorder::status`, so that a thread that sees the count finds the index
        // entries.
        self.counters.messages.fetch_add(entries.len() as u64, Ordering::Release);
        Ok(())
    }

    fn index_again(&mut self) -> io::Result<()> {
        if self.unindexed.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.unindexed);
        let committed = self.commit(&entries);
        if committed.is_err() {
            self.unindexed = entries;
        }
        committed
    }

    /// Indexes messages that found no room before, after reserved space has been freed; those that find none now are
    /// counted as lost.
    pub fn index_at_last(&mut self) {
        // The failure was reported when it first happened.
        if self.index_again().is_err() {
            self.give_up_unindexed();
        }
    }

    /// Counts messages without room in the index as lost.
    pub fn give_up_unindexed(&mut self) {
        let entries = std::mem::take(&mut self.unindexed);
        self.lose(Cause::Disk, published(&entries));
    }

    pub fn lose(&mut self, cause: Cause, count: u64) {
        *cause.of(&mut self.lost) += count;
        let counter = match cause {
            Cause::Transport => &self.counters.transport,
            Cause::Queue => &self.counters.queue,
            Cause::Lapped => &self.counters.lapped,
            Cause::Disk => &self.counters.disk,
            Cause::Abandoned => &self.counters.abandoned,
        };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    /// Its files could not be made: its messages are lost until they can.
    pub fn refuse(&mut self, why: RecordError) {
        self.is_refused = true;
        if self.refused.is_empty() {
            self.refused = why.to_string();
        }
        if self.counters.refused.set(Arc::new(why)).is_ok() {
            log::warn!("topic {} is not recorded: {}", self.topic.name, self.refused);
        }
    }

    /// There are too few files for its stream, which the caller tells.
    pub fn refuse_stream(&mut self, why: RecordError) {
        self.refused = why.to_string();
        // The first reason stays.
        let _ = self.counters.refused.set(Arc::new(why));
    }

    pub fn skip(&mut self, count: u64) {
        self.skipped += count;
        self.counters.skipped.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts that its writer has restarted.
    pub fn note_return(&mut self) {
        self.returns += 1;
        self.counters.returns.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it has files, or will have.
    pub fn needs_files(&self) -> bool {
        self.files.is_some() || self.counters.refused.get().is_none()
    }

    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    pub fn lost(&self) -> &Losses {
        &self.lost
    }

    pub fn describe(&self, brick_name: Option<String>) -> TopicManifest {
        let index = self.files.as_ref().map_or_else(String::new, |files| files.index_name.clone());
        let bricks = brick_name.into_iter().collect();
        TopicManifest {
            message_count: self.messages,
            message_bytes: self.bytes,
            repeated: self.repeated,
            lost: self.lost,
            skipped: self.skipped,
            writer_returns: self.returns,
            refused: self.refused.clone(),
            ..TopicManifest::new(&self.topic, self.channel_id, index, bricks)
        }
    }
}
