//! The same names in a build without Zenoh: a session cannot be opened, and the error says why.

use std::convert::Infallible;
#[cfg(feature = "server")]
use std::sync::Arc;
use std::time::Duration;

use livebag::{Clock, Topic};

use super::{Found, Plan, Polled, SourceLoss, ZenohAddress, ZenohError, ZenohOptions};
#[cfg(feature = "server")]
use crate::catalog::Catalog;
use crate::remote::RemoteMessage;
use crate::tell::RecordingInfo;
#[cfg(feature = "server")]
use crate::tell::RobotRow;

/// Takes part in Zenoh to ask: not in this build.
pub struct ZenohAsker(Infallible);

impl ZenohAsker {
    /// # Errors
    /// [`ZenohError::NotBuilt`].
    pub fn open(_options: &ZenohOptions, _clock: Clock) -> Result<Self, ZenohError> {
        Err(ZenohError::NotBuilt)
    }

    /// See the feature `zenoh`.
    pub fn find(&self, _address: &ZenohAddress) -> Result<Vec<Found>, ZenohError> {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn infos(&self, _found: &[Found]) -> Result<Vec<Option<RecordingInfo>>, ZenohError> {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn definitions(&self, _found: &[Found]) -> Result<Vec<Option<RecordingInfo>>, ZenohError> {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn messages(
        &self,
        _address: &ZenohAddress,
        _topics: &[String],
        _plan: &Plan,
    ) -> Result<ZenohMessages, ZenohError> {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn ask(
        &self,
        _found: Vec<Found>,
        _topics: &[String],
        _plan: &Plan,
    ) -> Result<ZenohMessages, ZenohError> {
        match self.0 {}
    }
}

/// The messages of many recordings: not in this build.
pub struct ZenohMessages(Infallible);

impl ZenohMessages {
    /// See the feature `zenoh`.
    pub fn topics(&self) -> &[Topic] {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn lost(&self) -> &[SourceLoss] {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn damaged(&self) -> u64 {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn next_message(&mut self) -> Result<Option<RemoteMessage>, ZenohError> {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn poll(&mut self, _patience: Duration) -> Result<Polled, ZenohError> {
        match self.0 {}
    }
}

/// Serves a catalog's containers on Zenoh: not in this build.
#[cfg(feature = "server")]
pub struct ZenohServer(Infallible);

#[cfg(feature = "server")]
impl ZenohServer {
    /// # Errors
    /// [`ZenohError::NotBuilt`].
    pub fn start(
        _catalog: Arc<Catalog>,
        _robot: &str,
        _options: &ZenohOptions,
        _clock: Clock,
    ) -> Result<Self, ZenohError> {
        Err(ZenohError::NotBuilt)
    }

    /// See the feature `zenoh`.
    pub fn robot(&self) -> &str {
        match self.0 {}
    }

    /// See the feature `zenoh`.
    pub fn others(&self) -> Arc<Others> {
        match self.0 {}
    }
}

/// Recordings that are announced by others: not in this build.
#[cfg(feature = "server")]
#[derive(Debug)]
pub struct Others(Infallible);

#[cfg(feature = "server")]
impl Others {
    /// See the feature `zenoh`.
    pub fn recordings(&self) -> Result<Arc<[RobotRow]>, ZenohError> {
        match self.0 {}
    }
}
