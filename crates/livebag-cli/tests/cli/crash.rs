//! The recorder is killed at some moment, fifty times or `LIVEBAG_KILLS` times: committed messages are there.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use livebag::{Container, ContainerState, Query};
use livebag_format::cdr;
use livebag_shm::{FrameMeta, PointsLayout, StreamOptions, Writer};
use rustix::process::Signal;

use crate::common::{Recording, livebag, run, stream, text, wait_until};

const RUNS_DEFAULT: u64 = 50;
const NOISE_SEED: u64 = 50;
/// Every payload is a piece of this much noise.
const NOISE_BYTES: usize = 4 << 20;
const TOPICS: usize = 4;
/// The recorder's storages, in turn.
const STORAGES: [&[&str]; 3] = [&[], &["--compression", "zstd"], &["--storage", "mcap"]];
const WIDTH: u32 = 641;
const HEIGHT: u32 = 479;
const POINT_BYTES: u32 = 16;
const POINTS_MAX: u32 = 6000;

#[path = "../../../../tests/random.rs"]
mod random;
use random::Random;

/// The payload of a topic's message: length and bytes follow from its sequence.
fn payload(topic: usize, sequence: u64) -> &'static [u8] {
    static NOISE: OnceLock<Vec<u8>> = OnceLock::new();
    let noise = NOISE.get_or_init(|| {
        let mut random = Random(NOISE_SEED);
        (0..NOISE_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect()
    });
    let mut random = Random(sequence << 3 | topic as u64);
    let bytes = match topic {
        0 => random.below(200) as usize,
        1 => 1000 + random.below(59_000) as usize,
        2 => (WIDTH * HEIGHT) as usize,
        _ => (POINT_BYTES * (1 + random.below(u64::from(POINTS_MAX)) as u32)) as usize,
    };
    let start = random.below((NOISE_BYTES - bytes) as u64) as usize;
    &noise[start..start + bytes]
}

/// The payload in a recorded message of a topic.
fn payload_in(topic: usize, message: &[u8]) -> &[u8] {
    match topic {
        2 => {
            let image = cdr::parse_image(message).expect("an Image");
            assert_eq!((image.header.width, image.header.height), (WIDTH, HEIGHT));
            image.data
        }
        3 => cdr::parse_points(message).expect("a PointCloud2").data,
        _ => message,
    }
}

/// Sensors that never run so far ahead of the recorder that frames could be lapped: a missing message is the recorder's
/// fault.
struct Sensors {
    writers: Vec<(String, Writer, u64)>,
}

impl Sensors {
    fn create() -> Self {
        let options = [
            (StreamOptions::message("std_msgs/msg/ByteMultiArray", 256), 1024),
            (StreamOptions::message("std_msgs/msg/ByteMultiArray", 60_000), 256),
            (StreamOptions::image(WIDTH, HEIGHT, 1), 32),
            (StreamOptions::points(POINTS_MAX, POINT_BYTES), 64),
        ];
        let made = options.map(|(options, slots)| {
            let (name, writer) = stream(options.slots(slots));
            (name, writer, u64::from(slots))
        });
        Self { writers: made.into() }
    }

    fn names(&self) -> Vec<&str> {
        self.writers.iter().map(|(name, ..)| name.as_str()).collect()
    }

    fn next_sequences(&self) -> Vec<u64> {
        self.writers.iter().map(|(_, writer, _)| writer.next_sequence()).collect()
    }

    fn publish(&mut self, topic: usize) {
        let writer = &mut self.writers[topic].1;
        let data = payload(topic, writer.next_sequence());
        let meta = match topic {
            2 => FrameMeta::image(WIDTH, HEIGHT, WIDTH, "mono8").frame_id("camera"),
            3 => FrameMeta::points(PointsLayout::xyz(data.len() as u32 / POINT_BYTES, POINT_BYTES)),
            _ => FrameMeta::bytes(),
        };
        writer.publish(&meta, data).expect("it fits");
    }

    /// Publishes a few messages of every topic that the recorder keeps up with.
    fn burst(&mut self, firsts: &[u64], committed: &[u64], random: &mut Random) {
        for topic in 0..TOPICS {
            for _ in 0..=random.below(8) {
                let (_, writer, slots) = &self.writers[topic];
                if writer.next_sequence() < firsts[topic] + committed[topic] + slots / 2 {
                    self.publish(topic);
                }
            }
        }
    }
}

