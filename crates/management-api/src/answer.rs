//! What is answered when a request fails.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::api::{Mistake, Problem};

/// A request that is not granted.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    problem: Problem,
}

impl Failure {
    pub fn new(status: StatusCode, error: impl ToString) -> Failure {
        Failure { status, problem: Problem { error: error.to_string(), mistakes: Vec::new() } }
    }

    pub fn reason(&self) -> &str {
        &self.problem.error
    }

    pub fn stopped() -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping")
    }

    pub fn unknown(what: impl ToString) -> Failure {
        Failure::new(StatusCode::NOT_FOUND, what)
    }

    pub fn bad(what: impl ToString) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, what)
    }

    pub fn with_mistakes(self, mistakes: Vec<Mistake>) -> Failure {
        Failure { problem: Problem { mistakes, ..self.problem }, ..self }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, Json(self.problem)).into_response()
    }
}
