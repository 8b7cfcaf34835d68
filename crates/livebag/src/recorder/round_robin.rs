//! Round-robin over topics, by priority.

use crate::queue::Priority;

/// Topics by priority, in another order among equals each time.
#[derive(Default)]
pub(super) struct PriorityRoundRobin {
    topics: Vec<(Priority, usize)>,
    turn: usize,
}

impl PriorityRoundRobin {
    pub fn add(&mut self, priority: Priority, topic: usize) {
        self.topics.push((priority, topic));
        // Stable: equals stay in the order of their coming.
        self.topics.sort_by_key(|(priority, _)| *priority);
    }

    /// The next round: most important topics first, among equals beginning with another one.
    pub fn next(&mut self) -> Vec<usize> {
        self.turn = self.turn.wrapping_add(1);
        let mut round = Vec::with_capacity(self.topics.len());
        for equals in self.topics.chunk_by(|a, b| a.0 == b.0) {
            let (front, back) = equals.split_at(self.turn % equals.len());
            round.extend(back.iter().chain(front).map(|(_, topic)| *topic));
        }
        round
    }
}
