//! The contents of a request.

use std::ops::RangeInclusive;
use std::time::Duration;

use livebag::{Container, Query, Span};

use crate::limits::{
    ARRAY_ITEMS_MAX, FIELDS_MAX, NAME_BYTES_MAX, PICTURE_WIDTH_MAX, TOPICS_MAX, WITHIN_MAX,
};
use crate::moment::{self, Moment};
use crate::text::shortened;

/// An invalid request: the found value, and what would be valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AskError(pub String);

/// How the messages are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// An MCAP file.
    #[default]
    Mcap,
    /// A line of JSON for each message: times and sizes.
    Lines,
    /// The same with the values; of longer arrays the first N items.
    Decoded {
        /// Items that are given.
        array_items_max: usize,
    },
}

/// How one message is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageForm {
    /// As it was encoded.
    #[default]
    Raw,
    /// Its values.
    Json {
        /// Items that are given of an array.
        array_items_max: usize,
    },
    /// A picture, every value kept.
    Png {
        /// Columns at most; of more some are left out.
        width_max: Option<usize>,
    },
    /// A picture of eight bits.
    Jpeg {
        /// Columns at most; of more averages are given.
        width_max: Option<usize>,
    },
}

/// Which message relative to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first behind it.
    Next,
    /// The last before it.
    Previous,
}

/// The names and values of a request, each read once, so that a misspelt one is not ignored.
pub struct Parameters {
    pairs: Vec<(String, String)>,
}

impl Parameters {
    /// Takes names and values as they came.
    pub fn new(pairs: Vec<(String, String)>) -> Self {
        Self { pairs }
    }

