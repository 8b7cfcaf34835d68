//! What each address answers.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use livebag::{BagState, Clock, Query, Span};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::body;
use super::error::{HttpError, refusal};
use super::guard::{Secrets, guard};
use super::range::{self, Wanted};
use super::serve::AnswerTiming;
use crate::answer::{
    AnswerError, Auto, Decimation, Outlet, Pieces, bytes_of, decode_one, one_message, send_all,
};
use crate::ask::{AskError, Form, MessageForm, Parameters, between, full_names};
use crate::catalog::{Catalog, Reading, ServedBag, ServedFile};
use crate::limits::{
    ANSWERS_PER_ADDRESS_MAX, BODY_BYTES_MAX, NAME_BYTES_MAX, OPEN_BAGS_MAX, PIECE_BYTES,
    ServerLimits,
};
use crate::link::{KnownLinks, Link};
use crate::moment::Moment;
use crate::picture;
use crate::pool::Pool;
use crate::tell::{BagInfo, BagRow, ServerStatus};
use crate::warm::Warm;
use crate::wireless;

/// The API, described (OpenAPI 3.1).
pub const OPENAPI: &str = include_str!("openapi.json");
/// Timings kept for who measures.
const TIMINGS_MAX: usize = 4096;
/// The last part of a virtual file's address.
const FILE_SUFFIX: &str = ".mcap";

/// What all requests share.
pub struct App {
    pub catalog: Arc<Catalog>,
    pub secrets: Secrets,
    pub clock: Clock,
    pub limits: ServerLimits,
    pub pool: Pool,
    pub links: KnownLinks,
    pub warm: Arc<Warm>,
    turns: Arc<Semaphore>,
    /// Answers being laid out, by who asked.
    by_address: Mutex<HashMap<IpAddr, usize>>,
    pub connections: AtomicUsize,
    answers: AtomicUsize,
    answered: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
    timings: Mutex<VecDeque<AnswerTiming>>,
}

impl App {
    pub fn new(
        catalog: Arc<Catalog>,
        secrets: Secrets,
        clock: Clock,
        limits: ServerLimits,
    ) -> Self {
        Self {
            catalog,
            secrets,
            clock,
            limits,
            pool: Pool::new(limits.answer_bytes_max),
            links: KnownLinks::default(),
            warm: Arc::default(),
            turns: Arc::new(Semaphore::new(limits.answers_max)),
            by_address: Mutex::default(),
            connections: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            answered: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            timings: Mutex::default(),
        }
    }

    pub fn status(&self) -> ServerStatus {
        ServerStatus {
            library: concat!("livebag ", env!("CARGO_PKG_VERSION")).into(),
            connections: self.connections.load(Ordering::Relaxed),
            answers: self.answers.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    pub fn take_timings(&self) -> Vec<AnswerTiming> {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }

    fn bag(&self, name: &str) -> Result<Arc<ServedBag>, HttpError> {
        let shown = || HttpError::NoBag(name.chars().take(100).collect());
        if name.len() > NAME_BYTES_MAX {
            return Err(shown());
        }
        let served = self.catalog.bag(name).ok_or_else(shown)?;
        if !served.is_open() {
            self.catalog.close_unused();
        }
        Ok(served)
    }

    /// Waits for the right to lay an answer out.
    async fn turn(self: &Arc<Self>, peer: IpAddr) -> Result<Turn, HttpError> {
        {
            let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
            let count = by_address.entry(peer).or_default();
            if *count >= ANSWERS_PER_ADDRESS_MAX && !peer.is_loopback() {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(HttpError::Busy("too many answers are under way to this address"));
            }
            *count += 1;
        }
        let mut turn = Turn { app: self.clone(), peer, permit: None };
        let waiting = self.turns.clone().acquire_owned();
        match tokio::time::timeout(self.limits.turn_timeout, waiting).await {
            Ok(Ok(permit)) => {
                turn.permit = Some(permit);
                self.answers.fetch_add(1, Ordering::Relaxed);
                Ok(turn)
            }
            _ => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                Err(HttpError::Busy("too many answers are under way"))
            }
        }
    }
}

/// The right to lay one answer out.
struct Turn {
    app: Arc<App>,
    peer: IpAddr,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.app.answers.fetch_sub(1, Ordering::Relaxed);
        }
        let mut by_address = self.app.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_address.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&self.peer);
            }
        }
    }
}

