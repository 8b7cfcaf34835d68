//! Streams that appear, and which of them are recorded.

use std::collections::{HashMap, HashSet};

use livebag_format::Topic;
use livebag_shm::{Owners, Reader};

use super::files_left::FilesLeft;
use crate::clock::Clock;
use crate::limits::{DISCOVERY_INTERVAL, STREAM_FILES};
use crate::source::{First, Selector, StreamSource, stream_topic};

/// Consecutive polls at which a region that cannot be opened is retried; after that one of so many.
const UNOPENED_LOOKS: u32 = 10;

/// A stream that has appeared.
pub(super) enum Appeared {
    /// It can be recorded.
    Stream(StreamSource),
    /// The process may not open the files that it takes. It appears again once it may.
    Refused { name: String, topic: Topic },
}

/// A stream that was dead when the recording began.
enum Dead {
    Open(StreamSource),
    /// There are too few files to keep it open: it is opened now and then. Its newest frame then.
    Closed(u64),
}

/// A stream that waits for files.
struct Waiting {
    region: u64,
    /// The last frame that is not missed.
    newest: u64,
    /// The newest frame at the last look, about a second ago: all that is known once the stream is gone.
    seen: u64,
}

/// Finds streams by listing the regions of shared memory.
pub(super) struct Discovery {
    selectors: Vec<Selector>,
    known: HashSet<String>,
    /// Regions that no selector takes: opening them again at every look would map other people's
    /// streams ten times a second.
    refused: HashSet<(String, u64)>,
    /// Polls at which a region could not be opened: it is being created, foreign, or left incomplete by a killed
    /// process.
    unopened: HashMap<(String, u64), u32>,
    /// Streams that were dead when the recording began and that were not named: leftovers of a program are not recorded
    /// as empty topics. They are recorded once their writers are back.
    dead: HashMap<(String, u64), Dead>,
    /// Streams for which there are too few files, by name.
    waiting: HashMap<String, Waiting>,
    /// Streams that are there when recording starts are followed from now on, those that appear
    /// later from their first frame.
    first_look: bool,
    looks: u32,
    next_look_nanos: u64,
}

impl Discovery {
    pub fn new() -> Self {
        Self {
            selectors: Vec::new(),
            known: HashSet::new(),
            refused: HashSet::new(),
            unopened: HashMap::new(),
            dead: HashMap::new(),
            waiting: HashMap::new(),
            first_look: true,
            looks: 0,
            next_look_nanos: 0,
        }
    }

    /// Takes what `selector` takes too, from the next look on, which comes at once.
    pub fn follow(&mut self, selector: Selector) {
        self.selectors.push(selector);
        self.refused.clear();
        self.next_look_nanos = 0;
    }

    fn owners(&self) -> Owners {
        let asks_for_all = self.selectors.iter().any(|selector| selector.owners() == Owners::All);
        if asks_for_all { Owners::All } else { Owners::Trusted }
    }

