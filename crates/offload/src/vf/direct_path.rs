//! The way of a packet through a NIC over several functions, each of which sends it on to the
//! next by that one's MAC address; the last sends it back to the node.
//!
//! The node says the way: behind the tags the context header has an entry of six octets for each
//! function behind the first (its number in two, in four the number of the last order to it that
//! concerns the packet), filled up to whole words. The service path is that of the first
//! function; the service index counts down with each (RFC 8300 §2.2), so it says which function
//! a frame is for, or how far it has come. A function that is past writes into its entry, in
//! place of the order, how long the packet was as it came.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_dataplane::offload::{HOPS, NextHop, NextHops, Past};
use weft_dpdk::{Packet, PortOptions};
use weft_function::{Metadata, PacketMetadata};
use weft_wire::nsh;

use crate::frame::{
    BEFORE_RECORD, ENTRY, ETHERNET, Head, PATH, RECORD, Record, before, head, put_fields,
};

/// Where the length of the context header stands.
const CONTEXT_LENGTH: usize = BEFORE_RECORD - 1;
const INDEX: usize = PATH + 3;
/// Source address of the frame.
const SOURCE: std::ops::Range<usize> = 6..12;

/// Service path identifiers of functions at virtual functions: theirs is this and their
/// number.
pub const PATHS: u32 = 0xff_0000;

/// Service index of packets to the function, and of those that come back from it. Each function
/// that follows counts it down once more.
pub const INDICES: [u8; 2] = [255, 254];

/// The two ends of the way through the NIC, by their MAC addresses, and what it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The node's port.
    pub node: [u8; 6],
    /// What the function receives at.
    pub function: [u8; 6],
    /// Longest packet behind an Ethernet header, in bytes, at either end: what the node's
    /// port carries has to fit into the function's.
    #[serde(default = "usual_mtu")]
    pub mtu: u16,
}

/// That of who does not say it.
fn usual_mtu() -> u16 {
    PortOptions::default().mtu
}

/// Functions that can send packets to each other: their numbers and MAC addresses.
pub type Peers = Arc<[(u16, [u8; 6])]>;

/// Where a frame is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectPath {
    /// Number of the first function, whose queue the packet belongs to.
    pub first: u16,
    /// Functions that it was at before this.
    pub before: u8,
    /// The functions behind the first.
    pub onward: NextHops,
}

impl DirectPath {
    /// The number of the last order to the function at hand.
    pub fn order(&self, head: &Head) -> u32 {
        match usize::from(self.before).checked_sub(1) {
            Some(nth) => self.onward.hops().get(nth).map_or(head.order, |hop| hop.order),
            None => head.order,
        }
    }

    /// Notes how long the packet was as it came to the function at hand.
    pub fn note_length(&mut self, length: usize) {
        if let Some(nth) = usize::from(self.before).checked_sub(1)
            && let Some(hop) = self.onward.hops_mut().get_mut(nth)
        {
            hop.order = length as u32;
        }
    }

    /// How far the packet has come that the function at hand sends back.
    fn past(&self) -> Past {
        let mut past = Past { count: self.before, ..Past::default() };
        for (nth, hop) in self.onward.hops().iter().enumerate() {
            (past.functions[nth], past.lengths[nth]) = (hop.function, hop.order as u16);
        }
        past
    }
}

/// Frames of one function's way, for the packets of one worker, at the node or at the function.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    ends: Ends,
    /// Number of the function.
    own: u16,
    peers: Peers,
    tags: usize,
    worker: u16,
    /// What frames to the first function begin with, by the number of functions behind it.
    begin: [[u8; BEFORE_RECORD]; HOPS + 1],
}

impl Line {
    /// That of the function of this number.
    pub fn new(own: u16, tags: usize, (ends, peers): (Ends, Peers), worker: u16) -> Line {
        let mut link = [0; 12];
        link[..6].copy_from_slice(&ends.function);
        link[6..].copy_from_slice(&ends.node);
        let path = PATHS + u32::from(own);
        let begin = |hops: usize| before(path, tags, link, INDICES[0], entries(hops));
        let begin = std::array::from_fn(begin);
        Line { ends, own, peers, tags: tags.min(weft_function::TAG_SLOTS), worker, begin }
    }

