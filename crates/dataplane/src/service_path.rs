//! Service function forwarding (RFC 7665 §4.3, RFC 8300): paths through functions of
//! several nodes.
//!
//! A path stands in the rules like a port. What comes with a service header of its
//! path and index is taken out of the header, which waits in the [`header_cache`]; its user
//! is found, it goes as the rules say, and what leaves at the path gets its header
//! back and goes to the next hop. `worker/serving.rs` is that way.

pub mod encapsulate;
mod endpoint;
pub mod header_cache;
mod leave;
pub mod plan;
pub mod record;

use weft_dpdk::{Batch, Packet, Pool};
use weft_function::{Metadata, TagTable};
use weft_wire::nsh::{self, NextProtocol};
use weft_wire::{EtherType, MacAddress, ethernet};

use self::encapsulate::{Encapsulation, prepend};
pub use self::endpoint::{RemotePath, ServicePathEndpoint, VfEndpoint, VfPath};
use self::header_cache::{EMITTED, NshHeaderCache, number_of};
pub use self::leave::{address, note_none};
pub use self::plan::{Hop, HopTo, PathPlan, Peer, PeerAddress, RemotePlan};
use self::record::Record;
use crate::counters::DropReason;
use crate::offload::HOPS;
use crate::parse::{Parsed, is_sound, parse};

/// What a frame without a user's packet carries: a type that no node knows (IEEE Std
/// 802, local experimental Ethernet type 1), padded as the shortest frame.
pub const NOTHING: [u8; 60] = {
    let mut frame = [0; 60];
    (frame[0], frame[6]) = (2, 2);
    (frame[12], frame[13]) = (0x88, 0xb5);
    frame
};

/// A path, as one worker knows it.
#[derive(Debug)]
struct Path {
    /// Where its packets go on from here.
    next: u8,
    id: u32,
    peer: Peer,
    way: Encapsulation,
}

/// What a path leads to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathTarget {
    /// Functions: the path of this port.
    Port(u16),
    /// Back to the node that asked: a position among the paths to them.
    Remote(usize),
    /// Back from a process behind a NIC: a position among the ways to them.
    Vf(usize),
}

/// What becomes of a frame with a service header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// What was inside goes through functions; with the number of its header in the
    /// cache.
    Inside(u16, u32),
    /// The frame goes on along the path of this port: it is not for functions.
    Along(u16),
    /// The frame has come back from a function at another node.
    Back(usize),
    /// The frame has come back from a process behind a NIC.
    FromVf(usize),
    /// It ends here.
    Refused(DropReason),
}

/// What the service paths of a node are made from.
#[derive(Clone, Copy, Debug)]
pub struct ServicePlan<'a> {
    /// The paths, by the port that each stands in the rules as.
    pub paths: &'a [(u16, &'a PathPlan)],
    /// How many ports are devices.
    pub devices: usize,
    /// MAC addresses of the devices.
    pub macs: &'a [MacAddress],
    /// All tags of the node.
    pub tags: &'a TagTable,
    /// Slots of the tags that functions write, one bit for each.
    pub written: u8,
}

/// The service paths of a node, at one worker.
#[derive(Debug)]
pub struct Service {
    /// Number of the worker.
    pub worker: usize,
    /// Where packets come back from functions at other nodes.
    pub remote_paths: Vec<RemotePath>,
    /// Where they come back from processes behind a NIC.
    pub vf_paths: Vec<VfPath>,
    /// Paths by identifier and index, in order.
    entries: Vec<(u32, PathTarget)>,
    paths: Box<[Path]>,
    /// Port number of the first path; those before are devices.
    first: u16,
    /// MAC addresses of the devices.
    macs: Box<[MacAddress]>,
    headers: NshHeaderCache,
    /// Frames of the burst at hand.
    pub arrived: Batch,
    /// Says which tags the node has, and how many.
    names: u32,
    tags: usize,
    /// Tags that functions write: those that come with a packet.
    written: u8,
    /// Devices that something was sent at and is not flushed yet.
    pub touched: u64,
}

