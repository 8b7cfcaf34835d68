//! Files of a real filesystem.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::held::HeldQueue;
use super::io_uring::IoUringQueue;
use super::pwrite::PwriteQueue;
use super::reopened::{Reopened, ReopenedFile};
use super::{Access, Disk, DiskFile, Lock, Mapping, ReadDisk, ReadFile, WriteQueue, removal};

/// How writes reach the kernel, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    /// io_uring past the page cache.
    IoUringDirect,
    /// io_uring through the page cache.
    IoUringBuffered,
    /// `pwritev` past the page cache, one at a time.
    PwriteDirect,
    /// `pwritev` through the page cache.
    PwriteBuffered,
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::IoUringDirect => "io_uring, direct I/O",
            Self::IoUringBuffered => "io_uring, buffered",
            Self::PwriteDirect => "pwrite, direct I/O",
            Self::PwriteBuffered => "pwrite, buffered",
        })
    }
}

/// The method chosen for a directory, and why it is not the best one, if so.
#[derive(Clone, Debug)]
pub struct MethodChoice {
    /// The method.
    pub method: Method,
    /// For each better one that was not possible: cause and remedy.
    pub reasons: Vec<String>,
}

/// Name of the environment variable that forces a method: `io_uring`, `pwrite`, and `,buffered`
/// behind either.
pub const METHOD_VARIABLE: &str = "LIVEBAG_STORAGE";

/// Name of the environment variable that rules out `openat2`, as some container runtimes do: `off`.
pub const OPENAT2_VARIABLE: &str = "LIVEBAG_OPENAT2";

/// Name of the environment variable with a file: while it exists, no message is written, as on a disk that hangs.
/// For tests: release builds ignore it.
pub const HOLD_VARIABLE: &str = "LIVEBAG_HOLD_WRITES";

/// How files are opened for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Wherever links lead.
    Plain,
    /// Without links; whether the kernel may be asked to see to that.
    WithoutLinks { by_kernel: bool },
}

/// Up to this many files are synced one by one.
const SYNC_ONE_BY_ONE_MAX: usize = 32;

/// A real filesystem.
#[derive(Clone, Debug)]
pub struct KernelDisk {
    choice: MethodChoice,
    opening: Opening,
    /// Whether files that are open for reading may be closed meanwhile.
    reopens: bool,
    /// See [`HOLD_VARIABLE`].
    hold: Option<PathBuf>,
}

impl KernelDisk {
    /// Tests what the filesystem of `directory` (which must exist) and the kernel support.
    ///
    /// # Errors
    /// If a probe file cannot be made in `directory`.
    pub fn probe(directory: &Path) -> io::Result<Self> {
        let disk = Self::probe_as(directory, &std::env::var(METHOD_VARIABLE).unwrap_or_default())?;
        let hold = std::env::var_os(HOLD_VARIABLE).filter(|_| cfg!(debug_assertions));
        Ok(Self { hold: hold.map(PathBuf::from), ..disk })
    }

    /// The same with methods ruled out by `forced`, whose form is that of `LIVEBAG_STORAGE`:
    /// `pwrite` rules out io_uring, `buffered` direct I/O.
    ///
    /// # Errors
    /// If a probe file cannot be made in `directory`.
    pub fn probe_as(directory: &Path, forced: &str) -> io::Result<Self> {
        let mut reasons = Vec::new();
        let ring = if forced.contains("pwrite") {
            reasons.push(format!("io_uring is switched off by {METHOD_VARIABLE}"));
            false
        } else {
            match IoUringQueue::new() {
                Ok(_) => true,
                Err(error) => {
                    reasons.push(io_uring_reason(&error));
                    false
                }
            }
        };
        let direct = if forced.contains("buffered") {
            reasons.push(format!("direct I/O is switched off by {METHOD_VARIABLE}"));
            false
        } else {
            match probe_direct(directory)? {
                Ok(()) => true,
                Err(reason) => {
                    reasons.push(reason);
                    false
                }
            }
        };
        let method = match (ring, direct) {
            (true, true) => Method::IoUringDirect,
            (true, false) => Method::IoUringBuffered,
            (false, true) => Method::PwriteDirect,
            (false, false) => Method::PwriteBuffered,
        };
        let choice = MethodChoice { method, reasons };
        Ok(Self { choice, opening: Opening::Plain, reopens: false, hold: None })
    }

    /// For reading only: nothing is probed. Of the files that are being read, a limited number is open at a time.
    pub fn for_reading() -> Self {
        let choice = MethodChoice { method: Method::PwriteBuffered, reasons: Vec::new() };
        Self { choice, opening: Opening::Plain, reopens: true, hold: None }
    }

    /// For serving to clients: a path that contains a symbolic link anywhere is refused, so that no file outside the
    /// served folders is read.
    pub fn for_serving() -> Self {
        Self::for_serving_as(&std::env::var(OPENAT2_VARIABLE).unwrap_or_default())
    }

