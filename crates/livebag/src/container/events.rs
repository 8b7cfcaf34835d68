//! The events of a container: an append-only file beside `container.yaml`.
//!
//! Only the process that holds the container's lock appends: the recorder while it records, afterwards the program that
//! adds an event.

use std::io;
use std::path::{Path, PathBuf};

use livebag_format::container::LOCK_FILE;
use livebag_format::event::{EVENTS_FILE, Event, Events};

use super::{ContainerError, read_manifest};
use crate::limits::{EVENT_NAME_BYTES_MAX, EVENT_TEXT_BYTES_MAX, EVENTS_BYTES_MAX};
use crate::storage::{Access, Disk, KernelDisk, ReadDisk, ReadFile};

/// Why an event was not added.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// Without a name, or with one that is too long.
    #[error("an event's name has 1 to {EVENT_NAME_BYTES_MAX} bytes, this one has {bytes}")]
    Name {
        /// Its length.
        bytes: usize,
    },
    /// More than a few words.
    #[error("an event's text has at most {EVENT_TEXT_BYTES_MAX} bytes, this one has {bytes}")]
    Text {
        /// Its length.
        bytes: usize,
    },
    /// The end is before the beginning.
    #[error("the event ends at {to_nanos} ns, before it begins at {from_nanos} ns")]
    Backwards {
        /// The beginning.
        from_nanos: u64,
        /// The end.
        to_nanos: u64,
    },
    /// The file has reached its bound.
    #[error("{} has {EVENTS_BYTES_MAX} bytes of events, the maximum", .0.display())]
    Full(PathBuf),
    /// A recorder or another program holds the lock.
    #[error(
        "{} is being recorded, or recovered, by another process: its recorder can add the event (`livebag \
         ctl BAG event NAME`), or add it afterwards", .0.display()
    )]
    InUse(PathBuf),
    /// A recording that is no container.
    #[error(
        "events are kept in livebag's containers only, and this recording is a bag of another make"
    )]
    NoContainer,
    /// No container.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The disk refused.
    #[error("adding an event to {} failed: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Adds an event to a container that is not being recorded; the event is on the medium when this returns.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("run1");
/// # livebag::Recorder::create(&path, livebag::RecorderOptions::default())?.finish()?;
/// let event = livebag::Event { name: "near miss".into(), from_nanos: 5, to_nanos: 7, ..Default::default() };
/// livebag::add_event(&path, &event)?;
/// assert_eq!(livebag::Container::open(&path)?.events()?, [event]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// See [`EventError`]; [`EventError::InUse`] while a recorder is at work.
pub fn add_event(container: &Path, event: &Event) -> Result<(), EventError> {
    add_event_on(&KernelDisk::for_reading(), container, event)
}

/// The same on any disk.
pub(crate) fn add_event_on(
    disk: &dyn Disk,
    container: &Path,
    event: &Event,
) -> Result<(), EventError> {
    check(event)?;
    read_manifest(disk, container)?;
    let path = container.join(LOCK_FILE);
    let lock = disk.lock(&path).map_err(|source| EventError::Io { path, source })?;
    let _lock = lock.ok_or_else(|| EventError::InUse(container.to_owned()))?;
    append(disk, container, event)
}

/// Whether an event is one that can be kept.
pub(crate) fn check(event: &Event) -> Result<(), EventError> {
    let Event { name, text, from_nanos, to_nanos } = event;
    if name.is_empty() || name.len() > EVENT_NAME_BYTES_MAX {
        return Err(EventError::Name { bytes: name.len() });
    }
    if text.len() > EVENT_TEXT_BYTES_MAX {
        return Err(EventError::Text { bytes: text.len() });
    }
    if from_nanos > to_nanos {
        return Err(EventError::Backwards { from_nanos: *from_nanos, to_nanos: *to_nanos });
    }
    Ok(())
}

/// The same as a plain answer.
pub fn is_event(event: &Event) -> bool {
    check(event).is_ok()
}

/// Appends an event. The caller holds the container's lock, so that no other process appends.
pub(crate) fn append(disk: &dyn Disk, container: &Path, event: &Event) -> Result<(), EventError> {
    let path = container.join(EVENTS_FILE);
    let failed = |source| EventError::Io { path: path.clone(), source };
    let (file, is_new) = match disk.open_for_repair(&path) {
        Ok(file) => (file, false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (disk.create(&path, Access::Buffered).map_err(failed)?, true)
        }
        Err(error) => return Err(failed(error)),
    };
    let length = file.length().map_err(failed)?;
    let mut line = event.to_line();
    let mut last = [b'\n'];
    if length > 0 && file.read_at(&mut last, length - 1).map_err(failed)? == 1 && last[0] != b'\n' {
        // A crash has truncated the last line: it stays a damaged line.
        line.insert(0, '\n');
    }
    if length + line.len() as u64 > EVENTS_BYTES_MAX {
        return Err(EventError::Full(container.to_owned()));
    }
    file.write_at(line.as_bytes(), length).map_err(failed)?;
    file.sync().map_err(failed)?;
    if is_new {
        disk.sync_dir(container).map_err(failed)?;
    }
    Ok(())
}

