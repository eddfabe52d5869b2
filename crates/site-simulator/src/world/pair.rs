//! A pair of nodes, of which one stands by for the other, as far as it decides who carries packets.

use weft_mobility_protocol::standby::{StandbyStep, Standing};
use weft_mobility_protocol::{Envelope, Incarnation, Message, NodeId};
use weft_mobility_transport::Event as Arrived;

use super::node::{Machine, Node, PAIR, PairNode, is_of_pair};
use super::{Event, Party, Promise, World};
use crate::scenario::Mutation;

/// Between two claims of a node, in microseconds.
const CLAIM: u64 = 400_000;
/// Clocks of the nodes differ by so much, in microseconds.
const SKEW: u64 = 3_600_000_000;

/// The other one, if a node is one of the two.
pub(super) fn partner(node: NodeId) -> Option<NodeId> {
    is_of_pair(node).then(|| PAIR[usize::from(node == PAIR[0])])
}

impl World {
    /// The clock of a node, which is not that of another one.
    fn clock_of(&self, node: NodeId) -> u64 {
        self.time() + u64::from(node.0) * SKEW
    }

    fn pair_node(&mut self, number: NodeId) -> Option<&mut PairNode> {
        match self.nodes.get_mut(&number)?.machine.as_mut()? {
            Machine::Pair(pair) => Some(pair),
            _ => None,
        }
    }

    /// A node of the pair says what it is, again and again.
    pub(super) fn claim(&mut self, number: NodeId, life: u32) {
        let is_alive = |node: &Node| node.machine.is_some() && node.life == life;
        if !self.nodes.get(&number).is_some_and(is_alive) {
            return;
        }
        self.after(CLAIM, Event::Claim(number, life));
        let Some(other) = partner(number) else { return };
        let hears = self.nodes.get(&other).is_some_and(|other| other.machine.is_some())
            && self.reach(Party::Node(number), Party::Node(other));
        let now = self.clock_of(number);
        let Some(pair) = self.pair_node(number) else { return };
        pair.has_all |= hears;
        let (owns, epoch) = (pair.until > now, pair.epoch);
        let whole = if owns { hears } else { pair.has_all };
        let standing = if owns { Standing::Owns } else { Standing::Stands };
        let claim = StandbyStep::Claim { epoch, stamp: now, standing, whole, hears, built: true };
        let envelope = Envelope {
            from: number,
            from_incarnation: Incarnation(life),
            to: NodeId::CONTROLLER,
            to_incarnation: Incarnation(0),
            message: Message::Standby(claim),
        };
        self.send_up(number, Arrived::Message(envelope));
    }

    /// The controller has answered.
    pub(super) fn answered_pair(&mut self, number: NodeId, step: &StandbyStep) {
        let Some(pair) = self.pair_node(number) else { return };
        match *step {
            StandbyStep::Grant { epoch, stamp, lease, .. } if epoch >= pair.epoch => {
                (pair.epoch, pair.until) = (epoch, stamp + u64::from(lease) * 1000);
            }
            StandbyStep::Deny { epoch, .. } if epoch >= pair.epoch => {
                (pair.epoch, pair.until) = (epoch, 0);
            }
            _ => {}
        }
        self.statistics.grants += u64::from(matches!(step, StandbyStep::Grant { .. }));
        self.look_at_pair();
    }

    /// One of the two carries packets at most.
    fn look_at_pair(&mut self) {
        let goes_on = self.scenario.mutation == Some(Mutation::LateStop);
        let carry = PAIR.map(|number| {
            let now = self.clock_of(number);
            self.pair_node(number).is_some_and(|pair| pair.until > if goes_on { 0 } else { now })
        });
        if carry == [true; 2] {
            self.violated(Promise::OneOfPair, format!("both of {PAIR:?} carry packets"));
        }
    }

    /// Why neither of the two carries packets, if that is so.
    pub(super) fn why_unpaired(&mut self) -> Option<String> {
        let carries = |number: NodeId| {
            let now = self.clock_of(number);
            self.pair_node(number).is_some_and(|pair| pair.until > now)
        };
        (!PAIR.map(carries).contains(&true)).then(|| "neither node of the pair owns".to_owned())
    }
}
