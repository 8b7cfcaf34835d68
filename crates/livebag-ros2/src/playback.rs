//! From a player into a ROS 2 network.

use std::sync::Arc;
use std::time::Duration;

use livebag::{Message, Output, PlayError, Topic, TopicOutput};
use livebag_format::definitions;
use livebag_format::ros1::ToCdr;
use livebag_format::rosbag2::QosProfile;

use crate::limits::PLAY_ACKNOWLEDGED_WITHIN;
use crate::network::{Network, NetworkError, Publication, TopicRequest};
use crate::qos::{Durability, History, Qos, Reliability};

/// Publishes played messages: with the recorded bytes, or those of ROS 1 re-encoded for ROS 2.
///
/// A topic is offered as it was when it was recorded (`offered_qos_profiles`), where several publishers
/// offered it as the most demanding of them. A topic that ROS 2 cannot have (JSON, say) is
/// left out, and said to be.
pub struct RosOutput {
    network: Arc<dyn Network>,
    acknowledged_within: Duration,
}

impl RosOutput {
    /// Into this network.
    pub fn new(network: Arc<dyn Network>) -> Self {
        Self { network, acknowledged_within: PLAY_ACKNOWLEDGED_WITHIN }
    }

    /// The same, waiting this long at the end for acknowledgements of reliable subscriptions.
    pub fn acknowledged_within(self, time: Duration) -> Self {
        Self { acknowledged_within: time, ..self }
    }
}

impl Output for RosOutput {
    fn needs_sizes(&self) -> bool {
        false
    }

    fn open(&mut self, topic: &Topic, _: usize) -> Result<Box<dyn TopicOutput>, PlayError> {
        let to_cdr = match topic.message_encoding.as_str() {
            "cdr" => None,
            "ros1" => match ToCdr::new(topic) {
                Ok(to_cdr) => Some(to_cdr),
                Err(error) => return Ok(Silent::of(topic, &error.to_string())),
            },
            other => {
                return Ok(Silent::of(topic, &format!("its messages are `{other}`, not CDR")));
            }
        };
        let played = to_cdr.as_ref().map_or(topic, ToCdr::topic);
        let request = match request(played) {
            Ok(request) => request,
            Err(why) => return Ok(Silent::of(topic, &why)),
        };
        let publication = match self.network.advertise(&request) {
            Ok(publication) => publication,
            // Topics whose recorded name or type is not valid in ROS 2.
            Err(error @ NetworkError::Name { .. }) => {
                return Ok(Silent::of(topic, &error.to_string()));
            }
            Err(error) => return Err(PlayError::Output(error.to_string())),
        };
        Ok(Box::new(Played {
            name: request.name,
            publication,
            _network: self.network.clone(),
            to_cdr,
            cdr: Vec::new(),
            acknowledged_within: self.acknowledged_within,
            warnings: Vec::new(),
        }))
    }
}

/// How a recorded topic is offered.
fn request(topic: &Topic) -> Result<TopicRequest, String> {
    let recorded = topic.metadata.get("offered_qos_profiles").map_or("", String::as_str);
    let profiles = QosProfile::parse_list(recorded).unwrap_or_default();
    let schema = std::str::from_utf8(&topic.schema).unwrap_or_default();
    let told = topic.metadata.get("topic_type_hash").filter(|hash| !hash.is_empty()).cloned();
    let computed = || match (topic.schema_encoding.as_str(), schema) {
        ("ros2msg", text) if !text.is_empty() => definitions::rihs01(&topic.type_name, text),
        _ => definitions::type_hash(&topic.type_name).map(str::to_owned),
    };
    if topic.type_name.is_empty() {
        return Err("the recording does not know its type".to_owned());
    }
    Ok(TopicRequest {
        name: topic.name.clone(),
        type_name: topic.type_name.clone(),
        type_hash: told.or_else(computed),
        qos: offer(&profiles),
    })
}

/// QoS that satisfies every subscription that the recorded publishers satisfied.
fn offer(profiles: &[QosProfile]) -> Qos {
    let mut offers = profiles.iter().map(Qos::from_profile);
    let Some(first) = offers.next() else { return Qos::default() };
    offers.fold(first, |sum, offer| Qos {
        reliability: match (sum.reliability, offer.reliability) {
            (Reliability::BestEffort, Reliability::BestEffort) => Reliability::BestEffort,
            _ => Reliability::Reliable,
        },
        durability: match (sum.durability, offer.durability) {
            (Durability::Volatile, Durability::Volatile) => Durability::Volatile,
            _ => Durability::TransientLocal,
        },
        history: match (sum.history, offer.history) {
            (History::KeepLast(a), History::KeepLast(b)) => History::KeepLast(a.max(b)),
            _ => History::KeepAll,
        },
        ..sum
    })
}

