//! What few control planes ask for: routes, times, URLs, marks, copies, extended buffering.

use weft_functions::session::rules::{self, Extended, Period};

use super::*;

const SMF: &str = "10.0.0.1";

fn associated() -> Bench {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench
}

fn modify(bench: &mut Bench, seid: u64, request: SessionModificationRequest<'_>) {
    let request = Message::SessionModificationRequest(request);
    assert_eq!(bench.refusal(peer(SMF), Some(seid), &request).0, Cause::ACCEPTED);
}

#[test]
fn a_session_has_networks_behind_it() {
    let mut bench = associated();
    let mut request = session(peer(SMF), [10, 45, 0, 1]);
    request.pdrs[1].pdi.framed_routes = vec![Text(b"192.168.1.0/24 192.168.1.1 1")];
    request.pdrs[1].pdi.framed_ipv6_routes = vec![Text(b"2001:db8:7::/48")];
    let seid = bench.establish(peer(SMF), request);
    let expected = ["192.168.1.0/24", "2001:db8:7::/48"].map(|text| text.parse().unwrap());
    assert_eq!(*bench.agent[&seid].pdrs[1].routes, expected);
    // The same by a traffic endpoint, which changes.
    let mut request = session(peer(SMF), [10, 45, 0, 2]);
    request.endpoints = vec![CreateTrafficEndpoint {
        id: TrafficEndpointId(1),
        network_instance: Some(Text(b"internet")),
        ue_addresses: std::mem::take(&mut request.pdrs[1].pdi.ue_addresses),
        framed_routes: vec![Text(b"192.168.2.0/24")],
        ..Default::default()
    }];
    request.pdrs[1].pdi = Pdi {
        source: Interface::CORE,
        endpoints: vec![TrafficEndpointId(1)],
        ..Default::default()
    };
    let seid = bench.establish(peer(SMF), request);
    let routes = |bench: &Bench| bench.agent[&seid].pdrs[1].routes.to_vec();
    assert_eq!(routes(&bench), ["192.168.2.0/24".parse().unwrap()]);
    let update = UpdateTrafficEndpoint {
        id: TrafficEndpointId(1),
        framed_routes: vec![Text(b"192.168.3.0/24")],
        ..Default::default()
    };
    let request =
        SessionModificationRequest { update_endpoints: vec![update], ..Default::default() };
    modify(&mut bench, seid, request);
    assert_eq!(routes(&bench), ["192.168.3.0/24".parse().unwrap()]);
}

#[test]
fn a_rule_has_a_time() {
    let mut bench = associated();
    let mut request = session(peer(SMF), [10, 45, 0, 1]);
    request.pdrs[0].activation = Some(Time::from_unix(1_700_000_100));
    let seid = bench.establish(peer(SMF), request);
    let period = |bench: &Bench| bench.agent[&seid].pdrs[0].period.as_deref().copied();
    let expected = Period { from: Some(1_700_000_100), until: None };
    assert_eq!(period(&bench), Some(expected));
    let update = UpdatePdr {
        id: PdrId(1),
        deactivation: Some(Time::from_unix(1_700_000_200)),
        ..Default::default()
    };
    let request = SessionModificationRequest { update_pdrs: vec![update], ..Default::default() };
    modify(&mut bench, seid, request);
    assert_eq!(period(&bench), Some(Period { until: Some(1_700_000_200), ..expected }));
    assert_eq!(bench.agent[&seid].pdrs[1].period, None);
}

