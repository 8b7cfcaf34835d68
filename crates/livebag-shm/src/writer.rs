//! The writer: publishes by copy or by loan, in constant time, and never reads anything from readers.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Relaxed;

use crate::clock;
use crate::create::{self, Owned};
use crate::error::{CreateError, PublishError};
use crate::frame::{self, FrameMeta};
use crate::futex;
use crate::layout::{live, state, wake};
use crate::limits::PIECE_BYTES;
use crate::memory::{Mapped, ReadMemory, WriteMemory};
use crate::object;
use crate::options::StreamOptions;
use crate::slot::Slot;
use crate::wake::announce;

/// The one writer of a stream.
///
/// ```
/// use livebag_shm::{FrameMeta, StreamOptions, Writer};
/// # let name = format!("doc-writer-{}", std::process::id());
/// # let options = StreamOptions::image(640, 480, 3).remove_on_drop(true);
/// # let pixels = vec![0; 640 * 480 * 3];
/// let mut writer = Writer::create(&name, &options)?;
/// let meta = FrameMeta::image(640, 480, 640 * 3, "rgb8").frame_id("camera");
/// let sequence = writer.publish(&meta, &pixels)?;
/// # assert_eq!(sequence, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The stream is owned until this value is dropped or its process ends. (A child made by `fork`
/// without `exec` shares the lock: when the process is killed, the child keeps the stream owned.)
#[derive(Debug)]
pub struct Writer {
    owned: Owned,
    next: u64,
    last_publish_nanos: Option<u64>,
    remove_on_drop: bool,
}

impl Writer {
    /// Creates the stream, or continues it where its last writer stopped, if that is gone.
    ///
    /// A region of the same name with other options is replaced: its readers see [`crate::Liveness::Gone`], keep their
    /// mapping, and can open the name again.
    ///
    /// # Errors
    /// If the name or an option is out of bounds, a live writer owns the stream, the name belongs to another kind of
    /// file, or the system refuses memory or permission.
    pub fn create(name: &str, options: &StreamOptions) -> Result<Writer, CreateError> {
        let owned = create::create(name, options)?;
        let next = owned.newest.saturating_add(1);
        let remove_on_drop = options.remove_on_drop;
        Ok(Writer { owned, next, last_publish_nanos: None, remove_on_drop })
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        self.owned.name.as_str()
    }

    /// Requests that were not granted, each with a remedy.
    pub fn warnings(&self) -> &[String] {
        &self.owned.warnings
    }

    /// The sequence of the next frame.
    pub fn next_sequence(&self) -> u64 {
        self.next
    }

    /// How often a writer has attached to this region; 1 for its maker.
    pub fn epoch(&self) -> u64 {
        self.main().load(live::EPOCH, Relaxed)
    }

    /// Bytes of the largest frame.
    pub fn payload_bytes_max(&self) -> usize {
        self.owned.header.geometry.payload_bytes_max
    }

    /// Publishes a copy of `data` as the next frame, and returns its sequence.
    ///
    /// Faster for readers than filling a loan from a buffer: sleepers are woken before the copy, and
    /// can copy along ([`crate::Reader::receive`]).
    ///
    /// # Errors
    /// When the frame does not fit the stream. Counted as dropped.
    pub fn publish(&mut self, meta: &FrameMeta, data: &[u8]) -> Result<u64, PublishError> {
        self.check(meta, data.len())?;
        let sequence = self.next;
        let slot = self.slot(sequence);
        let attempt = slot.begin(sequence);
        let time = publish_time(meta);
        let with_crc = self.owned.header.checksum;
        frame::encode(&slot, meta, time, data.len(), with_crc.then_some(0));
        // A frame of one piece is there sooner than anybody could wake up.
        let is_early = data.len() > PIECE_BYTES;
        if is_early {
            self.announce(live::BEGUN, wake::WANTED_BEGUN, sequence);
        }
        let mut crc = 0;
        for (index, piece) in data.chunks(PIECE_BYTES).enumerate() {
            let start = index * PIECE_BYTES;
            slot.copy_in(start, piece);
            slot.advance(attempt, start + piece.len());
            if with_crc {
                crc = crc32c::crc32c_append(crc, piece);
            }
        }
        if with_crc {
            frame::encode_crc(&slot, crc);
        }
        slot.finish(sequence);
        self.announce(live::LATEST, wake::WANTED_LATEST, sequence);
        if !is_early {
            self.announce(live::BEGUN, wake::WANTED_BEGUN, sequence);
        }
        self.account(data.len());
        Ok(sequence)
    }

