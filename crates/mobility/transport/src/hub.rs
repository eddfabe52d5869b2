//! What all connections of one transport share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use weft_mobility_protocol::{Envelope, NodeId};

use crate::channel::Channel;
use crate::hello::{HelloError, PeerAddress};
use crate::note::{
    Load, N4Note, Note, Process, Question, Registered, Report, SessionsNote, Share, Upgrade,
};
use crate::options::Options;
use crate::stream::Ended;

/// What the transport tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message for this node has come.
    Message(Envelope),
    /// There is a connection with the node.
    Connected(NodeId),
    /// There is no connection with the node any more.
    Lost(NodeId),
    /// A node has said of itself where and what it is. It may come only when it has a
    /// [place](crate::Sender::place).
    Registered(Registered),
    /// A node has said how it runs.
    Reported(NodeId, Report),
    /// A node has said what it carries.
    Loaded(NodeId, Load),
    /// The controller has said how this node is to run: the generation of that, and its
    /// configuration.
    Settings(u64, String),
    /// The controller has said that a process of this node is to go, or asks which one it is.
    Upgrade(Upgrade),
    /// A node has said which process it is.
    Process(NodeId, Process),
    /// A node, or the controller, has said a step of a share's move.
    Share(NodeId, Share),
    /// The controller asks something.
    Asked(Question),
    /// A node has said where control planes would find it, or the controller what the node is
    /// behind N4.
    N4(NodeId, N4Note),
    /// A node has said which PFCP sessions it has.
    Sessions(NodeId, SessionsNote),
}

/// Who is given what arrives; false when there is no room for it.
pub(crate) type Deliver = Box<dyn Fn(Event) -> bool + Send + Sync>;

/// Peers that one transport has at most: no stranger can make it keep more.
const MOST_PEERS: usize = 4096;

/// How often the octets that may wait for one peer may wait for all together: many peers
/// that do not read take no more memory than a few.
const PEERS_FULL: usize = 8;

/// How often a controller gives a sign of life that others may take over from, and how long
/// its nodes wait for one: they are to have left one that stands still when another leads.
const REPLICA_ALIVE: Duration = Duration::from_millis(300);
const REPLICA_SILENCE: Duration = Duration::from_millis(1500);

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
    /// Octets that wait for all of them.
    waiting: AtomicUsize,
    runtime: Handle,
    attend: Attend,
    /// A controller's nodes.
    places: Mutex<Vec<PeerAddress>>,
    /// The task of a peer has panicked.
    pub broken: Notify,
    /// There are new certificates: connections are made anew.
    pub renewed: Notify,
    /// The highest term of a controller that was met.
    term: AtomicU64,
}

/// A new peer, with the ends of its channels that its task reads.
pub(crate) struct NewPeer {
    pub hub: Arc<Hub>,
    pub node: NodeId,
    pub peer: Arc<Peer>,
    pub messages: mpsc::Receiver<Vec<u8>>,
    pub streams: mpsc::Receiver<Channel>,
}

/// Starts the task of a peer.
pub(crate) type Attend = fn(&Handle, NewPeer);

/// One whom messages go to.
pub(crate) struct Peer {
    /// Messages that wait, as octets.
    outbox: mpsc::Sender<Vec<u8>>,
    /// Octets of those.
    waiting: AtomicUsize,
    /// Connections that the peer has made.
    pub streams: mpsc::Sender<Channel>,
    /// Where the peer can be dialled, and its name, as the controller tells.
    place: Mutex<Option<PeerAddress>>,
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

    pub fn place(&self) -> Option<PeerAddress> {
        locked(&self.place).clone()
    }
}

