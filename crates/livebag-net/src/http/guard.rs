//! Access control: token, host, origin.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use subtle::ConstantTimeEq;

use super::app::App;
use super::cookie::is_of_own_page;
use super::error::refusal;
use super::file::is_file_path;
use super::routes::is_page;
use crate::ask::Parameters;
use crate::live::TOKEN_SUBPROTOCOL;

/// Shortest token: 16 characters of Base64 are 96 bits.
const TOKEN_BYTES_MIN: usize = 16;
/// Longest.
const TOKEN_BYTES_MAX: usize = 1024;

/// Web pages whose origin may ask with a browser, next to those on this machine.
const ORIGINS: [&str; 2] = ["https://app.foxglove.dev", "https://studio.foxglove.dev"];

/// The token that clients must send, and the web pages that may ask.
#[derive(Clone, Default)]
pub struct Secrets {
    token: Option<Vec<u8>>,
    origins: Vec<String>,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").field("token", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl Secrets {
    /// Takes a token, as a file has it: blanks and line ends around it do not count.
    ///
    /// # Errors
    /// If it is too short, too long, or not valid in a header; with the reason.
    pub fn with_token(mut self, token: &str) -> Result<Self, String> {
        let token = token.trim();
        if token.len() < TOKEN_BYTES_MIN || token.len() > TOKEN_BYTES_MAX {
            return Err(format!(
                "the token has {} characters: {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} are expected \
                 (make one: openssl rand -base64 24)",
                token.len()
            ));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(
                "the token has characters that cannot stand in a header: letters, digits and \
                        signs are expected (make one: openssl rand -base64 24)"
                    .into(),
            );
        }
        self.token = Some(token.as_bytes().to_vec());
        Ok(self)
    }

    /// Lets web pages of these origins ask too (`https://viewer.example`).
    pub fn with_origins(mut self, origins: &[String]) -> Self {
        self.origins.extend(origins.iter().map(|origin| origin.trim_end_matches('/').to_owned()));
        self
    }

    /// Whether a token is asked for.
    pub fn has_token(&self) -> bool {
        self.token.is_some()
    }

    fn is_token(&self, given: &[u8]) -> bool {
        // The comparison takes the same time for every token of the same length.
        self.token.as_ref().is_some_and(|token| bool::from(token.ct_eq(given)))
    }

    /// Whether a live socket may be opened: browsers open one without a CORS check. Clients that are no browsers name
    /// no origin. The server's own pages may.
    pub fn allows_socket(&self, headers: &HeaderMap) -> bool {
        let Some(origin) = headers.get(header::ORIGIN) else { return true };
        let Ok(origin) = origin.to_str() else { return false };
        // Applications that run from files on a disk have the origin `file://`: it must be listed explicitly.
        let is_listed = self.origins.iter().any(|known| known == origin.trim_end_matches('/'));
        is_own_origin(headers) || is_listed || self.allows_origin(origin)
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let is_listed = ORIGINS.contains(&origin) || self.origins.iter().any(|o| o == origin);
        // A file has no origin that means anything: `file://localhost` is any of them.
        let web = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        is_listed || web.and_then(host_of).is_some_and(is_this_machine)
    }
}

/// Whether a page of this server asks.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let authority = text(header::ORIGIN).and_then(|origin| Some(origin.split_once("://")?.1));
    authority
        .is_some_and(|authority| !authority.is_empty() && text(header::HOST) == Some(authority))
}

