//! Fuzz targets: one function for each parser of foreign bytes. The targets in `fuzz/` call them with bytes that grow
//! by coverage, the tests here with those of a seeded random.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use livebag::{
    Buffer, Clock, Container, IndexEntry, McapAnswer, Message, Query, Recorder, RecorderOptions,
    Span, TimelineCache, TimelineQuery, Topic, Verdict, VirtualFile,
};
use livebag_format::cdr::{ImageHeader, image_prefix};
use livebag_format::container::{CONTAINER_FILE, LOCK_FILE, Manifest};
use livebag_format::decode::{DecodeOptions, Decoder};
use livebag_format::definitions;
use livebag_format::ros1::ToCdr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::ask::{Parameters, escape, unescape};
use crate::catalog::Catalog;
use crate::field::{self, FieldReader};
use crate::http::internals::{App, Wanted, router, serve, wanted};
use crate::limits::{
    BINS_MAX, FIELDS_MAX, LIVE_REQUEST_ID_BYTES_MAX, LIVE_SPEED_MAX, LIVE_SUBSCRIPTIONS_MAX,
    NAME_BYTES_MAX, ServerLimits, TOPICS_MAX, WITHIN_MAX,
};
use crate::link::Link;
use crate::live::{self, Asked};
use crate::{moment, picture, points};

/// Names, values, escapes, times and durations.
pub fn ask(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(plain) = unescape(&text) {
        assert_eq!(unescape(&escape(&plain)).as_deref(), Ok(&*plain));
    }
    if let Ok(moment) = moment::moment(&text) {
        assert!(moment.nanos(u64::MAX) >= moment.nanos(0));
    }
    let _ = moment::duration(&text);
    let parse = || Parameters::parse(&text);
    let Ok(mut ask) = parse() else { return };
    if let Ok(topics) = ask.topics() {
        assert!(topics.len() <= TOPICS_MAX);
        assert!(topics.iter().all(|topic| (1..=NAME_BYTES_MAX).contains(&topic.len())));
    }
    if let Ok(within) = ask.within() {
        assert!(within > Duration::ZERO && within <= WITHIN_MAX);
    }
    if let Ok(rates) = ask.decimate() {
        assert!(rates.iter().all(|(_, rate)| rate.is_finite() && *rate > 0.0));
    }
    let _ = (ask.form(), ask.moment("from"), ask.moment("to"), ask.duration("last"));
    let _ = parse().and_then(|mut ask| ask.message_form());
    let _ = (ask.step(), ask.topic());
    if let Ok(fields) = ask.fields() {
        assert!((1..=FIELDS_MAX).contains(&fields.len()));
    }
    if let Ok(Some(bins)) = ask.number("bins", 2..=BINS_MAX) {
        assert!((2..=BINS_MAX).contains(&bins));
    }
    if let Err(error) = ask.end() {
        assert!(error.0.len() < 1000, "what was sent is not sent back at length");
    }
}

/// Messages of a live socket's client, as text and as bytes.
pub fn socket(bytes: &[u8]) {
    let told = [live::parse_text(&String::from_utf8_lossy(bytes)), live::parse_binary(bytes)];
    for asked in told {
        match asked {
            Ok(Asked::Subscribe(wanted)) => assert!(wanted.len() <= LIVE_SUBSCRIPTIONS_MAX),
            Ok(Asked::Unsubscribe(ids)) => assert!(ids.len() <= LIVE_SUBSCRIPTIONS_MAX),
            Ok(Asked::Playback(request)) => {
                assert!(request.speed > 0.0 && request.speed <= LIVE_SPEED_MAX);
                assert!(request.request_id.len() <= LIVE_REQUEST_ID_BYTES_MAX);
            }
            Err(error) => {
                assert!(error.to_string().len() < 1000, "what was sent is not sent back at length")
            }
        }
    }
}

/// The header `Range`: eight bytes of a file's length, then its text.
pub fn range(bytes: &[u8]) {
    let Some((length, text)) = bytes.split_first_chunk() else { return };
    let length = u64::from_le_bytes(*length).max(1);
    match wanted(Some(&String::from_utf8_lossy(text)), length) {
        Wanted::Part(first, last) => assert!(first <= last && last < length),
        Wanted::All | Wanted::Nothing => {}
    }
}

