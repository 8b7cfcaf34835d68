//! The HTTP server.

mod body;
mod error;
mod guard;
mod range;
mod routes;
mod serve;

pub use guard::Secrets;
pub use routes::OPENAPI;
pub use serve::{AnswerTiming, ServeError, Server, ServerOptions, TlsFiles};