    /// Takes `name=value` pairs out of an address: percent-encoded, separated by `&`.
    ///
    /// # Errors
    /// If an escape is not one, or a value is not UTF-8.
    pub fn parse(query: &str) -> Result<Self, AskError> {
        let mut pairs = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            pairs.push((unescape(name)?, unescape(value)?));
        }
        Ok(Self { pairs })
    }

    /// All values of a name.
    pub fn all(&mut self, name: &str) -> Vec<String> {
        let taken = self.pairs.extract_if(.., |(known, _)| known == name);
        taken.map(|(_, value)| value).collect()
    }

    /// The value of a name.
    ///
    /// # Errors
    /// If there are several.
    pub fn one(&mut self, name: &str) -> Result<Option<String>, AskError> {
        let mut all = self.all(name);
        match all.len() {
            0 | 1 => Ok(all.pop()),
            count => Err(AskError(format!("`{name}` is given {count} times: give it once"))),
        }
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// Names the valid ones.
    pub fn end(self) -> Result<(), AskError> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(AskError(format!(
                "`{}` is not a parameter of this request: /openapi.json describes them",
                shortened(name)
            ))),
        }
    }

    /// `topic=…`, any number of times.
    ///
    /// # Errors
    /// If there are too many, or one is too long.
    pub fn topics(&mut self) -> Result<Vec<String>, AskError> {
        let topics = self.all("topic");
        if topics.len() > TOPICS_MAX {
            return Err(AskError(format!(
                "{} topics are named; at most {TOPICS_MAX} can be: none means all of them",
                topics.len()
            )));
        }
        match topics.iter().find(|topic| topic.is_empty() || topic.len() > NAME_BYTES_MAX) {
            Some(topic) => Err(AskError(format!(
                "`{}` is not a name of a topic: 1 to {NAME_BYTES_MAX} bytes were expected",
                shortened(topic)
            ))),
            None => Ok(topics),
        }
    }

    /// `topic=…` of a request about one topic.
    ///
    /// # Errors
    /// If there is none or another one, or it is too long.
    pub fn topic(&mut self) -> Result<String, AskError> {
        let mut topics = self.topics()?;
        match topics.len() {
            1 => Ok(topics.remove(0)),
            count => Err(AskError(format!("{count} topics are named: name one (topic=/camera)"))),
        }
    }

    /// `field=…`, at least once.
    ///
    /// # Errors
    /// If there is none or too many, or one is too long.
    pub fn fields(&mut self) -> Result<Vec<String>, AskError> {
        let fields = self.all("field");
        if fields.is_empty() || fields.len() > FIELDS_MAX {
            return Err(AskError(format!(
                "{} fields are named: name 1 to {FIELDS_MAX} (field=linear_acceleration.x)",
                fields.len()
            )));
        }
        match fields.iter().find(|field| field.is_empty() || field.len() > NAME_BYTES_MAX) {
            Some(field) => Err(AskError(format!(
                "`{}` is not a name of a field: 1 to {NAME_BYTES_MAX} bytes were expected",
                shortened(field)
            ))),
            None => Ok(fields),
        }
    }

    /// A whole number within bounds.
    ///
    /// # Errors
    /// If it is none, or beyond them.
    pub fn number(
        &mut self,
        name: &str,
        bounds: RangeInclusive<usize>,
    ) -> Result<Option<usize>, AskError> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_number && bounds.contains(&number) => Ok(Some(number)),
            _ => Err(AskError(format!(
                "`{name}` is a whole number from {} to {}, not `{}`",
                bounds.start(),
                bounds.end(),
                shortened(&text)
            ))),
        }
    }

    /// `step=next` or `step=previous`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn step(&mut self) -> Result<Option<Step>, AskError> {
        match self.one("step")?.as_deref() {
            None => Ok(None),
            Some("next") => Ok(Some(Step::Next)),
            Some("previous") => Ok(Some(Step::Previous)),
            Some(other) => {
                Err(AskError(format!("`step` is next or previous, not `{}`", shortened(other))))
            }
        }
    }

    /// A duration.
    ///
    /// # Errors
    /// If it is not one, or is given twice.
    pub fn duration(&mut self, name: &str) -> Result<Option<Duration>, AskError> {
        let text = self.one(name)?;
        text.map(|text| moment::duration(&text)).transpose().map_err(AskError)
    }

    /// A time.
    ///
    /// # Errors
    /// If it is not one, or is given twice.
    pub fn moment(&mut self, name: &str) -> Result<Option<Moment>, AskError> {
        let text = self.one(name)?;
        text.map(|text| moment::moment(&text)).transpose().map_err(AskError)
    }

    /// `within=D`, for `auto`.
    ///
    /// # Errors
    /// If it is not a duration, or is too long.
    pub fn within(&mut self) -> Result<Duration, AskError> {
        let within = self.duration("within")?.unwrap_or(Duration::from_secs(1));
        if within.is_zero() || within > WITHIN_MAX {
            return Err(AskError(format!(
                "`within` is a time above zero, up to {} s",
                WITHIN_MAX.as_secs()
            )));
        }
        Ok(within)
    }

    /// `decimate=/topic:HZ`, any number of times.
    ///
    /// # Errors
    /// If one is not like that.
    pub fn decimate(&mut self) -> Result<Vec<(String, f64)>, AskError> {
        self.all("decimate").iter().map(|text| rate_of(text)).collect()
    }

    fn array_items(&mut self) -> Result<usize, AskError> {
        let Some(text) = self.one("array_items")? else { return Ok(64) };
        match text.parse() {
            Ok(count) if count <= ARRAY_ITEMS_MAX => Ok(count),
            _ => Err(AskError(format!(
                "`array_items` is a number of items up to {ARRAY_ITEMS_MAX}, not `{}`",
                shortened(&text)
            ))),
        }
    }

    /// `name=true`, or only `name`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn flag(&mut self, name: &str) -> Result<bool, AskError> {
        match self.one(name)?.as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1" | "") => Ok(true),
            Some(other) => {
                Err(AskError(format!("`{name}` is true or false, not `{}`", shortened(other))))
            }
        }
    }

    /// `format=`, `decode=` and `array_items=` of an answer with any number of messages.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub fn form(&mut self) -> Result<Form, AskError> {
        let (format, decode) = (self.one("format")?, self.flag("decode")?);
        let array_items_max = self.array_items()?;
        match (format.as_deref(), decode) {
            (None | Some("mcap"), false) => Ok(Form::Mcap),
            (Some("jsonl"), false) => Ok(Form::Lines),
            (None | Some("jsonl"), true) => Ok(Form::Decoded { array_items_max }),
            (Some("mcap"), true) => {
                Err(AskError("`decode` gives values as JSON lines: ask for format=jsonl".into()))
            }
            (Some(other), _) => Err(AskError(format!(
                "`format` is mcap or jsonl, not `{}`; a single message has raw, json, png and jpeg \
                 (…/message)",
                shortened(other)
            ))),
        }
    }

    /// `format=` and `array_items=` of one message.
    ///
    /// # Errors
    /// If one of them makes no sense.
    pub fn message_form(&mut self) -> Result<MessageForm, AskError> {
        let array_items_max = self.array_items()?;
        let width_max = self.number("width", 1..=PICTURE_WIDTH_MAX)?;
        match self.one("format")?.as_deref() {
            Some("png") => Ok(MessageForm::Png { width_max }),
            Some("jpeg" | "jpg") => Ok(MessageForm::Jpeg { width_max }),
            None | Some("raw" | "json") if width_max.is_some() => {
                Err(AskError("`width` is of pictures: ask for format=jpeg or format=png".into()))
            }
            None | Some("raw") => Ok(MessageForm::Raw),
            Some("json") => Ok(MessageForm::Json { array_items_max }),
            Some(other) => Err(AskError(format!(
                "`format` is raw, json, png or jpeg, not `{}`",
                shortened(other)
            ))),
        }
    }
}

