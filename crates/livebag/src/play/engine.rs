//! The player's loop: publishes due messages, follows commands, and waits for either.

use std::time::Duration;

use super::clock_topic::ClockTopic;
use super::control::{PlayControl, PlayOrder, PlaySeek, PlayStatus};
use super::options::{PlayOptions, nanos};
use super::pace::Pace;
use super::packet::Packet;
use super::read_ahead::{Next, ReadAhead};
use super::{PlayError, PlayedTopic};
use crate::limits::{PLAY_HEARTBEAT, PLAY_SLEEP_MAX};

/// The played range of time. Times of the recording in nanoseconds, in the order that is played.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub begin_nanos: u64,
    pub last_nanos: u64,
    /// From the beginning of a round to the beginning of the next.
    pub round_nanos: u64,
}

pub(super) struct Engine<'a> {
    options: &'a PlayOptions,
    control: &'a PlayControl,
    ahead: &'a ReadAhead,
    played: &'a mut [PlayedTopic],
    clock_topic: Option<&'a mut ClockTopic>,
    /// Place in `played` by topic of the recording.
    route: &'a [Option<usize>],
    progress: &'a mut dyn FnMut(&PlayStatus),
    span: Span,
    pace: Pace,
    status: PlayStatus,
    /// The next message, taken from the queue but not due yet.
    next: Option<Next>,
    /// Time is held until a message has been read, so that searching makes nothing late.
    is_seeking: bool,
    /// Messages still to be published without waiting.
    burst: u64,
    heartbeat_nanos: u64,
}

/// Whether playing continues.
#[derive(PartialEq)]
enum Go {
    On,
    End,
}

impl<'a> Engine<'a> {
    pub fn new(
        options: &'a PlayOptions,
        control: &'a PlayControl,
        ahead: &'a ReadAhead,
        (played, clock_topic): (&'a mut [PlayedTopic], Option<&'a mut ClockTopic>),
        route: &'a [Option<usize>],
        span: Span,
        progress: &'a mut dyn FnMut(&PlayStatus),
    ) -> Self {
        let before = options.lead_in.saturating_add(options.delay);
        let start_nanos = options.clock.monotonic_nanos().saturating_add(nanos(before));
        let length = span.last_nanos.saturating_sub(span.begin_nanos);
        let status = PlayStatus {
            length: Duration::from_nanos(length),
            rate: options.rate,
            paused: options.start_paused,
            ..PlayStatus::default()
        };
        Self {
            options,
            control,
            ahead,
            played,
            clock_topic,
            route,
            progress,
            span,
            pace: Pace::held(start_nanos, span.begin_nanos, options.rate),
            status,
            next: None,
            is_seeking: true,
            burst: 0,
            heartbeat_nanos: 0,
        }
    }

    /// Plays to the end, or until it is stopped.
    pub fn run(mut self) -> Result<PlayStatus, PlayError> {
        self.control.tell(&self.status);
        while !self.control.is_stopped() && self.turn()? == Go::On {}
        self.show();
        Ok(self.status)
    }

    /// One iteration of the loop.
    fn turn(&mut self) -> Result<Go, PlayError> {
        while let Some(order) = self.control.next_order() {
            self.follow(order);
        }
        let now_nanos = self.now();
        self.tick(now_nanos)?;
        if self.status.paused && self.burst == 0 {
            self.wait(u64::MAX);
            return Ok(Go::On);
        }
        if self.next.is_none() {
            self.next = self.ahead.take();
        }
        let time_nanos = match &self.next {
            None => {
                self.ahead.wait(PLAY_SLEEP_MAX);
                return Ok(Go::On);
            }
            Some(Next::Packet(packet)) => Some(self.time_of(packet)),
            Some(Next::End | Next::Failed(_)) => None,
        };
        if self.is_seeking && !self.status.paused {
            self.is_seeking = false;
            self.pace.release(now_nanos);
        }
        match time_nanos {
            Some(nanos) if self.burst == 0 && self.pace.due_nanos(nanos) > self.now() => {
                self.wait(self.pace.due_nanos(nanos));
                Ok(Go::On)
            }
            _ => self.take_next(),
        }
    }

    /// Handles the next item if it is due.
    fn take_next(&mut self) -> Result<Go, PlayError> {
        match self.next.take() {
            Some(Next::Packet(packet)) => {
                self.publish(&packet)?;
                self.ahead.give_back(packet.data);
                self.show();
                Ok(Go::On)
            }
            Some(Next::End) => Ok(self.end_round()),
            Some(Next::Failed(error)) => Err(error),
            None => Ok(Go::On),
        }
    }

    fn publish(&mut self, packet: &Packet) -> Result<(), PlayError> {
        let time_nanos = self.time_of(packet);
        if self.burst > 0 {
            self.burst -= 1;
            self.is_seeking = false;
            self.pace.jump(time_nanos);
        } else {
            let late_nanos = self.now().saturating_sub(self.pace.due_nanos(time_nanos));
            self.status.late_max = self.status.late_max.max(Duration::from_nanos(late_nanos));
        }
        // Only topics that a recorder added after the player was opened can be unknown or too large.
        let place = self.route[packet.topic];
        let place = place.filter(|&place| packet.data.len() <= self.played[place].bytes_max);
        let Some(place) = place else {
            self.status.left_out += 1;
            return Ok(());
        };
        if let Some(clock_topic) = &mut self.clock_topic {
            let announced = clock_topic.announce(packet.topic, time_nanos)?;
            self.status.clock_messages += u64::from(announced);
        }
        self.played[place].output.publish(&packet.message())?;
        self.status.messages += 1;
        self.status.bytes += packet.data.len() as u64;
        Ok(())
    }

