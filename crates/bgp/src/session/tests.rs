use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn settings() -> Settings {
    let ip = |text: &str| text.parse().unwrap();
    Settings {
        own_as: 65_010,
        peer_as: 65_000,
        identifier: Ipv4Addr::new(192, 0, 2, 1),
        hold: 9 * SECOND,
        restart: Some(30 * SECOND),
        next_hops: vec![ip("198.51.100.1"), ip("2001:db8:6::1")],
        routes: vec![(ip("10.45.0.0"), 16), (ip("2001:db8:45::"), 48)],
    }
}

/// What the router says first.
fn open() -> Open {
    Open {
        autonomous_system: 65_000,
        hold_time: 180,
        identifier: Ipv4Addr::new(192, 0, 2, 254),
        families: Family::ALL.to_vec(),
        has_four_octets: true,
        restart_time: None,
    }
}

fn begun(now: Instant) -> Session {
    let mut session = Session::begin(settings(), false, now);
    assert_eq!(kinds(&session.take_to_send()), [1]);
    session
}

fn established(now: Instant, open: &Open) -> Session {
    let mut session = begun(now);
    session.received(&message::open(open, false), now).unwrap();
    assert_eq!((session.state(), session.announced()), (State::OpenConfirm, 0));
    assert_eq!(kinds(&session.take_to_send()), [4]);
    session.received(&message::keepalive(), now).unwrap();
    session
}

/// Types of messages.
fn kinds(mut octets: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while !octets.is_empty() {
        kinds.push(octets[18]);
        octets = &octets[usize::from(u16::from_be_bytes([octets[16], octets[17]]))..];
    }
    kinds
}

#[test]
fn networks_are_announced_once_both_have_agreed() {
    let now = Instant::now();
    let mut session = established(now, &open());
    assert_eq!((session.state(), session.announced()), (State::Established, 2));
    // Networks and the end of them, of both families.
    assert_eq!(kinds(&session.take_to_send()), [2, 2, 2, 2]);
    // A router that speaks IPv4 alone is told of nothing else.
    let mut session = established(now, &Open { families: vec![Family::Ip4], ..open() });
    assert_eq!(session.announced(), 1);
    assert_eq!(kinds(&session.take_to_send()), [2, 2]);
    // What routers announce changes nothing.
    session.received(&message::end_of_announcements(Family::Ip4), now).unwrap();
    assert_eq!(session.state(), State::Established);
    session.shut_down();
    assert_eq!(kinds(&session.take_to_send()), [3]);
}

#[test]
fn the_shorter_hold_time_holds_on_both_sides() {
    let now = Instant::now();
    let mut session = established(now, &Open { hold_time: 6, ..open() });
    session.take_to_send();
    session.elapsed(now + SECOND).unwrap();
    assert!(session.take_to_send().is_empty());
    assert_eq!(session.next(), Some(now + 2 * SECOND));
    session.elapsed(now + 2 * SECOND).unwrap();
    assert_eq!(kinds(&session.take_to_send()), [4]);
    session.received(&message::keepalive(), now + 5 * SECOND).unwrap();
    session.elapsed(now + 10 * SECOND).unwrap();
    session.take_to_send();
    assert_eq!(session.elapsed(now + 11 * SECOND), Err(Ended::ByUs(Wrong::HOLD_TIMER)));
    assert_eq!(kinds(&session.take_to_send()), [3]);
    // Without one, nothing is due.
    let session = established(now, &Open { hold_time: 0, ..open() });
    assert_eq!(session.next(), None);
}

#[test]
fn a_router_that_does_not_answer_is_given_up() {
    let now = Instant::now();
    let mut session = begun(now);
    session.elapsed(now + OPENING - SECOND).unwrap();
    assert_eq!(session.elapsed(now + OPENING), Err(Ended::ByUs(Wrong::HOLD_TIMER)));
}

#[test]
fn a_router_that_is_another_one_is_refused() {
    let now = Instant::now();
    let refused = |open: Open, settings: Settings| {
        let mut session = Session::begin(settings, false, now);
        session.take_to_send();
        let ended = session.received(&message::open(&open, false), now).unwrap_err();
        assert_eq!(kinds(&session.take_to_send()), [3]);
        ended
    };
    let other = Open { autonomous_system: 65_001, ..open() };
    assert_eq!(refused(other, settings()), Ended::OtherAs(65_001, 65_000));
    // Ourselves, within one AS.
    let mirror = Open { identifier: settings().identifier, ..open() };
    let internal = Settings { own_as: 65_000, ..settings() };
    assert_eq!(refused(mirror, internal), Ended::ByUs(Wrong::IDENTIFIER));
}

#[test]
fn messages_out_of_turn_end_the_session() {
    let now = Instant::now();
    for message in [message::keepalive(), message::end_of_announcements(Family::Ip6)] {
        assert_eq!(begun(now).received(&message, now), Err(Ended::ByUs(Wrong::STATE)));
    }
    let mut session = established(now, &open());
    let again = session.received(&message::open(&open(), false), now);
    assert_eq!(again, Err(Ended::ByUs(Wrong::STATE)));
    let mut session = established(now, &open());
    let notification = message::notification(Wrong::SHUTDOWN);
    assert_eq!(session.received(&notification, now), Err(Ended::ByPeer(Wrong::SHUTDOWN)));
}

/// Octets that come one by one mean the same, and never more than a message waits.
#[test]
fn messages_may_come_in_pieces() {
    let now = Instant::now();
    let mut session = begun(now);
    let all = [message::open(&open(), false), message::keepalive(), message::keepalive()].concat();
    for octet in all {
        session.received(&[octet], now).unwrap();
        assert!(session.received.len() < message::LONGEST);
    }
    assert_eq!((session.state(), session.received.len()), (State::Established, 0));
}
