//! The virtual file: ranges, and a recording that grows while it is read.

use livebag::{Recorder, RecorderOptions, Retention};
use livebag_net::limits::VIRTUAL_FILE_PATIENCE;
use std::net::SocketAddr;

use super::client::{Response, ask, get};
use super::fixture::{
    Known, Recording, START_NANOS, STEP_NANOS, Site, camera_topic, messages, of_topic, sorted,
    text, text_topic, wait_for, write_all,
};

const FILE: &str = "/bags/run1.mcap";

fn range(address: SocketAddr, target: &str, range: &str) -> Response {
    ask(address, "GET", target, &[("Range", range)])
}

/// The length, as a reader asks for it.
fn length(address: SocketAddr, target: &str) -> u64 {
    let head = ask(address, "HEAD", target, &[]).must(200);
    assert_eq!(head.header("accept-ranges"), Some("bytes"));
    head.header("content-length").unwrap().parse().unwrap()
}

/// All of a file of `bytes`, in ranges of uneven lengths.
fn by_ranges(address: SocketAddr, target: &str, bytes: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut step = 1;
    while (file.len() as u64) < bytes {
        let first = file.len() as u64;
        let last = (first + step - 1).min(bytes - 1);
        let part = range(address, target, &format!("bytes={first}-{last}")).must(206);
        let said = part.header("content-range").unwrap();
        assert!(said.starts_with(&format!("bytes {first}-{last}/")), "{said}");
        assert_eq!(part.body.len() as u64, last - first + 1);
        file.extend_from_slice(&part.body);
        step = step * 3 + 1;
    }
    file
}

#[test]
fn the_whole_file_is_the_recording() {
    let (site, known) = Site::new();
    let whole = get(site.address(), FILE).must(200);
    assert_eq!(whole.header("content-type"), Some("application/mcap"));
    assert_eq!(whole.header("content-disposition"), Some("inline; filename=\"run1.mcap\""));
    assert_eq!(sorted(&messages(&whole.body)), sorted(&known));
    let bytes = length(site.address(), FILE);
    assert_eq!(whole.body.len() as u64, bytes);
    assert!(by_ranges(site.address(), FILE, bytes) == whole.body, "ranges give the same bytes");
}

#[test]
fn topics_and_times_are_chosen_in_the_address() {
    let (site, known) = Site::new();
    let file =
        |query: &str| messages(&get(site.address(), &format!("{FILE}?{query}")).must(200).body);
    assert_eq!(file("topic=/text"), of_topic(&known, "/text"));
    let (from, to) = (START_NANOS + 10 * STEP_NANOS, START_NANOS + 19 * STEP_NANOS);
    assert_eq!(sorted(&file(&format!("from={from}&to={to}"))), sorted(&known[10..20].to_vec()));
    assert_eq!(file("topic=camera&from=500ms&to=600ms").len(), 5);
    assert_eq!(file("from=500s"), []);
    get(site.address(), &format!("{FILE}?topic=/none")).must(404);
    get(site.address(), &format!("{FILE}?last=1s")).must(400);
}

#[test]
fn ranges_as_the_rfc_has_them() {
    let (site, _) = Site::new();
    let whole = get(site.address(), FILE).must(200).body;
    let bytes = whole.len();
    let last = bytes - 1;
    for (asked, first, end) in [
        ("bytes=0-0".to_owned(), 0, 0),
        ("bytes=0-".to_owned(), 0, last),
        ("bytes=5-9".to_owned(), 5, 9),
        (format!("bytes={last}-"), last, last),
        (format!("bytes={last}-{bytes}"), last, last),
        ("bytes=7-99999999999".to_owned(), 7, last),
        ("bytes=-8".to_owned(), bytes - 8, last),
        (format!("bytes=-{}", bytes * 2), 0, last),
        (" bytes= 3 - 4 ".to_owned(), 3, 4),
    ] {
        let part = range(site.address(), FILE, &asked).must(206);
        assert_eq!(part.header("content-range"), Some(&*format!("bytes {first}-{end}/{bytes}")));
        assert!(part.body == whole[first..=end], "{asked}");
        let head = ask(site.address(), "HEAD", FILE, &[("Range", &asked)]).must(206);
        assert_eq!(head.header("content-length"), Some(&*(end - first + 1).to_string()));
    }
    for asked in
        [format!("bytes={bytes}-"), "bytes=-0".to_owned(), format!("bytes={bytes}-{bytes}")]
    {
        let refused = range(site.address(), FILE, &asked).must(416);
        assert_eq!(refused.header("content-range"), Some(&*format!("bytes */{bytes}")));
        refused.error();
    }
    // Anything but one range of bytes is ignored.
    for asked in
        ["bytes=5-2", "bytes=a-b", "bytes=0-1,5-6", "lines=0-1", "bytes=", "x", "bytes=--1"]
    {
        assert_eq!(range(site.address(), FILE, asked).must(200).body.len(), bytes, "{asked}");
    }
}

