//! Each language's writer against the other's reader (`docs/stream-layout.md`, section 7).
//!
//! The C++ side is `cpp/tests/stream_tool.cpp`, compiled here with the machine's C++ compiler; without
//! one these tests say so and pass. The Rust side is the example `stream_tool` and this crate's API.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../tests/skipped.rs"]
mod skipped;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use livebag_shm::{
    CreateError, Cycle, CycleApplication, CycleMonitor, FrameLayout, FrameMeta, ImageLayout, Kind,
    Liveness, PointField, PointsLayout, Reader, StreamOptions, Wait, Writer, remove,
    remove_cycle_board,
};

const PATIENCE: Duration = Duration::from_secs(30);
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Language {
    Rust,
    Cpp,
}
use Language::{Cpp, Rust};

impl Language {
    fn command(self, arguments: &str) -> Command {
        let tool = match self {
            Rust => rust_tool(),
            Cpp => cpp_tool().unwrap(),
        };
        let mut command = Command::new(tool);
        command.args(arguments.split_whitespace());
        command
    }

    fn run(self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn start(self, arguments: &str) -> Running {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        Running(Some(command.spawn().unwrap()))
    }
}

/// A process that does not outlive its test.
struct Running(Option<Child>);

impl Running {
    /// Its line of JSON, after it has ended well.
    fn line(mut self) -> String {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{:?}: {line}", output.status);
        line
    }

