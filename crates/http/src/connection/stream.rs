//! The stream of a client: it says when an answer is sent, and ends when the client does not
//! take it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::permits::ConnectionPermit;

/// A stream with the place of its connection.
pub(crate) struct ClientStream<S> {
    stream: S,
    place: Arc<ConnectionPermit>,
    /// How long the client may take nothing of what waits.
    unread: Option<Duration>,
    /// The end of the client's time, while something waits.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> ClientStream<S> {
    pub fn new(
        stream: S,
        place: Arc<ConnectionPermit>,
        unread: Option<Duration>,
    ) -> ClientStream<S> {
        ClientStream { stream, place, unread, deadline: None }
    }

    /// What became of a write, unless the client takes nothing for too long.
    fn in_time<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        let Some(unread) = self.unread.filter(|_| written.is_pending()) else {
            self.deadline = None;
            return written;
        };
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(unread)));
        deadline.as_mut().poll(context).map(|()| {
            let reason = "the client takes nothing of its answer";
            Err(io::Error::new(io::ErrorKind::TimedOut, reason))
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if let Poll::Ready(Ok(())) = flushed {
            self.place.sent();
        }
        self.in_time(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(context);
        self.in_time(closed, context)
    }
}
