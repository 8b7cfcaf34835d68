//! One client's connection, from its first message to its last.
//!
//! The connection's task receives the client's messages and sends one message after another. Whenever all are in flight
//! and the link has taken them, a thread that may wait for the disk asks the feed for new messages.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Error as SocketError;
use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use livebag::{Clock, ContainerError};

use super::playhead::Playhead;
use super::protocol::{
    self, Asked, Level, PlaybackRequest, PlaybackStatus, SUBPROTOCOLS, parse_binary, parse_text,
};
use super::{Changes, Feed, Seat};
use crate::limits::{
    LIVE_AHEAD_BYTES, LIVE_BATCH_BYTES_MAX, LIVE_BATCH_BYTES_MIN, LIVE_BATCH_TIME,
    LIVE_CHANNELS_INTERVAL, LIVE_MISTAKES_MAX, LIVE_PING_INTERVAL, LIVE_STATUS_INTERVAL,
    LIVE_SUBSCRIPTIONS_MAX, LIVE_TICK, ServerLimits,
};
use crate::link::Link;
use crate::pool::Pool;

/// Bounds of a session that a server may be given others for.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// A client that sends nothing for this long, not even answers to pings, counts as gone.
    pub silence_max: Duration,
    /// How long a message waits for memory.
    pub patience: Duration,
}

impl From<&ServerLimits> for SessionLimits {
    fn from(limits: &ServerLimits) -> Self {
        Self { silence_max: limits.live_silence_max, patience: limits.turn_timeout }
    }
}

/// Messages left out of a subscription.
struct LeftOut {
    id: u32,
    topic: String,
    count: u64,
    said: u64,
}

/// A session's state, moved to the thread that waits for the disk and back.
struct Work {
    feed: Box<dyn Feed>,
    session_id: String,
    clock: Clock,
    pool: Pool,
    patience: Duration,
    playhead: Option<Playhead>,
    /// Whether the client supports playing: it uses the newer subprotocol, or has requested it.
    knows_playback: bool,
    asked: VecDeque<PlaybackRequest>,
    subscriptions: Vec<u32>,
    left_out: Vec<LeftOut>,
    refreshed_nanos: Option<u64>,
    said_nanos: u64,
    shown_nanos: u64,
    range: Option<(u64, u64)>,
    /// When the client first subscribed.
    subscribed_nanos: Option<u64>,
    /// Whether the client controls playing, or time continues because it has waited long enough.
    has_begun: bool,
}

/// Result of a turn: messages for the client, and their bytes.
struct Turn {
    messages: Vec<Message>,
    bytes: usize,
}

/// One client's connection.
pub struct Session {
    work: Option<Box<Work>>,
    link: Arc<Link>,
    clock: Clock,
    limits: SessionLimits,
    /// Messages still to be sent.
    waiting: VecDeque<Message>,
    is_flushing: bool,
    mistakes: usize,
    heard_nanos: u64,
    pinged_nanos: u64,
    /// Bytes of the batch under way, and when it was begun.
    batch: Option<(usize, u64)>,
    budget: usize,
    _seat: Seat,
}

/// What woke the task.
enum Woken {
    Said(Option<Result<Message, SocketError>>),
    Flushed(Result<(), SocketError>),
    Tick,
}

fn text(text: String) -> Message {
    Message::Text(text.into())
}

fn binary(bytes: Vec<u8>) -> Message {
    Message::Binary(Bytes::from(bytes))
}

impl Session {
    /// A session that gives what `feed` has over `link`.
    pub fn new(
        feed: Box<dyn Feed>,
        link: Arc<Link>,
        (clock, pool): (&Clock, &Pool),
        limits: SessionLimits,
        seat: Seat,
    ) -> Self {
        let now = clock.monotonic_nanos();
        let work = Work {
            feed,
            session_id: clock.wall_nanos().to_string(),
            clock: clock.clone(),
            pool: pool.clone(),
            patience: limits.patience,
            playhead: None,
            knows_playback: false,
            asked: VecDeque::new(),
            subscriptions: Vec::new(),
            left_out: Vec::new(),
            refreshed_nanos: None,
            said_nanos: now,
            shown_nanos: 0,
            range: None,
            subscribed_nanos: None,
            has_begun: false,
        };
        Self {
            work: Some(Box::new(work)),
            link,
            clock: clock.clone(),
            limits,
            waiting: VecDeque::new(),
            is_flushing: false,
            mistakes: 0,
            heard_nanos: now,
            pinged_nanos: now,
            batch: None,
            budget: LIVE_BATCH_BYTES_MAX,
            _seat: seat,
        }
    }