/// When the recorder is killed.
#[derive(Debug)]
enum Moment {
    /// As soon as there is a container.
    Begun,
    /// This many messages are committed.
    Committed(u64),
    /// This many messages of this topic are committed.
    CommittedOf(usize, u64),
    /// This many messages are published, committed or not.
    Published(u64),
    /// While it closes the container: the reserved space is freed, and this many of its files have been closed.
    Closing(u64),
}

impl Moment {
    fn choose(random: &mut Random) -> Self {
        match random.below(10) {
            0 => Self::Begun,
            1..=3 => Self::Committed(1 + random.below(400)),
            4..=5 => Self::CommittedOf(2, 1 + random.below(40)),
            6 => Self::CommittedOf(random.below(TOPICS as u64) as usize, 1 + random.below(40)),
            7..=8 => Self::Published(1 + random.below(600)),
            _ => Self::Closing(1 + random.below(300)),
        }
    }

    fn has_come(&self, committed: &[u64], published: u64) -> bool {
        match self {
            Self::Begun => true,
            Self::Committed(count) => committed.iter().sum::<u64>() >= *count,
            Self::CommittedOf(topic, count) => committed[*topic] >= *count,
            Self::Published(count) => published >= *count,
            Self::Closing(count) => committed.iter().sum::<u64>() >= *count,
        }
    }
}

/// Messages of every sensor that readers of the container see.
fn committed(bag: &Container, names: &[&str]) -> Vec<u64> {
    let of = |name: &&str| {
        let mut topics = bag.topics().iter();
        let topic = topics.find(|topic| topic.topic().name[1..] == **name);
        topic.map_or(0, |topic| topic.message_count().expect("an index"))
    };
    names.iter().map(of).collect()
}

/// Records until the moment comes, and kills. Gives the sequences from which on the recorder took
/// messages (none if it is not known), and how many were committed.
fn record_and_kill(
    sensors: &mut Sensors,
    bag: &Path,
    moment: &Moment,
    options: &[&str],
    random: &mut Random,
) -> (Option<Vec<u64>>, Vec<u64>) {
    let names: Vec<_> = sensors.names().into_iter().map(str::to_owned).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let arguments = [&names[..], &["-o", text(bag)], options].concat();
    if let Moment::Begun = moment {
        let mut command = livebag(&["record"]);
        command.args(&arguments);
        let recording = Recording::begin_command(command, 0);
        wait_until("a container", || bag.join("container.yaml").exists());
        kill(recording);
        return (None, vec![0; TOPICS]);
    }
    let recording = Recording::begin(&arguments, TOPICS);
    let firsts = sensors.next_sequences();
    let mut seen = vec![0; TOPICS];
    wait_until("the moment", || {
        // Anew, because bricks are made with their first message.
        let live = Container::open(bag).expect("a live container");
        assert_eq!(live.state(), ContainerState::Live);
        seen = committed(&live, &names);
        let next = sensors.next_sequences();
        let published = next.iter().zip(&firsts).map(|(next, first)| next - first).sum();
        if moment.has_come(&seen, published) {
            return true;
        }
        sensors.burst(&firsts, &seen, random);
        false
    });
    if let Moment::Closing(_) = moment {
        recording.signal(Signal::INT);
        wait_until("the closing", || !bag.join("container.reserve").exists());
    }
    kill(recording);
    (Some(firsts), seen)
}

fn kill(recording: Recording) {
    recording.signal(Signal::KILL);
    recording.end();
}

/// Everything in the container is as published, and nothing is missing before the last message seen as committed.
fn check_messages(
    bag: &Container,
    names: &[&str],
    firsts: Option<&[u64]>,
    seen: &[u64],
) -> Vec<u64> {
    let mut next: Vec<Option<u64>> = vec![None; TOPICS];
    let mut counts = vec![0; TOPICS];
    let mut cursor = bag.query(&Query::default()).expect("a query");
    while let Some((at, message)) = cursor.next().expect("a whole message") {
        let name = &bag.topics()[at].topic().name[1..];
        let topic = names.iter().position(|known| *known == name).expect("a known topic");
        let first = firsts.map_or(message.sequence, |firsts| firsts[topic]);
        let expected = next[topic].unwrap_or(first);
        // Messages in flight may be missing, and later ones exist: at the end, and at the end of a split, where the
        // next one may have been further.
        let may_lack = counts[topic] >= seen[topic] || !bag.splits().is_empty();
        let fits = message.sequence == expected || (may_lack && message.sequence > expected);
        let lost = bag.topics()[at].lost();
        assert!(
            fits,
            "{name}, topic {topic} from {first} on: {} and not {expected}: no holes; lost {lost:?}",
            message.sequence
        );
        let found = payload_in(topic, message.data);
        assert!(found == payload(topic, message.sequence), "{name} {expected}: the bytes");
        next[topic] = Some(message.sequence + 1);
        counts[topic] += 1;
    }
    counts
}

