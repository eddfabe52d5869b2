//! The walk over extension headers (RFC 8200 §4).

use super::HEADER_LENGTH;
use crate::Error;
use crate::ip::{Fragment, Protocol};
use crate::octets::{u16_at, u32_at};

/// Extension headers of one packet that are read at most.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// What a packet carries behind its extension headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UpperLayer {
    /// What it is. In a fragment other than the first, what the fragmented part
    /// begins with, which may be an extension header.
    pub protocol: Protocol,
    /// Where it begins, in octets from the start of the IPv6 header; at most the
    /// packet's total length.
    pub offset: usize,
    /// Which part of a datagram it is; `None` without a fragment header.
    pub fragment: Option<Fragment>,
}

impl UpperLayer {
    /// The upper layer's header is here, not in another fragment.
    #[inline]
    pub fn has_header(&self) -> bool {
        self.fragment.is_none_or(|fragment| fragment.is_first())
    }
}

/// What a packet with this first next header carries.
#[inline]
pub(super) fn upper_layer(packet: &[u8], next_header: Protocol) -> Result<UpperLayer, Error> {
    let start = UpperLayer { protocol: next_header, offset: HEADER_LENGTH, fragment: None };
    if is_extension_header(next_header) { walk(packet, start) } else { Ok(start) }
}

#[inline]
const fn is_extension_header(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::HOP_BY_HOP
            | Protocol::ROUTING
            | Protocol::FRAGMENT
            | Protocol::DESTINATION_OPTIONS
            | Protocol::AH
    )
}

/// Apart from the way of most packets: few have extension headers.
#[cold]
fn walk(packet: &[u8], start: UpperLayer) -> Result<UpperLayer, Error> {
    let mut at = start;
    for _ in 0..MAX_EXTENSION_HEADERS {
        if at.protocol == Protocol::HOP_BY_HOP && at.offset != HEADER_LENGTH {
            return Err(Error::MisplacedHopByHop);
        }
        let rest = packet.get(at.offset..).unwrap_or_default();
        let extension = rest.first_chunk::<8>().ok_or(Error::TruncatedExtensionHeader)?;
        let length = extension_header_length(at.protocol, extension[1])?;
        if length > rest.len() {
            return Err(Error::TruncatedExtensionHeader);
        }
        if at.protocol == Protocol::FRAGMENT {
            if at.fragment.is_some() {
                return Err(Error::RepeatedFragmentHeader);
            }
            at.fragment = Some(fragment(extension));
        }
        at.protocol = Protocol(extension[0]);
        at.offset += length;
        if !at.has_header() || !is_extension_header(at.protocol) {
            return Ok(at);
        }
    }
    Err(Error::TooManyExtensionHeaders)
}

/// Octets of an extension header, from its length field.
#[inline]
fn extension_header_length(protocol: Protocol, field: u8) -> Result<usize, Error> {
    match protocol {
        Protocol::FRAGMENT => Ok(8),
        // Its fixed fields alone are 12 octets.
        Protocol::AH if field == 0 => Err(Error::BadExtensionHeaderLength),
        Protocol::AH => Ok((usize::from(field) + 2) * 4),
        _ => Ok((usize::from(field) + 1) * 8),
    }
}

