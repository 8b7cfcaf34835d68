//! Queries of recordings on a server.

use livebag::{Clock, Topic};
use livebag_net::remote::{Question as Asked, RemoteRecording};
use livebag_net::tell::RecordingInfo;

use super::answer::{Answer, Remote, RemoteLines};
use super::{Args, Question, Wanted, events, give, remote_outcome};
use crate::outcome::{CliError, Outcome};
use crate::parse::Moment;
use crate::select;

/// Asks, and gives the answer.
pub fn run(args: &Args, url: &str, clock: &Clock) -> Result<Outcome, CliError> {
    let bag = RemoteRecording::open(url, args.server.options()?)?;
    // Names without a slash, the start that times count from, the profile.
    let info = bag.info()?;
    let wanted = args.question.wanted();
    let topics = full_names(&info, &wanted.topics);
    let asked = match &args.question {
        Question::Latest { last, .. } => Asked::latest(&seconds(*last)),
        Question::History { from, to, .. } => {
            let start = info.row.start_nanos.unwrap_or(info.row.started_nanos);
            let range = (start, info.row.end_nanos.unwrap_or(start));
            let text = |when: select::When| written(when.moment(range));
            let (from, to) = (from.map(text), to.map(text));
            Asked::history(from.as_deref(), to.as_deref())
        }
        Question::Follow { last, wanted } => return events::run(&bag, &topics, *last, wanted),
        Question::Auto { within, last, decimate, .. } => {
            Asked::auto(&seconds(*within), last.map(seconds).as_deref(), decimate)
        }
    };
    let planned_nanos = clock.monotonic_nanos();
    let is_auto = matches!(args.question, Question::Auto { .. });
    let mut answer: Box<dyn Answer> = match is_auto || needs_data(wanted) {
        true => Box::new(Remote::new(bag.messages(&asked, &topics)?, info.row.profile.clone())),
        false => {
            let known = info.topics.iter().map(|topic| Topic {
                name: topic.name.clone(),
                type_name: topic.type_name.clone(),
                ..Topic::default()
            });
            Box::new(RemoteLines::new(bag.ask(&asked, &topics, "jsonl")?, known.collect()))
        }
    };
    let start_nanos = info.row.start_nanos.unwrap_or(0);
    give(&mut *answer, wanted, clock, planned_nanos, &|| Ok(start_nanos))?;
    Ok(remote_outcome(answer.damaged()))
}

fn needs_data(wanted: &Wanted) -> bool {
    wanted.output.is_some() || wanted.decode
}

pub fn seconds(duration: std::time::Duration) -> String {
    format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos())
}

/// A moment as servers and robots read it.
pub fn written(moment: Moment) -> String {
    match moment {
        Moment::At(nanos) => nanos.to_string(),
        Moment::After(after) => format!("+{}", seconds(after)),
    }
}

fn full_names(info: &RecordingInfo, names: &[String]) -> Vec<String> {
    let is_topic = |name: &str| info.topics.iter().any(|topic| topic.name == name);
    let full = |name: &String| match format!("/{name}") {
        slashed if !is_topic(name) && is_topic(&slashed) => slashed,
        _ => name.clone(),
    };
    names.iter().map(full).collect()
}
