//! Sends HTTP requests of a user elsewhere (3GPP TS 29.244 §8.2.20): the node answers in place of
//! the server, and each request with *302 Found* (RFC 9110 §15.4.3).
//!
//! Nothing is kept of a connection. The node's first sequence number follows from the user's and
//! the other way round, so a segment alone says how far the user is: the acknowledgment number
//! names the first octet of the user, and a segment that does not begin there is no request.
//!
//! | segment of the user | the node's answer |
//! |---|---|
//! | SYN | SYN |
//! | an HTTP request | the response, FIN |
//! | its second and later segments | nothing but the acknowledgment |
//! | other data | RST, so that TLS fails at once |
//! | FIN | the acknowledgment |
//! | others | none |
//!
//! An answer is one packet for one packet, goes to the user alone, and passes the rules of the
//! session's downlink packets.

use weft_function::{Emit, Headers, IpView, Metadata, Packet, PacketMetadata};
use weft_wire::checksum::PseudoHeader;
use weft_wire::options::Options;
use weft_wire::tcp::{Flags, MIN_HEADER_LENGTH, Repr, Segment};
use weft_wire::{EtherType, Protocol, ipv4, ipv6};

use crate::common::icmp_error::frame;

/// What the two first sequence numbers differ by.
const DIFFERENCE: u32 = 0x5eed_f00d;
/// Octets of a request behind its first that are still taken for it.
const LONGEST_REQUEST: u32 = 64 << 10;
/// Maximum segment size, for a path of IPv6's least MTU: kind, length, 1,220.
const MAXIMUM_SEGMENT: [u8; 4] = [2, 4, 0x04, 0xc4];
const WINDOW: u16 = u16::MAX;
const HOPS: u8 = 64;
/// What requests begin with (RFC 9110 §9.3, RFC 5789).
const METHODS: [&[u8]; 8] =
    [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE "];

/// What a segment is answered with.
struct Reply {
    flags: Flags,
    sequence: u32,
    acknowledgment: u32,
    has_response: bool,
}

/// Answers a packet in place of the server; whether it is of a connection that HTTP may use.
#[cold]
pub fn answer(packet: &Packet, url: &str, emit: &mut Emit<'_>) -> bool {
    if packet.protocol() != Some(Protocol::TCP)
        || packet.metadata().flags & PacketMetadata::FRAGMENT != 0
    {
        return false;
    }
    let Some(ends) = Ends::of(packet) else { return false };
    let Some(Ok(segment)) = packet.transport().map(Segment::new_checked) else { return false };
    if segment.verify_checksum(&ends.pseudo_header(true)).is_err() {
        return false;
    }
    if let Some(reply) = reply(&segment) {
        let response = match reply.has_response {
            true => response(url),
            false => Vec::new(),
        };
        // Without room for an answer the user asks again.
        let _ = build(packet, &ends, &segment, &reply, &response, emit)
            .map(|answer| emit.answer(answer));
    }
    true
}

fn reply(segment: &Segment<&[u8]>) -> Option<Reply> {
    let (flags, first) = (segment.flags(), segment.sequence());
    let length = segment.payload().len() as u32;
    let next = first.wrapping_add(length);
    let plain = |flags, acknowledgment| {
        let sequence = segment.acknowledgment();
        Some(Reply { flags, sequence, acknowledgment, has_response: false })
    };
    if flags.contains(Flags::RST) {
        return None;
    }
    if flags.contains(Flags::SYN) {
        if flags.contains(Flags::ACK) {
            return None;
        }
        return Some(Reply {
            flags: Flags::SYN | Flags::ACK,
            sequence: first ^ DIFFERENCE,
            acknowledgment: first.wrapping_add(1),
            has_response: false,
        });
    }
    if !flags.contains(Flags::ACK) {
        return None;
    }
    let next = next.wrapping_add(u32::from(flags.contains(Flags::FIN)));
    if length == 0 {
        return if flags.contains(Flags::FIN) { plain(Flags::ACK, next) } else { None };
    }
    let begin = (segment.acknowledgment().wrapping_sub(1) ^ DIFFERENCE).wrapping_add(1);
    let place = first.wrapping_sub(begin);
    if place == 0 && METHODS.iter().any(|method| segment.payload().starts_with(method)) {
        return Some(Reply {
            flags: Flags::FIN | Flags::PSH | Flags::ACK,
            sequence: segment.acknowledgment(),
            acknowledgment: next,
            has_response: true,
        });
    }
    match (1..LONGEST_REQUEST).contains(&place) {
        true => plain(Flags::ACK, next),
        false => plain(Flags::RST | Flags::ACK, next),
    }
}

fn response(url: &str) -> Vec<u8> {
    let text = [
        "HTTP/1.1 302 Found\r\nLocation: ",
        url,
        "\r\nCache-Control: no-store\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ];
    text.concat().into_bytes()
}

/// The hosts of a connection: the user's and the one that the node stands in for.
enum Ends {
    V4(std::net::Ipv4Addr, std::net::Ipv4Addr),
    V6(std::net::Ipv6Addr, std::net::Ipv6Addr),
}

impl Ends {
    fn of(packet: &Packet) -> Option<Ends> {
        Some(match packet.ip()? {
            IpView::V4(ip) => Ends::V4(ip.source(), ip.destination()),
            IpView::V6(ip) => Ends::V6(ip.source(), ip.destination()),
        })
    }

    /// That of packets from the user, or to it.
    fn pseudo_header(&self, from_user: bool) -> PseudoHeader {
        match *self {
            Ends::V4(user, host) => {
                let (source, destination) = if from_user { (user, host) } else { (host, user) };
                PseudoHeader::V4 { source, destination }
            }
            Ends::V6(user, host) => {
                let (source, destination) = if from_user { (user, host) } else { (host, user) };
                PseudoHeader::V6 { source, destination }
            }
        }
    }
}

fn build(
    packet: &Packet,
    ends: &Ends,
    segment: &Segment<&[u8]>,
    reply: &Reply,
    response: &[u8],
    emit: &Emit<'_>,
) -> Option<Packet> {
    let is_first = reply.flags.contains(Flags::SYN);
    let options: &[u8] = if is_first { &MAXIMUM_SEGMENT } else { &[] };
    let tcp = Repr {
        source_port: segment.destination_port(),
        destination_port: segment.source_port(),
        sequence: reply.sequence,
        acknowledgment: reply.acknowledgment,
        flags: reply.flags,
        window: WINDOW,
        urgent_pointer: 0,
        options: Options::new(options)?,
    };
    let header = MIN_HEADER_LENGTH + options.len();
    let payload_length = (header + response.len()) as u16;
    let (front, ether_type) = match ends {
        Ends::V4(..) => (ipv4::MIN_HEADER_LENGTH, EtherType::IPV4),
        Ends::V6(..) => (ipv6::HEADER_LENGTH, EtherType::IPV6),
    };
    let (mut answer, range) =
        frame(packet, ether_type, Protocol::TCP, (front, header), response, emit)?;
    // It is in no tunnel yet, wherever the packet was.
    answer.metadata_mut().flags = 0;
    let bytes = answer.data_mut().get_mut(range)?;
    match *ends {
        Ends::V4(user, host) => ipv4::Repr {
            source: host,
            destination: user,
            protocol: Protocol::TCP,
            payload_length,
            time_to_live: HOPS,
            // Never fragmented, so it needs no identification (RFC 6864 §4.1).
            dont_fragment: true,
            ..Default::default()
        }
        .emit(bytes)
        .ok()?,
        Ends::V6(user, host) => ipv6::Repr {
            source: host,
            destination: user,
            next_header: Protocol::TCP,
            payload_length,
            hop_limit: HOPS,
            ..Default::default()
        }
        .emit(bytes)
        .ok()?,
    }
    let bytes = bytes.get_mut(front..)?;
    tcp.emit(bytes).ok()?;
    Segment::new_checked(bytes).ok()?.fill_checksum(&ends.pseudo_header(false));
    Some(answer)
}