#[test]
fn a_tag_tells_whether_it_is_the_same_file() {
    let (site, _) = Site::new();
    let first = get(site.address(), FILE).must(200);
    let tag = first.header("etag").unwrap().to_owned();
    assert_eq!(first.header("cache-control"), Some("no-cache"));
    let known = ask(site.address(), "GET", FILE, &[("If-None-Match", &tag)]).must(304);
    assert_eq!(known.header("etag"), Some(&*tag));
    let (other, same) = ("\"other\"", &*tag);
    for (if_range, status) in [(same, 206), (other, 200), ("Tue, 21 Nov 2023 00:00:00 GMT", 200)] {
        let headers = [("Range", "bytes=0-9"), ("If-Range", if_range)];
        ask(site.address(), "GET", FILE, &headers).must(status);
    }
    let topic = get(site.address(), &format!("{FILE}?topic=/text")).must(200);
    assert_ne!(topic.header("etag"), Some(&*tag));
}

fn live() -> (Site, Recording) {
    let folder = tempfile::tempdir().unwrap();
    let mut recording = Recording::new(&folder.path().join("run1"), RecorderOptions::default());
    recording.add(text_topic("/text"));
    recording.add(camera_topic("/camera"));
    (Site::over(folder, Default::default()), recording)
}

#[test]
fn a_live_file_goes_on_and_what_was_told_stays_true() {
    let (site, mut recording) = live();
    let mut told: Vec<(Vec<u8>, Known)> = Vec::new();
    for round in 1..=5 {
        write_all(&mut recording, 20 * round);
        recording.settle();
        site.later();
        let bytes = length(site.address(), FILE);
        let file = by_ranges(site.address(), FILE, bytes);
        assert_eq!(sorted(&messages(&file)), sorted(&recording.known));
        // A client that opened it earlier reads the bytes promised then.
        for (earlier, known) in &told {
            let bytes = earlier.len() as u64;
            let part = range(site.address(), FILE, &format!("bytes={}-{}", bytes - 1, bytes - 1));
            assert_eq!(part.must(206).body, earlier[earlier.len() - 1..]);
            assert_eq!(sorted(&messages(earlier)), sorted(known));
            assert!(bytes < file.len() as u64);
        }
        told.push((file, recording.known.clone()));
    }
    let live = get(site.address(), FILE).must(200);
    assert_eq!(live.header("cache-control"), Some("no-store"));
    assert!(live.header("etag").unwrap().starts_with("\"live-"));
    let known = recording.finish();
    site.later();
    let closed = get(site.address(), FILE).must(200);
    assert_eq!(sorted(&messages(&closed.body)), sorted(&known));
    assert_eq!(closed.header("cache-control"), Some("no-cache"));
}

#[test]
fn chunks_that_a_summary_names_are_read_after_the_file_has_grown() {
    let (site, mut recording) = live();
    write_all(&mut recording, 50);
    recording.settle();
    let known = recording.known.clone();
    // A reader asks for the length and the summary …
    let bytes = length(site.address(), FILE);
    let footer = range(site.address(), FILE, "bytes=-28").must(206).body;
    let offset = u64::from_le_bytes(footer[..8].try_into().unwrap()) as usize;
    let tail = range(site.address(), FILE, &format!("bytes={offset}-{}", bytes - 1)).must(206);
    // … others make the file grow …
    for _ in 0..3 {
        write_all(&mut recording, 50);
        recording.settle();
        site.later();
        get(site.address(), FILE).must(200);
    }
    // … and it reads the chunks.
    let mut file = by_ranges(site.address(), FILE, offset as u64);
    file.extend_from_slice(&tail.body);
    let summary = mcap::Summary::read(&file).unwrap().unwrap();
    assert_eq!(summary.stats.unwrap().message_count, known.len() as u64);
    let mut read = Known::new();
    for chunk in &summary.chunk_indexes {
        let first = chunk.chunk_start_offset as usize;
        let end = first + (chunk.chunk_length + chunk.message_index_length) as usize;
        assert!(end <= offset, "no chunk lies in the summary");
        let part = range(site.address(), FILE, &format!("bytes={first}-{}", end - 1)).must(206);
        file[first..end].copy_from_slice(&part.body);
    }
    let summary = mcap::Summary::read(&file).unwrap().unwrap();
    for chunk in &summary.chunk_indexes {
        for (channel, entries) in summary.read_message_indexes(&file, chunk).unwrap() {
            for entry in entries {
                let message = summary.seek_message(&file, chunk, &entry).unwrap();
                read.push((channel.topic.clone(), message.log_time, message.data.to_vec()));
            }
        }
    }
    assert_eq!(sorted(&read), sorted(&known));
    recording.finish();
}

