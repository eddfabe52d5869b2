//! What the node itself says in GTP-U (TS 29.281 §7): it sends Echo Requests and
//! answers them, and tells peers that they use a tunnel or an extension header that
//! it does not know. It never answers what is an answer.

use std::net::IpAddr;

use weft_dataplane::command::{FIRST_SOURCE_PORT, Punt};
use weft_dataplane::counters::Ignored;
use weft_dpdk::Packet;
use weft_function::{Headers, Metadata, Tunnel};
use weft_wire::gtpu::{ExtensionType, ExtensionTypes, Message, PORT, Signal, Teid};
use weft_wire::{Dscp, Protocol, ipv4, ipv6, udp};

/// Extension headers that the node knows.
const SUPPORTED: [ExtensionType; 8] = [
    ExtensionType::PDU_SESSION,
    ExtensionType::UDP_PORT,
    ExtensionType::SERVICE_CLASS,
    ExtensionType::PDCP_NUMBER,
    ExtensionType::LONG_PDCP_NUMBER,
    ExtensionType::RAN_CONTAINER,
    ExtensionType::XW_RAN_CONTAINER,
    ExtensionType::NR_RAN_CONTAINER,
];

/// Class selector 6 (RFC 2474 §4.2.2), as for other control traffic.
const CS6: Dscp = Dscp::new(48).unwrap();

/// The two ends of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    from: IpAddr,
    to: IpAddr,
    to_port: u16,
}

/// A message that came for the node itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Who sent it.
    pub from: IpAddr,
    /// UDP port that it came from.
    pub from_port: u16,
    /// The address of the node that it was sent to.
    pub to: IpAddr,
    /// UDP port that it was sent to: 2152, or one that tunnels send from.
    pub to_port: u16,
    /// What it says.
    pub signal: Signal,
}

/// The message for the node itself that a packet is.
///
/// # Errors
/// It is none, not one of this port, or of a sender that there cannot be.
pub fn hear(packet: &Packet) -> Result<Heard, Ignored> {
    let malformed = Ignored::GtpuMalformed;
    if packet.protocol() != Some(Protocol::UDP) {
        return Err(malformed);
    }
    let (from, to) = packet.addresses().ok_or(malformed)?;
    let transport = packet.transport().ok_or(malformed)?;
    let datagram = udp::Datagram::new_checked(transport).map_err(|_| malformed)?;
    let to_port = datagram.destination_port();
    let message = Message::new_checked(datagram.payload()).map_err(|_| malformed)?;
    let signal = Signal::parse(&message).map_err(|_| malformed)?;
    let is_due = match signal {
        Signal::ErrorIndication { .. } => to_port == PORT || to_port >= FIRST_SOURCE_PORT,
        _ => to_port == PORT,
    };
    match is_due && may_answer(from) {
        true => Ok(Heard { from, from_port: datagram.source_port(), to, to_port, signal }),
        false => Err(Ignored::GtpuRefused),
    }
}

/// The answer to a message, as an IP packet; none where none is due. An Echo
/// Request is answered at the port it came from (§4.4.2.2).
pub fn answer(heard: &Heard) -> Option<Vec<u8>> {
    match heard.signal {
        Signal::EchoRequest { sequence } => {
            let ends = Ends { from: heard.to, to: heard.from, to_port: heard.from_port };
            emit(ends, Signal::EchoResponse { sequence, recovery: 0 })
        }
        _ => None,
    }
}

/// An Echo Request from an address of the node to a peer, as an IP packet.
pub fn echo_request(local: IpAddr, peer: IpAddr, sequence: u16) -> Option<Vec<u8>> {
    let ends = Ends { from: local, to: peer, to_port: PORT };
    emit(ends, Signal::EchoRequest { sequence })
}

/// What the sender of a G-PDU is told about it, as an IP packet; none where
/// nothing may be said: about TEID 0, or to one of the node's `own` addresses.
pub fn complaint(packet: &Packet, cause: Punt, own: &[IpAddr]) -> Option<Vec<u8>> {
    let (datagram, from, to) = outer(packet)?;
    let message = Message::new_checked(datagram.payload()).ok()?;
    if !may_answer(from) || own.contains(&from) {
        return None;
    }
    let signal = match cause {
        Punt::UnknownTeid if message.teid() != Teid::PATH => Signal::ErrorIndication {
            teid: message.teid(),
            peer: to,
            // Where it is the port of GTP-U it says nothing, and some peers refuse it
            // (libgtp 1.9).
            udp_port: Some(datagram.source_port()).filter(|port| *port != PORT),
        },
        Punt::UnknownExtension => {
            Signal::SupportedExtensionHeaders { types: ExtensionTypes::new(&SUPPORTED) }
        }
        _ => return None,
    };
    emit(Ends { from: to, to: from, to_port: PORT }, signal)
}

/// The datagram that carries a message, and its addresses. A message whose
/// tunnel was not opened is what the packet's own headers show.
fn outer(packet: &Packet) -> Option<(udp::Datagram<&[u8]>, IpAddr, IpAddr)> {
    let (from, to) = packet.outer_addresses().or_else(|| packet.addresses())?;
    let start = match packet.message_offset() {
        Some(message) => message.checked_sub(udp::HEADER_LENGTH)?,
        None => usize::from(packet.metadata().transport_offset),
    };
    let datagram = udp::Datagram::new_checked(packet.data().get(start..)?).ok()?;
    Some((datagram, from, to))
}

/// Whether an address is one host's.
fn may_answer(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_broadcast)
}

/// A message in an IP packet.
fn emit(ends: Ends, signal: Signal) -> Option<Vec<u8>> {
    let payload = signal.buffer_len() as u16;
    let header =
        udp::Repr { source_port: PORT, destination_port: ends.to_port, payload_length: payload };
    let length = header.buffer_len() as u16 + payload;
    let mut bytes;
    let start = match (ends.from, ends.to) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = ipv4::Repr {
                source,
                destination,
                protocol: Protocol::UDP,
                payload_length: length,
                time_to_live: 64,
                dscp: CS6,
                // Never fragmented, so it needs no identification (RFC 6864 §4.1).
                dont_fragment: true,
                ..Default::default()
            };
            bytes = vec![0; ip.buffer_len() + usize::from(length)];
            ip.emit(&mut bytes).ok()?;
            ip.buffer_len()
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = ipv6::Repr {
                source,
                destination,
                next_header: Protocol::UDP,
                payload_length: length,
                hop_limit: 64,
                dscp: CS6,
                ..Default::default()
            };
            bytes = vec![0; ip.buffer_len() + usize::from(length)];
            ip.emit(&mut bytes).ok()?;
            ip.buffer_len()
        }
        _ => return None,
    };
    let pseudo_header = match ipv4::Packet::new_checked(&bytes[..]) {
        Ok(ip) => ip.pseudo_header(),
        Err(_) => ipv6::Packet::new_checked(&bytes[..]).ok()?.pseudo_header(),
    };
    header.emit(&mut bytes[start..]).ok()?;
    signal.emit(&mut bytes[start + udp::HEADER_LENGTH..]).ok()?;
    udp::Datagram::new_checked(&mut bytes[start..]).ok()?.fill_checksum(&pseudo_header);
    Some(bytes)
}
