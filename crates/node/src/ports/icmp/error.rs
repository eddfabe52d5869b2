//! ICMP errors: built from the bytes of the packet that they are about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weft_wire::ip::{Dscp, Protocol};
use weft_wire::{icmpv4, icmpv6, ipv4, ipv6};

use super::{HOPS, Silence, is_host};

/// Octets of an error over IPv4, with its IP header (RFC 1812 §4.3.2.3).
const MAX_LENGTH_V4: usize = 576;
/// Octets of an error over IPv6, with its IP header (RFC 4443 §2.4 c).
const MAX_LENGTH_V6: usize = 1280;
/// Internetwork control, at which errors are sent over IPv4 (RFC 1812 §4.3.2.5).
const CS6: Dscp = Dscp::of_traffic_class(0xc0);

/// What is wrong with a packet that cannot be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its time to live or hop limit is used up.
    TimeExceeded,
    /// It exceeds the MTU of the next link, in octets, and must not be
    /// fragmented.
    TooBig {
        /// MTU of the next link, in octets.
        mtu: u16,
    },
    /// There is no route to its destination.
    NoRoute,
    /// Its next hop does not answer on its link.
    HostUnreachable,
}

impl Problem {
    fn in_v4(self) -> icmpv4::Repr {
        let unreachable = |reason, mtu| icmpv4::Repr::DestinationUnreachable { reason, mtu };
        match self {
            Self::TimeExceeded => {
                icmpv4::Repr::TimeExceeded { reason: icmpv4::Exceeded::IN_TRANSIT }
            }
            Self::TooBig { mtu } => unreachable(icmpv4::Unreachable::FRAGMENTATION_NEEDED, mtu),
            Self::NoRoute => unreachable(icmpv4::Unreachable::NETWORK, 0),
            Self::HostUnreachable => unreachable(icmpv4::Unreachable::HOST, 0),
        }
    }

    fn in_v6(self) -> icmpv6::Repr {
        let unreachable = |reason| icmpv6::Repr::DestinationUnreachable { reason };
        match self {
            Self::TimeExceeded => {
                icmpv6::Repr::TimeExceeded { reason: icmpv6::Exceeded::IN_TRANSIT }
            }
            Self::TooBig { mtu } => icmpv6::Repr::PacketTooBig { mtu: mtu.into() },
            Self::NoRoute => unreachable(icmpv6::Unreachable::NO_ROUTE),
            Self::HostUnreachable => unreachable(icmpv6::Unreachable::ADDRESS),
        }
    }
}

/// Replaces the contents of `out` by an IP packet that tells the sender of
/// `packet` what is wrong with it. `source` is an address of the node, of the
/// packet's family; what is told fits `mtu`, in octets, at least 68. The bytes
/// begin with the packet's IP header and may go on behind the packet. Packets that came as a link's broadcast or multicast are
/// for the caller to keep away: the IP header does not tell.
///
/// # Errors
/// [`Silence`] where nothing may be sent (RFC 1122 §3.2.2, RFC 1812 §4.3.2.7,
/// RFC 4443 §2.4 e); `out` is then of no use. Fragments other than the first
/// have their silence in IPv6 too, as the first one tells as much; only that
/// they are too big is always said (RFC 4443 §3.2).
pub fn report(
    packet: &[u8],
    problem: Problem,
    source: IpAddr,
    mtu: u16,
    out: &mut Vec<u8>,
) -> Result<(), Silence> {
    match source {
        IpAddr::V4(source) => report_v4(packet, problem, source, mtu, out),
        // All links take as long a packet as an error may be (RFC 8200 §5).
        IpAddr::V6(source) => report_v6(packet, problem, source, out),
    }
}