/// All addresses.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/openapi.json", get(openapi))
        .route("/v1/status", get(status))
        .route("/v1/bags", get(bags))
        .route("/v1/bags/{bag}", get(info))
        .route("/v1/bags/{bag}/latest", get(latest))
        .route("/v1/bags/{bag}/history", get(history))
        .route("/v1/bags/{bag}/auto", get(auto))
        .route("/v1/bags/{bag}/message", get(message))
        .route("/bags/{file}", get(file))
        .fallback(nowhere)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

/// Whether an address is that of a virtual file.
pub fn is_file_path(path: &str) -> bool {
    path.starts_with("/bags/") && path.ends_with(FILE_SUFFIX)
}

async fn nowhere() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "nothing is at that address: /openapi.json describes what there is",
    )
}

async fn index(RawQuery(query): RawQuery) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let links = serde_json::json!({
        "livebag": env!("CARGO_PKG_VERSION"),
        "bags": "/v1/bags",
        "status": "/v1/status",
        "description": "/openapi.json",
    });
    Ok(Json(links).into_response())
}

async fn openapi(RawQuery(query): RawQuery) -> Result<Response, HttpError> {
    no_parameters(query)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response())
}

async fn status(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    Ok(Json(app.status()).into_response())
}

fn no_parameters(query: Option<String>) -> Result<(), AnswerError> {
    Ok(Parameters::parse(query.as_deref().unwrap_or_default())?.end()?)
}

/// Runs what touches the disk on a thread that may wait for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HttpError> + Send + 'static,
) -> Result<T, HttpError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(HttpError::Broken))
}

async fn bags(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let turn = app.turn(link.peer()).await?;
    blocking(move || {
        let mut rows = Vec::new();
        for (at, served) in turn.app.catalog.bags().into_iter().enumerate() {
            // One that cannot be read does not hide the others.
            if let Ok(bag) = served.bag() {
                rows.extend(BagRow::new(served.name(), &bag));
            }
            if at % OPEN_BAGS_MAX == 0 {
                turn.app.catalog.close_unused();
            }
        }
        Ok(Json(rows).into_response())
    })
    .await
}

async fn info(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let with_definitions = ask.flag("schemas")?;
    ask.end()?;
    let name = text_of(name)?;
    let turn = app.turn(link.peer()).await?;
    blocking(move || {
        let served = turn.app.bag(&name)?;
        let bag = served.bag()?;
        let info = BagInfo::new(served.name(), &bag)?;
        let info = if with_definitions { info.with_definitions(&bag) } else { info };
        Ok(Json(info).into_response())
    })
    .await
}

/// A name in an address; it may not be UTF-8.
type Name = Result<Path<String>, PathRejection>;

fn text_of(name: Name) -> Result<String, AnswerError> {
    let wrong = |_| AskError("the address is not percent-encoded UTF-8".into());
    Ok(name.map(|Path(name)| name).map_err(wrong)?)
}

fn type_of(form: Form) -> &'static str {
    match form {
        Form::Mcap => "application/mcap",
        Form::Lines | Form::Decoded { .. } => "application/jsonl",
    }
}

/// Which messages of a recording that is not open yet.
enum Which {
    Latest(std::time::Duration),
    Between(Option<Moment>, Option<Moment>),
}

async fn latest(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let last = ask.duration("last")?.unwrap_or(std::time::Duration::from_secs(1));
    answer(app, &link, &method, name, ask, Which::Latest(last)).await
}

async fn history(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let which = Which::Between(ask.moment("from")?, ask.moment("to")?);
    answer(app, &link, &method, name, ask, which).await
}

fn parameters(query: Option<String>) -> Result<Parameters, AnswerError> {
    Ok(Parameters::parse(query.as_deref().unwrap_or_default())?)
}

fn refuse_head(method: &Method) -> Option<Response> {
    (method == Method::HEAD).then(|| {
        let text = "an answer's head is known once it is laid out: ask by GET";
        let mut response = refusal(StatusCode::METHOD_NOT_ALLOWED, text);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
        response
    })
}

