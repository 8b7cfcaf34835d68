//! The fuzzers' functions with the bytes of a seeded random: seeds, mutated.

use super::*;

#[path = "../../../../fuzz/rounds.rs"]
mod rounds;

use rounds::{Random, run};

#[test]
fn asks() {
    run(
        "ask",
        ask,
        30_000,
        &[
            b"topic=/a&topic=%2Fb&last=1s&format=jsonl&decode=true&array_items=5",
            b"within=2m30s&decimate=/a:5&last=500ms",
            b"from=1700000000.5&to=2023-11-14T22:13:20Z",
            b"topic=/a&field=a.b[3]&field=c&bins=4000&step=next&width=640&max=1000",
            b"+1.5s",
            b"1700000000123456789",
            b"1.999999999999",
            b"P1DT2H",
            b"2023-11-14T22:13:20.25+01:00",
        ],
    );
}

#[test]
fn sockets() {
    run(
        "socket",
        socket,
        30_000,
        &[
            br#"{"op":"subscribe","subscriptions":[{"id":0,"channelId":3},{"id":7,"channelId":1}]}"#,
            br#"{"op":"unsubscribe","subscriptionIds":[7]}"#,
            br#"{"op":"getParameters","parameterNames":[]}"#,
            b"\x03\0\0\0\x80\x3f\x01\0\0\0\0\x01\0\0\0\x04\0\0\0abcd",
        ],
    );
}

#[test]
fn ranges() {
    run(
        "range",
        range,
        30_000,
        &[
            b"\x64\0\0\0\0\0\0\0bytes=0-9",
            b"\x64\0\0\0\0\0\0\0bytes=-5",
            b"\xff\xff\xff\xff\xff\xff\xff\xffbytes=18446744073709551614-",
        ],
    );
}

#[test]
fn images() {
    let cdr = |encoding: &str, width: u32, height: u32, step: u32| {
        let header = ImageHeader { height, width, encoding, step, ..Default::default() };
        let mut message = vec![0];
        image_prefix(&header, step * height, &mut message);
        message.resize(message.len() + (step * height) as usize, 9);
        message
    };
    let seeds = [
        cdr("bgr8", 4, 3, 12),
        cdr("bgr8", 400, 3, 1200),
        cdr("mono16", 4, 3, 9),
        cdr("32FC1", 2, 2, 8),
        cdr("rgba8", 1, 1, 4),
    ];
    run("image", image, 20_000, &seeds.each_ref().map(Vec::as_slice));
}

#[test]
fn clouds() {
    use livebag_format::cdr::{PointField, PointsHeader, points_prefix, points_suffix};
    let of = |datatype: u8, point_step: u32, height: u32| {
        let named = |(at, name)| PointField { name, offset: at as u32 * 4, datatype, count: 1 };
        let fields: Vec<_> =
            ["x", "y", "z", "intensity"].into_iter().enumerate().map(named).collect();
        let (width, row_step) = (3, 3 * point_step);
        let header = PointsHeader {
            height,
            width,
            fields: &fields,
            point_step,
            row_step,
            ..Default::default()
        };
        let mut message = vec![0, 5];
        points_prefix(&header, row_step * height, &mut message);
        message.resize(message.len() + (row_step * height) as usize, 7);
        message.extend(points_suffix(true));
        message
    };
    let seeds = [of(7, 16, 1), of(8, 24, 2), of(3, 15, 1)];
    run("cloud", cloud, 20_000, &seeds.each_ref().map(Vec::as_slice));
}

#[test]
fn paths_of_fields() {
    let of = |kind: u8, path: &str, schema: &str, message: &[u8]| {
        let length = (schema.len() as u16).to_le_bytes();
        let head = [kind, path.len() as u8, length[0], length[1]];
        [&head, path.as_bytes(), schema.as_bytes(), message].concat()
    };
    let nested =
        "B[] b\nstring s\nfloat64[3] f\n================\nMSG: a_msgs/B\nuint8[] x\nuint16 y";
    let message = b"\0\x01\0\0\x01\0\0\0\x01\0\0\0\x05\0\x07\0\x02\0\0\0h\0\0\0\0\0\0\0\0\0";
    let seeds = [
        of(0, "b[0].y", nested, message),
        of(0, "f[2]", nested, message),
        of(1, "header.stamp.sec", "time t\nfloat32 x", &[1; 12]),
        of(2, "a.b[1]", "", br#"{"a": {"b": [1, 2.5]}, "ok": true}"#),
    ];
    run("fields", fields, 20_000, &seeds.each_ref().map(Vec::as_slice));
}

#[test]
fn messages() {
    let of = |kind: u8, schema: &str, message: &[u8]| {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&(schema.len() as u16).to_le_bytes());
        [&bytes, schema.as_bytes(), message].concat()
    };
    let nested =
        "B[] b\nstring s\nfloat64[3] f\n================\nMSG: a_msgs/B\nuint8[] x\nuint16 y";
    let recursive = "A[] a\n================\nMSG: a_msgs/A\nA[] a";
    let empty = "E[] e\nE[1000000] f\n================\nMSG: a_msgs/E\n";
    let message =
        [0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9, 0, 7, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, b'x', 0];
    let seeds = [
        of(0, nested, &message),
        of(1, nested, &message[4..]),
        of(0, recursive, &message),
        of(1, recursive, &message[4..]),
        of(0, empty, &message),
        of(1, empty, &[0xff, 0xff, 0xff, 0x7f]),
        of(2, "", b"{\"a\": [1, 2, {\"b\": 1e308}]}"),
        of(2, "", &[b'['; 3000]),
        of(131, "", &message),
    ];
    run("decode", decode, 30_000, &seeds.each_ref().map(Vec::as_slice));
}

#[test]
fn manifests() {
    let seed = manifest_seed();
    run("manifest", manifest, 1500, &[&seed]);
}

/// What of a container is spoilt, and how: chosen at random, since no seed is better than another.
fn changes(count: usize, changes_max: usize) -> Vec<Vec<u8>> {
    let mut random = Random(7);
    let bytes = |number: usize| {
        let count = 1 + 6 * (1 + random.below(changes_max));
        let mut bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
        bytes[0] = number as u8;
        bytes
    };
    (0..count).map(bytes).collect()
}

#[test]
fn containers() {
    let seeds = changes(500, 3);
    run("container", container, 2000, &seeds.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn recoveries() {
    let mut seeds = changes(100, 3);
    seeds.extend((0..8).map(|which| vec![which]));
    run("recover", recover, 300, &seeds.iter().map(Vec::as_slice).collect::<Vec<_>>());
}

#[test]
fn requests() {
    run(
        "request",
        request,
        2000,
        &[
            b"GET /v1/bags/run1/latest?topic=/text&format=jsonl&decode=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close",
            b"GET /bags/run1.mcap?from=1s HTTP/1.1\r\nHost: localhost\r\nRange: bytes=10-99\r\nConnection: close",
            b"GET /v1/bags/run1/message?topic=/camera&format=png HTTP/1.1\r\nHost: localhost\r\nConnection: close",
            b"GET /v1/bags/run1/auto?within=1ms&decimate=/text:5 HTTP/1.1\r\nHost: localhost\r\nConnection: close",
            b"OPTIONS /v1/bags HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.foxglove.dev\r\nConnection: close",
        ],
    );
}
