//! Recordings, open for reading, and their queries.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, Container, ContainerState, ContainerTopic, Follow, Query, Span};

use crate::failure::{Failure, Status, invalid};
use crate::outcome::{call, give};
use crate::text::{c_string, free, handle, handle_mut, names, put, required};

/// A recording, whether a recorder is writing it or not. Freed by livebag_close.
pub struct Recording {
    bag: Arc<Container>,
    topics: Vec<Named>,
}

/// A topic's texts, which stay where they are.
struct Named {
    name: CString,
    type_name: CString,
    message_encoding: CString,
    schema_encoding: CString,
    schema: Vec<u8>,
}

impl From<&ContainerTopic> for Named {
    fn from(topic: &ContainerTopic) -> Self {
        let topic = topic.topic();
        Self {
            name: c_string(&topic.name),
            type_name: c_string(&topic.type_name),
            message_encoding: c_string(&topic.message_encoding),
            schema_encoding: c_string(&topic.schema_encoding),
            schema: topic.schema.clone(),
        }
    }
}

impl Named {
    fn with(&self, topic: &ContainerTopic) -> Result<Topic, Failure> {
        Ok(Topic {
            name: self.name.as_ptr(),
            type_name: self.type_name.as_ptr(),
            message_encoding: self.message_encoding.as_ptr(),
            schema_encoding: self.schema_encoding.as_ptr(),
            schema: self.schema.as_ptr(),
            schema_bytes: self.schema.len(),
            message_count: topic.message_count()?,
            lost: topic.lost().into(),
        })
    }
}

/// Messages lost, by cause.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Missing in the source's sequence when they reached livebag.
    pub transport: u64,
    /// Dropped because the topic's queue was full.
    pub queue: u64,
    /// Overwritten in the stream's slot before the device had them.
    pub lapped: u64,
    /// Refused by the disk.
    pub disk: u64,
    /// Discarded at the end, on request.
    pub abandoned: u64,
    /// Sum of the above.
    pub total: u64,
}

impl From<&livebag_format::container::Losses> for Losses {
    fn from(lost: &livebag_format::container::Losses) -> Self {
        let &livebag_format::container::Losses { transport, queue, lapped, disk, abandoned } = lost;
        Self { transport, queue, lapped, disk, abandoned, total: lost.total() }
    }
}

/// A topic of a recording. Its pointers are valid as long as the recording or cursor that returned it.
#[repr(C)]
pub struct Topic {
    /// Topic name, for example "/imu".
    pub name: *const c_char,
    /// For example "sensor_msgs/msg/Imu"; may be empty.
    pub type_name: *const c_char,
    /// For example "cdr".
    pub message_encoding: *const c_char,
    /// For example "ros2msg"; may be empty.
    pub schema_encoding: *const c_char,
    /// Definition of the type, not ended by a zero; may be empty.
    pub schema: *const u8,
    /// Its length.
    pub schema_bytes: usize,
    /// Messages committed so far.
    pub message_count: u64,
    /// Messages lost.
    pub lost: Losses,
}

/// A message. `data` lives until the cursor is moved or freed.
#[repr(C)]
pub struct Message {
    /// Number of its topic: see livebag_cursor_topic_at, and livebag_topic_at for topics that were there
    /// when the recording was opened.
    pub topic: usize,
    /// When the recorder took it; nanoseconds since the Unix epoch.
    pub log_time_nanos: u64,
    /// When its source stamped it; nanoseconds since the Unix epoch.
    pub publish_time_nanos: u64,
    /// The source's count; 0 if it keeps none.
    pub sequence: u64,
    /// The encoded message.
    pub data: *const u8,
    /// Its length.
    pub data_bytes: usize,
}

self_cell::self_cell!(
    struct Walk {
        owner: Arc<Container>,
        #[covariant]
        dependent: ContainerCursor,
    }
);

type ContainerCursor<'bag> = livebag::Cursor<'bag>;

/// The answer to a query, oldest message first. Freed by livebag_cursor_free; may outlive its recording.
pub struct Cursor {
    messages: Messages,
    topics: Vec<Named>,
}

enum Messages {
    Walk(Walk),
    Follow(Box<Following>),
}

struct Following {
    follow: Follow,
    /// The bytes of the message that was given last.
    current: Vec<u8>,
    clock: Clock,
}

