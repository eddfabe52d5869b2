//! A translator at work: the input is a list of records, each who sends what where,
//! a length, and the octets behind the IP header. What has gone out must come back;
//! from time to time a user moves.

use std::cell::RefCell;

use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{Metadata, PacketMetadata, Setup, TagTable};
use weft_functions::KINDS;
use weft_wire::{EtherType, Protocol, checksum, ipv4};

use crate::support::eal;

const PROTOCOLS: [Protocol; 4] = [Protocol::TCP, Protocol::UDP, Protocol::ICMP, Protocol::ESP];
/// Octets in front of the IP header.
const NETWORK: usize = 14;
const HEADER: usize = 20;
const SERVER: [u8; 4] = [198, 51, 100, 7];
const PUBLIC: [u8; 4] = [192, 0, 2, 1];
/// Users inside; what comes from outside is that of one more.
const USERS: u8 = 3;

struct Translator {
    nat: Box<dyn Instance>,
    pool: Pool,
    now: u64,
}

/// One packet, as it goes in or comes out.
struct Carried {
    bytes: Vec<u8>,
    user: u32,
    passed: bool,
}

thread_local! {
    static TRANSLATOR: &'static RefCell<Translator> =
        Box::leak(Box::new(RefCell::new(Translator::new())));
}

impl Translator {
    fn new() -> Translator {
        let eal = eal();
        let kind = KINDS.iter().find(|kind| kind.name == "nat").expect("it is there");
        let mut tags = TagTable::default();
        for tag in kind.reads.iter().chain(kind.writes) {
            tags.declare(tag.name, tag.values.into()).expect("a slot for the tag");
        }
        let (contexts, tsc_hz) = (usize::from(USERS) + 1, tsc::hz());
        let setup = Setup {
            instance: "fuzzed",
            tags: &tags,
            contexts,
            worker: 0,
            tsc_hz,
            trial: false,
            events: None,
        };
        // Few ports and mappings, so that both run out.
        let config = serde_json::json!({
            "addresses": ["192.0.2.1"], "blockSize": 16, "mappings": 24, "holdDown": 1, "portSeed": 1
        });
        let nat = kind.make(&config, &setup, SlotShift(0)).expect("a configuration");
        Translator { nat, pool: Pool::new(eal, "nat", 255).expect("a pool"), now: 1 << 32 }
    }

    /// Carries an IPv4 packet of the user, from inside or from outside.
    fn carry(&mut self, ip: &[u8], user: u32, uplink: bool) -> Carried {
        let mut frame = vec![2; NETWORK];
        frame[12..].copy_from_slice(&EtherType::IPV4.0.to_be_bytes());
        frame.extend_from_slice(ip);
        let mut packet = self.pool.packet(&frame).expect("a buffer");
        *packet.metadata_mut() = metadata(ip, user, uplink);
        let mut burst = Burst { packets: Batch::new(), now: self.now, pool: self.pool.clone() };
        burst.packets.push(packet).expect("room");
        let mut outcome = Outcome::default();
        self.nat.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "the translator panicked");
        let packet = &burst.packets[0];
        Carried {
            bytes: packet.data()[NETWORK..].to_vec(),
            user: packet.metadata().user,
            passed: !outcome.dropped.contains(0),
        }
    }

    /// The user goes to another node and comes back.
    fn moves(&mut self, user: u32) {
        let mut context = Vec::new();
        self.nat.export(user, self.now, &mut context);
        self.nat.release(user);
        self.nat.import(user, self.now, &context).expect("what was exported is imported");
    }
}

