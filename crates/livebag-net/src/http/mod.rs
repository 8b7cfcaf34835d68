//! The HTTP server.

mod app;
mod body;
mod cookie;
mod error;
mod file;
mod guard;
mod live;
mod range;
mod routes;
mod serve;

/// For the fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) mod internals {
    pub use super::app::App;
    pub use super::range::{Wanted, wanted};
    pub use super::routes::router;
    pub use super::serve::serve;
}

pub use guard::Secrets;
pub use routes::OPENAPI;
pub use serve::{AnswerTiming, ServeError, Server, ServerOptions, TlsFiles};
