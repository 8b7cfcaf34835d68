//! Where recordings are pushed to.

use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use livebag::{Clock, lower_priority};
use livebag_bucket::{Address, BucketError, GIVE_UP_AFTER_DEFAULT, StoreFailure, open_store};
use livebag_format::container::CONTAINER_FILE;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path;

use crate::error::PushError;
use crate::folder::FolderParts;
use crate::http::PacedConnector;
use crate::limits::{PART_BYTES, PARTS_MAX};
use crate::pace::Pacer;
use crate::recording::METADATA_FILE;

/// How a target is talked to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TargetOptions {
    /// Bytes a second that leave at most; `None` for no limit.
    pub rate_bytes_per_s: Option<u64>,
    /// How long a store that does not answer, or is busy, is asked again.
    pub give_up_after: Duration,
}

impl Default for TargetOptions {
    fn default() -> Self {
        Self { rate_bytes_per_s: None, give_up_after: GIVE_UP_AFTER_DEFAULT }
    }
}

/// A bucket or a folder, and a prefix in it.
pub struct Target {
    address: String,
    prefix: Path,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) parts: Arc<dyn MultipartStore>,
    pub(crate) pacer: Arc<Pacer>,
    is_held: AtomicBool,
    /// Connections are kept from one recording to the next, and belong to it.
    pub(crate) runtime: tokio::runtime::Runtime,
    /// Of a folder.
    folder: Option<PathBuf>,
    /// Its device and number when it was opened.
    folder_id: Option<(u64, u64)>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Target {
    /// Opens `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or a folder that exists. Nothing is
    /// sent yet.
    ///
    /// Credentials come from the environment, for S3 also from the profile files of AWS's tools, and from the machine
    /// (instances, tasks, pods).
    ///
    /// # Errors
    /// If the address makes no sense, or options of the environment contradict each other.
    pub fn open(address: &str, options: &TargetOptions) -> Result<Self, PushError> {
        let pacer = Arc::new(Pacer::new(Clock::system(), options.rate_bytes_per_s));
        match address.contains("://") {
            false => Self::open_folder(address, pacer),
            true => Self::open_bucket(address, options, pacer),
        }
    }

    fn open_folder(address: &str, pacer: Arc<Pacer>) -> Result<Self, PushError> {
        let wrong = |why| BucketError::Address(format!("{address}: {why}"));
        let root = FilePath::new(address).canonicalize();
        let root = root.map_err(|error| {
            wrong(format!(
                "{error} (make the folder first, with mkdir -p; or is its drive not mounted?)"
            ))
        })?;
        // The last of several recordings, where the target was forgotten.
        if [CONTAINER_FILE, METADATA_FILE].iter().any(|manifest| root.join(manifest).exists()) {
            let why = "it is a recording, and no folder for recordings: name the target last";
            return Err(wrong(why.to_owned()).into());
        }
        let store =
            LocalFileSystem::new_with_prefix(&root).map_err(|error| wrong(error.to_string()))?;
        Ok(Self {
            address: address.trim_end_matches('/').to_owned(),
            prefix: Path::default(),
            store: Arc::new(store.with_fsync(true)),
            parts: Arc::new(FolderParts { root: root.clone(), pacer: pacer.clone() }),
            pacer,
            is_held: AtomicBool::new(false),
            runtime: runtime()?,
            folder_id: folder_id(&root),
            folder: Some(root),
        })
    }

    fn open_bucket(
        address: &str,
        options: &TargetOptions,
        pacer: Arc<Pacer>,
    ) -> Result<Self, PushError> {
        let address = Address::parse(address)?;
        let connector = PacedConnector { pacer: pacer.clone() };
        let store = open_store(&address, options.give_up_after, connector)?;
        Ok(Self {
            prefix: address.prefix().clone(),
            address: address.to_string(),
            store: store.objects,
            parts: store.parts,
            pacer,
            is_held: AtomicBool::new(false),
            runtime: runtime()?,
            folder: None,
            folder_id: None,
        })
    }

    /// As it was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Holds pushes to it: after the part in flight, they end as if they were interrupted. What sends and reads back no
    /// contents goes on, such as asking whether a recording is there.
    pub fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// Of all its keys.
    pub(crate) fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The object of a key.
    pub(crate) fn path(&self, key: &str) -> Result<Path, PushError> {
        Ok(livebag_bucket::path_below(&self.prefix, key)?)
    }

    /// The address of a key.
    pub(crate) fn address_of(&self, key: &str) -> String {
        format!("{}/{key}", self.address)
    }

    pub(crate) fn is_bucket(&self) -> bool {
        self.folder.is_none()
    }

    /// Where a key lies, if this is a folder.
    pub(crate) fn place_of(&self, key: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(key))
    }

    /// Refuses a folder that is another one now: its drive is no longer mounted, and recordings would fill this disk.
    pub(crate) fn check_folder(&self) -> Result<(), PushError> {
        match self.folder.as_ref().is_some_and(|folder| folder_id(folder) != self.folder_id) {
            false => Ok(()),
            true => Err(BucketError::Store {
                address: self.address.clone(),
                failure: StoreFailure::Unreachable,
                said: "another folder is there now: is its drive not mounted any more?".to_owned(),
            }
            .into()),
        }
    }

    /// Waits until a small file may be written; requests wait by themselves.
    pub(crate) async fn pacer_for_folders(&self, bytes: usize) {
        if self.folder.is_some() {
            self.pacer.take(bytes).await;
        }
    }

    /// Bytes of each part of an object but the last; the same for every push of it.
    pub(crate) fn part_bytes(&self, object_bytes: u64) -> u64 {
        match self.folder {
            Some(_) => PART_BYTES,
            None => PART_BYTES.max(object_bytes.div_ceil(PARTS_MAX).next_multiple_of(1 << 20)),
        }
    }

    /// Whether an object is sent in one request.
    pub(crate) fn is_sent_whole(&self, object_bytes: u64) -> bool {
        self.folder.is_none() && object_bytes <= PART_BYTES
    }
}

