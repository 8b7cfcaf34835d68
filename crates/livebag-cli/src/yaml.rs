//! A YAML document read by key, so that every error names the file, the line, the key, the expected and the found
//! value.

use std::fmt;
use std::path::Path;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use crate::outcome::CliError;

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Counted from 1.
    line: u64,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Null,
    Flag(bool),
    Whole(u64),
    /// Also negative numbers.
    Number(f64),
    Text(String),
    List(Vec<Value>),
    /// Each with the line of its key.
    Map(Vec<(String, u64, Value)>),
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Kind>::deserialize(deserializer)?;
        Ok(Self { line: spanned.referenced.line(), kind: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_none<E>(self) -> Result<Kind, E> {
        Ok(Kind::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Kind, D::Error> {
        Kind::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Kind, E> {
        Ok(Kind::Flag(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Kind, E> {
        Ok(Kind::Whole(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Kind, E> {
        Ok(u64::try_from(value).map_or(Kind::Number(value as f64), Kind::Whole))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Kind, E> {
        Ok(Kind::Number(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Kind, E> {
        Ok(Kind::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Kind, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Kind::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Kind, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            map.push((key.value, key.referenced.line(), entries.next_value()?));
        }
        Ok(Kind::Map(map))
    }
}

#[cfg(any(feature = "bench", test))]
impl Value {
    /// Whether this is a map with the key.
    pub fn has(&self, key: &str) -> bool {
        matches!(&self.kind, Kind::Map(map) if map.iter().any(|(known, ..)| known == key))
    }
}

/// A value in a document, and the way to it.
pub struct Node<'a> {
    value: &'a Value,
    /// Of its key, or of the item.
    line: u64,
    file: &'a str,
    path: String,
}

/// Reads a document.
pub fn parse(file: &str, text: &str) -> Result<Value, CliError> {
    serde_saphyr::from_str(text).map_err(|error| {
        let what = error.to_string().replacen("<input>", file, 1);
        let what = what.strip_prefix("error: ").unwrap_or(&what);
        CliError::failed(format!("{file} is not YAML: {what}"))
    })
}

/// The text of a file that is to be YAML.
pub fn read(path: &Path) -> Result<String, CliError> {
    #[expect(clippy::disallowed_methods, reason = "settings, not a recording")]
    std::fs::read_to_string(path).map_err(|source| CliError::file("reading", path, source))
}

impl<'a> Node<'a> {
    /// The whole document.
    pub fn root(file: &'a str, value: &'a Value) -> Self {
        Self { value, line: value.line, file, path: String::new() }
    }

    /// A complaint about this value.
    pub fn wrong(&self, expected: &str) -> CliError {
        let found = match &self.value.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Map(_) => "further keys".to_owned(),
            Kind::List(items) => format!("a list of {}", crate::text::plural(items.len(), "item")),
            Kind::Text(text) => format!("{text:?}"),
            Kind::Flag(flag) => flag.to_string(),
            Kind::Whole(number) => number.to_string(),
            Kind::Number(number) => number.to_string(),
        };
        let path = if self.path.is_empty() { "the document" } else { &self.path };
        self.complaint(&format!("{path}: expected {expected}, found {found}"))
    }

    fn complaint(&self, what: &str) -> CliError {
        CliError::failed(format!("{}:{}: {what}", self.file, self.line))
    }

    fn map(&self) -> Result<&'a [(String, u64, Value)], CliError> {
        match &self.value.kind {
            Kind::Map(map) => Ok(map),
            _ => Err(self.wrong("keys with values")),
        }
    }

    /// The value of a key; `None` where there is none.
    pub fn find(&self, key: &str) -> Result<Option<Node<'a>>, CliError> {
        let dot = if self.path.is_empty() { "" } else { "." };
        let found =
            self.map()?.iter().find(|(known, _, value)| known == key && value.kind != Kind::Null);
        Ok(found.map(|(_, line, value)| Node {
            value,
            line: *line,
            file: self.file,
            path: format!("{}{dot}{key}", self.path),
        }))
    }

    /// The value of a key that must be there.
    pub fn get(&self, key: &str) -> Result<Node<'a>, CliError> {
        self.find(key)?.ok_or_else(|| {
            let under =
                if self.path.is_empty() { String::new() } else { format!(" under {}", self.path) };
            self.complaint(&format!("the key {key} is missing{under}"))
        })
    }

    /// The value at the end of a way of keys.
    #[cfg(any(feature = "bench", test))]
    pub fn at(&self, keys: &[&str]) -> Result<Node<'a>, CliError> {
        let mut node = Node { path: self.path.clone(), ..*self };
        for key in keys {
            node = node.get(key)?;
        }
        Ok(node)
    }

    /// Reports keys other than these.
    pub fn only(&self, known: &[&str]) -> Result<(), CliError> {
        match self.map()?.iter().find(|(key, ..)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, line, _)) => Err(CliError::failed(format!(
                "{}:{line}: {}: the key {key} is not known; known are {}",
                self.file,
                self.path,
                known.join(", ")
            ))),
        }
    }

    /// A text.
    pub fn text(&self) -> Result<&'a str, CliError> {
        match &self.value.kind {
            Kind::Text(text) => Ok(text),
            // YAML 1.1 reads y, n, yes, no, on and off as flags; a message may have a field called y.
            Kind::Flag(_) => {
                Err(self.wrong("a text (write a name like y, n, on or off in quotes: \"y\")"))
            }
            _ => Err(self.wrong("a text")),
        }
    }

    /// Yes or no.
    pub fn flag(&self) -> Result<bool, CliError> {
        match self.value.kind {
            Kind::Flag(flag) => Ok(flag),
            _ => Err(self.wrong("true or false")),
        }
    }

    /// A whole number of at least `min`.
    pub fn whole(&self, min: u64) -> Result<u64, CliError> {
        match self.value.kind {
            Kind::Whole(number) if number >= min => Ok(number),
            _ => Err(self.wrong(&format!("a whole number of at least {min}"))),
        }
    }

    /// Whether this is a number below 0.
    pub fn is_negative(&self) -> bool {
        matches!(self.value.kind, Kind::Number(number) if number < 0.0)
    }

    /// A number above 0.
    #[cfg(any(feature = "bench", test))]
    pub fn positive(&self) -> Result<f64, CliError> {
        match self.value.kind {
            Kind::Whole(number) if number > 0 => Ok(number as f64),
            Kind::Number(number) if number > 0.0 && number.is_finite() => Ok(number),
            _ => Err(self.wrong("a number above 0")),
        }
    }

    /// The items of a list.
    pub fn list(&self) -> Result<Vec<Node<'a>>, CliError> {
        let Kind::List(items) = &self.value.kind else {
            return Err(self.wrong("a list: [a, b]"));
        };
        let item = |(index, value): (usize, &'a Value)| Node {
            value,
            line: value.line,
            file: self.file,
            path: format!("{}[{index}]", self.path),
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The items of a list, which must have one, each read by `read`.
    pub fn some<T>(
        &self,
        read: impl Fn(&Node<'a>) -> Result<T, CliError>,
    ) -> Result<Vec<T>, CliError> {
        let items = self.list()?.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if items.is_empty() { Err(self.wrong("a list with at least one item")) } else { Ok(items) }
    }

    /// The keys under this one, with their lines.
    pub fn keys(&self) -> Result<impl Iterator<Item = (&'a str, u64)>, CliError> {
        Ok(self.map()?.iter().map(|(key, line, _)| (key.as_str(), *line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# comment\na:\n  b: True\n  c:\n    - 1\n    - -2\n    - 2.5\n\
        d: [x,\n    \"y\"]\ne:\n";

    #[test]
    fn every_complaint_tells_the_line() {
        let value = parse("f.yaml", TEXT).unwrap();
        let root = Node::root("f.yaml", &value);
        let said = |result: Result<(), CliError>, words: &str| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        };
        let at = |keys: &[&str]| root.at(keys).unwrap();
        assert!(at(&["a", "b"]).flag().unwrap());
        said(at(&["a", "b"]).whole(0).map(drop), "f.yaml:3: a.b: expected a whole number");
        let items = at(&["a", "c"]).list().unwrap();
        assert_eq!(items[0].whole(1).unwrap(), 1);
        said(
            items[1].positive().map(drop),
            "f.yaml:6: a.c[1]: expected a number above 0, found -2",
        );
        assert_eq!(items[2].positive().unwrap(), 2.5);
        said(at(&["d"]).list().unwrap()[1].flag().map(drop), "f.yaml:9: d[1]");
        said(at(&["a"]).get("x").map(drop), "f.yaml:2: the key x is missing under a");
        said(at(&["a"]).only(&["b"]), "f.yaml:4: a: the key c is not known; known are b");
        said(
            at(&["a", "c"]).text().map(drop),
            "f.yaml:4: a.c: expected a text, found a list of 3 items",
        );
        said(at(&["a", "b"]).text().map(drop), "in quotes: \"y\"), found true");
        said(root.get("e").map(drop), "f.yaml:2: the key e is missing");
        assert!(value.has("e") && !value.has("b"));
    }

    #[test]
    fn what_is_not_yaml_is_told_with_its_place() {
        for (text, place) in [("a: 1\nb: [\n", "f.yaml:2:4"), ("a: 1\na: 2\n", "f.yaml:2:")] {
            let error = parse("f.yaml", text).unwrap_err().to_string();
            assert!(error.starts_with("f.yaml is not YAML") && error.contains(place), "{error}");
        }
    }
}
