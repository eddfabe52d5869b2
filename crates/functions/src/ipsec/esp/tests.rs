//! Both directions together, and each against what it must refuse.

mod keys;
mod restart;
mod used_keys;

use proptest::prelude::*;
use serde_json::{Value, json};
use weft_compose::SlotShift;
use weft_function::{PacketMetadata, Setup, TagTable};
use weft_wire::{Ecn, EtherType, esp, ipv4, ipv6};

use crate::kind;
use crate::testing::{NETWORK, Rig, Seen, Spec, metadata, specs};

const KEY: &str = "000102030405060708090a0b0c0d0e0ff0f1f2f3";
const LONG_KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1ff0f1f2f3";

/// A pair of functions, and the association that both have for the user at slot 0.
struct Tunnel {
    encrypt: Rig,
    decrypt: Rig,
}

fn with(mut value: Value, more: &Value) -> Value {
    for (key, one) in more.as_object().expect("keys") {
        value[key] = one.clone();
    }
    value
}

fn sender(config: Value, more: &Value) -> Rig {
    let mut rig = Rig::new(kind("esp-encrypt").expect("it is there"), config).expect("valid");
    let settings = json!({ "spi": 4096, "key": KEY, "local": "192.0.2.1", "peer": "192.0.2.2" });
    rig.configure(0, with(settings, more), 0, 1).expect("valid settings");
    rig
}

fn receiver(more: &Value) -> Rig {
    let mut rig = Rig::new(kind("esp-decrypt").expect("it is there"), json!({})).expect("valid");
    let settings = json!({ "spi": 4096, "key": KEY, "window": 64 });
    rig.configure(0, with(settings, more), 0, 1).expect("valid settings");
    rig
}

impl Tunnel {
    fn new(both: Value, outer: Value) -> Tunnel {
        Tunnel { encrypt: sender(json!({}), &with(both.clone(), &outer)), decrypt: receiver(&both) }
    }

    fn plain() -> Tunnel {
        Tunnel::new(json!({}), json!({}))
    }

    fn sent(&mut self) -> Vec<u8> {
        let seen = self.encrypt.send(&Spec::udp(b"payload"));
        assert_eq!(seen.dropped, None);
        seen.bytes
    }

    fn receive(&mut self, frame: &[u8]) -> Seen {
        self.decrypt.send_bytes(frame, metadata(frame))
    }
}

/// The packet as it leaves the tunnel: with one hop less.
fn one_hop_less(spec: &Spec) -> Vec<u8> {
    let mut frame = spec.frame();
    match frame[12..14] {
        [0x08, 0] => {
            let mut ip = ipv4::Packet::new_checked(&mut frame[NETWORK..]).expect("IPv4");
            ip.set_time_to_live(ip.time_to_live() - 1);
            ip.fill_checksum();
        }
        _ => frame[NETWORK + 7] -= 1,
    }
    frame
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(
        spec in specs(),
        long in any::<bool>(),
        extended in any::<bool>(),
        over_v6 in any::<bool>(),
        pad_to in 0_u16..300,
    ) {
        // A fragment that is the whole must have a whole transport header.
        let is_cut = matches!(&spec.fragment, Some((part, false)) if part.start == 0);
        prop_assume!(!is_cut);
        let ends = match over_v6 {
            true => json!({ "local": "2001:db8::1", "peer": "2001:db8::2", "padTo": pad_to }),
            false => json!({ "padTo": pad_to }),
        };
        let key = if long { LONG_KEY } else { KEY };
        let both = json!({ "key": key, "extendedSequenceNumbers": extended });
        let mut tunnel = Tunnel::new(both, ends);
        let sent = tunnel.encrypt.send(&spec);
        prop_assert_eq!(sent.dropped, None);
        // What the metadata say is what a parser finds.
        let found = metadata(&sent.bytes);
        prop_assert_eq!(PacketMetadata { tags: sent.metadata.tags, ..found }, sent.metadata);
        let least = usize::from(pad_to.min(1400));
        prop_assert!(sent.bytes.len() >= least);
        let seen = tunnel.receive(&sent.bytes);
        prop_assert_eq!(seen.dropped, None);
        let expected = one_hop_less(&spec);
        prop_assert_eq!(&seen.bytes, &expected);
        prop_assert_eq!(metadata(&expected), seen.metadata);
    }

    /// Over a network that loses, doubles and reorders: each packet that is let
    /// through is let through once.
    #[test]
    fn a_bad_network_does_no_harm(
        extended in any::<bool>(),
        order in proptest::collection::vec(0_usize..60, 0..200),
    ) {
        let both = json!({ "extendedSequenceNumbers": extended });
        let mut tunnel = Tunnel::new(both, json!({}));
        let sent: Vec<Vec<u8>> = (0..60).map(|_| tunnel.sent()).collect();
        let mut taken = [false; 60];
        for place in order {
            // A window of 64 reaches back to the first.
            let dropped = tunnel.receive(&sent[place]).dropped;
            prop_assert_eq!(dropped, taken[place].then_some("esp_replayed"));
            taken[place] = true;
        }
        let packets = taken.iter().filter(|taken| **taken).count() as u64;
        prop_assert_eq!(tunnel.decrypt.shown(0, "packets"), packets);
    }

    #[test]
    fn an_octet_that_was_changed_is_found(place in 0_usize..60, change in 1_u8..) {
        let mut tunnel = Tunnel::plain();
        let mut frame = tunnel.sent();
        // Behind the SPI, whatever it is.
        let start = NETWORK + 20 + 4;
        let place = start + place % (frame.len() - start);
        frame[place] ^= change;
        let dropped = tunnel.receive(&frame).dropped;
        prop_assert!(matches!(dropped, Some("esp_bad_icv" | "esp_late")), "{dropped:?}");
        prop_assert_eq!(tunnel.decrypt.shown(0, "packets"), 0);
    }
}

