//! A disk that fills up: said, counted, exit code 1, and everything written before stays readable.

use std::path::Path;
use std::process::Command;

use crate::common::{Ended, Recording, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions};

/// A command whose shell script runs with a private filesystem of 8 MB at `$1`, which is removed with it; `$2` is
/// livebag.
fn on_small_disk(folder: &Path, script: &str) -> Command {
    on_disk_of("8m", folder, script)
}

fn on_disk_of(size: &str, folder: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("mount -t tmpfs -o size={size} tmpfs \"$1\" || exit 77\n{script}");
    let map = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    command.args([map, "sh", "-c", &script, "sh", text(folder), env!("CARGO_BIN_EXE_livebag")]);
    command
}

fn is_possible(folder: &Path) -> bool {
    let possible = on_small_disk(folder, "true").output().is_ok_and(|out| out.status.success());
    if !possible {
        crate::lacks_right::lacks_right(
            "mounting a small filesystem in a namespace of its own is not permitted",
        );
    }
    possible
}

#[test]
fn a_recording_on_a_disk_that_fills_up() {
    const BYTES: usize = 500_000;
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if !is_possible(&small) {
        return;
    }
    let info = folder.path().join("info.json");
    let (name, mut writer) = stream(StreamOptions::bytes(BYTES).slots(16));
    // Written messages can be read while the disk is full; `info` shows how many.
    let script = format!(
        "\"$2\" record {name} -o \"$1/bag\"; code=$?
         \"$2\" info \"$1/bag\" --json > {info} || exit 90
         \"$2\" query \"$1/bag\" latest --last 1h -o {out} || exit 91
         \"$2\" query \"$1/bag\" latest -o \"$1/no-room.mcap\" 2> {refusal}; test $? = 1 || exit 92
         test -z \"$(find \"$1\" -name '*no-room*')\" || exit 93
         exit $code",
        info = text(&info),
        out = text(&folder.path().join("out.mcap")),
        refusal = text(&folder.path().join("refusal")),
    );
    let mut recording = Recording::begin_command(on_small_disk(&small, &script), 1);
    let mut number = 0_u64;
    wait_until("the disk is full", || {
        number += 1;
        writer.publish(&FrameMeta::bytes(), &vec![number as u8; BYTES]).unwrap();
        recording.has_ended()
    });
    recording.end().expect(1, &["ended early", "disk", "kept and readable"]);

    let text_of = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(text_of("refusal").contains("the disk is full"), "{}", text_of("refusal"));
    let info: serde_json::Value = serde_json::from_str(&text_of("info.json")).unwrap();
    let kept = info["message_count"].as_u64().unwrap();
    assert!(kept >= 4, "{info}");
    assert!(info["failure"].is_string(), "{info}");
    let bytes = std::fs::read(folder.path().join("out.mcap")).unwrap();
    let mut read = 0;
    for message in mcap::MessageStream::new(&bytes).unwrap() {
        let data = message.unwrap().data;
        let payload = &data[data.len() - BYTES..];
        assert!(payload.iter().all(|byte| *byte == payload[0]), "message {read} is whole");
        read += 1;
    }
    assert_eq!(read, kept);
}

#[test]
fn a_recording_on_a_disk_that_is_full_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    if !is_possible(folder.path()) {
        return;
    }
    let script = "head -c 20000000 /dev/zero > \"$1/filler\" 2>/dev/null
        \"$2\" record -a -o \"$1/bag\" --duration 1";
    let output = on_small_disk(folder.path(), script).output().unwrap();
    Ended::from(output).expect(1, &["livebag:", "disk is full"]);
}

/// The recording on a small disk: whether it is intact, and its messages.
fn report(folder: &Path, name: &str) -> serde_json::Value {
    let written = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&written).unwrap_or_else(|error| panic!("{name}: {error}: {written}"))
}

/// Publishes messages of `bytes` until the recorder on a small disk has ended, some 25 MB/s.
fn flood(bytes: usize, script: &str, folder: &Path) -> Ended {
    flood_disk_of("8m", (50_000 / bytes).max(1), bytes, script, folder)
}

