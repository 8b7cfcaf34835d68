//! A YAML document walked by key, so that every complaint names the file, the key, what was
//! expected and what was found.

use std::path::Path;

use serde_json::{Map, Value};

use crate::outcome::CliError;

/// A value in a document, and the way to it.
pub struct Node<'a> {
    value: &'a Value,
    file: &'a str,
    path: String,
}

/// Reads a document.
pub fn parse(file: &str, text: &str) -> Result<Value, CliError> {
    serde_saphyr::from_str(text)
        .map_err(|error| CliError::failed(format!("{file} is not YAML: {error}")))
}

/// The text of a file that is to be YAML.
pub fn read(path: &Path) -> Result<String, CliError> {
    #[expect(clippy::disallowed_methods, reason = "settings, not a recording")]
    std::fs::read_to_string(path).map_err(|source| CliError::file("reading", path, source))
}

impl<'a> Node<'a> {
    /// The whole document.
    pub fn root(file: &'a str, value: &'a Value) -> Self {
        Self { value, file, path: String::new() }
    }

    /// A complaint about this value.
    pub fn wrong(&self, expected: &str) -> CliError {
        let found = match self.value {
            Value::Null => "nothing".to_owned(),
            Value::Object(_) => "further keys".to_owned(),
            other => other.to_string(),
        };
        let path = if self.path.is_empty() { "the document" } else { &self.path };
        CliError::failed(format!("{}: {path}: expected {expected}, found {found}", self.file))
    }

    fn map(&self) -> Result<&'a Map<String, Value>, CliError> {
        self.value.as_object().ok_or_else(|| self.wrong("keys with values"))
    }

    /// The value of a key; `None` where there is none.
    pub fn find(&self, key: &str) -> Result<Option<Node<'a>>, CliError> {
        let dot = if self.path.is_empty() { "" } else { "." };
        Ok(self.map()?.get(key).filter(|value| !value.is_null()).map(|value| Node {
            value,
            file: self.file,
            path: format!("{}{dot}{key}", self.path),
        }))
    }

    /// The value of a key that must be there.
    pub fn get(&self, key: &str) -> Result<Node<'a>, CliError> {
        self.find(key)?.ok_or_else(|| {
            let under =
                if self.path.is_empty() { String::new() } else { format!(" under {}", self.path) };
            CliError::failed(format!("{}: the key {key} is missing{under}", self.file))
        })
    }

    /// The value at the end of a way of keys.
    pub fn at(&self, keys: &[&str]) -> Result<Node<'a>, CliError> {
        let mut node = Node { path: self.path.clone(), ..*self };
        for key in keys {
            node = node.get(key)?;
        }
        Ok(node)
    }

    /// Complains about keys beside these.
    pub fn only(&self, known: &[&str]) -> Result<(), CliError> {
        match self.map()?.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => Err(CliError::failed(format!(
                "{}: {}: the key {key} is not known; known are {}",
                self.file,
                self.path,
                known.join(", ")
            ))),
        }
    }

    /// A text.
    pub fn text(&self) -> Result<&'a str, CliError> {
        self.value.as_str().ok_or_else(|| self.wrong("a text"))
    }

    /// Yes or no.
    pub fn flag(&self) -> Result<bool, CliError> {
        self.value.as_bool().ok_or_else(|| self.wrong("true or false"))
    }

    /// A whole number of at least `min`.
    pub fn whole(&self, min: u64) -> Result<u64, CliError> {
        let number = self.value.as_u64().filter(|number| *number >= min);
        number.ok_or_else(|| self.wrong(&format!("a whole number of at least {min}")))
    }

    /// A number above 0.
    pub fn positive(&self) -> Result<f64, CliError> {
        let number = self.value.as_f64().filter(|number| *number > 0.0 && number.is_finite());
        number.ok_or_else(|| self.wrong("a number above 0"))
    }

    /// The items of a list.
    pub fn list(&self) -> Result<Vec<Node<'a>>, CliError> {
        let items = self.value.as_array().ok_or_else(|| self.wrong("a list: [a, b]"))?;
        let item = |(index, value)| Node {
            value,
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

    /// The keys under this one.
    pub fn keys(&self) -> Result<impl Iterator<Item = &'a str>, CliError> {
        Ok(self.map()?.keys().map(String::as_str))
    }
}
