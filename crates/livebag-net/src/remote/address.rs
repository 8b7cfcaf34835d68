//! Addresses of recordings on servers.

use super::RemoteError;
use crate::ask::unescape;

/// A server, and a recording on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `http://host:port`.
    pub base: String,
    /// The recording's name.
    pub recording: Option<String>,
}

impl Address {
    /// Whether `text` looks like one.
    pub fn is_one(text: &str) -> bool {
        let lower = text.to_ascii_lowercase();
        lower.starts_with("http://") || lower.starts_with("https://")
    }

    /// Takes an address apart: `http://host:port`, with `/name`, or with the longer addresses that
    /// the server gives itself.
    ///
    /// # Errors
    /// If it is not one.
    pub fn parse(text: &str) -> Result<Self, RemoteError> {
        let wrong = || RemoteError::Address(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(&*scheme, "http" | "https") || host.is_empty() || host.contains('@') {
            return Err(wrong());
        }
        let path = path.trim_matches('/');
        let name = match path.strip_prefix("v1/bags").or_else(|| path.strip_prefix("bags")) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_matches('/'),
            _ => path,
        };
        let name = name.strip_suffix(".mcap").unwrap_or(name);
        if name.contains('/') {
            return Err(wrong());
        }
        let name = unescape(name).map_err(|_| wrong())?;
        Ok(Self {
            base: format!("{scheme}://{host}"),
            recording: Some(name).filter(|n| !n.is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, base, recording) in [
            ("http://robot:8767/run1", "http://robot:8767", Some("run1")),
            ("HTTPS://robot/run1/", "https://robot", Some("run1")),
            ("http://[::1]:8767", "http://[::1]:8767", None),
            ("http://robot/v1/bags/run1", "http://robot", Some("run1")),
            ("http://robot/bags/run1.mcap?topic=/a", "http://robot", Some("run1")),
            ("http://robot/v1/bags", "http://robot", None),
            ("http://robot/bagshot", "http://robot", Some("bagshot")),
            ("http://robot/a%20b", "http://robot", Some("a b")),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((&*address.base, address.recording.as_deref()), (base, recording), "{text}");
        }
        for wrong in [
            "run1",
            "ftp://robot/run1",
            "http://",
            "http://a@b/run1",
            "http://robot/a/b",
            "http://robot/%zz",
        ] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
