//! A topic's messages in stretches of about equal size, for programs that read with many workers.

use std::collections::BTreeSet;

use super::{Container, ContainerError, Segment};

/// A split of a topic is cut into at most so many stretches: each cut reads its index once.
const CUTS_MAX: u64 = 10_000;

/// Messages of one topic from one log time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRange {
    /// Of a topic's first stretch the log time of its first message, of others not later than that; nanoseconds since
    /// the Unix epoch.
    pub from_nanos: u64,
    /// Included. Of a topic's last stretch the log time of its last message, of others not earlier than that.
    pub to_nanos: u64,
    /// Messages in the time index.
    pub message_count: u64,
    /// Their bytes, estimated from the mean of their split.
    pub message_bytes: u64,
}

impl Container {
    /// Divides a topic's messages from one log time to another, both included, into stretches of about `bytes` each, in
    /// order of time. Only the time indexes are read. Each message is in exactly one stretch; those of one log time are
    /// not divided. Messages that a live recording commits afterwards are in none.
    ///
    /// # Errors
    /// If there is no such topic, or an index cannot be read.
    pub fn ranges(
        &self,
        topic: &str,
        from_nanos: u64,
        to_nanos: u64,
        bytes: u64,
    ) -> Result<Vec<TopicRange>, ContainerError> {
        let chosen = self.choose(&[topic.to_owned()])?;
        let segments = chosen.iter().flat_map(|&number| &self.topics[number].segments);
        let segments: Vec<(&Segment, u64)> = segments
            .map(|segment| Ok((&**segment, mean_bytes(segment)?)))
            .collect::<Result<_, ContainerError>>()?;
        let mut edges: Option<(u64, u64)> = None;
        for (segment, _) in &segments {
            let (index, range) = (&segment.index, segment.between(from_nanos, to_nanos)?);
            let first = index.first_whole(range.clone())?;
            let Some(((_, first), (_, last))) = first.zip(index.last_whole(range)?) else {
                continue;
            };
            let (first, last) = (first.log_time_nanos, last.log_time_nanos);
            let (from, to) = edges.unwrap_or((first, last));
            edges = Some((from.min(first), to.max(last)));
        }
        let Some((from, to)) = edges else { return Ok(Vec::new()) };
        let mut starts = BTreeSet::from([from]);
        for (segment, mean) in &segments {
            let range = segment.between(from, to)?;
            let step = (bytes / mean).max((range.end - range.start) / CUTS_MAX).max(1);
            let mut number = range.start.saturating_add(step);
            while number < range.end {
                if let Some((_, entry)) = segment.index.first_whole(number..range.end)? {
                    starts.insert(entry.log_time_nanos.clamp(from, to));
                }
                number = number.saturating_add(step);
            }
        }
        let mut ranges: Vec<TopicRange> = Vec::new();
        let ends = starts.iter().skip(1).map(|start| start - 1).chain([to]);
        for (&from_nanos, to_nanos) in starts.iter().zip(ends) {
            let mut next = TopicRange { from_nanos, to_nanos, message_count: 0, message_bytes: 0 };
            for (segment, mean) in &segments {
                let range = segment.between(from_nanos, to_nanos)?;
                next.message_count += range.end - range.start;
                next.message_bytes += (range.end - range.start) * mean;
            }
            match ranges.last_mut() {
                // Several splits or publishers cut at times of their own.
                Some(last) if last.message_bytes + next.message_bytes <= bytes => {
                    last.to_nanos = to_nanos;
                    last.message_count += next.message_count;
                    last.message_bytes += next.message_bytes;
                }
                _ if next.message_count > 0 => ranges.push(next),
                _ => {}
            }
        }
        Ok(ranges)
    }

    /// Log times of a topic's newest message at or before a time, and of its oldest at or after it; `None` where there
    /// is none.
    ///
    /// # Errors
    /// If there is no such topic, or an index cannot be read.
    pub fn around(
        &self,
        topic: &str,
        nanos: u64,
    ) -> Result<(Option<u64>, Option<u64>), ContainerError> {
        let (mut before, mut after): (Option<u64>, Option<u64>) = (None, None);
        for number in self.choose(&[topic.to_owned()])? {
            for Segment { index, .. } in self.topics[number].segments.iter().map(|s| &**s) {
                let count = index.count()?;
                let first = index.lower_bound(count, nanos)?;
                if let Some((_, entry)) = index.first_whole(first..count)? {
                    let found = entry.log_time_nanos;
                    after = Some(after.map_or(found, |known| known.min(found)));
                    if found == nanos {
                        before = Some(nanos);
                    }
                }
                let found = index.last_whole(0..first)?.map(|(_, entry)| entry.log_time_nanos);
                before = before.max(found);
            }
        }
        Ok((before, after))
    }
}

/// At least 1. The manifest of a split that is being written does not know its bytes yet: some entries do.
fn mean_bytes(segment: &Segment) -> Result<u64, ContainerError> {
    const SOME: usize = 256;
    let count = segment.index.count()?;
    if count > 0 && segment.message_bytes > 0 {
        return Ok((segment.message_bytes / count).max(1));
    }
    let mut some = Vec::new();
    if count > 0 {
        segment.index.entries(0..count, SOME, &mut some)?;
    }
    let bytes: u64 = some.iter().map(|entry| u64::from(entry.data_bytes)).sum();
    Ok((bytes / (some.len() as u64).max(1)).max(1))
}

#[cfg(test)]
mod tests;
