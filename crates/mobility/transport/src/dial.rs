//! Makes a connection.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use weft_mobility_protocol::NodeId;

use crate::channel::Channel;
use crate::hello::Hello;
use crate::hub::Hub;
use crate::options::PeerAddress;
use crate::stream::{Ended, greet};

/// Dials a node and greets it. The controller tells where others are.
pub(crate) async fn dial(hub: &Arc<Hub>, place: &PeerAddress) -> Result<Channel, Ended> {
    let options = &hub.options;
    let hello = Hello {
        from: options.node,
        to: place.node,
        token: options.token.octets().to_vec(),
        name: options.name.clone(),
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
        let places = greet(&mut channel, &hello).await?;
        Ok::<_, Ended>((channel, places))
    };
    let (channel, places) =
        timeout(options.timing.greeting, made).await.map_err(|_| Ended::Late)??;
    if place.node == NodeId::CONTROLLER {
        hub.learn(places);
    }
    Ok(channel)
}
