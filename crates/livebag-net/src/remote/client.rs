//! HTTP as this process speaks it.

use std::path::Path;
use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, ResponseExt};

use super::{RemoteAnswer, RemoteError};
use crate::limits::{ASK_TIMEOUT, ERROR_BYTES_MAX};
use crate::small_file::{PEM_BYTES_MAX, small_file};

/// Asks servers.
#[derive(Clone)]
pub struct Client(Agent);

impl Client {
    /// Trusts these certificates; without any, those of the machine.
    ///
    /// # Errors
    /// If the certificates cannot be used.
    pub fn new(ca_certificates: Option<&Path>) -> Result<Self, RemoteError> {
        let roots = match ca_certificates {
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
        Ok(Self(Agent::new_with_config(config)))
    }

    /// Asks for `url`.
    ///
    /// # Errors
    /// See [`RemoteError`].
    pub fn get(&self, url: String, token: Option<&str>) -> Result<RemoteAnswer, RemoteError> {
        let mut request = self.0.get(&url);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = request
            .call()
            .map_err(|error| RemoteError::Transport { url: url.clone(), error: Box::new(error) })?;
        let status = response.status();
        if status.is_success() {
            let url = response.get_uri().to_string();
            let reader = response.into_body().into_with_config().limit(u64::MAX).reader();
            return Ok(RemoteAnswer { url, reader: Box::new(reader) });
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
}

/// What to do about a connection that fails.
pub fn hint(error: &ureq::Error) -> &'static str {
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
