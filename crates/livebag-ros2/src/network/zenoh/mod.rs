//! ROS 2 over Zenoh, as `rmw_zenoh_cpp` of Jazzy and later speaks it.
//!
//! Endpoints are announced by liveliness tokens (`token.rs`), messages travel under
//! `<domain>/<topic>/<type>/<hash of the type>` (`names.rs`) with their publisher's count and time
//! attached (`attachment.rs`), latched topics through zenoh-ext's caches, services as queries.
//!
//! What Zenoh does not tell: messages that a publisher sent before it knew of a subscription, and the
//! last ones before it ended. Ours waits until they are taken (`unsent.rs`). Counts begin with a
//! publisher's first message that arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use livebag::Clock;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::query::{ConsolidationMode, QueryTarget};
use zenoh::sample::SampleKind;

use self::attachment::Attachment;
use self::graph::Graph;
use self::pool::Pool;
use self::publication::ZenohPublication;
use self::subscription::{Inlet, ZenohSubscription};
use self::token::Node;
use super::{
    Endpoint, Network, NetworkError, Publication, Receiver, Role, ServiceRequest, Subscription,
    TopicRequest, check_name,
};
use crate::limits::SAMPLE_BYTES_MAX;

mod attachment;
mod graph;
mod names;
mod options;
mod pool;
mod publication;
mod subscription;
mod token;
mod unsent;

pub use options::ZenohOptions;

/// For the fuzzer: a token and an attachment that anybody may have sent.
#[cfg(any(test, fuzzing))]
pub(crate) fn read_foreign(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some(token::Announced::Endpoint { endpoint, .. }) = token::parse(text)
    {
        assert!(names::check(&endpoint.name, &endpoint.type_name).is_ok());
    }
    if let Some(read) = Attachment::decode(bytes) {
        assert!(bytes.len() != 33 || read.encoded() == bytes);
    }
}

/// A ROS 2 network over Zenoh, taken part in as one node of one session.
pub struct ZenohNetwork {
    session: zenoh::Session,
    graph: Arc<Graph>,
    node: Node,
    /// The number of the next endpoint.
    numbers: AtomicU32,
    has_published: AtomicBool,
    /// The count of the next call.
    calls: AtomicI64,
    pool: Arc<Pool>,
    clock: Clock,
    description: String,
    _announcements: Subscriber<()>,
    _token: LivelinessToken,
}

impl ZenohNetwork {
    /// Opens a session and announces a node in it: `livebag`, or with a namespace `/robot/livebag`.
    ///
    /// # Errors
    /// If the configuration cannot be used or would let other machines in without encryption, or the
    /// session cannot be opened.
    pub fn join(options: &ZenohOptions, node_name: &str) -> Result<Self, NetworkError> {
        let whole = format!("/{}", node_name.trim_start_matches('/'));
        if check_name(&whole).is_err() {
            return Err(options::refused(format!(
                "`{}` is no name of a node: expected letters, digits and `_`, and `/` between it and \
                 its namespace",
                node_name.chars().take(60).collect::<String>()
            )));
        }
        let config = options.configured()?;
        let ways = ZenohOptions::described(&config);
        let opened = zenoh::open(config).wait();
        let session = opened.map_err(|error| options::refused(options::words(&error)))?;
        let (namespace, name) = whole.rsplit_once('/').unwrap_or(("", &whole));
        let node = Node {
            domain: options.domain,
            session: session.zid().to_string(),
            namespace: if namespace.is_empty() { "/" } else { namespace }.to_owned(),
            name: name.to_owned(),
        };
        let graph = Arc::new(Graph::new(node.session.clone()));
        let (announcements, token) = announce(&session, &node, graph.clone())
            .map_err(|error| options::refused(options::words(&error)))?;
        Ok(Self {
            description: format!("Zenoh, domain {}, {ways}", node.domain),
            session,
            graph,
            node,
            numbers: AtomicU32::new(1),
            has_published: AtomicBool::new(false),
            calls: AtomicI64::new(1),
            pool: Arc::default(),
            clock: Clock::system(),
            _announcements: announcements,
            _token: token,
        })
    }

    /// An endpoint of this session, and the token that announces it.
    fn new_endpoint(&self, role: Role, request: &TopicRequest) -> (Endpoint, String) {
        let node = match self.node.namespace.as_str() {
            "/" => format!("/{}", self.node.name),
            namespace => format!("{namespace}/{}", self.node.name),
        };
        let mut endpoint = Endpoint {
            id: [0; 16],
            role,
            name: request.name.clone(),
            type_name: request.type_name.clone(),
            type_hash: request.type_hash.clone(),
            qos: request.qos,
            node,
            is_own: true,
        };
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let mut token = self.node.token_of(number, &endpoint);
        if role == Role::Subscription && subscription::is_in_group(&request.qos) {
            token.push_str("/backends:cpu:");
        }
        endpoint.id = names::endpoint_id(&token);
        (endpoint, token)
    }

