//! The demonstration's result.

use std::io::Write;

use livebag::Container;
use serde::Serialize;

use super::plan::Plan;
use super::watch::{QueryReport, Watch};
use crate::color::{self, To, Tone};
use crate::outcome::CliError;
use crate::report::{self, Lost, TopicReport};
use crate::{files, text};

/// Printed at the end.
#[derive(Serialize)]
pub struct Summary {
    path: String,
    /// Bytes of the container's files.
    #[serde(rename = "size_bytes")]
    disk_bytes: u64,
    /// FullHD cameras that were simulated.
    cameras: u32,
    /// From the first to the last message.
    #[serde(rename = "duration_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
    message_count: u64,
    /// Bytes of the messages.
    #[serde(rename = "message_bytes")]
    bytes: u64,
    gb_per_s: f64,
    lost: Lost,
    /// Processor time of the recorder's process; null if unknown.
    recorder_cpu_s: Option<f64>,
    cpu_s_per_gb: Option<f64>,
    /// The disk's speed as measured before.
    disk_gb_per_s: f64,
    /// The choices and their reasons.
    notes: Vec<String>,
    query: QueryReport,
    topics: Vec<TopicReport>,
}

impl Summary {
    pub fn new(
        plan: &Plan,
        bag: &Container,
        recorder_cpu_s: Option<f64>,
        watch: &Watch,
    ) -> Result<Self, CliError> {
        let topics = report::topics(bag)?;
        let bytes: u64 = topics.iter().map(|topic| topic.bytes).sum();
        let range = bag.time_range()?;
        let duration_s = range.map_or(0.0, |(first, last)| (last - first) as f64 / 1e9);
        let gb = bytes as f64 / 1e9;
        let files = files::list(&plan.directory)?;
        Ok(Self {
            path: plan.directory.display().to_string(),
            disk_bytes: files.iter().map(|(_, bytes)| bytes).sum(),
            cameras: plan.cameras,
            duration_s,
            message_count: topics.iter().map(|topic| topic.message_count).sum(),
            bytes,
            gb_per_s: gb / duration_s.max(1e-9),
            lost: (&bag.account()?).into(),
            recorder_cpu_s,
            cpu_s_per_gb: recorder_cpu_s.filter(|_| gb > 0.0).map(|cpu_s| cpu_s / gb),
            disk_gb_per_s: plan.disk_bytes_per_s / 1e9,
            notes: plan.notes.clone(),
            query: watch.report(),
            topics,
        })
    }

    /// Messages lost.
    pub fn lost(&self) -> u64 {
        self.lost.total()
    }

    pub fn print(&self, json: bool) -> Result<(), CliError> {
        let mut out = std::io::stdout().lock();
        if json {
            writeln!(out, "{}", serde_json::to_string_pretty(self)?)?;
        } else {
            write!(out, "{}", self.render())?;
        }
        Ok(())
    }

    fn render(&self) -> String {
        let mut out = format!("\n{}\n", report::table(&self.topics));
        let lost = match self.lost.total() {
            0 => "0 lost".to_owned(),
            _ => color::paint(To::Out, Tone::Bad, &format!("{} lost", self.lost.cell())),
        };
        let mut line = |name: &str, value: String| out.push_str(&format!("{name:<10}{value}\n"));
        line(
            "recorded",
            format!(
                "{}, {} in {:.1} s: {}, {lost}",
                text::messages(self.message_count),
                text::bytes(self.bytes as f64),
                self.duration_s,
                text::bytes_per_second(self.gb_per_s * 1e9),
            ),
        );
        if let (Some(cpu_s), Some(per_gb)) = (self.recorder_cpu_s, self.cpu_s_per_gb) {
            let share = cpu_s / self.duration_s.max(1e-9) * 100.0;
            let value = format!(
                "{cpu_s:.2} s of processor time, {per_gb:.3} s per GB ({share:.0} % of a core)"
            );
            line("recorder", value);
        }
        line("query", self.query_line());
        line("bag", format!("{} ({})", self.path, text::bytes(self.disk_bytes as f64)));
        out.push_str(&self.further());
        out
    }

    fn query_line(&self) -> String {
        let query = &self.query;
        if query.count == 0 {
            return "the recording was too short to ask".to_owned();
        }
        let read = match query.read_topics.len() {
            0 => String::new(),
            topics => format!(
                "; {} of {} read whole in {:.1} ms",
                text::messages(query.read_messages),
                text::plural(topics, "topic"),
                query.read_ms_median
            ),
        };
        format!(
            "the last second, asked {} times while recording: found in {:.1} ms (at most {:.1}), first \
             message read after {:.1} ms, the newest {:.0} ms old (at most {:.0}){read}",
            query.count,
            query.plan_ms_median,
            query.plan_ms_max,
            query.first_message_ms_median,
            query.newest_age_ms_median,
            query.newest_age_ms_max,
        )
    }

    /// Command lines with which to look further.
    fn further(&self) -> String {
        let path = &self.path;
        let topic = self.topics.first().map_or("/imu/data", |topic| topic.name.as_str());
        format!(
            "\nLook further (the command is {program}):\n  \
             livebag info {path}\n  \
             livebag query {path} latest --last 1s --json\n  \
             livebag query {path} history --from +1s --to +2s -t {topic} -o second.mcap\n  \
             livebag play {path} --loop\n  \
             livebag convert {path} {path}-rosbag2 --storage mcap\n\
             Remove it:\n  rm -r {path}\n",
            program = program(),
        )
    }
}

/// This program as the user may call it.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| "livebag".into());
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(&path).display().to_string()
}
