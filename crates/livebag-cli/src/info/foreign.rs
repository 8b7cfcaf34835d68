//! What recordings of other makes hold. Every message is read, because these formats have no index with times and sizes
//! by topic.

use std::path::Path;

use livebag::{ACCOUNT_KEY, Account, REMOVED_KEY};
use livebag_bags::MessageSource;

use super::{AttachmentReport, File, Info};
use crate::files;
use crate::outcome::CliError;
use crate::report::TopicReport;

/// Reads the recording at `path` through.
pub fn read(
    mut source: Box<dyn MessageSource>,
    path: &Path,
    files: Vec<File>,
) -> Result<Info, CliError> {
    let mut topics: Vec<TopicReport> = source.topics().iter().map(blank).collect();
    let bar = crate::convert::bar(source.message_count());
    while let Some(message) = source.next_message()? {
        bar.inc(1);
        let topic = &mut topics[message.topic];
        topic.message_count += 1;
        topic.bytes += message.data.len() as u64;
        topic.start_nanos.get_or_insert(message.log_time_nanos);
        topic.end_nanos = Some(message.log_time_nanos);
    }
    bar.finish_and_clear();
    let mut attachments = Vec::new();
    while let Some(attachment) = source.next_attachment()? {
        attachments.push(AttachmentReport::from(&attachment));
    }
    for topic in &mut topics {
        let range = topic.start_nanos.zip(topic.end_nanos);
        topic.rate_hz = TopicReport::rate(topic.message_count, range);
        topic.account = account_of(&*source, topic);
        topic.lost = topic.account.as_ref().map(Into::into);
        topic.repeated = topic.account.map_or(Some(0), |account| Some(account.repeated));
    }
    let account = account_of_all(&topics);
    let mut warnings = source.warnings().to_vec();
    if account.is_none() && source.lacks_messages() {
        warnings.push("it lacks messages, and it is not known how many".to_owned());
    }
    let custom = source.bag_metadata().map(|bag| &bag.custom_data);
    let splits = custom.and_then(|custom| custom.get(REMOVED_KEY)?.parse().ok());
    if let (Some(splits), Some(account)) = (splits, account) {
        warnings.push(super::removed_splits(splits, account.removed));
    }
    let start_nanos = topics.iter().filter_map(|topic| topic.start_nanos).min();
    let end_nanos = topics.iter().filter_map(|topic| topic.end_nanos).max();
    Ok(Info {
        path: path.display().to_string(),
        storage: storage(&*source, path),
        state: "foreign".into(),
        failure: None,
        library: String::new(),
        profile: source.profile().to_owned(),
        size_bytes: Some(files.iter().map(|file| file.bytes).sum()),
        files: Some(files),
        started_nanos: start_nanos.unwrap_or(0),
        start_nanos,
        end_nanos,
        duration_nanos: end_nanos.unwrap_or(0) - start_nanos.unwrap_or(0),
        message_count: topics.iter().map(|topic| topic.message_count).sum(),
        message_bytes: topics.iter().map(|topic| topic.bytes).sum(),
        lost: account.as_ref().map(Into::into),
        account,
        clock_jumps: None,
        attachments: Some(attachments),
        events: livebag_bags::events(&*source),
        warnings,
        topics,
    })
}

/// What the recorder has counted of a topic of a rosbag2 bag, if it was livebag, and the bag is still the same.
fn account_of(source: &dyn MessageSource, topic: &TopicReport) -> Option<Account> {
    let custom = &source.bag_metadata()?.custom_data;
    let told = custom.get(&format!("{ACCOUNT_KEY}{}", topic.name))?;
    let account: Account = serde_json::from_str(told).ok()?;
    (account.recorded == topic.message_count).then_some(account)
}

/// That of all topics together, if each has one.
fn account_of_all(topics: &[TopicReport]) -> Option<Account> {
    let mut sum = Account::default();
    for topic in topics {
        sum.add(&topic.account?);
    }
    (!topics.is_empty()).then_some(sum)
}

fn blank(topic: &livebag::Topic) -> TopicReport {
    TopicReport {
        name: topic.name.clone(),
        type_name: topic.type_name.clone(),
        message_encoding: topic.message_encoding.clone(),
        message_count: 0,
        bytes: 0,
        rate_hz: None,
        start_nanos: None,
        end_nanos: None,
        repeated: Some(0),
        lost: None,
        account: None,
        writer_returns: 0,
        files: Some(Vec::new()),
    }
}

fn storage(source: &dyn MessageSource, path: &Path) -> String {
    match source.bag_metadata() {
        Some(bag) if path.is_dir() => {
            let compressed = match &*bag.compression_mode.to_ascii_lowercase() {
                "" | "none" => String::new(),
                mode => format!(", compressed by {mode} ({})", bag.compression_format),
            };
            format!("rosbag2 bag, {}{compressed}", bag.storage_identifier)
        }
        _ if path.is_dir() => "rosbag2 bag".into(),
        _ => livebag_bags::RecordingKind::of_file(path).to_string(),
    }
}

/// Those of a recording on this machine.
pub fn files_of(path: &Path) -> Result<Vec<File>, CliError> {
    if path.is_dir() {
        let files = files::list(path)?.into_iter();
        return Ok(files.map(|(name, bytes)| File { name, bytes }).collect());
    }
    let metadata = path.metadata().map_err(|source| CliError::file("looking at", path, source))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(vec![File { name, bytes: metadata.len() }])
}
