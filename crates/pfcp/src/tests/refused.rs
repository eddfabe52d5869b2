//! Requests that are refused: with which cause, and that nothing has changed.

use super::*;
use crate::codec::ie;

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

/// Refused, and nothing has changed at the agent.
fn refused(request: SessionEstablishmentRequest<'static>) -> (Cause, Option<u16>, Option<RuleId>) {
    let mut bench = associated();
    let refusal = bench.refusal(peer(SMF), Some(0), &establishment(request));
    assert!(!refusal.0.accepted(), "{refusal:?}");
    assert!(bench.commands.is_empty());
    assert_eq!(bench.plane.view().sessions, 0);
    refusal
}

fn base() -> SessionEstablishmentRequest<'static> {
    session(peer(SMF), [10, 45, 0, 1])
}

#[test]
fn fault_31_to_41_rules_that_cannot_be() {
    let check = |change: &dyn Fn(&mut SessionEstablishmentRequest<'static>)| {
        let mut request = base();
        change(&mut request);
        refused(request)
    };
    let pdr = Some(RuleId::Pdr(PdrId(1)));
    let incorrect = Cause::MANDATORY_IE_INCORRECT;
    // 31: a source interface that there is not.
    let found = check(&|one| one.pdrs[0].pdi.source = Interface(9));
    assert_eq!(found, (incorrect, Some(ie::SOURCE_INTERFACE), pdr));
    // 32: a bad flow description, and a reference to a filter that there is not.
    let filter =
        |text: &'static [u8]| SdfFilter { description: Some(Text(text)), ..Default::default() };
    let found = check(&|one| one.pdrs[0].pdi.filters = vec![filter(b"permit out of order")]);
    assert_eq!(found, (incorrect, Some(ie::SDF_FILTER), pdr));
    let reference = SdfFilter { id: Some(4), ..Default::default() };
    let found = check(&|one| one.pdrs[0].pdi.filters = vec![reference]);
    assert_eq!(found, (incorrect, Some(ie::SDF_FILTER), pdr));
    // 34: what is no IP session.
    let found = check(&|one| one.pdn_type = Some(PdnType::ETHERNET));
    assert_eq!(found, (Cause::NOT_SUPPORTED, Some(ie::PDN_TYPE), None));
    // 35: no rules at all.
    let found = check(&|one| one.pdrs.clear());
    assert_eq!(found, (Cause::MANDATORY_IE_MISSING, Some(ie::CREATE_PDR), None));
    let found = check(&|one| one.fars.clear());
    assert_eq!(found, (Cause::MANDATORY_IE_MISSING, Some(ie::CREATE_FAR), None));
    // 36: a PDR without a FAR, or with one that is not there.
    let found = check(&|one| one.pdrs[0].far = None);
    assert_eq!(found, (Cause::CONDITIONAL_IE_MISSING, Some(ie::FAR_ID), pdr));
    let found = check(&|one| one.pdrs[0].far = Some(FarId(9)));
    assert_eq!(found, (Cause::RULE_FAILURE, None, pdr));
    // 37: a destination that there is not.
    let far = Some(RuleId::Far(FarId(1)));
    let found = check(&|one| one.fars[0].forwarding.as_mut().unwrap().destination = Interface(9));
    assert_eq!(found, (incorrect, Some(ie::DESTINATION_INTERFACE), far));
    let found = check(&|one| one.fars[0].forwarding = None);
    assert_eq!(found, (Cause::CONDITIONAL_IE_MISSING, Some(ie::FORWARDING_PARAMETERS), far));
    let found = check(&|one| one.fars[0].action = ApplyAction::FORW | ApplyAction::DROP);
    assert_eq!(found, (incorrect, Some(ie::APPLY_ACTION), far));
    // 39: URRs and QERs that are not there, and more rules than there may be.
    let found = check(&|one| one.pdrs[0].qers = vec![QerId(1)]);
    assert_eq!(found, (Cause::RULE_FAILURE, None, pdr));
    let found = check(&|one| one.pdrs[0].urrs = vec![UrrId(65535)]);
    assert_eq!(found, (Cause::RULE_FAILURE, None, pdr));
    let found = check(&|one| {
        one.qers = (0..100).map(|id| CreateQer { id: QerId(id), ..Default::default() }).collect();
    });
    assert_eq!(found, (Cause::NO_RESOURCES, None, None));
    // 40: the node has no IPv6 address towards the core.
    let choose = FTeid::Choose { ipv4: false, ipv6: true, id: None };
    let found = check(&|one| {
        one.pdrs[1].pdi.fteid = Some(choose);
    });
    assert_eq!(found, (Cause::RULE_FAILURE, Some(ie::F_TEID), Some(RuleId::Pdr(PdrId(2)))));
    // 41: TEID 0, ours and the peer's; an address that is not ours.
    let given = |teid, address: [u8; 4]| {
        FTeid::Given(GivenFTeid { teid, ipv4: Some(address.into()), ipv6: None })
    };
    let found = check(&|one| one.pdrs[0].pdi.fteid = Some(given(0, [10, 1, 0, 254])));
    assert_eq!(found, (incorrect, Some(ie::F_TEID), pdr));
    let found = check(&|one| one.pdrs[0].pdi.fteid = Some(given(7, [10, 1, 0, 253])));
    assert_eq!(found, (Cause::RULE_FAILURE, Some(ie::F_TEID), pdr));
    let found = check(&|one| {
        let forwarding = one.fars[1].forwarding.as_mut().unwrap();
        forwarding.outer_header = Some(OuterHeaderCreation::gtpu(0, address("10.1.0.1")));
    });
    let far = Some(RuleId::Far(FarId(2)));
    assert_eq!(found, (incorrect, Some(ie::OUTER_HEADER_CREATION), far));
    // Two rules of one number.
    let found = check(&|one| one.pdrs.push(uplink()));
    assert_eq!(found, (Cause::RULE_FAILURE, None, pdr));
}

