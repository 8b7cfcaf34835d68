//! The options of `livebag play`: those of `ros2 bag play`, under its names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap_complete::ArgValueCompleter;
use livebag::{ClockTicks, MessageOrder, PlayOptions};
use livebag_format::rosbag2::QosProfile;

use crate::complete;
use crate::outcome::CliError;
use crate::ros2::NetworkArgs;
use crate::select::{self, When};
use crate::{files, parse};

/// Play recordings into streams, at their recorded pace.
///
/// Image and PointCloud2 messages become native frames, all others stay encoded messages. A stream is named after its
/// topic (/camera/front: camera.front) and is removed at the end. Options use the topics' recorded names, even with
/// --remap.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag play run1                             # into streams\n  \
    livebag play run1 -r 2 -t /imu /camera/front --loop\n  \
    livebag play run1 --ros2 dds --domain 7       # into a ROS 2 network\n\n\
Keys: space pauses and resumes, q ends; --help has the others.")]
#[command(after_long_help = "Examples:\n  \
    livebag play run1\n  \
    livebag play run1 -r 2 -t /imu /camera/front\n  \
    livebag play do.bag --loop --delay 1\n  \
    livebag play robot1/ robot2.mcap -i robot3.bag  # as one, in order of time\n  \
    livebag play run1 --from 21:29:38 --to 21:30:00\n  \
    livebag play run1 --start-offset 60 --playback-duration 10\n  \
    livebag play run1 --playback-until-sec 1700000000.5\n  \
    livebag play run1 -e '^/camera' -x depth --exclude-topics /camera/info\n  \
    livebag play run1 -m /scan:=/old/scan /tf:=/old/tf\n  \
    livebag play run1 --clock 100                   # /clock, 100 times a second\n  \
    livebag play run1 --clock-topics /imu           # … before every such message\n  \
    livebag play run1 --message-order sent\n  \
    livebag play run1 --ros2 dds --domain 7         # into a ROS 2 network\n  \
    livebag play drive.bag --ros2 zenoh --clock     # ROS 1 messages as ROS 2's\n  \
    livebag play run1 --qos-profile-overrides-path qos.yaml\n  \
    livebag play run1 -p --progress-bar-update-rate 10\n  \
    livebag play run1 --read-ahead-queue-size 20000 --json\n\n\
