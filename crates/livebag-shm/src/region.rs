//! A stream as its readers see it: mapped read-only, its header checked once and never read again.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use rustix::io::Errno;

use crate::clock;
use crate::create::{open_wake, read_header};
use crate::error::{HeaderError, OpenError, ReadError};
use crate::frame::{self, FrameHeader};
use crate::header::StaticHeader;
use crate::kind::Kind;
use crate::layout::{MAIN_BYTES_MIN, live, state};
use crate::memory::{Access, Mapped, ReadMemory, copy_from_shared};
use crate::name::Name;
use crate::object::{self, LockHolder};
use crate::slot::{Holds, Slot};

/// A stream's own description. Does not change while the region exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamInfo {
    /// The name it was opened by.
    pub name: String,
    /// What its frames are.
    pub kind: Kind,
    /// Topic.
    pub topic: String,
    /// ROS type; may be empty.
    pub type_name: String,
    /// Encoding of the message that a frame is or stands for; may be empty.
    pub message_encoding: String,
    /// Language of the schema; may be empty.
    pub schema_encoding: String,
    /// Schema; may be empty.
    pub schema: Vec<u8>,
    /// Slots.
    pub slots: u32,
    /// Bytes of the largest frame.
    pub payload_bytes_max: usize,
    /// Bytes of shared memory.
    pub region_bytes: usize,
    /// Whether every frame carries a CRC-32C.
    pub checksum: bool,
    /// Nanoseconds since 1970 at which the region was made.
    pub created_realtime_nanos: u64,
    /// A number that no other region has, also not a later one of the same name.
    pub instance: u64,
}

/// Whether a stream's writer is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Liveness {
    /// It has published or beaten within the deadline.
    Live,
    /// Its process holds the stream, and has done nothing for longer than the deadline.
    Stalled,
    /// It has closed the stream, died, or replaced the region. Opening the name again shows which.
    Gone,
}

/// Counters of a stream, as its writer keeps them. Information, not proof: taken one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Frames published by all writers of this region.
    pub published: u64,
    /// Loans given back.
    pub abandoned: u64,
    /// Frames that the writers had and could not publish.
    pub dropped: u64,
    /// Largest time between two frames of one writer.
    pub publish_gap_max_nanos: u64,
    /// Bytes of all payloads.
    pub payload_bytes_published: u64,
    /// Publishes and heartbeats.
    pub heartbeats: u64,
    /// `CLOCK_MONOTONIC` of the last of those.
    pub heartbeat_monotonic_nanos: u64,
    /// How often a writer has attached; 1 for the region's maker.
    pub epoch: u64,
    /// The writer's process id, as it sees it itself.
    pub writer_pid: u64,
    /// When that process started, in clock ticks since boot; 0 if unknown.
    pub writer_start_ticks: u64,
}

/// What became of reading one frame.
#[derive(Debug)]
pub(crate) enum Read<T> {
    /// It is whole.
    Whole(T),
    /// It was overtaken.
    Lapped,
    /// It is whole and makes no sense.
    Damaged(ReadError),
}

/// Whose streams are opened. A stream's owner can truncate its memory at any time, and the kernel then kills a process
/// that reads it (SIGBUS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Owners {
    /// This process's user, root, and members of a group that this process belongs to and that the stream
    /// is for. For programs that must not end because of another user's.
    Trusted,
    /// Every user.
    #[default]
    All,
}

/// A mapped stream.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) info: StreamInfo,
    pub(crate) main: Mapped,
    pub(crate) header: StaticHeader,
    /// None: the writer always wakes, or (if `header.always_wake` is not set) it cannot be notified.
    pub(crate) wake: Option<Mapped>,
    fd: OwnedFd,
}

impl Region {
    pub(crate) fn open(name: &str, owners: Owners) -> Result<Region, OpenError> {
        let name = Name::new(name)?;
        let owned_name = || name.as_str().to_owned();
        let system = |action, source: Errno| match source {
            Errno::NOENT => OpenError::NotFound { name: owned_name() },
            Errno::ACCESS | Errno::PERM => OpenError::Denied { name: owned_name() },
            source => OpenError::System { action, name: owned_name(), source: source.into() },
        };
        let refuse = |source| OpenError::Header { name: owned_name(), source };
        let fd = object::open(&name.main_path(), false).map_err(|error| system("open", error))?;
        let stat = rustix::fs::fstat(&fd).map_err(|error| system("examine", error))?;
        let found = object::bytes_of(&stat);
        if !object::is_regular(&stat) {
            return Err(refuse(HeaderError::TooSmall { found: 0 }));
        }
        if owners == Owners::Trusted && !object::is_trusted(&stat) {
            return Err(OpenError::Untrusted { name: owned_name(), owner: stat.st_uid });
        }
        if found == 0 {
            return Err(refuse(HeaderError::BeingMade));
        }
        if found < MAIN_BYTES_MIN as u64 {
            return Err(refuse(HeaderError::TooSmall { found }));
        }
        let map = |bytes, huge| {
            Mapped::new(fd.as_fd(), bytes, Access::ReadOnly, huge)
                .map_err(|error| system("map", error))
        };
        let header = read_header(&map(found as usize, false)?, found).map_err(refuse)?;
        let main = map(header.geometry.total_bytes, header.geometry.is_huge())?;
        main.populate();
        let wake = match header.always_wake {
            true => None,
            false => open_wake(&name, header.instance),
        };
        let info = StreamInfo {
            name: owned_name(),
            kind: header.kind,
            topic: header.topic.clone(),
            type_name: header.type_name.clone(),
            message_encoding: header.message_encoding.clone(),
            schema_encoding: header.schema_encoding.clone(),
            schema: header.schema.clone(),
            slots: header.geometry.slot_count,
            payload_bytes_max: header.geometry.payload_bytes_max,
            region_bytes: header.geometry.total_bytes,
            checksum: header.checksum,
            created_realtime_nanos: header.created_realtime_nanos,
            instance: header.instance,
        };
        Ok(Region { info, main, header, wake, fd })
    }

