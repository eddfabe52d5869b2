//! Makes a connection.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use weft_mobility_protocol::NodeId;

use crate::hello::Hello;
use crate::hub::Hub;
use crate::stream::{Ended, greet};

/// Dials a node and greets it. The controller tells where others are.
pub(crate) async fn dial(hub: &Arc<Hub>, node: NodeId, address: &str) -> Result<TcpStream, Ended> {
    let options = &hub.options;
    let hello = Hello {
        from: options.node,
        to: node,
        token: options.token.octets().to_vec(),
        name: options.name.clone(),
    };
    let made = async {
        let mut stream = TcpStream::connect(address).await?;
        let places = greet(&mut stream, &hello).await?;
        Ok::<_, Ended>((stream, places))
    };
    let (stream, places) =
        timeout(options.timing.greeting, made).await.map_err(|_| Ended::Late)??;
    if node == NodeId::CONTROLLER {
        hub.learn(places);
    }
    Ok(stream)
}
