//! Containers as queryables.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use livebag::{Buffer, Clock, Container, IndexEntry, Messages, Query as BagQuery, Span};
use zenoh::Wait;
use zenoh::bytes::Encoding;
use zenoh::key_expr::KeyExpr;
use zenoh::liveliness::LivelinessToken;
use zenoh::query::{Query, Queryable, ReplyKeyExpr, TimeBound, TimeRange, ZenohParameters};

use super::address::robot_chunk;
use super::key::{INFO, LIVE, PREFIX, topic_key};
use super::wire::{Attached, End};
use super::{Others, ZenohError, ZenohOptions, failed};
use crate::answer::{AnswerError, Decimation};
use crate::ask::{AskError, Parameters, between, full_names, rate_of};
use crate::catalog::{Catalog, ServedRecording};
use crate::limits::{CATALOG_INTERVAL, ZENOH_QUESTIONS_MAX, ZENOH_THREADS};
use crate::tell::{RecordingInfo, TopicRows};

/// Serves a catalog's containers on Zenoh until it is dropped.
pub struct ZenohServer {
    robot: String,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    session: zenoh::Session,
    catalog: Arc<Catalog>,
    robot: String,
    clock: Clock,
    stop: AtomicBool,
    /// Questions to be answered; gone once the server stops.
    questions: Mutex<Option<SyncSender<Asked>>>,
    declared: Mutex<BTreeMap<String, Declared>>,
}

/// A question, and of which container.
type Asked = (Arc<ServedRecording>, Query);

/// A container that is there. Dropped, it is not any more.
struct Declared {
    _messages: Queryable<()>,
    _info: Queryable<()>,
    _token: LivelinessToken,
}

impl ZenohServer {
    /// Announces what `catalog` has, as of `robot`.
    ///
    /// # Errors
    /// If Zenoh refuses, or would let others in.
    pub fn start(
        catalog: Arc<Catalog>,
        robot: &str,
        options: &ZenohOptions,
        clock: Clock,
    ) -> Result<Self, ZenohError> {
        let robot = robot_chunk(robot);
        let session = options.open()?;
        let (sender, receiver) = sync_channel(ZENOH_QUESTIONS_MAX);
        let shared = Arc::new(Shared {
            session,
            catalog,
            robot: robot.clone(),
            clock,
            stop: AtomicBool::new(false),
            questions: Mutex::new(Some(sender)),
            declared: Mutex::default(),
        });
        shared.declare()?;
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        let mut spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(work);
            thread.map(|thread| threads.push(thread)).map_err(ZenohError::Thread)
        };
        for _ in 0..ZENOH_THREADS {
            let (shared, receiver) = (shared.clone(), receiver.clone());
            spawn("livebag-zenoh", Box::new(move || shared.work(&receiver)))?;
        }
        let watching = shared.clone();
        spawn("livebag-zenoh-watch", Box::new(move || watching.watch()))?;
        Ok(Self { robot, shared, threads })
    }

    /// Its name in keys.
    pub fn robot(&self) -> &str {
        &self.robot
    }

    /// What others announce to the same session.
    pub fn others(&self) -> Arc<Others> {
        let Shared { session, clock, .. } = &*self.shared;
        Arc::new(Others::new(session.clone(), &self.robot, clock.clone()))
    }
}

