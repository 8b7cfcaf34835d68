//! One enum per operation. The text names what was expected, what was found, and a remedy.

use std::io;

use crate::kind::Kind;

/// A stream name that breaks the rules.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Empty or too long.
    #[error("a stream name has 1 to 200 characters, this one has {found}")]
    Length {
        /// Bytes found.
        found: usize,
    },
    /// A character that is not allowed.
    #[error(
        "the stream name {name:?} contains {found:?}; allowed are letters and digits of ASCII, '_', '.' and '-' (a topic like /camera/front becomes camera.front)"
    )]
    Character {
        /// The name.
        name: String,
        /// The first bad character.
        found: char,
    },
    /// Dots that could leave the folder, or a reserved ending.
    #[error(
        "the stream name {name:?} starts with '.', contains \"..\" or ends in \".wake\"; choose another name"
    )]
    Dots {
        /// The name.
        name: String,
    },
}

/// A region whose header does not check.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderError {
    /// The magic is not there yet.
    #[error("the region is still being made; try again in a moment")]
    BeingMade,
    /// Too small to be a region.
    #[error(
        "a region has at least 12288 bytes, this object has {found}: it is truncated or foreign"
    )]
    TooSmall {
        /// Its size.
        found: u64,
    },
    /// Not a livebag region.
    #[error("the region starts with {found:#018x} instead of \"LIVEBAGS\": not a livebag stream")]
    Foreign {
        /// The first eight bytes.
        found: u64,
    },
    /// Another layout version.
    #[error(
        "the region has layout version {found}, this program reads version 1; use programs of one livebag version"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// A field breaks a rule.
    #[error("the region is damaged: {field} is {found}, expected {expected}")]
    Rule {
        /// The field of `docs/stream-layout.md`.
        field: &'static str,
        /// Its rule.
        expected: &'static str,
        /// Its value.
        found: u64,
    },
    /// The header's checksum is wrong.
    #[error(
        "the region is damaged: its header has CRC-32C {found:#010x}, expected {expected:#010x}"
    )]
    Checksum {
        /// Computed from the bytes.
        found: u32,
        /// As stored.
        expected: u32,
    },
    /// A text is not UTF-8.
    #[error("the region is damaged: {field} is not UTF-8 text")]
    Text {
        /// The field of `docs/stream-layout.md`.
        field: &'static str,
    },
}

/// [`crate::Writer::create`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name breaks the rules.
    #[error(transparent)]
    Name(#[from] NameError),
    /// An option is out of bounds.
    #[error("the stream option {option} is {found}, expected {expected}")]
    Option {
        /// Which.
        option: &'static str,
        /// Its value.
        found: String,
        /// Its rule.
        expected: &'static str,
    },
    /// Another writer lives.
    #[error(
        "the stream {name:?} has a live writer (process {pid}); stop it, or choose another name"
    )]
    LiveWriter {
        /// The stream.
        name: String,
        /// The writer's process id as it saw it itself.
        pid: u64,
    },
    /// An object of that name belongs to another user.
    #[error(
        "{path} belongs to user {owner}, not to user {user}; remove it as its owner, or choose another name"
    )]
    ForeignOwner {
        /// Path of the object.
        path: String,
        /// Owner found.
        owner: u32,
        /// The effective user of this process.
        user: u32,
    },
    /// An object of that name is not a livebag region.
    #[error("{path} is not a livebag stream ({source}); remove it, or choose another name")]
    ForeignObject {
        /// Path of the object.
        path: String,
        /// The error in it.
        source: HeaderError,
    },
    /// The group does not exist.
    #[error("there is no group {group:?} on this machine; create it, or name another")]
    Group {
        /// The group asked for.
        group: String,
    },
    /// Shared memory is full.
    #[error(
        "/dev/shm has no room for {bytes} bytes; remove stale streams, use fewer slots, or enlarge it (mount -o remount,size=… /dev/shm)"
    )]
    NoSpace {
        /// Bytes needed.
        bytes: u64,
    },
    /// Others kept changing the name.
    #[error("the stream {name:?} kept being re-created by another process; try again")]
    Contended {
        /// The stream.
        name: String,
    },
    /// The system refused.
    #[error("cannot {action} {path}: {source}")]
    System {
        /// The operation.
        action: &'static str,
        /// On which object.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// [`crate::Reader::open`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The name breaks the rules.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No such stream.
    #[error(
        "there is no stream {name:?} on this machine; start its writer, or see `livebag streams`"
    )]
    NotFound {
        /// The stream.
        name: String,
    },
    /// No right to read it.
    #[error(
        "no right to read the stream {name:?}; run as its owner, or have the writer name a group (StreamOptions::group) that you belong to"
    )]
    Denied {
        /// The stream.
        name: String,
    },
    /// Another user could truncate it, which kills its readers.
    #[error(
        "the stream {name:?} belongs to the user {owner}, who could end this program by truncating it; have its writer name a group (StreamOptions::group) that this program belongs to, or accept streams of all users (--all-users)"
    )]
    Untrusted {
        /// The stream.
        name: String,
        /// The user's number.
        owner: u32,
    },
    /// The region does not check.
    #[error("the stream {name:?} cannot be read: {source}")]
    Header {
        /// The stream.
        name: String,
        /// The error in it.
        source: HeaderError,
    },
    /// The system refused.
    #[error("cannot {action} the stream {name:?}: {source}")]
    System {
        /// The operation.
        action: &'static str,
        /// The stream.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl OpenError {
    /// Whether trying again in a moment may help: no such stream yet, or still being made.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            OpenError::NotFound { .. } | OpenError::Header { source: HeaderError::BeingMade, .. }
        )
    }
}

