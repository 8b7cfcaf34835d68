//! Large messages are sent from their place in the page cache.

use std::sync::Arc;

use livebag::{Clock, RecorderOptions};
use livebag_net::{Catalog, Server, ServerOptions};

use super::client::{Client, get};
use super::fixture::{
    Known, Recording, Site, camera_topic, image, messages, of_topic, text, text_topic, wait_for,
};

const ALL: &str = "/v1/bags/run1/history";

/// Pictures of 0.9 MB and texts in turn, in memory of the recorder or of the device.
fn record(recording: &mut Recording, count: u64) {
    for number in 0..count {
        recording.write("/text", text(&format!("text {number}")));
        recording.write("/camera", image(number, 640, 480));
    }
}

fn recording(folder: &std::path::Path) -> Recording {
    let mut recording = Recording::new(&folder.join("run1"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.add(camera_topic("/camera"));
    recording
}

/// A server of the same folder that copies the bytes it sends.
fn copying(site: &Site) -> Server {
    let roots = [site.folder.path().to_owned()];
    let catalog = Arc::new(Catalog::new(&roots, Clock::simulated(1), None).unwrap());
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let options = ServerOptions { listen, copies: true, ..Default::default() };
    Server::start(catalog, options).unwrap()
}

/// Both answers must equal the known messages.
fn assert_same(site: &Site, known: &Known) {
    site.later();
    let copying = copying(site);
    for query in ["", "?topic=/camera", "?from=0.05"] {
        let target = format!("{ALL}{query}");
        let found = messages(&get(site.address(), &target).must(200).body);
        let copied = messages(&get(copying.addresses()[0], &target).must(200).body);
        assert!(found == copied && !found.is_empty(), "{target}");
    }
    let all = get(site.address(), ALL).must(200);
    assert!(messages(&all.body) == *known);
}

#[test]
fn answers_by_reference_are_those_that_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = recording(folder.path());
    record(&mut recording, 10);
    recording.settle();
    let site = Site::over(folder, ServerOptions::default());
    assert_same(&site, &recording.known);
    // The brick has been mapped when it grows.
    record(&mut recording, 10);
    recording.settle();
    assert_same(&site, &recording.known);
    let known = recording.finish();
    assert_same(&site, &known);
}

/// A mapped page of a truncated file kills a process that reads it. The server does not look.
#[test]
fn a_brick_that_is_cut_under_an_answer_costs_that_answer_and_not_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = recording(folder.path());
    // More than sockets hold.
    record(&mut recording, 60);
    let known = recording.finish();
    let site = Site::over(folder, ServerOptions::default());
    let whole = get(site.address(), ALL).must(200).body.len();
    let mut slow: Vec<Client> = (0..4).map(|_| Client::connect(site.address())).collect();
    for client in &mut slow {
        client.send("GET", ALL, &[]);
    }
    // Their answers have begun, and wait for them.
    wait_for("all to be answered", || {
        get(site.address(), "/v1/status").must(200).json()["answers"] == 4
    });
    let is_camera = |path: &std::path::PathBuf| path.to_string_lossy().contains("camera");
    let files = site.folder.path().join("run1").read_dir().unwrap();
    let mut bricks = files.map(|file| file.unwrap().path()).filter(is_camera);
    let brick = bricks.find(|path| path.extension().is_some_and(|e| e == "mcap")).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(brick).unwrap();
    file.set_len(5_000_000).unwrap();
    for client in &mut slow {
        // Cut off, or without the missing messages.
        if let Ok(answer) = client.response(false) {
            assert!(answer.body.len() < whole);
        }
    }
    site.later();
    let answer = get(site.address(), ALL).must(200);
    let found = messages(&answer.body);
    assert!(of_topic(&found, "/text") == of_topic(&known, "/text"));
    let cameras = of_topic(&found, "/camera");
    assert!(!cameras.is_empty() && cameras.len() < 60);
    assert!(cameras == of_topic(&known, "/camera")[..cameras.len()]);
}
