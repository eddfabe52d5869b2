//! Users move between two base stations behind a gateway, with packets in flight: three
//! nodes in this process on memory ports, and a controller's machine.

mod common;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Rig, udp};
use weft_handover::controller::{Intent, Notice};
use weft_handover::{
    Controller, Envelope, Epoch, Incarnation, NodeId, Output, Settings, TimerKey, User,
};
use weft_node::handover::Mail;

const GATEWAY: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: gateway}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  ran:
    device: 'ring:ran'
    direction: uplink
    mac: 02:00:00:00:00:01
    addresses: [10.1.0.254/24]
    neighbours: {10.1.0.1: 02:00:00:00:00:02, 10.1.0.2: 02:00:00:00:00:03}
  core: {device: 'ring:core', direction: downlink}
functions:
  from-station: {function: gtpu-decapsulate}
  to-station: {function: gtpu-encapsulate}
users:
  - {name: ue, count: 20, match: {ipv4: 10.45.0.0}}
rules: |
  from core -> to-station
  from to-station -> ran
  from ran -> from-station
  from from-station -> core
handover:
  node: 1
  role: anchor
  address: 10.1.0.254
  tunnel: to-station
  users: [{name: ue, first: 100}]
  peers: [{node: 2, address: 10.1.0.1}, {node: 3, address: 10.1.0.2}]
";

/// The base station with this number; `FUNCTIONS` and `CHAIN` are put in.
const STATION: &str = "
apiVersion: weft/v1
kind: Node
metadata: {name: station-NUMBER}
workers: {count: 2}
memory: {packets: 4095}
gtpu: {echoInterval: 0}
ports:
  radio: {device: 'ring:radio', direction: uplink}
  core:
    device: 'ring:core'
    direction: downlink
    worker: 1
    mac: MAC
    addresses: [OWN/24]
    neighbours: {10.1.0.254: 02:00:00:00:00:01, OTHER: OTHER-MAC}
functions:
  from-anchor: {function: gtpu-decapsulate}
  to-anchor: {function: gtpu-encapsulate}
FUNCTIONS
users:
  - {name: ue, count: 20, match: {ipv4: 10.45.0.0}BEARERS}
rules: |
  chain full = CHAIN
  from radio -> full
  from core -> from-anchor
  from from-anchor -> full
  from full when direction == uplink -> to-anchor
  from full -> radio
  from to-anchor -> core
handover:
  node: NUMBER
  role: station
  address: OWN
  tunnel: to-anchor
  users: [{name: ue, first: 100}]
  peers: [{node: 1, address: 10.1.0.254}, {node: PEER, address: OTHER}]
";

/// What base stations do with packets.
#[derive(Clone, Copy)]
struct Chain {
    functions: &'static str,
    bearers: &'static str,
    chain: &'static str,
}

/// A count, and packets that are kept as they ask for it.
const KEEPING: Chain = Chain {
    functions: "
  count: {function: tally}
  play: {function: mischief}",
    bearers: "",
    chain: "count -> play",
};

/// A meter for a bearer of packets to port 2000, and one for all others.
const BEARERS: Chain = Chain {
    functions: "
  count: {function: tally}
  own: {function: marker, config: {scope: bearer}}",
    bearers: ", bearers: [{name: web, when: destination-port == 2000, functions: {own:
      {meter: {singleRate: {committedRate: 1 Mbit/s, committedBurst: 2 kB}}}}}]",
    chain: "count -> own",
};

/// No function has anything of a user.
const NOTHING: Chain =
    Chain { functions: "  nothing: {function: pass}", bearers: "", chain: "nothing" };

fn station(number: u32, chain: Chain) -> String {
    let (own, other) = (format!("10.1.0.{}", number - 1), format!("10.1.0.{}", 4 - number));
    STATION
        .replace("FUNCTIONS", chain.functions)
        .replace("BEARERS", chain.bearers)
        .replace("CHAIN", chain.chain)
        .replace("OTHER-MAC", &format!("02:00:00:00:00:0{}", 5 - number))
        .replace("MAC", &format!("02:00:00:00:00:0{number}"))
        .replace("OTHER", &other)
        .replace("OWN", &own)
        .replace("PEER", &(5 - number).to_string())
        .replace("NUMBER", &number.to_string())
}

