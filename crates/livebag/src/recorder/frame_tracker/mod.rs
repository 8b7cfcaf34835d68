//! Takes frames out of their streams, and copies them before they are overwritten, whatever the disk does.
//!
//! The recorder's thread polls streams in every round. But it also makes files, replaces manifests and syncs
//! names, and on a busy disk each of these may take seconds, in which the streams go on. So a second thread, the
//! watchdog ([`Watchdog`]), counts the rounds, and polls in the recorder's place while one takes too long.
//! Nothing in here touches the disk.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag_format::index::IndexEntry;
use livebag_shm::FrameRef;

use super::copy_buffers::CopyBuffers;
use super::round_robin::PriorityRoundRobin;
use super::{PanicLatch, RecordError, Shared};
use crate::limits::{OWN_CHUNK_BYTES_MIN, POLL_MAX, POLL_MIN, WATCH_MAX, WATCH_MIN};
use crate::queue::{NewMessage, OwnedExtent, TopicQueue};
use crate::scheduler::Schedule;
use crate::source::{Encoder, StreamSource};
use crate::storage::Block;

/// What of a stream's frames will not be in the recording.
#[derive(Clone, Copy, Default)]
pub(super) struct StreamLosses {
    pub damaged: u64,
    pub lapped: u64,
    /// No room in memory for a copy.
    pub dropped: u64,
    /// The disk had failed before.
    pub refused: u64,
    pub skipped: u64,
}

impl StreamLosses {
    pub fn is_none(&self) -> bool {
        self.damaged + self.lapped + self.dropped + self.refused + self.skipped == 0
    }
}

/// A topic's stream.
struct Source {
    topic: usize,
    /// None once another stream with another type has taken its name.
    stream: Option<StreamSource>,
    queue: Arc<TopicQueue>,
    /// Large frames are copied into the queue, too: the newest is repeated, or a ring holds it.
    stays_in_memory: bool,
    unseen: StreamLosses,
}

/// Where a frame is that waits.
enum FrameLocation {
    InSlot(FrameRef),
    /// In memory that its topic's queue has given room for.
    Copied(OwnedExtent),
}

/// A large frame that waits for a moment to be written.
struct PendingFrame {
    number: FrameNumber,
    source: usize,
    kept: FrameLocation,
    /// All but place and length.
    entry: IndexEntry,
    encoder: Encoder,
    seen_nanos: u64,
    /// There was no room in memory for a copy at the last look.
    lacks_room: bool,
    /// When its slot is refilled at the earliest, by its stream's rate.
    deadline_nanos: u64,
}

impl PendingFrame {
    fn bytes(&self) -> u64 {
        match &self.kept {
            FrameLocation::InSlot(frame) => frame.payload_bytes() as u64,
            FrameLocation::Copied(extent) => extent.block.len() as u64,
        }
    }
}

/// A frame that the device is fetching out of its slot, or is about to.
struct InFlightFrame {
    source: usize,
    frame: FrameRef,
    entry: IndexEntry,
    encoder: Encoder,
    copy: Option<OwnedExtent>,
}

/// Number of a frame that has waited.
pub(super) type FrameNumber = u64;

/// The frame that waits longest.
#[derive(Clone, Copy)]
pub(super) struct NextPending {
    pub number: FrameNumber,
    pub topic: usize,
    pub bytes: u64,
}

/// A frame on its way to the disk.
pub(super) struct Submitted {
    pub topic: usize,
    /// All but place and length.
    pub entry: IndexEntry,
    pub from: Origin,
}

/// Where a frame is written from.
pub(super) enum Origin {
    /// Its slot. [`FrameTracker::land`] returns its state.
    Slot { number: FrameNumber, frame: FrameRef, encoder: Encoder },
    /// A copy, which uses its topic's queue: as many bytes as its block.
    Copy(OwnedExtent),
}

/// A frame's state after the device has read it.
pub(super) struct Completed {
    pub frame: FrameRef,
    /// A copy of it, which uses its topic's queue: as many bytes as its block.
    pub copy: Option<OwnedExtent>,
}