    /// Begins again, ends, or, paused, waits for commands.
    fn end_round(&mut self) -> Go {
        if !self.options.repeat {
            if self.status.paused {
                self.burst = 0;
                self.next = Some(Next::End);
                return Go::On;
            }
            self.status.rounds += 1;
            return Go::End;
        }
        self.status.rounds += 1;
        let Span { begin_nanos, round_nanos, .. } = self.span;
        if self.status.paused {
            self.pace.jump(begin_nanos);
        } else {
            let end_nanos = self.pace.due_nanos(begin_nanos.saturating_add(round_nanos));
            let delay_nanos = nanos(self.options.delay);
            self.pace.restart(end_nanos.saturating_add(delay_nanos), begin_nanos);
        }
        Go::On
    }

    fn follow(&mut self, order: PlayOrder) {
        let (now_nanos, next_nanos) = (self.now(), self.next_nanos());
        let order = match order {
            PlayOrder::Toggle if self.status.paused => PlayOrder::Resume,
            PlayOrder::Toggle => PlayOrder::Pause,
            order => order,
        };
        match order {
            PlayOrder::Pause => {
                self.status.paused = true;
                self.pace.hold(now_nanos, next_nanos);
            }
            PlayOrder::Resume => {
                self.status.paused = false;
                self.burst = 0;
                // Otherwise time runs as soon as a message has been read.
                if !self.is_seeking {
                    self.pace.release(now_nanos);
                }
            }
            PlayOrder::Burst(count) if self.status.paused => {
                self.burst = self.burst.saturating_add(count);
            }
            PlayOrder::Burst(_) | PlayOrder::Toggle => {}
            PlayOrder::Rate(rate) => {
                self.pace.set_rate(now_nanos, next_nanos, rate);
                self.status.rate = rate;
            }
            PlayOrder::Seek(to) => self.seek(to, now_nanos),
        }
        self.show();
    }

    fn seek(&mut self, to: PlaySeek, now_nanos: u64) {
        let Span { begin_nanos, last_nanos, .. } = self.span;
        let position_nanos = self.pace.position_nanos(now_nanos).min(last_nanos);
        let wanted_nanos = match to {
            PlaySeek::Time(nanos) => nanos,
            PlaySeek::Offset(offset) => begin_nanos.saturating_add(nanos(offset)),
            PlaySeek::Ahead(by) => position_nanos.saturating_add(nanos(by)),
            PlaySeek::Back(by) => position_nanos.saturating_sub(nanos(by)),
        };
        let position_nanos = wanted_nanos.clamp(begin_nanos, last_nanos);
        self.ahead.seek(position_nanos);
        self.next = None;
        self.burst = 0;
        self.is_seeking = true;
        self.pace.jump(position_nanos);
    }

    /// The time of a message that has been read and not published.
    fn next_nanos(&self) -> Option<u64> {
        match &self.next {
            Some(Next::Packet(packet)) => Some(self.time_of(packet)),
            _ => None,
        }
    }

    fn time_of(&self, packet: &Packet) -> u64 {
        self.options.order.of(packet.log_time_nanos, packet.publish_time_nanos)
    }

    fn now(&self) -> u64 {
        self.options.clock.monotonic_nanos()
    }

    /// Periodic work.
    fn tick(&mut self, now_nanos: u64) -> Result<(), PlayError> {
        let position_nanos = self.pace.position_nanos(now_nanos);
        if let Some(clock_topic) = &mut self.clock_topic {
            let ticked = clock_topic.tick(now_nanos, position_nanos)?;
            self.status.clock_messages += u64::from(ticked);
        }
        if now_nanos >= self.heartbeat_nanos {
            self.heartbeat_nanos = now_nanos.saturating_add(nanos(PLAY_HEARTBEAT));
            let clock = self.clock_topic.as_mut().map(|clock_topic| &mut clock_topic.played);
            let all = self.played.iter_mut().chain(clock);
            all.for_each(|played| played.output.heartbeat());
        }
        Ok(())
    }

    /// Waits until a time of the clock, the next tick, or for as long as commands may wait.
    fn wait(&mut self, due_nanos: u64) {
        let now_nanos = self.now();
        let tick = self.clock_topic.as_ref().and_then(|clock_topic| clock_topic.due_nanos());
        let due_nanos = due_nanos.min(tick.unwrap_or(u64::MAX));
        let left = Duration::from_nanos(due_nanos.saturating_sub(now_nanos));
        if left > PLAY_SLEEP_MAX {
            self.show();
        }
        if !left.is_zero() {
            self.options.clock.sleep(left.min(PLAY_SLEEP_MAX));
        }
    }

    /// Reports progress.
    fn show(&mut self) {
        let Span { begin_nanos, last_nanos, .. } = self.span;
        let position_nanos = self.pace.position_nanos(self.now()).clamp(begin_nanos, last_nanos);
        self.status.position = Duration::from_nanos(position_nanos - begin_nanos);
        self.control.tell(&self.status);
        (self.progress)(&self.status);
    }
}