const ANCHOR: NodeId = NodeId(1);
const SOURCE: NodeId = NodeId(2);
const TARGET: NodeId = NodeId(3);
const FIRST: u64 = 100;
/// Nanoseconds between two rounds.
const ROUND: u64 = 20_000;

/// Packets of a user in one direction: how many were sent, and the last that came.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    sent: u32,
    came: u32,
    last: Option<u32>,
}

impl Flow {
    fn arrive(&mut self, what: &str, sequence: u32) {
        assert!(
            self.last.is_none_or(|last| last < sequence),
            "{what}: {sequence} behind {:?}",
            self.last
        );
        self.last = Some(sequence);
        self.came += 1;
    }
}

/// A user at the far ends.
#[derive(Clone, Debug, Default)]
struct Ue {
    down: Flow,
    up: Flow,
    radio: Option<NodeId>,
}

struct World {
    rigs: BTreeMap<NodeId, Rig>,
    mails: BTreeMap<NodeId, Mail>,
    controller: Controller,
    timers: BTreeSet<(u64, TimerKey)>,
    due: HashMap<TimerKey, u64>,
    /// Messages on their way, and when they are there.
    messages: VecDeque<(u64, Envelope)>,
    time: u64,
    random: u64,
    /// Messages of a thousand that are lost.
    lossy: u64,
    users: BTreeMap<User, Ue>,
    notices: Vec<Notice>,
    /// The order that packets to users carry for `mischief`.
    keeps: bool,
}

/// One world at a time is as much as there is memory for.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(user: User) -> [u8; 4] {
    [10, 45, 0, (user.0 - FIRST) as u8]
}

const HOST: [u8; 4] = [198, 51, 100, 1];

impl World {
    fn new(gateway: &str, source: &str, target: &str, users: u64) -> World {
        let nodes = [(ANCHOR, gateway), (SOURCE, source), (TARGET, target)];
        let mut rigs: BTreeMap<_, _> =
            nodes.into_iter().map(|(node, yaml)| (node, Rig::new(yaml))).collect();
        let join = |(node, rig): (&NodeId, &mut Rig)| {
            let agent = rig.node.agent();
            (*node, agent.join_handover(Incarnation(7), Settings::default()).unwrap())
        };
        let mails = rigs.iter_mut().map(join).collect();
        let mut out = Vec::new();
        let controller = Controller::new(Settings::default(), Vec::new(), Epoch(1), &mut out);
        let mut world = World {
            rigs,
            mails,
            controller,
            timers: BTreeSet::new(),
            due: HashMap::new(),
            messages: VecDeque::new(),
            time: 1,
            random: 0x9e37_79b9_7f4a_7c15,
            lossy: 0,
            users: BTreeMap::new(),
            notices: Vec::new(),
            keeps: false,
        };
        world.carry_out(out);
        for _ in 0..20 {
            world.round();
        }
        for user in (FIRST..FIRST + users).map(User) {
            world.users.insert(user, Ue::default());
            world.order(|controller, out| controller.add(user, ANCHOR, SOURCE, out));
        }
        world.rest();
        world
    }

    fn chance(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % 1000
    }

