//! The states of neighbours, and what leads from one to another.
//!
//! | state      | asked for  | time passes        | answers       | confirmed | speaks  | anew        |
//! |------------|------------|--------------------|---------------|-----------|---------|-------------|
//! | none       | Incomplete | —                  | —             | —         | (Stale) | (Stale)     |
//! | Incomplete | —          | 3 × 1 s: none `F`  | Reachable `R` | —         | —       | Probing `R` |
//! | Stale      | Probing    | —                  | —             | —         | —       | Stale       |
//! | Probing    | —          | 3 × 1 s: none `F`ᴸ | Reachable     | Reachable | —       | Probing `R` |
//! | Reachable  | —          | 30 s: Probing      | —             | Reachable | —       | Probing `R` |
//! | Permanent  | —          | —                  | —             | —         | —       | —           |
//!
//! ᴸ Where messages were lost in these 3 s, which may have been the answer, it is asked
//! three times more. *Confirmed* is what a protocol above says of the way through the
//! neighbour (RFC 4861 §7.3.1): a GTP-U peer behind it has answered.
//!
//! *Speaks* is a frame of the neighbour that does not answer the node, *anew* one
//! from another MAC address than before. `R` and `F` stand for the events
//! Resolved and Failed; an answer from another MAC address is `R` in Probing too.
//! Who is unknown and speaks becomes Stale only if it speaks to the node. An
//! advertisement that does not want to replace what is known (RFC 4861 §7.2.5)
//! only makes Reachable into Probing. An entry that becomes Incomplete or Probing asks
//! at once: everyone in the former, the known MAC address in the latter.
//!
//! What is not RFC 4861's: a neighbour that was asked for once is probed every
//! 30 s whether it is used or not, since those who use it do not say so. Stale
//! is therefore only what was not asked for yet, and DELAY is not needed.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

use weft_wire::MacAddress;

use super::{Event, Link};
use crate::ports::loss::Loss;

/// Nanoseconds between two questions without an answer (RFC 4861 §10).
const RETRANSMIT: u64 = 1_000_000_000;
/// Questions without an answer until a neighbour is given up (RFC 4861 §10).
const TRIES: u8 = 3;
/// Nanoseconds for which an answer holds (RFC 4861 §10).
const REACHABLE: u64 = 30_000_000_000;
/// No timer runs.
const NEVER: u64 = u64::MAX;

/// How well a neighbour is known, in the order in which they are kept when there
/// is no room for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Given by configuration.
    Permanent,
    /// It answered less than 30 s ago.
    Reachable,
    /// It is asked whether it is still there.
    Probing,
    /// It was asked for and has not been heard of yet.
    Incomplete,
    /// It was heard of and has not been asked for yet.
    Stale,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Permanent => "permanent",
            State::Reachable => "reachable",
            State::Probing => "probing",
            State::Incomplete => "incomplete",
            State::Stale => "stale",
        }
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    state: State,
    /// Known but in Incomplete.
    mac: Option<MacAddress>,
    /// Questions that were asked in this state.
    tries: u8,
    /// When the first of them was.
    asked: u64,
    /// When its timer ends.
    due: u64,
    /// Its last sign of life, or when it was first asked for.
    seen: u64,
}

/// When something happens, to whom, and where its consequences go.
pub(super) struct Moment<'a> {
    pub(super) now: u64,
    pub(super) link: &'a Link,
    pub(super) events: &'a mut Vec<Event>,
}

impl Moment<'_> {
    fn request(&mut self, address: IpAddr, known: Option<MacAddress>) {
        self.events.extend(self.link.request(address, known).map(Event::Send));
    }
}

/// What a frame says of a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sign {
    /// The MAC address it speaks from; `None` where it does not say.
    pub(super) mac: Option<MacAddress>,
    /// It answers the node, so it hears the node.
    pub(super) answers: bool,
    /// It wants to replace what is known.
    pub(super) replaces: bool,
    /// It speaks to the node and is worth remembering.
    pub(super) introduces: bool,
}

/// The neighbours by address.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) entries: BTreeMap<IpAddr, Entry>,
    /// Most entries, permanent ones included.
    capacity: usize,
    /// No timer ends before this.
    due: u64,
}

impl Table {
    pub(super) fn new(permanent: &[(IpAddr, MacAddress)], capacity: usize) -> Self {
        let entry = |&(address, mac)| {
            let state = State::Permanent;
            (address, Entry { state, mac: Some(mac), ..Entry::new(0) })
        };
        let entries: BTreeMap<_, _> = permanent.iter().map(entry).collect();
        Self { capacity: entries.len() + capacity.max(1), entries, due: NEVER }
    }

    /// Address, state, MAC address and last sign of life of each.
    pub(super) fn iter(
        &self,
    ) -> impl Iterator<Item = (IpAddr, &'static str, Option<MacAddress>, u64)> {
        let entries = self.entries.iter();
        entries.map(|(address, entry)| (*address, entry.state.name(), entry.mac, entry.seen))
    }

