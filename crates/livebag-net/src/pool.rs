//! Memory of answers, kept between them and bounded over all of them.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use livebag::Buffer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::{SPARE_PIECE_BYTES_MAX, SPARE_PIECES_MAX};

/// What a permit of the semaphore stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// Where pieces of answers get their memory.
#[derive(Clone)]
pub struct Pool {
    spare: Arc<Mutex<Vec<Buffer>>>,
    bytes: Arc<Semaphore>,
    bytes_max: usize,
}

/// A piece of an answer; its memory goes back once the network has it.
pub struct Piece {
    buffer: Buffer,
    pool: Pool,
    permit: Option<OwnedSemaphorePermit>,
}

impl Pool {
    /// Memory of all answers together: about `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let permits = bytes_max.div_ceil(PERMIT_BYTES);
        Self { spare: Arc::default(), bytes: Arc::new(Semaphore::new(permits)), bytes_max }
    }

    /// Memory for a piece of about `bytes`. Waits while all answers together have as much as they may.
    pub async fn take(&self, bytes: usize) -> Piece {
        let permit = Some(self.permit(bytes).await);
        let buffer = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Piece { buffer: buffer.unwrap_or_default(), pool: self.clone(), permit }
    }

    async fn permit(&self, bytes: usize) -> OwnedSemaphorePermit {
        let permits = bytes.clamp(1, self.bytes_max).div_ceil(PERMIT_BYTES) as u32;
        let permit = self.bytes.clone().acquire_many_owned(permits).await;
        permit.expect("the semaphore is never closed")
    }
}

impl Piece {
    /// What it holds.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Waits until there is room for what it has come to hold, where that is more than was taken: a
    /// message may be larger than a piece.
    pub async fn settle(&mut self) {
        let held = self.permit.as_ref().map_or(0, |permit| permit.num_permits() * PERMIT_BYTES);
        if self.buffer.len() > held {
            // Given back first: who holds some and waits for more could wait for ever.
            self.permit = None;
            self.permit = Some(self.pool.permit(self.buffer.len()).await);
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
