//! A node behind a proxy: who may speak for whom, and where answers go.

use super::*;
use crate::codec::vendor::{Forwarded, NodeState};

const PROXY: &str = "10.0.9.1";
const SMF: &str = "10.0.0.1";

fn behind() -> PfcpPlan {
    PfcpPlan {
        proxies: vec![(address(PROXY), 32)],
        peers: vec![(address("10.0.0.0"), 24)],
        ..plan()
    }
}

fn message(sequence: u32, seid: Option<u64>, message: &Message<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    message.emit(&Header { seid, sequence, priority: None }, &mut octets);
    octets
}

/// A request of a control plane by a proxy; what it is answered, for whom.
fn by_proxy(bench: &mut Bench, smf: &str, octets: &[u8]) -> Vec<(Forwarded, Vec<u8>)> {
    let wrapped = Forwarded { peer: peer(smf), node: 7 }.wrap(octets).unwrap();
    let out = bench.octets(peer(PROXY), &wrapped);
    let unwrapped = |datagram: Datagram| {
        assert_eq!(datagram.to, peer(PROXY));
        Forwarded::unwrap(&datagram.octets).unwrap()
    };
    out.into_iter().map(unwrapped).collect()
}

fn established(bench: &mut Bench, smf: &str, sequence: u32, ue: [u8; 4]) -> u64 {
    let request = Message::SessionEstablishmentRequest(session(peer(smf), ue));
    let out = by_proxy(bench, smf, &message(sequence, Some(0), &request));
    assert_eq!((out.len(), out[0].0.peer), (1, peer(smf)));
    let Message::SessionEstablishmentResponse(response) = parsed(&out[0].1).1 else { panic!() };
    assert_eq!(response.cause, Cause::ACCEPTED, "{response:?}");
    response.fseid.unwrap().seid
}

fn associated(bench: &mut Bench, smf: &str) {
    let request = message(1, None, &set_up(address(smf), 1));
    let out = by_proxy(bench, smf, &request);
    assert_eq!(parsed(&out[0].1).1.cause(), Some(Cause::ACCEPTED));
}

#[test]
fn only_proxies_speak_for_others_and_only_for_peers() {
    let mut bench = Bench::of(behind());
    associated(&mut bench, SMF);
    let seid = established(&mut bench, SMF, 2, [10, 45, 0, 1]);
    assert_eq!(seid >> 48, 7);
    let delete = Message::SessionDeletionRequest(SessionDeletionRequest { refused: None });
    let delete = message(3, Some(seid), &delete);
    // Another control plane says it is this one.
    let lie = Forwarded { peer: peer(SMF), node: 7 }.wrap(&delete).unwrap();
    let out = bench.octets(peer("10.0.0.2"), &lie);
    assert_eq!(out[0].to, peer("10.0.0.2"));
    assert_eq!(parsed(&out[0].octets).1.cause(), Some(Cause::SESSION_NOT_FOUND));
    // By the proxy, another one is another one.
    let out = by_proxy(&mut bench, "10.0.0.2", &delete);
    assert_eq!(parsed(&out[0].1).1.cause(), Some(Cause::SESSION_NOT_FOUND));
    assert!(by_proxy(&mut bench, "192.0.2.1", &delete).is_empty());
    assert_eq!(bench.plane.view().counts.unlisted, 1);
    let out = by_proxy(&mut bench, SMF, &delete);
    assert_eq!(parsed(&out[0].1).1.cause(), Some(Cause::ACCEPTED));
    // A repetition is answered alike, to the one that it is from.
    assert_eq!(by_proxy(&mut bench, SMF, &delete), out);
}

#[test]
fn without_proxies_the_word_counts_for_nothing() {
    let mut bench = Bench::of(PfcpPlan { proxies: Vec::new(), ..behind() });
    let request = message(1, None, &set_up(address(SMF), 1));
    let lie = Forwarded { peer: peer(SMF), node: 7 }.wrap(&request).unwrap();
    let out = bench.octets(peer("10.0.0.2"), &lie);
    assert_eq!(out[0].to, peer("10.0.0.2"));
    assert!(bench.octets(peer(PROXY), &lie).is_empty());
}

/// Senders that are nothing make no room for themselves at the cost of control planes.
#[test]
fn routes_are_bounded_and_associations_keep_theirs() {
    let plan = PfcpPlan { peers: vec![(address("10.0.0.0"), 8)], ..behind() };
    let mut bench = Bench::of(plan);
    associated(&mut bench, SMF);
    let seid = established(&mut bench, SMF, 2, [10, 45, 0, 1]);
    let delete = Message::SessionDeletionRequest(SessionDeletionRequest { refused: None });
    for nth in 0..9000_u32 {
        let from = IpAddr::from((0x0a40_0000 + nth).to_be_bytes()).to_string();
        let out = by_proxy(&mut bench, &from, &message(3, Some(seid), &delete));
        assert_eq!(out[0].0.peer, peer(&from));
    }
    let event = SessionEvent::Inactive { session: SessionId(seid) };
    assert_eq!(bench.event(event)[0].to, peer(PROXY));
}

