//! The state machine, driven by messages, with hostile ones first.

mod admission;
mod features;
mod node;
mod proxied;
mod refused;
mod repeated;
mod restarts;
mod sequences;
mod sessions;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weft_functions::session::rules::Session;
use weft_functions::session::usage::Usage;
use weft_node::bearer::session::{
    Keep, Kept, KeptSession, SessionCommand, SessionError, SessionEvent, SessionId, SessionsChanged,
};
use weft_node_config::{PfcpChainPlan, PfcpInterfacePlan, PfcpNodeId, PfcpPlan, PfcpSide};

use crate::UserPlane;
use crate::codec::element::*;
use crate::codec::message::*;
use crate::codec::rule::*;
use crate::codec::{Cause, Frame, Header, Message};
use crate::user_plane::{Datagram, Start};

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn peer(text: &str) -> SocketAddr {
    SocketAddr::new(address(text), 8805)
}

pub(crate) fn plan() -> PfcpPlan {
    let interface =
        |side, instance: Option<&str>, network: &str, addresses: &[&str], pools: &[(&str, u8)]| {
            PfcpInterfacePlan {
                side,
                network_instance: instance.map(str::to_owned),
                network: network.to_owned(),
                addresses: addresses.iter().map(|text| address(text)).collect(),
                pools: pools.iter().map(|(text, length)| (address(text), *length)).collect(),
            }
        };
    PfcpPlan {
        listen: vec![address("10.0.0.254"), address("fd00::254")],
        port: 8805,
        node_id: PfcpNodeId::Address(address("10.0.0.254")),
        peers: Vec::new(),
        proxies: Vec::new(),
        like: "session".to_owned(),
        interfaces: vec![
            interface(PfcpSide::Access, None, "access", &["10.1.0.254", "fd01::254"], &[]),
            interface(
                PfcpSide::Core,
                None,
                "internet",
                &["10.2.0.254"],
                &[("10.45.0.0", 29), ("2001:db8:45::", 62)],
            ),
            interface(PfcpSide::Core, Some("n9"), "n9", &["10.9.0.254"], &[]),
        ],
        chains: vec![
            PfcpChainPlan {
                network_instance: None,
                application: Some("video".to_owned()),
                forwarding_policy: None,
                predefined_rule: None,
                chain: "optimise".to_owned(),
            },
            PfcpChainPlan {
                network_instance: None,
                application: None,
                forwarding_policy: Some("steer".to_owned()),
                predefined_rule: None,
                chain: "nat".to_owned(),
            },
        ],
        heartbeat: Some(Duration::from_secs(10)),
        t1: Duration::from_secs(1),
        n1: 3,
        restoration: Duration::ZERO,
        associations: 4,
        sessions: 8,
        transactions: 64,
        rules: 64,
        guaranteed: [None; 2],
        is_listen_overruled: false,
        teids_below: 1 << 30,
    }
}

/// A node and what its agent would hold.
pub(crate) struct Bench {
    pub plane: UserPlane,
    pub now: u64,
    pub agent: HashMap<u64, Arc<Session>>,
    pub commands: Vec<SessionCommand>,
    /// What the agent says to the next command.
    pub error: Option<SessionError>,
    /// What sessions have measured when they are asked.
    pub usage: HashMap<u64, Vec<Usage>>,
    /// What the node has kept, and whether it keeps anything.
    pub store: Store,
    batch: u64,
    sequence: u32,
    /// The configuration, for the next life.
    plan: PfcpPlan,
}

/// What a node keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    pub sessions: BTreeMap<SessionId, Vec<u8>>,
    pub reported: BTreeMap<(SessionId, UrrId), (u32, u32)>,
    pub notes: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Store {
    pub fn keep(&mut self, keep: Vec<Keep>) {
        for one in keep {
            match one {
                Keep::Session(id, octets) => drop(self.sessions.insert(id, octets)),
                Keep::Gone(id) => drop(self.sessions.remove(&id)),
                Keep::Reported { session, urr, next: Some(next), .. } => {
                    self.reported.insert((session, UrrId(urr.0)), next);
                }
                Keep::Reported { session, urr, next: None, .. } => {
                    self.reported.remove(&(session, UrrId(urr.0)));
                }
                Keep::Note(key, Some(octets)) => drop(self.notes.insert(key, octets)),
                Keep::Note(key, None) => drop(self.notes.remove(&key)),
            }
        }
    }

    fn kept(&self) -> Kept {
        let read = |(id, octets): (&SessionId, &Vec<u8>)| {
            KeptSession::read(*id, weft_node::bearer::session::VERSION, octets).unwrap().1
        };
        Kept {
            keeps: true,
            sessions: self.sessions.iter().map(read).collect(),
            notes: self.notes.clone().into_iter().collect(),
        }
    }
}

