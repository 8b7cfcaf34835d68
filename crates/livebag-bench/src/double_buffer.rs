//! rosbag2's cache (`message_cache.cpp`): two buffers of messages of all topics, one being filled,
//! one being written out.
//!
//! As there, each half is bounded in bytes and messages that do not fit are dropped. Unlike there, large message
//! buffers are reused instead of allocated for each message, which spares the peers the page faults.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Buffers from this size on are used again.
const RECYCLED_BYTES_MIN: usize = 64 * 1024;

/// A message that the cache owns.
pub struct Message {
    /// Index of the topic.
    pub topic: usize,
    /// The source's count.
    pub sequence: u64,
    /// When it was published or taken, nanoseconds since the Unix epoch.
    pub time_nanos: u64,
    /// Its bytes.
    pub data: Vec<u8>,
}

#[derive(Default)]
struct Filling {
    messages: Vec<Message>,
    bytes: u64,
    dropped: u64,
    closed: bool,
    /// Emptied buffers by topic.
    spare: Vec<Vec<Vec<u8>>>,
}

/// The cache between the receiving threads and the writing one.
pub struct DoubleBuffer {
    filling: Mutex<Filling>,
    arrived: Condvar,
    swapped: Condvar,
    bytes_max: u64,
}

impl DoubleBuffer {
    /// An empty cache of twice `bytes_max`.
    pub fn new(topics: usize, bytes_max: u64) -> Self {
        let filling =
            Filling { spare: (0..topics).map(|_| Vec::new()).collect(), ..Filling::default() };
        Self {
            filling: Mutex::new(filling),
            arrived: Condvar::new(),
            swapped: Condvar::new(),
            bytes_max,
        }
    }

    /// A buffer of `bytes` for a message of `topic`.
    pub fn buffer(&self, topic: usize, bytes: usize) -> Vec<u8> {
        let spare = if bytes < RECYCLED_BYTES_MIN { None } else { self.lock().spare[topic].pop() };
        let mut buffer = spare.unwrap_or_default();
        buffer.resize(bytes, 0);
        buffer
    }

    /// Adds a message. A full half is waited for with `wait`; without, the message is dropped and
    /// the answer is `false`. One message always fits.
    pub fn push(&self, message: Message, wait: bool) -> bool {
        let bytes = message.data.len() as u64;
        let mut filling = self.lock();
        while filling.bytes + bytes > self.bytes_max && !filling.messages.is_empty() {
            if !wait {
                filling.dropped += 1;
                Self::recycle(&mut filling, message);
                return false;
            }
            filling = self.swapped.wait(filling).unwrap_or_else(PoisonError::into_inner);
        }
        filling.bytes += bytes;
        filling.messages.push(message);
        drop(filling);
        self.arrived.notify_one();
        true
    }

    /// Returns written messages and takes new ones; `false` at the end.
    pub fn swap(&self, written: &mut Vec<Message>) -> bool {
        let mut filling = self.lock();
        for message in written.drain(..) {
            Self::recycle(&mut filling, message);
        }
        while filling.messages.is_empty() && !filling.closed {
            filling = self.arrived.wait(filling).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut filling.messages, written);
        filling.bytes = 0;
        drop(filling);
        self.swapped.notify_all();
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

    fn recycle(filling: &mut Filling, message: Message) {
        if message.data.len() >= RECYCLED_BYTES_MIN {
            filling.spare[message.topic].push(message.data);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Filling> {
        self.filling.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64, bytes: usize) -> Message {
        Message { topic: 0, sequence, time_nanos: 0, data: vec![0; bytes] }
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let cache = DoubleBuffer::new(1, 100);
        assert!(cache.push(message(1, 60), false));
        assert!(!cache.push(message(2, 60), false));
        assert!(cache.push(message(3, 40), false));
        let mut taken = Vec::new();
        assert!(cache.swap(&mut taken));
        assert_eq!(taken.iter().map(|m| m.sequence).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(cache.dropped(), 1);
        assert!(cache.push(message(4, 1000), false), "one message always fits");
        cache.close();
        assert!(cache.swap(&mut taken));
        assert_eq!(taken[0].sequence, 4);
        assert!(!cache.swap(&mut taken));
    }

    #[test]
    fn a_waiting_producer_goes_on_after_the_swap() {
        let cache = DoubleBuffer::new(1, 100);
        let count = 50;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for sequence in 1..=count {
                    assert!(cache.push(message(sequence, 60), true));
                }
                cache.close();
            });
            let (mut seen, mut taken) = (0, Vec::new());
            while cache.swap(&mut taken) {
                for message in &taken {
                    seen += 1;
                    assert_eq!(message.sequence, seen);
                }
            }
            assert_eq!(seen, count);
        });
    }

    #[test]
    fn large_buffers_come_back() {
        let cache = DoubleBuffer::new(1, 1 << 20);
        let buffer = cache.buffer(0, 1 << 17);
        let address = buffer.as_ptr();
        let message = Message { topic: 0, sequence: 1, time_nanos: 0, data: buffer };
        assert!(cache.push(message, false));
        let mut taken = Vec::new();
        assert!(cache.swap(&mut taken));
        cache.close();
        assert!(!cache.swap(&mut taken));
        let again = cache.buffer(0, 1 << 17);
        assert_eq!(again.as_ptr(), address);
    }
}
