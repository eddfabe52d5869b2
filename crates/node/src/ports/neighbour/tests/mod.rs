//! What the tests share: a node, its peer, and what frames say.

mod by_arp;
mod by_nd;
mod properties;
mod states;

use super::*;

const SECOND: u64 = 1_000_000_000;
const OWN_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xfe]);
const PEER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const OTHER_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn prefix(text: &str) -> (IpAddr, u8) {
    let (address, length) = text.split_once('/').unwrap();
    (ip(address), length.parse().unwrap())
}

fn link(mac: MacAddress, addresses: &[&str], proxied: &[&str]) -> Link {
    let prefixes = |texts: &[&str]| texts.iter().map(|text| prefix(text)).collect();
    Link::new(mac, prefixes(addresses), prefixes(proxied))
}

/// The node: it stands in for 10.1.0.0/24 and 2001:db8:1::/64.
fn node() -> Neighbours {
    node_with(&[], 8)
}

fn node_with(permanent: &[(IpAddr, MacAddress)], capacity: usize) -> Neighbours {
    let addresses = ["10.0.0.254/24", "2001:db8::fe/64"];
    let proxied = ["10.1.0.0/24", "2001:db8:1::/64"];
    Neighbours::new(link(OWN_MAC, &addresses, &proxied), permanent, capacity)
}

/// A station on the node's link.
fn station(mac: MacAddress, address: &str) -> Link {
    let length = if address.contains(':') { 64 } else { 24 };
    Link::new(mac, vec![(ip(address), length)], Vec::new())
}

fn peer() -> Link {
    station(PEER_MAC, "10.0.0.1")
}

fn peer_v6() -> Link {
    station(PEER_MAC, "2001:db8::1")
}

/// What an ARP frame says.
fn arp(frame: &[u8]) -> arp::Repr {
    let frame = Frame::new_checked(frame).unwrap();
    assert_eq!(frame.ether_type(), EtherType::ARP);
    arp::Repr::parse(&arp::Packet::new_checked(frame.payload()).unwrap())
}

/// What a frame with a neighbour message says.
fn nd(frame: &[u8]) -> (ipv6::Repr, icmpv6::Repr) {
    let frame = Frame::new_checked(frame).unwrap();
    let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
    (ipv6::Repr::parse(&packet), message(&packet).unwrap())
}

fn destination(frame: &[u8]) -> MacAddress {
    Frame::new_checked(frame).unwrap().destination()
}

fn arp_events(node: &mut Neighbours, frame: &[u8], now: u64) -> Result<Vec<Event>, Rejected> {
    let mut events = Vec::new();
    node.receive_arp(frame, now, &mut events).map(|()| events)
}

fn nd_events(node: &mut Neighbours, frame: &[u8], now: u64) -> Result<Vec<Event>, Rejected> {
    let mut events = Vec::new();
    node.receive_nd(frame, now, &mut events).map(|()| events)
}

fn tick(node: &mut Neighbours, now: u64) -> Vec<Event> {
    let mut events = Vec::new();
    node.tick(now, &Loss::default(), &mut events);
    events
}

fn resolve(node: &mut Neighbours, address: &str, now: u64) -> (Resolution, Vec<Event>) {
    let mut events = Vec::new();
    (node.resolve(ip(address), now, &mut events), events)
}

/// The only event, which is a frame.
fn sent(events: Vec<Event>) -> Vec<u8> {
    match <[Event; 1]>::try_from(events) {
        Ok([Event::Send(frame)]) => frame,
        other => panic!("not one frame: {other:?}"),
    }
}

fn resolved(address: &str, mac: MacAddress) -> Event {
    Event::Resolved(ip(address), mac)
}

/// An ARP request of the peer about itself.
fn gratuitous(mac: MacAddress) -> Vec<u8> {
    station(mac, "10.0.0.1").request(ip("10.0.0.1"), None).unwrap()
}

/// Asks whether an address is free (RFC 4862 §5.4).
fn duplicate_address_probe(target: &str) -> Vec<u8> {
    let mut frame = station(PEER_MAC, "::").request(ip(target), None).unwrap();
    // Without the option that says a MAC address.
    frame.truncate(frame.len() - 8);
    frame[19] -= 8;
    with_checksum(frame)
}

fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    let pseudo_header = ipv6::Packet::new_checked(&frame[14..]).unwrap().pseudo_header();
    icmpv6::Message::new_checked(&mut frame[54..]).unwrap().fill_checksum(&pseudo_header);
    frame
}

/// An advertisement of `mac` for 2001:db8::1 in answer to the node.
fn advertisement(mac: MacAddress, flags: u8) -> Vec<u8> {
    let IpAddr::V6(own) = ip("2001:db8::fe") else { unreachable!() };
    let peer = station(mac, "2001:db8::1");
    let target = "2001:db8::1".parse().unwrap();
    let mut frame = peer.advertisement(target, Some((own, OWN_MAC))).unwrap();
    frame[58] = flags;
    with_checksum(frame)
}
