//! Recordings that appear and vanish while they are served, and their names.

use livebag::RecorderOptions;
use serde_json::Value;

use super::client::get;
use super::fixture::{
    Recording, Site, camera_topic, messages, record_all, text, text_topic, write_all,
};

fn names(site: &Site) -> Vec<String> {
    let bags = get(site.address(), "/v1/bags").must(200).json();
    let name = |container: &Value| container["name"].as_str().unwrap().to_owned();
    bags.as_array().unwrap().iter().map(name).collect()
}

#[test]
fn recordings_come_and_go() {
    let (site, _) = Site::new();
    let root = site.folder.path().to_owned();
    let known = record_all(&root.join("day/run2"), 10);
    assert_eq!(names(&site), ["run1"], "one look a second");
    site.later();
    assert_eq!(names(&site), ["day.run2", "run1"]);
    let answer = get(site.address(), "/v1/bags/day.run2/latest").must(200);
    assert_eq!(messages(&answer.body), known);
    // An unknown name is searched for.
    record_all(&root.join("run3"), 10);
    site.later();
    get(site.address(), "/v1/bags/run3").must(200);

    std::fs::remove_dir_all(root.join("run1")).unwrap();
    for target in ["/v1/bags/run1", "/v1/bags/run1/latest", "/bags/run1.mcap"] {
        assert!(get(site.address(), target).must(404).error().contains("gone"), "{target}");
    }
    site.later();
    assert_eq!(names(&site), ["day.run2", "run3"]);
    get(site.address(), "/v1/bags/run1").must(404);
    // Another under the same name is another recording.
    let known = record_all(&root.join("run1"), 20);
    site.later();
    let answer = get(site.address(), "/v1/bags/run1/history").must(200);
    assert_eq!(messages(&answer.body), known);
}

#[test]
fn a_recording_that_is_made_anew_is_read_anew() {
    let (site, _) = Site::new();
    let file = get(site.address(), "/bags/run1.mcap").must(200);
    let path = site.folder.path().join("run1");
    std::fs::remove_dir_all(&path).unwrap();
    let mut recording = Recording::new(&path, RecorderOptions::default());
    recording.add(text_topic("/other"));
    recording.write("/other", text("new"));
    let known = recording.finish();
    site.later();
    let answer = get(site.address(), "/v1/bags/run1/history").must(200);
    assert_eq!(messages(&answer.body), known);
    let again = get(site.address(), "/bags/run1.mcap").must(200);
    assert_ne!(again.header("etag"), file.header("etag"));
    assert_eq!(
        messages(&again.body),
        known,
        "the old virtual file is not that of the new recording"
    );
}

#[test]
fn a_live_recording_shows_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.add(camera_topic("/camera"));
    let site = Site::over(folder, Default::default());
    for _ in 0..5 {
        write_all(&mut recording, 30);
        recording.settle();
        site.later();
        let info = get(site.address(), "/v1/bags/run1").must(200).json();
        assert_eq!(info["state"], "live");
        assert_eq!(info["message_count"], recording.known.len());
        let answer = get(site.address(), "/v1/bags/run1/history").must(200);
        assert_eq!(messages(&answer.body), recording.known);
    }
    recording.finish();
    site.later();
    assert_eq!(get(site.address(), "/v1/bags/run1").must(200).json()["state"], "closed");
}

#[test]
fn names_are_plain_and_no_two_are_alike() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a b", "a?b", "a/b", "ü", ".hidden", "x/y/z", "..x"] {
        record_all(&folder.path().join(name), 2);
    }
    let site = Site::over(folder, Default::default());
    let names = names(&site);
    assert_eq!(names.len(), 7, "{names:?}");
    for name in &names {
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b)), "{name}");
        assert!(!name.starts_with('.'), "{name}");
        assert_eq!(
            get(site.address(), &format!("/v1/bags/{name}")).must(200).json()["name"],
            **name
        );
        get(site.address(), &format!("/bags/{name}.mcap")).must(200);
    }
}

#[test]
fn a_damaged_recording_does_not_hide_the_others() {
    let (site, known) = Site::new();
    let root = site.folder.path();
    for (name, manifest) in
        [("broken", "livebag_container: [1"), ("newer", "livebag_container: 99")]
    {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("container.yaml"), manifest).unwrap();
    }
    site.later();
    assert_eq!(names(&site), ["run1"]);
    for name in ["broken", "newer"] {
        for target in [format!("/v1/bags/{name}"), format!("/bags/{name}.mcap")] {
            let error = get(site.address(), &target).must(500).error();
            assert!(error.contains("container.yaml"), "{error}");
        }
    }
    assert_eq!(messages(&get(site.address(), "/v1/bags/run1/history").must(200).body), known);
}
