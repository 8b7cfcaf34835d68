//! `livebag push --watch`: pushes what is finished below folders, until it is interrupted. Of a container that is being
//! recorded, these are its closed splits.

use std::collections::{HashMap, HashSet};
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use livebag::{Clock, Disk, KernelDisk};
use livebag_bags::{Glance, GlanceState};
use livebag_push::{
    BucketError, PushError, StoreFailure, Target, fingerprint, finish_removals, last_closed_split,
    was_pushed,
};

use super::hold::Hold;
use super::{Args, Line, delete, print, push_one, push_options};
use crate::below;
use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};

/// The longest pause before something that fails is tried again.
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);

/// What is known of a recording while its mark stays the same.
struct Known {
    mark: Mark,
    fate: Fate,
    /// Log time of its first message.
    start_nanos: Option<u64>,
}

#[derive(PartialEq, Eq)]
enum Mark {
    /// The fingerprint of one that is closed.
    Files(String),
    /// The last closed split of one that is being recorded.
    Split(String),
}

enum Fate {
    /// Found in the last round. It is pushed if it is the same in the next: another program may be copying it here.
    Found,
    Pushed,
    /// Pushed, and could not be removed from this disk.
    Kept(Failing),
    /// Cannot be pushed, which was said.
    Skipped,
    /// To be tried again.
    Failed(Failing),
}

/// Something that fails. The same words are said once.
struct Failing {
    words: String,
    pause: Duration,
    again_nanos: u64,
}

struct Watch<'a> {
    args: &'a Args,
    target: &'a Target,
    interrupt: Interrupt,
    clock: Clock,
    known: HashMap<PathBuf, Known>,
    /// Those of `known` that stay as they are.
    settled: HashSet<PathBuf>,
    hold: Hold,
    /// Nothing is to be sent now.
    is_held: bool,
    /// The store, for all recordings.
    store: Option<Failing>,
    /// Folders that cannot be listed, which was said.
    unlisted: HashSet<PathBuf>,
}

/// Watches.
pub fn run(args: &Args, target: &Target) -> Result<Outcome, CliError> {
    let interrupt = Interrupt::watch()?;
    for folder in &args.bags {
        // A mistyped name is an error now. Later, a drive may go and come back.
        folder.metadata().map_err(|source| below::missing(folder, source))?;
    }
    if let Some(folder) = args.bags.iter().find(|folder| has_below(folder, target)) {
        return Err(CliError::usage(format!(
            "the target {} is in {}, whose recordings are pushed: the copies would be pushed again; \
             choose a target beside it",
            target.address(),
            folder.display()
        )));
    }
    let names: Vec<_> = args.bags.iter().map(|folder| folder.display().to_string()).collect();
    say!("livebag: pushing what is finished in {} to {}", names.join(", "), target.address());
    if args.delete_pushed {
        for folder in &args.bags {
            if let Err(error) = finish_removals(folder) {
                let folder = folder.display();
                say!(
                    "livebag: warning: looking for removals to finish in {folder} failed: {error}"
                );
            }
        }
    }
    let mut watch = Watch {
        args,
        target,
        interrupt,
        clock: Clock::system(),
        known: HashMap::new(),
        settled: HashSet::new(),
        hold: Hold::new(args, Clock::system())?,
        is_held: false,
        store: None,
        unlisted: HashSet::new(),
    };
    while !watch.interrupt.has_come() {
        watch.look()?;
        watch.interrupt.wait(args.every);
    }
    Ok(Outcome::Done)
}

