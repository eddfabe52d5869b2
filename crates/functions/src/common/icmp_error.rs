//! ICMP errors that functions send: what they are about stands in them.

use std::net::{Ipv4Addr, Ipv6Addr};

use weft_function::{Emit, Headers, IpView, Metadata, Packet, PacketMetadata};
use weft_wire::checksum::PseudoHeader;
use weft_wire::{Dscp, EtherType, Protocol, ethernet, icmpv4, icmpv6, ipv4, ipv6};

/// Octets of an error over IPv4, with its IP header (RFC 1812 §4.3.2.3).
const LONGEST_V4: usize = 576;
/// Octets of an error over IPv6, with its IP header (RFC 4443 §2.4 c).
const LONGEST_V6: usize = 1280;
/// Time to live and hop limit of an error.
const HOPS: u8 = 64;
/// Internetwork control, at which errors are sent over IPv4 (RFC 1812 §4.3.2.5).
const CS6: Dscp = Dscp::of_traffic_class(0xc0);
/// Not an error by its number, but treated as one (RFC 4443 §2.4 e.2).
const REDIRECT: icmpv6::Type = icmpv6::Type(137);

/// What is wrong with a packet that goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its time to live or hop limit is used up.
    TimeExceeded,
    /// There is no route to its destination.
    NoRoute,
    /// Its destination cannot be reached.
    HostUnreachable,
    /// Rules forbid it.
    Prohibited,
    /// Its source is not one that may be used there.
    SourceRefused,
    /// It is longer than the way takes, which is so many octets, and must not be cut.
    TooBig(u16),
}

impl Problem {
    fn in_v4(self) -> icmpv4::Repr {
        let unreachable = |reason, mtu| icmpv4::Repr::DestinationUnreachable { reason, mtu };
        match self {
            Problem::TimeExceeded => {
                icmpv4::Repr::TimeExceeded { reason: icmpv4::Exceeded::IN_TRANSIT }
            }
            Problem::NoRoute => unreachable(icmpv4::Unreachable::NETWORK, 0),
            Problem::HostUnreachable => unreachable(icmpv4::Unreachable::HOST, 0),
            Problem::Prohibited | Problem::SourceRefused => {
                unreachable(icmpv4::Unreachable::PROHIBITED, 0)
            }
            Problem::TooBig(mtu) => unreachable(icmpv4::Unreachable::FRAGMENTATION_NEEDED, mtu),
        }
    }

    fn in_v6(self) -> icmpv6::Repr {
        let unreachable = |reason| icmpv6::Repr::DestinationUnreachable { reason };
        match self {
            Problem::TimeExceeded => {
                icmpv6::Repr::TimeExceeded { reason: icmpv6::Exceeded::IN_TRANSIT }
            }
            Problem::NoRoute => unreachable(icmpv6::Unreachable::NO_ROUTE),
            Problem::HostUnreachable => unreachable(icmpv6::Unreachable::ADDRESS),
            Problem::Prohibited => unreachable(icmpv6::Unreachable::PROHIBITED),
            Problem::SourceRefused => unreachable(icmpv6::Unreachable::SOURCE_REFUSED),
            Problem::TooBig(mtu) => icmpv6::Repr::PacketTooBig { mtu: mtu.into() },
        }
    }
}

/// Sends errors, few enough that a flood of packets makes no flood of errors
/// (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f): 100 per second, 50 at once.
#[derive(Clone, Debug, Default)]
pub struct Errors {
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    /// When all 50 may be sent again, in nanoseconds.
    full_at: u64,
}

impl Errors {
    /// With the addresses they come from; a family without has none.
    pub fn new(ipv4: Option<Ipv4Addr>, ipv6: Option<Ipv6Addr>) -> Errors {
        Errors { ipv4, ipv6, full_at: 0 }
    }

    /// Tells the sender of `packet` what is wrong with it, where it may be told
    /// (RFC 1122 §3.2.2, RFC 1812 §4.3.2.7, RFC 4443 §2.4 e). The error goes to the
    /// packet's user if it came from there, and away from it otherwise.
    #[cold]
    pub fn tell(&mut self, packet: &Packet, problem: Problem, emit: &mut Emit<'_>) -> bool {
        let error = match packet.ip() {
            Some(IpView::V4(ip)) => {
                let source = self.ipv4.filter(|_| may_tell_v4(&ip));
                source.and_then(|source| {
                    self.take(emit.now()).then(|| ipv4(packet, &ip, source, problem, emit))?
                })
            }
            Some(IpView::V6(ip)) => {
                let source = self.ipv6.filter(|_| may_tell_v6(&ip, problem));
                source.and_then(|source| {
                    self.take(emit.now()).then(|| ipv6(packet, &ip, source, problem, emit))?
                })
            }
            None => None,
        };
        error.is_some_and(|error| emit.answer(error))
    }

    fn take(&mut self, now: u64) -> bool {
        const INTERVAL: u64 = 10_000_000;
        const AT_ONCE: u64 = 50;
        let full_at = self.full_at.max(now);
        if full_at - now > INTERVAL * (AT_ONCE - 1) {
            return false;
        }
        self.full_at = full_at + INTERVAL;
        true
    }
}

