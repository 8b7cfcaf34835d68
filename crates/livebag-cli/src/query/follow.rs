//! New messages of a recording, as its recorder commits them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Buffer, Container, ContainerState, Cursor, Query, Span, Topic};

use super::answer::{Answer, Entry};
use super::{Args, Wanted, lines};
use crate::control;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::{select, text};

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Looks between two notices to the recorder that it is read: it commits sooner then.
const LOOKS_PER_NOTICE: u32 = 20;
/// Bytes of messages that are gathered at one look.
const BATCH_BYTES_MAX: usize = 32 << 20;

/// Gives messages until the recording ends or the command is interrupted.
pub fn run(args: &Args, last: Option<Duration>, wanted: &Wanted) -> Result<Outcome, CliError> {
    check(wanted)?;
    let path = PathBuf::from(&args.bag);
    let bag = Container::open(&path)?;
    if bag.state() != ContainerState::Live && last.is_none() {
        say!("livebag: {} is not being recorded ({}): nothing will come", args.bag, bag.state());
        return Ok(Outcome::Done);
    }
    let mut answer = Follow::begin(&path, bag, last, wanted)?;
    // A line at a time: nothing waits in a buffer while nothing comes.
    let mut out = std::io::stdout().lock();
    match (wanted.json, wanted.decode) {
        (true, true) => lines::write_decoded(&mut answer, wanted.array_items, &mut out)?,
        (true, false) => lines::write(&mut answer, &mut out)?,
        _ => print(&mut answer, &mut out)?,
    }
    Ok(super::outcome(answer.damaged(), &args.bag))
}

/// Refuses what has no sense where messages never end.
pub fn check(wanted: &Wanted) -> Result<(), CliError> {
    if wanted.output.is_some() || wanted.count {
        return Err(CliError::usage(
            "follow prints messages as they come: -o and --count are for the other questions",
        ));
    }
    Ok(())
}

/// A line for each message.
pub fn print(answer: &mut dyn Answer, out: &mut impl Write) -> Result<(), CliError> {
    while let Some(entry) = answer.next()? {
        let name = livebag_format::visible(&answer.topic(entry.topic).name).into_owned();
        let (time, bytes) = (text::time(entry.log_time_nanos), text::bytes(entry.bytes as f64));
        writeln!(out, "{time}  {bytes:>8}  {name}")?;
    }
    Ok(())
}

/// What has been given of one of the topics that share a name.
#[derive(Clone, Copy, Default)]
struct Given {
    /// Log time of the newest one.
    time_nanos: u64,
    /// How many of that time.
    count: u64,
}

struct Follow {
    path: PathBuf,
    /// As it was when it was looked at last.
    bag: Option<Container>,
    topics: Vec<Topic>,
    profile: String,
    /// Names asked for; empty for all.
    names: Vec<String>,
    needs_data: bool,
    /// Log time from which on messages are given.
    from_nanos: u64,
    given: HashMap<usize, Given>,
    ready: VecDeque<(Entry, Option<Vec<u8>>)>,
    current: Option<Vec<u8>>,
    damaged: u64,
    looks: u32,
    has_ended: bool,
    interrupt: Interrupt,
}

impl Follow {
    fn begin(
        path: &Path,
        bag: Container,
        last: Option<Duration>,
        wanted: &Wanted,
    ) -> Result<Self, CliError> {
        let known = || bag.topics().iter().map(|topic| topic.topic().name.as_str());
        let mut names = Vec::new();
        for name in &wanted.topics {
            match select::full_name(name, known) {
                Ok(name) => names.push(name),
                // It may come while the recording goes on.
                Err(error) if bag.state() == ContainerState::Live => {
                    say!("livebag: waiting for {name}: {error}");
                    names.push(name.clone());
                }
                Err(error) => return Err(error),
            }
        }
        let newest = bag.time_range()?.map(|(_, end)| end);
        let from_nanos = match (newest, last) {
            (None, _) => 0,
            (Some(newest), None) => newest + 1,
            (Some(newest), Some(last)) => {
                newest.saturating_sub(u64::try_from(last.as_nanos()).unwrap_or(u64::MAX))
            }
        };
        Ok(Self {
            path: path.to_owned(),
            topics: Vec::new(),
            profile: bag.profile().to_owned(),
            bag: Some(bag),
            names,
            needs_data: wanted.decode,
            from_nanos,
            given: HashMap::new(),
            ready: VecDeque::new(),
            current: None,
            damaged: 0,
            looks: 0,
            has_ended: false,
            interrupt: Interrupt::watch()?,
        })
    }

