//! Both directions of an IPsec tunnel: the input is a list of records, each what happens,
//! a length and octets: a packet that is protected and opened again, perhaps damaged on
//! its way or sent twice, or octets that arrive as they are behind the header of ESP. Those
//! have an association of their own: the fuzzer sees what integrity check values are
//! compared with, learns to write them, and so gets behind them.

use std::cell::RefCell;

use serde_json::{Value, json};
use weft_compose::{Burst, Instance, Outcome, Positions, SlotShift};
use weft_dpdk::{Batch, Pool, tsc};
use weft_function::{Metadata, PacketMetadata, Setup, TagTable};
use weft_wire::{EtherType, Protocol, esp, ipv4, ipv6};

use crate::support::eal;

/// Octets in front of the IP header.
const NETWORK: usize = 14;
const KEY: &str = "000102030405060708090a0b0c0d0e0ff0f1f2f3";

#[derive(Clone, Copy)]
enum Way {
    Out,
    In,
    FromStrangers,
}

struct Tunnel {
    encrypt: Box<dyn Instance>,
    decrypt: Box<dyn Instance>,
    /// Nothing is sealed for it.
    strangers: Box<dyn Instance>,
    pool: Pool,
}

thread_local! {
    static TUNNEL: &'static RefCell<Tunnel> = Box::leak(Box::new(RefCell::new(Tunnel::new())));
}

fn instance(name: &str, settings: &Value) -> Box<dyn Instance> {
    let kind = weft_functions::kind(name).expect("it is there");
    let tags = TagTable::default();
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
    let mut instance = kind.make(&json!({}), &setup, SlotShift(0)).expect("a configuration");
    instance.configure(0, &kind.settings(settings).expect("settings"), 0);
    instance
}

impl Tunnel {
    fn new() -> Tunnel {
        let eal = eal();
        let ends = json!({
            "spi": 4096, "key": KEY, "local": "192.0.2.1", "peer": "192.0.2.2", "padTo": 90,
        });
        Tunnel {
            encrypt: instance("esp-encrypt", &ends),
            decrypt: instance("esp-decrypt", &json!({ "spi": 4096, "key": KEY })),
            strangers: instance("esp-decrypt", &json!({ "spi": 4096, "key": KEY })),
            pool: Pool::new(eal, "tunnel", 255).expect("a pool"),
        }
    }

