//! The producer YAML of rosbag2's performance benchmark: which publishers there are.

use livebag::{TOPICS_MAX, Topic};
use livebag_format::{decode, definitions};
use serde::{Deserialize, Serialize};

use crate::outcome::CliError;
use crate::yaml::{self, Node};

/// The document's root key.
pub const ROOT: &str = "rosbag2_performance_benchmarking_node";
/// rosbag2's own message of bytes.
const BYTE_ARRAY: &str = "rosbag2_performance_benchmarking_msgs/msg/ByteArray";
const BYTE_ARRAY_SCHEMA: &str = "uint8[] data\n";

/// What publishes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Producers {
    /// The file's name without its extension.
    pub name: String,
    /// The document, to be kept with the results.
    #[serde(skip)]
    pub text: String,
    /// The groups, in order.
    pub groups: Vec<Group>,
    /// Whether nothing is published before the recorder has found every stream.
    pub waits_for_subscriptions: bool,
    /// Publishing threads; 0 for one by processor.
    pub threads: usize,
}

/// Publishers that are alike.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// The group's key.
    pub name: String,
    /// Number of publishers, each with its own topic.
    pub publishers: u64,
    /// Their topics are `<topic_root>_<i>`, i from 1.
    pub topic_root: String,
    /// Bytes of the message's array of bytes.
    pub message_bytes: u64,
    /// `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// Messages by publisher.
    pub messages_each: u64,
    /// Messages a second by publisher.
    pub rate_hz: f64,
    /// The history that a stream keeps at least.
    pub qos_depth: u64,
}

impl Producers {
    /// Reads a document.
    pub fn parse(file: &str, name: &str, text: &str) -> Result<Self, CliError> {
        let value = yaml::parse(file, text)?;
        let publishers = Node::root(file, &value).at(&[ROOT, "ros__parameters", "publishers"])?;
        let names = publishers.get("publisher_groups")?.some(Node::text)?;
        let mut known = vec!["publisher_groups", "wait_for_subscriptions", "number_of_threads"];
        known.extend(&names);
        for (key, line) in publishers.keys()?.filter(|(key, _)| !known.contains(key)) {
            say!("livebag: warning: {file}:{line}: {key} is not in publisher_groups: left out");
        }
        let groups = names
            .iter()
            .map(|name| Group::parse(name, &publishers.get(name)?))
            .collect::<Result<Vec<_>, _>>()?;
        let flag = |key| publishers.find(key)?.map(|node| node.flag()).transpose();
        let threads = publishers.find("number_of_threads")?.map(|node| node.whole(0));
        let producers = Producers {
            name: name.to_owned(),
            text: text.to_owned(),
            groups,
            waits_for_subscriptions: flag("wait_for_subscriptions")?.unwrap_or(true),
            threads: threads.transpose()?.unwrap_or(0) as usize,
        };
        producers.check(file)
    }

    fn check(self, file: &str) -> Result<Self, CliError> {
        let topics = self.topics();
        if topics.len() > TOPICS_MAX {
            let count = topics.len();
            return Err(CliError::failed(format!(
                "{file}: the groups have {count} publishers together; at most {TOPICS_MAX} topics \
                 are possible"
            )));
        }
        let mut names: Vec<_> = topics.iter().map(|topic| &topic.topic.name).collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(self),
            Some(pair) => Err(CliError::failed(format!(
                "{file}: two groups publish {}: give each a topic_root of its own",
                pair[0]
            ))),
        }
    }

    /// Every publisher, group by group.
    pub fn topics(&self) -> Vec<Published> {
        let of_group = |(index, group): (usize, &Group)| {
            let group = group.clone();
            (1..=group.publishers).map(move |number| Published {
                group: index,
                topic: group.topic(number),
                messages: group.messages_each,
                period_nanos: 1e9 / group.rate_hz,
            })
        };
        self.groups.iter().enumerate().flat_map(of_group).collect()
    }

    /// The message of each publisher, in the order of [`Self::topics`].
    pub fn payloads(&self) -> Vec<Vec<u8>> {
        let message = |group: &Group| {
            let group = group.clone();
            (1..=group.publishers).map(move |number| group.message(number))
        };
        self.groups.iter().flat_map(message).collect()
    }

    /// Messages of all publishers.
    pub fn messages(&self) -> u64 {
        self.groups.iter().map(|group| group.publishers * group.messages_each).sum()
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> u64 {
        let of_group = |g: &Group| g.publishers * g.messages_each * g.encoded_bytes() as u64;
        self.groups.iter().map(of_group).sum()
    }

    /// How long the slowest publisher takes.
    pub fn seconds(&self) -> f64 {
        let of_group = |group: &Group| group.messages_each as f64 / group.rate_hz;
        self.groups.iter().map(of_group).fold(0.0, f64::max)
    }

    /// Bytes published in a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes() as f64 / self.seconds()
    }

    /// The same for this many seconds. Every publisher has one message at least.
    pub fn lasting(mut self, seconds: f64) -> Self {
        for group in &mut self.groups {
            group.messages_each = ((seconds * group.rate_hz).round() as u64).max(1);
        }
        self
    }
}

