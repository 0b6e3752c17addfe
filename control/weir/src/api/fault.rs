//! What goes wrong, as a status and a JSON document: `{ "error": "…" }`.

use super::desk::{NoAnswer, Refusal, Why};
use super::route::json;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use serde::Serialize;

/// Why a request is not answered.
#[derive(Debug)]
pub struct Fault {
    status: StatusCode,
    text: String,
}

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    error: &'a str,
}

impl Fault {
    /// With this status, and a reason that says what to do.
    pub fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    /// Its status.
    #[cfg(test)]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The request makes no sense.
    pub fn bad(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let mut response = json(&Document { error: &self.text }).unwrap_or_default();
        *response.status_mut() = self.status;
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<NoAnswer> for Fault {
    fn from(_: NoAnswer) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the control loop gives no answer: it is starting, stopping or busy; \
             ask again, and see /v1/events for what was done",
        )
    }
}

impl From<Refusal> for Fault {
    fn from(Refusal { why, text }: Refusal) -> Self {
        let status = match why {
            Why::Wrong => StatusCode::UNPROCESSABLE_ENTITY,
            Why::Restart => StatusCode::CONFLICT,
            Why::Failed => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, text)
    }
}
