//! What a link gets that cannot carry everything: the newest message of each subscription, in turns.

/// Messages that wait for a subscription.
pub struct Waiting {
    /// Bytes of each, oldest first.
    pub bytes: Vec<usize>,
    /// When the subscription was last given something: the longest without goes first.
    pub served: u64,
}

/// How many of the newest messages of each subscription are sent within `budget` bytes. The subscription that has
/// waited longest gets its newest message, whatever its size; the others get theirs as far as they fit, then older
/// ones. One that gets nothing loses nothing: its messages wait for the next turn.
pub fn choose(waiting: &[Waiting], budget: usize) -> Vec<usize> {
    let mut taken = vec![0; waiting.len()];
    let mut order: Vec<usize> = (0..waiting.len()).collect();
    order.retain(|at| !waiting[*at].bytes.is_empty());
    order.sort_by_key(|at| waiting[*at].served);
    let mut left = budget;
    let mut is_first = true;
    loop {
        let mut has_any = false;
        for &at in &order {
            let bytes = &waiting[at].bytes;
            let depth = taken[at];
            let next = bytes.len().checked_sub(depth + 1).map(|place| bytes[place]);
            let Some(next) = next.filter(|next| *next <= left || is_first) else { continue };
            // A subscription whose newest does not fit gets no older ones either.
            taken[at] += 1;
            left = left.saturating_sub(next);
            is_first = false;
            has_any = true;
        }
        if !has_any {
            return taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(bytes: &[usize], served: u64) -> Waiting {
        Waiting { bytes: bytes.to_vec(), served }
    }

    #[test]
    fn what_fits_is_taken_whole() {
        let all = [waiting(&[10, 20], 0), waiting(&[], 0), waiting(&[5, 5, 5], 3)];
        assert_eq!(choose(&all, 45), [2, 0, 3]);
    }

    #[test]
    fn the_newest_come_first_and_the_longest_without_gets_its_own_whatever_its_size() {
        let all = [waiting(&[1, 1, 1], 9), waiting(&[1000, 1000], 2), waiting(&[3000], 5)];
        assert_eq!(choose(&all, 10), [0, 1, 0]);
        assert_eq!(choose(&all, 1001), [1, 1, 0]);
        assert_eq!(choose(&all, 1002), [2, 1, 0]);
    }

    #[test]
    fn nobody_waits_for_ever() {
        let mut served = [0u64; 3];
        let mut turns = [0; 3];
        for turn in 1..=30 {
            let all = served.map(|served| waiting(&[100], served));
            for (at, count) in choose(&all, 100).into_iter().enumerate().filter(|(_, n)| *n > 0) {
                served[at] = turn;
                turns[at] += count;
            }
        }
        assert_eq!(turns, [10, 10, 10]);
    }
}
