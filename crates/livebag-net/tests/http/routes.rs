//! Every address, and every kind of invalid request.

use livebag::RecorderOptions;
use serde_json::json;

use super::client::{Client, ask, get};
use super::fixture::{Recording, START_NANOS, STEP_NANOS, Site, messages, of_topic, text_topic};

#[test]
fn the_index_leads_everywhere() {
    let (site, _) = Site::new();
    let index = get(site.address(), "/").must(200).json();
    for name in ["bags", "status", "description"] {
        let link = index[name].as_str().unwrap();
        let there = get(site.address(), link).must(200);
        assert_eq!(there.header("content-type"), Some("application/json"));
        assert_eq!(there.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(get(site.address(), "/openapi.json").text(), livebag_net::OPENAPI);
}

#[test]
fn recordings_are_listed_and_described() {
    let (site, known) = Site::new();
    let bags = get(site.address(), "/v1/bags").must(200).json();
    assert_eq!(bags.as_array().unwrap().len(), 1);
    let row = &bags[0];
    assert_eq!(
        (&row["name"], &row["state"], &row["message_count"], &row["topic_count"]),
        (&json!("run1"), &json!("closed"), &json!(100), &json!(2))
    );
    assert_eq!(row["start_time"], START_NANOS.to_string());
    assert_eq!(row["end_time"], known.last().unwrap().1.to_string());
    let files = site.folder.path().join("run1").read_dir().unwrap();
    let bytes: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(row["size_bytes"], bytes);
    let info = get(site.address(), "/v1/bags/run1").must(200).json();
    assert_eq!(info["name"], "run1");
    assert_eq!(info["lost"]["total"], 0);
    let topics = info["topics"].as_array().unwrap();
    assert_eq!((&topics[0]["name"], &topics[1]["name"]), (&json!("/text"), &json!("/camera")));
    assert_eq!(topics[1]["type"], "sensor_msgs/msg/Image");
    assert_eq!(
        (&topics[0]["message_count"], &topics[1]["message_count"]),
        (&json!(50), &json!(50))
    );
    assert!((topics[0]["rate_hz"].as_f64().unwrap() - 50.0).abs() < 1e-6);
}

#[test]
fn the_status_counts_answers() {
    let (site, _) = Site::new();
    let answer = get(site.address(), "/v1/bags/run1/latest").must(200);
    let status = get(site.address(), "/v1/status").must(200).json();
    assert_eq!((&status["answered"], &status["refused"]), (&json!(1), &json!(0)));
    assert_eq!(status["bytes"], answer.body.len());
    assert!(status["connections"].as_u64().unwrap() >= 1);
    assert_eq!(site.server.take_timings().len(), 1);
    assert_eq!((&status["viewer"], &status["robots"]), (&json!(false), &json!(false)));
    assert_eq!(get(site.address(), "/v1/robots").must(200).json(), json!([]));
}

#[test]
fn latest_and_history_give_what_was_asked_for() {
    let (site, known) = Site::new();
    let end = known.last().unwrap().1;
    let all = get(site.address(), "/v1/bags/run1/history").must(200);
    assert_eq!(messages(&all.body), known);
    let (from, to) = (START_NANOS + 20 * STEP_NANOS, START_NANOS + 29 * STEP_NANOS);
    let (from_seconds, to_seconds) = ("1700000000.2", "2023-11-14T22:13:20.29Z");
    // The same times in every form that there is.
    for span in [
        format!("from={from}&to={to}"),
        format!("from={from_seconds}&to={to_seconds}"),
        "from=%2B0.2&to=%2B290ms".to_owned(),
        "from=200ms&to=0.29s".to_owned(),
    ] {
        let part = get(site.address(), &format!("/v1/bags/run1/history?{span}")).must(200);
        assert_eq!(messages(&part.body), known[20..30], "{span}");
    }
    let latest = |query: &str| {
        messages(&get(site.address(), &format!("/v1/bags/run1/latest?{query}")).must(200).body)
    };
    let since = |nanos| known.iter().filter(|m| m.1 >= end - nanos).cloned().collect::<Vec<_>>();
    assert_eq!(latest(""), known);
    assert_eq!(latest("last=100ms"), since(100_000_000));
    assert_eq!(latest("last=0"), since(0));
    assert_eq!(latest("last=9223372036s"), known);
    assert_eq!(latest("topic=/text"), of_topic(&known, "/text"));
    assert_eq!(latest("topic=text"), of_topic(&known, "/text"), "the slash may be left out");
    assert_eq!(latest("topic=%2Ftext&topic=/camera"), known);
    // Twice the same is once.
    assert_eq!(latest("topic=/text&topic=/text"), of_topic(&known, "/text"));
}

#[test]
fn what_is_wrong_is_said() {
    let (site, _) = Site::new();
    let long = "x".repeat(2000);
    for (target, status, word) in [
        ("/nowhere", 404, "openapi.json"),
        ("/v1/bags/", 404, "openapi.json"),
        ("/v1", 404, "openapi.json"),
        ("/v1/bags/run2", 404, "run2"),
        ("/v1/bags/run2/latest", 404, "run2"),
        ("/bags/run2.mcap", 404, "run2"),
        ("/bags/run1", 404, "openapi.json"),
        ("/?x=1", 400, "`x`"),
        ("/openapi.json?x=1", 400, "`x`"),
        ("/v1/status?x=1", 400, "`x`"),
        ("/v1/bags?x=1", 400, "`x`"),
        ("/v1/bags/run1?x=1", 400, "`x`"),
        ("/v1/bags/run1/latest?lsat=1s", 400, "`lsat`"),
        ("/v1/bags/run1/latest?last=1s&last=2s", 400, "2 times"),
        ("/v1/bags/run1/latest?last=-1s", 400, "duration"),
        ("/v1/bags/run1/latest?last=NaN", 400, "duration"),
        ("/v1/bags/run1/latest?last=1e999", 400, "duration"),
        ("/v1/bags/run1/latest?from=1", 400, "`from`"),
        ("/v1/bags/run1/history?from=yesterday", 400, "time"),
        ("/v1/bags/run1/history?from=9&to=5", 400, "after"),
        ("/v1/bags/run1/history?from=99999999999999999999999", 400, "time"),
        ("/v1/bags/run1/latest?topic=", 400, "topic"),
        ("/v1/bags/run1/latest?topic=%ff", 400, "UTF-8"),
        ("/v1/bags/run1/latest?topic=%2", 400, "UTF-8"),
        ("/v1/bags/run1/latest?topic=/none", 404, "/none"),
        ("/v1/bags/run1/latest?format=xml", 400, "xml"),
        ("/v1/bags/run1/latest?format=mcap&decode=true", 400, "jsonl"),
        ("/v1/bags/run1/latest?format=jsonl&decode=maybe", 400, "maybe"),
        ("/v1/bags/run1/latest?array_items=1048577", 400, "array_items"),
        ("/v1/bags/run1/auto?within=0", 400, "within"),
        ("/v1/bags/run1/auto?within=61s", 400, "within"),
        ("/v1/bags/run1/auto?decimate=/text:0", 400, "decimation"),
        ("/v1/bags/run1/auto?decimate=/text:inf", 400, "decimation"),
        ("/v1/bags/run1/message", 400, "0 topics"),
        ("/v1/bags/run1/message?topic=/text&topic=/camera", 400, "2 topics"),
        ("/v1/bags/run1/message?topic=/none", 404, "/none"),
        ("/v1/bags/run1/message?topic=/text&at=1", 404, "no message"),
        ("/v1/bags/run1/message?topic=/text&format=png", 422, "sensor_msgs/msg/Image"),
        ("/v1/bags/run1/message?topic=/text&format=gif", 400, "gif"),
        ("/v1/bags/run1/latest?access_token=x", 400, "access_token"),
        ("/v1/bags/%ff/latest", 400, "UTF-8"),
        ("/bags/%ff.mcap", 400, "UTF-8"),
    ] {
        let refused = get(site.address(), target);
        assert_eq!(refused.status, status, "{target}: {}", refused.text());
        let error = refused.error();
        assert!(error.contains(word), "{target}: {error}");
        let folder = site.folder.path().to_str().unwrap();
        assert!(!error.contains(folder), "{target} tells where recordings lie: {error}");
    }
    // The request is not repeated at length.
    for target in [
        format!("/v1/bags/{long}"),
        format!("/v1/bags/run1/latest?topic={long}"),
        format!("/v1/bags/run1/latest?{long}=1"),
        format!("/v1/bags/run1/latest?last={long}"),
        format!("/v1/bags/run1/history?from={long}"),
        format!("/v1/bags/run1/latest?format={long}"),
        format!("/v1/bags/run1/auto?decimate={long}"),
        format!("/v1/bags/run1/latest?array_items={long}"),
    ] {
        let refused = get(site.address(), &target);
        assert!(matches!(refused.status, 400 | 404), "{}", refused.status);
        assert!(refused.error().len() < 500, "{}", refused.text());
    }
    let many = format!("/v1/bags/run1/latest?{}", "topic=a&".repeat(1001));
    assert!(get(site.address(), &many).must(400).error().contains("1001"));
}

#[test]
fn recordings_are_only_read() {
    let (site, _) = Site::new();
    for target in ["/", "/v1/bags", "/v1/bags/run1/latest", "/bags/run1.mcap", "/nowhere"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "BREW"] {
            if (method, target) == ("CONNECT", "/") || method == "CONNECT" {
                continue;
            }
            let refused = ask(site.address(), method, target, &[]).must(405);
            assert_eq!(refused.header("allow"), Some("GET, HEAD, OPTIONS"));
        }
    }
    for target in ["/", "/openapi.json", "/v1/status", "/v1/bags", "/v1/bags/run1"] {
        let (head, whole) = (ask(site.address(), "HEAD", target, &[]), get(site.address(), target));
        assert_eq!(head.status, 200);
        assert_eq!(head.header("content-length"), whole.header("content-length"), "{target}");
    }
    // What their heads would be is known only once the answer is.
    for name in ["latest", "history", "auto"] {
        let refused = ask(site.address(), "HEAD", &format!("/v1/bags/run1/{name}"), &[]).must(405);
        assert_eq!(refused.header("allow"), Some("GET"));
    }
    let head = ask(site.address(), "HEAD", "/v1/bags/run1/message?topic=/text", &[]).must(200);
    assert_eq!(head.header("livebag-type"), Some("std_msgs/msg/String"));
}

#[test]
fn one_connection_asks_many_times() {
    let (site, known) = Site::new();
    let mut client = Client::connect(site.address());
    for _ in 0..50 {
        client.ask("GET", "/v1/bags", &[]).must(200);
        let answer = client.ask("GET", "/v1/bags/run1/latest?last=100ms", &[]).must(200);
        assert_eq!(messages(&answer.body), known[known.len() - 11..]);
        client.ask("GET", "/nowhere", &[]).must(404);
        client.ask("HEAD", "/bags/run1.mcap", &[]).must(200);
    }
    // All at once on one connection, answered in order.
    for _ in 0..20 {
        client.send("GET", "/v1/bags/run1/latest?topic=/text&last=0", &[]);
        client.send("GET", "/nowhere", &[]);
    }
    for _ in 0..20 {
        client.response(false).unwrap().must(200);
        client.response(false).unwrap().must(404);
    }
}

#[test]
fn a_recording_without_messages_has_answers_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("empty"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    let site = Site::over(folder, Default::default());
    for _ in 0..2 {
        assert_eq!(get(site.address(), "/v1/bags/empty").must(200).json()["message_count"], 0);
        for name in ["latest", "history", "auto"] {
            let answer = get(site.address(), &format!("/v1/bags/empty/{name}")).must(200);
            assert_eq!(messages(&answer.body), [], "{name}");
        }
        let lines = get(site.address(), "/v1/bags/empty/latest?format=jsonl").must(200);
        assert_eq!(lines.body, b"");
        get(site.address(), "/v1/bags/empty/message?topic=/text").must(404);
        assert_eq!(messages(&get(site.address(), "/bags/empty.mcap").must(200).body), []);
        site.later();
    }
    recording.finish();
}
