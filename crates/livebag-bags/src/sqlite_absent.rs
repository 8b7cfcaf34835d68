//! The same names in a build without SQLite: no database is opened, and the error says why.

use std::convert::Infallible;
use std::path::Path;

use livebag_format::{Message, Topic};

use super::{ConvertError, MessageSource, Sqlite3Options, Sqlite3Summary};

fn not_built<T>(path: &Path) -> Result<T, ConvertError> {
    Err(ConvertError::NotBuilt { path: path.to_owned() })
}

/// # Errors
/// [`ConvertError::NotBuilt`].
pub(super) fn open(path: &Path) -> Result<Box<dyn MessageSource>, ConvertError> {
    not_built(path)
}

/// # Errors
/// [`ConvertError::NotBuilt`].
pub(crate) fn check_integrity(path: &Path) -> Result<Vec<String>, ConvertError> {
    not_built(path)
}

/// A database being written: not in this build.
pub struct Sqlite3Writer(Infallible);

impl Sqlite3Writer {
    /// # Errors
    /// [`ConvertError::NotBuilt`].
    pub fn create(path: &Path, _options: Sqlite3Options) -> Result<Self, ConvertError> {
        not_built(path)
    }

    /// See the feature `sqlite3`.
    pub fn add_topic(&mut self, _topic: &Topic) -> Result<usize, ConvertError> {
        match self.0 {}
    }

    /// See the feature `sqlite3`.
    pub fn write(&mut self, _topic: usize, _message: &Message<'_>) -> Result<(), ConvertError> {
        match self.0 {}
    }

    /// See the feature `sqlite3`.
    pub fn commit(&mut self) -> Result<(), ConvertError> {
        match self.0 {}
    }

    /// See the feature `sqlite3`.
    pub fn file_bytes(&mut self) -> Result<u64, ConvertError> {
        match self.0 {}
    }

    /// See the feature `sqlite3`.
    pub fn finish(self) -> Result<Sqlite3Summary, ConvertError> {
        match self.0 {}
    }
}
