//! The same names in a build without HTTP: there is no client, and the error says why.

use std::convert::Infallible;
use std::path::Path;

use super::{RemoteAnswer, RemoteError};

/// Asks servers: not in this build.
#[derive(Clone)]
pub struct Client(Infallible);

impl Client {
    /// # Errors
    /// [`RemoteError::NotBuilt`].
    pub fn new(_ca_certificates: Option<&Path>) -> Result<Self, RemoteError> {
        Err(RemoteError::NotBuilt)
    }

    /// See the feature `client`.
    pub fn get(&self, _url: String, _token: Option<&str>) -> Result<RemoteAnswer, RemoteError> {
        match self.0 {}
    }
}