#[test]
fn a_live_file_that_was_forgotten_is_not_taken_for_the_one_laid_out_anew() {
    let (site, mut recording) = live();
    write_all(&mut recording, 50);
    recording.settle();
    let bytes = length(site.address(), FILE);
    let tag = get(site.address(), FILE).must(200).header("etag").unwrap().to_owned();
    let open = |number: u64| {
        let target = format!("{FILE}?from={}", START_NANOS + number);
        ask(site.address(), "HEAD", &target, &[]).status
    };
    let middle = format!("bytes={}-{}", bytes / 3, bytes / 3 + 99);
    for number in 1..64 {
        assert_eq!(open(number), 200);
    }
    // One more is refused: each of those has a reader.
    let target = format!("{FILE}?from={}", START_NANOS + 64);
    let refused = get(site.address(), &target).must(503);
    assert!(refused.error().contains("different parts"), "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("60"));
    range(site.address(), FILE, &middle).must(206);
    // They have not been read for long; the recording has grown.
    site.clock.advance(2 * VIRTUAL_FILE_PATIENCE);
    write_all(&mut recording, 50);
    recording.settle();
    for number in 100..164 {
        assert_eq!(open(number), 200);
    }
    let refused = range(site.address(), FILE, &middle).must(410);
    assert!(refused.error().contains("open it again"), "{}", refused.text());
    site.clock.advance(2 * VIRTUAL_FILE_PATIENCE);
    // With `If-Range` it still gets the whole file.
    let headers = [("Range", &*middle), ("If-Range", &*tag)];
    let whole = ask(site.address(), "GET", FILE, &headers).must(200);
    assert_eq!(sorted(&messages(&whole.body)), sorted(&recording.known));
    // After opening it again the client can continue.
    assert!(length(site.address(), FILE) > bytes);
    range(site.address(), FILE, &middle).must(206);
    recording.finish();
}

#[test]
fn a_topic_that_appears_is_in_the_file_that_goes_on() {
    let (site, mut recording) = live();
    write_all(&mut recording, 10);
    recording.settle();
    get(site.address(), FILE).must(200);
    recording.add(text_topic("/late"));
    recording.write("/late", text("at last"));
    recording.settle();
    wait_for("the new topic", || {
        site.later();
        let file = get(site.address(), FILE).must(200);
        messages(&file.body).iter().any(|(topic, ..)| topic == "/late")
    });
    recording.finish();
}

fn split(recorder: &Recorder, count: u32) {
    recorder.split().unwrap();
    wait_for("a split", || recorder.status().splits >= count);
}

#[test]
fn what_retention_has_removed_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let retention = Retention { splits_max: Some(2), ..Default::default() };
    let options = RecorderOptions { retention, ..Default::default() };
    let mut recording = Recording::new(&folder.path().join("run1"), options);
    recording.add(text_topic("/text"));
    recording.add(camera_topic("/camera"));
    let site = Site::over(folder, Default::default());
    write_all(&mut recording, 100);
    recording.settle();
    let bytes = length(site.address(), FILE);
    let whole = by_ranges(site.address(), FILE, bytes);
    // The middle of the file, where chunks are.
    let middle = format!("bytes={}-{}", bytes / 3, bytes / 3 + 99);
    assert_eq!(range(site.address(), FILE, &middle).must(206).body.len(), 100);
    for number in 2..=4 {
        split(&recording.recorder, number);
        write_all(&mut recording, 10);
    }
    let mut last = 0;
    wait_for("the first split to be removed", || {
        site.later();
        // Opening the file extends it; reading continues as before.
        last = ask(site.address(), "HEAD", FILE, &[]).status;
        assert!(matches!(last, 200 | 500), "{last}");
        range(site.address(), FILE, &middle).status == 410
    });
    let gone = range(site.address(), FILE, &middle).must(410);
    assert!(gone.error().contains("removed"), "{}", gone.text());
    // The start of the file has no chunk: it stays.
    assert_eq!(range(site.address(), FILE, "bytes=0-7").must(206).body, whole[..8]);
    // Queries return the existing messages.
    wait_for("the answer without the first split", || {
        // While a split is being removed, the container is still the one before.
        site.later();
        let left = messages(&get(site.address(), "/v1/bags/run1/history").must(200).body);
        !left.is_empty() && left.len() < recording.known.len()
    });
    recording.recorder.finish().unwrap();
}
