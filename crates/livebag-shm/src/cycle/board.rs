//! The shared region: made, found, checked, its slots locked.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::CycleError;
use super::layout::{
    BOARD_BYTES, CYCLE_SLOTS, LAYOUT_VERSION, MAGIC, RING_ENTRIES, SLOT_STRIDE_BYTES, SLOTS_OFFSET,
    header, slot_offset,
};
use super::protocol::{Places, Words};
use crate::limits::CREATE_ATTEMPTS_MAX;
use crate::memory::{Access, Mapped, ReadMemory, WriteMemory};
use crate::name::{FOLDER, Name};
use crate::object::{self, LockHolder};

/// Not `livebag.`, which is the beginning of a stream's name.
const PREFIX: &str = "livebag-cycles.";
/// Pause while another process makes the region, which takes it some microseconds.
const MAKING_PAUSE: Duration = Duration::from_millis(1);

/// A mapped board.
#[derive(Debug)]
pub(crate) struct Board {
    memory: Mapped,
    /// Slots are locked through this descriptor, which is not shared.
    fd: OwnedFd,
    path: String,
}

pub(super) fn path_of(board: Option<&Name>) -> String {
    let user = rustix::process::geteuid().as_raw();
    let name = board.map_or_else(String::new, |name| format!(".{name}"));
    format!("{FOLDER}/{PREFIX}{user}{name}")
}

fn system<'p>(
    action: &'static str,
    path: &'p str,
) -> impl Fn(std::io::Error) -> CycleError + use<'p> {
    move |source| CycleError::System { action, path: path.to_owned(), source }
}

impl Board {
    /// The user's board, made if there is none.
    pub(crate) fn open_default() -> Result<Board, CycleError> {
        Self::open_at(path_of(None), Access::ReadWrite)
    }

    /// The board of this name, made if there is none.
    pub(crate) fn open(board: &str) -> Result<Board, CycleError> {
        Self::open_at(path_of(Some(&Name::new(board)?)), Access::ReadWrite)
    }

    /// For watching: mapped read-only.
    pub(crate) fn watch(board: Option<&str>) -> Result<Board, CycleError> {
        let name = board.map(Name::new).transpose()?;
        Self::open_at(path_of(name.as_ref()), Access::ReadOnly)
    }

    pub(crate) fn remove(board: &str) -> Result<(), CycleError> {
        let path = path_of(Some(&Name::new(board)?));
        object::unlink(&path).map_err(|error| system("remove", &path)(error.into()))
    }

    fn open_at(path: String, access: Access) -> Result<Board, CycleError> {
        for _ in 0..CREATE_ATTEMPTS_MAX {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let fd = rustix::fs::open(&path, flags | OFlags::NONBLOCK, Mode::RUSR | Mode::WUSR)
                .map_err(|error| system("open", &path)(error.into()))?;
            check_owner(&fd, &path)?;
            if bytes_of(&fd, &path)? >= BOARD_BYTES as u64 {
                let memory = map(&fd, access, &path)?;
                // Acquire: pairs with the release store in `make`.
                if memory.load(header::MAGIC, Acquire) != 0 {
                    check(&memory, &path)?;
                    return Ok(Board { memory, fd, path });
                }
            }
            make(&fd, &path)?;
        }
        Err(CycleError::Contended { path })
    }

    /// Whether the board still has its name, so that new applications can be seen on it.
    pub(crate) fn is_named(&self) -> bool {
        object::is_named(&self.fd, &self.path)
    }

    pub(crate) fn words(&self, slot: usize) -> Words<'_, Mapped> {
        Words::new(&self.memory, Places::of_slot(slot))
    }

    /// Locks a slot that no living process has. The kernel grants a lock to one, and takes it back when
    /// its holder dies.
    pub(crate) fn claim(&self) -> Result<usize, CycleError> {
        for slot in 0..CYCLE_SLOTS {
            let locked = object::lock_range(&self.fd, slot_offset(slot), SLOT_STRIDE_BYTES);
            if locked.map_err(system("lock a slot of", &self.path))? {
                return Ok(slot);
            }
        }
        Err(CycleError::Full { slots: CYCLE_SLOTS })
    }

    pub(crate) fn release(&self, slot: usize) {
        object::unlock_range(&self.fd, slot_offset(slot), SLOT_STRIDE_BYTES);
    }

    /// Whether the process that has a slot is alive. An answer that the system refuses to give does
    /// not make it dead.
    pub(crate) fn is_alive(&self, slot: usize) -> bool {
        let holder = object::range_holder(&self.fd, slot_offset(slot), SLOT_STRIDE_BYTES);
        !matches!(holder, Ok(LockHolder::Nobody))
    }
}

