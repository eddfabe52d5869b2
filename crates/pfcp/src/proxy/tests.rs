//! The proxy before nodes as they are ([`UserPlane`](crate::UserPlane)), in virtual time.

mod hostile;
mod losses;
mod relayed;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use weft_node_config::PfcpPlan;

use super::*;
use crate::codec::element::FSeid;
use crate::codec::message::SessionEstablishmentRequest;
use crate::codec::{Cause, Value, ie};
use crate::tests::{Bench, SECOND, address, parsed, peer, plan, session, set_up};

pub(super) const VIP: &str = "10.0.0.100";
pub(super) const SMF: &str = "10.0.0.1";
pub(super) const OTHER: &str = "10.0.0.2";
/// What a step of time is: timers are multiples of it.
const STEP: u64 = SECOND / 10;

pub(super) fn settings() -> Settings {
    Settings {
        listen: vec![address(VIP), address("fd00::100")],
        port: 8805,
        node_id: ProxyId::Address(address(VIP)),
        peers: vec![(address("10.0.0.0"), 28), (address("fd00::"), 120)],
        heartbeat: SECOND,
        t1: SECOND,
        n1: 3,
        lease: 10 * SECOND,
        associations: 4,
    }
}

pub(super) fn node_address(number: u16) -> IpAddr {
    IpAddr::from([10, 0, 1, number as u8])
}

/// A node of that number: with a pool, and the address of its tunnels, of its own.
fn node_plan(number: u16, sessions: usize) -> PfcpPlan {
    let mut own = plan();
    own.sessions = sessions;
    own.listen = vec![node_address(number)];
    own.proxies = vec![(address(VIP), 32)];
    own.interfaces[0].addresses = vec![IpAddr::from([10, 1, number as u8, 254])];
    own.interfaces[1].pools = vec![(IpAddr::from([10, 45, number as u8, 0]), 24)];
    own.restoration = std::time::Duration::from_secs(60);
    own
}

pub(super) struct NodeUnderTest {
    pub bench: Bench,
    pub is_reached: bool,
    pub is_cordoned: bool,
}

/// A proxy, its nodes, and what comes to control planes.
pub(super) struct Field {
    pub proxy: Proxy,
    pub nodes: BTreeMap<u16, NodeUnderTest>,
    pub now: u64,
    pub told: Vec<Datagram>,
    pub kept: BTreeMap<Vec<u8>, Vec<u8>>,
    /// When control planes started that answer what they are asked; others are silent.
    pub answering: BTreeMap<IpAddr, u32>,
    pub sequence: u32,
}

fn proxy(kept: &BTreeMap<Vec<u8>, Vec<u8>>, unix: u64) -> Proxy {
    let mut number = unix;
    let entropy = Box::new(move || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        number
    });
    let kept = kept.iter().map(|(key, octets)| (key.clone(), octets.clone())).collect();
    Proxy::new(settings(), Start { unix, entropy, kept })
}

impl Field {
    /// With room for eight sessions at each node.
    pub fn new(nodes: u16) -> Field {
        Field::of(nodes, 8)
    }

    pub fn of(nodes: u16, sessions: usize) -> Field {
        let behind = |number| {
            let bench = Bench::of(node_plan(number, sessions));
            (number, NodeUnderTest { bench, is_reached: true, is_cordoned: false })
        };
        let mut field = Field {
            proxy: proxy(&BTreeMap::new(), 1_700_000_000),
            nodes: (1..=nodes).map(behind).collect(),
            now: 0,
            told: Vec::new(),
            kept: BTreeMap::new(),
            answering: BTreeMap::from([(address(SMF), 1), (address(OTHER), 1)]),
            sequence: 0,
        };
        field.meet();
        field.wait(STEP);
        field
    }

    /// The proxy learns which nodes there are.
    pub fn meet(&mut self) {
        let plan = |(number, node): (&u16, &NodeUnderTest)| NodePlan {
            number: *number,
            name: format!("node-{number}").into(),
            address: SocketAddr::new(node_address(*number), 8805),
            is_cordoned: node.is_cordoned,
            is_moving: false,
            capacity: 0,
        };
        let plans = self.nodes.iter().map(plan).collect();
        self.proxy.set_nodes(self.now, plans);
        self.carry();
    }

    /// Another controller leads: it knows what was kept, and nothing else.
    pub fn fail_over(&mut self) {
        self.carry();
        self.proxy = proxy(&self.kept, 1_800_000_000 + self.now);
        self.meet();
    }

    pub fn node(&mut self, number: u16) -> &mut NodeUnderTest {
        self.nodes.get_mut(&number).unwrap()
    }

    /// A node dies and starts anew, without what it had.
    pub fn restart(&mut self, number: u16) {
        let bench = &mut self.node(number).bench;
        *bench = Bench::of(node_plan(number, 8));
        bench.restart(7);
    }

    /// Datagrams are carried until none is under way.
    pub fn carry(&mut self) {
        loop {
            for (key, octets) in self.proxy.take_kept() {
                match octets {
                    Some(octets) => drop(self.kept.insert(key, octets)),
                    None => drop(self.kept.remove(&key)),
                }
            }
            let datagrams = self.proxy.take_datagrams();
            if datagrams.is_empty() {
                return;
            }
            for datagram in datagrams {
                match self.number_of(datagram.to.ip()) {
                    Some(number) => self.deliver(number, &datagram.octets),
                    None => self.tell(datagram),
                }
            }
        }
    }

    fn number_of(&self, at: IpAddr) -> Option<u16> {
        self.nodes.keys().copied().find(|number| node_address(*number) == at)
    }

