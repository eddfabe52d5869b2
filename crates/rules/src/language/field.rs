//! Header fields that conditions may read, and the facts of a packet behind them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A header field of the packet (the user's packet: inside a tunnel, if there is one).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// Source address, IPv4 or IPv6.
    Source,
    /// Destination address, IPv4 or IPv6.
    Destination,
    /// IPv4 protocol, or the last IPv6 next header (IANA protocol numbers).
    Protocol,
    /// Source port of TCP, UDP or SCTP.
    SourcePort,
    /// Destination port of TCP, UDP or SCTP.
    DestinationPort,
    /// Differentiated services code point, 0–63 (RFC 2474).
    Dscp,
    /// VLAN identifier of the outermost tag, 0–4095 (IEEE 802.1Q).
    Vlan,
    /// QoS flow identifier in the PDU session container of the tunnel that the packet came in,
    /// 0–63 (TS 38.415 §5.5.3.3).
    Qfi,
    /// The port at which the packet came in, as a number the value of its `PortIndex`.
    Port,
}

/// What a condition reads of a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Variable {
    Tag(u8),
    Field(Field),
}

impl Variable {
    /// Whether every packet has a value for it.
    pub(crate) fn always_present(self) -> bool {
        matches!(self, Variable::Tag(_) | Variable::Field(Field::Port))
    }
}

/// What a field's values look like in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldKind {
    Address,
    Number,
    Port,
}

impl Field {
    /// All fields, in the order of their discriminants.
    pub const ALL: [Field; 9] = [
        Field::Source,
        Field::Destination,
        Field::Protocol,
        Field::SourcePort,
        Field::DestinationPort,
        Field::Dscp,
        Field::Vlan,
        Field::Qfi,
        Field::Port,
    ];

    /// The field's name in the language.
    pub fn name(self) -> &'static str {
        match self {
            Field::Source => "source",
            Field::Destination => "destination",
            Field::Protocol => "protocol",
            Field::SourcePort => "source-port",
            Field::DestinationPort => "destination-port",
            Field::Dscp => "dscp",
            Field::Vlan => "vlan",
            Field::Qfi => "qfi",
            Field::Port => "port",
        }
    }

    /// The field of this name.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    pub(crate) fn kind(self) -> FieldKind {
        match self {
            Field::Source | Field::Destination => FieldKind::Address,
            Field::Port => FieldKind::Port,
            _ => FieldKind::Number,
        }
    }

    /// The largest number that the field can hold.
    pub(crate) fn maximum(self) -> u32 {
        match self {
            Field::Protocol => 255,
            Field::Dscp | Field::Qfi => 63,
            Field::Vlan => 4095,
            _ => 65_535,
        }
    }

    /// The number that `name` stands for in this field.
    pub(crate) fn named_number(self, name: &str) -> Option<u32> {
        self.number_names().find(|(known, _)| known == name).map(|(_, number)| number)
    }

    /// Names of this field's numbers.
    pub(crate) fn number_names(self) -> Box<dyn Iterator<Item = (String, u32)>> {
        match self {
            Field::Protocol => {
                Box::new(PROTOCOLS.iter().map(|&(name, number)| (name.to_owned(), number)))
            }
            Field::Dscp => Box::new(dscp_names()),
            _ => Box::new(std::iter::empty()),
        }
    }
}

/// IANA protocol numbers that have a name in the language.
const PROTOCOLS: [(&str, u32); 7] =
    [("tcp", 6), ("udp", 17), ("icmp", 1), ("icmpv6", 58), ("esp", 50), ("gre", 47), ("sctp", 132)];

/// Class selectors (RFC 2474 §4.2.2), assured (RFC 2597 §6) and expedited forwarding (RFC 3246).
fn dscp_names() -> impl Iterator<Item = (String, u32)> {
    let selectors = (0..8).map(|class| (format!("cs{class}"), 8 * class));
    let assured = (1..5).flat_map(|class| {
        (1..4).map(move |drop| (format!("af{class}{drop}"), 8 * class + 2 * drop))
    });
    selectors.chain(assured).chain([("ef".to_owned(), 46)])
}

/// The value of a header field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FieldValue {
    /// Of all fields but addresses.
    Number(u32),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address.
    V6(Ipv6Addr),
}

/// What conditions ask of a packet.
pub trait Facts {
    /// The value of the tag at `slot`; slots are those of the vocabulary.
    fn tag(&self, slot: u8) -> u32;

    /// The value of a header field, `None` if the packet does not have it.
    fn field(&self, field: Field) -> Option<FieldValue>;
}
