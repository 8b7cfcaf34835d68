//! Memory that answers hold for clients that do not read: counted by the server, not sampled.

use std::time::Duration;

use livebag::{RecorderOptions, Topic};
use livebag_net::ServerOptions;
use livebag_net::limits::{PIECE_BYTES, PIECES_WAITING_MAX, ServerLimits};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::Value;

use super::client::{Client, Response, get};
use super::fixture::{Recording, Site, camera_topic, image, text, text_topic, wait_for};

const MIB: usize = 1 << 20;
/// Long for a test, which ends when its condition is met.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(200);

/// One picture of 13 MB, more than the kernel keeps for a connection.
fn picture(limits: ServerLimits) -> (Site, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    recording.write("/camera", image(1, 2400, 1800));
    let message = recording.finish().remove(0).2;
    (Site::over(folder, ServerOptions { limits, ..Default::default() }), message)
}

/// Asks, and reads no further than the head.
fn unread(site: &Site, target: &str) -> Client {
    let mut client = Client::connect(site.address());
    set_socket_recv_buffer_size(&client.stream, 4 << 10).unwrap();
    client.send("GET", target, &[]);
    client
}

fn heads(clients: &mut [Client]) -> Vec<Response> {
    clients.iter_mut().map(|client| client.head().unwrap()).collect()
}

fn status(site: &Site) -> (u64, usize) {
    let status: Value = get(site.address(), "/v1/status").must(200).json();
    let held = status["held_bytes"].as_u64().unwrap();
    (status["answers"].as_u64().unwrap(), held as usize)
}

const RAW: &str = "/v1/bags/run1/message?topic=/camera";

#[test]
fn unread_messages_have_one_bound() {
    let limits = ServerLimits {
        answer_bytes_max: 32 * MIB,
        turn_timeout: SHORT,
        progress_timeout: LONG,
        ..Default::default()
    };
    let (site, message) = picture(limits);
    for form in ["", "&format=png", "&format=json&array_items=1000000"] {
        let target = format!("{RAW}{form}");
        let mut clients: Vec<_> = (0..12).map(|_| unread(&site, &target)).collect();
        let heads = heads(&mut clients);
        let answered = heads.iter().filter(|head| head.status == 200).count();
        let (_, held) = status(&site);
        assert!(held <= limits.answer_bytes_max, "{held}");
        if form.is_empty() {
            // Two have room; the others are refused after they have waited, and give their turns back.
            assert_eq!(answered, 2);
            wait_for("the turns of those refused", || status(&site).0 <= 2);
            let (answers, held) = status(&site);
            assert_eq!(answers, 2, "a turn is kept until the bytes are sent");
            assert!(held >= 2 * message.len(), "{held}: what waits for the network is counted");
        }
        for head in heads.iter().filter(|head| head.status != 200) {
            assert_eq!((head.status, head.header("retry-after")), (503, Some("1")), "{target}");
        }
        drop(clients);
        wait_for("memory and turns to be free", || status(&site) == (0, 0));
    }
    assert!(get(site.address(), RAW).must(200).body == message);
}

#[test]
fn an_answer_keeps_its_turn_until_it_is_sent() {
    let limits = ServerLimits {
        answers_max: 3,
        turn_timeout: SHORT,
        progress_timeout: LONG,
        ..Default::default()
    };
    let (site, message) = picture(limits);
    // This one will be read: 13 MB through a buffer of 4 KiB would take minutes.
    let mut read = Client::connect(site.address());
    read.send("GET", RAW, &[]);
    assert_eq!(read.head().unwrap().status, 200);
    let mut clients: Vec<_> = (0..2).map(|_| unread(&site, RAW)).collect();
    assert!(heads(&mut clients).iter().all(|head| head.status == 200));
    for target in [RAW, "/v1/bags", "/v1/bags/run1", "/bags/run1.mcap"] {
        get(site.address(), target).must(503);
    }
    // One that is read to its end gives its turn to the next.
    let length = ("content-length".to_owned(), message.len().to_string());
    let head = Response { status: 200, headers: vec![length], body: Vec::new() };
    read.skip_body(&head).unwrap();
    wait_for("its turn", || get(site.address(), "/v1/bags").status == 200);
}

#[test]
fn definitions_are_sent_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    let comment = format!("# {}\n", "x".repeat(78)).repeat(4000);
    for number in 0..60 {
        let schema = format!("{comment}string data").into_bytes();
        let name = format!("/text{number}");
        recording.add(Topic { schema, ..text_topic(&name) });
        recording.write(&name, text("here"));
    }
    recording.finish();
    let limits = ServerLimits { progress_timeout: LONG, ..Default::default() };
    let site = Site::over(folder, ServerOptions { limits, ..Default::default() });
    let target = "/v1/bags/run1?schemas=true";
    let mut clients: Vec<_> = (0..8).map(|_| unread(&site, target)).collect();
    assert!(heads(&mut clients).iter().all(|head| head.status == 200));
    // Waiting, being sent, and being written; a piece may be half empty.
    let most = 8 * (PIECES_WAITING_MAX + 2) * 2 * PIECE_BYTES;
    let (_, held) = status(&site);
    assert!(held > 0 && held <= most, "{held}");
    drop(clients);
    let told = get(site.address(), target).must(200).json();
    let topics = told["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 60);
    for topic in topics {
        assert_eq!(topic["schema"]["text"].as_str().unwrap(), format!("{comment}string data"));
    }
}
