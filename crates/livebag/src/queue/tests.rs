use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::{Budget, NewMessage, Overflow, Priority, QueueOptions, Queued, TopicQueue, WriteError};
use crate::clock::Clock;
use crate::limits::{CHUNK_BYTES_MIN, OWN_CHUNK_BYTES_MIN, SPARE_BLOCKS_MIN};

fn budget(bytes_max: u64, topics: usize) -> Arc<Budget> {
    let budget = Budget::new(bytes_max, false);
    for _ in 0..topics {
        let share = budget.add_topic();
        assert!(share > 0);
    }
    budget
}

#[test]
fn shares_follow_the_rates_and_leave_half_in_common() {
    let shares = budget(100 << 20, 3).shares(&[300 << 20, 100 << 20, 0]);
    assert!(shares[0] > 2 * shares[1] && shares[1] > shares[2] && shares[2] > 0, "{shares:?}");
    assert!(shares.iter().sum::<u64>() <= (50 << 20) + 1, "{shares:?}");
}

/// Even with a cache of 0, and beside a topic that uses everything.
#[test]
fn every_topic_has_a_share() {
    for bytes_max in [0, 1, 1 << 20] {
        let shares = budget(bytes_max, 3).shares(&[1 << 40, 1, 0]);
        assert!(shares.iter().all(|share| *share >= CHUNK_BYTES_MIN as u64), "{shares:?}");
    }
}

#[test]
fn the_less_important_may_take_less_of_what_is_common() {
    for (priority, fits) in
        [(Priority::Critical, true), (Priority::Normal, true), (Priority::Low, false)]
    {
        let budget = budget(100 << 20, 1);
        assert!(budget.take(1, 1, Priority::Critical), "the first always fits");
        assert_eq!(budget.take(60 << 20, 60 << 20, priority), fits, "{priority:?}");
        assert!(!budget.take(60 << 20, 60 << 20, priority), "{priority:?}");
    }
}

fn queue() -> TopicQueue {
    let budget = Budget::new(64 << 20, false);
    let options = QueueOptions::default();
    let paused = Arc::new(AtomicBool::new(false));
    TopicQueue::new("/t".into(), 1, options, budget, Clock::simulated(7), paused)
}

fn message(data: &[u8]) -> NewMessage<'_> {
    NewMessage { log_time_nanos: None, publish_time_nanos: Some(1), sequence: 0, data }
}

#[test]
fn time_0_is_a_time_and_an_absent_one_is_now() {
    let queue = queue();
    for (log_time_nanos, publish_time_nanos) in
        [(Some(0), Some(0)), (Some(0), None), (Some(5), Some(0)), (None, Some(0)), (None, None)]
    {
        let message = NewMessage { log_time_nanos, publish_time_nanos, sequence: 0, data: b"data" };
        queue.write(&message).unwrap();
    }
    let times: Vec<_> = drained(&queue)
        .iter()
        .flat_map(|queued| (0..queued.messages() as usize).map(move |at| queued.message(at)))
        .map(|message| message.map(|(entry, _)| (entry.log_time_nanos, entry.publish_time_nanos)))
        .collect();
    let now = Clock::simulated(7).wall_nanos();
    assert!(now > 5);
    let expected = [(0, 0), (0, 0), (5, 0), (now, 0), (now, now)];
    assert_eq!(times, expected.map(Some));
}

fn drained(queue: &TopicQueue) -> VecDeque<Queued> {
    let mut out = VecDeque::new();
    queue.drain(u64::MAX, &mut u64::MAX.clone(), &mut out);
    out
}

/// Memory that a device has just read is filled last.
#[test]
fn memory_of_large_messages_is_filled_in_turn() {
    let queue = queue();
    let data = vec![5; OWN_CHUNK_BYTES_MIN];
    // Those that are spare, and the one that is on its way.
    const TURN: usize = SPARE_BLOCKS_MIN + 1;
    let mut addresses = Vec::new();
    for _ in 0..3 * TURN {
        queue.write(&message(&data)).unwrap();
        let Some(Queued::Own(extent)) = drained(&queue).pop_front() else { panic!("a large one") };
        assert_eq!(extent.data(), data);
        addresses.push(extent.block.as_ptr());
        queue.release(extent.block.len() as u64);
        queue.recycle_block(extent.block);
    }
    let (settled, last) = addresses.split_at(2 * TURN);
    let mut one_turn = settled[TURN..].to_vec();
    one_turn.sort_unstable();
    one_turn.dedup();
    assert_eq!(one_turn.len(), TURN, "each once");
    assert_eq!(last, &settled[TURN..], "and then again, in the same order");
}

/// A block that returns with other sizes contains nothing of its old contents.
#[test]
fn reused_memory_tells_nothing_of_its_past() {
    let queue = queue();
    let lone = |bytes: usize, byte: u8| {
        queue.write(&message(&vec![byte; bytes])).unwrap();
        let Some(Queued::Own(extent)) = drained(&queue).pop_front() else { panic!("a large one") };
        let contents = extent.block.to_vec();
        queue.release(extent.block.len() as u64);
        queue.recycle_block(extent.block);
        contents
    };
    lone(OWN_CHUNK_BYTES_MIN + 3000, 0xEE);
    for _ in 0..2 * SPARE_BLOCKS_MIN {
        let contents = lone(OWN_CHUNK_BYTES_MIN, 0x11);
        assert!(!contents.contains(&0xEE));
    }
}

/// A repeat that finds no room is no loss, and neither is an evicted one.
#[test]
fn repeats_are_not_counted_as_lost() {
    for overflow in [Overflow::DropNewest, Overflow::DropOldest, Overflow::Block] {
        let options = QueueOptions { overflow, bytes_max: Some(20_000), ..QueueOptions::default() };
        let paused = Arc::new(AtomicBool::new(false));
        let clock = Clock::simulated(7);
        let queue =
            TopicQueue::new("/t".into(), 1, options, Budget::new(1 << 20, false), clock, paused);
        queue.repeat(&message(&[1; 9_000]));
        queue.repeat(&message(&[2; 9_000]));
        queue.repeat(&message(&[3; 9_000]));
        assert_eq!(queue.counts(), [0, 0, 0]);
        if overflow == Overflow::DropOldest {
            queue.write(&message(&[4; 9_000])).unwrap();
            assert_eq!(queue.counts(), [0, 0, 0], "what made way was recorded before");
        }
        let taken = drained(&queue);
        let published: u64 = taken.iter().map(Queued::published).sum();
        assert_eq!(published, u64::from(overflow == Overflow::DropOldest));
        assert!(taken.iter().map(Queued::messages).sum::<u64>() >= 1);
    }
}

#[test]
fn a_closed_queue_keeps_no_room() {
    let queue = queue();
    queue.close();
    for bytes in [10, OWN_CHUNK_BYTES_MIN] {
        let refused = queue.write(&message(&vec![1; bytes]));
        assert!(matches!(refused, Err(WriteError::Closed { .. })));
    }
    assert_eq!(queue.waiting(), (0, None));
    assert!(drained(&queue).is_empty());
}
