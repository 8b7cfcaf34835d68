//! A part of a recording: some topics, some time; by rosbag2's rules.

use livebag::Account;
use livebag_format::Topic;
use regex::Regex;

use super::{ConvertError, MessageSource, SourceMessage, SourceTotals, Warnings};

/// Suffix of the topic of a service's events.
const SERVICE_EVENTS: &str = "/_service_event";

/// Selection of topics, with the names and rules of rosbag2's `convert` (`topic_filter.cpp`): excluded topics are left
/// out; of the others, those that are named, matched, or of a named type, or all.
#[derive(Clone, Debug, Default)]
pub struct TopicFilter {
    /// Every topic but services' events.
    pub all_topics: bool,
    /// Topics by name.
    pub topics: Vec<String>,
    /// Topics by type: `sensor_msgs/msg/Image`.
    pub topic_types: Vec<String>,
    /// The events of every service.
    pub all_services: bool,
    /// Services by name.
    pub services: Vec<String>,
    /// Topics and services in whose name this is found.
    pub regex: Option<Regex>,
    /// Topics and services in whose name this is found are not taken.
    pub exclude_regex: Option<Regex>,
    /// Topics that are not taken.
    pub exclude_topics: Vec<String>,
    /// Topics of these types are not taken.
    pub exclude_topic_types: Vec<String>,
    /// Services that are not taken.
    pub exclude_services: Vec<String>,
    /// Whether topics with a part that begins with `_` are taken without being named.
    pub include_hidden_topics: bool,
}

impl TopicFilter {
    /// Everything.
    pub fn all() -> Self {
        TopicFilter {
            all_topics: true,
            all_services: true,
            include_hidden_topics: true,
            ..TopicFilter::default()
        }
    }

    /// Whether it can take nothing at all.
    pub fn is_empty(&self) -> bool {
        let names = [&self.topics, &self.topic_types, &self.services];
        !self.all_topics
            && !self.all_services
            && self.regex.is_none()
            && names.iter().all(|names| names.is_empty())
    }

    /// Whether a topic is taken.
    pub fn takes(&self, name: &str, type_name: &str) -> bool {
        let found = |regex: &Option<Regex>, name| regex.as_ref().is_some_and(|r| r.is_match(name));
        let has = |names: &[String], name: &str| {
            names.iter().any(|known| known.trim_start_matches('/') == name.trim_start_matches('/'))
        };
        if let Some(service) = service_of(name, type_name) {
            return !has(&self.exclude_services, service)
                && !found(&self.exclude_regex, service)
                && (self.all_services
                    || has(&self.services, service)
                    || found(&self.regex, service));
        }
        if has(&self.exclude_topics, name)
            || found(&self.exclude_regex, name)
            || self.exclude_topic_types.iter().any(|known| known == type_name)
        {
            return false;
        }
        if has(&self.topics, name) {
            return true;
        }
        let is_hidden = name.split('/').any(|part| part.starts_with('_'));
        (self.include_hidden_topics || !is_hidden)
            && (self.all_topics
                || self.topic_types.iter().any(|known| known == type_name)
                || found(&self.regex, name))
    }
}

/// The service whose events a topic carries.
fn service_of<'a>(name: &'a str, type_name: &str) -> Option<&'a str> {
    let is_event = type_name.contains("/srv/") && type_name.ends_with("_Event");
    name.strip_suffix(SERVICE_EVENTS).filter(|_| is_event)
}

/// The messages of the topics that `filter` takes, with log times from `from_nanos` to `to_nanos`,
/// both included.
pub fn selected(
    mut inner: Box<dyn MessageSource>,
    filter: &TopicFilter,
    from_nanos: Option<u64>,
    to_nanos: Option<u64>,
) -> Box<dyn MessageSource> {
    let mut topics = Vec::new();
    let mut places = Vec::new();
    for topic in inner.topics() {
        let is_taken = filter.takes(&topic.name, &topic.type_name);
        places.push(is_taken.then_some(topics.len()));
        if is_taken {
            topics.push(topic.clone());
        }
    }
    let is_all = topics.len() == places.len() && from_nanos.is_none() && to_nanos.is_none();
    if let Some(from) = from_nanos {
        inner.skip_before(from);
    }
    let range = (from_nanos.unwrap_or(0), to_nanos.unwrap_or(u64::MAX));
    let mut warnings = Warnings::default();
    if topics.is_empty() && !places.is_empty() {
        warnings.say("no topic was selected");
    }
    Box::new(Selected { inner, topics, places, range, is_all, warnings })
}

struct Selected {
    inner: Box<dyn MessageSource>,
    topics: Vec<Topic>,
    /// Place among `topics` by topic of `inner`.
    places: Vec<Option<usize>>,
    range: (u64, u64),
    is_all: bool,
    /// Those of `inner` are added when it has ended.
    warnings: Warnings,
}

impl MessageSource for Selected {
    fn inner(&self) -> Option<&dyn MessageSource> {
        Some(&*self.inner)
    }

    fn inner_mut(&mut self) -> Option<&mut dyn MessageSource> {
        Some(&mut *self.inner)
    }

    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn profile(&self) -> &str {
        self.inner.profile()
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        loop {
            let next = self.inner.next_message()?;
            let Some(mut message) = next.filter(|next| next.log_time_nanos <= self.range.1) else {
                for warning in self.inner.warnings() {
                    self.warnings.say(warning);
                }
                return Ok(None);
            };
            let place = self.places[message.topic];
            if let Some(place) = place.filter(|_| message.log_time_nanos >= self.range.0) {
                message.topic = place;
                return Ok(Some(message));
            }
        }
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.inner.start_time_nanos()
    }

    fn message_count(&self) -> Option<u64> {
        // How many of them are selected shows at the end.
        self.inner.message_count().filter(|_| self.is_all)
    }

    fn accounts(&self) -> Option<Vec<Account>> {
        self.inner.accounts().filter(|_| self.is_all)
    }

    fn totals(&self) -> Option<SourceTotals> {
        self.inner.totals().filter(|_| self.is_all)
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }
}
