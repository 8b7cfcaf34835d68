//! Accepting connections.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use livebag::Clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use super::app::{App, give_back};
use super::guard::Secrets;
use super::routes::router;
use crate::catalog::Catalog;
use crate::limits::{CONNECTIONS_PER_ADDRESS_MAX, HEAD_BYTES_MAX, HEADERS_MAX, ServerLimits};
use crate::link::{Link, MeteredStream};
use crate::live::Viewer;
use crate::small_file::{PEM_BYTES_MAX, small_file};
use crate::tell::ServerStatus;
use crate::zenoh::Others;

/// Certificate chain and private key, in PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The chain, the server's own certificate first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// How to serve. Use `..ServerOptions::default()` for the others.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Addresses to listen at; port 0 takes any that is free.
    pub listen: Vec<SocketAddr>,
    /// TLS; without it connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Token and origins.
    pub secrets: Secrets,
    /// Where time comes from.
    pub clock: Clock,
    /// How much and how long.
    pub limits: ServerLimits,
    /// Copies every message into memory of the server's, as answers over TLS do, instead of handing
    /// large ones to the network where the page cache has them.
    pub copies: bool,
    /// A viewer that the user has brought, served at `/viewer/`.
    pub viewer: Option<Viewer>,
    /// What other robots record, listed at `/v1/robots`.
    pub robots: Option<Arc<Others>>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Everybody on the network could read everything.
    #[error(
        "{address} can be reached from other machines, and then recordings are served only with TLS \
         and a token: give {} as well, or listen at 127.0.0.1 (docs/security.md)",
        missing.join(", ")
    )]
    Open {
        /// The address.
        address: SocketAddr,
        /// The options that are missing.
        missing: Vec<&'static str>,
    },
    /// The address cannot be had.
    #[error("listening at {address} failed: {source}{}", address_hint(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// Certificate or key cannot be used.
    #[error("{}: {what}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The error in it.
        what: String,
    },
    /// Threads cannot be made.
    #[error("starting the server's threads failed: {0}")]
    Threads(io::Error),
}

fn address_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            " (another program listens there: choose another port with --listen, or 0 for any)"
        }
        io::ErrorKind::PermissionDenied => " (ports below 1024 need rights: choose a higher one)",
        io::ErrorKind::AddrNotAvailable => " (this machine does not have that address)",
        _ => "",
    }
}

/// How long one answer took.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnswerTiming {
    /// Building it, without waiting for the client.
    pub busy_nanos: u64,
    /// From the request to the last piece handed to the network.
    pub total_nanos: u64,
    /// Bytes of it.
    pub bytes: u64,
}

/// A running server; dropped, it stops.
pub struct Server {
    addresses: Vec<SocketAddr>,
    app: Arc<App>,
    is_tls: bool,
    runtime: Option<Runtime>,
}

