//! rosbag2's cache (`message_cache.cpp`): two buffers of messages of all topics, one being filled,
//! one being written out.
//!
//! Like there, each is bounded in bytes and what does not fit is dropped; unlike there, large
//! message buffers are used again in place of being allocated for each message, which spares the
//! peers the page faults.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Buffers from this size on are used again.
const RECYCLED_BYTES_MIN: usize = 64 * 1024;

/// A message that the cache owns.
pub struct Cached {
    /// Index of the topic.
    pub topic: usize,
    /// Counted from 0.
    pub number: u64,
    /// When it was taken, nanoseconds since the Unix epoch.
    pub log_time_nanos: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

#[derive(Default)]
struct Filling {
    messages: Vec<Cached>,
    bytes: u64,
    dropped: u64,
    closed: bool,
    /// Emptied buffers by topic.
    spare: Vec<Vec<Vec<u8>>>,
}

/// The cache between those who bring messages and the writing thread.
pub struct DoubleBuffer {
    filling: Mutex<Filling>,
    arrived: Condvar,
    bytes_max: u64,
}

impl DoubleBuffer {
    /// An empty cache of twice `bytes_max`.
    pub fn new(topics: usize, bytes_max: u64) -> Self {
        let spare = (0..topics).map(|_| Vec::new()).collect();
        let filling = Filling { spare, ..Filling::default() };
        Self { filling: Mutex::new(filling), arrived: Condvar::new(), bytes_max }
    }

    /// A buffer of `bytes` for a message of `topic`.
    pub fn buffer(&self, topic: usize, bytes: usize) -> Vec<u8> {
        let spare = if bytes < RECYCLED_BYTES_MIN { None } else { self.lock().spare[topic].pop() };
        let mut buffer = spare.unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }

    /// Adds a message, or drops it if the half is full. One message always fits.
    pub fn push(&self, message: Cached) {
        let bytes = message.data.len() as u64;
        let mut filling = self.lock();
        if filling.bytes + bytes > self.bytes_max && !filling.messages.is_empty() {
            filling.dropped += 1;
            return recycle(&mut filling, message);
        }
        filling.bytes += bytes;
        filling.messages.push(message);
        drop(filling);
        self.arrived.notify_one();
    }

    /// Gives back what was written and takes what has come since; `false` at the end.
    pub fn swap(&self, written: &mut Vec<Cached>) -> bool {
        let mut filling = self.lock();
        for message in written.drain(..) {
            recycle(&mut filling, message);
        }
        while filling.messages.is_empty() && !filling.closed {
            filling = self.arrived.wait(filling).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut filling.messages, written);
        filling.bytes = 0;
        !written.is_empty()
    }

    /// No more messages will come.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Messages dropped so far.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn recycle(filling: &mut Filling, message: Cached) {
    if message.data.len() >= RECYCLED_BYTES_MIN {
        filling.spare[message.topic].push(message.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, bytes: usize) -> Cached {
        Cached { topic: 0, number, log_time_nanos: 0, data: vec![0; bytes] }
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let cache = DoubleBuffer::new(1, 100);
        cache.push(message(0, 60));
        cache.push(message(1, 60));
        cache.push(message(2, 40));
        let mut taken = Vec::new();
        assert!(cache.swap(&mut taken));
        assert_eq!(taken.iter().map(|m| m.number).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(cache.dropped(), 1);
        cache.push(message(3, 1000));
        cache.close();
        assert!(cache.swap(&mut taken));
        assert_eq!(taken[0].number, 3);
        assert!(!cache.swap(&mut taken));
    }

    #[test]
    fn large_buffers_come_back() {
        let cache = DoubleBuffer::new(1, 1 << 20);
        let data = cache.buffer(0, 1 << 17);
        let address = data.as_ptr();
        cache.push(Cached { data, ..message(0, 0) });
        let mut taken = Vec::new();
        assert!(cache.swap(&mut taken));
        cache.close();
        assert!(!cache.swap(&mut taken));
        let again = cache.buffer(0, 1 << 17);
        assert_eq!(again.as_ptr(), address);
    }
}
