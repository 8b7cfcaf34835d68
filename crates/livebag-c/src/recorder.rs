//! Recorders: streams of this machine, and messages of this process.

use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use livebag::{
    ChunkCompression, NewMessage, Overflow, RecorderOptions, Retention, Selector, SplitRules,
    TopicWriter,
};
use livebag_format::definitions;

use crate::failure::{Failure, Status, invalid};
use crate::outcome::{call, give};
use crate::recording::Losses;
use crate::text::{bytes, c_string, free, handle, names, optional, put, required};

/// A recording in progress. Freed by livebag_recorder_free, which finishes it if necessary.
pub struct Recorder {
    recorder: Mutex<Option<livebag::Recorder>>,
}

impl Recorder {
    fn with(&self, act: impl FnOnce(&livebag::Recorder) -> Result<(), Failure>) -> Status {
        call(|| {
            let recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
            act(recorder.as_ref().ok_or_else(finished)?)?;
            Ok(Status::Ok)
        })
    }
}

fn finished() -> Failure {
    Failure { status: Status::Closed, text: "the recording has been finished".into() }
}

/// What becomes of a message for which there is no room in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is dropped and counted; livebag_write says LIVEBAG_STATUS_FULL.
    DropNewest = 0,
    /// Older messages of lower or equal priority are dropped and counted.
    DropOldest = 1,
    /// livebag_write waits.
    Block = 2,
}

/// How chunks of small messages are compressed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None = 0,
    /// LZ4: fast.
    Lz4 = 1,
    /// Zstandard: small.
    Zstd = 2,
}

/// How to record. Start with livebag_record_options_default(), and change the fields you need.
#[repr(C)]
pub struct RecordOptions {
    /// Memory for messages that wait for the disk; 0: livebag's default.
    pub cache_bytes: u64,
    /// A livebag_when_full.
    pub when_full: u32,
    /// A livebag_compression.
    pub compression: u32,
    /// Whether messages get checksums.
    pub checksum: bool,
    /// Whether it begins paused.
    pub start_paused: bool,
    /// A new split at this many bytes; 0: no.
    pub split_bytes: u64,
    /// A new split after this time; 0: no.
    pub split_nanos: u64,
    /// Splits that are kept, the oldest are removed; 0: all.
    pub splits_max: u32,
    /// Bytes that are kept, the oldest splits are removed; 0: all.
    pub total_bytes_max: u64,
    /// Name of the one MCAP file for all topics; NULL: a file per topic.
    pub one_file: *const c_char,
}

impl RecordOptions {
    /// # Safety
    /// `one_file` is NULL or ends with a zero.
    unsafe fn options(&self) -> Result<RecorderOptions, Failure> {
        let given = |number: u64| (number > 0).then_some(number);
        let defaults = RecorderOptions::default();
        let overflow = match self.when_full {
            0 => Overflow::DropNewest,
            1 => Overflow::DropOldest,
            2 => Overflow::Block,
            other => return Err(invalid(format!("when_full is {other}, no livebag_when_full"))),
        };
        let compression = match self.compression {
            0 => livebag::Compression::None,
            1 => livebag::Compression::Lz4,
            2 => livebag::Compression::Zstd,
            other => {
                return Err(invalid(format!("compression is {other}, no livebag_compression")));
            }
        };
        Ok(RecorderOptions {
            cache_bytes_max: given(self.cache_bytes).unwrap_or(defaults.cache_bytes_max),
            overflow,
            compression: ChunkCompression { compression, ..ChunkCompression::default() },
            checksum: self.checksum,
            start_paused: self.start_paused,
            split: SplitRules {
                bytes_max: given(self.split_bytes),
                duration_max: given(self.split_nanos).map(Duration::from_nanos),
            },
            retention: Retention {
                splits_max: (self.splits_max > 0).then_some(self.splits_max),
                bytes_max: given(self.total_bytes_max),
                ..Retention::default()
            },
            // SAFETY: as the caller says.
            one_file: unsafe { optional(self.one_file, "one_file") }?.map(str::to_owned),
            ..defaults
        })
    }
}

