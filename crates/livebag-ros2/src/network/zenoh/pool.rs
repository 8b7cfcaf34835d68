//! Shared memory for large messages that are published.

use std::num::NonZeroUsize;
use std::sync::OnceLock;
use std::time::Duration;

use livebag::Clock;
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::shm::{
    Defragment, GarbageCollect, PosixShmProviderBackend, ShmProvider, ShmProviderBuilder, ZShmMut,
};

use crate::limits::{SHARED_BYTES_MIN, SHARED_POOL_BYTES, SHARED_WAIT};

/// Made when the first large message needs it; nothing if it cannot be made, as in containers whose
/// `/dev/shm` is too small.
#[derive(Debug, Default)]
pub(super) struct Pool(OnceLock<Option<ShmProvider<PosixShmProviderBackend>>>);

impl Pool {
    /// A copy of `data` in shared memory; nothing where [`Pool::room`] has nothing.
    pub(super) fn copied(&self, data: &[u8], may_wait: bool, clock: &Clock) -> Option<ZBytes> {
        let mut room = self.room(data.len(), may_wait, clock)?;
        room.as_mut().copy_from_slice(data);
        Some(room.into())
    }

    /// Shared memory for a message: nothing if it is small, or larger than half of the pool, or if there
    /// is no room. If it `may_wait`, readers get a moment to release some.
    pub(super) fn room(&self, bytes: usize, may_wait: bool, clock: &Clock) -> Option<ZShmMut> {
        if !(SHARED_BYTES_MIN..=SHARED_POOL_BYTES / 2).contains(&bytes) {
            return None;
        }
        let provider = self
            .0
            .get_or_init(|| ShmProviderBuilder::default_backend(SHARED_POOL_BYTES).wait().ok())
            .as_ref()?;
        let size = NonZeroUsize::new(bytes)?;
        let from = clock.monotonic_nanos();
        loop {
            // Takes back only what no reader holds.
            let made = provider.alloc(size).with_policy::<Defragment<GarbageCollect>>().wait();
            if let Ok(room) = made {
                return Some(room);
            }
            let waited = Duration::from_nanos(clock.monotonic_nanos() - from);
            if !may_wait || waited >= SHARED_WAIT {
                return None;
            }
            clock.sleep(Duration::from_micros(500));
        }
    }
}