    fn order(&mut self, order: impl FnOnce(&mut Controller, &mut Vec<Output>)) {
        let mut out = Vec::new();
        order(&mut self.controller, &mut out);
        self.carry_out(out);
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Send(envelope) => self.post(envelope),
                Output::SetTimer(key, after) => {
                    self.cancel(key);
                    let time = self.time + after.as_nanos() as u64;
                    self.due.insert(key, time);
                    self.timers.insert((time, key));
                }
                Output::CancelTimer(key) => self.cancel(key),
                Output::Persist { user, record, .. } => {
                    let epoch = record.map(|record| match record.intent {
                        Intent::Settled => Epoch(0),
                        Intent::Move { target, .. } => target.epoch,
                        Intent::Remove { epoch } => epoch,
                    });
                    if let Some(epoch) = epoch {
                        self.order(|controller, out| controller.persisted(user, epoch, out));
                    }
                }
                Output::Tell(notice) => self.told(notice),
                _ => {}
            }
        }
    }

    fn cancel(&mut self, key: TimerKey) {
        if let Some(time) = self.due.remove(&key) {
            self.timers.remove(&(time, key));
        }
    }

    /// A message goes on its way: it may be lost, doubled, late.
    fn post(&mut self, envelope: Envelope) {
        let chance = self.chance();
        if chance < self.lossy {
            return;
        }
        let late = if self.lossy > 0 { chance % 7 * ROUND } else { 0 };
        if self.lossy > 0 && chance > 950 {
            self.messages.push_back((self.time + 9 * ROUND, envelope.clone()));
        }
        self.messages.push_back((self.time + late, envelope));
    }

    fn told(&mut self, notice: Notice) {
        self.notices.push(notice);
        match notice {
            Notice::Ready(user, node)
            | Notice::Aborting(user, node)
            | Notice::Owned(user, node) => self.move_radio(user, node),
            _ => {}
        }
    }

    /// The radio leaves a station behind all that the station has from it.
    fn move_radio(&mut self, user: User, node: NodeId) {
        let before = self.users.get_mut(&user).and_then(|ue| ue.radio.replace(node));
        if before == Some(node) {
            return;
        }
        if let Some(rig) = before.and_then(|before| self.rigs.get_mut(&before)) {
            rig.settle();
            rig.node.agent().radio_left(user);
        }
        self.rigs.get_mut(&node).unwrap().node.agent().radio_arrived(user);
    }

    /// Everybody has a little time.
    fn round(&mut self) {
        self.time += ROUND;
        for rig in self.rigs.values_mut() {
            rig.time.store(self.time, Ordering::Relaxed);
            rig.node.step();
        }
        self.carry_frames();
        for mail in self
            .mails
            .values()
            .map(|mail| mail.from_node.try_iter().collect::<Vec<_>>())
            .collect::<Vec<_>>()
            .into_iter()
            .flatten()
        {
            self.post(mail);
        }
        for _ in 0..self.messages.len() {
            let Some((time, envelope)) = self.messages.pop_front() else { break };
            if time > self.time {
                self.messages.push_back((time, envelope));
            } else if envelope.to == NodeId::CONTROLLER {
                self.order(|controller, out| controller.message(envelope, out));
            } else {
                self.mails[&envelope.to].to_node.send(envelope).unwrap();
            }
        }
        while let Some(&(time, key)) = self.timers.first()
            && time <= self.time
        {
            self.cancel(key);
            self.order(|controller, out| controller.timer(key, out));
        }
    }

    /// What left a node comes to the next: the nodes' own network, the users, the host.
    fn carry_frames(&mut self) {
        let mut network: Vec<(NodeId, Vec<u8>)> = Vec::new();
        for (node, rig) in &mut self.rigs {
            let port = if *node == ANCHOR { 0 } else { 1 };
            for frame in rig.receive(port) {
                let to = match frame[33] {
                    254 => ANCHOR,
                    1 => SOURCE,
                    2 => TARGET,
                    other => panic!("nobody has 10.1.0.{other}"),
                };
                network.push((to, frame));
            }
        }
        for (to, frame) in network {
            let port = if to == ANCHOR { 0 } else { 1 };
            self.rigs.get_mut(&to).unwrap().offer(port, &[frame]);
        }
        for node in [SOURCE, TARGET] {
            let rig = self.rigs.get_mut(&node).unwrap();
            for frame in rig.receive(0) {
                let (user, sequence) = read(&frame);
                let ue = self.users.get_mut(&user).unwrap();
                ue.down.arrive(&format!("{user} at {node}, downlink"), sequence);
                // Back it goes, to where it came from.
                ue.up.sent += 1;
                rig.offer(0, &[udp(address(user), HOST, &payload(b'.', user, sequence))]);
            }
        }
        let anchor = self.rigs.get_mut(&ANCHOR).unwrap();
        for frame in anchor.receive(1) {
            let (user, sequence) = read(&frame);
            self.users.get_mut(&user).unwrap().up.arrive(&format!("{user}, uplink"), sequence);
        }
    }

    /// The host sends a packet to each user.
    fn send_to_all(&mut self) {
        let users: Vec<_> = self.users.keys().copied().collect();
        for user in users {
            let order = match self.keeps && self.chance() < 400 {
                true => b'k',
                false => b'r',
            };
            self.send_to(user, order);
        }
    }

    fn send_to(&mut self, user: User, order: u8) {
        let ue = self.users.get_mut(&user).unwrap();
        let sequence = ue.down.sent;
        ue.down.sent += 1;
        let frame = udp(HOST, address(user), &payload(order, user, sequence));
        self.rigs.get_mut(&ANCHOR).unwrap().offer(1, &[frame]);
    }

    /// Goes on until nothing moves any more, and longer than any gate waits.
    fn rest(&mut self) {
        let mut rounds = 0;
        while !self.controller.is_idle() {
            rounds += 1;
            assert!(rounds < 1_000_000, "no rest: {:?}", self.notices.last());
            self.round();
        }
        for _ in 0..50 {
            self.round();
        }
    }

    /// All gates are taken away of users that have been settled for a while.
    fn settle(&mut self) {
        self.rest();
        self.time += 400_000_000;
        for _ in 0..50 {
            self.round();
        }
        for (node, rig) in &mut self.rigs {
            let view = rig.node.agent().handover_view().unwrap();
            assert_eq!(view.gated, 0, "{node}: {view:?}");
        }
    }

    fn move_all(&mut self, to: NodeId) {
        let users: Vec<_> = self.users.keys().copied().collect();
        self.order(|controller, out| controller.move_users(users, to, out));
    }

    /// Moves all users with packets in flight, and comes back to rest.
    fn move_under_traffic(&mut self, to: NodeId) {
        for round in 0..400 {
            if round == 40 {
                self.move_all(to);
            }
            if round % 3 == 0 {
                self.send_to_all();
            }
            self.round();
        }
        self.rest();
    }

    /// Each packet has arrived, once and in order.
    fn check_all_arrived(&mut self) {
        for user in self.users.keys().copied().collect::<Vec<_>>() {
            self.send_to(user, b'r');
        }
        self.rest();
        for (user, ue) in &self.users {
            assert!(ue.down.sent > 0, "{user} had no traffic");
            assert_eq!((ue.down.sent, ue.up.sent), (ue.down.came, ue.up.came), "{user}: {ue:?}");
        }
        self.check_accounts();
    }

    fn check_accounts(&mut self) {
        for (node, rig) in &mut self.rigs {
            let end = rig.node.agent().snapshot();
            let came = end.received() + end.emitted + end.originated + end.fragments + end.moved_in;
            let went = end.sent() + end.dropped() + end.local + end.moved_out;
            assert_eq!(came, went, "{node}: {end:?}");
            assert_eq!(end.panics, 0);
        }
    }

    fn drops(&mut self) -> BTreeMap<(NodeId, String), u64> {
        let mut drops = BTreeMap::new();
        for (node, rig) in &mut self.rigs {
            for drop in rig.node.agent().snapshot().drops {
                *drops.entry((*node, drop.reason)).or_default() += drop.packets;
            }
        }
        drops
    }

    fn counted(&mut self, node: NodeId, name: &str) -> u64 {
        let agent = self.rigs.get_mut(&node).unwrap().node.agent();
        agent.handover_view().unwrap().counts.get(name).copied().unwrap_or(0)
    }

    fn tally(&mut self, node: NodeId, user: User) -> u64 {
        self.rigs.get_mut(&node).unwrap().tally(&format!("ue-{}", user.0 - FIRST))
    }
}

