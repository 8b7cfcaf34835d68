//! Foxglove's WebSocket protocol: messages of clients and of the server. Bytes in, bytes out.
//!
//! Source: the protocol's specification (`ws-protocol/docs/spec.md`) and, for `playbackControl`, the crate
//! `foxglove` 0.30 (`src/protocol/`). Binary messages begin with an opcode; numbers are little-endian.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use livebag::Topic;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::limits::{LIVE_REQUEST_ID_BYTES_MAX, LIVE_SPEED_MAX, LIVE_SUBSCRIPTIONS_MAX};

/// The names of the protocol, the older one first: a client that knows both gets what every client
/// understands. They are the same on the wire.
pub const SUBPROTOCOLS: [&str; 2] = ["foxglove.websocket.v1", "foxglove.sdk.v1"];
/// Prefix of the subprotocol with a token; the token follows.
pub const TOKEN_SUBPROTOCOL: &str = "livebag.token.";

/// Bytes of a message's head: opcode, subscription, log time.
pub const MESSAGE_HEAD_BYTES: usize = 13;

const OPCODE_MESSAGE: u8 = 1;
const OPCODE_TIME: u8 = 2;
const OPCODE_PLAYBACK_STATE: u8 = 5;
const OPCODE_PLAYBACK_CONTROL: u8 = 3;

/// A client's request.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Messages of channels: subscription and channel.
    Subscribe(Vec<(u32, u64)>),
    /// Ends these subscriptions.
    Unsubscribe(Vec<u32>),
    /// To play, pause or seek.
    Playback(PlaybackRequest),
}

/// To play, pause or seek.
#[derive(Clone, Debug, PartialEq)]
pub struct PlaybackRequest {
    /// Whether to play from now on.
    pub plays: bool,
    /// Speed as a factor of real time.
    pub speed: f32,
    /// Where to go first.
    pub seek_nanos: Option<u64>,
    /// Repeated in the answer.
    pub request_id: String,
}