/// An image that is none.
pub fn image(bytes: &[u8]) {
    let Some((kind, message)) = bytes.split_first() else { return };
    let topic = Topic {
        name: "/camera".into(),
        type_name: "sensor_msgs/msg/Image".into(),
        message_encoding: if kind % 2 == 0 { "cdr" } else { "ros1" }.into(),
        ..Default::default()
    };
    let mut png = Buffer::default();
    if picture::png(&topic, message, &mut png).is_ok() {
        let reader = png::Decoder::new(std::io::Cursor::new(&png[..])).read_info().unwrap();
        assert!(reader.info().width > 0 && reader.info().height > 0);
    }
    let _ = picture::jpeg(&topic, message, &mut Buffer::default());
    let width_max = 1 + usize::from(kind / 2);
    let mut small = Buffer::default();
    if picture::png_within(&topic, message, Some(width_max), &mut small).is_ok() {
        let reader = png::Decoder::new(std::io::Cursor::new(&small[..])).read_info().unwrap();
        assert!(reader.info().width as usize <= width_max);
    }
    let _ = picture::jpeg_within(&topic, message, Some(width_max), &mut Buffer::default());
}

/// A point cloud that is none: a byte for its encoding, one for how many points are wanted.
pub fn cloud(bytes: &[u8]) {
    let Some((&[kind, max], message)) = bytes.split_first_chunk() else { return };
    let topic = Topic {
        name: "/lidar".into(),
        type_name: "sensor_msgs/msg/PointCloud2".into(),
        message_encoding: if kind % 2 == 0 { "cdr" } else { "ros1" }.into(),
        ..Default::default()
    };
    let mut out = Buffer::default();
    if points::points(&topic, message, max.into(), &mut out).is_ok() {
        assert!(out.len() <= points::bytes_of(max.into()) && out.starts_with(b"LBP1"));
    }
}

/// The path of a field, a definition and a message, all hostile: a byte for the encoding, one for the path's length, two for
/// the definition's.
pub fn fields(bytes: &[u8]) {
    let Some((&[kind, path, low, high], rest)) = bytes.split_first_chunk() else { return };
    let (path, rest) = rest.split_at(usize::from(path).min(rest.len()));
    let (schema, message) =
        rest.split_at(usize::from(u16::from_le_bytes([low, high])).min(rest.len()));
    let (message_encoding, schema_encoding) =
        [("cdr", "ros2msg"), ("ros1", "ros1msg"), ("json", "")][usize::from(kind % 3)];
    let topic = Topic {
        name: "/topic".into(),
        type_name: "a_msgs/msg/A".into(),
        message_encoding: message_encoding.into(),
        schema_encoding: schema_encoding.into(),
        schema: schema.to_vec(),
        ..Default::default()
    };
    let mut wanted = vec![String::from_utf8_lossy(path).into_owned()];
    if let Ok(rows) = field::fields(&topic, Some(message)) {
        let listed = rows.iter().filter(|row| row.numeric);
        wanted.extend(listed.map(|row| row.field.replace("[]", "[0]")).take(FIELDS_MAX - 1));
    }
    for field in &wanted {
        let Ok(mut reader) = FieldReader::new(&topic, std::slice::from_ref(field)) else {
            continue;
        };
        for _ in 0..2 {
            let _ = reader.push(message, &mut |at, _| assert_eq!(at, 0));
        }
        reader.drain(&mut |row, at, _| assert!(row < 2 && at == 0));
    }
}

