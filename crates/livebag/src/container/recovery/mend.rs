//! A brick is made an ordinary, finished MCAP file again, and nothing of it is thrown away.

use std::io;
use std::path::Path;

use livebag_format::Topic;
use livebag_format::mcap::{RECORD_HEADER_BYTES, given_up_header};

use super::survey::{Change, Stretch, Survey};
use crate::container::summary::{ends_with_summary, write_summary};
use crate::storage::{Access, Disk, DiskFile, if_there};

/// Where the bytes are kept that recovery wrote over.
pub(super) const OVERWRITTEN_FILE: &str = "container.damaged";

/// It is held in memory while something is added.
const KEPT_BYTES_MAX: u64 = 1 << 30;

/// Result of mending a brick.
pub(super) struct MendedBrick {
    /// Unproven bytes, now covered by a record.
    pub covered_bytes: u64,
    pub is_changed: bool,
}

/// Writes the records that a survey found missing, covers unproven bytes, and ends the brick with its summary. A
/// correct one is not changed.
pub(super) fn mend_brick(
    disk: &dyn Disk,
    path: &Path,
    survey: Survey,
    topics: &[(u16, Topic)],
) -> io::Result<MendedBrick> {
    let is_sound =
        survey.changes.is_empty() && survey.stretches.is_empty() && survey.shortened.is_none();
    if is_sound && let Ok(file) = disk.open(path) {
        let chunks = survey.chunks.iter().cloned().map(Ok);
        if ends_with_summary(&*file, survey.tail, topics, chunks)? {
            // An earlier recovery may have been interrupted before this.
            file.sync()?;
            return Ok(MendedBrick { covered_bytes: 0, is_changed: false });
        }
    }
    let file = match disk.open_for_repair(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(path, Access::Buffered)?
        }
        opened => opened?,
    };
    let mut changes = survey.changes;
    let mut covered_bytes = 0;
    let is_filled = |stretch: &&Stretch| {
        let bytes = stretch.range.end.saturating_sub(stretch.range.start);
        !stretch.records.is_empty() && bytes >= RECORD_HEADER_BYTES as u64
    };
    let filled: Vec<_> =
        survey.stretches.iter().filter(is_filled).map(|s| s.range.clone()).collect();
    for stretch in survey.stretches {
        let offset = stretch.range.start + stretch.records.len() as u64;
        let mut bytes = stretch.records;
        let left = stretch.range.end.saturating_sub(offset);
        if left >= RECORD_HEADER_BYTES as u64 {
            bytes.extend_from_slice(&given_up_header(left));
            covered_bytes += left;
        }
        changes.push(Change { offset: stretch.range.start, bytes });
    }
    let shortened = survey.shortened.as_slice();
    keep_overwritten(disk, path, &*file, shortened.iter().chain(&changes))?;
    for change in shortened {
        file.write_at(&change.bytes, change.offset)?;
        file.sync()?;
    }
    // A stretch into which more than a header is written is marked as given up before: a frame
    // with such records in its middle would pass for a whole one.
    for range in &filled {
        file.write_at(&given_up_header(range.end - range.start), range.start)?;
    }
    if !filled.is_empty() {
        file.sync()?;
    }
    for change in &changes {
        file.write_at(&change.bytes, change.offset)?;
    }
    write_summary(&*file, survey.tail, topics, survey.chunks.into_iter().map(Ok))?;
    file.sync()?;
    Ok(MendedBrick { covered_bytes, is_changed: true })
}

/// Adds a line for each place that is about to be written over: file, offset, the bytes.
fn keep_overwritten<'a>(
    disk: &dyn Disk,
    path: &Path,
    file: &dyn DiskFile,
    changes: impl Iterator<Item = &'a Change>,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut lines = String::new();
    for Change { offset, bytes } in changes {
        let mut there = vec![0; bytes.len()];
        let count = file.read_at(&mut there, *offset)?;
        there.truncate(count);
        if there.iter().any(|byte| *byte != 0) && there != bytes[..count] {
            let hex: String = there.iter().map(|byte| format!("{byte:02x}")).collect();
            lines.push_str(&format!("{offset} {hex} {name}\n"));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let aside = path.with_file_name(OVERWRITTEN_FILE);
    let there = if_there(disk.open(&aside).and_then(|file| file.length()))?;
    if there.is_some_and(|bytes| bytes > KEPT_BYTES_MAX) {
        return Err(io::Error::other(format!(
            "{} has more than {KEPT_BYTES_MAX} bytes: move it elsewhere",
            aside.display()
        )));
    }
    let mut text = if_there(disk.read(&aside))?.unwrap_or_default();
    text.extend_from_slice(lines.as_bytes());
    disk.replace(&aside, &text, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Fault, ReadDisk, SimulatedDisk};

    #[test]
    fn what_was_kept_before_is_never_replaced() {
        let (disk, path) = (SimulatedDisk::new(1), Path::new("/bag/a.mcap"));
        let aside = path.with_file_name(OVERWRITTEN_FILE);
        let file = disk.create(path, Access::Buffered).unwrap();
        file.write_at(b"bytes", 0).unwrap();
        let changes = [Change { offset: 0, bytes: b"other".to_vec() }];
        keep_overwritten(&disk, path, &*file, changes.iter()).unwrap();
        let kept = disk.read(&aside).unwrap();
        let later = disk.crash();
        later.inject(Fault::TooManyFilesToOpen(OVERWRITTEN_FILE));
        keep_overwritten(&later, path, &*file, changes.iter()).unwrap_err();
        assert_eq!(later.crash().read(&aside).unwrap(), kept);
    }
}
