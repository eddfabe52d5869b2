//! Node procedures.

use super::*;

const SMF: &str = "10.0.0.1";
const OTHER: &str = "10.0.0.2";

fn heartbeat(recovery: u32) -> Message<'static> {
    Message::HeartbeatRequest(Heartbeat { recovery: Time(recovery), ..Default::default() })
}

#[test]
fn heartbeats_are_answered_with_the_time_of_start() {
    let mut bench = Bench::new();
    let octets = bench.ask(peer(SMF), None, &heartbeat(5));
    let (_, message) = parsed(&octets);
    let Message::HeartbeatResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.recovery.unix(), 1_700_000_000);
}

#[test]
fn an_association_tells_features() {
    let mut bench = Bench::new();
    let octets = bench.ask(peer(SMF), None, &set_up(address(SMF), 1));
    let (_, message) = parsed(&octets);
    let Message::AssociationSetupResponse(response) = message else { panic!("{message:?}") };
    let features = response.up_features.unwrap();
    assert!(features.has(UpFeatures::FTUP) && features.has(UpFeatures::UEIP));
    assert!(!features.any(UpFeatures::HEEU | UpFeatures::TRACE));
    assert_eq!(bench.plane.view().associations.len(), 1);
}

#[test]
fn ipv6_peers_are_answered_too() {
    let mut bench = Bench::new();
    bench.associate(peer("fd00::1"));
    let mut request = session(peer("fd00::1"), [10, 45, 0, 9]);
    request.pdrs[0].pdi.fteid = Some(FTeid::Choose { ipv4: true, ipv6: true, id: None });
    let message = Message::SessionEstablishmentRequest(request);
    let octets = bench.ask(peer("fd00::1"), Some(0), &message);
    let (_, message) = parsed(&octets);
    let Message::SessionEstablishmentResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.fseid.unwrap().ipv6, Some("fd00::254".parse().unwrap()));
    let Some(FTeid::Given(tunnel)) = response.created[0].fteid else { panic!("{response:?}") };
    assert_eq!(tunnel.ipv4, Some("10.1.0.254".parse().unwrap()));
    assert_eq!(tunnel.ipv6, Some("fd01::254".parse().unwrap()));
}

#[test]
fn fault_43_unlisted_peers_are_not_answered() {
    let mut bench = Bench::of(PfcpPlan { peers: vec![(address("10.0.0.0"), 31)], ..plan() });
    bench.associate(peer(SMF));
    let mut octets = Vec::new();
    set_up(address(OTHER), 1).emit(&Header { sequence: 9, ..Default::default() }, &mut octets);
    assert_eq!(bench.octets(peer(OTHER), &octets), []);
    assert_eq!(bench.octets(peer("fd00::1"), &octets), []);
    assert_eq!(bench.plane.view().counts.unlisted, 2);
    assert_eq!(bench.plane.view().associations.len(), 1);
}

#[test]
fn fault_44_a_node_id_belongs_to_its_owner() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    let seid = bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    // Another sender takes the name: refused, and the sessions stay.
    let refusal = bench.refusal(peer(OTHER), None, &set_up(address(SMF), 2));
    assert_eq!(refusal.0, Cause::REJECTED);
    let release = Message::AssociationReleaseRequest(AssociationReleaseRequest {
        node: NodeId::Address(address(SMF)),
        refused: None,
    });
    assert_eq!(bench.refusal(peer(OTHER), None, &release).0, Cause::NO_ASSOCIATION);
    let request = session(peer(SMF), [10, 45, 0, 2]);
    let request = Message::SessionEstablishmentRequest(request);
    assert_eq!(bench.refusal(peer(OTHER), Some(0), &request).0, Cause::NO_ASSOCIATION);
    assert!(bench.agent.contains_key(&seid));
    assert_eq!(bench.plane.view().counts.hijacks, 1);
}