    /// Gathers what is new.
    fn look(&mut self) -> Result<(), CliError> {
        if self.looks.is_multiple_of(LOOKS_PER_NOTICE) {
            control::notify_read(&self.path);
        }
        self.looks = self.looks.wrapping_add(1);
        let bag = match self.bag.take() {
            Some(bag) => bag,
            None => Container::open(&self.path)?,
        };
        let topics = bag.topics().iter().map(|topic| topic.topic().clone());
        self.topics = topics.collect();
        let is_whole = self.gather(&bag)?;
        self.has_ended = is_whole && bag.state() != ContainerState::Live;
        Ok(())
    }

    /// Whether that was all there is.
    fn gather(&mut self, bag: &Container) -> Result<bool, CliError> {
        let mut cursors: Vec<Unseen<'_>> = Vec::new();
        let names: BTreeSet<&str> = self.topics.iter().map(|topic| topic.name.as_str()).collect();
        let is_wanted = |name: &&str| {
            self.names.is_empty() || self.names.iter().any(|wanted| same_topic(wanted, name))
        };
        for name in names.into_iter().filter(is_wanted) {
            let numbers = (0..self.topics.len()).filter(|&at| self.topics[at].name == name);
            let of = |at| self.given.get(&at).map_or(self.from_nanos, |given| given.time_nanos);
            let from = numbers.map(of).min().unwrap_or(self.from_nanos);
            let span = Span::History(from, u64::MAX);
            let cursor = bag.query(&Query { topics: vec![name.to_owned()], span })?;
            if cursor.remaining() > 0 {
                cursors.push(Unseen { cursor, passed: HashMap::new() });
            }
        }
        let mut heads = BinaryHeap::new();
        // As it was before this look: a cursor passes over what earlier looks have given.
        let before = self.given.clone();
        for (at, cursor) in cursors.iter_mut().enumerate() {
            if let Some(entry) = cursor.next(&before)? {
                heads.push(Reverse((entry.log_time_nanos, at, entry.topic, Head(entry))));
            }
        }
        let mut bytes = 0;
        let mut buffer = Buffer::default();
        while let Some(Reverse((_, at, _, Head(entry)))) = heads.pop() {
            if bytes > BATCH_BYTES_MAX {
                return Ok(false);
            }
            let given = self.given.entry(entry.topic).or_default();
            let is_same = given.time_nanos == entry.log_time_nanos && given.count > 0;
            let count = if is_same { given.count + 1 } else { 1 };
            *given = Given { time_nanos: entry.log_time_nanos, count };
            let cursor = &mut cursors[at];
            buffer.clear();
            match self.needs_data {
                false => self.ready.push_back((entry, None)),
                true if cursor.cursor.append_to(&mut buffer)? => {
                    bytes += buffer.len();
                    self.ready.push_back((entry, Some(buffer.to_vec())));
                }
                true => self.damaged += 1,
            }
            // What is only listed has a bound, too.
            bytes += size_of::<Entry>();
            if let Some(next) = cursor.next(&before)? {
                heads.push(Reverse((next.log_time_nanos, at, next.topic, Head(next))));
            }
        }
        Ok(true)
    }
}

/// `imu` and `/imu` are the same.
fn same_topic(wanted: &str, name: &str) -> bool {
    wanted.trim_start_matches('/') == name.trim_start_matches('/')
}

/// An entry in the heap, which orders by what stands before it.
struct Head(Entry);

impl PartialEq for Head {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

/// The messages of one name that have not been given yet.
struct Unseen<'bag> {
    cursor: Cursor<'bag>,
    /// Messages by topic that were passed over, of the time of the newest one given.
    passed: HashMap<usize, u64>,
}

impl Unseen<'_> {
    fn next(&mut self, given: &HashMap<usize, Given>) -> Result<Option<Entry>, CliError> {
        while let Some((topic, entry)) = self.cursor.next_entry()? {
            let entry = Entry {
                topic,
                log_time_nanos: entry.log_time_nanos,
                publish_time_nanos: entry.publish_time_nanos,
                sequence: entry.sequence,
                bytes: entry.data_bytes.into(),
            };
            let Some(before) = given.get(&topic) else { return Ok(Some(entry)) };
            let passed = self.passed.entry(topic).or_default();
            if entry.log_time_nanos > before.time_nanos {
                return Ok(Some(entry));
            }
            if entry.log_time_nanos == before.time_nanos {
                if *passed == before.count {
                    return Ok(Some(entry));
                }
                *passed += 1;
            }
        }
        Ok(None)
    }
}

impl Answer for Follow {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        let mut is_first = true;
        loop {
            if let Some((entry, data)) = self.ready.pop_front() {
                self.current = data;
                return Ok(Some(entry));
            }
            let pause = if std::mem::take(&mut is_first) { Duration::ZERO } else { LOOK };
            if self.has_ended || self.interrupt.wait(pause) {
                return Ok(None);
            }
            self.look()?;
        }
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(self.current.as_deref())
    }

    fn topic(&self, at: usize) -> &Topic {
        &self.topics[at]
    }

    fn profile(&self) -> &str {
        &self.profile
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}
