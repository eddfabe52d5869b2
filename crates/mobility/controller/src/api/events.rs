//! `GET /v1/events`: what happens, as server-sent events (the HTML standard,
//! section 9.2).

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, StatusCode};
use hyper::body::{Bytes, Frame};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::answer::Failure;
use super::shared::Shared;
use crate::engine::{Happening, Watcher};

/// Pieces that wait for a client.
const PIECES: usize = 64;
/// Events of one piece.
const BATCH: usize = 64;
/// After so long without an event a comment is sent, by which a client that has
/// gone is noticed.
const QUIET: Duration = Duration::from_secs(10);

pub async fn events(
    State(shared): State<Shared>,
) -> Result<([(HeaderName, &'static str); 2], Body), Failure> {
    let place = shared.watchers.clone().try_acquire_owned();
    let too_many = |_| Failure::new(StatusCode::TOO_MANY_REQUESTS, "too many listen already");
    let place = place.map_err(too_many)?;
    let watcher = shared.handle.ask(|engine| engine.watch()).await?;
    let (sender, receiver) = channel(PIECES);
    tokio::spawn(async move {
        pass(watcher, sender).await;
        drop(place);
    });
    let head = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((head, Body::new(Pieces(receiver))))
}

/// Passes events on until the client or the controller has gone.
async fn pass(mut watcher: Watcher, sender: Sender<Bytes>) {
    // So that the client sees that it is heard.
    let mut piece = ": events\n\n".to_owned();
    loop {
        if !piece.is_empty() && sender.send(std::mem::take(&mut piece).into()).await.is_err() {
            return;
        }
        match tokio::time::timeout(QUIET, watcher.recv()).await {
            Err(_) => piece.push_str(":\n\n"),
            Ok(Err(RecvError::Closed)) => return,
            Ok(Err(RecvError::Lagged(missed))) => piece.push_str(&lag(missed)),
            Ok(Ok(happening)) => {
                piece.push_str(&event(&happening));
                for _ in 1..BATCH {
                    // Whatever else there is, the next turn says it.
                    let Ok(happening) = watcher.try_recv() else { break };
                    piece.push_str(&event(&happening));
                }
            }
        }
    }
}

fn event(happening: &Happening) -> String {
    // Texts and numbers: there is nothing that JSON could not say.
    let data = serde_json::to_string(happening).unwrap_or_default();
    format!("id: {}\nevent: {}\ndata: {data}\n\n", happening.number, happening.event)
}

fn lag(missed: u64) -> String {
    format!("event: missed\ndata: {{\"missed\":{missed}}}\n\n")
}

/// A body that is made while it is read.
struct Pieces(Receiver<Bytes>);

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = ready!(self.0.poll_recv(context));
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }
}
