//! Errors as responses: a status and one sentence in JSON, without the server's paths.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use livebag::{ContainerError, VirtualFileError};
use serde_json::json;

use crate::answer::AnswerError;
use crate::limits::{REFUSAL_CHARS_MAX, VIRTUAL_FILE_PATIENCE};

/// Why a request is not answered as was asked.
#[derive(Debug)]
pub enum HttpError {
    /// No such recording.
    NoBag(String),
    /// The answer failed.
    Answer(AnswerError),
    /// Too many at once.
    Busy(&'static str),
    /// Not a range of the file; its length.
    Range(u64),
    /// The thread that laid the answer out died.
    Broken,
}

impl<E: Into<AnswerError>> From<E> for HttpError {
    fn from(error: E) -> Self {
        Self::Answer(error.into())
    }
}

impl HttpError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoBag(_) => StatusCode::NOT_FOUND,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Range(_) => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::Broken => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Answer(error) => match error {
                AnswerError::Ask(_) => StatusCode::BAD_REQUEST,
                AnswerError::Container(
                    ContainerError::NoTopic { .. }
                    | ContainerError::NotFound(_)
                    | ContainerError::NotAContainer(_),
                )
                | AnswerError::File(VirtualFileError::Container(ContainerError::NoTopic {
                    ..
                }))
                | AnswerError::NoMessage => StatusCode::NOT_FOUND,
                AnswerError::File(VirtualFileError::Gone) | AnswerError::LaidOutAnew => {
                    StatusCode::GONE
                }
                AnswerError::FilesInUse | AnswerError::Memory => StatusCode::SERVICE_UNAVAILABLE,
                AnswerError::File(
                    VirtualFileError::TooLong
                    | VirtualFileError::TooMuchCarried
                    | VirtualFileError::Latest,
                )
                | AnswerError::Picture(_)
                | AnswerError::Points(_)
                | AnswerError::Field(_)
                | AnswerError::Decode { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    fn text(&self) -> String {
        match self {
            Self::NoBag(name) => {
                format!("there is no recording {name}: /v1/bags lists what there is")
            }
            Self::Busy(what) => format!("{what}: ask again in a second"),
            Self::Range(bytes) => format!("the file has {bytes} bytes"),
            Self::Broken => "the answer could not be laid out".into(),
            Self::Answer(
                AnswerError::Container(error)
                | AnswerError::File(VirtualFileError::Container(error)),
            ) => bag_text(error),
            Self::Answer(error @ AnswerError::Memory) => format!("{error}: ask again in a second"),
            Self::Answer(error) => error.to_string(),
        }
    }
}

/// Errors never say where the recording is.
fn bag_text(error: &ContainerError) -> String {
    match error {
        ContainerError::NotFound(_) | ContainerError::NotAContainer(_) => {
            "the recording has gone".into()
        }
        ContainerError::NoTopic { topic, known } => {
            let topic: String = topic.chars().take(100).collect();
            format!("the recording has no topic {topic}; it has {} topics", known.len())
        }
        ContainerError::Manifest { .. } => "the recording's container.yaml cannot be used".into(),
        ContainerError::Damaged { offset, what, .. } => {
            format!("the recording is damaged at byte {offset} of a file: {what}")
        }
        ContainerError::Io { source, .. } => format!("reading the recording failed: {source}"),
        _ => "the recording cannot be read".into(),
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let mut response = refusal(self.status(), &self.text());
        match self {
            Self::Busy(_) | Self::Answer(AnswerError::Memory) => {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::Answer(AnswerError::FilesInUse) => {
                let patience = HeaderValue::from(VIRTUAL_FILE_PATIENCE.as_secs());
                response.headers_mut().insert(header::RETRY_AFTER, patience);
            }
            Self::Range(bytes) => {
                if let Ok(range) = HeaderValue::from_str(&format!("bytes */{bytes}")) {
                    response.headers_mut().insert(header::CONTENT_RANGE, range);
                }
            }
            _ => {}
        }
        response
    }
}

/// A response that says no. Names in recordings may be of any length, and the sentence has them.
pub fn refusal(status: StatusCode, text: &str) -> Response {
    let text: String = text.chars().take(REFUSAL_CHARS_MAX).collect();
    (status, Json(json!({ "error": text }))).into_response()
}
