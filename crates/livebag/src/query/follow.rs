//! New messages of a recording, as its recorder commits them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use super::{Buffer, Container, ContainerError, ContainerState, Cursor, IndexEntry, Query, Span};
use crate::limits::FOLLOW_BATCH_BYTES_MAX;

/// Follows a recording: each poll opens it again and finds the messages committed since the last one.
///
/// ```no_run
/// use livebag::{Container, Follow};
///
/// let mut follow = Follow::begin(Container::open("run1".as_ref())?, vec!["/imu".into()], None)?;
/// while !follow.has_ended() {
///     while let Some(message) = follow.next() {
///         println!("{} {:?}", message.log_time_nanos, message.data);
///     }
///     std::thread::sleep(Follow::INTERVAL);
///     follow.look()?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Follow {
    /// As it was at the last look.
    container: Container,
    /// Names asked for; empty for all.
    names: Vec<String>,
    needs_data: bool,
    /// Log time from which on messages are given of topics that are not in `given`.
    from_nanos: u64,
    given: HashMap<usize, Given>,
    ready: VecDeque<Followed>,
    damaged: u64,
    has_ended: bool,
}

/// A new message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Its topic's place in the topics of [`Follow::container`].
    pub topic: usize,
    /// When the recorder took it; nanoseconds since the Unix epoch.
    pub log_time_nanos: u64,
    /// When its source stamped it; nanoseconds since the Unix epoch.
    pub publish_time_nanos: u64,
    /// The source's count; 0 if it keeps none.
    pub sequence: u64,
    /// Bytes of the encoded message.
    pub data_bytes: u32,
    /// The encoded message; empty if none was asked for.
    pub data: Vec<u8>,
}

/// Messages already returned, for one of the topics that share a name.
#[derive(Clone, Copy, Default)]
struct Given {
    /// Log time of the newest one.
    time_nanos: u64,
    /// How many of that time.
    count: u64,
}

impl Follow {
    /// A good time between two looks.
    pub const INTERVAL: Duration = Duration::from_millis(50);

    /// Follows `topics` (all if there are none) from now on, or from `last` before the newest message on.
    /// `imu` means `/imu`. A topic of a running recording may be named before it is there.
    ///
    /// # Errors
    /// If the recording cannot be read, or is finished and has no such topic.
    pub fn begin(
        container: Container,
        topics: Vec<String>,
        last: Option<Duration>,
    ) -> Result<Self, ContainerError> {
        let is_known = |wanted: &&String| {
            container.topics().iter().any(|topic| same_topic(wanted, &topic.topic().name))
        };
        if container.state() != ContainerState::Live
            && let Some(unknown) = topics.iter().find(|name| !is_known(name))
        {
            drop(container.query(&Query { topics: vec![unknown.clone()], span: Span::All })?);
        }
        let mut given = HashMap::new();
        let mut from_nanos = 0;
        match last {
            Some(last) => {
                let newest = container.time_range()?.map_or(0, |(_, end)| end);
                let last = u64::try_from(last.as_nanos()).unwrap_or(u64::MAX);
                from_nanos = newest.saturating_sub(last);
            }
            // By topic: one may commit messages later that are older than another's newest.
            None => {
                for (number, topic) in container.topics().iter().enumerate() {
                    let Some((_, end)) = topic.time_range()? else { continue };
                    let (topics, span) =
                        (vec![topic.topic().name.clone()], Span::History(end, end));
                    let mut cursor = container.query(&Query { topics, span })?;
                    let mut count = 0;
                    while let Some((of, _)) = cursor.next_entry()? {
                        count += u64::from(of == number);
                    }
                    given.insert(number, Given { time_nanos: end, count });
                }
            }
        }
        let mut follow = Self {
            container,
            names: topics,
            needs_data: true,
            from_nanos,
            given,
            ready: VecDeque::new(),
            damaged: 0,
            has_ended: false,
        };
        follow.gather()?;
        Ok(follow)
    }

    /// Returns only index entries: messages are not read.
    #[must_use]
    pub fn without_data(mut self) -> Self {
        self.needs_data = false;
        self.ready.iter_mut().for_each(|message| message.data = Vec::new());
        self
    }

    /// The recording as it was at the last look.
    pub fn container(&self) -> &Container {
        &self.container
    }

    /// The next message of those that the last look has found.
    #[expect(clippy::should_implement_trait, reason = "after `None` more may come")]
    pub fn next(&mut self) -> Option<Followed> {
        self.ready.pop_front()
    }

