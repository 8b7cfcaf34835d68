//! The cookie of the page's login: viewers of this server's own origin cannot send the token.
//!
//! Its value is random and ends with the server, so that it tells nothing of the token. Cookies do not tell ports apart:
//! other servers of the same host are sent it, too. So it opens recordings' files and live sockets alone, and only for
//! requests of which the browser says that this server's own pages, or the user, make them.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use subtle::ConstantTimeEq;

/// Name of the cookie, before its port.
const NAME: &str = "livebag";

/// What the cookie holds.
pub struct Pass(String);

impl Pass {
    /// A new one; `None` if the system has no randomness.
    pub fn new() -> Option<Self> {
        let mut bytes = [0; 32];
        rustls::crypto::ring::default_provider().secure_random.fill(&mut bytes).ok()?;
        Some(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The header that gives it to a browser, until that is closed.
    pub fn set_cookie(&self, asked: &HeaderMap, is_encrypted: bool) -> Option<HeaderValue> {
        let secure = if is_encrypted { "; Secure" } else { "" };
        let name = name(asked);
        let text = format!("{name}={}; Path=/; HttpOnly; SameSite=Strict{secure}", self.0);
        HeaderValue::from_str(&text).ok()
    }

    /// Whether a request brings it.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let name = name(headers);
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            all.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
        pairs.any(|(known, value)| {
            known.trim() == name && bool::from(value.trim().as_bytes().ct_eq(self.0.as_bytes()))
        })
    }
}

/// Two servers of one host do not overwrite each other's.
fn name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let port = host.and_then(|host| host.rsplit_once(':')?.1.parse::<u16>().ok());
    port.map_or_else(|| NAME.to_owned(), |port| format!("{NAME}-{port}"))
}

/// Whether the browser says that a page of this server asks, or the user by the address bar. Pages cannot set this
/// header, and every browser of today sends it.
pub fn is_of_own_page(headers: &HeaderMap) -> bool {
    let site = headers.get(HeaderName::from_static("sec-fetch-site"));
    site.is_some_and(|site| site == "same-origin" || site == "none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(HeaderName, &str)]) -> HeaderMap {
        let value = |text: &str| HeaderValue::from_str(text).unwrap();
        pairs.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    }

    #[test]
    fn a_cookie_is_that_of_its_server_and_port() {
        let (pass, other) = (Pass::new().unwrap(), Pass::new().unwrap());
        let asked = headers(&[(header::HOST, "localhost:8767")]);
        let given = pass.set_cookie(&asked, false).unwrap();
        let given = given.to_str().unwrap();
        let (pair, rest) = given.split_once("; ").unwrap();
        assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict");
        let secure = pass.set_cookie(&asked, true).unwrap();
        assert!(secure.to_str().unwrap().ends_with("; Secure"));
        let brings =
            |host: &str, cookie: &str| headers(&[(header::HOST, host), (header::COOKIE, cookie)]);
        assert!(pass.is_in(&brings("localhost:8767", pair)));
        assert!(pass.is_in(&brings("localhost:8767", &format!("a=b; {pair}; c"))));
        assert!(!pass.is_in(&brings("localhost:8768", pair)));
        assert!(!other.is_in(&brings("localhost:8767", pair)));
        let bad = ["", "livebag-8767=", "livebag-8767", &pair[..pair.len() - 1], &pair[1..]];
        assert!(bad.iter().all(|cookie| !pass.is_in(&brings("localhost:8767", cookie))));
    }
}
