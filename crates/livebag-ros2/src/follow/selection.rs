//! Which topics are recorded: rosbag2's rules.

use std::collections::BTreeSet;

use livebag::{Selector, Topic};

use crate::network::{Endpoint, Role, is_hidden};

/// Suffix of the topic of a service's events.
const EVENT: &str = "/_service_event";
/// What an action's topics and services are under.
const ACTION: &str = "/_action/";

/// The selection. Selectors choose topics. Services and actions are chosen by name or all together, and select topics:
/// a service's events (`/add/_service_event`, if introspection is on); an action's feedback, status and the events of
/// its services.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Topics, and by pattern also services and actions.
    pub selectors: Vec<Selector>,
    /// Topics, services and actions left out, whatever chooses them.
    pub excluded: Option<Selector>,
    /// Every topic that belongs to no service or action.
    pub all_topics: bool,
    /// Every service's events.
    pub all_services: bool,
    /// Services by name.
    pub services: Vec<String>,
    /// Services left out.
    pub exclude_services: Vec<String>,
    /// Every action.
    pub all_actions: bool,
    /// Actions by name.
    pub actions: Vec<String>,
    /// Actions left out.
    pub exclude_actions: Vec<String>,
    /// Topics left out, whatever chooses them.
    pub exclude_topics: Vec<String>,
    /// Types left out.
    pub exclude_topic_types: Vec<String>,
    /// Also topics with a part that begins with `_`.
    pub include_hidden: bool,
    /// Also topics that have only subscriptions.
    pub include_unpublished: bool,
    /// Only topics that have a subscription.
    pub ignore_leaf: bool,
}

/// The owner of a topic.
enum Kind<'a> {
    Topic,
    Service(&'a str),
    Action(&'a str),
}

fn kind(name: &str) -> Kind<'_> {
    if let Some((action, _)) = name.split_once(ACTION) {
        Kind::Action(action)
    } else if let Some(service) = name.strip_suffix(EVENT) {
        Kind::Service(service)
    } else {
        Kind::Topic
    }
}

impl Selection {
    /// Everything, hidden topics left out.
    pub fn all() -> Self {
        Self { all_topics: true, all_services: true, all_actions: true, ..Self::default() }
    }

