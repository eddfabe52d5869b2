//! A station while nothing moves: another process of the node goes on with it.

use std::collections::{BTreeMap, HashMap};

use super::{Entry, Outputs, Radio, State, Station};
use crate::identity::{Epoch, Incarnation, NodeId, User};
use crate::message::rest::{Reading, Written};
use crate::output::{Output, Posture};
use crate::settings::Settings;

const KIND: u8 = 1;

impl Station {
    /// What the station is, for another process of the node to [go on](Self::go_on) with; none
    /// while a user moves.
    pub fn at_rest(&self) -> Option<Vec<u8>> {
        let owns = |entry: &Entry| entry.state == State::Owning && entry.all_ended();
        if !self.entries.values().all(owns) {
            return None;
        }
        let mut out = Written::new(KIND);
        out.u32(self.incarnation.0);
        out.u8(self.known.into());
        out.u64(self.settled.0);
        let over = || self.over.iter().filter(|(_, epoch)| **epoch >= self.settled);
        out.count(over().count());
        over().for_each(|(user, epoch)| out.of_user(*user, *epoch));
        out.count(self.entries.len());
        for (user, entry) in &self.entries {
            out.of_user(*user, entry.epoch);
            out.u64(entry.link.0);
            out.u32(entry.anchor.0);
            out.u8(entry.peer.is_some().into());
            if let Some((node, incarnation)) = entry.peer {
                out.u32(node.0);
                out.u32(incarnation.0);
            }
            out.u8(match entry.radio {
                Radio::Unknown => 0,
                Radio::Here => 1,
                Radio::Left => 2,
            });
        }
        Some(out.octets())
    }

    /// A station that goes on in another process of its node, in the same incarnation; none
    /// where the octets are not those of a station.
    pub fn go_on(
        node: NodeId,
        settings: Settings,
        octets: &[u8],
        out: &mut Outputs,
    ) -> Option<Station> {
        let mut octets = Reading::new(KIND, octets)?;
        let (incarnation, known) = (Incarnation(octets.u32()?), octets.flag()?);
        let settled = Epoch(octets.u64()?);
        let over: HashMap<_, _> = octets.each(Reading::of_user)?.into_iter().collect();
        let entries: BTreeMap<_, _> = octets.each(owned)?.into_iter().collect();
        octets.end()?;
        let mut station = Station {
            node,
            incarnation,
            settings,
            known,
            attempt: 0,
            entries,
            over,
            kept: BTreeMap::new(),
            settled,
            prepared: 0,
        };
        station.hello(out);
        let owned = station.entries.iter_mut();
        out.extend(owned.map(|(user, entry)| {
            entry.kept = entry.to_keep();
            Output::Keep(*user, entry.kept)
        }));
        Some(station)
    }

    /// Of which life the station is.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// How a user is treated, and before which anchor.
    pub fn posture(&self, user: User) -> Option<(NodeId, Posture)> {
        self.entries.get(&user).map(|entry| (entry.anchor, entry.posture()))
    }
}

