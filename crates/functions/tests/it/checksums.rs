//! A UDP checksum that is left to the one who sends is the one that would have been written.

use proptest::prelude::*;
use weft_dpdk::{Eal, EalOptions, Packet, Pool};
use weft_function::tunnel::{inside_tunnel, owed_checksum, settle_checksum};
use weft_function::{Metadata, PacketMetadata, Tunnel, TunnelEnd};
use weft_wire::gtpu::{MessageType, Repr, Teid};
use weft_wire::{Dscp, EtherType, ethernet};

fn pool() -> &'static Pool {
    static POOL: std::sync::OnceLock<Pool> = std::sync::OnceLock::new();
    POOL.get_or_init(|| {
        let options = EalOptions { memory_megabytes: 64, huge_pages: false, ..Default::default() };
        let eal = Eal::start(&options).expect("the environment starts");
        Pool::new(eal, "checksums", 255).expect("there is memory for a pool")
    })
}

/// An IPv4 packet of a user with this behind its header.
fn packet(payload: &[u8]) -> Packet {
    let mut bytes = vec![0; ethernet::HEADER_LENGTH];
    bytes[12] = 8;
    bytes.extend([0x45, 0, 0, 0, 0, 0, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.extend(payload);
    let mut packet = pool().packet(&bytes).expect("a buffer is free");
    *packet.metadata_mut() = PacketMetadata {
        ether_type: EtherType::IPV4.0,
        network_offset: ethernet::HEADER_LENGTH as u16,
        network_length: (20 + payload.len()) as u16,
        ..PacketMetadata::default()
    };
    packet
}

/// Puts it into a tunnel, with a UDP checksum or without.
fn wrap(packet: &mut Packet, without: bool) {
    let (local, peer) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let end = TunnelEnd::new(Teid(7), local, peer);
    let message = Repr {
        message_type: MessageType::G_PDU,
        teid: end.teid,
        payload_length: packet.len() - ethernet::HEADER_LENGTH,
        ..Default::default()
    };
    let headers = end.headers_length();
    let length = headers + message.buffer_len();
    let front = packet.wrap(ethernet::HEADER_LENGTH, length, end.ether_type()).expect("room");
    assert!(message.emit(&mut front[headers..]).is_ok());
    assert!(end.emit(front, Dscp::default(), 0, without));
    packet.owe_udp_checksum(without);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_settled_is_what_would_have_been_written(
        payload in prop::collection::vec(any::<u8>(), 0..1400),
        change in any::<Option<u8>>(),
    ) {
        let (mut written, mut owed) = (packet(&payload), packet(&payload));
        wrap(&mut written, false);
        wrap(&mut owed, true);
        // Functions may go on with what is inside.
        if let Some(value) = change {
            for packet in [&mut written, &mut owed] {
                let at = usize::from(packet.metadata().network_offset) + 8;
                inside_tunnel(packet, |packet| packet.data_mut()[at] = value);
            }
        }
        prop_assert!(owed.owes_udp_checksum() && owed.lacks_udp_checksum());
        let copy = owed.duplicate(pool()).expect("a buffer is free");
        let (at, sum) = owed_checksum(&owed).expect("there is a tunnel");
        prop_assert_eq!(&written.data()[at..at + 2], &sum[..]);
        for packet in [owed, copy] {
            let packet = settle_checksum(packet);
            prop_assert!(!packet.lacks_udp_checksum());
            prop_assert_eq!(packet.data(), written.data());
        }
    }
}

/// A tunnel that was taken off again owes nothing, and one over IPv4 has no checksum.
#[test]
fn nothing_is_written_where_the_tunnel_is_gone() {
    let mut packet = packet(&[1, 2, 3]);
    let before = packet.data().to_vec();
    wrap(&mut packet, true);
    assert!(packet.unwrap_tunnel());
    let packet = settle_checksum(packet);
    // The link has its addresses, and the packet is as it was.
    assert_eq!(packet.data()[14..], before[14..]);
}