fn payload(order: u8, user: User, sequence: u32) -> Vec<u8> {
    let mut payload = vec![order, b'0', (user.0 - FIRST) as u8, 0];
    payload.extend(sequence.to_be_bytes());
    payload.resize(64, 0);
    payload
}

fn read(frame: &[u8]) -> (User, u32) {
    let user = User(FIRST + u64::from(frame[44]));
    (user, u32::from_be_bytes(frame[46..50].try_into().unwrap()))
}

#[test]
fn users_move_back_and_forth_with_packets_in_flight() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, KEEPING), 12);
    world.keeps = true;
    for to in [TARGET, SOURCE, TARGET, SOURCE, SOURCE, TARGET] {
        world.move_under_traffic(to);
    }
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        let expected = u64::from(world.users[&user].down.sent + world.users[&user].up.sent);
        assert_eq!(world.tally(TARGET, user), expected, "{user}");
        assert_eq!(world.tally(SOURCE, user), 0, "{user}");
    }
    let moved = 12 * 3;
    assert_eq!(world.counted(SOURCE, "exported"), moved);
    assert_eq!(world.counted(TARGET, "imported"), moved);
    for node in [ANCHOR, SOURCE, TARGET] {
        for timeout in ["uplink_gate_timeout", "downlink_gate_timeout", "release_timeout"] {
            assert_eq!(world.counted(node, timeout), 0, "{timeout} at {node}");
        }
    }
    world.settle();
}