#[test]
fn http_is_redirected_until_the_rule_says_otherwise() {
    let mut bench = associated();
    for (kind, text, url) in [
        (2, &b"https://portal.example/x?y=1"[..], "https://portal.example/x?y=1"),
        (0, b"192.0.2.7", "http://192.0.2.7/"),
        (1, b"2001:db8::7", "http://[2001:db8::7]/"),
        (4, b"192.0.2.7", "http://192.0.2.7/"),
    ] {
        let mut request = session(peer(SMF), [10, 45, 0, 1]);
        let redirect = RedirectInformation { kind, server: Text(text), other: None };
        request.fars[0].forwarding.as_mut().unwrap().redirect = Some(redirect);
        let seid = bench.establish(peer(SMF), request);
        let known = |bench: &Bench| {
            let forward = bench.agent[&seid].fars[0].forward.clone();
            forward.and_then(|to| to.redirect).map(|url| url.to_string())
        };
        assert_eq!(known(&bench).as_deref(), Some(url));
        // What is not said stays; an element of length 0 clears it.
        for (change, expected) in [(None, Some(url)), (Some(Change::Clear), None)] {
            let forwarding = UpdateForwardingParameters { redirect: change, ..Default::default() };
            let update =
                UpdateFar { id: FarId(1), forwarding: Some(forwarding), ..Default::default() };
            let request =
                SessionModificationRequest { update_fars: vec![update], ..Default::default() };
            modify(&mut bench, seid, request);
            assert_eq!(known(&bench).as_deref(), expected);
        }
        let deletion = Message::SessionDeletionRequest(Default::default());
        bench.refusal(peer(SMF), Some(seid), &deletion);
    }
}

#[test]
fn correlation_ids_are_of_one_control_plane() {
    let mut bench = associated();
    bench.associate(peer("10.0.0.2"));
    let mut numbers = Vec::new();
    for (smf, user) in [(SMF, 1), (SMF, 2), ("10.0.0.2", 3)] {
        let mut request = session(peer(smf), [10, 46, 0, user]);
        request.qers = vec![CreateQer {
            id: QerId(1),
            correlation: Some(7),
            marking: Some(DlFlowLevelMarking {
                traffic_class: Some((0xb8, 0xfc)),
                service_class: Some(0x0500),
            }),
            ..Default::default()
        }];
        let seid = bench.establish(peer(smf), request);
        let qer = &bench.agent[&seid].qers[0];
        assert_eq!((qer.marking, qer.service_class), (Some(46), Some(5)));
        numbers.push(qer.correlation.unwrap());
    }
    assert_eq!(numbers[0], numbers[1]);
    assert_ne!(numbers[0], numbers[2]);
}

#[test]
fn copies_change() {
    let mut bench = associated();
    let mut request = session(peer(SMF), [10, 45, 0, 1]);
    let copy = |teid| OuterHeaderCreation::gtpu(teid, address("10.2.0.1"));
    request.fars[0].action = ApplyAction::FORW | ApplyAction::DUPL;
    request.fars[0].duplicating = vec![DuplicatingParameters {
        destination: Interface::CORE,
        outer_header: Some(copy(1)),
        ..Default::default()
    }];
    let seid = bench.establish(peer(SMF), request);
    let update = |teid| UpdateDuplicatingParameters {
        outer_header: Some(Change::Set(copy(teid))),
        ..Default::default()
    };
    let second = UpdateDuplicatingParameters { destination: Some(Interface::CORE), ..update(3) };
    let update =
        UpdateFar { id: FarId(1), duplicating: vec![update(2), second], ..Default::default() };
    let request = SessionModificationRequest { update_fars: vec![update], ..Default::default() };
    modify(&mut bench, seid, request);
    let copies = bench.agent[&seid].fars[0].duplicate.iter();
    let teids = copies.map(|one| match one.outer {
        Some(rules::OuterHeader::Gtpu { teid, .. }) => teid,
        _ => 0,
    });
    assert_eq!(teids.collect::<Vec<_>>(), [2, 3]);
}

