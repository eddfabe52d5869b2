//! What the tests of all functions share: packets, and a function on its own.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::net::IpAddr;
use std::ops::Range;
use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use weft_compose::{Burst, Instance, Kind, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Eal, EalOptions, Pool, tsc};
use weft_function::{
    ConfigError, EmissionKind, Metadata, PacketMetadata, Setup, TagSlot, TagTable,
};
use weft_wire::checksum::PseudoHeader;
use weft_wire::{EtherType, Protocol, ethernet, icmpv6, ipv4, ipv6, tcp, udp};

/// Contexts that a [`Rig`] has room for.
pub const CONTEXTS: usize = 8;
/// Octets in front of the IP header.
pub const NETWORK: usize = ethernet::HEADER_LENGTH;

/// The packets of a test process: few, and without huge pages.
pub fn pool() -> Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let make = || {
        let options =
            EalOptions { memory_megabytes: 128, huge_pages: false, ..EalOptions::default() };
        let eal = Eal::start(&options).expect("the environment starts");
        Pool::new(eal, "functions", 1023).expect("there is memory for a pool")
    };
    POOL.get_or_init(make).clone()
}

/// A packet to be built, with right checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    pub source: IpAddr,
    /// Of the same family.
    pub destination: IpAddr,
    /// UDP, TCP, ICMPv6, or anything else, which then has no header.
    pub protocol: Protocol,
    pub source_port: u16,
    pub destination_port: u16,
    pub payload: Vec<u8>,
    /// Words of 8 octets of IPv4 options or IPv6 destination options.
    pub options: usize,
    /// The transport octets that this fragment carries, and whether more follow.
    pub fragment: Option<(Range<usize>, bool)>,
    /// Whether there is a checksum; for UDP.
    pub checksum: bool,
}

impl Spec {
    /// A whole UDP datagram from `10.0.0.1` port 1000 to `192.0.2.1` port 2000.
    pub fn udp(payload: &[u8]) -> Spec {
        Spec {
            source: [10, 0, 0, 1].into(),
            destination: [192, 0, 2, 1].into(),
            protocol: Protocol::UDP,
            source_port: 1000,
            destination_port: 2000,
            payload: payload.to_vec(),
            options: 0,
            fragment: None,
            checksum: true,
        }
    }

    /// The same over TCP.
    pub fn tcp(payload: &[u8]) -> Spec {
        Spec { protocol: Protocol::TCP, ..Spec::udp(payload) }
    }

    /// The same between other hosts.
    pub fn between(self, source: &str, destination: &str) -> Spec {
        Spec {
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            ..self
        }
    }

    /// The bytes of the frame.
    pub fn frame(&self) -> Vec<u8> {
        let transport = self.transport();
        let (part, fragment) = match &self.fragment {
            Some((part, more)) => {
                let end = part.end.min(transport.len());
                (&transport[part.start.min(end)..end], Some((part.start as u16, *more)))
            }
            None => (&transport[..], None),
        };
        let (ether_type, header) = match self.source {
            IpAddr::V4(_) => (EtherType::IPV4, self.ipv4(part.len(), fragment)),
            IpAddr::V6(_) => (EtherType::IPV6, self.ipv6(part.len(), fragment)),
        };
        let mut frame = vec![0; NETWORK];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
        frame[12..].copy_from_slice(&ether_type.0.to_be_bytes());
        frame.extend(header);
        frame.extend(part);
        frame
    }