pub(crate) const SECOND: u64 = 1_000_000_000;

impl Bench {
    pub fn new() -> Bench {
        Bench::of(plan())
    }

    pub fn of(plan: PfcpPlan) -> Bench {
        Bench {
            plane: UserPlane::new(plan.clone(), start(0)),
            plan,
            store: Store::default(),
            now: 0,
            agent: HashMap::new(),
            commands: Vec::new(),
            error: None,
            usage: HashMap::new(),
            batch: 0,
            sequence: 0,
        }
    }

    /// A node that keeps state.
    pub fn keeping() -> Bench {
        Bench::keeping_of(plan())
    }

    pub fn keeping_of(plan: PfcpPlan) -> Bench {
        let mut bench = Bench::of(plan);
        bench.plane.restore(0, Kept { keeps: true, ..Kept::default() });
        bench.store.keep(bench.plane.take_kept());
        bench
    }

    /// The node dies, and another one goes on with what was kept, some seconds later.
    pub fn restart(&mut self, seconds: u64) {
        let mut plane = UserPlane::new(self.plan.clone(), start(seconds));
        let kept = self.store.kept();
        let sessions = kept.sessions.iter();
        self.agent = sessions.map(|one| (one.id.0, one.rules.clone())).collect();
        self.now = 0;
        plane.restore(0, kept);
        self.plane = plane;
        self.store.keep(self.plane.take_kept());
    }

    /// The agent does what it is told, and packets see it.
    pub fn work(&mut self) {
        loop {
            let commands = self.plane.take_commands();
            if commands.is_empty() {
                break;
            }
            let mut usage = Vec::new();
            let mut results = Vec::new();
            for command in &commands {
                results.push(self.apply(command, &mut usage));
            }
            self.commands.extend(commands);
            self.batch += 1;
            let changed = SessionsChanged { batch: self.batch, results };
            self.plane.committed(self.now, changed);
            let applied = SessionEvent::Applied { batch: self.batch, usage, told: 0 };
            self.plane.event(self.now, applied);
        }
    }

    fn apply(
        &mut self,
        command: &SessionCommand,
        usage: &mut Vec<(SessionId, Vec<Usage>)>,
    ) -> Result<(), SessionError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let id = command.id();
        match command {
            SessionCommand::Establish { rules, .. } => {
                assert!(self.agent.insert(id.0, rules.clone()).is_none());
            }
            SessionCommand::Modify { rules, .. } => {
                let before = self.agent.insert(id.0, rules.clone());
                assert!(before.is_some(), "a session that is not there changes");
            }
            SessionCommand::Remove { .. } => {
                self.agent.remove(&id.0).ok_or(SessionError::Unknown(id))?;
            }
        }
        if let Some(measured) = self.usage.get(&id.0) {
            usage.push((id, measured.clone()));
        }
        Ok(())
    }

    /// Octets come from a peer; the datagrams that go out.
    pub fn octets(&mut self, from: SocketAddr, octets: &[u8]) -> Vec<Datagram> {
        self.plane.receive(self.now, from, octets);
        self.work();
        self.store.keep(self.plane.take_kept());
        self.plane.take_datagrams()
    }

    /// A request comes; its response.
    pub fn ask(&mut self, from: SocketAddr, seid: Option<u64>, message: &Message<'_>) -> Vec<u8> {
        self.sequence += 1;
        let header = Header { seid, sequence: self.sequence, priority: None };
        let mut octets = Vec::new();
        message.emit(&header, &mut octets);
        let mut out = self.octets(from, &octets);
        assert_eq!(out.len(), 1, "one response to {:?}", message.message_type());
        let datagram = out.remove(0);
        assert_eq!(datagram.to, from);
        let (frame, _) = Frame::parse(&datagram.octets).unwrap();
        assert_eq!(frame.header.sequence, self.sequence);
        datagram.octets
    }

    /// Time passes; the datagrams that go out.
    pub fn wait(&mut self, nanoseconds: u64) -> Vec<Datagram> {
        self.now += nanoseconds;
        self.plane.poll(self.now);
        self.work();
        self.store.keep(self.plane.take_kept());
        self.plane.take_datagrams()
    }

    pub fn event(&mut self, event: SessionEvent) -> Vec<Datagram> {
        self.plane.event(self.now, event);
        self.work();
        self.store.keep(self.plane.take_kept());
        self.plane.take_datagrams()
    }

    /// An association with a control plane at its address.
    pub fn associate(&mut self, from: SocketAddr) {
        let octets = self.ask(from, None, &set_up(from.ip(), 1));
        let (_, message) = parsed(&octets);
        let Message::AssociationSetupResponse(response) = message else { panic!("{message:?}") };
        assert_eq!(response.cause, Cause::ACCEPTED);
    }

    /// Establishes a session; the node's SEID.
    pub fn establish(&mut self, from: SocketAddr, request: SessionEstablishmentRequest<'_>) -> u64 {
        let octets = self.ask(from, Some(0), &Message::SessionEstablishmentRequest(request));
        let (_, message) = parsed(&octets);
        let Message::SessionEstablishmentResponse(response) = message else {
            panic!("{message:?}")
        };
        assert_eq!(response.cause, Cause::ACCEPTED, "{response:?}");
        response.fseid.unwrap().seid
    }

    /// The cause, the offending element and the failed rule of the response to a request.
    pub fn refusal(
        &mut self,
        from: SocketAddr,
        seid: Option<u64>,
        message: &Message<'_>,
    ) -> (Cause, Option<u16>, Option<RuleId>) {
        let octets = self.ask(from, seid, message);
        match parsed(&octets).1 {
            Message::SessionEstablishmentResponse(one) => {
                (one.cause, one.offending, one.failed_rule)
            }
            Message::SessionModificationResponse(one) => {
                (one.cause, one.offending, one.failed_rule)
            }
            Message::SessionDeletionResponse(one) => (one.cause, one.offending, None),
            Message::AssociationSetupResponse(one) => (one.cause, None, None),
            Message::AssociationReleaseResponse(one) => (one.cause, None, None),
            Message::PfdManagementResponse(one) => (one.cause, one.offending, None),
            other => panic!("{other:?}"),
        }
    }
}

