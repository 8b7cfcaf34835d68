//! Stores and links that fail.

use std::sync::{Arc, Mutex};

use crate::run::{Ended, assert_stored, livebag, push, push_command, record};
use crate::store::{Fault, Seen, Store};

#[test]
fn every_failure_of_a_store_has_its_word() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 1, 1);
    for (status, code, words) in [
        (403, "AccessDenied", "do not allow this"),
        (403, "RequestTimeTooSkewed", "clock is wrong"),
        (403, "ExpiredToken", "does not accept the credentials"),
        (403, "QuotaExceeded", "the store is full"),
        (507, "InsufficientStorage", "the store is full"),
        (503, "SlowDown", "asked again in vain"),
        (500, "InternalError", "asked again in vain"),
    ] {
        store.fail(
            move |seen| {
                if seen.method == "PUT" { Fault::Refuse(status, code) } else { Fault::None }
            },
        );
        push(&store, &bag, &["--give-up-after", "300ms"]).expect(1, &[words, code]);
    }
    store.work();
    let mut command = push_command(&store, &bag, &[]);
    command.env("AWS_SECRET_ACCESS_KEY", "wrong");
    Ended::from(command.output().unwrap()).expect(1, &["does not accept the credentials"]);
    let mut command = push_command(&store, &bag, &[]);
    command.env("AWS_ACCESS_KEY_ID", "nobody");
    Ended::from(command.output().unwrap()).expect(1, &["does not accept the credentials"]);
    let mut command = livebag(&["push", bag.to_str().unwrap(), "s3://nowhere/robot7"]);
    command.envs(
        push_command(&store, &bag, &[]).get_envs().filter_map(|(name, value)| Some((name, value?))),
    );
    Ended::from(command.output().unwrap()).expect(1, &["no such bucket"]);
    let mut command = push_command(&store, &bag, &["--give-up-after", "300ms"]);
    command.env("AWS_ENDPOINT_URL", "http://127.0.0.1:9");
    Ended::from(command.output().unwrap()).expect(1, &["does not answer"]);
    let mut command = push_command(&store, &bag, &[]);
    command.env("AWS_ENDPOINT_URL", "127.0.0.1:9");
    Ended::from(command.output().unwrap()).expect(2, &["AWS_ENDPOINT_URL", "http://HOST:PORT"]);
    push(&store, &bag, &[]).expect(0, &["verified"]);
}

#[test]
fn a_store_that_is_busy_for_a_moment_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    let mut count = 0;
    store.fail(move |_| {
        count += 1;
        if count % 3 == 0 { Fault::Refuse(503, "SlowDown") } else { Fault::None }
    });
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

/// One request in so many of those that carry bytes.
fn one_in(many: u32, fault: Fault) -> impl FnMut(&Seen) -> Fault + Send {
    let mut count = 0;
    move |seen| {
        count += u32::from(seen.bytes > 0);
        if seen.bytes > 0 && count % many == 0 { fault } else { Fault::None }
    }
}

#[test]
fn bytes_that_were_changed_on_the_way_are_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    store.fail(|seen| match seen.what.contains("partNumber=2&") {
        true => Fault::Refuse(400, "XAmzContentSHA256Mismatch"),
        false => Fault::None,
    });
    push(&store, &bag, &[]).expect(1, &["after 4 attempts", "does not count as pushed"]);
    assert!(!store.place("robot7/run1/container.yaml").exists(), "not complete");
    store.fail(one_in(3, Fault::Corrupt));
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn a_store_that_keeps_other_bytes_than_it_got_gets_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    let (root, mut damaged) = (store.root().to_owned(), false);
    store.fail(move |seen| {
        // The parts are there, and about to become an object.
        if seen.method == "POST" && seen.what.contains("uploadId=") && !damaged {
            let mut entries = root.read_dir().unwrap().map(|entry| entry.unwrap().path());
            let part = entries.find(|path| path.to_string_lossy().ends_with("part-2")).unwrap();
            let mut contents = std::fs::read(&part).unwrap();
            contents[77] ^= 1;
            std::fs::write(&part, contents).unwrap();
            damaged = true;
        }
        Fault::None
    });
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
    let parts = store.take_seen().into_iter().filter(|seen| seen.what.contains("partNumber=2&"));
    assert_eq!(parts.count(), 2, "sent again");
}

