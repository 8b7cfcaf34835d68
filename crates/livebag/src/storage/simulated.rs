//! A disk in memory that fails on request, from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Access, Completion, Disk, DiskFile, Lock, Part, Write, WriteQueue};

/// What goes wrong, and at which write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Write number `.0` (from 0, over all files) and every later one fails with `ENOSPC`.
    NoSpaceFrom(u64),
    /// Write number `.0` alone fails with `EIO`, and leaves half of its bytes.
    IoErrorAt(u64),
    /// Every sync fails with `EIO`.
    SyncFails,
}

#[derive(Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<Mutex<Vec<u8>>>>,
    locks: BTreeSet<PathBuf>,
    writes: u64,
    random: u64,
    faults: Vec<Fault>,
    /// Writes submitted to queues and not yet reaped: at a crash each may have happened or not.
    pending: BTreeMap<u64, PendingWrite>,
    next_pending: u64,
}

struct PendingWrite {
    file: Arc<Mutex<Vec<u8>>>,
    offset: u64,
    bytes: Vec<u8>,
}

impl State {
    /// xorshift64*: enough for schedules, and the same on every machine.
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Counts a write, and says whether it is one that fails.
    fn admit(&mut self) -> io::Result<()> {
        let number = self.writes;
        self.writes += 1;
        for fault in &self.faults {
            match *fault {
                Fault::NoSpaceFrom(first) if number >= first => {
                    return Err(io::Error::from_raw_os_error(libc::ENOSPC));
                }
                Fault::IoErrorAt(at) if number == at => {
                    return Err(io::Error::from_raw_os_error(libc::EIO));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A disk in memory.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimulatedDisk {
    /// An empty disk; `seed` decides the order of completions and what a crash leaves.
    pub fn new(seed: u64) -> Self {
        let state = State { random: seed.wrapping_mul(2).wrapping_add(1), ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes a later write or sync fail.
    pub fn inject(&self, fault: Fault) {
        lock(&self.state).faults.push(fault);
    }

    /// The disk as a process that dies now leaves it: completed writes are there, each write in
    /// flight is there whole, in part, or not at all. Locks are gone.
    pub fn crash(&self) -> Self {
        let mut state = lock(&self.state);
        let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
        for (path, bytes) in &state.files {
            files.insert(path.clone(), lock(bytes).clone());
        }
        let numbers: Vec<u64> = state.pending.keys().copied().collect();
        for number in numbers {
            let luck = state.random();
            let write = &state.pending[&number];
            let kept = match luck % 3 {
                0 => 0,
                1 => (luck >> 8) as usize % (write.bytes.len() + 1),
                _ => write.bytes.len(),
            };
            let path = state.files.iter().find(|(_, file)| Arc::ptr_eq(file, &write.file));
            if let Some((path, _)) = path {
                let file = files.get_mut(path).expect("copied above");
                put(file, &write.bytes[..kept], write.offset);
            }
        }
        let files = files.into_iter().map(|(path, bytes)| (path, Arc::new(Mutex::new(bytes))));
        let after = State { files: files.collect(), random: state.random(), ..State::default() };
        Self { state: Arc::new(Mutex::new(after)) }
    }

    /// Writes counted so far.
    pub fn write_count(&self) -> u64 {
        lock(&self.state).writes
    }

    fn find(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = lock(&self.state);
        let bytes = state.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), bytes: bytes.clone() }))
    }
}

fn put(file: &mut Vec<u8>, bytes: &[u8], offset: u64) {
    let end = offset as usize + bytes.len();
    if bytes.is_empty() {
        return;
    }
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset as usize..end].copy_from_slice(bytes);
}

struct SimulatedLock {
    disk: SimulatedDisk,
    path: Option<PathBuf>,
}

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            lock(&self.disk.state).locks.remove(&path);
        }
    }
}