/// What waits, for the schedule.
#[derive(Clone, Copy, Default)]
pub(super) struct Waiting {
    /// All of it.
    pub bytes: u64,
    /// The oldest frame.
    pub next_bytes: Option<u64>,
    /// Since when it waits, monotonic.
    pub oldest_nanos: Option<u64>,
    /// When the first of the slots is refilled, monotonic.
    pub deadline_nanos: Option<u64>,
}

#[derive(Default)]
struct TrackerState {
    sources: Vec<Source>,
    rounds: PriorityRoundRobin,
    /// Oldest first.
    held: VecDeque<PendingFrame>,
    flying: HashMap<FrameNumber, InFlightFrame>,
    next_number: FrameNumber,
    scratch: Vec<u8>,
    copy_buffers: CopyBuffers,
    /// The shortest lap at the last poll; `None` while there are no streams.
    lap_nanos: Option<u64>,
    /// No more frames are needed.
    is_closing: bool,
    ends: bool,
}

/// See the module's text.
pub(super) struct FrameTracker {
    shared: Arc<Shared>,
    /// A holder of this lock holds no other lock of the recorder and makes no blocking system call, so that neither
    /// thread waits for the disk behind the other.
    watch: Mutex<TrackerState>,
    /// Signals a new stream, or the end.
    news: Condvar,
    /// Looks by the recorder's own thread.
    rounds: AtomicU64,
}

impl FrameTracker {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, watch: Mutex::default(), news: Condvar::new(), rounds: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, TrackerState> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows a stream for a topic, now or once [`FrameTracker::replace`] has brought it.
    pub fn add(
        &self,
        topic: usize,
        stream: Option<StreamSource>,
        queue: Arc<TopicQueue>,
        latched: bool,
    ) {
        let stays_in_memory = latched || self.shared.options.snapshot.is_some();
        let priority = queue.options().priority;
        let mut watch = self.lock();
        let unseen = StreamLosses::default();
        let at = watch.sources.len();
        watch.sources.push(Source { topic, stream, queue, stays_in_memory, unseen });
        watch.rounds.add(priority, at);
        // Until the first look tells better.
        watch.lap_nanos = Some(0);
        self.news.notify_all();
    }

    /// How many streams were added.
    pub fn len(&self) -> usize {
        self.lock().sources.len()
    }

    /// The stream that was recreated under the name of the stream with this number, and its topic.
    pub fn successor(&self, at: usize) -> Option<(usize, StreamSource)> {
        let watch = self.lock();
        let source = watch.sources.get(at)?;
        Some((source.topic, source.stream.as_ref()?.successor()?))
    }

    /// By topic, whether its stream has no writer any more.
    pub fn writers_gone(&self) -> Vec<(usize, bool)> {
        let watch = self.lock();
        let is_gone = |source: &Source| Some((source.topic, source.stream.as_ref()?.is_gone()));
        watch.sources.iter().filter_map(is_gone).collect()
    }

    /// Topics to whose stream a writer has come back since the last call.
    pub fn take_returns(&self) -> Vec<usize> {
        let mut watch = self.lock();
        let returned =
            |source: &mut Source| source.stream.as_mut()?.take_return().then_some(source.topic);
        watch.sources.iter_mut().filter_map(returned).collect()
    }

    /// Continues with another stream for a topic, or with none.
    pub fn replace(&self, topic: usize, stream: Option<StreamSource>) {
        let mut watch = self.lock();
        if let Some(source) = watch.sources.iter_mut().find(|source| source.topic == topic) {
            source.stream = stream;
            // Until the first look tells better.
            watch.lap_nanos = Some(0);
            self.news.notify_all();
        }
    }