fn key(path: u32, index: u8) -> u32 {
    path << 8 | u32::from(index)
}

impl Service {
    /// The paths of one worker.
    pub fn new(plan: &ServicePlan<'_>, worker: usize) -> Service {
        let ServicePlan { paths, devices, macs, tags, written } = *plan;
        let entry =
            |(port, plan): &(u16, &PathPlan)| (key(plan.id, plan.index), PathTarget::Port(*port));
        let mut entries: Vec<(u32, PathTarget)> = paths.iter().map(entry).collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        let path = |(_, plan): &(u16, &PathPlan)| Path {
            next: plan.next,
            id: plan.id,
            peer: plan.peer.clone(),
            way: Encapsulation::new(&plan.hop, macs[usize::from(plan.hop.port)], plan.id),
        };
        Service {
            worker,
            remote_paths: Vec::new(),
            vf_paths: Vec::new(),
            entries,
            paths: paths.iter().map(path).collect(),
            first: devices as u16,
            macs: macs.into(),
            headers: NshHeaderCache::default(),
            arrived: Batch::new(),
            names: record::names_of(tags),
            tags: tags.iter().count(),
            written,
            touched: 0,
        }
    }

    /// Adds what takes in the packets that come back from a function.
    pub fn add_remote(&mut self, remote: RemotePath, plan: &RemotePlan) {
        for path in plan.paths {
            self.entries.push((key(path, plan.back), PathTarget::Remote(self.remote_paths.len())));
        }
        self.entries.sort_unstable_by_key(|(key, _)| *key);
        self.entries.dedup();
        self.remote_paths.push(remote);
    }

    /// Adds what takes in packets that come back through a NIC.
    pub fn add_vfs(&mut self, paths: impl Iterator<Item = VfPath>) {
        for one in paths {
            // From the function itself, and from those that it sent the packet to.
            for index in one.back_index - HOPS as u8..=one.back_index {
                let entry = (key(one.path, index), PathTarget::Vf(self.vf_paths.len()));
                let place = self.entries.partition_point(|(key, _)| *key < entry.0);
                self.entries.insert(place, entry);
            }
            self.vf_paths.push(one);
        }
    }

    fn target(&self, path: u32, index: u8) -> Option<PathTarget> {
        let wanted = key(path, index);
        let found = self.entries.binary_search_by_key(&wanted, |(key, _)| *key).ok()?;
        Some(self.entries[found].1)
    }

    /// The path to a function has the packets of this queue.
    pub fn set_remote_queue(&mut self, function: &str, remote_queue: Option<u16>) {
        let Some(remote_queue) = remote_queue else { return };
        if let Some(remote) = self.remote_paths.iter_mut().find(|one| one.function == function) {
            remote.remote_queue = remote_queue;
        }
        if let Some(vf) = self.vf_paths.iter_mut().find(|one| one.function == function) {
            vf.remote_queue = remote_queue;
        }
    }

    /// MAC address of a device.
    pub fn mac(&self, port: u16) -> MacAddress {
        self.macs[usize::from(port)]
    }

    /// What says which tags the node has, and how many.
    pub fn names(&self) -> (u32, usize) {
        (self.names, self.tags)
    }

    /// Whether a frame that came in at a device is for its station.
    #[inline]
    pub fn is_for(&self, packet: &Packet) -> bool {
        let mac = self.macs.get(usize::from(packet.metadata().port));
        let to = packet.data().first_chunk().map(|octets| MacAddress(*octets));
        mac == to.as_ref() || to == Some(MacAddress::BROADCAST)
    }

    /// Whether packets that leave at this port go on along a path.
    #[inline(always)]
    pub fn is_path(&self, port: u16) -> bool {
        port >= self.first
    }

    fn path(&self, port: u16) -> &Path {
        &self.paths[usize::from(port - self.first)]
    }