    fn ipv4(&self, length: usize, fragment: Option<(u16, bool)>) -> Vec<u8> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (self.source, self.destination) else {
            panic!("addresses of two families");
        };
        let header = 20 + 8 * self.options;
        // Options that do nothing (RFC 791 §3.1).
        let mut bytes = vec![1; header];
        let repr =
            ipv4::Repr { source, destination, protocol: self.protocol, ..Default::default() };
        repr.emit(&mut bytes[..20]).expect("there is room");
        bytes[0] = 0x40 | (header / 4) as u8;
        bytes[2..4].copy_from_slice(&((header + length) as u16).to_be_bytes());
        let mut whole = [bytes, vec![0; length]].concat();
        let mut packet = ipv4::Packet::new_checked(&mut whole[..]).expect("a valid header");
        if let Some((offset, more)) = fragment {
            packet.set_fragment_offset(offset);
            packet.set_more_fragments(more);
        }
        packet.fill_checksum();
        whole.truncate(header);
        whole
    }

    fn ipv6(&self, length: usize, fragment: Option<(u16, bool)>) -> Vec<u8> {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (self.source, self.destination) else {
            panic!("addresses of two families");
        };
        let mut extensions = Vec::new();
        let mut next = self.protocol.0;
        if let Some((offset, more)) = fragment {
            let [high, low] = (offset | u16::from(more)).to_be_bytes();
            extensions.extend([next, 0, high, low, 0, 0, 0, 7]);
            next = Protocol::FRAGMENT.0;
        }
        for _ in 0..self.options {
            // Padding of six octets (RFC 8200 §4.2).
            extensions.splice(0..0, [next, 0, 1, 4, 0, 0, 0, 0]);
            next = Protocol::DESTINATION_OPTIONS.0;
        }
        let repr = ipv6::Repr {
            source,
            destination,
            next_header: Protocol(next),
            payload_length: (extensions.len() + length) as u16,
            ..Default::default()
        };
        let mut bytes = vec![0; ipv6::HEADER_LENGTH];
        repr.emit(&mut bytes).expect("there is room");
        bytes.extend(extensions);
        bytes
    }

    /// Transport header and payload of the whole datagram.
    fn transport(&self) -> Vec<u8> {
        let pseudo_header = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                PseudoHeader::V4 { source, destination }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                PseudoHeader::V6 { source, destination }
            }
            _ => panic!("addresses of two families"),
        };
        let header = match self.protocol {
            Protocol::UDP => udp::HEADER_LENGTH,
            Protocol::TCP => tcp::MIN_HEADER_LENGTH,
            Protocol::ICMPV6 => 8,
            _ => 0,
        };
        let mut bytes = [vec![0; header], self.payload.clone()].concat();
        let (source_port, destination_port) = (self.source_port, self.destination_port);
        match self.protocol {
            Protocol::UDP => {
                let payload_length = self.payload.len() as u16;
                let repr = udp::Repr { source_port, destination_port, payload_length };
                repr.emit(&mut bytes).expect("there is room");
                if self.checksum {
                    let mut datagram = udp::Datagram::new_checked(&mut bytes[..]).expect("UDP");
                    datagram.fill_checksum(&pseudo_header);
                }
            }
            Protocol::TCP => {
                let repr = tcp::Repr { source_port, destination_port, ..Default::default() };
                repr.emit(&mut bytes).expect("there is room");
                let mut segment = tcp::Segment::new_checked(&mut bytes[..]).expect("TCP");
                segment.fill_checksum(&pseudo_header);
            }
            Protocol::ICMPV6 => {
                bytes[0] = icmpv6::Type::ECHO_REQUEST.0;
                let mut message = icmpv6::Message::new_checked(&mut bytes[..]).expect("ICMPv6");
                message.fill_checksum(&pseudo_header);
            }
            _ => {}
        }
        bytes
    }
}

/// What a node's parser would note of a frame, as far as functions look at it.
pub fn metadata(frame: &[u8]) -> PacketMetadata {
    let mut found = PacketMetadata {
        user: 0,
        bearer: 0,
        group: 0,
        network_offset: NETWORK as u16,
        ether_type: u16::from_be_bytes([frame[12], frame[13]]),
        ..Default::default()
    };
    let network = &frame[NETWORK..];
    let (protocol, offset, length, fragment) = match EtherType(found.ether_type) {
        EtherType::IPV4 => {
            let ip = ipv4::Packet::new_checked(network).expect("IPv4");
            let length = usize::from(ip.total_length());
            (ip.protocol(), ip.header_length(), length, ip.fragment())
        }
        _ => {
            let ip = ipv6::Packet::new_checked(network).expect("IPv6");
            let upper = ip.upper_layer().expect("an upper layer");
            (upper.protocol, upper.offset, ip.total_length(), upper.fragment)
        }
    };
    found.protocol = protocol.0;
    found.network_length = length as u16;
    let fragment = fragment.filter(|fragment| !fragment.is_whole());
    if fragment.is_some() {
        found.flags |= PacketMetadata::FRAGMENT;
    }
    let transport = &network[offset..length];
    let has_header = match protocol {
        Protocol::UDP => udp::Datagram::new_checked_fragment(transport).is_ok(),
        Protocol::TCP => tcp::Segment::new_checked(transport).is_ok(),
        _ => true,
    };
    if has_header && fragment.is_none_or(|fragment| fragment.is_first()) {
        found.transport_offset = (NETWORK + offset) as u16;
    }
    found
}

const PROTOCOLS: &[Protocol] =
    &[Protocol::UDP, Protocol::TCP, Protocol::ICMPV6, Protocol::ICMP, Protocol::ESP];

