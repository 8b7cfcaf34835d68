//! Writes in flight on a simulated disk.

use std::io;
use std::time::Duration;

use super::fault::Operation;
use super::{PendingWrite, SimulatedDisk};
use crate::storage::{Completion, Part, Write, WriteQueue};

pub(super) struct SimulatedQueue {
    pub(super) disk: SimulatedDisk,
    pub(super) waiting: Vec<(u64, Write)>,
    /// Chance that a completion is the last one that the caller gets just now.
    pub(super) lingers_percent: u64,
}

fn bytes_of(parts: &[Part]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        match part {
            Part::Block(block) => bytes.extend_from_slice(block),
            Part::Slot(frame, count) => {
                let start = bytes.len();
                bytes.resize(start + frame.payload_bytes().max(*count), 0);
                // Torn or not, as the real disk would take it.
                frame.copy_to(&mut bytes[start..start + frame.payload_bytes()]);
                // The last bytes of a payload may be another part's.
                bytes.truncate(start + count);
            }
        }
    }
    bytes
}

impl WriteQueue for SimulatedQueue {
    fn submit(&mut self, write: Write) {
        let inode = write.file.simulated().expect("a file of the simulated disk");
        let bytes = bytes_of(&write.parts);
        let mut state = self.disk.lock_state();
        let number = state.next_pending;
        state.next_pending += 1;
        state.pending.insert(number, PendingWrite { inode, offset: write.offset, bytes });
        drop(state);
        self.waiting.push((number, write));
    }

    fn reap(&mut self, _wait: Duration, done: &mut Vec<Completion>) -> io::Result<()> {
        let mut state = self.disk.lock_state();
        state.faults.admit_reap()?;
        while !self.waiting.is_empty() && !state.stalls {
            let pick = state.random.below(self.waiting.len() as u64) as usize;
            let (number, write) = self.waiting.swap_remove(pick);
            let result = state.admit(Operation::Write);
            let pending = state.pending.remove(&number).expect("submitted above");
            let kept = if result.is_ok() { pending.bytes.len() } else { pending.bytes.len() / 2 };
            state.inode(pending.inode).write(&pending.bytes[..kept], pending.offset);
            done.push(Completion { token: write.token, result, parts: write.parts });
            // Some stay in flight, so that the caller sees them overtaken by later ones.
            if state.random.chance(self.lingers_percent) {
                break;
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.waiting.len()
    }
}
