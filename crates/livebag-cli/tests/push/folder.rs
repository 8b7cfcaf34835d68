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
