//! The machine that decides: that of a station, or that of an anchor.

use std::collections::BTreeMap;

use weft_mobility_protocol::{
    Anchor, Direction, EndMarker, Envelope, Incarnation, Message, Output, Station, TimerKey, User,
};

/// The node's machine.
pub(super) enum Machine {
    Station(Station),
    Anchor(Anchor),
}

pub(super) type Outputs = Vec<Output>;

impl Machine {
    pub fn message(&mut self, envelope: Envelope, out: &mut Outputs) {
        match self {
            Machine::Station(station) => station.message(envelope, out),
            Machine::Anchor(anchor) => anchor.message(envelope, out),
        }
    }

    pub fn timer(&mut self, key: TimerKey, out: &mut Outputs) {
        match self {
            Machine::Station(station) => station.timer(key, out),
            Machine::Anchor(anchor) => anchor.timer(key, out),
        }
    }

    pub fn told(&mut self, user: User, told: Told, out: &mut Outputs) {
        match (self, told) {
            (Machine::Station(station), Told::Held(way)) => station.held(user, way, out),
            (Machine::Station(station), Told::EndMarker(marker)) => {
                station.end_marker(user, marker, out);
            }
            (Machine::Anchor(anchor), Told::Held(_)) => anchor.held(user, out),
            (Machine::Anchor(anchor), Told::EndMarker(marker)) => {
                anchor.end_marker(user, marker, out);
            }
        }
    }

    /// What it is; none while a user moves.
    pub fn at_rest(&self) -> Option<Vec<u8>> {
        match self {
            Machine::Station(station) => station.at_rest(),
            Machine::Anchor(anchor) => anchor.at_rest(),
        }
    }

    /// Whether the node has anything to do with a user.
    pub fn has(&self, user: User) -> bool {
        match self {
            Machine::Station(station) => station.state(user).is_some(),
            Machine::Anchor(anchor) => anchor.state(user).is_some(),
        }
    }

    /// Of which life it is.
    pub fn incarnation(&self) -> Incarnation {
        match self {
            Machine::Station(station) => station.incarnation(),
            Machine::Anchor(anchor) => anchor.incarnation(),
        }
    }

    /// Users that the node has something to do with.
    pub fn users(&self) -> Vec<User> {
        match self {
            Machine::Station(station) => station.users().collect(),
            Machine::Anchor(anchor) => anchor.users().collect(),
        }
    }

    /// Users by the name of their state.
    pub fn states(&self) -> BTreeMap<String, u64> {
        let mut states = BTreeMap::new();
        let mut count = |name: &str| *states.entry(name.to_owned()).or_default() += 1;
        match self {
            Machine::Station(station) => station
                .users()
                .filter_map(|user| station.state(user))
                .for_each(|state| count(state.name())),
            Machine::Anchor(anchor) => anchor
                .users()
                .filter_map(|user| anchor.state(user))
                .for_each(|state| count(state.name())),
        }
        states
    }
}

/// What the data plane tells of a user.
#[derive(Clone, Copy, Debug)]
pub enum Told {
    /// The first packet waits at the gate for fresh packets of this direction.
    Held(Direction),
    /// An End Marker has come.
    EndMarker(EndMarker),
}

/// The user whose turn an output waits for.
pub(super) fn user_of(output: &Output) -> Option<User> {
    match output {
        Output::Send(Envelope { message: Message::Handover { user, .. }, .. })
        | Output::Steer(user, _)
        | Output::SteerAnchor(user, _)
        | Output::Export { user, .. }
        | Output::Import { user, .. }
        | Output::Resume { user, .. }
        | Output::Drain { user, .. }
        | Output::Discard(user)
        | Output::Keep(user, _)
        | Output::KeepRoute(user, _)
        | Output::SendEndMarker { user, .. }
        | Output::Changed(user, _) => Some(*user),
        Output::SetTimer(key, _) | Output::CancelTimer(key) => key.user,
        _ => None,
    }
}
