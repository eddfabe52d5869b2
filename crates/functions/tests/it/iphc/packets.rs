//! Packets of flows whose headers change as those of real ones do.

use proptest::prelude::*;
use weft_wire::checksum::{self, PseudoHeader};
use weft_wire::{Protocol, ipv4};

/// What a session is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Udp4,
    Udp6,
    Tcp4,
    Tcp6,
    Echo4,
    /// UDP over IPv4 over IPv6.
    Tunnel,
    /// UDP behind options of IPv4, whose length changes, in IPv6.
    Options4,
    /// A fragment of IPv4 in IPv6.
    Fragment4,
    /// A fragment of IPv6.
    Fragment6,
    /// UDP behind options of IPv6 and an authentication header.
    Extensions6,
    /// A security payload.
    Esp6,
    /// TCP behind options of IPv4.
    TcpOptions4,
    /// TCP behind an authentication header over IPv4.
    TcpAh4,
}

impl Kind {
    /// Whether segments are sent by their differences.
    pub fn is_tcp(self) -> bool {
        matches!(self, Kind::Tcp4 | Kind::Tcp6 | Kind::TcpOptions4 | Kind::TcpAh4)
    }
}

/// How the next packet differs.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Nanoseconds before it.
    pub gap: u64,
    /// Octets of data.
    pub advance: usize,
    pub acknowledge: u32,
    pub window: i16,
    /// Of the IPv4 identification, beyond 1.
    pub skip: u16,
    pub flags: u8,
    pub ttl: bool,
    pub traffic_class: u8,
    pub options: u8,
    /// Sent once more, as TCP does.
    pub back: bool,
}

pub fn steps() -> impl Strategy<Value = Step> {
    let gap = prop_oneof![3 => 0..1_000_000_u64, 1 => 0..10_000_000_000_u64];
    let acknowledge = prop_oneof![Just(0), 0..3000_u32, Just(70_000)];
    let window = prop_oneof![3 => Just(0), 1 => any::<i16>()];
    let skip = prop_oneof![3 => Just(0), 1 => any::<u16>()];
    let flags = prop_oneof![4 => Just(0x10), 1 => Just(0x18), 1 => Just(0x11), 1 => Just(0x30), 1 => Just(0xd0)];
    let rare = |range: std::ops::Range<u8>| prop_oneof![9 => Just(0), 1 => range];
    let numbers = (gap, 0..300_usize, acknowledge, window, skip);
    (numbers, flags, (rare(0..2), rare(0..255), rare(0..3), rare(0..2))).prop_map(
        |(
            (gap, advance, acknowledge, window, skip),
            flags,
            (ttl, traffic_class, options, back),
        )| {
            Step {
                gap,
                advance,
                acknowledge,
                window,
                skip,
                flags,
                ttl: ttl == 1,
                traffic_class,
                options,
                back: back == 1,
            }
        },
    )
}

/// One flow.
#[derive(Clone, Debug)]
pub struct Session {
    kind: Kind,
    port: u16,
    identification: u16,
    sequence: u32,
    acknowledgment: u32,
    window: u16,
    ttl: u8,
    count: u8,
}

impl Session {
    pub fn new(kind: Kind, port: u16) -> Session {
        Session {
            kind,
            port,
            identification: 0xfff0,
            sequence: 0xffff_ff00,
            acknowledgment: 1,
            window: 500,
            ttl: 64,
            count: 0,
        }
    }

    /// So many, of different kinds.
    pub fn all(count: u16) -> Vec<Session> {
        Session::of(
            &[Kind::Tcp4, Kind::Tcp6, Kind::Udp4, Kind::Tunnel, Kind::Udp6, Kind::Echo4],
            count,
        )
    }

    /// So many, of the forms that are not sent field by field.
    pub fn special(count: u16) -> Vec<Session> {
        let first = [Kind::TcpOptions4, Kind::TcpAh4, Kind::Options4, Kind::Fragment4];
        let others = [Kind::Fragment6, Kind::Extensions6, Kind::Esp6];
        Session::of(&[&first[..], &others].concat(), count)
    }

