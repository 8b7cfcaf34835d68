//! Commands to a running recorder, by `ctl`, by signals and by keys.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::{Ended, Recording, livebag, run, stream, text, wait_until};
use livebag_shm::{FrameMeta, StreamOptions, Writer};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use serde_json::Value;

fn publish(writer: &mut Writer, count: u64) {
    for number in 0..count {
        writer.publish(&FrameMeta::bytes(), &[number as u8; 100]).unwrap();
    }
}

fn status(bag: &str) -> Value {
    run(&["ctl", bag, "status", "--json"]).expect(0, &[]).json()
}

#[test]
fn a_recorder_pauses_splits_and_stops_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--stats", "0.05"], 1);
    publish(&mut writer, 10);
    wait_until("ten messages", || status(bag)["message_count"] == 10);

    run(&["ctl", bag, "pause"]).expect(0, &[]);
    assert_eq!(status(bag)["paused"], true);
    publish(&mut writer, 5);
    wait_until("five left out", || status(bag)["skipped"] == 5);
    run(&["ctl", bag, "resume"]).expect(0, &[]);
    assert_eq!(status(bag)["message_count"], 10, "what came in the pause is not recorded");

    let split = run(&["ctl", bag, "split", "--json"]).expect(0, &[]).json();
    assert_eq!(split["splits"], 2, "it is answered when it has happened: {split}");
    recording.signal(Signal::USR1);
    wait_until("a third split", || status(bag)["splits"] == 3);
    publish(&mut writer, 7);
    wait_until("seven more", || status(bag)["message_count"] == 17);

    run(&["ctl", bag, "snapshot"]).expect(1, &["snapshot"]);
    run(&["ctl", bag, "stop"]).expect(0, &[]);
    let ended = recording.end().expect(0, &[]);
    let lines: Vec<Value> =
        ended.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(lines.iter().any(|line| line["paused"] == true), "{}", ended.out);
    assert!(lines.iter().all(|line| line["topics"].is_array()));

    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!((&info["state"], &info["message_count"]), (&"closed".into(), &17.into()));
    run(&["ctl", bag, "status"]).expect(1, &["no recorder"]);
    run(&["verify", bag]).expect(0, &[]);
}

#[test]
fn a_ring_goes_to_the_disk_on_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", bag, "--snapshot-mode"], 1);
    publish(&mut writer, 20);
    wait_until("the ring holds them", || status(bag)["cache_bytes"].as_u64() > Some(20 * 100));
    assert_eq!(status(bag)["message_count"], 0);
    recording.signal(Signal::USR2);
    wait_until("the ring is written", || status(bag)["message_count"] == 20);
    recording.interrupt().expect(0, &[]);
}

#[test]
fn throttled_messages_are_left_out_and_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let throttle = format!("/{name}=0.001");
    let recording = Recording::begin(&[&name, "-o", bag, "--throttle", &throttle], 1);
    publish(&mut writer, 30);
    wait_until("all but one left out", || status(bag)["skipped"] == 29);
    recording.interrupt().expect(0, &[]);
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!(info["message_count"], 1);
}

/// Both ends of a new terminal: the user's, and the program's.
pub fn terminal() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let user = openpt(flags).expect("a terminal");
    grantpt(&user).unwrap();
    unlockpt(&user).unwrap();
    let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    (user.into(), program.into())
}

pub fn takes_lines(terminal: &File) -> bool {
    tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
}

#[test]
fn keys_pause_split_and_end_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let (mut keys, program) = terminal();
    assert!(takes_lines(&program));
    let mut command = livebag(&["record", &name, "-o", bag]);
    command.stdin(program.try_clone().unwrap());
    let recording = Recording::begin_command(command, 1);
    assert!(!takes_lines(&program), "it takes key by key");
    publish(&mut writer, 10);
    wait_until("ten messages", || status(bag)["message_count"] == 10);

    keys.write_all(b" ").unwrap();
    wait_until("it pauses", || status(bag)["paused"] == true);
    publish(&mut writer, 5);
    wait_until("five left out", || status(bag)["skipped"] == 5);
    keys.write_all(b" ").unwrap();
    wait_until("it goes on", || status(bag)["paused"] == false);
    // Keys that mean nothing mean nothing.
    keys.write_all(b"x\ns").unwrap();
    wait_until("a second split", || status(bag)["splits"] == 2);
    publish(&mut writer, 7);
    wait_until("seven more", || status(bag)["message_count"] == 17);
    keys.write_all(b"tq").unwrap();

    let ended = recording.end().expect(0, &["keys: space", "--snapshot-mode"]);
    assert!(ended.out.contains("17 messages"), "{ended:?}");
    assert!(takes_lines(&program), "the terminal is as it was");
    let info = run(&["info", bag, "--json"]).expect(0, &[]).json();
    assert_eq!((&info["state"], &info["message_count"]), (&"closed".into(), &17.into()));
}

#[test]
fn a_key_writes_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let (mut keys, program) = terminal();
    let mut command = livebag(&["record", &name, "-o", bag, "--snapshot-mode"]);
    command.stdin(program);
    let recording = Recording::begin_command(command, 1);
    publish(&mut writer, 20);
    wait_until("the ring holds them", || status(bag)["cache_bytes"].as_u64() > Some(20 * 100));
    keys.write_all(b"t").unwrap();
    wait_until("the ring is written", || status(bag)["message_count"] == 20);
    keys.write_all(b"q").unwrap();
    recording.end().expect(0, &[]);
}

/// With `--disable-keyboard-controls` the terminal is not changed.
#[test]
fn a_recorder_told_so_does_not_touch_the_keyboard() {
    let folder = tempfile::tempdir().unwrap();
    let bag = folder.path().join("run1");
    let bag = text(&bag);
    let (name, _writer) = stream(StreamOptions::bytes(1000));
    let (_keys, program) = terminal();
    let mut command = livebag(&["record", &name, "-o", bag, "--disable-keyboard-controls"]);
    command.stdin(program.try_clone().unwrap());
    let recording = Recording::begin_command(command, 1);
    assert!(takes_lines(&program));
    let ended = recording.interrupt().expect(3, &["no message came"]);
    assert!(!ended.err.contains("keys:"), "{ended:?}");
}

#[test]
fn nobody_else_controls_a_recorder() {
    if !rustix::process::geteuid().is_root() {
        crate::lacks_right::lacks_right("only root can become another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The folder and the command are everybody's, the socket is not.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let command = folder.path().join("livebag");
    std::fs::copy(env!("CARGO_BIN_EXE_livebag"), &command).unwrap();
    let bag = folder.path().join("run1");
    let (name, mut writer) = stream(StreamOptions::bytes(1000).slots(64));
    let recording = Recording::begin(&[&name, "-o", text(&bag)], 1);
    for order in ["status", "pause", "stop"] {
        let refused = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .args([text(&command), "ctl", text(&bag), order])
            .output();
        let refused = Ended::from(refused.expect("setpriv of util-linux"));
        refused.expect(1, &["belongs to another user", "only its owner may control it"]);
    }
    publish(&mut writer, 10);
    wait_until("it records all the same", || status(text(&bag))["message_count"] == 10);
    assert_eq!(status(text(&bag))["paused"], false);
    let mode = std::fs::metadata(bag.join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    recording.interrupt().expect(0, &[]);
}