    /// Acquire: pairs with the release store in `announce`.
    pub(crate) fn latest(&self) -> u64 {
        self.main.load(live::LATEST, Acquire)
    }

    pub(crate) fn slot(&self, sequence: u64) -> Slot<'_, Mapped> {
        Slot::new(&self.main, self.header.geometry.slot(sequence))
    }

    /// Address of a frame's payload. At least `payload_bytes_max` bytes are mapped there.
    pub(crate) fn payload(&self, sequence: u64) -> *const u8 {
        let place = self.header.geometry.slot(sequence);
        self.main.pointer(place.payload, self.info.payload_bytes_max).cast_const()
    }

    /// Reads the header of a frame, between the two checks.
    pub(crate) fn decode(&self, sequence: u64) -> Result<FrameHeader, ReadError> {
        let slot = self.slot(sequence);
        frame::decode(&slot, sequence, self.info.kind, self.info.payload_bytes_max)
    }

    /// Reads the header of a frame that is whole now.
    pub(crate) fn read_header(&self, sequence: u64) -> Read<FrameHeader> {
        let slot = self.slot(sequence);
        if slot.holds(sequence) != Holds::Whole {
            return Read::Lapped;
        }
        let header = self.decode(sequence);
        match (slot.is_still_whole(sequence), header) {
            (false, _) => Read::Lapped,
            (true, Ok(header)) => Read::Whole(header),
            (true, Err(error)) => Read::Damaged(error),
        }
    }

    /// CRC-32C of a payload in place, which may change meanwhile.
    pub(crate) fn crc32c_in_place(&self, sequence: u64, payload_bytes: usize) -> u32 {
        const STEP_BYTES: usize = 16 << 10;
        let payload_bytes = payload_bytes.min(self.info.payload_bytes_max);
        let payload = self.payload(sequence);
        let mut buffer = [MaybeUninit::<u8>::uninit(); STEP_BYTES];
        let mut crc = 0;
        let mut at = 0;
        while at < payload_bytes {
            let count = STEP_BYTES.min(payload_bytes - at);
            // SAFETY: `at + count` is at most `payload_bytes_max`, which is mapped at `payload`; the
            // buffer has room for `count`, and its first `count` bytes are initialised by the copy.
            let copied = unsafe {
                copy_from_shared(buffer.as_mut_ptr().cast(), payload.add(at), count);
                std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), count)
            };
            crc = crc32c::crc32c_append(crc, copied);
            at += count;
        }
        crc
    }

    pub(crate) fn liveness(&self, deadline: Duration) -> Liveness {
        let is_live = self.main.load(live::STATE, Relaxed) == state::LIVE;
        let holder = object::lock_holder(&self.fd, false);
        // An answer that the system refuses to give does not make a writer dead.
        if !is_live || matches!(holder, Ok(LockHolder::Nobody | LockHolder::Reader)) {
            return Liveness::Gone;
        }
        if self.silence() > deadline { Liveness::Stalled } else { Liveness::Live }
    }

    pub(crate) fn silence(&self) -> Duration {
        let beat = self.main.load(live::HEARTBEAT_MONOTONIC_NANOS, Relaxed);
        Duration::from_nanos(clock::monotonic_nanos().saturating_sub(beat))
    }

    pub(crate) fn counters(&self) -> Counters {
        let word = |at| self.main.load(at, Relaxed);
        Counters {
            published: word(live::PUBLISHED),
            abandoned: word(live::ABANDONED),
            dropped: word(live::DROPPED),
            publish_gap_max_nanos: word(live::PUBLISH_GAP_MAX_NANOS),
            payload_bytes_published: word(live::PAYLOAD_BYTES_PUBLISHED),
            heartbeats: word(live::HEARTBEAT_COUNT),
            heartbeat_monotonic_nanos: word(live::HEARTBEAT_MONOTONIC_NANOS),
            epoch: word(live::EPOCH),
            writer_pid: word(live::WRITER_PID),
            writer_start_ticks: word(live::WRITER_START_TICKS),
        }
    }
}
