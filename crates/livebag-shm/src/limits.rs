//! Every bound of a stream, in one place.

pub(crate) const PAGE_BYTES: usize = 4096;
/// Size of a huge page on x86-64 and on aarch64 with 4 KiB pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Longest stream name in bytes: leaves room for prefix and suffix in the 255 of a file name.
pub const NAME_BYTES_MAX: usize = 200;

/// Fewest slots: the double buffer.
pub const SLOTS_MIN: u32 = 2;
/// Most slots.
pub const SLOTS_MAX: u32 = 1024;
/// Default slots of a stream with large frames.
pub(crate) const SLOTS_DEFAULT_MIN: u32 = 4;
/// Default slots of a stream with tiny frames.
pub(crate) const SLOTS_DEFAULT_MAX: u32 = 64;
/// Memory that the default number of slots may take beyond [`SLOTS_DEFAULT_MIN`]: small enough to
/// stay in a core's second-level cache.
pub(crate) const SLOTS_DEFAULT_BYTES: usize = 256 << 10;

/// Largest payload of a frame: the longest sequence in ROS 2.
pub const PAYLOAD_BYTES_MAX: usize = u32::MAX as usize;
/// Largest schema.
pub const SCHEMA_BYTES_MAX: usize = 1 << 20;
/// Longest topic name in bytes.
pub const TOPIC_BYTES_MAX: usize = 508;
/// Longest type name in bytes.
pub const TYPE_NAME_BYTES_MAX: usize = 252;
/// Longest name of a message or schema encoding in bytes.
pub const ENCODING_NAME_BYTES_MAX: usize = 60;
/// Longest frame id in bytes.
pub const FRAME_ID_BYTES_MAX: usize = 255;
/// Longest pixel encoding (`rgb8`) in bytes.
pub const PIXEL_ENCODING_BYTES_MAX: usize = 32;
/// Most fields of a point.
pub const POINT_FIELDS_MAX: usize = 32;
/// Longest name of a point's field in bytes.
pub const POINT_FIELD_NAME_BYTES_MAX: usize = 32;

/// Longest label of a reader in bytes; a longer one is cut.
pub const READER_LABEL_BYTES_MAX: usize = 32;

/// A copy is published in pieces of this size to readers that copy along.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// How often `copy_latest` and `borrow_latest` start again after being overtaken.
pub(crate) const READ_ATTEMPTS_MAX: u32 = 4;
/// Longest single sleep: a lost wake-up costs at most this.
pub(crate) const SLEEP_NANOS_MAX: u64 = 100_000_000;
/// Longest nap of a reader that has no wake object to announce itself in.
pub(crate) const NAP_NANOS_MAX: u64 = 1_000_000;
/// Longest time that a reader copies along behind a writer that makes no progress.
pub(crate) const COPY_ALONG_STALL_NANOS_MAX: u64 = 200_000;
/// How often creation restarts when other processes change the same name meanwhile.
pub(crate) const CREATE_ATTEMPTS_MAX: u32 = 64;

const _: () = assert!(PIECE_BYTES.is_multiple_of(PAGE_BYTES));
const _: () = assert!(SLOTS_DEFAULT_MIN >= SLOTS_MIN && SLOTS_DEFAULT_MAX <= SLOTS_MAX);
