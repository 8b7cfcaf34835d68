//! Latest and history, one asker (Figures 13 and 14).

use std::collections::BTreeMap;
use std::path::Path;

use livebag_net::Server;
use livebag_net::remote::{Question, RemoteRecording};
use serde::Serialize;
use serde_json::json;

use super::world::World;
use super::{OnlineArgs, Outcome, failed};
use crate::clock;
use crate::error::Result;
use crate::report::{figure, row};
use crate::stats::{Durations, ratio};

/// Seconds of recording before the first question (ROSfs waits 12).
const LEAD_SECONDS: u64 = 13;

/// ROSfs's Tables 4 and 5.
const TARGETS: [(&str, &[&str]); 5] = [
    ("imu", &["/imu"]),
    ("image_c", &["/image1_c"]),
    ("image", &["/image1"]),
    ("group A", &["/image1", "/image2"]),
    ("group B", &["/image1_c", "/image2_c", "/imu"]),
];

/// One question and its answer.
#[derive(Serialize, Clone)]
struct Run {
    system: String,
    query: &'static str,
    topic: &'static str,
    /// The requested time.
    seconds: f64,
    server_ms: f64,
    client_ms: Option<f64>,
    /// When it was asked, less the newest log time in the answer.
    newest_age_ms: Option<f64>,
    /// The time of the request, less the log time of the oldest message that is newer than the answer: the delay until
    /// a published message was readable. 0 if there is none.
    behind_ms: Option<f64>,
    messages: usize,
    /// Published when it was asked, in the time asked for, and not in the answer.
    missing: usize,
}

/// A small generator (SplitMix64): the same questions in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

/// Waits up to three periods of a topic of 30 Hz, so that a query comes at any moment of its period: earlier work
/// always took the same time, and would be in step with publishing.
fn wait_for_any_moment(random: &mut Random) {
    clock::sleep(random.below(100_000_000));
}

/// Sends all systems the same queries, alternating.
pub fn measure(args: &OnlineArgs, directory: &Path, outcome: &mut Outcome) -> Result<()> {
    let world = World::begin(directory, &[2, 10])?;
    clock::sleep(LEAD_SECONDS * 1_000_000_000);
    let mut random = Random(7);
    let mut runs = Vec::new();
    for round in 0..args.requests(100, 12) {
        for (topic, names) in TARGETS {
            let seconds = 1 + u64::from(round) % 2;
            // The first to ask for something has it read from the device.
            let in_place_first = round % 2 == 0;
            let order = (in_place_first, &mut random);
            runs.extend(latest(&world, (topic, names), seconds, order)?);
            let seconds = 1 + random.below(8);
            let span = seconds * 1_000_000_000;
            let room = world.newest(names).saturating_sub(world.oldest() + span);
            let from = world.oldest() + random.below(room);
            runs.extend(history(&world, (topic, names), (from, from + span), in_place_first)?);
        }
    }
    world.end()?;
    summarise(&runs, outcome);
    Ok(())
}

/// Received bytes, and their messages.
fn ask(
    (server, bag): (&Server, &RemoteRecording),
    question: &Question,
    names: &[&str],
) -> Result<(f64, f64, usize, u64)> {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    server.take_timings();
    let began = clock::monotonic_nanos();
    let mut messages = bag.messages(question, &names).map_err(failed("asking"))?;
    let (mut count, mut newest) = (0, 0);
    while let Some(message) = messages.next_message().map_err(failed("reading an answer"))? {
        count += 1;
        newest = newest.max(message.log_time_nanos);
    }
    let client_ms = (clock::monotonic_nanos() - began) as f64 / 1e6;
    // The thread that built the answer reports its time after the last byte.
    let timing = loop {
        if let Some(timing) = server.take_timings().pop() {
            break timing;
        }
        clock::sleep(100_000);
    };
    Ok((timing.busy_nanos as f64 / 1e6, client_ms, count, newest))
}

