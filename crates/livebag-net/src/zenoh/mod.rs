//! Recordings on Zenoh: many robots answer one question.
//!
//! Every container is a queryable at `livebag/<robot>/<container>/<topic>`; a liveliness token at
//! `livebag/<robot>/<container>/@live` says that it is there. Peers reach each other directly or through
//! routers: that is Zenoh's business, and so are TLS and access control beyond this machine.

#[cfg(not(feature = "zenoh"))]
mod absent;
mod address;
#[cfg(feature = "zenoh")]
mod asker;
#[cfg(feature = "zenoh")]
mod key;
#[cfg(feature = "zenoh")]
mod messages;
#[cfg(all(feature = "server", feature = "zenoh"))]
mod others;
#[cfg(all(feature = "server", feature = "zenoh"))]
mod queryable;
#[cfg(feature = "zenoh")]
mod session;
#[cfg(feature = "zenoh")]
mod wire;

use std::path::PathBuf;
use std::time::Duration;

use crate::remote::RemoteMessage;

#[cfg(all(feature = "server", not(feature = "zenoh")))]
pub use absent::{Others, ZenohServer};
#[cfg(not(feature = "zenoh"))]
pub use absent::{ZenohAsker, ZenohMessages};
#[cfg(feature = "server")]
pub use address::robot_name;
pub use address::{Found, ZenohAddress, prefixed, prefixes};
#[cfg(feature = "zenoh")]
pub use asker::ZenohAsker;
#[cfg(feature = "zenoh")]
pub use messages::ZenohMessages;
#[cfg(all(feature = "server", feature = "zenoh"))]
pub use others::Others;
#[cfg(all(feature = "server", feature = "zenoh"))]
pub use queryable::ZenohServer;

/// How to take part. By default a peer on this machine only, found by multicast on the loopback interface; with
/// endpoints, only by those.
#[derive(Clone, Debug, Default)]
pub struct ZenohOptions {
    /// Zenoh's own configuration (JSON5), for TLS, access control and routers.
    pub config: Option<PathBuf>,
    /// Endpoints to listen at: `tcp/127.0.0.1:7448`.
    pub listen: Vec<String>,
    /// Endpoints to connect to.
    pub connect: Vec<String>,
}

/// Which messages, of each recording.
#[derive(Clone, Debug)]
pub enum Plan {
    /// This long before its newest message, until then.
    Latest(Duration),
    /// From one time to another, as a robot understands times.
    History(Option<String>, Option<String>),
    /// Newest messages first, as many as arrive in time.
    Auto {
        /// The time.
        within: Duration,
        /// How far back from the newest at most.
        last: Option<Duration>,
        /// `/topic:HZ`: of that topic at most HZ messages a second.
        decimate: Vec<String>,
    },
}

/// A recording whose answer ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLoss {
    /// Which.
    pub found: Found,
    /// Why, in words.
    pub why: String,
}

impl std::fmt::Display for SourceLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the answer of {} ended early: {}; what came before is in the answer",
            self.found, self.why
        )
    }
}

/// The next item of an answer.
#[derive(Debug)]
pub enum Polled {
    /// Its next message.
    Message(RemoteMessage),
    /// Nothing yet.
    Waiting,
    /// All of it.
    End,
}

/// Why Zenoh does not serve or answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ZenohError {
    /// The configuration cannot be used.
    #[error("{what}: {why}")]
    Config {
        /// The file or the key.
        what: String,
        /// The error in it.
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
        /// The operation.
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
    /// There is no answer.
    #[error(
        "no recording {0} is announced: `livebag robots` lists what is there, and a robot serves with \
         `livebag serve --zenoh` or `livebag record --serve --zenoh`"
    )]
    Nobody(String),
    /// Zenoh is an optional feature, which this build has not.
    #[error("this livebag was built without Zenoh")]
    NotBuilt,
    /// A thread cannot be made.
    #[error("starting a thread failed: {0}")]
    Thread(std::io::Error),
}

#[cfg(feature = "zenoh")]
fn failed(doing: &'static str) -> impl Fn(zenoh::Error) -> ZenohError {
    move |error| ZenohError::Zenoh { doing, why: error.to_string() }
}