    fn key(&self, request: &TopicRequest) -> Result<String, NetworkError> {
        names::check(&request.name, &request.type_name)?;
        let hash = request.type_hash.as_deref();
        if hash.is_some_and(|hash| !names::is_type_hash(hash)) {
            return Err(NetworkError::Endpoint {
                doing: "naming the type of",
                name: request.name.clone(),
                reason: "expected its hash as RIHS01_ and 64 hexadecimal digits".to_owned(),
            });
        }
        Ok(names::key(self.node.domain, &request.name, &request.type_name, hash))
    }
}

/// Follows announcements, and announces the node.
fn announce(
    session: &zenoh::Session,
    node: &Node,
    graph: Arc<Graph>,
) -> zenoh::Result<(Subscriber<()>, LivelinessToken)> {
    let liveliness = session.liveliness();
    let announcements = liveliness
        .declare_subscriber(token::all(node.domain))
        .history(true)
        .callback(move |sample| match sample.kind() {
            SampleKind::Put => graph.announced(sample.key_expr().as_str()),
            SampleKind::Delete => graph.withdrawn(sample.key_expr().as_str()),
        })
        .wait()?;
    let token = liveliness.declare_token(node.token()).wait()?;
    Ok((announcements, token))
}

fn failed(doing: &'static str, name: &str) -> impl Fn(zenoh::Error) -> NetworkError {
    let name = name.to_owned();
    move |error| NetworkError::Endpoint {
        doing,
        name: name.clone(),
        reason: options::words(&error),
    }
}

impl Network for ZenohNetwork {
    fn generation(&self) -> u64 {
        self.graph.generation()
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        self.graph.endpoints()
    }

    fn refused(&self) -> u64 {
        self.graph.refused()
    }

    fn tells_hashes_apart(&self) -> bool {
        true
    }

    fn leave(&self) {
        if self.has_published.load(Ordering::Relaxed) {
            unsent::wait(&self.clock);
        }
        // Sends what waits in Zenoh. What fails has been closed by the other side.
        let _ = self.session.close().wait();
    }

    fn subscribe(
        &self,
        request: &TopicRequest,
        receiver: Arc<dyn Receiver>,
    ) -> Result<Box<dyn Subscription>, NetworkError> {
        let key = self.key(request)?;
        let failed = failed("subscribing to", &request.name);
        let (endpoint, token) = self.new_endpoint(Role::Subscription, request);
        let inlet = Arc::new(Inlet::new(self.graph.clone(), receiver));
        let subscribers =
            subscription::declare(&self.session, &key, &request.qos, &inlet).map_err(&failed)?;
        let token = self.session.liveliness().declare_token(token).wait().map_err(&failed)?;
        Ok(Box::new(ZenohSubscription {
            inlet,
            subscribers: Some(subscribers),
            token: Some(token),
            _own: self.graph.own(endpoint),
        }))
    }

    fn advertise(&self, request: &TopicRequest) -> Result<Box<dyn Publication>, NetworkError> {
        let key = self.key(request)?;
        let failed = failed("publishing to", &request.name);
        let (endpoint, token) = self.new_endpoint(Role::Publisher, request);
        self.has_published.store(true, Ordering::Relaxed);
        let publisher = publication::declare(&self.session, key, &request.qos).map_err(&failed)?;
        let token = self.session.liveliness().declare_token(token).wait().map_err(&failed)?;
        Ok(Box::new(ZenohPublication {
            request: request.clone(),
            id: endpoint.id,
            publisher: Some(publisher),
            token: Some(token),
            next: 1.into(),
            graph: self.graph.clone(),
            pool: self.pool.clone(),
            clock: self.clock.clone(),
            _own: self.graph.own(endpoint),
        }))
    }

    fn call(
        &self,
        service: &ServiceRequest<'_>,
        request: &[u8],
        within: Duration,
    ) -> Result<Vec<u8>, NetworkError> {
        names::check(service.name, service.type_name)?;
        let known = service
            .type_hash
            .map(str::to_owned)
            .or_else(|| self.graph.type_hash(Role::Server, service.name, service.type_name));
        let key = names::key(self.node.domain, service.name, service.type_name, known.as_deref());
        let attachment = Attachment {
            sequence: self.calls.fetch_add(1, Ordering::Relaxed),
            source_nanos: i64::try_from(self.clock.wall_nanos()).unwrap_or(i64::MAX),
            publisher: names::endpoint_id(&self.node.token()),
        };
        // A server's queryable is complete for its own key, not for all keys that match a `*`.
        let target = match known {
            Some(_) => QueryTarget::AllComplete,
            None => QueryTarget::All,
        };
        let replies = self
            .session
            .get(key)
            .payload(request.to_vec())
            .attachment(attachment.encoded().as_slice())
            .target(target)
            .consolidation(ConsolidationMode::None)
            .timeout(within)
            .wait()
            .map_err(failed("calling", service.name))?;
        // Ends when every server has answered, or with the time.
        while let Ok(reply) = replies.recv() {
            match reply.result() {
                Ok(answer) if answer.payload().len() <= SAMPLE_BYTES_MAX => {
                    return Ok(answer.payload().to_bytes().into_owned());
                }
                _ => self.graph.refuse(),
            }
        }
        Err(NetworkError::NoAnswer { service: service.name.to_owned(), within })
    }

    fn describe(&self) -> String {
        self.description.clone()
    }
}

impl Drop for ZenohNetwork {
    fn drop(&mut self) {
        self.leave();
    }
}
