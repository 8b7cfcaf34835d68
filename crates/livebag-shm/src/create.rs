//! Creating a stream, re-attaching to it, and taking it over (`docs/stream-layout.md`, section 5).

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::clock;
use crate::error::{CreateError, HeaderError};
use crate::futex;
use crate::header::StaticHeader;
use crate::layout::{
    MAGIC_MAIN, MAGIC_WAKE, MAIN_BYTES_MIN, SCHEMA_OFFSET, WAKE_BYTES, header, live, state, wake,
};
use crate::limits::{CREATE_ATTEMPTS_MAX, PAGE_BYTES};
use crate::memory::{Access, Mapped, ReadMemory, WriteMemory};
use crate::name::Name;
use crate::object::{self, LockHolder};
use crate::options::StreamOptions;
use crate::place;
use crate::slot::{Slot, complete_sequence};

/// A newest frame beyond this was never published: at a frame a nanosecond it takes 146 years.
const SEQUENCE_BELIEVED_MAX: u64 = 1 << 62;

/// A stream that this process now owns as its writer.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) name: Name,
    pub(crate) header: StaticHeader,
    pub(crate) main: Mapped,
    /// None when the writer wakes at every publish.
    pub(crate) wake: Option<Mapped>,
    /// Holds the writer's lock; not shared.
    pub(crate) fd: OwnedFd,
    pub(crate) newest: u64,
    pub(crate) warnings: Vec<String>,
}

/// The action for an object that is locked and named.
enum Verdict {
    Reattach(StaticHeader),
    Replace(Option<&'static str>),
}

pub(crate) fn create(name: &str, options: &StreamOptions) -> Result<Owned, CreateError> {
    let name = Name::new(name)?;
    let wanted = options.header(&name)?;
    let group = options.group.as_deref().map(group_number).transpose()?;
    let path = name.main_path();
    let mut warnings = Vec::new();
    for _ in 0..CREATE_ATTEMPTS_MAX {
        let fd = match object::open(&path, true) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => match object::make(&path) {
                Ok(fd) => fd,
                Err(Errno::EXIST) => continue,
                Err(source) => return Err(system("create", &path, source)),
            },
            Err(source) => return Err(system("open", &path, source)),
        };
        check_owner(&fd, &path)?;
        if !object::lock_as_writer(&fd).map_err(|source| system("lock", &path, source))? {
            match object::lock_holder(&fd, true).map_err(|source| system("lock", &path, source))? {
                LockHolder::Writer => return Err(live_writer(&name, &fd)),
                LockHolder::Nobody => {}
                LockHolder::Reader => retire(&name, &fd, false)?,
            }
            continue;
        }
        if !object::is_named(&fd, &path) {
            continue;
        }
        let owned = match examine(&path, &fd, &wanted)? {
            Verdict::Reattach(found) => reattach(&name, fd, found, group, options, warnings)?,
            Verdict::Replace(None) if is_empty(&fd) => {
                make(&name, fd, &wanted, group, options, warnings)?
            }
            Verdict::Replace(why) => {
                warnings.extend(why.map(|why| {
                    format!("the stream {name:?} was made anew: {why}", name = name.as_str())
                }));
                retire(&name, &fd, true)?;
                continue;
            }
        };
        return Ok(owned);
    }
    Err(CreateError::Contended { name: name.as_str().to_owned() })
}

fn system(action: &'static str, path: &str, source: impl Into<std::io::Error>) -> CreateError {
    CreateError::System { action, path: path.to_owned(), source: source.into() }
}

fn group_number(group: &str) -> Result<u32, CreateError> {
    object::group_number(group).ok_or_else(|| CreateError::Group { group: group.to_owned() })
}

fn check_owner(fd: &OwnedFd, path: &str) -> Result<(), CreateError> {
    let stat = rustix::fs::fstat(fd).map_err(|source| system("examine", path, source))?;
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user {
        let (path, owner) = (path.to_owned(), stat.st_uid);
        return Err(CreateError::ForeignOwner { path, owner, user });
    }
    if !object::is_regular(&stat) {
        let source = HeaderError::TooSmall { found: 0 };
        return Err(CreateError::ForeignObject { path: path.to_owned(), source });
    }
    Ok(())
}