    /// What comes out of a function, and what it notes of it, or why it is dropped.
    fn pass(&mut self, frame: &[u8], way: Way) -> Result<(Vec<u8>, PacketMetadata), &'static str> {
        // IPv6 that says that nothing is in it is no packet to the parser.
        let metadata = metadata(frame).ok_or("not sound")?;
        let mut packet = self.pool.packet(frame).expect("a buffer");
        *packet.metadata_mut() = metadata;
        let mut burst = Burst { packets: Batch::new(), now: 1, pool: self.pool.clone() };
        burst.packets.push(packet).expect("room");
        let mut outcome = Outcome::default();
        let function = match way {
            Way::Out => &mut self.encrypt,
            Way::In => &mut self.decrypt,
            Way::FromStrangers => &mut self.strangers,
        };
        function.visit(&mut burst, Positions::first(1), &mut outcome);
        assert!(outcome.resets.is_empty(), "it panicked");
        if outcome.dropped.contains(0) {
            let reason = function.kind().reasons().nth(outcome.reasons[0].into());
            return Err(reason.expect("a reason").name);
        }
        let packet = &burst.packets[0];
        Ok((packet.data().to_vec(), *packet.metadata()))
    }

    fn record(&mut self, what: u8, octets: &[u8]) {
        let v6 = what & 1 != 0;
        if what & 2 != 0 {
            // As it came from the network.
            let arrived = [&4096_u32.to_be_bytes()[..], octets].concat();
            // Whatever is inside, it is a packet within the frame, or dropped.
            let opened = self.pass(&frame(v6, Protocol::ESP, &arrived), Way::FromStrangers);
            if let Ok((opened, found)) = opened {
                let end = usize::from(found.network_offset) + usize::from(found.network_length);
                assert!(end <= opened.len() && usize::from(found.transport_offset) <= end);
            }
            return;
        }
        let whole = frame(v6, Protocol(what >> 4 | 0xc0), octets);
        let Ok((mut sealed, found)) = self.pass(&whole, Way::Out) else { return };
        assert_eq!(metadata(&sealed), Some(found));
        let payload = &sealed[usize::from(found.transport_offset)..];
        assert_eq!(esp::Packet::new_checked(payload).expect("ESP").spi(), esp::Spi(4096));
        if what & 4 != 0 {
            // Behind IP header and SPI.
            let start = NETWORK + ipv4::MIN_HEADER_LENGTH + 4;
            let place = start + usize::from(what >> 3) % (sealed.len() - start);
            sealed[place] ^= 1;
            assert!(self.pass(&sealed, Way::In).is_err(), "an octet was changed");
            sealed[place] ^= 1;
        }
        let (opened, found) = self.pass(&sealed, Way::In).expect("what was sealed opens");
        assert_eq!(metadata(&opened), Some(found));
        let header = if v6 { ipv6::HEADER_LENGTH } else { ipv4::MIN_HEADER_LENGTH };
        assert_eq!(opened[NETWORK + header..], whole[NETWORK + header..]);
        let again = self.pass(&sealed, Way::In);
        assert!(matches!(again, Err("esp_replayed" | "esp_late")), "it was received before");
    }
}

/// What the parser of a node would note of a whole packet.
fn metadata(frame: &[u8]) -> Option<PacketMetadata> {
    let ether_type = u16::from_be_bytes(frame.get(12..NETWORK)?.try_into().ok()?);
    let (protocol, offset, length) = match EtherType(ether_type) {
        EtherType::IPV4 => {
            let ip = ipv4::Packet::new_checked(&frame[NETWORK..]).ok()?;
            (ip.protocol(), ip.header_length(), usize::from(ip.total_length()))
        }
        _ => {
            let ip = ipv6::Packet::new_checked(&frame[NETWORK..]).ok()?;
            let upper = ip.upper_layer().ok()?;
            (upper.protocol, upper.offset, ip.total_length())
        }
    };
    Some(PacketMetadata {
        network_offset: NETWORK as u16,
        network_length: length as u16,
        transport_offset: (NETWORK + offset) as u16,
        ether_type,
        protocol: protocol.0,
        ..PacketMetadata::default()
    })
}

/// A packet of this protocol.
fn frame(v6: bool, protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let (ether_type, header) = match v6 {
        true => (EtherType::IPV6, ipv6::HEADER_LENGTH),
        false => (EtherType::IPV4, ipv4::MIN_HEADER_LENGTH),
    };
    let mut frame = vec![2; NETWORK];
    frame[12..].copy_from_slice(&ether_type.0.to_be_bytes());
    frame.resize(NETWORK + header, 0);
    let payload_length = payload.len() as u16;
    let written = match v6 {
        true => ipv6::Repr { next_header: protocol, payload_length, ..Default::default() }
            .emit(&mut frame[NETWORK..]),
        false => ipv4::Repr { protocol, payload_length, ..Default::default() }
            .emit(&mut frame[NETWORK..]),
    };
    written.expect("room");
    frame.extend_from_slice(payload);
    frame
}

/// Runs one input.
pub fn run(bytes: &[u8]) {
    TUNNEL.with(|tunnel| {
        let mut tunnel = tunnel.borrow_mut();
        let mut rest = bytes;
        while let Some((&[what, length], behind)) = rest.split_first_chunk() {
            let (octets, behind) = behind.split_at(usize::from(length).min(behind.len()));
            tunnel.record(what, octets);
            rest = behind;
        }
    });
}