    /// Polls every stream, for the recorder's thread. Tells when to look again, if there are streams.
    pub fn look(&self) -> Option<Duration> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.lock().look(&self.shared)
    }

    /// Takes no more frames, but keeps tracking those it has taken.
    pub fn close(&self) {
        self.lock().is_closing = true;
    }

    /// What will not be in the recording, since the last call, by topic.
    pub fn take_losses(&self) -> Vec<(usize, StreamLosses)> {
        let mut watch = self.lock();
        let sources = watch.sources.iter_mut().filter(|source| !source.unseen.is_none());
        sources.map(|source| (source.topic, std::mem::take(&mut source.unseen))).collect()
    }

    /// What waits.
    pub fn waiting(&self) -> Waiting {
        let watch = self.lock();
        let in_slots =
            watch.held.iter().filter(|held| matches!(held.kept, FrameLocation::InSlot(_)));
        Waiting {
            bytes: watch.held.iter().map(PendingFrame::bytes).sum(),
            next_bytes: watch.held.front().map(PendingFrame::bytes),
            oldest_nanos: watch.held.iter().map(|held| held.seen_nanos).min(),
            deadline_nanos: in_slots.map(|held| held.deadline_nanos).min(),
        }
    }

    /// The frame that waits longest.
    pub fn next_pending(&self) -> Option<NextPending> {
        let watch = self.lock();
        let held = watch.held.front()?;
        let topic = watch.sources[held.source].topic;
        Some(NextPending { number: held.number, topic, bytes: held.bytes() })
    }

    /// Lets the frame go that waits longest, if it is still this one: it may have been lost since it was
    /// asked for, and another has its place. As a copy if it is to be compressed; without room for one it
    /// stays.
    pub fn release(&self, number: FrameNumber, as_copy: bool) -> Option<Submitted> {
        let mut watch = self.lock();
        if watch.held.front()?.number != number {
            return None;
        }
        if as_copy && !watch.copy_held(&self.shared, 0) {
            return None;
        }
        if as_copy && matches!(watch.held.front()?.kept, FrameLocation::InSlot(_)) {
            return None;
        }
        let held = watch.held.pop_front()?;
        let PendingFrame { source, kept, entry, encoder, .. } = held;
        let from = match kept {
            FrameLocation::Copied(extent) => Origin::Copy(extent),
            FrameLocation::InSlot(frame) => {
                let bytes = frame.payload_bytes() as u64;
                self.shared.slot_bytes.fetch_sub(bytes, Ordering::Relaxed);
                let flying =
                    InFlightFrame { source, frame: frame.clone(), entry, encoder, copy: None };
                watch.flying.insert(number, flying);
                Origin::Slot { number, frame, encoder }
            }
        };
        Some(Submitted { topic: watch.sources[source].topic, entry, from })
    }

    /// Gives the frame up that waits longest, if it is this one: there is no room for a copy of it.
    pub fn give_up(&self, number: FrameNumber) {
        let mut watch = self.lock();
        if let Some(held) = watch.held.pop_front_if(|held| {
            held.number == number && matches!(held.kept, FrameLocation::InSlot(_))
        }) {
            watch.count_lost(&self.shared, &held, true);
        }
    }

    /// Returns the state of a frame, and stops tracking it; `None` if it was not.
    pub fn land(&self, number: FrameNumber) -> Option<Completed> {
        let InFlightFrame { frame, copy, .. } = self.lock().flying.remove(&number)?;
        Some(Completed { frame, copy })
    }

    /// Memory of a large frame's copy that has been written.
    pub fn give_back(&self, block: Block) {
        let unwanted = self.lock().copy_buffers.give_back(block);
        // Not under the lock: the kernel may take its time.
        drop(unwanted);
    }

    /// Looks while the recorder's thread has no time to. Ends with [`FrameTracker::end`].
    fn stand_in(&self) {
        let mut rounds = u64::MAX;
        let mut stands_in = false;
        let mut watch = self.lock();
        while !watch.ends {
            watch = match watch.lap_nanos {
                None => self.news.wait(watch).unwrap_or_else(PoisonError::into_inner),
                Some(lap) => {
                    // Two polls without the recorder are at most a quarter of a lap apart; a watchdog that has taken
                    // over polls as often as the recorder.
                    let rest = match stands_in {
                        true => look_interval(lap),
                        false => Duration::from_nanos(lap / 8).clamp(WATCH_MIN, WATCH_MAX),
                    };
                    let woken = self.news.wait_timeout(watch, rest);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            let before = std::mem::replace(&mut rounds, self.rounds.load(Ordering::Relaxed));
            stands_in = before == rounds;
            if stands_in {
                watch.look(&self.shared);
                continue;
            }
            // Not under the lock: the kernel may take its time.
            if let Some(idle) = watch.copy_buffers.take_idle() {
                drop(watch);
                drop(idle);
                watch = self.lock();
            }
        }
    }

    fn end(&self) {
        self.lock().ends = true;
        self.news.notify_all();
    }
}

impl TrackerState {
    /// Takes every new frame of every stream, and copies frames that are about to be overwritten.
    fn look(&mut self, shared: &Shared) -> Option<Duration> {
        let (mut lap, mut again) = (None, None);
        // An application that computes is to be disturbed seldom, not at each frame.
        let together = shared.options.schedule != Schedule::Immediate;
        for at in self.rounds.next() {
            let Some(mut stream) = self.sources[at].stream.take() else { continue };
            if !self.is_closing {
                self.take_frames(shared, at, &mut stream);
            }
            lap = lap.into_iter().chain([stream.lap_nanos()]).min();
            again = again.into_iter().chain([stream.look_in(together)]).min();
            self.sources[at].stream = Some(stream);
        }
        self.copy_endangered(shared);
        self.lap_nanos = lap;
        again
    }

    fn take_frames(&mut self, shared: &Shared, at: usize, stream: &mut StreamSource) {
        let newest = stream.newest_sequence();
        loop {
            let next = stream.next();
            let unseen = &mut self.sources[at].unseen;
            unseen.damaged += next.damaged;
            match shared.paused.load(Ordering::Relaxed) {
                true => unseen.skipped += next.lapped,
                false => unseen.lapped += next.lapped,
            }
            let Some(frame) = next.frame else { break };
            let sequence = frame.sequence();
            self.take_frame(shared, at, stream, frame);
            if sequence >= newest {
                break;
            }
        }
    }

    /// Takes a frame, or counts it as lost.
    fn take_frame(&mut self, shared: &Shared, at: usize, stream: &StreamSource, frame: FrameRef) {
        let source = &mut self.sources[at];
        if !source.queue.wants_frame() {
            source.unseen.skipped += 1;
        } else if shared.failure().is_some() {
            source.unseen.refused += 1;
        } else if self.held.iter().any(|held| held.source == at)
            || (frame.payload_bytes() >= OWN_CHUNK_BYTES_MIN && !source.stays_in_memory)
        {
            self.hold(shared, at, stream, frame);
        } else {
            self.copy_small(at, stream, &frame);
        }
    }

    /// Lets a frame wait: a large one, or one that must not overtake one that waits.
    fn hold(&mut self, shared: &Shared, at: usize, stream: &StreamSource, frame: FrameRef) {
        let now = shared.options.clock.monotonic_nanos();
        let lap = stream.lap_nanos();
        let entry = IndexEntry {
            log_time_nanos: self.sources[at].queue.stamp(),
            publish_time_nanos: frame.header().publish_time_nanos,
            sequence: frame.sequence(),
            ..IndexEntry::default()
        };
        shared.slot_bytes.fetch_add(frame.payload_bytes() as u64, Ordering::Relaxed);
        let number = self.next_number;
        self.next_number += 1;
        self.held.push_back(PendingFrame {
            number,
            source: at,
            kept: FrameLocation::InSlot(frame),
            entry,
            encoder: stream.encoder(),
            seen_nanos: now,
            lacks_room: false,
            // A sixteenth of a lap may have passed between two polls of the stream.
            deadline_nanos: now + lap - lap / 16,
        });
    }

    /// Copies a small frame into its topic's queue, or counts it as lost.
    fn copy_small(&mut self, at: usize, stream: &StreamSource, frame: &FrameRef) {
        let source = &mut self.sources[at];
        if !stream.encoder().encode(frame, &mut self.scratch) {
            source.unseen.lapped += 1;
            return;
        }
        let message = NewMessage {
            log_time_nanos: None,
            publish_time_nanos: Some(frame.header().publish_time_nanos),
            sequence: frame.sequence(),
            data: &self.scratch,
        };
        // A full queue has counted the message as lost.
        let _ = source.queue.write_frame(&message);
    }

    /// Copies frames that are about to be overwritten into memory: one copy if the disk does not keep up; a loss only
    /// if the cache stays full until the slot is refilled.
    fn copy_endangered(&mut self, shared: &Shared) {
        let mut at = 0;
        while let Some(held) = self.held.get(at) {
            let stream = self.sources[held.source].stream.as_ref();
            let endangered = match &held.kept {
                FrameLocation::InSlot(frame) => {
                    stream.is_some_and(|stream| stream.endangers(frame))
                }
                FrameLocation::Copied(_) => false,
            };
            at += usize::from(!endangered || self.copy_held(shared, at));
        }
        for flying in self.flying.values_mut() {
            let source = &self.sources[flying.source];
            let stream = source.stream.as_ref();
            let endangered = stream.is_some_and(|stream| stream.endangers(&flying.frame));
            if flying.copy.is_none() && endangered {
                // Without room, or torn already: the device may still have been fast enough.
                let InFlightFrame { frame, entry, encoder, .. } = &*flying;
                let buffers = &mut self.copy_buffers;
                let copied = copy(&source.queue, buffers, frame, (*entry, *encoder));
                flying.copy = copied.ok();
            }
        }
    }

    /// Copies a frame that waits; whether it is still there. Without room for a copy it stays in its slot: until
    /// that is refilled, the disk may fetch it or give room back.
    fn copy_held(&mut self, shared: &Shared, at: usize) -> bool {
        let Some(held) = self.held.get_mut(at) else { return false };
        let FrameLocation::InSlot(frame) = &held.kept else { return true };
        let source = &mut self.sources[held.source];
        let described = (held.entry, held.encoder);
        match copy(&source.queue, &mut self.copy_buffers, frame, described) {
            Ok(extent) => {
                // Release: a thread that sees it leave its slot sees a complete copy.
                shared.slot_bytes.fetch_sub(frame.payload_bytes() as u64, Ordering::Release);
                held.kept = FrameLocation::Copied(extent);
            }
            Err(NoCopy::NoRoom) => held.lacks_room = true,
            Err(NoCopy::Overwritten) => {
                if let Some(held) = self.held.remove(at) {
                    self.count_lost(shared, &held, held.lacks_room);
                }
                return false;
            }
        }
        true
    }

    /// Counts a frame as lost that waited in its slot: dropped if it lacked room for a copy.
    fn count_lost(&mut self, shared: &Shared, held: &PendingFrame, lacked_room: bool) {
        let unseen = &mut self.sources[held.source].unseen;
        match lacked_room {
            true => unseen.dropped += 1,
            false => unseen.lapped += 1,
        }
        if let FrameLocation::InSlot(frame) = &held.kept {
            shared.slot_bytes.fetch_sub(frame.payload_bytes() as u64, Ordering::Release);
        }
    }
}

/// The watchdog polls at least every 1/16 of the shortest stream lap.
fn look_interval(lap_nanos: u64) -> Duration {
    Duration::from_nanos(lap_nanos / 16).clamp(POLL_MIN, POLL_MAX)
}

enum NoCopy {
    NoRoom,
    Overwritten,
}

/// Copies a frame into memory that its topic's queue gives room for.
fn copy(
    queue: &TopicQueue,
    buffers: &mut CopyBuffers,
    frame: &FrameRef,
    (entry, encoder): (IndexEntry, Encoder),
) -> Result<OwnedExtent, NoCopy> {
    if !frame.is_intact() {
        return Err(NoCopy::Overwritten);
    }
    let data_bytes = encoder.encoded_bytes(frame);
    let bytes = OwnedExtent::bytes_for(data_bytes);
    if !queue.take(bytes as u64) {
        return Err(NoCopy::NoRoom);
    }
    let described = (queue.channel_id(), entry);
    let block = buffers.take(bytes);
    let copied =
        OwnedExtent::with(described, data_bytes, block, |room| encoder.encode_into(frame, room));
    copied.ok_or_else(|| {
        queue.release(bytes as u64);
        NoCopy::Overwritten
    })
}

/// The thread that polls while the recorder is in a system call.
pub(super) struct Watchdog {
    tracker: Arc<FrameTracker>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub fn start(tracker: Arc<FrameTracker>) -> Result<Self, RecordError> {
        let path = tracker.shared.directory.clone();
        let watched = tracker.clone();
        let thread = std::thread::Builder::new()
            .name("livebag-watch".into())
            .spawn(move || {
                let _latch = PanicLatch(&watched.shared, "the thread that watches the streams");
                watched.stand_in();
            })
            .map_err(|source| RecordError::Io {
                doing: "starting a thread to watch the streams for",
                path,
                source,
            })?;
        Ok(Self { tracker, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.tracker.end();
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
