//! How many sockets there are at once, in all and of one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::LIVE_SOCKETS_PER_ADDRESS_MAX;

/// The sockets of a server.
pub struct Seats {
    by_address: Mutex<HashMap<IpAddr, usize>>,
    count_max: usize,
}

/// The right to one socket; given back when it is dropped.
pub struct Seat {
    seats: Arc<Seats>,
    peer: IpAddr,
}

impl Seats {
    /// This many at once.
    pub fn new(count_max: usize) -> Self {
        Self { by_address: Mutex::default(), count_max }
    }

    /// One for an asker at `peer`; `None` if there are too many, in all or from there.
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Seat> {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = by_address.get(&peer).copied().unwrap_or(0);
        let is_crowded = of_peer >= LIVE_SOCKETS_PER_ADDRESS_MAX && !peer.is_loopback();
        if is_crowded || by_address.values().sum::<usize>() >= self.count_max {
            return None;
        }
        *by_address.entry(peer).or_default() += 1;
        drop(by_address);
        Some(Seat { seats: self.clone(), peer })
    }

    /// Sockets at the moment.
    pub fn count(&self) -> usize {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut by_address = self.seats.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_bounded_in_all_and_by_address_and_given_back() {
        let seats = Arc::new(Seats::new(LIVE_SOCKETS_PER_ADDRESS_MAX + 2));
        let (far, near) = ("10.0.0.7".parse().unwrap(), "127.0.0.1".parse().unwrap());
        let mut held: Vec<_> =
            (0..LIVE_SOCKETS_PER_ADDRESS_MAX).map(|_| seats.take(far).unwrap()).collect();
        assert!(seats.take(far).is_none());
        held.extend([seats.take(near).unwrap(), seats.take(near).unwrap()]);
        assert!(seats.take(near).is_none());
        drop(held);
        assert_eq!(seats.count(), 0);
        assert!(seats.take(far).is_some());
    }
}
