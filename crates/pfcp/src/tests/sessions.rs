//! Sessions: what becomes of rules, and what is refused.

use weft_functions::session::rules::{self, Apply, OuterHeader, Trigger};
use weft_functions::session::usage::{Usage, Volume as Measured};
use weft_node_config::UserKey;

use super::*;

const SMF: &str = "10.0.0.1";

fn associated() -> Bench {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench
}

fn modification(request: SessionModificationRequest<'_>) -> Message<'_> {
    Message::SessionModificationRequest(request)
}

fn establishment(request: SessionEstablishmentRequest<'_>) -> Message<'_> {
    Message::SessionEstablishmentRequest(request)
}

fn base() -> SessionEstablishmentRequest<'static> {
    session(peer(SMF), [10, 45, 0, 1])
}

#[test]
fn a_session_becomes_rules() {
    let mut bench = associated();
    let octets = bench.ask(peer(SMF), Some(0), &establishment(base()));
    let (header, message) = parsed(&octets);
    assert_eq!(header.seid, Some(0x77), "the control plane's SEID");
    let Message::SessionEstablishmentResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.cause, Cause::ACCEPTED);
    assert_eq!(response.created.len(), 1);
    assert_eq!(response.created[0].id, PdrId(1));
    let Some(FTeid::Given(tunnel)) = response.created[0].fteid else { panic!("{response:?}") };
    assert_eq!(tunnel.ipv4, Some("10.1.0.254".parse().unwrap()));
    let seid = response.fseid.unwrap().seid;
    let rules = &bench.agent[&seid];
    assert_eq!(rules.pdrs[0].local.unwrap().teid, tunnel.teid);
    assert_eq!(rules.pdrs[0].network.as_deref(), Some("access"));
    assert_eq!(rules.pdrs[1].network.as_deref(), Some("internet"));
    let outer = rules.fars[1].forward.as_ref().unwrap().outer.unwrap();
    let (peer, local) = (address("10.1.0.1"), address("10.1.0.254"));
    assert_eq!(outer, OuterHeader::Gtpu { teid: 0x99, peer, local });
    assert_eq!(rules.fars[0].forward.as_ref().unwrap().interface, Some(rules::Interface::Core));
}

#[test]
fn network_instances_have_addresses_of_their_own() {
    let mut bench = associated();
    let mut request = base();
    let forwarding = request.fars[0].forwarding.as_mut().unwrap();
    forwarding.network_instance = Some(Text(b"\x02n9"));
    forwarding.outer_header = Some(OuterHeaderCreation::gtpu(7, address("10.9.0.1")));
    request.pdrs[1].pdi.network_instance = Some(Text(b"n9"));
    request.pdrs[1].pdi.fteid = Some(FTeid::Choose { ipv4: true, ipv6: false, id: None });
    request.pdrs[1].pdi.ue_addresses.clear();
    let seid = bench.establish(peer(SMF), request);
    let rules = &bench.agent[&seid];
    let forward = rules.fars[0].forward.as_ref().unwrap();
    assert_eq!(forward.network.as_deref(), Some("n9"));
    let OuterHeader::Gtpu { local, .. } = forward.outer.unwrap() else { panic!() };
    assert_eq!(local, address("10.9.0.254"));
    assert_eq!(rules.pdrs[1].local.unwrap().ipv4, Some("10.9.0.254".parse().unwrap()));
}

#[test]
fn addresses_come_from_pools_and_go_back() {
    let mut bench = associated();
    let choose = UeIpAddress { choose_ipv4: true, choose_ipv6: true, ..Default::default() };
    let mut request = base();
    request.pdrs[0].pdi.ue_addresses = vec![choose];
    request.pdrs[1].pdi.ue_addresses = vec![UeIpAddress { destination: true, ..choose }];
    let octets = bench.ask(peer(SMF), Some(0), &establishment(request.clone()));
    let (_, message) = parsed(&octets);
    let Message::SessionEstablishmentResponse(response) = message else { panic!("{message:?}") };
    let (up, down) = (&response.created[0].ue_addresses, &response.created[1].ue_addresses);
    assert_eq!(up[0].ipv4, Some([10, 45, 0, 1].into()));
    assert_eq!(down[0].ipv4, up[0].ipv4, "one session, one address");
    assert_eq!(down[0].ipv6, Some("2001:db8:45::".parse().unwrap()));
    let first = response.fseid.unwrap().seid;
    // The pool of prefixes has four; the fifth session finds none, and leaves nothing behind.
    for _ in 0..3 {
        bench.establish(peer(SMF), request.clone());
    }
    for _ in 0..2 {
        let refusal = bench.refusal(peer(SMF), Some(0), &establishment(request.clone()));
        assert_eq!(refusal.0, Cause::ADDRESSES_OCCUPIED);
    }
    let deletion = Message::SessionDeletionRequest(Default::default());
    assert_eq!(bench.refusal(peer(SMF), Some(first), &deletion).0, Cause::ACCEPTED);
    bench.establish(peer(SMF), request);
}

