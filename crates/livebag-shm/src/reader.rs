//! The reader: newest frame by copy or by view, every frame in order, and the ways to wait.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::attendance::{self, ReaderInfo, Seat};
use crate::clock;
use crate::error::{OpenError, ReadError};
use crate::event::FrameEvent;
use crate::follow::{Cursor, Next};
use crate::frame::FrameHeader;
use crate::limits::READ_ATTEMPTS_MAX;
use crate::name::Name;
use crate::region::{Counters, Liveness, Owners, Read, Region, StreamInfo};
use crate::wait::{Wait, Word};

/// A reader of a stream. Cheap to clone: clones share the mapping, and each has its own place in the
/// order of frames.
///
/// From its first read on it is listed in the stream's table of readers, for `livebag streams` and
/// [`Reader::readers`]; see [`Reader::labelled`] and [`Reader::unlisted`].
///
/// ```
/// use std::time::Duration;
/// use livebag_shm::{Reader, Wait};
/// # use livebag_shm::{FrameMeta, StreamOptions, Writer};
/// # let name = format!("doc-reader-{}", std::process::id());
/// # let mut writer = Writer::create(&name, &StreamOptions::bytes(64).remove_on_drop(true))?;
/// # writer.publish(&FrameMeta::bytes(), b"hello")?;
/// let mut reader = Reader::open(&name)?;
/// let mut frame = Vec::new();
/// if let Some(header) = reader.receive(&mut frame, Wait::Futex, Duration::from_secs(1))? {
///     assert_eq!((header.sequence, frame.as_slice()), (1, b"hello".as_slice()));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    region: Arc<Region>,
    cursor: Cursor,
    received: u64,
    label: Option<Arc<str>>,
    /// Taken at the first read of a frame; `None` inside if it is not to be shown, or cannot be.
    seat: OnceLock<Option<Seat>>,
}

impl Clone for Reader {
    fn clone(&self) -> Self {
        let (region, label) = (Arc::clone(&self.region), self.label.clone());
        Reader {
            region,
            cursor: self.cursor,
            received: self.received,
            label,
            seat: OnceLock::new(),
        }
    }
}

impl Reader {
    /// Opens a stream. `next` starts with the first frame that is published after this;
    /// [`Reader::seek`] changes that.
    ///
    /// # Errors
    /// When there is no such stream, no right to read it, or when the region does not check.
    /// [`OpenError::is_transient`] tells when to try again.
    pub fn open(name: &str) -> Result<Reader, OpenError> {
        Reader::open_of(name, Owners::All)
    }

    /// The same, if the stream belongs to one of these `owners`.
    ///
    /// # Errors
    /// As [`Reader::open`]; [`OpenError::Untrusted`] if it belongs to another user.
    pub fn open_of(name: &str, owners: Owners) -> Result<Reader, OpenError> {
        let region = Arc::new(Region::open(name, owners)?);
        let cursor = Cursor::after(region.latest());
        Ok(Reader { region, cursor, received: 0, label: None, seat: OnceLock::new() })
    }

    /// Shows the reader under this name instead of its program's: its purpose. More than 32 bytes are cut.
    #[must_use]
    pub fn labelled(mut self, label: &str) -> Reader {
        self.label = Some(label.into());
        self.seat = OnceLock::new();
        self
    }

    /// Has the reader not shown among the stream's readers. Not inherited by clones.
    #[must_use]
    pub fn unlisted(mut self) -> Reader {
        self.seat = OnceLock::from(None);
        self
    }

    /// The stream's current readers, including this one once it has read a frame. `None` if the stream is for a group,
    /// which has no such table, or belongs to another user.
    ///
    /// The table has 30 entries; further readers read without being listed.
    pub fn readers(&self) -> Option<Vec<ReaderInfo>> {
        let name = Name::new(&self.region.info.name).ok()?;
        if self.region.header.always_wake {
            return None;
        }
        attendance::present(&name, self.region.info.instance, self.region.latest())
    }

