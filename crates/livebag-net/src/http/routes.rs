//! What each address answers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{DefaultBodyLimit, Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use livebag::{Query, Span, TimelineQuery};
use tokio::sync::oneshot;

use super::app::{Answer, App, lay_out};
use super::body;
use super::error::{HttpError, refusal};
use super::guard::guard;
use super::{file, live};
use crate::answer::{
    AnswerError, Auto, Decimation, JsonOut, MessageHead, MessageQuery, SeriesQuery, bytes_of,
    send_all, send_fields, send_follow, send_info, send_message, send_points, send_series,
    send_status, send_timeline, span_of,
};
use crate::ask::{AskError, Form, MessageForm, Parameters, between, full_names};
use crate::limits::{
    BINS_MAX, BODY_BYTES_MAX, NAME_BYTES_MAX, OPEN_BAGS_MAX, PIECE_BYTES, POINTS_DEFAULT,
    POINTS_MAX, SERIES_BINS_DEFAULT, TIMELINE_BINS_DEFAULT,
};
use crate::link::Link;
use crate::moment::Moment;
use crate::page::{self, PageFile};
use crate::wireless;

/// The API, described (OpenAPI 3.1).
pub const OPENAPI: &str = include_str!("openapi.json");
/// All addresses.
pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(index))
        .route("/page/{file}", get(page_file))
        .route("/openapi.json", get(openapi))
        .route("/v1/status", get(status))
        .route("/v1/session", get(session))
        .route("/v1/robots", get(robots))
        .route("/v1/bags", get(bags))
        .route("/v1/bags/{bag}", get(info))
        .route("/v1/bags/{bag}/latest", get(latest))
        .route("/v1/bags/{bag}/history", get(history))
        .route("/v1/bags/{bag}/auto", get(auto))
        .route("/v1/bags/{bag}/follow", get(follow))
        .route("/v1/bags/{bag}/message", get(message))
        .route("/v1/bags/{bag}/points", get(points))
        .route("/v1/bags/{bag}/timeline", get(timeline))
        .route("/v1/bags/{bag}/series", get(series))
        .route("/v1/bags/{bag}/fields", get(fields))
        .route("/v1/bags/{bag}/events", get(events))
        .route("/v1/bags/{bag}/manifest", get(live::manifest))
        .route("/bags/{file}", get(file::file))
        .route("/live", get(live::of_streams))
        .route("/live/{bag}", get(live::of_recording))
        .route("/viewer/", get(live::viewer))
        .route("/viewer/{*path}", get(live::viewer))
        .fallback(nowhere)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), guard))
        .with_state(app)
}

pub async fn nowhere() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "nothing is at that address: /openapi.json describes what there is",
    )
}

/// Where the page's files are.
const PAGE_PREFIX: &str = "/page/";

/// Whether this asks for the page or a part of it, which hold no data. Browsers say that they take HTML.
pub fn is_page(path: &str, headers: &HeaderMap) -> bool {
    path.starts_with(PAGE_PREFIX) || path == "/" && takes_html(headers)
}

fn takes_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains("text/html"))
}

/// The page's state is in its address, so it accepts any parameters.
async fn page_file(headers: HeaderMap, name: Name) -> Result<Response, HttpError> {
    let name = text_of(name)?;
    let Some(file) = page::file(&name) else { return Ok(nowhere().await) };
    Ok(page_response(file, &headers))
}

fn page_response(file: &'static PageFile, headers: &HeaderMap) -> Response {
    let tag = file.tag();
    let known = text_header(headers, header::IF_NONE_MATCH);
    let mut response = match known.is_some_and(|known| known.contains(&tag)) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Body::from(file.bytes).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.content_type));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    insert(headers, "etag", &tag);
    response
}

async fn index(headers: HeaderMap, RawQuery(query): RawQuery) -> Result<Response, HttpError> {
    if takes_html(&headers) {
        return Ok(page_response(&page::FILES[0], &headers));
    }
    no_parameters(query)?;
    let links = serde_json::json!({
        "livebag": env!("CARGO_PKG_VERSION"),
        "bags": "/v1/bags",
        "status": "/v1/status",
        "description": "/openapi.json",
    });
    Ok(([(header::VARY, "Accept")], Json(links)).into_response())
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

/// Gives a browser whose page has shown the token a cookie, for viewers of this server's origin.
async fn session(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let cookie = app.pass.as_ref().and_then(|pass| pass.set_cookie(&headers, app.is_encrypted));
    let mut response = Json(serde_json::json!({ "cookie": cookie.is_some() })).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        headers.insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

pub fn no_parameters(query: Option<String>) -> Result<(), AnswerError> {
    Ok(Parameters::parse(query.as_deref().unwrap_or_default())?.end()?)
}

/// Runs what touches the disk on a thread that may wait for it.
pub async fn blocking<T: Send + 'static>(
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
    let asked_nanos = app.clock.monotonic_nanos();
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let mut out = JsonOut::new(outlet);
        let mut separator = "[";
        for (at, served) in app.catalog.bags().into_iter().enumerate() {
            // One that cannot be read does not hide the others.
            if let Ok(row) = served.row() {
                out.text(separator)?;
                out.put(&row)?;
                separator = ",";
            }
            if at % OPEN_BAGS_MAX == 0 {
                app.catalog.close_unused();
            }
        }
        out.text(if separator == "[" { "[]" } else { "]" })?;
        out.finish()
    });
    respond(&app, asked_nanos, answer, "application/json", true).await
}

