//! Shared by the tests.
#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test file uses its part, and one that uses all would fail an expect"
)]

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use livebag_shm::{Liveness, Reader, StreamOptions};

/// Longer than anything takes that does not hang.
pub const MOMENT: Duration = Duration::from_secs(20);

/// A stream name that no other test uses.
pub fn unique(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("test-{label}-{}-{count}", std::process::id())
}

/// Removes a stream, whatever became of its writer, when the test ends.
pub struct Removed(pub String);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = livebag_shm::remove(&self.0);
    }
}

/// A stream of bytes that goes with its writer.
pub fn bytes(payload_bytes_max: usize) -> StreamOptions {
    StreamOptions::bytes(payload_bytes_max).remove_on_drop(true)
}

pub fn main_path(name: &str) -> String {
    format!("/dev/shm/livebag.{name}")
}

/// Deletes a file of `/dev/shm` behind the library's back.
pub fn delete(path: &str) {
    #[expect(clippy::disallowed_methods, reason = "a hand from outside")]
    let _ = std::fs::remove_file(path);
}

/// The pattern of docs/stream-layout.md, section 7.
pub fn fill(sequence: u64, payload: &mut [u8]) {
    for (index, chunk) in payload.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(sequence, index)[..chunk.len()]);
    }
}

pub fn is_right(sequence: u64, payload: &[u8]) -> bool {
    payload
        .chunks(8)
        .enumerate()
        .all(|(index, chunk)| *chunk == word(sequence, index)[..chunk.len()])
}

fn word(sequence: u64, index: usize) -> [u8; 8] {
    sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(index as u64).to_le_bytes()
}

/// Tries until it holds, or the test hangs for too long.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let step = Duration::from_millis(1);
    for _ in 0..MOMENT.as_millis() {
        if holds() {
            return;
        }
        std::thread::sleep(step);
    }
    panic!("in vain: {what}");
}

/// Opens a stream as soon as it exists.
pub fn open(name: &str) -> Reader {
    let mut opened = None;
    until("open the stream", || {
        opened = Reader::open(name).ok();
        opened.is_some()
    });
    opened.expect("until it was opened")
}

pub fn until_gone(reader: &Reader) {
    until("the writer's lock goes", || reader.liveness(MOMENT) == Liveness::Gone);
}

/// This test program again, running one of its tests as a child: `role` is the test's name, and
/// `argument` what [`role_argument`] gives it. Killed when dropped.
pub struct Role(Child);

const ARGUMENT: &str = "LIVEBAG_TEST_ROLE";

impl Role {
    pub fn start(role: &str, argument: &str) -> Role {
        let program = std::env::current_exe().expect("a test program has a path");
        let child = Command::new(program)
            .args(["--exact", role, "--test-threads=1"])
            .env(ARGUMENT, argument)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Role(child.expect("a child starts"))
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }

    pub fn has_succeeded(mut self) -> bool {
        self.0.wait().expect("a child can be waited for").success()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The argument when this process is a child in a role; None in the test run itself, where a
/// role's test has nothing to do.
pub fn role_argument() -> Option<String> {
    std::env::var(ARGUMENT).ok()
}

/// Small numbers without a pattern, from a seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A thread with a name.
pub fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new().name("test".to_owned()).spawn(body).expect("a thread starts")
}