/// A topic of this process's own.
#[repr(C)]
pub struct TopicDescription {
    /// Topic name, for example "/imu".
    pub name: *const c_char,
    /// For example "sensor_msgs/msg/Imu"; NULL or empty: none.
    pub type_name: *const c_char,
    /// For example "cdr" or "json"; NULL or empty: none.
    pub message_encoding: *const c_char,
    /// For example "ros2msg"; NULL or empty: none.
    pub schema_encoding: *const c_char,
    /// Definition of the type. NULL: of a "cdr" topic livebag's own, if it has one, else none.
    pub schema: *const u8,
    /// Its length.
    pub schema_bytes: usize,
}

/// Records messages of one topic, from any thread. Freed by livebag_writer_free; may outlive its recorder.
pub struct Writer {
    writer: TopicWriter,
}

/// State of a recorder. Freed by livebag_report_free.
pub struct Report {
    topics: Vec<(CString, CString, TopicReport)>,
    failure: Option<CString>,
}

/// Counts of a topic's messages. Texts are valid as long as the report.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TopicReport {
    /// Topic name.
    pub name: *const c_char,
    /// Its type; may be empty.
    pub type_name: *const c_char,
    /// Messages committed: on the disk and in the time index.
    pub messages: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Left out on purpose: while paused, or more often than asked for.
    pub skipped: u64,
    /// Messages lost.
    pub lost: Losses,
    /// Whether the stream's writer has died.
    pub writer_gone: bool,
}

/// The default options.
#[unsafe(no_mangle)]
pub extern "C" fn livebag_record_options_default() -> RecordOptions {
    RecordOptions {
        cache_bytes: 0,
        when_full: WhenFull::DropNewest as u32,
        compression: Compression::None as u32,
        checksum: false,
        start_paused: false,
        split_bytes: 0,
        split_nanos: 0,
        splits_max: 0,
        total_bytes_max: 0,
        one_file: std::ptr::null(),
    }
}

/// Begins a recording in the new folder `path`; `options` may be NULL.
///
/// # Safety
/// `path` ends with a zero; `options` is NULL or valid; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_record(
    path: *const c_char,
    options: *const RecordOptions,
    out: *mut *mut Recorder,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (path, options) = unsafe { (required(path, "the path")?, options.as_ref()) };
        if out.is_null() {
            return Err(invalid("`out` is NULL"));
        }
        let options = match options {
            // SAFETY: as the caller says.
            Some(options) => unsafe { options.options() }?,
            None => RecorderOptions::default(),
        };
        let recorder = livebag::Recorder::create(Path::new(path), options)?;
        let recorder = Recorder { recorder: Mutex::new(Some(recorder)) };
        // SAFETY: as the caller says.
        unsafe { put(out, Box::into_raw(Box::new(recorder))) }?;
        Ok(Status::Ok)
    })
}

/// Records the shared-memory streams with these names, now and when they appear later; all if
/// `name_count` is 0.
///
/// # Safety
/// `recorder` is valid; `stream_names` has `name_count` texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_follow(
    recorder: *const Recorder,
    stream_names: *const *const c_char,
    name_count: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (recorder, names) = unsafe { (handle(recorder)?, names(stream_names, name_count)?) };
        let selector = if names.is_empty() { Selector::all() } else { Selector::names(names) };
        Ok(recorder.with(|recorder| Ok(recorder.follow(selector)?)))
    })
}

/// Adds a topic of this process's own.
///
/// # Safety
/// `recorder` and `topic` are valid, with the texts that `topic` names; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_topic(
    recorder: *const Recorder,
    topic: *const TopicDescription,
    out: *mut *mut Writer,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (recorder, topic) = unsafe { (handle(recorder)?, described(topic)?) };
        Ok(recorder.with(|recorder| {
            let writer = Writer { writer: recorder.topic(topic)? };
            // SAFETY: as the caller says.
            unsafe { put(out, Box::into_raw(Box::new(writer))) }
        }))
    })
}

