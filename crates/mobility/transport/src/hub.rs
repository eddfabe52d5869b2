//! What all connections of one transport share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use weft_mobility_protocol::{Envelope, NodeId};

use crate::options::{Options, Place};

/// What the transport tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message for this node has come.
    Message(Envelope),
    /// There is a connection with the node.
    Connected(NodeId),
    /// There is no connection with the node any more.
    Lost(NodeId),
}

/// Who is given what arrives; false when there is no room for it.
pub(crate) type Deliver = Box<dyn Fn(Event) -> bool + Send + Sync>;

/// Peers that one transport has at most: no stranger can make it keep more.
const MOST_PEERS: usize = 4096;

/// What became of messages since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Written to a connection.
    pub sent: u64,
    /// Read from a connection.
    pub received: u64,
    /// Dropped: there was no connection, and no address to make one.
    pub unconnected: u64,
    /// Dropped: too much waited for the peer already.
    pub queue_full: u64,
    /// Dropped: the reader of what arrives had no room.
    pub unread: u64,
    /// Connections that ended because of what was said there.
    pub violations: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub sent: AtomicU64,
    pub received: AtomicU64,
    unconnected: AtomicU64,
    queue_full: AtomicU64,
    unread: AtomicU64,
    pub violations: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

pub(crate) struct Hub {
    pub options: Options,
    pub counters: Counters,
    deliver: Deliver,
    peers: Mutex<HashMap<NodeId, Arc<Peer>>>,
    runtime: Handle,
    attend: Attend,
}

/// A new peer, with the ends of its channels that its task reads.
pub(crate) struct NewPeer {
    pub hub: Arc<Hub>,
    pub node: NodeId,
    pub peer: Arc<Peer>,
    pub messages: mpsc::Receiver<Vec<u8>>,
    pub streams: mpsc::Receiver<TcpStream>,
}

/// Starts the task of a peer.
pub(crate) type Attend = fn(&Handle, NewPeer);

/// One whom messages go to.
pub(crate) struct Peer {
    /// Messages that wait, as octets.
    outbox: mpsc::Sender<Vec<u8>>,
    /// Octets of those.
    pub waiting: AtomicUsize,
    /// Connections that the peer has made.
    pub streams: mpsc::Sender<TcpStream>,
    /// Where the peer can be dialled.
    address: Mutex<Option<String>>,
    pub connected: AtomicBool,
    /// When something was last heard of it, in milliseconds since 1970 (UTC).
    pub heard: AtomicU64,
}

impl Peer {
    /// Something is heard of it.
    pub fn hear(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.heard.store(now.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn address(&self) -> Option<String> {
        locked(&self.address).clone()
    }
}

/// What is locked is whole at any time, so a panic while it was locked does no harm.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub fn new(options: Options, deliver: Deliver, runtime: Handle, attend: Attend) -> Arc<Hub> {
        let (counters, peers) = (Counters::default(), Mutex::default());
        Arc::new(Hub { options, counters, deliver, peers, runtime, attend })
    }

    pub fn tell(&self, event: Event) {
        if !(self.deliver)(event) {
            count(&self.counters.unread);
        }
    }

    pub fn known(&self, node: NodeId) -> Option<Arc<Peer>> {
        locked(&self.peers).get(&node).cloned()
    }

    /// The peer of that number, from now on if there was none; `None` when there
    /// are too many.
    pub fn peer(self: &Arc<Hub>, node: NodeId) -> Option<Arc<Peer>> {
        let mut peers = locked(&self.peers);
        if let Some(peer) = peers.get(&node) {
            return Some(peer.clone());
        }
        if peers.len() == MOST_PEERS {
            return None;
        }
        let (outbox, messages) = mpsc::channel(self.options.timing.queue.max(1));
        let (dialled, streams) = mpsc::channel(1);
        let peer = Arc::new(Peer {
            outbox,
            waiting: AtomicUsize::new(0),
            streams: dialled,
            address: Mutex::default(),
            connected: AtomicBool::new(false),
            heard: AtomicU64::new(0),
        });
        peers.insert(node, peer.clone());
        let (hub, new) = (self.clone(), peer.clone());
        (self.attend)(&self.runtime, NewPeer { hub, node, peer: new, messages, streams });
        Some(peer)
    }

    /// Where others are, as the controller tells.
    pub fn learn(self: &Arc<Hub>, places: Vec<Place>) {
        for place in places {
            let stranger = ![self.options.node, NodeId::CONTROLLER].contains(&place.node);
            if let Some(peer) = self.peer(place.node).filter(|_| stranger) {
                *locked(&peer.address) = Some(place.address);
            }
        }
    }

    /// The controller, which is dialled at once and always.
    pub fn attend(self: &Arc<Hub>, address: String) {
        if let Some(peer) = self.peer(NodeId::CONTROLLER) {
            *locked(&peer.address) = Some(address);
        }
    }

    pub fn send(&self, envelope: Envelope) {
        if envelope.to == self.options.node {
            return self.tell(Event::Message(envelope));
        }
        let Some(peer) = self.known(envelope.to) else {
            return count(&self.counters.unconnected);
        };
        if !peer.connected.load(Ordering::Relaxed) && peer.address().is_none() {
            return count(&self.counters.unconnected);
        }
        let mut octets = Vec::new();
        if let Err(error) = envelope.emit(&mut octets) {
            tracing::error!(to = %envelope.to, %error, "a message cannot be sent");
            return;
        }
        let length = octets.len();
        let waiting = peer.waiting.fetch_add(length, Ordering::Relaxed);
        let room = waiting + length <= self.options.timing.queue_octets;
        if !room || peer.outbox.try_send(octets).is_err() {
            peer.waiting.fetch_sub(length, Ordering::Relaxed);
            count(&self.counters.queue_full);
        }
    }

    pub fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            sent: read(&self.counters.sent),
            received: read(&self.counters.received),
            unconnected: read(&self.counters.unconnected),
            queue_full: read(&self.counters.queue_full),
            unread: read(&self.counters.unread),
            violations: read(&self.counters.violations),
        }
    }
}
