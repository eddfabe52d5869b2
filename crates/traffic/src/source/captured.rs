//! Packets that are sent as a capture has them.

mod place;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weft_dpdk::Pool;
use weft_wire::ethernet;

use crate::receiver::stream::Expected;
use crate::source::link::link_bits;
use crate::stamp::Stamp;
use crate::template::endpoints::{Direction, Endpoints};
use place::StampField;

/// The packets of a stream, whole, in the order of a capture and then again from the
/// first. Cheap to clone.
///
/// A *flow* is what has the same addresses, protocol and ports (RFC 6437 §1); in a
/// tunnel that ends at the receiver, those of the packet inside. Where the payload of a
/// UDP or TCP packet has room for a [`Stamp`], that stands at its begin, and the
/// checksum is that of the packet with it; nothing else is changed. What has no room
/// (fragments, ICMP, acknowledgments without data) is sent byte for byte and cannot be
/// told from foreign packets when it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// All packets, one behind the other.
    bytes: Arc<[u8]>,
    packets: Arc<[Packet]>,
    /// Source and destination of each flow.
    flows: Arc<[(IpAddr, IpAddr)]>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    start: usize,
    length: u16,
    stamp: Option<(u32, StampField)>,
}

/// A capture that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapturedError {
    /// There are no packets.
    #[error("it holds no packets")]
    Empty,
    /// A packet has no Ethernet header, or does not fit in a buffer.
    #[error(
        "packet {number} has {bytes} bytes; {least} to {most} can be sent",
        least = ethernet::HEADER_LENGTH, most = Pool::PACKET_BYTES
    )]
    Length {
        /// Its number, from 1.
        number: usize,
        /// Its length.
        bytes: usize,
    },
}

impl Captured {
    /// These Ethernet frames, which have no check sequence. Without `stamps` all are
    /// sent byte for byte.
    ///
    /// # Errors
    /// When there are none, or one cannot be sent.
    pub fn new(
        frames: impl IntoIterator<Item = Vec<u8>>,
        stamps: bool,
    ) -> Result<Captured, CapturedError> {
        let (mut bytes, mut packets) = (Vec::new(), Vec::new());
        let (mut known, mut flows) = (HashMap::new(), Vec::new());
        for (number, mut frame) in (1..).zip(frames) {
            if !(ethernet::HEADER_LENGTH..=Pool::PACKET_BYTES).contains(&frame.len()) {
                return Err(CapturedError::Length { number, bytes: frame.len() });
            }
            let found = stamps.then(|| place::prepare(&mut frame)).flatten();
            let stamp = found.map(|(key, place)| {
                let flow = *known.entry(key).or_insert_with(|| {
                    flows.push(key.addresses());
                    flows.len() as u32 - 1
                });
                (flow, place)
            });
            packets.push(Packet { start: bytes.len(), length: frame.len() as u16, stamp });
            bytes.extend_from_slice(&frame);
        }
        match packets.is_empty() {
            true => Err(CapturedError::Empty),
            false => {
                let (bytes, packets) = (bytes.into(), packets.into());
                Ok(Captured { bytes, packets, flows: flows.into() })
            }
        }
    }

    /// Source and destination address of each flow, by number.
    pub fn flows(&self) -> &[(IpAddr, IpAddr)] {
        &self.flows
    }

    /// Packets in a round, and those of them that have no stamp.
    pub fn packets(&self) -> (usize, usize) {
        let without = self.packets.iter().filter(|packet| packet.stamp.is_none());
        (self.packets.len(), without.count())
    }

    /// What a receiver expects of them, if their stream has this number. The addresses
    /// are those of [`flows`](Self::flows), which the receiver is told apart.
    pub fn expected(&self, stream: u16) -> Expected {
        let (first_user, peer) = self.flows.first().copied().unwrap_or((UNKNOWN, UNKNOWN));
        let endpoints = Endpoints { direction: Direction::Uplink, first_user, peer };
        Expected { stream, users: self.flows.len() as u32, bearers: 1, endpoints }
    }

    /// Bytes of a packet, by its number from 0.
    #[inline]
    pub(crate) fn length(&self, packet: u32) -> usize {
        usize::from(self.packets[packet as usize].length)
    }

    /// The flow of a packet; none where it has no stamp.
    #[inline]
    pub(crate) fn flow(&self, packet: u32) -> Option<u32> {
        self.packets[packet as usize].stamp.map(|(flow, _)| flow)
    }

    /// The number behind that of a packet.
    #[inline]
    pub(crate) fn after(&self, packet: u32) -> u32 {
        if packet as usize + 1 == self.packets.len() { 0 } else { packet + 1 }
    }

    /// Writes a packet into a frame of its length, with the stamp if it has one.
    #[inline]
    pub(crate) fn write(&self, frame: &mut [u8], packet: u32, stamp: &Stamp) {
        let Packet { start, stamp: place, .. } = self.packets[packet as usize];
        frame.copy_from_slice(&self.bytes[start..start + frame.len()]);
        if let Some((_, place)) = place {
            place.write(frame, stamp);
        }
    }

    /// Bits that a packet takes on a link, the mean of all.
    pub(crate) fn mean_bits(&self) -> f64 {
        let bits = self.packets.iter().map(|packet| link_bits(packet.length.into()));
        bits.sum::<u64>() as f64 / self.packets.len() as f64
    }
}

/// Where no flow is known.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[cfg(test)]
mod tests;
