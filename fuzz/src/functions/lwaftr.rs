//! A border function at work: the input is a list of records, each who sends what, a
//! length and octets: from a softwire an IPv6 packet behind its addresses, from outside
//! an IPv4 packet behind its header.

use std::cell::RefCell;

use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{EmissionKind, Metadata, PacketMetadata, Setup, TagTable};
use weft_functions::KINDS;
use weft_wire::{EtherType, Protocol, checksum, ipv4, ipv6};

use crate::support::eal;

/// Octets in front of the IP header.
const NETWORK: usize = 14;
const NEXT: [Protocol; 4] =
    [Protocol::IPV4, Protocol::FRAGMENT, Protocol::ICMPV6, Protocol::DESTINATION_OPTIONS];
const PROTOCOLS: [Protocol; 4] = [Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol::ESP];
const AFTR: [u8; 16] = [0x20, 1, 0x0d, 0xb8, 0xaa, 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

struct Border {
    lwaftr: Box<dyn Instance>,
    pool: Pool,
    now: u64,
}

thread_local! {
    static BORDER: &'static RefCell<Border> = Box::leak(Box::new(RefCell::new(Border::new())));
}

impl Border {
    fn new() -> Border {
        let eal = eal();
        let kind = KINDS.iter().find(|kind| kind.name == "lwaftr").expect("it is there");
        let mut tags = TagTable::default();
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).expect("a slot for the tag");
        }
        let (contexts, tsc_hz) = (1, tsc::hz());
        let setup = Setup {
            instance: "fuzzed",
            tags: &tags,
            contexts,
            worker: 0,
            tsc_hz,
            trial: false,
            events: None,
        };
        let config = serde_json::json!({
            "address": "2001:db8:aaaa::1",
            "ipv4Address": "198.51.100.253",
            "mtu": 1280,
            "reassemblies": 4,
            "bindings": {
                "portSets": [{ "addresses": "192.0.2.0/24", "psidLength": 1 }],
                "softwires": [
                    { "ipv4": "192.0.2.1", "psid": 0, "b4": "2001:db8::1" },
                    { "ipv4": "192.0.2.1", "psid": 1, "b4": "2001:db8::2" },
                ],
            },
        });
        let lwaftr = kind.make(&config, &setup, SlotShift(0)).expect("a configuration");
        Border { lwaftr, pool: Pool::new(eal, "border", 255).expect("a pool"), now: 1 << 32 }
    }

    /// Everything that comes out of a packet is a packet.
    fn carry(&mut self, ether_type: EtherType, ip: &[u8], uplink: bool) {
        let mut frame = vec![2; NETWORK];
        frame[12..].copy_from_slice(&ether_type.0.to_be_bytes());
        frame.extend_from_slice(ip);
        let Some(metadata) = metadata(ether_type, ip, uplink) else { return };
        let Some(mut packet) = self.pool.packet(&frame) else { return };
        *packet.metadata_mut() = metadata;
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: self.pool.clone() };
        burst.packets.push(packet).expect("room");
        let mut outcome = Outcome::default();
        self.lwaftr.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "the border function panicked");
        if !outcome.dropped.contains(0) {
            look_at(burst.packets[0].data(), burst.packets[0].metadata());
        }
        for emission in &outcome.emissions {
            if let EmissionKind::Send(packet, _) | EmissionKind::Answer(packet) = &emission.what {
                look_at(packet.data(), packet.metadata());
            }
        }
    }
}

/// A packet that leaves is sound, and is where it says.
fn look_at(frame: &[u8], metadata: &PacketMetadata) {
    let ip = &frame[usize::from(metadata.network_offset)..];
    let length = usize::from(metadata.network_length);
    assert!(length <= ip.len() && usize::from(metadata.transport_offset) <= frame.len());
    if EtherType(metadata.ether_type) == EtherType::IPV4 {
        let packet = ipv4::Packet::new_checked(ip).expect("IPv4");
        assert_eq!(usize::from(packet.total_length()), length);
        assert_eq!(packet.verify_checksum(), Ok(()));
    } else {
        assert_eq!(ipv6::Packet::new_checked(ip).expect("IPv6").total_length(), length);
    }
}

