//! `livebag bridge`: between streams of this machine and topics of a ROS 2 network.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use livebag::{Clock, Selector, stream_topic};
use livebag_ros2::network::{Endpoint, Network, Role};
use livebag_ros2::{
    BridgeCounts, FollowOptions, Follower, QosOverrides, Selection, StreamSink, ToRos2,
};
use livebag_shm::{Owners, Reader};
use serde::Serialize;

use crate::interrupt::Interrupt;
use crate::outcome::{CliError, Outcome};
use crate::record::graph;
use crate::ros2::NetworkArgs;
use crate::{parse, text};

/// Interval at which streams and topics are polled.
const LOOK: Duration = Duration::from_millis(100);
/// Time for the network to show its endpoints before streams are published: they reveal streams that another bridge
/// made from a topic.
const DISCOVERY: Duration = Duration::from_secs(1);
/// Streams that are published at once: each has a thread.
const STREAMS_MAX: usize = 256;

/// Pass frames between streams and a ROS 2 network
///
/// Pass frames between streams of this machine and topics of a ROS 2 network.
///
/// Images and point clouds of streams become sensor_msgs/msg/Image and PointCloud2 messages, and vice versa. All other
/// messages are passed unchanged.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag bridge --ros2 dds --to-ros2 camera_front --throttle /camera_front=5\n  \
    livebag bridge --ros2 zenoh --to-ros2                 # every stream\n  \
    livebag bridge --ros2 zenoh --from-ros2 /camera/image /points\n  \
    livebag bridge --ros2 dds --from-ros2 /scan --prefix other. --json")]
pub struct Args {
    /// Publish these streams, by their names or the topics they carry; without names, all.
    #[arg(long, value_name = "NAME", num_args = 0..)]
    to_ros2: Option<Vec<String>>,
    /// Publish streams of other users, too. Any of them can end this bridge by truncating a stream.
    #[arg(long)]
    all_users: bool,
    /// Make streams of these topics; without names, of all.
    #[arg(long, value_name = "TOPIC", num_args = 0..)]
    from_ros2: Option<Vec<String>>,
    /// Pass at most HZ messages a second of a topic.
    #[arg(long, value_name = "TOPIC=HZ")]
    throttle: Vec<String>,
    /// Prefix for the names of new streams.
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// QoS by topic (rosbag2's YAML), for subscriptions and publishers.
    #[arg(long, value_name = "FILE")]
    qos_profile_overrides_path: Option<std::path::PathBuf>,
    /// Stop after this time.
    #[arg(long, value_name = "TIME", value_parser = parse::duration_above_zero)]
    duration: Option<Duration>,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Printed at the end.
#[derive(Serialize)]
struct Summary {
    network: String,
    #[serde(rename = "elapsed_nanos", serialize_with = "crate::json::seconds")]
    duration_s: f64,
    topics: Vec<Row>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Row {
    topic: String,
    /// `to_ros2` or `from_ros2`.
    direction: &'static str,
    message_count: u64,
    #[serde(rename = "message_bytes")]
    bytes: u64,
    /// Left out by `--throttle`.
    skipped: u64,
    #[serde(serialize_with = "crate::json::total")]
    lost: u64,
    /// Messages that the other side refused.
    refused: u64,
}

impl Row {
    fn new(topic: &str, direction: &'static str, counts: BridgeCounts) -> Self {
        Self {
            topic: topic.to_owned(),
            direction,
            message_count: counts.messages,
            bytes: counts.bytes,
            skipped: counts.skipped,
            lost: counts.lost,
            refused: counts.refused,
        }
    }
}

/// Bridges, until Ctrl-C.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    if args.to_ros2.is_none() && args.from_ros2.is_none() {
        return Err(CliError::usage(
            "nothing to pass on: give --to-ros2 with names of streams, or --from-ros2 with topics",
        ));
    }
    let rates = rates(&args.throttle)?;
    let overrides = match &args.qos_profile_overrides_path {
        Some(path) => graph::overrides(Path::new(path))?,
        None => QosOverrides::default(),
    };
    let interrupt = Interrupt::watch()?;
    let clock = Clock::system();
    let Some(network) = args.network.join(&node_name(u64::from(std::process::id())))? else {
        return Err(CliError::usage("which network? --ros2 zenoh or --ros2 dds"));
    };
    let description = network.describe();
    say!("livebag: {description}");
    let owners = if args.all_users { Owners::All } else { Owners::Trusted };
    let mut outgoing =
        args.to_ros2.as_ref().map(|names| Outgoing::new(names, owners, &rates, &overrides));
    let mut incoming = match &args.from_ros2 {
        Some(topics) => {
            let selection = match topics.is_empty() {
                true => Selection { all_topics: true, ..Selection::default() },
                false => Selection {
                    selectors: vec![Selector::names(graph::absolute(topics))],
                    ..Selection::default()
                },
            };
            let options = FollowOptions {
                selection,
                overrides: overrides.clone(),
                clock: clock.clone(),
                ..FollowOptions::default()
            };
            let follower = Follower::begin(network.clone(), options)
                .map_err(|error| CliError::failed(format!("starting a thread failed: {error}")))?;
            Some((follower, StreamSink::new(&args.prefix, rates, clock.clone())))
        }
        None => None,
    };
    let began = clock.monotonic_nanos();
    let end = args.duration.map(|time| began.saturating_add(time.as_nanos() as u64));
    let mut warnings = Vec::new();
    loop {
        let now = clock.monotonic_nanos();
        let made: BTreeSet<String> = match &mut incoming {
            Some((follower, sink)) => {
                follower.look(sink);
                warn(&mut warnings, follower.take_notices());
                sink.counts().into_iter().map(|(topic, _)| topic).collect()
            }
            None => BTreeSet::new(),
        };
        if let Some(outgoing) = &mut outgoing
            && now - began >= DISCOVERY.as_nanos() as u64
        {
            warn(&mut warnings, outgoing.look(&*network, &made, &clock));
        }
        let left = end.map(|end| end.saturating_sub(now));
        let pause = left.map_or(LOOK, |left| LOOK.min(Duration::from_nanos(left)));
        if left == Some(0) || interrupt.wait(pause) {
            break;
        }
    }
    let mut topics = Vec::new();
    if let Some(outgoing) = outgoing {
        topics.extend(outgoing.rows());
    }
    if let Some((follower, sink)) = incoming {
        warn(&mut warnings, follower.finish(&sink));
        warn(&mut warnings, sink.warnings());
        let counts = sink.counts();
        topics.extend(counts.iter().map(|(topic, counts)| Row::new(topic, "from_ros2", *counts)));
    }
    let duration_s = (clock.monotonic_nanos() - began) as f64 / 1e9;
    conclude(&Summary { network: description, duration_s, topics, warnings }, args.json)
}