    /// Octets in front of a packet that goes to so many functions behind the first.
    pub fn header_length(&self, hops: usize) -> usize {
        BEFORE_RECORD + RECORD + 4 * self.tags + entries(hops)
    }

    /// The node's address, by which those find each other who are behind one port.
    pub fn network(&self) -> [u8; 6] {
        self.ends.node
    }

    /// Number of the function.
    pub fn own(&self) -> u16 {
        self.own
    }

    fn peer(&self, function: u16) -> Option<[u8; 6]> {
        self.peers.iter().find(|(number, _)| *number == function).map(|(_, mac)| *mac)
    }

    /// Writes the node's header to the front of `bytes`, which has room for it.
    pub fn write(&self, record: &Record, onward: &NextHops, bytes: &mut [u8]) {
        self.fill(&self.begin[onward.hops().len()], record, onward, bytes);
    }

    /// Puts the node's header in front of a packet; false where there is no room.
    #[inline]
    pub fn put(&self, record: &Record, onward: &NextHops, packet: &mut Packet) -> bool {
        let Some(bytes) = packet.prepend(self.header_length(onward.hops().len())) else {
            return false;
        };
        self.write(record, onward, bytes);
        true
    }

    /// Puts the function's header in front of a packet that it has handled, or dropped: to the
    /// next function if it `goes_on` and there is one, otherwise to the node.
    #[inline]
    pub fn pass(
        &self,
        record: &Record,
        trail: &DirectPath,
        goes_on: bool,
        packet: &mut Packet,
    ) -> bool {
        let length = self.header_length(trail.onward.hops().len());
        let Some(bytes) = packet.prepend(length) else { return false };
        self.write_on(record, trail, goes_on, bytes);
        true
    }

    #[inline]
    fn write_on(&self, record: &Record, trail: &DirectPath, goes_on: bool, bytes: &mut [u8]) {
        let hops = trail.onward.hops();
        let next = hops.get(usize::from(trail.before)).filter(|_| goes_on);
        let to = next.and_then(|hop| self.peer(hop.function)).unwrap_or(self.ends.node);
        let mut begin = self.begin[hops.len()];
        begin[..6].copy_from_slice(&to);
        begin[SOURCE].copy_from_slice(&self.ends.function);
        begin[PATH..INDEX].copy_from_slice(&path_of(trail.first));
        begin[INDEX] = INDICES[1] - trail.before;
        self.fill(&begin, record, &trail.onward, bytes);
    }

    #[inline]
    fn fill(
        &self,
        begin: &[u8; BEFORE_RECORD],
        record: &Record,
        onward: &NextHops,
        bytes: &mut [u8],
    ) {
        let Some((before, bytes)) = bytes.split_first_chunk_mut::<BEFORE_RECORD>() else { return };
        *before = *begin;
        put_fields(record, self.worker, self.tags, bytes);
        let Some(room) = bytes.get_mut(RECORD + 4 * self.tags..) else { return };
        let Some(room) = room.get_mut(..entries(onward.hops().len())) else { return };
        let (entries, rest) = room.as_chunks_mut::<ENTRY>();
        for (entry, hop) in entries.iter_mut().zip(onward.hops()) {
            entry[..2].copy_from_slice(&hop.function.to_be_bytes());
            entry[2..].copy_from_slice(&hop.order.to_be_bytes());
        }
        rest.fill(0);
    }

    /// Takes the header off a frame that came to the function: from the node, or from the
    /// function before it on the packet's way. None for anything else.
    #[inline]
    pub fn take(&self, packet: &mut Packet) -> Option<(Head, DirectPath)> {
        let (bytes, metadata) = packet.parts_mut();
        let (head, trail, length) = self.take_in(bytes, metadata)?;
        packet.trim_front(length);
        Some((head, trail))
    }

    #[inline]
    fn take_in(
        &self,
        bytes: &[u8],
        metadata: &mut PacketMetadata,
    ) -> Option<(Head, DirectPath, usize)> {
        let (head, trail, source, length) = self.read(bytes, metadata, self.ends.function)?;
        let before = usize::from(trail.before);
        let hops = trail.onward.hops();
        let from = match before {
            0 => self.ends.node,
            1 => self.peer(trail.first)?,
            more => self.peer(hops.get(more - 2)?.function)?,
        };
        let meant = if before == 0 { trail.first } else { hops.get(before - 1)?.function };
        (meant == self.own && source == from).then_some((head, trail, length))
    }

