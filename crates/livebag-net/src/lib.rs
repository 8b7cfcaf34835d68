//! livebag over the network: recordings served over HTTP and Zenoh, and clients for both.
//!
//! ```
//! # #[cfg(feature = "server")] {
//! # let folder = tempfile::tempdir()?;
//! use livebag_net::{Catalog, Server, ServerOptions};
//! use std::sync::Arc;
//!
//! let catalog = Catalog::new(&[folder.path().to_owned()], livebag::Clock::system(), None)?;
//! let options = ServerOptions { listen: vec!["127.0.0.1:0".parse()?], ..ServerOptions::default() };
//! let server = Server::start(Arc::new(catalog), options)?;
//! println!("{}/v1/bags lists the recordings", server.urls()[0]);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request visits the modules in this order: `http` receives it and checks access, [`ask`] parses it, the [`Catalog`]
//! finds the container, and an answer is laid out by `livebag`'s own query engine and sent piece by piece.

#[cfg(feature = "server")]
mod answer;
pub mod ask;
#[cfg(feature = "server")]
mod catalog;
#[cfg(feature = "server")]
mod field;
#[cfg(all(feature = "server", any(test, fuzzing)))]
pub mod fuzzing;
#[cfg(feature = "server")]
mod http;
pub mod limits;
#[cfg(feature = "server")]
mod link;
#[cfg(feature = "server")]
mod live;
pub mod moment;
#[cfg(feature = "server")]
mod page;
#[cfg(feature = "server")]
pub mod picture;
#[cfg(feature = "server")]
mod points;
#[cfg(feature = "server")]
mod pool;
pub mod remote;
mod small_file;
#[cfg(feature = "server")]
mod store;
pub mod tell;
mod text;
#[cfg(feature = "server")]
mod wireless;
pub mod zenoh;

#[cfg(feature = "server")]
pub use answer::{RecorderStatus, RecorderTopic};
#[cfg(feature = "server")]
pub use catalog::{Catalog, CatalogError, KeepFresh};
#[cfg(feature = "server")]
pub use http::{AnswerTiming, OPENAPI, Secrets, ServeError, Server, ServerOptions, TlsFiles};
#[cfg(feature = "server")]
pub use live::Viewer;
pub use small_file::{PEM_BYTES_MAX, TOKEN_FILE_BYTES_MAX, small_file};
#[cfg(feature = "server")]
pub use store::RecordingStore;
