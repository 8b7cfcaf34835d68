//! `--delete-pushed`: what the store has, verified, is removed from the robot; nothing else is.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use livebag::{Disk, KernelDisk};
use livebag_push::{PushOptions, Target, TargetOptions};
use rustix::process::Signal;

use crate::lacks_right::lacks_right;
use crate::run::{Ended, assert_stored, files, push, record};
use crate::store::Store;
use crate::watch::{Watching, failures};

const DELETE: &[&str] = &["--delete-pushed"];

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}

#[test]
fn what_is_pushed_is_removed_and_can_be_read_from_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (store, copied) = (Store::start(), folder.path().join("copied"));
    let data = folder.path().join("data");
    let bag = record(&data, "run1", 40, 1);
    copy(&bag, &copied);
    push(&store, &bag, DELETE).expect(0, &["verified", "run1: removed from this disk"]);
    assert_eq!(data.read_dir().unwrap().count(), 0);
    assert_stored(&store.place("robot7/run1"), &copied);
    // It is not there to be pushed again.
    push(&store, &bag, DELETE).expect(1, &["run1"]);

    let file = data.join("drive.mcap");
    std::fs::copy(copied.join("image.mcap"), &file).unwrap();
    push(&store, &file, DELETE).expect(0, &["drive.mcap: removed from this disk"]);
    assert_eq!(data.read_dir().unwrap().count(), 0, "its journal is gone, too");
    assert!(store.place("robot7/drive.mcap").exists());
}

#[test]
fn what_the_store_does_not_have_any_more_is_sent_before_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, copied) = (Store::start(), folder.path().join("copied"));
    let bag = record(folder.path(), "run1", 1, 1);
    copy(&bag, &copied);
    push(&store, &bag, &[]).expect(0, &["verified"]);
    let stored = store.place("robot7/run1");
    std::fs::remove_file(stored.join("imu.mcap")).unwrap();
    push(&store, &bag, DELETE).expect(0, &["removed from this disk"]);
    assert_stored(&stored, &copied);

    // Nor is it removed if the store has something else.
    copy(&copied, &bag);
    std::fs::write(stored.join("imu.mcap"), b"damaged").unwrap();
    push(&store, &bag, DELETE).expect(1, &["imu.mcap differs"]);
    assert_eq!(files(&bag), files(&copied));
}

#[test]
fn what_another_program_may_still_write_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 40, 1);
    for name in ["imu.mcap", "split_0001/image.mcap"] {
        let open = std::fs::OpenOptions::new().append(true).open(bag.join(name)).unwrap();
        push(&store, &bag, DELETE).expect(1, &["open for writing", name]);
        drop(open);
    }
    // Who only reads keeps what is open.
    let open = std::fs::File::open(bag.join("imu.mcap")).unwrap();
    push(&store, &bag, DELETE).expect(0, &["removed from this disk"]);
    assert!(open.metadata().unwrap().len() > 0 && !bag.exists());
}

#[test]
fn a_recording_with_anything_that_was_not_pushed_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 40, 1);
    let here = files(&bag);
    let elsewhere = folder.path().join("elsewhere");
    std::fs::write(&elsewhere, b"of another").unwrap();
    let place = bag.join("split_0001");
    for name in [".hidden", "folder", "link", "split_0001/.hidden", "split_0001/folder"] {
        let extra = bag.join(name);
        match name.rsplit('/').next().unwrap() {
            "folder" => std::fs::create_dir(&extra).unwrap(),
            "link" => std::os::unix::fs::symlink(&elsewhere, &extra).unwrap(),
            _ => std::fs::write(&extra, b"mine").unwrap(),
        }
        push(&store, &bag, DELETE).expect(1, &["is pushed, and was not removed", name]);
        assert!(extra.symlink_metadata().is_ok() && place.exists());
        let removed = if extra.is_dir() { std::fs::remove_dir } else { std::fs::remove_file };
        removed(&extra).unwrap();
        assert_eq!(files(&bag), here);
    }
    // The link's name is what goes, and that frees nothing.
    let link = folder.path().join("run2");
    std::os::unix::fs::symlink(&bag, &link).unwrap();
    push(&store, &link, DELETE).expect(1, &["it is a symbolic link"]);
    assert_eq!(files(&bag), here);
    push(&store, &bag, DELETE).expect(0, &["removed from this disk"]);
    assert!(!bag.exists() && elsewhere.exists());
}