Keys on a terminal: space pauses and resumes, → plays the next message while paused, ↑ and ↓ play\n\
10 % faster and slower, ← or , goes 5 s back and . 5 s ahead, q or Ctrl-C ends.\n\n\
ROS 1 bags, rosbag2 directories and MCAP files are read once before playing.")]
pub struct Args {
    /// The recordings: containers, finished or being recorded, ROS 1 bags, rosbag2 directories or MCAP files, or
    /// addresses in an object store (s3://BUCKET/PREFIX/NAME, …). Several are played as one.
    #[arg(required_unless_present = "input", add = ArgValueCompleter::new(complete::recordings))]
    bags: Vec<PathBuf>,
    /// Another recording.
    #[arg(short, long, value_name = "BAG")]
    input: Vec<PathBuf>,
    /// Speed: 2 is twice as fast as recorded.
    #[arg(short, long, value_name = "RATE", default_value_t = 1.0)]
    pub rate: f64,
    /// Restart at the end, until Ctrl-C.
    #[arg(short = 'l', long = "loop")]
    pub repeat: bool,
    /// Play only these topics.
    #[arg(short, long = "topic", visible_alias = "topics", value_name = "TOPIC", num_args = 1..)]
    #[arg(add = ArgValueCompleter::new(complete::topics))]
    topics: Vec<String>,
    /// Also play topics whose name matches this regular expression anywhere.
    #[arg(short = 'e', long, value_name = "PATTERN")]
    regex: Option<String>,
    /// Leave out topics whose name matches this regular expression anywhere.
    #[arg(short = 'x', long, value_name = "PATTERN")]
    exclude_regex: Option<String>,
    /// Leave out these topics.
    #[arg(long, value_name = "TOPIC", num_args = 1..)]
    exclude_topics: Vec<String>,
    /// Publish topics under other names.
    #[arg(short = 'm', long, value_name = "OLD:=NEW", num_args = 1.., value_parser = remap)]
    remap: Vec<(String, String)>,
    /// Start at this time of the recording: 21:29:38, +10s after its start, RFC 3339, or nanoseconds since
    /// 1970.
    #[arg(long, value_name = "T", value_parser = select::when, conflicts_with = "start_offset")]
    from: Option<When>,
    /// Play up to this time of the recording [default: its end]
    #[arg(long, value_name = "T", value_parser = select::when)]
    #[arg(conflicts_with_all = ["playback_duration", "playback_until_sec", "playback_until_nsec"])]
    to: Option<When>,
    /// Start this long after the recording's first message.
    #[arg(long, value_name = "TIME", value_parser = parse::duration, default_value = "0")]
    start_offset: Duration,
    /// Play this much of the recording. With --playback-until-…, the later end applies.
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    playback_duration: Option<Duration>,
    /// Play up to this time of the recording, in seconds since 1970.
    #[arg(long, value_name = "SECONDS", value_parser = epoch_seconds)]
    playback_until_sec: Option<u64>,
    /// Play up to this time of the recording, in nanoseconds since 1970.
    #[arg(long, value_name = "NANOSECONDS", conflicts_with = "playback_until_sec")]
    #[arg(hide_short_help = true)]
    playback_until_nsec: Option<u64>,
    /// Wait this long before the first message; with --loop before every round.
    #[arg(short, long, value_name = "TIME", value_parser = parse::duration, default_value = "0")]
    delay: Duration,
    /// Start paused; space resumes, → plays one message.
    #[arg(short = 'p', long)]
    pub start_paused: bool,
    /// Publish the recording's time on /clock at this rate, also while paused.
    #[arg(
        long,
        value_name = "HZ",
        num_args = 0..=1,
        default_missing_value = "40",
        value_parser = rate,
        conflicts_with_all = ["clock_topics", "clock_topics_all"]
    )]
    clock: Option<f64>,
    /// Publish the recording's time on /clock before every message of these topics.
    #[arg(long, value_name = "TOPIC", num_args = 1.., conflicts_with = "clock_topics_all")]
    #[arg(hide_short_help = true)]
    clock_topics: Vec<String>,
    /// Publish the recording's time on /clock before every message.
    #[arg(long)]
    #[arg(hide_short_help = true)]
    clock_topics_all: bool,
    /// Order messages by the recorder's time, or by the source's stamp.
    #[arg(long, value_enum, value_name = "TIME", default_value_t = Order::Received)]
    #[arg(hide_short_help = true)]
    message_order: Order,
    /// With --ros2: QoS to offer instead of the recorded QoS (rosbag2's YAML).
    #[arg(long, value_name = "FILE")]
    #[arg(hide_short_help = true)]
    qos_profile_overrides_path: Option<PathBuf>,
    /// Read at most this many messages ahead, and at most 128 MiB.
    #[arg(long, value_name = "MESSAGES", default_value_t = livebag::PLAY_AHEAD_MESSAGES)]
    #[arg(hide_short_help = true)]
    read_ahead_queue_size: usize,
    /// Updates of the progress bar per second; 0 for no bar.
    #[arg(long, value_name = "HZ", default_value_t = 3.0, allow_negative_numbers = true)]
    #[arg(hide_short_help = true)]
    pub progress_bar_update_rate: f64,
    /// Do not listen to the keyboard.
    #[arg(long)]
    #[arg(hide_short_help = true)]
    pub disable_keyboard_controls: bool,
    /// At the end, wait up to this long for reliable subscriptions to acknowledge all messages, in milliseconds
    /// [default: 10000]
    #[arg(long, value_name = "MS", requires = "ros2")]
    #[arg(hide_short_help = true)]
    pub wait_for_all_acked: Option<u64>,
    /// Print the result as one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rosbag2: Rosbag2Names,
    /// Where it is played to, other than streams.
    #[command(flatten)]
    pub network: NetworkArgs,
}