    /// The MAC address of a neighbour, if it is known.
    pub(super) fn mac(&self, address: IpAddr) -> Option<MacAddress> {
        self.entries.get(&address)?.mac
    }

    /// A packet is to be sent to a neighbour.
    pub(super) fn want(&mut self, address: IpAddr, moment: &mut Moment) -> Option<MacAddress> {
        let entry = match self.entries.get_mut(&address) {
            Some(entry) if entry.state == State::Stale => entry,
            Some(entry) => return entry.mac,
            None => {
                self.make_room(moment);
                self.entries.entry(address).or_insert(Entry::new(moment.now))
            }
        };
        entry.ask(address, moment);
        self.due = self.due.min(entry.due);
        entry.mac
    }

    /// A frame speaks of a neighbour.
    pub(super) fn hear(&mut self, address: IpAddr, sign: Sign, moment: &mut Moment) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.hear(address, sign, moment);
            self.due = self.due.min(entry.due);
        } else if sign.introduces && sign.mac.is_some() && self.has_room_for_stale(moment) {
            self.entries.insert(address, Entry { mac: sign.mac, ..Entry::new(moment.now) });
        }
    }

    /// A neighbour that was asked for is there, as others know.
    pub(super) fn confirm(&mut self, address: IpAddr, now: u64) {
        let entry = self.entries.get_mut(&address);
        let known = |entry: &&mut Entry| matches!(entry.state, State::Reachable | State::Probing);
        if let Some(entry) = entry.filter(known) {
            entry.reached(now);
            self.due = self.due.min(entry.due);
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, loss: &Loss, moment: &mut Moment) {
        if moment.now < self.due {
            return;
        }
        self.entries.retain(|address, entry| entry.tick(*address, loss, moment));
        self.due = self.entries.values().map(|entry| entry.due).min().unwrap_or(NEVER);
    }

    /// Room without giving up a neighbour that was asked for: those who merely
    /// speak to the node cannot make it forget those it speaks to.
    fn has_room_for_stale(&mut self, moment: &mut Moment) -> bool {
        if self.is_full() && self.least_known().is_some_and(|(_, state)| state == State::Stale) {
            self.make_room(moment);
        }
        !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    fn make_room(&mut self, moment: &mut Moment) {
        if !self.is_full() {
            return;
        }
        let Some((address, state)) = self.least_known() else { return };
        self.entries.remove(&address);
        if state != State::Stale {
            moment.events.push(Event::Failed(address));
        }
    }

    /// The neighbour that makes room first.
    fn least_known(&self) -> Option<(IpAddr, State)> {
        let others = self.entries.iter().filter(|(_, entry)| entry.state != State::Permanent);
        let (address, entry) =
            others.max_by_key(|(_, entry)| (entry.state, Reverse(entry.seen)))?;
        Some((*address, entry.state))
    }
}

impl Entry {
    /// Nothing is known, and nothing was asked.
    fn new(now: u64) -> Self {
        Self { state: State::Stale, mac: None, tries: 0, asked: now, due: NEVER, seen: now }
    }

    /// Asks for the first time in a new state.
    fn ask(&mut self, address: IpAddr, moment: &mut Moment) {
        self.state = if self.mac.is_some() { State::Probing } else { State::Incomplete };
        self.tries = 0;
        self.asked = moment.now;
        self.ask_again(address, moment);
    }

    fn reached(&mut self, now: u64) {
        self.state = State::Reachable;
        self.due = now.saturating_add(REACHABLE);
    }

    fn ask_again(&mut self, address: IpAddr, moment: &mut Moment) {
        self.tries += 1;
        self.due = moment.now.saturating_add(RETRANSMIT);
        moment.request(address, self.mac);
    }

    fn hear(&mut self, address: IpAddr, sign: Sign, moment: &mut Moment) {
        let Some(mac) = sign.mac.or(self.mac) else { return };
        let (is_first, is_news) = (self.mac.is_none(), self.mac != Some(mac));
        if self.state == State::Permanent {
            return;
        }
        if is_news && !is_first && !sign.replaces {
            if self.state == State::Reachable {
                self.ask(address, moment);
            }
            return;
        }
        self.mac = Some(mac);
        self.seen = moment.now;
        match self.state {
            State::Stale => return,
            State::Incomplete | State::Probing if sign.answers => {
                self.reached(moment.now);
            }
            _ if is_news => self.ask(address, moment),
            _ => {}
        }
        if is_news {
            moment.events.push(Event::Resolved(address, mac));
        }
    }

    /// False when the neighbour is given up.
    fn tick(&mut self, address: IpAddr, loss: &Loss, moment: &mut Moment) -> bool {
        if moment.now < self.due {
            return true;
        }
        match self.state {
            State::Reachable => self.ask(address, moment),
            State::Incomplete | State::Probing if self.tries < TRIES => {
                self.ask_again(address, moment);
            }
            State::Probing if loss.is_since(self.asked) => self.ask(address, moment),
            State::Incomplete | State::Probing => {
                moment.events.push(Event::Failed(address));
                return false;
            }
            State::Stale | State::Permanent => {}
        }
        true
    }
}