#[test]
fn late_packets_are_told_from_replayed_ones() {
    let mut tunnel = Tunnel::plain();
    let sent: Vec<Vec<u8>> = (0..100).map(|_| tunnel.sent()).collect();
    assert_eq!(tunnel.receive(&sent[99]).dropped, None);
    assert_eq!(tunnel.receive(&sent[99]).dropped, Some("esp_replayed"));
    assert_eq!(tunnel.receive(&sent[36]).dropped, None);
    // Behind the window a number is one of the next 2³², and what is authenticated differs.
    assert_eq!(tunnel.receive(&sent[35]).dropped, Some("esp_bad_icv"));
    let mut short = Tunnel::new(json!({ "extendedSequenceNumbers": false }), json!({}));
    let sent: Vec<Vec<u8>> = (0..100).map(|_| short.sent()).collect();
    assert_eq!(short.receive(&sent[99]).dropped, None);
    assert_eq!(short.receive(&sent[35]).dropped, Some("esp_late"));
}

/// Where the sequence number lies in an exported context of a sender over IPv4: behind
/// version, time, presence, SPI, key, addresses, kind and filling.
const SEQUENCE: usize = 2 + 8 + 1 + 4 + 1 + 20 + 5 + 5 + 1 + 2;

/// Sets the sequence number of a sender.
fn set_sequence(rig: &mut Rig, sequence: u64) {
    let mut bytes = rig.export(0);
    bytes[SEQUENCE..SEQUENCE + 8].copy_from_slice(&sequence.to_le_bytes());
    rig.instance.import(0, rig.now, &bytes).expect("a whole context");
    assert_eq!(rig.shown(0, "sequence"), sequence);
}

#[test]
fn extended_numbers_go_on_where_the_low_half_ends() {
    let mut tunnel = Tunnel::plain();
    set_sequence(&mut tunnel.encrypt, 0xffff_fff0);
    let sent: Vec<Vec<u8>> = (0..40).map(|_| tunnel.sent()).collect();
    let low = |frame: &[u8]| {
        let packet = esp::Packet::new_checked(&frame[NETWORK + 20..]).expect("ESP");
        packet.sequence_number()
    };
    assert_eq!((low(&sent[14]), low(&sent[15])), (0xffff_ffff, 0));
    // The receiver has seen what came before.
    let mut early = Tunnel::plain();
    std::mem::swap(&mut early.encrypt, &mut tunnel.encrypt);
    set_sequence(&mut early.encrypt, 0x7fff_0000);
    let middle = early.sent();
    assert_eq!(tunnel.receive(&middle).dropped, None);
    for frame in sent.iter().rev() {
        assert_eq!(tunnel.receive(frame).dropped, None);
        assert_eq!(tunnel.receive(frame).dropped, Some("esp_replayed"));
    }
    assert_eq!(tunnel.decrypt.shown(0, "highest"), 0xffff_fff0 + 40);
}