/// A schema and a message, both hostile, decoded and made CDR of: a byte for their encoding, two for the schema's length.
pub fn decode(bytes: &[u8]) {
    let Some((&[kind, low, high], rest)) = bytes.split_first_chunk() else { return };
    let (schema, message) =
        rest.split_at(usize::from(u16::from_le_bytes([low, high])).min(rest.len()));
    let (message_encoding, schema_encoding) =
        [("cdr", "ros2msg"), ("ros1", "ros1msg"), ("json", ""), ("cdr", "")][usize::from(kind % 4)];
    let topic = Topic {
        name: "/topic".into(),
        type_name: if kind < 128 { "a_msgs/msg/A" } else { "sensor_msgs/msg/PointCloud2" }.into(),
        message_encoding: message_encoding.into(),
        schema_encoding: schema_encoding.into(),
        schema: schema.to_vec(),
        ..Default::default()
    };
    let _ = definitions::rihs01(&topic.type_name, &String::from_utf8_lossy(schema));
    if let Ok(to_cdr) = ToCdr::new(&topic) {
        let mut out = Vec::new();
        let done = to_cdr.convert(message, &mut out);
        assert!(if done.is_ok() { out.len() <= 8 * message.len() + 9000 } else { out.is_empty() });
    }
    let Ok(decoder) = Decoder::new(&topic) else { return };
    for array_items_max in [0, 3, usize::MAX] {
        if let Ok(value) = decoder.decode(message, &DecodeOptions { array_items_max }) {
            serde_json::to_vec(&value).unwrap();
        }
    }
}

/// `container.yaml`.
pub fn manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::parse(&String::from_utf8_lossy(bytes)) else { return };
    let files = manifest.topics.iter().flat_map(|topic| topic.bricks.iter().chain([&topic.index]));
    let mut names = files.chain(&manifest.splits).filter(|name| !name.is_empty());
    assert!(names.all(|name| Path::new(name).components().count() == 1 && name != ".."));
    manifest.topics.iter().for_each(|topic| drop(topic.topic()));
    let text = manifest.to_yaml().unwrap();
    assert_eq!(Manifest::parse(&text).unwrap(), manifest);
}

/// A container as it should be, and a place for a copy that is not.
struct Sample {
    _folder: tempfile::TempDir,
    path: PathBuf,
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Sample {
    /// Writes the files again, damaged by six bytes for each change.
    #[expect(clippy::disallowed_methods, reason = "spoils files, as no recorder would")]
    fn put_spoilt(&self, changes: &[u8]) {
        // Recovery may have made others.
        for entry in self.path.read_dir().unwrap() {
            // Over the old file ext4 would wait for the disk.
            let _ = std::fs::remove_file(entry.unwrap().path());
        }
        for (path, whole) in &self.files {
            let mut spoilt = whole.clone();
            for change in changes.as_chunks().0 {
                if self.files[usize::from(change[0]) % self.files.len()].0 == *path {
                    spoil(path, &mut spoilt, change);
                }
            }
            std::fs::write(path, spoilt).unwrap();
        }
    }
}

fn topic(name: &str, type_name: &str) -> Topic {
    Topic {
        name: name.into(),
        type_name: type_name.into(),
        message_encoding: "cdr".into(),
        schema_encoding: "ros2msg".into(),
        schema: livebag_format::definitions::schema(type_name).unwrap_or_default().into_bytes(),
        ..Default::default()
    }
}

/// A recording: as it is when it has been closed, or as a crash leaves it.
fn sample(options: RecorderOptions, is_closed: bool) -> Sample {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run1");
    let recorder = Recorder::create(&path, options).unwrap();
    let camera = recorder.topic(topic("/camera", "sensor_msgs/msg/Image")).unwrap();
    let text = recorder.topic(topic("/text", "std_msgs/msg/String")).unwrap();
    let header =
        ImageHeader { height: 8, width: 9, encoding: "bgr8", step: 27, ..Default::default() };
    let mut image = Vec::new();
    image_prefix(&header, 216, &mut image);
    image.resize(image.len() + 216, 7);
    for number in 0..24 {
        let log_time_nanos = 1_000_000_000 + number * 40_000_000;
        let mut message =
            Message { log_time_nanos, publish_time_nanos: 1, sequence: number, data: &image };
        camera.write_message(&message).unwrap();
        message.data = b"\0\x01\0\0\x03\0\0\0hi\0";
        text.write_message(&message).unwrap();
    }
    if is_closed {
        recorder.finish().unwrap();
        let files = files_of(&path);
        return Sample { _folder: folder, path, files };
    }
    let is_committed = || {
        let container = Container::peek(&path).ok()?;
        let counts = container.topics().iter().map(|topic| topic.message_count());
        Some(counts.sum::<Result<u64, _>>().ok()? == 48)
    };
    while is_committed() != Some(true) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let files = files_of(&path);
    recorder.finish().unwrap();
    Sample { _folder: folder, path, files }
}

#[expect(clippy::disallowed_methods, reason = "a sample, not a recording")]
fn files_of(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = path.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    let mut files: Vec<_> =
        files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect();
    files.sort();
    files
}

fn compressed() -> RecorderOptions {
    let mut options = RecorderOptions::default();
    options.compression.compression = livebag::Compression::Zstd;
    options
}

/// A container damaged by a medium or an attacker: a byte selects it, six bytes describe each change.
pub fn container(bytes: &[u8]) {
    static SAMPLES: OnceLock<Mutex<[Sample; 2]>> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| {
        Mutex::new([sample(RecorderOptions::default(), true), sample(compressed(), true)])
    });
    let samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((which, changes)) = bytes.split_first() else { return };
    let sample = &samples[usize::from(which % 2)];
    sample.put_spoilt(changes);
    read_everything(&sample.path);
}

