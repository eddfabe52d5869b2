//! A transport: started with options, stopped when dropped.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use weft_http::tls::Mutual;
use weft_mobility_protocol::{Envelope, NodeId};

use crate::accept::accept;
use crate::hello::PeerAddress;
use crate::hub::{Event, Hub, Statistics};
use crate::note::Note;
use crate::options::{Options, Security};
use crate::peer::attend;

/// How often the files of certificates are looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Why there is no transport.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The address cannot be listened at.
    #[error("handover address {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What is wrong.
        reason: io::Error,
    },
    /// The machine has no thread for it.
    #[error("no thread for handover messages: {0}")]
    Thread(io::Error),
}

/// Takes part in the exchange of messages until it is dropped.
#[derive(Debug)]
pub struct Transport {
    sender: Sender,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Sends messages, from any thread.
#[derive(Clone)]
pub struct Sender(Arc<Hub>);

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sender").field(&self.0.options.node).finish()
    }
}

impl Transport {
    /// Listens, and dials the controller if there is one. `deliver` is called in
    /// the transport's thread with whatever arrives and has to return soon; false
    /// says that there is no room for it, by which the message is lost.
    ///
    /// # Errors
    /// [`TransportError`], above all when the address is taken.
    pub fn start(
        options: Options,
        deliver: impl Fn(Event) -> bool + Send + Sync + 'static,
    ) -> Result<Transport, TransportError> {
        let listen = |reason| TransportError::Listen { address: options.listen, reason };
        let listener = TcpListener::bind(options.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(TransportError::Thread)?;
        let hub = Hub::new(options, Box::new(deliver), runtime.handle().clone(), attend);
        let (stop, stopped) = oneshot::channel();
        let shared = hub.clone();
        let thread = thread::Builder::new()
            .name("handover".to_owned())
            .spawn(move || run(runtime, &shared, listener, stopped))
            .map_err(TransportError::Thread)?;
        Ok(Transport { sender: Sender(hub), address, stop: Some(stop), thread: Some(thread) })
    }

    /// Sends messages.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Whether its thread has ended by itself, which only a panic makes it do.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Where it listens, with the port that the system chose where 0 was asked
    /// for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // The thread may have ended by itself.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Sender {
    /// Sends a message to the node that it names; never waits. What cannot be
    /// sent is dropped and counted.
    pub fn send(&self, envelope: Envelope) {
        self.0.send(envelope);
    }

    /// A controller has a node from now on, or it is elsewhere: it may come, and all others
    /// are told where it is.
    pub fn place(&self, place: PeerAddress) {
        self.0.place(place);
    }

    /// A controller has that node no longer. A connection with it lasts.
    pub fn displace(&self, node: NodeId) {
        self.0.displace(node);
    }

    /// Tells a connected node, or the controller, something beside messages; false if it is
    /// not connected, has no room, or what is said is too long.
    pub fn note(&self, node: NodeId, note: &Note) -> bool {
        self.0.note(node, note)
    }

    /// Whether there is a connection with the node.
    pub fn is_connected(&self, node: NodeId) -> bool {
        self.0.known(node).is_some_and(|peer| peer.connected.load(Ordering::Relaxed))
    }

    /// When something was last heard of the node, since 1970 (UTC).
    pub fn last_heard(&self, node: NodeId) -> Option<Duration> {
        let heard = self.0.known(node)?.heard.load(Ordering::Relaxed);
        (heard > 0).then(|| Duration::from_millis(heard))
    }

    /// What became of messages.
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}

/// Begins all connections anew when there are new certificates.
async fn renew(hub: Arc<Hub>, mutual: Mutual) {
    let mut last = mutual.renewals();
    loop {
        tokio::time::sleep(LOOK).await;
        let renewals = mutual.renewals();
        if renewals != last {
            last = renewals;
            hub.renewed.notify_waiters();
        }
    }
}

fn run(runtime: Runtime, hub: &Arc<Hub>, listener: TcpListener, stopped: oneshot::Receiver<()>) {
    let started = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let accepting = tokio::spawn(accept(hub.clone(), listener));
        if let Some(Security { mutual, .. }) = hub.options.security.clone() {
            tokio::spawn(renew(hub.clone(), mutual));
        }
        match hub.options.node {
            NodeId::CONTROLLER => {
                for place in &hub.options.places {
                    hub.peer(place.node);
                }
            }
            _ => hub.attend(),
        }
        tokio::select! {
            _ = stopped => {}
            // A task ends by a panic only, and the thread with it.
            _ = accepting => {}
            () = hub.broken.notified() => {}
        }
        io::Result::Ok(())
    });
    if let Err(error) = started {
        tracing::error!(%error, "handover messages cannot be moved");
    }
    // A name that is being looked up is not waited for.
    runtime.shutdown_background();
}