    /// Serves the client until it goes, breaks the protocol, or takes nothing.
    pub async fn run(mut self, mut socket: WebSocket) {
        let is_new = socket.protocol().is_some_and(|name| name == SUBPROTOCOLS[1]);
        if let Some(work) = &mut self.work {
            work.knows_playback = is_new;
        }
        let why = loop {
            if let Err(close) = self.give(&mut socket) {
                break close;
            }
            match self.woken(&mut socket).await {
                Woken::Said(Some(Ok(message))) => {
                    if let Err(close) = self.hear(message) {
                        break close;
                    }
                }
                Woken::Said(_) | Woken::Flushed(Err(_)) => return,
                Woken::Flushed(Ok(())) => self.is_flushing = false,
                Woken::Tick => {
                    if let Err(close) = self.tick().await {
                        break close;
                    }
                }
            }
        };
        // The client may have gone already.
        if let Some(frame) = why {
            let said = socket.send(Message::Close(Some(frame)));
            let _ = tokio::time::timeout(self.limits.patience, said).await;
        }
    }

    /// Gives the network the next message, once it has the one before.
    fn give(&mut self, socket: &mut WebSocket) -> Result<(), Option<CloseFrame>> {
        if self.is_flushing {
            return Ok(());
        }
        if let Some(message) = self.waiting.pop_front() {
            Pin::new(socket).start_send(message).map_err(|_| None)?;
            self.is_flushing = true;
        }
        Ok(())
    }

    async fn woken(&mut self, socket: &mut WebSocket) -> Woken {
        let pause = match self.waiting.is_empty() && !self.is_flushing {
            true => self.work.as_ref().map_or(LIVE_TICK, |work| work.pause()),
            // There is nothing to do but to see whether the client is still there.
            false => LIVE_PING_INTERVAL.min(self.limits.silence_max / 3),
        };
        let mut pause = std::pin::pin!(tokio::time::sleep(pause));
        let is_flushing = self.is_flushing;
        std::future::poll_fn(move |cx: &mut Context<'_>| {
            let mut socket = Pin::new(&mut *socket);
            if let Poll::Ready(said) = socket.as_mut().poll_next(cx) {
                return Poll::Ready(Woken::Said(said));
            }
            if is_flushing && let Poll::Ready(flushed) = socket.as_mut().poll_flush(cx) {
                return Poll::Ready(Woken::Flushed(flushed));
            }
            pause.as_mut().poll(cx).map(|()| Woken::Tick)
        })
        .await
    }

    /// Handles a client's message.
    fn hear(&mut self, message: Message) -> Result<(), Option<CloseFrame>> {
        self.heard_nanos = self.clock.monotonic_nanos();
        let asked = match message {
            Message::Text(text) => parse_text(&text),
            Message::Binary(bytes) => parse_binary(&bytes),
            // Pings are answered by the socket.
            Message::Ping(_) | Message::Pong(_) => return Ok(()),
            Message::Close(_) => return Err(None),
        };
        let Some(work) = &mut self.work else { return Err(None) };
        let refused = match asked {
            Ok(asked) => work.ask(asked),
            Err(error) => Err(error.to_string()),
        };
        let Err(refused) = refused else { return Ok(()) };
        self.mistakes += 1;
        if self.mistakes > LIVE_MISTAKES_MAX {
            let reason = "too many messages that cannot be followed".into();
            return Err(Some(CloseFrame { code: close_code::POLICY, reason }));
        }
        self.waiting.push_back(text(protocol::status(Level::Error, &refused, None)));
        Ok(())
    }

    /// Periodic work: a ping, and a turn of the feed if the link is free.
    async fn tick(&mut self) -> Result<(), Option<CloseFrame>> {
        let now = self.clock.monotonic_nanos();
        if now.saturating_sub(self.heard_nanos) > self.limits.silence_max.as_nanos() as u64 {
            let reason = "nothing was heard for too long".into();
            return Err(Some(CloseFrame { code: close_code::AWAY, reason }));
        }
        let interval = LIVE_PING_INTERVAL.min(self.limits.silence_max / 3);
        if now.saturating_sub(self.pinged_nanos) > interval.as_nanos() as u64 {
            self.pinged_nanos = now;
            self.waiting.push_back(Message::Ping(Bytes::new()));
        }
        let is_busy = self.is_flushing
            || !self.waiting.is_empty()
            || self.link.state().unacked_bytes > LIVE_AHEAD_BYTES;
        if is_busy {
            return Ok(());
        }
        self.measure(now);
        let Some(work) = self.work.take() else { return Err(None) };
        let budget = self.budget;
        let turned = tokio::task::spawn_blocking(move || {
            let mut work = work;
            let turn = work.turn(budget);
            (work, turn)
        });
        let Ok((work, turn)) = turned.await else { return Err(None) };
        self.work = Some(work);
        match turn {
            Ok(turn) => {
                if turn.bytes > 0 {
                    self.batch = Some((turn.bytes, self.clock.monotonic_nanos()));
                }
                self.waiting.extend(turn.messages);
                Ok(())
            }
            Err(_) => {
                let reason = "the recording can be read no more".into();
                Err(Some(CloseFrame { code: close_code::ERROR, reason }))
            }
        }
    }

    /// The last batch has arrived: how much the link takes in a time in which nothing becomes old.
    fn measure(&mut self, now: u64) {
        let Some((bytes, since)) = self.batch.take() else { return };
        let elapsed = Duration::from_nanos(now.saturating_sub(since));
        self.budget = if elapsed <= 2 * LIVE_TICK {
            LIVE_BATCH_BYTES_MAX
        } else {
            let fits = bytes as f64 * LIVE_BATCH_TIME.as_secs_f64() / elapsed.as_secs_f64();
            (fits as usize).clamp(LIVE_BATCH_BYTES_MIN, LIVE_BATCH_BYTES_MAX)
        };
    }
}

