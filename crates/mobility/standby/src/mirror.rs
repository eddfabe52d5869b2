//! The part of the node that stands by: the records of the owner, in its own store.

use std::io;
use std::sync::mpsc::Sender;

use weft_mobility_protocol::standby::{Position, StandbyStep, Standing};
use weft_mobility_protocol::{Epoch, NodeId};
use weft_state::{Change, Durability, StateError, Store, Writer, read_changes};

use crate::clock::milliseconds;
use crate::follow::Follow;
use crate::input::Input;
use crate::kept::Kept;
use crate::view::{PairView, Role};

/// Octets of changes that belong together, of which the end has not come.
const LONGEST: usize = 256 << 20;

/// A standby, and a node that does not know yet what it is.
pub(crate) struct Mirror {
    writer: Option<Writer>,
    /// What is in the store, or on its way there.
    kept: Kept,
    /// How far the store is for sure.
    durable: Position,
    /// The highest epoch by which the other node owns the users.
    pub epoch: Epoch,
    pub peer: Option<NodeId>,
    lease: u64,
    /// When the owner was heard, the stamp that it said, and its newest changes.
    heard: Option<u64>,
    stamp: u64,
    newest: u64,
    /// It has said that it has stopped.
    has_left: bool,
    /// When the stamp came for which the owner was promised a lease.
    promised: Option<u64>,
    /// Changes whose end has not come.
    parts: Vec<Change>,
    octets: usize,
    denied: bool,
    copies: u64,
    pieces: u64,
    pub refused: u64,
    /// What the node is given meanwhile.
    pub follow: Follow,
}

impl Mirror {
    /// A node that lets changes of `bound` octets wait has this store.
    pub fn new(store: Store, bound: usize) -> Result<Mirror, StateError> {
        let kept = Kept::read(&store)?;
        Ok(Mirror {
            writer: Some(start(store).map_err(StateError::Thread)?),
            kept,
            durable: kept.position,
            epoch: kept.epoch,
            peer: None,
            lease: milliseconds(500),
            heard: None,
            stamp: 0,
            newest: 0,
            has_left: false,
            promised: None,
            parts: Vec::new(),
            octets: 0,
            denied: false,
            copies: 0,
            pieces: 0,
            refused: 0,
            follow: Follow::new(bound),
        })
    }

    /// Whether it may own the users: all records are durable here.
    fn is_whole(&self) -> bool {
        let is_current = self.kept.epoch == self.epoch;
        is_current && self.kept.is_whole() && (self.kept.owned || self.durable.whole)
    }

    fn hears(&self, now: u64) -> bool {
        !self.has_left && self.heard.is_some_and(|heard| now - heard <= self.lease)
    }

    /// Whether it has all records, and has not heard the owner for a lease; no longer once it
    /// has not for some leases.
    pub fn misses_owner(&self, now: u64) -> bool {
        /// In leases.
        const PATIENCE: u64 = 4;
        let silent = self.heard.map_or(u64::MAX, |heard| now - heard);
        let misses = self.has_left || silent > self.lease;
        misses && silent < PATIENCE * self.lease && self.is_whole()
    }

    /// What it says to the controller.
    pub fn claim(&self, now: u64) -> StandbyStep {
        StandbyStep::Claim {
            epoch: self.epoch,
            stamp: now,
            standing: Standing::Stands,
            whole: self.is_whole(),
            hears: self.hears(now),
            built: self.follow.is_built(),
        }
    }

    /// What it says to the owner, with a promise not to own the users for a lease from the
    /// stamp on, which it has heard later than the owner had said it.
    pub fn attend(&self) -> Option<StandbyStep> {
        self.peer.filter(|_| self.denied)?;
        let position = match self.kept {
            Kept { epoch, owned: false, .. } if epoch == self.epoch => self.durable,
            _ => Position::default(),
        };
        Some(StandbyStep::Attend { epoch: self.epoch, stamp: self.stamp, position })
    }

    /// The other node owns the users.
    pub fn denied(&mut self, epoch: Epoch, lease: u32, peer: NodeId) {
        self.lease = milliseconds(lease);
        self.peer = Some(peer);
        if epoch < self.epoch {
            return;
        }
        if epoch > self.epoch || !self.denied {
            self.epoch = epoch;
            (self.heard, self.stamp, self.has_left) = (None, 0, false);
            self.denied = true;
            tracing::info!(epoch = epoch.0, owner = peer.0, "the node stands by");
        }
    }

    /// Whether the users may be owned by a grant: the other node has no promise any more. No
    /// further one is made.
    pub fn may_own(&mut self, epoch: Epoch, lease: u32, peer: NodeId, now: u64) -> bool {
        self.lease = milliseconds(lease);
        self.peer = Some(peer);
        if epoch < self.epoch {
            return false;
        }
        self.denied = false;
        self.has_left || self.promised.is_none_or(|promised| now - promised > self.lease)
    }

