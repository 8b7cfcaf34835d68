//! A disk in memory with a page cache, a power switch, and faults from a seed.
//!
//! Written data is in the page cache: every process sees it at once, and it is on the medium only after a sync of its
//! file; a name only after a sync of its directory. Direct writes are no exception: the device has a cache too.
//!
//! - [`SimulatedDisk::crash`]: the process dies. Data that the kernel accepted stays; each write in flight is kept
//!   completely, partly, or not at all.
//! - [`SimulatedDisk::power_cut`]: the machine dies. Each unsynced sector, length and name is kept or lost
//!   independently; so writes arrive in any order. A sector that was never written reads as zeros and is a hole, as on
//!   filesystems with a journal.
//! - [`SimulatedDisk::power_cut_tearing`]: the same on a medium that also tears sectors.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Disk, DiskFile, Lock, Owner, ReadDisk, ReadFile, WriteQueue};

mod fault;
mod medium;
mod queue;
mod random;
#[cfg(test)]
mod tests;

pub use fault::Fault;

use fault::{Faults, Operation};
use medium::Inode;
use queue::SimulatedQueue;
use random::Random;

struct PendingWrite {
    inode: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// A change of a directory that may not be on the medium yet.
#[derive(Clone)]
struct NameChange {
    path: PathBuf,
    /// The file of this name now; `None` once it is removed.
    inode: Option<u64>,
}

#[derive(Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending_names: Vec<NameChange>,
    directories: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    random: Random,
    faults: Faults,
    /// Writes submitted to queues and not yet reaped: at a crash each may have happened or not.
    pending: BTreeMap<u64, PendingWrite>,
    next_pending: u64,
    stalls: bool,
    /// How often the machine has been started.
    boots: u64,
    /// Operations before which a crash is to be kept, and those that were.
    watched: BTreeSet<u64>,
    snapshots: Vec<(u64, SimulatedDisk)>,
}

impl State {
    /// Counts an operation, and says whether it is one that fails.
    fn admit(&mut self, operation: Operation) -> io::Result<()> {
        let number = self.faults.operations;
        if self.watched.remove(&number) {
            let crashed = self.freeze();
            self.snapshots.push((number, crashed));
        }
        self.faults.admit(operation)
    }

    fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.entry(number).or_default()
    }

    fn name(&mut self, path: &Path, inode: Option<u64>) {
        match inode {
            Some(inode) => self.names.insert(path.to_owned(), inode),
            None => self.names.remove(path),
        };
        self.pending_names.push(NameChange { path: path.to_owned(), inode });
    }

    fn make(&mut self, path: &Path, inode: Inode) -> u64 {
        let number = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(number, inode);
        self.name(path, Some(number));
        number
    }

    fn sync_names(&mut self, directory: &Path) {
        let (now, later) = std::mem::take(&mut self.pending_names)
            .into_iter()
            .partition(|change| change.path.parent() == Some(directory));
        self.pending_names = later;
        let now: Vec<NameChange> = now;
        now.into_iter().for_each(|change| put_name(&mut self.durable_names, change));
    }

    /// A copy of the disk, with writes in flight partly done; without locks and faults.
    fn freeze(&mut self) -> SimulatedDisk {
        let mut inodes = self.inodes.clone();
        for write in self.pending.values() {
            let kept = match self.random.below(3) {
                0 => 0,
                1 => self.random.below(write.bytes.len() as u64 + 1) as usize,
                _ => write.bytes.len(),
            };
            if let Some(inode) = inodes.get_mut(&write.inode) {
                inode.write(&write.bytes[..kept], write.offset);
            }
        }
        SimulatedDisk::of(State {
            inodes,
            next_inode: self.next_inode,
            names: self.names.clone(),
            durable_names: self.durable_names.clone(),
            pending_names: self.pending_names.clone(),
            directories: self.directories.clone(),
            random: Random::new(self.random.next()),
            boots: self.boots,
            ..State::default()
        })
    }

    fn cut(&mut self, tears_sectors: bool) -> State {
        let mut random = Random::new(self.random.next());
        let mut names = self.durable_names.clone();
        let kept_percent = [0, 50, 100][random.below(3) as usize];
        for change in &self.pending_names {
            if random.chance(kept_percent) {
                put_name(&mut names, change.clone());
            }
        }
        let mut inodes = BTreeMap::new();
        for number in names.values() {
            if let Some(inode) = self.inodes.get(number) {
                inodes.insert(*number, inode.after_power_cut(&mut random, tears_sectors));
            }
        }
        State {
            inodes,
            next_inode: self.next_inode,
            durable_names: names.clone(),
            names,
            directories: self.directories.clone(),
            random,
            boots: self.boots + 1,
            ..State::default()
        }
    }
}