    fn seat(&self) -> Option<&Seat> {
        let take = || {
            let name = Name::new(&self.region.info.name).ok()?;
            // Without a wake object there was no table when the stream was opened either.
            self.region.wake.as_ref()?;
            let last = self.cursor.sequence().saturating_sub(1);
            Seat::take(&name, self.region.info.instance, self.label.as_deref(), last)
        };
        self.seat.get_or_init(take).as_ref()
    }

    fn note_newest(&self, sequence: u64) {
        if let Some(seat) = self.seat() {
            seat.take_newest(sequence);
        }
    }

    /// The stream's own description.
    pub fn info(&self) -> &StreamInfo {
        &self.region.info
    }

    /// Sequence of the newest frame; 0 when there is none yet. One load.
    pub fn latest_sequence(&self) -> u64 {
        self.region.latest()
    }

    /// Copies the newest frame, seen before or not, into `buffer`, which takes its length. None when
    /// there is none yet.
    ///
    /// # Errors
    /// When the writer overtakes every attempt, or the frame is damaged.
    pub fn copy_latest(&mut self, buffer: &mut Vec<u8>) -> Result<Option<FrameHeader>, ReadError> {
        self.seat();
        for _ in 0..READ_ATTEMPTS_MAX {
            let sequence = self.region.latest();
            if sequence == 0 {
                return Ok(None);
            }
            match self.region.copy_frame(sequence, buffer) {
                Read::Whole(header) => {
                    self.received = self.received.max(sequence);
                    self.note_newest(sequence);
                    return Ok(Some(header));
                }
                Read::Damaged(error) => return Err(error),
                Read::Lapped => {}
            }
        }
        buffer.clear();
        Err(ReadError::Overtaken { attempts: READ_ATTEMPTS_MAX })
    }

    /// Waits for a frame that neither this call nor [`Reader::copy_latest`] has returned yet, and copies the newest
    /// one. None when the time is over.
    ///
    /// The fastest way to a frame in one's own buffer: it wakes when a copying writer *begins*, and
    /// copies along behind it.
    ///
    /// # Errors
    /// When the writer overtakes every attempt, or the frame is damaged.
    pub fn receive(
        &mut self,
        buffer: &mut Vec<u8>,
        wait: Wait,
        timeout: Duration,
    ) -> Result<Option<FrameHeader>, ReadError> {
        let deadline = deadline(timeout);
        self.seat();
        if self.region.latest() <= self.received {
            if !self.region.wait(Word::Begun, wait, self.received, deadline) {
                return Ok(None);
            }
            // The newest that is complete is taken below when this does not succeed.
            if self.region.latest() <= self.received {
                let sequence = self.received + 1;
                match self.region.copy_along(sequence, buffer) {
                    Read::Whole(header) => {
                        self.received = sequence;
                        self.note_newest(sequence);
                        return Ok(Some(header));
                    }
                    Read::Damaged(error) => {
                        self.received = sequence;
                        return Err(error);
                    }
                    Read::Lapped => {}
                }
                if !self.region.wait(Word::Latest, wait, self.received, deadline) {
                    return Ok(None);
                }
            }
        }
        self.copy_latest(buffer)
    }

