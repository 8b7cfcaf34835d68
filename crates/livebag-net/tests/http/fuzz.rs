//! A hundred thousand requests of a seeded random: valid ones, mutated, and bytes of no meaning.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use livebag_net::ServerOptions;
use livebag_net::limits::ServerLimits;

use super::client::{Client, get};
use super::fixture::{Site, messages};

/// Requests of all threads; `LIVEBAG_FUZZ_REQUESTS` changes it.
const REQUESTS: u64 = 100_000;
const THREADS: u64 = 4;
/// Requests written at once.
const BATCH_MAX: usize = 8;

/// All permitted statuses: those of the description, and those of HTTP itself.
const STATUSES: [u16; 13] = [200, 204, 206, 304, 400, 404, 405, 410, 414, 416, 421, 422, 431];

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

const PATHS: [&str; 22] = [
    "/",
    "/openapi.json",
    "/v1/session",
    "/v1/robots",
    "/v1/status",
    "/v1/bags",
    "/v1/bags/run1",
    "/v1/bags/run1/latest",
    "/v1/bags/run1/history",
    "/v1/bags/run1/auto",
    "/v1/bags/run1/message",
    "/v1/bags/run1/timeline",
    "/v1/bags/run1/series",
    "/v1/bags/run1/fields",
    "/v1/bags/run1/points",
    "/v1/bags/run1/events",
    "/page/main.js",
    "/bags/run1.mcap",
    "/v1/bags/none/latest",
    "/bags/none.mcap",
    "/bags/run1",
    "/v1",
];
/// Requests that have an answer.
const TARGETS: [&str; 18] = [
    "/v1/bags/run1/latest?topic=/text&last=50ms",
    "/v1/bags/run1/latest?last=0&format=jsonl",
    "/v1/bags/run1/history?from=100ms&to=200ms&decode=true&array_items=3",
    "/v1/bags/run1/history?topic=camera",
    "/v1/bags/run1/auto?within=1ms",
    "/v1/bags/run1/auto?within=10ms&last=1s&decimate=/text:3",
    "/v1/bags/run1/message?topic=/camera&format=png",
    "/v1/bags/run1/message?topic=/camera&format=jpeg&at=50ms",
    "/v1/bags/run1/message?topic=/text&format=png",
    "/v1/bags/run1/message?topic=/text&format=json",
    "/v1/bags/run1/timeline?bins=30&from=50ms",
    "/v1/bags/run1/timeline?topic=/text&bins=4000&to=300ms",
    "/v1/bags/run1/series?topic=/camera&field=height&field=header.stamp.sec&bins=20",
    "/v1/bags/run1/series?topic=/camera&field=data[3]&from=1",
    "/v1/bags/run1/fields?topic=/camera",
    "/v1/bags/run1/message?topic=/camera&format=png&width=2&step=previous",
    "/bags/run1.mcap?topic=/text",
    "/bags/run1.mcap?from=10ms&to=500ms&access_token=x",
];
const NAMES: [&str; 18] = [
    "topic",
    "last",
    "from",
    "to",
    "at",
    "within",
    "decimate",
    "format",
    "decode",
    "array_items",
    "access_token",
    "bins",
    "field",
    "width",
    "max",
    "step",
    "other",
    "",
];
const VALUES: [&str; 48] = [
    "/text",
    "/camera",
    "text",
    "camera",
    "/none",
    "%2Ftext",
    "1s",
    "500ms",
    "0",
    "1.5",
    "1e9",
    "+1",
    "%2B0.1",
    "90s",
    "1700000000.5",
    "1700000000000000000",
    "2023-11-14T22:13:20Z",
    "mcap",
    "jsonl",
    "raw",
    "json",
    "png",
    "jpeg",
    "true",
    "false",
    "1",
    "64",
    "1048576",
    "1048577",
    "-1",
    "18446744073709551615",
    "18446744073709551616",
    "9999999999999999999999",
    "NaN",
    "inf",
    "1e308",
    "next",
    "height",
    "data[99999999]",
    "data[",
    "/text:5",
    "/text:1e-300",
    "/camera:0",
    ":",
    "..",
    "%2e%2e%2f",
    "%00",
    "%ff",
];
const HEADERS: [&str; 19] = [
    "Range: bytes=0-99",
    "Range: bytes=-1",
    "Range: bytes=100-",
    "Range: bytes=99999999-",
    "Range: bytes=5-2",
    "Range: bytes=18446744073709551615-18446744073709551615",
    "Range: bytes=0-0,1-1",
    "Range: lines=1-2",
    "If-Range: \"x\"",
    "If-None-Match: *",
    "If-None-Match: \"x\"",
    "Origin: https://app.foxglove.dev",
    "Origin: null",
    "Host: evil.example",
    "Authorization: Bearer x",
    "Connection: keep-alive",
    "Content-Length: 0",
    "Upgrade: websocket",
    "Accept-Encoding: gzip",
];
/// After these the connection may be closed.
const LAST_HEADERS: [&str; 6] = [
    "Content-Length: 7",
    "Transfer-Encoding: chunked",
    "Expect: 100-continue",
    "Content-Length: x",
    "Content-Length: 99999999999",
    "Connection: close",
];
const TOKENS: [&str; 16] = [
    "%",
    "%00",
    "%2e%2e%2f",
    "\r\n",
    "\n",
    "\0",
    " ",
    "&",
    "=",
    "?",
    "/",
    "../",
    "HTTP/1.1",
    "\u{202e}",
    "é",
    "+",
];