#[test]
fn no_number_is_used_twice() {
    for (extended, last) in [(false, u64::from(u32::MAX)), (true, u64::MAX)] {
        let mut rig = sender(json!({}), &json!({ "extendedSequenceNumbers": extended }));
        set_sequence(&mut rig, last - 1);
        assert_eq!(rig.send(&Spec::udp(b"last")).dropped, None);
        for _ in 0..2 {
            assert_eq!(rig.send(&Spec::udp(b"more")).dropped, Some("esp_sequence_overflow"));
        }
    }
}

/// The vectors of packets with one key, whatever happens to the association.
#[test]
fn no_nonce_is_used_twice() {
    let iv = |seen: Seen| {
        let bytes = seen.bytes[NETWORK + 28..NETWORK + 36].try_into().expect("eight octets");
        assert_eq!(seen.dropped, None);
        u64::from_be_bytes(bytes)
    };
    let settings = |more: Value| {
        let all = json!({
            "spi": 4096, "key": KEY, "local": "192.0.2.1", "peer": "192.0.2.2", "firstIv": 7,
        });
        with(all, &more)
    };
    let mut rig = sender(json!({}), &json!({ "firstIv": 7 }));
    assert_eq!(iv(rig.send(&Spec::udp(b"one"))), 7);
    // Other settings of it, another SPI, and a context that was given back.
    rig.configure(0, settings(json!({ "padTo": 100 })), 0, 1).expect("valid");
    assert_eq!(rig.shown(0, "sequence"), 1);
    assert_eq!(iv(rig.send(&Spec::udp(b"two"))), 8);
    rig.configure(0, settings(json!({ "spi": 4097 })), 0, 1).expect("valid");
    assert_eq!(rig.shown(0, "sequence"), 0);
    assert_eq!(iv(rig.send(&Spec::udp(b"three"))), 9);
    rig.instance.release(0);
    rig.configure(0, settings(json!({})), 0, 1).expect("valid");
    assert_eq!(iv(rig.send(&Spec::udp(b"four"))), 10);
    // One that moved goes on; one that is set up anew begins at the clock, which is later.
    let mut other = sender(json!({}), &json!({}));
    let first = iv(other.send(&Spec::udp(b"five")));
    let bytes = other.export(0);
    let mut target = sender(json!({}), &json!({ "spi": 300 }));
    target.instance.import(0, 0, &bytes).expect("a whole context");
    assert_eq!(iv(target.send(&Spec::udp(b"six"))), first + 1);
    assert_eq!(target.shown(0, "sequence"), 2);
    let mut again = sender(json!({}), &json!({}));
    assert!(iv(again.send(&Spec::udp(b"seven"))) > first + 1);
}

#[test]
fn lifetimes_end() {
    let lifetime = json!({ "lifetime": { "packets": 2 } });
    let mut tunnel = Tunnel::new(lifetime, json!({}));
    for _ in 0..2 {
        let frame = tunnel.sent();
        assert_eq!(tunnel.receive(&frame).dropped, None);
    }
    assert_eq!(tunnel.encrypt.send(&Spec::udp(b"")).dropped, Some("esp_lifetime"));
    let mut bytes = Tunnel::new(json!({ "lifetime": { "bytes": 50 } }), json!({}));
    let frame = bytes.sent();
    assert_eq!(bytes.receive(&frame).dropped, None);
    assert_eq!(bytes.encrypt.send(&Spec::udp(b"payload")).dropped, Some("esp_lifetime"));
    assert_eq!(bytes.encrypt.shown(0, "bytes"), 35);
}

