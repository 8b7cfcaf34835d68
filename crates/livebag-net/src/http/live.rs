//! Live sockets, manifests and a viewer's files, as addresses.

use std::sync::Arc;

use axum::Json;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::error::{HttpError, refusal};
use super::routes::{Name, blocking, no_parameters, text_of};
use crate::limits::{LIVE_ASK_BYTES_MAX, LIVE_MESSAGE_BYTES_MAX};
use crate::link::Link;
use crate::live::{self, Feed, Recorded, SUBPROTOCOLS, Seat, Session, SessionLimits, Streams};

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// A socket for a recording, finished or being written.
pub async fn of_recording(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    headers: HeaderMap,
    name: Name,
    RawQuery(query): RawQuery,
    upgrade: Upgrade,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let served = app.container(&text_of(name)?)?;
    let (upgrade, seat) = match admit(&app, &link, &headers, upgrade) {
        Ok(admitted) => admitted,
        Err(refused) => return Ok(*refused),
    };
    let feed = blocking(move || Ok(Recorded::open(served)?)).await?;
    Ok(begin(upgrade, Box::new(feed), &app, link, seat))
}

/// A socket for all streams of this machine.
pub async fn of_streams(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    upgrade: Upgrade,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let (upgrade, seat) = match admit(&app, &link, &headers, upgrade) {
        Ok(admitted) => admitted,
        Err(refused) => return Ok(*refused),
    };
    let feed = Streams::new(app.clock.clone());
    Ok(begin(upgrade, Box::new(feed), &app, link, seat))
}

/// Whether the client may have a socket: its page, its protocol, and whether there is room.
fn admit(
    app: &App,
    link: &Link,
    headers: &HeaderMap,
    upgrade: Upgrade,
) -> Result<(WebSocketUpgrade, Seat), Box<Response>> {
    if !app.secrets.allows_socket(headers) {
        let text = "pages of that origin may not ask: --allow-origin lets them";
        return Err(Box::new(refusal(StatusCode::FORBIDDEN, text)));
    }
    let upgrade = upgrade.map_err(|_| {
        let text = "a WebSocket is opened here: ws://HOST:PORT/live/NAME in a viewer";
        Box::new(refusal(StatusCode::UPGRADE_REQUIRED, text))
    })?;
    let upgrade = upgrade.protocols(SUBPROTOCOLS);
    if upgrade.selected_protocol().is_none() {
        let text = format!("the subprotocol is one of {}", SUBPROTOCOLS.join(", "));
        return Err(Box::new(refusal(StatusCode::BAD_REQUEST, &text)));
    }
    let seat = app.seats.take(link.peer()).ok_or_else(|| {
        Box::new(HttpError::Busy("too many live sockets are open").into_response())
    })?;
    Ok((upgrade, seat))
}

fn begin(
    upgrade: WebSocketUpgrade,
    feed: Box<dyn Feed>,
    app: &App,
    link: Arc<Link>,
    seat: Seat,
) -> Response {
    let limits = SessionLimits::from(&app.limits);
    let session = Session::new(feed, link, (&app.clock, &app.pool), limits, seat);
    upgrade
        .max_message_size(LIVE_ASK_BYTES_MAX)
        .max_frame_size(LIVE_ASK_BYTES_MAX)
        .read_buffer_size(16 << 10)
        // A message goes to the network as it comes: nothing waits for a buffer to fill.
        .write_buffer_size(0)
        .max_write_buffer_size(LIVE_MESSAGE_BYTES_MAX + (1 << 20))
        .on_upgrade(|socket| session.run(socket))
}

/// What Foxglove's remote data loader asks for first.
pub async fn manifest(
    State(app): State<Arc<App>>,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    no_parameters(query)?;
    let served = app.container(&text_of(name)?)?;
    let told = blocking(move || Ok(live::manifest(served.name(), &*served.container()?)?)).await?;
    let mut response = Json(told).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A file of the viewer that the user has brought.
pub async fn viewer(
    State(app): State<Arc<App>>,
    path: Option<Path<String>>,
) -> Result<Response, HttpError> {
    let Some(viewer) = app.viewer.clone() else {
        let text = "no viewer is served here: livebag serve --viewer DIR";
        return Ok(refusal(StatusCode::NOT_FOUND, text));
    };
    let path = path.map(|Path(path)| path).unwrap_or_default();
    let found = blocking(move || Ok(viewer.file(&path))).await?;
    let Some(file) = found else {
        return Ok(refusal(StatusCode::NOT_FOUND, "the viewer has no such file"));
    };
    let headers = [
        (header::CONTENT_TYPE, file.media_type),
        (header::CACHE_CONTROL, "no-cache"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    Ok((headers, file.bytes).into_response())
}