/// A session whose downlink packets wait, and the report of the first.
fn waiting(bench: &mut Bench) -> (u64, u32) {
    let mut request = session(peer(SMF), [10, 45, 0, 1]);
    request.fars[1] = CreateFar {
        id: FarId(2),
        action: ApplyAction::BUFF | ApplyAction::NOCP,
        bar: Some(BarId(1)),
        ..Default::default()
    };
    request.bar = Some(CreateBar { id: BarId(1), packets: Some(9), ..Default::default() });
    let seid = bench.establish(peer(SMF), request);
    let pdr = rules::PdrId(2);
    let told = bench.event(SessionEvent::DownlinkData { session: SessionId(seid), pdr });
    (seid, parsed(&told[0].octets).0.sequence)
}

fn answer(bench: &mut Bench, sequence: u32, duration: GracePeriod) {
    let update = UpdateBarInReport {
        id: BarId(1),
        buffering_duration: Some(duration),
        buffering_packets: Some(PacketCount(500)),
        ..Default::default()
    };
    let response = Message::SessionReportResponse(SessionReportResponse {
        cause: Cause::ACCEPTED,
        update_bar: Some(update),
        ..Default::default()
    });
    let mut octets = Vec::new();
    response.emit(&Header { seid: Some(1), sequence, priority: None }, &mut octets);
    bench.octets(peer(SMF), &octets);
}

#[test]
fn packets_wait_longer_until_the_time_is_over_or_the_user_comes() {
    let mut bench = associated();
    let extended = |bench: &Bench, seid: u64| bench.agent[&seid].bars[0].extended;
    let dropped = |bench: &Bench| {
        matches!(bench.commands.last(), Some(SessionCommand::Modify { drop_waiting: true, .. }))
    };
    let (seid, sequence) = waiting(&mut bench);
    answer(&mut bench, sequence, GracePeriod::at_least(20));
    assert_eq!(extended(&bench, seid), Some(Extended { packets: Some(500) }));
    assert_eq!(bench.agent[&seid].bars[0].packets, Some(9));
    assert!(!dropped(&bench));
    // A change of something else leaves it alone.
    modify(&mut bench, seid, SessionModificationRequest::default());
    bench.wait(19 * SECOND);
    assert!(extended(&bench, seid).is_some());
    let next = bench.plane.next_time().unwrap();
    assert!(next <= 20 * SECOND, "{next}");
    bench.wait(SECOND);
    assert_eq!(extended(&bench, seid), None);
    assert!(dropped(&bench), "what has waited is dropped");
    // The user comes: nothing ends later.
    let pdr = rules::PdrId(2);
    let told = bench.event(SessionEvent::DownlinkData { session: SessionId(seid), pdr });
    let sequence = parsed(&told.last().unwrap().octets).0.sequence;
    answer(&mut bench, sequence, GracePeriod::at_least(20));
    assert!(extended(&bench, seid).is_some());
    let update = UpdateFar {
        id: FarId(2),
        action: Some(ApplyAction::FORW),
        forwarding: Some(UpdateForwardingParameters {
            destination: Some(Interface::ACCESS),
            ..Default::default()
        }),
        ..Default::default()
    };
    let request = SessionModificationRequest { update_fars: vec![update], ..Default::default() };
    modify(&mut bench, seid, request);
    assert_eq!(extended(&bench, seid), None);
    let commands = bench.commands.len();
    bench.wait(60 * SECOND);
    assert_eq!(bench.commands.len(), commands);
}

#[test]
fn a_timer_that_is_stopped_extends_nothing() {
    let mut bench = associated();
    let (seid, sequence) = waiting(&mut bench);
    answer(&mut bench, sequence, GracePeriod(0));
    assert_eq!(bench.agent[&seid].bars[0].extended, None);
}

#[test]
fn extended_buffering_ends_with_the_nodes_life() {
    let mut bench = Bench::keeping();
    bench.associate(peer(SMF));
    let (seid, sequence) = waiting(&mut bench);
    answer(&mut bench, sequence, GracePeriod::at_least(600));
    assert!(bench.agent[&seid].bars[0].extended.is_some());
    bench.restart(1);
    bench.wait(1);
    assert_eq!(bench.agent[&seid].bars[0].extended, None);
}