/// # Safety
/// As of [`livebag_recorder_topic`].
unsafe fn described(topic: *const TopicDescription) -> Result<livebag::Topic, Failure> {
    // SAFETY: as the caller says.
    let given = unsafe { topic.as_ref() }.ok_or_else(|| invalid("the topic is NULL"))?;
    let text = |text, what| {
        // SAFETY: as the caller says.
        unsafe { optional(text, what) }.map(|text| text.unwrap_or_default().to_owned())
    };
    let mut topic = livebag::Topic {
        // SAFETY: as the caller says.
        name: unsafe { required(given.name, "the topic's name") }?.to_owned(),
        type_name: text(given.type_name, "the type")?,
        message_encoding: text(given.message_encoding, "the message encoding")?,
        schema_encoding: text(given.schema_encoding, "the schema encoding")?,
        // SAFETY: as the caller says.
        schema: unsafe { bytes(given.schema, given.schema_bytes, "the schema") }?.to_vec(),
        ..livebag::Topic::default()
    };
    if topic.message_encoding == "cdr"
        && topic.schema.is_empty()
        && let Some(text) = definitions::schema(&topic.type_name)
    {
        topic.schema_encoding = "ros2msg".into();
        topic.schema = text.into_bytes();
        let hash = definitions::type_hash(&topic.type_name);
        topic.metadata.extend(hash.map(|hash| ("topic_type_hash".into(), hash.into())));
    }
    Ok(topic)
}

/// Records a message with the present time as its log time; its publish time is the same if
/// `publish_time_nanos` is NULL. Copies `data`; other threads may write at the same time.
///
/// # Safety
/// `writer` is valid; `publish_time_nanos` is NULL or valid; `data` has `data_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_write(
    writer: *const Writer,
    publish_time_nanos: *const u64,
    sequence: u64,
    data: *const u8,
    data_bytes: usize,
) -> Status {
    // SAFETY: as the caller says.
    unsafe {
        livebag_write_at(writer, std::ptr::null(), publish_time_nanos, sequence, data, data_bytes)
    }
}

/// The same with a given log time, unless `log_time_nanos` is NULL. Log times never decrease within a topic: an earlier
/// one is raised.
///
/// # Safety
/// As of livebag_write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_write_at(
    writer: *const Writer,
    log_time_nanos: *const u64,
    publish_time_nanos: *const u64,
    sequence: u64,
    data: *const u8,
    data_bytes: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (writer, data, log_time_nanos, publish_time_nanos) = unsafe {
            let data = bytes(data, data_bytes, "the message")?;
            (handle(writer)?, data, log_time_nanos.as_ref(), publish_time_nanos.as_ref())
        };
        writer.writer.write_message(NewMessage {
            log_time_nanos: log_time_nanos.copied(),
            publish_time_nanos: publish_time_nanos.copied(),
            sequence,
            data,
        })?;
        Ok(Status::Ok)
    })
}

/// Frees a writer; NULL is nothing. Messages already written are recorded.
///
/// # Safety
/// `writer` is NULL or valid, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_writer_free(writer: *mut Writer) {
    // SAFETY: as the caller says.
    give((), || unsafe { free(writer) });
}

/// Leaves messages out until livebag_recorder_resume; they are counted as skipped.
///
/// # Safety
/// `recorder` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_pause(recorder: *const Recorder) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let recorder = unsafe { handle(recorder) }?;
        Ok(recorder.with(|recorder| {
            recorder.pause();
            Ok(())
        }))
    })
}

/// Continues after livebag_recorder_pause.
///
/// # Safety
/// `recorder` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_resume(recorder: *const Recorder) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let recorder = unsafe { handle(recorder) }?;
        Ok(recorder.with(|recorder| {
            recorder.resume();
            Ok(())
        }))
    })
}

/// Begins a new split.
///
/// # Safety
/// `recorder` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_split(recorder: *const Recorder) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let recorder = unsafe { handle(recorder) }?;
        Ok(recorder.with(|recorder| Ok(recorder.split()?)))
    })
}

/// Names the log times from `from_nanos` to `to_nanos`, nanoseconds since 1970 and both included, with a few
/// words of `text`, which may be NULL; both 0: the present moment. The event is on the disk afterwards.
///
/// # Safety
/// `recorder` is valid; `name` and `text` are NULL or texts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_event(
    recorder: *const Recorder,
    name: *const c_char,
    text: *const c_char,
    from_nanos: u64,
    to_nanos: u64,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let (recorder, name) = unsafe { (handle(recorder)?, required(name, "name")?) };
        // SAFETY: as the caller says.
        let text = unsafe { optional(text, "text") }?.unwrap_or_default();
        let span = ((from_nanos, to_nanos) != (0, 0)).then_some((from_nanos, to_nanos));
        Ok(recorder.with(|recorder| Ok(recorder.event(name, text, span).map(drop)?)))
    })
}

