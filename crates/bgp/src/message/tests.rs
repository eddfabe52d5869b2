use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;

fn known() -> Open {
    Open {
        autonomous_system: 4_200_000_001,
        hold_time: 9,
        identifier: Ipv4Addr::new(192, 0, 2, 1),
        families: Family::ALL.to_vec(),
        has_four_octets: true,
        restart_time: Some(Duration::from_secs(30)),
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn an_open_is_read_as_it_was_written() {
    for open in [known(), Open { families: vec![Family::Ip6], restart_time: None, ..known() }] {
        let octets = super::open(&open, true);
        let length = octets.len();
        assert_eq!(parse(&octets), Ok(Some((Message::Open(open), length))));
    }
}

/// As Appendix of RFC 4271 section 4.2 has it, by hand: AS 65000, no capabilities.
#[test]
fn an_open_without_capabilities_speaks_ip4_and_short_numbers() {
    let octets = message(OPEN, &[4, 0xfd, 0xe8, 0, 180, 10, 0, 0, 1, 0]);
    let Ok(Some((Message::Open(open), 29))) = parse(&octets) else { panic!("{octets:?}") };
    assert_eq!((open.autonomous_system, open.hold_time), (65_000, 180));
    assert_eq!((&*open.families, open.has_four_octets), (&[Family::Ip4][..], false));
}

#[test]
fn long_parameters_are_read() {
    let open = |parameters: &[u8]| {
        let fixed = [4, 0xfd, 0xe8, 0, 180, 10, 0, 0, 1].into_iter();
        parse(&message(OPEN, &fixed.chain(parameters.iter().copied()).collect::<Vec<_>>()))
    };
    let Ok(Some((Message::Open(open_said), _))) =
        open(&[255, 255, 0, 9, 2, 0, 6, 65, 4, 0, 1, 0, 0])
    else {
        panic!("it is not read")
    };
    assert_eq!(open_said.autonomous_system, 65_536);
    assert_eq!(open(&[255, 255, 0, 10, 2, 0, 6, 65, 4, 0, 1, 0, 0]), Err(Wrong::OPEN));
}

#[test]
fn what_is_wrong_is_told_by_its_code() {
    let open = |at: usize, octet: u8| {
        let mut octets = super::open(&known(), false);
        octets[at] = octet;
        parse(&octets)
    };
    assert_eq!(open(3, 0), Err(Wrong::MARKER));
    assert_eq!(open(17, 18), Err(Wrong::LENGTH));
    assert_eq!(open(16, 17), Err(Wrong::LENGTH), "4,352 octets and more");
    assert_eq!(open(18, 9), Err(Wrong::TYPE));
    assert_eq!(open(19, 3), Err(Wrong::VERSION));
    assert_eq!(open(23, 2), Err(Wrong::HOLD_TIME));
    assert_eq!(open(29, 1), Err(Wrong::PARAMETER), "authentication");
    assert_eq!(open(28, 200), Err(Wrong::OPEN));
    assert_eq!(open(32, 3), Err(Wrong::OPEN), "a family of three octets");
    let mut nameless = super::open(&known(), false);
    nameless[24..28].fill(0);
    assert_eq!(parse(&nameless), Err(Wrong::IDENTIFIER));
    assert_eq!(parse(&message(KEEPALIVE, &[0])), Err(Wrong::LENGTH));
    assert_eq!(parse(&message(NOTIFICATION, &[6])), Err(Wrong::LENGTH));
    assert_eq!(parse(&message(UPDATE, &[0, 0, 0])), Err(Wrong::LENGTH));
}

#[test]
fn networks_have_as_many_octets_as_their_bits_take() {
    let path = Path { through: Some(65_010), has_four_octets: true, next_hop: ip("10.0.0.1") };
    let networks = [(ip("10.45.0.0"), 16), (ip("10.46.128.0"), 17), (ip("0.0.0.0"), 0)];
    let octets = announce(&path, &networks);
    let reachable = [16, 10, 45, 17, 10, 46, 128, 0];
    assert!(octets.ends_with(&reachable), "{octets:?}");
    // ORIGIN, AS_PATH of one AS, NEXT_HOP.
    let attributes = [0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xf2, 0x40, 3, 4, 10, 0, 0, 1];
    assert_eq!(octets[HEADER..][..4], [0, 0, 0, attributes.len() as u8]);
    assert_eq!(octets[HEADER + 4..][..attributes.len()], attributes);
    let within = Path { through: None, next_hop: ip("2001:db8::1"), ..path };
    let octets = announce(&within, &[(ip("2001:db8:45::"), 48)]);
    assert!(octets.ends_with(&[0, 48, 0x20, 1, 0xd, 0xb8, 0, 0x45]), "{octets:?}");
}

#[test]
fn the_longest_message_is_not_too_long() {
    let path = Path { through: Some(u32::MAX), has_four_octets: true, next_hop: ip("::1") };
    let networks = vec![(ip("2001:db8::1"), 128); TOGETHER];
    assert!(announce(&path, &networks).len() <= LONGEST);
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(octets: Vec<u8>) {
        let _ = parse(&octets);
        let mut marked = vec![0xff; 16];
        marked.extend(octets);
        let _ = parse(&marked);
    }

    /// What is cut off is waited for, and never read otherwise.
    #[test]
    fn a_message_that_is_not_whole_is_waited_for(cut in 0_usize..60, more: Vec<u8>) {
        let whole = super::open(&known(), false);
        let cut = cut.min(whole.len() - 1);
        prop_assert_eq!(parse(&whole[..cut]), Ok(None));
        let followed = [whole.clone(), more].concat();
        prop_assert_eq!(parse(&followed), Ok(Some((Message::Open(known()), whole.len()))));
    }

    #[test]
    fn an_open_with_any_octet_changed_is_read_or_refused(at in 19_usize..60, octet: u8) {
        let mut octets = super::open(&known(), false);
        let at = at.min(octets.len() - 1);
        octets[at] = octet;
        let _ = parse(&octets);
    }
}