    /// Whether the recording is finished and all its messages have been found.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Damaged messages left out so far.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Polls for new messages, unless some of the last poll are left.
    ///
    /// # Errors
    /// If the recording cannot be read.
    pub fn look(&mut self) -> Result<(), ContainerError> {
        if !self.ready.is_empty() || self.has_ended {
            return Ok(());
        }
        self.container = Container::open(self.container.path())?;
        self.gather()
    }

    fn gather(&mut self) -> Result<(), ContainerError> {
        let topics = self.container.topics();
        let names: BTreeSet<&str> = topics.iter().map(|topic| &*topic.topic().name).collect();
        let is_wanted = |name: &&str| {
            self.names.is_empty() || self.names.iter().any(|wanted| same_topic(wanted, name))
        };
        let mut cursors: Vec<Unseen<'_>> = Vec::new();
        for name in names.into_iter().filter(is_wanted) {
            let numbers = (0..topics.len()).filter(|&at| topics[at].topic().name == name);
            let of = |at| self.given.get(&at).map_or(self.from_nanos, |given| given.time_nanos);
            let from = numbers.map(of).min().unwrap_or(self.from_nanos);
            let span = Span::History(from, u64::MAX);
            let cursor = self.container.query(&Query { topics: vec![name.to_owned()], span })?;
            if cursor.remaining() > 0 {
                cursors.push(Unseen { cursor, passed: HashMap::new() });
            }
        }
        let mut heads = BinaryHeap::new();
        // The state before this poll: a cursor skips messages that earlier polls returned.
        let before = self.given.clone();
        let mut entries = Vec::new();
        for (at, cursor) in cursors.iter_mut().enumerate() {
            let entry = cursor.next(&before)?;
            heads.extend(entry.map(|(_, entry)| Reverse((entry.log_time_nanos, at))));
            entries.push(entry);
        }
        let (mut bytes, mut buffer) = (0, Buffer::default());
        while let Some(Reverse((_, at))) = heads.pop() {
            if bytes > FOLLOW_BATCH_BYTES_MAX {
                return Ok(());
            }
            let Some((topic, entry)) = entries[at] else { continue };
            let given = self.given.entry(topic).or_default();
            let is_same = given.time_nanos == entry.log_time_nanos && given.count > 0;
            let count = if is_same { given.count + 1 } else { 1 };
            *given = Given { time_nanos: entry.log_time_nanos, count };
            let cursor = &mut cursors[at];
            buffer.clear();
            if !self.needs_data || cursor.cursor.append_to(&mut buffer)? {
                // Listed messages have a limit, too.
                bytes += buffer.len() + size_of::<Followed>();
                self.ready.push_back(Followed {
                    topic,
                    log_time_nanos: entry.log_time_nanos,
                    publish_time_nanos: entry.publish_time_nanos,
                    sequence: entry.sequence,
                    data_bytes: entry.data_bytes,
                    data: buffer.to_vec(),
                });
            } else {
                self.damaged += 1;
            }
            entries[at] = cursor.next(&before)?;
            heads.extend(entries[at].map(|(_, entry)| Reverse((entry.log_time_nanos, at))));
        }
        self.has_ended = self.container.state() != ContainerState::Live;
        Ok(())
    }
}

/// `imu` and `/imu` are the same.
fn same_topic(wanted: &str, name: &str) -> bool {
    wanted.trim_start_matches('/') == name.trim_start_matches('/')
}

/// The messages of one name that have not been given yet.
struct Unseen<'container> {
    cursor: Cursor<'container>,
    /// Messages skipped by topic, with the same time as the newest one returned.
    passed: HashMap<usize, u64>,
}

impl Unseen<'_> {
    fn next(
        &mut self,
        given: &HashMap<usize, Given>,
    ) -> Result<Option<(usize, IndexEntry)>, ContainerError> {
        while let Some((topic, entry)) = self.cursor.next_entry()? {
            let Some(before) = given.get(&topic) else { return Ok(Some((topic, entry))) };
            if entry.log_time_nanos < before.time_nanos {
                continue;
            }
            let passed = self.passed.entry(topic).or_default();
            if entry.log_time_nanos > before.time_nanos || *passed == before.count {
                return Ok(Some((topic, entry)));
            }
            *passed += 1;
        }
        Ok(None)
    }
}
