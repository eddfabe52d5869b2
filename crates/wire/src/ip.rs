//! What IPv4 and IPv6 have in common: protocol numbers, DSCP, ECN, fragments.

use std::fmt;
use std::str::FromStr;

use crate::TextError;

/// An IANA protocol number: IPv4's protocol, IPv6's next header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 hop-by-hop options (RFC 8200 §4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// IGMP.
    pub const IGMP: Self = Self(2);
    /// IPv4 within IP.
    pub const IPV4: Self = Self(4);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 within IP.
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header (RFC 8200 §4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header (RFC 8200 §4.5).
    pub const FRAGMENT: Self = Self(44);
    /// GRE.
    pub const GRE: Self = Self(47);
    /// IPsec encapsulating security payload (RFC 4303).
    pub const ESP: Self = Self(50);
    /// IPsec authentication header (RFC 4302).
    pub const AH: Self = Self(51);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// Nothing follows an IPv6 header (RFC 8200 §4.7).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options (RFC 8200 §4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
    /// OSPF.
    pub const OSPF: Self = Self(89);
    /// SCTP.
    pub const SCTP: Self = Self(132);
    /// UDP-Lite.
    pub const UDP_LITE: Self = Self(136);

    const NAMES: [(Self, &'static str); 18] = [
        (Self::HOP_BY_HOP, "hop-by-hop"),
        (Self::ICMP, "icmp"),
        (Self::IGMP, "igmp"),
        (Self::IPV4, "ipv4"),
        (Self::TCP, "tcp"),
        (Self::UDP, "udp"),
        (Self::IPV6, "ipv6"),
        (Self::ROUTING, "routing"),
        (Self::FRAGMENT, "fragment"),
        (Self::GRE, "gre"),
        (Self::ESP, "esp"),
        (Self::AH, "ah"),
        (Self::ICMPV6, "icmpv6"),
        (Self::NO_NEXT_HEADER, "no-next-header"),
        (Self::DESTINATION_OPTIONS, "destination-options"),
        (Self::OSPF, "ospf"),
        (Self::SCTP, "sctp"),
        (Self::UDP_LITE, "udp-lite"),
    ];
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(protocol, _)| protocol == self) {
            Some((_, name)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Protocol {
    type Err = TextError;

    /// A name as [`Display`](fmt::Display) writes it, in any case, or a number.
    #[inline]
    fn from_str(text: &str) -> Result<Self, TextError> {
        match Self::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
            Some((protocol, _)) => Ok(*protocol),
            None => text.parse().map(Self).map_err(|_| TextError::Protocol),
        }
    }
}

/// A differentiated services code point, 0 to 63 (RFC 2474).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dscp(u8);

impl Dscp {
    /// Default forwarding, which is class selector 0 (RFC 2474 §4.1).
    pub const CS0: Self = Self(0);
    /// Expedited forwarding (RFC 3246).
    pub const EF: Self = Self(46);

    const NAMES: [(u8, &'static str); 22] = [
        (0, "cs0"),
        (8, "cs1"),
        (16, "cs2"),
        (24, "cs3"),
        (32, "cs4"),
        (40, "cs5"),
        (48, "cs6"),
        (56, "cs7"),
        (10, "af11"),
        (12, "af12"),
        (14, "af13"),
        (18, "af21"),
        (20, "af22"),
        (22, "af23"),
        (26, "af31"),
        (28, "af32"),
        (30, "af33"),
        (34, "af41"),
        (36, "af42"),
        (38, "af43"),
        (44, "va"),
        (46, "ef"),
    ];

    /// The code point of a number; `None` above 63.
    #[inline]
    pub const fn new(value: u8) -> Option<Self> {
        if value < 64 { Some(Self(value)) } else { None }
    }

    /// The upper six bits of an IPv4 type of service or IPv6 traffic class octet.
    #[inline]
    pub const fn of_traffic_class(octet: u8) -> Self {
        Self(octet >> 2)
    }

    /// The number, 0 to 63.
    #[inline]
    pub const fn value(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(value, _)| *value == self.0) {
            Some((_, name)) => f.pad(name),
            None => self.0.fmt(f),
        }
    }
}

impl FromStr for Dscp {
    type Err = TextError;

    /// A name (`ef`, `va`, `cs0` to `cs7`, `af11` to `af43`) in any case, or a
    /// number.
    #[inline]
    fn from_str(text: &str) -> Result<Self, TextError> {
        match Self::NAMES.iter().find(|(_, name)| name.eq_ignore_ascii_case(text)) {
            Some((value, _)) => Ok(Self(*value)),
            None => text.parse().ok().and_then(Self::new).ok_or(TextError::Dscp),
        }
    }
}

/// Explicit congestion notification (RFC 3168 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not take part.
    #[default]
    NotEct = 0,
    /// Capable transport, ECT(1).
    Ect1 = 1,
    /// Capable transport, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The lower two bits of an IPv4 type of service or IPv6 traffic class octet.
    #[inline]
    pub const fn of_traffic_class(octet: u8) -> Self {
        match octet & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// The octet that carries both: IPv4's type of service, IPv6's traffic class.
#[inline]
pub const fn traffic_class(dscp: Dscp, ecn: Ecn) -> u8 {
    dscp.0 << 2 | ecn as u8
}

/// Which part of a datagram a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// The same in all fragments of one datagram; 16 bits in IPv4.
    pub identification: u32,
    /// Where in the datagram the fragment begins, in octets; a multiple of 8.
    pub offset: u16,
    /// More fragments follow.
    pub more: bool,
}

impl Fragment {
    /// The fragment begins the datagram, so it has the transport header.
    #[inline]
    pub const fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// First and last at once: an atomic fragment (RFC 6946).
    #[inline]
    pub const fn is_whole(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_survives_its_text() {
        for number in 0..=255 {
            let protocol = Protocol(number);
            assert_eq!(protocol.to_string().parse(), Ok(protocol));
        }
        assert_eq!(Protocol::UDP.to_string(), "udp");
        assert_eq!(Protocol(99).to_string(), "99");
        assert_eq!("ICMPv6".parse(), Ok(Protocol::ICMPV6));
        assert_eq!("256".parse::<Protocol>(), Err(TextError::Protocol));
        assert_eq!("".parse::<Protocol>(), Err(TextError::Protocol));
    }

    #[test]
    fn every_dscp_survives_its_text() {
        for value in 0..64 {
            let dscp = Dscp::new(value).unwrap();
            assert_eq!(dscp.to_string().parse(), Ok(dscp));
        }
        assert_eq!(Dscp::new(64), None);
        assert_eq!("64".parse::<Dscp>(), Err(TextError::Dscp));
        assert_eq!("af44".parse::<Dscp>(), Err(TextError::Dscp));
    }

    #[test]
    fn dscp_names_are_those_of_the_registry() {
        for class in 0..8 {
            assert_eq!(format!("cs{class}").parse(), Ok(Dscp(class * 8)));
        }
        for class in 1..=4 {
            for precedence in 1..=3 {
                let value = class * 8 + precedence * 2;
                assert_eq!(format!("af{class}{precedence}").parse(), Ok(Dscp(value)));
            }
        }
        assert_eq!("EF".parse(), Ok(Dscp::EF));
        assert_eq!("va".parse(), Ok(Dscp(44)));
    }

    #[test]
    fn traffic_class_is_dscp_and_ecn() {
        for octet in 0..=255 {
            let (dscp, ecn) = (Dscp::of_traffic_class(octet), Ecn::of_traffic_class(octet));
            assert_eq!(traffic_class(dscp, ecn), octet);
        }
        assert_eq!(traffic_class(Dscp::EF, Ecn::Ce), 0xbb);
    }

    #[test]
    fn names_pad() {
        assert_eq!(
            format!("{:>6}|{:<6}|{:>4}", Protocol::TCP, Dscp::EF, Dscp(1)),
            "   tcp|ef    |   1"
        );
    }
}
