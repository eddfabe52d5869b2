//! A connection between two nodes for one conversation, beside their messages: what one node gives
//! whole to another. Both know the number of that from their controller.
//!
//! The node that gives dials, and says 4 octets `WSH1`, the number (16), the length of the token (1)
//! and the token. At either node the conversation is one end of a pair of Unix sockets.

use std::future::Future;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use weft_http::connection::permits::{ConnectionPermits, Limits};

use super::Channel;
use crate::options::Security;
use crate::token::Token;

/// How the one that dials begins.
const MAGIC: &[u8; 4] = b"WSH1";
/// How long one that has connected may take to say who it is.
const GREETING: Duration = Duration::from_secs(2);
/// How many are asked at once who they are. Beyond these the oldest is ended.
const GREETINGS: Limits = Limits { all: 256, of_source: 32 };
/// How long a connection may take to be made.
const DIALLING: Duration = Duration::from_secs(5);

/// What both ends know.
#[derive(Clone, Debug)]
pub struct Shared {
    /// What all nodes share.
    pub token: Token,
    /// How connections are enciphered; none when they are not.
    pub security: Option<Security>,
    /// The number of the conversation.
    pub id: u128,
    /// The name of the other node.
    pub peer: String,
}

/// Waits for the other node, as long as `patience` says. Those who do not know the number, or are
/// of another name, are turned away.
///
/// # Errors
/// It has not come.
pub fn accept(
    listener: &TcpListener,
    shared: Shared,
    patience: Duration,
) -> io::Result<UnixStream> {
    let listener = listener.try_clone()?;
    listener.set_nonblocking(true)?;
    converse(async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        timeout(patience, first_greeted(&listener, &Arc::new(shared))).await.map_err(late)?
    })
}

/// The first one that knows what it has to know. Others that are asked meanwhile do not keep it
/// waiting.
async fn first_greeted(
    listener: &tokio::net::TcpListener,
    shared: &Arc<Shared>,
) -> io::Result<Channel> {
    let places = ConnectionPermits::new(GREETINGS);
    let (tell, mut told) = mpsc::channel(1);
    loop {
        let (stream, from) = tokio::select! {
            connected = listener.accept() => connected?,
            Some(channel) = told.recv() => return Ok(channel),
        };
        let (shared, tell) = (shared.clone(), tell.clone());
        let greeting = |place| async move {
            let heard = timeout(GREETING, greeted(stream, &shared)).await.map_err(late);
            match heard.and_then(|heard| heard) {
                // A second one that knows all that comes too late.
                Ok(channel) => drop(tell.try_send(channel)),
                Err(error) => {
                    tracing::warn!(%from, "a connection for a share is refused: {error}");
                }
            }
            drop(place);
        };
        places.admit(Some(from.ip()), greeting).await;
    }
}

/// Connects to the other node, which waits at `address` (`HOST:PORT`).
///
/// # Errors
/// It does not answer, or is of another name.
pub fn dial(address: String, shared: Shared) -> io::Result<UnixStream> {
    converse(async move {
        let dialled = async {
            let stream = TcpStream::connect(&address).await?;
            let mut channel = match &shared.security {
                None => Channel::Plain(stream),
                Some(security) => {
                    let stream = security.mutual.connect(&shared.peer, stream).await?;
                    Channel::Secure(Box::new(stream))
                }
            };
            channel.send_at_once();
            let token = shared.token.octets();
            let id = shared.id.to_be_bytes();
            let said = [&MAGIC[..], &id, &[token.len() as u8], token].concat();
            channel.write_all(&said).await?;
            channel.flush().await?;
            Ok(channel)
        };
        timeout(DIALLING, dialled).await.map_err(late)?
    })
}

/// Where a node listens for such conversations, at the address of its other connections.
///
/// # Errors
/// What the system says.
pub fn listen(at: IpAddr) -> io::Result<TcpListener> {
    TcpListener::bind((at, 0))
}

