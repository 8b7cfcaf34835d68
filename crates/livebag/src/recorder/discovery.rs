//! Streams that appear, and which of them are recorded.

use std::collections::{HashMap, HashSet};

use livebag_shm::{Owners, Reader};

use crate::clock::Clock;
use crate::limits::DISCOVERY_INTERVAL;
use crate::source::{Selector, StreamSource};

/// Consecutive polls at which a region that cannot be opened is retried; after that one of so many.
const UNOPENED_LOOKS: u32 = 10;

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
    dead: HashMap<(String, u64), StreamSource>,
    /// Streams that are there when recording starts are followed from now on, those that appear
    /// later from their first frame.
    first_look: bool,
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
            first_look: true,
            next_look_nanos: 0,
        }
    }

    /// Takes what `selector` takes too, from the next look on, which comes at once.
    pub fn follow(&mut self, selector: Selector) {
        self.selectors.push(selector);
        self.refused.clear();
        self.next_look_nanos = 0;
    }

    /// Streams that have appeared since the last look; `None` if it is not time for one.
    pub fn look(&mut self, now: u64, clock: &Clock) -> Option<Vec<StreamSource>> {
        if now < self.next_look_nanos {
            return None;
        }
        self.next_look_nanos = now + DISCOVERY_INTERVAL.as_nanos() as u64;
        if self.selectors.is_empty() {
            return None;
        }
        let mut appeared = Vec::new();
        let asks_for_all = self.selectors.iter().any(|selector| selector.owners() == Owners::All);
        let owners = if asks_for_all { Owners::All } else { Owners::Trusted };
        // A failing look is tried again at the next one.
        let regions = livebag_shm::list_regions().unwrap_or_default();
        self.refused.retain(|refused| regions.contains(refused));
        self.unopened.retain(|unopened, _| regions.contains(unopened));
        let mut risen = Vec::new();
        self.dead.retain(|dead, source| {
            if regions.contains(dead) && !source.is_gone() {
                risen.push(dead.clone());
            }
            regions.contains(dead)
        });
        for dead in risen {
            appeared.extend(self.dead.remove(&dead).map(|mut source| {
                // It has come, and not come back.
                source.take_return();
                source
            }));
            self.known.insert(dead.0);
        }
        for (name, region) in regions {
            let refused = (name.clone(), region);
            if self.known.contains(&name)
                || self.refused.contains(&refused)
                || self.dead.contains_key(&refused)
            {
                continue;
            }
            let failures = self.unopened.get(&refused).copied().unwrap_or_default();
            // A region is complete a moment after its creation, and retried at every poll until then.
            if failures >= UNOPENED_LOOKS && failures % UNOPENED_LOOKS != 0 {
                self.unopened.insert(refused, failures + 1);
                continue;
            }
            let Ok(reader) = Reader::open_of(&name, owners) else {
                self.unopened.insert(refused, failures + 1);
                continue;
            };
            self.unopened.remove(&refused);
            let source = StreamSource::new(reader, owners, self.first_look, clock.clone());
            let topic = source.topic();
            if !self.selectors.iter().any(|selector| selector.takes(&name, &topic)) {
                self.refused.insert(refused);
                continue;
            }
            let is_named = self.selectors.iter().any(|selector| selector.names_it(&name, &topic));
            if self.first_look && !is_named && source.is_gone() {
                self.dead.insert(refused, source);
                continue;
            }
            self.known.insert(name);
            appeared.push(source);
        }
        self.first_look = false;
        Some(appeared)
    }
}