    /// A line on its standard input.
    fn tell(&mut self) {
        let child = self.0.as_mut().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(mut child) = self.0.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// A stream name of one test; the stream is gone afterwards.
struct Name(String);

impl Name {
    fn new(test: &str) -> Name {
        Name(format!("conformance-{}-{test}", std::process::id()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = remove(&self.0);
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Cargo's folder for what integration tests make: `<target>/tmp`.
fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn rust_tool() -> &'static Path {
    static TOOL: OnceLock<PathBuf> = OnceLock::new();
    TOOL.get_or_init(|| {
        // Cargo builds examples for `cargo test`, but not for `cargo test --test conformance`.
        let target = scratch().parent().unwrap();
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "livebag-shm", "--example", "stream_tool"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
            .status()
            .unwrap();
        assert!(built.success());
        target.join("debug/examples/stream_tool")
    })
}

/// None when there is no C++ compiler.
fn cpp_tool() -> Option<&'static Path> {
    static TOOL: OnceLock<Option<PathBuf>> = OnceLock::new();
    TOOL.get_or_init(|| {
        let compiler = ["c++", "g++", "clang++"].into_iter().find(|compiler| {
            let asked = Command::new(compiler).arg("--version").stdout(Stdio::null()).status();
            asked.is_ok_and(|status| status.success())
        })?;
        let cpp = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../cpp");
        let tool = scratch().join(format!("stream_tool_cpp_{}", std::process::id()));
        let compiled = Command::new(compiler)
            .args([
                "-std=c++17",
                "-O1",
                "-DLIVEBAG_WITHOUT_OPENCV",
                "-DLIVEBAG_WITHOUT_PCL",
                "-pthread",
            ])
            .arg("-I")
            .arg(cpp.join("include"))
            .arg(cpp.join("tests/stream_tool.cpp"))
            .arg("-o")
            .arg(&tool)
            .status()
            .unwrap();
        assert!(compiled.success(), "cpp/tests/stream_tool.cpp does not compile");
        Some(tool)
    })
    .as_deref()
}

fn is_skipped() -> bool {
    let skipped = cpp_tool().is_none();
    if skipped {
        skipped::skipped("no C++ compiler");
    }
    skipped
}

/// A number of a line of JSON.
fn number(line: &str, key: &str) -> u64 {
    let start = line.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    let digits: String = line[start..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

fn pattern(sequence: u64, bytes: usize) -> Vec<u8> {
    let words = bytes.div_ceil(8) as u64;
    let start = sequence.wrapping_mul(FACTOR);
    let mut data: Vec<u8> =
        (0..words).flat_map(|index| start.wrapping_add(index).to_le_bytes()).collect();
    data.truncate(bytes);
    data
}

/// Slow readers, two slots, and a writer that never waits.
fn write_and_read(writer: Language, reader: Language) {
    let (mut delivered, mut lapped) = (0, 0);
    let name = Name::new(&format!("pairs-{writer:?}"));
    for (size, payload) in [1, 777, 25_920, 921_601, 6_912_000].into_iter().enumerate() {
        for (turn, way) in ["next", "copy", "receive"].into_iter().enumerate() {
            let frames = (100_000_000 / payload).clamp(30, 50_000);
            let put = ["copy", "loan"][(size + turn) % 2];
            let sum = ["", "--checksum"][(size + turn / 2) % 2];
            let reading =
                reader.start(&format!("read {name} --frames {frames} --slow-us 100 --way {way}"));
            let writing = writer.start(&format!(
                "write {name} --slots 2 --payload {payload} --frames {frames} --way {put} {sum}"
            ));
            let line = writing.line();
            assert_eq!(number(&line, "first_sequence"), 1, "{line}");
            assert_eq!(number(&line, "last_sequence"), frames, "{line}");
            let line = reading.line();
            assert_eq!(number(&line, "torn"), 0, "{line}");
            assert_eq!(number(&line, "last_sequence"), frames, "{line}");
            if way == "next" {
                let sum = number(&line, "delivered") + number(&line, "lapped");
                assert_eq!(sum, frames, "{line}");
                lapped += number(&line, "lapped");
            }
            delivered += number(&line, "delivered");
            remove(&name.0).unwrap();
        }
    }
    assert!(delivered > 0);
    assert!(lapped > 0, "with two slots and naps in every copy, frames are lapped");
}

#[test]
fn what_cpp_writes_rust_reads() {
    if !is_skipped() {
        write_and_read(Cpp, Rust);
    }
}

#[test]
fn what_rust_writes_cpp_reads() {
    if !is_skipped() {
        write_and_read(Rust, Cpp);
    }
}

fn readers_told_by(language: Language, name: &Name) -> String {
    let output = language.run(&format!("readers {name}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The readers of a stream in both languages, once they match the condition.
fn readers_until(name: &Name, what: &str, holds: impl Fn(&str) -> bool) -> String {
    for _ in 0..PATIENCE.as_millis() / 10 {
        let told = readers_told_by(Cpp, name);
        if holds(&told) && readers_told_by(Rust, name) == told {
            return told;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let [cpp, rust] = [Cpp, Rust].map(|language| readers_told_by(language, name));
    panic!("in vain: {what}: C++ tells {cpp}, Rust {rust}");
}

#[test]
fn both_languages_tell_of_the_readers_of_both() {
    if is_skipped() {
        return;
    }
    for writer in [Rust, Cpp] {
        let name = Name::new(&format!("readers-{writer:?}"));
        // Twenty frames into four slots before anybody reads: sixteen are lapped.
        writer.start(&format!("write {name} --slots 4 --payload 100 --frames 20")).line();
        let reads = |language: Language, label: &str| {
            language.start(&format!("read {name} --frames 21 --timeout-s 600 --label {label}"))
        };
        let (first, second) = (reads(Rust, "der-erste"), reads(Cpp, "die-zweite"));
        let told = readers_until(&name, "both have read", |told| {
            told.matches(r#""taken":4,"lapped":16,"last_sequence":20,"behind":0"#).count() == 2
        });
        assert!(told.contains("der-erste") && told.contains("die-zweite"), "{told}");
        for process in [&first, &second] {
            let pid = process.0.as_ref().unwrap().id();
            assert!(told.contains(&format!(r#""pid":{pid},"#)), "{told}");
        }
        first.kill();
        readers_until(&name, "the first is gone", |told| {
            !told.contains("der-erste") && told.contains("die-zweite")
        });
        // Its place is taken over, by whichever language.
        let heir = reads(Cpp, "die-Erbin");
        readers_until(&name, "the heir is there", |told| {
            told.contains("die-Erbin") && told.contains("die-zweite")
        });
        second.kill();
        let last = reads(Rust, "der-letzte");
        readers_until(&name, "the last is there", |told| {
            told.contains("die-Erbin") && told.contains("der-letzte")
        });
        // One frame more, and both end in order.
        writer.start(&format!("write {name} --slots 4 --payload 100 --frames 1")).line();
        heir.line();
        last.line();
        readers_until(&name, "none is left", |told| told.ends_with("\"readers\":[]}\n"));
    }
}

/// The frame that `stream_tool sample` of the C++ side publishes.
fn sample_meta(kind: Kind) -> FrameMeta {
    let layout = match kind {
        Kind::Bytes => FrameLayout::Bytes,
        Kind::Image => FrameLayout::Image(ImageLayout {
            width: 7,
            height: 5,
            step: 23,
            encoding: "16UC1_and_up_to_thirty_two_bytes".into(),
            is_bigendian: true,
        }),
        Kind::Points => {
            let fields = (0..32u8).map(|index| PointField {
                name: if index < 31 { format!("field_{index}") } else { "n".repeat(32) },
                offset: 3 * u32::from(index),
                datatype: 1 + index % 8,
                count: 1 + u32::from(index),
            });
            FrameLayout::Points(PointsLayout {
                width: 3,
                height: 2,
                point_step: 26,
                row_step: 79,
                fields: fields.collect(),
                is_bigendian: true,
                is_dense: false,
            })
        }
    };
    let frame_id = format!("sénsor/{}", "f".repeat(200));
    FrameMeta { publish_time_nanos: Some(1_234_567_890_123_456_789), layout, frame_id }
}

fn publish_sample(name: &str, kind: Kind) {
    let options = StreamOptions { kind, ..StreamOptions::bytes(1000) }
        .slots(3)
        .topic(&format!("/topic/of/{kind}"))
        .type_name("livebag/Sample")
        .encodings("cdr", "ros2msg")
        .schema("uint8[] data\n# schéma\n".as_bytes())
        .checksum(true);
    let mut writer = Writer::create(name, &options).unwrap();
    writer.publish(&sample_meta(kind), &pattern(1, 777)).unwrap();
}

#[test]
fn every_field_of_the_headers_is_the_same() {
    if is_skipped() {
        return;
    }
    for kind in [Kind::Bytes, Kind::Image, Kind::Points] {
        let name = Name::new("headers");
        let describe = || {
            let output = Cpp.run(&format!("describe {name}"));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let read = || {
            let mut reader = Reader::open(&name.0).unwrap();
            let mut data = Vec::new();
            let header = reader.copy_latest(&mut data).unwrap().unwrap();
            let mut info = reader.info().clone();
            (info.instance, info.created_realtime_nanos) = (0, 0);
            (header, info, data)
        };
        publish_sample(&name.0, kind);
        let (from_rust, seen_from_cpp) = (read(), describe());
        remove(&name.0).unwrap();
        assert!(Cpp.run(&format!("sample {name} --kind {kind}")).status.success());
        let (from_cpp, seen_of_its_own) = (read(), describe());
        assert_eq!(from_rust, from_cpp);
        assert_eq!(seen_from_cpp, seen_of_its_own);
        assert_eq!(from_cpp.0.layout, sample_meta(kind).layout);
        assert_eq!(from_cpp.2, pattern(1, 777));
        assert_eq!(number(&seen_from_cpp, "pattern"), 1);

        // The same options: the other language continues where this one has ended.
        publish_sample(&name.0, kind);
        let reader = Reader::open(&name.0).unwrap();
        assert_eq!((reader.latest_sequence(), reader.counters().epoch), (2, 2));
        let output = Cpp.run(&format!("sample {name} --kind {kind}"));
        assert_eq!(number(&String::from_utf8(output.stdout).unwrap(), "sequence"), 3);
        assert_eq!((reader.latest_sequence(), reader.counters().epoch), (3, 3));
    }
}

#[test]
fn writers_of_both_languages_are_killed_in_turn() {
    if is_skipped() {
        return;
    }
    const PAYLOAD: usize = 3_000_001;
    let name = Name::new("killed");
    let write = format!("write {name} --slots 2 --payload {PAYLOAD} --frames 1000000");
    let mut reader: Option<Reader> = None;
    let mut data = Vec::new();
    for turn in 0..8 {
        let language = if turn % 2 == 0 { Cpp } else { Rust };
        let before = reader.as_ref().map_or(0, Reader::latest_sequence);
        let writing = language.start(&write);
        let reader = reader.get_or_insert_with(|| open_when_there(&name.0));
        assert!(reader.wait(Wait::Futex, before + 3 + turn, PATIENCE), "{language:?} writes");
        writing.kill();
        assert_eq!(reader.liveness(PATIENCE), Liveness::Gone);
        assert_eq!(reader.counters().epoch, turn + 1, "the region goes on, whoever wrote last");

        let newest = reader.latest_sequence();
        let header = reader.copy_latest(&mut data).unwrap().unwrap();
        assert_eq!(header.sequence, newest);
        assert!(data == pattern(newest, PAYLOAD), "the last frame before the death is whole");
        let line = Cpp.start(&format!("read {name} --frames {newest} --way copy")).line();
        assert_eq!(number(&line, "torn"), 0, "{line}");
        assert_eq!(number(&line, "last_sequence"), newest, "{line}");
    }
}

fn open_when_there(name: &str) -> Reader {
    for _ in 0..30_000 {
        match Reader::open(name) {
            Ok(reader) => return reader,
            Err(error) if error.is_transient() => std::thread::sleep(Duration::from_millis(1)),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the stream {name} never came");
}

#[test]
fn there_is_one_writer_over_both_languages() {
    if is_skipped() {
        return;
    }
    let name = Name::new("owned");
    let writing =
        Cpp.start(&format!("write {name} --slots 2 --payload 100 --frames 1000000 --hz 50"));
    let reader = open_when_there(&name.0);
    assert!(reader.wait(Wait::Futex, 0, PATIENCE));
    assert_eq!(reader.liveness(PATIENCE), Liveness::Live);
    let refused = Writer::create(&name.0, &StreamOptions::bytes(100)).unwrap_err();
    assert!(matches!(refused, CreateError::LiveWriter { .. }), "{refused}");
    writing.kill();

    let _writer = Writer::create(&name.0, &StreamOptions::bytes(100)).unwrap();
    let refused = Cpp.run(&format!("write {name} --slots 2 --payload 100 --frames 1"));
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains(&format!("live writer (process {})", std::process::id())), "{text}");
}

struct CycleBoard(String);

impl Drop for CycleBoard {
    fn drop(&mut self) {
        let _ = remove_cycle_board(&self.0);
    }
}

fn look_until(
    monitor: &mut CycleMonitor,
    what: &str,
    holds: impl Fn(&[CycleApplication]) -> bool,
) -> Vec<CycleApplication> {
    for _ in 0..PATIENCE.as_millis() {
        let seen = monitor.look();
        if holds(seen) {
            return seen.to_vec();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("in vain: {what}");
}

/// The board is made by the first language, and the second one joins it.
fn check_cycles(board: &str, languages: [Language; 2]) {
    let start = |language: Language, cycles: u32, weight: u32| {
        let name = format!("{language:?}-{weight}");
        language.start(&format!("cycle {name} --board {board} --cycles {cycles} --weight {weight}"))
    };
    let mut first = start(languages[0], 1000, 7);
    // The tool makes the board: no monitor may be quicker.
    let path = format!("/dev/shm/livebag-cycles.{}.{board}", rustix::process::geteuid().as_raw());
    for _ in 0..PATIENCE.as_millis() {
        if Path::new(&path).metadata().is_ok_and(|found| found.len() > 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut monitor = CycleMonitor::open_board(board).unwrap();
    look_until(
        &mut monitor,
        "the first computes",
        |seen| matches!(seen, [one] if one.busy && one.begins == 1001 && one.weight == 7),
    );
    let second = start(languages[1], 5, 4_000_000_000);
    let both = look_until(&mut monitor, "the second computes", |seen| {
        seen.iter().filter(|one| one.busy).map(|one| one.begins).sum::<u64>() == 1001 + 6
    });
    let now = CycleMonitor::now_nanos();
    for one in &both {
        let weight = if one.begins == 6 { 4_000_000_000 } else { 7 };
        assert_eq!((one.ends, one.weight), (one.begins - 1, weight), "{one:?}");
        assert!(one.name.ends_with(&format!("-{weight}")), "{one:?}");
        assert!(one.end_nanos <= one.begin_nanos && one.begin_nanos.unwrap() <= now, "{one:?}");
    }
    assert_ne!(both[0].pid, both[1].pid);
    second.kill();
    look_until(&mut monitor, "the second is gone", |seen| seen.len() == 1);
    // Its place was left in the middle of a computation.
    let mut heir = Cycle::join_on(board, "heir").unwrap();
    heir.begin(2);
    first.tell();
    look_until(&mut monitor, "the first rests and the heir computes", |seen| {
        let busy = |name: &str| seen.iter().find(|one| one.name.starts_with(name)).map(|a| a.busy);
        busy("heir") == Some(true) && busy(&format!("{:?}", languages[0])) == Some(false)
    });
    first.tell();
    assert_eq!(number(&first.line(), "cycles"), 1001);
    look_until(&mut monitor, "the first has left", |seen| seen.len() == 1);
}

#[test]
fn both_languages_say_on_one_board_when_they_compute() {
    if is_skipped() {
        return;
    }
    for languages in [[Rust, Cpp], [Cpp, Rust], [Cpp, Cpp]] {
        let board =
            format!("conformance-{}-{:?}-{:?}", std::process::id(), languages[0], languages[1]);
        let board = CycleBoard(board);
        check_cycles(&board.0, languages);
    }
}

#[test]
fn the_header_refuses_a_board_that_is_none() {
    if is_skipped() {
        return;
    }
    let board = CycleBoard(format!("conformance-{}-none", std::process::id()));
    drop(Cycle::join_on(&board.0, "maker").unwrap());
    let path =
        format!("/dev/shm/livebag-cycles.{}.{}", rustix::process::geteuid().as_raw(), board.0);
    let poke = |at: u64, byte: u8| {
        #[expect(clippy::disallowed_methods, reason = "the damage is done from outside")]
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[byte], at).unwrap();
    };
    let join = || Cpp.run(&format!("cycle x --board {} --cycles 1 --weight 1", board.0));
    let words = ["is damaged", "layout version 9", "is not a livebag cycle board"];
    for (at, expected) in [24, 8, 0].into_iter().zip(words) {
        poke(at, 9);
        let refused = join();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(1) && text.contains(expected), "{text}");
    }
}
