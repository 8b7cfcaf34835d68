//! livebag over the network.
//!
//! A request visits the modules in this order: `http` takes it and checks who asks,
//! [`ask`] says what it means, the [`Catalog`] finds the container, an answer is laid out by
//! `livebag`'s own query engine and sent piece by piece.

mod answer;
pub mod ask;
mod catalog;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod http;
pub mod limits;
mod link;
pub mod moment;
mod picture;
mod pool;
pub mod tell;

pub use catalog::{Catalog, CatalogError, KeepFresh};
pub use http::{AnswerTiming, OPENAPI, Secrets, ServeError, Server, ServerOptions, TlsFiles};
