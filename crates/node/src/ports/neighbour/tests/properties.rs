//! What holds for any stations and any frames.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Hands frames to and fro until both are silent; returns what became known.
fn converse(stations: &mut [&mut Neighbours; 2], first: Vec<Event>, now: u64) -> Vec<Event> {
    let (mut learned, mut to, mut events) = (Vec::new(), 1, first);
    for _ in 0..8 {
        let mut answers = Vec::new();
        for event in events {
            match event {
                Event::Send(frame) => {
                    let arp = stations[to].receive_arp(&frame, now, &mut answers);
                    let nd = stations[to].receive_nd(&frame, now, &mut answers);
                    assert!(arp.is_ok() != nd.is_ok(), "{arp:?} {nd:?}");
                }
                other => learned.push(other),
            }
        }
        (events, to) = (answers, 1 - to);
    }
    assert_eq!(events, []);
    learned
}

fn any_mac() -> impl Strategy<Value = MacAddress> {
    any::<[u8; 6]>().prop_map(|[a, b, c, d, e, f]| MacAddress([a & 0xfc | 2, b, c, d, e, f]))
}

/// Two addresses of one subnet, each with its length.
fn two_addresses() -> impl Strategy<Value = [(IpAddr, u8); 2]> {
    let v4 = (1u8..127, any::<u16>(), 1u8..254, 1u8..254)
        .prop_filter("one host each", |(net, _, a, b)| a != b && *net != 127)
        .prop_map(|(net, mid, a, b)| {
            let [c, d] = mid.to_be_bytes();
            [[net, c, d, a], [net, c, d, b]].map(|octets| (IpAddr::from(octets), 24))
        });
    let v6 = (any::<u32>(), any::<u64>(), any::<u64>())
        .prop_filter("one host each", |(_, a, b)| a != b)
        .prop_map(|(net, a, b)| {
            let address = |host: u64| 0x2 << 124 | u128::from(net) << 64 | u128::from(host);
            [a, b].map(|host| (IpAddr::V6(Ipv6Addr::from_bits(address(host))), 64))
        });
    prop_oneof![v4, v6]
}

/// A frame that a station may have sent, with some bytes changed.
fn almost_good_frame() -> impl Strategy<Value = Vec<u8>> {
    let frames = vec![
        peer().request(ip("10.0.0.254"), None).unwrap(),
        peer().request(ip("10.1.0.7"), None).unwrap(),
        gratuitous(OTHER_MAC),
        peer_v6().request(ip("2001:db8::fe"), None).unwrap(),
        duplicate_address_probe("2001:db8::fe"),
        advertisement(PEER_MAC, 0x60),
    ];
    let frame = proptest::sample::select(frames);
    (frame, vec((any::<proptest::sample::Index>(), any::<u8>()), 0..3), 0usize..100).prop_map(
        |(mut frame, changes, length)| {
            for (index, byte) in changes {
                *index.get_mut(&mut frame) = byte;
            }
            // Most are whole.
            if length < 40 {
                frame.truncate(length * 2);
            }
            frame
        },
    )
}

proptest! {
    #[test]
    fn two_stations_find_each_other(
        macs in (any_mac(), any_mac()).prop_filter("two stations", |(a, b)| a != b),
        [near, far] in two_addresses(),
    ) {
        let mut here = Neighbours::new(Link::new(macs.0, vec![near], vec![]), &[], 4);
        let mut there = Neighbours::new(Link::new(macs.1, vec![far], vec![]), &[], 4);
        let mut events = Vec::new();
        prop_assert_eq!(here.resolve(far.0, 0, &mut events), Resolution::Pending);
        let learned = converse(&mut [&mut here, &mut there], events, 0);
        prop_assert_eq!(learned, [Event::Resolved(far.0, macs.1)]);
        // The other has been told in passing, and verifies it.
        let mut events = Vec::new();
        prop_assert_eq!(there.resolve(near.0, 1, &mut events), Resolution::Known(macs.0));
        prop_assert_eq!(converse(&mut [&mut there, &mut here], events, 1), []);
        let mut events = Vec::new();
        here.tick(30 * SECOND, &Loss::default(), &mut events);
        prop_assert_eq!(converse(&mut [&mut here, &mut there], events, 30 * SECOND), []);
        prop_assert_eq!(tick(&mut there, 30 * SECOND), []);
    }

    #[test]
    fn any_frames_leave_a_bounded_table_and_good_frames(
        frames in vec(prop_oneof![vec(any::<u8>(), 0..120), almost_good_frame()], 0..40),
        wanted in vec(0u8..16, 0..8),
        capacity in 0usize..6,
    ) {
        let mut node = node_with(&[(ip("10.0.0.77"), OTHER_MAC)], capacity);
        let mut events = Vec::new();
        for (step, frame) in frames.iter().enumerate() {
            let now = step as u64 * SECOND;
            let _ignored = node.receive_arp(frame, now, &mut events);
            let _ignored = node.receive_nd(frame, now, &mut events);
            if let Some(number) = wanted.get(step) {
                node.resolve(ip(&format!("10.0.0.{number}")), now, &mut events);
            }
            node.tick(now, &Loss::default(), &mut events);
            prop_assert!(node.table.entries.len() <= capacity.max(1) + 1);
        }
        for event in events {
            if let Event::Send(frame) = event {
                // Whatever is sent, the peer could read.
                let mut peer = Neighbours::new(peer(), &[], 8);
                let read = [
                    peer.receive_arp(&frame, 0, &mut Vec::new()),
                    peer.receive_nd(&frame, 0, &mut Vec::new()),
                ];
                let is_malformed = |result: &Result<(), Rejected>| {
                    matches!(result, Err(Rejected::Malformed(_)))
                };
                prop_assert!(!read.iter().any(is_malformed), "{:?}", read);
            }
        }
    }
}
