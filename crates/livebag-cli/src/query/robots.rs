//! Queries that many robots answer.

use livebag::{Clock, Topic};
use livebag_net::remote::RemoteMessage;
use livebag_net::zenoh::{Plan, ZenohAddress, ZenohAsker, ZenohMessages};

use super::answer::{Answer, Entry};
use super::remote::written;
use super::{Args, Question, give};
use crate::outcome::{CliError, Outcome};
use crate::select;

/// Asks, gives the answer, and says whose ended early.
pub fn run(args: &Args, address: &ZenohAddress, clock: &Clock) -> Result<Outcome, CliError> {
    let plan = match &args.question {
        Question::Latest { last, .. } => Plan::Latest(*last),
        Question::History { from, to, .. } => {
            // Robots have many recordings: a time of day is the one that was last.
            let now = clock.wall_nanos();
            let range = (now.saturating_sub(86_400_000_000_000), now);
            let text = |when: select::When| written(when.moment(range));
            Plan::History(from.map(text), to.map(text))
        }
        Question::Follow { .. } => return Err(super::no_follow()),
        Question::Auto { within, last, decimate, .. } => {
            Plan::Auto { within: *within, last: *last, decimate: decimate.clone() }
        }
    };
    let wanted = args.question.wanted();
    let asker = ZenohAsker::open(&args.zenoh.options(), Clock::system())?;
    let messages = asker.messages(address, &wanted.topics, &plan)?;
    let planned_nanos = clock.monotonic_nanos();
    let mut answer = Robots { messages, current: None };
    give(&mut answer, wanted, clock, planned_nanos, &|| Ok(0))?;
    let damaged = answer.messages.damaged();
    if damaged > 0 {
        complain!("livebag: {damaged} messages left out that are damaged");
    }
    for loss in answer.messages.lost() {
        complain!("livebag: {loss}");
    }
    let is_whole = damaged == 0 && answer.messages.lost().is_empty();
    Ok(if is_whole { Outcome::Done } else { Outcome::Loss })
}

/// Messages of many robots.
struct Robots {
    messages: ZenohMessages,
    current: Option<RemoteMessage>,
}

impl Answer for Robots {
    fn next(&mut self) -> Result<Option<Entry>, CliError> {
        self.current = self.messages.next_message()?;
        Ok(self.current.as_ref().map(Entry::from))
    }

    fn data(&mut self) -> Result<Option<&[u8]>, CliError> {
        Ok(self.current.as_ref().map(|message| &*message.data))
    }

    fn topic(&self, at: usize) -> &Topic {
        &self.messages.topics()[at]
    }

    fn profile(&self) -> &str {
        // Robots of one team agree on it, and each message has its encoding.
        let topics = self.messages.topics();
        match topics.first().map(|topic| &*topic.message_encoding) {
            Some("cdr") if topics.iter().all(|topic| topic.message_encoding == "cdr") => "ros2",
            Some("ros1") if topics.iter().all(|topic| topic.message_encoding == "ros1") => "ros1",
            _ => "",
        }
    }
}