#[test]
fn what_is_not_supported_is_refused() {
    let check = |element: u16, change: &dyn Fn(&mut SessionEstablishmentRequest<'static>)| {
        let mut request = base();
        change(&mut request);
        let found = refused(request);
        assert_eq!((found.0, found.1), (Cause::NOT_SUPPORTED, Some(element)));
    };
    check(ie::REPORTING_TRIGGERS, &|one| {
        let triggers = ReportingTriggers::MACAR;
        one.urrs = vec![CreateUrr { id: UrrId(1), triggers, ..Default::default() }];
    });
    check(ie::REDIRECT_INFORMATION, &|one| {
        // A SIP URI.
        let redirect = RedirectInformation { kind: 3, server: Text(b"sip:a@b"), other: None };
        one.fars[0].forwarding.as_mut().unwrap().redirect = Some(redirect);
    });
    check(ie::OUTER_HEADER_REMOVAL, &|one| {
        let description = OuterHeaderRemoval::VLAN;
        one.pdrs[0].outer_header_removal =
            Some(OuterHeaderRemoval { description, extensions: None });
    });
}

#[test]
fn routes_and_urls_that_are_none_are_refused() {
    let check = |element: u16, change: &dyn Fn(&mut SessionEstablishmentRequest<'static>)| {
        let mut request = base();
        change(&mut request);
        let found = refused(request);
        assert_eq!((found.0, found.1), (Cause::MANDATORY_IE_INCORRECT, Some(element)));
    };
    for text in [&b"10.0.0.0/33"[..], b"", b"\xff\xfe", b"2001:db8::/32"] {
        check(ie::FRAMED_ROUTE, &|one| one.pdrs[1].pdi.framed_routes = vec![Text(text)]);
    }
    check(ie::FRAMED_IPV6_ROUTE, &|one| {
        one.pdrs[1].pdi.framed_ipv6_routes = vec![Text(b"10.0.0.0/8")];
    });
    let long: &[u8] = &[b'a'; 1025];
    // With an end of line, a URL could write the rest of the response.
    for (kind, text) in [
        (2, &b"http://a/\r\nSet-Cookie: b"[..]),
        (2, b"http://a b/"),
        (2, b""),
        (2, b"http://\xe4/"),
        (2, long),
        (0, b"10.0.0"),
        (1, b"10.0.0.1"),
    ] {
        check(ie::REDIRECT_INFORMATION, &|one| {
            let redirect = RedirectInformation { kind, server: Text(text), other: None };
            one.fars[0].forwarding.as_mut().unwrap().redirect = Some(redirect);
        });
    }
    let mut request = base();
    request.pdrs[1].pdi.framed_routes = vec![Text(b"10.0.0.0/8"); 65];
    assert_eq!(refused(request).0, Cause::NO_RESOURCES);
}