/// The host in `host` or `host:port`; `None` if it is neither. A lenient parser finds another host in
/// `localhost:80@evil` than a strict one.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').filter(|(host, _)| host.parse::<Ipv6Addr>().is_ok())?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = rest.strip_prefix(':');
    let is_port = port.is_some_and(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'));
    (rest.is_empty() || is_port).then_some(host)
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Lets a request through, or says why not.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(header::ORIGIN).cloned();
    let allowed = origin
        .as_ref()
        .filter(|origin| origin.to_str().is_ok_and(|origin| app.secrets.allows_origin(origin)));
    let is_options = request.method() == Method::OPTIONS;
    // A browser asks this without the token, for pages that may ask.
    let asks_for = request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let is_preflight = is_options && asks_for && allowed.is_some();
    let mut response = match check(&app, &request) {
        _ if is_preflight => StatusCode::NO_CONTENT.into_response(),
        Err(refused) => *refused,
        Ok(()) if is_options => StatusCode::NO_CONTENT.into_response(),
        Ok(()) => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // No page of another site can load an answer as a picture or a script, whose size would reveal something. Permitted
    // pages use CORS, which is not affected.
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    headers.insert(policy, HeaderValue::from_static("same-site"));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = allowed {
        allow(origin, is_preflight, headers);
    }
    response
}

/// The token is checked first: without it no answer says what exists, or what may be asked.
fn check(app: &App, request: &Request) -> Result<(), Box<Response>> {
    let secrets = &app.secrets;
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    if secrets.has_token() {
        // The page itself, which asks the user for the token.
        let path = request.uri().path();
        if is_read && (is_page(path, request.headers()) || is_viewer(path)) {
            return Ok(());
        }
        let is_known = match given_token(request.headers(), request.uri()) {
            Some(token) => secrets.is_token(&token),
            None => has_pass(app, request),
        };
        if !is_known {
            let text = "a token is needed: Authorization: Bearer TOKEN";
            let mut response = refusal(StatusCode::UNAUTHORIZED, text);
            let scheme = HeaderValue::from_static("Bearer realm=\"livebag\"");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
            return Err(Box::new(response));
        }
    } else if !names_this_machine(request) {
        // Without a token, a web page that gives its own name this machine's address (DNS
        // rebinding) could read everything: names other than this machine's are refused.
        let text = "without a token this server answers to localhost only";
        return Err(Box::new(refusal(StatusCode::MISDIRECTED_REQUEST, text)));
    }
    if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, "recordings are only read here");
        let allowed = HeaderValue::from_static("GET, HEAD, OPTIONS");
        response.headers_mut().insert(header::ALLOW, allowed);
        return Err(Box::new(response));
    }
    Ok(())
}

/// Whether the request names a host, and every host that it names is this machine.
fn names_this_machine(request: &Request) -> bool {
    let named = request.headers().get_all(header::HOST).iter().map(|host| host.to_str().ok());
    let named = named.chain(request.uri().authority().map(|authority| Some(authority.as_str())));
    let mut is_named = false;
    let all = named.into_iter().all(|host| {
        is_named = true;
        host.and_then(host_of).is_some_and(is_this_machine)
    });
    all && is_named
}

/// The token is in a header; viewers that open a file by its address cannot set one, so for files it
/// may be the parameter `access_token` (RFC 6750, section 2.3).
fn given_token(headers: &HeaderMap, uri: &Uri) -> Option<Vec<u8>> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let value = value.as_bytes();
        let (scheme, token) = value.split_at_checked(7)?;
        return scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii().to_vec());
    }
    if is_live(uri.path()) {
        return socket_token(headers);
    }
    if !is_file_path(uri.path()) {
        return None;
    }
    let mut parameters = Parameters::parse(uri.query()?).ok()?;
    parameters.one("access_token").ok()?.map(String::into_bytes)
}

fn is_live(path: &str) -> bool {
    path == "/live" || path.starts_with("/live/")
}

/// Whether a page of this server asks for a file or a live socket, in a browser that has logged in.
fn has_pass(app: &App, request: &Request) -> bool {
    let (path, headers) = (request.uri().path(), request.headers());
    // Of a WebSocket not every browser tells whose page asks; all tell its origin.
    let is_own = match is_live(path) {
        true => is_own_origin(headers),
        false => is_file_path(path) && is_of_own_page(headers),
    };
    is_own && app.pass.as_ref().is_some_and(|pass| pass.is_in(headers))
}

/// Browsers cannot set a header of a WebSocket, but name subprotocols: one of them stands for the token.
fn socket_token(headers: &HeaderMap) -> Option<Vec<u8>> {
    let named = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut names =
        named.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    let token = names.find_map(|name| name.trim().strip_prefix(TOKEN_SUBPROTOCOL));
    token.map(|token| token.as_bytes().to_vec())
}

