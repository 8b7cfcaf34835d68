//! Very many clients that do nothing, or nearly nothing. Meanwhile a recording runs.

use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use livebag::RecorderOptions;
use livebag_net::limits::{CONNECTIONS_MAX, OPEN_BAGS_MAX, ServerLimits};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::client::{Client, get};
use super::fixture::{Recording, camera_topic, image, record_all, wait_for};
use super::process::Process;

const IDLE: usize = 10_000;
const MIB: u64 = 1 << 20;

/// How many sockets this process may have, 10,000 if the machine allows it.
fn sockets() -> usize {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    let most = limit.maximum.map_or(usize::MAX, |limit| limit as usize);
    IDLE.min(most.saturating_sub(500))
}

fn connect(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// Those that the server has not closed.
fn open(sockets: &[TcpStream]) -> usize {
    let is_open = |socket: &&TcpStream| {
        socket.set_nonblocking(true).unwrap();
        matches!(socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    };
    sockets.iter().filter(is_open).count()
}

#[test]
fn ten_thousand_idle_connections() {
    let folder = tempfile::tempdir().unwrap();
    let head_timeout = Duration::from_secs(5);
    let limits = ServerLimits { head_timeout, ..Default::default() };
    let server = Process::start(folder.path(), limits);
    get(server.address, "/v1/bags/live/latest").must(200);
    let (memory, descriptors) = (server.memory(), server.descriptors());
    let sockets = connect(server.address, sockets());
    wait_for("all but the allowed to be closed", || open(&sockets) <= CONNECTIONS_MAX);
    // A socket and its copy for each, and the files that the recording opens meanwhile.
    assert!(server.descriptors() <= descriptors + 2 * CONNECTIONS_MAX + 64);
    assert!(server.memory() < memory + 128 * MIB, "{} of {memory}", server.memory());
    // The idle ones go, and others are answered although the sockets here stay.
    wait_for("room for others", || {
        let client = Client::try_connect(server.address);
        client.is_ok_and(|mut client| {
            let sent = client
                .stream
                .write_all(b"GET /v1/bags/live/latest HTTP/1.1\r\nHost: localhost\r\n\r\n");
            sent.is_ok() && client.response(false).is_ok_and(|response| response.status == 200)
        })
    });
    wait_for("all to be closed", || open(&sockets) == 0);
    drop(sockets);
    server.end();
}

#[test]
fn hundreds_of_recordings_do_not_stay_open() {
    let folder = tempfile::tempdir().unwrap();
    record_all(&folder.path().join("run0"), 4);
    for number in 1..300 {
        let copy = folder.path().join(format!("run{number}"));
        std::fs::create_dir(&copy).unwrap();
        for entry in folder.path().join("run0").read_dir().unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    let server = Process::start(folder.path(), ServerLimits::default());
    let descriptors = server.descriptors();
    // An index and a brick for each of two topics; a list closes them in batches.
    let bound = descriptors + 2 * (OPEN_BAGS_MAX + 1) * 4 + 64;
    for _ in 0..2 {
        let listed = get(server.address, "/v1/bags").must(200).json();
        assert_eq!(listed.as_array().unwrap().len(), 301);
        assert!(server.descriptors() <= bound, "{} of {descriptors}", server.descriptors());
    }
    for number in 0..300 {
        get(server.address, &format!("/v1/bags/run{number}/latest")).must(200);
        get(server.address, &format!("/bags/run{number}.mcap")).must(200);
    }
    assert!(server.descriptors() <= bound, "{} of {descriptors}", server.descriptors());
    server.end();
}

#[test]
fn heads_that_never_end_take_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let server = Process::start(folder.path(), ServerLimits::default());
    get(server.address, "/v1/bags").must(200);
    let memory = server.memory();
    let mut sockets = connect(server.address, CONNECTIONS_MAX - 10);
    let half = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(30_000));
    for socket in &mut sockets {
        // Some may have been closed meanwhile.
        let _ = socket.write_all(half.as_bytes());
    }
    // Meanwhile, others are answered.
    for _ in 0..10 {
        get(server.address, "/v1/bags/live/latest").must(200);
    }
    let bound = (CONNECTIONS_MAX as u64) * (64 << 10) + 64 * MIB;
    assert!(server.memory() < memory + bound, "{} of {memory}", server.memory());
    drop(sockets);
    server.end();
}

#[test]
fn readers_who_take_nothing_take_bounded_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    let message = image(1, 1024, 680);
    for _ in 0..30 {
        recording.write("/camera", message.clone());
    }
    recording.finish();
    let limits = ServerLimits {
        answer_bytes_max: 64 << 20,
        progress_timeout: Duration::from_secs(10),
        ..Default::default()
    };
    let server = Process::start(folder.path(), limits);
    get(server.address, "/v1/bags/run1/message?topic=/camera").must(200);
    let memory = server.memory();
    let mut readers = Vec::new();
    let targets = [
        "/v1/bags/run1/latest?last=1000s",
        "/bags/run1.mcap",
        "/v1/bags/run1/auto?within=60s",
        "/v1/bags/run1/message?topic=/camera",
        "/v1/bags/run1/message?topic=/camera&format=png",
        "/v1/bags/run1/message?topic=/camera&format=json&array_items=1000000",
    ];
    for number in 0..64 {
        let mut client = Client::connect(server.address);
        client.send("GET", targets[number % targets.len()], &[]);
        readers.push(client);
    }
    // They are let go, and others are answered.
    wait_for("an answer", || get(server.address, "/v1/bags/run1/latest?last=0").status == 200);
    drop(readers);
    // The limit, values of one large message, and the free pieces.
    let bound = limits.answer_bytes_max as u64 + 128 * MIB + 96 * MIB;
    let most = server.memory_peak();
    assert!(most < memory + bound, "{most} of {memory}");
    // The system has it again.
    wait_for("memory to be given back", || server.memory() < memory + 48 * MIB);
    server.end();
}
