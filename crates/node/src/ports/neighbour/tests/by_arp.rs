//! ARP, as it is answered and learned from.

use weft_wire::Error;

use super::*;

#[test]
fn arp_request_byte_by_byte() {
    let (resolution, events) = resolve(&mut node(), "10.0.0.1", 0);
    assert_eq!(resolution, Resolution::Pending);
    #[rustfmt::skip]
    let mut frame = vec![
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0xfe, 0x08, 0x06,
        0, 1, 0x08, 0, 6, 4, 0, 1,
        2, 0, 0, 0, 0, 0xfe, 10, 0, 0, 254,
        0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ];
    frame.resize(60, 0);
    assert_eq!(sent(events), frame);
}

#[test]
fn who_asks_for_the_node_is_answered_and_remembered() {
    let mut node = node();
    let request = peer().request(ip("10.0.0.254"), None).unwrap();
    let reply = sent(arp_events(&mut node, &request, 0).unwrap());
    assert_eq!(arp(&reply), arp(&request).reply(OWN_MAC));
    assert_eq!(destination(&reply), PEER_MAC);
    let (resolution, events) = resolve(&mut node, "10.0.0.1", 5 * SECOND);
    assert_eq!(resolution, Resolution::Known(PEER_MAC));
    assert_eq!(destination(&sent(events)), PEER_MAC);
}

#[test]
fn a_station_that_asks_for_another_is_not() {
    let mut node = node();
    let request = peer().request(ip("10.0.0.2"), None).unwrap();
    assert_eq!(arp_events(&mut node, &request, 0), Ok(vec![]));
    assert_eq!(resolve(&mut node, "10.0.0.1", 0).0, Resolution::Pending);
    // From another subnet: answered, but not remembered.
    let stranger = station(PEER_MAC, "192.0.2.1").request(ip("10.0.0.254"), None).unwrap();
    sent(arp_events(&mut node, &stranger, 0).unwrap());
    assert_eq!(resolve(&mut node, "192.0.2.1", 0).0, Resolution::Pending);
}

#[test]
fn proxied_addresses_are_answered_for() {
    let mut node = node();
    let request = peer().request(ip("10.1.0.7"), None).unwrap();
    let reply = arp(&sent(arp_events(&mut node, &request, 0).unwrap()));
    assert_eq!((reply.sender_mac, reply.sender_ip), (OWN_MAC, [10, 1, 0, 7].into()));

    // A host that asks for itself, or whether the address is free, may have it.
    let itself = station(PEER_MAC, "10.1.0.7").request(ip("10.1.0.7"), None).unwrap();
    assert_eq!(arp_events(&mut node, &itself, 0), Ok(vec![]));
    let probe = station(PEER_MAC, "0.0.0.0").request(ip("10.1.0.7"), None).unwrap();
    assert_eq!(arp_events(&mut node, &probe, 0), Ok(vec![]));

    // No host answers for a subnet's broadcast address.
    let mut node = Neighbours::new(link(OWN_MAC, &["10.0.0.254/24"], &["10.0.0.0/24"]), &[], 8);
    for (target, answers) in [("10.0.0.7", 1), ("10.0.0.255", 0)] {
        let request = peer().request(ip(target), None).unwrap();
        assert_eq!(arp_events(&mut node, &request, 0).unwrap().len(), answers, "{target}");
    }
}

#[test]
fn a_neighbour_that_is_here_needs_no_proxy() {
    let mut node = node_with(&[(ip("10.1.0.7"), OTHER_MAC)], 8);
    let request = peer().request(ip("10.1.0.7"), None).unwrap();
    assert_eq!(arp_events(&mut node, &request, 0), Ok(vec![]));
}

#[test]
fn own_addresses_are_defended() {
    let mut node = node();
    let probe = station(PEER_MAC, "0.0.0.0").request(ip("10.0.0.254"), None).unwrap();
    assert_eq!(arp(&sent(arp_events(&mut node, &probe, 0).unwrap())).sender_mac, OWN_MAC);
    let claim = station(PEER_MAC, "10.0.0.254").request(ip("10.0.0.254"), None).unwrap();
    assert_eq!(arp_events(&mut node, &claim, 0), Err(Rejected::DuplicateAddress));
}

#[test]
fn arp_that_is_ignored() {
    let good = peer().request(ip("10.0.0.254"), None).unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        arp_events(&mut node(), &frame, 0)
    };
    assert!(with(0, &[]).is_ok());
    assert_eq!(with(0, &OTHER_MAC.0), Err(Rejected::NotForUs));
    assert_eq!(with(12, &[0x86, 0xdd]), Err(Rejected::NotDiscovery));
    assert_eq!(with(14, &[9]), Err(Rejected::Malformed(Error::UnsupportedArp)));
    assert_eq!(with(21, &[3]), Err(Rejected::NotDiscovery));
    assert_eq!(with(22, &[1]), Err(Rejected::BadSender));
    assert_eq!(with(22, &[0; 6]), Err(Rejected::BadSender));
    assert_eq!(with(22, &OWN_MAC.0), Err(Rejected::DuplicateAddress));
    for sender in [[224, 0, 0, 1], [255; 4], [127, 0, 0, 1], [10, 0, 0, 255]] {
        assert_eq!(with(28, &sender), Err(Rejected::BadSender), "{sender:?}");
    }
    let short = arp_events(&mut node(), &good[..41], 0);
    assert_eq!(short, Err(Rejected::Malformed(Error::Truncated)));
}