/// Recordings that other robots announce.
async fn robots(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let asked_nanos = app.clock.monotonic_nanos();
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let rows = app.robots.as_ref().map(|robots| robots.recordings()).transpose();
        let rows = rows.map_err(|error| AnswerError::Robots(error.to_string()))?;
        let mut out = JsonOut::new(outlet);
        out.put(&rows.as_deref().unwrap_or_default())?;
        out.finish()
    });
    respond(&app, asked_nanos, answer, "application/json", true).await
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
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |_, outlet| {
        let container = served.container()?;
        send_info(served.name(), &container, with_definitions, outlet)
    });
    respond(&app, asked_nanos, answer, "application/json", true).await
}

/// A name in an address; it may not be UTF-8.
pub type Name = Result<Path<String>, PathRejection>;

pub fn text_of(name: Name) -> Result<String, AnswerError> {
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

/// New messages as server-sent events. It holds its turn until it ends.
async fn follow(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    if let Some(refused) = refuse_head(&method) {
        return Ok(refused);
    }
    let mut ask = parameters(query)?;
    let topics = ask.topics()?;
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let topics = full_names(&*served.container()?, &topics);
        send_follow(|| Ok(served.container()?), &topics, &app.clock, outlet)
    });
    respond(&app, asked_nanos, answer, "text/event-stream", false).await
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

pub fn parameters(query: Option<String>) -> Result<Parameters, AnswerError> {
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
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let by_reference = link.takes_references();
    let answer = lay_out(turn, asked_nanos, move |_, outlet| {
        outlet.take_references(by_reference);
        let container = served.container()?;
        let query = match which {
            Which::Latest(last) => {
                Query { topics: full_names(&container, &topics), span: Span::Latest(last) }
            }
            Which::Between(from, to) => between(&container, &topics, from, to)?,
        };
        send_all(&container, &query, form, outlet)
    });
    respond(&app, asked_nanos, answer, type_of(form), true).await
}

/// The response, once the first piece is there. With `may_be_short` an answer of one piece has a length.
async fn respond(
    app: &App,
    asked_nanos: u64,
    mut answer: Answer,
    content_type: &'static str,
    may_be_short: bool,
) -> Result<Response, HttpError> {
    let body = match answer.pieces.recv().await {
        None => Body::empty(),
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(mut first)) if may_be_short && bytes_of(&first) < PIECE_BYTES => {
            match answer.pieces.recv().await {
                None => body::stream_of(bytes_of(&first) as u64, first, answer),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(second)) => {
                    first.extend(second);
                    body::stream(first, answer)
                }
            }
        }
        Some(Ok(first)) => body::stream(first, answer),
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let millis = (app.clock.monotonic_nanos() - asked_nanos) as f64 / 1e6;
    insert(headers, "server-timing", &format!("first;dur={millis:.3}"));
    Ok(response)
}

/// Adds a header, unless its value cannot be one: names in recordings may be anything, of any length.
pub fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if value.len() <= NAME_BYTES_MAX
        && let Ok(value) = HeaderValue::from_str(value)
    {
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
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let container = served.container()?;
        let topics = full_names(&container, &topics);
        let span = last.map_or(Span::All, Span::Latest);
        let quality = wireless::quality_to(link.peer(), wireless::proc_net);
        let known = app.links.speed(link.peer(), quality, app.clock.monotonic_nanos());
        let auto = Auto::new(&app.clock, &*link, known, asked_nanos, within);
        let decimation = Decimation::new(&container, &rates);
        let speed = auto.send(&container, &Query { topics, span }, decimation, outlet)?;
        if let Some(speed) = speed {
            app.links.learn(link.peer(), speed, quality, app.clock.monotonic_nanos());
        }
        Ok(())
    });
    respond(&app, asked_nanos, answer, "application/mcap", false).await
}