impl Following {
    /// Waits for the next message until `until_nanos` of the clock; forever if there is none.
    fn next(&mut self, until_nanos: Option<u64>) -> Result<(Status, Option<Message>), Failure> {
        let mut has_looked = false;
        loop {
            if let Some(message) = self.follow.next() {
                self.current = message.data;
                let message = Message {
                    topic: message.topic,
                    log_time_nanos: message.log_time_nanos,
                    publish_time_nanos: message.publish_time_nanos,
                    sequence: message.sequence,
                    data: self.current.as_ptr(),
                    data_bytes: self.current.len(),
                };
                return Ok((Status::Ok, Some(message)));
            }
            if self.follow.has_ended() {
                return Ok((Status::End, None));
            }
            if has_looked {
                let now_nanos = self.clock.monotonic_nanos();
                let left =
                    until_nanos.map(|until| Duration::from_nanos(until.saturating_sub(now_nanos)));
                if left == Some(Duration::ZERO) {
                    return Ok((Status::Timeout, None));
                }
                self.clock.sleep(left.unwrap_or(Follow::INTERVAL).min(Follow::INTERVAL));
            }
            has_looked = true;
            self.follow.look()?;
        }
    }
}

/// Opens a recording: a livebag container, also one that is being written. One whose recorder died is
/// recovered first. Bags of other makes (MCAP files, rosbag2, ROS 1) are NOT_FOUND: `livebag convert IN OUT`
/// makes containers of them.
///
/// # Safety
/// `path` ends with a zero; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_open(path: *const c_char, out: *mut *mut Recording) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let path = unsafe { required(path, "the path") }?;
        let bag = Arc::new(Container::open(Path::new(path))?);
        let topics = bag.topics().iter().map(Named::from).collect();
        // SAFETY: as the caller says.
        unsafe { put(out, Box::into_raw(Box::new(Recording { bag, topics }))) }?;
        Ok(Status::Ok)
    })
}

/// Closes a recording; NULL is nothing.
///
/// # Safety
/// `recording` is NULL or open, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_close(recording: *mut Recording) {
    // SAFETY: as the caller says.
    give((), || unsafe { free(recording) });
}

/// Whether the recording was being written when it was opened.
///
/// # Safety
/// `recording` is open; NULL gives false.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_is_live(recording: *const Recording) -> bool {
    give(false, || {
        // SAFETY: as the caller says.
        unsafe { handle(recording) }.is_ok_and(|it| it.bag.state() == ContainerState::Live)
    })
}

/// Topics when the recording was opened: a topic that came later is seen by opening it again.
///
/// # Safety
/// `recording` is open; NULL gives 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_topic_count(recording: *const Recording) -> usize {
    // SAFETY: as the caller says.
    give(0, || unsafe { handle(recording) }.map_or(0, |recording| recording.topics.len()))
}

/// A topic by its number, from 0 on.
///
/// # Safety
/// `recording` is open; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_topic_at(
    recording: *const Recording,
    number: usize,
    out: *mut Topic,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let recording = unsafe { handle(recording) }?;
        let count = recording.topics.len();
        let (Some(named), Some(topic)) =
            (recording.topics.get(number), recording.bag.topics().get(number))
        else {
            return Err(invalid(format!("there are {count} topics, no number {number}")));
        };
        let topic = named.with(topic)?;
        // SAFETY: as the caller says.
        unsafe { put(out, topic) }?;
        Ok(Status::Ok)
    })
}

/// Asks for the messages of `topics` (all if `topic_count` is 0) from one log time to another, both
/// included: 0 and UINT64_MAX for everything. Messages that a recorder commits afterwards are not part of the answer.
///
/// # Safety
/// `recording` is open; `topics` has `topic_count` texts; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_history(
    recording: *const Recording,
    topics: *const *const c_char,
    topic_count: usize,
    from_nanos: u64,
    to_nanos: u64,
    out: *mut *mut Cursor,
) -> Status {
    // SAFETY: as the caller says.
    unsafe { ask(recording, topics, topic_count, Span::History(from_nanos, to_nanos), out) }
}

/// Asks for the messages of `topics` (all if `topic_count` is 0) of the time before the newest of them,
/// which is always among them.
///
/// # Safety
/// As of livebag_history.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_latest(
    recording: *const Recording,
    topics: *const *const c_char,
    topic_count: usize,
    last_nanos: u64,
    out: *mut *mut Cursor,
) -> Status {
    let span = Span::Latest(Duration::from_nanos(last_nanos));
    // SAFETY: as the caller says.
    unsafe { ask(recording, topics, topic_count, span, out) }
}

/// # Safety
/// As of [`livebag_history`].
unsafe fn ask(
    recording: *const Recording,
    topics: *const *const c_char,
    topic_count: usize,
    span: Span,
    out: *mut *mut Cursor,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (recording, topics) = unsafe { (handle(recording)?, names(topics, topic_count)?) };
        let query = Query { topics, span };
        let walk = Walk::try_new(Arc::clone(&recording.bag), |bag| bag.query(&query))?;
        let cursor = Cursor { messages: Messages::Walk(walk), topics: Vec::new() };
        // SAFETY: as the caller says.
        unsafe { put(out, Box::into_raw(Box::new(cursor))) }?;
        Ok(Status::Ok)
    })
}

