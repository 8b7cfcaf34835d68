//! Record every sensor of a robot at full rate, and read any moment back while it is being written.
//!
//! A message visits the modules in this order: a `source` or a [`TopicWriter`] gives it, its `queue` holds it,
//! the `scheduler` says when it may go, the `recorder` lays it out and hands it to the `storage`, and a `query`
//! finds it again. A [`Player`] publishes it once more, to any [`Output`].

mod clock;
mod container;
pub mod convert;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod limits;
mod play;
mod query;
mod queue;
mod recorder;
mod scheduler;
mod source;
mod storage;
mod verify;

pub use clock::Clock;
pub use limits::{
    CACHE_BYTES_DEFAULT, CHUNK_AGE_MAX, COMPRESSION_THREADS_MAX, PLAY_AHEAD_MESSAGES, TOPICS_MAX,
};
pub use livebag_format::Account;
pub use livebag_format::container::{MetadataEntry, Removed};
pub use livebag_format::mcap::Compression;
pub use livebag_format::{Message, Topic};
pub use play::{
    ClockTicks, MessageOrder, Output, PlayControl, PlayError, PlayOptions, PlaySeek, PlayStatus,
    PlayedTopic, Player, Stamp, StreamOutput, TopicOutput, TopicSurvey, survey,
};
pub use query::{
    Bag, BagError, BagFile, BagState, BagTopic, Buffer, Cursor, DAMAGED_RECORD, IndexEntry, Laid,
    McapAnswer, Messages, NewestFirst, Query, Span, Verdict, VirtualFile, VirtualFileError,
    damaged_topics,
};
pub use queue::NewMessage;
pub use recorder::{
    ChunkCompression, LowSpace, Overflow, Priority, ReaderNotice, RecordError, Recorder,
    RecorderOptions, Retention, SnapshotRing, SplitRules, Status, TopicRule, TopicRules,
    TopicSettings, TopicStatus, TopicWriter, WriteError, cache_bytes_available,
};
pub use scheduler::Schedule;
pub use source::{Selector, SelectorError, around_frame, pattern, stream_topic};
pub use storage::{
    Access, Block, Completion, Disk, DiskFile, Fault, FilePart, KernelDisk, Lock, Mapping, Method,
    MethodChoice, Owner, Part, SimulatedDisk, Write, WriteQueue, lower_priority,
};
pub use verify::{
    Damage, Glance, GlanceState, RecordingKind, Verified, VerifyError, VerifyProgress, glance,
    verify, verify_container_on,
};