/// Prints new notices.
fn warn(said: &mut Vec<String>, notices: Vec<String>) {
    for notice in notices {
        if !said.contains(&notice) {
            say!("livebag: warning: {notice}");
            said.push(notice);
        }
    }
}

/// The node of a bridge, by the process that has it.
fn node_name(process: u64) -> String {
    format!("livebag_bridge_{process}")
}

fn rates(throttle: &[String]) -> Result<BTreeMap<String, f64>, CliError> {
    let parsed = throttle.iter().map(|text| {
        let wrong = || CliError::usage(format!("--throttle: `{text}` is not of the form TOPIC=HZ"));
        let (topic, hz) = text.split_once('=').ok_or_else(wrong)?;
        let hz = hz.trim_end_matches("Hz").parse().ok().filter(|hz| *hz > 0.0).ok_or_else(wrong)?;
        Ok((format!("/{}", topic.trim_start_matches('/')), hz))
    });
    parsed.collect()
}

/// A stream that is published.
struct Outgo {
    way: ToRos2,
    /// Process that writes the stream.
    process: u64,
    instance: u64,
}

const LOOP: &str = "a bridge makes it of the same topic, whose messages would go round in circles";

/// Whether the stream's writer is a bridge that subscribes to the topic in this very network.
fn is_loop(topic: &str, process: u64, endpoints: &[Endpoint]) -> bool {
    let node = node_name(process);
    endpoints.iter().any(|endpoint| {
        endpoint.role == Role::Subscription
            && endpoint.name == topic
            && endpoint.node.trim_start_matches('/') == node
    })
}

/// The streams that are published.
struct Outgoing<'a> {
    names: &'a [String],
    owners: Owners,
    rates: BTreeMap<String, f64>,
    overrides: &'a QosOverrides,
    ways: BTreeMap<String, Outgo>,
    /// Of streams that have ended.
    ended: BTreeMap<String, BridgeCounts>,
    /// The network's endpoints and their generation.
    graph: Option<(u64, Vec<Endpoint>)>,
    /// By name and instance.
    refused: BTreeSet<(String, u64)>,
}

impl<'a> Outgoing<'a> {
    fn new(
        names: &'a [String],
        owners: Owners,
        rates: &BTreeMap<String, f64>,
        overrides: &'a QosOverrides,
    ) -> Self {
        Self {
            names,
            owners,
            rates: rates.clone(),
            overrides,
            ways: BTreeMap::new(),
            ended: BTreeMap::new(),
            graph: None,
            refused: BTreeSet::new(),
        }
    }

    /// Publishes streams that have appeared; `made` are the topics whose streams are our own.
    fn look(
        &mut self,
        network: &dyn Network,
        made: &BTreeSet<String>,
        clock: &Clock,
    ) -> Vec<String> {
        let over: Vec<_> = self
            .ways
            .iter()
            .filter(|(_, outgo)| outgo.way.is_over())
            .map(|(name, _)| name.clone())
            .collect();
        for name in over {
            if let Some(outgo) = self.ways.remove(&name) {
                self.add_ended(&outgo.way);
            }
        }
        let generation = network.generation();
        if self.graph.as_ref().is_none_or(|(seen, _)| *seen != generation) {
            self.graph = Some((generation, network.endpoints()));
        }
        let graph = self.graph.take();
        let endpoints = graph.as_ref().map_or(&[][..], |(_, endpoints)| endpoints);
        let notices = self.look_with(network, endpoints, made, clock);
        self.graph = graph;
        notices
    }