/// What is locked is whole at any time, so a panic while it was locked does no harm.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    pub fn new(options: Options, deliver: Deliver, runtime: Handle, attend: Attend) -> Arc<Hub> {
        let (counters, peers) = (Counters::default(), Mutex::default());
        let waiting = AtomicUsize::new(0);
        let places = Mutex::new(options.places.clone());
        let (broken, renewed) = (Notify::new(), Notify::new());
        Arc::new(Hub {
            options,
            counters,
            deliver,
            peers,
            waiting,
            runtime,
            attend,
            places,
            broken,
            renewed,
            term: AtomicU64::new(0),
        })
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
            place: Mutex::default(),
            connected: AtomicBool::new(false),
            heard: AtomicU64::new(0),
        });
        peers.insert(node, peer.clone());
        let (hub, new) = (self.clone(), peer.clone());
        (self.attend)(&self.runtime, NewPeer { hub, node, peer: new, messages, streams });
        Some(peer)
    }

    /// Where others are, as the controller tells; and what it asks.
    pub fn learn(self: &Arc<Hub>, places: Vec<PeerAddress>) {
        for place in places {
            if let Some(question) = Question::of(&place) {
                self.tell(Event::Asked(question));
            }
            let stranger = ![self.options.node, NodeId::CONTROLLER].contains(&place.node);
            if let Some(peer) = self.peer(place.node).filter(|_| stranger) {
                *locked(&peer.place) = Some(place);
            }
        }
    }

    /// Where a controller's nodes are.
    pub fn places(&self) -> Vec<PeerAddress> {
        locked(&self.places).clone()
    }

    /// A node is there from now on, and all others are told so.
    pub fn place(self: &Arc<Hub>, place: PeerAddress) {
        let node = place.node;
        let others: Vec<_> = {
            let mut places = locked(&self.places);
            places.retain(|known| known.node != node);
            let others = places.iter().map(|known| known.node).collect();
            places.push(place.clone());
            others
        };
        self.peer(node);
        for other in others {
            self.note(other, &Note::Places(vec![place.clone()]));
        }
    }

    /// A node is no longer one of the controller's.
    pub fn displace(&self, node: NodeId) {
        locked(&self.places).retain(|known| known.node != node);
    }

    /// Tells a connected peer something beside messages; whether there was room for it.
    pub fn note(&self, node: NodeId, note: &Note) -> bool {
        let peer = self.known(node).filter(|peer| peer.connected.load(Ordering::Relaxed));
        match peer.zip(note.emit()) {
            Some((peer, octets)) => self.queue(&peer, octets),
            None => false,
        }
    }

    /// A note has come from the other end of a connection between controller and node.
    pub fn noted(self: &Arc<Hub>, from: NodeId, note: Note) -> Result<(), Ended> {
        match (note, self.options.node == NodeId::CONTROLLER, from == NodeId::CONTROLLER) {
            (Note::Places(places), false, true) => self.learn(places),
            (Note::Settings { generation, text }, false, true) => {
                self.tell(Event::Settings(generation, text));
            }
            (Note::Report(report), true, false) if self.options.admits => {
                self.tell(Event::Reported(from, report));
            }
            (Note::Load(load), true, false) => self.tell(Event::Loaded(from, load)),
            (Note::Upgrade(upgrade), false, true) => self.tell(Event::Upgrade(upgrade)),
            (Note::Process(process), true, false) => self.tell(Event::Process(from, process)),
            (Note::Share(share), is_controller, of_controller)
                if is_controller != of_controller && share.step.is_of_node() == is_controller =>
            {
                self.tell(Event::Share(from, share));
            }
            (Note::N4(said), true, false) if self.options.admits => {
                self.tell(Event::N4(from, said));
            }
            (Note::N4(said), false, true) => self.tell(Event::N4(from, said)),
            (Note::Sessions(said), true, false) => self.tell(Event::Sessions(from, said)),
            _ => return Err(HelloError::Value.into()),
        }
        Ok(())
    }

    /// A controller leads in that term. What one of an earlier term orders no longer counts,
    /// however it comes to believe that it leads.
    pub fn enter(&self, term: u64) -> Result<(), Ended> {
        let highest = self.term.fetch_max(term, Ordering::Relaxed);
        if term < highest { Err(Ended::Deposed(term, highest)) } else { Ok(()) }
    }

    /// How long a peer may say nothing. A controller that others may take over from says
    /// something often.
    pub fn silence(&self, node: NodeId) -> Duration {
        let silence = self.options.timing.silence;
        match node == NodeId::CONTROLLER && self.term.load(Ordering::Relaxed) > 0 {
            true => silence.min(REPLICA_SILENCE),
            false => silence,
        }
    }

    /// After how long without anything to say a sign of life is sent.
    pub fn alive(&self) -> Duration {
        let alive = self.options.timing.alive;
        if self.options.term > 0 { alive.min(REPLICA_ALIVE) } else { alive }
    }

    /// The controllers, of which one is dialled at once and always.
    pub fn attend(self: &Arc<Hub>) {
        let Some(address) = self.options.controllers.first().cloned() else { return };
        let security = self.options.security.as_ref();
        // Without certificates the name is not asked for.
        let name = security.map_or(String::new(), |security| security.controller.clone());
        if let Some(peer) = self.peer(NodeId::CONTROLLER) {
            *locked(&peer.place) = Some(PeerAddress { node: NodeId::CONTROLLER, name, address });
        }
    }

    /// Another controller is to be dialled than the one at that address.
    pub fn next_controller(&self, peer: &Peer, address: &str) {
        let all = &self.options.controllers;
        let at = all.iter().position(|one| one == address).map_or(0, |at| (at + 1) % all.len());
        if let (Some(next), Some(place)) = (all.get(at), locked(&peer.place).as_mut()) {
            place.address.clone_from(next);
        }
    }

    pub fn send(&self, envelope: Envelope) {
        if envelope.to == self.options.node {
            return self.tell(Event::Message(envelope));
        }
        let Some(peer) = self.known(envelope.to) else {
            return count(&self.counters.unconnected);
        };
        if !peer.connected.load(Ordering::Relaxed) && peer.place().is_none() {
            return count(&self.counters.unconnected);
        }
        let mut octets = Vec::new();
        if let Err(error) = envelope.emit(&mut octets) {
            tracing::error!(to = %envelope.to, %error, "a message cannot be sent");
            return;
        }
        self.queue(&peer, octets);
    }

    /// Lets octets wait for a peer; whether there was room.
    fn queue(&self, peer: &Peer, octets: Vec<u8>) -> bool {
        let length = octets.len();
        let most = self.options.timing.queue_octets;
        let waiting = peer.waiting.fetch_add(length, Ordering::Relaxed);
        let all = self.waiting.fetch_add(length, Ordering::Relaxed);
        let room = waiting + length <= most && all + length <= most.saturating_mul(PEERS_FULL);
        let taken = room && peer.outbox.try_send(octets).is_ok();
        if !taken {
            self.no_longer_waits(peer, length);
            count(&self.counters.queue_full);
        }
        taken
    }

    /// So many octets do not wait for a peer any more.
    pub fn no_longer_waits(&self, peer: &Peer, octets: usize) {
        peer.waiting.fetch_sub(octets, Ordering::Relaxed);
        self.waiting.fetch_sub(octets, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use weft_mobility_protocol::{Epoch, Incarnation, Message, Step, User};

    use super::*;
    use crate::peer::attend;
    use crate::{Timing, Token};

    const ROOM: usize = 1 << 20;

    fn contexts(to: NodeId) -> Envelope {
        let step = Step::Contexts(vec![7; 100_000]);
        Envelope {
            from: NodeId(1000),
            from_incarnation: Incarnation(1),
            to,
            to_incarnation: Incarnation(2),
            message: Message::Handover { user: User(1), epoch: Epoch(3), step },
        }
    }

    /// Each peer has room of its own, but all together have not.
    #[test]
    fn many_who_do_not_read_fill_no_more_than_a_few() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = Options {
            node: NodeId(1000),
            name: "sender".to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            token: Token::new("a-token-for-this-one-test").unwrap(),
            controllers: Vec::new(),
            term: 0,
            places: Vec::new(),
            registration: None,
            admits: false,
            timing: Timing { queue_octets: ROOM, ..Timing::default() },
            security: None,
        };
        let hub = Hub::new(options, Box::new(|_| true), runtime.handle().clone(), attend);
        let place = |node| PeerAddress {
            node: NodeId(node),
            name: format!("n{node}"),
            address: "127.0.0.1:1".to_owned(),
        };
        hub.learn((1..=24).map(place).collect());
        // None of the tasks runs that would send: all that is taken waits.
        let mut taken = 0;
        for node in 1..=24 {
            for _ in 0..12 {
                let before = hub.statistics().queue_full;
                hub.send(contexts(NodeId(node)));
                taken += usize::from(hub.statistics().queue_full == before);
            }
        }
        assert!((70..=83).contains(&taken), "{taken} messages of 100,000 octets wait");
        assert_eq!(hub.statistics().unconnected, 0);
        // What does not wait any more leaves room for others.
        let peer = hub.known(NodeId(1)).unwrap();
        hub.no_longer_waits(&peer, 10 * 100_000);
        hub.send(contexts(NodeId(24)));
        assert_eq!(hub.statistics().queue_full, 24 * 12 - taken as u64);
    }
}