    fn deliver(&mut self, number: u16, octets: &[u8]) {
        let node = self.node(number);
        if node.is_reached {
            let out = node.bench.octets(peer(VIP), octets);
            self.of_node(number, out);
        }
    }

    pub fn of_node(&mut self, number: u16, datagrams: Vec<Datagram>) {
        for datagram in datagrams {
            assert_eq!(datagram.to, peer(VIP), "a node speaks to the proxy only");
            if self.nodes[&number].is_reached {
                let from = SocketAddr::new(node_address(number), 8805);
                self.proxy.receive(self.now, from, &datagram.octets);
            }
        }
    }

    /// A control plane answers heartbeats and what it is told of losses.
    fn tell(&mut self, datagram: Datagram) {
        let recovery = self.answering.get(&datagram.to.ip()).copied();
        let (frame, _) = Frame::parse(&datagram.octets).unwrap();
        let Ok(message) = Message::parse(&frame) else {
            // A node that errs has said it.
            self.told.push(datagram);
            return;
        };
        let header = Header { seid: None, ..frame.header };
        let answer = match (&message, recovery) {
            (Message::HeartbeatRequest(_), Some(recovery)) => {
                use crate::codec::message::Heartbeat;
                let recovery = Time(recovery);
                Some(Message::HeartbeatResponse(Heartbeat { recovery, ..Heartbeat::default() }))
            }
            (Message::SessionSetDeletionRequest(_), Some(_)) => {
                use crate::codec::message::SessionSetDeletionResponse;
                let response = SessionSetDeletionResponse {
                    cause: Cause::ACCEPTED,
                    ..SessionSetDeletionResponse::default()
                };
                Some(Message::SessionSetDeletionResponse(response))
            }
            _ => None,
        };
        if let Some(answer) = answer {
            let mut octets = Vec::new();
            answer.emit(&header, &mut octets);
            self.proxy.receive(self.now, datagram.to, &octets);
        }
        let is_heartbeat = matches!(message, Message::HeartbeatRequest(_));
        if !is_heartbeat {
            self.told.push(datagram);
        }
    }

    /// Time passes, in small steps.
    pub fn wait(&mut self, nanoseconds: u64) {
        for _ in 0..nanoseconds.div_ceil(STEP) {
            self.now += STEP;
            self.proxy.poll(self.now);
            self.carry();
            let numbers: Vec<u16> = self.nodes.keys().copied().collect();
            for number in numbers {
                let out = self.node(number).bench.wait(STEP);
                self.of_node(number, out);
            }
            self.carry();
        }
    }

    /// A request of a control plane; what comes back to it.
    pub fn ask(&mut self, from: &str, seid: Option<u64>, message: &Message<'_>) -> Vec<Vec<u8>> {
        self.sequence += 1;
        let header = Header { seid, sequence: self.sequence, priority: None };
        let mut octets = Vec::new();
        message.emit(&header, &mut octets);
        self.send(from, &octets)
    }

    pub fn send(&mut self, from: &str, octets: &[u8]) -> Vec<Vec<u8>> {
        self.told.clear();
        self.proxy.receive(self.now, peer(from), octets);
        self.carry();
        self.proxy.poll(self.now);
        self.carry();
        let told = std::mem::take(&mut self.told);
        told.into_iter()
            .inspect(|one| assert_eq!(one.to, peer(from)))
            .map(|one| one.octets)
            .collect()
    }

    pub fn answered(&mut self, from: &str, seid: Option<u64>, message: &Message<'_>) -> Cause {
        let out = self.ask(from, seid, message);
        assert_eq!(out.len(), 1, "one answer to {:?}", message.message_type());
        let (header, answer) = parsed(&out[0]);
        assert_eq!(header.sequence, self.sequence);
        answer.cause().unwrap()
    }

    pub fn associate(&mut self, from: &str) {
        assert_eq!(self.answered(from, None, &set_up(address(from), 1)), Cause::ACCEPTED);
    }

    /// A session; its SEID, or why there is none.
    pub fn establish(
        &mut self,
        from: &str,
        request: SessionEstablishmentRequest<'_>,
    ) -> Result<u64, Cause> {
        let out = self.ask(from, Some(0), &Message::SessionEstablishmentRequest(request));
        assert_eq!(out.len(), 1, "one answer");
        let (_, message) = parsed(&out[0]);
        let Message::SessionEstablishmentResponse(response) = message else {
            panic!("{message:?}")
        };
        assert_eq!(response.node, NodeId::Address(address(VIP)));
        match response.cause {
            Cause::ACCEPTED => {
                let fseid: FSeid = response.fseid.unwrap();
                assert_eq!(fseid, FSeid::at(fseid.seid, address(VIP)));
                Ok(fseid.seid)
            }
            cause => Err(cause),
        }
    }

    /// A session with this user, and this SEID of the control plane.
    pub fn user(&mut self, from: &str, seid: u64, ue: [u8; 4]) -> Result<u64, Cause> {
        let mut request = session(peer(from), ue);
        request.fseid = FSeid::at(seid, address(from));
        self.establish(from, request)
    }

    pub fn sessions(&self) -> Vec<usize> {
        self.nodes.values().map(|node| node.bench.agent.len()).collect()
    }
}

pub(super) use crate::codec::element::NodeId;

/// The node's number in a SEID.
pub(super) fn of(seid: u64) -> u16 {
    (seid >> 48) as u16
}

/// The sets of a message.
pub(super) fn sets(octets: &[u8]) -> Vec<crate::codec::element::FqCsid> {
    let (frame, _) = Frame::parse(octets).unwrap();
    let all = crate::codec::Elements::new(frame.body).flatten();
    let sets = all.filter(|(element, _)| *element == ie::FQ_CSID);
    sets.map(|(element, octets)| Value::parse(element, octets).unwrap()).collect()
}