    fn of(kinds: &[Kind], count: u16) -> Vec<Session> {
        (0..count).map(|port| Session::new(kinds[usize::from(port) % kinds.len()], port)).collect()
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The frame of the next packet.
    pub fn next(&mut self, step: &Step) -> Vec<u8> {
        self.count = self.count.wrapping_add(1);
        self.identification = self.identification.wrapping_add(1).wrapping_add(step.skip);
        self.acknowledgment = self.acknowledgment.wrapping_add(step.acknowledge);
        self.window = self.window.wrapping_add_signed(step.window);
        self.ttl = if step.ttl { 63 } else { 64 };
        let data = vec![self.count; step.advance];
        if step.back {
            self.sequence = self.sequence.wrapping_sub(50);
        }
        let packet = match self.kind {
            Kind::Udp4 => self.ipv4(Protocol::UDP, step, self.udp(&data)),
            Kind::Udp6 => self.ipv6(Protocol::UDP, step, self.udp(&data)),
            Kind::Tcp4 => self.ipv4(Protocol::TCP, step, self.tcp(step, &data)),
            Kind::Tcp6 => self.ipv6(Protocol::TCP, step, self.tcp(step, &data)),
            Kind::Echo4 => self.ipv4(Protocol::ICMP, step, [&[8, 0, 0, 0][..], &data].concat()),
            Kind::Tunnel => {
                let inner = self.ipv4(Protocol::UDP, step, self.udp(&data));
                self.ipv6(Protocol::IPV4, &Step::default(), inner)
            }
            Kind::Options4 => {
                let inner = self.with_options(Protocol::UDP, step, self.udp(&data));
                self.ipv6(Protocol::IPV4, &Step::default(), inner)
            }
            Kind::Fragment4 => {
                let mut inner = self.ipv4(Protocol::UDP, step, [&[0; 8][..], &data].concat());
                inner[6..8].copy_from_slice(&[0x20, self.count]);
                ipv4::Packet::new_checked(&mut inner[..]).expect("IPv4").fill_checksum();
                self.ipv6(Protocol::IPV4, &Step::default(), inner)
            }
            Kind::Fragment6 => {
                let [upper, lower] = self.identification.to_be_bytes();
                let fragment = [17, 0, self.count, 1, 0, 0, upper, lower];
                self.ipv6(Protocol::FRAGMENT, step, [&fragment[..], &data].concat())
            }
            Kind::Extensions6 => {
                let options = [51, 0, 5, 2, self.count, 7, 1, 0];
                let udp = self.sealed6(Protocol::UDP, self.udp(&data));
                let upper = [&options[..], &self.authentication(17, 4), &udp].concat();
                self.ipv6(Protocol::DESTINATION_OPTIONS, step, upper)
            }
            Kind::Esp6 => {
                let payload =
                    [&[0, 0, 1, self.port as u8, 0, 0, 0, self.count][..], &data].concat();
                self.ipv6(Protocol::ESP, step, payload)
            }
            Kind::TcpOptions4 => self.with_options(Protocol::TCP, step, self.tcp(step, &data)),
            Kind::TcpAh4 => {
                let tcp = self.sealed4(Protocol::TCP, self.tcp(step, &data));
                self.ipv4(Protocol::AH, step, [&self.authentication(6, 3)[..], &tcp].concat())
            }
        };
        self.sequence = self.sequence.wrapping_add(step.advance as u32);
        let ether_type = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], &ether_type[..], &packet].concat()
    }

    fn udp(&self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in [5004, self.port, 8 + data.len() as u16, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(data);
        bytes
    }

    fn tcp(&self, step: &Step, data: &[u8]) -> Vec<u8> {
        let options = match step.options {
            0 => vec![],
            1 => vec![1; 4],
            _ => vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, self.count],
        };
        let mut bytes = Vec::new();
        bytes.extend(443_u16.to_be_bytes());
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.acknowledgment.to_be_bytes());
        bytes.push((5 + options.len() / 4) as u8 * 16);
        bytes.push(step.flags | 0x10);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0, 0, step.flags & 0x20]);
        bytes.extend(options);
        bytes.extend(data);
        bytes
    }

    /// An authentication header in front of a protocol, of so many words of data.
    fn authentication(&self, next: u8, words: u8) -> Vec<u8> {
        let mut bytes = vec![next, words + 1, 0, 0, 0, 0, 0, self.port as u8];
        bytes.extend(vec![self.count; usize::from(words) * 4]);
        bytes
    }

    fn sealed4(&self, protocol: Protocol, mut transport: Vec<u8>) -> Vec<u8> {
        let (source, destination) = ([10, 0, 0, 1].into(), [192, 0, 2, 1].into());
        fill(&mut transport, protocol, PseudoHeader::V4 { source, destination });
        transport
    }

    fn sealed6(&self, protocol: Protocol, mut transport: Vec<u8>) -> Vec<u8> {
        let (source, destination) = ([0x20; 16].into(), [0x30; 16].into());
        fill(&mut transport, protocol, PseudoHeader::V6 { source, destination });
        transport
    }

    /// IPv4 with options, of another length now and then.
    fn with_options(&self, protocol: Protocol, step: &Step, transport: Vec<u8>) -> Vec<u8> {
        let words = if self.count.is_multiple_of(8) { 2 } else { 1 };
        let mut bytes = self.ipv4(protocol, step, transport);
        bytes.splice(20..20, vec![1; 4 * words]);
        bytes[0] += words as u8;
        let length = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&length.to_be_bytes());
        ipv4::Packet::new_checked(&mut bytes[..]).expect("IPv4").fill_checksum();
        bytes
    }

    fn ipv4(&self, protocol: Protocol, step: &Step, transport: Vec<u8>) -> Vec<u8> {
        let transport = self.sealed4(protocol, transport);
        let mut bytes = vec![0x45, step.traffic_class];
        bytes.extend((20 + transport.len() as u16).to_be_bytes());
        bytes.extend(self.identification.to_be_bytes());
        bytes.extend([0x40, 0, self.ttl, protocol.0, 0, 0, 10, 0, 0, 1, 192, 0, 2, 1]);
        bytes.extend(transport);
        ipv4::Packet::new_checked(&mut bytes[..]).expect("IPv4").fill_checksum();
        bytes
    }

    fn ipv6(&self, protocol: Protocol, step: &Step, transport: Vec<u8>) -> Vec<u8> {
        let transport = self.sealed6(protocol, transport);
        let class = step.traffic_class;
        let mut bytes = vec![0x60 | class >> 4, class << 4, 0, 7];
        bytes.extend((transport.len() as u16).to_be_bytes());
        bytes.extend([protocol.0, self.ttl]);
        bytes.extend([[0x20; 16], [0x30; 16]].concat());
        bytes.extend(transport);
        bytes
    }
}

/// Fills in the checksum of TCP and UDP.
fn fill(transport: &mut [u8], protocol: Protocol, pseudo_header: PseudoHeader) {
    let at = match protocol {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        _ => return,
    };
    let sum = checksum::add(pseudo_header.sum(protocol, transport.len()), checksum::sum(transport));
    let checksum = if sum == 0xffff { 0xffff } else { !sum };
    transport[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}
