//! Recordings that are not in folders of this machine.

use std::path::{Path, PathBuf};

use livebag::{Container, ContainerError};

/// A place whose recordings are served, such as an object store. They are finished.
pub trait RecordingStore: Send + Sync {
    /// Names and addresses of its recordings, as last known; it does not wait.
    fn recordings(&self) -> Vec<(String, PathBuf)>;
    /// Opens the one at an address.
    ///
    /// # Errors
    /// If it cannot be read.
    fn open(&self, address: &Path) -> Result<Container, ContainerError>;
}
