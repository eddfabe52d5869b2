//! The headers of datagrams that the bench makes.

use std::net::Ipv4Addr;

use weft_wire::{Error, Protocol, ipv4, udp};

/// Writes IPv4 and UDP header of a datagram that fills `bytes`, without a UDP checksum
/// (RFC 768).
///
/// # Errors
/// When `bytes` is too short or too long.
pub fn datagram(bytes: &mut [u8], addresses: [Ipv4Addr; 2], ports: [u16; 2]) -> Result<(), Error> {
    let length = bytes.len();
    headers(bytes, addresses, ports, length)
}

/// The same for a datagram of `length` octets of which `bytes` is the beginning.
///
/// # Errors
/// As [`datagram`].
pub fn headers(
    bytes: &mut [u8],
    [source, destination]: [Ipv4Addr; 2],
    [source_port, destination_port]: [u16; 2],
    length: usize,
) -> Result<(), Error> {
    let length = length.saturating_sub(ipv4::MIN_HEADER_LENGTH) as u16;
    let network = ipv4::Repr {
        source,
        destination,
        protocol: Protocol::UDP,
        payload_length: length,
        time_to_live: 64,
        ..Default::default()
    };
    network.emit(bytes)?;
    let payload_length = length.saturating_sub(udp::HEADER_LENGTH as u16);
    udp::Repr { source_port, destination_port, payload_length }
        .emit(&mut bytes[ipv4::MIN_HEADER_LENGTH..])
}