impl Drop for ZenohServer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.questions.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.shared.declared.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // Ends what waits for askers that do not read.
        let _ = self.shared.session.close().wait();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // It has reported its errors.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Searches for new and removed containers.
    fn watch(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(CATALOG_INTERVAL);
            if !self.stop.load(Ordering::Relaxed) {
                // What Zenoh refuses now it may take the next time.
                let _ = self.declare();
            }
        }
    }

    fn declare(&self) -> Result<(), ZenohError> {
        let bags = self.catalog.bags();
        let mut declared = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        declared.retain(|name, _| bags.iter().any(|container| container.name() == name));
        for container in bags {
            if declared.contains_key(container.name()) {
                continue;
            }
            let key = format!("{PREFIX}/{}/{}", self.robot, container.name());
            let sender = self.questions.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some(sender) = sender else { return Ok(()) };
            let asked = |key: String| {
                let (container, sender) = (container.clone(), sender.clone());
                self.session
                    .declare_queryable(key)
                    .callback(move |query| match sender.try_send((container.clone(), query)) {
                        Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                        Err(TrySendError::Full((_, query))) => {
                            let text = "too many questions are under way: ask again in a second";
                            // An asker that has gone needs no refusal.
                            let _ = query.reply_err(text).wait();
                        }
                    })
                    .wait()
                    .map_err(failed("declaring a queryable"))
            };
            let messages = asked(format!("{key}/**"))?;
            let info = asked(format!("{key}/{INFO}"))?;
            let token = self.session.liveliness().declare_token(format!("{key}/{LIVE}"));
            let token = token.wait().map_err(failed("declaring a liveliness token"))?;
            let name = container.name().to_owned();
            declared.insert(name, Declared { _messages: messages, _info: info, _token: token });
        }
        Ok(())
    }

    fn work(&self, receiver: &Mutex<Receiver<Asked>>) {
        livebag::lower_priority();
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((served, query)) = next else { return };
            if let Err(error) = self.answer(&served, &query) {
                let _ = query.reply_err(text_of(&error)).wait();
            }
        }
    }

    fn answer(&self, served: &ServedRecording, query: &Query) -> Result<(), AnswerError> {
        let container = served.container()?;
        let key = format!("{PREFIX}/{}/{}", self.robot, served.name());
        if query.key_expr().as_str() == format!("{key}/{INFO}") {
            let parameters = query.parameters().iter();
            let mut ask = Parameters::new(parameters.map(|(k, v)| (k.into(), v.into())).collect());
            let has_definitions = ask.flag("schemas")?;
            ask.end()?;
            let rows = TopicRows::new(&container, has_definitions);
            let info = RecordingInfo::with_rows(served.name(), &container, rows)?;
            let json = serde_json::to_vec(&info).map_err(|error| {
                let failure = info.topics.failure();
                failure.map_or(AnswerError::Written(error.to_string()), AnswerError::Container)
            })?;
            let reply = query.reply(query.key_expr(), json).encoding(Encoding::APPLICATION_JSON);
            return reply.wait().map_err(|_| AnswerError::Gone);
        }
        let question = Question::understand(&container, query, &key)?;
        let mut decimation = Decimation::new(&container, &question.rates);
        decimation.resume(&question.decimated_nanos);
        let mut replies = Replies::new(&container, query, &key, question.deadline(&self.clock));
        let mut end = match question.newest_first {
            true => {
                let mut messages = container.newest_first(&question.query)?;
                replies.all(&mut messages, &question, &mut decimation, &self.clock)?
            }
            false => {
                let mut messages = container.query(&question.query)?;
                replies.all(&mut messages, &question, &mut decimation, &self.clock)?
            }
        };
        end.decimated_nanos = decimation.last_nanos();
        if let Span::History(from, to) = question.query.span {
            (end.from_nanos, end.to_nanos) = (from, to);
        }
        replies.end(&end)
    }
}

/// Answers never contain paths of this machine.
fn text_of(error: &AnswerError) -> String {
    match error {
        AnswerError::Ask(_) | AnswerError::NoMessage => error.to_string(),
        AnswerError::Container(livebag::ContainerError::NoTopic { topic, .. }) => {
            format!("the recording has no topic {topic}")
        }
        _ => "the recording cannot be read".into(),
    }
}

/// A parsed selector.
struct Question {
    query: BagQuery,
    newest_first: bool,
    /// Messages of the first log time that were given before.
    skip: u64,
    /// Bytes after which the answer ends, at least one message.
    bytes_max: u64,
    /// The same in messages.
    messages_max: u64,
    /// Time after which it ends.
    within: Option<Duration>,
    /// Of these topics at most this many messages a second …
    rates: Vec<(String, f64)>,
    /// … and when those were logged that were given last before.
    decimated_nanos: BTreeMap<String, u64>,
}

