//! Asking a server.
//!
//! ```no_run
//! use livebag_net::remote::{Question, RemoteBag, RemoteOptions};
//! let bag = RemoteBag::open("http://127.0.0.1:8767/run1", RemoteOptions::default())?;
//! let mut messages = bag.messages(&Question::latest("1s"), &["/imu".into()])?;
//! while let Some(message) = messages.next_message()? {
//!     println!("{} {} bytes", messages.topics()[message.topic].name, message.data.len());
//! }
//! # Ok::<(), livebag_net::remote::RemoteError>(())
//! ```

mod address;
mod mcap_stream;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, ResponseExt};

pub use address::Address;
pub use mcap_stream::{McapMessages, RemoteMessage};

use crate::ask::escape;
use crate::limits::{ASK_TIMEOUT, ERROR_BYTES_MAX};
use crate::small_file::{PEM_BYTES_MAX, small_file};
use crate::tell::{BagInfo, BagRow};

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
        /// What was asked.
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
        /// What was asked.
        url: String,
    },
    /// The server cannot be reached.
    #[error("asking {url} failed: {error}{}", hint(error))]
    Transport {
        /// What was asked.
        url: String,
        /// What went wrong.
        error: Box<ureq::Error>,
    },
    /// The answer was cut off.
    #[error("the answer of {url} ended early: {error}")]
    Cut {
        /// What was asked.
        url: String,
        /// How.
        error: std::io::Error,
    },
    /// The answer is none.
    #[error("the answer of {url} makes no sense: {what}")]
    Nonsense {
        /// What was asked.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// A certificate cannot be used.
    #[error("{}: {what}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

fn hint(error: &ureq::Error) -> &'static str {
    match error {
        ureq::Error::ConnectionFailed => " (is `livebag serve` running there?)",
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            " (is `livebag serve` running there, at that port?)"
        }
        ureq::Error::Timeout(_) => " (nobody answers there)",
        ureq::Error::HostNotFound => " (no machine has that name)",
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
            " (if the server has a certificate of its own making, give it with --ca-cert)"
        }
        _ => "",
    }
}

/// What a server may want to know, and how it is known.
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
    agent: Agent,
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
        let roots = match &options.ca_certificates {
            Some(path) => RootCerts::Specific(Arc::new(certificates(path)?)),
            None => RootCerts::PlatformVerifier,
        };
        let config = Agent::config_builder()
            .timeout_connect(Some(ASK_TIMEOUT))
            .timeout_recv_response(Some(ASK_TIMEOUT * 3))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("livebag/", env!("CARGO_PKG_VERSION")))
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .build();
        Ok(Self {
            agent: Agent::new_with_config(config),
            base: address.base.clone(),
            token: options.token.map(Into::into),
        })
    }

    /// The recordings that it serves.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn bags(&self) -> Result<Vec<BagRow>, RemoteError> {
        self.json("/v1/bags")
    }

    /// What one of them holds.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn bag(&self, name: &str) -> Result<BagInfo, RemoteError> {
        self.json(&format!("/v1/bags/{}", escape(name)))
    }

    fn get(&self, path: &str) -> Result<(String, Body), RemoteError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.agent.get(&url);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request
            .call()
            .map_err(|error| RemoteError::Transport { url: url.clone(), error: Box::new(error) })?;
        let status = response.status();
        if status.is_success() {
            let url = response.get_uri().to_string();
            return Ok((url, response.into_body()));
        }
        if status == 401 {
            return Err(RemoteError::Token { url });
        }
        let reader = response.body_mut().with_config().limit(ERROR_BYTES_MAX);
        let text = reader.read_to_string().unwrap_or_default();
        let said: Option<String> = serde_json::from_str(&text)
            .ok()
            .and_then(|value: serde_json::Value| Some(value.get("error")?.as_str()?.to_owned()));
        let text = said.unwrap_or_else(|| text.trim().chars().take(200).collect());
        Err(RemoteError::Refused { url, status: status.as_u16(), text })
    }

    fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, RemoteError> {
        let (url, mut body) = self.get(path)?;
        let reader = body.with_config().limit(u64::MAX).reader();
        serde_json::from_reader(std::io::BufReader::new(reader)).map_err(|error| {
            match error.is_io() {
                true => RemoteError::Cut { url, error: error.into() },
                false => RemoteError::Nonsense { url, what: error.to_string() },
            }
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, RemoteError> {
    let wrong = |what: String| RemoteError::Certificate { path: path.to_owned(), what };
    let pem = small_file(path, PEM_BYTES_MAX);
    let pem = pem.map_err(|error| wrong(format!("reading failed: {error}")))?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        let item = item.map_err(|error| wrong(format!("no PEM can be read there: {error}")))?;
        if let ureq::tls::PemItem::Certificate(certificate) = item {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        return Err(wrong("it has no certificate in PEM".into()));
    }
    Ok(found)
}

/// What is asked of a recording.
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

    /// Newest messages first, as many as arrive within a time, not older than `last`; of the topics in
    /// `decimate` (`/topic:HZ`) at most HZ messages a second.
    pub fn auto(within: &str, last: Option<&str>, decimate: &[String]) -> Self {
        let mut parameters = vec![("within", within.to_owned())];
        parameters.extend(last.map(|last| ("last", last.to_owned())));
        parameters.extend(decimate.iter().map(|rate| ("decimate", rate.clone())));
        Self { verb: "auto", parameters }
    }
}

/// A recording on a server.
#[derive(Clone)]
pub struct RemoteBag {
    server: RemoteServer,
    name: String,
}

impl RemoteBag {
    /// A recording by its address: `http://host:port/name`. It is not asked anything yet.
    ///
    /// # Errors
    /// If it is not an address.
    pub fn open(url: &str, options: RemoteOptions) -> Result<Self, RemoteError> {
        let address = Address::parse(url)?;
        let name = address.bag.clone().ok_or_else(|| RemoteError::Address(url.to_owned()))?;
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
    pub fn info(&self) -> Result<BagInfo, RemoteError> {
        self.server.bag(&self.name)
    }

    /// The same with the topics' definitions.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn definitions(&self) -> Result<BagInfo, RemoteError> {
        self.server.json(&format!("/v1/bags/{}?schemas=true", escape(&self.name)))
    }

    /// An answer as the server gives it, in `format` (`mcap`, `jsonl`); `auto` has only `mcap`.
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
        if question.verb != "auto" {
            path.push_str(&format!("format={format}"));
        }
        let (url, body) = self.server.get(&path)?;
        Ok(RemoteAnswer { url, reader: Box::new(body.into_with_config().limit(u64::MAX).reader()) })
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
    /// What was asked.
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
