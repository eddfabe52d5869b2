//! Makes a connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use weft_mobility_protocol::NodeId;

use crate::channel::Channel;
use crate::hello::{Hello, PeerAddress};
use crate::hub::Hub;
use crate::note::Registration;
use crate::stream::{Ended, greet};

/// How long one of several controllers may take: another one may lead.
const SEARCH: Duration = Duration::from_millis(600);

/// Dials a node and greets it. The controller tells where others are.
pub(crate) async fn dial(hub: &Arc<Hub>, place: &PeerAddress) -> Result<Channel, Ended> {
    let options = &hub.options;
    let hello = Hello {
        from: options.node,
        to: place.node,
        token: options.token.octets().to_vec(),
        name: options.name.clone(),
        registration: options
            .registration
            .as_ref()
            .filter(|_| place.node == NodeId::CONTROLLER)
            .map(Registration::emit),
    };
    let made = async {
        let stream = TcpStream::connect(&place.address).await?;
        let mut channel = match &options.security {
            None => Channel::Plain(stream),
            // Nothing is said, and no token, before the other end has shown who it is.
            Some(security) => {
                let secure = security.mutual.connect(&place.name, stream).await;
                Channel::Secure(Box::new(secure?))
            }
        };
        let (places, term) = greet(&mut channel, &hello).await?;
        Ok::<_, Ended>((channel, places, term))
    };
    let is_controller = place.node == NodeId::CONTROLLER;
    let patience = match is_controller && options.controllers.len() > 1 {
        true => options.timing.greeting.min(SEARCH),
        false => options.timing.greeting,
    };
    let (channel, places, term) = timeout(patience, made).await.map_err(|_| Ended::Late)??;
    if is_controller {
        hub.enter(term)?;
        hub.learn(places);
    }
    Ok(channel)
}
