//! Shared-memory streams in native sensor layouts: one writer, any number of readers, no torn frame.
//!
//! `docs/stream-layout.md` is the byte layout and the protocol; this crate and
//! `cpp/include/livebag/stream.hpp` implement the same page. The writer never waits for readers, and
//! readers map the stream read-only, so that a reader cannot harm the writer or another reader.
//!
//! A driver publishes ([`Writer::publish`], or [`Writer::loan`] to fill the frame in place):
//!
//! ```
//! # let name = format!("doc-lib-{}", std::process::id());
//! # let cloud = vec![0u8; 16 * 1000];
//! use livebag_shm::{FrameMeta, PointsLayout, StreamOptions, Writer};
//! # {
//! let mut writer = Writer::create(&name, &StreamOptions::points(100_000, 16))?;
//! writer.publish(&FrameMeta::points(PointsLayout::xyz(1000, 16)).frame_id("lidar"), &cloud)?;
//! # }
//! # livebag_shm::remove(&name)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Other processes read the newest frame ([`Reader::receive`], [`Reader::copy_latest`],
//! [`Reader::borrow_latest`]) or every frame in order ([`Reader::next`]).
//!
//! There is also the cycle board, `docs/cycle-layout.md`: applications report there when they compute ([`Cycle`]), so
//! that a recorder ([`CycleMonitor`]) can write in between.

#![expect(unsafe_code, reason = "shared memory is outside of what the compiler can see")]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64", target_endian = "little")))]
compile_error!("livebag streams need 64-bit little-endian Linux");

/// Readers tell of themselves.
mod attendance;
/// Copying a frame out.
mod copy_out;
/// Creating, re-attaching, taking over.
mod create;
/// When applications compute.
mod cycle;
/// Waiting in an event loop.
mod event;
/// Every frame in order.
mod follow;
/// A frame's header.
mod frame;
/// The static header, checked before it is believed.
mod header;
mod kind;
/// Stream names and paths.
mod name;
/// A writer's options.
mod options;
/// Placement of memory and thread.
mod place;
/// The newest frame.
mod reader;
/// A stream as its readers see it.
mod region;
/// The streams of this machine.
mod registry;
/// The slot protocol.
mod slot;
/// Waiting.
mod wait;
/// The wake protocol.
mod wake;
/// Publishing by copy and by loan.
mod writer;

// Below all of them.
mod clock;
mod error;
mod futex;
mod layout;
mod limits;
mod memory;
mod object;

#[cfg(all(any(test, fuzzing), not(loom)))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(all(test, loom))]
mod loom_tests;

pub use attendance::ReaderInfo;
pub use cycle::{
    CYCLE_NAME_BYTES_MAX, CYCLE_SLOTS, Cycle, CycleApplication, CycleError, CycleMonitor,
    remove_cycle_board,
};
pub use error::{
    CreateError, HeaderError, ListError, NameError, OpenError, PublishError, ReadError, RemoveError,
};
pub use event::FrameEvent;
pub use follow::{FrameRef, Next};
pub use frame::{FrameHeader, FrameLayout, FrameMeta, ImageLayout, PointField, PointsLayout};
pub use kind::Kind;
pub use limits::{
    FRAME_ID_BYTES_MAX, NAME_BYTES_MAX, PAYLOAD_BYTES_MAX, PIXEL_ENCODING_BYTES_MAX,
    POINT_FIELDS_MAX, READER_LABEL_BYTES_MAX, SCHEMA_BYTES_MAX, SLOTS_MAX, SLOTS_MIN,
};
pub use memory::copy_past_caches;
pub use options::{HugePages, Placement, StreamOptions};
pub use reader::{Borrowed, Reader};
pub use region::{Counters, Liveness, Owners, StreamInfo};
pub use registry::{list, list_regions, remove};
pub use wait::Wait;
pub use writer::{Loan, Writer};
