//! Neighbour discovery, as it is answered and learned from.

use weft_wire::Error;

use super::*;

#[test]
fn neighbour_solicitation_byte_by_byte() {
    let (resolution, events) = resolve(&mut node(), "2001:db8::1", 0);
    assert_eq!(resolution, Resolution::Pending);
    #[rustfmt::skip]
    let frame = [
        0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 0xfe, 0x86, 0xdd,
        0x60, 0, 0, 0, 0, 32, 58, 255,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe,
        0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 1,
        135, 0, 0x1a, 0x2f, 0, 0, 0, 0,
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        1, 1, 2, 0, 0, 0, 0, 0xfe,
    ];
    assert_eq!(sent(events), frame);
}

#[test]
fn solicitations_are_answered_as_a_router_does() {
    let mut node = node();
    let replies = [("2001:db8::fe", true), ("2001:db8:1::7", false)].map(|(target, own)| {
        let request = peer_v6().request(ip(target), None).unwrap();
        let reply = sent(nd_events(&mut node, &request, 0).unwrap());
        assert_eq!(destination(&reply), PEER_MAC);
        let (header, message) = nd(&reply);
        let IpAddr::V6(target) = ip(target) else { unreachable!() };
        let target_mac = Some(OWN_MAC);
        let (router, solicited, replaces) = (true, true, own);
        let expected = icmpv6::Repr::NeighbourAdvertisement {
            target,
            target_mac,
            router,
            solicited,
            replaces,
        };
        assert_eq!(message, expected);
        assert_eq!(IpAddr::from(header.destination), ip("2001:db8::1"));
        IpAddr::from(header.source)
    });
    assert_eq!(replies, [ip("2001:db8::fe"); 2]);
    // The asker has introduced itself. Who asks for another has not.
    assert_eq!(resolve(&mut node, "2001:db8::1", 0).0, Resolution::Known(PEER_MAC));
    let stranger = station(PEER_MAC, "2001:db8::3").request(ip("2001:db8::1"), None).unwrap();
    assert_eq!(nd_events(&mut node, &stranger, 0), Ok(vec![]));
    assert_eq!(resolve(&mut node, "2001:db8::3", 0).0, Resolution::Pending);
}

#[test]
fn duplicate_address_detection_is_answered_to_all() {
    let mut node = node();
    let probe = duplicate_address_probe("2001:db8::fe");
    let reply = sent(nd_events(&mut node, &probe, 0).unwrap());
    assert_eq!(destination(&reply), MacAddress([0x33, 0x33, 0, 0, 0, 1]));
    let (header, message) = nd(&reply);
    assert_eq!(IpAddr::from(header.destination), ip("ff02::1"));
    assert!(matches!(message, icmpv6::Repr::NeighbourAdvertisement { solicited: false, .. }));
    let probe = duplicate_address_probe("2001:db8:1::7");
    assert_eq!(nd_events(&mut node, &probe, 0), Ok(vec![]));
}

#[test]
fn advertisements_replace_only_if_they_want_to() {
    const SOLICITED: u8 = 0x40;
    const OVERRIDE: u8 = 0x20;
    let mut node = node();
    // No solicitation asked for it.
    assert_eq!(nd_events(&mut node, &advertisement(PEER_MAC, SOLICITED), 0), Ok(vec![]));
    resolve(&mut node, "2001:db8::1", 0);
    let events = nd_events(&mut node, &advertisement(PEER_MAC, SOLICITED), 0);
    assert_eq!(events, Ok(vec![resolved("2001:db8::1", PEER_MAC)]));

    let probe = sent(nd_events(&mut node, &advertisement(OTHER_MAC, 0), 1).unwrap());
    assert_eq!(destination(&probe), PEER_MAC);
    assert_eq!(IpAddr::from(nd(&probe).0.destination), ip("2001:db8::1"));
    assert_eq!(nd_events(&mut node, &advertisement(OTHER_MAC, SOLICITED), 2), Ok(vec![]));
    let events = nd_events(&mut node, &advertisement(OTHER_MAC, SOLICITED | OVERRIDE), 2);
    assert_eq!(events, Ok(vec![resolved("2001:db8::1", OTHER_MAC)]));
    assert_eq!(tick(&mut node, 30 * SECOND), []);
}

#[test]
fn neighbour_discovery_that_is_ignored() {
    let good = peer_v6().request(ip("2001:db8::fe"), None).unwrap();
    let with = |at: usize, bytes: &[u8], repair: bool| {
        let mut frame = good.clone();
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        nd_events(&mut node(), &if repair { with_checksum(frame) } else { frame }, 0)
    };
    assert!(with(0, &[], true).is_ok());
    assert_eq!(with(0, &OTHER_MAC.0, true), Err(Rejected::NotForUs));
    assert_eq!(with(21, &[254], true), Err(Rejected::NotFromLink));
    assert_eq!(with(85, &[0], false), Err(Rejected::Malformed(Error::BadChecksum)));
    assert_eq!(with(79, &[0], false), Err(Rejected::Malformed(Error::BadOption)));
    assert_eq!(with(55, &[1], true), Err(Rejected::NotDiscovery));
    assert_eq!(with(80, &[3], true), Err(Rejected::BadSender));
    assert_eq!(with(80, &OWN_MAC.0, true), Err(Rejected::DuplicateAddress));
    // The unspecified source with a MAC address.
    assert_eq!(with(22, &[0; 16], true), Err(Rejected::Contradictory));
    assert_eq!(with(22, &[0xff, 0x02], true), Err(Rejected::BadSender));

    // A question whether an address is free, but not to its group.
    let mut frame = duplicate_address_probe("2001:db8::fe");
    frame[53] ^= 1;
    let events = nd_events(&mut node(), &with_checksum(frame), 0);
    assert_eq!(events, Err(Rejected::Contradictory));
    // A solicited answer to a group.
    let mut frame = advertisement(PEER_MAC, 0x40);
    frame[38] = 0xff;
    let events = nd_events(&mut node(), &with_checksum(frame), 0);
    assert_eq!(events, Err(Rejected::Contradictory));
    let mut frame = [&good[..54], &[58, 0, 0, 0, 0, 0, 0, 1], &good[54..]].concat();
    (frame[19], frame[20]) = (frame[19] + 8, 44);
    assert_eq!(nd_events(&mut node(), &frame, 0), Err(Rejected::Fragmented));
}

#[test]
fn a_station_that_speaks_ipv6_has_a_link_local_address() {
    assert!(node().link().is_own(ip("fe80::ff:fe00:fe")));
    assert!(!peer().is_own(ip("fe80::ff:fe00:1")));
    let given = link(OWN_MAC, &["fe80::7/64"], &[]);
    assert_eq!(given.addresses(), [prefix("fe80::7/64")]);
    // It is what a neighbour is asked from that has no other.
    let request = sent(resolve(&mut node(), "fe80::1", 0).1);
    assert_eq!(IpAddr::from(nd(&request).0.source), ip("fe80::ff:fe00:fe"));
}