fn request(random: &mut Random, is_last: bool) -> Vec<u8> {
    let method = match random.below(12) {
        0 => "HEAD",
        1 => "OPTIONS",
        2 => random.of(&["POST", "PUT", "get", "TRACE", "DELETE"]),
        _ => "GET",
    };
    let mut target = random.of(&PATHS).to_owned();
    if random.below(2) == 0 {
        target = random.of(&TARGETS).to_owned();
    }
    for number in (target.contains('?') as usize)..random.below(4) {
        let (name, value) = (random.of(&NAMES), random.of(&VALUES));
        target.push_str(&format!("{}{name}={value}", if number == 0 { '?' } else { '&' }));
    }
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
    for _ in 0..random.below(3) {
        text.push_str(&format!("{}\r\n", random.of(&HEADERS)));
    }
    if is_last && random.below(4) == 0 {
        text.push_str(&format!("{}\r\n", random.of(&LAST_HEADERS)));
    }
    format!("{text}\r\n").into_bytes()
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            _ if bytes.is_empty() => {}
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.insert(at, random.next() as u8),
            3 => drop(bytes.remove(at)),
            4 => drop(bytes.splice(at..at, random.of(&TOKENS).bytes())),
            5 => {
                let end = (at + 1 + random.below(20)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                for _ in 0..random.below(8) {
                    bytes.splice(at..at, part.iter().copied());
                }
            }
            _ => bytes.truncate(at),
        }
    }
}

/// The statuses of the answers, until the server closes the connection.
fn converse(address: SocketAddr, bytes: &[u8], counts: &mut BTreeMap<u16, u64>) {
    let mut client = Client::connect(address);
    // The server closes the connection on invalid HTTP, even before it has read all.
    let _ = client.stream.write_all(bytes);
    loop {
        match client.head() {
            Ok(response) => {
                *counts.entry(response.status).or_default() += 1;
                assert!(
                    STATUSES.contains(&response.status) || response.status == 100,
                    "{}",
                    response.status
                );
                if client.skip_body(&response).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn ask(address: SocketAddr, seed: u64, requests: u64) -> BTreeMap<u16, u64> {
    let mut random = Random(seed);
    let mut counts = BTreeMap::new();
    let mut asked = 0;
    while asked < requests {
        let mut bytes = Vec::new();
        // Invalid HTTP ends a connection: it comes last.
        let batch = 1 + random.below(BATCH_MAX);
        for left in (0..batch).rev() {
            let is_last = left == 0;
            let mut next = match random.below(20) {
                0 if is_last => (0..random.below(300)).map(|_| random.next() as u8).collect(),
                _ => request(&mut random, is_last),
            };
            if is_last {
                mutate(&mut random, &mut next);
            }
            bytes.extend_from_slice(&next);
            asked += 1;
        }
        bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        converse(address, &bytes, &mut counts);
    }
    counts
}

#[test]
fn a_hundred_thousand_requests() {
    // A connection that waits for the rest of a request is ended soon.
    let limits = ServerLimits { head_timeout: Duration::from_millis(100), ..Default::default() };
    let (site, known) = Site::with(ServerOptions { limits, ..Default::default() });
    let address = site.address();
    let requests = std::env::var("LIVEBAG_FUZZ_REQUESTS").ok().and_then(|text| text.parse().ok());
    let requests = requests.unwrap_or(REQUESTS);
    let threads: Vec<_> = (0..THREADS)
        .map(|seed| {
            let work = move || ask(address, seed, requests / THREADS);
            std::thread::Builder::new().spawn(work).unwrap()
        })
        .collect();
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    for thread in threads {
        for (status, count) in thread.join().unwrap() {
            *counts.entry(status).or_default() += count;
        }
    }
    println!("answered: {counts:?}");
    assert!(counts.values().sum::<u64>() > requests * 3 / 4, "few were answered: {counts:?}");
    // The random reaches everything that there is.
    for status in [200, 204, 206, 400, 404, 405, 416, 421, 422] {
        assert!(counts.get(&status).is_some_and(|count| *count > 0), "no {status}: {counts:?}");
    }
    let answer = get(address, "/v1/bags/run1/history").must(200);
    assert_eq!(messages(&answer.body), known);
}
