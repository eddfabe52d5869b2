//! Three nodes on memory ports, the users and the host at their far ends, and a
//! controller's machine, in a time of their own.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weft_mobility_protocol::controller::Notice;
use weft_mobility_protocol::{
    Controller, Envelope, Epoch, Incarnation, NodeId, Output, Settings, Timers, User,
};
use weft_node::mobility::Mail;

use super::frames::{HOST, address, is_ipv6, message_at, payload, read};
use crate::common::{Rig, udp};

/// What the nodes share.
pub const SECRET: &[u8] = b"a secret of nodes";
pub const ANCHOR: NodeId = NodeId(1);
pub const SOURCE: NodeId = NodeId(2);
pub const TARGET: NodeId = NodeId(3);
pub const FIRST: u64 = 100;
/// How long a process may take.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Nanoseconds between two rounds.
const ROUND: u64 = 20_000;

/// Packets of a user in one direction: how many were sent, and the last that came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    pub sent: u32,
    pub came: u32,
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
pub struct Ue {
    pub down: Flow,
    pub up: Flow,
    radio: Option<NodeId>,
}

pub struct World {
    pub rigs: BTreeMap<NodeId, Rig>,
    mails: BTreeMap<NodeId, Mail>,
    pub controller: Controller,
    timers: Timers<u64>,
    /// Messages on their way, and when they are there.
    messages: VecDeque<(u64, Envelope)>,
    time: u64,
    random: u64,
    /// Messages of a thousand that are lost.
    pub lossy: u64,
    pub users: BTreeMap<User, Ue>,
    notices: Vec<Notice>,
    /// Stations hear of radios. If not, they have to see for themselves.
    pub told: bool,
    /// Moves that are complete.
    pub moved: u64,
    /// The order that packets to users carry for `mischief`.
    pub keeps: bool,
    /// Frames between nodes, by their receivers, while a test wants to see them.
    pub seen: Option<Vec<(NodeId, Vec<u8>)>>,
    /// End Markers, which stay on their way as long as a test wants it.
    pub withheld: Option<Vec<(NodeId, Vec<u8>)>>,
}

/// How many moves a test makes: as many as `MOVES` says, or else this.
pub fn moves(usual: u64) -> u64 {
    std::env::var("MOVES").map_or(usual, |moves| moves.parse().expect("a number"))
}

