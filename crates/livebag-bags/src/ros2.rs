//! A ROS 1 recording as ROS 2 has it: messages in CDR, definitions as `ros2msg`, types by their new
//! names.

use livebag::Account;
use livebag_format::ros1::ToCdr;
use livebag_format::{Topic, definitions};

use super::accounts::joined;
use super::{ConvertError, MessageSource, SourceMessage, SourceTotals, Warnings};

/// Re-encodes every message of encoding `ros1`; others stay as they are. Messages that cannot be re-encoded (their
/// definition is missing, or does not match) are left out, counted as lost and listed in the warnings. Publishers of
/// one topic become one, since ROS 2 does not distinguish them.
pub fn to_ros2(inner: Box<dyn MessageSource>) -> Box<dyn MessageSource> {
    let mut topics: Vec<Topic> = Vec::new();
    let mut ways = Vec::new();
    let mut warnings = Warnings::default();
    for topic in inner.topics() {
        let (topic, way) = if topic.message_encoding != "ros1" {
            (topic.clone(), Way::Same)
        } else {
            match ToCdr::new(topic) {
                Ok(to_cdr) if is_changed(to_cdr.topic()) => {
                    let Topic { name, type_name, .. } = to_cdr.topic();
                    warnings.say(format!(
                        "{type_name} of ROS 2 has fields that cannot be made of those that the bag has: \
                         messages of {name} keep theirs, by the bag's definition; nodes of ROS 2 cannot \
                         read them"
                    ));
                    (to_cdr.topic().clone(), Way::ToCdr(Box::new(to_cdr)))
                }
                Ok(to_cdr) => (to_cdr.topic().clone(), Way::ToCdr(Box::new(to_cdr))),
                Err(error) => {
                    let name = &topic.name;
                    warnings.say(format!("messages of {name} are left out: {error}"));
                    ways.push((0, Way::None));
                    continue;
                }
            }
        };
        let place = topics.iter().position(|known| *known == topic).unwrap_or_else(|| {
            topics.push(topic);
            topics.len() - 1
        });
        ways.push((place, way));
    }
    Box::new(Ros2 { inner, topics, ways, lost: 0, warnings })
}

/// Whether ROS 2 has a type of that name with other fields, which messages could not be made.
fn is_changed(topic: &Topic) -> bool {
    let known = definitions::type_hash(&topic.type_name);
    known.is_some() && topic.metadata.get("topic_type_hash").map(String::as_str) != known
}

enum Way {
    Same,
    ToCdr(Box<ToCdr>),
    /// There is none: its definition cannot be read.
    None,
}

struct Ros2 {
    inner: Box<dyn MessageSource>,
    topics: Vec<Topic>,
    /// Place among `topics` and the conversion, by topic of `inner`.
    ways: Vec<(usize, Way)>,
    lost: u64,
    /// Those of `inner` are added when it has ended.
    warnings: Warnings,
}

impl MessageSource for Ros2 {
    fn inner(&self) -> Option<&dyn MessageSource> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageSource> {
        Some(&mut *self.inner)
    }

    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn accounts(&self) -> Option<Vec<Account>> {
        let places = self.ways.iter().map(|(place, _)| *place);
        Some(joined(places.zip(self.inner.accounts()?), self.topics.len()))
    }

    fn profile(&self) -> &str {
        "ros2"
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        loop {
            let Some(mut message) = self.inner.next_message()? else {
                for warning in self.inner.warnings() {
                    self.warnings.say(warning);
                }
                return Ok(None);
            };
            let (place, way) = &self.ways[message.topic];
            let done = match way {
                Way::Same => Ok(()),
                Way::None => {
                    self.lost += 1;
                    continue;
                }
                Way::ToCdr(to_cdr) => {
                    // Alignment and encapsulation add a little; strings and small fields more.
                    let mut data = Vec::with_capacity(message.data.len() + 64);
                    let done = to_cdr.convert(&message.data, &mut data);
                    message.data = data;
                    done
                }
            };
            message.topic = *place;
            match done {
                Ok(()) => return Ok(Some(message)),
                Err(error) => {
                    self.lost += 1;
                    let name = &self.topics[*place].name;
                    let warning = format!(
                        "messages of {name} that are not what its definition says are left out: {error}"
                    );
                    self.warnings.say(warning);
                }
            }
        }
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.inner.start_time_nanos()
    }

    fn totals(&self) -> Option<SourceTotals> {
        // Which messages can be re-encoded shows when they are.
        None
    }

    fn lost_count(&self) -> u64 {
        self.inner.lost_count().saturating_add(self.lost)
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_ros2_has_changed_is_known() {
        let of = |type_name: &str, definition: &str| {
            let topic = Topic {
                name: "/t".into(),
                type_name: type_name.into(),
                message_encoding: "ros1".into(),
                schema_encoding: "ros1msg".into(),
                schema: definition.as_bytes().to_vec(),
                ..Topic::default()
            };
            is_changed(ToCdr::new(&topic).unwrap().topic())
        };
        assert!(!of("geometry_msgs/Vector3", "float64 x\nfloat64 y\nfloat64 z"));
        assert!(!of("sensor_msgs/BatteryState", "float32 voltage"), "the rest is filled in");
        assert!(of("sensor_msgs/BatteryState", "string voltage"), "a text is no number");
        assert!(!of("own_msgs/Unknown", "float32 voltage"));
    }
}
