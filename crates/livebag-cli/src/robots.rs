//! `livebag robots`: lists robots that serve recordings on Zenoh.

use std::io::Write;

use livebag::Clock;
use livebag_net::tell::Lost;
use livebag_net::zenoh::{ZenohAddress, ZenohAsker};
use serde::Serialize;

use crate::color::Tone;
use crate::outcome::{CliError, Outcome};
use crate::serve::ZenohArgs;
use crate::text::{self, Cell};

/// List the robots that serve recordings
///
/// List the robots that serve recordings on Zenoh, and their recordings.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    livebag robots\n  \
    livebag robots r2 --json\n  \
    livebag robots --zenoh-connect tls/router:7447 --zenoh-config zenoh.json5")]
pub struct Args {
    /// Only this robot.
    #[arg(value_name = "ROBOT", default_value = "*")]
    robot: String,
    #[command(flatten)]
    zenoh: ZenohArgs,
    /// Print JSON: an array of recordings.
    #[arg(long)]
    json: bool,
}

/// One recording. Times are nanoseconds since the Unix epoch; null where the robot did not answer.
#[derive(Serialize)]
struct Row {
    robot: String,
    bag: String,
    state: Option<String>,
    #[serde(rename = "start_time", with = "livebag_format::json_time")]
    start_nanos: Option<u64>,
    #[serde(rename = "end_time", with = "livebag_format::json_time")]
    end_nanos: Option<u64>,
    message_count: Option<u64>,
    topic_count: Option<usize>,
    lost: Option<Lost>,
}

/// Lists them.
pub fn run(args: &Args) -> Result<Outcome, CliError> {
    let asker = ZenohAsker::open(&args.zenoh.options(), Clock::system())?;
    let address = ZenohAddress::parse(&format!("zenoh/{}", args.robot))?;
    let mut rows = Vec::new();
    let all = asker.find(&address)?;
    let infos = asker.infos(&all)?;
    for (found, info) in all.into_iter().zip(infos) {
        let row = info.map(|info| info.row);
        rows.push(Row {
            robot: found.robot,
            bag: found.recording,
            state: row.as_ref().map(|row| row.state.clone()),
            start_nanos: row.as_ref().and_then(|row| row.start_nanos),
            end_nanos: row.as_ref().and_then(|row| row.end_nanos),
            message_count: row.as_ref().map(|row| row.message_count),
            topic_count: row.as_ref().map(|row| row.topic_count),
            lost: row.as_ref().map(|row| row.lost),
        });
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
    } else if rows.is_empty() {
        say!(
            "livebag: no robot serves recordings here (use `livebag serve DIR --zenoh`; \
             --zenoh-connect reaches a router)"
        );
    } else {
        write!(out, "{}", table(&rows))?;
    }
    Ok(Outcome::Done)
}

fn table(rows: &[Row]) -> String {
    let known = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &Row| {
        let lost = row.lost.map(|lost| lost.causes().total());
        let duration = row.start_nanos.zip(row.end_nanos).map(|(start, end)| end - start);
        vec![
            row.robot.clone().into(),
            row.bag.clone().into(),
            match &row.state {
                Some(state) => state.clone().into(),
                None => Cell::new("no answer", Some(Tone::Warning)),
            },
            known(row.start_nanos.map(text::time_to_the_second)).into(),
            known(duration.map(text::duration)).into(),
            known(row.topic_count.map(|count| text::count(count as u64))).into(),
            known(row.message_count.map(text::count)).into(),
            Cell::new(
                known(lost.map(text::count)),
                lost.filter(|lost| *lost > 0).map(|_| Tone::Bad),
            ),
        ]
    };
    let head = [
        "robot",
        "recording",
        "=state",
        "=start?2",
        ">duration?3",
        ">topics?1",
        ">messages",
        ">lost",
    ];
    text::table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}
