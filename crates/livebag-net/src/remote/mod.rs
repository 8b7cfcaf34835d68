//! Asking a server.
//!
//! ```no_run
//! use livebag_net::remote::{Question, RemoteRecording, RemoteOptions};
//! let container = RemoteRecording::open("http://127.0.0.1:8767/run1", RemoteOptions::default())?;
//! let mut messages = container.messages(&Question::latest("1s"), &["/imu".into()])?;
//! while let Some(message) = messages.next_message()? {
//!     println!("{} {} bytes", messages.topics()[message.topic].name, message.data.len());
//! }
//! # Ok::<(), livebag_net::remote::RemoteError>(())
//! ```

mod address;
#[cfg_attr(not(feature = "client"), path = "absent.rs")]
mod client;
mod mcap_stream;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use serde::de::DeserializeOwned;

pub use address::Address;
pub use mcap_stream::{McapMessages, RemoteMessage};

use crate::ask::escape;
use crate::tell::{BagRow, RecordingInfo};
use client::Client;

/// Why a server did not answer as was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// Not an address of a recording.
    #[error("`{0}` is no address of a recording: expected http://HOST:PORT/NAME, or https://…")]
    Address(String),
    /// The server says no.
    #[error("{url} answers: {text} ({status})")]
    Refused {
        /// The queried address.
        url: String,
        /// HTTP's status.
        status: u16,
        /// The server's sentence.
        text: String,
    },
    /// A token is needed.
    #[error(
        "{url} asks for a token: give the file that has it with --token-file, or the token in LIVEBAG_TOKEN"
    )]
    Token {
        /// The queried address.
        url: String,
    },
    /// Asking servers is an optional feature, which this build has not.
    #[error("this livebag was built without HTTP")]
    NotBuilt,
    /// The server cannot be reached.
    #[cfg(feature = "client")]
    #[error("asking {url} failed: {error}{}", client::hint(error))]
    Transport {
        /// The queried address.
        url: String,
        /// The error.
        error: Box<ureq::Error>,
    },
    /// The answer was cut off.
    #[error("the answer of {url} ended early: {error}")]
    Cut {
        /// The queried address.
        url: String,
        /// How.
        error: std::io::Error,
    },
    /// The answer is none.
    #[error("the answer of {url} makes no sense: {what}")]
    Nonsense {
        /// The queried address.
        url: String,
        /// The error in it.
        what: String,
    },
    /// A certificate cannot be used.
    #[error("{}: {what}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The error in it.
        what: String,
    },
}

/// Credentials for a server, and how to verify the server.
#[derive(Clone, Default)]
pub struct RemoteOptions {
    /// The token.
    pub token: Option<String>,
    /// Certificates that are trusted, PEM; the machine's own unless given.
    pub ca_certificates: Option<PathBuf>,
}

/// A server.
#[derive(Clone)]
pub struct RemoteServer {
    client: Client,
    /// `http://host:port`.
    base: String,
    token: Option<Arc<str>>,
}

impl RemoteServer {
    /// A server by its address; it is not asked anything yet.
    ///
    /// # Errors
    /// If it is not an address, or the certificates cannot be used.
    pub fn new(address: &Address, options: RemoteOptions) -> Result<Self, RemoteError> {
        Ok(Self {
            client: Client::new(options.ca_certificates.as_deref())?,
            base: address.base.clone(),
            token: options.token.map(Into::into),
        })
    }

    /// The recordings that it serves.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn recordings(&self) -> Result<Vec<BagRow>, RemoteError> {
        self.json("/v1/bags")
    }

    /// What one of them holds.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn recording(&self, name: &str) -> Result<RecordingInfo, RemoteError> {
        self.json(&format!("/v1/bags/{}", escape(name)))
    }

    fn get(&self, path: &str) -> Result<RemoteAnswer, RemoteError> {
        self.client.get(format!("{}{path}", self.base), self.token.as_deref())
    }

    fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, RemoteError> {
        let RemoteAnswer { url, reader } = self.get(path)?;
        serde_json::from_reader(std::io::BufReader::new(reader)).map_err(|error| {
            match error.is_io() {
                true => RemoteError::Cut { url, error: error.into() },
                false => RemoteError::Nonsense { url, what: error.to_string() },
            }
        })
    }
}