fn map(fd: &OwnedFd, access: Access, path: &str) -> Result<Mapped, CycleError> {
    Mapped::new(fd.as_fd(), BOARD_BYTES, access, false)
        .map_err(|error| system("map", path)(error.into()))
}

fn check_owner(fd: &OwnedFd, path: &str) -> Result<(), CycleError> {
    let stat = rustix::fs::fstat(fd).map_err(|error| system("examine", path)(error.into()))?;
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user {
        let (path, owner) = (path.to_owned(), stat.st_uid);
        return Err(CycleError::ForeignOwner { path, owner, user });
    }
    if !object::is_regular(&stat) {
        let found = "not a regular file".to_owned();
        return Err(CycleError::Foreign { path: path.to_owned(), found });
    }
    Ok(())
}

fn bytes_of(fd: &OwnedFd, path: &str) -> Result<u64, CycleError> {
    let stat = rustix::fs::fstat(fd).map_err(|error| system("examine", path)(error.into()))?;
    Ok(object::bytes_of(&stat))
}

/// Makes the region in an object that is new, or whose maker died before it was done. One process at
/// a time: the others come back.
fn make(fd: &OwnedFd, path: &str) -> Result<(), CycleError> {
    if !object::lock_range(fd, 0, SLOTS_OFFSET).map_err(system("lock", path))? {
        std::thread::sleep(MAKING_PAUSE);
        return Ok(());
    }
    let made = make_locked(fd, path);
    object::unlock_range(fd, 0, SLOTS_OFFSET);
    made
}

fn make_locked(fd: &OwnedFd, path: &str) -> Result<(), CycleError> {
    match bytes_of(fd, path)? {
        0 => {}
        bytes if bytes == BOARD_BYTES as u64 => {
            if map(fd, Access::ReadOnly, path)?.load(header::MAGIC, Acquire) != 0 {
                return Ok(());
            }
        }
        bytes => {
            let found = format!("it has {bytes} bytes, a board has {BOARD_BYTES}");
            return Err(CycleError::Foreign { path: path.to_owned(), found });
        }
    }
    // Whatever the umask is.
    rustix::fs::fchmod(fd, Mode::RUSR | Mode::WUSR)
        .map_err(|error| system("set the rights of", path)(error.into()))?;
    object::reserve(fd, BOARD_BYTES as u64)
        .map_err(|error| system("reserve memory for", path)(error.into()))?;
    let memory = map(fd, Access::ReadWrite, path)?;
    for (at, value) in static_words() {
        memory.store(at, value, Relaxed);
    }
    // Release: pairs with the acquire loads of the magic.
    memory.store(header::MAGIC, MAGIC, Release);
    Ok(())
}

/// The header as words, all but the magic. Layout version 1 has no choice in it.
fn static_words() -> [(usize, u64); 4] {
    let two = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    let fields = [
        (header::TOTAL_BYTES, BOARD_BYTES as u64),
        (header::SLOT_COUNT, two(CYCLE_SLOTS as u32, SLOT_STRIDE_BYTES as u32)),
        (header::SLOTS_OFFSET, two(SLOTS_OFFSET as u32, RING_ENTRIES as u32)),
    ];
    let checked: Vec<u8> = fields.iter().flat_map(|(_, value)| value.to_le_bytes()).collect();
    let version = (header::LAYOUT_VERSION, two(LAYOUT_VERSION, crc32c::crc32c(&checked)));
    [version, fields[0], fields[1], fields[2]]
}

const _: () = assert!(header::STATIC_CRC32C == header::LAYOUT_VERSION + 4);
const _: () = assert!(header::SLOT_STRIDE_BYTES == header::SLOT_COUNT + 4);
const _: () = assert!(header::RING_ENTRIES == header::SLOTS_OFFSET + 4);
const _: () = assert!(header::CHECKED_TO == header::CHECKED_FROM + 3 * 8);

/// Refuses a region that is not exactly of this layout.
fn check(memory: &Mapped, path: &str) -> Result<(), CycleError> {
    let path = || path.to_owned();
    let magic = memory.load(header::MAGIC, Relaxed);
    if magic != MAGIC {
        let found = format!("it starts with {magic:#018x} instead of \"LIVEBAGC\"");
        return Err(CycleError::Foreign { path: path(), found });
    }
    let version = memory.load(header::LAYOUT_VERSION, Relaxed) as u32;
    if version != LAYOUT_VERSION {
        return Err(CycleError::Version { path: path(), found: version });
    }
    let names = ["layout_version and static_crc32c", "total_bytes", "slot_count", "slots_offset"];
    for ((at, expected), field) in static_words().into_iter().zip(names) {
        let found = memory.load(at, Relaxed);
        if found != expected {
            return Err(CycleError::Damaged { path: path(), field, expected, found });
        }
    }
    Ok(())
}