/// Packets of all kinds that a function may be handed.
pub fn specs() -> impl Strategy<Value = Spec> {
    let addresses = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    let fragment = prop_oneof![
        3 => Just(None),
        1 => (0_usize..8, 1_usize..8, any::<bool>())
            .prop_map(|(first, words, more)| Some((first * 8..(first + words) * 8, more))),
    ];
    let header = (addresses, prop::sample::select(PROTOCOLS), any::<(u16, u16, bool)>());
    (header, vec(any::<u8>(), 1..80), 0_usize..3, fragment).prop_map(
        |(
            (addresses, protocol, (source_port, destination_port, checksum)),
            payload,
            options,
            fragment,
        )| Spec {
            source: addresses.0,
            destination: addresses.1,
            protocol,
            source_port,
            destination_port,
            payload: if fragment.is_some() { [payload, vec![7; 64]].concat() } else { payload },
            options,
            fragment,
            checksum,
        },
    )
}

/// A function on its own, with a clock that stands still until it is set.
pub struct Rig {
    pub instance: Box<dyn Instance>,
    tags: TagTable,
    kind: Kind,
    pool: Pool,
    /// Nanoseconds.
    pub now: u64,
}

/// A packet after a function has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub bytes: Vec<u8>,
    pub metadata: PacketMetadata,
    /// Why it was dropped, if it was.
    pub dropped: Option<&'static str>,
    /// Whether the function kept it.
    pub kept: bool,
    /// Packets that it sent beside it, and answers to its user.
    pub sent: Vec<Vec<u8>>,
}

impl Rig {
    /// An instance of `kind` under a configuration.
    pub fn new(kind: &Kind, config: Value) -> Result<Rig, ConfigError> {
        let pool = pool();
        let mut tags = TagTable::default();
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).expect("a slot for the tag");
        }
        let setup = Setup {
            instance: "test",
            tags: &tags,
            contexts: CONTEXTS,
            worker: 0,
            tsc_hz: tsc::hz(),
            trial: false,
            events: None,
        };
        let instance = kind.make(&config, &setup, SlotShift(0))?;
        Ok(Rig { instance, tags, kind: *kind, pool, now: 0 })
    }

    /// Gives the context at `slot` the settings of the `nth` of `count` users.
    pub fn configure(
        &mut self,
        slot: u32,
        settings: Value,
        nth: u32,
        count: u32,
    ) -> Result<(), ConfigError> {
        let settings = self.kind.settings(&settings)?;
        self.instance.check(&settings, count)?;
        self.instance.configure(slot, &settings, nth);
        Ok(())
    }

    /// The value of a tag on a packet.
    pub fn tag(&self, name: &str, metadata: &PacketMetadata) -> u32 {
        self.slot(name).get(metadata)
    }

    /// The slot of a tag.
    pub fn slot(&self, name: &str) -> TagSlot {
        self.tags.slot(name).expect("the function declares the tag")
    }

    /// Hands the function a packet of the user at slot 0.
    pub fn send(&mut self, spec: &Spec) -> Seen {
        self.send_as(spec, |_| {})
    }

    /// Hands it a packet with other metadata than the parser's.
    pub fn send_as(&mut self, spec: &Spec, change: impl FnOnce(&mut PacketMetadata)) -> Seen {
        let frame = spec.frame();
        let mut metadata = metadata(&frame);
        change(&mut metadata);
        self.send_bytes(&frame, metadata)
    }

    /// Hands it any bytes with any metadata.
    pub fn send_bytes(&mut self, bytes: &[u8], metadata: PacketMetadata) -> Seen {
        let mut packet = self.pool.packet(bytes).expect("the pool has a packet");
        *packet.metadata_mut() = metadata;
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: self.pool.clone() };
        burst.packets.push(packet).expect("there is room");
        let mut outcome = Outcome::default();
        self.instance.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "{} panicked", self.kind.name);
        let reason = self.kind.reasons().nth(usize::from(outcome.reasons[0]));
        let bytes = |packet: &weft_dpdk::Packet| packet.data().to_vec();
        let sent = outcome.emissions.iter().filter_map(|emission| match &emission.what {
            EmissionKind::Send(packet, _) | EmissionKind::Answer(packet) => Some(bytes(packet)),
            _ => None,
        });
        Seen {
            bytes: burst.packets[0].data().to_vec(),
            metadata: *burst.packets[0].metadata(),
            dropped: outcome.dropped.contains(0).then(|| reason.map_or("", |reason| reason.name)),
            kept: outcome.kept.contains(0),
            sent: sent.collect(),
        }
    }

    /// The exported context at `slot`.
    pub fn export(&self, slot: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.instance.export(slot, self.now, &mut bytes);
        bytes
    }

    /// What the function shows under a name of the context at `slot`.
    pub fn shown(&self, slot: u32, name: &str) -> u64 {
        let shown = self.instance.show(slot);
        shown.iter().find(|(known, _)| *known == name).expect("it is shown").1
    }
}