/// The `mcap` crate reads the brick whole, by its index and front to back; gives the number of
/// messages of a topic, which may share the file with others.
fn check_brick(path: &Path, names: &[&str], topic: usize) -> u64 {
    let file = std::fs::read(path).expect("a brick");
    let mut of_topic = 0;
    let mut check = |message: &mcap::Message<'_>| {
        let name = &message.channel.topic[1..];
        let at = names.iter().position(|known| *known == name).expect("a known topic");
        let found = payload_in(at, &message.data);
        assert!(found == payload(at, u64::from(message.sequence)), "{}", path.display());
        of_topic += u64::from(at == topic);
    };
    let summary = mcap::Summary::read(&file).expect("an MCAP").expect("a summary");
    let mut indexed = 0;
    for chunk in &summary.chunk_indexes {
        summary.read_message_indexes(&file, chunk).expect("a message index");
        for message in summary.stream_chunk(&file, chunk).expect("a chunk") {
            check(&message.expect("a message"));
            indexed += 1;
        }
    }
    let mut streamed = 0;
    for message in mcap::MessageStream::new(&file).expect("an MCAP") {
        check(&message.expect("a message"));
        streamed += 1;
    }
    assert_eq!(streamed, indexed, "{}: no reader sees more than the index", path.display());
    assert_eq!(summary.stats.expect("statistics").message_count, indexed);
    assert_eq!(of_topic % 2, 0, "{}: both ways show the same", path.display());
    of_topic / 2
}

fn check(
    path: &Path,
    names: &[&str],
    firsts: Option<&[u64]>,
    seen: &[u64],
    closing: bool,
) -> Vec<u64> {
    let bag = Container::open(path).expect("it opens by itself");
    let recovered = bag.state() == ContainerState::Recovered;
    assert!(recovered || (closing && bag.state() == ContainerState::Closed), "{}", bag.state());
    let counts = check_messages(&bag, names, firsts, seen);
    for topic in 0..TOPICS {
        assert!(counts[topic] >= seen[topic], "{counts:?} of {seen:?} committed");
    }
    for topic in bag.topics() {
        let name = &topic.topic().name[1..];
        let at = names.iter().position(|known| *known == name).expect("a known topic");
        let bricks = topic.bricks().iter();
        let in_bricks: u64 = bricks.map(|brick| check_brick(&path.join(brick), names, at)).sum();
        assert_eq!(in_bricks, counts[at], "{name}");
    }
    let again = Container::open(path).expect("it opens again");
    assert_eq!(again.state(), bag.state());
    assert_eq!(committed(&again, names), counts);
    run(&["verify", text(path)]).expect(0, &[]);
    counts
}

#[test]
fn a_killed_recorder_costs_only_what_was_in_flight() {
    // On a disk, not in memory: direct writes should be interrupted.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut sensors = Sensors::create();
    let asked = std::env::var("LIVEBAG_KILLS").ok().and_then(|runs| runs.parse().ok());
    let (mut committed, mut kept, mut with_splits) = (0, 0, 0);
    let runs = asked.unwrap_or(RUNS_DEFAULT);
    for seed in 0..runs {
        let mut random = Random(seed);
        let moment = Moment::choose(&mut random);
        let storage = STORAGES[seed as usize % STORAGES.len()];
        let splits: &[&str] = if (seed / 3) % 3 == 2 { &["--max-bag-size", "2MB"] } else { &[] };
        let options = &[storage, splits].concat();
        // Seen when the test fails.
        println!("run {seed}: killed at {moment:?} {}", options.join(" "));
        let bag: PathBuf = folder.path().join(format!("run{seed}"));
        let (firsts, seen) = record_and_kill(&mut sensors, &bag, &moment, options, &mut random);
        let closing = matches!(moment, Moment::Closing(_));
        let counts = check(&bag, &sensors.names(), firsts.as_deref(), &seen, closing);
        committed += seen.iter().sum::<u64>();
        kept += counts.iter().sum::<u64>();
        with_splits += u64::from(bag.join("split_0001").exists());
        std::fs::remove_dir_all(&bag).unwrap();
    }
    println!(
        "{runs} kills, {with_splits} of them in recordings with splits: {committed} messages were \
         seen as committed before, {kept} are there; all intact and in order, every container whole"
    );
}
