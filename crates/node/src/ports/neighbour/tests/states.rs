//! States of neighbours, their timers, and who makes room.

use super::*;

/// A node that asked for 10.0.0.1 and was answered at the moment 0.
fn node_that_knows_its_peer() -> Neighbours {
    let mut node = node();
    let request = sent(resolve(&mut node, "10.0.0.1", 0).1);
    let reply = peer().arp_reply(&arp(&request)).unwrap();
    let events = arp_events(&mut node, &reply, 0);
    assert_eq!(events, Ok(vec![resolved("10.0.0.1", PEER_MAC)]));
    node
}

#[test]
fn who_does_not_answer_is_asked_thrice() {
    for address in ["10.0.0.1", "2001:db8::1"] {
        let mut node = node();
        let first = resolve(&mut node, address, 0).1;
        assert_eq!(resolve(&mut node, address, 1), (Resolution::Pending, vec![]));
        assert_eq!(tick(&mut node, SECOND - 1), []);
        assert_eq!(tick(&mut node, SECOND), first);
        assert_eq!(tick(&mut node, 2 * SECOND), first);
        assert_eq!(tick(&mut node, 3 * SECOND), [Event::Failed(ip(address))]);
        assert_eq!(tick(&mut node, 9 * SECOND), []);
        assert_eq!(resolve(&mut node, address, 9 * SECOND), (Resolution::Pending, first));
    }
}

#[test]
fn a_neighbour_is_probed_by_unicast_for_as_long_as_it_answers() {
    let mut node = node_that_knows_its_peer();
    assert_eq!(tick(&mut node, 30 * SECOND - 1), []);
    let probe = sent(tick(&mut node, 30 * SECOND));
    assert_eq!(destination(&probe), PEER_MAC);
    let reply = peer().arp_reply(&arp(&probe)).unwrap();
    assert_eq!(arp_events(&mut node, &reply, 31 * SECOND), Ok(vec![]));
    assert_eq!(tick(&mut node, 61 * SECOND - 1), []);
    for second in [61, 62, 63] {
        assert_eq!(sent(tick(&mut node, second * SECOND)), probe);
        let known = (Resolution::Known(PEER_MAC), vec![]);
        assert_eq!(resolve(&mut node, "10.0.0.1", second * SECOND), known);
    }
    assert_eq!(tick(&mut node, 64 * SECOND), [Event::Failed(ip("10.0.0.1"))]);
}

/// What the node hears at `now`, after so many messages were lost in all.
fn tick_after(node: &mut Neighbours, loss: &mut Loss, lost: u64, now: u64) -> Vec<Event> {
    let mut events = Vec::new();
    loss.note(lost, now);
    node.tick(now, loss, &mut events);
    events
}

#[test]
fn a_neighbour_is_asked_on_while_its_answers_may_be_lost() {
    let (mut node, mut loss) = (node_that_knows_its_peer(), Loss::default());
    for second in 30..100 {
        let probe = sent(tick_after(&mut node, &mut loss, second, second * SECOND));
        assert_eq!(destination(&probe), PEER_MAC);
    }
    // One more round in which nothing is lost.
    let silent = |second| tick_after(&mut node, &mut loss, 99, second * SECOND);
    let events: Vec<_> = (100..110).flat_map(silent).collect();
    assert_eq!(events.last(), Some(&Event::Failed(ip("10.0.0.1"))));
    assert!((4..7).contains(&events.len()), "{events:?}");
    // Who never answered is not waited for: packets wait for the answer.
    resolve(&mut node, "10.0.0.2", 200 * SECOND);
    let asked = (201..204)
        .flat_map(|second| tick_after(&mut node, &mut loss, second, second * SECOND))
        .collect::<Vec<_>>();
    assert_eq!(asked.last(), Some(&Event::Failed(ip("10.0.0.2"))));
}

#[test]
fn what_a_protocol_above_confirms_is_not_asked_for() {
    let mut node = node_that_knows_its_peer();
    node.confirm(ip("10.0.0.1"), 29 * SECOND);
    assert_eq!(tick(&mut node, 59 * SECOND - 1), []);
    sent(tick(&mut node, 59 * SECOND));
    // In the midst of questions, too; but not of an address that has none.
    node.confirm(ip("10.0.0.1"), 60 * SECOND);
    assert_eq!(tick(&mut node, 90 * SECOND - 1), []);
    resolve(&mut node, "10.0.0.2", 60 * SECOND);
    node.confirm(ip("10.0.0.2"), 60 * SECOND);
    assert_eq!(resolve(&mut node, "10.0.0.2", 60 * SECOND).0, Resolution::Pending);
}

#[test]
fn a_new_mac_address_is_used_at_once_and_probed() {
    let mut node = node_that_knows_its_peer();
    assert_eq!(arp_events(&mut node, &gratuitous(PEER_MAC), 1), Ok(vec![]));
    let events = arp_events(&mut node, &gratuitous(OTHER_MAC), 2).unwrap();
    let [Event::Send(probe), news] = &events[..] else { panic!("{events:?}") };
    assert_eq!(destination(probe), OTHER_MAC);
    assert_eq!(*news, resolved("10.0.0.1", OTHER_MAC));
}

