use std::sync::OnceLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weft_dpdk::{Batch, Eal, EalOptions, Pool};
use weft_function::Metadata;
use weft_wire::MacAddress;
use weft_wire::gtpu::{ExtensionRepr, Extensions, Qfi, Repr, Teid};

use super::*;
use crate::parse::local::AddressFilter;
use crate::parse::parse_burst;

const OWN: [u8; 4] = [10, 0, 0, 254];
const PORT: u16 = 3;

fn pool() -> Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let make = || {
        let options =
            EalOptions { memory_megabytes: 64, huge_pages: false, ..EalOptions::default() };
        let eal = Eal::start(&options).expect("the environment starts");
        Pool::new(eal, "usual", 255).expect("there is memory for a pool")
    };
    POOL.get_or_init(make).clone()
}

fn own() -> OwnAddresses {
    OwnAddresses {
        service: false,
        mac: MacAddress([2, 0, 0, 0, 0, 1]),
        addresses: vec![OWN.into()],
        ipv4: vec![OWN.into()],
        broadcasts: vec![[10, 0, 0, 255].into()],
        known: AddressFilter::of(&[OWN.into(), [10, 0, 0, 255].into()]),
        least_mtu: 1500,
    }
}

/// What a frame is made of.
#[derive(Clone, Debug)]
struct Frame {
    /// To whom the tunnel leads; none outside of tunnels.
    to: Option<[u8; 4]>,
    inside: ([u8; 4], [u8; 4], Protocol),
    session: bool,
    padding: usize,
}

impl Frame {
    /// Whether the frame must be read at once when nothing damages it.
    fn is_usual(&self) -> bool {
        let (from, to, _) = self.inside;
        let ordinary = [[10, 45, 0, 1], [198, 51, 100, 1]];
        self.to.is_none_or(|to| to == OWN) && ordinary.contains(&from) && ordinary.contains(&to)
    }

    fn bytes(&self) -> Vec<u8> {
        let (source, destination, protocol) = self.inside;
        let inside = match protocol {
            Protocol::UDP => ip(source, destination, protocol, &udp_of(9, &[7; 9])),
            // A data offset of 5 words.
            _ => ip(source, destination, protocol, &[0x50; 24]),
        };
        let link = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 8, 0];
        let Some(to) = self.to else {
            return [&link[..], &inside, &vec![0; self.padding]].concat();
        };
        let mut extensions = Extensions::NONE;
        if self.session {
            let qfi = Qfi::new(9).expect("a QFI");
            let container = ExtensionRepr::PduSession(PduSession::Uplink { qfi });
            extensions = Extensions::one(container);
        }
        let repr = Repr {
            message_type: MessageType::G_PDU,
            teid: Teid(0x1234_5678),
            extensions,
            payload_length: inside.len(),
            ..Default::default()
        };
        let mut message = vec![0; repr.buffer_len()];
        repr.emit(&mut message).expect("room for the header");
        message.extend(inside);
        let outer = ip([10, 0, 0, 1], to, Protocol::UDP, &udp_of(gtpu::PORT, &message));
        [&link[..], &outer, &vec![0; self.padding]].concat()
    }
}

fn udp_of(destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let payload_length = payload.len() as u16;
    let repr = udp::Repr { source_port: 4000, destination_port, payload_length };
    let mut bytes = vec![0; udp::HEADER_LENGTH];
    repr.emit(&mut bytes).expect("room for the header");
    bytes.extend(payload);
    bytes
}

fn ip(source: [u8; 4], destination: [u8; 4], protocol: Protocol, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr {
        source: source.into(),
        destination: destination.into(),
        protocol,
        payload_length: payload.len() as u16,
        time_to_live: 64,
        ..Default::default()
    };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes).expect("room for the header");
    bytes.extend(payload);
    bytes
}

/// Makes the checksums of both headers right again where they lie as usual.
fn repair(frame: &mut [u8], inside: usize) {
    for offset in [OUTER, inside] {
        if let Some(header) = frame.get_mut(offset..).filter(|bytes| bytes.len() >= 20) {
            header[10..12].fill(0);
            let sum = sum20(header.first_chunk().expect("as long"));
            header[10..12].copy_from_slice(&(!sum).to_be_bytes());
        }
    }
}

fn burst(bytes: &[u8]) -> Burst {
    let pool = pool();
    let mut packets = Batch::new();
    let packet = pool.packet(bytes).expect("a buffer is free");
    packets.push(packet).expect("room in the batch");
    Burst { packets, now: 0, pool }
}

/// Reads a frame at once; checks that the readers of single headers agree where
/// it could be read. Returns whether it could.
fn read_both_ways(bytes: &[u8]) -> bool {
    let own = own();
    let mut at_once = burst(bytes);
    let usual = own.read_usual(&mut at_once, PORT, |_| {});
    if usual.all().is_empty() {
        return false;
    }
    let mut singly = burst(bytes);
    let sorted = parse_burst(&mut singly, Positions::first(1), PORT);
    let divided = own.divide(&mut singly, sorted.ip);
    assert!(divided.transit.contains(0));
    assert_eq!(divided.tunnelled, usual.tunnelled);
    assert!(divided.ending().is_empty() && divided.doubtful.is_empty());
    assert_eq!(at_once.packets[0].metadata(), singly.packets[0].metadata());
    true
}

fn frames() -> impl Strategy<Value = Frame> {
    let outer = select(vec![Some(OWN), Some(OWN), None, None, Some([10, 0, 0, 253])]);
    let ordinary = [[10, 45, 0, 1], [198, 51, 100, 1]];
    let strange = [OWN, [10, 0, 0, 255], [127, 0, 0, 1], [224, 0, 0, 5], [169, 254, 1, 1]];
    let address = || select([&ordinary[..], &ordinary, &ordinary, &strange].concat());
    let protocol = select(vec![Protocol::UDP, Protocol::TCP, Protocol::ICMP]);
    (outer, (address(), address(), protocol), any::<bool>(), 0..20_usize)
        .prop_map(|(to, inside, session, padding)| Frame { to, inside, session, padding })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn says_what_the_readers_of_single_headers_say(
        frame in frames(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
        repaired in any::<bool>(),
    ) {
        let mut bytes = frame.bytes();
        let headers = bytes.len().min(90);
        for (index, value) in &damage {
            bytes[index.index(headers)] = *value;
        }
        if repaired {
            repair(&mut bytes, if frame.session { BEHIND_SESSION } else { BEHIND_HEADER });
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()).max(1));
        }
        let read = read_both_ways(&bytes);
        if damage.is_empty() && cut.is_none() && frame.is_usual() {
            prop_assert!(read);
        }
    }
}