async fn answer(
    app: Arc<App>,
    link: &Link,
    method: &Method,
    name: Name,
    mut ask: Parameters,
    which: Which,
) -> Result<Response, HttpError> {
    if let Some(refused) = refuse_head(method) {
        return Ok(refused);
    }
    let (topics, form) = (ask.topics()?, ask.form()?);
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.bag(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let by_reference = link.takes_references();
    let pieces = lay_out(turn, asked_nanos, move |app, outlet| {
        outlet.take_references(by_reference);
        let bag = served.bag()?;
        let query = match which {
            Which::Latest(last) => {
                let topics = full_names(&bag, &topics);
                if bag.state() == BagState::Live && !topics.is_empty() {
                    app.warm.asked(&served, &topics, asked_nanos);
                }
                Query { topics, span: Span::Latest(last) }
            }
            Which::Between(from, to) => between(&bag, &topics, from, to)?,
        };
        send_all(&bag, &query, form, outlet)
    });
    respond(&app, asked_nanos, pieces, type_of(form), true).await
}

/// Lays an answer out on a thread of its own.
fn lay_out(
    turn: Turn,
    asked_nanos: u64,
    work: impl FnOnce(&App, &mut Outlet) -> Result<(), AnswerError> + Send + 'static,
) -> Pieces {
    let runtime = tokio::runtime::Handle::current();
    let (mut outlet, pieces) =
        Outlet::new(&turn.app.pool, &turn.app.clock, &runtime, turn.app.limits.progress_timeout);
    tokio::task::spawn_blocking(move || {
        let app = &turn.app;
        let result = work(app, &mut outlet);
        let timing = AnswerTiming {
            busy_nanos: outlet.busy_nanos(),
            total_nanos: app.clock.monotonic_nanos().saturating_sub(asked_nanos),
            bytes: outlet.bytes(),
        };
        app.answered.fetch_add(1, Ordering::Relaxed);
        app.bytes.fetch_add(outlet.bytes(), Ordering::Relaxed);
        let mut timings = app.timings.lock().unwrap_or_else(PoisonError::into_inner);
        if timings.len() == TIMINGS_MAX {
            timings.pop_front();
        }
        timings.push_back(timing);
        drop(timings);
        outlet.end(result);
        drop(turn);
    });
    pieces
}

/// The response, once the first piece is there. With `may_be_short` an answer of one piece tells its
/// length.
async fn respond(
    app: &App,
    asked_nanos: u64,
    mut pieces: Pieces,
    content_type: &'static str,
    may_be_short: bool,
) -> Result<Response, HttpError> {
    let body = match pieces.recv().await {
        None => Body::empty(),
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(mut first)) if may_be_short && bytes_of(&first) < PIECE_BYTES => {
            match pieces.recv().await {
                None => body::stream_of(bytes_of(&first) as u64, first, pieces),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(second)) => {
                    first.extend(second);
                    body::stream(first, pieces)
                }
            }
        }
        Some(Ok(first)) => body::stream(first, pieces),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let millis = (app.clock.monotonic_nanos() - asked_nanos) as f64 / 1e6;
    insert(headers, "server-timing", &format!("first;dur={millis:.3}"));
    Ok(response)
}

fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