/// A request that cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskedError {
    /// Not the protocol.
    #[error("the message is not understood: {0}")]
    Malformed(String),
    /// The protocol, but not for this server.
    #[error("this server shows recordings and streams and takes no `{0}`")]
    NotHere(String),
    /// More than fits.
    #[error("at most {LIVE_SUBSCRIPTIONS_MAX} subscriptions are kept for a connection")]
    TooMany,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Subscription {
    id: u32,
    channel_id: u64,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum TextMessage {
    Subscribe {
        subscriptions: Vec<Subscription>,
    },
    Unsubscribe {
        subscription_ids: Vec<u32>,
    },
    #[serde(untagged)]
    Other {
        op: String,
    },
}

/// Parses a client's text message.
///
/// # Errors
/// If it is not of the protocol, or requests something that this server does not support.
pub fn parse_text(text: &str) -> Result<Asked, AskedError> {
    let message: TextMessage =
        serde_json::from_str(text).map_err(|error| AskedError::Malformed(error.to_string()))?;
    let is_within = |count| count <= LIVE_SUBSCRIPTIONS_MAX;
    match message {
        TextMessage::Subscribe { subscriptions } if is_within(subscriptions.len()) => {
            let pairs = subscriptions.into_iter().map(|wanted| (wanted.id, wanted.channel_id));
            Ok(Asked::Subscribe(pairs.collect()))
        }
        TextMessage::Unsubscribe { subscription_ids } if is_within(subscription_ids.len()) => {
            Ok(Asked::Unsubscribe(subscription_ids))
        }
        TextMessage::Subscribe { .. } | TextMessage::Unsubscribe { .. } => Err(AskedError::TooMany),
        TextMessage::Other { op } => Err(match op.as_str() {
            "subscribe" | "unsubscribe" => {
                AskedError::Malformed(format!("`{op}` lacks its subscriptions"))
            }
            _ => AskedError::NotHere(op.chars().take(100).collect()),
        }),
    }
}

/// Parses a client's binary message.
///
/// # Errors
/// As of [`parse_text`].
pub fn parse_binary(bytes: &[u8]) -> Result<Asked, AskedError> {
    let malformed = |what: &str| AskedError::Malformed(what.to_owned());
    let (opcode, rest) = bytes.split_first().ok_or_else(|| malformed("it is empty"))?;
    match *opcode {
        OPCODE_PLAYBACK_CONTROL => {}
        1 => return Err(AskedError::NotHere("messages of clients".into())),
        2 => return Err(AskedError::NotHere("service calls".into())),
        other => return Err(malformed(&format!("there is no binary opcode {other}"))),
    }
    // Command, speed, whether there is a seek, its time, length of the request's id, that id.
    let short = || malformed("a playback control request has 18 bytes and its id");
    let (head, id) = rest.split_at_checked(18).ok_or_else(short)?;
    let plays = match head[0] {
        0 => true,
        1 => false,
        other => return Err(malformed(&format!("there is no playback command {other}"))),
    };
    let speed = f32::from_le_bytes([head[1], head[2], head[3], head[4]]);
    if !(speed.is_finite() && speed > 0.0 && speed <= LIVE_SPEED_MAX) {
        return Err(malformed(&format!("a speed is above 0 and at most {LIVE_SPEED_MAX}")));
    }
    let nanos = u64::from_le_bytes(head[6..14].try_into().map_err(|_| short())?);
    let id_bytes = u32::from_le_bytes(head[14..18].try_into().map_err(|_| short())?) as usize;
    if id_bytes > LIVE_REQUEST_ID_BYTES_MAX {
        return Err(malformed("the request's id is too long"));
    }
    let id = std::str::from_utf8(id.get(..id_bytes).ok_or_else(short)?);
    let request_id = id.map_err(|_| malformed("the request's id is not UTF-8"))?.to_owned();
    let seek_nanos = (head[5] != 0).then_some(nanos);
    Ok(Asked::Playback(PlaybackRequest { plays, speed, seek_nanos, request_id }))
}

fn stamp(nanos: u64) -> Value {
    json!({ "sec": nanos / 1_000_000_000, "nsec": nanos % 1_000_000_000 })
}

/// The server's description; with the times of the playable range, if there is one.
pub fn server_info(name: &str, session_id: &str, range: Option<(u64, u64)>) -> String {
    let mut info = json!({
        "op": "serverInfo",
        "name": name,
        "capabilities": ["time"],
        "supportedEncodings": [],
        "metadata": { "livebag": env!("CARGO_PKG_VERSION") },
        "sessionId": session_id,
    });
    if let Some((start, end)) = range {
        info["capabilities"] = json!(["time", "playbackControl"]);
        info["dataStartTime"] = stamp(start);
        info["dataEndTime"] = stamp(end);
    }
    info.to_string()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Channel<'a> {
    id: u64,
    topic: &'a str,
    encoding: &'a str,
    schema_name: &'a str,
    schema: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_encoding: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: &'a BTreeMap<String, String>,
}

/// Channels that are there from now on.
pub fn advertise<'a>(channels: impl IntoIterator<Item = (u64, &'a Topic)>) -> String {
    let channels = channels.into_iter().map(|(id, topic)| {
        let is_binary = ["protobuf", "flatbuffer"].contains(&&*topic.schema_encoding);
        Channel {
            id,
            topic: &topic.name,
            encoding: &topic.message_encoding,
            schema_name: &topic.type_name,
            schema: match is_binary {
                true => BASE64_STANDARD.encode(&topic.schema),
                false => String::from_utf8_lossy(&topic.schema).into_owned(),
            },
            schema_encoding: Some(&*topic.schema_encoding).filter(|name| !name.is_empty()),
            metadata: &topic.metadata,
        }
    });
    json!({ "op": "advertise", "channels": channels.collect::<Vec<_>>() }).to_string()
}

/// Removed channels.
pub fn unadvertise(ids: &[u64]) -> String {
    json!({ "op": "unadvertise", "channelIds": ids }).to_string()
}

/// How much a status matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something is missing.
    Warning = 1,
    /// Something was not done.
    Error = 2,
}

/// A sentence for the user. One with an `id` replaces the one before it.
pub fn status(level: Level, message: &str, id: Option<&str>) -> String {
    let mut status = json!({ "op": "status", "level": level as u8, "message": message });
    if let Some(id) = id {
        status["id"] = json!(id);
    }
    status.to_string()
}

/// The bytes before a message's data.
pub fn message_head(subscription: u32, log_time_nanos: u64) -> [u8; MESSAGE_HEAD_BYTES] {
    let mut head = [OPCODE_MESSAGE; MESSAGE_HEAD_BYTES];
    head[1..5].copy_from_slice(&subscription.to_le_bytes());
    head[5..].copy_from_slice(&log_time_nanos.to_le_bytes());
    head
}

/// The time that the client should display.
pub fn time(nanos: u64) -> Vec<u8> {
    let mut bytes = vec![OPCODE_TIME];
    bytes.extend_from_slice(&nanos.to_le_bytes());
    bytes
}

/// How playing stands, in the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaybackStatus {
    /// It plays, or follows a live recording.
    Playing = 0,
    /// It stands.
    Paused = 1,
    /// It has reached the end.
    Ended = 3,
}

