//! Where users' radios are: what a station is told of them, and what its ports still
//! hold of one that has left.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weft_dataplane::command::Command;
use weft_mobility_protocol::{Epoch, User};
use weft_node_config::HandoverRole;

use super::{Host, Machine, Mobility};

/// What has become of users' radios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Radio {
    /// They have left this station: nothing comes from them any more that its ports
    /// have not received.
    Left,
    /// They are at this station.
    Arrived,
}

/// Why a station is told nothing of radios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RadioError {
    /// The node takes no part in handovers, or is no station.
    #[error("the node is no station that takes part in handovers")]
    NoStation,
    /// Another process takes the node over.
    #[error("another process is taking the node over; try again")]
    Upgrading,
    /// A user is not among those of `handover.users`.
    #[error("{0} is not in `handover.users` of this node")]
    NoUser(User),
}

/// What the ports have received is waited for, for some users at once.
#[derive(Debug)]
pub(crate) struct Drain {
    users: Vec<(User, Epoch)>,
    /// Workers that have not answered.
    awaited: usize,
    /// What workers have for one another is waited for, too.
    again: bool,
}

/// Those that are under way, by number.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    next: u64,
    /// Of whom the next one will be.
    asked: Vec<(User, Epoch)>,
    under_way: BTreeMap<u64, Drain>,
}

impl Drains {
    /// Whether nothing is waited for.
    pub fn are_none(&self) -> bool {
        self.asked.is_empty() && self.under_way.is_empty()
    }

    pub fn ask(&mut self, user: User, epoch: Epoch) {
        self.asked.push((user, epoch));
    }
}

impl Mobility {
    /// Whether the node can be told of these users' radios.
    ///
    /// # Errors
    /// [`RadioError`].
    pub fn check_radios(&self, users: &[User]) -> Result<(), RadioError> {
        if self.plan.role != HandoverRole::Station {
            return Err(RadioError::NoStation);
        }
        let known = |user: &&User| self.plan.users.iter().any(|range| range.nth(**user).is_some());
        match users.iter().find(|user| !known(user)) {
            Some(stranger) => Err(RadioError::NoUser(*stranger)),
            None => Ok(()),
        }
    }

    /// A user's radio has left this station, or is there.
    pub fn note_radio(&mut self, host: &mut dyn Host, radio: Radio, user: User) {
        let mut out = Vec::new();
        if let Machine::Station(station) = &mut self.machine {
            match radio {
                Radio::Left => station.radio_leaves(user, &mut out),
                Radio::Arrived => station.radio_arrived(user, &mut out),
            }
        }
        self.take(host, out);
    }

    /// Asks the workers for what their ports have received, for all users at once that
    /// it was asked for; whether there were any.
    pub(super) fn drain(&mut self, host: &mut dyn Host) -> bool {
        if self.drains.asked.is_empty() {
            return false;
        }
        let users = std::mem::take(&mut self.drains.asked);
        let number = self.drains.next;
        self.drains.next += 1;
        let (awaited, again) = (host.workers().count(), host.workers().count() > 1);
        self.drains.under_way.insert(number, Drain { users, awaited, again });
        host.workers().iter_mut().for_each(|link| link.send(Command::Drain(number)));
        true
    }

    /// A worker has seen to what its ports had received.
    pub(super) fn drained(&mut self, host: &mut dyn Host, number: u64) {
        let Some(drain) = self.drains.under_way.get_mut(&number) else { return };
        drain.awaited -= 1;
        if drain.awaited > 0 {
            return;
        }
        if std::mem::take(&mut drain.again) {
            drain.awaited = host.workers().count();
            return host.workers().iter_mut().for_each(|link| link.send(Command::Drain(number)));
        }
        let Some(Drain { users, .. }) = self.drains.under_way.remove(&number) else { return };
        for (user, epoch) in users {
            let mut out = Vec::new();
            if let Machine::Station(station) = &mut self.machine {
                station.drained(user, epoch, &mut out);
            }
            self.take(host, out);
        }
    }
}