/// The servers of livebag's recording, in the order in which they are asked.
fn servers(
    world: &World,
    in_place_first: bool,
) -> [(&'static str, (&Server, &RemoteRecording)); 2] {
    let in_place = ("livebag", (&world.server, &world.bag));
    let copying = ("livebag-copied", (&world.copying.0, &world.copying.1));
    if in_place_first { [in_place, copying] } else { [copying, in_place] }
}

/// The ways to read the splits.
const SPLIT_WAYS: [(&str, bool); 2] = [("-in-place", true), ("", false)];

fn latest(
    world: &World,
    (topic, names): (&'static str, &[&str]),
    seconds: u64,
    (in_place_first, random): (bool, &mut Random),
) -> Result<Vec<Run>> {
    let span = seconds * 1_000_000_000;
    let mut runs = Vec::new();
    let run = |system: &str, asked: u64, server_ms, client_ms, messages, newest: u64| Run {
        system: system.to_owned(),
        query: "latest",
        topic,
        seconds: seconds as f64,
        server_ms,
        client_ms,
        newest_age_ms: (newest > 0).then(|| asked.saturating_sub(newest) as f64 / 1e6),
        behind_ms: Some(
            world
                .next_after(names, newest)
                .map_or(0.0, |next| asked.saturating_sub(next) as f64 / 1e6),
        ),
        messages,
        missing: world.published(names, (newest + 1).max(asked.saturating_sub(span)), asked),
    };
    let question = Question::latest(&format!("{seconds}s"));
    for (system, server) in servers(world, in_place_first) {
        wait_for_any_moment(random);
        let asked = clock::realtime_nanos();
        let (server_ms, client_ms, count, newest) = ask(server, &question, names)?;
        runs.push(run(system, asked, server_ms, Some(client_ms), count, newest));
    }
    for (split, (way, in_place)) in world.splits.iter().flat_map(|s| SPLIT_WAYS.map(|w| (s, w))) {
        let asked = clock::realtime_nanos();
        // The given time before the newest message.
        let end = split.newest_closed();
        let answer = split.read(names, (end.saturating_sub(span), end), in_place)?;
        let (server_ms, system) = (answer.nanos as f64 / 1e6, format!("{}{way}", split.name()));
        runs.push(run(&system, asked, server_ms, None, answer.messages, answer.newest_nanos));
    }
    Ok(runs)
}

fn history(
    world: &World,
    (topic, names): (&'static str, &[&str]),
    (from, to): (u64, u64),
    in_place_first: bool,
) -> Result<Vec<Run>> {
    let published = world.published(names, from, to);
    let run = |system: &str, server_ms, client_ms, messages: usize| Run {
        system: system.to_owned(),
        query: "history",
        topic,
        seconds: (to - from) as f64 / 1e9,
        server_ms,
        client_ms,
        newest_age_ms: None,
        behind_ms: None,
        messages,
        missing: published.saturating_sub(messages),
    };
    let mut runs = Vec::new();
    let question = Question::history(Some(&from.to_string()), Some(&to.to_string()));
    for (system, server) in servers(world, in_place_first) {
        let (server_ms, client_ms, count, _) = ask(server, &question, names)?;
        runs.push(run(system, server_ms, Some(client_ms), count));
    }
    for (split, (way, in_place)) in world.splits.iter().flat_map(|s| SPLIT_WAYS.map(|w| (s, w))) {
        let answer = split.read(names, (from, to), in_place)?;
        let system = format!("{}{way}", split.name());
        runs.push(run(&system, answer.nanos as f64 / 1e6, None, answer.messages));
    }
    Ok(runs)
}

fn summarise(runs: &[Run], outcome: &mut Outcome) {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Run>> = BTreeMap::new();
    for run in runs {
        groups.entry((run.query, run.topic, &run.system)).or_default().push(run);
        outcome.runs.push(row(run));
    }
    for ((query, topic, system), group) in &groups {
        let of = |value: &dyn Fn(&Run) -> Option<f64>| {
            Durations::of(group.iter().filter_map(|run| value(run)).map(|ms| (ms * 1e6) as u64))
        };
        let at = |durations: &Durations, percent| {
            figure(durations.percentile_us(percent).map(|us| us / 1000.0))
        };
        let (server, client) = (of(&|run| Some(run.server_ms)), of(&|run| run.client_ms));
        let (age, behind) = (of(&|run| run.newest_age_ms), of(&|run| run.behind_ms));
        let missing: usize = group.iter().map(|run| run.missing).sum();
        let asked: usize = group.iter().map(|run| run.missing + run.messages).sum();
        let mut found = row(&json!({
            "system": system, "query": query, "topic": topic, "clients": 1,
            "requests": group.len(), "missing": missing, "asked": asked,
        }));
        found.insert("server_p50_ms".into(), at(&server, 50.0));
        found.insert("server_p99_ms".into(), at(&server, 99.0));
        found.insert("client_p50_ms".into(), at(&client, 50.0));
        found.insert("client_p95_ms".into(), at(&client, 95.0));
        found.insert("newest_age_ms".into(), at(&age, 50.0));
        found.insert("newest_age_p99_ms".into(), at(&age, 99.0));
        found.insert("behind_ms".into(), at(&behind, 50.0));
        found.insert("behind_p99_ms".into(), at(&behind, 99.0));
        // Like with like: copies with copies.
        let is_split_copied = system.starts_with("mcap") && !system.ends_with("in-place");
        let against = if is_split_copied { "livebag-copied" } else { "livebag" };
        if *system != against
            && let Some(ours) = groups.get(&(*query, *topic, against))
        {
            // The same query, alternating.
            let times = |runs: &[&Run]| runs.iter().map(|run| run.server_ms).collect::<Vec<_>>();
            if let Some(ratio) = ratio(&times(group), &times(ours)) {
                found.insert("faster".into(), serde_json::to_value(ratio).unwrap_or_default());
            }
        }
        outcome.rows.push(found);
    }
}