    /// Lends the next frame's slot, to be filled in place.
    ///
    /// The slot's old frame is lost at once, and readers that were still at it find out.
    pub fn loan(&mut self) -> Loan<'_> {
        self.slot(self.next).begin(self.next);
        Loan { writer: self }
    }

    /// Says that the writer is alive although it has nothing to publish.
    pub fn heartbeat(&self) {
        self.beat(clock::monotonic_nanos());
    }

    /// Counts frames that the caller had and could not publish.
    pub fn count_dropped(&self, frames: u64) {
        self.add(live::DROPPED, frames);
    }

    /// Ends the stream: readers see [`crate::Liveness::Gone`]. The region is removed if `remove` is true, and otherwise
    /// remains for late readers and the next writer.
    pub fn close(mut self, remove: bool) {
        self.remove_on_drop = remove;
    }

    fn main(&self) -> &Mapped {
        &self.owned.main
    }

    fn slot(&self, sequence: u64) -> Slot<'_, Mapped> {
        Slot::new(self.main(), self.owned.header.geometry.slot(sequence))
    }

    fn check(&self, meta: &FrameMeta, payload_bytes: usize) -> Result<(), PublishError> {
        let expected = self.payload_bytes_max();
        let result = if payload_bytes > expected {
            Err(PublishError::TooLarge { found: payload_bytes, expected })
        } else {
            meta.check(self.owned.header.kind)
        };
        if result.is_err() {
            self.count_dropped(1);
        }
        result
    }

    fn announce(&self, word: usize, wanted: usize, sequence: u64) {
        let wanted = self.owned.wake.as_ref().map(|wake| (wake, wanted));
        if announce(self.main(), word, wanted, sequence) {
            futex::wake_all(self.main(), word);
        }
    }

    /// After a frame is published: work that no reader waits for.
    fn account(&mut self, payload_bytes: usize) {
        self.next += 1;
        self.add(live::PUBLISHED, 1);
        self.add(live::PAYLOAD_BYTES_PUBLISHED, payload_bytes as u64);
        let now = clock::monotonic_nanos();
        self.beat(now);
        if let Some(last) = self.last_publish_nanos.replace(now) {
            let gap_max = self.main().load(live::PUBLISH_GAP_MAX_NANOS, Relaxed);
            let gap_max = gap_max.max(now.saturating_sub(last));
            self.main().store(live::PUBLISH_GAP_MAX_NANOS, gap_max, Relaxed);
        }
    }

    fn beat(&self, now: u64) {
        self.main().store(live::HEARTBEAT_MONOTONIC_NANOS, now, Relaxed);
        self.add(live::HEARTBEAT_COUNT, 1);
    }

    /// Only the writer stores live words, so loading and storing is enough.
    fn add(&self, word: usize, value: u64) {
        let sum = self.main().load(word, Relaxed).wrapping_add(value);
        self.main().store(word, sum, Relaxed);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.main().store(live::STATE, state::CLOSED, Relaxed);
        futex::wake_all(self.main(), live::LATEST);
        futex::wake_all(self.main(), live::BEGUN);
        // Under the lock, and only while the name is ours. A failure leaves a stale region, which the next writer
        // continues.
        if self.remove_on_drop && object::is_named(&self.owned.fd, &self.owned.name.main_path()) {
            let _ = object::unlink(&self.owned.name.wake_path());
            let _ = object::unlink(&self.owned.name.main_path());
        }
        object::unlock(&self.owned.fd);
    }
}

fn publish_time(meta: &FrameMeta) -> u64 {
    meta.publish_time_nanos.unwrap_or_else(clock::realtime_nanos)
}

/// The slot of the next frame, lent to be filled in place: page-aligned, as large as the largest
/// frame, with the bytes of an older frame in it. Dropping it publishes nothing.
///
/// ```
/// # use livebag_shm::{FrameMeta, StreamOptions, Writer};
/// # let name = format!("doc-loan-{}", std::process::id());
/// # let mut writer = Writer::create(&name, &StreamOptions::bytes(4096).remove_on_drop(true))?;
/// let mut loan = writer.loan();
/// loan[..5].copy_from_slice(b"hello");
/// loan.publish(&FrameMeta::bytes(), 5)?;
/// # Ok::<(), livebag_shm::PublishError>(())
/// # .map_err(Box::<dyn std::error::Error>::from)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Loan<'w> {
    writer: &'w mut Writer,
}

impl Loan<'_> {
    /// The sequence that this frame will have.
    pub fn sequence(&self) -> u64 {
        self.writer.next
    }

    /// The slot's payload.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (pointer, bytes) = self.payload();
        // SAFETY: valid for reads and writes while the writer exists, which `self` borrows exclusively, so that this is
        // the only reference into the writer's mapping (which no other code uses: readers have separate mappings, and
        // read them as memory that changes at any time). All bytes were initialised, to zero by the kernel at the
        // latest.
        unsafe { std::slice::from_raw_parts_mut(pointer, bytes) }
    }

    /// Publishes the first `payload_bytes` bytes as the next frame, and returns its sequence.
    ///
    /// # Errors
    /// When the frame does not fit the stream. Counted as dropped.
    pub fn publish(self, meta: &FrameMeta, payload_bytes: usize) -> Result<u64, PublishError> {
        self.writer.check(meta, payload_bytes)?;
        let crc = self.writer.owned.header.checksum.then(|| crc32c::crc32c(&self[..payload_bytes]));
        // From here on nothing fails. Drop, which counts an abandoned loan, must not run.
        let mut this = std::mem::ManuallyDrop::new(self);
        let writer = &mut *this.writer;
        let sequence = writer.next;
        let slot = writer.slot(sequence);
        frame::encode(&slot, meta, publish_time(meta), payload_bytes, crc);
        slot.finish(sequence);
        writer.announce(live::LATEST, wake::WANTED_LATEST, sequence);
        writer.announce(live::BEGUN, wake::WANTED_BEGUN, sequence);
        writer.account(payload_bytes);
        Ok(sequence)
    }

    fn payload(&self) -> (*mut u8, usize) {
        let geometry = &self.writer.owned.header.geometry;
        let bytes = geometry.payload_bytes_max;
        (self.writer.main().pointer(geometry.slot(self.writer.next).payload, bytes), bytes)
    }
}

impl Deref for Loan<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let (pointer, bytes) = self.payload();
        // SAFETY: as in `payload_mut`, shared for as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts(pointer, bytes) }
    }
}

impl DerefMut for Loan<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.payload_mut()
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.writer.add(live::ABANDONED, 1);
    }
}