#[test]
fn a_link_that_breaks_before_or_after_any_request_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for fault in [Fault::CutBefore, Fault::CutAfter] {
        let store = Store::start();
        let bag = record(folder.path(), &format!("{fault:?}"), 20, 1);
        let mut failed = std::collections::HashSet::new();
        // The first request of each kind and key.
        store.fail(move |seen| {
            let is_new = failed.insert((seen.method.clone(), seen.what.clone()));
            if seen.method != "GET" && is_new { fault } else { Fault::None }
        });
        // A lost answer of a request that must not be repeated may end a push; the next goes on.
        let done = (0..4).any(|_| push(&store, &bag, &[]).code == Some(0));
        assert!(done, "{:?}", push(&store, &bag, &[]));
        assert_stored(&store.place(&format!("robot7/{fault:?}")), &bag);
    }
}

#[test]
fn every_object_that_is_lost_or_damaged_once_is_written_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let bag = record(folder.path(), "run1", 1, 1);
    for fault in [Fault::CutBefore, Fault::CutAfter, Fault::Corrupt] {
        for number in 0.. {
            let store = Store::start();
            let (mut left, hit) = (number, Arc::new(Mutex::new(None)));
            let told = hit.clone();
            store.fail(move |seen| match seen.puts() {
                Some(key) if left == 0 && told.lock().unwrap().is_none() => {
                    *told.lock().unwrap() = Some(key.to_owned());
                    fault
                }
                Some(_) => {
                    left -= u32::from(left > 0);
                    Fault::None
                }
                None => Fault::None,
            });
            let ended = push(&store, &bag, &[]);
            let hit = hit.lock().unwrap().take();
            assert_eq!(ended.code, Some(0), "{fault:?} of {hit:?}: {ended:?}");
            assert_stored(&store.place("robot7/run1"), &bag);
            if hit.is_none() {
                assert!(number > 6, "claim, files, checksums, manifest, catalogue: {number}");
                break;
            }
        }
    }
}

#[test]
fn a_store_that_is_away_when_the_catalogue_is_written_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let bag = record(folder.path(), "run1", 1, 1);
    let store = Store::start();
    let mut away_for = None;
    store.fail(move |seen| {
        if seen.puts().is_some_and(|key| key.ends_with(".parquet")) {
            away_for.get_or_insert(6);
        }
        match &mut away_for {
            Some(left) if *left > 0 => {
                *left -= 1;
                Fault::CutBefore
            }
            _ => Fault::None,
        }
    });
    push(&store, &bag, &[]).expect(0, &["verified"]);
}

#[test]
fn an_upload_of_what_a_file_was_before_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    store.fail(|seen| match seen.what.contains("partNumber=2&") {
        true => Fault::Refuse(403, "AccessDenied"),
        false => Fault::None,
    });
    push(&store, &bag, &[]).expect(1, &["do not allow this"]);
    store.work();
    store.take_seen();
    let brick = std::fs::File::options().write(true).open(bag.join("image.mcap")).unwrap();
    brick.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    push(&store, &bag, &[]).expect(0, &["verified"]);
    let seen = store.take_seen();
    assert!(seen.iter().any(|seen| seen.method == "DELETE" && seen.what.contains("uploadId=")));
    assert!(seen.iter().any(|seen| seen.what.contains("partNumber=1&")), "from its beginning");
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn an_upload_that_the_store_has_removed_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 20, 1);
    store.fail(|seen| match seen.what.contains("partNumber=2&") {
        true => Fault::Refuse(403, "AccessDenied"),
        false => Fault::None,
    });
    push(&store, &bag, &[]).expect(1, &["do not allow this"]);
    let mut removed = false;
    store.fail(move |seen| match seen.what.contains("partNumber=2&") && !removed {
        true => {
            removed = true;
            Fault::Refuse(404, "NoSuchUpload")
        }
        false => Fault::None,
    });
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn a_store_that_lies_about_its_checksum_is_found_out_by_reading_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 2, 1);
    push(&store, &bag, &[]).expect(0, &["verified"]);
    // On its disk a byte turns; what it says of the object stays.
    let place = store.place("robot7/run1/image.mcap");
    let mut contents = std::fs::read(&place).unwrap();
    contents[5000] ^= 1;
    std::fs::write(&place, contents).unwrap();
    push(&store, &bag, &["--read-back"]).expect(1, &["image.mcap differs"]);
}