/// Where a node stands that starts so many seconds later than another.
fn start(later: u64) -> Start {
    let mut state = 0x1234_5678_9abc_def1_u64 ^ later << 7;
    let entropy = Box::new(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    });
    Start { recovery: 1_700_000_000 + later, epoch: 1_700_000_000 + later, entropy }
}

pub(crate) fn parsed(octets: &[u8]) -> (Header, Message<'_>) {
    crate::codec::tests::parsed(octets).unwrap()
}

pub(crate) fn set_up(node: IpAddr, recovery: u32) -> Message<'static> {
    Message::AssociationSetupRequest(AssociationSetupRequest {
        node: NodeId::Address(node),
        recovery: Time(recovery),
        ..Default::default()
    })
}

pub(crate) fn uplink() -> CreatePdr<'static> {
    CreatePdr {
        id: PdrId(1),
        precedence: 255,
        pdi: Pdi {
            source: Interface::ACCESS,
            fteid: Some(FTeid::Choose { ipv4: true, ipv6: false, id: None }),
            network_instance: Some(Text(b"internet")),
            ..Default::default()
        },
        outer_header_removal: Some(OuterHeaderRemoval::default()),
        far: Some(FarId(1)),
        ..Default::default()
    }
}

pub(crate) fn downlink(ue: [u8; 4]) -> CreatePdr<'static> {
    CreatePdr {
        id: PdrId(2),
        precedence: 255,
        pdi: Pdi {
            source: Interface::CORE,
            network_instance: Some(Text(b"\x08internet")),
            ue_addresses: vec![UeIpAddress {
                destination: true,
                ipv4: Some(ue.into()),
                ..Default::default()
            }],
            ..Default::default()
        },
        far: Some(FarId(2)),
        ..Default::default()
    }
}

pub(crate) fn to_core() -> CreateFar<'static> {
    CreateFar {
        id: FarId(1),
        action: ApplyAction::FORW,
        forwarding: Some(ForwardingParameters {
            destination: Interface::CORE,
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub(crate) fn to_access(teid: u32) -> CreateFar<'static> {
    CreateFar {
        id: FarId(2),
        action: ApplyAction::FORW,
        forwarding: Some(ForwardingParameters {
            destination: Interface::ACCESS,
            outer_header: Some(OuterHeaderCreation::gtpu(teid, address("10.1.0.1"))),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// A session with a tunnel to the access side and an address.
pub(crate) fn session(from: SocketAddr, ue: [u8; 4]) -> SessionEstablishmentRequest<'static> {
    SessionEstablishmentRequest {
        node: NodeId::Address(from.ip()),
        fseid: FSeid::at(0x77, from.ip()),
        pdrs: vec![uplink(), downlink(ue)],
        fars: vec![to_core(), to_access(0x99)],
        ..Default::default()
    }
}