impl Watch<'_> {
    /// Pushes what is finished, and new or due again.
    fn look(&mut self) -> Result<(), CliError> {
        if self.store.as_ref().is_some_and(|store| !store.is_due(&self.clock)) {
            return Ok(());
        }
        self.known.retain(|path, known| match &known.mark {
            Mark::Files(before) => fingerprint(path).is_ok_and(|now| now == *before),
            Mark::Split(_) => path.exists(),
        });
        let is_settled = |known: &Known| {
            matches!(known.mark, Mark::Files(_))
                && matches!(known.fate, Fate::Pushed | Fate::Skipped)
        };
        let settled = self.known.iter().filter(|(_, known)| is_settled(known));
        self.settled = settled.map(|(path, _)| path.clone()).collect();
        // Says so before anything is found.
        self.hold.holds(self.target, &self.settled);
        self.make_room()?;
        for folder in &self.args.bags {
            match below::found_beside(folder, &self.settled) {
                Ok(mut found) => {
                    self.unlisted.remove(folder);
                    found.sort_by_key(|(_, glance)| glance.start_nanos);
                    for (path, glance) in found {
                        if self.consider(&path, &glance)?.is_break() {
                            return Ok(());
                        }
                    }
                }
                Err(error) if self.unlisted.insert(folder.clone()) => {
                    error.report();
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Breaks if the round is over.
    fn consider(&mut self, path: &Path, glance: &Glance) -> Result<ControlFlow<()>, CliError> {
        self.is_held = self.hold.holds(self.target, &self.settled);
        let before = self.known.remove(path);
        let mark = match glance.state {
            GlanceState::Live => last_closed_split(path).map(Mark::Split),
            _ => fingerprint(path).ok().map(Mark::Files),
        };
        // Nothing is closed yet, or it vanishes just now.
        let Some(mark) = mark else { return Ok(ControlFlow::Continue(())) };
        let is_same = |known: &Known| match (&known.mark, &mark, &known.fate) {
            // The next split fails for the same reason.
            (Mark::Split(_), Mark::Split(_), Fate::Failed(_)) => true,
            (before, now, _) => before == now,
        };
        let before = before.filter(is_same).map(|known| known.fate);
        let mut next = ControlFlow::Continue(());
        let fate = match (before, unfit(path, glance)) {
            // Nothing is removed because the journal says so: the store is asked first.
            (None, _) if !self.deletes_at_once() && self.was_pushed(path, &mark) => Fate::Pushed,
            (None, _) => Fate::Found,
            (Some(Fate::Pushed), _) => Fate::Pushed,
            (Some(Fate::Failed(failing)), _) if !failing.is_due(&self.clock) => {
                Fate::Failed(failing)
            }
            (Some(Fate::Kept(failing)), _)
                if !self.deletes_at_once() || !failing.is_due(&self.clock) =>
            {
                Fate::Kept(failing)
            }
            (Some(fate), _) if self.is_held => fate,
            (Some(_), Some(why)) => {
                self.report(path, &why)?;
                Fate::Skipped
            }
            (Some(fate), None) => {
                let fate = self.push(path, fate, self.deletes_at_once())?;
                if self.interrupt.has_come() || self.store.is_some() {
                    next = ControlFlow::Break(());
                }
                fate
            }
        };
        let is_pushed = matches!(fate, Fate::Pushed);
        self.known.insert(path.to_owned(), Known { mark, fate, start_nanos: glance.start_nanos });
        if is_pushed && next.is_continue() {
            self.make_room()?;
        }
        Ok(next)
    }

    fn deletes_at_once(&self) -> bool {
        self.args.delete_pushed && self.args.min_free_space.is_none()
    }

    /// Removes pushed recordings while too little is free, the oldest first. The store is asked for each once more.
    fn make_room(&mut self) -> Result<(), CliError> {
        let Some(least) = self.args.min_free_space else { return Ok(()) };
        let can_go = |known: &Known| match &known.fate {
            Fate::Pushed => matches!(known.mark, Mark::Files(_)),
            Fate::Kept(failing) => failing.is_due(&self.clock),
            _ => false,
        };
        let pushed = self.known.iter().filter(|(_, known)| can_go(known));
        let mut oldest_first: Vec<_> =
            pushed.map(|(path, known)| (known.start_nanos, path.clone())).collect();
        oldest_first.sort();
        for (_, path) in oldest_first {
            let free = KernelDisk::for_reading().free_bytes(&path).unwrap_or(u64::MAX);
            if free >= least || self.interrupt.has_come() || self.store.is_some() {
                continue;
            }
            let Some(mut known) = self.known.remove(&path) else { continue };
            known.fate = self.push(&path, known.fate, true)?;
            self.known.insert(path, known);
        }
        Ok(())
    }

    fn was_pushed(&self, path: &Path, mark: &Mark) -> bool {
        let Mark::Files(fingerprint) = mark else { return false };
        was_pushed(path, self.target, &push_options(self.args), fingerprint)
    }

    /// Pushes, and removes it from this disk then if it `goes`.
    fn push(&mut self, path: &Path, fate: Fate, goes: bool) -> Result<Fate, CliError> {
        let mut go_on = || {
            self.hold.holds(self.target, &self.settled);
            match self.interrupt.has_come() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let (args, target, clock) = (self.args, self.target, Clock::system());
        let mut done = push_one(args, path, target, &clock, &mut go_on)?;
        if let Ok(pushed) = &done {
            self.store = None;
            if goes && pushed.is_complete {
                done = delete(args, path, target, pushed, &clock)?.map(|()| pushed.clone());
            }
        }
        let error = match done {
            Ok(_) => return Ok(Fate::Pushed),
            // By the user, or held.
            Err(PushError::Interrupted { .. }) => return Ok(fate),
            // Retention, or the user, removed something: the next round finds what is left.
            Err(PushError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(fate);
            }
            Err(error) => error,
        };
        let (before, words) = match (&error, fate) {
            // Of no use to the other recordings either.
            (PushError::Bucket(BucketError::Store { failure, .. }), _)
                if *failure != StoreFailure::Other =>
            {
                (self.store.take(), failure.to_string())
            }
            (error, Fate::Failed(failing) | Fate::Kept(failing)) => {
                (Some(failing), error.to_string())
            }
            (error, _) => (None, error.to_string()),
        };
        if before.as_ref().is_none_or(|before| before.words != words) {
            self.report(path, &format!("{error}; it is tried again, after growing pauses"))?;
        }
        let is_of_store = words != error.to_string();
        let failing = Failing::after(before, words, self.args.every, &self.clock);
        if is_of_store {
            self.store = Some(failing);
            return Ok(Fate::Found);
        }
        self.store = None;
        Ok(match error {
            PushError::Kept { .. } | PushError::Removal { .. } => Fate::Kept(failing),
            _ => Fate::Failed(failing),
        })
    }

    fn report(&self, path: &Path, error: &str) -> Result<(), CliError> {
        complain!("livebag: {error}");
        match self.args.json {
            true => print(&Line::failed(path, self.target, error, &self.clock)),
            false => Ok(()),
        }
    }
}

/// Whether the target is a folder, and that folder or below it.
fn has_below(folder: &Path, target: &Target) -> bool {
    let place = Path::new(target.address()).canonicalize();
    let is_in =
        |place: PathBuf| folder.canonicalize().is_ok_and(|folder| place.starts_with(folder));
    !target.address().contains("://") && place.is_ok_and(is_in)
}

/// Why a finished recording cannot be pushed.
fn unfit(path: &Path, glance: &Glance) -> Option<String> {
    let path = path.display();
    let problem = glance.problem.as_deref().unwrap_or_default();
    match glance.state {
        GlanceState::Live | GlanceState::Closed | GlanceState::Recovered => None,
        GlanceState::Crashed => Some(format!(
            "{path} is skipped: it is not closed. If its recorder died, run `livebag recover {path}`"
        )),
        GlanceState::Damaged => Some(format!("{path} is skipped: {problem}")),
    }
}

impl Failing {
    fn after(before: Option<Self>, words: String, every: Duration, clock: &Clock) -> Self {
        let pause = before.map_or(every, |before| before.pause * 2).min(PAUSE_MAX.max(every));
        Self { words, pause, again_nanos: clock.monotonic_nanos() + pause.as_nanos() as u64 }
    }

    fn is_due(&self, clock: &Clock) -> bool {
        clock.monotonic_nanos() >= self.again_nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_five_minutes() {
        let clock = Clock::simulated(0);
        let every = Duration::from_secs(5);
        let mut failing = None;
        let pauses: Vec<_> = (0..9)
            .map(|_| {
                let next = Failing::after(failing.take(), String::new(), every, &clock);
                clock.advance(next.pause - Duration::from_nanos(1));
                assert!(!next.is_due(&clock));
                clock.advance(Duration::from_nanos(1));
                assert!(next.is_due(&clock));
                let pause = next.pause.as_secs();
                failing = Some(next);
                pause
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    }
}
