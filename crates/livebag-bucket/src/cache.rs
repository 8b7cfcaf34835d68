//! Contents of objects in memory, in blocks.
//!
//! A block is absent, on its way, or here. Readers wait for one that is on its way, so that nothing is fetched twice at
//! once. The blocks that were used longest ago make room for others.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use tokio::sync::Semaphore;

use crate::connection::Connection;
use crate::error::BucketError;
use crate::limits::{AHEAD_BYTES_MAX, BLOCK_BYTES, CACHE_BYTES_MAX, FETCH_BYTES_MAX, FETCHES_MAX};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// The blocks of all files of a bucket.
pub(crate) struct Cache {
    state: Mutex<State>,
    /// A request has ended.
    changed: Condvar,
    requests: Arc<Semaphore>,
    files: AtomicU64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            requests: Arc::new(Semaphore::new(FETCHES_MAX)),
            files: AtomicU64::new(0),
        }
    }
}

/// A file and the number of a block in it.
type Place = (u64, u64);

#[derive(Default)]
struct State {
    blocks: HashMap<Place, Slot>,
    /// Of blocks that are here.
    bytes: usize,
    /// Blocks fetched ahead that were not read yet, also those on their way.
    ahead_blocks: usize,
    uses: u64,
}

struct Slot {
    content: Content,
    is_ahead: bool,
}

enum Content {
    /// With the failure of its request, once that has ended so.
    Coming(Arc<OnceLock<Failure>>),
    Here {
        bytes: Box<[u8]>,
        used: u64,
    },
}

/// Why contents did not come: the error of every reader that waits for them.
#[derive(Clone, Debug)]
struct Failure {
    kind: io::ErrorKind,
    text: String,
}

impl Failure {
    fn new(kind: io::ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        match &error {
            object_store::Error::NotFound { .. } => {
                Self::new(io::ErrorKind::NotFound, "it was removed from the store meanwhile")
            }
            object_store::Error::Precondition { .. } => Self::replaced(),
            _ => Self::new(io::ErrorKind::Other, BucketError::of_store("", &error).words()),
        }
    }
}

impl Failure {
    fn replaced() -> Self {
        let text = "it was replaced in the store since the recording was opened: open it again";
        Self::new(io::ErrorKind::Other, text)
    }
}

impl State {
    fn remove(&mut self, place: Place) {
        let Some(slot) = self.blocks.remove(&place) else { return };
        self.ahead_blocks -= usize::from(slot.is_ahead);
        if let Content::Here { bytes, .. } = slot.content {
            self.bytes -= bytes.len();
        }
    }

    fn put(&mut self, place: Place, bytes: &[u8]) {
        self.uses += 1;
        if let Some(slot) = self.blocks.get_mut(&place) {
            self.bytes += bytes.len();
            slot.content = Content::Here { bytes: bytes.into(), used: self.uses };
        }
        while self.bytes > CACHE_BYTES_MAX {
            let used = |slot: &Slot| match slot.content {
                Content::Here { used, .. } => Some(used),
                Content::Coming(_) => None,
            };
            let here = self.blocks.iter().filter_map(|(at, slot)| Some((used(slot)?, *at)));
            let Some((_, oldest)) = here.min() else { break };
            self.remove(oldest);
        }
    }
}

impl Cache {
    /// Contents that are here.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One object's blocks.
pub(crate) struct FileCache {
    cache: Arc<Cache>,
    number: u64,
    object: Arc<Object>,
}

/// An object, as it was listed.
struct Object {
    listed: ObjectMeta,
    /// Its ETag, of the list or else of the first answer.
    tag: OnceLock<String>,
}

impl Object {
    /// Whether an answer is of this very object.
    fn is(&self, answered: &ObjectMeta) -> bool {
        let same_tag = match &answered.e_tag {
            Some(tag) => self.tag.get_or_init(|| tag.clone()) == tag,
            None => true,
        };
        same_tag && answered.size == self.listed.size
    }
}

impl FileCache {
    pub fn new(cache: &Arc<Cache>, object: ObjectMeta) -> Self {
        let number = cache.files.fetch_add(1, Ordering::Relaxed);
        let tag = object.e_tag.clone().map_or_else(OnceLock::new, OnceLock::from);
        Self { cache: cache.clone(), number, object: Arc::new(Object { listed: object, tag }) }
    }

    /// As it was listed.
    pub fn length(&self) -> u64 {
        self.object.listed.size
    }

