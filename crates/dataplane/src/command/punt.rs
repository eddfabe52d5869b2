//! Why a packet is given to the agent.

use weft_dpdk::Packet;
use weft_function::{Headers, Metadata, Reason, StepData, StepValue};
use weft_wire::gtpu::{self, MessageType};
use weft_wire::{EtherType, Protocol, arp, icmpv4, icmpv6, udp};

use crate::counters::{DropReason, Ignored, PUNTS};

/// First of the UDP ports that tunnels send from. Many peers send Error Indications there,
/// to where the packet came from that they are about.
pub const FIRST_SOURCE_PORT: u16 = 0xc000;

/// Why a packet is given to the agent: what it asks of the node itself, or what its sender
/// is owed. Each kind has a token bucket of its own, so none starves another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Punt {
    /// An ARP request (RFC 826) or a neighbour solicitation (RFC 4861 §4.3).
    NeighbourRequest,
    /// An ARP reply or a neighbour advertisement (RFC 4861 §4.4).
    NeighbourAnswer,
    /// An echo request (RFC 792, RFC 4443 §4.1).
    Ping,
    /// A GTP-U Echo Request (TS 29.281 §7.2.1).
    EchoRequest,
    /// A GTP-U Echo Response (TS 29.281 §7.2.2).
    EchoResponse,
    /// Another GTP-U message for the node itself: an Error Indication (TS 29.281 §7.3.1).
    GtpuMessage,
    /// Its sender is owed a *time exceeded* (RFC 792, RFC 4443 §3.3).
    TimeExceeded,
    /// Its sender is owed a *fragmentation needed* or *packet too big*
    /// (RFC 1191, RFC 4443 §3.2); the MTU stands in the upper half.
    TooBig,
    /// Its sender is owed a *host unreachable* (RFC 1812 §4.3.3.1).
    Unreachable,
    /// Its sender is owed a *network unreachable* or *no route* (RFC 1812
    /// §4.3.3.1, RFC 4443 §3.1).
    NoRoute,
    /// Its sender is owed an *Error Indication* (TS 29.281 §7.3.1).
    UnknownTeid,
    /// Its sender is owed a *Supported Extension Headers Notification*
    /// (TS 29.281 §7.2.3).
    UnknownExtension,
}

const _: () = assert!(Punt::ALL.len() == PUNTS);

