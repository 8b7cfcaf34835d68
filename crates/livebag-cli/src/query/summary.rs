//! Summary of an answer, from the time index only.

use livebag::Clock;
use serde::Serialize;

use super::answer::Answer;
use crate::outcome::CliError;
use crate::text;

/// An answer. Times are nanoseconds since the Unix epoch.
#[derive(Serialize)]
pub struct Summary {
    message_count: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: Option<u64>,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: Option<u64>,
    /// Between the newest message's log time and now.
    newest_age_nanos: Option<u64>,
    /// Opening the recording and planning the query.
    plan_nanos: u64,
    /// The same and reading the time index.
    total_nanos: u64,
    topics: Vec<TopicSummary>,
}

#[derive(Serialize, Clone)]
struct TopicSummary {
    name: String,
    #[serde(rename = "type")]
    type_name: String,
    message_count: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: u64,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: u64,
}

/// Reads through the rest of an answer. `clock` was made when the command began.
pub fn of(answer: &mut dyn Answer, clock: &Clock, plan_nanos: u64) -> Result<Summary, CliError> {
    let mut topics: Vec<TopicSummary> = Vec::new();
    while let Some(entry) = answer.next()? {
        while topics.len() <= entry.topic {
            let topic = answer.topic(topics.len());
            topics.push(TopicSummary {
                name: topic.name.clone(),
                type_name: topic.type_name.clone(),
                message_count: 0,
                bytes: 0,
                start_nanos: u64::MAX,
                end_nanos: 0,
            });
        }
        let topic = &mut topics[entry.topic];
        topic.message_count += 1;
        topic.bytes += entry.bytes;
        topic.start_nanos = topic.start_nanos.min(entry.log_time_nanos);
        topic.end_nanos = topic.end_nanos.max(entry.log_time_nanos);
    }
    topics.retain(|topic| topic.message_count > 0);
    let end_nanos = topics.iter().map(|topic| topic.end_nanos).max();
    Ok(Summary {
        message_count: topics.iter().map(|topic| topic.message_count).sum(),
        bytes: topics.iter().map(|topic| topic.bytes).sum(),
        start_nanos: topics.iter().map(|topic| topic.start_nanos).min(),
        end_nanos,
        newest_age_nanos: end_nanos.map(|end| clock.wall_nanos().saturating_sub(end)),
        plan_nanos,
        total_nanos: clock.monotonic_nanos(),
        topics,
    })
}

impl Summary {
    /// Messages in the answer.
    pub fn message_count(&self) -> u64 {
        self.message_count
    }

    /// For people. Times of topics are after the recording's start, as `--from` and `--to` take
    /// them: `recording_start_nanos`.
    pub fn render(&self, recording_start_nanos: u64) -> String {
        let after = |nanos: u64| {
            format!("+{:.3} s", nanos.saturating_sub(recording_start_nanos) as f64 / 1e9)
        };
        let mut out = String::new();
        if !self.topics.is_empty() {
            let row = |topic: &TopicSummary| {
                vec![
                    topic.name.clone(),
                    topic.type_name.clone(),
                    text::count(topic.message_count),
                    text::bytes(topic.bytes as f64),
                    after(topic.start_nanos),
                    after(topic.end_nanos),
                ]
            };
            let rows: Vec<_> = self.topics.iter().map(row).collect();
            let head = ["topic", "type?1", ">messages", ">size?2", ">first?3", ">last?4"];
            out.push_str(&text::table(&head, &rows));
            out.push('\n');
        }
        out.push_str(&format!(
            "{}, {}",
            text::messages(self.message_count),
            text::bytes(self.bytes as f64)
        ));
        if let (Some(start), Some(end)) = (self.start_nanos, self.end_nanos) {
            out.push_str(&format!(", from {} to {}", text::time(start), text::time(end)));
        }
        if let Some(age) = self.newest_age_nanos {
            out.push_str(&format!("\nnewest message: {} ago", text::duration(age)));
        }
        out.push_str(&format!(
            "\nopened and planned in {}, answered in {}\n",
            text::duration(self.plan_nanos),
            text::duration(self.total_nanos)
        ));
        out
    }
}
