//! Counts what publishers sent and did not arrive, by their sequence numbers.

use std::collections::HashMap;

use super::EndpointId;
use crate::limits::PUBLISHERS_MAX;

/// The sequence numbers of a topic's publishers. Each has its own count, from 1 on.
#[derive(Debug, Default)]
pub struct Sequences(HashMap<EndpointId, Last>);

/// The latest message of a publisher.
#[derive(Clone, Copy, Debug)]
struct Last {
    sequence: u64,
    /// `None` if not known.
    publish_time_nanos: Option<u64>,
}

/// Meaning of a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A new message; this many before it are missing.
    New {
        /// Messages of the same publisher between the one before and this one.
        lost: u64,
    },
    /// The message came before, or comes late: the gap that it left has been counted.
    Old,
}

impl Sequences {
    /// Takes the sequence number of a message. The first of a publisher tells nothing of those
    /// before: they may have been published before there was a subscription.
    pub fn take(&mut self, publisher: EndpointId, sequence: u64) -> Told {
        self.take_published(publisher, sequence, None)
    }

    /// The same of a message that says when it was published. A number that is not higher than the last, for a message
    /// published later, belongs to a publisher that restarted with its old id.
    pub fn take_published(
        &mut self,
        publisher: EndpointId,
        sequence: u64,
        publish_time_nanos: Option<u64>,
    ) -> Told {
        let next = Last { sequence, publish_time_nanos };
        let Some(last) = self.0.get_mut(&publisher) else {
            if !self.is_full() {
                self.0.insert(publisher, next);
            }
            return Told::New { lost: 0 };
        };
        if sequence > last.sequence {
            let lost = sequence - last.sequence - 1;
            *last = next;
            return Told::New { lost };
        }
        let is_anew =
            last.publish_time_nanos.is_some() && publish_time_nanos > last.publish_time_nanos;
        if is_anew {
            *last = next;
            return Told::New { lost: 0 };
        }
        Told::Old
    }

    /// Whether no further publisher can be followed.
    pub fn is_full(&self) -> bool {
        self.0.len() >= PUBLISHERS_MAX
    }

    /// Forgets publishers that have gone.
    pub fn keep(&mut self, is_there: impl Fn(&EndpointId) -> bool) {
        self.0.retain(|publisher, _| is_there(publisher));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_for_each_publisher_by_itself() {
        let mut sequences = Sequences::default();
        let (a, b) = ([1; 16], [2; 16]);
        assert_eq!(sequences.take(a, 7), Told::New { lost: 0 });
        assert_eq!(sequences.take(b, 1), Told::New { lost: 0 });
        assert_eq!(sequences.take(a, 8), Told::New { lost: 0 });
        assert_eq!(sequences.take(a, 12), Told::New { lost: 3 });
        assert_eq!(sequences.take(b, 2), Told::New { lost: 0 });
        assert_eq!(sequences.take(a, 12), Told::Old);
        assert_eq!(sequences.take(a, 10), Told::Old);
    }

    #[test]
    fn a_publisher_that_begins_anew_is_heard() {
        let mut sequences = Sequences::default();
        let publisher = [1; 16];
        assert_eq!(sequences.take_published(publisher, 900, Some(50)), Told::New { lost: 0 });
        assert_eq!(sequences.take_published(publisher, 900, Some(50)), Told::Old);
        assert_eq!(sequences.take_published(publisher, 899, Some(49)), Told::Old);
        assert_eq!(sequences.take_published(publisher, 1, Some(60)), Told::New { lost: 0 });
        assert_eq!(sequences.take_published(publisher, 3, Some(70)), Told::New { lost: 1 });
        assert_eq!(sequences.take(publisher, 3), Told::Old);
    }

    #[test]
    fn publishers_without_end_are_taken_and_not_followed() {
        let mut sequences = Sequences::default();
        for publisher in 0..2 * PUBLISHERS_MAX as u128 {
            assert_eq!(sequences.take(publisher.to_le_bytes(), 5), Told::New { lost: 0 });
        }
        assert_eq!(sequences.0.len(), PUBLISHERS_MAX);
        sequences.keep(|publisher| publisher[0] == 0);
        assert_eq!(sequences.0.len(), PUBLISHERS_MAX / 256);
    }
}
