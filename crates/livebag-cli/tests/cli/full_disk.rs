//! A disk that fills up: said, counted, exit code 1, and everything written before stays readable.

use std::path::Path;
use std::process::Command;

use crate::common::{Ended, Recording, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions};

/// A command whose shell script runs with a filesystem of 8 MB at `$1`, which nobody else sees and
/// which goes with it; `$2` is livebag.
fn on_small_disk(folder: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = format!("mount -t tmpfs -o size=8m tmpfs \"$1\" || exit 77\n{script}");
    let map = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    command.args([map, "sh", "-c", &script, "sh", text(folder), env!("CARGO_BIN_EXE_livebag")]);
    command
}

fn is_possible(folder: &Path) -> bool {
    let possible = on_small_disk(folder, "true").output().is_ok_and(|out| out.status.success());
    if !possible {
        eprintln!(
            "skipped: mounting a small filesystem in a namespace of its own is not permitted"
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
    // What was written can be read while the disk is full; `info` tells how much.
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
