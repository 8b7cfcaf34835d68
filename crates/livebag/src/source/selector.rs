//! Which streams are recorded.

use livebag_format::Topic;
use livebag_shm::Owners;
use regex::Regex;

/// Chooses streams by name, by pattern, or all.
///
/// ```
/// let selector = livebag::Selector::regex("^/camera")?.excluding("depth")?;
/// # Ok::<(), livebag::SelectorError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Selector {
    all: bool,
    names: Vec<String>,
    include: Option<Regex>,
    types: Vec<String>,
    exclude: Option<Regex>,
    without: Vec<String>,
    all_users: bool,
}

/// A pattern that is no regular expression.
#[derive(Debug, thiserror::Error)]
#[error("`{pattern}` is not a regular expression: {reason}")]
pub struct SelectorError {
    pattern: String,
    reason: String,
}

/// Compiles a regular expression, as all of livebag's options take them.
///
/// # Errors
/// If it is none.
pub fn pattern(pattern: &str) -> Result<Regex, SelectorError> {
    compile(pattern)
}

fn compile(pattern: &str) -> Result<Regex, SelectorError> {
    Regex::new(pattern)
        .map_err(|error| SelectorError { pattern: pattern.to_owned(), reason: error.to_string() })
}

impl Selector {
    /// Every stream.
    pub fn all() -> Self {
        Self { all: true, ..Self::default() }
    }

    /// Streams with one of these names, or carrying one of these topics.
    pub fn names(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { names: names.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Streams whose name or topic matches `pattern` somewhere.
    ///
    /// # Errors
    /// If `pattern` is not a regular expression.
    pub fn regex(pattern: &str) -> Result<Self, SelectorError> {
        Ok(Self { include: Some(compile(pattern)?), ..Self::default() })
    }

    /// Streams of one of these types (`sensor_msgs/msg/Image`).
    pub fn types(types: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { types: types.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The same with streams of all users. Without it: those of this process's user, of root, and of groups
    /// that this process belongs to. Any other user could end the recording by cutting a stream short.
    pub fn of_all_users(mut self) -> Self {
        self.all_users = true;
        self
    }

    /// Whether it takes the stream `name`, or its topic, because it was named.
    pub(crate) fn names_it(&self, name: &str, topic: &Topic) -> bool {
        self.names.iter().any(|wanted| wanted == name || *wanted == topic.name)
    }

    /// The same without streams with one of these names, or carrying one of these topics.
    pub fn without(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.without.extend(names.into_iter().map(Into::into));
        self
    }

    /// The same without streams whose name or topic matches `pattern`.
    ///
    /// # Errors
    /// If `pattern` is not a regular expression.
    pub fn excluding(mut self, pattern: &str) -> Result<Self, SelectorError> {
        self.exclude = Some(compile(pattern)?);
        Ok(self)
    }

    /// Whose streams it takes.
    pub(crate) fn owners(&self) -> Owners {
        if self.all_users { Owners::All } else { Owners::Trusted }
    }

    /// Whether `name` was given as a name, not matched by a pattern or a type.
    pub fn names_topic(&self, name: &str) -> bool {
        self.names.iter().any(|wanted| wanted == name)
    }

    /// Whether the stream `name`, which carries `topic`, is chosen.
    pub fn takes(&self, name: &str, topic: &Topic) -> bool {
        let both = [name, topic.name.as_str()];
        let matches = |pattern: &Option<Regex>| {
            pattern.as_ref().is_some_and(|p| both.iter().any(|text| p.is_match(text)))
        };
        let is_in = |names: &[String]| names.iter().any(|wanted| both.contains(&wanted.as_str()));
        let is_of_type = self.types.contains(&topic.type_name);
        let chosen = self.all || is_in(&self.names) || is_of_type || matches(&self.include);
        chosen && !matches(&self.exclude) && !is_in(&self.without)
    }
}