fn is_empty(fd: &OwnedFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size == 0)
}

fn live_writer(name: &Name, fd: &OwnedFd) -> CreateError {
    let pid = map_whole(fd)
        .filter(|main| main.bytes() >= MAIN_BYTES_MIN)
        .map_or(0, |main| main.load(live::WRITER_PID, Relaxed));
    CreateError::LiveWriter { name: name.as_str().to_owned(), pid }
}

fn map_whole(fd: &OwnedFd) -> Option<Mapped> {
    let bytes = object::bytes_of(&rustix::fs::fstat(fd).ok()?);
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0)?;
    Mapped::new(fd.as_fd(), bytes, Access::ReadWrite, false).ok()
}

/// Reads the header of an object that is mapped whole.
pub(crate) fn read_header(main: &Mapped, object_bytes: u64) -> Result<StaticHeader, HeaderError> {
    if main.bytes() < MAIN_BYTES_MIN {
        return Err(HeaderError::TooSmall { found: object_bytes });
    }
    // Acquire: pairs with the release store of the magic in `make`.
    if main.load(header::MAGIC, Acquire) == 0 {
        return Err(HeaderError::BeingMade);
    }
    let mut page = [0; PAGE_BYTES];
    page.copy_from_slice(&copy_bytes(main, 0, PAGE_BYTES));
    StaticHeader::decode(&page, object_bytes, |bytes| copy_bytes(main, SCHEMA_OFFSET, bytes))
}

fn copy_bytes(memory: &Mapped, at: usize, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    // SAFETY: MaybeUninit<u8> has the layout of u8, and only initialised bytes are written to it.
    let target =
        unsafe { &mut *(std::ptr::from_mut(bytes.as_mut_slice()) as *mut [MaybeUninit<u8>]) };
    memory.copy_out(at, target);
    bytes
}

fn examine(path: &str, fd: &OwnedFd, wanted: &StaticHeader) -> Result<Verdict, CreateError> {
    let stat = rustix::fs::fstat(fd).map_err(|source| system("examine", path, source))?;
    let bytes = object::bytes_of(&stat);
    if bytes == 0 {
        return Ok(Verdict::Replace(None));
    }
    let Some(main) = map_whole(fd) else {
        return Err(system("map", path, Errno::NOMEM));
    };
    Ok(match read_header(&main, bytes) {
        Ok(_) if main.load(live::LATEST, Relaxed) > SEQUENCE_BELIEVED_MAX => {
            Verdict::Replace(Some("its count of frames was damaged"))
        }
        Ok(found) if wanted.is_continued_by(&found) => Verdict::Reattach(found),
        Ok(_) => Verdict::Replace(Some("its size, type, topic or schema changed")),
        Err(HeaderError::BeingMade) => Verdict::Replace(None),
        Err(source @ HeaderError::Foreign { .. }) => {
            return Err(CreateError::ForeignObject { path: path.to_owned(), source });
        }
        Err(HeaderError::Version { .. }) => Verdict::Replace(Some("it had another layout version")),
        Err(_) if bytes < 8 || main.load(header::MAGIC, Relaxed) != MAGIC_MAIN => {
            let source = HeaderError::TooSmall { found: bytes };
            return Err(CreateError::ForeignObject { path: path.to_owned(), source });
        }
        Err(_) => Verdict::Replace(Some("its header was damaged")),
    })
}

/// Takes the name from an object. Its readers keep their mapping, and are notified.
fn retire(name: &Name, fd: &OwnedFd, is_locked: bool) -> Result<(), CreateError> {
    let path = name.main_path();
    if !is_locked && !object::is_named(fd, &path) {
        return Ok(());
    }
    if let Some(main) = map_whole(fd)
        && read_header(&main, main.bytes() as u64).is_ok()
    {
        main.store(live::STATE, state::REPLACED, Relaxed);
        futex::wake_all(&main, live::LATEST);
        futex::wake_all(&main, live::BEGUN);
    }
    for path in [name.wake_path(), path] {
        object::unlink(&path).map_err(|source| system("remove", &path, source))?;
    }
    Ok(())
}