impl Work {
    /// How long until the next turn.
    fn pause(&self) -> Duration {
        let is_paused =
            self.playhead.is_some_and(|head| head.status().0 != PlaybackStatus::Playing);
        let has_news = self.refreshed_nanos.is_none() || !self.asked.is_empty();
        if has_news || (!is_paused && !self.subscriptions.is_empty()) {
            return LIVE_TICK;
        }
        // A subscription made while paused needs its message, too.
        if self.subscriptions.is_empty() { LIVE_CHANNELS_INTERVAL } else { 2 * LIVE_TICK }
    }

    /// Executes a client's request; an error text if it is not possible.
    fn ask(&mut self, asked: Asked) -> Result<(), String> {
        match asked {
            Asked::Subscribe(wanted) => {
                for (id, channel) in wanted {
                    if self.subscriptions.contains(&id) {
                        return Err(format!("there is a subscription {id} already"));
                    }
                    if self.subscriptions.len() >= LIVE_SUBSCRIPTIONS_MAX {
                        return Err(protocol::AskedError::TooMany.to_string());
                    }
                    if !self.feed.subscribe(id, channel) {
                        return Err(format!("there is no channel {channel}"));
                    }
                    self.subscriptions.push(id);
                    let now = self.clock.monotonic_nanos();
                    self.subscribed_nanos.get_or_insert(now);
                }
            }
            Asked::Unsubscribe(ids) => {
                for id in ids {
                    self.subscriptions.retain(|known| *known != id);
                    self.left_out.retain(|known| known.id != id);
                    if !self.feed.unsubscribe(id) {
                        return Err(format!("there is no subscription {id}"));
                    }
                }
            }
            Asked::Playback(request) => {
                self.knows_playback = true;
                // Of a slider that is dragged only the last place counts, and each is answered.
                if self.asked.len() == LIVE_MISTAKES_MAX {
                    return Err("too many requests at once".into());
                }
                self.asked.push_back(request);
            }
        }
        Ok(())
    }

    /// New messages for the client.
    fn turn(&mut self, budget: usize) -> Result<Turn, ContainerError> {
        let now = self.clock.monotonic_nanos();
        let mut messages = Vec::new();
        self.refresh(now, &mut messages)?;
        let until = self.play(now, &mut messages)?;
        let batch = self.feed.collect(until, budget, &self.pool, self.patience)?;
        let newest = batch.messages.last().map(|(nanos, _)| *nanos);
        messages.extend(batch.messages.into_iter().map(|(_, bytes)| Message::Binary(bytes)));
        // The client's clock: the moment that is shown, or the newest message where that is the newest there is.
        let shown = if until == u64::MAX { newest.unwrap_or(self.shown_nanos) } else { until };
        if shown != self.shown_nanos && !self.subscriptions.is_empty() {
            self.shown_nanos = shown;
            messages.push(binary(protocol::time(shown)));
        }
        for (id, topic, count) in batch.left_out {
            match self.left_out.iter_mut().find(|known| known.id == id) {
                Some(known) => known.count += count,
                None => self.left_out.push(LeftOut { id, topic, count, said: 0 }),
            }
        }
        self.say_left_out(now, &mut messages);
        Ok(Turn { messages, bytes: batch.bytes })
    }

