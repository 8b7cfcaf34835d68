//! Asking robots.

use std::collections::BTreeSet;
use std::sync::mpsc::sync_channel;

use livebag::Clock;
use zenoh::Wait;
use zenoh::handlers::FifoChannel;
use zenoh::sample::SampleKind;

use super::key::{INFO, LIVE, PREFIX};
use super::messages::ZenohMessages;
use super::{Found, Plan, ZenohAddress, ZenohError, ZenohOptions, failed};
use crate::limits::{ASK_TIMEOUT, FOUND_MAX, ZENOH_LOOK_TIMEOUT, ZENOH_QUESTIONS_MAX, ZENOH_QUIET};
use crate::tell::RecordingInfo;

/// Takes part in Zenoh to ask.
pub struct ZenohAsker {
    session: zenoh::Session,
    clock: Clock,
    /// Whether the session ends with it.
    is_own: bool,
}

impl ZenohAsker {
    /// Opens a session.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn open(options: &ZenohOptions, clock: Clock) -> Result<Self, ZenohError> {
        Ok(Self { session: options.open()?, clock, is_own: true })
    }

    /// Asks by the session of a server.
    #[cfg(feature = "server")]
    pub(super) fn sharing(session: zenoh::Session, clock: Clock) -> Self {
        Self { session, clock, is_own: false }
    }

    /// The recordings that are announced now. A session that was opened just now learns of the others
    /// within a second: it is waited for until no new ones come.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn find(&self, address: &ZenohAddress) -> Result<Vec<Found>, ZenohError> {
        let key = format!("{PREFIX}/{}/{}/{LIVE}", address.robot, address.recording);
        let (sender, tokens) = sync_channel(FOUND_MAX);
        let subscriber = self
            .session
            .liveliness()
            .declare_subscriber(key)
            .history(true)
            .callback(move |sample| {
                // Those beyond the bound are not listed.
                let _ = sender.try_send((sample.kind(), sample.key_expr().as_str().to_owned()));
            })
            .wait()
            .map_err(failed("asking who is there"))?;
        let is_one = !address.robot.contains('*') && !address.recording.contains('*');
        let mut found = BTreeSet::new();
        loop {
            let patience = if found.is_empty() { ZENOH_LOOK_TIMEOUT } else { ZENOH_QUIET };
            let Ok((kind, key)) = tokens.recv_timeout(patience) else { break };
            if let [_, robot, container, _] = key.split('/').collect::<Vec<_>>()[..] {
                let one = Found { robot: robot.to_owned(), recording: container.to_owned() };
                match kind {
                    SampleKind::Put => found.insert(one),
                    SampleKind::Delete => found.remove(&one),
                };
            }
            if is_one && !found.is_empty() {
                break;
            }
        }
        subscriber.undeclare().wait().map_err(failed("asking who is there"))?;
        Ok(found.into_iter().collect())
    }

    /// Description of a recording; `None` if its robot no longer answers.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn info(&self, found: &Found) -> Result<Option<RecordingInfo>, ZenohError> {
        Ok(self.describe(std::slice::from_ref(found), "")?.pop().flatten())
    }

    /// What each recording holds; `None` if its robot no longer answers. All are asked at once.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn infos(&self, found: &[Found]) -> Result<Vec<Option<RecordingInfo>>, ZenohError> {
        self.describe(found, "")
    }

    /// The same with the topics' definitions.
    ///
    /// # Errors
    /// If Zenoh refuses.
    pub fn definitions(&self, found: &[Found]) -> Result<Vec<Option<RecordingInfo>>, ZenohError> {
        self.describe(found, "?schemas=true")
    }

    fn describe(
        &self,
        found: &[Found],
        parameters: &str,
    ) -> Result<Vec<Option<RecordingInfo>>, ZenohError> {
        let mut infos = Vec::new();
        // Many at once, but few enough that a robot refuses none.
        for some in found.chunks(ZENOH_QUESTIONS_MAX / 2) {
            let ask = |found: &Found| {
                let key =
                    format!("{PREFIX}/{}/{}/{INFO}{parameters}", found.robot, found.recording);
                let get = self.session.get(key).timeout(ASK_TIMEOUT).with(FifoChannel::new(16));
                get.wait().map_err(failed("asking for a description"))
            };
            let asked: Vec<_> = some.iter().map(ask).collect::<Result<_, _>>()?;
            for replies in asked {
                let mut info = None;
                while let Ok(reply) = replies.recv() {
                    if let Ok(sample) = reply.into_result() {
                        info = info.or(serde_json::from_slice(&sample.payload().to_bytes()).ok());
                    }
                }
                infos.push(info);
            }
        }
        Ok(infos)
    }

    /// The messages of all recordings at an address: [`ZenohAsker::find`] and [`ZenohAsker::ask`].
    ///
    /// # Errors
    /// If none is announced, or Zenoh fails.
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
        self.ask(found, topics, plan)
    }

    /// The messages of recordings, merged in order of log time, or newest first for [`Plan::Auto`]. Of
    /// several, topics are named with their [`prefixes`]. A query for such a name reads only that recording; a query
    /// for the topic's own name reads all.
    ///
    /// # Errors
    /// If the plan makes no sense, or Zenoh refuses.
    pub fn ask(
        &self,
        found: Vec<Found>,
        topics: &[String],
        plan: &Plan,
    ) -> Result<ZenohMessages, ZenohError> {
        ZenohMessages::ask(self.session.clone(), self.clock.clone(), found, topics, plan)
    }
}

impl Drop for ZenohAsker {
    fn drop(&mut self) {
        if self.is_own {
            // Zenoh's threads must not outlive the process's own end.
            let _ = self.session.close().wait();
        }
    }
}