#[test]
fn names_of_the_configuration() {
    let found = |change: &dyn Fn(&mut SessionEstablishmentRequest<'static>)| {
        let mut request = base();
        change(&mut request);
        refused(request).0
    };
    let policy = |name: &'static [u8]| Some(ForwardingPolicy(Text(name)));
    let cause = found(&|one| one.fars[0].forwarding.as_mut().unwrap().policy = policy(b"other"));
    assert_eq!(cause, Cause::INVALID_FORWARDING_POLICY);
    let cause = found(&|one| one.pdrs[0].pdi.application = Some(Text(b"games")));
    assert_eq!(cause, Cause::UNKNOWN_APPLICATION);
    let cause = found(&|one| one.pdrs[0].activate_predefined = vec![Text(b"gold")]);
    assert_eq!(cause, Cause::UNKNOWN_PREDEFINED_RULE);

    let mut bench = associated();
    let mut request = base();
    request.pdrs[0].pdi.application = Some(Text(b"video"));
    request.fars[1].forwarding.as_mut().unwrap().policy = policy(b"steer");
    let seid = bench.establish(peer(SMF), request);
    assert_eq!(bench.agent[&seid].pdrs[0].chain.as_deref(), Some("optimise"));
    assert_eq!(bench.agent[&seid].pdrs[1].chain.as_deref(), Some("nat"));
}

#[test]
fn fault_38_rules_that_are_not_there() {
    let mut bench = associated();
    let seid = bench.establish(peer(SMF), base());
    let before = bench.agent[&seid].clone();
    let mut expect = |request: SessionModificationRequest<'_>, rule: RuleId| {
        let found = bench.refusal(peer(SMF), Some(seid), &modification(request));
        assert_eq!(found, (Cause::RULE_FAILURE, None, Some(rule)));
        assert!(Arc::ptr_eq(&bench.agent[&seid], &before));
    };
    let none = SessionModificationRequest::default;
    expect(
        SessionModificationRequest {
            update_pdrs: vec![UpdatePdr { id: PdrId(9), ..Default::default() }],
            ..none()
        },
        RuleId::Pdr(PdrId(9)),
    );
    // The first change of this message could be made, the second cannot: neither is.
    expect(
        SessionModificationRequest {
            update_fars: vec![
                UpdateFar { id: FarId(1), action: Some(ApplyAction::DROP), ..Default::default() },
                UpdateFar { id: FarId(9), action: Some(ApplyAction::DROP), ..Default::default() },
            ],
            ..none()
        },
        RuleId::Far(FarId(9)),
    );
    expect(
        SessionModificationRequest {
            update_qers: vec![UpdateQer { id: QerId(9), ..Default::default() }],
            ..none()
        },
        RuleId::Qer(QerId(9)),
    );
    expect(
        SessionModificationRequest {
            update_urrs: vec![UpdateUrr { id: UrrId(9), ..Default::default() }],
            ..none()
        },
        RuleId::Urr(UrrId(9)),
    );
    expect(
        SessionModificationRequest {
            remove_fars: vec![RemoveFar { id: FarId(1), refused: None }],
            ..none()
        },
        RuleId::Pdr(PdrId(1)),
    );
    expect(
        SessionModificationRequest {
            queries: vec![QueryUrr { id: UrrId(9), refused: None }],
            ..none()
        },
        RuleId::Urr(UrrId(9)),
    );
}