/// The same of one that may have to be recovered, after a crash or (without its lock) a power cut; and of one
/// that was closed. It is checked before and after.
#[expect(clippy::disallowed_methods, reason = "spoils files, as no recorder would")]
pub fn recover(bytes: &[u8]) {
    static SAMPLES: OnceLock<Mutex<[Sample; 3]>> = OnceLock::new();
    let samples = SAMPLES.get_or_init(|| {
        let crashed = sample(RecorderOptions::default(), false);
        Mutex::new([crashed, sample(compressed(), false), sample(RecorderOptions::default(), true)])
    });
    let samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((which, changes)) = bytes.split_first() else { return };
    let sample = &samples[usize::from(which % 3)];
    sample.put_spoilt(changes);
    if which / 3 % 2 == 1 {
        let _ = std::fs::remove_file(sample.path.join(LOCK_FILE));
    }
    let _ = livebag_bags::verify(&sample.path, &mut |_| {});
    let counts = |container: &Container| -> Vec<_> {
        container
            .topics()
            .iter()
            .map(|topic| (topic.topic().name.clone(), topic.message_count().ok()))
            .collect()
    };
    let Ok(container) = Container::open(&sample.path) else { return };
    let found = counts(&container);
    drop(container);
    read_everything(&sample.path);
    let again = Container::open(&sample.path).expect("what has been recovered can be opened");
    assert_eq!(counts(&again), found, "recovery is done once");
    let _ = livebag_bags::verify(&sample.path, &mut |_| {});
}

fn spoil(path: &Path, file: &mut Vec<u8>, change: &[u8; 6]) {
    let at = usize::from(u16::from_le_bytes([change[2], change[3]]));
    match change[1] % 4 {
        0 if !file.is_empty() => {
            let at = at % file.len();
            file[at] = change[4];
        }
        1 => file.truncate(at % (file.len() + 1)),
        // Not an accident: an entry with other values and a correct checksum.
        _ if path.extension().is_some_and(|end| end == "idx") => {
            let (entries, _) = file.as_chunks_mut::<48>();
            let count = entries.len();
            let Some(entry) = entries.get_mut(at % count.max(1)) else { return };
            if let Some(known) = IndexEntry::decode(entry) {
                *entry = twisted(known, change[4], change[5]).encode();
            }
        }
        _ => file.extend_from_slice(&change[2..]),
    }
}

fn twisted(mut entry: IndexEntry, what: u8, to: u8) -> IndexEntry {
    let large = [0, 1, u64::MAX, u64::MAX - 48, 1 << 63, 1 << 32, 4096, 300][usize::from(to % 8)];
    match what % 8 {
        0 => entry.log_time_nanos = large,
        1 => entry.offset = large,
        2 => entry.data_bytes = large as u32,
        3 => entry.inner = large as u32,
        4 => entry.brick = large as u16,
        5 => entry.compressed = !entry.compressed,
        6 => entry.offset = entry.offset.wrapping_add(u64::from(to)),
        _ => entry.data_bytes = entry.data_bytes.wrapping_add(u32::from(to)),
    }
    entry
}