fn flood_disk_of(size: &str, burst: usize, bytes: usize, script: &str, folder: &Path) -> Ended {
    let small = folder.join("small");
    std::fs::create_dir_all(&small).unwrap();
    let (name, mut writer) = stream(StreamOptions::bytes(bytes).slots(256));
    let script = script.replace("NAME", &name).replace("OUT", text(folder));
    let mut recording = Recording::begin_command(on_disk_of(size, &small, &script), 1);
    let mut number = 0_u64;
    wait_until("the recorder has ended", || {
        for _ in 0..burst {
            number += 1;
            writer.publish(&FrameMeta::bytes(), &vec![number as u8; bytes]).unwrap();
        }
        recording.has_ended()
    });
    recording.end()
}

/// Small messages: it is chunks and pages of the index that find no room.
#[test]
fn a_disk_that_fills_up_with_small_messages() {
    let folder = tempfile::tempdir().unwrap();
    if !is_possible(folder.path()) {
        return;
    }
    let script = r#"
        "$2" record NAME -o "$1/bag"; code=$?
        "$2" verify "$1/bag" --json > OUT/verified.json || exit 90
        exit $code"#;
    flood(100, script, folder.path()).expect(1, &["ended early", "disk", "kept and readable"]);
    let verified = report(folder.path(), "verified.json");
    assert!(verified["message_count"].as_u64().unwrap() > 10_000, "{verified}");
    assert_eq!(verified["state"], "closed");
}

/// Frames that are in flight when the disk is full do not take the space that was set aside for the end.
#[test]
fn a_disk_that_fills_up_with_large_messages_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    if !is_possible(folder.path()) {
        return;
    }
    for size in ["40m", "41500k", "43m"] {
        let script = r#"
            "$2" record NAME -o "$1/bag" --storage mcap; code=$?
            "$2" verify "$1/bag" --json > OUT/verified.json || exit 90
            exit $code"#;
        let ended = flood_disk_of(size, 12, 400_000, script, folder.path());
        ended.expect(1, &["ended early", "disk", "kept and readable"]);
        let verified = report(folder.path(), "verified.json");
        assert!(verified["message_count"].as_u64().unwrap() > 50, "{verified}");
        assert_eq!(verified["state"], "closed");
    }
}

/// A filesystem has room for a limited number of files, however small: the topic beyond it leaves none.
#[test]
fn a_disk_that_has_no_room_for_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if !is_possible(&small) {
        return;
    }
    const TOPICS: usize = 20;
    for files in [24, 25] {
        let mut streams: Vec<_> =
            (0..TOPICS).map(|_| stream(StreamOptions::bytes(100).slots(4))).collect();
        let names: Vec<_> = streams.iter().map(|(name, _)| name.as_str()).collect();
        let script = format!(
            r#""$2" record {names} -o "$1/bag"; code=$?
            "$2" verify "$1/bag" --json > {verified} || exit 90
            exit $code"#,
            names = names.join(" "),
            verified = text(&folder.path().join("verified.json")),
        );
        let disk = format!("8m,nr_inodes={files}");
        let mut recording = Recording::begin_command(on_disk_of(&disk, &small, &script), TOPICS);
        wait_until("there is no room for a file", || {
            for (_, writer) in &mut streams {
                writer.publish(&FrameMeta::bytes(), &[1; 100]).unwrap();
            }
            recording.has_ended()
        });
        recording
            .end()
            .expect(1, &["ended early", "the disk is full", "df -i", "kept and readable"]);
        let verified = report(folder.path(), "verified.json");
        assert!(verified["message_count"].as_u64().unwrap() > 0, "{verified}");
        assert_eq!(verified["state"], "closed");
    }
}

