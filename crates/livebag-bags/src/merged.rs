//! Several recordings read as one, in order of log time.

use livebag::Account;
use livebag_format::Topic;
use livebag_format::rosbag2::{BagMetadata, QosProfile, QosStyle};

use super::accounts::joined;
use super::{
    Attachment, ConvertError, MessageSource, MetadataRecord, SourceMessage, Warnings, add_records,
};

/// Several recordings as one: messages by log time (rosbag2's receive time), those of equal time in
/// the order of the recordings. Topics that are equal in all they say become one; custom data and
/// other metadata are those of all, the first's where they differ.
pub fn merged(inputs: Vec<Box<dyn MessageSource>>) -> Box<dyn MessageSource> {
    let mut topics: Vec<Topic> = Vec::new();
    let mut records = Vec::new();
    let mut about: Option<BagMetadata> = None;
    let mut all = Vec::new();
    for source in inputs {
        let mut places = Vec::new();
        for topic in source.topics() {
            let known = topics.iter().position(|known| is_same(known, topic));
            places.push(known.unwrap_or(topics.len()));
            if known.is_none() {
                topics.push(topic.clone());
            }
        }
        add_records(&mut records, source.metadata_records());
        if let Some(bag) = source.bag_metadata() {
            let about = about.get_or_insert_with(|| bag.clone());
            for (key, value) in &bag.custom_data {
                about.custom_data.entry(key.clone()).or_insert_with(|| value.clone());
            }
            if about.ros_distro.is_empty() {
                about.ros_distro = bag.ros_distro.clone();
            }
        }
        all.push(Input { source, places, next: Next::Unknown });
    }
    Box::new(Merged { inputs: all, topics, records, about, warnings: Warnings::default() })
}

/// Whether two topics say the same: QoS profiles may be spelt in another style.
fn is_same(a: &Topic, b: &Topic) -> bool {
    let spelt_alike = |topic: &Topic| {
        let mut topic = topic.clone();
        // No text and an empty list say the same.
        let qos = topic.metadata.remove("offered_qos_profiles").unwrap_or_default();
        let profiles = QosProfile::parse_list(&qos).unwrap_or_default();
        let numbered = profiles.iter().map(|profile| profile.styled(QosStyle::Numbers));
        (topic, numbered.collect::<Vec<_>>())
    };
    a.name == b.name && spelt_alike(a) == spelt_alike(b)
}

struct Merged {
    inputs: Vec<Input>,
    topics: Vec<Topic>,
    records: Vec<MetadataRecord>,
    about: Option<BagMetadata>,
    warnings: Warnings,
}

struct Input {
    source: Box<dyn MessageSource>,
    /// Topic of all by topic of the recording.
    places: Vec<usize>,
    next: Next,
}

enum Next {
    Unknown,
    Message(SourceMessage),
    None,
}

impl Input {
    fn fetch(&mut self) -> Result<(), ConvertError> {
        self.next = match self.source.next_message()? {
            Some(mut message) => {
                message.topic = self.places[message.topic];
                Next::Message(message)
            }
            None => Next::None,
        };
        Ok(())
    }

    fn time(&self) -> Option<u64> {
        match &self.next {
            Next::Unknown => self.source.start_time_nanos(),
            Next::Message(message) => Some(message.log_time_nanos),
            Next::None => None,
        }
    }
}

impl MessageSource for Merged {
    fn topics(&self) -> &[Topic] {
        &self.topics
    }

    fn profile(&self) -> &str {
        // One profile for all, or none.
        let mut profiles = self.inputs.iter().map(|input| input.source.profile());
        let first = profiles.next().unwrap_or_default();
        if profiles.all(|profile| profile == first) { first } else { "" }
    }

    fn next_message(&mut self) -> Result<Option<SourceMessage>, ConvertError> {
        for input in &mut self.inputs {
            if matches!(input.next, Next::Unknown) {
                input.fetch()?;
            }
        }
        let times = self.inputs.iter().enumerate();
        let earliest = times.filter_map(|(index, input)| Some((input.time()?, index))).min();
        let Some((_, index)) = earliest else {
            for warning in self.inputs.iter().flat_map(|input| input.source.warnings()) {
                self.warnings.say(warning);
            }
            return Ok(None);
        };
        let input = &mut self.inputs[index];
        match std::mem::replace(&mut input.next, Next::Unknown) {
            Next::Message(message) => Ok(Some(message)),
            Next::Unknown | Next::None => Ok(None),
        }
    }

    fn skip_before(&mut self, log_time_nanos: u64) {
        self.inputs.iter_mut().for_each(|input| input.source.skip_before(log_time_nanos));
    }

    fn start_time_nanos(&self) -> Option<u64> {
        self.inputs.iter().filter_map(Input::time).min()
    }

    fn message_count(&self) -> Option<u64> {
        // What foreign summaries claim need not fit.
        let mut counts = self.inputs.iter().map(|input| input.source.message_count());
        counts.try_fold(0, |sum: u64, count| sum.checked_add(count?))
    }

    fn lacks_messages(&self) -> bool {
        self.inputs.iter().any(|input| input.source.lacks_messages())
    }

    fn accounts(&self) -> Option<Vec<Account>> {
        let mut all = Vec::new();
        for input in &self.inputs {
            all.extend(input.places.iter().copied().zip(input.source.accounts()?));
        }
        Some(joined(all.into_iter(), self.topics.len()))
    }

    fn lost_count(&self) -> u64 {
        self.inputs.iter().map(|input| input.source.lost_count()).fold(0, u64::saturating_add)
    }

    fn warnings(&self) -> &[String] {
        self.warnings.all()
    }

    fn next_attachment(&mut self) -> Result<Option<Attachment>, ConvertError> {
        for input in &mut self.inputs {
            if let Some(attachment) = input.source.next_attachment()? {
                return Ok(Some(attachment));
            }
        }
        Ok(None)
    }

    fn metadata_records(&self) -> &[MetadataRecord] {
        &self.records
    }

    fn bag_metadata(&self) -> Option<&BagMetadata> {
        self.about.as_ref()
    }
}
