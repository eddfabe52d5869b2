//! Pairs of nodes, as the engine has them.

use std::time::{Duration, Instant};

use weft_mobility_protocol::standby::StandbyStep;
use weft_mobility_protocol::{Envelope, Incarnation, Message, NodeId};

use super::Engine;
use super::events::Happening;
use crate::config::Configuration;
use crate::journal::{Entry, Recovered};
use crate::pair::{Claim, Couple, NotSwitched, Pair, Seen};

/// What is not heard for so many leases is not heard lately: a node speaks more often.
const LATELY: u32 = 2;

/// For how long an owner is told to leave.
const LEAVING: Duration = Duration::from_secs(10);

/// A pair as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairView {
    /// Who owns the users.
    pub owner: String,
    /// Who stands by.
    pub standby: String,
    /// By which they are owned; 0 before a node has claimed them.
    pub epoch: u64,
    /// The owner was heard lately.
    pub owner_heard: bool,
    /// The standby was heard lately.
    pub standby_heard: bool,
    /// The standby has all records and may take over.
    pub whole: bool,
    /// The standby's node is built, with all users.
    pub built: bool,
}

/// The pairs of the configuration, as they were durable.
pub(super) fn recovered(
    configuration: &Configuration,
    recovered: &Recovered,
    now: Instant,
) -> Vec<Pair> {
    let lease = configuration.lease;
    let pair = |couple: &Couple| {
        Pair::new(*couple, recovered.pairs.get(&couple.first).copied(), lease, now)
    };
    configuration.pairs.iter().map(pair).collect()
}

impl Engine {
    /// A node says something about its pair. The answer goes once what it says is durable.
    pub(super) fn claimed(&mut self, from: NodeId, life: Incarnation, step: &StandbyStep) {
        let StandbyStep::Claim { epoch, stamp, standing, whole, hears, built } = *step else {
            return;
        };
        let lease = self.configuration.lease;
        let now = self.clock.now();
        let Some(pair) = self.pairs.iter_mut().find(|pair| pair.couple.has(from)) else {
            return self.note_unpaired(from);
        };
        let claim = Claim { epoch, stamp, standing, whole, hears, built };
        let answer = pair.claimed(from, claim, lease, now);
        if answer.is_new {
            let entry = Entry::Pair(pair.couple.first, pair.record);
            self.unwritten.push(entry);
            self.presses = true;
        }
        let epoch = pair.record.epoch;
        if answer.takes_over {
            let epoch = epoch.0;
            let name = self.name(from);
            tracing::warn!(node = name, epoch, "the standby takes over");
            self.tell_event(Happening::takes_over(name));
        }
        let leave = answer.leave.then_some(StandbyStep::Leave { epoch });
        for step in answer.step.into_iter().chain(leave) {
            let sender = self.transport.clone();
            let envelope = Envelope {
                from: NodeId::CONTROLLER,
                from_incarnation: Incarnation(0),
                to: from,
                to_incarnation: life,
                message: Message::Standby(step),
            };
            self.answers.push(Box::new(move || sender.send(envelope)));
        }
    }

    /// The owner of a pair is to give the users to its standby.
    ///
    /// # Errors
    /// When the node does not own the users, or its standby cannot have them.
    pub fn switch_over(&mut self, node: NodeId) -> Result<(), NotSwitched> {
        let lately = self.configuration.lease * LATELY;
        let pair = self.pairs.iter_mut().find(|pair| pair.couple.has(node));
        let pair = pair.ok_or(NotSwitched::NoPair)?;
        pair.switch_over(node, (lately, LEAVING), self.clock.now())?;
        tracing::info!(node = self.name(node), "it is to give its users to its standby");
        Ok(())
    }

    fn note_unpaired(&mut self, node: NodeId) {
        if self.unpaired.insert(node) {
            let name = self.name(node);
            tracing::warn!(
                node = name,
                "it has `standby`, and this controller knows no pair of it: give `standbyFor`"
            );
        }
    }

    /// All pairs.
    pub fn pairs(&self) -> Vec<PairView> {
        let (lately, now) = (self.configuration.lease * LATELY, self.clock.now());
        let view = |pair: &Pair| {
            let owner = pair.record.owner;
            let Seen { owner: owner_heard, standby: standby_heard, whole, built } =
                pair.heard(lately, now);
            PairView {
                owner: self.name(owner),
                standby: self.name(pair.couple.other(owner)),
                epoch: pair.record.epoch.0,
                owner_heard,
                standby_heard,
                whole,
                built,
            }
        };
        self.pairs.iter().map(view).collect()
    }

    pub(super) fn pair_entries(&self) -> impl Iterator<Item = Entry> {
        let known = self.pairs.iter().filter(|pair| pair.record.epoch.0 > 0);
        known.map(|pair| Entry::Pair(pair.couple.first, pair.record))
    }
}