/// Errors are fine; panics, hanging and answers without bound are not.
fn read_everything(path: &Path) {
    let Ok(container) = Container::peek(path) else { return };
    let rows = crate::tell::TopicRows::new(&container, true);
    let info = crate::tell::RecordingInfo::with_rows("run1", &container, rows);
    let _ = info.map(|info| serde_json::to_vec(&info));
    let mut cache = TimelineCache::default();
    for (from_nanos, to_nanos, bins_max) in [
        (None, None, 600),
        (Some(1_100_000_000), Some(1_100_000_900), 4000),
        (Some(0), Some(u64::MAX), 2),
    ] {
        let query = TimelineQuery { topics: Vec::new(), from_nanos, to_nanos, bins_max };
        if let Ok(timeline) = container.timeline(&query, &mut cache) {
            assert!(timeline.bins.count() <= bins_max);
        }
    }
    let mut out = Buffer::default();
    for span in [
        Span::All,
        Span::Latest(Duration::from_millis(100)),
        Span::History(1_100_000_000, 1_500_000_000),
    ] {
        let query = Query { topics: Vec::new(), span };
        if let Ok(mut cursor) = container.query(&query) {
            out.clear();
            let mut answer = McapAnswer::new(&container, &mut out);
            while answer.chunk(&mut cursor, &mut out).unwrap_or(false) {}
            answer.finish(&mut out);
        }
        if let Ok(mut newest) = container.newest_first(&query) {
            out.clear();
            let mut answer = McapAnswer::new(&container, &mut out);
            let take = &mut |_, _: &IndexEntry| Verdict::Take;
            while answer.chunk_newest_first(&mut newest, &mut out, 4096, take).unwrap_or(false) {}
        }
        if let Ok(file) = VirtualFile::new(&container, &query) {
            // No client reads a file that claims a petabyte; its parts can still be read.
            let ends = [0, file.len() / 2, file.len().saturating_sub(4096)];
            for offset in ends {
                out.clear();
                if file.read(offset, 1 << 16, &mut out).is_ok() {
                    assert!(out.len() <= 1 << 16);
                }
            }
        }
    }
}

/// A request through the router: for any input, the output is HTTP with one of the defined statuses.
pub fn request(bytes: &[u8]) {
    static SITE: OnceLock<(Runtime, Arc<App>, Arc<Link>, Sample)> = OnceLock::new();
    let (runtime, app, link, _) = SITE.get_or_init(|| {
        let sample = sample(RecorderOptions::default(), true);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let catalog =
            Catalog::new(std::slice::from_ref(&sample.path), Clock::system(), None).unwrap();
        let limits = LIMITS;
        let app = App::new(Arc::new(catalog), Default::default(), Clock::system(), limits);
        // Its kernel is asked how the connection is doing; nothing goes over it.
        let link = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let peer = stream.peer_addr().unwrap().ip();
            (Link::new(&stream, peer).unwrap(), stream, listener)
        });
        let link = Arc::new(link.0);
        (runtime, Arc::new(app), link, sample)
    });
    let answered = runtime.block_on(async {
        let (mut asker, server) = tokio::io::duplex(1 << 20);
        let service = router(app.clone());
        let served = tokio::spawn(serve(server, service, link.clone(), &LIMITS));
        let _ = asker.write_all(bytes).await;
        let _ = asker.write_all(b"\r\n\r\n").await;
        let mut answered = Vec::new();
        let reading =
            tokio::time::timeout(Duration::from_secs(30), asker.read_to_end(&mut answered));
        reading.await.expect("the server ends the connection").unwrap();
        let served = served.await.expect("no panic");
        drop(served);
        answered
    });
    if !answered.is_empty() {
        let text = String::from_utf8_lossy(&answered[..answered.len().min(12)]).into_owned();
        let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let known = [
            "100", "200", "204", "206", "304", "400", "404", "405", "410", "414", "416", "421",
            "422", "431",
        ];
        assert!(status.is_some_and(|status| known.contains(&status)), "{text}");
    }
}

const LIMITS: ServerLimits =
    ServerLimits { head_timeout: Duration::from_millis(1), ..ServerLimits::DEFAULT };

/// A file of a container that a fuzzer may begin with.
#[expect(clippy::disallowed_methods, reason = "a corpus, not a recording")]
pub fn manifest_seed() -> Vec<u8> {
    let sample = sample(RecorderOptions::default(), true);
    std::fs::read(sample.path.join(CONTAINER_FILE)).unwrap()
}

#[cfg(test)]
mod tests;
