//! Pushes that nothing disturbs.

use std::process::Command;
use std::time::Instant;

use crate::run::{assert_stored, bytes, livebag, push, push_command, record};
use crate::store::{BUCKET, Fault, KEY, SECRET, Store};

#[test]
fn a_recording_is_whole_in_the_store_its_manifest_last_and_pushed_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 40, 1);
    assert!(bag.join("split_0001").exists(), "a recording with splits");
    push(&store, &bag, &[]).expect(0, &["s3://fleet/robot7/run1", "verified"]);
    let stored = store.place("robot7/run1");
    assert_stored(&stored, &bag);

    let puts: Vec<_> =
        store.take_seen().iter().filter_map(|seen| seen.puts().map(str::to_owned)).collect();
    assert_eq!(puts.first().unwrap(), "robot7/run1/container.claim");
    // Only the catalogue comes later.
    let [.., manifest, catalogue] = puts.as_slice() else { panic!("{puts:?}") };
    assert_eq!(manifest, "robot7/run1/container.yaml");
    assert!(catalogue.starts_with("robot7/_livebag/"), "{catalogue}");
    let of_split = |key: &&String| key.starts_with("robot7/run1/split_0001/");
    assert!(puts.iter().rfind(of_split).unwrap().ends_with("container.yaml"));

    // What other tools copy is a recording, and its checksums are those of sha256sum.
    let sums = Command::new("sha256sum")
        .args(["-c", "container.sha256"])
        .current_dir(&stored)
        .output()
        .unwrap();
    assert!(sums.status.success(), "{sums:?}");
    let verified = livebag(&["verify", stored.to_str().unwrap()]).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
    let here = livebag(&["verify", bag.to_str().unwrap()]).output().unwrap();
    assert!(here.status.success(), "the journal is in nobody's way: {here:?}");

    // Again: with the journal, without it, and from another copy.
    let copy = folder.path().join("elsewhere").join("run1");
    std::fs::create_dir(copy.parent().unwrap()).unwrap();
    let copied = Command::new("cp").arg("-r").arg(&bag).arg(&copy).status().unwrap();
    assert!(copied.success());
    for (bag, without_journal) in [(&bag, false), (&bag, true), (&copy, true)] {
        if without_journal {
            for entry in bag.read_dir().unwrap().map(Result::unwrap) {
                if entry.file_name().to_string_lossy().starts_with(".push-") {
                    std::fs::remove_file(entry.path()).unwrap();
                }
            }
        }
        push(&store, bag, &[]).expect(0, &["was there already"]);
        let sent: Vec<_> = store
            .take_seen()
            .into_iter()
            .filter(|seen| seen.method != "GET" && seen.method != "HEAD")
            .collect();
        assert!(sent.is_empty(), "{sent:?}");
    }
}

#[test]
fn an_event_that_was_added_later_is_pushed_too() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 1, 1);
    let event = |name: &str| {
        let added =
            livebag(&["event", bag.to_str().unwrap(), name, "--from", "+0s"]).output().unwrap();
        assert!(added.status.success(), "{added:?}");
    };
    event("first");
    push(&store, &bag, &[]).expect(0, &["verified"]);
    event("second");
    push(&store, &bag, &[]).expect(0, &["1 file sent"]);
    assert_stored(&store.place("robot7/run1"), &bag);
    let stored = store.place("robot7/run1");
    let sums = Command::new("sha256sum")
        .args(["-c", "container.sha256"])
        .current_dir(&stored)
        .output()
        .unwrap();
    assert!(sums.status.success(), "{sums:?}");
    // Events that are only there are not lost.
    std::fs::write(bag.join("container.events"), b"").unwrap();
    push(&store, &bag, &[]).expect(1, &["container.events differs from"]);
}

#[test]
fn events_and_the_topics_that_are_wanted_first_come_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 40, 1);
    let event = livebag(&["event", bag.to_str().unwrap(), "stop", "--from", "+0s"]).output();
    assert!(event.unwrap().status.success());
    push(&store, &bag, &["--first", "image"]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
    // Large files are sent in parts: begun by a POST, ended by another.
    let mut order: Vec<String> = Vec::new();
    for seen in store.take_seen().iter().filter(|seen| seen.is_part() || seen.puts().is_some()) {
        let key = seen.what.split('?').next().unwrap().trim_start_matches("robot7/run1/");
        if order.last().is_none_or(|last| last != key) {
            order.push(key.to_owned());
        }
    }
    let at = |name: &str| {
        order.iter().position(|key| key == name).unwrap_or_else(|| panic!("{name}: {order:?}"))
    };
    assert_eq!((at("container.claim"), at("container.events")), (0, 1), "{order:?}");
    let images = ["image.mcap", "split_0001/image.mcap"].map(at);
    let others = ["imu.mcap", "split_0001/imu.mcap", "split_0001/container.yaml"].map(at);
    assert!(images.iter().max() < others.iter().min(), "{order:?}");
}