/// How the recording stands.
///
/// # Safety
/// `recorder` is valid; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_report(
    recorder: *const Recorder,
    out: *mut *mut Report,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let recorder = unsafe { handle(recorder) }?;
        Ok(recorder.with(|recorder| {
            let report = Box::new(report(&recorder.status()));
            // SAFETY: as the caller says.
            unsafe { put(out, Box::into_raw(report)) }
        }))
    })
}

/// Records messages published until now, and closes the recording. `out` gets the last report, also if FAILED comes
/// back because the recording had ended early; it may be NULL. Free the recorder afterwards.
///
/// # Safety
/// `recorder` is valid; `out` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_finish(
    recorder: *const Recorder,
    out: *mut *mut Report,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let recorder = unsafe { handle(recorder) }?;
        let taken = recorder.recorder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (status, ended) = taken.ok_or_else(finished)?.finish_with_status();
        if !out.is_null() {
            let report = Box::into_raw(Box::new(report(&status)));
            // SAFETY: as the caller says.
            unsafe { put(out, report) }?;
        }
        ended?;
        Ok(Status::Ok)
    })
}

/// Frees a recorder; NULL is nothing. One that has not been finished is finished first.
///
/// # Safety
/// `recorder` is NULL or valid, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_recorder_free(recorder: *mut Recorder) {
    // SAFETY: as the caller says.
    give((), || unsafe { free(recorder) });
}

fn report(status: &livebag::Status) -> Report {
    let mut topics: Vec<_> = status.topics.iter().map(topic_report).collect();
    for (name, type_name, topic) in &mut topics {
        // A CString's text does not move when it does.
        (topic.name, topic.type_name) = (name.as_ptr(), type_name.as_ptr());
    }
    Report {
        topics,
        failure: status.failure.as_ref().map(|failure| c_string(&failure.to_string())),
    }
}

fn topic_report(topic: &livebag::TopicStatus) -> (CString, CString, TopicReport) {
    let report = TopicReport {
        name: std::ptr::null(),
        type_name: std::ptr::null(),
        messages: topic.messages,
        bytes: topic.bytes,
        skipped: topic.skipped,
        lost: (&topic.lost).into(),
        writer_gone: topic.writer_gone,
    };
    (c_string(&topic.name), c_string(&topic.type_name), report)
}

/// Topics of a report.
///
/// # Safety
/// `report` is valid; NULL gives 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_report_topic_count(report: *const Report) -> usize {
    // SAFETY: as the caller says.
    give(0, || unsafe { handle(report) }.map_or(0, |report| report.topics.len()))
}

/// A topic of a report by its number, from 0 on.
///
/// # Safety
/// `report` is valid; `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_report_topic_at(
    report: *const Report,
    number: usize,
    out: *mut TopicReport,
) -> Status {
    call(|| {
        // SAFETY: as the caller says.
        let report = unsafe { handle(report) }?;
        let count = report.topics.len();
        let (_, _, topic) = report
            .topics
            .get(number)
            .ok_or_else(|| invalid(format!("there are {count} topics, no number {number}")))?;
        // SAFETY: as the caller says.
        unsafe { put(out, *topic) }?;
        Ok(Status::Ok)
    })
}

/// The first failure, which ended the recording, or NULL. Valid as long as the report.
///
/// # Safety
/// `report` is valid; NULL gives NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_report_failure(report: *const Report) -> *const c_char {
    give(std::ptr::null(), || {
        // SAFETY: as the caller says.
        let failure = unsafe { handle(report) }.ok().and_then(|report| report.failure.as_ref());
        failure.map_or(std::ptr::null(), |text| text.as_ptr())
    })
}

/// Frees a report; NULL is nothing.
///
/// # Safety
/// `report` is NULL or valid, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn livebag_report_free(report: *mut Report) {
    // SAFETY: as the caller says.
    give((), || unsafe { free(report) });
}
