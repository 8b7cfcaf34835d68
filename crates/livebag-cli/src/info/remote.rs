//! What servers and robots tell of their recordings.

use livebag_net::remote::{Address, RemoteError, RemoteServer};
use livebag_net::tell::{RecordingInfo, TopicRow};

use super::Info;
use crate::outcome::CliError;
use crate::place::Told;
use crate::place::Trust;
use crate::report::{Lost, TopicReport};
use crate::text;

/// Of one recording on a server.
pub fn of_server(address: &Address, trust: &Trust) -> Result<Info, CliError> {
    let Some(name) = &address.recording else {
        let error = RemoteError::Address(address.base.clone());
        let text = format!("{error} (`livebag ls {}` lists the recordings)", address.base);
        return Err(CliError::usage(text));
    };
    let info = RemoteServer::new(address, trust.options()?)?.recording(name)?;
    Ok(told(format!("{}/{name}", address.base), "on a server", info))
}

/// Of recordings on Zenoh; those that do not answer are named.
pub fn of_robots(recordings: Vec<Told<RecordingInfo>>) -> Vec<Info> {
    let mut infos = Vec::new();
    for Told { address, told: info } in recordings {
        match info {
            Some(info) => infos.push(told(address, "on Zenoh", info)),
            None => say!("livebag: {address} is announced and does not answer"),
        }
    }
    infos
}

fn told(address: String, storage: &str, info: RecordingInfo) -> Info {
    let account = Some(info.account());
    let RecordingInfo {
        row, library, failure, removed_splits, clock_jumps, events, topics, ..
    } = info;
    let mut warnings = Vec::new();
    if removed_splits > 0 {
        warnings.push(format!(
            "{} were removed to keep within the limits of the recording",
            text::plural(removed_splits as usize, "split"),
        ));
    }
    Info {
        path: address,
        storage: format!("container {storage}"),
        state: row.state,
        failure,
        library,
        profile: row.profile,
        files: None,
        attachments: None,
        events,
        size_bytes: row.size_bytes,
        started_nanos: row.started_nanos,
        start_nanos: row.start_nanos,
        end_nanos: row.end_nanos,
        duration_nanos: row.end_nanos.unwrap_or(0).saturating_sub(row.start_nanos.unwrap_or(0)),
        message_count: row.message_count,
        message_bytes: topics.iter().map(|topic| topic.message_bytes).sum(),
        lost: account.as_ref().map(Lost::from),
        account,
        clock_jumps,
        warnings,
        topics: topics.into_iter().map(topic).collect(),
    }
}

fn topic(row: TopicRow) -> TopicReport {
    let account = row.account();
    TopicReport {
        name: row.name,
        type_name: row.type_name,
        message_encoding: row.message_encoding,
        message_count: row.message_count,
        bytes: row.message_bytes,
        rate_hz: row.rate_hz,
        start_nanos: row.start_nanos,
        end_nanos: row.end_nanos,
        repeated: Some(account.repeated),
        lost: Some((&account).into()),
        account: Some(account),
        writer_returns: row.writer_returns,
        files: None,
    }
}