/// A frame could not be published. The frame's slot is returned; the sequence continues.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// Larger than the slot.
    #[error(
        "the frame has {found} bytes, a slot holds {expected}; create the stream with a larger payload_bytes_max"
    )]
    TooLarge {
        /// Bytes of the frame.
        found: usize,
        /// Bytes of a slot.
        expected: usize,
    },
    /// The frame's layout is of another kind than the stream.
    #[error("the frame is of kind {found}, the stream of kind {expected}")]
    Kind {
        /// Of the frame.
        found: Kind,
        /// Of the stream.
        expected: Kind,
    },
    /// A text or a table is too long.
    #[error("the frame's {field} has {found} bytes or entries, at most {expected} are possible")]
    TooLong {
        /// Which.
        field: &'static str,
        /// Its length.
        found: usize,
        /// The limit.
        expected: usize,
    },
}

/// A frame could not be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// The writer overtook the reader each time.
    #[error(
        "the writer overtook this reader {attempts} times in a row; read faster, or create the stream with more slots"
    )]
    Overtaken {
        /// How often it was tried.
        attempts: u32,
    },
    /// A whole frame with impossible values.
    #[error("frame {sequence} is damaged: its {field} is {found}, at most {expected} is possible")]
    Damaged {
        /// The frame.
        sequence: u64,
        /// Which value.
        field: &'static str,
        /// As found.
        found: u64,
        /// The limit.
        expected: u64,
    },
    /// A whole frame with a text that is not UTF-8.
    #[error("frame {sequence} is damaged: its {field} is not UTF-8 text")]
    Text {
        /// The frame.
        sequence: u64,
        /// Which text.
        field: &'static str,
    },
    /// The frame's bytes do not match its checksum.
    #[error(
        "frame {sequence} is damaged: its bytes have CRC-32C {found:#010x}, the writer stored {expected:#010x}"
    )]
    Checksum {
        /// The frame.
        sequence: u64,
        /// Computed from the bytes.
        found: u32,
        /// As stored.
        expected: u32,
    },
}

/// [`crate::list`] failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list the streams in /dev/shm: {source}; is it mounted?")]
pub struct ListError {
    pub(crate) source: io::Error,
}

/// [`crate::remove`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoveError {
    /// The name breaks the rules.
    #[error(transparent)]
    Name(#[from] NameError),
    /// No such stream.
    #[error("there is no stream {name:?} on this machine")]
    NotFound {
        /// The stream.
        name: String,
    },
    /// A writer lives.
    #[error("the stream {name:?} has a live writer; stop it first")]
    LiveWriter {
        /// The stream.
        name: String,
    },
    /// The system refused.
    #[error("cannot remove the stream {name:?}: {source}")]
    System {
        /// The stream.
        name: String,
        /// The system's answer.
        source: io::Error,
    },
}
