//! The end of a brick: MCAP's summary.

use std::io;

use livebag_format::Topic;
use livebag_format::mcap::{ChunkExtent, SummaryBuilder};

use crate::storage::{DiskFile, ReadFile};

/// Bytes of a summary kept in memory before they are written.
const SUMMARY_PIECE_BYTES: usize = 1 << 20;

/// Ends a brick at `tail` with its summary, and gives the file's length.
pub(crate) fn write_summary(
    file: &dyn DiskFile,
    tail: u64,
    topics: &[(u16, Topic)],
    chunks: impl Iterator<Item = io::Result<ChunkExtent>>,
) -> io::Result<u64> {
    // Truncated first: half-written bytes after the tail must not follow the footer.
    cut(file, tail)?;
    let end = make_summary(tail, topics, chunks, |bytes, at| file.write_at(bytes, at))?;
    cut(file, end)?;
    Ok(end)
}

/// Whether a brick ends at `tail` with just the summary that [`write_summary`] would give it.
pub(crate) fn ends_with_summary(
    file: &dyn ReadFile,
    tail: u64,
    topics: &[(u16, Topic)],
    chunks: impl Iterator<Item = io::Result<ChunkExtent>>,
) -> io::Result<bool> {
    let mut is_same = true;
    let mut there = Vec::new();
    let end = make_summary(tail, topics, chunks, |bytes, at| {
        there.resize(bytes.len(), 0);
        is_same = is_same && file.read_at(&mut there, at)? == bytes.len() && there == bytes;
        Ok(())
    })?;
    Ok(is_same && file.length()? == end)
}

/// Hands a summary on piece by piece, each with its offset, and gives its end.
fn make_summary(
    tail: u64,
    topics: &[(u16, Topic)],
    chunks: impl Iterator<Item = io::Result<ChunkExtent>>,
    mut put: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<u64> {
    let mut summary = SummaryBuilder::new(tail, topics.iter().map(|(id, topic)| (*id, topic)));
    for chunk in chunks {
        summary.chunk(&chunk?);
        if summary.pending_bytes() >= SUMMARY_PIECE_BYTES {
            let (at, bytes) = summary.take();
            put(&bytes, at)?;
        }
    }
    let (at, bytes) = summary.finish(&[]);
    put(&bytes, at)?;
    Ok(at + bytes.len() as u64)
}

/// Cutting a file that has the right length already costs a journal entry.
fn cut(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    if file.length()? == bytes { Ok(()) } else { file.set_len(bytes) }
}
