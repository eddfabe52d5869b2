//! Echo replies, made in place of the requests.

use std::net::IpAddr;

use weft_wire::ethernet::Frame;
use weft_wire::ip::Protocol;
use weft_wire::{Error, icmpv4, icmpv6, ipv4, ipv6};

use super::{HOPS, Silence, is_host};

/// Turns an Ethernet frame with an echo request for one of the node's own
/// addresses into the reply, to be sent where it came in (RFC 1122 §3.2.2.6,
/// RFC 4443 §4.2). The IP header begins at `ip_offset`; VLAN tags before it stay
/// as they are. Requests in fragments, with IPv4 options or with IPv6 extension
/// headers are not answered: they would need more than this place.
///
/// # Errors
/// [`Silence`]; the frame is then as it was.
pub fn answer_echo(
    frame: &mut [u8],
    ip_offset: usize,
    is_own: impl Fn(IpAddr) -> bool,
) -> Result<(), Silence> {
    // Else one frame could make every station on the link answer at once.
    if Frame::new_checked(&*frame)?.destination().is_multicast() {
        return Err(Silence::ForGroup);
    }
    let packet = frame.get_mut(ip_offset..).unwrap_or_default();
    match packet.first().map(|first| first >> 4) {
        Some(4) => answer_v4(packet, is_own)?,
        Some(6) => answer_v6(packet, is_own)?,
        Some(_) => return Err(Error::BadVersion.into()),
        None => return Err(Error::Truncated.into()),
    }
    let mut frame = Frame::new_checked(frame)?;
    let (source, destination) = (frame.source(), frame.destination());
    frame.set_source(destination);
    frame.set_destination(source);
    Ok(())
}

fn answer_v4(packet: &mut [u8], is_own: impl Fn(IpAddr) -> bool) -> Result<(), Silence> {
    let mut packet = ipv4::Packet::new_checked(packet)?;
    let (source, destination) = (packet.source(), packet.destination());
    if !is_own(destination.into()) {
        return Err(Silence::NotOwn);
    }
    if packet.protocol() != Protocol::ICMP {
        return Err(Silence::NotEchoRequest);
    }
    if packet.fragment().is_some() {
        return Err(Silence::Fragment);
    }
    if !packet.options().is_empty() {
        return Err(Silence::Options);
    }
    if !is_host(source.into()) {
        return Err(Silence::SourceNotHost);
    }
    let mut message = icmpv4::Message::new_checked(packet.payload_mut())?;
    message.verify_checksum()?;
    if !matches!(icmpv4::Repr::parse(&message), icmpv4::Repr::EchoRequest { .. }) {
        return Err(Silence::NotEchoRequest);
    }
    message.set_message_type(icmpv4::Type::ECHO_REPLY);
    // A reply may be all zeros, so its checksum cannot be had by repair.
    message.fill_checksum();
    packet.set_source(destination);
    packet.set_destination(source);
    packet.set_time_to_live(HOPS);
    packet.fill_checksum();
    Ok(())
}

fn answer_v6(packet: &mut [u8], is_own: impl Fn(IpAddr) -> bool) -> Result<(), Silence> {
    let mut packet = ipv6::Packet::new_checked(packet)?;
    let (source, destination) = (packet.source(), packet.destination());
    if !is_own(destination.into()) {
        return Err(Silence::NotOwn);
    }
    let upper = packet.upper_layer()?;
    if upper.protocol != Protocol::ICMPV6 {
        return Err(Silence::NotEchoRequest);
    }
    if upper.fragment.is_some() {
        return Err(Silence::Fragment);
    }
    if upper.offset != ipv6::HEADER_LENGTH {
        return Err(Silence::Options);
    }
    if !is_host(source.into()) {
        return Err(Silence::SourceNotHost);
    }
    // The same in both directions: it is a sum.
    let pseudo_header = packet.pseudo_header();
    let mut message = icmpv6::Message::new_checked(packet.payload_mut())?;
    message.verify_checksum(&pseudo_header)?;
    if !matches!(icmpv6::Repr::parse(&message), icmpv6::Repr::EchoRequest { .. }) {
        return Err(Silence::NotEchoRequest);
    }
    message.set_message_type(icmpv6::Type::ECHO_REPLY);
    message.fill_checksum(&pseudo_header);
    packet.set_source(destination);
    packet.set_destination(source);
    packet.set_hop_limit(HOPS);
    Ok(())
}
