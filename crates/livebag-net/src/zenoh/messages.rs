//! Answers of many robots, merged.
//!
//! Each recording is asked for one page at a time, so memory is bounded by pages. A slow or dead robot delays
//! the others by at most a page's timeout. A recording whose page has no end record is lost from there on, and
//! the answer names it.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use livebag::Clock;
use livebag_format::Topic;
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply, ReplyKeyExpr};

use super::key::PREFIX;
use super::wire::{Attached, End};
use super::{Found, Plan, Polled, SourceLoss, ZenohError, failed, prefixed, prefixes};
use crate::ask::{escape, rate_of};
use crate::limits::{
    ASK_TIMEOUT, AUTO_MARGIN, ZENOH_PAGE_BYTES, ZENOH_PAGE_MESSAGES, ZENOH_SILENCE,
};
use crate::remote::RemoteMessage;

/// The messages of many recordings.
pub struct ZenohMessages {
    session: zenoh::Session,
    clock: Clock,
    sources: Vec<Source>,
    topics: Vec<Topic>,
    lost: Vec<SourceLoss>,
    damaged: u64,
    newest_first: bool,
    /// By when everything shall be here, on the clock's monotonic time.
    deadline_nanos: Option<u64>,
    /// Received bytes, and since when: their speed.
    pace: Option<(u64, u64)>,
    /// Whether a message has been given.
    has_given: bool,
}

struct Source {
    found: Found,
    /// What topics are called before their own name.
    prefix: String,
    /// `topics=…` and the like, the same on every page.
    fixed: String,
    /// The part of a selector that says which page is next; `None` after the last.
    next: Option<String>,
    /// `/topic:HZ`, and the log time of the last that was given.
    rates: Vec<(String, Option<u64>)>,
    page: Option<Page>,
    /// Whether a message of it has arrived.
    is_begun: bool,
    ready: VecDeque<RemoteMessage>,
    /// Topic of this answer by its number in a page.
    numbers: Vec<(u16, usize)>,
}

/// A page that has been asked for.
struct Page {
    replies: Receiver<Option<Reply>>,
    /// When something of it came last, on the clock's monotonic time.
    heard_nanos: u64,
}

impl ZenohMessages {
    pub(super) fn ask(
        session: zenoh::Session,
        clock: Clock,
        found: Vec<Found>,
        topics: &[String],
        plan: &Plan,
    ) -> Result<Self, ZenohError> {
        let now = clock.monotonic_nanos();
        let (span, deadline_nanos) = match plan {
            Plan::Latest(last) => (format!("latest={}", seconds(*last)), None),
            Plan::History(from, to) => {
                let part = |name: &str, time: &Option<String>| {
                    time.as_ref()
                        .map_or_else(String::new, |time| format!("{name}={};", escape(time)))
                };
                let span = part("from", from) + &part("to", to);
                (span.trim_end_matches(';').to_owned(), None)
            }
            Plan::Auto { within, last, .. } => {
                let span =
                    last.map_or_else(String::new, |last| format!("latest={}", seconds(last)));
                (span, Some(now + within.as_nanos() as u64))
            }
        };
        let rates: &[String] = match plan {
            Plan::Auto { decimate, .. } => decimate,
            _ => &[],
        };
        // What no robot understands is said before any is asked.
        rates.iter().try_for_each(|text| rate_of(text).map(drop))?;
        let prefixes = prefixes(&found);
        let source = |(found, prefix): (Found, &String)| {
            let own = |name: &String| own_name(name, prefix, &prefixes);
            let own_topics: Vec<String> = topics.iter().filter_map(own).collect();
            let is_asked = topics.is_empty() || !own_topics.is_empty();
            let mut fixed = String::new();
            if !own_topics.is_empty() {
                let names: Vec<String> = own_topics.iter().map(|topic| escape(topic)).collect();
                fixed.push_str(&format!(";topics={}", names.join("|")));
            }
            if deadline_nanos.is_some() {
                fixed.push_str(";order=newest");
            }
            Source {
                found,
                prefix: prefix.clone(),
                fixed,
                next: is_asked.then(|| span.clone()),
                rates: rates.iter().filter_map(own).map(|rate| (rate, None)).collect(),
                page: None,
                is_begun: false,
                ready: VecDeque::new(),
                numbers: Vec::new(),
            }
        };
        let sources: Vec<Source> = found.into_iter().zip(&prefixes).map(source).collect();
        let count = sources.len();
        let mut this = Self {
            sources,
            session,
            clock,
            topics: Vec::new(),
            lost: Vec::new(),
            damaged: 0,
            newest_first: deadline_nanos.is_some(),
            deadline_nanos,
            pace: None,
            has_given: false,
        };
        // All at once: a slow one does not delay the others.
        for at in 0..count {
            this.turn_page(at)?;
        }
        Ok(this)
    }