/// A query of a recording.
#[derive(Clone, Debug)]
pub struct Question {
    verb: &'static str,
    parameters: Vec<(&'static str, String)>,
}

impl Question {
    /// The newest messages, back to `last` before the newest of all: `1s`.
    pub fn latest(last: &str) -> Self {
        Self { verb: "latest", parameters: vec![("last", last.to_owned())] }
    }

    /// The messages between two times, both included, as the server understands times.
    pub fn history(from: Option<&str>, to: Option<&str>) -> Self {
        let given = [("from", from), ("to", to)].into_iter();
        let given = given.filter_map(|(name, time)| Some((name, time?.to_owned())));
        Self { verb: "history", parameters: given.collect() }
    }

    /// New messages as server-sent events, until the recording ends.
    pub fn follow() -> Self {
        Self { verb: "follow", parameters: Vec::new() }
    }

    /// Newest messages first, as many as arrive within a time, not older than `last`; of the topics in `decimate`
    /// (`/topic:HZ`) at most HZ messages a second.
    pub fn auto(within: &str, last: Option<&str>, decimate: &[String]) -> Self {
        let mut parameters = vec![("within", within.to_owned())];
        parameters.extend(last.map(|last| ("last", last.to_owned())));
        parameters.extend(decimate.iter().map(|rate| ("decimate", rate.clone())));
        Self { verb: "auto", parameters }
    }
}

/// A recording on a server.
#[derive(Clone)]
pub struct RemoteRecording {
    server: RemoteServer,
    name: String,
}

impl RemoteRecording {
    /// A recording by its address: `http://host:port/name`. It is not asked anything yet.
    ///
    /// # Errors
    /// If it is not an address.
    pub fn open(url: &str, options: RemoteOptions) -> Result<Self, RemoteError> {
        let address = Address::parse(url)?;
        let name = address.recording.clone().ok_or_else(|| RemoteError::Address(url.to_owned()))?;
        Ok(Self { server: RemoteServer::new(&address, options)?, name })
    }

    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Topics, counts, times, losses.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn info(&self) -> Result<RecordingInfo, RemoteError> {
        self.server.recording(&self.name)
    }

    /// The same with the topics' definitions.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn definitions(&self) -> Result<RecordingInfo, RemoteError> {
        self.server.json(&format!("/v1/bags/{}?schemas=true", escape(&self.name)))
    }

    /// An answer as the server gives it, in `format` (`mcap`, `jsonl`); `auto` has only `mcap`, `follow` only
    /// its events.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn ask(
        &self,
        question: &Question,
        topics: &[String],
        format: &str,
    ) -> Result<RemoteAnswer, RemoteError> {
        let mut path = format!("/v1/bags/{}/{}?", escape(&self.name), question.verb);
        for (name, value) in &question.parameters {
            path.push_str(&format!("{name}={}&", escape(value)));
        }
        for topic in topics {
            path.push_str(&format!("topic={}&", escape(topic)));
        }
        if !["auto", "follow"].contains(&question.verb) {
            path.push_str(&format!("format={format}"));
        }
        self.server.get(&path)
    }

    /// The messages of an answer.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn messages(
        &self,
        question: &Question,
        topics: &[String],
    ) -> Result<McapMessages, RemoteError> {
        Ok(McapMessages::new(self.ask(question, topics, "mcap")?))
    }
}

/// The bytes of an answer as they come.
pub struct RemoteAnswer {
    url: String,
    reader: Box<dyn Read + Send>,
}

impl RemoteAnswer {
    /// The queried address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The error of a read that failed.
    pub fn cut(&self, error: std::io::Error) -> RemoteError {
        RemoteError::Cut { url: self.url.clone(), error }
    }
}

impl Read for RemoteAnswer {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.reader.read(bytes)
    }
}