/// Asks for the messages of `topics` (all if `topic_count` is 0) that are committed from now on; with
/// `last_nanos` also for those of that time before the newest. The cursor ends when the recording does. A
/// topic may be named before a running recording has it. A message can be had 0.1 s after it was recorded.
///
/// # Safety
/// As of livebag_history; `last_nanos` is NULL or may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_follow(
    recording: *const Recording,
    topics: *const *const c_char,
    topic_count: usize,
    last_nanos: *const u64,
    out: *mut *mut Cursor,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (recording, topics) = unsafe { (handle(recording)?, names(topics, topic_count)?) };
        // SAFETY: as the caller says.
        let last = unsafe { last_nanos.as_ref() }.map(|&nanos| Duration::from_nanos(nanos));
        let follow = Follow::begin(Container::open(recording.bag.path())?, topics, last)?;
        let following = Following { follow, current: Vec::new(), clock: Clock::system() };
        let cursor = Cursor { messages: Messages::Follow(Box::new(following)), topics: Vec::new() };
        // SAFETY: as the caller says.
        unsafe { put(out, Box::into_raw(Box::new(cursor))) }?;
        Ok(Status::Ok)
    })
}

/// The next message, or END. A message that is damaged is left out and counted. On a cursor of
/// livebag_follow it waits for one until the recording ends.
///
/// # Safety
/// `cursor` is valid and used only by this thread; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_next(cursor: *mut Cursor, out: *mut Message) -> Status {
    // SAFETY: as the caller says.
    unsafe { next(cursor, None, out) }
}

/// The same, waiting at most for this time: TIMEOUT if there was no message. 0 polls once and does not wait.
///
/// # Safety
/// As of livebag_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_next_within(
    cursor: *mut Cursor,
    timeout_nanos: u64,
    out: *mut Message,
) -> Status {
    // SAFETY: as the caller says.
    unsafe { next(cursor, Some(timeout_nanos), out) }
}

/// # Safety
/// As of [`livebag_next`].
unsafe fn next(cursor: *mut Cursor, timeout_nanos: Option<u64>, out: *mut Message) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let cursor = unsafe { handle_mut(cursor) }?;
        let (status, message) = match &mut cursor.messages {
            Messages::Follow(following) => {
                let now_nanos = following.clock.monotonic_nanos();
                following.next(timeout_nanos.map(|nanos| now_nanos.saturating_add(nanos)))?
            }
            Messages::Walk(walk) => walk.with_dependent_mut(|_, cursor| match cursor.next() {
                Ok(None) => Ok((Status::End, None)),
                Ok(Some((topic, message))) => {
                    let message = Message {
                        topic,
                        log_time_nanos: message.log_time_nanos,
                        publish_time_nanos: message.publish_time_nanos,
                        sequence: message.sequence,
                        data: message.data.as_ptr(),
                        data_bytes: message.data.len(),
                    };
                    Ok((Status::Ok, Some(message)))
                }
                Err(error) => Err(Failure::from(error)),
            })?,
        };
        if let Some(message) = message {
            // SAFETY: as the caller says.
            unsafe { put(out, message) }?;
        }
        Ok(status)
    })
}

/// The topic of a message that the cursor gave, by its number; `message_count` and `lost` as of the cursor's last poll
/// of the recording.
///
/// # Safety
/// `cursor` is valid and used only by this thread; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_cursor_topic_at(
    cursor: *mut Cursor,
    number: usize,
    out: *mut Topic,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let Cursor { messages, topics: named } = unsafe { handle_mut(cursor) }?;
        let topics = match messages {
            Messages::Follow(following) => following.follow.container().topics(),
            Messages::Walk(walk) => walk.borrow_owner().topics(),
        };
        named.extend(topics.iter().skip(named.len()).map(Named::from));
        let (Some(named), Some(topic)) = (named.get(number), topics.get(number)) else {
            return Err(invalid(format!("there are {} topics, no number {number}", topics.len())));
        };
        let topic = named.with(topic)?;
        // SAFETY: as the caller says.
        unsafe { put(out, topic) }?;
        Ok(Status::Ok)
    })
}

/// Damaged messages left out so far.
///
/// # Safety
/// `cursor` is valid and used only by this thread; NULL gives 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_damaged(cursor: *const Cursor) -> u64 {
    give(0, || {
        // SAFETY: as the caller says.
        unsafe { handle(cursor) }.map_or(0, |it| match &it.messages {
            Messages::Walk(walk) => walk.borrow_dependent().damaged(),
            Messages::Follow(following) => following.follow.damaged(),
        })
    })
}

/// Frees a cursor; NULL is nothing.
///
/// # Safety
/// `cursor` is NULL or valid, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_cursor_free(cursor: *mut Cursor) {
    // SAFETY: as the caller says.
    give((), || unsafe { free(cursor) });
}