    /// Announces new and removed channels and, at the beginning, the server.
    fn refresh(&mut self, now: u64, messages: &mut Vec<Message>) -> Result<(), ContainerError> {
        let interval = LIVE_CHANNELS_INTERVAL.as_nanos() as u64;
        if self.refreshed_nanos.is_some_and(|last| now.saturating_sub(last) < interval) {
            return Ok(());
        }
        let playable = self.feed.playable()?;
        if self.refreshed_nanos.is_none() {
            self.playhead = playable.map(|playable| Playhead::new(playable, now));
        }
        let range = playable.map(|playable| playable.range);
        // The end moves on while it is recorded. Clients that do not play would take it for another server.
        let is_first = self.refreshed_nanos.is_none();
        if is_first || (range != self.range && self.knows_playback) {
            self.range = range;
            let name = format!("livebag: {}", self.feed.name());
            messages.push(text(protocol::server_info(&name, &self.session_id, range)));
        }
        let Changes { come, gone } = self.feed.refresh()?;
        if !gone.is_empty() {
            messages.push(text(protocol::unadvertise(&gone)));
        }
        if !come.is_empty() {
            messages.push(text(protocol::advertise(come.iter().map(|(id, topic)| (*id, topic)))));
        }
        self.refreshed_nanos = Some(now);
        Ok(())
    }

    /// Executes playback requests; returns the displayed time.
    fn play(&mut self, now: u64, messages: &mut Vec<Message>) -> Result<u64, ContainerError> {
        let (Some(head), Some(playable)) = (&mut self.playhead, self.feed.playable()?) else {
            for _ in self.asked.drain(..) {
                let why = "what is shown here is the present: it cannot be played";
                messages.push(text(protocol::status(Level::Error, why, None)));
            }
            return Ok(u64::MAX);
        };
        // Nothing plays before the viewer has subscribed, one channel after the other perhaps.
        let patience = LIVE_CHANNELS_INTERVAL.as_nanos() as u64;
        let is_due = |since: u64| now.saturating_sub(since) >= patience;
        self.has_begun |= !self.asked.is_empty() || self.subscribed_nanos.is_some_and(is_due);
        if !self.has_begun {
            *head = Playhead::new(playable, now);
        }
        let mut tell = |head: &Playhead, did_seek: bool, request_id: &str| {
            let (status, speed) = head.status();
            let at = (head.at(playable, now), speed);
            messages.push(binary(protocol::playback_state(status, at, did_seek, request_id)));
        };
        let mut seek = None;
        while let Some(request) = self.asked.pop_front() {
            let before = head.status().0;
            head.apply(&request, playable, now);
            let restarts = before == PlaybackStatus::Ended && request.plays;
            let has_sought = request.seek_nanos.is_some() || restarts;
            if has_sought {
                seek = Some(head.at(playable, now));
            }
            tell(head, has_sought, &request.request_id);
        }
        if let Some(nanos) = seek {
            self.feed.seek(nanos);
        }
        if head.advance(playable, now) && self.knows_playback {
            tell(head, false, "");
        }
        Ok(head.until(playable, now))
    }

    fn say_left_out(&mut self, now: u64, messages: &mut Vec<Message>) {
        let interval = LIVE_STATUS_INTERVAL.as_nanos() as u64;
        if now.saturating_sub(self.said_nanos) < interval {
            return;
        }
        for known in self.left_out.iter_mut().filter(|known| known.count > known.said) {
            known.said = known.count;
            self.said_nanos = now;
            let sentence = format!(
                "{}: {} messages were left out so far, because the link does not take them all",
                known.topic, known.count
            );
            let id = format!("livebag.left_out.{}", known.id);
            messages.push(text(protocol::status(Level::Warning, &sentence, Some(&id))));
        }
    }
}
