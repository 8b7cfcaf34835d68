use std::sync::Arc;

use super::{Budget, Priority};
use crate::limits::CHUNK_BYTES_MIN;

fn budget(bytes_max: u64, topics: usize) -> Arc<Budget> {
    let budget = Budget::new(bytes_max);
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

/// Also of a cache of nothing, and beside a topic that wants all.
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
