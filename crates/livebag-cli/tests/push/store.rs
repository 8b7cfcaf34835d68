//! An S3 server (s3s-fs) whose requests can fail, and which notes them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tempfile::TempDir;
use tokio::sync::Barrier;

pub const KEY: &str = "robot7key";
pub const SECRET: &str = "robot7secretrobot7secret";
pub const BUCKET: &str = "fleet";

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answered by the store.
    None,
    /// Refused with a status and a code.
    Refuse(u16, &'static str),
    /// A byte of its body is changed on the way.
    Corrupt,
    /// Never reaches the store; the connection breaks.
    CutBefore,
    /// Is carried out once a second request waits like this.
    WaitForAnother,
    /// Is carried out by the store; the answer is lost.
    CutAfter,
}

/// A request that reached the server.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// Key and query.
    pub what: String,
    pub bytes: u64,
}

impl Seen {
    pub fn is_part(&self) -> bool {
        self.method == "PUT" && self.what.contains("partNumber=")
    }

    /// The key of a whole object that is written.
    pub fn puts(&self) -> Option<&str> {
        (self.method == "PUT" && !self.what.contains('?')).then_some(&*self.what)
    }
}

type Rule = Box<dyn FnMut(&Seen) -> Fault + Send>;

struct State {
    rule: Rule,
    seen: Vec<Seen>,
    /// Bytes of all bodies, also of those that broke off.
    received_bytes: u64,
    /// Bytes of all answers.
    given_bytes: u64,
    /// A process that is killed when so many bytes have been received.
    victim: Option<(u64, Pid)>,
}

/// The server. It ends with this.
pub struct Store {
    pub endpoint: String,
    folder: TempDir,
    state: Arc<Mutex<State>>,
    _runtime: tokio::runtime::Runtime,
}

impl Store {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(folder.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let service = builder.build();
        let rule: Rule = Box::new(|_| Fault::None);
        let state =
            State { rule, seen: Vec::new(), received_bytes: 0, given_bytes: 0, victim: None };
        let state = Arc::new(Mutex::new(state));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
            .unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(serve(listener, service, state.clone()));
        Self { endpoint, folder, state, _runtime: runtime }
    }

    /// From now on `rule` decides.
    pub fn fail(&self, rule: impl FnMut(&Seen) -> Fault + Send + 'static) {
        self.state.lock().unwrap().rule = Box::new(rule);
    }

    pub fn work(&self) {
        self.fail(|_| Fault::None);
    }

    /// The requests since the last call.
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }

    pub fn received_bytes(&self) -> u64 {
        self.state.lock().unwrap().received_bytes
    }

    /// Bytes of the answers since the last call.
    pub fn take_given_bytes(&self) -> u64 {
        std::mem::take(&mut self.state.lock().unwrap().given_bytes)
    }

    /// Kills `pid` when `bytes` more have been received.
    pub fn kill_after(&self, bytes: u64, pid: Option<Pid>) {
        let mut state = self.state.lock().unwrap();
        let at = state.received_bytes + bytes;
        state.victim = pid.map(|pid| (at, pid));
    }

    /// The folder with the buckets, and with parts of uploads.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Where an object lies.
    pub fn place(&self, key: &str) -> PathBuf {
        self.folder.path().join(BUCKET).join(key)
    }
}

async fn serve(listener: tokio::net::TcpListener, service: S3Service, state: Arc<Mutex<State>>) {
    let pair = Arc::new(Barrier::new(2));
    while let Ok((socket, _)) = listener.accept().await {
        let (service, state, pair) = (service.clone(), state.clone(), pair.clone());
        let answer = service_fn(move |request| {
            answer(pair.clone(), service.clone(), state.clone(), request)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(socket), answer);
        tokio::spawn(async move {
            let _ = connection.await;
        });
    }
}

/// An error breaks the connection.
async fn answer(
    pair: Arc<Barrier>,
    service: S3Service,
    state: Arc<Mutex<State>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    let (parts, mut body) = request.into_parts();
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err("the client went") };
        let Ok(data) = frame.into_data() else { continue };
        bytes.extend_from_slice(&data);
        state.lock().unwrap().receive(data.len() as u64);
    }
    let what = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let what = what
        .strip_prefix(&format!("/{BUCKET}"))
        .unwrap_or(&what)
        .trim_start_matches('/')
        .to_owned();
    let seen = Seen { method: parts.method.to_string(), what, bytes: bytes.len() as u64 };
    let fault = {
        let mut state = state.lock().unwrap();
        let fault = (state.rule)(&seen);
        state.seen.push(seen);
        fault
    };
    match fault {
        Fault::Refuse(status, code) => {
            let text =
                format!("<Error><Code>{code}</Code><Message>as the test wants</Message></Error>");
            let mut response = Response::new(Full::from(text));
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            return Ok(response);
        }
        Fault::WaitForAnother => {
            pair.wait().await;
        }
        Fault::CutBefore => return Err("cut"),
        Fault::Corrupt if !bytes.is_empty() => {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        _ => {}
    }
    let request = Request::from_parts(parts, s3s::Body::from(bytes.freeze()));
    let response = service.call(request).await.map_err(|_| "the store failed")?;
    if fault == Fault::CutAfter {
        return Err("cut");
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(|_| "the store failed")?.to_bytes();
    state.lock().unwrap().given_bytes += bytes.len() as u64;
    Ok(Response::from_parts(parts, Full::from(bytes)))
}

impl State {
    fn receive(&mut self, bytes: u64) {
        self.received_bytes += bytes;
        if let Some((at, pid)) = self.victim
            && self.received_bytes >= at
        {
            self.victim = None;
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
