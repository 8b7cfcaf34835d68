//! Recordings, and pushes of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use livebag::{Recorder, RecorderOptions, SplitRules, Topic};

use crate::store::{BUCKET, KEY, SECRET, Store};

/// As `limits.rs` has it.
pub const PART_BYTES: u64 = 8 << 20;

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word) || self.out.contains(word), "no `{word}` in {self:?}");
        }
        assert!(!self.err.contains("panicked"), "{self:?}");
        assert!(!format!("{self:?}").contains(SECRET), "a secret is shown: {self:?}");
        self
    }
}

/// The command, with no settings of the machine's.
pub fn livebag(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_livebag"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.env("TZ", "UTC");
    command.env("AWS_EC2_METADATA_DISABLED", "true").env("AWS_CONFIG_FILE", "/dev/null");
    command.env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null");
    command
}

/// The command with the store's credentials.
pub fn in_store(store: &Store, mut command: Command) -> Command {
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env("AWS_ENDPOINT_URL", &store.endpoint);
    command
}

/// A push to the store.
pub fn push_command(store: &Store, bag: &Path, more: &[&str]) -> Command {
    let target = format!("s3://{BUCKET}/robot7");
    in_store(store, livebag(&[&["push", bag.to_str().unwrap(), &target], more].concat()))
}

pub fn push(store: &Store, bag: &Path, more: &[&str]) -> Ended {
    push_command(store, bag, more).output().unwrap().into()
}

/// A recording with splits: an image of some mebibytes and a small topic. `seed` makes it another one.
pub fn record(folder: &Path, name: &str, mebibytes: usize, seed: u8) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let path = folder.join(name);
    let split = SplitRules { bytes_max: Some(24 << 20), duration_max: None };
    let recorder =
        Recorder::create(&path, RecorderOptions { split, ..RecorderOptions::default() }).unwrap();
    let topic = |name: &str| Topic {
        name: name.into(),
        message_encoding: "cdr".into(),
        ..Topic::default()
    };
    let (image, imu) =
        (recorder.topic(topic("/image")).unwrap(), recorder.topic(topic("/imu")).unwrap());
    let mut noise = u64::from(seed) + 1;
    for number in 0..mebibytes as u64 {
        let words = (0..1 << 17).flat_map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            noise.to_be_bytes()
        });
        image.write(None, number, &words.collect::<Vec<_>>()).unwrap();
        imu.write(None, number, &[seed; 100]).unwrap();
        // Both are in the same split.
        let is_written = || recorder.status().topics.iter().all(|topic| topic.messages > number);
        while !is_written() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    recorder.finish().unwrap();
    path
}

/// All files below a folder but the hidden ones and those that mean something only here, with their contents.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in next.read_dir().unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            if path.is_dir() {
                folders.push(path);
            } else if !name.starts_with('.')
                && !["container.lock", "control.sock"].contains(&&*name)
            {
                let below = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.push((below, std::fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

pub fn bytes(folder: &Path) -> u64 {
    files(folder).iter().map(|(_, contents)| contents.len() as u64).sum()
}

/// The store has the recording, whole, and nothing but it, claim and checksums.
#[track_caller]
pub fn assert_stored(stored: &Path, bag: &Path) {
    let is_extra = |name: &str| name.ends_with(".claim") || name.ends_with(".sha256");
    let stored: Vec<_> = files(stored).into_iter().filter(|(name, _)| !is_extra(name)).collect();
    let here = files(bag);
    let names = |files: &[(String, Vec<u8>)]| {
        files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&stored), names(&here));
    for ((name, stored), (_, here)) in stored.iter().zip(&here) {
        assert!(stored == here, "{name} differs");
    }
}