fn owned(octets: &mut Reading<'_>) -> Option<(User, Entry)> {
    let (user, epoch) = octets.of_user()?;
    let (link, anchor) = (Epoch(octets.u64()?), NodeId(octets.u32()?));
    let peer = match octets.flag()? {
        true => Some((NodeId(octets.u32()?), Incarnation(octets.u32()?))),
        false => None,
    };
    let radio = match octets.u8()? {
        0 => Radio::Unknown,
        1 => Radio::Here,
        2 => Radio::Left,
        _ => return None,
    };
    let (state, ended) = (State::Owning, [true; 2]);
    Some((user, Entry { state, link, ended, radio, ..Entry::new(epoch, peer, anchor) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Envelope, Message, Step};

    const NODE: NodeId = NodeId(2);
    const LIFE: Incarnation = Incarnation(7);

    fn tell(station: &mut Station, message: Message) -> Outputs {
        let mut out = Vec::new();
        let (from, from_incarnation) = (NodeId::CONTROLLER, Incarnation(1));
        let envelope = Envelope { from, from_incarnation, to: NODE, to_incarnation: LIFE, message };
        station.message(envelope, &mut out);
        out
    }

    fn step(user: u64, epoch: u64, step: Step) -> Message {
        Message::Handover { user: User(user), epoch: Epoch(epoch), step }
    }

    /// A station that owns users 1 and 2, and has had user 3.
    fn station() -> Station {
        let mut station = Station::new(NODE, LIFE, Settings::default(), &mut Vec::new());
        tell(&mut station, Message::Welcome);
        for (user, epoch) in [(1, 10), (2, 11), (3, 12)] {
            let prepare =
                Step::Prepare { source: None, kept: None, anchor: NodeId(1), settled: Epoch(5) };
            tell(&mut station, step(user, epoch, prepare));
            assert!(station.at_rest().is_none(), "user {user} is on its way");
            tell(&mut station, step(user, epoch, Step::Adopt { lost: false }));
            station.imported(User(user), Epoch(epoch), true, &mut Vec::new());
            assert!(station.at_rest().is_some());
        }
        tell(&mut station, step(3, 13, Step::Remove));
        station.radio_arrived(User(1), &mut Vec::new());
        station
    }

    #[test]
    fn a_station_goes_on_as_it_was() {
        let before = station();
        let octets = before.at_rest().unwrap();
        let mut out = Vec::new();
        let mut after = Station::go_on(NODE, Settings::default(), &octets, &mut out).unwrap();
        let keeps = |one: &Output| matches!(one, Output::Keep(_, Some(_)));
        assert_eq!(out.len(), 2, "the controller knows it: {out:?}");
        assert!(out.iter().all(keeps), "{out:?}");
        assert_eq!(after.at_rest().unwrap(), octets);
        assert_eq!(after.incarnation(), LIFE);
        assert_eq!(after.users().collect::<Vec<_>>(), [User(1), User(2)]);
        assert!(after.owns(User(1)) && after.owns(User(2)) && !after.owns(User(3)));
        assert_eq!(after.posture(User(1)), before.posture(User(1)));
        // What is over stays so, and what is asked again is answered again.
        let late = Step::Prepare { source: None, kept: None, anchor: NodeId(1), settled: Epoch(5) };
        let said = |out: &Outputs| match &out[..] {
            [Output::Send(Envelope { message: Message::Handover { step, .. }, .. })] => step.name(),
            other => panic!("{other:?}"),
        };
        assert_eq!(said(&tell(&mut after, step(3, 12, late.clone()))), "Refused");
        assert_eq!(said(&tell(&mut after, step(1, 10, late))), "Imported");
        assert_eq!(said(&tell(&mut after, step(2, 11, Step::Complete))), "Completed");
    }

    #[test]
    fn one_that_the_controller_does_not_know_says_hello() {
        let station = Station::new(NODE, LIFE, Settings::default(), &mut Vec::new());
        let (octets, mut out) = (station.at_rest().unwrap(), Vec::new());
        Station::go_on(NODE, Settings::default(), &octets, &mut out).unwrap();
        let hello =
            |one: &Output| matches!(one, Output::Send(Envelope { message: Message::Hello, .. }));
        assert!(out.iter().any(hello));
    }

    #[test]
    fn octets_that_are_cut_off_or_mean_nothing_are_refused() {
        let octets = station().at_rest().unwrap();
        let read = |octets: &[u8]| {
            Station::go_on(NODE, Settings::default(), octets, &mut Vec::new()).is_some()
        };
        assert!(read(&octets));
        for length in 0..octets.len() {
            assert!(!read(&octets[..length]), "{length} octets");
        }
        assert!(!read(&[&octets[..], &[0]].concat()));
        // As many as there cannot be, an anchor, and a radio that is nowhere.
        let mut long = octets.clone();
        long[15..23].fill(0xff);
        assert!(!read(&long));
        let mut anchor = octets.clone();
        anchor[1] = 2;
        assert!(!read(&anchor));
        let mut radio = octets;
        *radio.last_mut().unwrap() = 9;
        assert!(!read(&radio));
    }
}
