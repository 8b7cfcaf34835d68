//! The demonstration, small.

use crate::common::{run, text};

/// The demonstration's output. A machine may be too slow for it at the moment: then losses are counted, and the exit
/// code shows them.
fn demonstrate(arguments: &[&str], says: &[&str]) -> serde_json::Value {
    let ended = run(arguments);
    let code = ended.code;
    let said = ended.expect(code, says).json();
    assert_eq!(code, if said["lost"]["total"] == 0 { 0 } else { 3 }, "{said}");
    said
}

#[test]
fn a_short_demonstration_records_and_leaves_no_streams() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bag = folder.path().join("demo");
    let arguments = ["demo", "--duration", "1", "--cameras", "1", "--json", "-o", text(&bag)];
    let before = livebag_shm::list().unwrap();
    let said = demonstrate(&arguments, &["1 FullHD camera"]);
    assert_eq!(said["cameras"], 1);
    assert!(said["recorder_cpu_s"].is_number(), "{said}");
    let names: Vec<_> = said["topics"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    for topic in ["/camera_1/image", "/lidar/points", "/imu/data"] {
        assert!(names.iter().any(|name| *name == topic), "{topic} of {names:?}");
    }
    let info = run(&["info", text(&bag), "--json"]).expect(0, &[]).json();
    assert_eq!(info["state"], "closed");
    assert_eq!(info["message_count"], said["message_count"]);
    assert!(info["message_count"].as_u64().unwrap() > 0);
    let left = livebag_shm::list().unwrap();
    let own = |name: &&String| {
        name.starts_with("demo-") && !before.contains(*name) && !is_of_another(name)
    };
    assert_eq!(left.iter().find(own), None);
}

/// Whether the demonstration that the stream is named after still runs: then it is not this test's.
fn is_of_another(stream: &str) -> bool {
    let number = stream.trim_start_matches("demo-").split('.').next().unwrap_or_default();
    std::path::Path::new("/proc").join(number).exists()
}

#[test]
fn real_frames_are_published_again_and_again_if_shared_data_is_there() {
    let real = std::path::Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap())
        .join("../../../shared/data/do.bag");
    if !real.exists() {
        println!("SKIPPED: {} is not here", real.display());
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bag = folder.path().join("demo");
    let arguments = ["demo", "--real", text(&real), "--duration", "1", "--json", "-o", text(&bag)];
    let said = demonstrate(&arguments, &[]);
    let topics = said["topics"].as_array().unwrap();
    assert_eq!(topics.len(), 6);
    let depth = topics.iter().find(|topic| topic["name"] == "/camera/depth/image").unwrap();
    assert_eq!(depth["type"], "sensor_msgs/msg/Image");
    let published =
        depth["message_count"].as_u64().unwrap() + depth["lost"]["total"].as_u64().unwrap();
    assert!(published > 1, "looped: {depth}");
}

#[test]
fn a_demonstration_that_cannot_be_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none/demo");
    run(&["demo", "--duration", "1", "-o", text(&missing)]).expect(1, &["none"]);
    run(&["demo", "--duration", "0"]).expect(2, &["above zero"]);
    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, "no recording").unwrap();
    run(&["demo", "--real", text(&foreign), "-o", text(&folder.path().join("bag"))])
        .expect(1, &["no recording"]);
}