    /// The same without `openat2` if `forced` is `off`, as `LIVEBAG_OPENAT2` has it.
    pub fn for_serving_as(forced: &str) -> Self {
        let opening = Opening::WithoutLinks { by_kernel: forced.trim() != "off" };
        Self { opening, ..Self::for_reading() }
    }

    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        match self.opening {
            Opening::Plain => open_regular(OpenOptions::new().read(true), path),
            Opening::WithoutLinks { by_kernel } => regular(open_without_links(path, by_kernel)?),
        }
    }

    /// How this disk is written, and why.
    pub fn choice(&self) -> &MethodChoice {
        &self.choice
    }
}

fn io_uring_reason(error: &io::Error) -> String {
    #[expect(clippy::disallowed_methods, reason = "a kernel setting, not a recording")]
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    match setting.as_deref().map(str::trim) {
        Ok(value @ ("1" | "2")) => format!(
            "io_uring is disabled by kernel.io_uring_disabled={value}: `sysctl \
             kernel.io_uring_disabled=0` allows it"
        ),
        _ => format!(
            "io_uring is not available ({error}): it needs Linux 5.11 and a container runtime that \
             permits it"
        ),
    }
}

/// Opens a file that is there, if it is one. Opening a pipe would block, and a device or a socket is no recording.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
pub fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options.custom_flags(OFlags::NONBLOCK.bits() as i32).open(path);
    match opened {
        Ok(file) => regular(file),
        // A pipe without a reader, or a socket.
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Err(not_a_file()),
        Err(error) => Err(error),
    }
}

fn regular(file: File) -> io::Result<File> {
    let kind = file.metadata()?.file_type();
    match kind.is_file() {
        true => Ok(file),
        false if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        false => Err(not_a_file()),
    }
}

/// Whether a file was not opened because it is none: a folder, a pipe, a socket, a device.
pub fn is_no_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory)
}