/// A topic, and how many of its messages a second are enough: `/topic:HZ`.
///
/// # Errors
/// If it has another form.
pub fn rate_of(text: &str) -> Result<(String, f64), AskError> {
    let parse = || {
        let (topic, rate) = text.rsplit_once(':')?;
        let rate: f64 = rate.parse().ok()?;
        (rate.is_finite() && rate > 0.0 && !topic.is_empty()).then(|| (topic.to_owned(), rate))
    };
    parse().ok_or_else(|| {
        AskError(format!(
            "`{}` is no decimation: /topic:HZ was expected, with a rate above 0",
            shortened(text)
        ))
    })
}

/// Takes percent escapes and `+` out of a part of an address.
///
/// # Errors
/// If an escape is not one, or the result is not UTF-8.
pub fn unescape(text: &str) -> Result<String, AskError> {
    let wrong = || AskError(format!("`{}` is not percent-encoded UTF-8", shortened(text)));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|c| char::from(c).to_digit(16));
                let (high, low) = (digit().ok_or_else(wrong)?, digit().ok_or_else(wrong)?);
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// Puts percent escapes into a part of an address.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// `imu` means `/imu` if there is no `imu`, and vice versa.
pub fn full_names(container: &Container, names: &[String]) -> Vec<String> {
    let is_topic = |name: &str| container.topics().iter().any(|topic| topic.topic().name == name);
    let full = |name: &String| match (format!("/{name}"), name.strip_prefix('/')) {
        _ if is_topic(name) => name.clone(),
        (slashed, _) if is_topic(&slashed) => slashed,
        (_, Some(plain)) if is_topic(plain) => plain.to_owned(),
        _ => name.clone(),
    };
    names.iter().map(full).collect()
}

/// The query of everything between two moments of a recording.
///
/// # Errors
/// If the first is after the second, or an index cannot be read.
pub fn between(
    container: &Container,
    topics: &[String],
    from: Option<Moment>,
    to: Option<Moment>,
) -> Result<Query, BetweenError> {
    let start_nanos = container.time_range()?.map_or(container.started_nanos(), |(start, _)| start);
    let from_nanos = from.map_or(0, |moment| moment.nanos(start_nanos));
    let to_nanos = to.map_or(u64::MAX, |moment| moment.nanos(start_nanos));
    if from_nanos > to_nanos {
        return Err(BetweenError::Order(AskError(format!(
            "`from` ({from_nanos} ns) is after `to` ({to_nanos} ns): exchange them"
        ))));
    }
    let span = match (from, to) {
        (None, None) => Span::All,
        _ => Span::History(from_nanos, to_nanos),
    };
    Ok(Query { topics: full_names(container, topics), span })
}

/// Why a time is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BetweenError {
    /// The client's fault.
    #[error(transparent)]
    Order(#[from] AskError),
    /// The recording's.
    #[error(transparent)]
    Container(#[from] livebag::ContainerError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_go_both_ways() {
        for text in ["/imu", "a b&c=d%", "ü/€", "", "\0\n"] {
            assert_eq!(unescape(&escape(text)).unwrap(), text);
        }
        for wrong in ["%", "%4", "%zz", "%ff", "a%e2%82"] {
            assert!(unescape(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn misspelt_parameters_are_refused() {
        let mut ask = Parameters::parse("topic=/a&topic=%2Fb&last=1s&tpoic=x").unwrap();
        assert_eq!(ask.topics().unwrap(), ["/a", "/b"]);
        assert_eq!(ask.duration("last").unwrap(), Some(Duration::from_secs(1)));
        assert!(ask.end().unwrap_err().0.contains("tpoic"));
        assert!(Parameters::parse("last=1s&last=2s").unwrap().duration("last").is_err());
        for wrong in ["format=xml", "decode=perhaps", "format=mcap&decode=1", "array_items=-1"] {
            assert!(Parameters::parse(wrong).unwrap().form().is_err(), "{wrong}");
        }
        for wrong in ["decimate=5", "decimate=/a:x", "decimate=/a:0", "decimate=:5"] {
            assert!(Parameters::parse(wrong).unwrap().decimate().is_err(), "{wrong}");
        }
        let topics = "topic=a&".repeat(TOPICS_MAX + 1);
        assert!(Parameters::parse(&topics).unwrap().topics().is_err());
    }
}