impl Server {
    /// Serves what `catalog` has, on threads of lower priority than the recorder's.
    ///
    /// # Errors
    /// If an address may not or cannot be listened at, or a certificate cannot be used.
    pub fn start(catalog: Arc<Catalog>, options: ServerOptions) -> Result<Self, ServeError> {
        check_exposure(&options)?;
        let acceptor = options.tls.as_ref().map(tls_acceptor).transpose()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(options.limits.answers_max + 4)
            .thread_name("livebag-serve")
            .on_thread_start(livebag::lower_priority)
            .enable_all()
            .build()
            .map_err(ServeError::Threads)?;
        let mut app = App::new(catalog, options.secrets, options.clock, options.limits);
        app.viewer = options.viewer;
        app.robots = options.robots;
        app.is_encrypted = options.tls.is_some();
        let app = Arc::new(app);
        let service = router(app.clone());
        runtime.spawn(give_back(app.pool.clone()));
        let copies = options.copies;
        let gate = ConnectionGate { app: app.clone(), by_address: Mutex::default(), copies };
        let gate = Arc::new(gate);
        let mut addresses = Vec::new();
        for address in options.listen {
            let failed = |source| ServeError::Listen { address, source };
            let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
            addresses.push(listener.local_addr().map_err(failed)?);
            runtime.spawn(accept(listener, acceptor.clone(), gate.clone(), service.clone()));
        }
        Ok(Self { addresses, app, is_tls: options.tls.is_some(), runtime: Some(runtime) })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The same as people type them.
    pub fn urls(&self) -> Vec<String> {
        let scheme = if self.is_tls { "https" } else { "http" };
        self.addresses.iter().map(|address| format!("{scheme}://{address}")).collect()
    }

    /// How it is doing.
    pub fn status(&self) -> ServerStatus {
        self.app.status()
    }

    /// How long the last answers took, those that were asked for before left out.
    pub fn take_timings(&self) -> Vec<AnswerTiming> {
        self.app.take_timings()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Answers under way are cut off: their askers see that.
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

fn check_exposure(options: &ServerOptions) -> Result<(), ServeError> {
    let Some(&address) = options.listen.iter().find(|address| !address.ip().is_loopback()) else {
        return Ok(());
    };
    let mut missing = Vec::new();
    if options.tls.is_none() {
        missing.extend(["--tls-cert", "--tls-key"]);
    }
    if !options.secrets.has_token() {
        missing.push("--token-file");
    }
    if missing.is_empty() { Ok(()) } else { Err(ServeError::Open { address, missing }) }
}

fn tls_acceptor(files: &TlsFiles) -> Result<TlsAcceptor, ServeError> {
    let wrong = |path: &Path, what: String| ServeError::Tls { path: path.to_owned(), what };
    let read = |path: &Path| {
        small_file(path, PEM_BYTES_MAX)
            .map_err(|error| wrong(path, format!("reading failed: {error}")))
    };
    let no_pem = |path: &Path, error: rustls::pki_types::pem::Error| {
        wrong(path, format!("no certificate or key in PEM can be read there: {error}"))
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&read(&files.certificate)?)
        .collect::<Result<_, _>>()
        .map_err(|error| no_pem(&files.certificate, error))?;
    if chain.is_empty() {
        return Err(wrong(&files.certificate, "it has no certificate in PEM".into()));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    let key = key.map_err(|error| no_pem(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&files.certificate, error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong(&files.certificate, format!("it does not fit its key: {error}")))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Counts connections.
struct ConnectionGate {
    app: Arc<App>,
    by_address: Mutex<HashMap<IpAddr, usize>>,
    /// See [`ServerOptions::copies`].
    copies: bool,
}

/// A counted connection.
struct Admitted {
    gate: Arc<ConnectionGate>,
    peer: IpAddr,
}

impl ConnectionGate {
    fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Admitted> {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let total = self.app.connections.load(Ordering::Relaxed);
        let of_peer = by_address.get(&peer).copied().unwrap_or(0);
        if total >= self.app.limits.connections_max
            || of_peer >= CONNECTIONS_PER_ADDRESS_MAX && !peer.is_loopback()
        {
            return None;
        }
        *by_address.entry(peer).or_default() += 1;
        self.app.connections.fetch_add(1, Ordering::Relaxed);
        Some(Admitted { gate: self.clone(), peer })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut by_address = self.gate.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        self.gate.app.connections.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = by_address.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.peer);
            }
        }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    gate: Arc<ConnectionGate>,
    service: Router,
) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                // Out of file descriptors, or the peer has gone already.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // Dropped, the connection is closed.
        let Some(admitted) = gate.admit(peer.ip().to_canonical()) else { continue };
        let (acceptor, service) = (acceptor.clone(), service.clone());
        tokio::spawn(async move {
            // The client sees a connection's errors.
            let _ = converse(stream, acceptor, service, &admitted).await;
        });
    }
}

async fn converse(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    service: Router,
    admitted: &Admitted,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let limits = &admitted.gate.app.limits;
    let by_reference = acceptor.is_none() && !admitted.gate.copies;
    let link = Link::new(&stream, admitted.peer)?.sent_by_reference(by_reference);
    let link = Arc::new(link);
    let metered = MeteredStream::new(stream, link.clone(), limits.progress_timeout);
    match acceptor {
        None => serve(metered, service, link, limits).await,
        Some(acceptor) => {
            let shaking = tokio::time::timeout(limits.handshake_timeout, acceptor.accept(metered));
            serve(shaking.await??, service, link, limits).await
        }
    }
}

/// Answers requests from `stream`.
///
/// # Errors
/// If the connection broke, or the input was not HTTP.
pub async fn serve<S>(
    stream: S,
    service: Router,
    link: Arc<Link>,
    limits: &ServerLimits,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service.layer(axum::Extension(link));
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        // Live sockets go on by themselves.
        .with_upgrades()
        .await;
    served.map_err(io::Error::other)
}
