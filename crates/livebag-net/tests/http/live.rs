//! Live sockets, opened by a viewer and by malicious clients.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, RecorderOptions};
use livebag_net::limits::{LIVE_ASK_BYTES_MAX, LIVE_MISTAKES_MAX, ServerLimits};
use livebag_net::{Catalog, Secrets, Server, ServerOptions, Viewer};
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use super::client::{DEADLINE, ask, get};
use super::fixture::{
    Known, Recording, START_NANOS, STEP_NANOS, Site, camera_topic, image, no_panics, of_topic,
    record_all, text, text_topic, wait_for, watch_for_panics,
};

const OLD: &str = "foxglove.websocket.v1";
const NEW: &str = "foxglove.sdk.v1";
const TOKEN: &str = "correct-horse-battery-staple";

/// A server whose time runs.
fn serve(folder: &std::path::Path, options: ServerOptions) -> Server {
    watch_for_panics();
    let catalog = Arc::new(Catalog::new(&[folder.to_owned()], Clock::system(), None).unwrap());
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    Server::start(catalog, ServerOptions { listen, ..options }).unwrap()
}

/// A connection that continues after an interruption, which tungstenite takes for an end.
struct Patient(TcpStream);

impl Patient {
    fn again<T>(&mut self, mut act: impl FnMut(&mut TcpStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            match act(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.again(|stream| stream.read(bytes))
    }
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.again(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The messages a viewer has received.
struct Viewing {
    socket: WebSocket<Patient>,
    subprotocol: String,
    /// The last `serverInfo`.
    info: Value,
    /// By topic.
    channels: BTreeMap<String, Value>,
    gone: Vec<u64>,
    statuses: Vec<Value>,
    /// Subscription, log time, data.
    messages: Vec<(u32, u64, Vec<u8>)>,
    time: u64,
    /// Status, time, speed, whether it has sought, request.
    states: Vec<(u8, u64, f32, bool, String)>,
}

fn open(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<Viewing, (u16, String)> {
    let stream = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.set_write_timeout(Some(DEADLINE)).unwrap();
    let mut request =
        format!("ws://localhost:{}{path}", address.port()).into_client_request().unwrap();
    for (name, value) in headers {
        let name: tungstenite::http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
    match tungstenite::client::client_with_config(request, Patient(stream), Some(config)) {
        Ok((socket, response)) => {
            let named = response.headers().get("sec-websocket-protocol");
            Ok(Viewing {
                subprotocol: named.unwrap().to_str().unwrap().to_owned(),
                socket,
                info: Value::Null,
                channels: BTreeMap::new(),
                gone: Vec::new(),
                statuses: Vec::new(),
                messages: Vec::new(),
                time: 0,
                states: Vec::new(),
            })
        }
        Err(tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            let body = response.body().clone().unwrap_or_default();
            Err((response.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
        }
        Err(error) => panic!("{error}"),
    }
}

fn view(address: SocketAddr, path: &str) -> Viewing {
    open(address, path, &[("sec-websocket-protocol", NEW)]).unwrap()
}

impl Viewing {
    /// Reads on until it is so.
    #[track_caller]
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let began = std::time::Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < DEADLINE, "waited too long for {what}");
            let message = self.socket.read().unwrap_or_else(|error| panic!("{what}: {error}"));
            self.take(message);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Text(text) => {
                let said: Value = serde_json::from_str(&text).unwrap();
                match said["op"].as_str().unwrap() {
                    "serverInfo" => self.info = said,
                    "advertise" => {
                        for channel in said["channels"].as_array().unwrap() {
                            let topic = channel["topic"].as_str().unwrap().to_owned();
                            self.channels.insert(topic, channel.clone());
                        }
                    }
                    "unadvertise" => {
                        let ids = said["channelIds"].as_array().unwrap();
                        self.gone.extend(ids.iter().map(|id| id.as_u64().unwrap()));
                    }
                    "status" => self.statuses.push(said),
                    other => panic!("{other}"),
                }
            }
            Message::Binary(bytes) => {
                let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
                match bytes[0] {
                    1 => self.messages.push((u32_at(1), u64_at(5), bytes[13..].to_vec())),
                    2 => self.time = u64_at(1),
                    5 => {
                        let speed = f32::from_bits(u32_at(10));
                        let id = String::from_utf8(bytes[19..].to_vec()).unwrap();
                        self.states.push((bytes[1], u64_at(2), speed, bytes[14] != 0, id));
                    }
                    other => panic!("{other}"),
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, text: &Value) {
        self.socket.send(Message::text(text.to_string())).unwrap();
    }

    #[track_caller]
    fn subscribe(&mut self, id: u32, topic: &str) {
        self.until(topic, |viewing| viewing.channels.contains_key(topic));
        let channel = self.channels[topic]["id"].clone();
        self.say(&json!({"op": "subscribe", "subscriptions": [{"id": id, "channelId": channel}]}));
    }

    fn play(&mut self, plays: bool, speed: f32, seek: Option<u64>, id: &str) {
        let mut bytes = vec![3, u8::from(!plays)];
        bytes.extend_from_slice(&speed.to_le_bytes());
        bytes.push(seek.is_some().into());
        bytes.extend_from_slice(&seek.unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&(id.len() as u32).to_le_bytes());
        bytes.extend_from_slice(id.as_bytes());
        self.socket.send(Message::binary(bytes)).unwrap();
        let id = id.to_owned();
        self.until("the answer", |viewing| viewing.states.iter().any(|state| state.4 == id));
    }

    fn of(&self, id: u32) -> Vec<(u64, Vec<u8>)> {
        let of = self.messages.iter().filter(|(of, ..)| *of == id);
        of.map(|(_, nanos, data)| (*nanos, data.clone())).collect()
    }

    /// Reads until the server has closed the socket; why.
    fn closed(mut self) -> Option<u16> {
        let mut code = None;
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => code = frame.map(|frame| frame.code.into()),
                Ok(message) => self.take(message),
                Err(_) => return code,
            }
        }
    }
}

fn pairs(known: &Known, topic: &str) -> Vec<(u64, Vec<u8>)> {
    of_topic(known, topic).into_iter().map(|(_, nanos, data)| (nanos, data)).collect()
}

#[test]
fn a_finished_recording_plays_and_every_message_comes_once() {
    let folder = tempfile::tempdir().unwrap();
    let known = record_all(&folder.path().join("run1"), 100);
    let server = serve(folder.path(), ServerOptions::default());
    for subprotocols in [OLD, NEW, "foxglove.sdk.v1, foxglove.websocket.v1"] {
        let headers = [("sec-websocket-protocol", subprotocols)];
        let mut viewing = open(server.addresses()[0], "/live/run1", &headers).unwrap();
        let expected = if subprotocols == NEW { NEW } else { OLD };
        assert_eq!(viewing.subprotocol, expected);
        viewing.subscribe(3, "/text");
        viewing.subscribe(9, "/camera");
        let last = known.last().unwrap().1;
        viewing
            .until("the last message", |viewing| viewing.of(9).last().is_some_and(|m| m.0 == last));
        assert_eq!(viewing.of(9), pairs(&known, "/camera"));
        assert_eq!(viewing.of(3), pairs(&known, "/text"));
        viewing.until("the end of time", |viewing| viewing.time == last);
        // Only those that support it get the end.
        if subprotocols == NEW {
            viewing.until("the end", |viewing| viewing.states.iter().any(|state| state.0 == 3));
        } else {
            assert!(viewing.states.is_empty());
        }
        let camera = &viewing.channels["/camera"];
        assert_eq!(camera["schemaName"], "sensor_msgs/msg/Image");
        assert_eq!(
            (&camera["encoding"], &camera["schemaEncoding"]),
            (&json!("cdr"), &json!("ros2msg"))
        );
        let (start, end) = (START_NANOS, last);
        let stamp =
            |nanos: u64| json!({"sec": nanos / 1_000_000_000, "nsec": nanos % 1_000_000_000});
        assert_eq!(viewing.info["dataStartTime"], stamp(start));
        assert_eq!(viewing.info["dataEndTime"], stamp(end));
        assert_eq!(viewing.info["capabilities"], json!(["time", "playbackControl"]));
    }
    no_panics();
}

#[test]
fn seeking_shows_the_moment_and_playing_goes_on_from_there() {
    let (site, known) = Site::new();
    let mut viewing = view(site.address(), "/live/run1");
    viewing.play(false, 1.0, Some(START_NANOS + 50 * STEP_NANOS + 1), "a");
    viewing.subscribe(1, "/text");
    viewing.until("the text at that moment", |viewing| !viewing.of(1).is_empty());
    assert_eq!(viewing.of(1), pairs(&known, "/text")[25..=25]);
    assert_eq!(
        viewing.states.last().unwrap(),
        &(1, START_NANOS + 50 * STEP_NANOS + 1, 1.0, true, "a".into())
    );
    // Nothing moves until it plays; the server's time stands, too.
    viewing.play(true, 2.0, None, "b");
    assert_eq!(
        viewing.states.last().unwrap(),
        &(0, START_NANOS + 50 * STEP_NANOS + 1, 2.0, false, "b".into())
    );
    site.clock.advance(Duration::from_nanos(5 * STEP_NANOS));
    viewing.until("ten more", |viewing| viewing.of(1).len() == 6);
    assert_eq!(viewing.of(1), pairs(&known, "/text")[25..=30]);
    viewing.play(false, 1.0, Some(0), "c");
    viewing.until("the first", |viewing| viewing.of(1).last().unwrap().0 == START_NANOS);
    assert_eq!(viewing.states.last().unwrap().1, START_NANOS);
}

#[test]
fn a_recording_being_written_is_followed_and_scrubbed() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("now"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.write("/text", text("zero"));
    recording.settle();
    let server = serve(folder.path(), ServerOptions::default());
    let mut viewing = view(server.addresses()[0], "/live/now");
    viewing.subscribe(1, "/text");
    viewing.until("the newest", |viewing| viewing.of(1).len() == 1);
    for number in 1..50 {
        recording.write("/text", text(&format!("text {number}")));
    }
    viewing.until("what is new", |viewing| viewing.of(1).len() == 50);
    // A new topic is announced.
    recording.add(camera_topic("/camera"));
    recording.write("/camera", image(1, 4, 2));
    viewing.subscribe(2, "/camera");
    viewing.until("the picture", |viewing| viewing.of(2).len() == 1);

    viewing.play(false, 1.0, Some(START_NANOS + 10 * STEP_NANOS), "back");
    viewing.until("the text of then", |viewing| viewing.of(1).len() == 51);
    assert_eq!(viewing.of(1)[50].0, START_NANOS + 10 * STEP_NANOS);
    recording.write("/text", text("meanwhile"));
    recording.settle();
    let end = |viewing: &Viewing| {
        let end = &viewing.info["dataEndTime"];
        end["sec"].as_u64().unwrap() * 1_000_000_000 + end["nsec"].as_u64().unwrap()
    };
    viewing.until("the end to move on", |viewing| end(viewing) == START_NANOS + 51 * STEP_NANOS);
    viewing.play(true, 1.0, Some(u64::MAX), "now");
    viewing.until("the newest once more", |viewing| viewing.of(1).len() == 52);
    recording.write("/text", text("after"));
    viewing.until("what is new again", |viewing| viewing.of(1).len() == 53);
    let known = recording.finish();
    assert_eq!(viewing.of(1)[..50], pairs(&known, "/text")[..50]);
    viewing.until("the end", |viewing| viewing.states.last().unwrap().0 == 3);
    no_panics();
}

#[test]
fn a_slow_client_gets_the_newest_and_the_count_of_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("now"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    recording.write("/camera", image(0, 400, 400));
    recording.settle();
    let server = serve(folder.path(), ServerOptions::default());
    let mut viewing = view(server.addresses()[0], "/live/now");
    viewing.subscribe(1, "/camera");
    viewing.until("the first", |viewing| viewing.of(1).len() == 1);
    // It takes nothing while 200 pictures of half a megabyte come: no kernel holds them all.
    for number in 1..200 {
        recording.write("/camera", image(number, 400, 400));
    }
    recording.settle();
    let newest = START_NANOS + 199 * STEP_NANOS;
    viewing.until("the newest", |viewing| viewing.of(1).last().unwrap().0 == newest);
    viewing.until("the count", |viewing| !viewing.statuses.is_empty());
    let got = viewing.of(1).len();
    let sentence = viewing.statuses.last().unwrap()["message"].as_str().unwrap();
    assert!(got < 150, "{got}");
    assert!(
        sentence.contains(&format!("/camera: {} messages were left out", 200 - got)),
        "{sentence}"
    );
    assert!(viewing.of(1).is_sorted_by_key(|(nanos, _)| *nanos));
    drop(recording);
    no_panics();
}

#[test]
fn a_client_that_never_reads_is_let_go_and_one_that_is_silent_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(camera_topic("/camera"));
    (0..40).for_each(|number| recording.write("/camera", image(number, 800, 800)));
    recording.finish();
    let short = Duration::from_millis(300);
    let limits = ServerLimits { progress_timeout: short, ..ServerLimits::DEFAULT };
    let server = serve(folder.path(), ServerOptions { limits, ..Default::default() });
    let mut never = view(server.addresses()[0], "/live/run1");
    never.subscribe(1, "/camera");
    wait_for("it to be let go", || server.status().live_sockets == 0);
    assert_eq!(server.status().held_bytes, 0);
    drop(never);

    // Longer than a busy machine lets a client wait.
    let silence = Duration::from_secs(3);
    let limits = ServerLimits { live_silence_max: silence, ..ServerLimits::DEFAULT };
    let server = serve(folder.path(), ServerOptions { limits, ..Default::default() });
    let mut silent = view(server.addresses()[0], "/live/run1");
    silent.until("the channels", |viewing| !viewing.channels.is_empty());
    // It reads, and its pongs show that it is alive: this client sends them when it reads.
    let began = std::time::Instant::now();
    while began.elapsed() < silence + silence / 2 {
        let message = silent.socket.read().unwrap();
        silent.take(message);
        silent.socket.flush().unwrap();
    }
    // From now on it does not.
    wait_for("it to be let go", || server.status().live_sockets == 0);
    no_panics();
}

#[test]
fn a_thousand_sockets_are_bounded_and_refused_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    record_all(&folder.path().join("run1"), 10);
    let limits = ServerLimits { live_sockets_max: 20, ..ServerLimits::DEFAULT };
    let server = serve(folder.path(), ServerOptions { limits, ..Default::default() });
    let address = server.addresses()[0];
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..1000 {
        match open(address, "/live/run1", &[("sec-websocket-protocol", NEW)]) {
            Ok(viewing) => held.push(viewing),
            Err((503, said)) => {
                assert!(said.contains("too many live sockets"), "{said}");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((held.len(), refused), (20, 980));
    // Meanwhile queries are answered, and the followers are served.
    get(address, "/v1/bags/run1").must(200);
    for viewing in &mut held {
        viewing.subscribe(1, "/text");
        viewing.until("a message", |viewing| !viewing.of(1).is_empty());
    }
    drop(held);
    wait_for("room again", || server.status().live_sockets == 0);
    view(address, "/live/run1").subscribe(1, "/text");
    no_panics();
}

#[test]
fn what_is_not_understood_is_answered_and_too_much_of_it_ends_the_socket() {
    let (site, _) = Site::new();
    let mut viewing = view(site.address(), "/live/run1");
    viewing.subscribe(1, "/text");
    let wrong = [
        "",
        "{",
        "[1]",
        "null",
        r#"{"op":"subscribe"}"#,
        r#"{"op":"advertise","channels":[]}"#,
        r#"{"op":"subscribe","subscriptions":[{"id":1,"channelId":1}]}"#,
        r#"{"op":"subscribe","subscriptions":[{"id":2,"channelId":99}]}"#,
        r#"{"op":"unsubscribe","subscriptionIds":[7]}"#,
    ];
    for text in wrong {
        viewing.socket.send(Message::text(text)).unwrap();
    }
    for bytes in [&[][..], &[3, 0], &[1, 0, 0, 0, 0, 1], &[9]] {
        viewing.socket.send(Message::binary(bytes.to_vec())).unwrap();
    }
    let count = wrong.len() + 4;
    viewing.until("all to be answered", |viewing| viewing.statuses.len() == count);
    assert!(viewing.statuses.iter().all(|status| status["level"] == 2));
    // It is still served.
    viewing.until("the first text", |viewing| !viewing.of(1).is_empty());
    for _ in 0..=LIVE_MISTAKES_MAX - count {
        viewing.socket.send(Message::text("{")).unwrap();
    }
    assert_eq!(viewing.closed(), Some(1008));

    // Too long, and no WebSocket at all.
    let mut long = view(site.address(), "/live/run1");
    let sent = long.socket.send(Message::text(" ".repeat(LIVE_ASK_BYTES_MAX + 1)));
    assert!(sent.is_err() || long.closed() != Some(1000));
    let mut raw = view(site.address(), "/live/run1");
    for garbage in [&[0xff; 64][..], &[0x81, 0x05, b'h'], &[0x83, 0x80, 0, 0, 0, 0]] {
        // The server may have hung up already.
        let _ = raw.socket.get_mut().write_all(garbage);
    }
    raw.closed();
    wait_for("all to be gone", || site.server.status().live_sockets == 0);
}

#[test]
fn sockets_are_guarded_as_everything_is() {
    let (site, _) = Site::new();
    let refused =
        |headers: &[(&str, &str)], path: &str| open(site.address(), path, headers).err().unwrap();
    assert_eq!(refused(&[("sec-websocket-protocol", "mqtt")], "/live/run1").0, 400);
    assert_eq!(refused(&[("sec-websocket-protocol", NEW)], "/live/run2").0, 404);
    let origin = |origin| [("sec-websocket-protocol", NEW), ("origin", origin)];
    assert_eq!(refused(&origin("https://evil.example"), "/live/run1").0, 403);
    assert_eq!(refused(&origin("null"), "/live").0, 403);
    assert!(open(site.address(), "/live/run1", &origin("https://app.foxglove.dev")).is_ok());
    let hosts = [("sec-websocket-protocol", NEW), ("host", "evil.example")];
    assert_eq!(refused(&hosts, "/live/run1").0, 421);
    ask(site.address(), "GET", "/live/run1", &[]).must(426).error();

    let secrets = Secrets::default().with_token(TOKEN).unwrap();
    let (site, _) = Site::with(ServerOptions { secrets, ..Default::default() });
    let address = site.address();
    let with = |names: String| open(address, "/live/run1", &[("sec-websocket-protocol", &names)]);
    assert_eq!(with(NEW.into()).err().unwrap().0, 401);
    assert_eq!(with(format!("{NEW}, livebag.token.wrong")).err().unwrap().0, 401);
    let viewing = with(format!("livebag.token.{TOKEN}, {NEW}")).unwrap();
    assert_eq!(viewing.subprotocol, NEW, "the token is never echoed");
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("sec-websocket-protocol", OLD), ("authorization", &bearer)];
    assert!(open(address, "/live/run1", &headers).is_ok());
    let path = format!("/live/run1?access_token={TOKEN}");
    assert_eq!(open(address, &path, &[("sec-websocket-protocol", NEW)]).err().unwrap().0, 401);
    // In a browser that has logged in, the server's own pages need no token; others' do.
    let host = format!("localhost:{}", address.port());
    let logged_in = [("host", &*host), ("authorization", &bearer)];
    let given = ask(address, "GET", "/v1/session", &logged_in).must(200);
    let cookie = given.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let from = |origin: &str| {
        let headers = [("sec-websocket-protocol", NEW), ("cookie", &*cookie), ("origin", origin)];
        open(address, "/live/run1", &headers)
    };
    assert!(from(&format!("http://{host}")).is_ok());
    for origin in ["http://localhost:1", "https://app.foxglove.dev", "https://evil.example", "null"]
    {
        assert_eq!(from(origin).err().unwrap().0, 401, "{origin}");
    }
    let silent = [("sec-websocket-protocol", NEW), ("cookie", &*cookie)];
    assert_eq!(open(address, "/live/run1", &silent).err().unwrap().0, 401);
    let protocol = format!("livebag.token.{TOKEN}");
    ask(address, "GET", "/v1/bags", &[("sec-websocket-protocol", &protocol)]).must(401);
}

#[test]
fn streams_are_shown_without_a_recording() {
    let name = format!("live-socket-{}", std::process::id());
    let options = StreamOptions::bytes(100).slots(8).remove_on_drop(true);
    let mut writer = Writer::create(&name, &options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let server = serve(folder.path(), ServerOptions::default());
    let mut viewing = view(server.addresses()[0], "/live");
    let topic = format!("/{name}");
    viewing.subscribe(5, &topic);
    assert_eq!(viewing.info["capabilities"], json!(["time"]));
    for number in 0..5u8 {
        writer.publish(&FrameMeta::bytes(), &[number; 10]).unwrap();
        viewing.until("the frame", |viewing| {
            viewing.of(5).last().is_some_and(|(_, data)| data.ends_with(&[number; 10]))
        });
    }
    let id = viewing.channels[&topic]["id"].as_u64().unwrap();
    drop(writer);
    viewing.until("it to be gone", |viewing| viewing.gone.contains(&id));
    no_panics();
}

#[test]
fn manifests_tell_the_remote_data_loader_where_messages_are() {
    let folder = tempfile::tempdir().unwrap();
    record_all(&folder.path().join("run1"), 10);
    let server = serve(folder.path(), ServerOptions::default());
    let manifest = get(server.addresses()[0], "/v1/bags/run1/manifest").must(200).json();
    assert_eq!(
        manifest,
        json!({"name": "run1", "sources": [{"url": "/bags/run1.mcap", "supportsRangeRequests": true}]})
    );
    let mut recording = Recording::new(&folder.path().join("now"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.add(text_topic("/text2"));
    recording.write("/text", text("zero"));
    recording.write("/text2", text("one"));
    recording.settle();
    let server = serve(folder.path(), ServerOptions::default());
    let address = server.addresses()[0];
    let manifest = get(address, "/v1/bags/now/manifest").must(200).json();
    let source = &manifest["sources"][0];
    assert_eq!(
        source["schemas"],
        json!([{
            "id": 1, "name": "std_msgs/msg/String", "encoding": "ros2msg", "data": "c3RyaW5nIGRhdGE=",
        }])
    );
    assert_eq!(
        source["topics"][1],
        json!({"name": "/text2", "messageEncoding": "cdr", "schemaId": 1})
    );
    assert_eq!(source["startTime"], "2023-11-14T22:13:20Z");
    assert_eq!(source["endTime"], "2023-11-14T22:13:20.01Z");
    let data = get(address, source["url"].as_str().unwrap()).must(200);
    assert_eq!(super::fixture::messages(&data.body).len(), 2);
    drop(recording);
}

#[test]
fn a_viewer_is_served_from_the_same_origin_and_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("viewer/static")).unwrap();
    std::fs::write(folder.path().join("viewer/index.html"), "<title>viewer</title>").unwrap();
    std::fs::write(folder.path().join("viewer/static/a b.js"), "1").unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    let viewer = Some(Viewer::open(&folder.path().join("viewer")).unwrap());
    let secrets = Secrets::default().with_token(TOKEN).unwrap();
    let server = serve(folder.path(), ServerOptions { viewer, secrets, ..Default::default() });
    let address = server.addresses()[0];
    let index = get(address, "/viewer/").must(200);
    assert_eq!(index.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(index.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(get(address, "/viewer/?ds=x").must(200).body, index.body);
    let script = get(address, "/viewer/static/a%20b.js").must(200);
    assert_eq!(script.header("content-type"), Some("text/javascript; charset=utf-8"));
    for path in [
        "/viewer/../secret",
        "/viewer/%2e%2e/secret",
        "/viewer/..%2fsecret",
        "/viewer//etc/passwd",
        "/viewer/%2fetc%2fpasswd",
        "/viewer/static",
        "/viewer/x",
        "/viewer/%00",
        "/viewer/%ff",
    ] {
        let refused = get(address, path);
        assert!(matches!(refused.status, 400 | 404), "{path}: {}", refused.status);
        assert!(!refused.text().contains("root:"), "{path}");
    }
    get(address, "/v1/bags").must(401);
    let (site, _) = Site::new();
    assert!(get(site.address(), "/viewer/").must(404).error().contains("--viewer"));
}