#[test]
fn fault_42_what_fails_leaves_nothing_behind() {
    let mut bench = associated();
    for _ in 0..100 {
        let mut request = base();
        request.pdrs[1].far = Some(FarId(9));
        let found = bench.refusal(peer(SMF), Some(0), &establishment(request));
        assert_eq!(found.0, Cause::RULE_FAILURE);
        // The agent refuses: another user has the key.
        bench.error = Some(SessionError::KeyTaken("10.45.0.1".to_owned()));
        let found = bench.refusal(peer(SMF), Some(0), &establishment(base()));
        assert_eq!(found.0, Cause::RULE_FAILURE);
    }
    assert_eq!(bench.plane.tunnels_in_use(), 0);
    assert_eq!(bench.plane.view().sessions, 0);
    assert_eq!(bench.plane.view().associations[0].sessions, 0);
    let seid = bench.establish(peer(SMF), base());
    assert_eq!(bench.plane.tunnels_in_use(), 1);
    let deletion = Message::SessionDeletionRequest(Default::default());
    bench.refusal(peer(SMF), Some(seid), &deletion);
    assert_eq!(bench.plane.tunnels_in_use(), 0);
}

#[test]
fn fault_45_sessions_belong_to_their_control_plane() {
    let mut bench = associated();
    bench.associate(peer("10.0.0.2"));
    let seid = bench.establish(peer(SMF), base());
    let deletion = Message::SessionDeletionRequest(Default::default());
    let empty = modification(SessionModificationRequest::default());
    for message in [&deletion, &empty] {
        let found = bench.refusal(peer("10.0.0.2"), Some(seid), message);
        assert_eq!(found.0, Cause::SESSION_NOT_FOUND);
    }
    assert!(bench.agent.contains_key(&seid));
}

#[test]
fn fault_46_tunnels_and_addresses_have_one_owner() {
    let mut bench = associated();
    let given =
        FTeid::Given(GivenFTeid { teid: 0x1234, ipv4: Some([10, 1, 0, 254].into()), ipv6: None });
    let mut request = base();
    request.pdrs[0].pdi.fteid = Some(given);
    let seid = bench.establish(peer(SMF), request.clone());
    let found = bench.refusal(peer(SMF), Some(0), &establishment(request.clone()));
    assert_eq!(found.0, Cause::RULE_FAILURE);
    assert_eq!(found.1, Some(ie::F_TEID));
    let deletion = Message::SessionDeletionRequest(Default::default());
    bench.refusal(peer(SMF), Some(seid), &deletion);
    bench.establish(peer(SMF), request);
}

#[test]
fn fault_47_sessions_are_bounded() {
    let mut bench = associated();
    for number in 0..8 {
        bench.establish(peer(SMF), session(peer(SMF), [10, 46, 0, number]));
    }
    let request = session(peer(SMF), [10, 46, 0, 99]);
    let found = bench.refusal(peer(SMF), Some(0), &establishment(request));
    assert_eq!(found.0, Cause::NO_RESOURCES);
}

#[test]
fn a_congested_node_takes_no_new_sessions() {
    let mut bench = associated();
    let seid = bench.establish(peer(SMF), base());
    bench.plane.note_congestion(true);
    let other = || establishment(session(peer(SMF), [10, 46, 0, 9]));
    assert_eq!(bench.refusal(peer(SMF), Some(0), &other()).0, Cause::CONGESTION);
    assert_eq!(bench.plane.view().sessions, 1);
    // What is there changes and goes.
    let empty = modification(SessionModificationRequest::default());
    assert_eq!(bench.refusal(peer(SMF), Some(seid), &empty).0, Cause::ACCEPTED);
    let deletion = Message::SessionDeletionRequest(Default::default());
    assert_eq!(bench.refusal(peer(SMF), Some(seid), &deletion).0, Cause::ACCEPTED);
    bench.plane.note_congestion(false);
    assert_eq!(bench.refusal(peer(SMF), Some(0), &other()).0, Cause::ACCEPTED);
}

#[test]
fn fault_50_seids_cannot_be_guessed() {
    let mut bench = associated();
    let seids: Vec<_> = (0..4)
        .map(|number| bench.establish(peer(SMF), session(peer(SMF), [10, 46, 0, number])))
        .collect();
    let deletion = Message::SessionDeletionRequest(Default::default());
    let near = seids.iter().flat_map(|seid| [seid.wrapping_add(1), seid.wrapping_sub(1), !seid]);
    for seid in near.chain([0, 1, u64::MAX]) {
        assert_eq!(bench.refusal(peer(SMF), Some(seid), &deletion).0, Cause::SESSION_NOT_FOUND);
    }
    assert_eq!(bench.agent.len(), 4);
}