#[test]
fn pdrs_with_one_choose_id_share_a_tunnel() {
    let mut bench = associated();
    let mut request = base();
    let choose = FTeid::Choose { ipv4: true, ipv6: false, id: Some(5) };
    request.pdrs[0].pdi.fteid = Some(choose);
    let seid = bench.establish(peer(SMF), request);
    let mut second = CreatePdr { id: PdrId(3), ..uplink() };
    second.pdi.fteid = Some(choose);
    let change = SessionModificationRequest { create_pdrs: vec![second], ..Default::default() };
    let octets = bench.ask(peer(SMF), Some(seid), &modification(change));
    let (_, message) = parsed(&octets);
    let Message::SessionModificationResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.cause, Cause::ACCEPTED);
    let rules = &bench.agent[&seid];
    assert_eq!(rules.pdrs[0].local, rules.pdrs[2].local);
}

#[test]
fn a_chosen_teid_says_the_worker_that_the_address_says() {
    let mut bench = associated();
    let given = UeIpAddress { ipv4: Some([10, 46, 0, 37].into()), ..Default::default() };
    let pool = UeIpAddress { choose_ipv4: true, ..Default::default() };
    // Given beside the tunnel, behind it alone, and chosen together.
    for (up, down) in
        [(vec![given], given), (vec![], given), (vec![pool], pool), (vec![pool], pool)]
    {
        let mut request = base();
        request.pdrs[0].pdi.fteid = Some(FTeid::Choose { ipv4: true, ipv6: false, id: None });
        request.pdrs[0].pdi.ue_addresses = up;
        request.pdrs[1].pdi.ue_addresses = vec![UeIpAddress { destination: true, ..down }];
        let seid = bench.establish(peer(SMF), request);
        let rules = &bench.agent[&seid];
        let address = rules.pdrs[1].ue.unwrap().ipv4.unwrap();
        let key = UserKey::Ipv4 { network: 0, first: address };
        let teid = rules.pdrs[0].local.unwrap().teid;
        assert_eq!(teid, UserKey::teid_like(teid, key.number().unwrap()), "{address} {teid:#x}");
        assert_ne!(teid >> 6, 0, "the rest of it is left to chance");
    }
}

#[test]
fn traffic_endpoints_stand_for_pdis() {
    let mut bench = associated();
    let mut request = base();
    request.endpoints = vec![CreateTrafficEndpoint {
        id: TrafficEndpointId(9),
        fteid: Some(FTeid::Choose { ipv4: true, ipv6: false, id: None }),
        ..Default::default()
    }];
    request.pdrs[0].pdi.fteid = None;
    request.pdrs[0].pdi.endpoints = vec![TrafficEndpointId(9)];
    let octets = bench.ask(peer(SMF), Some(0), &establishment(request));
    let (_, message) = parsed(&octets);
    let Message::SessionEstablishmentResponse(response) = message else { panic!("{message:?}") };
    let created = &response.created_endpoints[0];
    let Some(FTeid::Given(tunnel)) = created.fteid else { panic!("{response:?}") };
    let seid = response.fseid.unwrap().seid;
    assert_eq!(bench.agent[&seid].pdrs[0].local.unwrap().teid, tunnel.teid);
    // The PDRs of an endpoint go with it.
    let change = SessionModificationRequest {
        remove_endpoints: vec![RemoveTrafficEndpoint { id: TrafficEndpointId(9), refused: None }],
        ..Default::default()
    };
    assert_eq!(bench.refusal(peer(SMF), Some(seid), &modification(change)).0, Cause::ACCEPTED);
    assert_eq!(bench.agent[&seid].pdrs.len(), 1);
}

