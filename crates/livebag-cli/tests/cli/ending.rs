//! How a recording ends after several signals. The hook that lets a disk hang is only in builds with debug assertions.
#![cfg(debug_assertions)]

use std::path::Path;
use std::process::Command;

use livebag_shm::{FrameMeta, StreamOptions};
use rustix::process::Signal;

use crate::common::{Recording, livebag, run, stream, text, wait_until};

/// A recorder whose disk hangs while the file `held` exists, and for which signals within `grace` are one.
fn on_hanging_disk(folder: &Path, grace: &str, arguments: &[&str]) -> Command {
    let held = folder.join("held");
    std::fs::write(&held, "").unwrap();
    let mut command = livebag(&["record"]);
    command.args(arguments).env("LIVEBAG_HOLD_WRITES", held).env("LIVEBAG_INTERRUPT_GRACE", grace);
    command
}

fn let_go(folder: &Path) {
    std::fs::remove_file(folder.join("held")).unwrap();
}

/// `ros2 launch` in a process group, `timeout -s INT`, docker and impatient people send several.
#[test]
fn ten_signals_are_one_orderly_end() {
    const MESSAGES: u64 = 50;
    for (storage, first) in
        [("container", Signal::INT), ("mcap", Signal::TERM), ("mcap", Signal::HUP)]
    {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("run1");
        let (name, mut writer) = stream(StreamOptions::bytes(100_000).slots(64));
        let arguments = [&name, "-o", text(&bag), "--storage", storage, "--json"];
        let command = on_hanging_disk(folder.path(), "3600", &arguments);
        let mut recording = Recording::begin_command(command, 1);
        for number in 0..MESSAGES {
            writer.publish(&FrameMeta::bytes(), &[number as u8; 100_000]).unwrap();
        }
        recording.signal(first);
        recording.said_until("closing:");
        for _ in 0..9 {
            recording.signal(Signal::INT);
        }
        assert!(!recording.has_ended(), "what waits is not given up");
        let_go(folder.path());
        let ended = recording.end().expect(0, &["to write", "press again"]);
        assert_eq!(ended.json()["message_count"], MESSAGES, "{ended:?}");
        run(&["verify", text(&bag)]).expect(0, &[]);
        assert_eq!(bag.join("metadata.yaml").exists(), storage == "mcap");
    }
}

#[test]
fn what_is_abandoned_is_counted() {
    // More than the disk is given at once.
    const MESSAGES: u64 = 90;
    for storage in ["container", "mcap"] {
        let folder = tempfile::tempdir().unwrap();
        let bag = folder.path().join("run1");
        let (name, mut writer) = stream(StreamOptions::bytes(1 << 20).slots(96));
        let arguments = [&name, "-o", text(&bag), "--storage", storage, "--json"];
        let command = on_hanging_disk(folder.path(), "0", &arguments);
        let mut recording = Recording::begin_command(command, 1);
        for number in 0..MESSAGES {
            writer.publish(&FrameMeta::bytes(), &vec![number as u8; 1 << 20]).unwrap();
        }
        recording.signal(Signal::INT);
        recording.said_until("closing:");
        recording.signal(Signal::INT);
        recording.said_until("abandoned");
        let_go(folder.path());
        let ended = recording.end().expect(3, &["abandoned"]);
        let told = ended.json();
        let abandoned = told["lost"]["abandoned"].as_u64().unwrap();
        assert!(abandoned > 0, "{told}");
        assert_eq!(told["message_count"].as_u64().unwrap() + abandoned, MESSAGES, "{told}");
        assert_eq!(told["lost"]["total"], abandoned, "{told}");
        let info = run(&["info", text(&bag), "--json"]).expect(0, &[]).json();
        assert_eq!(info["topics"][0]["lost"]["abandoned"], abandoned, "{info}");
        assert_eq!(info["state"], "closed");
        run(&["verify", text(&bag)]).expect(0, &[]);
        assert_eq!(bag.join("metadata.yaml").exists(), storage == "mcap");
    }
}

/// Nothing but the process is in the way of a disk that never answers.
#[test]
fn a_disk_that_hangs_does_not_keep_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let command = on_hanging_disk(folder.path(), "0", &[&name, "-o", text(&bag)]);
    let mut recording = Recording::begin_command(command, 1);
    writer.publish(&FrameMeta::bytes(), &[1; 1000]).unwrap();
    recording.signal(Signal::INT);
    recording.said_until("closing:");
    recording.signal(Signal::INT);
    recording.said_until("abandoned");
    recording.signal(Signal::INT);
    recording.end().expect(1, &["stopped at once", "livebag recover"]);
    let info = run(&["info", text(&bag), "--json"]).expect(0, &[]).json();
    assert_eq!(info["state"], "recovered");
}

/// A terminal that has hung up accepts no output, and the recording is still closed.
#[test]
fn nobody_need_listen() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let command = on_hanging_disk(folder.path(), "3600", &[&name, "-o", text(&bag), "--json"]);
    let mut recording = Recording::begin_command(command, 1);
    writer.publish(&FrameMeta::bytes(), &[1; 1000]).unwrap();
    recording.hang_up();
    recording.signal(Signal::HUP);
    let_go(folder.path());
    wait_until("the recorder has ended", || recording.has_ended());
    let info = run(&["info", text(&bag), "--json"]).expect(0, &[]).json();
    assert_eq!((&info["state"], &info["message_count"]), (&"closed".into(), &1.into()));
}