    /// Takes the header off a frame that came back to the node. None for anything else.
    #[inline]
    pub fn back(&self, packet: &mut Packet) -> Option<(Head, Option<(NextHops, Past)>)> {
        let (bytes, metadata) = packet.parts_mut();
        let (head, trail, length) = self.take_back(bytes, metadata)?;
        packet.trim_front(length);
        let has_way = !trail.onward.hops().is_empty();
        Some((head, has_way.then(|| (trail.onward, trail.past()))))
    }

    #[inline]
    fn take_back(
        &self,
        bytes: &[u8],
        metadata: &mut PacketMetadata,
    ) -> Option<(Head, DirectPath, usize)> {
        let (head, mut trail, source, length) = self.read(bytes, metadata, self.ends.node)?;
        // It was at one function at least.
        trail.before = trail.before.checked_sub(1)?;
        let from = match usize::from(trail.before).checked_sub(1) {
            None => self.ends.function,
            Some(nth) => self.peer(trail.onward.hops().get(nth)?.function)?,
        };
        (trail.first == self.own && source == from).then_some((head, trail, length))
    }

    /// What a frame to `to` says, where it comes from, and how long its header is.
    #[inline]
    fn read(
        &self,
        bytes: &[u8],
        metadata: &mut PacketMetadata,
        to: [u8; 6],
    ) -> Option<(Head, DirectPath, [u8; 6], usize)> {
        let (begin, content) = bytes.split_first_chunk::<BEFORE_RECORD>()?;
        let plain = RECORD + 4 * self.tags;
        let hops = (usize::from(begin[CONTEXT_LENGTH] & 0x7f).checked_sub(plain)?) / ENTRY;
        // What is not of the way is as we write it: but for the time to live, which a node
        // between may have counted down.
        let expected = self.begin.get(hops)?;
        let is_ours = begin[..6] == to
            && begin[12..ETHERNET] == expected[12..ETHERNET]
            && (begin[ETHERNET] ^ expected[ETHERNET]) & 0xf0 == 0
            && (begin[ETHERNET + 1] ^ expected[ETHERNET + 1]) & 0x3f == 0
            && begin[ETHERNET + 2..PATH] == expected[ETHERNET + 2..PATH]
            && begin[INDEX + 1..] == expected[INDEX + 1..];
        if !is_ours {
            return None;
        }
        let path = u32::from_be_bytes([0, begin[PATH], begin[PATH + 1], begin[PATH + 2]]);
        let first = u16::try_from(path.checked_sub(PATHS)?).ok()?;
        let before = INDICES[0].checked_sub(begin[INDEX])?;
        let head = head(content.get(..plain)?, metadata)?;
        let mut onward = NextHops::NOWHERE;
        let room = content.get(plain..plain + entries(hops))?;
        for entry in room.as_chunks::<ENTRY>().0.iter().take(hops) {
            let [a, b, order @ ..] = *entry;
            let function = u16::from_be_bytes([a, b]);
            onward.push(NextHop { function, order: u32::from_be_bytes(order) });
        }
        let source = begin[SOURCE].try_into().ok()?;
        let length = BEFORE_RECORD + plain + entries(hops);
        Some((head, DirectPath { first, before, onward }, source, length))
    }
}

/// The worker whose packet a frame is, as it says.
#[inline]
pub(crate) fn worker_of(frame: &[u8]) -> u16 {
    let at = BEFORE_RECORD + 6;
    frame.get(at..at + 2).map_or(0, |octets| u16::from_be_bytes([octets[0], octets[1]]))
}

/// Octets of the entries of so many functions.
const fn entries(hops: usize) -> usize {
    (ENTRY * hops).next_multiple_of(4)
}

/// The service path of a function, as it stands in a header.
fn path_of(function: u16) -> [u8; 3] {
    let [_, path @ ..] = (PATHS + u32::from(function)).to_be_bytes();
    path
}

#[cfg(test)]
mod tests;

const _: () = assert!(ETHERNET + nsh::MIN_HEADER_LENGTH + 4 == BEFORE_RECORD);