#[test]
fn idle_and_active_again() {
    let mut bench = associated();
    let seid = bench.establish(peer(SMF), base());
    let far = |action| UpdateFar { id: FarId(2), action: Some(action), ..Default::default() };
    let idle = SessionModificationRequest {
        update_fars: vec![far(ApplyAction::BUFF | ApplyAction::NOCP)],
        ..Default::default()
    };
    assert_eq!(bench.refusal(peer(SMF), Some(seid), &modification(idle)).0, Cause::ACCEPTED);
    assert_eq!(bench.agent[&seid].fars[1].action, Apply::Notify);
    let event = SessionEvent::DownlinkData {
        session: SessionId(seid),
        pdr: weft_functions::session::rules::PdrId(2),
    };
    let out = bench.event(event);
    let (header, message) = parsed(&out[0].octets);
    assert_eq!((out[0].to, header.seid), (peer(SMF), Some(0x77)));
    let Message::SessionReportRequest(report) = message else { panic!("{message:?}") };
    assert!(report.report.has(ReportType::DLDR));
    assert_eq!(report.downlink_data.unwrap().pdrs, [PdrId(2)]);
    // The handover's new tunnel, with an End Marker into the old one.
    let active = SessionModificationRequest {
        update_fars: vec![UpdateFar {
            forwarding: Some(UpdateForwardingParameters {
                outer_header: Some(Change::Set(OuterHeaderCreation::gtpu(8, address("10.1.0.2")))),
                flags: Some(ModificationFlags::SNDEM),
                ..Default::default()
            }),
            ..far(ApplyAction::FORW)
        }],
        ..Default::default()
    };
    assert_eq!(bench.refusal(peer(SMF), Some(seid), &modification(active)).0, Cause::ACCEPTED);
    let Some(SessionCommand::Modify { end_markers, .. }) = bench.commands.last() else { panic!() };
    assert_eq!(end_markers.len(), 1);
    let forward = bench.agent[&seid].fars[1].forward.as_ref().unwrap();
    assert_eq!(forward.interface, Some(rules::Interface::Access));
    let OuterHeader::Gtpu { teid, peer, .. } = forward.outer.unwrap() else { panic!() };
    assert_eq!((teid, peer), (8, address("10.1.0.2")));
}

#[test]
fn usage_is_reported() {
    let mut bench = associated();
    let mut request = base();
    request.urrs = vec![CreateUrr {
        id: UrrId(1),
        method: MeasurementMethod::VOLUM,
        triggers: ReportingTriggers::VOLTH,
        volume_threshold: Some(Volume { total: Some(1000), ..Default::default() }),
        information: Some(MeasurementInformation::MNOP),
        ..Default::default()
    }];
    request.pdrs[0].urrs = vec![UrrId(1)];
    let seid = bench.establish(peer(SMF), request);
    let usage = |trigger| Usage {
        urr: weft_functions::session::rules::UrrId(1),
        sequence: 3,
        triggers: [trigger].into_iter().collect(),
        volume: Measured { uplink_octets: 1200, uplink_packets: 2, ..Default::default() },
        start: SECOND.cast_signed(),
        end: 2 * SECOND.cast_signed(),
        ..Default::default()
    };
    let event = SessionEvent::Usage {
        session: SessionId(seid),
        usage: vec![usage(Trigger::VolumeThreshold)],
        told: 1,
    };
    let out = bench.event(event);
    let (_, message) = parsed(&out[0].octets);
    let Message::SessionReportRequest(report) = message else { panic!("{message:?}") };
    let first = &report.usage[0];
    assert_eq!((first.urr, first.sequence, first.trigger), (UrrId(1), 3, UsageTrigger::VOLTH));
    let volume = first.volume.unwrap();
    assert_eq!((volume.total, volume.uplink_packets), (Some(1200), Some(2)));
    assert_eq!(first.start.unwrap().unix(), 1_700_000_001);
    // A query, and the end.
    bench.usage.insert(seid, vec![usage(Trigger::Immediate)]);
    let query = SessionModificationRequest {
        queries: vec![QueryUrr { id: UrrId(1), refused: None }],
        query_reference: Some(77),
        ..Default::default()
    };
    let octets = bench.ask(peer(SMF), Some(seid), &modification(query));
    let (_, message) = parsed(&octets);
    let Message::SessionModificationResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.reports[0].query, Some(77));
    bench.usage.insert(seid, vec![usage(Trigger::Termination)]);
    let deletion = Message::SessionDeletionRequest(Default::default());
    let octets = bench.ask(peer(SMF), Some(seid), &deletion);
    let (_, message) = parsed(&octets);
    let Message::SessionDeletionResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.reports[0].trigger, UsageTrigger::TERMR);
    assert_eq!(response.reports[0].volume.unwrap().total, Some(1200));
}