async fn message(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let query = message_query(&mut ask)?;
    let form = ask.message_form()?;
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let (tell, told) = oneshot::channel();
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let way = (outlet, app.limits.turn_timeout);
        // A client that has gone needs no head.
        send_message(&*served.container()?, &query, form, way, |head| drop(tell.send(head)))
    });
    let content_type = match form {
        MessageForm::Raw => "application/octet-stream",
        MessageForm::Png { .. } => "image/png",
        MessageForm::Jpeg { .. } => "image/jpeg",
        MessageForm::Json { .. } => "application/json",
    };
    respond_with_head(answer, told, content_type).await
}

fn message_query(ask: &mut Parameters) -> Result<MessageQuery, AskError> {
    Ok(MessageQuery { topic: ask.topic()?, at: ask.moment("at")?, step: ask.step()? })
}

/// The response with one message, whose head is sent before its first piece.
async fn respond_with_head(
    mut answer: Answer,
    told: oneshot::Receiver<MessageHead>,
    content_type: &'static str,
) -> Result<Response, HttpError> {
    let first = match answer.pieces.recv().await {
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(piece)) => piece,
        // A message may be empty.
        None => Default::default(),
    };
    let head = told.await.map_err(|_| HttpError::Broken)?;
    let mut response = Response::new(body::stream_of(head.body_bytes, first, answer));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    insert(headers, "livebag-log-time", &head.line.log_time.to_string());
    insert(headers, "livebag-publish-time", &head.line.publish_time.to_string());
    insert(headers, "livebag-sequence", &head.line.sequence.to_string());
    insert(headers, "livebag-type", &head.type_name);
    if let Some(frame_id) = head.frame_id {
        insert(headers, "livebag-frame-id", &frame_id);
    }
    if head.damaged > 0 {
        insert(headers, "livebag-damaged", &head.damaged.to_string());
    }
    Ok(response)
}

/// Points of a cloud, thinned out.
async fn points(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let query = message_query(&mut ask)?;
    let points_max = ask.number("max", 1..=POINTS_MAX)?.unwrap_or(POINTS_DEFAULT);
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let (tell, told) = oneshot::channel();
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let way = (outlet, app.limits.turn_timeout);
        send_points(&*served.container()?, &query, points_max, way, |head| drop(tell.send(head)))
    });
    respond_with_head(answer, told, "application/octet-stream").await
}

/// Counts, bytes, losses and silences over time.
async fn timeline(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let (topics, from, to) = (ask.topics()?, ask.moment("from")?, ask.moment("to")?);
    let bins_max = ask.number("bins", 2..=BINS_MAX)?.unwrap_or(TIMELINE_BINS_DEFAULT);
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let container = served.container()?;
        let bounds = (from.is_some(), to.is_some());
        let query = between(&container, &topics, from, to)?;
        let (from_nanos, to_nanos) = span_of(&container, &query)?;
        let query = TimelineQuery {
            topics: query.topics,
            from_nanos: Some(from_nanos),
            to_nanos: Some(to_nanos),
            bins_max,
        };
        let timeline = served.timeline(&container, &query)?;
        app.catalog.forget_timelines();
        send_timeline(&container, &timeline, bounds, outlet)
    });
    respond(&app, asked_nanos, answer, "application/json", true).await
}

/// Numbers over time.
async fn series(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let (topic, fields) = (ask.topic()?, ask.fields()?);
    let (from, to) = (ask.moment("from")?, ask.moment("to")?);
    let bins_max = ask.number("bins", 2..=BINS_MAX)?.unwrap_or(SERIES_BINS_DEFAULT);
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        let container = served.container()?;
        let (from_nanos, to_nanos) = span_of(&container, &between(&container, &[], from, to)?)?;
        let query = SeriesQuery { topic, fields, from_nanos, to_nanos, bins_max };
        send_series(&container, &query, app.limits.turn_timeout, outlet)
    });
    respond(&app, asked_nanos, answer, "application/json", true).await
}

/// The fields of a topic's messages.
async fn fields(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let topic = ask.topic()?;
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        send_fields(&*served.container()?, &topic, app.limits.turn_timeout, outlet)
    });
    respond(&app, asked_nanos, answer, "application/json", true).await
}

/// How a recording goes, as server-sent events. It holds its turn until it ends.
async fn events(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    if let Some(refused) = refuse_head(&method) {
        return Ok(refused);
    }
    no_parameters(query)?;
    let asked_nanos = app.clock.monotonic_nanos();
    let served = app.container(&text_of(name)?)?;
    let turn = app.turn(link.peer()).await?;
    let answer = lay_out(turn, asked_nanos, move |app, outlet| {
        app.catalog.forget_timelines();
        send_status(&*served, &app.clock, outlet)
    });
    respond(&app, asked_nanos, answer, "text/event-stream", false).await
}

pub fn text_header(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}