/// Options of `ros2 bag play` that have another name, or no meaning, here.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Names of ros2 bag play")]
pub struct Rosbag2Names {
    /// No effect: livebag recognises a recording by its contents.
    #[arg(short, long, value_name = "STORAGE", hide_short_help = true)]
    storage: Option<String>,
    /// No effect: reading needs no configuration.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    storage_config_file: Option<String>,
    /// No effect: livebag has no log levels.
    #[arg(long, value_name = "LEVEL", hide_short_help = true)]
    log_level: Option<String>,
    /// No effect: messages are not loaned.
    #[arg(long, hide_short_help = true)]
    disable_loan_message: bool,
    /// No effect: the progress bar is one line.
    #[arg(long, value_name = "N", hide_short_help = true)]
    progress_bar_separation_lines: Option<String>,
    /// Refused: livebag calls no services; their events are topics (--topics SERVICE/_service_event).
    #[arg(long, hide_short_help = true)]
    publish_service_requests: bool,
    /// Refused, as --publish-service-requests is.
    #[arg(long, value_name = "SOURCE", hide_short_help = true)]
    service_requests_source: Option<String>,
    /// Play only the events of these services.
    #[arg(long, value_name = "SERVICE", num_args = 1.., hide_short_help = true)]
    services: Vec<String>,
    /// Leave out the events of these services.
    #[arg(long, value_name = "SERVICE", num_args = 1.., hide_short_help = true)]
    exclude_services: Vec<String>,
    /// Refused: livebag sends no goals; topics of actions are played as recorded.
    #[arg(long, hide_short_help = true)]
    send_actions_as_client: bool,
}

impl Rosbag2Names {
    /// Options without effect, as sentences.
    ///
    /// # Errors
    /// If something is asked for that livebag does not do.
    pub fn notices(&self) -> Result<Vec<String>, CliError> {
        if self.publish_service_requests || self.service_requests_source.is_some() {
            return Err(CliError::usage(
                "--publish-service-requests: livebag calls no services; their events are topics \
                 (--topics SERVICE/_service_event)",
            ));
        }
        if self.send_actions_as_client {
            return Err(CliError::usage(
                "--send-actions-as-client: livebag sends no goals; leave the option out",
            ));
        }
        let without_effect = [
            ("--storage", self.storage.is_some(), "its contents tell the kind of a recording"),
            ("--storage-config-file", self.storage_config_file.is_some(), "reading needs none"),
            ("--log-level", self.log_level.is_some(), "livebag has no log levels"),
            ("--disable-loan-message", self.disable_loan_message, "messages are not loaned"),
            (
                "--progress-bar-separation-lines",
                self.progress_bar_separation_lines.is_some(),
                "the progress bar is one line",
            ),
        ];
        let given = without_effect.iter().filter(|(_, is_given, _)| *is_given);
        Ok(given.map(|(name, _, why)| format!("{name} has no effect: {why}")).collect())
    }

    fn events(services: &[String]) -> impl Iterator<Item = String> {
        services.iter().map(|name| format!("{name}/_service_event"))
    }
}

/// Which time orders the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Order {
    /// By the recorder's time
    Received,
    /// By their sources' stamps
    Sent,
}

impl Args {
    /// The recordings, in the order in which they were named.
    pub fn bags(&self) -> Vec<PathBuf> {
        self.bags.iter().chain(&self.input).cloned().collect()
    }