    /// Whether it is time for a look.
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next_look_nanos && !self.selectors.is_empty()
    }

    /// Streams that have appeared since the last look. `files` are those that the process may still open.
    pub fn look(&mut self, now: u64, clock: &Clock, files: &mut FilesLeft<'_>) -> Vec<Appeared> {
        self.next_look_nanos = now + DISCOVERY_INTERVAL.as_nanos() as u64;
        // A failing look is tried again at the next one.
        let Ok(regions) = livebag_shm::list_regions() else { return Vec::new() };
        self.refused.retain(|refused| regions.contains(refused));
        self.unopened.retain(|unopened, _| regions.contains(unopened));
        self.looks = self.looks.wrapping_add(1);
        let mut appeared = self.risen(&regions, clock, files);
        for (name, region) in regions {
            let refused = (name.clone(), region);
            if self.known.contains(&name)
                || self.refused.contains(&refused)
                || self.dead.contains_key(&refused)
            {
                continue;
            }
            let owners = self.owners();
            let waiting = self.waiting.get_mut(&name).filter(|waiting| waiting.region == region);
            if let Some(waiting) = waiting
                && !files.has_room()
            {
                // Mapped for a moment.
                if self.looks.is_multiple_of(UNOPENED_LOOKS)
                    && let Ok(reader) = Reader::open_of(&name, owners)
                {
                    waiting.seen = reader.latest_sequence();
                }
                continue;
            }
            let failures = self.unopened.get(&refused).copied().unwrap_or_default();
            // A region is complete a moment after its creation, and retried at every poll until then.
            if failures >= UNOPENED_LOOKS && failures % UNOPENED_LOOKS != 0 {
                self.unopened.insert(refused, failures + 1);
                continue;
            }
            let Ok(reader) = Reader::open_of(&name, self.owners()) else {
                self.unopened.insert(refused, failures + 1);
                continue;
            };
            self.unopened.remove(&refused);
            appeared.extend(self.take(refused, reader, clock, files));
        }
        self.first_look = false;
        appeared
    }

    /// A stream that was not seen before, or that waits for files, if it is to be recorded.
    fn take(
        &mut self,
        (name, region): (String, u64),
        reader: Reader,
        clock: &Clock,
        files: &mut FilesLeft<'_>,
    ) -> Option<Appeared> {
        let topic = stream_topic(reader.info());
        if !self.selectors.iter().any(|selector| selector.takes(&name, &topic)) {
            self.refused.insert((name, region));
            return None;
        }
        let waiting = self.waiting.get(&name).filter(|waiting| waiting.region == region);
        let first = match waiting {
            Some(waiting) => First::After(waiting.newest),
            None if self.first_look => First::Next,
            None => First::Oldest,
        };
        let source = StreamSource::new(reader, self.owners(), first, clock.clone());
        let is_named = self.selectors.iter().any(|selector| selector.names_it(&name, &topic));
        if self.first_look && !is_named && source.is_gone() {
            let dead = match files.take(STREAM_FILES) {
                true => Dead::Open(source),
                false => Dead::Closed(source.taken_sequence()),
            };
            self.dead.insert((name, region), dead);
            return None;
        }
        self.admit((name, region), source, files)
    }

    /// A stream that is to be recorded, if there are files for it.
    fn admit(
        &mut self,
        (name, region): (String, u64),
        source: StreamSource,
        files: &mut FilesLeft<'_>,
    ) -> Option<Appeared> {
        let waited = self.waiting.remove(&name).is_some_and(|waiting| waiting.region == region);
        if files.take_stream() {
            self.known.insert(name);
            return Some(Appeared::Stream(source));
        }
        let newest = source.taken_sequence();
        let waiting = Waiting { region, newest, seen: newest };
        self.waiting.insert(name.clone(), waiting);
        let topic = source.topic();
        (!waited).then_some(Appeared::Refused { name, topic })
    }

    /// Dead streams whose writers are back.
    fn risen(
        &mut self,
        regions: &[(String, u64)],
        clock: &Clock,
        files: &mut FilesLeft<'_>,
    ) -> Vec<Appeared> {
        let looks_at_closed = self.looks.is_multiple_of(UNOPENED_LOOKS);
        let mut appeared = Vec::new();
        for (dead, state) in std::mem::take(&mut self.dead) {
            if !regions.contains(&dead) {
                continue;
            }
            let opened = match &state {
                Dead::Closed(newest) if looks_at_closed => {
                    let reader = Reader::open_of(&dead.0, self.owners()).ok();
                    let first = First::After(*newest);
                    reader.map(|it| StreamSource::new(it, self.owners(), first, clock.clone()))
                }
                _ => None,
            };
            let mut source = match (state, opened) {
                (Dead::Open(source), _) if !source.is_gone() => source,
                (Dead::Closed(_), Some(source)) if !source.is_gone() => source,
                (state, _) => {
                    self.dead.insert(dead, state);
                    continue;
                }
            };
            // It has come, and not come back.
            source.take_return();
            appeared.extend(self.admit(dead, source, files));
        }
        appeared
    }

    /// Frames that the streams which still wait for files have published meanwhile, by the streams' names. Of one that is
    /// gone, those until the last look: it may have published more.
    pub fn missed(&self) -> Vec<(String, u64)> {
        let regions = livebag_shm::list_regions().unwrap_or_default();
        let missed = |(name, waiting): (&String, &Waiting)| {
            let is_there = regions.contains(&(name.clone(), waiting.region));
            let reader = is_there.then(|| Reader::open_of(name, self.owners()).ok()).flatten();
            if reader.is_none() {
                log::warn!("{name} is gone: it may have published more than is counted as lost");
            }
            let newest = reader.map_or(waiting.seen, |reader| reader.latest_sequence());
            (name.clone(), newest.saturating_sub(waiting.newest))
        };
        self.waiting.iter().map(missed).collect()
    }
}
