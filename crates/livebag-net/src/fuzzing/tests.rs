//! The fuzzers' functions with the bytes of a seeded random: seeds, mutated.

use super::*;

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
}

fn mutated(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len());
        match random.below(6) {
            _ if bytes.is_empty() => bytes.push(random.next() as u8),
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes.insert(at, random.next() as u8),
            3 => drop(bytes.remove(at)),
            4 => bytes[at] = [0, 0xff, 0x7f, 0x80][random.below(4)],
            _ => {
                let end = (at + random.below(16)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.extend_from_slice(&part);
            }
        }
    }
    bytes
}

fn run(target: fn(&[u8]), count: u64, seeds: &[&[u8]]) {
    let mut random = Random(count);
    seeds.iter().for_each(|seed| target(seed));
    for _ in 0..count {
        let seed = seeds[random.below(seeds.len())];
        target(&mutated(&mut random, seed));
    }
}

#[test]
fn asks() {
    run(
        ask,
        30_000,
        &[
            b"topic=/a&topic=%2Fb&last=1s&format=jsonl&decode=true&array_items=5",
            b"within=2m30s&decimate=/a:5&last=500ms",
            b"from=1700000000.5&to=2023-11-14T22:13:20Z",
            b"+1.5s",
            b"1700000000123456789",
            b"1.999999999999",
            b"P1DT2H",
            b"2023-11-14T22:13:20.25+01:00",
        ],
    );
}

#[test]
fn ranges() {
    run(
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
        cdr("mono16", 4, 3, 9),
        cdr("32FC1", 2, 2, 8),
        cdr("rgba8", 1, 1, 4),
    ];
    run(image, 20_000, &seeds.each_ref().map(Vec::as_slice));
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
    run(decode, 30_000, &seeds.each_ref().map(Vec::as_slice));
}

#[test]
fn manifests() {
    let seed = manifest_seed();
    run(manifest, 1500, &[&seed]);
}

#[test]
fn containers() {
    let mut random = Random(7);
    for number in 0..2500u64 {
        let count = 1 + 6 * (1 + random.below(3));
        let mut bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
        bytes[0] = number as u8;
        container(&bytes);
    }
}

#[test]
fn requests() {
    run(
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
