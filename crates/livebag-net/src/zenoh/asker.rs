//! Asking robots.

use std::time::Duration;

use livebag::Clock;
use zenoh::Wait;
use zenoh::handlers::FifoChannel;

use super::key::{INFO, LIVE, PREFIX};
use super::messages::ZenohMessages;
use super::{ZenohAddress, ZenohError, ZenohOptions, failed};
use crate::limits::{ASK_TIMEOUT, ZENOH_LOOK_TIMEOUT};
use crate::tell::BagInfo;

/// A recording that somebody announces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Of which robot.
    pub robot: String,
    /// Its name there.
    pub bag: String,
}

/// Which messages, of each recording.
#[derive(Clone, Debug)]
pub enum Plan {
    /// The last so much before its newest message.
    Latest(Duration),
    /// From one time to another, as a robot understands times.
    History(Option<String>, Option<String>),
    /// The newest that arrives in so much time, no older than this.
    Auto(Duration, Option<Duration>),
}

/// Takes part in Zenoh to ask.
pub struct ZenohAsker {
    session: zenoh::Session,
    clock: Clock,
}

impl ZenohAsker {
    /// Opens a session.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn open(options: &ZenohOptions, clock: Clock) -> Result<Self, ZenohError> {
        Ok(Self { session: options.open()?, clock })
    }

    /// The recordings that are announced now.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn find(&self, address: &ZenohAddress) -> Result<Vec<Found>, ZenohError> {
        let key = format!("{PREFIX}/{}/{}/{LIVE}", address.robot, address.bag);
        let tokens = self.session.liveliness().get(key).timeout(ZENOH_LOOK_TIMEOUT).wait();
        let tokens = tokens.map_err(failed("asking who is there"))?;
        let mut found = Vec::new();
        while let Ok(reply) = tokens.recv() {
            let Ok(sample) = reply.into_result() else { continue };
            let key = sample.key_expr().as_str();
            if let [_, robot, bag, _] = key.split('/').collect::<Vec<_>>()[..] {
                found.push(Found { robot: robot.to_owned(), bag: bag.to_owned() });
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// What a recording holds; `None` if nobody answers any more.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn info(&self, found: &Found) -> Result<Option<BagInfo>, ZenohError> {
        let key = format!("{PREFIX}/{}/{}/{INFO}", found.robot, found.bag);
        let replies = self.session.get(key).timeout(ASK_TIMEOUT).with(FifoChannel::new(16)).wait();
        let replies = replies.map_err(failed("asking for a description"))?;
        let mut info = None;
        while let Ok(reply) = replies.recv() {
            if let Ok(sample) = reply.into_result() {
                info = info.or(serde_json::from_slice(&sample.payload().to_bytes()).ok());
            }
        }
        Ok(info)
    }

    /// The messages of all recordings at an address, merged in order of log time, or newest first for
    /// [`Plan::Auto`]. Of several robots, topics are named `/robot/topic`; of several recordings of one
    /// robot, `/robot/recording/topic`.
    ///
    /// # Errors
    /// If none is announced, or Zenoh refuses.
    pub fn messages(
        &self,
        address: &ZenohAddress,
        topics: &[String],
        plan: &Plan,
    ) -> Result<ZenohMessages, ZenohError> {
        let found = self.find(address)?;
        if found.is_empty() {
            return Err(ZenohError::Nobody(address.to_string()));
        }
        ZenohMessages::ask(self.session.clone(), self.clock.clone(), found, topics, plan)
    }
}