#[test]
fn what_changes_or_is_used_after_the_push_stays() {
    let folder = tempfile::tempdir().unwrap();
    let nas = folder.path().join("nas");
    std::fs::create_dir(&nas).unwrap();
    let target = Target::open(nas.to_str().unwrap(), &TargetOptions::default()).unwrap();
    let bag = record(&folder.path().join("data"), "run1", 1, 1);
    let here = files(&bag);
    let push = || {
        let go_on = &mut |_: &_| ControlFlow::Continue(());
        livebag_push::push(&bag, &target, &PushOptions::default(), go_on).unwrap()
    };
    let disk = KernelDisk::for_reading();
    let pushed = push();
    let journals = bag.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let journal = journals.filter(|path| path.to_str().unwrap().contains("/.push-")).last();
    for locked in [bag.join("container.lock"), journal.unwrap()] {
        let lock = disk.lock(&locked).unwrap().unwrap();
        let kept = pushed.remove_here(&target).unwrap_err().to_string();
        assert!(kept.contains("another process"), "{kept}");
        drop(lock);
    }
    // An event is added, or the manifest written anew.
    let event = livebag::Event { name: "stop".into(), ..Default::default() };
    livebag::add_event(&bag, &event).unwrap();
    let kept = pushed.remove_here(&target).unwrap_err().to_string();
    assert!(kept.contains("container.events was not pushed"), "{kept}");
    let pushed = push();
    let manifest = bag.join("container.yaml");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replacen("\"ros2\"", "\"ros1\"", 1)).unwrap();
    let kept = pushed.remove_here(&target).unwrap_err().to_string();
    assert!(kept.contains("container.yaml was not pushed"), "{kept}");
    std::fs::write(&manifest, text).unwrap();
    assert_eq!(files(&bag).len(), here.len() + 1);
    pushed.remove_here(&target).unwrap();
    assert!(!bag.exists());
}

#[test]
fn a_watch_removes_what_it_pushed_and_what_was_half_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (store, copied) = (Store::start(), folder.path().join("copied"));
    let data = folder.path().join("data");
    let bag = record(&data.join("monday"), "run1", 1, 1);
    copy(&bag, &copied);
    // As a kill leaves it.
    let half = data.join("tuesday/.run0.livebag-removing");
    record(&data.join("tuesday"), "run0", 40, 2);
    std::fs::rename(data.join("tuesday/run0"), &half).unwrap();
    std::fs::remove_file(half.join("container.yaml")).unwrap();
    std::fs::write(bag.join(".mine"), b"mine").unwrap();
    // An earlier push has not removed it.
    let second = record(&data, "run2", 1, 3);
    push(&store, &second, &[]).expect(0, &["verified"]);

    let mut watching = Watching::begin(&store, &data, DELETE);
    let mut lines = watching.until("failed", "run1");
    assert!(failures(&lines)[0].contains(".mine"), "{lines:?}");
    assert!(!half.exists() && bag.exists());
    std::fs::remove_file(bag.join(".mine")).unwrap();
    lines.extend(watching.until("deleted", "run1"));
    assert_stored(&store.place("robot7/run1"), &copied);
    let is_second = |line: &&serde_json::Value| line["path"].as_str().unwrap().ends_with("run2");
    assert!(lines.iter().filter(is_second).any(|line| line["state"] == "deleted"), "{lines:?}");
    assert!(!bag.exists() && !second.exists());
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));

    // The same for a single recording.
    let third = record(&data, "run3", 1, 4);
    std::fs::rename(&third, data.join(".run3.livebag-removing")).unwrap();
    push(&store, &third, DELETE).expect(0, &["run3: removed from this disk"]);
    assert!(!data.join(".run3.livebag-removing").exists());
}

