//! A connection, enciphered or not.

pub mod direct;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use weft_http::tls::SecureStream;

/// A connection with another who takes part.
#[derive(Debug)]
pub(crate) enum Channel {
    Plain(TcpStream),
    Secure(Box<SecureStream>),
}

impl Channel {
    fn tcp(&self) -> &TcpStream {
        match self {
            Channel::Plain(stream) => stream,
            Channel::Secure(stream) => stream.get_ref().0,
        }
    }

    /// Lets small messages go at once, where the system can do that.
    pub fn send_at_once(&self) {
        let _ = self.tcp().set_nodelay(true);
    }

    /// Where the other end is.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.tcp().peer_addr().ok()
    }
}

impl AsyncRead for Channel {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Channel::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Channel::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Channel {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Channel::Plain(stream) => Pin::new(stream).poll_write(context, octets),
            Channel::Secure(stream) => Pin::new(stream).poll_write(context, octets),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Channel::Plain(stream) => Pin::new(stream).poll_flush(context),
            Channel::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Channel::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Channel::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
