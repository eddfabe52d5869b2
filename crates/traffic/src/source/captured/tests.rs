use weft_wire::gtpu::{Qfi, Teid};
use weft_wire::{tcp, udp};

use super::*;
use crate::receiver::arrived::{Arrived, Unreadable};
use crate::template::Template;
use crate::template::encapsulation::Encapsulation;
use crate::template::prototype::Prototype;
use crate::template::sizes::Sizes;

const STAMP: Stamp = Stamp { stream: 9, flow: 3, sequence: 0x0102_0304, sent: 0x1122_3344_5566 };

fn endpoints(first_user: &str, peer: &str) -> Endpoints {
    let (first_user, peer) = (first_user.parse().unwrap(), peer.parse().unwrap());
    Endpoints { direction: Direction::Uplink, first_user, peer }
}

/// A UDP packet of so many bytes, as a template makes it.
fn made(endpoints: Endpoints, encapsulation: Encapsulation, bytes: usize) -> Vec<u8> {
    let sizes = Sizes::Fixed(bytes);
    let template = Template { sizes, encapsulation, ..Template::new(1, endpoints) };
    let mut frame = vec![0; bytes];
    Prototype::new(&template).unwrap().write(&mut frame, 0, &Stamp::default());
    // A payload of its own, by which what is changed can be seen.
    let payload = bytes - Stamp::LENGTH;
    frame[payload..].iter_mut().zip(0x40..).for_each(|(octet, value)| *octet = value);
    frame
}

fn v4() -> Endpoints {
    endpoints("10.0.0.1", "192.0.2.1")
}

fn v6() -> Endpoints {
    endpoints("2001:db8::1", "2001:db8::2")
}

/// A TCP packet of 10.0.0.1 with options and so many bytes of data.
fn segment(data: usize) -> Vec<u8> {
    let mut frame = made(v4(), Encapsulation::None, 14 + 20 + 32 + data);
    frame[23] = 6;
    frame[46] = 8 << 4;
    frame[34..46].copy_from_slice(&[0x1f, 0x90, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8]);
    frame[47] = 0x18;
    let mut ip = weft_wire::ipv4::Packet::new_checked(&mut frame[14..]).unwrap();
    ip.fill_checksum();
    frame
}

fn written(captured: &Captured, packet: u32) -> Vec<u8> {
    let mut frame = vec![0xff; captured.length(packet)];
    captured.write(&mut frame, packet, &STAMP);
    frame
}

/// Places at which two frames differ.
fn differing(one: &[u8], other: &[u8]) -> Vec<usize> {
    assert_eq!(one.len(), other.len());
    (0..one.len()).filter(|&at| one[at] != other[at]).collect()
}

#[test]
fn only_the_stamp_and_its_checksum_are_changed() {
    for (frame, checksum, stamp) in [
        (made(v4(), Encapsulation::None, 90), 40, 42),
        (made(v6(), Encapsulation::None, 101), 60, 62),
        (segment(30), 50, 66),
        (segment(18), 50, 66),
    ] {
        let captured = Captured::new([frame.clone()], true).unwrap();
        assert_eq!((captured.packets(), captured.flow(0)), ((1, 0), Some(0)));
        let sent = written(&captured, 0);
        let changed = differing(&frame, &sent);
        let allowed = |at: &usize| {
            (checksum..checksum + 2).contains(at) || (stamp..stamp + Stamp::LENGTH).contains(at)
        };
        assert!(changed.iter().all(allowed), "{changed:?}");
        let arrived = Arrived::read(&sent).unwrap();
        assert_eq!((arrived.stamp, sent[stamp..][..2] == [0, 9]), (STAMP, true));
        assert_eq!((arrived.source, arrived.destination), captured.flows()[0]);
        // Whatever is damaged behind the IP header is seen.
        for at in 34 + 20..sent.len() {
            let mut broken = sent.clone();
            broken[at] ^= 0x10;
            assert!(Arrived::read(&broken) == Err(Unreadable::Damaged) || at < stamp, "{at}");
        }
    }
}

#[test]
fn without_stamps_every_byte_is_that_of_the_capture() {
    let frames = [made(v4(), Encapsulation::None, 90), segment(30), vec![7; 14], vec![1; 2048]];
    let captured = Captured::new(frames.clone(), false).unwrap();
    assert_eq!((captured.packets(), captured.flows().len()), ((4, 4), 0));
    for (packet, frame) in (0..).zip(&frames) {
        assert_eq!((written(&captured, packet), captured.flow(packet)), (frame.clone(), None));
    }
    assert_eq!([0, 1, 2, 3].map(|packet| captured.after(packet)), [1, 2, 3, 0]);
}