    fn look_with(
        &mut self,
        network: &dyn Network,
        endpoints: &[Endpoint],
        made: &BTreeSet<String>,
        clock: &Clock,
    ) -> Vec<String> {
        let mut notices = self.end_loops(endpoints);
        for name in livebag_shm::list().unwrap_or_default() {
            if self.ways.contains_key(&name) {
                continue;
            }
            let Ok(reader) = Reader::open_of(&name, self.owners) else { continue };
            let instance = (name.clone(), reader.info().instance);
            if self.refused.contains(&instance) {
                continue;
            }
            let topic = stream_topic(reader.info()).name;
            if !self.wants(&name, &topic) || made.contains(&topic) {
                continue;
            }
            if let Some(reason) = self.reason_against(&reader, &topic, endpoints) {
                notices.push(format!("the stream {name} is not published: {reason}"));
                self.refused.insert(instance);
                continue;
            }
            let process = reader.counters().writer_pid;
            let begun = match self.ways.len() < STREAMS_MAX {
                true => ToRos2::begin(
                    network,
                    reader,
                    self.rates.get(&topic).copied(),
                    self.overrides,
                    clock.clone(),
                )
                .map_err(|error| error.to_string()),
                false => Err(format!("{name} is not published: {STREAMS_MAX} streams are already")),
            };
            match begun {
                Ok(way) => {
                    let request = way.request();
                    say!("livebag: the stream {name} on {} ({})", request.name, request.type_name);
                    self.ways.insert(name, Outgo { way, process, instance: instance.1 });
                }
                Err(error) => {
                    notices.push(error);
                    self.refused.insert(instance);
                }
            }
        }
        notices
    }

    fn wants(&self, name: &str, topic: &str) -> bool {
        let is_topic = |wanted: &String| topic == format!("/{}", wanted.trim_start_matches('/'));
        let mut names = self.names.iter();
        self.names.is_empty() || names.any(|wanted| wanted == name || is_topic(wanted))
    }

    /// Why a stream cannot be published on its topic.
    fn reason_against(
        &self,
        reader: &Reader,
        topic: &str,
        endpoints: &[Endpoint],
    ) -> Option<String> {
        let other = self.ways.iter().find(|(_, other)| other.way.request().name == topic);
        match other {
            Some((other, _)) => Some(format!("{topic} carries the stream {other} already")),
            None => {
                is_loop(topic, reader.counters().writer_pid, endpoints).then(|| LOOP.to_owned())
            }
        }
    }

    /// Ends bridges that turn out to form a loop, in case the network showed the endpoints late.
    fn end_loops(&mut self, endpoints: &[Endpoint]) -> Vec<String> {
        let is_looping =
            |outgo: &Outgo| is_loop(&outgo.way.request().name, outgo.process, endpoints);
        let looping = self.ways.iter().filter(|(_, outgo)| is_looping(outgo));
        let names: Vec<_> = looping.map(|(name, _)| name.clone()).collect();
        let mut notices = Vec::new();
        for name in names {
            if let Some(outgo) = self.ways.remove(&name) {
                self.add_ended(&outgo.way);
                notices.push(format!("the stream {name} is no longer published: {LOOP}"));
                self.refused.insert((name, outgo.instance));
            }
        }
        notices
    }

    fn add_ended(&mut self, way: &ToRos2) {
        let sum = self.ended.entry(way.request().name.clone()).or_default();
        let counts = way.counts();
        sum.messages += counts.messages;
        sum.bytes += counts.bytes;
        sum.skipped += counts.skipped;
        sum.lost += counts.lost;
        sum.refused += counts.refused;
    }

    /// The forwarded messages, by topic.
    fn rows(mut self) -> Vec<Row> {
        for outgo in std::mem::take(&mut self.ways).into_values() {
            self.add_ended(&outgo.way);
        }
        self.ended.iter().map(|(topic, counts)| Row::new(topic, "to_ros2", *counts)).collect()
    }
}

fn conclude(summary: &Summary, json: bool) -> Result<Outcome, CliError> {
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(summary)?)?;
    } else {
        for row in &summary.topics {
            let lost = match row.lost + row.refused {
                0 => "nothing lost".to_owned(),
                lost => format!("{} lost", text::count(lost)),
            };
            writeln!(
                out,
                "{} {}: {}, {}, {} left out, {lost}",
                match row.direction {
                    "to_ros2" => "→",
                    _ => "←",
                },
                row.topic,
                text::messages(row.message_count),
                text::bytes(row.bytes as f64),
                text::count(row.skipped),
            )?;
        }
        if summary.topics.is_empty() {
            writeln!(out, "nothing appeared, nothing was passed on")?;
        }
    }
    let is_lossy = summary.topics.iter().any(|row| row.lost + row.refused > 0);
    Ok(if is_lossy { Outcome::Loss } else { Outcome::Done })
}
