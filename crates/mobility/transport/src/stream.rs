//! Greetings on a connection, and how connections end.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_mobility_protocol::{NodeId, ParseError};

use crate::channel::Channel;
use crate::hello::{self, ANSWER_HEAD, HEAD, Hello, HelloError, PLACE_HEAD, PeerAddress, Refusal};

/// Why a connection ends, or does not come to be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("it was closed")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Greeting(#[from] HelloError),
    #[error("{0}")]
    Unwelcome(Refusal),
    #[error("not welcome there: {0}")]
    Refused(Refusal),
    #[error("{0}")]
    Message(#[from] ParseError),
    #[error("a message from {from} to {to} does not belong here")]
    Foreign { from: NodeId, to: NodeId },
    #[error("nothing was heard for too long")]
    Silence,
    #[error("nothing was read there for too long")]
    Unread,
    #[error("the greeting took too long")]
    Late,
    #[error("TLS: {0}")]
    Tls(io::Error),
    #[error("there are new certificates, and it begins anew")]
    Renewed,
    #[error("it leads in term {0} only, and another controller in {1}")]
    Deposed(u64, u64),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        match error.kind() {
            // TLS says so of an end without a word.
            io::ErrorKind::UnexpectedEof => Ended::Closed,
            // What TLS has against the other end, or the other end against us.
            io::ErrorKind::InvalidData => Ended::Tls(error),
            _ => Ended::Io(error),
        }
    }
}

impl Ended {
    /// Whether what was said there was wrong.
    pub fn is_violation(&self) -> bool {
        matches!(
            self,
            Ended::Greeting(_)
                | Ended::Unwelcome(_)
                | Ended::Message(_)
                | Ended::Foreign { .. }
                | Ended::Tls(_)
        )
    }
}

/// Greets whom we have dialled; returns where others are, and its term.
pub(crate) async fn greet(
    stream: &mut Channel,
    hello: &Hello,
) -> Result<(Vec<PeerAddress>, u64), Ended> {
    stream.write_all(&hello.emit()).await?;
    stream.flush().await?;
    let mut head = [0; ANSWER_HEAD];
    // One of another version may say no more than that.
    let (first, rest) = head.split_at_mut(8);
    read(stream, first).await?;
    hello::check(first)?;
    read(stream, rest).await?;
    let welcome = hello::parse_answer(&head)?.map_err(Ended::Refused)?;
    let mut places = Vec::new();
    for _ in 0..welcome.places {
        let mut head = [0; PLACE_HEAD];
        read(stream, &mut head).await?;
        let mut rest = vec![0; hello::place_rest(&head)];
        read(stream, &mut rest).await?;
        places.push(hello::parse_place(&head, &rest)?);
    }
    Ok((places, welcome.term))
}

/// Hears the greeting of who has dialled us.
pub(crate) async fn hear(stream: &mut Channel) -> Result<Hello, Ended> {
    let mut head = [0; HEAD];
    read(stream, &mut head).await?;
    let rest = match Hello::rest(&head) {
        Err(HelloError::Version(version)) => {
            // Who speaks it may understand as much as that.
            let _ = answer(stream, &hello::refuse(Refusal::Version)).await;
            return Err(HelloError::Version(version).into());
        }
        rest => rest?,
    };
    let mut said = vec![0; rest];
    read(stream, &mut said).await?;
    Ok(Hello::parse(&head, &said)?)
}

/// Answers who has dialled us.
pub(crate) async fn answer(stream: &mut Channel, octets: &[u8]) -> Result<(), Ended> {
    stream.write_all(octets).await?;
    Ok(stream.flush().await?)
}

async fn read(stream: &mut Channel, octets: &mut [u8]) -> Result<(), Ended> {
    stream.read_exact(octets).await?;
    Ok(())
}