#[test]
fn fault_47_associations_are_bounded() {
    let mut bench = Bench::new();
    for number in 1..=4 {
        bench.associate(peer(&format!("10.0.0.{number}")));
    }
    let refusal = bench.refusal(peer("10.0.0.9"), None, &set_up(address("10.0.0.9"), 1));
    assert_eq!(refusal.0, Cause::NO_RESOURCES);
}

#[test]
fn a_restarted_control_plane_has_no_sessions() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    // The same start: a second set-up changes nothing.
    bench.associate(peer(SMF));
    assert_eq!(bench.agent.len(), 1);
    let octets = bench.ask(peer(SMF), None, &set_up(address(SMF), 2));
    assert!(matches!(parsed(&octets).1, Message::AssociationSetupResponse(_)));
    bench.wait(1);
    assert_eq!(bench.agent.len(), 0);
    assert_eq!(bench.plane.view().sessions, 0);
    assert_eq!(bench.plane.view().associations[0].sessions, 0);
}

#[test]
fn a_heartbeat_tells_of_a_restart() {
    let restoration = Duration::from_secs(60);
    let mut bench = Bench::of(PfcpPlan { restoration, heartbeat: None, ..plan() });
    bench.associate(peer(SMF));
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    bench.ask(peer(SMF), None, &heartbeat(2));
    bench.wait(59 * SECOND);
    assert_eq!(bench.agent.len(), 1, "sessions stay for the time of restoration");
    bench.wait(2 * SECOND);
    bench.wait(1);
    assert_eq!(bench.agent.len(), 0);
    assert_eq!(bench.plane.view().associations.len(), 0);
}

#[test]
fn sessions_are_retained_when_the_control_plane_asks_for_it() {
    let restoration = Duration::from_secs(60);
    let mut bench = Bench::of(PfcpPlan { restoration, ..plan() });
    bench.associate(peer(SMF));
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    let Message::AssociationSetupRequest(mut request) = set_up(address(SMF), 2) else { panic!() };
    request.retention = Some(SessionRetention::default());
    let octets = bench.ask(peer(SMF), None, &Message::AssociationSetupRequest(request));
    let (_, message) = parsed(&octets);
    let Message::AssociationSetupResponse(response) = message else { panic!("{message:?}") };
    assert!(response.flags.unwrap().has(AssociationResponseFlags::PSREI));
    bench.wait(1);
    assert_eq!(bench.agent.len(), 1);
}

#[test]
fn a_control_plane_that_does_not_answer_loses_its_sessions() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    let out = bench.wait(10 * SECOND);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].to, peer(SMF));
    assert!(matches!(parsed(&out[0].octets).1, Message::HeartbeatRequest(_)));
    // T1 and N1: twice more, alike.
    assert_eq!(bench.wait(SECOND), out);
    assert_eq!(bench.wait(SECOND), out);
    bench.wait(SECOND);
    bench.wait(1);
    assert_eq!(bench.plane.view().associations.len(), 0);
    assert_eq!(bench.agent.len(), 0);
}

#[test]
fn heartbeats_that_are_answered_go_on() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    for _ in 0..5 {
        let out = bench.wait(10 * SECOND);
        let (header, _) = parsed(&out[0].octets);
        let mut response = Vec::new();
        let message = Heartbeat { recovery: Time(1), ..Default::default() };
        Message::HeartbeatResponse(message).emit(&header, &mut response);
        assert_eq!(bench.octets(peer(SMF), &response), []);
        assert_eq!(bench.wait(SECOND), []);
    }
    assert_eq!(bench.plane.view().counts.sent_again, 0);
    assert!(bench.plane.view().associations[0].up);
}