impl Punt {
    /// All of them, in the order of their numbers, with a name and what they are.
    pub const ALL: &'static [(Punt, Reason)] = {
        use Punt::*;
        &[
            (
                NeighbourRequest,
                Reason::new("neighbour_request", "ARP request or neighbour solicitation"),
            ),
            (
                NeighbourAnswer,
                Reason::new("neighbour_answer", "ARP reply or neighbour advertisement"),
            ),
            (Ping, Reason::new("ping", "echo request of ICMP or ICMPv6")),
            (EchoRequest, Reason::new("echo_request", "GTP-U Echo Request")),
            (EchoResponse, Reason::new("echo_response", "GTP-U Echo Response")),
            (GtpuMessage, Reason::new("gtpu_message", "other GTP-U message")),
            (TimeExceeded, Reason::new("time_exceeded", "ICMP time exceeded")),
            (TooBig, Reason::new("too_big", "ICMP fragmentation needed, or packet too big")),
            (Unreachable, Reason::new("host_unreachable", "ICMP host unreachable")),
            (NoRoute, Reason::new("no_route", "ICMP network unreachable, or no route")),
            (UnknownTeid, Reason::new("error_indication", "GTP-U Error Indication")),
            (
                UnknownExtension,
                Reason::new(
                    "supported_extensions",
                    "GTP-U Supported Extension Headers Notification",
                ),
            ),
        ]
    };

    /// What a packet for the node itself asks of it. Read from a few octets: the agent looks
    /// closer.
    ///
    /// # Errors
    /// Why nothing comes of it.
    pub fn of_local(packet: &Packet) -> Result<Punt, Ignored> {
        if packet.metadata().ether_type == EtherType::ARP.0 {
            let network = usize::from(packet.metadata().network_offset);
            let octets = packet.data().get(network..).unwrap_or_default();
            let message = arp::Packet::new_checked(octets);
            return match message.map_err(|_| Ignored::NeighbourMalformed)?.operation() {
                arp::Operation::REQUEST => Ok(Punt::NeighbourRequest),
                arp::Operation::REPLY => Ok(Punt::NeighbourAnswer),
                _ => Err(Ignored::NeighbourRefused),
            };
        }
        let transport = packet.transport().ok_or(Ignored::ProtocolUnknown)?;
        let first = transport.first().copied();
        match packet.protocol() {
            Some(Protocol::ICMP) => match first.map(icmpv4::Type) {
                Some(icmpv4::Type::ECHO_REQUEST) => Ok(Punt::Ping),
                Some(_) => Err(Ignored::IcmpUnknown),
                None => Err(Ignored::IcmpMalformed),
            },
            Some(Protocol::ICMPV6) => match first.map(icmpv6::Type) {
                Some(icmpv6::Type::NEIGHBOUR_SOLICITATION) => Ok(Punt::NeighbourRequest),
                Some(icmpv6::Type::NEIGHBOUR_ADVERTISEMENT) => Ok(Punt::NeighbourAnswer),
                Some(icmpv6::Type::ECHO_REQUEST) => Ok(Punt::Ping),
                Some(_) => Err(Ignored::IcmpUnknown),
                None => Err(Ignored::IcmpMalformed),
            },
            Some(Protocol::UDP) => {
                let (_, port) = packet.ports().ok_or(Ignored::ProtocolUnknown)?;
                let kind = transport.get(udp::HEADER_LENGTH + 1).map(|kind| MessageType(*kind));
                match (port, kind) {
                    (gtpu::PORT, None) => Err(Ignored::GtpuMalformed),
                    (gtpu::PORT, Some(MessageType::ECHO_REQUEST)) => Ok(Punt::EchoRequest),
                    (gtpu::PORT, Some(MessageType::ECHO_RESPONSE)) => Ok(Punt::EchoResponse),
                    (gtpu::PORT, Some(_)) => Ok(Punt::GtpuMessage),
                    (FIRST_SOURCE_PORT.., Some(MessageType::ERROR_INDICATION)) => {
                        Ok(Punt::GtpuMessage)
                    }
                    _ => Err(Ignored::PortUnknown),
                }
            }
            _ => Err(Ignored::ProtocolUnknown),
        }
    }

    /// Whether it is about neighbours, which have a ring of their own.
    pub fn is_of_neighbour(self) -> bool {
        matches!(self, Punt::NeighbourRequest | Punt::NeighbourAnswer)
    }

    /// Why a packet for the node itself is dropped of which there are too many; none for
    /// those that were dropped before, and whose senders are only owed an answer.
    pub fn refusal(self) -> Option<DropReason> {
        match self {
            Punt::NeighbourRequest => Some(DropReason::NeighbourRequestRate),
            Punt::NeighbourAnswer => Some(DropReason::NeighbourAnswerRate),
            Punt::Ping => Some(DropReason::PingRate),
            Punt::EchoRequest => Some(DropReason::EchoRequestRate),
            Punt::EchoResponse => Some(DropReason::EchoResponseRate),
            Punt::GtpuMessage => Some(DropReason::GtpuMessageRate),
            _ => None,
        }
    }

    /// Notes in a packet why the agent gets it.
    pub fn mark(self, packet: &mut Packet, mtu: u16) {
        packet.metadata_mut().step = StepValue::new(Punted { cause: self, mtu });
    }
}

/// Why a packet is given to the agent, and the MTU that it does not fit, for
/// [`Punt::TooBig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Punted {
    /// Why.
    pub cause: Punt,
    /// Octets that fit; 0 for any other cause.
    pub mtu: u16,
}

/// A worker leaves it for the agent.
impl StepData for Punted {
    #[inline]
    fn to_bits(self) -> u32 {
        self.cause as u32 | u32::from(self.mtu) << 16
    }

    #[inline]
    fn from_bits(bits: u32) -> Punted {
        let known = Punt::ALL.get((bits & 0xffff) as usize);
        Punted { cause: known.map_or(Punt::NoRoute, |(punt, _)| *punt), mtu: (bits >> 16) as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_stands_at_its_number_and_names_are_unique() {
        for (number, (punt, text)) in Punt::ALL.iter().enumerate() {
            assert_eq!(*punt as usize, number, "{text}");
            let same = Punt::ALL.iter().filter(|(_, other)| other.name == text.name);
            assert_eq!(same.count(), 1, "{text}");
        }
    }
}
