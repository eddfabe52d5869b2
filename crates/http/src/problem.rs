//! How a request is refused: RFC 9457, in `application/problem+json`.

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The media type of a problem.
pub const PROBLEM: &str = "application/problem+json";

/// Why a request was refused (RFC 9457 section 3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// The phrase of the status.
    #[serde(default)]
    pub title: String,
    /// The status.
    #[serde(default)]
    pub status: u16,
    /// What went wrong, in one sentence.
    #[serde(alias = "error")]
    pub detail: String,
    /// Mistakes in the configuration that was sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Mistake {
    /// The file, as the client named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in the line, in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A refused request, as handlers return it.
#[derive(Debug)]
pub struct Failure {
    status: StatusCode,
    detail: String,
    mistakes: Vec<Mistake>,
}

impl Failure {
    /// Refuses with a status and one sentence.
    pub fn new(status: StatusCode, detail: impl ToString) -> Failure {
        Failure { status, detail: detail.to_string(), mistakes: Vec::new() }
    }

    /// The request is wrong: 400.
    pub fn bad(detail: impl ToString) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, detail)
    }

    /// The request names something that does not exist: 404.
    pub fn unknown(detail: impl ToString) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, detail)
    }

    /// The present state does not allow the request: 409.
    pub fn conflict(detail: impl ToString) -> Failure {
        Failure::new(StatusCode::CONFLICT, detail)
    }

    /// Why it was refused.
    pub fn reason(&self) -> &str {
        &self.detail
    }

    /// Adds the mistakes of a configuration.
    #[must_use]
    pub fn with_mistakes(self, mistakes: Vec<Mistake>) -> Failure {
        Failure { mistakes, ..self }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let Failure { status, detail, mistakes } = self;
        let title = status.canonical_reason().unwrap_or("Error").to_owned();
        let problem = Problem { title, status: status.as_u16(), detail, mistakes };
        // JSON can represent every text and number, so this cannot fail.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, PROBLEM)], body).into_response();
        if status == StatusCode::UNAUTHORIZED {
            // RFC 6750 section 3.
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
