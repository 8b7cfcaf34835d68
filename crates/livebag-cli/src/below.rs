//! The recordings below a folder.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use livebag_bags::Glance;

use crate::outcome::CliError;

/// Maximum depth of nested folders.
const DEPTH_MAX: usize = 16;

/// Those below a folder, or the one that is there.
pub fn found(directory: &Path) -> Result<Vec<(PathBuf, Glance)>, CliError> {
    found_beside(directory, &HashSet::new())
}

/// Those that are not `known`: nobody looks at the others.
pub fn found_beside(
    directory: &Path,
    known: &HashSet<PathBuf>,
) -> Result<Vec<(PathBuf, Glance)>, CliError> {
    let mut rows = Vec::new();
    if known.contains(directory) {
        return Ok(rows);
    }
    if let Err(source) = directory.metadata() {
        return Err(missing(directory, source));
    }
    match livebag_bags::glance(directory) {
        Some(glance) => rows.push((directory.to_owned(), glance)),
        None if directory.is_dir() => walk(directory, 0, known, &mut rows)?,
        None => {
            let path = directory.display();
            return Err(CliError::failed(format!("{path} is no recording and no folder")));
        }
    }
    Ok(rows)
}

/// Adds the recordings below `directory`, sorted by name. Symbolic links and hidden folders are passed over.
fn walk(
    directory: &Path,
    depth: usize,
    known: &HashSet<PathBuf>,
    rows: &mut Vec<(PathBuf, Glance)>,
) -> Result<(), CliError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(source) if depth > 0 => {
            say!("livebag: warning: {}: {source}", directory.display());
            return Ok(());
        }
        Err(source) => return Err(CliError::file("listing", directory, source)),
    };
    // An entry that disappears meanwhile is skipped.
    let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_hidden || known.contains(&path) {
            continue;
        }
        if kind.is_dir() {
            match livebag_bags::glance(&path) {
                Some(glance) => rows.push((path, glance)),
                None if depth < DEPTH_MAX => walk(&path, depth + 1, known, rows)?,
                None => {}
            }
        } else if kind.is_file()
            && path
                .extension()
                .is_some_and(|e| e == "mcap" || e == "db3" || e == "bag" || e == "zstd")
            && let Some(glance) = livebag_bags::glance(&path)
        {
            rows.push((path, glance));
        }
    }
    Ok(())
}

/// Length of a file, or of all files in a folder.
pub fn size_bytes(path: &Path, depth: usize) -> u64 {
    let Ok(metadata) = path.symlink_metadata() else { return 0 };
    if !metadata.is_dir() || depth > DEPTH_MAX {
        return if metadata.is_file() { metadata.len() } else { 0 };
    }
    let Ok(entries) = path.read_dir() else { return 0 };
    entries.filter_map(Result::ok).map(|entry| size_bytes(&entry.path(), depth + 1)).sum()
}

/// That a recording or folder is not there, and which one was probably meant.
pub fn missing(path: &Path, source: std::io::Error) -> CliError {
    if source.kind() != std::io::ErrorKind::NotFound {
        return CliError::failed(format!("looking at {} failed: {source}", path.display()));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).into_iter().flatten();
    let names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let meant = crate::select::similar(&name, names.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |meant| {
        let meant = path.with_file_name(meant);
        format!("; did you mean {}?", meant.display())
    });
    CliError::failed(format!("{} does not exist{meant}", path.display()))
}