fn put_name(names: &mut BTreeMap<PathBuf, u64>, change: NameChange) {
    match change.inode {
        Some(inode) => names.insert(change.path, inode),
        None => names.remove(&change.path),
    };
}

/// A disk in memory.
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

impl SimulatedDisk {
    /// An empty disk; `seed` determines the order of completions and the effects of a crash.
    pub fn new(seed: u64) -> Self {
        Self::of(State { random: Random::new(seed), ..State::default() })
    }

    fn of(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a later operation fail.
    pub fn inject(&self, fault: Fault) {
        self.lock_state().faults.plan(fault);
    }

    /// The disk as a process that dies now leaves it: completed writes are there, each write in
    /// flight is there whole, in part, or not at all. Locks are gone.
    pub fn crash(&self) -> Self {
        self.lock_state().freeze()
    }

    /// The disk as a machine leaves it that loses its power now, and is started again.
    pub fn power_cut(&self) -> Self {
        let crashed = self.crash();
        let cut = crashed.lock_state().cut(false);
        Self::of(cut)
    }

    /// The same on a medium that leaves sectors half written, which disks promise not to.
    pub fn power_cut_tearing(&self) -> Self {
        let crashed = self.crash();
        let cut = crashed.lock_state().cut(true);
        Self::of(cut)
    }

    /// Keeps the state after a crash just before operation number `operation`, for [`SimulatedDisk::snapshots`].
    pub fn watch(&self, operation: u64) {
        self.lock_state().watched.insert(operation);
    }

    /// The crashes kept, with the numbers of their operations.
    pub fn snapshots(&self) -> Vec<(u64, SimulatedDisk)> {
        self.lock_state().snapshots.clone()
    }

    /// Operations of every kind so far.
    pub fn operation_count(&self) -> u64 {
        self.lock_state().faults.operations
    }

    /// Makes it complete no submitted write until this is undone.
    pub fn stall(&self, stalls: bool) {
        self.lock_state().stalls = stalls;
    }

    /// Calls to reap its queues so far.
    pub fn reap_count(&self) -> u64 {
        self.lock_state().faults.reaps
    }

    /// Flips a bit (0 to 7) of the byte at `offset`, as an ageing medium does.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn rot(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let mut state = self.lock_state();
        let number = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        state.inode(number).rot(offset, 1 << bit);
        Ok(())
    }

    /// Moves the `bytes` bytes at `from` to `to`, like a controller that confuses addresses: the bytes at `to` are
    /// overwritten, and those that should be at `from` were never written.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn misdirect(&self, path: &Path, from: u64, to: u64, bytes: usize) -> io::Result<()> {
        let mut state = self.lock_state();
        let number = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let inode = state.inode(number);
        let start = (from as usize).min(inode.bytes().len());
        let end = (start + bytes).min(inode.bytes().len());
        let moved = inode.bytes()[start..end].to_vec();
        inode.write(&vec![0; moved.len()], start as u64);
        inode.write(&moved, to);
        inode.sync();
        Ok(())
    }

    fn find(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.lock_state();
        let inode = *state.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), inode }))
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    path: PathBuf,
}

impl Lock for SimulatedLock {}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.disk.lock_state().locks.remove(&self.path);
    }
}