#[test]
fn applications_have_domains() {
    let mut bench = associated();
    let manage = |bench: &mut Bench, domain: &'static [u8]| {
        let contents = PfdContents {
            domains: vec![(Text(domain), None), (Text(b"*.cdn.example"), None)],
            descriptions: vec![Text(b"permit out 6 from 192.0.2.0/24 to assigned")],
            ..Default::default()
        };
        let contexts = vec![PfdContext { contents: vec![contents], ..Default::default() }];
        let application =
            ApplicationPfds { application: Text(b"music"), contexts, ..Default::default() };
        let request =
            PfdManagementRequest { applications: vec![application], ..Default::default() };
        bench.refusal(peer(SMF), None, &Message::PfdManagementRequest(request)).0
    };
    for wrong in [&b""[..], b"a..b", b"*", b"a b", b"\xff", b"exa*mple.com", b".com"] {
        assert_eq!(manage(&mut bench, wrong), Cause::MANDATORY_IE_INCORRECT, "{wrong:?}");
    }
    assert_eq!(manage(&mut bench, b"Music.Example"), Cause::ACCEPTED);
    let mut request = session(peer(SMF), [10, 45, 0, 1]);
    request.pdrs[0].pdi.application = Some(Text(b"music"));
    let seid = bench.establish(peer(SMF), request);
    let filters = &bench.agent[&seid].pdrs[0].filters;
    let domains: Vec<_> = filters.iter().filter_map(|filter| filter.domain.as_deref()).collect();
    assert_eq!(domains, ["music.example", "*.cdn.example"]);
    assert_eq!(filters.iter().filter(|filter| filter.flow.is_some()).count(), 1);
}

#[test]
fn applications_have_urls() {
    let mut bench = associated();
    let manage = |bench: &mut Bench, url: &'static [u8]| {
        let contents = PfdContents { urls: vec![Text(url)], ..Default::default() };
        let contexts = vec![PfdContext { contents: vec![contents], ..Default::default() }];
        let application =
            ApplicationPfds { application: Text(b"music"), contexts, ..Default::default() };
        let request =
            PfdManagementRequest { applications: vec![application], ..Default::default() };
        bench.refusal(peer(SMF), None, &Message::PfdManagementRequest(request)).0
    };
    for wrong in [
        &b""[..],
        b"music.example/a",
        b"http:///a",
        b"http://music.example:0/a",
        b"http://music.example:99999/a",
        b"http://user@music.example/a",
        b"http://*.music.example/a",
        b"http://[2001:db8::1/a",
        b"http://[2001:db8::1]x/a",
        b"http://music.example/a b",
        b"http://music.example/a#b",
        b"http://\xff/",
    ] {
        assert_eq!(manage(&mut bench, wrong), Cause::MANDATORY_IE_INCORRECT, "{wrong:?}");
    }
    assert_eq!(manage(&mut bench, b"https://music.example/a"), Cause::NOT_SUPPORTED);
    for (url, read) in [
        (&b"HTTP://Music.Example/Top?x=1"[..], "http://music.example/Top?x=1"),
        (b"http://music.example:8080", "http://music.example:8080/"),
        (b"http://[2001:DB8::1]:80/a", "http://[2001:db8::1]:80/a"),
        (b"http://192.0.2.1/a", "http://192.0.2.1/a"),
    ] {
        assert_eq!(manage(&mut bench, url), Cause::ACCEPTED, "{read}");
        let mut request = session(peer(SMF), [10, 45, 0, 1]);
        request.pdrs[0].pdi.application = Some(Text(b"music"));
        let seid = bench.establish(peer(SMF), request);
        let domain = bench.agent[&seid].pdrs[0].filters[0].domain.clone();
        assert_eq!(domain.as_deref(), Some(read));
        let deletion = Message::SessionDeletionRequest(Default::default());
        bench.refusal(peer(SMF), Some(seid), &deletion);
    }
}
