//! The part of the node that owns the users.

use std::sync::mpsc::{Receiver, Sender, sync_channel};
use std::thread;

use weft_mobility_protocol::standby::{Position, StandbyStep, Standing};
use weft_mobility_protocol::{Epoch, Incarnation, NodeId};
use weft_state::{Feed, Piece};

use crate::clock::milliseconds;
use crate::handoff::Handoff;
use crate::input::Input;
use crate::sending::{Out, Sending};
use crate::view::{PairView, Role};

/// A standby that is no further behind begins to be waited for, in octets.
const NEAR: usize = 256 << 10;

/// Whether the standby has all records, as the controller is told. Answers wait in all states
/// but the first: what was answered without the standby, the controller must know to be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    /// It has not, and the controller knows.
    Alone,
    /// It has; the controller is told.
    Joins,
    /// It has, and the controller knows.
    Whole,
    /// It has not any more; the controller is told.
    Parts,
}

/// An owner.
#[derive(Debug)]
pub(crate) struct Owner {
    pub epoch: Epoch,
    stream: Incarnation,
    feed: Feed,
    /// Answers wait for the standby.
    waits: bool,
    pub peer: Option<NodeId>,
    lease: u64,
    /// Until when the users are owned, by the word of the controller or the standby.
    until: u64,
    follow: Follow,
    /// Only the answer to a claim from then on says that the controller knows it.
    since: u64,
    sending: Sending,
    /// When the standby was heard.
    heard: Option<u64>,
    /// When the standby had all.
    level: u64,
    copies: u64,
    pieces: u64,
    pub refused: u64,
}

impl Owner {
    pub fn new((epoch, stream): (Epoch, Incarnation), feed: Feed, waits: bool, now: u64) -> Owner {
        feed.hold(waits);
        Owner {
            epoch,
            stream,
            feed,
            waits,
            peer: None,
            lease: 0,
            until: 0,
            follow: Follow::Parts,
            since: now,
            sending: Sending::Nothing,
            heard: None,
            level: now,
            copies: 0,
            pieces: 0,
            refused: 0,
        }
    }

    /// Goes on in another process of the node. Where the standby has all, it need not be given
    /// all again; what is answered waits for it until the controller has heard that it has.
    pub fn taken_over(
        handoff: &Handoff,
        (incarnation, waits): (Incarnation, bool),
        feed: Feed,
        (now, until): (u64, u64),
    ) -> Owner {
        let stream = handoff.level.map_or(incarnation, |(stream, _)| stream);
        if let Some((_, newest)) = handoff.level {
            feed.go_on_behind(newest);
        }
        let follow = if handoff.level.is_some() { Follow::Joins } else { Follow::Parts };
        Owner {
            peer: handoff.peer,
            lease: handoff.lease,
            until,
            follow,
            heard: handoff.level.map(|_| now),
            ..Owner::new((handoff.epoch, stream), feed, waits, now)
        }
    }

    /// What another process of the node goes on with.
    pub fn handoff(&self, now: u64) -> Handoff {
        let has_all = matches!(self.follow, Follow::Joins | Follow::Whole) && self.is_level();
        Handoff {
            epoch: self.epoch,
            peer: self.peer,
            lease: self.lease,
            left: self.until.saturating_sub(now),
            level: has_all.then(|| (self.stream, self.feed.newest())),
        }
    }

    /// Until when it may carry packets.
    pub fn until(&self) -> u64 {
        self.until
    }

    /// The controller grants the users.
    pub fn granted(&mut self, stamp: u64, lease: u32, whole: bool, peer: NodeId) {
        self.lease = milliseconds(lease);
        self.peer = Some(peer);
        self.until = self.until.max(stamp + self.lease);
        if stamp < self.since {
            return;
        }
        match (self.follow, whole) {
            (Follow::Joins, true) => {
                self.follow = Follow::Whole;
                tracing::info!(epoch = self.epoch.0, "the standby has all records");
            }
            (Follow::Parts, false) => {
                self.follow = Follow::Alone;
                self.feed.hold(false);
            }
            _ => {}
        }
    }

    /// What it says to the controller, and to the standby.
    pub fn beat(&mut self, now: u64) -> (StandbyStep, Option<StandbyStep>) {
        if !self.hears(now) && matches!(self.follow, Follow::Joins | Follow::Whole) {
            self.part("it is not heard", now);
        }
        let claim = StandbyStep::Claim {
            epoch: self.epoch,
            stamp: now,
            standing: Standing::Owns,
            whole: matches!(self.follow, Follow::Joins | Follow::Whole),
            hears: self.hears(now),
            built: false,
        };
        (claim, self.peer.map(|_| self.alive(now, false)))
    }

    /// A sign of life, or the last one.
    pub fn alive(&self, now: u64, leaves: bool) -> StandbyStep {
        let newest = self.feed.newest();
        StandbyStep::Alive { epoch: self.epoch, stamp: now, newest, leaves }
    }

    fn hears(&self, now: u64) -> bool {
        self.heard.is_some_and(|heard| now - heard <= self.lease)
    }

