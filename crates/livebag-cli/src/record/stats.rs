//! `--stats`: counts by topic and cause, one JSON object a line.

use std::io::Write;

use livebag::{Account, Status};
use livebag_net::tell::PushStatus;
use serde::Serialize;

use crate::outcome::CliError;
use crate::report::Lost;

#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    elapsed_s: f64,
    paused: bool,
    splits: u32,
    cache_bytes: u64,
    slot_bytes: u64,
    push: Option<PushStatus>,
    topics: Vec<Topic<'a>>,
}

#[derive(Serialize)]
struct Topic<'a> {
    name: &'a str,
    #[serde(rename = "message_count")]
    messages: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    repeated: u64,
    lost: Lost,
    skipped: u64,
    account: Account,
}

/// Prints a line.
pub fn print(
    status: &Status,
    push: Option<PushStatus>,
    elapsed_nanos: u64,
) -> Result<(), CliError> {
    let topics = status.topics.iter().map(|topic| Topic {
        name: &topic.name,
        messages: topic.messages,
        bytes: topic.bytes,
        repeated: topic.repeated,
        lost: (&topic.account()).into(),
        skipped: topic.skipped,
        account: topic.account(),
    });
    let line = Line {
        elapsed_s: elapsed_nanos as f64 / 1e9,
        paused: status.paused,
        splits: status.splits,
        cache_bytes: status.cache_bytes,
        slot_bytes: status.slot_bytes,
        push,
        topics: topics.collect(),
    };
    writeln!(std::io::stdout().lock(), "{}", serde_json::to_string(&line)?)?;
    Ok(())
}
