//! How far a recording is pushed while it is made, as `record --push`'s children tell it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use livebag_net::tell::PushStatus;
use serde::Deserialize;

use crate::text;

/// How it goes, for any thread: whoever asks waits for nobody.
#[derive(Clone)]
pub struct PushView(Arc<Mutex<Told>>);

/// What the children have told.
#[derive(Default)]
pub struct Told {
    pub status: PushStatus,
    /// The last failure of the child that runs.
    pub failure: Option<String>,
    /// One that was not said yet.
    pub unsaid: Option<String>,
    /// How many of the first splits are in the target.
    pub split_count: u32,
    /// The recording's address in the target, once it is complete there.
    pub address: Option<String>,
    /// Whether it was removed from this disk then.
    pub is_deleted: bool,
    /// Where the child that pushes closed splits takes `pause` and `resume`.
    pub orders: Option<ChildStdin>,
}

/// What is read of a line of `push --json`.
#[derive(Deserialize)]
struct Line {
    state: String,
    address: Option<String>,
    size_bytes: Option<u64>,
    stored_bytes: Option<u64>,
    split_count: Option<u32>,
    error: Option<String>,
}

impl PushView {
    /// Nothing has been pushed.
    pub fn new(target: &str) -> Self {
        let (target, state) = (target.to_owned(), "waiting".to_owned());
        let status = PushStatus { target, state, ..PushStatus::default() };
        Self(Arc::new(Mutex::new(Told { status, ..Told::default() })))
    }

    /// How it goes now.
    pub fn status(&self) -> PushStatus {
        self.told().status.clone()
    }

    /// Has what is sent wait after the part in flight, or go on.
    pub fn pause(&self, paused: bool) {
        let mut told = self.told();
        told.status.paused = paused;
        let order: &[u8] = if paused { b"pause\n" } else { b"resume\n" };
        // A child that has died pauses as well.
        let _ = told.orders.as_mut().map(|orders| orders.write_all(order));
    }

    /// That it failed.
    pub fn fail(&self, error: &str) {
        fail(&mut self.told().status, error);
    }

    /// Held for moments only.
    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a child says.
    fn take(&self, line: Line) {
        let Line { state, address, size_bytes, stored_bytes, split_count, error } = line;
        let mut told = self.told();
        told.split_count = split_count.unwrap_or(told.split_count);
        match &*state {
            "pushed" => told.address = address,
            "deleted" => {
                told.is_deleted = true;
                return;
            }
            _ => {}
        }
        if let Some(error) = error {
            fail(&mut told.status, &error);
            (told.failure, told.unsaid) = (Some(error.clone()), Some(error));
            return;
        }
        let status = &mut told.status;
        let stored_bytes = stored_bytes.unwrap_or_default();
        // A failure that lasts is said once, while what failed is tried again and again.
        if status.error.is_none() || state != "pushing" || stored_bytes > status.stored_bytes {
            let size_bytes = size_bytes.unwrap_or_default();
            (status.size_bytes, status.stored_bytes) = (size_bytes, stored_bytes);
            (status.state, status.error) = (state, None);
        }
    }
}

fn fail(status: &mut PushStatus, error: &str) {
    (status.state, status.error) = ("failed".to_owned(), Some(error.to_owned()));
}

/// Reads what a child prints, until it ends.
pub fn listen(lines: impl Read, view: &PushView) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        if let Ok(line) = serde_json::from_str(&line) {
            view.take(line);
        }
    }
}

/// `1.2 GB of 3.4 GB pushed`.
pub fn amount(push: &PushStatus) -> String {
    let bytes = |bytes: u64| text::bytes(bytes as f64);
    match push.size_bytes {
        0 => "nothing pushed yet".to_owned(),
        size if size == push.stored_bytes => format!("{} pushed", bytes(size)),
        size => format!("{} of {} pushed", bytes(push.stored_bytes), bytes(size)),
    }
}

/// How it goes, in a sentence.
pub fn words(push: &PushStatus) -> String {
    let paused = if push.paused { "; paused" } else { "" };
    let failure = push.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    format!("{} to {}{paused}{failure}", amount(push), push.target)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tell(view: &PushView, line: serde_json::Value) -> PushStatus {
        view.take(serde_json::from_value(line).unwrap());
        view.status()
    }

    #[test]
    fn a_failure_is_shown_until_more_has_arrived() {
        let view = PushView::new("s3://fleet/robot7");
        assert_eq!(words(&view.status()), "nothing pushed yet to s3://fleet/robot7");
        let pushing = |stored: u64| json!({"state": "pushing", "size_bytes": 3_400_000, "stored_bytes": stored});
        let status = tell(&view, pushing(1_200_000));
        assert_eq!(words(&status), "1.20 MB of 3.40 MB pushed to s3://fleet/robot7");
        let failed = tell(&view, json!({"state": "failed", "error": "the store is full"}));
        assert_eq!(failed.state, "failed");
        assert_eq!(
            words(&failed),
            "1.20 MB of 3.40 MB pushed to s3://fleet/robot7: the store is full"
        );
        assert_eq!(view.told().unsaid.take().as_deref(), Some("the store is full"));
        // It is tried again, and fails again.
        assert_eq!(tell(&view, pushing(0)), failed);
        assert_eq!(tell(&view, pushing(1_200_000)), failed);
        let status = tell(&view, pushing(1_200_001));
        assert_eq!((&*status.state, status.error), ("pushing", None));
        tell(&view, json!({"state": "failed", "error": "the store is full"}));
        let done = json!({"state": "splits_pushed", "size_bytes": 1000, "stored_bytes": 1000});
        let status = tell(&view, done);
        assert_eq!((amount(&status), status.error), ("1.00 kB pushed".to_owned(), None));
    }
}