async fn auto(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    if let Some(refused) = refuse_head(&method) {
        return Ok(refused);
    }
    let asked_nanos = app.clock.monotonic_nanos();
    let mut ask = parameters(query)?;
    let (topics, within) = (ask.topics()?, ask.within()?);
    let (last, rates) = (ask.duration("last")?, ask.decimate()?);
    ask.end()?;
    let served = app.bag(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let pieces = lay_out(turn, asked_nanos, move |app, outlet| {
        let bag = served.bag()?;
        let topics = full_names(&bag, &topics);
        let span = last.map_or(Span::All, Span::Latest);
        let quality = wireless::quality_to(link.peer(), &wireless::Proc);
        let known = app.links.speed(link.peer(), quality, app.clock.monotonic_nanos());
        let auto = Auto::new(&app.clock, &*link, known, asked_nanos, within);
        let decimation = Decimation::new(&bag, &rates);
        let speed = auto.send(&bag, &Query { topics, span }, decimation, outlet)?;
        if let Some(speed) = speed {
            app.links.learn(link.peer(), speed, quality, app.clock.monotonic_nanos());
        }
        Ok(())
    });
    respond(&app, asked_nanos, pieces, "application/mcap", false).await
}

async fn message(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let (mut topics, at, form) = (ask.topics()?, ask.moment("at")?, ask.message_form()?);
    ask.end()?;
    if topics.len() != 1 {
        let text = format!("{} topics are named: name one (topic=/camera)", topics.len());
        return Err(AskError(text).into());
    }
    let topic = topics.remove(0);
    let served = app.bag(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    blocking(move || {
        let _turn = turn;
        let bag = served.bag()?;
        let query = match at {
            None => Query { topics: full_names(&bag, &[topic]), span: Span::All },
            Some(at) => between(&bag, &[topic], Some(Moment::At(0)), Some(at))?,
        };
        let one = one_message(&bag, &query)?;
        let topic = bag.topics()[one.topic].topic();
        let (content_type, bytes) = match form {
            MessageForm::Raw => ("application/octet-stream", one.data.to_vec()),
            MessageForm::Png => ("image/png", picture::png(topic, &one.data)?),
            MessageForm::Jpeg => ("image/jpeg", picture::jpeg(topic, &one.data)?),
            MessageForm::Json { array_items_max } => {
                let mut line = one.line.clone();
                line.value = Some(decode_one(&bag, &one, array_items_max)?);
                ("application/json", serde_json::to_vec(&line).unwrap_or_default())
            }
        };
        let mut response = Response::new(Body::from(bytes));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        insert(headers, "livebag-log-time", &one.line.log_time.to_string());
        insert(headers, "livebag-publish-time", &one.line.publish_time.to_string());
        insert(headers, "livebag-sequence", &one.line.sequence.to_string());
        insert(headers, "livebag-type", &topic.type_name);
        Ok(response)
    })
    .await
}

async fn file(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    headers: HeaderMap,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let (topics, from, to) = (ask.topics()?, ask.moment("from")?, ask.moment("to")?);
    // The guard has looked at it.
    ask.all("access_token");
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let name = text_of(name)?;
    let Some(bag_name) = name.strip_suffix(FILE_SUFFIX) else { return Ok(nowhere().await) };
    let served = app.bag(bag_name)?;
    let turn = app.turn(link.peer()).await?;
    let range = text_header(&headers, header::RANGE);
    let if_range = text_header(&headers, header::IF_RANGE);
    let is_end = range.as_deref().is_some_and(|range| range.trim().starts_with("bytes=-"));
    let reading = match range::wanted(range.as_deref(), u64::MAX) {
        // Who asks for its beginning or for all of it opens it; others go on reading.
        Wanted::All | Wanted::Part(0, _) => Reading::Opens,
        _ if is_end => Reading::End,
        _ => Reading::GoesOn { knows_state: if_range.is_some() },
    };
    let peer = link.peer();
    let (file, turn) = blocking(move || {
        let bag = served.bag()?;
        let query = between(&bag, &topics, from, to)?;
        Ok((served.file(&query, reading, peer)?, turn))
    })
    .await?;
    let bytes = file.bytes();
    let tag = file.tag(bytes);
    if text_header(&headers, header::IF_NONE_MATCH).is_some_and(|known| known.contains(&tag)) {
        return Ok(with_file_headers(
            StatusCode::NOT_MODIFIED.into_response(),
            &file,
            &tag,
            bag_name,
        ));
    }
    let is_same = if_range.is_none_or(|known| known == tag);
    let wanted = range::wanted(range.as_deref().filter(|_| is_same), bytes);
    let (first, last) = match wanted {
        Wanted::All => (0, bytes - 1),
        Wanted::Part(first, last) => (first, last),
        Wanted::Nothing => return Err(HttpError::Range(bytes)),
    };
    let count = last - first + 1;
    let mut response = match method == Method::HEAD {
        true => {
            drop(turn);
            let mut response = Response::new(Body::empty());
            insert(response.headers_mut(), "content-length", &count.to_string());
            response
        }
        false => {
            let served = file.clone();
            let mut pieces = lay_out(turn, asked_nanos, move |_, outlet| {
                send_file(&served, first, count, outlet)
            });
            let first_piece = match pieces.recv().await {
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(piece)) => piece,
                None => return Err(HttpError::Broken),
            };
            Response::new(body::stream_of(count, first_piece, pieces))
        }
    };
    if matches!(wanted, Wanted::Part(..)) {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {first}-{last}/{bytes}");
        insert(response.headers_mut(), "content-range", &range);
    }
    Ok(with_file_headers(response, &file, &tag, bag_name))
}

fn text_header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn with_file_headers(
    mut response: Response,
    file: &ServedFile,
    tag: &str,
    bag_name: &str,
) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/mcap"));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // Names of recordings are plain characters here.
    insert(headers, "content-disposition", &format!("inline; filename=\"{bag_name}.mcap\""));
    insert(headers, "etag", tag);
    let cache = if file.is_live() { "no-store" } else { "no-cache" };
    insert(headers, "cache-control", cache);
    response
}

fn send_file(
    file: &ServedFile,
    first: u64,
    count: u64,
    outlet: &mut Outlet,
) -> Result<(), AnswerError> {
    let mut sent = 0;
    while sent < count {
        let wanted = (count - sent).min(PIECE_BYTES as u64) as usize;
        let mut piece = outlet.piece(wanted);
        file.read(first + sent, wanted, piece.buffer())?;
        if piece.buffer().is_empty() {
            break;
        }
        sent += piece.buffer().len() as u64;
        outlet.send(piece)?;
    }
    Ok(())
}