    /// Whether a frame for this target has come from its peer. What another worker has put
    /// back into its header was looked at as it came: it has the number of its path.
    #[inline]
    fn is_from_peer(&self, target: PathTarget, packet: &Packet) -> bool {
        match target {
            PathTarget::Port(port) => {
                packet.metadata().port == port || self.path(port).peer.has_sent(packet)
            }
            PathTarget::Remote(remote) => self.remote_paths[remote].peer.has_sent(packet),
            // Its carriage looks at the addresses, which depend on the way of the packet.
            PathTarget::Vf(vf) => packet.metadata().port == self.vf_paths[vf].port,
        }
    }

    /// What becomes of a frame whose service header begins at
    /// `network_offset`. What goes inside has lost all in front of it.
    #[inline]
    pub fn open(&mut self, packet: &mut Packet) -> Opened {
        let opened = self.target_of(packet);
        match opened {
            Err(reason) => Opened::Refused(reason),
            Ok(target) if !self.is_from_peer(target, packet) => {
                Opened::Refused(DropReason::NshWrongPeer)
            }
            Ok(PathTarget::Port(port)) => self.open_for(port, packet),
            Ok(PathTarget::Remote(remote)) => Opened::Back(remote),
            Ok(PathTarget::Vf(vf)) => Opened::FromVf(vf),
        }
    }

    /// What the service header of a frame leads to.
    #[inline]
    fn target_of(&self, packet: &Packet) -> Result<PathTarget, DropReason> {
        let at = usize::from(packet.metadata().network_offset);
        let octets = packet.data().get(at..).unwrap_or_default();
        let header = nsh::Packet::new_checked(octets).map_err(|_| DropReason::NshMalformed)?;
        // RFC 8300 §2.2: before the lookup. That of what goes inside counts when its
        // header is written again.
        if header.time_to_live() == 1 {
            return Err(DropReason::NshTtlExceeded);
        }
        let target = self.target(header.path().value(), header.index());
        target.ok_or(DropReason::NshPathUnknown)
    }

    /// Opens a frame of the path of this port.
    #[inline]
    fn open_for(&mut self, port: u16, packet: &mut Packet) -> Opened {
        let at = usize::from(packet.metadata().network_offset);
        let octets = packet.data_mut().get_mut(at..).unwrap_or_default();
        let Ok(mut header) = nsh::Packet::new_checked(octets) else {
            return Opened::Refused(DropReason::NshMalformed);
        };
        if header.is_oam() {
            header.decrement_time_to_live();
            header.set_index(self.path(port).next);
            packet.trim_front(at);
            return Opened::Along(port);
        }
        let (next, length) = (header.next_protocol(), header.header_length());
        let ether_type = match next {
            NextProtocol::ETHERNET => None,
            NextProtocol::IPV4 => Some(EtherType::IPV4),
            NextProtocol::IPV6 => Some(EtherType::IPV6),
            _ => return Opened::Refused(DropReason::NshPayloadUnknown),
        };
        let number = self.headers.put(&packet.data()[at..at + length]);
        packet.trim_front(at + length);
        if let Some(ether_type) = ether_type {
            // Where the header was, there is room.
            let link = ethernet::Repr { ether_type, ..ethernet::Repr::default() };
            let room = packet.prepend(ethernet::HEADER_LENGTH).unwrap_or_default();
            let _ = link.emit(room);
        }
        Opened::Inside(port, number)
    }

    /// The record that came with a packet.
    pub fn record(&self, number: u32) -> Option<Record> {
        let header = nsh::Packet::new_checked(self.headers.get(number)?).ok()?;
        let at = record::record_in(&header)?;
        Record::read(&header.into_inner()[at..at + record::LENGTH])
    }

