//! Requests that are too slow or too large. Nothing here waits for a time: each test ends when its condition holds.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use livebag::RecorderOptions;
use livebag_net::ServerOptions;
use livebag_net::limits::{HEAD_BYTES_MAX, ServerLimits};

use super::client::{Client, get};
use super::fixture::{Recording, Site, camera_topic, image, messages, wait_for};

fn with(limits: ServerLimits) -> Site {
    Site::with(ServerOptions { limits, ..Default::default() }).0
}

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_head_byte_by_byte_is_not_waited_for() {
    let site = with(ServerLimits { head_timeout: SHORT, ..Default::default() });
    let mut slow = Client::connect(site.address());
    let mut sent = 0;
    slow.stream.write_all(b"GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
    wait_for("the server to close the connection", || {
        sent += 1;
        assert_eq!(get(site.address(), "/v1/bags").status, 200, "others are answered");
        slow.stream.write_all(b"x").is_err()
    });
    assert!(sent > 1);
}

#[test]
fn a_connection_that_asks_nothing_more_is_closed() {
    let site = with(ServerLimits { head_timeout: SHORT, ..Default::default() });
    let mut idle = Client::connect(site.address());
    let mut kept = Client::connect(site.address());
    kept.ask("GET", "/v1/bags", &[]).must(200);
    assert!(idle.is_closed() && kept.is_closed());
    wait_for("no connection to be counted", || {
        get(site.address(), "/v1/status").json()["connections"] == 1
    });
}

/// A recording whose answer no kernel's buffers hold.
fn large(limits: ServerLimits) -> (Site, usize) {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    for number in 0..40 {
        recording.write("/camera", image(number, 640, 480));
    }
    let count = recording.finish().len();
    (Site::over(folder, ServerOptions { limits, ..Default::default() }), count)
}

const LARGE: [&str; 4] = [
    "/v1/bags/run1/latest?last=100s",
    "/v1/bags/run1/history?decode=true&array_items=100000",
    "/bags/run1.mcap",
    "/v1/bags/run1/auto?within=60s",
];

fn answers(address: SocketAddr) -> u64 {
    get(address, "/v1/status").must(200).json()["answers"].as_u64().unwrap()
}

#[test]
fn readers_who_take_nothing_are_let_go() {
    let limits = ServerLimits { answers_max: 8, progress_timeout: SHORT, ..Default::default() };
    let (site, count) = large(limits);
    let mut stuck: Vec<Client> = (0..8).map(|_| Client::connect(site.address())).collect();
    for (client, target) in stuck.iter_mut().zip(LARGE.into_iter().cycle()) {
        client.send("GET", target, &[]);
    }
    wait_for("their turns to be free", || answers(site.address()) == 0);
    // A slow machine may be let go as well, but never takes a part for the whole.
    let mut answer = None;
    wait_for("an answer", || {
        let mut client = Client::connect(site.address());
        client.send("GET", LARGE[0], &[]);
        answer = client.response(false).ok();
        answer.is_some()
    });
    assert_eq!(messages(&answer.unwrap().must(200).body).len(), count);
    // An answer that was cut off looks cut off.
    for client in stuck.iter_mut().step_by(2).take(2) {
        assert!(client.response(false).is_err());
    }
}

#[test]
fn more_answers_than_there_are_turns_wait_and_are_refused() {
    let limits = ServerLimits {
        answers_max: 2,
        turn_timeout: SHORT,
        progress_timeout: Duration::from_secs(600),
        ..Default::default()
    };
    let (site, _) = large(limits);
    let mut stuck: Vec<Client> = (0..2).map(|_| Client::connect(site.address())).collect();
    for client in &mut stuck {
        client.send("GET", LARGE[0], &[]);
        client.head().unwrap().must(200);
    }
    let refused = get(site.address(), "/v1/bags").must(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    refused.error();
    // What needs no turn is answered.
    assert_eq!(get(site.address(), "/v1/status").must(200).json()["refused"], 1);
    // A client that goes away returns its turn.
    drop(stuck);
    wait_for("the turns to be free", || answers(site.address()) == 0);
    get(site.address(), "/v1/bags").must(200);
}

#[test]
fn small_memory_makes_answers_wait_and_not_fail() {
    // A quarter of a message: each answer has all of it in turn.
    let limits = ServerLimits { answer_bytes_max: 200_000, ..Default::default() };
    let (site, count) = large(limits);
    let address = site.address();
    let askers: Vec<_> = (0..6)
        .map(|number| {
            std::thread::Builder::new()
                .spawn(move || get(address, LARGE[number % 3]).must(200).body)
                .unwrap()
        })
        .collect();
    for (number, asker) in askers.into_iter().enumerate() {
        let body = asker.join().unwrap();
        match number % 3 {
            1 => assert_eq!(body.iter().filter(|byte| **byte == b'\n').count(), count),
            _ => assert_eq!(messages(&body).len(), count),
        }
    }
}

/// The answer to raw bytes, until the server closes the connection.
fn answered(site: &Site, bytes: &[u8]) -> Vec<u16> {
    let mut client = Client::connect(site.address());
    // The server may close before it has read all of it.
    let _ = client.stream.write_all(bytes);
    let mut statuses = Vec::new();
    while let Ok(response) = client.response(false) {
        statuses.push(response.status);
    }
    statuses
}

#[test]
fn what_is_too_large_is_refused() {
    let site = with(ServerLimits { head_timeout: Duration::from_secs(2), ..Default::default() });
    // hyper checks the limit between two reads, which may bring twice as much.
    let long = "x".repeat(4 * HEAD_BYTES_MAX);
    let many = "X: y\r\n".repeat(100);
    let refused = [400, 413, 414, 431];
    for request in [
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET /?{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{long}: x\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
        format!("{long} / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n"),
    ] {
        let statuses = answered(&site, request.as_bytes());
        assert!(statuses.iter().all(|status| refused.contains(status)), "{statuses:?}");
        assert!(statuses.len() <= 1);
    }
    // Just within the limit.
    let fits = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {}\r\n\r\n",
        &long[..20_000]
    );
    assert_eq!(answered(&site, fits.as_bytes()), [200]);
}

#[test]
fn bodies_are_not_read() {
    let site = with(ServerLimits { head_timeout: SHORT, ..Default::default() });
    let body = vec![b'x'; 1 << 20];
    for head in [
        "GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n",
        "GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\nExpect: 100-continue\r\n\r\n",
        "GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n",
        "POST /v1/bags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n",
        "GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        "GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 7\r\n\r\n",
        "GET /v1/bags HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    ] {
        let mut request = head.as_bytes().to_vec();
        request.extend_from_slice(&body);
        for status in answered(&site, &request) {
            assert!(matches!(status, 100 | 200 | 400 | 405), "{head}: {status}");
        }
    }
    get(site.address(), "/v1/bags").must(200);
}

#[test]
fn what_is_no_http_ends_the_connection() {
    let site = with(ServerLimits { head_timeout: SHORT, ..Default::default() });
    for bytes in [
        &b"\0\0\0\0"[..],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\nHost: localhost\n\n",
        b"GET /\x80\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n",
        b"GET / HTTP/1.1\r\n Host: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nzzz\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\r\n\r\n\r\n",
    ] {
        for status in answered(&site, bytes) {
            let text = String::from_utf8_lossy(bytes);
            assert!(matches!(status, 200 | 204 | 400 | 404 | 405 | 421), "{text:?}: {status}");
        }
    }
    get(site.address(), "/v1/bags").must(200);
}
