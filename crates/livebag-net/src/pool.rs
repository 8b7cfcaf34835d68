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
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// Memory of all answers together: about `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        let permits = bytes_max.div_ceil(PERMIT_BYTES);
        Self { spare: Arc::default(), bytes: Arc::new(Semaphore::new(permits)), bytes_max }
    }

    /// Memory for a piece of about `bytes`. Waits while all answers together have as much as they may.
    pub async fn take(&self, bytes: usize) -> Piece {
        let permits = bytes.clamp(1, self.bytes_max).div_ceil(PERMIT_BYTES) as u32;
        let permit = self.bytes.clone().acquire_many_owned(permits).await;
        let permit = permit.expect("the semaphore is never closed");
        let buffer = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Piece { buffer: buffer.unwrap_or_default(), pool: self.clone(), _permit: permit }
    }
}

impl Piece {
    /// What it holds.
    pub fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
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
