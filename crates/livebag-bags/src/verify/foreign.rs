//! Recordings of other makes.

use std::io;
use std::path::Path;

use super::{Check, RecordingKind, Verified, VerifyError, VerifyProgress, is_mcap, mcap_file};
use crate::{ConvertError, METADATA_FILE, MessageSource};
use livebag::{ReadDisk, ReadFile};

type OnProgress<'a> = &'a mut dyn FnMut(&VerifyProgress);

/// How a recording's messages are read.
type Open<'a> = &'a dyn Fn(&Path) -> Result<Box<dyn MessageSource>, ConvertError>;

/// Checks one file, whose kind its first bytes tell.
pub(super) fn check_file(
    disk: &dyn ReadDisk,
    path: &Path,
    open: Open<'_>,
    on_progress: OnProgress<'_>,
) -> Result<Verified, VerifyError> {
    let io_error = |source| match source {
        source @ io::Error { .. } if source.kind() == io::ErrorKind::NotFound => {
            VerifyError::Container(livebag::ContainerError::NotFound(path.to_owned()))
        }
        source => VerifyError::Io { path: path.to_owned(), source },
    };
    let file = disk.open(path).map_err(io_error)?;
    let length = file.length().map_err(io_error)?;
    let mut head = [0; 16];
    let count = file.read_at(&mut head, 0).map_err(io_error)?;
    let mut check = Check::new(disk, RecordingKind::Mcap, length, on_progress);
    if is_mcap(path, &head[..count]) {
        mcap_file::check(&mut check, path, &*file, Vec::new()).map_err(io_error)?;
        return Ok(check.verified);
    }
    if head.starts_with(b"SQLite format 3\0") {
        check.verified.kind = RecordingKind::Sqlite3;
        check_database(&mut check, path, path, &*file)?;
        check.verified.messages = read_through(&mut check, path, open)?;
        return Ok(check.verified);
    }
    check.verified.kind = RecordingKind::Ros1Bag;
    check.begin_file(length);
    check.verified.messages = read_through(&mut check, path, open)?;
    check.verified.unproven_messages = check.verified.messages;
    Ok(check.verified)
}

/// Reads every message; the reader reports damage.
fn read_through(check: &mut Check<'_>, path: &Path, open: Open<'_>) -> Result<u64, VerifyError> {
    let mut source = match open(path) {
        Ok(source) => source,
        Err(ConvertError::Damaged { path, reason }) => {
            check.damage(&path, None, reason);
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    };
    let mut messages = 0;
    loop {
        match source.next_message() {
            Ok(Some(message)) => {
                messages += 1;
                check.advance(message.data.len() as u64);
            }
            Ok(None) => break,
            Err(ConvertError::Damaged { path, reason }) => {
                check.damage(&path, None, reason);
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    for warning in source.warnings() {
        match source.notes().contains(warning) {
            true => check.warn(path, None, warning.clone()),
            false => check.damage(path, None, warning.clone()),
        }
    }
    Ok(messages)
}

/// `plain` is the database itself where `path` is compressed.
fn check_database(
    check: &mut Check<'_>,
    path: &Path,
    plain: &Path,
    file: &dyn ReadFile,
) -> Result<(), VerifyError> {
    let length = file.length();
    let length = length.map_err(|source| VerifyError::Io { path: path.to_owned(), source })?;
    check.begin_file(length);
    match crate::check_integrity(plain) {
        Ok(found) => found.into_iter().for_each(|what| check.damage(path, None, what)),
        Err(ConvertError::Damaged { reason, .. }) => check.damage(path, None, reason),
        Err(error) => return Err(error.into()),
    }
    check.advance(length);
    Ok(())
}

/// Checks a rosbag2 directory: its files, and whether `metadata.yaml` tells of them.
pub(super) fn check_directory(
    disk: &dyn ReadDisk,
    path: &Path,
    on_progress: OnProgress<'_>,
) -> Result<Verified, VerifyError> {
    if !path.exists() {
        return Err(livebag::ContainerError::NotFound(path.to_owned()).into());
    }
    let files = crate::files_in(path)?;
    let length = |file: &Path| disk.open(file).and_then(|file| file.length()).unwrap_or(0);
    let bytes_total = files.iter().map(|file| length(file)).sum();
    let mut check = Check::new(disk, RecordingKind::Rosbag2, bytes_total, on_progress);
    for file in &files {
        let io_error = |source| VerifyError::Io { path: file.clone(), source };
        let unpacked = match crate::is_compressed(file) {
            true => Some(crate::Unpacked::new(file)?),
            false => None,
        };
        if let Some(damage) = unpacked.as_ref().and_then(|unpacked| unpacked.damage()) {
            check.damage(file, None, damage);
        }
        let plain = unpacked.as_ref().map_or(file.as_path(), |unpacked| unpacked.path());
        let opened = disk.open(plain).map_err(io_error)?;
        if plain.extension().is_some_and(|extension| extension == "mcap") {
            mcap_file::check(&mut check, file, &*opened, Vec::new()).map_err(io_error)?;
        } else {
            check_database(&mut check, file, plain, &*opened)?;
        }
    }
    check_metadata(&mut check, path)?;
    Ok(check.verified)
}

fn check_metadata(check: &mut Check<'_>, directory: &Path) -> Result<(), VerifyError> {
    let path = directory.join(METADATA_FILE);
    let told = match crate::read_metadata(directory) {
        Ok(Some(told)) => told,
        Ok(None) => {
            let what = "it is missing (not closed?); `livebag recover` makes it anew";
            check.damage(&path, None, what);
            return Ok(());
        }
        Err(ConvertError::Damaged { reason, .. }) => {
            check.damage(&path, None, format!("{reason}; `livebag recover` makes it anew"));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    check.begin_file(0);
    let before = check.verified.damage_count;
    for file in &told.relative_file_paths {
        if crate::standing_for(&directory.join(file)).is_none() {
            check.damage(&directory.join(file), None, "it is missing, metadata.yaml names it");
        }
    }
    if check.verified.damage_count > before {
        return Ok(());
    }
    let found = match crate::survey(directory) {
        Ok(found) => found,
        // Why has been said.
        Err(ConvertError::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if told.storage_identifier == "sqlite3" {
        check.verified.messages += found.message_count;
    }
    if let Some(what) = crate::difference(&told, &found) {
        check.damage(&path, None, what);
    } else if (told.starting_time_nanos, told.duration_nanos)
        != (found.starting_time_nanos, found.duration_nanos)
    {
        let what = format!(
            "it tells of times from {} ns, {} ns long; the messages begin at {} ns and last {} ns \
             (rosbag2 writes such times of a bag whose last split it closed itself)",
            told.starting_time_nanos,
            told.duration_nanos,
            found.starting_time_nanos,
            found.duration_nanos
        );
        check.warn(&path, None, what);
    }
    Ok(())
}