#[test]
fn small_files_are_sent_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 40, 1);
    let mut waiting = 0;
    store.fail(move |seen| {
        if waiting == 2 || seen.puts().is_none_or(|key| !key.ends_with(".idx")) {
            return Fault::None;
        }
        waiting += 1;
        Fault::WaitForAnother
    });
    push(&store, &bag, &["--give-up-after", "1s"]).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
    // A split's manifest is there after its files.
    let seen = store.take_seen();
    let keys: Vec<_> = seen.iter().filter_map(|seen| seen.puts()).collect();
    let last = keys.iter().rposition(|key| key.contains("/split_0001/")).unwrap();
    assert!(keys[last].ends_with("/split_0001/container.yaml"), "{keys:?}");
}

#[test]
fn json_lines_say_what_became_of_each_recording() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 2, 1);
    let missing = folder.path().join("run2");
    let third = record(folder.path(), "run3", 1, 3);
    let bags = [&bag, &missing, &third].map(|bag| bag.to_str().unwrap());
    let mut command = livebag(&[&["push"], &bags[..]].concat());
    command
        .args([&format!("s3://{BUCKET}/robot7"), "--json"])
        .env("AWS_ENDPOINT_URL", &store.endpoint);
    command.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    let ended =
        crate::run::Ended::from(command.output().unwrap()).expect(1, &["run2 cannot be pushed"]);
    let lines: Vec<serde_json::Value> =
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends: Vec<_> = lines.iter().filter(|line| line["state"] != "pushing").collect();
    assert_eq!(ends[0]["state"], "pushed");
    assert_eq!(ends[0]["size_bytes"], bytes(&bag));
    assert!(lines.iter().all(|line| line["target"] == "s3://fleet/robot7"), "{lines:?}");
    assert_eq!(ends[0]["address"], "s3://fleet/robot7/run1");
    assert!(ends[0]["sent_bytes"].as_u64().unwrap() >= bytes(&bag));
    assert_eq!(ends[1]["state"], "failed");
    assert!(ends[1]["error"].as_str().unwrap().contains("run2 cannot be pushed"));
    assert_eq!(ends[2]["state"], "pushed");
    assert_stored(&store.place("robot7/run3"), &third);
}

#[test]
fn a_rate_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 10, 1);
    let began = Instant::now();
    push(&store, &bag, &["--max-rate", "40Mbit/s"]).expect(0, &["verified"]);
    // How fast it could be is the machine's affair.
    let least = bytes(&bag) as f64 / 5e6 - 0.2;
    assert!(began.elapsed().as_secs_f64() >= least, "{:?} for {least} s", began.elapsed());
}

#[test]
fn a_profile_has_credentials_and_region_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = record(folder.path(), "run1", 1, 1);
    let (credentials, config) = (folder.path().join("credentials"), folder.path().join("config"));
    std::fs::write(
        &credentials,
        format!("[fleet]\naws_access_key_id={KEY}\naws_secret_access_key={SECRET}\n"),
    )
    .unwrap();
    std::fs::write(
        &config,
        format!("[profile fleet]\nregion = eu-west-1\nendpoint_url = {}\n", store.endpoint),
    )
    .unwrap();
    let mut command = livebag(&["push", bag.to_str().unwrap(), "s3://fleet/robot7"]);
    command
        .env("AWS_PROFILE", "fleet")
        .env("AWS_CONFIG_FILE", config)
        .env("AWS_SHARED_CREDENTIALS_FILE", credentials);
    crate::run::Ended::from(command.output().unwrap()).expect(0, &["verified"]);
    assert_stored(&store.place("robot7/run1"), &bag);
}

#[test]
fn a_live_recording_is_not_pushed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::start();
    let bag = folder.path().join("run1");
    let recorder = livebag::Recorder::create(&bag, livebag::RecorderOptions::default()).unwrap();
    push(&store, &bag, &[]).expect(1, &["it is being recorded"]);
    recorder.finish().unwrap();
    push(&store, &bag, &[]).expect(0, &["verified"]);
    assert!(
        push_command(&store, folder.path(), &[]).output().unwrap().status.code() == Some(1),
        "no recording"
    );
}