#[test]
fn congestion_and_class_go_through_the_tunnel() {
    let seen_through = |inner: Ecn, outer: Option<Ecn>| {
        let mut tunnel = Tunnel::plain();
        let mut frame = Spec::udp(b"payload").frame();
        let mut ip = ipv4::Packet::new_checked(&mut frame[NETWORK..]).expect("IPv4");
        ip.set_ecn(inner);
        ip.fill_checksum();
        let mut sent = tunnel.encrypt.send_bytes(&frame, metadata(&frame)).bytes;
        let mut ip = ipv4::Packet::new_checked(&mut sent[NETWORK..]).expect("IPv4");
        assert_eq!(ip.ecn(), inner);
        ip.set_ecn(outer.unwrap_or(inner));
        ip.fill_checksum();
        let seen = tunnel.receive(&sent);
        let ip = ipv4::Packet::new_checked(&seen.bytes[NETWORK..]).expect("IPv4");
        seen.dropped.map_or_else(
            || {
                assert_eq!(ip.verify_checksum(), Ok(()));
                Ok(ip.ecn())
            },
            Err,
        )
    };
    assert_eq!(seen_through(Ecn::Ect0, None), Ok(Ecn::Ect0));
    assert_eq!(seen_through(Ecn::Ect0, Some(Ecn::Ce)), Ok(Ecn::Ce));
    assert_eq!(seen_through(Ecn::Ect0, Some(Ecn::Ect1)), Ok(Ecn::Ect1));
    assert_eq!(seen_through(Ecn::Ce, Some(Ecn::NotEct)), Ok(Ecn::Ce));
    assert_eq!(seen_through(Ecn::NotEct, Some(Ecn::Ce)), Err("esp_congestion"));
}

#[test]
fn what_does_not_fit_is_told_to_its_sender_or_fragmented_outside() {
    let config = json!({
        "mtu": 600, "ipv4Address": "198.51.100.1", "ipv6Address": "2001:db8::fe",
    });
    let send = |rig: &mut Rig, v6: bool, dont: bool, length: usize| {
        let spec = Spec::udp(&vec![0; length]);
        let spec = if v6 { spec.between("2001:db8:1::1", "2001:db8:2::1") } else { spec };
        let mut frame = spec.frame();
        if !v6 {
            let mut ip = ipv4::Packet::new_checked(&mut frame[NETWORK..]).expect("IPv4");
            ip.set_dont_fragment(dont);
            ip.fill_checksum();
        }
        rig.send_bytes(&frame, metadata(&frame))
    };
    // 600 − 20 − 16 − 16 = 548, less a trailer of 2: 546 octets fit.
    let mut rig = sender(config.clone(), &json!({}));
    let fits = send(&mut rig, false, true, 546 - 28);
    assert_eq!((fits.dropped, fits.bytes.len()), (None, NETWORK + 600));
    let told = send(&mut rig, false, true, 547 - 28);
    assert_eq!(told.dropped, Some("esp_too_big"));
    assert_eq!(told.sent[0][NETWORK + 20..NETWORK + 22], [3, 4]);
    assert_eq!(told.sent[0][NETWORK + 26..NETWORK + 28], 546_u16.to_be_bytes());
    let free = send(&mut rig, false, false, 1000);
    assert_eq!(free.dropped, None);
    let ip = ipv4::Packet::new_checked(&free.bytes[NETWORK..]).expect("IPv4");
    assert!(!ip.dont_fragment() && ip.identification() != 0);
    // IPv6 is carried up to its least MTU, and told of that beyond.
    assert_eq!(send(&mut rig, true, false, 1280 - 48).dropped, None);
    let told = send(&mut rig, true, false, 1281 - 48);
    assert_eq!(told.dropped, Some("esp_too_big"));
    assert_eq!(told.sent[0][NETWORK + 40], 2);
    assert_eq!(told.sent[0][NETWORK + 44..NETWORK + 48], 1280_u32.to_be_bytes());
    // Over IPv6 nothing is fragmented.
    let ends = json!({ "local": "2001:db8::1", "peer": "2001:db8::2" });
    let mut rig = sender(config, &ends);
    assert_eq!(send(&mut rig, false, false, 1000).dropped, Some("esp_too_big"));
}

