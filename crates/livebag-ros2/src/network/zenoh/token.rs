//! Announcements of endpoints: key expressions of Zenoh's liveliness tokens.
//!
//! `@ros2_lv/<domain>/<session>/<node>/<endpoint>/<kind>/<enclave>/<namespace>/<node's name>`, and of
//! endpoints further `/<topic>/<type>/<hash of the type>/<QoS>`. Names have `%` for `/`. Source:
//! rmw_zenoh's design document ("Graph Cache") and `liveliness_utils.cpp`, Kilted.

use super::super::{Endpoint, Role};
use super::names;
use crate::limits::NAME_BYTES_MAX;
use crate::qos::{Durability, History, Liveliness, Qos, Reliability};

/// What every token begins with.
const SPACE: &str = "@ros2_lv";
/// The depth that rmw_zenoh assumes if none is given, and omits if it is this.
const DEPTH_UNSAID: u32 = 42;
const SECOND: u64 = 1_000_000_000;

/// All tokens of a domain.
pub(super) fn all(domain: u32) -> String {
    format!("{SPACE}/{domain}/**")
}

/// Contents of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// A node; its endpoints have separate tokens.
    Node,
    /// An endpoint of a session.
    Endpoint {
        /// The session's id.
        session: String,
        /// The announced endpoint.
        endpoint: Endpoint,
    },
}

/// Reads a token; nothing if it is none, or breaks a bound.
pub(super) fn parse(token: &str) -> Option<Announced> {
    let mut fields = token.split('/');
    let mut field = || fields.next().filter(|field| !field.is_empty());
    (field()? == SPACE).then_some(())?;
    field()?.parse::<u32>().ok()?;
    let session = field()?;
    let (_node_id, _endpoint_id) = (field()?, field()?);
    let role = match field()? {
        "NN" => None,
        "MP" => Some(Role::Publisher),
        "MS" => Some(Role::Subscription),
        "SS" => Some(Role::Server),
        "SC" => Some(Role::Client),
        _ => return None,
    };
    let _enclave = field()?;
    let node = node_name(&names::demangled(field()?), field()?)?;
    let Some(role) = role else { return Some(Announced::Node) };
    let mut name = names::demangled(field()?);
    if !name.starts_with('/') {
        // The key expression is the same with and without it.
        name.insert(0, '/');
    }
    let type_name = names::ros_type(&names::demangled(field()?));
    let hash = names::demangled(field()?);
    let qos = parse_qos(field()?)?;
    // Fields that later versions may have appended are not for us.
    names::check(&name, &type_name).ok()?;
    let endpoint = Endpoint {
        id: names::endpoint_id(token),
        role,
        name,
        type_name,
        type_hash: names::is_type_hash(&hash).then_some(hash),
        qos,
        node,
        is_own: false,
    };
    Some(Announced::Endpoint { session: session.to_owned(), endpoint })
}

/// A node's name with its namespace.
fn node_name(namespace: &str, name: &str) -> Option<String> {
    let namespace = namespace.trim_matches('/');
    let whole = match namespace {
        "" => format!("/{name}"),
        namespace => format!("/{namespace}/{name}"),
    };
    let is_fit = whole.len() <= NAME_BYTES_MAX && !whole.chars().any(char::is_control);
    is_fit.then_some(whole)
}

/// The announcer: a node of a session.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The domain.
    pub(super) domain: u32,
    /// The session's id.
    pub(super) session: String,
    /// Its namespace: `/`, `/robot`.
    pub(super) namespace: String,
    /// Its name.
    pub(super) name: String,
}

impl Node {
    /// The token that announces the node itself; its number is 0.
    pub(super) fn token(&self) -> String {
        self.field_list(0, "NN")
    }

    /// The token that announces an endpoint, which is numbered by the session.
    pub(super) fn token_of(&self, number: u32, endpoint: &Endpoint) -> String {
        let kind = match endpoint.role {
            Role::Publisher => "MP",
            Role::Subscription => "MS",
            Role::Server => "SS",
            Role::Client => "SC",
        };
        // Zeros are a hash that every reader can parse.
        let unknown = format!("RIHS01_{:064}", 0);
        format!(
            "{}/{}/{}/{}/{}",
            self.field_list(number, kind),
            names::mangled(&endpoint.name),
            names::mangled(&names::dds_type(&endpoint.type_name)),
            endpoint.type_hash.as_deref().unwrap_or(&unknown),
            qos_field(&endpoint.qos),
        )
    }

