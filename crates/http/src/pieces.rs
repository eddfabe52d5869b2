//! Answers that are made while they are sent: traces, captures, events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc::Receiver;

/// A body that ends when its sender is dropped.
#[derive(Debug)]
pub struct Pieces(pub Receiver<Bytes>);

/// The media type of lines of JSON.
pub const JSON_LINES: &str = "application/jsonl";

impl Pieces {
    /// Answers with these pieces, which are of a media type.
    pub fn answer(self, kind: &'static str) -> Response {
        ([(CONTENT_TYPE, kind)], axum::body::Body::new(self)).into_response()
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
