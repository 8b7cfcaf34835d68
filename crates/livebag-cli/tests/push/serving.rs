//! A store's recordings, served.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;

use crate::run::{Ended, in_store, livebag, push, record};
use crate::store::{Seen, Store};

/// A server, killed at the end.
struct Served {
    server: Child,
    url: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Served {
    fn start(store: &Store, address: &str) -> Self {
        let command = livebag(&["serve", address, "--listen", "127.0.0.1:0", "--json"]);
        let mut server = in_store(store, command).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let url = line["urls"][0].as_str().unwrap().to_owned();
        Self { server, url }
    }

    fn get(&self, path: &str) -> String {
        let host = self.url.strip_prefix("http://").unwrap();
        let mut socket = TcpStream::connect(host).unwrap();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[test]
fn a_stores_recordings_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    for (name, mebibytes) in [("run1", 30), ("run2", 1)] {
        push(&store, &record(folder.path(), name, mebibytes, 1), &[]).expect(0, &["verified"]);
    }
    // A push that is under way, and whose first split is whole.
    let unfinished = store.place("robot8/run3/split_0001");
    std::fs::create_dir_all(&unfinished).unwrap();
    std::fs::write(unfinished.join("container.yaml"), "{}").unwrap();
    std::fs::write(store.place("robot8/run3/container.claim"), "").unwrap();
    store.take_seen();
    let served = Served::start(&store, "s3://fleet");
    let bags = served.get("/v1/bags");
    for name in ["robot7.run1", "robot7.run2"] {
        assert!(bags.contains(&format!("\"name\":\"{name}\"")), "{bags}");
    }
    assert!(!bags.contains("run3"), "{bags}");
    assert!(served.get("/v1/bags/robot7.run1/timeline?bins=20").contains("\"/image\""));
    let bricks = |seen: Vec<Seen>, name: &str| {
        seen.iter().filter(|seen| seen.what.contains(&format!("{name}.mcap"))).count()
    };
    assert_eq!(bricks(store.take_seen(), ""), 0, "only indexes are read");
    let here =
        |arguments: &[&str]| Ended::from(livebag(arguments).output().unwrap()).expect(0, &[]);
    let bag = folder.path().join("run1");
    let (bag, there) = (bag.to_str().unwrap(), format!("{}/robot7.run1", served.url));
    for question in
        [&["history", "-t", "/imu", "--json"][..], &["latest", "--last", "1h", "--count"]]
    {
        let ask = |recording: &str| here(&[&["query", recording], question].concat()).out;
        assert_eq!(ask(&there), ask(bag), "{question:?}");
    }
    // The virtual file.
    let file = served.get("/bags/robot7.run1.mcap?topic=/imu");
    assert!(file.starts_with("HTTP/1.1 200") && file.contains("MCAP0"));
    assert_eq!(bricks(store.take_seen(), "image"), 0, "only what was asked for");
    drop(served);
    let served = Served::start(&store, "s3://fleet/robot7/run2");
    assert!(served.get("/v1/bags").contains("\"name\":\"run2\""), "the recording itself");
    let refused = in_store(&store, livebag(&["serve", "s3://nowhere/x"])).output().unwrap();
    Ended::from(refused).expect(1, &["no such bucket"]);
}
