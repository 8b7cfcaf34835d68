//! Memory for answers: one bound for all of them; a free list between them; given back to the system when idle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use livebag::Buffer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{SPARE_PIECE_BYTES_MAX, SPARE_PIECES_MAX};

/// Bytes for each permit of the semaphore.
const PERMIT_BYTES: usize = 1 << 10;

/// Where pieces of answers get their memory.
#[derive(Clone)]
pub struct Pool {
    spare: Arc<Mutex<Vec<Buffer>>>,
    bytes: Arc<Semaphore>,
    bytes_max: usize,
    /// Bytes that were ever taken.
    taken: Arc<AtomicU64>,
    /// One large message is decoded at a time: its values take many times its bytes.
    decoding: Arc<Mutex<()>>,
}

/// A piece of an answer; its memory goes back once the network has it.
pub struct Piece {
    buffer: Buffer,
    pool: Pool,
    permit: Option<OwnedSemaphorePermit>,
}

impl Pool {
    /// Memory of all answers together: `bytes_max`, or one message where that is larger.
    pub fn new(bytes_max: usize) -> Self {
        let permits = bytes_max.div_ceil(PERMIT_BYTES);
        let bytes = Arc::new(Semaphore::new(permits));
        Self {
            spare: Arc::default(),
            bytes,
            bytes_max,
            taken: Arc::default(),
            decoding: Arc::default(),
        }
    }

    /// Memory for a piece of about `bytes`. Waits while all answers together have reached the limit.
    pub async fn take(&self, bytes: usize) -> Piece {
        let permit = self.permit(bytes).await;
        let held = held(&permit);
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        // A larger one would hold more than the permit counts.
        let fitting = spare.iter().position(|buffer| buffer.capacity() <= held);
        let buffer = fitting.map(|at| spare.swap_remove(at)).unwrap_or_default();
        Piece { buffer, pool: self.clone(), permit: Some(permit) }
    }

    /// The right to decode a large message.
    pub fn decoding(&self) -> &Mutex<()> {
        &self.decoding
    }

    /// Bytes that answers hold at the moment.
    pub fn held_bytes(&self) -> usize {
        let permits = self.bytes_max.div_ceil(PERMIT_BYTES);
        permits.saturating_sub(self.bytes.available_permits()) * PERMIT_BYTES
    }

    /// Bytes that answers have ever taken.
    pub fn taken_bytes(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Forgets the memory that is kept for the next answers.
    pub fn forget_spares(&self) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn permit(&self, bytes: usize) -> OwnedSemaphorePermit {
        let permits = bytes.clamp(1, self.bytes_max).div_ceil(PERMIT_BYTES) as u32;
        let permit = self.bytes.clone().acquire_many_owned(permits).await;
        self.taken.fetch_add(u64::from(permits) * PERMIT_BYTES as u64, Ordering::Relaxed);
        permit.expect("the semaphore is never closed")
    }
}

fn held(permit: &OwnedSemaphorePermit) -> usize {
    permit.num_permits() * PERMIT_BYTES
}

impl Piece {
    /// Its contents.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Bytes that it may hold before it must be settled.
    pub fn room(&self) -> usize {
        self.permit.as_ref().map_or(0, held).saturating_sub(self.buffer.len())
    }

    /// Returns unused memory. Waits until there is room for its contents, if they have grown: a message may be larger
    /// than a piece.
    pub async fn settle(&mut self) {
        let wanted = self.buffer.capacity().clamp(1, self.pool.bytes_max).div_ceil(PERMIT_BYTES);
        let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if wanted > has {
            // Released first: an answer that holds some and waits for more could wait forever.
            self.permit = None;
            self.permit = Some(self.pool.permit(wanted * PERMIT_BYTES).await);
        } else if let Some(permit) = &mut self.permit {
            drop(permit.split(has - wanted));
        }
    }

    /// The same for the network, without a copy.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let mut spare = self.pool.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_PIECES_MAX && buffer.capacity() <= SPARE_PIECE_BYTES_MAX {
            spare.push(buffer);
        }
    }
}

/// Returns memory that the C library has kept to the system: after a burst of large answers that is most of their
/// memory.
#[cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "no library gives malloc_trim"))]
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks and moves nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_pieces_hold_is_what_is_counted() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let pool = Pool::new(1 << 20);
            let mut large = pool.take(512 << 10).await;
            assert_eq!((pool.held_bytes(), large.room()), (512 << 10, 512 << 10));
            large.buffer().put(&[7; 300 << 10]);
            large.settle().await;
            assert_eq!(pool.held_bytes(), 300 << 10, "what it does not need is given back");
            large.buffer().put(&[7; 100 << 10]);
            large.settle().await;
            assert_eq!(pool.held_bytes(), 600 << 10, "memory counts, not what lies in it");
            drop(large);
            assert_eq!(pool.held_bytes(), 0);
            let mut small = pool.take(1 << 10).await;
            assert!(
                small.buffer().capacity() <= 1 << 10,
                "no spare that is larger than was counted"
            );
            drop(small);
            assert!(!pool.spare.lock().unwrap().is_empty());
            pool.forget_spares();
            assert!(pool.spare.lock().unwrap().is_empty());
            let huge = pool.take(5 << 20).await;
            assert_eq!(pool.held_bytes(), 1 << 20, "one that is larger than all has all");
            drop(huge);
        });
    }
}
