//! Nodes behind N4 that register.
//!
//! The controller asks each node that connects, and one for N4 says where control planes would find
//! it. It has a number from then on, which is durable before it is told and which no other node has
//! later. The file comes first: what it says of a name, a number or an address holds.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use weft_mobility_protocol::NodeId;
use weft_mobility_transport::note::{N4Note, Note, Question};

use super::super::Engine;
use super::super::events::Happening;
use crate::config::Configuration;
use crate::members::Members;
use crate::n4::nodes::{N4NodeRecord, N4NodeRecords};
use crate::n4::{N4, N4Node, PORT};

/// Nodes that are behind N4 because they have registered, at most: each has heartbeats and what is
/// about the whole.
const MOST: usize = 1024;
/// How often nodes are asked again that cannot be behind N4.
const AGAIN: Duration = Duration::from_secs(5);

/// What the engine knows of nodes behind N4.
#[derive(Debug)]
pub struct Behind {
    records: N4NodeRecords,
    /// Those of the file, as it was last.
    file: Vec<N4Node>,
    /// The numbers of the file are among the records.
    is_noted: bool,
    /// Nodes that are connected and cannot be behind N4.
    refused: BTreeMap<NodeId, NotBehind>,
    asked: Instant,
}

/// Why a node that registers is not behind N4.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotBehind {
    /// It has no address that N4 can reach.
    #[error("none of the addresses of its `pfcp.listen` is of a family of `n4.listen`")]
    Family,
    /// Several machines, or none, have the address.
    #[error("{0} is no address of one machine that others reach")]
    NoMachine(IpAddr),
    /// The controller has it.
    #[error("{0} is an address of `n4.listen`")]
    Own(IpAddr),
    /// Control planes have it.
    #[error("{0} is in `n4.peers`, where control planes are")]
    Peer(IpAddr),
    /// Another node has it.
    #[error("{0} is the address of {1}")]
    Taken(IpAddr, String),
    /// Its sessions may be at either of two nodes.
    #[error("it is one of a pair: name the pair in `n4.nodes`")]
    Pair,
    /// There are too many.
    #[error("{MOST} nodes have registered, and no more are taken")]
    Full,
    /// There are too few numbers.
    #[error("each of the 65535 numbers is one that another node has or had")]
    NoNumber,
}

impl Behind {
    /// Goes on where records end.
    pub fn new(records: N4NodeRecords, configuration: &Configuration, now: Instant) -> Behind {
        let file = configuration.n4.as_ref().map(|n4| n4.nodes.clone()).unwrap_or_default();
        Behind { records, file, is_noted: false, refused: BTreeMap::new(), asked: now }
    }

    /// Whether the file says something of a name, a number or an address.
    fn is_in_file(&self, number: u16, name: &str, address: IpAddr) -> bool {
        let meets =
            |one: &N4Node| one.number == number || one.name == name || one.address.ip() == address;
        self.file.iter().any(meets)
    }

    fn file_has(&self, number: u16) -> bool {
        self.file.iter().any(|one| one.number == number)
    }

    /// A number for a node that has had none: its own if that is free, otherwise the lowest that is
    /// free and no other node's own.
    fn free_number(&self, own: NodeId, members: &Members) -> Option<u16> {
        let of_file: HashSet<u16> = self.file.iter().map(|one| one.number).collect();
        let is_free =
            |number: &u16| self.records.get(*number).is_none() && !of_file.contains(number);
        let own = u16::try_from(own.0).ok().filter(|own| *own > 0).filter(is_free);
        let all = members.all();
        let of_members: HashSet<u32> = all.iter().map(|member| member.number.0).collect();
        let is_no_members = |number: &u16| !of_members.contains(&u32::from(*number));
        let mut numbers = 1..=u16::MAX;
        own.or_else(|| numbers.clone().find(|number| is_free(number) && is_no_members(number)))
            .or_else(|| numbers.find(is_free))
    }
}

impl Engine {
    /// N4, if nodes may register for it.
    fn open_n4(&self) -> Option<&N4> {
        self.configuration.n4.as_ref().filter(|n4| n4.registers)
    }