    /// The topics that have had messages so far.
    pub fn topics(&self) -> &[Topic] {
        &self.topics
    }

    /// Recordings whose answers ended early, complete once the last message was given.
    pub fn lost(&self) -> &[SourceLoss] {
        &self.lost
    }

    /// Messages left out because they are damaged.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The next message; `None` after the last.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn next_message(&mut self) -> Result<Option<RemoteMessage>, ZenohError> {
        loop {
            match self.poll(ASK_TIMEOUT)? {
                Polled::Message(message) => return Ok(Some(message)),
                Polled::Waiting => {}
                Polled::End => return Ok(None),
            }
        }
    }

    /// The next message, if it comes within `patience`.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn poll(&mut self, patience: Duration) -> Result<Polled, ZenohError> {
        let until_nanos = self.clock.monotonic_nanos() + patience.as_nanos() as u64;
        for at in 0..self.sources.len() {
            if !self.fill(at, until_nanos)? {
                return Ok(Polled::Waiting);
            }
        }
        let newest_first = self.newest_first;
        let heads = self.sources.iter().enumerate();
        let heads =
            heads.filter_map(|(at, source)| Some((at, source.ready.front()?.log_time_nanos)));
        let by_time = |a: &(usize, u64), b: &(usize, u64)| -> Ordering {
            let order = a.1.cmp(&b.1);
            (if newest_first { order.reverse() } else { order }).then(a.0.cmp(&b.0))
        };
        let next = heads.min_by(by_time).and_then(|(at, _)| self.sources[at].ready.pop_front());
        self.has_given |= next.is_some();
        Ok(next.map_or(Polled::End, Polled::Message))
    }

    /// Makes a source's next message ready, if it has one; `false` if it is not known by then.
    fn fill(&mut self, at: usize, until_nanos: u64) -> Result<bool, ZenohError> {
        while self.sources[at].ready.is_empty() {
            if self.sources[at].page.is_none() {
                if self.sources[at].next.is_none() || self.is_late() {
                    return Ok(true);
                }
                self.turn_page(at)?;
            }
            if !self.take_reply(at, until_nanos) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether another page would not arrive in time.
    fn is_late(&self) -> bool {
        let Some(deadline) = self.deadline_nanos else { return false };
        let margin = AUTO_MARGIN.as_nanos() as u64;
        self.clock.monotonic_nanos() + margin >= deadline
    }

    /// Bytes of the next page: what arrives in a tenth of the time that is left.
    fn page_bytes(&self) -> u64 {
        let Some(deadline) = self.deadline_nanos else { return ZENOH_PAGE_BYTES };
        let now = self.clock.monotonic_nanos();
        let Some((bytes, since)) = self.pace else { return 1 };
        let left = deadline.saturating_sub(now) / 10;
        let speed = bytes as f64 / now.saturating_sub(since).max(1) as f64;
        ((speed * left as f64) as u64).clamp(1, ZENOH_PAGE_BYTES)
    }

    fn turn_page(&mut self, at: usize) -> Result<(), ZenohError> {
        let bytes = self.page_bytes();
        let now = self.clock.monotonic_nanos();
        if self.deadline_nanos.is_some() {
            self.pace.get_or_insert((0, now));
        }
        let source = &mut self.sources[at];
        let Some(page) = source.next.take() else { return Ok(()) };
        source.numbers.clear();
        let key = format!("{PREFIX}/{}/{}/**", source.found.robot, source.found.recording);
        let separator = if page.is_empty() { "" } else { ";" };
        let rate = |(rate, last_nanos): &(String, Option<u64>)| match last_nanos {
            Some(nanos) => escape(&format!("{rate}@{nanos}")),
            None => escape(rate),
        };
        let rates: Vec<String> = source.rates.iter().map(rate).collect();
        let decimate = if rates.is_empty() { "" } else { ";decimate=" };
        let selector = format!(
            "{key}?{page}{separator}bytes={bytes};messages={ZENOH_PAGE_MESSAGES}{}{decimate}{}",
            source.fixed,
            rates.join("|"),
        );
        // Room for all replies of a page: a callback that waits would hold up the whole session.
        let (sender, receiver) = sync_channel(ZENOH_PAGE_MESSAGES + 8);
        let done = LastWord(sender.clone());
        self.session
            .get(&selector)
            .accept_replies(ReplyKeyExpr::Any)
            .target(QueryTarget::All)
            .consolidation(ConsolidationMode::None)
            .timeout(ASK_TIMEOUT)
            .callback(move |reply| {
                // Dropped with the callback, which Zenoh does after the last reply.
                let _ = &done;
                // A client that has gone takes no more.
                let _ = sender.try_send(Some(reply));
            })
            .wait()
            .map_err(failed("asking"))?;
        source.page = Some(Page { replies: receiver, heard_nanos: now });
        Ok(())
    }

    /// Takes the next reply of a source's page; `false` if none comes by then.
    fn take_reply(&mut self, at: usize, until_nanos: u64) -> bool {
        let now = self.clock.monotonic_nanos();
        let (deadline_nanos, has_given) = (self.deadline_nanos, self.has_given);
        let Some(page) = &mut self.sources[at].page else { return true };
        // Zenoh ends a page by its own timeout; this is for a session that has stopped working.
        let mut silent_nanos = page.heard_nanos + ZENOH_SILENCE.as_nanos() as u64;
        // The first message comes however long it takes, the others in time or not at all.
        if let Some(deadline) = deadline_nanos.filter(|_| has_given) {
            silent_nanos = silent_nanos.min(deadline);
        }
        let patience = until_nanos.min(silent_nanos).saturating_sub(now);
        let reply = page.replies.recv_timeout(Duration::from_nanos(patience));
        if matches!(reply, Err(RecvTimeoutError::Timeout)) {
            if self.clock.monotonic_nanos() < silent_nanos {
                return false;
            }
            match self.sources[at].is_begun && deadline_nanos.is_some() {
                // As much as arrives in time was requested.
                true => (self.sources[at].page, self.sources[at].next) = (None, None),
                false => self.lose(at, "nothing came in time"),
            }
            return true;
        }
        page.heard_nanos = self.clock.monotonic_nanos();
        self.take(at, reply.ok().flatten());
        true
    }

    /// Takes a reply, or that there is none any more.
    fn take(&mut self, at: usize, reply: Option<Reply>) {
        match reply {
            Some(reply) => match reply.into_result() {
                Ok(sample) => {
                    let attached = sample.attachment().map(|bytes| bytes.to_bytes().into_owned());
                    let attached = attached.and_then(|bytes| Attached::decode(&bytes));
                    let payload = sample.payload().to_bytes();
                    match attached {
                        Some(Attached::End) => self.end_page(at, &payload),
                        Some(message) => self.take_message(at, message, payload.into_owned()),
                        None => self.lose(at, "a reply that makes no sense"),
                    }
                }
                Err(refusal) => {
                    let text = String::from_utf8_lossy(&refusal.payload().to_bytes()).into_owned();
                    let text: String = text.chars().filter(|c| !c.is_control()).take(200).collect();
                    self.lose(at, &text);
                }
            },
            None => self.lose(at, "it stopped answering"),
        }
    }

    fn lose(&mut self, at: usize, why: &str) {
        let source = &mut self.sources[at];
        (source.page, source.next) = (None, None);
        self.lost.push(SourceLoss { found: source.found.clone(), why: why.to_owned() });
    }

    fn end_page(&mut self, at: usize, payload: &[u8]) {
        let Ok(end) = serde_json::from_slice::<End>(payload) else {
            return self.lose(at, "an end that makes no sense");
        };
        self.damaged += end.damaged;
        let source = &mut self.sources[at];
        source.page = None;
        if !end.is_whole {
            let (from, to) = match self.newest_first {
                true => (end.from_nanos, end.next_nanos),
                false => (end.next_nanos, end.to_nanos),
            };
            source.next = Some(format!("from={from};to={to};skip={}", end.next_skip));
            for (rate, last_nanos) in &mut source.rates {
                let name = rate.rsplit_once(':').map_or(&**rate, |(name, _)| name);
                *last_nanos = end.decimated_nanos.get(name).copied();
            }
        }
    }

    fn take_message(&mut self, at: usize, attached: Attached, data: Vec<u8>) {
        let Attached::Message { topic, log_time_nanos, publish_time_nanos, sequence, described } =
            attached
        else {
            return;
        };
        if let Some(described) = described {
            let name = prefixed(&self.sources[at].prefix, &described.name);
            let known = self.topics.iter().position(|t| {
                t.name == name && t.type_name == described.type_name && t.schema == described.schema
            });
            let place = known.unwrap_or_else(|| {
                self.topics.push(Topic { name, ..described });
                self.topics.len() - 1
            });
            self.sources[at].numbers.push((topic, place));
        }
        let numbers = &self.sources[at].numbers;
        let Some(&(_, topic)) = numbers.iter().find(|(number, _)| *number == topic) else {
            return self.lose(at, "a message of a topic that was not described");
        };
        if let Some((bytes, _)) = &mut self.pace {
            *bytes += data.len() as u64;
        }
        self.sources[at].is_begun = true;
        self.sources[at].ready.push_back(RemoteMessage {
            topic,
            log_time_nanos,
            publish_time_nanos,
            sequence,
            data,
        });
    }
}

/// A recording's own name of a topic or a rate; `None` if it means another recording.
fn own_name(name: &str, prefix: &str, prefixes: &[String]) -> Option<String> {
    let behind = |prefix: &str| name.strip_prefix(prefix).filter(|rest| rest.starts_with('/'));
    let is_prefixed = prefixes.iter().any(|prefix| !prefix.is_empty() && behind(prefix).is_some());
    match is_prefixed {
        true => behind(prefix).map(str::to_owned),
        false => Some(name.to_owned()),
    }
}

/// Says that no reply will follow.
struct LastWord(std::sync::mpsc::SyncSender<Option<Reply>>);

impl Drop for LastWord {
    fn drop(&mut self) {
        let _ = self.0.try_send(None);
    }
}

fn seconds(duration: Duration) -> String {
    format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_recordings_topics_are_told_apart_and_asked_by_those_names() {
        let found = |names: &[&str]| -> Vec<Found> {
            let one = |name: &&str| {
                let (robot, container) = name.split_once('/').unwrap();
                Found { robot: robot.into(), recording: container.into() }
            };
            names.iter().map(one).collect()
        };
        assert_eq!(prefixes(&found(&["r1/a"])), [""]);
        let all = prefixes(&found(&["r1/a", "r1/b", "r2/a"]));
        assert_eq!(all, ["/r1/a", "/r1/b", "/r2"]);
        assert_eq!(prefixed("/r2", "imu"), "/r2/imu");
        assert_eq!(prefixed("", "imu"), "imu");
        let own = |name: &str| -> Vec<Option<String>> {
            all.iter().map(|prefix| own_name(name, prefix, &all)).collect()
        };
        assert_eq!(own("/r1/b/imu"), [None, Some("/imu".into()), None]);
        assert_eq!(own("/r2/cam:5"), [None, None, Some("/cam:5".into())]);
        let everybodys = Some("/r2x/imu".to_owned());
        assert_eq!(own("/r2x/imu"), [everybodys.clone(), everybodys.clone(), everybodys]);
        let alone = [String::new()];
        assert_eq!(own_name("/r1/imu", "", &alone), Some("/r1/imu".into()));
    }
}
