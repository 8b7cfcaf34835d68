//! Recordings of one name.

use crate::run::{assert_stored, push, record};
use crate::store::{Fault, Store};

#[test]
fn another_recording_of_a_name_is_refused_and_nothing_of_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let (one, other) =
        (record(folder.path(), "run1", 2, 1), record(&folder.path().join("b"), "run1", 2, 2));
    push(&store, &one, &[]).expect(0, &["verified"]);
    store.take_seen();
    push(&store, &other, &[]).expect(1, &["belongs to another recording", "--name"]);
    assert!(store.take_seen().iter().all(|seen| seen.method == "GET" || seen.method == "HEAD"));
    push(&store, &other, &["--name", "run2"]).expect(0, &["robot7/run2"]);
    assert_stored(&store.place("robot7/run1"), &one);
    assert_stored(&store.place("robot7/run2"), &other);
}

#[test]
fn names_that_cannot_be_read_again_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    for name in ["run?1", "run#1", "run\n1"] {
        let bag = record(folder.path(), name, 1, 1);
        push(&store, &bag, &[]).expect(1, &["cannot be pushed", "--name"]);
        assert!(store.take_seen().is_empty());
        push(&store, &bag, &["--name", "run1"]).expect(0, &["verified"]);
        std::fs::remove_dir_all(store.place("robot7/run1")).unwrap();
        store.take_seen();
    }
}

#[test]
fn two_robots_that_begin_under_one_name_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let (one, other) =
        (record(folder.path(), "run1", 9, 1), record(&folder.path().join("b"), "run1", 9, 2));
    // The first is interrupted after its claim and its first objects.
    let mut puts = 0;
    store.fail(move |seen| {
        puts += usize::from(seen.puts().is_some());
        if puts > 3 { Fault::Refuse(403, "AccessDenied") } else { Fault::None }
    });
    push(&store, &one, &[]).expect(1, &["do not allow this"]);
    store.work();
    push(&store, &other, &[])
        .expect(1, &["belongs to another recording", "another push has begun"]);
    push(&store, &one, &[]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &one);
    // And with only the race of the claims: both have seen that there is none.
    let wins = store.place("robot7/run3/container.claim");
    let (claim, folder_of_claim) = (wins.clone(), wins.parent().unwrap().to_owned());
    store.fail(move |seen| {
        if seen.puts() == Some("robot7/run3/container.claim") {
            std::fs::create_dir_all(&folder_of_claim).unwrap();
            std::fs::write(&claim, "of another robot").unwrap();
        }
        Fault::None
    });
    push(&store, &other, &["--name", "run3"]).expect(1, &["another push has begun"]);
    assert_eq!(std::fs::read(wins).unwrap(), b"of another robot");
}

#[test]
fn objects_that_no_push_has_sent_are_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 1, 1);
    let place = store.place("robot7/run1");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("image.mcap"), b"half of another recording").unwrap();
    push(&store, &bag, &[]).expect(1, &["no push has put there"]);
    assert_eq!(std::fs::read(place.join("image.mcap")).unwrap(), b"half of another recording");
}

#[test]
fn a_complete_recording_in_the_store_is_not_replaced_by_a_damaged_copy() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 2, 1);
    push(&store, &bag, &[]).expect(0, &["verified"]);
    let brick = bag.join("image.mcap");
    let whole = std::fs::read(&brick).unwrap();
    let mut damaged = whole.clone();
    damaged[1000] ^= 1;
    std::fs::write(&brick, &damaged).unwrap();
    push(&store, &bag, &[]).expect(1, &["image.mcap differs from", "livebag verify"]);
    assert_eq!(std::fs::read(store.place("robot7/run1/image.mcap")).unwrap(), whole);
}