struct Played {
    name: String,
    publication: Box<dyn Publication>,
    // A network that is left takes its publications with it, and a player keeps no output, only topics.
    _network: Arc<dyn Network>,
    to_cdr: Option<ToCdr>,
    cdr: Vec<u8>,
    acknowledged_within: Duration,
    warnings: Vec<String>,
}

impl TopicOutput for Played {
    fn publish(&mut self, message: &Message<'_>) -> Result<(), PlayError> {
        let data = match &self.to_cdr {
            None => message.data,
            Some(to_cdr) => {
                self.cdr.clear();
                if let Err(error) = to_cdr.convert(message.data, &mut self.cdr) {
                    if self.warnings.is_empty() {
                        self.warnings.push(format!(
                            "messages of {} are not what their type says, and were left out: {error}",
                            self.name
                        ));
                    }
                    return Ok(());
                }
                &self.cdr
            }
        };
        self.publication.publish(data).map_err(|error| PlayError::Output(error.to_string()))
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &str {
        "ROS 2 topic"
    }

    fn finish(&mut self) -> Result<(), PlayError> {
        if self.publication.wait_for_acknowledgements(self.acknowledged_within) {
            return Ok(());
        }
        Err(PlayError::Output(format!(
            "not every subscription of {} has acknowledged all messages within {:?}: they have \
             missed the others",
            self.name, self.acknowledged_within
        )))
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// A topic that is left out.
struct Silent {
    name: String,
    warnings: [String; 1],
}

impl Silent {
    fn of(topic: &Topic, why: &str) -> Box<dyn TopicOutput> {
        let warnings = [format!("{} is not played: {why}", topic.name)];
        Box::new(Self { name: topic.name.clone(), warnings })
    }
}

impl TopicOutput for Silent {
    fn publish(&mut self, _message: &Message<'_>) -> Result<(), PlayError> {
        Ok(())
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &str {
        "left out"
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

#[cfg(test)]
mod tests {
    use livebag::Clock;
    use livebag_format::rosbag2::QosStyle;

    use super::*;
    use crate::network::{Role, SimulatedHub};

    fn topic(name: &str, type_name: &str, encoding: &str) -> Topic {
        Topic {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            message_encoding: encoding.to_owned(),
            ..Topic::default()
        }
    }

    #[test]
    fn topics_are_offered_as_they_were() {
        let hub = SimulatedHub::new(Clock::system());
        let mut output = RosOutput::new(Arc::new(hub.join("/player")));
        let mut recorded = topic("/map", "std_msgs/msg/String", "cdr");
        let latched = Qos {
            durability: Durability::TransientLocal,
            history: History::KeepLast(1),
            ..Qos::default()
        };
        let sensor = Qos { reliability: Reliability::BestEffort, ..Qos::default() };
        let profiles = [latched, sensor].map(|qos| qos.to_profile());
        let text = QosProfile::write_list(&profiles, QosStyle::Names);
        recorded.metadata.insert("offered_qos_profiles".to_owned(), text);
        let _played = output.open(&recorded, 100).unwrap();
        let endpoints = hub.join("/other").endpoints();
        assert_eq!(endpoints[0].role, Role::Publisher);
        assert_eq!(endpoints[0].qos, Qos { history: History::KeepLast(10), ..latched });
        assert_eq!(
            endpoints[0].type_hash.as_deref(),
            definitions::type_hash("std_msgs/msg/String"),
            "a topic without a hash gets that of its definition"
        );
    }

    #[test]
    fn what_ros2_cannot_have_is_left_out_and_said() {
        let hub = SimulatedHub::new(Clock::system());
        let mut output = RosOutput::new(Arc::new(hub.join("/player")));
        for odd in [
            topic("/json", "x/msg/Y", "json"),
            topic("no slash", "x/msg/Y", "cdr"),
            topic("/untyped", "", "cdr"),
            topic("/one", "a/Custom", "ros1"),
        ] {
            let mut silent = output.open(&odd, 10).unwrap();
            assert!(silent.warnings()[0].contains("is not played"), "{:?}", silent.warnings());
            let message =
                Message { log_time_nanos: 1, publish_time_nanos: 1, sequence: 0, data: b"x" };
            silent.publish(&message).unwrap();
        }
        assert!(hub.join("/other").endpoints().is_empty());
    }
}