    /// The endpoints whose messages are wanted: publishers, and subscriptions to topics without any
    /// where those are wanted too. Those of this process are never chosen.
    pub(super) fn choose<'a>(&self, endpoints: &'a [Endpoint]) -> Vec<&'a Endpoint> {
        let others = || endpoints.iter().filter(|endpoint| !endpoint.is_own);
        let names = |role: Role| {
            let of_role = others().filter(move |endpoint| endpoint.role == role);
            of_role.map(|endpoint| endpoint.name.as_str()).collect::<BTreeSet<_>>()
        };
        let (published, subscribed) = (names(Role::Publisher), names(Role::Subscription));
        let is_wanted = |endpoint: &&Endpoint| match endpoint.role {
            Role::Publisher => !self.ignore_leaf || subscribed.contains(endpoint.name.as_str()),
            Role::Subscription => {
                self.include_unpublished && !published.contains(endpoint.name.as_str())
            }
            Role::Server | Role::Client => false,
        };
        others().filter(is_wanted).filter(|endpoint| self.takes(endpoint)).collect()
    }

    fn takes(&self, endpoint: &Endpoint) -> bool {
        let is_in = |names: &[String], name: &str| names.iter().any(|wanted| wanted == name);
        if is_in(&self.exclude_topics, &endpoint.name)
            || is_in(&self.exclude_topic_types, &endpoint.type_name)
        {
            return false;
        }
        let topic = Topic {
            name: endpoint.name.clone(),
            type_name: endpoint.type_name.clone(),
            ..Topic::default()
        };
        if self.excluded.as_ref().is_some_and(|excluded| excluded.takes(&endpoint.name, &topic)) {
            return false;
        }
        let by_selector = |name: &str| {
            let named = Topic { name: name.to_owned(), ..topic.clone() };
            self.selectors.iter().any(|selector| selector.takes(name, &named))
        };
        match kind(&endpoint.name) {
            Kind::Service(service) => {
                !is_in(&self.exclude_services, service)
                    && (self.all_services || is_in(&self.services, service) || by_selector(service))
            }
            Kind::Action(action) => {
                !is_in(&self.exclude_actions, action)
                    && (self.all_actions || is_in(&self.actions, action) || by_selector(action))
            }
            // Naming a hidden topic is asking for it.
            Kind::Topic => {
                let is_shown = self.include_hidden || !is_hidden(&endpoint.name);
                (self.all_topics && is_shown)
                    || self.selectors.iter().any(|selector| {
                        selector.takes(&endpoint.name, &topic)
                            && (is_shown || selector.names_topic(&endpoint.name))
                    })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qos::Qos;

    fn endpoint(role: Role, name: &str, type_name: &str) -> Endpoint {
        Endpoint {
            id: [0; 16],
            role,
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            type_hash: None,
            qos: Qos::default(),
            node: String::new(),
            is_own: false,
        }
    }

    fn chosen(selection: &Selection) -> Vec<String> {
        let mut endpoints: Vec<_> = [
            ("/imu", "sensor_msgs/msg/Imu"),
            ("/camera/image", "sensor_msgs/msg/Image"),
            ("/_hidden", "std_msgs/msg/String"),
            ("/add/_service_event", "example_interfaces/srv/AddTwoInts_Event"),
            ("/go/_action/feedback", "a/action/Go_FeedbackMessage"),
            ("/go/_action/send_goal/_service_event", "a/action/Go_SendGoal_Event"),
        ]
        .map(|(name, type_name)| endpoint(Role::Publisher, name, type_name))
        .into();
        endpoints.push(endpoint(Role::Subscription, "/wanted", "std_msgs/msg/String"));
        endpoints.push(endpoint(Role::Subscription, "/imu", "sensor_msgs/msg/Imu"));
        let mut own = endpoint(Role::Publisher, "/own", "std_msgs/msg/String");
        own.is_own = true;
        endpoints.push(own);
        selection.choose(&endpoints).into_iter().map(|endpoint| endpoint.name.clone()).collect()
    }

    #[test]
    fn the_rules_are_rosbag2s() {
        let of = Selection::default;
        let (imu, image) = ("/imu", "/camera/image");
        let (event, feedback) = ("/add/_service_event", "/go/_action/feedback");
        let goal = "/go/_action/send_goal/_service_event";
        assert_eq!(chosen(&Selection::all()), [imu, image, event, feedback, goal]);
        assert_eq!(chosen(&Selection { all_topics: true, ..of() }), [imu, image]);
        assert_eq!(chosen(&Selection { all_services: true, ..of() }), [event]);
        assert_eq!(chosen(&Selection { services: vec!["/add".into()], ..of() }), [event]);
        assert_eq!(chosen(&Selection { actions: vec!["/go".into()], ..of() }), [feedback, goal]);
        let hidden = Selection { all_topics: true, include_hidden: true, ..of() };
        assert_eq!(chosen(&hidden), [imu, image, "/_hidden"]);
        let named = Selection { selectors: vec![Selector::names(["/_hidden"])], ..of() };
        assert_eq!(chosen(&named), ["/_hidden"]);
        let pattern = Selector::regex("^/(go|camera|_hid)").unwrap();
        let by_pattern = Selection { selectors: vec![pattern], ..of() };
        assert_eq!(chosen(&by_pattern), [image, feedback, goal]);
        let without = Selection {
            exclude_topics: vec![image.into()],
            exclude_services: vec!["/add".into()],
            exclude_actions: vec!["/go".into()],
            ..Selection::all()
        };
        assert_eq!(chosen(&without), [imu]);
        let excluded = Some(Selector::regex("camera|action").unwrap());
        let without_pattern = Selection { excluded, ..Selection::all() };
        assert_eq!(chosen(&without_pattern), [imu, event]);
        let types = vec!["sensor_msgs/msg/Imu".to_owned()];
        let without_type = Selection { all_topics: true, exclude_topic_types: types, ..of() };
        assert_eq!(chosen(&without_type), [image]);
        let leafless = Selection { all_topics: true, ignore_leaf: true, ..of() };
        assert_eq!(chosen(&leafless), [imu]);
        let unpublished = Selection { all_topics: true, include_unpublished: true, ..of() };
        assert_eq!(chosen(&unpublished), [imu, image, "/wanted"]);
        assert!(chosen(&of()).is_empty());
    }
}