#[test]
fn reports_go_to_the_proxy_also_in_the_next_life() {
    let mut bench = Bench::keeping_of(behind());
    associated(&mut bench, SMF);
    let seid = established(&mut bench, SMF, 2, [10, 45, 0, 1]);
    for _ in 0..2 {
        let out = bench.event(SessionEvent::Inactive { session: SessionId(seid) });
        assert_eq!(out[0].to, peer(PROXY));
        let (forwarded, plain) = Forwarded::unwrap(&out[0].octets).unwrap();
        assert_eq!(forwarded, Forwarded { peer: peer(SMF), node: 7 });
        assert!(matches!(parsed(&plain).1, Message::SessionReportRequest(_)));
        bench.restart(5);
    }
    // A control plane that comes by itself is answered and told by itself.
    bench.associate(peer(SMF));
    let out = bench.event(SessionEvent::Inactive { session: SessionId(seid) });
    assert_eq!(out[0].to, peer(SMF));
}

#[test]
fn a_proxy_hears_how_full_the_node_is() {
    let mut bench = Bench::of(behind());
    associated(&mut bench, SMF);
    established(&mut bench, SMF, 2, [10, 45, 0, 1]);
    let heartbeat =
        Message::HeartbeatRequest(Heartbeat { recovery: Time(9), ..Heartbeat::default() });
    let out = bench.octets(peer(PROXY), &message(5, None, &heartbeat));
    let (frame, _) = Frame::parse(&out[0].octets).unwrap();
    let state = NodeState::find(frame.body).unwrap();
    assert_eq!((state.sessions, state.most), (1, 8));
    assert_eq!(state.pools, [(address("10.45.0.0"), 29), (address("2001:db8:45::"), 62)]);
    assert_eq!(state.tunnels.len(), 4);
    assert!(matches!(parsed(&out[0].octets).1, Message::HeartbeatResponse(_)));
    // It is no control plane's business.
    let out = bench.octets(peer(SMF), &message(6, None, &heartbeat));
    let (frame, _) = Frame::parse(&out[0].octets).unwrap();
    assert_eq!(NodeState::find(frame.body), None);
}

/// What is answered while another node may get the sessions.
#[test]
fn a_mere_heartbeat_is_one_that_changes_nothing_that_is_kept() {
    let mut bench = Bench::keeping_of(behind());
    let beat = |recovery: u32| {
        let heartbeat = Heartbeat { recovery: Time(recovery), ..Heartbeat::default() };
        message(3, None, &Message::HeartbeatRequest(heartbeat))
    };
    let wrapped = |octets: &[u8]| Forwarded { peer: peer(SMF), node: 7 }.wrap(octets).unwrap();
    let is_mere = |bench: &Bench, from: &str, octets: &[u8]| {
        bench.plane.is_mere_heartbeat(peer(from), octets)
    };
    assert!(is_mere(&bench, PROXY, &beat(9)));
    assert!(is_mere(&bench, SMF, &beat(1)));
    associated(&mut bench, SMF);
    for (recovery, is_same) in [(1, true), (2, false)] {
        assert_eq!(is_mere(&bench, SMF, &beat(recovery)), is_same);
        assert_eq!(is_mere(&bench, PROXY, &wrapped(&beat(recovery))), is_same);
        assert!(is_mere(&bench, PROXY, &beat(recovery)), "the proxy has restarted, or not");
    }
    // It changes nothing that is kept, and is answered.
    bench.plane.take_kept();
    assert_eq!(bench.octets(peer(PROXY), &wrapped(&beat(1))).len(), 1);
    assert_eq!(bench.plane.take_kept(), []);
    // A control plane that is lost comes back by one, and that is kept.
    bench.octets(peer(PROXY), &wrapped(&beat(2)));
    assert!(!is_mere(&bench, PROXY, &wrapped(&beat(1))));
    let setup = message(4, None, &set_up(address(SMF), 1));
    for other in [wrapped(&setup), setup, Vec::new()] {
        assert!(!is_mere(&bench, PROXY, &other), "{other:?}");
    }
    for length in 0..wrapped(&beat(1)).len() {
        assert!(!is_mere(&bench, PROXY, &wrapped(&beat(1))[..length]), "{length}");
    }
}

/// As long as nothing is heard of the proxy, nothing is known of control planes behind it.
#[test]
fn sessions_outlive_a_proxy_that_is_silent() {
    for is_heard in [false, true] {
        let mut bench = Bench::of(behind());
        associated(&mut bench, SMF);
        established(&mut bench, SMF, 2, [10, 45, 0, 1]);
        let heartbeat = Heartbeat { recovery: Time(9), ..Heartbeat::default() };
        let heartbeat = Message::HeartbeatRequest(heartbeat);
        for second in 0..60 {
            bench.wait(SECOND);
            if is_heard {
                bench.octets(peer(PROXY), &message(100 + second, None, &heartbeat));
            }
        }
        assert_eq!(bench.agent.is_empty(), is_heard);
    }
}