fn not_a_file() -> io::Error {
    let text = "expected a regular file, found a pipe, a socket or a device";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// `openat2` has it from Linux 5.6 on; some container runtimes do not let it through.
fn open_without_links(path: &Path, by_kernel: bool) -> io::Result<File> {
    // Opening a pipe does not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if by_kernel {
        let resolve = ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve) {
            Ok(file) => return Ok(file.into()),
            Err(Errno::NOSYS | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let file = rustix::fs::open(path, flags | OFlags::NOFOLLOW, Mode::empty())?;
    // Where the kernel says that this very file is: had a link led there, it would be elsewhere.
    let place = format!("/proc/self/fd/{}", file.as_raw_fd());
    let place = std::fs::read_link(place)?;
    match place == path {
        true => Ok(file.into()),
        false => Err(Errno::LOOP.into()),
    }
}

/// Whether files in `directory` take direct writes in blocks of ours.
fn probe_direct(directory: &Path) -> io::Result<Result<(), String>> {
    let path = directory.join(format!(".livebag-probe-{}", std::process::id()));
    let outcome = probe_direct_with(&path);
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let _ = std::fs::remove_file(&path);
    outcome
}

fn probe_direct_with(path: &Path) -> io::Result<Result<(), String>> {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let plain = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    drop(plain);
    let file = match open_direct(OpenOptions::new().write(true), path) {
        Ok(file) => file,
        Err(error) => {
            return Ok(Err(format!("this filesystem has no direct I/O ({error})")));
        }
    };
    let alignment = direct_alignment(&file);
    if alignment.is_some_and(|bytes| bytes as usize > super::Block::ALIGNMENT) {
        return Ok(Err(format!(
            "direct I/O on this filesystem wants blocks of {} B, livebag writes {} B",
            alignment.unwrap_or_default(),
            super::Block::ALIGNMENT
        )));
    }
    let block = super::Block::zeroed(super::Block::ALIGNMENT);
    match file.write_all_at(&block, 0) {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(error),
        Err(error) => Ok(Err(format!("direct writes fail on this filesystem ({error})"))),
    }
}

/// The offset alignment that the kernel states for direct I/O (`STATX_DIOALIGN`, Linux 6.1);
/// `None` where it does not say.
pub fn direct_alignment(file: &File) -> Option<u32> {
    let wanted = rustix::fs::StatxFlags::from_bits_retain(0x2000);
    let answer = rustix::fs::statx(file, "", rustix::fs::AtFlags::EMPTY_PATH, wanted).ok()?;
    if answer.stx_mask & 0x2000 == 0 || answer.stx_dio_offset_align == 0 {
        return None;
    }
    Some(answer.stx_dio_offset_align.max(answer.stx_dio_mem_align))
}

#[expect(clippy::disallowed_methods, reason = "this is the seam")]
fn open_direct(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(OFlags::DIRECT.bits() as i32).open(path)
}

impl super::Block {
    /// Alignment of every [`super::Block`].
    pub const ALIGNMENT: usize = crate::limits::BLOCK_BYTES;
}

struct KernelLock {
    _file: File,
}

impl Lock for KernelLock {}

/// `false` if another process has the lock.
fn try_lock(file: &File, operation: FlockOperation) -> io::Result<bool> {
    match rustix::fs::flock(file, operation) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl ReadDisk for KernelDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        match self.reopens {
            true => Ok(Arc::new(Reopened(ReopenedFile::open(self, path)?))),
            false => Ok(Arc::new(KernelFile::new(self.open_file(path)?))),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        match self.open_file(path) {
            // Until the file is closed, which is at once.
            Ok(file) => Ok(!try_lock(&file, FlockOperation::NonBlockingLockShared)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn boot_id(&self) -> Option<String> {
        #[expect(clippy::disallowed_methods, reason = "a value of the kernel, not a recording")]
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }
}

impl Disk for KernelDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)?;
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_names(parent),
            _ => sync_names(Path::new(".")),
        }
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let direct = access == Access::Direct
            && matches!(self.choice.method, Method::IoUringDirect | Method::PwriteDirect);
        #[expect(clippy::disallowed_methods, reason = "this is the seam")]
        let file = if direct { open_direct(&mut options, path)? } else { options.open(path)? };
        Ok(Arc::new(KernelFile::new(file)))
    }

    fn open_for_repair(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = open_regular(OpenOptions::new().read(true).write(true), path)?;
        Ok(Arc::new(KernelFile::new(file)))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn replace(&self, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&new)?;
        file.write_all_at(bytes, 0)?;
        if durable {
            file.sync_data()?;
        }
        std::fs::rename(&new, path)?;
        match path.parent() {
            Some(parent) if durable => self.sync_dir(parent),
            _ => Ok(()),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_in_steps(&self, path: &Path, is_hurried: &dyn Fn() -> bool) -> io::Result<()> {
        removal::remove_in_steps(path, is_hurried)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.list(path)?.iter().try_for_each(std::fs::remove_file)?;
        std::fs::remove_dir(path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_files(&self, files: &[&Arc<dyn DiskFile>]) -> io::Result<()> {
        // Each fdatasync of a new file is a commit of the filesystem's journal; with hundreds of
        // files one syncfs (which reports write-back errors since Linux 5.8) is far cheaper.
        if files.len() > SYNC_ONE_BY_ONE_MAX
            && let Some(descriptor) = files[0].descriptor()
        {
            return Ok(rustix::fs::syncfs(descriptor)?);
        }
        files.iter().try_for_each(|file| file.sync())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        // The creator of the file is its owner, and remains it: a later holder only recovers.
        let file = match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => {
                let owner = super::Owner::this_process(self.boot_id());
                file.write_all_at(owner.to_text().as_bytes(), 0)?;
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open_regular(OpenOptions::new().write(true), path)?
            }
            Err(error) => return Err(error),
        };
        let is_ours = try_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(is_ours.then(|| Box::new(KernelLock { _file: file }) as Box<dyn Lock>))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let answer = rustix::fs::statvfs(path)?;
        Ok(answer.f_bavail * answer.f_frsize)
    }

    fn queue(&self) -> Box<dyn WriteQueue> {
        let uses_ring =
            matches!(self.choice.method, Method::IoUringDirect | Method::IoUringBuffered);
        let queue: Box<dyn WriteQueue> = match uses_ring.then(IoUringQueue::new) {
            Some(Ok(queue)) => Box::new(queue),
            _ => Box::new(PwriteQueue::default()),
        };
        match &self.hold {
            Some(file) => Box::new(HeldQueue::new(queue, file.clone())),
            None => queue,
        }
    }
}

/// Syncs the names in a directory, if this user may open it.
#[expect(clippy::disallowed_methods, reason = "this is the seam")]
fn sync_names(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        Ok(directory) => directory.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) struct KernelFile {
    file: File,
}

impl KernelFile {
    pub(super) fn new(file: File) -> Self {
        Self { file }
    }
}

impl ReadFile for KernelFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut count = 0;
        while count < bytes.len() {
            match self.file.read_at(&mut bytes[count..], offset + count as u64) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn has_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        // Extents that were reserved and never written count as holes (ext4, XFS).
        match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(offset)) {
            Ok(hole) => Ok(hole < offset.saturating_add(bytes)),
            // The file ends before.
            Err(rustix::io::Errno::NXIO) => Ok(true),
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn map(&self, bytes: u64) -> io::Result<Option<Mapping>> {
        Mapping::new(&self.file, bytes).map(Some)
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
            // A hint: its failure changes nothing.
            let _ = rustix::fs::fadvise(&self.file, offset, Some(bytes), Advice::WillNeed);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl DiskFile for KernelFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn reserve(&self, offset: u64, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, bytes) {
            // Filesystems without it lose the early warning only.
            Err(rustix::io::Errno::OPNOTSUPP) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn start_write_back(&self, offset: u64, bytes: u64) {
        use std::os::fd::AsRawFd;
        let descriptor = self.file.as_raw_fd();
        #[expect(unsafe_code, reason = "a system call without a wrapper")]
        // SAFETY: no memory is involved.
        unsafe {
            // Only a beginning: errors of the medium show at the sync.
            libc::sync_file_range(
                descriptor,
                offset as i64,
                bytes as i64,
                libc::SYNC_FILE_RANGE_WRITE,
            );
        }
    }
}