#[test]
fn what_has_no_room_is_left_as_it_is() {
    let udp = made(v4(), Encapsulation::None, 90);
    let mut fragment = udp.clone();
    fragment[20] = 0x20;
    weft_wire::ipv4::Packet::new_checked(&mut fragment[14..]).unwrap().fill_checksum();
    let mut icmp = udp.clone();
    icmp[23] = 1;
    weft_wire::ipv4::Packet::new_checked(&mut icmp[14..]).unwrap().fill_checksum();
    let mut arp = udp.clone();
    arp[13] = 6;
    let mut damaged = udp.clone();
    damaged[24] ^= 1;
    for frame in [fragment, icmp, arp, damaged, segment(0), segment(17), udp[..41].to_vec()] {
        let captured = Captured::new([frame.clone()], true).unwrap();
        assert_eq!((captured.packets(), written(&captured, 0)), ((1, 1), frame));
    }
}

#[test]
fn a_stamp_lies_in_the_packet_within_a_tunnel() {
    for (source, destination) in [("192.0.2.8", "192.0.2.9"), ("2001:db8:9::1", "2001:db8:9::2")] {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        let first_teid = Teid(7);
        let tunnel = Encapsulation::Gtpu { source, destination, first_teid, qfi: Qfi::new(5) };
        let mut frame = made(v6(), tunnel, 220);
        // With an outer checksum, which has to hold whatever the stamp is.
        let outer = crate::source::captured::place::tests::outer(&frame).expect("a tunnel");
        let mut datagram = udp::Datagram::new_checked(&mut frame[outer.0.clone()]).unwrap();
        datagram.fill_checksum(&outer.1);
        let captured = Captured::new([frame.clone()], true).unwrap();
        let sent = written(&captured, 0);
        assert_eq!(Arrived::read(&sent).unwrap().stamp, STAMP);
        assert_eq!(captured.flows(), [(v6().first_user, v6().peer)]);
        let datagram = udp::Datagram::new_checked(&sent[outer.0.clone()]).unwrap();
        assert_ne!(datagram.checksum(), 0);
        assert_eq!(datagram.verify_checksum(&outer.1), Ok(()));

        // What the tunnel carries has no room: nothing of the tunnel is written over.
        let short = made(v4(), tunnel, outer.0.start + 8 + 16 + 20 + 8 + Stamp::LENGTH);
        let mut fragment = short.clone();
        let inner = outer.0.start + 8 + 16;
        fragment[inner + 6] = 0x20;
        weft_wire::ipv4::Packet::new_checked(&mut fragment[inner..]).unwrap().fill_checksum();
        assert_eq!(Captured::new([short], true).unwrap().packets(), (1, 0));
        let captured = Captured::new([fragment.clone()], true).unwrap();
        assert_eq!((captured.packets(), written(&captured, 0)), ((1, 1), fragment));
    }
}

#[test]
fn what_has_the_same_addresses_protocol_and_ports_is_one_flow() {
    let other = made(endpoints("10.0.0.2", "192.0.2.1"), Encapsulation::None, 90);
    let udp = made(v4(), Encapsulation::None, 90);
    let longer = made(v4(), Encapsulation::None, 300);
    let mut port = segment(30);
    port[35] += 1;
    let captured =
        Captured::new([udp, other, longer, segment(30), port, segment(50)], true).unwrap();
    let flows: Vec<_> = (0..6).map(|packet| captured.flow(packet).unwrap()).collect();
    assert_eq!(flows, [0, 1, 0, 2, 3, 2]);
    assert_eq!(captured.flows()[1].0, "10.0.0.2".parse::<IpAddr>().unwrap());
    let expected = captured.expected(9);
    assert_eq!((expected.stream, expected.users, expected.bearers), (9, 4, 1));
    assert_eq!(
        captured.mean_bits(),
        [90, 90, 300, 96, 96, 116].map(|n| (n + 24) as f64 * 8.0).iter().sum::<f64>() / 6.0
    );
}

#[test]
fn a_checksum_that_offloading_left_wrong_is_made_right() {
    let mut frame = segment(30);
    frame[50..52].copy_from_slice(&[0xde, 0xad]);
    let sent = written(&Captured::new([frame], true).unwrap(), 0);
    let ip = weft_wire::ipv4::Packet::new_checked(&sent[14..]).unwrap();
    let segment = tcp::Segment::new_checked(ip.payload()).unwrap();
    assert_eq!(segment.verify_checksum(&ip.pseudo_header()), Ok(()));
}

#[test]
fn captures_that_cannot_be_sent_are_refused() {
    assert_eq!(Captured::new([], true), Err(CapturedError::Empty));
    for (bytes, is_sent) in [(13, false), (14, true), (2048, true), (2049, false)] {
        let captured = Captured::new([vec![0; 60], vec![0; bytes]], true);
        match is_sent {
            true => assert_eq!(captured.unwrap().packets(), (2, 2)),
            false => {
                let error = captured.unwrap_err();
                assert_eq!(error, CapturedError::Length { number: 2, bytes });
                let said = format!("packet 2 has {bytes} bytes; 14 to 2048 can be sent");
                assert_eq!(error.to_string(), said);
            }
        }
    }
}