fn late(_: tokio::time::error::Elapsed) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it takes too long")
}

/// Hears who has connected.
async fn greeted(stream: TcpStream, shared: &Shared) -> io::Result<Channel> {
    let wrong = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut channel = match &shared.security {
        None => Channel::Plain(stream),
        Some(security) => {
            let (stream, shown) = security.mutual.accept(stream).await?;
            if !shown.is_of(&shared.peer) {
                return wrong("its certificate is of another name");
            }
            Channel::Secure(Box::new(stream))
        }
    };
    channel.send_at_once();
    let mut head = [0; 21];
    channel.read_exact(&mut head).await?;
    let mut token = vec![0; usize::from(head[20])];
    channel.read_exact(&mut token).await?;
    if head[..4] != *MAGIC || head[4..20] != shared.id.to_be_bytes() {
        return wrong("it does not know the number of the move");
    }
    match shared.token.is(&token) {
        true => Ok(channel),
        false => wrong("it does not know the token"),
    }
}

/// Makes the connection in a thread that then passes octets on until either end is closed.
fn converse(
    connect: impl Future<Output = io::Result<Channel>> + Send + 'static,
) -> io::Result<UnixStream> {
    let (own, other) = UnixStream::pair()?;
    other.set_nonblocking(true)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let (tell, told) = oneshot::channel::<io::Result<()>>();
    let work = move || {
        runtime.block_on(async move {
            let connected = async {
                io::Result::Ok((connect.await?, tokio::net::UnixStream::from_std(other)?))
            };
            match connected.await {
                Ok((mut channel, mut near)) => {
                    // Who waits may have gone.
                    let _ = tell.send(Ok(()));
                    // Either end says by itself that the other one is gone.
                    let _ = copy_bidirectional(&mut near, &mut channel).await;
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
    };
    thread::Builder::new().name("share".to_owned()).spawn(work)?;
    told.blocking_recv().map_err(|_| io::Error::from(io::ErrorKind::Interrupted))??;
    Ok(own)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::Ipv4Addr;
    use std::time::Instant;

    use super::*;

    fn shared(id: u128, token: &str) -> Shared {
        let token = Token::new(token).unwrap();
        Shared { token, security: None, id, peer: "other".to_owned() }
    }

    const TOKEN: &str = "0123456789abcdef";

    #[test]
    fn only_who_knows_number_and_token_is_heard() {
        let listener = listen(Ipv4Addr::LOCALHOST.into()).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let others = [shared(8, TOKEN), shared(7, "fedcba9876543210")];
        // Strangers come first: one says nothing that is known, and more than are asked at once say
        // nothing at all and stay.
        let mut stranger = std::net::TcpStream::connect(&address).unwrap();
        stranger.write_all(&[0; 300]).unwrap();
        let silent = || std::net::TcpStream::connect(&address).unwrap();
        let silent: Vec<_> = (0..GREETINGS.of_source + 10).map(|_| silent()).collect();
        for other in others {
            drop(dial(address.clone(), other).unwrap());
        }
        let dialled = thread::spawn(move || {
            let mut stream = dial(address, shared(7, TOKEN)).unwrap();
            stream.write_all(b"all of it").unwrap();
            let mut said = [0; 2];
            stream.read_exact(&mut said).unwrap();
            said
        });
        let begun = Instant::now();
        let mut heard = accept(&listener, shared(7, TOKEN), Duration::from_secs(60)).unwrap();
        assert!(begun.elapsed() < GREETING * silent.len() as u32 / 4, "one after the other");
        let mut said = [0; 9];
        heard.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"all of it");
        heard.write_all(b"ok").unwrap();
        assert_eq!(&dialled.join().unwrap(), b"ok");
    }

    #[test]
    fn who_does_not_come_is_not_waited_for() {
        let listener = listen(Ipv4Addr::LOCALHOST.into()).unwrap();
        let outcome = accept(&listener, shared(7, TOKEN), Duration::from_millis(20));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