impl ReadDisk for SimulatedDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        self.lock_state().faults.admit_open(path)?;
        Ok(self.find(path)?)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut state = self.lock_state();
        state.faults.admit_list()?;
        let inside = state.names.keys().chain(&state.directories);
        let inside = inside.filter(|file| file.parent() == Some(path));
        Ok(inside.cloned().collect())
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        Ok(self.lock_state().locks.contains(path))
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("simulated-{}", self.lock_state().boots))
    }
}

impl Disk for SimulatedDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if self.lock_state().directories.insert(path.to_owned()) {
            Ok(())
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    fn create(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock_state();
        state.admit(Operation::Create)?;
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.make(path, Inode::default());
        drop(state);
        self.find(path)
    }

    fn open_for_repair(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.find(path)
    }

    fn replace(&self, path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
        let mut state = self.lock_state();
        state.admit(Operation::Replace)?;
        let mut inode = Inode::default();
        inode.write(bytes, 0);
        if durable {
            inode.sync();
        }
        state.make(path, inode);
        if let (true, Some(directory)) = (durable, path.parent()) {
            state.sync_names(directory);
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.name(path, None);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.list(path)?.iter().try_for_each(|file| self.remove(file))?;
        self.lock_state().directories.remove(path);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock_state();
        state.admit(Operation::Sync)?;
        state.sync_names(path);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Option<Box<dyn Lock>>> {
        let boot_id = self.boot_id();
        let mut state = self.lock_state();
        if state.locks.contains(path) {
            return Ok(None);
        }
        if !state.names.contains_key(path) {
            let mut inode = Inode::default();
            inode.write(Owner::this_process(boot_id).to_text().as_bytes(), 0);
            state.make(path, inode);
        }
        state.locks.insert(path.to_owned());
        Ok(Some(Box::new(SimulatedLock { disk: self.clone(), path: path.to_owned() })))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn queue(&self) -> Box<dyn WriteQueue> {
        // Some disks have writes overtake one another often.
        let lingers_percent = [25, 80][self.lock_state().random.below(2) as usize];
        Box::new(SimulatedQueue { disk: self.clone(), waiting: Vec::new(), lingers_percent })
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    inode: u64,
}

impl SimulatedFile {
    fn with<T>(
        &self,
        operation: Operation,
        act: impl FnOnce(&mut Inode, io::Result<()>, &mut Random) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.disk.lock_state();
        let admitted = state.admit(operation);
        let mut random = Random::new(state.random.next());
        act(state.inode(self.inode), admitted, &mut random)
    }
}

impl ReadFile for SimulatedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.lock_state();
        let file = state.inode(self.inode).bytes();
        let start = (offset as usize).min(file.len());
        let count = bytes.len().min(file.len() - start);
        bytes[..count].copy_from_slice(&file[start..start + count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock_state().inode(self.inode).bytes().len() as u64)
    }

    fn sync(&self) -> io::Result<()> {
        self.with(Operation::Sync, |inode, admitted, random| {
            match &admitted {
                Ok(()) => inode.sync(),
                Err(_) => inode.fail_sync(random),
            }
            admitted
        })
    }

    fn has_hole(&self, offset: u64, bytes: u64) -> io::Result<bool> {
        Ok(self.disk.lock_state().inode(self.inode).has_hole(offset, bytes))
    }
}

impl DiskFile for SimulatedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(Operation::Write, |inode, admitted, random| {
            let full = admitted.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::StorageFull);
            let kept = match admitted {
                Ok(()) => bytes.len(),
                // The kernel accepts what fits, and refuses the rest.
                Err(_) if full => random.below(bytes.len() as u64 + 1) as usize,
                Err(_) => 0,
            };
            inode.write(&bytes[..kept], offset);
            admitted
        })
    }

    fn reserve(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        self.with(Operation::Reserve, |_, admitted, _| admitted)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.with(Operation::SetLength, |inode, admitted, _| {
            admitted.map(|()| inode.set_len(bytes))
        })
    }

    fn simulated(&self) -> Option<u64> {
        Some(self.inode)
    }
}