#[test]
fn users_with_bearers_and_users_without_anything_move() {
    let _turn = turn();
    for chain in [BEARERS, NOTHING] {
        let mut world = World::new(GATEWAY, &station(2, chain), &station(3, chain), 5);
        for to in [TARGET, SOURCE] {
            world.move_under_traffic(to);
        }
        world.check_all_arrived();
        assert_eq!(world.drops(), BTreeMap::new());
        world.settle();
    }
}

#[test]
fn nothing_is_lost_when_messages_are() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, KEEPING), 8);
    world.keeps = true;
    world.lossy = 100;
    for to in [TARGET, SOURCE, TARGET, SOURCE] {
        world.move_under_traffic(to);
    }
    world.lossy = 0;
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        let ue = &world.users[&user];
        let (expected, owner) =
            (u64::from(ue.down.sent + ue.up.sent), world.controller.owner(user).unwrap().node);
        assert_eq!(world.tally(owner, user), expected, "{user} at {owner}");
    }
    world.settle();
}

#[test]
fn a_target_that_cannot_take_a_user_leaves_it_where_it_was() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, KEEPING), &station(3, NOTHING), 4);
    world.keeps = true;
    world.move_under_traffic(TARGET);
    world.check_all_arrived();
    assert_eq!(world.drops(), BTreeMap::new());
    for user in world.users.keys().copied().collect::<Vec<_>>() {
        assert_eq!(world.controller.owner(user).map(|leg| leg.node), Some(SOURCE));
        let expected = u64::from(world.users[&user].down.sent + world.users[&user].up.sent);
        assert_eq!(world.tally(SOURCE, user), expected, "{user}");
    }
    assert_eq!(world.counted(SOURCE, "resumed"), 4);
    world.settle();
}

#[test]
fn a_full_gate_drops_and_counts() {
    let _turn = turn();
    let small = |yaml: String| format!("{yaml}  gates: {{packets: 2, bytes: 300}}\n");
    let target = small(station(3, NOTHING));
    let mut world = World::new(&small(GATEWAY.to_owned()), &small(station(2, NOTHING)), &target, 4);
    // The End Markers are late: messages are, so gates are closed for longer.
    for round in 0..200 {
        if round == 5 {
            world.move_all(TARGET);
        }
        for _ in 0..3 {
            world.send_to_all();
        }
        world.round();
    }
    world.rest();
    let drops = world.drops();
    let full: u64 = drops.values().sum();
    assert!(full > 0 && drops.keys().all(|(_, reason)| reason == "gate_full"), "{drops:?}");
    let all = world.users.values();
    let (sent, came) = all.fold((0, 0), |(sent, came), ue| {
        (sent + ue.down.sent + ue.up.sent, came + ue.down.came + ue.up.came)
    });
    assert_eq!(u64::from(sent - came), full);
    world.check_accounts();
    world.settle();
}

#[test]
fn nobody_is_served_before_a_node_owns_it() {
    let _turn = turn();
    let mut world = World::new(GATEWAY, &station(2, NOTHING), &station(3, NOTHING), 1);
    let stranger = User(FIRST + 7);
    let frame = udp(HOST, address(stranger), &payload(b'.', stranger, 0));
    world.rigs.get_mut(&ANCHOR).unwrap().offer(1, &[frame]);
    let frame = udp(address(stranger), HOST, &payload(b'.', stranger, 0));
    world.rigs.get_mut(&SOURCE).unwrap().offer(0, &[frame]);
    world.rest();
    let expected = [(ANCHOR, "no_owner"), (SOURCE, "no_owner")];
    let expected: BTreeMap<_, _> =
        expected.into_iter().map(|(node, reason)| ((node, reason.to_owned()), 1)).collect();
    assert_eq!(world.drops(), expected);
}
