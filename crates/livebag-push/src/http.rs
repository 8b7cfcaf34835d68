//! Requests whose bodies leave at a bounded rate, and which fail when nothing moves.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::{Either, select};
use futures_util::stream;
use http::HeaderValue;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use livebag_bucket::{CONNECT, STALL};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};

use crate::pace::Pacer;

/// Makes clients for `object_store`.
#[derive(Debug)]
pub struct PacedConnector {
    /// Shared with every other sender of this target.
    pub pacer: Arc<Pacer>,
}

impl HttpConnector for PacedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // Its own options, such as timeouts of a machine's metadata, hold for requests without a body.
        let plain = ReqwestConnector::default().connect(options)?;
        let sending = reqwest::Client::builder().connect_timeout(CONNECT).build();
        let sending = sending.map_err(|source| object_store::Error::Generic {
            store: "HTTP",
            source: Box::new(source),
        })?;
        Ok(HttpClient::new(PacedService { plain, sending, pacer: self.pacer.clone() }))
    }
}

#[derive(Debug)]
struct PacedService {
    plain: HttpClient,
    sending: reqwest::Client,
    pacer: Arc<Pacer>,
}

#[async_trait]
impl HttpService for PacedService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let length = request.body().content_length();
        if length == 0 {
            return self.plain.execute(request).await;
        }
        let (parts, body) = request.into_parts();
        let bytes = body.collect().await?.to_bytes();
        let url = parts.uri.to_string().parse();
        let url = url.map_err(|error| HttpError::new(HttpErrorKind::Unknown, NoUrl(error)))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
        *request.body_mut() = Some(self.body(bytes));
        let response: http::Response<reqwest::Body> = self.execute(request).await?.into();
        let (parts, body) = response.into_parts();
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(failed))))
    }
}

impl PacedService {
    fn body(&self, bytes: Bytes) -> reqwest::Body {
        let slices = stream::unfold((bytes, self.pacer.clone()), |(mut bytes, pacer)| async move {
            if bytes.is_empty() {
                return None;
            }
            let slice = bytes.split_to(pacer.slice_bytes().min(bytes.len()));
            pacer.take(slice.len()).await;
            Some((Ok::<_, Infallible>(slice), (bytes, pacer)))
        });
        reqwest::Body::wrap_stream(slices)
    }

    async fn execute(&self, request: reqwest::Request) -> Result<reqwest::Response, HttpError> {
        let mut answer = pin!(self.sending.execute(request));
        let mut waited = Duration::ZERO;
        let step = Duration::from_secs(1);
        loop {
            match select(answer, pin!(tokio::time::sleep(step))).await {
                Either::Left((answer, _)) => return answer.map_err(failed),
                Either::Right((_, unfinished)) => answer = unfinished,
            }
            waited += step;
            if waited >= STALL && self.pacer.idle() >= STALL {
                return Err(HttpError::new(HttpErrorKind::Timeout, Stalled));
            }
        }
    }
}

fn failed(error: reqwest::Error) -> HttpError {
    let kind = match () {
        () if error.is_timeout() => HttpErrorKind::Timeout,
        () if error.is_connect() => HttpErrorKind::Connect,
        () if error.is_decode() => HttpErrorKind::Decode,
        () => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error.without_url())
}

#[derive(Debug, thiserror::Error)]
#[error("the store has taken no byte for {} s", STALL.as_secs())]
struct Stalled;

#[derive(Debug, thiserror::Error)]
#[error("no address of a request: {0:?}")]
struct NoUrl<T: std::fmt::Debug>(T);
