//! The least that giving a message away can cost: one copy of it.

use super::{Found, Series};
use crate::clock;
use crate::error::Result;
use crate::frame;
use crate::stats::Durations;

/// Buffers copied into in turn, about as many as a recorder has in flight.
const BUFFERS: usize = 16;

/// Copies the whole series.
pub fn by_copy(series: Series) -> Result<Found> {
    let mut data = vec![0; series.payload_bytes];
    frame::fill(&mut data, 1);
    let mut buffers = vec![data.clone(); BUFFERS];
    let mut handling = Durations::new();
    let mut handling_nanos = 0;
    series.pace(|sequence| {
        let buffer = &mut buffers[sequence as usize % BUFFERS];
        let start = clock::monotonic_nanos();
        buffer.copy_from_slice(&data);
        std::hint::black_box(&mut *buffer);
        let nanos = clock::monotonic_nanos() - start;
        handling.record(nanos);
        handling_nanos += nanos;
        Ok(())
    })?;
    let messages = series.count();
    Ok(Found { messages, handling_nanos, preparation_nanos: 0, syscall_nanos: 0, handling })
}