/// One world at a time is as much as there is memory for.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub fn new(gateway: &str, source: &str, target: &str, users: u64) -> World {
        let nodes = [(ANCHOR, gateway), (SOURCE, source), (TARGET, target)];
        World::of(nodes.into_iter().map(|(node, yaml)| (node, Rig::new(yaml))).collect(), users)
    }

    /// The same of nodes that are there.
    pub fn of(mut rigs: BTreeMap<NodeId, Rig>, users: u64) -> World {
        let join = |(node, rig): (&NodeId, &mut Rig)| {
            let agent = rig.node.agent();
            (*node, agent.join_handover(Incarnation(7), SECRET).unwrap())
        };
        let mails = rigs.iter_mut().map(join).collect();
        let mut out = Vec::new();
        let controller = Controller::new(Settings::default(), Vec::new(), Epoch(1), &mut out);
        let mut world = World {
            rigs,
            mails,
            controller,
            timers: Timers::default(),
            messages: VecDeque::new(),
            time: 1,
            random: 0x9e37_79b9_7f4a_7c15,
            lossy: 0,
            users: BTreeMap::new(),
            notices: Vec::new(),
            told: true,
            moved: 0,
            keeps: false,
            seen: None,
            withheld: None,
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

    /// A node starts in a further life. Nothing of the one before is on its way any more.
    pub fn join(&mut self, node: NodeId, mut rig: Rig, life: Incarnation) {
        rig.time.store(self.time, Ordering::Relaxed);
        self.mails.insert(node, rig.node.agent().join_handover(life, SECRET).unwrap());
        self.rigs.insert(node, rig);
        for _ in 0..20 {
            self.round();
        }
    }

    /// The operator says that the node does not come back, and who takes its users.
    pub fn declare_gone(&mut self, node: NodeId, successor: NodeId) {
        self.order(|controller, out| controller.node_gone(node, successor, out));
    }

    /// All contexts of a node have had their turn, and are durable.
    pub fn checkpoint(&mut self, node: NodeId) {
        for _ in 0..8 {
            self.time += 50_000_000;
            (0..4).for_each(|_| self.round());
        }
        self.wait_durable(node);
    }

    /// Waits until all is durable that the node has to keep by now.
    pub fn wait_durable(&mut self, node: NodeId) {
        let (told, tells) = channel();
        let rig = self.rigs.get_mut(&node).unwrap();
        rig.node.agent().when_durable(Box::new(move |outcome| told.send(outcome).unwrap()));
        rig.settle();
        tells.recv_timeout(PATIENCE).unwrap().unwrap();
    }

    /// A user that the source is to own.
    pub fn add_user(&mut self, user: User) {
        self.users.insert(user, Ue::default());
        self.order(|controller, out| controller.add(user, ANCHOR, SOURCE, out));
        self.rest();
    }

    /// No node is to have the user any more.
    pub fn forget(&mut self, user: User) {
        self.users.remove(&user);
        self.order(|controller, out| controller.remove(user, out));
        self.rest();
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
                    self.timers.set(key, self.time + after.as_nanos() as u64);
                }
                Output::CancelTimer(key) => self.timers.cancel(key),
                Output::Persist { user, record: Some(record), .. } => {
                    self.order(|controller, out| controller.persisted(user, record.epoch(), out));
                }
                Output::Tell(notice) => self.told(notice),
                _ => {}
            }
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

    /// A message has come, to a node that may be dead.
    fn send(&mut self, envelope: Envelope) {
        if self.rigs.contains_key(&envelope.to) {
            self.mails[&envelope.to].to_node.send(envelope).unwrap();
        }
    }

    fn told(&mut self, notice: Notice) {
        self.notices.push(notice);
        self.moved += u64::from(matches!(notice, Notice::Moved(..)));
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
        if before == Some(node) || !self.told {
            return;
        }
        if let Some(rig) = before.and_then(|before| self.rigs.get_mut(&before)) {
            rig.settle();
            rig.node.agent().radio_left(user);
        }
        if let Some(rig) = self.rigs.get_mut(&node) {
            rig.node.agent().radio_arrived(user);
        }
    }

    /// Everybody has a little time.
    pub fn round(&mut self) {
        self.time += ROUND;
        for rig in self.rigs.values_mut() {
            rig.time.store(self.time, Ordering::Relaxed);
            rig.node.step();
            // Processes have a time of their own.
            let until = Instant::now() + PATIENCE;
            while rig.node.waits_for_functions() {
                assert!(Instant::now() < until, "a function does not answer");
                rig.node.step();
            }
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
                self.send(envelope);
            }
        }
        while let Some(key) = self.timers.due(self.time) {
            self.order(|controller, out| controller.timer(key, out));
        }
    }

    /// What left a node comes to the next: the nodes' own network, the users, the host.
    fn carry_frames(&mut self) {
        let mut network: Vec<(NodeId, Vec<u8>)> = Vec::new();
        for (node, rig) in &mut self.rigs {
            let port = if *node == ANCHOR { 0 } else { 1 };
            for frame in rig.receive(port) {
                let last = if is_ipv6(&frame) { frame[53] } else { frame[33] };
                let to = match last {
                    254 => ANCHOR,
                    1 => SOURCE,
                    2 => TARGET,
                    other => panic!("no node has the address .{other}"),
                };
                network.push((to, frame));
            }
        }
        if let Some(seen) = &mut self.seen {
            seen.extend(network.iter().cloned());
        }
        for (to, frame) in network {
            match &mut self.withheld {
                Some(withheld) if frame[message_at(&frame) + 1] == 254 => {
                    withheld.push((to, frame))
                }
                _ => self.deliver(to, frame),
            }
        }
        for node in [SOURCE, TARGET] {
            let Some(rig) = self.rigs.get_mut(&node) else { continue };
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

    /// A frame comes to a node at its port to the others.
    pub fn deliver(&mut self, to: NodeId, frame: Vec<u8>) {
        let port = if to == ANCHOR { 0 } else { 1 };
        if let Some(rig) = self.rigs.get_mut(&to) {
            rig.offer(port, &[frame]);
        }
    }

    /// The host sends a packet to each user.
    pub fn send_to_all(&mut self) {
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
    pub fn rest(&mut self) {
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
    pub fn settle(&mut self) {
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

    pub fn move_all(&mut self, to: NodeId) {
        let users: Vec<_> = self.users.keys().copied().collect();
        self.order(|controller, out| controller.move_users(users, to, out));
    }

    /// Moves users at random, with packets in flight, until so many moves are complete.
    pub fn move_at_random(&mut self, moves: u64) {
        let users: Vec<_> = self.users.keys().copied().collect();
        let end = self.moved + moves;
        let mut rounds = 0_u64;
        while self.moved < end {
            rounds += 1;
            assert!(rounds < moves * 20_000, "{} moves are complete", self.moved);
            // A message that is lost five times leaves a gate closed for 620 ms.
            if rounds.is_multiple_of(4) {
                let user = users[self.chance() as usize % users.len()];
                let order = if self.keeps && self.chance() < 400 { b'k' } else { b'r' };
                self.send_to(user, order);
            }
            if self.chance() < 30 {
                let user = users[self.chance() as usize % users.len()];
                let to = if self.chance() < 500 { SOURCE } else { TARGET };
                // One that moves already is left alone, as is one that is there.
                self.order(|controller, out| controller.move_users([user], to, out));
            }
            self.round();
            self.notices.clear();
        }
    }

    /// The same while messages are lost, doubled and late: each packet arrives, once and in
    /// order.
    pub fn move_with_messages_lost(&mut self, moves: u64) {
        self.lossy = 100;
        self.move_at_random(moves);
        self.lossy = 0;
        self.rest();
        assert_eq!(self.drops(), BTreeMap::new());
        // That each came once and in order was looked at as it came.
        self.check_all_arrived();
    }

    /// Moves all users with packets in flight, and comes back to rest.
    pub fn move_under_traffic(&mut self, to: NodeId) {
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
    pub fn check_all_arrived(&mut self) {
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

    pub fn check_accounts(&mut self) {
        for (node, rig) in &mut self.rigs {
            let end = rig.node.agent().snapshot();
            let came = end.received() + end.emitted + end.originated + end.fragments + end.moved_in;
            let went = end.sent() + end.dropped() + end.local + end.moved_out;
            assert_eq!(came, went, "{node}: {end:?}");
            assert_eq!(end.panics, 0);
        }
    }

    pub fn drops(&mut self) -> BTreeMap<(NodeId, String), u64> {
        let mut drops = BTreeMap::new();
        for (node, rig) in &mut self.rigs {
            for drop in rig.node.agent().snapshot().drops {
                *drops.entry((*node, drop.reason)).or_default() += drop.packets;
            }
        }
        drops
    }

    pub fn counted(&mut self, node: NodeId, name: &str) -> u64 {
        let agent = self.rigs.get_mut(&node).unwrap().node.agent();
        agent.handover_view().unwrap().counts.get(name).copied().unwrap_or(0)
    }

    pub fn tally(&mut self, node: NodeId, user: User) -> u64 {
        self.rigs.get_mut(&node).unwrap().tally(&format!("ue-{}", user.0 - FIRST))
    }
}
