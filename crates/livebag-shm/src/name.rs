//! Stream names, and the objects in `/dev/shm` that belong to them.

use std::fmt;

use crate::error::NameError;
use crate::limits::NAME_BYTES_MAX;

/// Where POSIX shared memory is mounted on Linux.
pub(crate) const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "livebag.";
const WAKE_SUFFIX: &str = ".wake";

/// A name that has passed the rules, so that a path may be made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name(String);

impl Name {
    /// Checks a name: 1 to 200 characters of `[A-Za-z0-9_.-]`, not starting with `.`, not
    /// containing `..`, not ending in `.wake`.
    pub(crate) fn new(name: &str) -> Result<Name, NameError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(NameError::Length { found: name.len() });
        }
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if let Some(found) = name.chars().find(|&c| !is_allowed(c)) {
            return Err(NameError::Character { name: name.to_owned(), found });
        }
        if name.starts_with('.') || name.contains("..") || name.ends_with(WAKE_SUFFIX) {
            return Err(NameError::Dots { name: name.to_owned() });
        }
        Ok(Name(name.to_owned()))
    }

    /// The stream that owns this file of `/dev/shm`, if it is the main object of one.
    pub(crate) fn of_file(file: &str) -> Option<Name> {
        Name::new(file.strip_prefix(PREFIX)?).ok()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn main_path(&self) -> String {
        format!("{FOLDER}/{PREFIX}{}", self.0)
    }

    pub(crate) fn wake_path(&self) -> String {
        format!("{FOLDER}/{PREFIX}{}{WAKE_SUFFIX}", self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