/// One publisher.
pub struct Published {
    /// Index of its group.
    pub group: usize,
    /// Its topic.
    pub topic: Topic,
    /// How many messages.
    pub messages: u64,
    /// Nanoseconds from one to the next. rosbag2 cuts them down to milliseconds, by which 24 Hz
    /// become 24.39.
    pub period_nanos: f64,
}

impl Group {
    fn parse(name: &str, node: &Node) -> Result<Self, CliError> {
        node.only(&[
            "publishers_count",
            "topic_root",
            "msg_size_bytes",
            "msg_count_each",
            "msg_type",
            "rate_hz",
            "qos",
        ])?;
        let type_name = match node.find("msg_type")? {
            None => BYTE_ARRAY.to_owned(),
            Some(node) => known_type(&node)?,
        };
        let message_bytes = node.find("msg_size_bytes")?.map(|node| node.whole(0)).transpose()?;
        let qos = node.find("qos")?;
        let depth = match &qos {
            None => 10,
            Some(qos) => {
                qos.only(&["qos_depth", "qos_reliability", "qos_durability"])?;
                check_words(qos, "qos_reliability", &["reliable", "best_effort"])?;
                check_words(qos, "qos_durability", &["volatile", "transient_local"])?;
                qos.find("qos_depth")?.map_or(Ok(10), |node| node.whole(1))?
            }
        };
        let group = Group {
            name: name.to_owned(),
            publishers: node.get("publishers_count")?.whole(1)?,
            topic_root: topic_root(&node.get("topic_root")?)?,
            message_bytes: message_bytes.unwrap_or(0),
            type_name,
            messages_each: node.get("msg_count_each")?.whole(1)?,
            rate_hz: node.get("rate_hz")?.positive()?,
            qos_depth: depth,
        };
        if group.message_bytes == 0 && group.holds_bytes() {
            return Err(node.get("msg_size_bytes")?.wrong("the bytes of a message, at least 1"));
        }
        Ok(group)
    }

    fn topic(&self, number: u64) -> Topic {
        let schema = match definitions::schema(&self.type_name) {
            Some(schema) => schema,
            None => BYTE_ARRAY_SCHEMA.to_owned(),
        };
        Topic {
            name: format!("/{}_{number}", self.topic_root),
            type_name: self.type_name.clone(),
            message_encoding: "cdr".to_owned(),
            schema_encoding: "ros2msg".to_owned(),
            schema: schema.into_bytes(),
            metadata: Default::default(),
        }
    }

    fn holds_bytes(&self) -> bool {
        let known = decode::blank(&self.type_name, &[]);
        self.type_name == BYTE_ARRAY || known.is_ok_and(|(_, holds)| holds)
    }

    /// Bytes of one message in CDR.
    pub fn encoded_bytes(&self) -> usize {
        self.message(0).len()
    }

    /// The message of one publisher in CDR. As with rosbag2's producers, its bytes are random, different for each
    /// publisher, and the same in all its messages: compression gains only if two messages of one publisher are in one
    /// chunk.
    pub fn message(&self, number: u64) -> Vec<u8> {
        let bytes = random_bytes(number, self.message_bytes as usize);
        match decode::blank(&self.type_name, &bytes) {
            Ok((message, _)) => message,
            // Only rosbag2's own is not bundled: an encapsulation, a length, the bytes.
            Err(_) => {
                let mut message = vec![0, 1, 0, 0];
                message.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                message.extend(bytes);
                message
            }
        }
    }
}

/// `sensor_msgs::msg::Image` or `sensor_msgs/msg/Image`, if it is one of which messages can be made.
fn known_type(node: &Node) -> Result<String, CliError> {
    let type_name = node.text()?.replace("::", "/");
    if type_name == BYTE_ARRAY || definitions::schema(&type_name).is_some() {
        return Ok(type_name);
    }
    Err(node.wrong(
        "rosbag2_performance_benchmarking_msgs::msg::ByteArray or a type of the common \
         interfaces (sensor_msgs::msg::Image, …)",
    ))
}

fn topic_root(node: &Node) -> Result<String, CliError> {
    let root = node.text()?.trim_start_matches('/');
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
    if !root.is_empty() && root.chars().all(is_name) && !root.ends_with('/') {
        return Ok(root.to_owned());
    }
    Err(node.wrong("a topic's name: letters, digits, _ and /"))
}

fn check_words(node: &Node, key: &str, words: &[&str]) -> Result<(), CliError> {
    match node.find(key)? {
        Some(value) if !words.contains(&value.text()?) => Err(value.wrong(&words.join(" or "))),
        _ => Ok(()),
    }
}

/// The same each time for a seed (xorshift64*, Vigna 2016).
fn random_bytes(seed: u64, count: usize) -> Vec<u8> {
    // Any state but 0, far from those of other seeds.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * seed + 1);
    let mut out = Vec::with_capacity(count + 8);
    while out.len() < count {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        out.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    out.truncate(count);
    out
}

#[cfg(test)]
mod tests;