    /// The owner lives, or leaves: whether it lives. None of an epoch that is over.
    pub fn alive(
        &mut self,
        epoch: Epoch,
        (stamp, newest, leaves): (u64, u64, bool),
        now: u64,
    ) -> Option<bool> {
        if epoch != self.epoch || !self.denied {
            self.refused += 1;
            return None;
        }
        (self.heard, self.stamp, self.newest, self.has_left) = (Some(now), stamp, newest, leaves);
        self.promised = Some(now);
        Some(!leaves)
    }

    /// Records, or changes of them. Those that are not the next are left: they come again.
    pub fn records(
        &mut self,
        (epoch, at, is_last): (Epoch, Position, bool),
        octets: &[u8],
        now: u64,
        inputs: &Sender<Input>,
    ) -> Result<(), String> {
        if epoch != self.epoch || !self.denied {
            self.refused += 1;
            return Ok(());
        }
        self.heard = Some(now);
        if !at.whole && at.number == 0 && !self.has_begun(at) {
            self.begin(at).map_err(|error| error.to_string())?;
        }
        if !self.is_next(at) {
            return Ok(());
        }
        let changes = read_changes(octets).ok_or("records that are none")?;
        self.pieces += 1;
        let is_copy = !at.whole;
        self.kept.position.number += 1;
        self.octets += octets.len();
        self.parts.extend(changes);
        if self.octets > LONGEST {
            return Err("changes that do not end".to_owned());
        }
        if !is_copy && !is_last {
            return Ok(());
        }
        if is_copy && is_last {
            self.kept.position = Position { whole: true, number: at.base, ..at };
        }
        self.octets = 0;
        let mut changes = std::mem::take(&mut self.parts);
        changes.push(self.kept.change());
        let (inputs, position) = (inputs.clone(), self.kept.position);
        let done = move |outcome: Result<(), _>| {
            let _ = inputs.send(match outcome {
                Ok(()) => Input::Durable(position),
                Err(_) => Input::NotDurable,
            });
        };
        self.follow.changed(&changes);
        if let Some(writer) = &self.writer {
            writer.write(changes, vec![Box::new(done)]);
        }
        Ok(())
    }

    /// A copy of this position is on its way here, or has come: its pieces may come twice.
    fn has_begun(&self, at: Position) -> bool {
        let Position { stream, base, .. } = self.kept.position;
        self.is_current() && (stream, base) == (at.stream, at.base)
    }

    fn is_current(&self) -> bool {
        self.kept.epoch == self.epoch && !self.kept.owned
    }

    fn is_next(&self, at: Position) -> bool {
        let Position { stream, whole, number, .. } = self.kept.position;
        let next = if whole { number + 1 } else { number };
        self.is_current() && (stream, whole, next) == (at.stream, at.whole, at.number)
    }

    /// A copy begins: nothing of before holds.
    fn begin(&mut self, at: Position) -> Result<(), StateError> {
        let store = self.writer.take().and_then(Writer::stop);
        let mut store = store.ok_or_else(ended)?;
        self.copies += 1;
        self.follow.anew();
        self.kept = Kept { epoch: self.epoch, owned: false, position: at };
        self.durable = Position::default();
        (self.parts, self.octets) = (Vec::new(), 0);
        store.clear()?;
        store.write(&[self.kept.change()])?;
        self.writer = Some(start(store).map_err(StateError::Thread)?);
        Ok(())
    }

    /// Gives the node all records, if it has none and all are here.
    pub fn follow(&mut self, inputs: &Sender<Input>) {
        if let Some(writer) = &self.writer
            && self.denied
            && self.is_whole()
            && !self.kept.owned
        {
            self.follow.begin(writer, inputs);
        }
    }

    /// What was on its way is durable.
    pub fn durable(&mut self, position: Position) {
        // A copy may have begun meanwhile.
        if position.stream == self.kept.position.stream && position.base == self.kept.position.base
        {
            self.durable = position;
        }
    }

    /// The node owns the users: the store with all that was taken.
    pub fn own(&mut self, epoch: Epoch) -> Result<Store, StateError> {
        let store = self.writer.take().and_then(Writer::stop);
        let mut store = store.ok_or_else(ended)?;
        let behind = self.newest.saturating_sub(self.kept.position.number);
        if behind > 0 && self.kept.position.whole && !self.has_left {
            tracing::warn!(pieces = behind, "changes of the other node have not come here");
        }
        self.kept = Kept { epoch, owned: true, position: Position::default() };
        store.write(&[self.kept.change()])?;
        Ok(store)
    }

    pub fn view(&self, now: u64) -> PairView {
        PairView {
            role: if self.denied { Role::Standby } else { Role::Unknown },
            epoch: self.epoch.0,
            peer: self.peer.map_or(0, |peer| peer.0),
            hears: self.hears(now),
            whole: self.is_whole(),
            copies: self.copies,
            pieces: self.pieces,
            refused: self.refused,
            built: self.follow.is_built(),
            ..PairView::default()
        }
    }
}

fn start(store: Store) -> io::Result<Writer> {
    Writer::start(store, Durability::Durable)
}

fn ended() -> StateError {
    StateError::Thread(io::Error::other("it has ended"))
}
