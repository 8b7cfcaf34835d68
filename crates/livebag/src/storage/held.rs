//! A disk whose writes hang as long as a test requires.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::{Completion, Write, WriteQueue};

/// Hands nothing over while a file exists.
pub(super) struct HeldQueue {
    inner: Box<dyn WriteQueue>,
    file: PathBuf,
    waiting: VecDeque<Write>,
}

impl HeldQueue {
    pub(super) fn new(inner: Box<dyn WriteQueue>, file: PathBuf) -> Self {
        Self { inner, file, waiting: VecDeque::new() }
    }
}

impl WriteQueue for HeldQueue {
    fn submit(&mut self, write: Write) {
        self.waiting.push_back(write);
    }

    fn reap(&mut self, wait: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        if !self.file.exists() {
            self.waiting.drain(..).for_each(|write| self.inner.submit(write));
        }
        self.inner.reap(wait, done)
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.waiting.len()
    }
}
