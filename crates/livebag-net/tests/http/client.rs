//! HTTP/1.1 by hand: nothing that a library would mend or refuse stands between a test and the server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// No test depends on it: it only ends one that would hang.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    pub fn lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Fails unless the status is that one.
    #[track_caller]
    pub fn must(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text());
        self
    }

    /// Every refusal is one sentence in JSON.
    #[track_caller]
    pub fn error(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

/// A connection, and received bytes not read yet.
pub struct Client<S = TcpStream> {
    pub stream: S,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).unwrap()
    }

    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str("Host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
    }

    pub fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
        self.send(method, target, headers);
        self.response(method == "HEAD").unwrap()
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut piece = [0; 1 << 16];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    return Ok(());
                }
                // A read with a deadline is interrupted by the recorder's io_uring.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            self.fill()?;
        }
        Ok(self.buffer.drain(..count).collect())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.take(end + 2)?;
                return String::from_utf8(line[..end].to_vec()).map_err(io::Error::other);
            }
            self.fill()?;
        }
    }

    /// The head of the next response.
    pub fn head(&mut self) -> io::Result<Response> {
        let status = self.line()?;
        let wrong = || io::Error::other(format!("no status line: {status}"));
        let number = status.strip_prefix("HTTP/1.1 ").or(status.strip_prefix("HTTP/1.0 "));
        let number = number.and_then(|rest| rest.get(..3)).ok_or_else(wrong)?;
        let status = number.parse().map_err(|_| wrong())?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None if line.is_empty() => {
                    return Ok(Response { status, headers, body: Vec::new() });
                }
                None => return Err(io::Error::other(format!("no header: {line}"))),
            }
        }
    }

    /// The next response. One that is cut off is an error.
    pub fn response(&mut self, is_head: bool) -> io::Result<Response> {
        let head = self.head()?;
        if is_head || matches!(head.status, 100 | 204 | 304) {
            return Ok(head);
        }
        self.body(head)
    }

    /// The body that belongs to a head.
    fn body(&mut self, mut response: Response) -> io::Result<Response> {
        if let Some(count) = response.header("content-length") {
            let count = count.parse().map_err(io::Error::other)?;
            response.body = self.take(count)?;
            return Ok(response);
        }
        assert_eq!(response.header("transfer-encoding"), Some("chunked"), "a length is known");
        loop {
            let line = self.line()?;
            let count = usize::from_str_radix(&line, 16).map_err(io::Error::other)?;
            let chunk = self.take(count + 2)?;
            response.body.extend_from_slice(&chunk[..count]);
            if count == 0 {
                return Ok(response);
            }
        }
    }

    /// The next chunk of a body that continues.
    pub fn chunk(&mut self) -> io::Result<String> {
        let line = self.line()?;
        let count = usize::from_str_radix(&line, 16).map_err(io::Error::other)?;
        let chunk = self.take(count + 2)?;
        Ok(String::from_utf8_lossy(&chunk[..count]).into_owned())
    }

    /// Skips the body of a response to an unknown request: one to HEAD has none, and is followed by a status line.
    pub fn skip_body(&mut self, head: &Response) -> io::Result<()> {
        while self.buffer.len() < 5 {
            self.fill()?;
        }
        if matches!(head.status, 100 | 204 | 304) || self.buffer.starts_with(b"HTTP/") {
            return Ok(());
        }
        let headers = head.headers.clone();
        self.body(Response { status: head.status, headers, body: Vec::new() }).map(drop)
    }

    /// Whether the server has closed the connection, or does so.
    pub fn is_closed(&mut self) -> bool {
        match self.fill() {
            Ok(()) => false,
            Err(error) => {
                let is_timeout = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
                assert!(!is_timeout.contains(&error.kind()), "the server holds the connection");
                true
            }
        }
    }
}

pub fn ask(address: SocketAddr, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
    Client::connect(address).ask(method, target, headers)
}

pub fn get(address: SocketAddr, target: &str) -> Response {
    ask(address, "GET", target, &[])
}
