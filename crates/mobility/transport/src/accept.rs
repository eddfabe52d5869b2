//! Connections that others make.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use weft_http::connection::permits::{ConnectionPermits, Limits};
use weft_http::tls::Shown;
use weft_mobility_protocol::NodeId;

use crate::channel::Channel;
use crate::hello::{self, Hello, Refusal};
use crate::hub::{Event, Hub, count};
use crate::note::{Registered, Registration};
use crate::stream::{Ended, answer, hear};

/// Connections whose greeting is waited for. Beyond these the oldest is ended, so those that
/// say nothing keep no one out.
const GREETINGS: Limits = Limits { all: 256, of_source: 32 };
/// Pause after a connection could not be accepted, for example because the
/// process has too many files open.
const PAUSE: Duration = Duration::from_millis(100);

/// Hears greetings for as long as the transport lives.
pub(crate) async fn accept(hub: Arc<Hub>, listener: TcpListener) {
    let places = ConnectionPermits::new(GREETINGS);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let hub = hub.clone();
        let greeting = |place| async move {
            hear_out(&hub, stream, from).await;
            drop(place);
        };
        places.admit(Some(from.ip()), greeting).await;
    }
}

async fn hear_out(hub: &Arc<Hub>, stream: TcpStream, from: SocketAddr) {
    let heard = timeout(hub.options.timing.greeting, receive(hub, stream)).await;
    match heard.unwrap_or(Err(Ended::Late)) {
        Ok(()) => {}
        Err(ended) if ended.is_violation() => {
            count(&hub.counters.violations);
            tracing::warn!(%from, "a connection was ended: {ended}");
        }
        Err(ended) => tracing::debug!(%from, "a connection has ended: {ended}"),
    }
}

async fn receive(hub: &Arc<Hub>, stream: TcpStream) -> Result<(), Ended> {
    let (mut channel, shown) = match &hub.options.security {
        None => (Channel::Plain(stream), None),
        Some(security) => {
            let (stream, shown) = security.mutual.accept(stream).await?;
            (Channel::Secure(Box::new(stream)), Some(shown))
        }
    };
    let hello = hear(&mut channel).await?;
    let peer = match unwelcome(hub, &hello, shown.as_ref()) {
        None => hub.peer(hello.from).ok_or(Refusal::Unknown),
        Some(refusal) => Err(refusal),
    };
    match peer {
        Ok(peer) => {
            register(hub, &hello)?;
            answer(&mut channel, &hello::welcome(&hub.places(), hub.options.term)).await?;
            // It has ended only if the transport has.
            let _ = peer.streams.send(channel).await;
            Ok(())
        }
        Err(mut refusal) => {
            // It has shown token and certificate, and only its number is new.
            if refusal == Refusal::Unknown && register(hub, &hello)? {
                refusal = Refusal::Registering;
            }
            answer(&mut channel, &hello::refuse(refusal)).await?;
            Err(Ended::Unwelcome(refusal))
        }
    }
}

/// Tells what a node says of itself; whether it says something, and that is heard.
fn register(hub: &Hub, hello: &Hello) -> Result<bool, Ended> {
    let Some(said) = hello.registration.as_ref().filter(|_| hub.options.admits) else {
        return Ok(false);
    };
    let registration = Registration::parse(said)?;
    if !registration.has_address() {
        return Err(hello::HelloError::Value.into());
    }
    let (node, name) = (hello.from, hello.name.clone());
    hub.tell(Event::Registered(Registered { node, name, registration }));
    Ok(true)
}

fn unwelcome(hub: &Hub, hello: &Hello, shown: Option<&Shown>) -> Option<Refusal> {
    let options = &hub.options;
    if !options.token.is(&hello.token) {
        return Some(Refusal::Token);
    }
    if shown.is_some_and(|shown| !shown.is_of(&hello.name)) {
        return Some(Refusal::Name);
    }
    if hello.to != options.node {
        return Some(Refusal::Elsewhere);
    }
    let known = match options.node {
        NodeId::CONTROLLER => {
            let mut places = hub.places().into_iter();
            places.any(|place| place.node == hello.from && place.name == hello.name)
        }
        // The controller dials no node.
        own => hello.from != own && hello.from != NodeId::CONTROLLER,
    };
    // Which number a name has, the controller tells.
    let is_told = || {
        let place = hub.known(hello.from).and_then(|peer| peer.place());
        place.is_some_and(|place| place.name == hello.name)
    };
    let known = known && (shown.is_none() || options.node == NodeId::CONTROLLER || is_told());
    (!known).then_some(Refusal::Unknown)
}