    /// A node that has connected is asked whether it is one for N4.
    pub(in crate::engine) fn ask_for_n4(&self, node: NodeId) {
        if self.open_n4().is_some() {
            self.transport.note(node, &Note::Places(vec![Question::N4.place()]));
        }
    }

    /// A node is not connected any more.
    pub(in crate::engine) fn forget_for_n4(&mut self, node: NodeId) {
        self.behind.refused.remove(&node);
    }

    /// A node says where control planes would find it. It is told what it is once that is durable.
    pub(in crate::engine) fn said_n4(&mut self, from: NodeId, said: &N4Note) {
        let registers = self.configuration.n4.as_ref().filter(|n4| n4.registers).cloned();
        // It may have been removed since.
        let (Some(n4), Some(member)) = (registers, self.members.get(from)) else { return };
        let answer = match self.take_behind(from, &member.name, said, &n4) {
            Ok(number) => {
                self.behind.refused.remove(&from);
                N4Note { number, ..N4Note::default() }
            }
            Err(why) => {
                let reason = why.to_string();
                if self.behind.refused.insert(from, why.clone()) != Some(why) {
                    tracing::warn!(
                        node = from.0,
                        name = member.name,
                        "a node cannot be behind N4: {reason}"
                    );
                    self.tell_event(Happening::not_behind_n4(member.name, reason.clone()));
                }
                N4Note { reason, ..N4Note::default() }
            }
        };
        let sender = self.transport.clone();
        self.answers.push(Box::new(move || _ = sender.note(from, &Note::N4(answer))));
    }

    /// The number of a node that says where it is.
    fn take_behind(
        &mut self,
        from: NodeId,
        name: &str,
        said: &N4Note,
        n4: &N4,
    ) -> Result<u16, NotBehind> {
        if self.pairs.iter().any(|pair| pair.couple.has(from)) {
            return Err(NotBehind::Pair);
        }
        // It has the share of another node, and is behind N4 by that.
        if let Some(number) = self.shares.held_by(name) {
            return Ok(number);
        }
        if let Some(node) = self.behind.file.iter().find(|node| node.name == name) {
            return Ok(node.number);
        }
        let address = self.fitting(name, said, n4)?;
        let known = self.behind.records.of(name).filter(|number| !self.behind.file_has(*number));
        let record = N4NodeRecord { name: name.to_owned(), address: Some(address) };
        let before = known.and_then(|number| self.behind.records.get(number));
        if let Some(number) = known.filter(|_| before == Some(&record)) {
            return Ok(number);
        }
        let is_new = before.is_none_or(|before| before.address.is_none());
        if is_new && self.behind.records.registered().count() >= MOST {
            return Err(NotBehind::Full);
        }
        let number = known.or_else(|| self.behind.free_number(from, &self.members));
        let number = number.ok_or(NotBehind::NoNumber)?;
        tracing::info!(node = from.0, name, number, %address, "a node is behind N4");
        self.changes.push(self.behind.records.put(number, record));
        self.tell_event(Happening::n4(name.to_owned(), "registered"));
        Ok(number)
    }

    /// The first address that N4 can reach, and that nothing else has. Who can send with an address
    /// that is taken for a node's is heard as that node, so no control plane's is taken for one.
    fn fitting(&self, name: &str, said: &N4Note, n4: &N4) -> Result<IpAddr, NotBehind> {
        let is_reached = |one: &&IpAddr| n4.listen.iter().any(|own| own.is_ipv4() == one.is_ipv4());
        let address = *said.addresses.iter().find(is_reached).ok_or(NotBehind::Family)?;
        let is_near = |one: IpAddr| one.is_loopback();
        let is_broadcast = matches!(address, IpAddr::V4(one) if one.is_broadcast());
        let is_unreached = is_near(address) && !n4.listen.iter().any(|own| is_near(*own));
        if address.is_unspecified() || address.is_multicast() || is_broadcast || is_unreached {
            return Err(NotBehind::NoMachine(address));
        }
        if n4.listen.contains(&address) {
            return Err(NotBehind::Own(address));
        }
        if n4.is_of_peers(address) {
            return Err(NotBehind::Peer(address));
        }
        let of_file = self.behind.file.iter().map(|one| (&*one.name, one.address.ip()));
        let registered = self.behind.records.registered().map(|(_, name, at)| (name, at));
        let mut others = of_file.chain(registered).filter(|(other, _)| *other != name);
        let other = others.find(|(_, at)| *at == address).map(|(other, _)| other.to_owned());
        let other = other.or_else(|| self.spare_at(address).filter(|other| other != name));
        other.map_or(Ok(address), |other| Err(NotBehind::Taken(address, other)))
    }