impl Question {
    /// `_time=[…]`, or one of `latest=D`, `auto=D`, `from=T;to=T`; `topics=/a|/b`; for clients that request parts
    /// `order=newest`, `bytes=N`, `messages=N`, `skip=N`; newest first `decimate=/a:HZ|/b:HZ`, and after `@` the log
    /// time of the last one sent.
    fn understand(container: &Container, query: &Query, key: &str) -> Result<Self, AnswerError> {
        let parameters = query.parameters();
        let wrong = |text: &str| AnswerError::Ask(AskError(text.to_owned()));
        let mut pairs = Vec::new();
        for (name, value) in parameters.iter().filter(|(name, _)| !name.starts_with('_')) {
            let unescape = crate::ask::unescape;
            pairs.push((unescape(name)?, unescape(value)?));
        }
        let mut ask = Parameters::new(pairs);
        let named = ask.one("topics")?.unwrap_or_default();
        let named: Vec<String> =
            named.split('|').filter(|t| !t.is_empty()).map(String::from).collect();
        let mut topics = matching(container, query.key_expr(), key);
        if !named.is_empty() {
            let named = full_names(container, &named);
            if let Some(missing) = named.iter().find(|name| !topics.contains(name)) {
                let missing: String = missing.chars().take(100).collect();
                return Err(AnswerError::Ask(AskError(format!("there is no topic {missing}"))));
            }
            topics = named;
        }
        let time = parameters.time_range().transpose();
        let time = time.map_err(|_| wrong("`_time` is not a time range of Zenoh's"))?;
        let (latest, auto) = (ask.duration("latest")?, ask.duration("auto")?);
        let (from, to) = (ask.moment("from")?, ask.moment("to")?);
        let number = |text: Option<String>| match text.map(|text| text.parse()) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => Err(wrong("`bytes`, `messages` and `skip` are whole numbers")),
        };
        let bytes_max = number(ask.one("bytes")?)?.unwrap_or(u64::MAX);
        let messages_max = number(ask.one("messages")?)?.unwrap_or(u64::MAX);
        let skip = number(ask.one("skip")?)?.unwrap_or(0);
        let order = ask.one("order")?;
        let (rates, decimated_nanos) = decimation(&ask.one("decimate")?.unwrap_or_default())?;
        ask.end()?;
        let ways = [time.is_some(), latest.is_some(), from.is_some() || to.is_some()];
        if ways.iter().filter(|&&is_given| is_given).count() > 1 {
            return Err(wrong("`_time`, `latest` and `from`/`to` exclude each other"));
        }
        let mut wanted = BagQuery { topics, span: Span::All };
        if let Some(time) = time {
            wanted.span = span_of(&time);
        } else if let Some(last) = latest {
            wanted.span = absolute(container, &wanted.topics, last)?;
        } else if from.is_some() || to.is_some() {
            wanted = between(container, &wanted.topics, from, to).map_err(AnswerError::from)?;
        }
        if wanted.span == Span::All {
            wanted.span = Span::History(0, u64::MAX);
        }
        let newest_first = match order.as_deref() {
            None => auto.is_some(),
            Some("newest") => true,
            Some("oldest") => false,
            Some(_) => return Err(wrong("`order` is oldest or newest")),
        };
        if !newest_first && !rates.is_empty() {
            return Err(wrong("`decimate` goes with `auto` or `order=newest`"));
        }
        Ok(Self {
            query: wanted,
            newest_first,
            skip,
            bytes_max,
            messages_max,
            within: auto,
            rates,
            decimated_nanos,
        })
    }

    fn deadline(&self, clock: &Clock) -> Option<u64> {
        self.within.map(|within| clock.monotonic_nanos() + within.as_nanos() as u64)
    }
}

/// Rates, and log times of the last messages sent.
type Rates = (Vec<(String, f64)>, BTreeMap<String, u64>);

/// `/a:5|/b:2@1700000000000000000`.
fn decimation(text: &str) -> Result<Rates, AskError> {
    let (mut rates, mut decimated_nanos) = (Vec::new(), BTreeMap::new());
    for part in text.split('|').filter(|part| !part.is_empty()) {
        let last = part.rsplit_once('@').and_then(|(rate, time)| Some((rate, time.parse().ok()?)));
        let (topic, rate) = rate_of(last.map_or(part, |(rate, _)| rate))?;
        if let Some((_, time)) = last {
            decimated_nanos.insert(topic.clone(), time);
        }
        rates.push((topic, rate));
    }
    Ok((rates, decimated_nanos))
}

/// Topics whose keys a selector matches.
fn matching(container: &Container, wanted: &KeyExpr<'_>, key: &str) -> Vec<String> {
    let names = container.topics().iter().map(|topic| &topic.topic().name);
    let is_wanted = |name: &&String| {
        KeyExpr::try_from(format!("{key}/{}", topic_key(name)))
            .is_ok_and(|topic| wanted.intersects(&topic))
    };
    names.filter(is_wanted).cloned().collect()
}

/// The given time before the newest message, as times.
fn absolute(container: &Container, topics: &[String], last: Duration) -> Result<Span, AnswerError> {
    let query = BagQuery { topics: topics.to_vec(), span: Span::All };
    let newest = match topics.is_empty() {
        true => None,
        false => container.newest_first(&query)?.next_entry()?,
    };
    let newest = newest.map_or(0, |(_, entry)| entry.log_time_nanos);
    Ok(Span::History(newest.saturating_sub(last.as_nanos() as u64), newest))
}

