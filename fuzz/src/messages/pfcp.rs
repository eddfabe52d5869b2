//! What control planes send: datagrams, each behind its length, to the codec, to a node whose
//! agent does what it is told, and to a proxy before that node, of a control plane and of the node.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use weft_node::bearer::session::{SessionCommand, SessionError, SessionEvent, SessionsChanged};
use weft_node_config::{PfcpInterfacePlan, PfcpNodeId, PfcpPlan, PfcpSide};
use weft_pfcp::UserPlane;
use weft_pfcp::codec::{Message, frames};
use weft_pfcp::proxy::{self, NodePlan, Proxy, ProxyId, Settings};
use weft_pfcp::user_plane::Start;

/// Nanoseconds between two datagrams.
const PAUSE: u64 = 300_000_000;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let mut node = Node::new();
    let mut rest = bytes;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (datagram, behind) = behind.split_at(length);
        codec(datagram);
        node.hear(datagram);
        rest = behind;
    }
}

/// What is read can be written, and is read the same way again.
fn codec(datagram: &[u8]) {
    for frame in frames(datagram).flatten() {
        let Ok(message) = Message::parse(&frame) else { continue };
        let mut octets = Vec::new();
        message.emit(&frame.header, &mut octets);
        if octets.len() > usize::from(u16::MAX) {
            continue;
        }
        let again = frames(&octets).next().and_then(Result::ok);
        let again = again.expect("what was written is a message");
        let read = Message::parse(&again).expect("what was written can be read");
        let mut twice = Vec::new();
        read.emit(&again.header, &mut twice);
        assert_eq!(octets, twice);
    }
}

/// How often proxy and node answer each other at a time, at most.
const ROUNDS: usize = 16;
/// Messages to control planes that follow from one datagram, at most.
const MOST_ANSWERS: usize = 4096;

fn before_node(own: IpAddr, node: IpAddr) -> Proxy {
    let settings = Settings {
        listen: vec![own],
        port: 8805,
        node_id: ProxyId::Address(own),
        peers: Vec::new(),
        heartbeat: 1_000_000_000,
        t1: 1_000_000_000,
        n1: 2,
        lease: 3_000_000_000,
        associations: 2,
    };
    let start = proxy::Start { unix: 0, entropy: Box::new(|| 1), kept: Vec::new() };
    let mut proxy = Proxy::new(settings, start);
    let address = SocketAddr::new(node, 8805);
    let plan = NodePlan {
        number: 0,
        name: "node".into(),
        address,
        is_cordoned: false,
        is_moving: false,
        capacity: 0,
    };
    proxy.set_nodes(0, vec![plan]);
    proxy
}

struct Node {
    plane: UserPlane,
    proxy: Proxy,
    now: u64,
    batch: u64,
    sessions: HashSet<u64>,
}

impl Node {
    fn new() -> Node {
        let own = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let interface = |side, last| PfcpInterfacePlan {
            side,
            network_instance: None,
            network: "default".to_owned(),
            addresses: vec![own(last)],
            pools: vec![(Ipv4Addr::new(10, 45, 0, 0).into(), 24)],
        };
        let plan = PfcpPlan {
            listen: vec![own(254)],
            is_listen_overruled: false,
            port: 8805,
            node_id: PfcpNodeId::Address(own(254)),
            peers: Vec::new(),
            proxies: vec![(own(100), 32)],
            like: "session".to_owned(),
            interfaces: vec![interface(PfcpSide::Access, 253), interface(PfcpSide::Core, 252)],
            chains: Vec::new(),
            heartbeat: Some(Duration::from_secs(1)),
            t1: Duration::from_secs(1),
            n1: 2,
            restoration: Duration::from_secs(1),
            associations: 2,
            sessions: 4,
            transactions: 64,
            rules: 32,
            guaranteed: [None; 2],
            teids_below: u32::MAX,
        };
        // SEIDs that an input can hit.
        let mut next = 0;
        let entropy = Box::new(move || {
            next += 1;
            next
        });
        let start = Start { recovery: 0, epoch: 0, entropy };
        let plane = UserPlane::new(plan, start);
        Node {
            plane,
            proxy: before_node(own(100), own(254)),
            now: 0,
            batch: 0,
            sessions: HashSet::new(),
        }
    }

    fn hear(&mut self, datagram: &[u8]) {
        let from = |last| SocketAddr::new(Ipv4Addr::new(10, 0, 0, last).into(), 8805);
        self.plane.receive(self.now, from(1), datagram);
        self.work();
        self.plane.receive(self.now, from(100), datagram);
        self.work();
        self.proxy.receive(self.now, from(1), datagram);
        self.proxy.receive(self.now, from(254), datagram);
        self.carry(from(100), from(254));
        self.proxy.poll(self.now);
        self.now += PAUSE;
        self.plane.poll(self.now);
        self.work();
        self.carry(from(100), from(254));
        for answer in self.plane.take_datagrams() {
            for frame in frames(&answer.octets) {
                let frame = frame.expect("the node sends messages");
                Message::parse(&frame).expect("the node sends messages that can be read");
            }
        }
        assert_eq!(self.plane.view().sessions, self.sessions.len());
    }

    /// Carries what proxy and node tell each other, and reads what goes to others.
    fn carry(&mut self, proxy: SocketAddr, node: SocketAddr) {
        for _ in 0..ROUNDS {
            self.proxy.take_kept();
            let of_proxy = self.proxy.take_datagrams();
            for datagram in &of_proxy {
                let message = frames(&datagram.octets).next().and_then(Result::ok);
                message.expect("the proxy sends messages");
                if datagram.to == node {
                    self.plane.receive(self.now, proxy, &datagram.octets);
                    self.work();
                }
            }
            let (to_proxy, others): (Vec<_>, Vec<_>) =
                self.plane.take_datagrams().into_iter().partition(|one| one.to == proxy);
            for datagram in &to_proxy {
                self.proxy.receive(self.now, node, &datagram.octets);
            }
            assert!(others.len() <= MOST_ANSWERS);
            if of_proxy.is_empty() && to_proxy.is_empty() {
                return;
            }
        }
    }

    fn work(&mut self) {
        loop {
            let commands = self.plane.take_commands();
            if commands.is_empty() {
                return;
            }
            let results = commands.iter().map(|command| self.apply(command)).collect();
            self.batch += 1;
            let batch = self.batch;
            self.plane.committed(self.now, SessionsChanged { batch, results });
            self.plane.event(self.now, SessionEvent::Applied { batch, usage: Vec::new(), told: 0 });
        }
    }

    fn apply(&mut self, command: &SessionCommand) -> Result<(), SessionError> {
        let id = command.id();
        match command {
            SessionCommand::Establish { .. } => {
                assert!(self.sessions.insert(id.0), "a session is established twice");
                Ok(())
            }
            SessionCommand::Modify { .. } => {
                assert!(self.sessions.contains(&id.0), "a session that is not there changes");
                Ok(())
            }
            SessionCommand::Remove { .. } => {
                if self.sessions.remove(&id.0) {
                    Ok(())
                } else {
                    Err(SessionError::Unknown(id))
                }
            }
        }
    }
}
