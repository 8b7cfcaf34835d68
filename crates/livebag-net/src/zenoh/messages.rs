//! Answers of many robots, merged.
//!
//! Each recording is asked for a page at a time, so that what waits in memory is bounded by pages, and one
//! that is slow or gone holds nobody else's answer up for longer than a page's timeout. A recording that
//! does not end its page with an end is lost from there on, and that is said.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use livebag::Clock;
use livebag_format::Topic;
use zenoh::Wait;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply, ReplyKeyExpr};

use super::asker::{Found, Plan};
use super::key::PREFIX;
use super::wire::{Attached, End};
use super::{ZenohError, failed};
use crate::ask::escape;
use crate::limits::{ASK_TIMEOUT, AUTO_MARGIN, ZENOH_PAGE_BYTES, ZENOH_PAGE_MESSAGES};
use crate::remote::RemoteMessage;

/// A recording whose answer ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLoss {
    /// Which.
    pub found: Found,
    /// Why, in words.
    pub why: String,
}

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
    /// Bytes that have come, and since when: how fast they come.
    pace: Option<(u64, u64)>,
}

struct Source {
    found: Found,
    /// What topics are called before their own name.
    prefix: String,
    /// `topics=…` and the like, the same on every page.
    fixed: String,
    /// The part of a selector that says which page is next; `None` after the last.
    next: Option<String>,
    page: Option<Receiver<Option<Reply>>>,
    ready: VecDeque<RemoteMessage>,
    /// Topic of this answer by its number in a page.
    numbers: Vec<(u16, usize)>,
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
            Plan::Auto(within, last) => {
                let span =
                    last.map_or_else(String::new, |last| format!("latest={}", seconds(last)));
                (span, Some(now + within.as_nanos() as u64))
            }
        };
        let is_one_robot = found.iter().all(|other| other.robot == found[0].robot);
        let mut fixed = String::new();
        if !topics.is_empty() {
            let names: Vec<String> = topics.iter().map(|topic| escape(topic)).collect();
            fixed.push_str(&format!(";topics={}", names.join("|")));
        }
        if deadline_nanos.is_some() {
            fixed.push_str(";order=newest");
        }
        let count = found.len();
        let source = |at: usize| {
            let here = &found[at];
            let is_alone = found.iter().filter(|other| other.robot == here.robot).count() == 1;
            let prefix = match (count, is_one_robot, is_alone) {
                (1, _, _) => String::new(),
                (_, _, true) => format!("/{}", here.robot),
                _ => format!("/{}/{}", here.robot, here.bag),
            };
            Source {
                found: here.clone(),
                prefix,
                fixed: fixed.clone(),
                next: Some(span.clone()),
                page: None,
                ready: VecDeque::new(),
                numbers: Vec::new(),
            }
        };
        let mut this = Self {
            sources: (0..count).map(source).collect(),
            session,
            clock,
            topics: Vec::new(),
            lost: Vec::new(),
            damaged: 0,
            newest_first: deadline_nanos.is_some(),
            deadline_nanos,
            pace: None,
        };
        // All at once: who is slow does not keep the others waiting.
        for at in 0..count {
            this.turn_page(at)?;
        }
        Ok(this)
    }

    /// The topics of which there were messages so far.
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
        for at in 0..self.sources.len() {
            self.fill(at)?;
        }
        let newest_first = self.newest_first;
        let heads = self.sources.iter().enumerate();
        let heads =
            heads.filter_map(|(at, source)| Some((at, source.ready.front()?.log_time_nanos)));
        let by_time = |a: &(usize, u64), b: &(usize, u64)| -> Ordering {
            let order = a.1.cmp(&b.1);
            (if newest_first { order.reverse() } else { order }).then(a.0.cmp(&b.0))
        };
        let Some((at, _)) = heads.min_by(by_time) else { return Ok(None) };
        let next = self.sources[at].ready.pop_front();
        Ok(next)
    }

    /// Sees to it that a source has a message ready, unless it has no more.
    fn fill(&mut self, at: usize) -> Result<(), ZenohError> {
        while self.sources[at].ready.is_empty() {
            if self.sources[at].page.is_none() {
                if self.sources[at].next.is_none() || self.is_late() {
                    return Ok(());
                }
                self.turn_page(at)?;
            }
            self.take_reply(at);
        }
        Ok(())
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
        let key = format!("{PREFIX}/{}/{}/**", source.found.robot, source.found.bag);
        let separator = if page.is_empty() { "" } else { ";" };
        let selector = format!(
            "{key}?{page}{separator}bytes={bytes};messages={ZENOH_PAGE_MESSAGES}{}",
            source.fixed
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
                // An asker that has gone takes no more.
                let _ = sender.try_send(Some(reply));
            })
            .wait()
            .map_err(failed("asking"))?;
        source.page = Some(receiver);
        Ok(())
    }

    /// Takes the next reply of a source's page.
    fn take_reply(&mut self, at: usize) {
        let Some(page) = &self.sources[at].page else { return };
        // Zenoh ends a page by its own timeout; this is for a session that has stopped working.
        match page.recv_timeout(ASK_TIMEOUT + Duration::from_secs(5)) {
            Ok(Some(reply)) => match reply.into_result() {
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
            Ok(None) | Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout) => {
                self.lose(at, "it stopped answering");
            }
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
        }
    }

    fn take_message(&mut self, at: usize, attached: Attached, data: Vec<u8>) {
        let Attached::Message { topic, log_time_nanos, publish_time_nanos, sequence, described } =
            attached
        else {
            return;
        };
        if let Some(described) = described {
            let prefix = &self.sources[at].prefix;
            let is_apart = !prefix.is_empty() && !described.name.starts_with('/');
            let name = format!("{prefix}{}{}", if is_apart { "/" } else { "" }, described.name);
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
        self.sources[at].ready.push_back(RemoteMessage {
            topic,
            log_time_nanos,
            publish_time_nanos,
            sequence,
            data,
        });
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
