//! Three robots answer one query over Zenoh; one of them dies meanwhile.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use livebag_shm::{FrameMeta, StreamOptions, Writer};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Recording, livebag, run, stream, text, wait_until};

/// Frames of each robot: some five pages of an answer.
const FRAMES: usize = 600;
const FRAME_BYTES: usize = 64 << 10;

struct Robot {
    endpoint: String,
    recording: Option<Recording>,
    writer: Writer,
    bag: std::path::PathBuf,
}

impl Robot {
    fn begin(folder: &Path, name: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let endpoint = format!("tcp/127.0.0.1:{port}");
        let bag = folder.join(format!("run-{name}"));
        let (stream, writer) = stream(StreamOptions::bytes(FRAME_BYTES).slots(16));
        let recording = Recording::begin(
            &[
                &stream,
                "-o",
                text(&bag),
                "--serve",
                "127.0.0.1:0",
                "--zenoh",
                "--robot",
                name,
                "--zenoh-listen",
                &endpoint,
            ],
            1,
        );
        Self { endpoint, recording: Some(recording), writer, bag }
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn of_robot<'a>(lines: &'a [Value], robot: &str) -> Vec<&'a Value> {
    let prefix = format!("/{robot}/");
    lines.iter().filter(|line| line["topic"].as_str().unwrap().starts_with(&prefix)).collect()
}

#[test]
fn robots_answer_together_and_one_that_dies_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut robots: Vec<Robot> =
        ["r1", "r2", "r3"].iter().map(|name| Robot::begin(folder.path(), name)).collect();
    let payload = vec![7; FRAME_BYTES];
    for frame in 0..FRAMES {
        for robot in &mut robots {
            robot.writer.publish(&FrameMeta::default(), &payload).unwrap();
        }
        if frame % 8 == 7 || frame + 1 == FRAMES {
            for robot in &robots {
                wait_until("the frames are there", || {
                    livebag::Container::peek(&robot.bag).is_ok_and(|bag| {
                        let topic = bag.topics().first();
                        topic.is_some_and(|t| t.message_count().unwrap_or(0) == frame as u64 + 1)
                    })
                });
            }
        }
    }
    let mut connect = Vec::new();
    for robot in &robots {
        connect.extend(["--zenoh-connect", &robot.endpoint]);
    }
    let listed = run(&[&["robots", "--json"], &connect[..]].concat()).expect(0, &[]).json();
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|row| row["robot"].as_str().unwrap()).collect();
    assert_eq!(names, ["r1", "r2", "r3"]);
    assert!(listed.as_array().unwrap().iter().all(|row| row["message_count"] == FRAMES));

    let asked = |verb: &[&str]| run(&[verb, &connect[..]].concat()).expect(0, &[]).json();
    let infos = asked(&["info", "zenoh", "--json"]);
    let paths = |rows: &Value| -> Vec<String> {
        rows.as_array().unwrap().iter().map(|row| row["path"].as_str().unwrap().into()).collect()
    };
    assert_eq!(paths(&infos), ["zenoh/r1/run-r1", "zenoh/r2/run-r2", "zenoh/r3/run-r3"]);
    assert_eq!(infos[1]["message_count"], FRAMES);
    let here = run(&["info", text(&robots[1].bag), "--json"]).expect(0, &[]).json();
    assert_eq!(infos[1]["topics"][0]["end_time"], here["topics"][0]["end_time"]);
    assert!(asked(&["info", "zenoh/r2/run-r2", "--json"]).is_object());
    let rows = asked(&["ls", "zenoh", "--json"]);
    assert_eq!(paths(&rows), paths(&infos));
    assert!(rows.as_array().unwrap().iter().all(|row| row["state"] == "live"));
    run(&["ls", "zenoh/r9", "--zenoh-connect", &robots[0].endpoint]).expect(1, &["livebag robots"]);

    let one = [&["query", "zenoh/r2/*", "history", "--count"], &connect[..]].concat();
    assert_eq!(run(&one).expect(0, &[]).out.trim(), FRAMES.to_string());
    let all = [&["query", "zenoh/*/*", "history", "--json"], &connect[..]].concat();
    let whole = lines(&run(&all).expect(0, &[]).out);
    let times: Vec<u64> = whole
        .iter()
        .map(|line| line["log_time"].as_str().unwrap().parse::<u64>().unwrap())
        .collect();
    assert!(times.is_sorted(), "merged in order of time");
    for robot in ["r1", "r2", "r3"] {
        assert_eq!(of_robot(&whole, robot).len(), FRAMES);
    }
    let now = [&["query", "zenoh", "auto", "--within", "5s", "--json"], &connect[..]].concat();
    let newest = lines(&run(&now).expect(0, &[]).out);
    assert_eq!(newest[0]["log_time"], times.last().unwrap().to_string());
    let rate = format!("{}:0.001", whole[0]["topic"].as_str().unwrap());
    let fewer = [&now[..], &["--decimate", &rate, "-t", whole[0]["topic"].as_str().unwrap()]];
    assert_eq!(
        lines(&run(&fewer.concat()).expect(0, &[]).out).len(),
        1,
        "by its name in the answer"
    );

    // The asker is held up by a full pipe; its answer is not yet half there.
    let mut asker = livebag(&all).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(asker.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    let mut dead = robots[2].recording.take().unwrap();
    dead.signal(Signal::KILL);
    wait_until("the robot is dead", || dead.has_ended());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    let mut errors = String::new();
    asker.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(asker.wait().unwrap().code(), Some(3), "{errors}");
    assert!(errors.contains("zenoh/r3/run-r3 ended early"), "{errors}");
    let answered = lines(&(first + &rest));
    assert_eq!(of_robot(&answered, "r1").len(), FRAMES);
    assert_eq!(of_robot(&answered, "r2").len(), FRAMES);
    let third = of_robot(&answered, "r3").len();
    assert!(third > 0 && third < FRAMES, "{third} of the third robot's");
    for robot in &mut robots {
        if let Some(recording) = robot.recording.take() {
            recording.interrupt().expect(0, &[]);
        }
    }
}
