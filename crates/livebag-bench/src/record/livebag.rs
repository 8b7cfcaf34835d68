//! livebag's recorder.

use super::RunOptions;
use super::recorder::Recorded;
use crate::error::{BenchError, Result};

pub fn from_streams(_: &RunOptions) -> Result<Recorded> {
    Err(BenchError::Usage(String::new()))
}
pub fn from_memory(_: &RunOptions) -> Result<Recorded> {
    Err(BenchError::Usage(String::new()))
}