/// What the parser of a node would note; none for what it would drop.
fn metadata(ether_type: EtherType, ip: &[u8], uplink: bool) -> Option<PacketMetadata> {
    let (protocol, offset, fragment) = if ether_type == EtherType::IPV4 {
        let packet = ipv4::Packet::new_checked(ip).ok()?;
        (packet.protocol(), packet.header_length(), packet.fragment())
    } else {
        let upper = ipv6::Packet::new_checked(ip).ok()?.upper_layer().ok()?;
        (upper.protocol, upper.offset, upper.fragment)
    };
    let fragment = fragment.filter(|fragment| !fragment.is_whole());
    let mut found = PacketMetadata {
        network_offset: NETWORK as u16,
        network_length: ip.len() as u16,
        ether_type: ether_type.0,
        protocol: protocol.0,
        ..PacketMetadata::default()
    };
    found.tags[0] = u32::from(!uplink);
    if fragment.is_some() {
        found.flags |= PacketMetadata::FRAGMENT;
    }
    let shortest = match protocol {
        Protocol::TCP => 20,
        Protocol::UDP => 8,
        _ => 0,
    };
    if fragment.is_none_or(|fragment| fragment.is_first()) && ip.len() >= offset + shortest {
        found.transport_offset = (NETWORK + offset) as u16;
    }
    Some(found)
}

/// From one of three lwB4s, one of which has no binding.
fn from_softwire(what: u8, behind: &[u8]) -> Vec<u8> {
    let mut ip = vec![0; ipv6::HEADER_LENGTH + behind.len()];
    (ip[0], ip[1], ip[6], ip[7]) = (0x60, what & 0x30, NEXT[usize::from(what & 3)].0, 64);
    ip[4..6].copy_from_slice(&(behind.len() as u16).to_be_bytes());
    ip[8..12].copy_from_slice(&AFTR[..4]);
    ip[23] = 1 + (what >> 2 & 3) % 3;
    ip[24..40].copy_from_slice(&AFTR);
    ip[40..].copy_from_slice(behind);
    // The inner header's checksum, which no input would guess.
    if let Some(header) = ip[40..].first_chunk_mut::<20>()
        && what & 0x40 != 0
    {
        header[10..12].fill(0);
        let sum = checksum::of(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    ip
}

fn from_outside(what: u8, behind: &[u8]) -> Vec<u8> {
    let mut ip = vec![0; 20 + behind.len()];
    (ip[0], ip[8], ip[9]) = (0x45, what >> 6, PROTOCOLS[usize::from(what & 3)].0);
    let length = ip.len() as u16;
    ip[2..4].copy_from_slice(&length.to_be_bytes());
    (ip[6], ip[7]) = [(0, 0), (0x40, 0), (0x20, 0), (0, 4)][usize::from(what >> 2 & 3)];
    ip[12..16].copy_from_slice(&[198, 51, 100, 7]);
    ip[16..20].copy_from_slice(&[192, 0, 2, 1 + (what >> 5 & 1)]);
    ip[20..].copy_from_slice(behind);
    let sum = checksum::of(&ip[..20]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    BORDER.with(|border| {
        let mut border = border.borrow_mut();
        // What waits of earlier inputs is given up.
        border.now += 61_000_000_000;
        let mut rest = bytes;
        while let [who, what, length, behind @ ..] = rest {
            // Long ones, too: eight octets for each that is said.
            let length = usize::from(*length) * if who & 2 != 0 { 8 } else { 1 };
            let (behind, after) = behind.split_at(length.min(behind.len()).min(1900));
            rest = after;
            border.now += 1;
            match who & 1 {
                0 => border.carry(EtherType::IPV6, &from_softwire(*what, behind), true),
                _ => border.carry(EtherType::IPV4, &from_outside(*what, behind), false),
            }
        }
    })
}