fn span_of(time: &TimeRange) -> Span {
    let time = time.resolve();
    let nanos = |time: std::time::SystemTime| {
        time.duration_since(std::time::UNIX_EPOCH).map_or(0, |after| after.as_nanos() as u64)
    };
    let from = match time.start {
        TimeBound::Inclusive(time) => nanos(time),
        TimeBound::Exclusive(time) => nanos(time).saturating_add(1),
        TimeBound::Unbounded => 0,
    };
    let to = match time.end {
        TimeBound::Inclusive(time) => nanos(time),
        TimeBound::Exclusive(time) => nanos(time).saturating_sub(1),
        TimeBound::Unbounded => u64::MAX,
    };
    Span::History(from, to)
}

/// The replies to one question.
struct Replies<'a> {
    container: &'a Container,
    query: &'a Query,
    key: &'a str,
    /// Topic by place in the container: its key, and whether it has been described.
    topics: BTreeMap<usize, (KeyExpr<'static>, bool)>,
    deadline_nanos: Option<u64>,
}

impl<'a> Replies<'a> {
    fn new(
        container: &'a Container,
        query: &'a Query,
        key: &'a str,
        deadline_nanos: Option<u64>,
    ) -> Self {
        Self { container, query, key, topics: BTreeMap::new(), deadline_nanos }
    }

    fn all(
        &mut self,
        messages: &mut dyn Messages,
        question: &Question,
        decimation: &mut Decimation,
        clock: &Clock,
    ) -> Result<End, AnswerError> {
        let mut end = End { is_whole: true, ..End::default() };
        let (mut bytes, mut skip) = (0, question.skip);
        // Log time of the messages being given, and how many of it were.
        let mut now_at = (0, 0);
        if question.query.topics.is_empty() {
            return Ok(end);
        }
        while let Some((topic, entry)) = messages.next_entry()? {
            if now_at.0 != entry.log_time_nanos {
                now_at = (entry.log_time_nanos, 0);
            }
            if skip > 0 {
                skip -= 1;
                now_at.1 += 1;
                continue;
            }
            if !decimation.wants(topic, &entry) {
                now_at.1 += 1;
                continue;
            }
            let is_late = self.deadline_nanos.is_some_and(|end| clock.monotonic_nanos() >= end);
            let is_enough = bytes + u64::from(entry.data_bytes) > question.bytes_max
                || end.messages >= question.messages_max
                || is_late;
            if is_enough && end.messages > 0 {
                (end.is_whole, end.next_nanos, end.next_skip) = (false, now_at.0, now_at.1);
                break;
            }
            now_at.1 += 1;
            // One message of each thread is in memory, once; Zenoh takes it as it is.
            let mut data = Buffer::default();
            if messages.append_to(&mut data)? {
                self.reply(topic, &entry, data.into())?;
                decimation.gave(topic, &entry);
                end.messages += 1;
                bytes += u64::from(entry.data_bytes);
            }
        }
        end.damaged = messages.damaged_by_topic().iter().sum();
        Ok(end)
    }

    fn reply(&mut self, at: usize, entry: &IndexEntry, data: Vec<u8>) -> Result<(), AnswerError> {
        let topic = self.container.topics()[at].topic();
        if !self.topics.contains_key(&at) {
            let key = KeyExpr::try_from(format!("{}/{}", self.key, topic_key(&topic.name)));
            let key = key.map_err(|_| AskError(format!("{} cannot be a key", topic.name)))?;
            self.topics.insert(at, (key, false));
        }
        let Some((key, is_described)) = self.topics.get_mut(&at) else { return Ok(()) };
        let described = (!std::mem::replace(is_described, true)).then(|| topic.clone());
        let attached = Attached::Message {
            topic: at as u16,
            log_time_nanos: entry.log_time_nanos,
            publish_time_nanos: entry.publish_time_nanos,
            sequence: entry.sequence,
            described,
        };
        let encoding = Encoding::from(format!("application/{}", topic.message_encoding));
        let reply = self.query.reply(&*key, data).encoding(encoding).attachment(attached.encode());
        reply.wait().map_err(|_| AnswerError::Gone)
    }

    /// Sends the end of the answer, if the client accepts it.
    fn end(&self, end: &End) -> Result<(), AnswerError> {
        if self.query.accepts_replies() != ReplyKeyExpr::Any {
            return Ok(());
        }
        let json = serde_json::to_vec(end).unwrap_or_default();
        let key = format!("{}/{LIVE}", self.key);
        let reply = self.query.reply(key, json).attachment(Attached::End.encode());
        reply.wait().map_err(|_| AnswerError::Gone)
    }
}