/// What the parser of a node would note.
fn metadata(ip: &[u8], user: u32, uplink: bool) -> PacketMetadata {
    let mut found = PacketMetadata {
        user,
        bearer: user,
        network_offset: NETWORK as u16,
        network_length: ip.len() as u16,
        ether_type: EtherType::IPV4.0,
        protocol: ip[9],
        ..PacketMetadata::default()
    };
    found.tags[0] = u32::from(!uplink);
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff;
    if fragment != 0 {
        found.flags |= PacketMetadata::FRAGMENT;
    }
    let shortest = match Protocol(ip[9]) {
        Protocol::TCP => 20,
        Protocol::UDP => 8,
        _ => 0,
    };
    if fragment & 0x1fff == 0 && ip.len() >= HEADER + shortest {
        found.transport_offset = (NETWORK + HEADER) as u16;
    }
    found
}

/// An IPv4 packet with a right header.
fn packet(what: u8, source: [u8; 4], destination: [u8; 4], behind: &[u8]) -> Vec<u8> {
    let mut ip = vec![0; HEADER + behind.len()];
    (ip[0], ip[3], ip[8]) = (0x45, ip.len() as u8, 64);
    ip[2] = (ip.len() >> 8) as u8;
    // A fragment now and then: the first, or a later one.
    (ip[6], ip[7]) = [(0, 0), (0, 0), (0x20, 0), (0, 4)][usize::from(what >> 2 & 3)];
    ip[9] = PROTOCOLS[usize::from(what & 3)].0;
    ip[12..16].copy_from_slice(&source);
    ip[16..20].copy_from_slice(&destination);
    ip[HEADER..].copy_from_slice(behind);
    let sum = checksum::of(&ip[..HEADER]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    ip
}

/// Source and destination change places, and so do the ports.
fn answer(ip: &[u8]) -> Vec<u8> {
    let mut ip = ip.to_vec();
    let (sources, destinations) = ip[12..20].split_at_mut(4);
    sources.swap_with_slice(destinations);
    if Protocol(ip[9]) != Protocol::ICMP {
        let (source, destination) = ip[HEADER..HEADER + 4].split_at_mut(2);
        source.swap_with_slice(destination);
    }
    ip
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    TRANSLATOR.with(|translator| {
        let mut translator = translator.borrow_mut();
        (0..=u32::from(USERS)).for_each(|user| translator.nat.release(user));
        translator.now += 2 << 30;
        let mut rest = bytes;
        while let [who, what, length, behind @ ..] = rest {
            let (behind, after) = behind.split_at(usize::from(*length).min(behind.len()));
            rest = after;
            translator.now += u64::from(what >> 4) << 29;
            let (user, uplink) = (who % USERS, who & 0x40 == 0);
            if who & 0x80 != 0 {
                translator.moves(user.into());
            }
            let to_public = who & 0x20 != 0;
            let destination = if to_public || !uplink { PUBLIC } else { SERVER };
            let source = if uplink { [10, 0, 0, user + 1] } else { SERVER };
            let sent = packet(*what, source, destination, behind);
            let sender = if uplink { user } else { USERS };
            let came = translator.carry(&sent, sender.into(), uplink);
            if !came.passed {
                continue;
            }
            let header = ipv4::Packet::new_checked(&came.bytes[..]).expect("still IPv4");
            assert_eq!(header.verify_checksum(), Ok(()));
            assert_eq!(came.bytes.len(), sent.len());
            let is_query =
                matches!(what & 3, 0 | 1) || matches!(sent.get(HEADER), Some(8 | 13 | 15));
            let is_fragment = what >> 2 & 3 > 1;
            if uplink && !to_public && is_query && !is_fragment {
                assert_eq!(came.bytes[12..16], PUBLIC);
                let back = translator.carry(&answer(&came.bytes), USERS.into(), false);
                assert!(back.passed, "what has gone out comes back");
                assert_eq!(back.user, u32::from(user));
                assert_eq!(back.bytes[16..20], source);
                // The identifier, or both ports.
                let kept = if what & 3 == 2 { 4..6 } else { 0..4 };
                assert_eq!(answer(&back.bytes)[HEADER..][kept.clone()], sent[HEADER..][kept]);
            }
        }
    })
}