    /// The player's options.
    pub fn options(&self) -> Result<PlayOptions, CliError> {
        let order = match self.message_order {
            Order::Received => MessageOrder::Received,
            Order::Sent => MessageOrder::Sent,
        };
        let overrides = self.qos_profile_overrides_path.as_deref();
        let services = Rosbag2Names::events(&self.rosbag2.services);
        let excluded = Rosbag2Names::events(&self.rosbag2.exclude_services);
        let (from_nanos, to_nanos) = self.times()?;
        Ok(PlayOptions {
            rate: self.rate,
            repeat: self.repeat,
            topics: self.topics.iter().cloned().chain(services).collect(),
            regex: self.regex.clone(),
            exclude_regex: self.exclude_regex.clone(),
            exclude_topics: self.exclude_topics.iter().cloned().chain(excluded).collect(),
            remap: self.remap.clone(),
            qos_overrides: overrides.map(read_overrides).transpose()?.unwrap_or_default(),
            order,
            start_offset: self.start_offset,
            from_nanos,
            duration: self.playback_duration,
            until_nanos: to_nanos.or(self.playback_until_sec).or(self.playback_until_nsec),
            delay: self.delay,
            start_paused: self.start_paused,
            clock_ticks: self.clock_ticks(),
            ahead_messages: self.read_ahead_queue_size,
            ..PlayOptions::default()
        })
    }

    /// `--from` and `--to` as nanoseconds since 1970.
    fn times(&self) -> Result<(Option<u64>, Option<u64>), CliError> {
        if self.from.is_none() && self.to.is_none() {
            return Ok((None, None));
        }
        let bags = self.bags();
        let mut sources =
            bags.iter().map(|bag| livebag_bags::open_any(bag)).collect::<Result<Vec<_>, _>>()?;
        let source = match (sources.len(), sources.pop()) {
            (1, Some(alone)) => alone,
            (_, last) => livebag_bags::merged(sources.into_iter().chain(last).collect()),
        };
        let range = select::range_of(&*source, &bags)?;
        let (from_nanos, to_nanos) = select::between(self.from, self.to, range)?;
        Ok((self.from.map(|_| from_nanos), self.to.map(|_| to_nanos)))
    }

    fn clock_ticks(&self) -> Option<ClockTicks> {
        match self.clock {
            Some(hz) => Some(ClockTicks::Rate(hz)),
            None if self.clock_topics_all => Some(ClockTicks::Topics(Vec::new())),
            None if self.clock_topics.is_empty() => None,
            None => Some(ClockTicks::Topics(self.clock_topics.clone())),
        }
    }
}

/// The rate of `--clock`, which is easily given a recording.
fn rate(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is no rate in Hz; --clock takes the next word: write --clock=40")
    })
}

/// `/old:=/new`
fn remap(text: &str) -> Result<(String, String), String> {
    match text.split_once(":=") {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_owned(), new.to_owned()))
        }
        _ => Err(format!("`{text}` renames nothing: expected something like /scan:=/old/scan")),
    }
}

/// `1700000000.25`, to the nanosecond.
fn epoch_seconds(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no time in seconds since 1970, as in 1700000000.25");
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let nanos: u64 = format!("{fraction:0<9}").parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000_000).and_then(|s| s.checked_add(nanos)).ok_or_else(wrong)
}

fn read_overrides(path: &Path) -> Result<BTreeMap<String, QosProfile>, CliError> {
    let text = files::text("reading the QoS overrides", path)?;
    let parsed = QosProfile::parse_overrides(&text);
    parsed.map_err(|error| CliError::usage(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(epoch_seconds("1700000000.000000001"), Ok(1_700_000_000_000_000_001));
        assert_eq!(epoch_seconds("12"), Ok(12_000_000_000));
        assert_eq!(epoch_seconds("12.5"), Ok(12_500_000_000));
        for wrong in ["", "-1", "1e9", "1.x", "1.0000000001", "99999999999999999999"] {
            assert!(epoch_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_renaming_has_two_names() {
        assert_eq!(remap("/a:=/b"), Ok(("/a".to_owned(), "/b".to_owned())));
        for wrong in ["/a", ":=/b", "/a:=", "/a=/b"] {
            assert!(remap(wrong).is_err(), "{wrong}");
        }
    }
}