#[test]
fn with_room_enough_nothing_is_removed_and_without_the_oldest_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    // The names are in the other order.
    let (old, new) = (record(&data, "b", 1, 1), record(&data, "a", 1, 2));
    let options = [DELETE, &["--min-free-space", "1B"]].concat();
    let mut watching = Watching::begin(&store, &data, &options);
    // The oldest is pushed first, too.
    watching.until("pushed", "b");
    watching.until("pushed", "a");
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));
    assert!(new.exists() && old.exists());

    store.take_seen();
    let options = [DELETE, &["--min-free-space", "1000TB"]].concat();
    let mut watching = Watching::begin(&store, &data, &options);
    let first = watching.until("deleted", "b");
    watching.until("deleted", "a");
    assert!(!new.exists() && !old.exists(), "{first:?}");
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));
    // The store was asked for every file before.
    let asked = store.take_seen();
    assert!(asked.iter().any(|seen| seen.what.contains("robot7/b")), "{asked:?}");
    assert!(asked.iter().all(|seen| seen.puts().is_none()), "{asked:?}");
}

#[test]
fn room_is_made_outside_of_the_hours_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let data = folder.path().join("data");
    let (pushed, new) = (record(&data, "run1", 1, 1), record(&data, "run2", 1, 2));
    push(&store, &pushed, &[]).expect(0, &["verified"]);
    let hour = livebag::Clock::system().wall_nanos() / 3_600_000_000_000;
    let hours = format!("{:02}:00-{:02}:00", (hour + 11) % 24, (hour + 12) % 24);
    let options = [DELETE, &["--min-free-space", "1000TB", "--hours", &hours]].concat();
    let mut watching = Watching::begin(&store, &data, &options);
    watching.until("deleted", "run1");
    assert_eq!(watching.end(Signal::TERM).code(), Some(0));
    assert!(!pushed.exists() && new.exists() && !store.place("robot7/run2").exists());
}

#[test]
fn options_that_mean_nothing_alone_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 1, 1);
    push(&store, &bag, &["--min-free-space", "1GB"]).expect(2, &["--delete-pushed"]);
    assert!(bag.exists());
}

#[test]
fn a_drive_that_is_unmounted_has_no_copy_here() {
    let folder = tempfile::tempdir().unwrap();
    let (nas, drive) = (folder.path().join("nas"), folder.path().join("drive"));
    std::fs::create_dir(&nas).unwrap();
    let target = Target::open(nas.to_str().unwrap(), &TargetOptions::default()).unwrap();
    let bag = record(&folder.path().join("data"), "run1", 1, 1);
    let go_on = &mut |_: &_| ControlFlow::Continue(());
    let pushed = livebag_push::push(&bag, &target, &PushOptions::default(), go_on).unwrap();
    // Another folder has the name now, with the same files in it.
    std::fs::rename(&nas, &drive).unwrap();
    copy(&drive, &nas);
    let refused = pushed.remove_here(&target).unwrap_err().to_string();
    assert!(refused.contains("not mounted any more"), "{refused}");
    assert!(bag.join("container.yaml").exists());
}

#[test]
fn a_target_that_is_the_same_folder_mounted_elsewhere_has_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let bag = record(&data, "run1", 1, 1);
    let (here, nas) = (files(&bag), folder.path().join("nas"));
    std::fs::create_dir(&nas).unwrap();
    let map = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    let script = "mount --bind \"$1\" \"$2\" || exit 77; exec \"$3\" push \"$1/run1\" \"$2\" --delete-pushed";
    let mut command = Command::new("unshare");
    command.args([map, "sh", "-c", script, "sh"]).args([&data, &nas]);
    let ended = Ended::from(command.arg(env!("CARGO_BIN_EXE_livebag")).output().unwrap());
    assert_eq!(files(&bag), here);
    match ended.code {
        Some(77) => lacks_right("mounting in a namespace of its own is not permitted"),
        _ => drop(ended.expect(1, &["the recording's own place"])),
    }
}

#[test]
fn a_store_that_serves_the_recordings_own_folder_has_no_copy() {
    let store = Store::start();
    let bag = record(&store.place("robot7"), "run1", 1, 1);
    let here = files(&bag);
    push(&store, &bag, DELETE).expect(1, &["the recording's own place"]);
    let still = files(&bag);
    assert!(here.iter().all(|file| still.contains(file)));
    let file = store.place("robot7/drive.mcap");
    std::fs::copy(bag.join("image.mcap"), &file).unwrap();
    push(&store, &file, DELETE).expect(1, &["the recording's own place"]);
    assert!(file.exists());
}