    /// A view of the newest frame in place, without a copy. None when there is none yet, when the
    /// writer overtakes every attempt, or when the frame's header is damaged.
    pub fn borrow_latest(&self) -> Option<Borrowed<'_>> {
        for _ in 0..READ_ATTEMPTS_MAX {
            let sequence = self.region.latest();
            if sequence == 0 {
                return None;
            }
            match self.region.read_header(sequence) {
                Read::Whole(header) => {
                    self.note_newest(sequence);
                    return Some(Borrowed { region: &self.region, header, not_sync: PhantomData });
                }
                Read::Damaged(_) => return None,
                Read::Lapped => {}
            }
        }
        None
    }

    /// The next frame in order, for recorders, with the exact number of those that were overwritten
    /// before they could be taken. Costs one load when there is nothing new.
    ///
    /// Continues across writers of the same region. A region that was replaced gets no more frames:
    /// [`Reader::liveness`] reports it, and opening the name again gives the new one.
    #[expect(clippy::should_implement_trait, reason = "not an iterator: it never ends")]
    pub fn next(&mut self) -> Next {
        let next = self.cursor.next(&self.region);
        if let Some(seat) = self.seat()
            && (next.frame.is_some() || next.lapped > 0)
        {
            seat.advance(next.frame.is_some(), next.lapped, self.cursor.sequence() - 1);
        }
        next
    }

    /// Sequence of the frame that [`Reader::next`] returns next, if it still exists then.
    pub fn next_sequence(&self) -> u64 {
        self.cursor.sequence()
    }

    /// Makes [`Reader::next`] continue with this frame. `seek(1)` takes every frame that still exists, and counts the
    /// others as lapped; `seek_oldest` does not count it.
    pub fn seek(&mut self, sequence: u64) {
        self.cursor = Cursor::after(sequence.saturating_sub(1));
    }

    /// Makes [`Reader::next`] continue with the oldest frame that still exists.
    pub fn seek_oldest(&mut self) {
        let slots = u64::from(self.region.info.slots);
        self.cursor = Cursor::after(self.region.latest().saturating_sub(slots));
    }

    /// Waits until there is a frame newer than `after_sequence`; false when the time is over.
    pub fn wait(&self, wait: Wait, after_sequence: u64, timeout: Duration) -> bool {
        self.seat();
        self.region.wait(Word::Latest, wait, after_sequence, deadline(timeout))
    }

    /// A descriptor that an event loop can hold, readable when there are new frames.
    ///
    /// # Errors
    /// When the system has no more descriptors or threads.
    pub fn event(&self) -> std::io::Result<FrameEvent> {
        FrameEvent::new(Arc::clone(&self.region))
    }

    /// Whether the writer is there. One system call.
    pub fn liveness(&self, deadline: Duration) -> Liveness {
        self.region.liveness(deadline)
    }

    /// Time since the writer's last publish or heartbeat.
    pub fn silence(&self) -> Duration {
        self.region.silence()
    }

    /// The stream's counters.
    pub fn counters(&self) -> Counters {
        self.region.counters()
    }
}

fn deadline(timeout: Duration) -> u64 {
    let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    clock::monotonic_nanos().saturating_add(nanos)
}

/// A view of a frame in the stream's own memory.
///
/// The writer may overwrite the frame at any time; a result computed from it is valid only if [`Borrowed::validate`] is
/// true *afterwards*. Therefore there is no slice: make one only of memory that does not change, or read through
/// [`Borrowed::as_ptr`] by volatile or atomic reads.
#[derive(Debug)]
pub struct Borrowed<'r> {
    region: &'r Region,
    header: FrameHeader,
    /// The pointer is not meant to travel; take a `FrameRef` for that.
    not_sync: PhantomData<*const u8>,
}

impl Borrowed<'_> {
    /// The frame's header: whole, checked when the view was made.
    pub fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// The payload, page-aligned, mapped read-only. Valid as long as the view.
    pub fn as_ptr(&self) -> *const u8 {
        self.region.payload(self.header.sequence)
    }

    /// Bytes of the payload.
    pub fn len(&self) -> usize {
        self.header.payload_bytes
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.header.payload_bytes == 0
    }

    /// Whether the frame was whole until now. One load; [`Borrowed::verify_checksum`] costs a pass over the
    /// payload.
    pub fn validate(&self) -> bool {
        self.region.slot(self.header.sequence).is_still_whole(self.header.sequence)
    }

    /// Whether the bytes match the frame's CRC-32C, and the frame was whole until now. True, without reading the bytes,
    /// if the stream has no checksum.
    pub fn verify_checksum(&self) -> bool {
        let sequence = self.header.sequence;
        let matches = self.header.crc32c.is_none_or(|expected| {
            self.region.crc32c_in_place(sequence, self.header.payload_bytes) == expected
        });
        matches && self.validate()
    }
}