fn report_v4(
    packet: &[u8],
    problem: Problem,
    source: Ipv4Addr,
    mtu: u16,
    out: &mut Vec<u8>,
) -> Result<(), Silence> {
    const HEADERS: usize = ipv4::MIN_HEADER_LENGTH + icmpv4::HEADER_LENGTH;
    let packet = ipv4::Packet::new_checked(packet)?;
    may_report_v4(&packet)?;
    lay_out(out, HEADERS, packet.as_bytes(), MAX_LENGTH_V4.min(mtu.into()));
    let header = ipv4::Repr {
        source,
        destination: packet.source(),
        protocol: Protocol::ICMP,
        payload_length: (out.len() - ipv4::MIN_HEADER_LENGTH) as u16,
        time_to_live: HOPS,
        dscp: CS6,
        // Never fragmented, so it needs no identification (RFC 6864 §4.1).
        dont_fragment: true,
        ..Default::default()
    };
    header.emit(out)?;
    let message = &mut out[ipv4::MIN_HEADER_LENGTH..];
    problem.in_v4().emit(message)?;
    icmpv4::Message::new_checked(message)?.fill_checksum();
    Ok(())
}

fn may_report_v4(packet: &ipv4::Packet<&[u8]>) -> Result<(), Silence> {
    let destination = packet.destination();
    if packet.fragment_offset() != 0 {
        return Err(Silence::Fragment);
    }
    if !is_host(packet.source().into()) {
        return Err(Silence::SourceNotHost);
    }
    if destination.is_multicast() || destination.is_broadcast() {
        return Err(Silence::ForGroup);
    }
    if packet.protocol() == Protocol::ICMP {
        let about = icmpv4::Message::new_checked(packet.payload())?;
        if about.message_type().is_error() {
            return Err(Silence::AboutError);
        }
    }
    Ok(())
}

fn report_v6(
    packet: &[u8],
    problem: Problem,
    source: Ipv6Addr,
    out: &mut Vec<u8>,
) -> Result<(), Silence> {
    const HEADERS: usize = ipv6::HEADER_LENGTH + 8;
    let packet = ipv6::Packet::new_checked(packet)?;
    may_report_v6(&packet, problem)?;
    lay_out(out, HEADERS, packet.as_bytes(), MAX_LENGTH_V6);
    let header = ipv6::Repr {
        source,
        destination: packet.source(),
        next_header: Protocol::ICMPV6,
        payload_length: (out.len() - ipv6::HEADER_LENGTH) as u16,
        hop_limit: HOPS,
        ..Default::default()
    };
    header.emit(out)?;
    let pseudo_header = ipv6::Packet::new_checked(&out[..])?.pseudo_header();
    let message = &mut out[ipv6::HEADER_LENGTH..];
    problem.in_v6().emit(message)?;
    icmpv6::Message::new_checked(message)?.fill_checksum(&pseudo_header);
    Ok(())
}

fn may_report_v6(packet: &ipv6::Packet<&[u8]>, problem: Problem) -> Result<(), Silence> {
    /// Not an error by its number, but treated as one (RFC 4443 §2.4 e.2).
    const REDIRECT: icmpv6::Type = icmpv6::Type(137);
    let upper = packet.upper_layer()?;
    if !is_host(packet.source().into()) {
        return Err(Silence::SourceNotHost);
    }
    // Path MTU discovery works for groups too (RFC 4443 §2.4 e.3).
    let is_too_big = matches!(problem, Problem::TooBig { .. });
    if packet.destination().is_multicast() && !is_too_big {
        return Err(Silence::ForGroup);
    }
    if !upper.has_header() {
        // An error would be no fragment: it is never longer than 1280 octets.
        return if is_too_big { Ok(()) } else { Err(Silence::Fragment) };
    }
    if upper.protocol == Protocol::ICMPV6 {
        let message_type = packet.as_bytes().get(upper.offset).copied();
        let about = icmpv6::Type(message_type.ok_or(weft_wire::Error::Truncated)?);
        if about.is_error() || about == REDIRECT {
            return Err(Silence::AboutError);
        }
    }
    Ok(())
}

/// Room for headers, and as much of the packet as fits behind them.
fn lay_out(out: &mut Vec<u8>, headers: usize, packet: &[u8], max_length: usize) {
    out.clear();
    out.resize(headers, 0);
    out.extend(packet.iter().take(max_length.saturating_sub(headers)));
}