#[test]
fn an_association_ends_with_its_sessions() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench.associate(peer(OTHER));
    for number in 1..=3 {
        bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, number]));
    }
    let kept = bench.establish(peer(OTHER), session(peer(OTHER), [10, 45, 0, 4]));
    let release = Message::AssociationReleaseRequest(AssociationReleaseRequest {
        node: NodeId::Address(address(SMF)),
        refused: None,
    });
    assert_eq!(bench.refusal(peer(SMF), None, &release).0, Cause::ACCEPTED);
    bench.wait(1);
    assert_eq!(bench.agent.keys().copied().collect::<Vec<_>>(), [kept]);
    // Nothing is known of the sender any more.
    assert_eq!(bench.refusal(peer(SMF), None, &release).0, Cause::NO_ASSOCIATION);
}

#[test]
fn other_versions_and_unknown_messages() {
    let mut bench = Bench::new();
    let out = bench.octets(peer(SMF), &[0x40, 1, 0, 4, 0, 0, 7, 0]);
    let (header, message) = parsed(&out[0].octets);
    assert!(matches!(message, Message::VersionNotSupported(_)));
    assert_eq!(header.sequence, 7);
    // A message of no known type, one that is cut, and nothing at all are not answered.
    assert_eq!(bench.octets(peer(SMF), &[0x20, 99, 0, 4, 0, 0, 7, 0]), []);
    assert_eq!(bench.octets(peer(SMF), &[0x20, 1, 0, 99, 0, 0, 7, 0]), []);
    assert_eq!(bench.octets(peer(SMF), &[]), []);
    assert_eq!(bench.plane.view().counts.unknown_messages, 1);
    assert_eq!(bench.plane.view().counts.unreadable, 3);
}

#[test]
fn fault_29_requests_without_what_they_must_have() {
    let mut bench = Bench::new();
    // An association request without Recovery Time Stamp.
    let octets = [0x20, 5, 0, 13, 0, 0, 7, 0, 0, 60, 0, 5, 0, 10, 0, 0, 1];
    let out = bench.octets(peer(SMF), &octets);
    let (_, message) = parsed(&out[0].octets);
    let Message::AssociationSetupResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.cause, Cause::MANDATORY_IE_MISSING);
    assert_eq!(bench.plane.view().associations.len(), 0);
}

#[test]
fn path_events_are_told_to_all_control_planes() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench.associate(peer(OTHER));
    bench.plane.path_event(bench.now, address("10.1.0.1"), true);
    let out = bench.plane.take_datagrams();
    assert_eq!(out.len(), 2);
    let (_, message) = parsed(&out[0].octets);
    let Message::NodeReportRequest(report) = message else { panic!("{message:?}") };
    assert!(report.report.has(NodeReportType::UPFR));
    assert_eq!(report.failed.unwrap().peers[0].ipv4, Some("10.1.0.1".parse().unwrap()));
}

#[test]
fn bundled_messages_are_each_answered() {
    let mut bench = Bench::new();
    let mut octets = Vec::new();
    heartbeat(1).emit(&Header { sequence: 1, ..Default::default() }, &mut octets);
    octets[0] |= 0x04;
    set_up(address(SMF), 1).emit(&Header { sequence: 2, ..Default::default() }, &mut octets);
    let out = bench.octets(peer(SMF), &octets);
    assert_eq!(out.len(), 2);
}