#[test]
fn a_request_of_who_is_asked_for_makes_it_known() {
    let mut node = node();
    resolve(&mut node, "10.0.0.1", 0);
    let events = arp_events(&mut node, &gratuitous(PEER_MAC), 1).unwrap();
    assert_eq!(events[1], resolved("10.0.0.1", PEER_MAC));
}

#[test]
fn an_answer_to_another_station_is_not_one_to_the_node() {
    let mut node = node();
    resolve(&mut node, "10.0.0.1", 0);
    let question = station(OWN_MAC, "10.0.0.2").request(ip("10.0.0.1"), None).unwrap();
    let reply = peer().arp_reply(&arp(&question)).unwrap();
    let events = arp_events(&mut node, &reply, 1).unwrap();
    let [Event::Send(probe), news] = &events[..] else { panic!("{events:?}") };
    assert_eq!(destination(probe), PEER_MAC);
    assert_eq!(*news, resolved("10.0.0.1", PEER_MAC));
}

#[test]
fn nothing_is_said_of_a_neighbour_before_it_is_asked_for() {
    let mut node = node();
    let request = peer().request(ip("10.0.0.254"), None).unwrap();
    sent(arp_events(&mut node, &request, 0).unwrap());
    assert_eq!(arp_events(&mut node, &gratuitous(OTHER_MAC), 1), Ok(vec![]));
    assert_eq!(tick(&mut node, u64::MAX), []);
    assert_eq!(resolve(&mut node, "10.0.0.1", 2).0, Resolution::Known(OTHER_MAC));
}

#[test]
fn permanent_neighbours_stay() {
    let mut node = node_with(&[(ip("10.0.0.1"), PEER_MAC)], 8);
    assert_eq!(arp_events(&mut node, &gratuitous(OTHER_MAC), 0), Ok(vec![]));
    assert_eq!(tick(&mut node, u64::MAX), []);
    let known = (Resolution::Known(PEER_MAC), vec![]);
    assert_eq!(resolve(&mut node, "10.0.0.1", u64::MAX), known);
    // Even where the node could not ask for them.
    let mut v6_only = Neighbours::new(peer_v6(), &[(ip("10.0.0.1"), PEER_MAC)], 8);
    assert_eq!(resolve(&mut v6_only, "10.0.0.1", 0), known);
}

#[test]
fn groups_are_known_and_some_addresses_cannot_be() {
    let mut node = node();
    let mut mac = |address| match resolve(&mut node, address, 0) {
        (Resolution::Known(mac), events) if events.is_empty() => mac.to_string(),
        other => panic!("{address} is {other:?}"),
    };
    assert_eq!(mac("224.129.2.3"), "01:00:5e:01:02:03");
    assert_eq!(mac("ff02::1:ff00:7"), "33:33:ff:00:00:07");
    assert_eq!(mac("255.255.255.255"), "ff:ff:ff:ff:ff:ff");
    assert_eq!(mac("10.0.0.255"), "ff:ff:ff:ff:ff:ff");
    let unreachable = (Resolution::Unreachable, vec![]);
    assert_eq!(resolve(&mut node, "10.0.0.254", 0), unreachable);
    let mut v4_only = Neighbours::new(peer(), &[], 8);
    assert_eq!(resolve(&mut v4_only, "2001:db8::1", 0), unreachable);
    // Subnets of two addresses have no broadcast address (RFC 3021).
    let mut pair = Neighbours::new(link(OWN_MAC, &["10.0.0.0/31"], &[]), &[], 8);
    assert_eq!(resolve(&mut pair, "10.0.0.1", 0).0, Resolution::Pending);
}

#[test]
fn who_merely_speaks_cannot_displace_who_is_asked_for() {
    let mut node = node_with(&[], 2);
    let introduce = |node: &mut Neighbours, number: u8, now| {
        let stranger = station(PEER_MAC, &format!("10.0.0.{number}"));
        let request = stranger.request(ip("10.0.0.254"), None).unwrap();
        arp_events(node, &request, now).unwrap()
    };
    let known = |node: &Neighbours| {
        (1..200)
            .filter(|n| node.table.mac(ip(&format!("10.0.0.{n}"))).is_some())
            .collect::<Vec<_>>()
    };
    for number in 1..=3 {
        introduce(&mut node, number, u64::from(number));
    }
    assert_eq!(known(&node), [2, 3]);
    // Asked for: the oldest of the others makes room, silently.
    assert_eq!(resolve(&mut node, "10.0.0.3", 4).0, Resolution::Known(PEER_MAC));
    sent(resolve(&mut node, "10.0.0.9", 5).1);
    assert_eq!(known(&node), [3]);
    introduce(&mut node, 4, 6);
    assert_eq!(known(&node), [3]);
    // Who has not answered makes room before who has, and that is said.
    let (_, events) = resolve(&mut node, "10.0.0.10", 7);
    assert_eq!(events[0], Event::Failed(ip("10.0.0.9")));
    assert_eq!(known(&node), [3]);
}
