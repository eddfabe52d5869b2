//! Connections that others make.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use weft_mobility_protocol::NodeId;

use crate::hello::{self, Hello, Refusal};
use crate::hub::{Hub, count};
use crate::stream::{Ended, hear};

/// Connections whose greeting is waited for; more of them wait.
const GREETINGS: usize = 64;
/// Pause after a connection could not be accepted, for example because the
/// process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Hears greetings for as long as the transport lives.
pub(crate) async fn accept(hub: Arc<Hub>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(GREETINGS));
    while let Ok(place) = places.clone().acquire_owned().await {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let hub = hub.clone();
        tokio::spawn(async move {
            let heard = timeout(hub.options.timing.greeting, receive(&hub, stream)).await;
            match heard.unwrap_or(Err(Ended::Late)) {
                Ok(()) => {}
                Err(ended) if ended.is_violation() => {
                    count(&hub.counters.violations);
                    tracing::warn!(%from, "a connection was ended: {ended}");
                }
                Err(ended) => tracing::debug!(%from, "a connection has ended: {ended}"),
            }
            drop(place);
        });
    }
}

async fn receive(hub: &Arc<Hub>, mut stream: TcpStream) -> Result<(), Ended> {
    let hello = hear(&mut stream).await?;
    let peer = match unwelcome(hub, &hello) {
        None => hub.peer(hello.from).ok_or(Refusal::Unknown),
        Some(refusal) => Err(refusal),
    };
    match peer {
        Ok(peer) => {
            stream.write_all(&hello::welcome(&hub.options.places)).await?;
            // It has ended only if the transport has.
            let _ = peer.streams.send(stream).await;
            Ok(())
        }
        Err(refusal) => {
            stream.write_all(&hello::refuse(refusal)).await?;
            Err(Ended::Unwelcome(refusal))
        }
    }
}

fn unwelcome(hub: &Hub, hello: &Hello) -> Option<Refusal> {
    let options = &hub.options;
    if !options.token.is(&hello.token) {
        return Some(Refusal::Token);
    }
    if hello.to != options.node {
        return Some(Refusal::Elsewhere);
    }
    let known = match options.node {
        NodeId::CONTROLLER => {
            let mut places = options.places.iter();
            places.any(|place| place.node == hello.from && place.name == hello.name)
        }
        // The controller dials no node.
        own => hello.from != own && hello.from != NodeId::CONTROLLER,
    };
    (!known).then_some(Refusal::Unknown)
}