    /// The record in a frame whose service header begins at
    /// `network_offset`, and its path.
    pub fn record_of(&self, packet: &Packet) -> Option<(Record, u32)> {
        let at = usize::from(packet.metadata().network_offset);
        let header = nsh::Packet::new_checked(packet.data().get(at..)?).ok()?;
        let path = header.path().value();
        let at = record::record_in(&header)?;
        Some((Record::read(header.into_inner().get(at..at + record::LENGTH)?)?, path))
    }

    /// Gives packets the numbers of their headers, and the tags that came with them.
    pub fn tag(&self, packet: &mut Packet, number: u32) {
        *number_of(packet.metadata_mut()) = number;
        let header = self.headers.get(number).map(nsh::Packet::new_checked);
        let Some(Ok(header)) = header else { return };
        let Some((at, length)) = record::tags_in(&header, self.names) else { return };
        let values = &header.into_inner()[at..at + length];
        let tags = &mut packet.metadata_mut().tags[..self.tags];
        for (slot, (tag, value)) in tags.iter_mut().zip(values.as_chunks::<4>().0).enumerate() {
            if self.written >> slot & 1 == 1 {
                *tag = u32::from_be_bytes(*value);
            }
        }
    }

    /// Puts a packet back into the header that it came in, for another worker. False
    /// when it did not come in one, or its header is gone.
    pub fn undo(&self, packet: &mut Packet, pool: &Pool) -> bool {
        let number = *number_of(packet.metadata_mut());
        if self.paths.is_empty() {
            return true;
        }
        let Some(header) = self.headers.get(number) else { return number == 0 };
        if is_bare(header) {
            packet.trim_front(ethernet::HEADER_LENGTH);
        }
        if !prepend(packet, header.len(), pool) {
            return false;
        }
        packet.data_mut()[..header.len()].copy_from_slice(header);
        let metadata = packet.metadata_mut();
        (metadata.ether_type, metadata.network_offset) = (EtherType::NSH.0, 0);
        true
    }

    /// Takes the frames out of a batch that another worker handed over.
    pub fn sift(&mut self, packets: &mut Batch) {
        if !packets.iter().any(is_frame) {
            return;
        }
        let mut all = std::mem::take(packets);
        for packet in all.drain() {
            let batch = if is_frame(&packet) { &mut self.arrived } else { &mut *packets };
            // Both have room for all.
            drop(batch.push(packet));
        }
    }
}

/// Whether a frame that another worker received has a service header.
#[inline]
fn is_frame(packet: &Packet) -> bool {
    packet.metadata().ether_type == EtherType::NSH.0
}

/// Whether an IP packet follows the header without a link header.
fn is_bare(header: &[u8]) -> bool {
    matches!(header.get(3), Some(1 | 2))
}

/// Notes that a function has made a packet beside the one that came with the header.
#[inline]
pub fn mark_emitted(packet: &mut Packet) {
    let number = number_of(packet.metadata_mut());
    if *number != 0 {
        *number |= EMITTED;
    }
}

/// Parses what was in a service header that came in at a port. Where the sender says that headers lie deeper
/// than the first, that is checked.
#[inline]
pub fn read(packet: &mut Packet, port: u16, record: Option<Record>) -> Parsed {
    let parsed = parse(packet, port);
    let Some(record) = record else { return parsed };
    let (network, outer) = (u16::from(record.network_offset), u16::from(record.outer_offset));
    let metadata = packet.metadata();
    if outer == 0 && network == metadata.network_offset {
        return parsed;
    }
    let version = packet.data().get(usize::from(network)).map(|first| first >> 4);
    let ether_type = match version {
        Some(4) => EtherType::IPV4.0,
        Some(6) => EtherType::IPV6.0,
        _ => metadata.ether_type,
    };
    let metadata = packet.metadata_mut();
    (metadata.network_offset, metadata.outer_offset) = (network, outer);
    (metadata.ether_type, metadata.flags) = (ether_type, record.flags);
    match is_sound(packet) {
        true => Parsed::Ip,
        false => Parsed::Malformed(DropReason::NshMalformed),
    }
}
