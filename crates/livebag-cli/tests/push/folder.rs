//! Pushes to a folder, and of recordings that are one file.

use crate::run::{Ended, assert_stored, livebag, push, record};
use crate::store::{Fault, Store};

fn push_to(bag: &std::path::Path, target: &std::path::Path, more: &[&str]) -> Ended {
    let (bag, target) = (bag.to_str().unwrap(), target.to_str().unwrap());
    livebag(&[&["push", bag, target], more].concat()).output().unwrap().into()
}

#[test]
fn a_folder_takes_recordings_as_a_bucket_does() {
    let folder = tempfile::tempdir().unwrap();
    let nas = folder.path().join("nas");
    let (bag, other) =
        (record(folder.path(), "run1", 20, 1), record(&folder.path().join("b"), "run1", 1, 2));
    push_to(&bag, &nas, &[]).expect(2, &["not mounted"]);
    std::fs::create_dir(&nas).unwrap();
    push_to(&bag, &nas, &[]).expect(0, &["verified"]);
    assert_stored(&nas.join("run1"), &bag);
    push_to(&bag, &nas, &[]).expect(0, &["was there already"]);
    push_to(&other, &nas, &[]).expect(1, &["belongs to another recording"]);
    push_to(&bag, folder.path(), &[]).expect(1, &["the recording's own place"]);
    let verified = livebag(&["verify", nas.join("run1").to_str().unwrap()]).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn a_copy_from_one_target_is_pushed_to_the_next_as_the_recording_was() {
    let folder = tempfile::tempdir().unwrap();
    let bag = record(&folder.path().join("data"), "run1", 1, 1);
    let [base, cloud] = ["base", "cloud"].map(|name| folder.path().join(name));
    for target in [&base, &cloud] {
        std::fs::create_dir(target).unwrap();
    }
    push_to(&bag, &base, &[]).expect(0, &["verified"]);
    let sums = std::fs::read(base.join("run1/container.sha256")).unwrap();
    push_to(&base.join("run1"), &cloud, &[]).expect(0, &["verified"]);
    assert_stored(&cloud.join("run1"), &bag);
    assert!(std::fs::read(cloud.join("run1/container.sha256")).unwrap() == sums);
    push_to(&bag, &cloud, &[]).expect(0, &["was there already"]);
    push_to(&base.join("run1"), &cloud, &["--delete-pushed"])
        .expect(0, &["was there already", "removed from this disk"]);
    assert!(!base.join("run1").exists());
    assert_stored(&cloud.join("run1"), &bag);
}

#[test]
fn checksums_of_the_users_own_are_neither_replaced_nor_removed() {
    let folder = tempfile::tempdir().unwrap();
    let nas = folder.path().join("nas");
    std::fs::create_dir(&nas).unwrap();
    let bag = record(folder.path(), "bag", 1, 1);
    let line = |name: &str| format!("{}  {name}\n", "0123456789abcdef".repeat(4));
    for (claim, sums) in [(None, line("container.yaml")), (Some(line("other")), line("other"))] {
        let named = if claim.is_some() { "container.claim" } else { "container.sha256" };
        if let Some(claim) = claim {
            std::fs::write(bag.join("container.claim"), claim).unwrap();
        }
        std::fs::write(bag.join("container.sha256"), sums).unwrap();
        push_to(&bag, &nas, &["--delete-pushed"]).expect(1, &[named, "rename it"]);
    }
    // The claim of a push, and checksums that no push wrote.
    std::fs::write(bag.join("container.claim"), line("container.yaml")).unwrap();
    std::fs::write(bag.join("container.sha256"), "my own notes\n").unwrap();
    push_to(&bag, &nas, &["--delete-pushed"]).expect(1, &["container.sha256", "rename it"]);
    std::fs::rename(bag.join("container.sha256"), bag.join("notes")).unwrap();
    push_to(&bag, &nas, &["--delete-pushed"]).expect(0, &["removed from this disk"]);
    assert_eq!(std::fs::read(nas.join("bag/notes")).unwrap(), b"my own notes\n");
}

#[test]
fn options_that_would_do_nothing_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let bag = record(folder.path(), "run1", 1, 1);
    let nas = folder.path().join("nas");
    std::fs::create_dir(&nas).unwrap();
    push_to(&bag, &nas, &["--every", "5s"]).expect(2, &["--watch"]);
    push_to(&bag, &nas, &["--watch", "--every", "1ns"]).expect(2, &["too often"]);
    let said = push_to(&bag, &nas, &["--first", "/none,imu"]).expect(0, &["no topic /none"]).err;
    assert!(!said.contains("imu"), "{said}");
    for target in [folder.path(), &nas] {
        push_to(folder.path(), target, &["--watch"]).expect(2, &["would be pushed again"]);
    }
    let nowhere = folder.path().join("nope");
    let failed = push_to(&nowhere, &nas, &["--watch", "--json"]).expect(1, &["does not exist"]);
    let line: serde_json::Value = serde_json::from_str(&failed.out).unwrap();
    assert_eq!(line["state"], "failed", "{line}");
}

#[test]
fn a_recording_is_no_target() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["run1", "run2"].map(|name| record(folder.path(), name, 1, 1));
    push_to(&one, &other, &["--delete-pushed"]).expect(2, &["name the target last"]);
    assert!(one.exists() && !other.join("run1").exists());
    push_to(&one, &one, &[]).expect(2, &["name the target last"]);
    // In a folder of its own.
    let inside = one.join("copies");
    std::fs::create_dir(&inside).unwrap();
    push_to(&one, &inside, &[]).expect(1, &["own place", inside.join("run1").to_str().unwrap()]);
    assert_eq!(inside.read_dir().unwrap().count(), 0);
}

#[test]
fn a_recording_of_one_file_is_one_object_with_a_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    let file = folder.path().join("drive.mcap");
    std::fs::copy(bag.join("image.mcap"), &file).unwrap();
    // Interrupted, and gone on with.
    let mut parts = 0;
    store.fail(move |seen| {
        parts += usize::from(seen.is_part());
        if parts > 1 { Fault::Refuse(403, "AccessDenied") } else { Fault::None }
    });
    push(&store, &file, &[]).expect(1, &["do not allow this"]);
    store.work();
    let sent: u64 = store.take_seen().iter().map(|seen| u64::from(seen.is_part())).sum();
    push(&store, &file, &[]).expect(0, &["robot7/drive.mcap", "verified"]);
    assert_eq!(sent, 2, "one arrived, one was refused");
    assert!(
        store.take_seen().iter().all(|seen| !seen.what.contains("partNumber=1&")),
        "the first is not sent again"
    );
    let stored = store.place("robot7/drive.mcap");
    assert!(std::fs::read(&stored).unwrap() == std::fs::read(&file).unwrap());
    let check = std::process::Command::new("sha256sum")
        .args(["-c", "drive.mcap.sha256"])
        .current_dir(stored.parent().unwrap())
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");
    push(&store, &file, &[]).expect(0, &["was there already"]);
    std::fs::write(&file, b"another").unwrap();
    push(&store, &file, &[]).expect(1, &["belongs to another recording"]);
}