impl Disk for SimulatedDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mark = path.join(".");
        let mut state = lock(&self.state);
        if state.files.contains_key(&mark) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.insert(mark, Arc::default());
        Ok(())
    }

    fn create(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = lock(&self.state);
        if state.files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.insert(path.to_owned(), Arc::default());
        drop(state);
        self.find(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.find(path)
    }

    fn open_for_repair(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.find(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8], _durable: bool) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.admit()?;
        state.files.insert(path.to_owned(), Arc::new(Mutex::new(bytes.to_vec())));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = lock(&self.state).files.remove(path);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let state = lock(&self.state);
        let inside = state.files.keys().filter(|file| file.parent() == Some(path));
        Ok(inside.cloned().collect())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path, shared: bool) -> io::Result<Option<Box<dyn Lock>>> {
        let mut state = lock(&self.state);
        if state.locks.contains(path) {
            return Ok(None);
        }
        if shared {
            return Ok(Some(Box::new(SimulatedLock { disk: self.clone(), path: None })));
        }
        state.locks.insert(path.to_owned());
        Ok(Some(Box::new(SimulatedLock { disk: self.clone(), path: Some(path.to_owned()) })))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn queue(&self) -> Box<dyn WriteQueue> {
        Box::new(SimulatedQueue { disk: self.clone(), waiting: Vec::new() })
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl DiskFile for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let file = lock(&self.bytes);
        let start = (offset as usize).min(file.len());
        let count = bytes.len().min(file.len() - start);
        bytes[..count].copy_from_slice(&file[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        lock(&self.disk.state).admit()?;
        put(&mut lock(&self.bytes), bytes, offset);
        Ok(())
    }

    fn reserve(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        lock(&self.disk.state).admit()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(lock(&self.bytes).len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        lock(&self.bytes).resize(bytes as usize, 0);
        Ok(())
    }

    fn simulated(&self) -> Option<Arc<Mutex<Vec<u8>>>> {
        Some(self.bytes.clone())
    }

    fn sync(&self) -> io::Result<()> {
        if lock(&self.disk.state).faults.contains(&Fault::SyncFails) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        Ok(())
    }
}

struct SimulatedQueue {
    disk: SimulatedDisk,
    waiting: Vec<(u64, Write)>,
}

fn bytes_of(parts: &[Part]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Part::Block(block) => bytes.extend_from_slice(block),
            Part::Slot(frame, count) => {
                let start = bytes.len();
                bytes.resize(start + count, 0);
                // Torn or not, as the real disk would take it.
                frame.copy_to(&mut bytes[start..]);
            }
        }
    }
    bytes
}

impl WriteQueue for SimulatedQueue {
    fn submit(&mut self, write: Write) {
        let mut state = lock(&self.disk.state);
        let number = state.next_pending;
        state.next_pending += 1;
        let path_file = write.file.clone();
        let bytes = bytes_of(&write.parts);
        // The queue is given only files of its own disk, found again by their contents' address.
        let file = path_file.simulated().expect("a file of the simulated disk");
        state.pending.insert(number, PendingWrite { file, offset: write.offset, bytes });
        drop(state);
        self.waiting.push((number, write));
    }

    fn reap(&mut self, _wait: Duration, done: &mut Vec<Completion>) {
        let mut state = lock(&self.disk.state);
        while !self.waiting.is_empty() {
            let pick = state.random() as usize % self.waiting.len();
            let (number, write) = self.waiting.swap_remove(pick);
            let pending = state.pending.remove(&number).expect("submitted above");
            let result = state.admit();
            let kept = if result.is_ok() { pending.bytes.len() } else { pending.bytes.len() / 2 };
            put(&mut lock(&pending.file), &pending.bytes[..kept], pending.offset);
            done.push(Completion { token: write.token, result, parts: write.parts });
            // Some stay in flight, so that the caller sees them overtaken by later ones.
            if state.random().is_multiple_of(4) {
                break;
            }
        }
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }
}