/// SQLite rolls its failed transaction back: messages committed before are there.
#[test]
fn a_disk_that_fills_up_with_a_database() {
    let folder = tempfile::tempdir().unwrap();
    if !is_possible(folder.path()) {
        return;
    }
    for preset in ["none", "resilient"] {
        let script = r#"
            "$2" record NAME -o "$1/bag" --storage sqlite3 --preset PRESET --json > OUT/told.json; code=$?
            "$2" verify "$1/bag" --json > OUT/verified.json || exit 90
            exit $code"#;
        let script = script.replace("PRESET", preset);
        let ended = flood(10_000, &script, folder.path());
        ended.expect(1, &["ended early", "the disk is full", "kept and readable"]);
        let (told, verified) =
            (report(folder.path(), "told.json"), report(folder.path(), "verified.json"));
        let recorded = told["message_count"].as_u64().unwrap();
        assert!(recorded > 100, "{told}");
        assert_eq!(verified["message_count"], recorded, "{verified}");
        assert!(told["lost"]["disk"].as_u64().unwrap() > 0, "{told}");
    }
}

/// Another program fills the disk, and then the recording ends: the reserved space is enough.
#[test]
fn a_recording_is_closed_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if !is_possible(&small) {
        return;
    }
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let script = format!(
        r#""$2" record {name} -o "$1/bag" & recorder=$!
        until [ "$("$2" query "$1/bag" latest --count 2>/dev/null)" = 50 ]; do sleep 0.05; done
        head -c 20000000 /dev/zero > "$1/filler" 2>/dev/null
        kill -INT $recorder; wait $recorder; code=$?
        "$2" verify "$1/bag" --json > {out} || exit 90
        exit $code"#,
        out = text(&folder.path().join("verified.json")),
    );
    let recording = Recording::begin_command(on_small_disk(&small, &script), 1);
    for number in 0..50_u8 {
        writer.publish(&FrameMeta::bytes(), &[number; 1000]).unwrap();
    }
    recording.end().expect(0, &[]);
    let verified = report(folder.path(), "verified.json");
    assert_eq!((&verified["message_count"], &verified["state"]), (&50.into(), &"closed".into()));
}

#[test]
fn a_recording_stops_while_there_is_space_left() {
    let folder = tempfile::tempdir().unwrap();
    if !is_possible(folder.path()) {
        return;
    }
    let script = r#"
        "$2" record NAME -o "$1/bag" --min-free-space 4MB; code=$?
        "$2" verify "$1/bag" --json > OUT/verified.json || exit 90
        df --output=avail -B1 "$1" | tail -1 > OUT/free
        exit $code"#;
    let ended = flood(100_000, script, folder.path());
    ended.expect(1, &["ended early", "free", "kept and readable"]);
    assert!(report(folder.path(), "verified.json")["message_count"].as_u64().unwrap() > 0);
    let free = std::fs::read_to_string(folder.path().join("free")).unwrap();
    // Checked about once a second; the reserve and the messages in memory came after.
    assert!(free.trim().parse::<u64>().unwrap() > 500_000, "{free}");
}

#[test]
fn the_oldest_splits_make_room_for_new_ones() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    std::fs::create_dir(&small).unwrap();
    if !is_possible(&small) {
        return;
    }
    const BYTES: usize = 100_000;
    let (name, mut writer) = stream(StreamOptions::bytes(BYTES).slots(64));
    let script = format!(
        r#""$2" record {name} -o "$1/bag" --max-bag-size 500kB --min-free-space 4MB \
            --low-free-space-action delete-oldest --duration 8; code=$?
        "$2" verify "$1/bag" --json > {verified} || exit 90
        "$2" info "$1/bag" --json > {info} || exit 91
        exit $code"#,
        verified = text(&folder.path().join("verified.json")),
        info = text(&folder.path().join("info.json")),
    );
    let mut recording = Recording::begin_command(on_small_disk(&small, &script), 1);
    let mut number = 0_u64;
    wait_until("the recorder has ended", || {
        writer.publish(&FrameMeta::bytes(), &vec![number as u8; BYTES]).unwrap();
        number += 1;
        std::thread::park_timeout(std::time::Duration::from_millis(30));
        recording.has_ended()
    });
    recording.end().expect(0, &["removed"]);
    let (verified, info) =
        (report(folder.path(), "verified.json"), report(folder.path(), "info.json"));
    assert!(verified["message_count"].as_u64().unwrap() > 0, "{verified}");
    assert!(number > 100, "more than the disk holds: {number}");
    assert_eq!(info["failure"], serde_json::Value::Null, "{info}");
}