#[test]
fn the_bit_against_fragmentation_is_copied_set_or_cleared() {
    for (how, expected) in [("copy", [true, false]), ("set", [true; 2]), ("clear", [false; 2])] {
        let mut rig = sender(json!({ "dontFragment": how }), &json!({}));
        for (inside, expected) in [true, false].into_iter().zip(expected) {
            let mut frame = Spec::udp(b"payload").frame();
            let mut ip = ipv4::Packet::new_checked(&mut frame[NETWORK..]).expect("IPv4");
            ip.set_dont_fragment(inside);
            ip.fill_checksum();
            let sent = rig.send_bytes(&frame, metadata(&frame)).bytes;
            let ip = ipv4::Packet::new_checked(&sent[NETWORK..]).expect("IPv4");
            assert_eq!((ip.dont_fragment(), ip.verify_checksum()), (expected, Ok(())), "{how}");
        }
    }
}

/// A packet whose cleartext is this, sealed by the association of [`KEY`].
fn sealed(text: &[u8], sequence: u32) -> Vec<u8> {
    use weft_dpdk::crypto::{Device, Direction};
    let eal = weft_dpdk::Eal::standing().expect("a rig was made before");
    let sessions = Device::open(eal, "crypto_aesni_gcm0").expect("it is there").sessions(1);
    let octets: Vec<u8> = (0..16).collect();
    let session = sessions.expect("memory").aes_gcm(&octets, 12, Direction::Seal).expect("room");
    let iv = u64::from(sequence).to_be_bytes();
    let (data, _) = super::associated(4096, sequence.into(), true);
    let (mut text, mut tag) = (text.to_vec(), [0; 16]);
    let nonce = super::nonce([0xf0, 0xf1, 0xf2, 0xf3], iv);
    assert!(session.seal(&nonce, &data, &mut text, &mut tag));
    let mut frame = vec![0; NETWORK + 40];
    frame[12..14].copy_from_slice(&EtherType::IPV6.0.to_be_bytes());
    let repr = ipv6::Repr {
        source: "2001:db8::2".parse().expect("an address"),
        destination: "2001:db8::1".parse().expect("an address"),
        next_header: weft_wire::Protocol::ESP,
        payload_length: (32 + text.len()) as u16,
        ..Default::default()
    };
    repr.emit(&mut frame[NETWORK..]).expect("room");
    frame.extend(4096_u32.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend(iv);
    frame.extend(text);
    frame.extend(tag);
    frame
}

#[test]
fn what_is_wrong_inside_is_named() {
    let mut rig = receiver(&json!({}));
    let inside = Spec::udp(b"12").frame()[NETWORK..].to_vec();
    let mut sequence = 0;
    let mut dropped = |text: &[u8]| {
        sequence += 1;
        let frame = sealed(text, sequence);
        rig.send_bytes(&frame, metadata(&frame)).dropped
    };
    assert_eq!(inside.len(), 30);
    let text = |trailer: &[u8]| [&inside[..], trailer].concat();
    assert_eq!(dropped(&text(&[0, 4])), None);
    assert_eq!(dropped(&text(&[1, 2, 3, 4, 4, 4])), None);
    assert_eq!(dropped(&text(&[1, 2, 3, 5, 4, 4])), Some("esp_padding"));
    assert_eq!(dropped(&text(&[33, 4])), Some("esp_padding"));
    assert_eq!(dropped(&[1, 2, 2, 59]), Some("esp_dummy"));
    assert_eq!(dropped(&text(&[0, 17])), Some("esp_next_header"));
    assert_eq!(dropped(&text(&[0, 41])), Some("esp_inner_malformed"));
    assert_eq!(dropped(&text(&[0, 4])[4..]), Some("esp_inner_malformed"));
    // Padding against traffic analysis is cut off.
    assert_eq!(dropped(&text(&[0, 0, 0, 0, 0, 4])), None);
}

#[test]
fn what_is_wrong_outside_is_named() {
    let mut tunnel = Tunnel::new(json!({}), json!({}));
    let frame = tunnel.sent();
    let mut dropped = |frame: &[u8], change: &dyn Fn(&mut PacketMetadata)| {
        let mut metadata = metadata(frame);
        change(&mut metadata);
        tunnel.decrypt.send_bytes(frame, metadata).dropped
    };
    assert_eq!(dropped(&Spec::udp(b"").frame(), &|_| {}), Some("esp_not_protected"));
    assert_eq!(dropped(&frame, &|found| found.outer_offset = 14), Some("esp_not_protected"));
    assert_eq!(dropped(&frame, &|found| found.bearer = 1), Some("esp_no_association"));
    let fragment = |found: &mut PacketMetadata| found.flags |= PacketMetadata::FRAGMENT;
    assert_eq!(dropped(&frame, &fragment), Some("esp_fragment"));
    for cut in [1, 2, 3, 60] {
        let shorter = |found: &mut PacketMetadata| found.network_length -= cut;
        assert_eq!(dropped(&frame, &shorter), Some("esp_malformed"), "{cut}");
    }
    let mut other = frame.clone();
    other[NETWORK + 23] ^= 1;
    assert_eq!(dropped(&other, &|_| {}), Some("esp_unknown_spi"));
    let mut first = frame.clone();
    first[NETWORK + 24..NETWORK + 28].fill(0);
    assert_eq!(dropped(&first, &|_| {}), Some("esp_late"));
    assert_eq!(dropped(&frame, &|_| {}), None);

    let mut picky = receiver(&json!({ "peer": "192.0.2.9" }));
    assert_eq!(picky.send_bytes(&frame, metadata(&frame)).dropped, Some("esp_wrong_peer"));
    let mut sender = sender(json!({}), &json!({}));
    let tunnelled = sender.send_as(&Spec::udp(b""), |found| found.outer_offset = 14);
    assert_eq!(tunnelled.dropped, Some("esp_tunnelled"));
}

#[test]
fn settings_that_cannot_be_are_refused_and_keys_not_repeated() {
    let settings = json!({ "spi": 4096, "key": KEY, "local": "192.0.2.1", "peer": "192.0.2.2" });
    let mut rig = sender(json!({}), &json!({}));
    let mut refused = |more: Value, count: u32| {
        let settings = with(settings.clone(), &more);
        let error = rig.configure(1, settings, 0, count).expect_err("refused");
        assert!(!error.to_string().contains("0c0d0e0f"), "{error}");
        error.path
    };
    assert_eq!(refused(json!({ "spi": 255 }), 1), "spi");
    assert_eq!(refused(json!({}), 2), "key");
    assert_eq!(refused(json!({ "key": format!("{KEY}00") }), 1), "key");
    assert_eq!(refused(json!({ "peer": "2001:db8::1" }), 1), "local");
    assert_eq!(refused(json!({ "peer": "224.0.0.1" }), 1), "peer");
    let encrypt = kind("esp-encrypt").expect("it is there");
    for (config, path) in [
        (json!({ "device": "crypto_none0" }), "device"),
        (json!({ "device": "net_null0" }), "device"),
        (json!({ "associations": 0 }), "associations"),
        (json!({ "mtu": 100 }), "mtu"),
    ] {
        let error = Rig::new(encrypt, config).err().expect("refused");
        assert_eq!(error.path, path);
    }
}

/// Contexts beyond `associations` have none, which is told, and one that is given back
/// makes room.
#[test]
fn there_is_room_for_so_many() {
    let mut rig = sender(json!({ "associations": 1 }), &json!({}));
    let settings =
        json!({ "spi": 4097, "key": LONG_KEY, "local": "192.0.2.1", "peer": "192.0.2.2" });
    rig.configure(1, settings.clone(), 0, 1).expect("valid settings");
    let send = |rig: &mut Rig, slot: u32| {
        rig.send_as(&Spec::udp(b"x"), |found| found.bearer = slot).dropped
    };
    assert_eq!(send(&mut rig, 0), None);
    assert_eq!(send(&mut rig, 1), Some("esp_no_association"));
    rig.instance.release(0);
    rig.configure(1, settings, 0, 1).expect("valid settings");
    assert_eq!(send(&mut rig, 1), None);
}
