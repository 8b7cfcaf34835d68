//! Recordings in object stores, for the server.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag::{Clock, Container, ContainerError};
use livebag_bucket::{Bucket, BucketError};
use livebag_net::{Catalog, RecordingStore};

use crate::outcome::CliError;

/// Shortest time between two lists of a store.
const LIST_INTERVAL: Duration = Duration::from_secs(60);
/// Listing takes at most so small a part of the time: a request for each thousand objects costs money.
const REST: u32 = 20;

/// A place in a store, and the recordings last found there.
struct Bucketed {
    bucket: Arc<Bucket>,
    names: Mutex<Vec<String>>,
}

impl Bucketed {
    fn list(&self) -> Result<usize, BucketError> {
        let names = self.bucket.containers()?;
        let count = names.len();
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        Ok(count)
    }

    fn address_of(&self, name: &str) -> PathBuf {
        match name {
            "" => PathBuf::from(self.bucket.address().as_str()),
            name => PathBuf::from(format!("{}/{name}", self.bucket.address())),
        }
    }
}

impl RecordingStore for Bucketed {
    fn recordings(&self) -> Vec<(String, PathBuf)> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let named = |name: &String| {
            let address = self.address_of(name);
            let last = address.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (if name.is_empty() { last } else { name.clone() }, address)
        };
        names.iter().map(named).collect()
    }

    fn open(&self, address: &Path) -> Result<Container, ContainerError> {
        let name = address.strip_prefix(self.bucket.address().as_str()).unwrap_or(Path::new(""));
        let disk = self.bucket.disk_below(&name.to_string_lossy()).map_err(|error| {
            ContainerError::Io { path: address.to_owned(), source: std::io::Error::other(error) }
        })?;
        Container::peek_on(Arc::new(disk), address)
    }
}

/// The thread that lists a store again and again; it ends with this.
pub struct Listing {
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves the recordings below an address, and those that come there later. Gives their number, too.
///
/// # Errors
/// If the store cannot be listed.
pub fn start(address: &Path, catalog: &Catalog) -> Result<(Listing, usize), CliError> {
    let bucket = Bucket::open(&address.to_string_lossy()).map_err(|error| match error {
        BucketError::Address(_) => CliError::usage(error.to_string()),
        error => CliError::failed(error.to_string()),
    })?;
    let bucketed = Arc::new(Bucketed { bucket, names: Mutex::default() });
    let count = bucketed.list().map_err(|error| CliError::failed(error.to_string()))?;
    catalog.add_store(bucketed.clone());
    let (wake, is_woken) = sync_channel::<()>(0);
    let work = move || {
        let mut pause = LIST_INTERVAL;
        while is_woken.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let clock = Clock::system();
            if let Err(error) = bucketed.list() {
                complain!("livebag: new recordings are not seen: {error}");
            }
            pause = LIST_INTERVAL.max(Duration::from_nanos(clock.monotonic_nanos()) * REST);
        }
    };
    let thread = std::thread::Builder::new().name("livebag-list".into()).spawn(work);
    let thread =
        thread.map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
    Ok((Listing { wake: Some(wake), thread: Some(thread) }, count))
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