/// Gives the object its rights. The group comes first, so that no wrong group ever has them.
fn give_rights(fd: &OwnedFd, path: &str, group: Option<u32>) -> Result<(), CreateError> {
    let mut mode = Mode::RUSR | Mode::WUSR;
    if let Some(group) = group {
        let gid = rustix::fs::Gid::from_raw(group);
        rustix::fs::fchown(fd, None, Some(gid)).map_err(|source| {
            system("give to the group (are you a member of it?)", path, source)
        })?;
        mode |= Mode::RGRP;
    }
    rustix::fs::fchmod(fd, mode).map_err(|source| system("set the rights of", path, source))
}

/// Makes a stream in an empty object that is locked and named.
fn make(
    name: &Name,
    fd: OwnedFd,
    wanted: &StaticHeader,
    group: Option<u32>,
    options: &StreamOptions,
    mut warnings: Vec<String>,
) -> Result<Owned, CreateError> {
    let path = name.main_path();
    let mut header = wanted.clone();
    header.instance = object::random_instance();
    header.created_realtime_nanos = clock::realtime_nanos();
    let bytes = header.geometry.total_bytes;
    let discard = |error| {
        let _ = object::unlink(&path);
        error
    };
    // The size first, because a mapping beyond the end cannot be bound to a node.
    rustix::fs::ftruncate(&fd, bytes as u64)
        .map_err(|source| discard(no_space(&path, source, bytes)))?;
    let main = Mapped::new(fd.as_fd(), bytes, Access::ReadWrite, header.geometry.is_huge())
        .map_err(|source| discard(system("map", &path, source)))?;
    place::before_reserving(&main, &options.placement, &mut warnings);
    object::reserve(&fd, bytes as u64).map_err(|source| discard(no_space(&path, source, bytes)))?;
    place::after_reserving(&main, &header.geometry, &options.placement, &mut warnings);
    let wake = if header.always_wake {
        // One may be left of a stream without a group.
        object::unlink(&name.wake_path())
            .map_err(|source| system("remove", &name.wake_path(), source))?;
        None
    } else {
        Some(make_wake(name, header.instance).map_err(discard)?)
    };
    let page = header.encode();
    main.copy_in(8, &page[8..]);
    main.copy_in(SCHEMA_OFFSET, &header.schema);
    introduce(&main);
    give_rights(&fd, &path, group).map_err(discard)?;
    // Release: pairs with the acquire load in `read_header`.
    main.settle();
    main.store(header::MAGIC, MAGIC_MAIN, Release);
    place::calling_thread(&options.placement, &mut warnings);
    Ok(Owned { name: name.clone(), header, main, wake, fd, newest: 0, warnings })
}

fn no_space(path: &str, source: Errno, bytes: usize) -> CreateError {
    match source {
        Errno::NOSPC | Errno::FBIG => CreateError::NoSpace { bytes: bytes as u64 },
        source => system("reserve memory for", path, source),
    }
}

/// Stores the new writer's identity.
fn introduce(main: &Mapped) {
    main.store(live::WRITER_PID, std::process::id().into(), Relaxed);
    main.store(live::WRITER_START_TICKS, object::process_start_ticks(), Relaxed);
    main.store(live::EPOCH, main.load(live::EPOCH, Relaxed).wrapping_add(1), Relaxed);
    main.store(live::ATTACHED_REALTIME_NANOS, clock::realtime_nanos(), Relaxed);
    main.store(live::HEARTBEAT_MONOTONIC_NANOS, clock::monotonic_nanos(), Relaxed);
    main.store(live::STATE, state::LIVE, Relaxed);
}

