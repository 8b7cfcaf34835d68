//! The files that the command itself makes: exports, which are whole or not there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;

use crate::outcome::CliError;

/// A file being made. It gets its name when it is whole; given up before, nothing stays behind.
pub struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    /// Whether a file that is there is replaced.
    replaces: bool,
}

impl NewFile {
    /// Begins a file that is to become `path`, where nothing may be yet unless it `replaces` that.
    pub fn create(path: &Path, replaces: bool) -> Result<Self, CliError> {
        match path.symlink_metadata() {
            Ok(there) if !replaces || there.is_dir() => return Err(exists(path)),
            _ => {}
        }
        let Some(name) = path.file_name() else {
            return Err(CliError::usage(format!("{} is not a file name", path.display())));
        };
        let mut unfinished = std::ffi::OsString::from(".");
        unfinished.push(name);
        unfinished.push(format!(".{}.unfinished", std::process::id()));
        let unfinished = path.with_file_name(unfinished);
        #[expect(
            clippy::disallowed_methods,
            reason = "an export is an ordinary file; the storage trait is for containers"
        )]
        let file = File::create_new(&unfinished)
            .map_err(|source| CliError::file("making", path, source))?;
        Ok(Self { path: path.to_owned(), unfinished, file, replaces })
    }

    /// Where bytes go.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Makes the contents durable and gives the file its name.
    pub fn publish(self) -> Result<(), CliError> {
        let failed = |source| CliError::file("writing", &self.path, source);
        self.file.sync_data().map_err(failed)?;
        if self.replaces {
            return renameat(CWD, &self.unfinished, CWD, &self.path)
                .map_err(|error| failed(error.into()));
        }
        match renameat_with(CWD, &self.unfinished, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(exists(&self.path)),
            // Filesystems without NOREPLACE: a link is refused as well where there is a file.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                std::fs::hard_link(&self.unfinished, &self.path).map_err(|error| {
                    match error.kind() {
                        io::ErrorKind::AlreadyExists => exists(&self.path),
                        _ => failed(error),
                    }
                })
            }
            Err(error) => Err(failed(error.into())),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        #[expect(
            clippy::disallowed_methods,
            reason = "an export is an ordinary file; the storage trait is for containers"
        )]
        // After a rename there is nothing to remove.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

fn exists(path: &Path) -> CliError {
    CliError::failed(format!(
        "{} exists already: choose another name, or remove it; livebag overwrites a file only with --force",
        path.display()
    ))
}

/// Makes a folder, where nothing may be yet.
pub fn make_folder(path: &Path) -> Result<(), CliError> {
    std::fs::create_dir(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => CliError::file("making", path, source),
    })
}

/// Names and lengths of the files in a container, sorted by name.
pub fn list(directory: &Path) -> Result<Vec<(String, u64)>, CliError> {
    let failed = |source| CliError::file("listing", directory, source);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        // Files of a recording in progress come and go.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            files.push((entry.file_name().to_string_lossy().into_owned(), metadata.len()));
        }
    }
    files.sort();
    Ok(files)
}

/// The same on any disk.
pub fn list_on(
    disk: &dyn livebag::ReadDisk,
    directory: &Path,
) -> Result<Vec<(String, u64)>, CliError> {
    let listed =
        disk.list(directory).map_err(|source| CliError::file("listing", directory, source));
    let mut files = Vec::new();
    for path in listed? {
        // Folders are none.
        let Ok(length) = disk.open(&path).and_then(|file| file.length()) else { continue };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.push((name, length));
    }
    files.sort();
    Ok(files)
}

/// A setting of the kernel, one line; `None` if this kernel does not have it.
#[expect(clippy::disallowed_methods, reason = "a kernel setting, not a recording")]
pub fn kernel_setting(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned())
}

/// The text of a small file that the user names: a profile, overrides.
///
/// # Errors
/// If it cannot be read, or is no text.
pub fn text(doing: &'static str, path: &Path) -> Result<String, CliError> {
    #[expect(clippy::disallowed_methods, reason = "settings, not a recording")]
    let read = std::fs::read_to_string(path);
    read.map_err(|source| CliError::File { doing, path: path.to_owned(), source })
}
