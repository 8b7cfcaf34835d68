//! The same names in a build without HTTP: nothing is served, and the error says why.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;

use livebag::Recorder;

use super::{Access, Args, ZenohServe};
use crate::absent;
use crate::outcome::{CliError, Outcome};
use crate::push_view::PushView;

/// Options of a server, of which there are none.
pub type Options = Infallible;

impl Access {
    /// # Errors
    /// Always.
    pub fn options(&self, _listen: Vec<SocketAddr>) -> Result<Options, CliError> {
        Err(absent::error("http"))
    }
}

/// # Errors
/// Always.
pub fn run(_args: &Args) -> Result<Outcome, CliError> {
    Err(absent::error("http"))
}

/// Cannot be called: there are no options.
pub fn beside(
    _recorder: &Recorder,
    _push: Option<PushView>,
    _directory: &Path,
    options: Options,
    _zenoh: &ZenohServe,
) -> Result<Infallible, CliError> {
    match options {}
}
