//! The virtual MCAP file of a recording, in ranges.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::app::{App, lay_out};
use super::body;
use super::error::HttpError;
use super::range::{self, Wanted};
use super::routes::{Name, blocking, insert, nowhere, parameters, text_header, text_of};
use crate::answer::{AnswerError, Outlet};
use crate::ask::between;
use crate::catalog::{Reading, ServedFile};
use crate::limits::PIECE_BYTES;
use crate::link::Link;

/// The last part of a virtual file's address.
const FILE_SUFFIX: &str = ".mcap";

/// Whether an address is that of a virtual file.
pub fn is_file_path(path: &str) -> bool {
    path.starts_with("/bags/") && path.ends_with(FILE_SUFFIX)
}

pub async fn file(
    State(app): State<Arc<App>>,
    Extension(link): Extension<Arc<Link>>,
    method: Method,
    headers: HeaderMap,
    name: Name,
    RawQuery(query): RawQuery,
) -> Result<Response, HttpError> {
    let mut ask = parameters(query)?;
    let (topics, from, to) = (ask.topics()?, ask.moment("from")?, ask.moment("to")?);
    // The guard has checked it.
    ask.all("access_token");
    ask.end()?;
    let asked_nanos = app.clock.monotonic_nanos();
    let name = text_of(name)?;
    let Some(bag_name) = name.strip_suffix(FILE_SUFFIX) else { return Ok(nowhere().await) };
    let served = app.container(bag_name)?;
    let turn = app.turn(link.peer()).await?;
    let range = text_header(&headers, header::RANGE);
    let if_range = text_header(&headers, header::IF_RANGE);
    let is_end = range.as_deref().is_some_and(|range| range.trim().starts_with("bytes=-"));
    let reading = match range::wanted(range.as_deref(), u64::MAX) {
        // A request for its beginning or for all of it opens the file; others continue reading.
        Wanted::All | Wanted::Part(0, _) => Reading::Opens,
        _ if is_end => Reading::End,
        _ => Reading::GoesOn { knows_state: if_range.is_some() },
    };
    let peer = link.peer();
    let (file, turn) = blocking(move || {
        let container = served.container()?;
        let query = between(&container, &topics, from, to)?;
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
            let mut answer = lay_out(turn, asked_nanos, move |_, outlet| {
                send_file(&served, first, count, outlet)
            });
            let first_piece = match answer.pieces.recv().await {
                Some(Err(error)) => return Err(error.into()),
                Some(Ok(piece)) => piece,
                None => return Err(HttpError::Broken),
            };
            Response::new(body::stream_of(count, first_piece, answer))
        }
    };
    if matches!(wanted, Wanted::Part(..)) {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = format!("bytes {first}-{last}/{bytes}");
        insert(response.headers_mut(), "content-range", &range);
    }
    Ok(with_file_headers(response, &file, &tag, bag_name))
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
