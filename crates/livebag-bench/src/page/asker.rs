//! A client that asks one question after another over one connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::failed;
use crate::error::Result;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks one server.
pub struct Asker {
    address: SocketAddr,
    connection: Option<BufReader<TcpStream>>,
    body: Vec<u8>,
}

impl Asker {
    /// One that is not connected yet.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, connection: None, body: Vec::new() }
    }

    /// Bytes of the answer's body.
    ///
    /// # Errors
    /// If it is refused, or the connection breaks.
    pub fn get(&mut self, target: &str) -> Result<u64> {
        let asked = self.try_get(target);
        if asked.is_err() {
            self.connection = None;
        }
        asked.map_err(failed("asking"))
    }

    fn try_get(&mut self, target: &str) -> std::io::Result<u64> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                self.connection.insert(BufReader::with_capacity(256 << 10, stream))
            }
        };
        let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        let status = line(connection)?;
        let mut length = None;
        loop {
            let header = line(connection)?.to_ascii_lowercase();
            match header.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse::<u64>().ok(),
                Some(_) => {}
                None => break,
            }
        }
        self.body.clear();
        if let Some(length) = length {
            connection.take(length).read_to_end(&mut self.body)?;
        } else {
            loop {
                let count = u64::from_str_radix(&line(connection)?, 16);
                let count = count.map_err(std::io::Error::other)?;
                connection.by_ref().take(count).read_to_end(&mut self.body)?;
                line(connection)?;
                if count == 0 {
                    break;
                }
            }
        }
        match status.starts_with("HTTP/1.1 200") {
            true => Ok(self.body.len() as u64),
            false => Err(std::io::Error::other(format!(
                "{target}: {status}: {}",
                String::from_utf8_lossy(&self.body)
            ))),
        }
    }
}

/// A line without its end.
fn line(connection: &mut BufReader<TcpStream>) -> std::io::Result<String> {
    let mut line = String::new();
    match connection.read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line.trim_end().to_owned()),
    }
}
