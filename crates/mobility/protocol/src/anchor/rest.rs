//! An anchor while nothing moves: another process of the node goes on with it.

use std::collections::{BTreeMap, HashMap};

use super::{Anchor, Entry, Outputs, State, entry};
use crate::identity::{Incarnation, NodeId, User};
use crate::message::RouteStage;
use crate::message::rest::{Reading, Written};
use crate::output::{AnchorPosture, Output};
use crate::settings::Settings;

const KIND: u8 = 2;

impl Anchor {
    /// What the anchor is, for another process of the node to [go on](Self::go_on) with; none
    /// while a user moves.
    pub fn at_rest(&self) -> Option<Vec<u8>> {
        let serves = |entry: &Entry| entry.state == State::Serving && entry.next.is_none();
        if !self.entries.values().all(serves) {
            return None;
        }
        let mut out = Written::new(KIND);
        out.u32(self.incarnation.0);
        out.u8(self.known.into());
        out.count(self.removed.len());
        self.removed.iter().for_each(|(user, epoch)| out.of_user(*user, *epoch));
        out.count(self.entries.len());
        for (user, entry) in &self.entries {
            out.of_user(*user, entry.epoch);
            out.u8((entry.stage == RouteStage::Abort).into());
            out.leg(entry.serving);
        }
        Some(out.octets())
    }

    /// An anchor that goes on in another process of its node, in the same incarnation; none where
    /// the octets are not those of an anchor.
    pub fn go_on(
        node: NodeId,
        settings: Settings,
        octets: &[u8],
        out: &mut Outputs,
    ) -> Option<Anchor> {
        let mut octets = Reading::new(KIND, octets)?;
        let (incarnation, known) = (Incarnation(octets.u32()?), octets.flag()?);
        let removed: HashMap<_, _> = octets.each(Reading::of_user)?.into_iter().collect();
        let entries: BTreeMap<_, _> = octets.each(serving)?.into_iter().collect();
        octets.end()?;
        let mut anchor =
            Anchor { node, incarnation, settings, known, attempt: 0, entries, removed };
        anchor.hello(out);
        let entries = anchor.entries.iter();
        out.extend(entries.map(|(user, entry)| Output::KeepRoute(*user, entry.route())));
        Some(anchor)
    }

    /// Of which life the anchor is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// How a user is treated.
    pub fn posture(&self, user: User) -> Option<AnchorPosture> {
        self.entries.get(&user).map(Entry::posture)
    }
}

fn serving(octets: &mut Reading<'_>) -> Option<(User, Entry)> {
    let (user, epoch) = octets.of_user()?;
    let stage = if octets.flag()? { RouteStage::Abort } else { RouteStage::Complete };
    let leg = octets.leg()?;
    Some((user, entry(State::Serving, (epoch, stage), leg, None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Epoch, Leg};
    use crate::message::{Envelope, Message, Step};

    const NODE: NodeId = NodeId(1);
    const LIFE: Incarnation = Incarnation(7);

    fn leg(node: u32, epoch: u64) -> Leg {
        Leg { node: NodeId(node), incarnation: Incarnation(3), epoch: Epoch(epoch) }
    }

    fn route(
        anchor: &mut Anchor,
        (user, epoch): (u64, u64),
        stage: RouteStage,
        (old, new): (Option<Leg>, Option<Leg>),
    ) {
        let step = Step::Route { stage, old, new };
        let message = Message::Handover { user: User(user), epoch: Epoch(epoch), step };
        let (from, from_incarnation) = (NodeId::CONTROLLER, Incarnation(1));
        let envelope = Envelope { from, from_incarnation, to: NODE, to_incarnation: LIFE, message };
        anchor.message(envelope, &mut Vec::new());
    }

    #[test]
    fn an_anchor_goes_on_as_it_was_once_no_gate_is_closed() {
        let mut anchor = Anchor::new(NODE, LIFE, Settings::default(), &mut Vec::new());
        route(&mut anchor, (1, 10), RouteStage::Complete, (None, Some(leg(2, 10))));
        route(&mut anchor, (2, 11), RouteStage::Complete, (None, Some(leg(2, 11))));
        route(&mut anchor, (2, 12), RouteStage::Remove, (None, None));
        let octets = anchor.at_rest().unwrap();
        let mut out = Vec::new();
        let after = Anchor::go_on(NODE, Settings::default(), &octets, &mut out).unwrap();
        assert_eq!(after.at_rest().unwrap(), octets);
        assert_eq!(after.posture(User(1)), anchor.posture(User(1)));
        assert_eq!((after.state(User(2)), after.incarnation()), (None, LIFE));
        // A gate is closed from now on.
        let ways = (Some(leg(2, 10)), Some(leg(3, 13)));
        route(&mut anchor, (1, 13), RouteStage::Prepare, ways);
        assert_eq!(anchor.at_rest(), None);
        let read =
            |octets: &[u8]| Anchor::go_on(NODE, Settings::default(), octets, &mut Vec::new());
        for length in 0..octets.len() {
            assert!(read(&octets[..length]).is_none(), "{length} octets");
        }
        assert!(read(&[&octets[..], &[0]].concat()).is_none());
    }
}