    fn part(&mut self, why: &str, now: u64) {
        tracing::warn!(epoch = self.epoch.0, "the node goes on without its standby: {why}");
        (self.follow, self.since) = (Follow::Parts, now);
        self.feed.hold(self.waits);
    }

    /// The standby says how far it is; the stamp is 0 where it is not of this process.
    pub fn attended(&mut self, stamp: u64, position: Position, now: u64, inputs: &Sender<Input>) {
        if stamp > 0 {
            self.until = self.until.max(stamp + self.lease);
        }
        self.heard = Some(now);
        let is_ours = position.stream == self.stream;
        match &mut self.sending {
            Sending::Nothing => {
                if is_ours && position.whole && self.feed.reaches_back_to(position.number) {
                    self.go_on(position, now);
                } else if self.follow == Follow::Alone {
                    self.ask_for_copy(inputs);
                } else if self.follow != Follow::Parts {
                    self.part("it has lost its records", now);
                }
            }
            Sending::Asked => {}
            Sending::Copy(copy) => {
                if is_ours && position.base == copy.base() && position.whole {
                    self.go_on(position, now);
                } else {
                    let is_of_it = is_ours && position.base == copy.base();
                    let number = if is_of_it { position.number } else { 0 };
                    if !copy.reached(number, now) {
                        self.sending = Sending::Nothing;
                    }
                }
            }
            Sending::Changes(changes) => {
                if is_ours && position.whole {
                    changes.reached(position.number, now);
                    self.feed.reached(position.number);
                } else {
                    self.sending = Sending::Nothing;
                }
            }
        }
        self.look_at_progress(now);
    }

    fn go_on(&mut self, position: Position, now: u64) {
        self.feed.keep(true);
        self.feed.begin(position.number);
        self.sending = Sending::changes(position, now);
    }

    fn look_at_progress(&mut self, now: u64) {
        if !matches!(self.sending, Sending::Changes(_)) {
            return;
        }
        let (octets, _) = self.feed.waiting();
        if octets == 0 {
            self.level = now;
        }
        if self.follow == Follow::Alone && octets <= NEAR {
            (self.follow, self.since) = (Follow::Joins, now);
            self.feed.hold(self.waits);
        }
    }

    /// Changes are kept from before the copy is made.
    fn ask_for_copy(&mut self, inputs: &Sender<Input>) {
        self.feed.keep(true);
        let inputs = inputs.clone();
        let asked = self.feed.copy(Box::new(move |copied| {
            let (snapshot, base) = match copied {
                Ok(copied) => copied,
                Err(error) => {
                    tracing::error!("{error}: the standby cannot be given a copy");
                    return drop(inputs.send(Input::NoCopy));
                }
            };
            let (pieces, source) = sync_channel(8);
            let read = move || {
                let more = inputs.clone();
                drop(inputs.send(Input::Copy(base, source)));
                let sent = snapshot
                    .pieces(|piece| pieces.send(piece).is_ok() && more.send(Input::Fed).is_ok());
                if let Err(error) = sent {
                    tracing::error!("{error}: the standby cannot be given a copy");
                }
            };
            // Without a thread the source ends at once, and a copy is asked for again.
            if let Err(error) = thread::Builder::new().name("copy".to_owned()).spawn(read) {
                tracing::error!(%error, "no thread to copy records");
            }
        }));
        if asked {
            self.copies += 1;
            self.sending = Sending::Asked;
        }
    }

    /// A copy comes; none where it cannot be made.
    pub fn copies(&mut self, copy: Option<(u64, Receiver<Piece>)>, now: u64) {
        self.sending = match copy {
            Some((base, source)) => Sending::copy(base, source, now),
            None => Sending::Nothing,
        };
    }

    /// What may be sent now.
    pub fn pump(&mut self, now: u64) -> Vec<StandbyStep> {
        let mut out: Vec<Out> = Vec::new();
        if !self.hears(now) {
            return Vec::new();
        }
        if !self.sending.pump(self.stream, &self.feed, now, &mut out) {
            self.sending = Sending::Nothing;
            if matches!(self.follow, Follow::Joins | Follow::Whole) {
                self.part("it is too far behind", now);
            }
        }
        self.pieces += out.len() as u64;
        let epoch = self.epoch;
        let records = out.into_iter().map(|(at, piece)| StandbyStep::Records {
            epoch,
            at,
            is_last: piece.is_last,
            octets: piece.octets.to_vec(),
        });
        records.collect()
    }

    /// Whether the standby has all that is durable here.
    pub fn is_level(&self) -> bool {
        matches!(self.sending, Sending::Changes(_)) && self.feed.waiting().0 == 0
    }

    pub fn view(&self, now: u64) -> PairView {
        let (waiting, answers) = self.feed.waiting();
        PairView {
            built: false,
            role: Role::Active,
            epoch: self.epoch.0,
            peer: self.peer.map_or(0, |peer| peer.0),
            hears: self.hears(now),
            whole: self.follow == Follow::Whole,
            lease: self.until.saturating_sub(now),
            lag: if self.is_level() { 0 } else { now - self.level },
            waiting: waiting as u64,
            answers: answers as u64,
            copies: self.copies,
            pieces: self.pieces,
            refused: self.refused,
        }
    }
}