fn may_tell_v4(ip: &ipv4::Packet<&[u8]>) -> bool {
    let host = |address: Ipv4Addr| !matches!(address.octets()[0], 0 | 127 | 224..);
    let to = ip.destination();
    let is_error = || {
        let kind = ip.payload().first().copied();
        kind.is_none_or(|kind| icmpv4::Type(kind).is_error())
    };
    ip.fragment_offset() == 0
        && host(ip.source())
        && !to.is_multicast()
        && !to.is_broadcast()
        && !(ip.protocol() == Protocol::ICMP && is_error())
}

fn may_tell_v6(ip: &ipv6::Packet<&[u8]>, problem: Problem) -> bool {
    let source = ip.source();
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return false;
    }
    let too_big = matches!(problem, Problem::TooBig(_));
    let Ok(upper) = ip.upper_layer() else { return false };
    if ip.destination().is_multicast() && !too_big {
        return false;
    }
    if !upper.has_header() {
        return too_big;
    }
    let kind = || ip.as_bytes().get(upper.offset).copied().map(icmpv6::Type);
    let is_error = || kind().is_none_or(|kind| kind.is_error() || kind == REDIRECT);
    !(upper.protocol == Protocol::ICMPV6 && is_error())
}

fn ipv4(
    packet: &Packet,
    about: &ipv4::Packet<&[u8]>,
    source: Ipv4Addr,
    problem: Problem,
    emit: &Emit<'_>,
) -> Option<Packet> {
    const HEADERS: usize = ipv4::MIN_HEADER_LENGTH + icmpv4::HEADER_LENGTH;
    let quoted = about.as_bytes();
    let quoted = &quoted[..quoted.len().min(LONGEST_V4 - HEADERS)];
    let repr = ipv4::Repr {
        source,
        destination: about.source(),
        protocol: Protocol::ICMP,
        payload_length: (icmpv4::HEADER_LENGTH + quoted.len()) as u16,
        time_to_live: HOPS,
        dscp: CS6,
        // Never fragmented, so it needs no identification (RFC 6864 §4.1).
        dont_fragment: true,
        ..Default::default()
    };
    let (mut error, range) =
        frame(packet, EtherType::IPV4, Protocol::ICMP, (ipv4::MIN_HEADER_LENGTH, 8), quoted, emit)?;
    let bytes = error.data_mut().get_mut(range)?;
    repr.emit(bytes).ok()?;
    let message = bytes.get_mut(ipv4::MIN_HEADER_LENGTH..)?;
    problem.in_v4().emit(message).ok()?;
    icmpv4::Message::new_checked(message).ok()?.fill_checksum();
    Some(error)
}

fn ipv6(
    packet: &Packet,
    about: &ipv6::Packet<&[u8]>,
    source: Ipv6Addr,
    problem: Problem,
    emit: &Emit<'_>,
) -> Option<Packet> {
    const HEADERS: usize = ipv6::HEADER_LENGTH + 8;
    let quoted = about.as_bytes();
    let quoted = &quoted[..quoted.len().min(LONGEST_V6 - HEADERS)];
    let destination = about.source();
    let repr = ipv6::Repr {
        source,
        destination,
        next_header: Protocol::ICMPV6,
        payload_length: (8 + quoted.len()) as u16,
        hop_limit: HOPS,
        ..Default::default()
    };
    let (mut error, range) =
        frame(packet, EtherType::IPV6, Protocol::ICMPV6, (ipv6::HEADER_LENGTH, 8), quoted, emit)?;
    let bytes = error.data_mut().get_mut(range)?;
    repr.emit(bytes).ok()?;
    let message = bytes.get_mut(ipv6::HEADER_LENGTH..)?;
    problem.in_v6().emit(message).ok()?;
    let pseudo_header = PseudoHeader::V6 { source, destination };
    icmpv6::Message::new_checked(message).ok()?.fill_checksum(&pseudo_header);
    Some(error)
}

/// A frame with room for an IP header and the one behind it, such as that of ICMP, the quoted
/// octets behind them, and where the IP packet lies in it. The Ethernet addresses are those of
/// `like` the other way round.
pub fn frame(
    like: &Packet,
    ether_type: EtherType,
    protocol: Protocol,
    (header, icmp): (usize, usize),
    quoted: &[u8],
    emit: &Emit<'_>,
) -> Option<(Packet, std::ops::Range<usize>)> {
    let front = ethernet::HEADER_LENGTH;
    let mut packet = emit.allocate(like.metadata())?;
    let length = header + icmp + quoted.len();
    let bytes = packet.append(front + length)?;
    bytes[front..].fill(0);
    let addresses = like.data().first_chunk::<12>().copied().unwrap_or_default();
    bytes[..6].copy_from_slice(&addresses[6..]);
    bytes[6..12].copy_from_slice(&addresses[..6]);
    bytes[12..front].copy_from_slice(&ether_type.0.to_be_bytes());
    bytes[front + header + icmp..].copy_from_slice(quoted);
    let metadata = packet.metadata_mut();
    metadata.ether_type = ether_type.0;
    metadata.protocol = protocol.0;
    metadata.network_offset = front as u16;
    metadata.network_length = length as u16;
    metadata.transport_offset = (front + header) as u16;
    metadata.outer_offset = 0;
    metadata.flags &= PacketMetadata::TUNNELLED;
    Some((packet, front..front + length))
}