/// The events of a container, and how many lines of the file are damaged.
pub(crate) fn read(disk: &dyn ReadDisk, container: &Path) -> Result<Events, ContainerError> {
    match disk.open(&container.join(EVENTS_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Events::default()),
        opened => {
            opened.and_then(|file| parse(&*file)).map_err(|source| in_file(container, source))
        }
    }
}

/// The same of an open file.
pub(crate) fn read_file(file: &dyn ReadFile, container: &Path) -> Result<Events, ContainerError> {
    parse(file).map_err(|source| in_file(container, source))
}

fn in_file(container: &Path, source: io::Error) -> ContainerError {
    ContainerError::Io { path: container.join(EVENTS_FILE), source }
}

fn parse(file: &dyn ReadFile) -> io::Result<Events> {
    let mut bytes = vec![0; file.length()?.min(EVENTS_BYTES_MAX) as usize];
    let count = file.read_at(&mut bytes, 0)?;
    bytes.truncate(count);
    Ok(Events::parse(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::SimulatedDisk;
    use crate::{Container, Recorder, RecorderOptions};
    use std::sync::Arc;

    fn event(name: &str) -> Event {
        Event { name: name.into(), text: String::new(), from_nanos: 5, to_nanos: 5 }
    }

    fn names(disk: &SimulatedDisk) -> Vec<String> {
        let events = read(disk, Path::new("/run")).unwrap().events;
        events.into_iter().map(|event| event.name).collect()
    }

    fn recorded() -> (Arc<SimulatedDisk>, Recorder) {
        let disk = Arc::new(SimulatedDisk::new(7));
        let options = RecorderOptions::default();
        let recorder = Recorder::create_on(disk.clone(), Path::new("/run"), options).unwrap();
        (disk, recorder)
    }

    #[test]
    fn an_event_survives_a_kill_a_power_cut_and_recovery() {
        let (disk, recorder) = recorded();
        let added = recorder.event("a", "words", None).unwrap();
        assert_eq!(added.from_nanos, added.to_nanos);
        recorder.event("b", "", (added.from_nanos, added.from_nanos + 9)).unwrap();
        for left in [disk.crash(), disk.power_cut()] {
            let container = Container::recover_on(&left, Path::new("/run")).unwrap();
            assert_eq!(container.events().unwrap()[0], added);
            assert_eq!(names(&left), ["a", "b"]);
            add_event_on(&left, Path::new("/run"), &event("c")).unwrap();
            assert_eq!(names(&left), ["c", "a", "b"]);
        }
        recorder.finish().unwrap();
        assert_eq!(names(&disk), ["a", "b"]);
    }

    #[test]
    fn only_the_recorder_adds_while_it_records() {
        let (disk, recorder) = recorded();
        let refused = add_event_on(&*disk, Path::new("/run"), &event("a"));
        assert!(matches!(refused, Err(EventError::InUse(_))), "{refused:?}");
        recorder.finish().unwrap();
        add_event_on(&*disk, Path::new("/run"), &event("a")).unwrap();
        assert_eq!(names(&disk), ["a"]);
    }

    #[test]
    fn what_a_crash_cuts_is_left_out_and_the_next_event_is_read() {
        let (disk, recorder) = recorded();
        recorder.event("a", "", None).unwrap();
        recorder.finish().unwrap();
        let file = disk.open_for_repair(Path::new("/run/container.events")).unwrap();
        file.write_at(&event("b").to_line().as_bytes()[..20], file.length().unwrap()).unwrap();
        assert_eq!(names(&disk), ["a"]);
        add_event_on(&*disk, Path::new("/run"), &event("c")).unwrap();
        assert_eq!(names(&disk), ["c", "a"]);
        assert_eq!(read(&*disk, Path::new("/run")).unwrap().damaged, 1);
    }

    #[test]
    fn what_cannot_be_kept_is_refused_with_the_bound() {
        let long = "x".repeat(EVENT_TEXT_BYTES_MAX + 1);
        let name = check(&event(""));
        assert!(name.unwrap_err().to_string().contains("1 to"));
        assert!(matches!(check(&event(&long)), Err(EventError::Name { .. })));
        let text = Event { text: long, ..event("a") };
        assert!(matches!(check(&text), Err(EventError::Text { .. })));
        let backwards = Event { to_nanos: 4, ..event("a") };
        assert!(matches!(check(&backwards), Err(EventError::Backwards { .. })));
    }
}
