//! Writers on several threads, with a running or stopped recorder: every message is taken or counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

use super::{Budget, NewMessage, Overflow, QueueOptions, Queued, TopicQueue, WriteError};
use crate::clock::Clock;
use crate::limits::{OWN_CHUNK_BYTES_MIN, QUEUE_CREDIT_BYTES};

const WRITERS: u64 = 3;
const CACHE_BYTES: u64 = 2 << 20;

fn queue(options: QueueOptions) -> (Arc<Budget>, TopicQueue) {
    let budget = Budget::new(CACHE_BYTES, false);
    let paused = Arc::new(AtomicBool::new(false));
    let clock = Clock::system();
    let queue = TopicQueue::new("/t".into(), 1, options, budget.clone(), clock, paused);
    (budget, queue)
}

fn bytes_of(sequence: u64) -> Vec<u8> {
    let bytes = match sequence % 97 {
        0 => OWN_CHUNK_BYTES_MIN + sequence as usize % 5000,
        1 => 40_000,
        short => 7 * short as usize,
    };
    vec![sequence as u8; bytes]
}

/// One writer's results: accepted, full, closed.
#[derive(Debug, Default)]
struct Told {
    let_in: u64,
    full: u64,
    closed: u64,
}

fn pour(queue: &TopicQueue, writer: u64, messages: u64) -> Told {
    let mut told = Told::default();
    for k in 1..=messages {
        let sequence = writer << 32 | k;
        let data = bytes_of(sequence);
        let message =
            NewMessage { log_time_nanos: None, publish_time_nanos: Some(k), sequence, data: &data };
        match queue.write(&message) {
            Ok(()) => told.let_in += 1,
            Err(WriteError::Full { .. }) => told.full += 1,
            Err(WriteError::Closed { .. }) => told.closed += 1,
            Err(error) => panic!("{error}"),
        }
    }
    told
}

/// Checks taken messages, and returns their room and memory.
#[derive(Default)]
struct Taker {
    taken: u64,
    last_log_time_nanos: u64,
    last: BTreeMap<u64, u64>,
}

impl Taker {
    fn take(&mut self, queue: &TopicQueue, opened_before_nanos: u64) {
        let mut out = VecDeque::new();
        queue.drain(opened_before_nanos, &mut u64::MAX.clone(), &mut out);
        for queued in out {
            assert_eq!(queued.messages(), queued.published());
            for at in 0..queued.messages() as usize {
                let (entry, data) = queued.message(at).unwrap();
                assert!(data == bytes_of(entry.sequence), "whole");
                assert!(entry.log_time_nanos >= self.last_log_time_nanos);
                self.last_log_time_nanos = entry.log_time_nanos;
                let last = self.last.entry(entry.sequence >> 32).or_default();
                assert!(*last < entry.sequence, "each writer's in order, each once");
                *last = entry.sequence;
                self.taken += 1;
            }
            queue.release(queued.held_bytes());
            queue.recycle(queued);
        }
    }
}

fn join(pours: Vec<ScopedJoinHandle<'_, Told>>) -> Told {
    let told = pours.into_iter().map(|pour| pour.join().unwrap());
    told.fold(Told::default(), |sum, told| Told {
        let_in: sum.let_in + told.let_in,
        full: sum.full + told.full,
        closed: sum.closed + told.closed,
    })
}

fn policies() -> impl Iterator<Item = QueueOptions> {
    let bounds = [None, Some(300_000)];
    let overflows = [Overflow::DropNewest, Overflow::DropOldest, Overflow::Block];
    overflows.into_iter().flat_map(move |overflow| {
        bounds.map(|bytes_max| QueueOptions { overflow, bytes_max, ..QueueOptions::default() })
    })
}

/// A recorder that takes, one that looks only, and an end in the middle.
#[test]
fn every_message_is_taken_or_counted() {
    for options in policies() {
        for closes_early in [false, true] {
            let (budget, queue) = queue(options.clone());
            let mut taker = Taker::default();
            let done = AtomicU64::new(0);
            let told = std::thread::scope(|scope| {
                let pours = (0..WRITERS).map(|writer| {
                    let (queue, done) = (&queue, &done);
                    scope.spawn(move || {
                        let told = pour(queue, writer, 3000);
                        done.fetch_add(1, Ordering::Relaxed);
                        told
                    })
                });
                let pours: Vec<_> = pours.collect();
                let mut turn = 0_u64;
                while done.load(Ordering::Relaxed) < WRITERS {
                    turn += 1;
                    if turn.is_multiple_of(3) {
                        taker.take(&queue, turn);
                    }
                    if turn.is_multiple_of(16) {
                        queue.waiting();
                        taker.take(&queue, u64::MAX);
                    }
                    if closes_early && taker.taken > 1000 {
                        queue.close();
                        taker.take(&queue, u64::MAX);
                    }
                    std::thread::yield_now();
                }
                join(pours)
            });
            queue.close();
            taker.take(&queue, u64::MAX);
            let [dropped, gaps, skipped] = queue.counts();
            let published = told.let_in + told.full;
            assert_eq!(taker.taken + dropped, published, "{options:?} {told:?}");
            assert_eq!((gaps, skipped), (0, 0));
            assert_eq!(told.let_in + told.full + told.closed, WRITERS * 3000);
            if options.overflow == Overflow::Block {
                assert_eq!(dropped, 0);
            }
            if !closes_early {
                assert_eq!(told.closed, 0);
            }
            assert_eq!(queue.waiting(), (0, None));
            assert!(budget.used_bytes() <= 2 * QUEUE_CREDIT_BYTES, "{}", budget.used_bytes());
        }
    }
}

/// Evicts until a message fits that needs more than the topic's share.
#[test]
fn the_oldest_make_way_for_a_giant() {
    for (bytes_max, messages) in [(None, 1500), (Some(100_000), 90)] {
        let overflow = Overflow::DropOldest;
        let (_, queue) = queue(QueueOptions { overflow, bytes_max, ..QueueOptions::default() });
        assert_eq!(pour(&queue, 0, messages).let_in, messages);
        let data = vec![7; 2 * CACHE_BYTES as usize];
        let giant = NewMessage {
            log_time_nanos: None,
            publish_time_nanos: Some(1),
            sequence: 1,
            data: &data,
        };
        assert_eq!(queue.write(&giant), Ok(()));
        assert_eq!(queue.counts()[0], messages);
        let mut out = VecDeque::new();
        queue.drain(u64::MAX, &mut u64::MAX.clone(), &mut out);
        assert!(matches!(out.pop_front(), Some(Queued::Own(extent)) if extent.data() == data));
        assert!(out.is_empty());
    }
}