#[test]
fn a_report_that_is_not_known_ends_the_session() {
    let mut bench = associated();
    let seid = bench.establish(peer(SMF), base());
    let out = bench.event(SessionEvent::Inactive { session: SessionId(seid) });
    let (header, _) = parsed(&out[0].octets);
    let response = SessionReportResponse { cause: Cause::SESSION_NOT_FOUND, ..Default::default() };
    let mut octets = Vec::new();
    let header = Header { seid: Some(seid), ..header };
    Message::SessionReportResponse(response).emit(&header, &mut octets);
    bench.octets(peer(SMF), &octets);
    bench.wait(1);
    assert_eq!(bench.agent.len(), 0);
}

#[test]
fn sessions_of_sets_end_together() {
    let mut bench = associated();
    let set =
        |number| FqCsid { node: NodeAddress::Address(address(SMF)), identifiers: vec![number] };
    let mut request = base();
    request.sets = vec![set(1)];
    bench.establish(peer(SMF), request);
    let mut request = session(peer(SMF), [10, 45, 0, 2]);
    request.sets = vec![set(2)];
    let kept = bench.establish(peer(SMF), request);
    let deletion = SessionSetDeletionRequest {
        node: NodeId::Address(address(SMF)),
        sets: vec![set(1)],
        refused: None,
    };
    bench.ask(peer(SMF), None, &Message::SessionSetDeletionRequest(deletion));
    bench.wait(1);
    assert_eq!(bench.agent.keys().copied().collect::<Vec<_>>(), [kept]);
}

#[test]
fn other_filters_of_an_application_reach_the_sessions_that_there_are() {
    let mut bench = Bench::new();
    let from = peer("10.0.0.1");
    bench.associate(from);
    let manage = |bench: &mut Bench, flow: &'static [u8]| {
        let contents = PfdContents { descriptions: vec![Text(flow)], ..Default::default() };
        let contexts = vec![PfdContext { contents: vec![contents], ..Default::default() }];
        let application =
            ApplicationPfds { application: Text(b"music"), contexts, ..Default::default() };
        let request =
            PfdManagementRequest { applications: vec![application], ..Default::default() };
        let message = Message::PfdManagementRequest(request);
        assert!(bench.refusal(from, None, &message).0.accepted());
    };
    manage(&mut bench, b"permit out 17 from any 4000 to assigned");
    let mut request = session(from, [10, 45, 0, 1]);
    request.pdrs[1].pdi.application = Some(Text(b"music"));
    let seid = bench.establish(from, request);
    let other = bench.establish(from, session(from, [10, 45, 0, 2]));
    let ports = |bench: &Bench, seid: u64| {
        let filters = bench.agent[&seid].pdrs.iter().flat_map(|pdr| &pdr.filters);
        let flows = filters.filter_map(|filter| filter.flow.as_ref());
        flows.flat_map(|flow| &flow.remote.ports).map(|range| range.first).collect::<Vec<_>>()
    };
    assert_eq!(ports(&bench, seid), [4000]);
    manage(&mut bench, b"permit out 17 from any 5000 to assigned");
    bench.wait(1);
    assert_eq!((ports(&bench, seid), ports(&bench, other)), (vec![5000], vec![]));
    // Without its filters the application leaves the session those that it had.
    let message = Message::PfdManagementRequest(PfdManagementRequest::default());
    assert!(bench.refusal(from, None, &message).0.accepted());
    bench.wait(1);
    assert_eq!(ports(&bench, seid), [5000]);
}