/// How playing stands.
pub fn playback_state(
    status: PlaybackStatus,
    (nanos, speed): (u64, f32),
    did_seek: bool,
    request_id: &str,
) -> Vec<u8> {
    let mut bytes = vec![OPCODE_PLAYBACK_STATE, status as u8];
    bytes.extend_from_slice(&nanos.to_le_bytes());
    bytes.extend_from_slice(&speed.to_le_bytes());
    bytes.push(did_seek.into());
    bytes.extend_from_slice(&(request_id.len() as u32).to_le_bytes());
    bytes.extend_from_slice(request_id.as_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the crate `foxglove` 0.30.3 writes it (`PlaybackControlRequest::write_payload`).
    fn playback(command: u8, speed: f32, seek: Option<u64>, id: &str) -> Vec<u8> {
        let mut bytes = vec![3, command];
        bytes.extend_from_slice(&speed.to_le_bytes());
        bytes.push(seek.is_some().into());
        bytes.extend_from_slice(&seek.unwrap_or(0).to_le_bytes());
        bytes.extend_from_slice(&(id.len() as u32).to_le_bytes());
        bytes.extend_from_slice(id.as_bytes());
        bytes
    }

    #[test]
    fn what_clients_ask_for_is_understood() {
        let subscribe =
            r#"{"op":"subscribe","subscriptions":[{"id":0,"channelId":3},{"id":7,"channelId":1}]}"#;
        assert_eq!(parse_text(subscribe), Ok(Asked::Subscribe(vec![(0, 3), (7, 1)])));
        let unsubscribe = r#"{"op":"unsubscribe","subscriptionIds":[7]}"#;
        assert_eq!(parse_text(unsubscribe), Ok(Asked::Unsubscribe(vec![7])));
        let request = PlaybackRequest {
            plays: true,
            speed: 2.0,
            seek_nanos: Some(100_500_000_000),
            request_id: "some-id".into(),
        };
        let asked = parse_binary(&playback(0, 2.0, Some(100_500_000_000), "some-id"));
        assert_eq!(asked, Ok(Asked::Playback(request)));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for text in
            ["", "{}", "[]", r#"{"op":"subscribe"}"#, r#"{"op":"subscribe","subscriptions":7}"#]
        {
            assert!(matches!(parse_text(text), Err(AskedError::Malformed(_))), "{text}");
        }
        let advertise = parse_text(r#"{"op":"advertise","channels":[]}"#);
        assert_eq!(advertise, Err(AskedError::NotHere("advertise".into())));
        let whole = playback(1, 1.0, None, "id");
        for length in 0..whole.len() {
            assert!(parse_binary(&whole[..length]).is_err(), "{length}");
        }
        for speed in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e9] {
            assert!(parse_binary(&playback(0, speed, None, "id")).is_err(), "{speed}");
        }
        assert!(parse_binary(&playback(2, 1.0, None, "id")).is_err());
        assert!(matches!(parse_binary(&[1, 0, 0, 0, 0]), Err(AskedError::NotHere(_))));
        let ids: Vec<String> = (0..=LIVE_SUBSCRIPTIONS_MAX).map(|id| id.to_string()).collect();
        let many = format!(r#"{{"op":"unsubscribe","subscriptionIds":[{}]}}"#, ids.join(","));
        assert_eq!(parse_text(&many), Err(AskedError::TooMany));
    }

    /// Byte by byte as the crate's snapshots have them.
    #[test]
    fn what_clients_are_told_is_the_protocols() {
        let head = message_head(30, 1234);
        assert_eq!(head, [1, 30, 0, 0, 0, 0xd2, 4, 0, 0, 0, 0, 0, 0]);
        assert_eq!(time(1_234_567_890), [2, 0xd2, 2, 0x96, 0x49, 0, 0, 0, 0]);
        let state = playback_state(PlaybackStatus::Playing, (12345, 1.0), true, "ab");
        let expected =
            [5, 0, 0x39, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f, 1, 2, 0, 0, 0, b'a', b'b'];
        assert_eq!(state, expected);
        let info: Value =
            serde_json::from_str(&server_info("run1", "7", Some((1_000_005, 2_000_000_000))))
                .unwrap();
        assert_eq!(info["dataStartTime"], json!({"sec": 0, "nsec": 1_000_005}));
        assert_eq!(info["capabilities"], json!(["time", "playbackControl"]));
        let topic = Topic {
            name: "/a".into(),
            type_name: "a/msg/A".into(),
            message_encoding: "cdr".into(),
            schema_encoding: "ros2msg".into(),
            schema: b"int32 a".to_vec(),
            ..Topic::default()
        };
        let advertised: Value = serde_json::from_str(&advertise([(3, &topic)])).unwrap();
        assert_eq!(
            advertised,
            json!({"op": "advertise", "channels": [{
                "id": 3, "topic": "/a", "encoding": "cdr", "schemaName": "a/msg/A",
                "schema": "int32 a", "schemaEncoding": "ros2msg",
            }]})
        );
    }
}
