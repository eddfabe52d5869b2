//! What the data plane tells a station: End Markers, the radio, gates with
//! packets, and timers that stand in for markers that do not come.

use super::{Outputs, Radio, State, Station, index};
use crate::identity::{Direction, Epoch, User};
use crate::message::{Message, Step};
use crate::output::{Counter, EndMarker, Output, TimerKind};
use crate::settings::Arrival;

impl Station {
    /// An End Marker of the user has come, behind the packets of its path.
    pub fn end_marker(&mut self, user: User, marker: EndMarker, out: &mut Outputs) {
        let EndMarker { epoch, direction, resumed } = marker;
        let Some(entry) = self.entries.get_mut(&user).filter(|entry| entry.link == epoch) else {
            return;
        };
        let event = if resumed { "End Marker (resumed)" } else { "End Marker" };
        match entry.state {
            state if state.is_source() => {
                // Of the anchor's downlink; the source ends uplink itself.
                let of_anchor = !resumed && direction == Direction::Downlink;
                if of_anchor {
                    self.pass_on(user, direction, event, out);
                }
            }
            State::Prepared | State::Importing if !resumed => entry.ended[index(direction)] = true,
            State::Settling if !resumed => self.open(user, direction, event, out),
            State::Resuming if resumed => self.open(user, direction, event, out),
            State::Returning if resumed => {
                entry.ended[index(direction)] = true;
                self.enter(user, State::Returning, event, out);
                self.end_return(user, event, out);
            }
            _ => {}
        }
    }

    /// The user's radio has left this station; nothing comes from it any more.
    pub fn radio_left(&mut self, user: User, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        entry.radio = Radio::Left;
        self.pass_on(user, Direction::Uplink, "Radio left", out);
        if self.state(user) == Some(State::Returning) {
            self.end_return(user, "Radio left", out);
        }
    }

    /// The user's radio leaves this station, or has left it: what the ports have
    /// received of it already is awaited.
    pub fn radio_leaves(&mut self, user: User, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        entry.leaving = true;
        out.push(Output::Drain { user, epoch: entry.epoch });
    }

    /// What the ports had received of a radio that leaves has gone its way.
    pub fn drained(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let leaves = |entry: &&mut super::Entry| entry.epoch == epoch && entry.leaving;
        if let Some(entry) = self.entries.get_mut(&user).filter(leaves) {
            entry.leaving = false;
            self.radio_left(user, out);
        }
    }

    /// The user's radio is at this station. The other station of a move under way is
    /// told that it has left.
    pub fn radio_arrived(&mut self, user: User, out: &mut Outputs) {
        if let Some(entry) = self.entries.get_mut(&user) {
            entry.radio = Radio::Here;
            entry.leaving = false;
            self.say_arrived(user, false, out);
        }
    }

    /// Tells the other station that the radio is here, until its End Marker comes.
    pub(super) fn say_arrived(&mut self, user: User, again: bool, out: &mut Outputs) {
        let waits = |entry: &&super::Entry| {
            let of_two = matches!(entry.state, State::Settling | State::Resuming);
            let here = entry.radio == Radio::Here && !entry.ended(Direction::Uplink);
            of_two && here && !entry.grace
        };
        let Some(entry) = self.entries.get(&user).filter(waits) else { return };
        let Some((peer, incarnation)) = entry.peer else { return };
        let message = Message::Handover { user, epoch: entry.link, step: Step::Arrived };
        if again {
            out.push(Output::Count(Counter::Resent));
        }
        self.send(peer, incarnation, message, out);
        self.set(user, TimerKind::Resend, out);
    }

    /// The radio is at the other station.
    pub(super) fn arrived_there(&mut self, user: User, epoch: Epoch, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user).filter(|entry| entry.link == epoch) else {
            return;
        };
        let source = entry.state.is_source() && !entry.ended(Direction::Uplink);
        let returning = entry.state == State::Returning && entry.radio == Radio::Here;
        if (source || returning) && !std::mem::replace(&mut entry.leaving, true) {
            out.push(Output::Drain { user, epoch: entry.epoch });
        }
    }

    /// The first packet waits in the gate for fresh packets of this direction: the
    /// End Marker is under way, or lost.
    pub fn held(&mut self, user: User, direction: Direction, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        entry.held[index(direction)] = true;
        if direction == Direction::Uplink && self.settings.arrival == Arrival::Uplink {
            entry.radio = Radio::Here;
        }
        let waits = matches!(entry.state, State::Settling | State::Resuming);
        if waits && !entry.ended(direction) && !entry.grace {
            self.set(user, TimerKind::Gate(direction), out);
        }
        if direction == Direction::Uplink {
            self.say_arrived(user, false, out);
        }
    }

    fn open(&mut self, user: User, direction: Direction, event: &'static str, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        let state = entry.state;
        if !std::mem::replace(&mut entry.ended[index(direction)], true) {
            self.cancel(user, TimerKind::Gate(direction), out);
            if direction == Direction::Uplink {
                self.cancel(user, TimerKind::Resend, out);
            }
            self.enter(user, state, event, out);
            self.settle_user(user, event, out);
        }
    }

    pub(super) fn gate_timeout(&mut self, user: User, direction: Direction, out: &mut Outputs) {
        let Some(entry) = self.entries.get(&user) else { return };
        let waits = matches!(entry.state, State::Settling | State::Resuming);
        if waits && !entry.ended(direction) {
            out.push(Output::Count(match direction {
                Direction::Uplink => Counter::UplinkGateTimeout,
                Direction::Downlink => Counter::DownlinkGateTimeout,
            }));
            self.open(user, direction, "Gate timeout", out);
        }
    }

    pub(super) fn release_timeout(&mut self, user: User, out: &mut Outputs) {
        let Some(entry) = self.entries.get_mut(&user) else { return };
        match entry.state {
            State::Forwarding => {
                out.push(Output::Count(Counter::ReleaseTimeout));
                for direction in Direction::ALL {
                    self.pass_on(user, direction, "Release timeout", out);
                }
            }
            State::Returning => {
                out.push(Output::Count(Counter::ReleaseTimeout));
                entry.ended = [true; 2];
                entry.radio = Radio::Left;
                self.enter(user, State::Returning, "Release timeout", out);
                self.end_return(user, "Release timeout", out);
            }
            _ => {}
        }
    }
}