fn make_wake(name: &Name, instance: u64) -> Result<Mapped, CreateError> {
    let path = name.wake_path();
    object::unlink(&path).map_err(|source| system("remove", &path, source))?;
    let fd = object::make(&path).map_err(|source| system("create", &path, source))?;
    object::reserve(&fd, WAKE_BYTES as u64)
        .map_err(|source| no_space(&path, source, WAKE_BYTES))?;
    let memory = Mapped::new(fd.as_fd(), WAKE_BYTES, Access::ReadWrite, false)
        .map_err(|source| system("map", &path, source))?;
    memory.store(wake::INSTANCE, instance, Relaxed);
    give_rights(&fd, &path, None)?;
    // Release: pairs with the acquire load in `open_wake`.
    memory.store(wake::MAGIC, MAGIC_WAKE, Release);
    Ok(memory)
}

/// Opens the wake object of this very region, if there is one.
pub(crate) fn open_wake(name: &Name, instance: u64) -> Option<Mapped> {
    open_wake_object(name, instance).map(|(memory, _)| memory)
}

/// The same with the descriptor of this opening, to lock parts with.
pub(crate) fn open_wake_object(name: &Name, instance: u64) -> Option<(Mapped, OwnedFd)> {
    let fd = object::open(&name.wake_path(), true).ok()?;
    let stat = rustix::fs::fstat(&fd).ok()?;
    // Before it is mapped: another user could cut it short.
    if !object::is_regular(&stat)
        || !object::is_own(&stat)
        || object::bytes_of(&stat) < WAKE_BYTES as u64
    {
        return None;
    }
    let memory = Mapped::new(fd.as_fd(), WAKE_BYTES, Access::ReadWrite, false).ok()?;
    // Acquire: pairs with the release store in `make_wake`.
    let fits = memory.load(wake::MAGIC, Acquire) == MAGIC_WAKE
        && memory.load(wake::INSTANCE, Relaxed) == instance;
    fits.then_some((memory, fd))
}

/// Continues in a region whose last writer is gone.
fn reattach(
    name: &Name,
    fd: OwnedFd,
    header: StaticHeader,
    group: Option<u32>,
    options: &StreamOptions,
    mut warnings: Vec<String>,
) -> Result<Owned, CreateError> {
    let path = name.main_path();
    let geometry = header.geometry;
    let main = Mapped::new(fd.as_fd(), geometry.total_bytes, Access::ReadWrite, geometry.is_huge())
        .map_err(|source| system("map", &path, source))?;
    place::after_reserving(&main, &geometry, &options.placement, &mut warnings);
    give_rights(&fd, &path, group)?;
    let wake = match open_wake(name, header.instance).filter(|_| wake_is_ours(name)) {
        _ if header.always_wake => None,
        Some(wake) => Some(wake),
        None => Some(make_wake(name, header.instance)?),
    };
    let newest = newest_complete(&main, &header);
    introduce(&main);
    main.store(live::BEGUN, newest, Release);
    // Release: pairs with the acquire loads of readers. The last writer may have died between
    // completing this frame and announcing it.
    main.store(live::LATEST, newest, Release);
    futex::wake_all(&main, live::LATEST);
    futex::wake_all(&main, live::BEGUN);
    place::calling_thread(&options.placement, &mut warnings);
    Ok(Owned { name: name.clone(), header, main, wake, fd, newest, warnings })
}

fn wake_is_ours(name: &Name) -> bool {
    let user = rustix::process::geteuid().as_raw();
    rustix::fs::lstat(name.wake_path()).is_ok_and(|stat| stat.st_uid == user)
}

/// The newest frame that is complete: `latest`, or the one after it, which a writer that died had
/// completed and not announced.
fn newest_complete(main: &Mapped, header: &StaticHeader) -> u64 {
    let latest = main.load(live::LATEST, Acquire);
    let next = latest.saturating_add(1);
    let slot = Slot::new(main, header.geometry.slot(next));
    if complete_sequence(slot.lock()) == Some(next) { next } else { latest }
}
