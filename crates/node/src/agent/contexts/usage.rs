//! What a counter has counted for each user, in pieces: so a million users hold up neither the
//! agent nor a worker.

use std::net::IpAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use weft_dataplane::command::Command;
use weft_dataplane::command::contexts::Values;
use weft_function::Scope;
use weft_node_config::UserKey;

use super::FunctionContexts;
use crate::bearer::BearerId;
use crate::bearer::session::SessionId;
use crate::migration::contexts::NotCarried;

/// How long a worker is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where a reader of all users stands.
#[derive(Clone, Debug)]
pub enum Cursor {
    /// Users of the configuration, from this one on.
    Configured(usize),
    /// Users that commands have added, as they were when their turn came; the last is next.
    Added(Vec<BearerId>),
    /// PFCP sessions, as they were when their turn came; the last is next.
    Sessions(Vec<SessionId>),
}

impl Default for Cursor {
    fn default() -> Cursor {
        Cursor::Configured(0)
    }
}

/// What was counted for one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its slot: no other user has it at the same time.
    pub slot: u32,
    /// Its name; `bearer N` of a user that a command has added, `session-SEID` of a session.
    pub user: String,
    /// Its address, and the length of its prefix; none if it is known by something else.
    pub address: Option<(IpAddr, u8)>,
    /// Packets.
    pub packets: u64,
    /// Octets, from the IP header on.
    pub octets: u64,
}

/// Counts that workers are asked for.
#[derive(Debug)]
pub struct Reading {
    counted: Vec<Counted>,
    /// Positions, and what comes for them.
    pieces: Vec<(Vec<usize>, Receiver<Values>)>,
}

impl Reading {
    /// Waits for the counts.
    ///
    /// # Errors
    /// [`NotCarried::Late`].
    pub fn wait(mut self) -> Result<Vec<Counted>, NotCarried> {
        for (at, piece) in self.pieces {
            let values = piece.recv_timeout(PATIENCE).map_err(|_| NotCarried::Late)?;
            for (at, values) in at.into_iter().zip(values) {
                let of =
                    |name: &str| values.iter().find(|one| one.0 == name).map_or(0, |one| one.1);
                self.counted[at].packets = of("packets");
                self.counted[at].octets = of("bytes");
            }
        }
        Ok(self.counted)
    }
}

impl FunctionContexts<'_> {
    /// Asks for what `function`, a counter of users, has counted for the next `count` of them;
    /// and where to go on, if there are more.
    ///
    /// # Errors
    /// [`NotCarried`].
    pub fn usage(
        &mut self,
        function: &str,
        from: Cursor,
        count: usize,
    ) -> Result<(Reading, Option<Cursor>), NotCarried> {
        let (number, _) = self.number_of(function)?;
        self.check_at_hand(number)?;
        let (counted, next) = match from {
            Cursor::Configured(first) => self.configured(first, count),
            Cursor::Added(ids) => self.added(ids, count),
            Cursor::Sessions(ids) => self.sessions(ids, count),
        };
        let slots: Vec<u32> = counted.iter().map(|one| one.slot).collect();
        let mut pieces = Vec::new();
        for (worker, at) in self.by_worker(&slots) {
            let slots = at.iter().map(|at| slots[*at]).collect();
            let (answer, piece) = channel();
            let function = number as u16;
            self.workers[worker].send(Command::ShowContexts { function, slots, answer });
            pieces.push((at, piece));
        }
        Ok((Reading { counted, pieces }, next))
    }

    fn configured(&self, first: usize, count: usize) -> (Vec<Counted>, Option<Cursor>) {
        let users = self.subscribers.users.from(first).take(count);
        let counted: Vec<_> = users
            .map(|(plan, nth, slot)| {
                let keys = plan.keys.iter();
                let address = keys.filter_map(|key| address(&key.nth(nth))).next();
                counted(slot, plan.name_of(nth), address)
            })
            .collect();
        let next = first + counted.len();
        let next = match next < self.subscribers.users.count() {
            true => Some(Cursor::Configured(next)),
            false => {
                let ids: Vec<_> = self.subscribers.bearers.named(Scope::User).collect();
                if ids.is_empty() { self.first_sessions() } else { Some(Cursor::Added(ids)) }
            }
        };
        (counted, next)
    }

    fn added(&self, mut ids: Vec<BearerId>, count: usize) -> (Vec<Counted>, Option<Cursor>) {
        let now = ids.split_off(ids.len().saturating_sub(count));
        let user = |id: BearerId| {
            let (slot, keys) = self.subscribers.bearers.user_added(id)?;
            Some(counted(slot, format!("bearer {id}"), keys.iter().find_map(address)))
        };
        let counted = now.into_iter().filter_map(user).collect();
        let next = if ids.is_empty() { self.first_sessions() } else { Some(Cursor::Added(ids)) };
        (counted, next)
    }

    fn first_sessions(&self) -> Option<Cursor> {
        let ids: Vec<_> = self.subscribers.sessions.entries.keys().copied().collect();
        (!ids.is_empty()).then_some(Cursor::Sessions(ids))
    }

    fn sessions(&self, mut ids: Vec<SessionId>, count: usize) -> (Vec<Counted>, Option<Cursor>) {
        let now = ids.split_off(ids.len().saturating_sub(count));
        let sessions = &self.subscribers.sessions;
        let user = |id: SessionId| {
            let entry = sessions.entries.get(&id)?;
            let address = sessions.keys(&entry.rules).iter().find_map(address);
            Some(counted(entry.slot, id.user_name(), address))
        };
        let counted = now.into_iter().filter_map(user).collect();
        (counted, (!ids.is_empty()).then_some(Cursor::Sessions(ids)))
    }
}

fn counted(slot: u32, user: String, address: Option<(IpAddr, u8)>) -> Counted {
    Counted { slot, user, address, packets: 0, octets: 0 }
}

fn address(key: &UserKey) -> Option<(IpAddr, u8)> {
    match *key {
        UserKey::Ipv4 { first, .. } => Some((first.into(), 32)),
        UserKey::Ipv6 { first, prefix_len, .. } => Some((first.into(), prefix_len)),
        _ => None,
    }
}