/// Device and number.
pub(crate) fn folder_id(folder: &FilePath) -> Option<(u64, u64)> {
    folder.metadata().ok().map(|there| (there.dev(), there.ino()))
}

fn runtime() -> Result<tokio::runtime::Runtime, BucketError> {
    // Below the recorder, for processors and disks.
    livebag_bucket::runtime("livebag-push", lower_priority)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn refusal(address: &str) -> String {
        Target::open(address, &TargetOptions::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_folder_that_is_not_there_may_be_a_drive() {
        assert!(refusal("/nonexistent/drive").contains("not mounted"));
        assert!(refusal("ftp://host/x").contains("expected s3://"));
    }

    #[test]
    fn a_drive_that_is_unmounted_leaves_another_folder() {
        let folder = tempfile::tempdir().unwrap();
        let drive = folder.path().join("drive");
        std::fs::create_dir(&drive).unwrap();
        let target = Target::open(drive.to_str().unwrap(), &TargetOptions::default()).unwrap();
        target.check_folder().unwrap();
        // Both exist at once: the second has another number.
        let other = folder.path().join("mount point");
        std::fs::create_dir(&other).unwrap();
        std::fs::remove_dir(&drive).unwrap();
        target.check_folder().unwrap_err();
        std::os::unix::fs::symlink(&other, &drive).unwrap();
        let refused = target.check_folder().unwrap_err().to_string();
        assert!(refused.contains("not mounted any more"), "{refused}");
    }

    #[test]
    fn no_object_has_more_parts_than_stores_take() {
        let folder = tempfile::tempdir().unwrap();
        let mut target =
            Target::open(folder.path().to_str().unwrap(), &TargetOptions::default()).unwrap();
        target.folder = None;
        for bytes in [1, PART_BYTES, 1 << 30, 80 << 30, 1 << 40, (5 << 40) - 1] {
            let part_bytes = target.part_bytes(bytes);
            assert!(part_bytes >= 5 << 20 && bytes.div_ceil(part_bytes) <= PARTS_MAX, "{bytes}");
        }
    }
}
