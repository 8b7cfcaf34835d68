//! Recordings on Zenoh: many robots answer one question.
//!
//! Every container is a queryable at `livebag/<robot>/<bag>/<topic>`; a liveliness token at
//! `livebag/<robot>/<bag>/@live` says that it is there. Peers reach each other directly or through
//! routers: that is Zenoh's business, and so are TLS and access control beyond this machine.

mod asker;
mod key;
mod messages;
#[cfg(feature = "server")]
mod queryable;
mod session;
mod wire;

pub use asker::{Found, Plan, ZenohAsker, prefixed, prefixes};
pub use key::ZenohAddress;
pub use messages::{Polled, SourceLoss, ZenohMessages};
#[cfg(feature = "server")]
pub use queryable::{ZenohServer, robot_name};
pub use session::ZenohOptions;

/// Why Zenoh does not serve or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZenohError {
    /// The configuration cannot be used.
    #[error("{what}: {why}")]
    Config {
        /// The file or the key.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// Everybody on the network could read everything.
    #[error(
        "{endpoint} can be reached from other machines without encryption: use a tls/ endpoint (docs/security.md), \
         or one of this machine (tcp/127.0.0.1:7448)"
    )]
    Open {
        /// Zenoh's name of the address.
        endpoint: String,
    },
    /// Zenoh refused.
    #[error("{doing} failed: {why}")]
    Zenoh {
        /// What was being done.
        doing: &'static str,
        /// What Zenoh said.
        why: String,
    },
    /// Not an address.
    #[error("`{0}` is no address of a recording: expected zenoh/ROBOT/NAME, with * for any")]
    Address(String),
    /// The question makes no sense.
    #[error(transparent)]
    Ask(#[from] crate::ask::AskError),
    /// Nobody answers.
    #[error(
        "no recording {0} is announced: `livebag robots` lists what is there, and a robot serves with \
         `livebag serve --zenoh` or `livebag record --serve --zenoh`"
    )]
    Nobody(String),
    /// A thread cannot be made.
    #[error("starting a thread failed: {0}")]
    Thread(std::io::Error),
}

fn failed(doing: &'static str) -> impl Fn(zenoh::Error) -> ZenohError {
    move |error| ZenohError::Zenoh { doing, why: error.to_string() }
}