    fn field_list(&self, number: u32, kind: &str) -> String {
        let Self { domain, session, namespace, name } = self;
        let namespace = names::mangled(namespace);
        format!("{SPACE}/{domain}/{session}/0/{number}/{kind}/%/{namespace}/{name}")
    }
}

/// QoS as rmw_zenoh writes it: values of rmw's enums, left out where they are rmw_zenoh's defaults
/// (reliable, volatile, keep last 42, no bounds of time).
fn qos_field(qos: &Qos) -> String {
    let reliability = if qos.reliability == Reliability::BestEffort { "2" } else { "" };
    let durability = if qos.durability == Durability::TransientLocal { "1" } else { "" };
    let history = match qos.history {
        History::KeepLast(DEPTH_UNSAID) => ",".to_owned(),
        History::KeepLast(depth) => format!(",{depth}"),
        History::KeepAll => "2,".to_owned(),
    };
    let liveliness = if qos.liveliness == Liveliness::ManualByTopic { "3" } else { "" };
    format!(
        "{reliability}:{durability}:{history}:{}:{}:{liveliness},{}",
        time_field(qos.deadline_nanos),
        time_field(qos.lifespan_nanos),
        time_field(qos.lease_nanos),
    )
}

/// Seconds and nanoseconds; each is left out where it is that of no bound.
fn time_field(nanos: u64) -> String {
    let part = |own: u64, unbounded: u64| match own == unbounded {
        true => String::new(),
        false => own.to_string(),
    };
    let forever = Qos::FOREVER;
    format!("{},{}", part(nanos / SECOND, forever / SECOND), part(nanos % SECOND, forever % SECOND))
}

fn parse_qos(field: &str) -> Option<Qos> {
    let mut parts = field.split(':');
    let mut part = || parts.next();
    let reliability = match part()? {
        "" | "0" | "1" => Reliability::Reliable,
        "2" => Reliability::BestEffort,
        _ => return None,
    };
    let durability = match part()? {
        "1" => Durability::TransientLocal,
        "" | "0" | "2" => Durability::Volatile,
        _ => return None,
    };
    let history = match part()?.split_once(',')? {
        ("2", _) => History::KeepAll,
        ("" | "0" | "1", "" | "0") => History::KeepLast(DEPTH_UNSAID),
        // rmw counts in 64 bits.
        ("" | "0" | "1", depth) => {
            History::KeepLast(u32::try_from(depth.parse::<u64>().ok()?).unwrap_or(u32::MAX))
        }
        _ => return None,
    };
    // Tokens of rmw_zenoh before 2024-10 end here.
    let deadline_nanos = part().map_or(Some(Qos::FOREVER), parse_time)?;
    let lifespan_nanos = part().map_or(Some(Qos::FOREVER), parse_time)?;
    let (liveliness, lease) = part().map_or(Some(("", ",")), |part| part.split_once(','))?;
    let liveliness = match liveliness {
        "" | "0" | "1" | "2" => Liveliness::Automatic,
        "3" => Liveliness::ManualByTopic,
        _ => return None,
    };
    let lease_nanos = parse_time(lease)?;
    Some(Qos {
        reliability,
        durability,
        history,
        deadline_nanos,
        lifespan_nanos,
        liveliness,
        lease_nanos,
    })
}

fn parse_time(field: &str) -> Option<u64> {
    let (seconds, nanos) = field.split_once(',')?;
    let number = |text: &str, unsaid: u64| match text {
        "" => Some(unsaid),
        text => text.parse::<u64>().ok(),
    };
    let seconds = number(seconds, Qos::FOREVER / SECOND)?;
    let nanos = number(nanos, Qos::FOREVER % SECOND)?;
    Some(seconds.saturating_mul(SECOND).saturating_add(nanos).min(Qos::FOREVER))
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