    /// Reads what the block at `offset` has; waits for it. If it is absent, `fetch` is called with its start, and
    /// requests it.
    pub fn read(&self, out: &mut [u8], offset: u64, fetch: impl Fn(u64)) -> io::Result<usize> {
        let place = (self.number, offset / BLOCK);
        let mut state = self.cache.lock();
        loop {
            let State { blocks, uses, ahead_blocks, .. } = &mut *state;
            let Some(slot) = blocks.get_mut(&place) else {
                drop(state);
                fetch(place.1 * BLOCK);
                state = self.cache.lock();
                continue;
            };
            match &mut slot.content {
                Content::Here { bytes, used } => {
                    *uses += 1;
                    *used = *uses;
                    *ahead_blocks -= usize::from(std::mem::take(&mut slot.is_ahead));
                    let bytes = &bytes[(offset % BLOCK) as usize..];
                    let count = bytes.len().min(out.len());
                    out[..count].copy_from_slice(&bytes[..count]);
                    return Ok(count);
                }
                Content::Coming(request) => {
                    let request = request.clone();
                    let waited = self.cache.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                    if let Some(Failure { kind, text }) = request.get() {
                        return Err(io::Error::new(*kind, text.clone()));
                    }
                }
            }
        }
    }

    /// Requests the absent blocks of a range.
    pub fn fetch(&self, connection: &Connection, range: Range<u64>) {
        self.request(connection, range, false);
    }

    /// The same for what may be read later, as far as there is memory for it.
    pub fn fetch_ahead(&self, connection: &Connection, range: Range<u64>) {
        self.request(connection, range, true);
    }

    fn request(&self, connection: &Connection, range: Range<u64>, is_ahead: bool) {
        let mut state = self.cache.lock();
        let mut run: Option<Request> = None;
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            let place = (self.number, block);
            if is_ahead && state.ahead_blocks >= AHEAD_BYTES_MAX / BLOCK_BYTES {
                break;
            }
            if state.blocks.contains_key(&place) {
                run.take().into_iter().for_each(|run| run.send(connection));
                continue;
            }
            if run.as_ref().is_some_and(Request::is_full) {
                run.take().into_iter().for_each(|run| run.send(connection));
            }
            let run = run.get_or_insert_with(|| Request::new(self, block));
            run.blocks.end = block + 1;
            let content = Content::Coming(run.failure.clone());
            state.blocks.insert(place, Slot { content, is_ahead });
            state.ahead_blocks += usize::from(is_ahead);
        }
        drop(state);
        run.into_iter().for_each(|run| run.send(connection));
    }
}

/// A request for neighbouring blocks. Dropped, it has failed if they did not come.
struct Request {
    cache: Arc<Cache>,
    object: Arc<Object>,
    file: u64,
    blocks: Range<u64>,
    failure: Arc<OnceLock<Failure>>,
    has_ended: bool,
}

impl Request {
    fn new(file: &FileCache, block: u64) -> Self {
        Self {
            cache: file.cache.clone(),
            object: file.object.clone(),
            file: file.number,
            blocks: block..block,
            failure: Arc::default(),
            has_ended: false,
        }
    }

    fn is_full(&self) -> bool {
        (self.blocks.end - self.blocks.start) * BLOCK >= FETCH_BYTES_MAX
    }

    fn send(self, connection: &Connection) {
        // Not the connection, whose runtime must not be dropped by a thread of its own.
        let store = connection.objects().clone();
        connection.handle().spawn(async move {
            let permit = self.cache.requests.clone().acquire_owned().await;
            let range =
                self.blocks.start * BLOCK..(self.blocks.end * BLOCK).min(self.object.listed.size);
            let contents = get(&*store, &self.object, range).await;
            drop(permit);
            self.end(contents);
        });
    }

    fn end(mut self, contents: Result<Bytes, Failure>) {
        self.has_ended = true;
        let mut state = self.cache.lock();
        match contents {
            Ok(contents) => {
                for (block, bytes) in self.blocks.clone().zip(contents.chunks(BLOCK_BYTES)) {
                    state.put((self.file, block), bytes);
                }
            }
            Err(failure) => self.fail(&mut state, failure),
        }
        self.cache.changed.notify_all();
    }

    /// The next reader asks anew.
    fn fail(&self, state: &mut State, failure: Failure) {
        let _ = self.failure.set(failure);
        self.blocks.clone().for_each(|block| state.remove((self.file, block)));
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.has_ended {
            let failure = Failure::new(io::ErrorKind::Other, "the request was given up");
            self.fail(&mut self.cache.lock(), failure);
            self.cache.changed.notify_all();
        }
    }
}

/// Exactly these bytes of the object that was listed.
async fn get(
    store: &dyn ObjectStore,
    object: &Object,
    range: Range<u64>,
) -> Result<Bytes, Failure> {
    let options = GetOptions {
        if_match: object.tag.get().cloned(),
        range: Some(GetRange::Bounded(range.clone())),
        ..GetOptions::default()
    };
    let answer = store.get_opts(&object.listed.location, options).await?;
    if !object.is(&answer.meta) {
        return Err(Failure::replaced());
    }
    let contents = answer.bytes().await?;
    match contents.len() as u64 == range.end - range.start {
        true => Ok(contents),
        false => {
            let (found, wanted) = (contents.len(), range.end - range.start);
            let text = format!("the store sent {found} bytes where {wanted} were asked for");
            Err(Failure::new(io::ErrorKind::UnexpectedEof, text))
        }
    }
}
