//! Pictures, tables and videos.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use livebag_shm::{FrameMeta, StreamOptions};

use crate::common::{Ended, Recording, livebag, run, stream, text, wait_until};

/// A recording of two images and three numbers; its topics.
fn record(path: &Path) -> (String, String) {
    let (camera, mut images) = stream(StreamOptions::image(4, 2, 3).slots(8));
    let (number, mut numbers) = stream(StreamOptions::message("std_msgs/msg/UInt8", 8).slots(8));
    let recording = Recording::begin(&[&camera, &number, "-o", text(path)], 2);
    for at in 0..3 {
        if at < 2 {
            images.publish(&FrameMeta::image(4, 2, 12, "rgb8"), &[at; 24]).unwrap();
        }
        numbers.publish(&FrameMeta::bytes(), &[0, 1, 0, 0, at + 7]).unwrap();
    }
    wait_until("all is recorded", || {
        run(&["info", text(path), "--json"]).json()["message_count"] == 5
    });
    recording.interrupt().expect(0, &[]);
    let info = run(&["info", text(path), "--json"]).json();
    let name = |type_name| {
        let topics = info["topics"].as_array().unwrap();
        let topic = topics.iter().find(|topic| topic["type"] == type_name).unwrap();
        topic["name"].as_str().unwrap().to_owned()
    };
    (name("sensor_msgs/msg/Image"), name("std_msgs/msg/UInt8"))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

#[test]
fn images_and_tables_are_made_of_the_topics_and_times_that_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let (camera, number) = record(&path);
    let out = folder.path().join("out");
    let arguments = ["export", text(&path), text(&out), "--images", "png", "--csv", "--json"];
    let summary = run(&arguments).expect(0, &[]).json();
    assert_eq!(summary["message_count"], 5);
    let images = out.join(camera.trim_start_matches('/').replace('/', "."));
    let pictures = names(&images);
    assert_eq!(pictures.len(), 2);
    let picture = std::fs::read(images.join(&pictures[0])).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    let file = format!("{}.csv", number.trim_start_matches('/').replace('/', "."));
    let table = std::fs::read_to_string(out.join(file)).unwrap();
    let rows: Vec<_> = table.lines().collect();
    assert_eq!(rows[0], "log_time,publish_time,sequence,data");
    assert_eq!(rows.len(), 4);
    assert!(rows[3].ends_with(",9"), "{table}");

    run(&arguments).expect(1, &["exists already"]);
    let one = folder.path().join("one");
    let chosen = ["export", text(&path), "-o", text(&one), "--csv", "-t", &number, "--from", "+0s"];
    run(&chosen).expect(0, &[]);
    assert_eq!(names(&one).len(), 1);
    run(&["export", text(&path), text(&out)]).expect(2, &["--images png"]);
    let jpeg = folder.path().join("jpeg");
    run(&["export", text(&path), text(&jpeg), "--images", "jpeg"])
        .expect(0, &["left out", &number]);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_are_made_of_the_topics_that_are_no_pictures() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let (camera, number) = record(&path);
    let file = |topic: &str| format!("{}.parquet", topic.trim_start_matches('/').replace('/', "."));
    let rows = |path: &Path| {
        let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
        reader.metadata().file_metadata().num_rows()
    };
    let all = folder.path().join("all");
    let summary = run(&["export", text(&path), text(&all), "--parquet", "--csv", "--json"]);
    let summary = summary.expect(0, &[]).json();
    assert_eq!(summary["message_count"], 5);
    assert_eq!(names(&all).len(), 3, "{summary:#}");
    assert_eq!((rows(&all.join(file(&camera))), rows(&all.join(file(&number)))), (2, 3));

    let beside = folder.path().join("beside");
    run(&["export", text(&path), text(&beside), "--parquet", "--images", "png"]).expect(0, &[]);
    let folder_of_images = camera.trim_start_matches('/').replace('/', ".");
    let mut both = [file(&number), folder_of_images];
    both.sort();
    assert_eq!(names(&beside), both);
    let part = folder.path().join("part");
    let from = ["--from", "2100-01-01T00:00:00Z"];
    run(&["export", text(&path), text(&part), "--parquet", from[0], from[1]]).expect(0, &[]);
    assert_eq!(names(&part).len(), 0);
}

#[test]
fn videos_are_made_by_ffmpeg_or_refused_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let (camera, _) = record(&path);
    let out = folder.path().join("out");
    let export = |programs: &Path| -> Ended {
        let mut command = livebag(&["export", text(&path), text(&out), "--video", "mp4"]);
        let programs = std::env::join_paths([programs, Path::new("/usr/bin"), Path::new("/bin")]);
        command.env("PATH", programs.unwrap()).output().unwrap().into()
    };
    // A fake that writes its arguments instead of the video.
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let ffmpeg = programs.join("ffmpeg");
    let broken = "#!/bin/sh\necho broken >&2; exit 1\n";
    std::fs::write(&ffmpeg, broken).unwrap();
    std::fs::set_permissions(&ffmpeg, PermissionsExt::from_mode(0o755)).unwrap();
    export(&programs).expect(1, &["needs ffmpeg"]);
    assert!(!out.exists());
    let script = "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -i ] && list=$2; last=$1; shift; done\n\
                  [ -z \"$list\" ] || cat \"$list\" > \"$last\"\n";
    std::fs::write(&ffmpeg, script).unwrap();
    export(&programs).expect(0, &[]);
    let name = camera.trim_start_matches('/').replace('/', ".");
    assert_eq!(names(&out), [format!("{name}.mp4")]);
    let list = std::fs::read_to_string(out.join(format!("{name}.mp4"))).unwrap();
    assert_eq!(list.matches("\nfile ").count(), 2, "{list}");
    assert_eq!(list.matches("\nduration ").count(), 2, "{list}");
}
