//! What bounds the requests of one server, and how it answers those that no handler takes.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_LENGTH, EXPECT};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;

use crate::problem::Failure;

/// A body that is refused is read to its end if it announces at most so many octets, and for
/// so long: a connection that is closed with octets on their way is reset, and a client that
/// sends all before it listens never sees the answer (RFC 9112 §9.6).
const DISCARDED: usize = 8 << 20;
const DISCARDING: Duration = Duration::from_secs(2);

/// Bounds of a request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of its body.
    pub body: usize,
    /// Time until its answer begins.
    pub answer: Duration,
}

impl Bounds {
    /// Keeps the requests to `routes` within these bounds, and answers the others: 404, or
    /// 405 where only the method does not fit.
    pub fn keep<S: Clone + Send + Sync + 'static>(self, routes: Router<S>) -> Router<S> {
        routes
            .method_not_allowed_fallback(async || {
                Failure::new(StatusCode::METHOD_NOT_ALLOWED, "that cannot be done here")
            })
            .fallback(async || Failure::unknown("there is nothing here"))
            .layer(from_fn(move |request, next| self.admit(request, next)))
            .layer(DefaultBodyLimit::max(self.body))
    }

    /// Refuses a request whose head announces too long a body, and gives up one that takes
    /// too long.
    async fn admit(self, request: Request, next: Next) -> Response {
        let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        if length > self.body {
            // One that asks before it sends is still silent (RFC 9110 §10.1.1).
            if length <= DISCARDED && !request.headers().contains_key(EXPECT) {
                discard(request.into_body()).await;
            }
            let reason = format!("more than {} bytes", self.body);
            return Failure::new(StatusCode::PAYLOAD_TOO_LARGE, reason).into_response();
        }
        match tokio::time::timeout(self.answer, next.run(request)).await {
            Ok(response) => response,
            Err(_) => Failure::new(StatusCode::REQUEST_TIMEOUT, "took too long").into_response(),
        }
    }
}

/// Reads a body to its end, while there is time.
async fn discard(mut body: Body) {
    let to_the_end = async { while let Some(Ok(_)) = body.frame().await {} };
    // The answer is the same for one that is slow.
    let _ = tokio::time::timeout(DISCARDING, to_the_end).await;
}
