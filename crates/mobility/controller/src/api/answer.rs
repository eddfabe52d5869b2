//! What is answered when a request fails.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use weft_mobility_protocol::controller::Refusal;

use super::types::Problem;
use crate::engine::{OrderError, Stopped};

/// A request that is not granted.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    detail: String,
}

impl Failure {
    pub fn new(status: StatusCode, detail: impl ToString) -> Failure {
        Failure { status, detail: detail.to_string() }
    }

    pub fn bad(detail: impl ToString) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, detail)
    }

    pub fn unknown(detail: impl ToString) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, detail)
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, stopped)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        let status = match refusal {
            Refusal::UnknownUser => StatusCode::NOT_FOUND,
            Refusal::UnknownNode => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::KnownUser | Refusal::AlreadyThere | Refusal::Busy => StatusCode::CONFLICT,
        };
        Failure::new(status, refusal)
    }
}

impl From<OrderError> for Failure {
    fn from(error: OrderError) -> Failure {
        match error {
            OrderError::Refused(refusal) => refusal.into(),
            OrderError::Same | OrderError::Anchor => Failure::bad(error),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error").to_owned();
        let problem = Problem { title, status: self.status.as_u16(), detail: self.detail };
        // Texts and a number: there is nothing that JSON could not say.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let kind = [(CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, body).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            let bearer = axum::http::HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
        }
        response
    }
}