/// Whether an address is that of a viewer's files: their bytes tell nothing of recordings.
fn is_viewer(path: &str) -> bool {
    path.starts_with("/viewer/")
}

fn allow(origin: &HeaderValue, is_preflight: bool, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    let exposed = "Accept-Ranges, Content-Length, Content-Range, ETag, Server-Timing, \
                   Livebag-Log-Time, Livebag-Publish-Time, Livebag-Sequence, Livebag-Type, \
                   Livebag-Frame-Id, Livebag-Damaged";
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed));
    if is_preflight {
        let methods = HeaderValue::from_static("GET, HEAD");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        let allowed = HeaderValue::from_static("Authorization, Range, If-Range, If-None-Match");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        // A public page that asks a machine of this network (Private Network Access).
        let private = HeaderName::from_static("access-control-allow-private-network");
        headers.insert(private, HeaderValue::from_static("true"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (authority, host) in [
            ("localhost:8767", "localhost"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]:8767", "::1"),
            ("evil.example:80", "evil.example"),
        ] {
            assert_eq!(host_of(authority), Some(host));
        }
        for none in [
            "[::1].evil:1",
            "[::1]evil",
            "[::1",
            "[localhost]",
            "[127.0.0.1]:80",
            "localhost:8767@evil",
            "localhost:",
            "localhost:80:80",
            "localhost:+80",
            "localhost:99999",
            "::1",
        ] {
            assert_eq!(host_of(none), None, "{none}");
        }
        assert!(!is_this_machine(host_of("localhost@evil").unwrap()));
        assert!(
            ["localhost", "LOCALHOST", "127.0.0.1", "127.8.8.8", "::1"]
                .iter()
                .all(|h| is_this_machine(h))
        );
        assert!(
            ["", "evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.nip.io"]
                .iter()
                .all(|host| !is_this_machine(host))
        );
    }

    #[test]
    fn origins() {
        let secrets = Secrets::default().with_origins(&["https://viewer.example/".into()]);
        for good in ["https://app.foxglove.dev", "https://viewer.example", "http://localhost:8080"]
        {
            assert!(secrets.allows_origin(good), "{good}");
        }
        for bad in [
            "https://evil.example",
            "null",
            "",
            "https://app.foxglove.dev.evil.example",
            "file://localhost",
            "ftp://localhost",
            "http://localhost:80@evil.example",
            "http://[::1].evil.example",
            "http://localhost/path",
        ] {
            assert!(!secrets.allows_origin(bad), "{bad}");
        }
    }

    #[test]
    fn sockets() {
        let secrets = Secrets::default().with_origins(&["file://".into()]);
        let asks = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("robot:8767"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            secrets.allows_socket(&headers)
        };
        let good =
            ["http://robot:8767", "https://app.foxglove.dev", "file://", "http://localhost:1"];
        assert!(asks(None) && good.iter().all(|origin| asks(Some(origin))));
        let bad = ["http://robot:8768", "https://evil.example", "null", "", "robot:8767", "://"];
        assert!(bad.iter().all(|origin| !asks(Some(origin))));
        let mut headers = HeaderMap::new();
        let names = HeaderValue::from_static("foxglove.sdk.v1, livebag.token.0123456789abcdef");
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, names);
        assert_eq!(socket_token(&headers).unwrap(), b"0123456789abcdef");
    }

    #[test]
    fn tokens() {
        assert!(Secrets::default().with_token("short").is_err());
        assert!(Secrets::default().with_token(&"x".repeat(2000)).is_err());
        assert!(Secrets::default().with_token("sixteen characters and blanks").is_err());
        let secrets = Secrets::default().with_token("0123456789abcdef\n").unwrap();
        assert!(secrets.is_token(b"0123456789abcdef"));
        assert!(!secrets.is_token(b"0123456789abcdeF"));
        assert!(!secrets.is_token(b"") && !Secrets::default().is_token(b""));
        assert!(!format!("{secrets:?}").contains("0123"));
    }
}