#[inline]
fn fragment(extension: &[u8; 8]) -> Fragment {
    let offset_and_more = u16_at(extension, 2..4);
    Fragment {
        identification: u32_at(extension, 4..8),
        offset: offset_and_more & 0xfff8,
        more: offset_and_more & 1 != 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{hex, protocol};

    /// The upper layer of a packet whose extension headers are these.
    fn upper(first: Protocol, extensions: &[u8]) -> Result<UpperLayer, Error> {
        let packet = [&[0; HEADER_LENGTH], extensions].concat();
        upper_layer(&packet, first)
    }

    #[test]
    fn walks_to_a_first_fragment() {
        let bytes = hex("3c00050200000100 2c00010400000000 110000010000cafe 1388086803e81111");
        let upper = upper(Protocol::HOP_BY_HOP, &bytes).unwrap();
        let fragment = Fragment { identification: 0xcafe, offset: 0, more: true };
        let expected = UpperLayer { protocol: Protocol::UDP, offset: 64, fragment: Some(fragment) };
        assert_eq!(upper, expected);
        assert!(upper.has_header());
    }

    #[test]
    fn walks_over_routing_and_authentication() {
        let routing = hex("3302000000000000 20010db8000000000000000000000003");
        let authentication = hex("0604000000000005 00000006010101010101010101010101");
        let bytes = [routing, authentication, vec![0; 20]].concat();
        let upper = upper(Protocol::ROUTING, &bytes).unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::TCP, 40 + 24 + 24));
    }

    /// Fault 16: behind a later fragment's header there is no header to read.
    #[test]
    fn fault_16_a_later_fragment_ends_the_walk() {
        let upper = upper(Protocol::FRAGMENT, &hex("3c0005a800000009 ffffffff")).unwrap();
        assert_eq!((upper.protocol, upper.offset), (Protocol::DESTINATION_OPTIONS, 48));
        assert_eq!(upper.fragment.unwrap().offset, 0x05a8);
        assert!(!upper.has_header());
    }

    #[test]
    fn what_is_no_extension_header_ends_the_walk() {
        for protocol in [Protocol::ESP, Protocol::NO_NEXT_HEADER, Protocol::ICMPV6] {
            let bytes = [&[protocol.0, 0, 0, 0, 0, 0, 0, 0][..], &[0xff; 4]].concat();
            let upper = upper(Protocol::DESTINATION_OPTIONS, &bytes).unwrap();
            assert_eq!((upper.protocol, upper.offset), (protocol, 48));
        }
    }

    /// Fault 15: the walk over extension headers.
    #[test]
    fn fault_15_defects_are_named() {
        use Protocol as P;
        let options = |count| hex("3c00000000000000").repeat(count);
        let end = hex("1100000000000000");
        let eight = [options(7), end.clone()].concat();
        assert_eq!(upper(P::DESTINATION_OPTIONS, &eight).unwrap().offset, 40 + 64);
        let nine = [options(8), end].concat();
        let cases = [
            (P::DESTINATION_OPTIONS, nine, Error::TooManyExtensionHeaders),
            (P::DESTINATION_OPTIONS, options(1000), Error::TooManyExtensionHeaders),
            (P::ROUTING, vec![17, 0, 0], Error::TruncatedExtensionHeader),
            (P::ROUTING, vec![17, 1, 0, 0, 0, 0, 0, 0], Error::TruncatedExtensionHeader),
            (P::FRAGMENT, vec![], Error::TruncatedExtensionHeader),
            (P::AH, vec![6, 0, 0, 0, 0, 0, 0, 0], Error::BadExtensionHeaderLength),
            (P::ROUTING, hex("0000000000000000"), Error::MisplacedHopByHop),
            (P::FRAGMENT, hex("2c00000000000000").repeat(2), Error::RepeatedFragmentHeader),
        ];
        for (first, bytes, error) in cases {
            assert_eq!(upper(first, &bytes), Err(error), "{first} {bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn the_walk_stays_within_the_packet(
            first in protocol(),
            headers in vec((protocol(), 0..4_u8, any::<[u8; 6]>()), 0..12),
        ) {
            let header = |(next, length, rest): &(u8, u8, [u8; 6])| {
                [&[*next, *length], &rest[..]].concat()
            };
            let bytes: Vec<u8> = headers.iter().flat_map(header).collect();
            if let Ok(upper) = upper(Protocol(first), &bytes) {
                prop_assert!(upper.offset <= HEADER_LENGTH + bytes.len());
                prop_assert!(!upper.has_header() || !is_extension_header(upper.protocol));
            }
        }
    }
}
