//! Named moments and time ranges of a recording. Layout: `docs/container-layout.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Name of the file in the container's directory.
pub const EVENTS_FILE: &str = "container.events";
/// Name of the MCAP metadata record that an event becomes in an export.
pub const EVENT_RECORD: &str = "livebag.event";

/// Hexadecimal digits of a line's checksum.
const CHECKSUM_DIGITS: usize = 8;

/// A named moment or time range of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// A few words more, or nothing.
    #[serde(default)]
    pub text: String,
    /// Its first log time, nanoseconds since the Unix epoch.
    #[serde(rename = "from_time", with = "crate::json_time")]
    pub from_nanos: u64,
    /// Its last log time; of a moment the same as the first.
    #[serde(rename = "to_time", with = "crate::json_time")]
    pub to_nanos: u64,
}

impl Event {
    /// The event's line in [`EVENTS_FILE`]: checksum, space, JSON, line feed.
    pub fn to_line(&self) -> String {
        let json = serde_json::json!(self).to_string();
        format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))
    }

    /// Reads a line without its line feed; `None` if it is damaged.
    pub fn parse_line(line: &[u8]) -> Option<Self> {
        let (digits, rest) = line.split_at_checked(CHECKSUM_DIGITS)?;
        let json = rest.strip_prefix(b" ")?;
        let stored = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        let event: Self = serde_json::from_slice(json).ok()?;
        (stored == crc32c::crc32c(json) && event.from_nanos <= event.to_nanos).then_some(event)
    }

    /// The values of its MCAP metadata record.
    pub fn to_values(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("name".to_owned(), self.name.clone()),
            ("text".to_owned(), self.text.clone()),
            ("from_time".to_owned(), self.from_nanos.to_string()),
            ("to_time".to_owned(), self.to_nanos.to_string()),
        ])
    }

    /// The event of such a record; `None` if the values are others'.
    pub fn from_values(values: &BTreeMap<String, String>) -> Option<Self> {
        let event = Self {
            name: values.get("name")?.clone(),
            text: values.get("text").cloned().unwrap_or_default(),
            from_nanos: values.get("from_time")?.parse().ok()?,
            to_nanos: values.get("to_time")?.parse().ok()?,
        };
        let is_known = |key: &String| ["name", "text", "from_time", "to_time"].contains(&&**key);
        (event.from_nanos <= event.to_nanos && values.keys().all(is_known)).then_some(event)
    }
}

/// What an [`EVENTS_FILE`] has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// In order of their first log time; those of one time in the order in which they were added.
    pub events: Vec<Event>,
    /// Lines that are damaged or cut, and left out.
    pub damaged: usize,
}

impl Events {
    /// Reads the file's bytes.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut this = Self::default();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match Event::parse_line(line) {
                Some(event) => this.events.push(event),
                None => this.damaged += 1,
            }
        }
        this.events.sort_by_key(|event| event.from_nanos);
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, from_nanos: u64, to_nanos: u64) -> Event {
        Event { name: name.into(), text: "a\nb".into(), from_nanos, to_nanos }
    }

    #[test]
    fn a_line_is_written_and_read() {
        let event = event("near miss", 1, u64::MAX);
        let line = event.to_line();
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        assert_eq!(Event::parse_line(line.trim_end().as_bytes()), Some(event));
    }

    #[test]
    fn lines_come_in_order_of_time_and_those_of_one_time_as_they_were_added() {
        let all = [event("c", 7, 7), event("a", 5, 9), event("b", 5, 5)];
        let text: String = all.iter().map(Event::to_line).collect();
        let events = Events::parse(text.as_bytes());
        let names: Vec<_> = events.events.iter().map(|event| &*event.name).collect();
        assert_eq!((names, events.damaged), (vec!["a", "b", "c"], 0));
    }

    /// Wherever a crash cuts the file, and whichever byte a medium changes, the other lines are read.
    #[test]
    fn a_cut_or_damaged_line_costs_no_other_line() {
        let (first, second) = (event("a", 1, 1).to_line(), event("b", 2, 3).to_line());
        for cut in 0..second.len() - 1 {
            let bytes = format!("{first}{}", &second[..cut]);
            let events = Events::parse(bytes.as_bytes());
            assert_eq!((events.events.len(), events.damaged), (1, usize::from(cut > 0)), "{cut}");
        }
        for at in 0..first.len() - 1 {
            let mut bytes = format!("{first}{second}").into_bytes();
            bytes[at] ^= 1;
            let events = Events::parse(&bytes);
            assert!(events.events.iter().any(|event| event.name == "b"), "{at}");
            assert!(events.damaged > 0, "{at}");
        }
    }

    #[test]
    fn a_line_of_another_meaning_is_damaged() {
        let json = br#"{"name":"a","from_time":"2","to_time":"1"}"#;
        let mut line = format!("{:08x} ", crc32c::crc32c(json)).into_bytes();
        line.extend_from_slice(json);
        assert_eq!(Event::parse_line(&line), None);
        assert_eq!(Event::parse_line(b"0000000\xff {}"), None);
        assert_eq!(Event::parse_line(b""), None);
    }

    #[test]
    fn a_record_gives_the_event_back() {
        let event = event("a", 1, 2);
        assert_eq!(Event::from_values(&event.to_values()), Some(event.clone()));
        let mut foreign = event.to_values();
        foreign.insert("colour".into(), "red".into());
        assert_eq!(Event::from_values(&foreign), None);
    }
}