#[test]
fn load_is_told_to_those_who_want_to_know() {
    let mut bench = Bench::new();
    let told = |bench: &mut Bench, from: &str, address: u8| {
        let request = session(peer(from), [10, 46, 0, address]);
        let octets = bench.ask(peer(from), Some(0), &Message::SessionEstablishmentRequest(request));
        let Message::SessionEstablishmentResponse(response) = parsed(&octets).1 else {
            panic!("a response")
        };
        (response.load.map(|load| (load.sequence, load.metric)), response.overload)
    };
    bench.associate(peer("10.0.0.1"));
    let wants = AssociationSetupRequest {
        node: NodeId::Address(address("10.0.0.2")),
        recovery: Time(1),
        cp_features: Some(CpFeatures::LOAD.with(CpFeatures::OVRL)),
        ..Default::default()
    };
    bench.ask(peer("10.0.0.2"), None, &Message::AssociationSetupRequest(wants));
    assert_eq!(told(&mut bench, "10.0.0.1", 1), (None, None));
    // Two of eight sessions, then three.
    let (first, overload) = told(&mut bench, "10.0.0.2", 2);
    let (second, _) = told(&mut bench, "10.0.0.2", 3);
    let ((before, 25), (after, 37)) = (first.unwrap(), second.unwrap()) else {
        panic!("{first:?}, {second:?}")
    };
    assert!(after > before && overload.is_none());
    // The workers are behind: the next response says so.
    bench.error = Some(SessionError::Busy);
    let request = session(peer("10.0.0.2"), [10, 46, 0, 4]);
    let message = Message::SessionEstablishmentRequest(request);
    assert_eq!(bench.refusal(peer("10.0.0.2"), Some(0), &message).0, Cause::CONGESTION);
    let (_, overload) = told(&mut bench, "10.0.0.2", 4);
    assert_eq!(overload.unwrap().validity.seconds(), Some(10));
}

#[test]
fn a_node_that_stops_asks_for_the_release_of_its_associations() {
    let mut bench = Bench::new();
    bench.associate(peer("10.0.0.1"));
    bench.establish(peer("10.0.0.1"), session(peer("10.0.0.1"), [10, 45, 0, 1]));
    bench.plane.ask_for_release(bench.now, 1);
    let asked = bench.plane.take_datagrams();
    let Message::AssociationUpdateRequest(request) = parsed(&asked[0].octets).1 else {
        panic!("{asked:?}")
    };
    assert_eq!(request.release, Some(AssociationRelease::SARR));
    assert_eq!(request.grace.and_then(GracePeriod::seconds), Some(2));
    let release = AssociationReleaseRequest {
        node: NodeId::Address(address("10.0.0.1")),
        ..Default::default()
    };
    let message = Message::AssociationReleaseRequest(release);
    assert!(bench.refusal(peer("10.0.0.1"), None, &message).0.accepted());
    bench.wait(1);
    assert!(bench.plane.view().associations.is_empty() && bench.agent.is_empty());
}

#[test]
fn sessions_are_found_by_user_and_control_plane_in_pages() {
    use crate::user_plane::show::{Found, Search};
    let mut bench = Bench::new();
    let control_planes = ["10.0.0.1", "10.0.0.2"];
    for from in control_planes {
        bench.associate(peer(from));
    }
    for last in 1..=5 {
        let from = peer(control_planes[usize::from(last == 5)]);
        bench.establish(from, session(from, [10, 45, 0, last]));
    }
    let find = |search| bench.plane.find_sessions(&search);
    let all = Search { count: 9, ..Search::default() };
    let of_user = Search { ue: Some(address("10.45.0.3")), ..all };
    let found = find(of_user);
    assert_eq!((found.sessions[0].ue_addresses[0].as_str(), found.next), ("10.45.0.3", None));
    assert_eq!(found.sessions.len(), 1);
    assert_eq!(find(Search { ue: Some(address("10.45.0.9")), ..all }), Found::default());
    let of_one = Search { control_plane: Some(address("10.0.0.1")), ..all };
    assert_eq!(find(of_one).sessions.len(), 4);
    assert_eq!(
        find(Search { control_plane: Some(address("10.0.0.2")), ..of_user }),
        Found::default()
    );
    // Pages have all of them, each once.
    let (mut seids, mut first) = (Vec::new(), 0);
    loop {
        let found = find(Search { first, count: 2, ..all });
        seids.extend(found.sessions.into_iter().map(|one| one.seid));
        let Some(next) = found.next else { break };
        first = next;
    }
    seids.sort();
    seids.dedup();
    assert_eq!(seids.len(), 5);
    assert_eq!(find(Search { first: usize::MAX, ..all }), Found::default());
}