    /// A process of a node waits as a spare node: it is none behind N4 until it has a share. One
    /// whose own share is at another node stays what that share is named after.
    pub(in crate::engine) fn waits_as_spare(&mut self, name: &str) {
        let number = self.behind.records.registered_as(name);
        if let Some(number) = number.filter(|number| self.shares.is_at_home(*number, name)) {
            self.give_up_number(number, name);
        }
    }

    /// A node that had registered is none of the site any more.
    pub(in crate::engine) fn forget_behind(&mut self, name: &str) {
        if let Some(number) = self.behind.records.registered_as(name) {
            self.give_up_number(number, name);
        }
    }

    /// Nodes that had registered, and are none of the site any more: those of the file as it was
    /// when the last controller started.
    pub(in crate::engine) fn forget_strangers_behind(&mut self) {
        let registered = self.behind.records.registered();
        let is_stranger = |name: &str| self.members.named(name).is_none();
        let strangers: Vec<_> = registered
            .filter(|(_, name, _)| is_stranger(name))
            .map(|(number, name, _)| (number, name.to_owned()))
            .collect();
        strangers.into_iter().for_each(|(number, name)| self.give_up_number(number, &name));
    }

    /// A node is none behind N4. Its number stays its own.
    fn give_up_number(&mut self, number: u16, name: &str) {
        tracing::info!(name, number, "a node is not behind N4 any more");
        let record = N4NodeRecord { name: name.to_owned(), address: None };
        self.changes.push(self.behind.records.put(number, record));
    }

    /// The nodes of the file, and those that have registered, by number.
    pub(super) fn nodes_behind(&mut self, of_file: Vec<N4Node>) -> Vec<N4Node> {
        if self.open_n4().is_none() {
            return of_file;
        }
        if self.behind.file != of_file || !self.behind.is_noted {
            self.behind.file = of_file;
            self.behind.is_noted = true;
            self.note_file();
        }
        let now = self.clock.now();
        if now.saturating_duration_since(self.behind.asked) >= AGAIN {
            self.behind.asked = now;
            self.behind.refused.keys().for_each(|node| self.ask_for_n4(*node));
        }
        let behind = &self.behind;
        let mut all = behind.file.clone();
        let registered = behind.records.registered();
        let fits = registered.filter(|(number, name, at)| !behind.is_in_file(*number, name, *at));
        all.extend(fits.map(|(number, name, address)| N4Node {
            name: name.to_owned(),
            number,
            address: SocketAddr::new(address, PORT),
        }));
        all.sort_by_key(|node| node.number);
        all
    }

    /// The file has changed: its numbers are not another node's from now on. What it says of others
    /// that have registered may be otherwise, so they are asked.
    fn note_file(&mut self) {
        for node in self.behind.file.clone() {
            let known = self.behind.records.get(node.number);
            if known.is_none_or(|known| known.name != node.name) {
                let record = N4NodeRecord { name: node.name, address: None };
                self.changes.push(self.behind.records.put(node.number, record));
            }
        }
        for member in self.members.all() {
            self.ask_for_n4(member.number);
        }
    }

    /// The nodes behind N4 that have registered, by number.
    pub fn n4_registered(&self) -> Vec<u16> {
        self.behind.records.registered().map(|(number, ..)| number).collect()
    }

    /// Nodes that are connected and cannot be behind N4, by name, and why.
    pub fn n4_refused(&self) -> Vec<(String, String)> {
        let refused = self.behind.refused.iter();
        refused.map(|(node, why)| (self.name(*node), why.to_string())).collect()
    }
}
