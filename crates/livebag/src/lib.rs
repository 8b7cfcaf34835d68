//! Record every sensor of a robot at full rate, and read any moment back while it is being written.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("run1");
//! use livebag::{Container, Query, Recorder, RecorderOptions, Span, Topic};
//!
//! let recorder = Recorder::create(&path, RecorderOptions::default())?;
//! let topic = Topic { name: "/note".into(), message_encoding: "json".into(), ..Topic::default() };
//! let notes = recorder.topic(topic)?;
//! notes.write(None, 1, br#"{"text": "started"}"#)?;
//! recorder.finish()?; // any process can open it before that, too
//!
//! let container = Container::open(&path)?;
//! let mut cursor = container.query(&Query { topics: vec!["/note".into()], span: Span::All })?;
//! while let Some((_, message)) = cursor.next()? {
//!     println!("{} {} bytes", message.log_time_nanos, message.data.len());
//! }
//! # assert_eq!(container.topics().len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Recorder::follow`] records shared-memory streams; [`Player`] publishes recordings to any [`Output`]. The crate
//! `livebag-bags` reads and writes bags of ROS 1 and rosbag2, and checks recordings.
//!
//! A message passes through the modules in this order: a `source` or a [`TopicWriter`] provides it, its `queue` holds
//! it, the `scheduler` decides when it is written, the `recorder` writes it to the `storage`, and a `query` reads it.

mod clock;
mod container;
mod limits;
mod memory;
mod play;
mod query;
mod queue;
mod recorder;
mod scheduler;
mod source;
mod storage;

pub use clock::Clock;
pub use container::{EventError, add_event};
pub use limits::{
    CACHE_BYTES_DEFAULT, CHUNK_AGE_MAX, COMPRESSION_THREADS_MAX, PLAY_AHEAD_MESSAGES, TOPICS_MAX,
};
pub use livebag_format::Account;
pub use livebag_format::container::{MetadataEntry, Removed};
pub use livebag_format::event::Event;
pub use livebag_format::mcap::Compression;
pub use livebag_format::{Message, Topic};
pub use memory::cache_bytes_available;
pub use play::{
    ClockTicks, MessageOrder, Output, PlayControl, PlayError, PlayOptions, PlaySeek, PlaySource,
    PlayStatus, Playable, PlayedTopic, Player, SourceError, SourceMessage, SourceTotals, Stamp,
    StreamOutput, TopicOutput, TopicSurvey, survey_with,
};
pub use query::{
    Buffer, Container, ContainerError, ContainerFile, ContainerState, ContainerTopic, Cursor,
    DAMAGED_RECORD, Follow, Followed, IndexEntry, Laid, LossCause, LossSpan, McapAnswer, Messages,
    NewestFirst, Query, Span, TimeBins, Timeline, TimelineCache, TimelineQuery, TopicProgress,
    TopicRange, TopicTimeline, Verdict, VirtualFile, VirtualFileError, damaged_topics,
};
pub use queue::NewMessage;
pub use recorder::{
    ACCOUNT_KEY, BagFileWriter, BagWriteError, BagWriter, ChunkCompression, LowSpace, Overflow,
    Priority, REMOVED_KEY, ReaderNotice, RecordError, Recorder, RecorderOptions, Retention,
    SnapshotRing, SplitRules, Status, TopicRule, TopicRules, TopicSettings, TopicStatus,
    TopicWriter, WriteError, raise_file_limit,
};
pub use scheduler::Schedule;
pub use source::{Selector, SelectorError, around_frame, pattern, stream_topic};
pub use storage::{
    Access, Block, Completion, Disk, DiskFile, Fault, FilePart, KernelDisk, Lock, Mapping, Method,
    MethodChoice, Owner, Part, ReadDisk, ReadFile, SimulatedDisk, Write, WriteQueue,
    lower_priority,
};

/// What the other crates of this workspace need of the container; not for others.
#[doc(hidden)]
pub mod internal {
    pub use crate::container::events::is_event;
    pub use crate::container::{is_being_written, says_the_same};
    pub use crate::query::warning_of_missing;
    pub use crate::storage::{is_open_for_writing, open_regular};
}
