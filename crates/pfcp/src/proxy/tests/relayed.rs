//! Sessions of several nodes, as their control planes see them.

use weft_node::bearer::session::{SessionEvent, SessionId};

use super::*;
use crate::codec::message::*;
use crate::codec::rule::*;

#[test]
fn one_user_plane_is_seen() {
    let mut field = Field::new(3);
    let out = field.ask(SMF, None, &set_up(address(SMF), 1));
    let Message::AssociationSetupResponse(response) = parsed(&out[0]).1 else { panic!() };
    assert_eq!((response.cause, response.node), (Cause::ACCEPTED, NodeId::Address(address(VIP))));
    assert_eq!(response.recovery, field.proxy.recovery);
    let features = response.up_features.unwrap();
    assert!(features.has(crate::codec::element::UpFeatures::FTUP));
    assert_eq!(out.len(), 1);
    assert!(field.proxy.view().nodes.iter().all(|node| node.associations == 1));
    // Each session goes to the node of its address, and others spread.
    for number in 1..=3_u16 {
        let seid = field.user(SMF, 1, [10, 45, number as u8, 1]).unwrap();
        assert_eq!(of(seid), number);
    }
    for nth in 0..12 {
        field.user(SMF, 100 + nth, [10, 46, 0, nth as u8]).unwrap();
    }
    assert!(field.sessions().iter().all(|count| *count > 1), "{:?}", field.sessions());
    assert_eq!(field.sessions().iter().sum::<usize>(), 15);
}

#[test]
fn ipv6_control_planes_are_served_by_nodes_of_ipv4() {
    let mut field = Field::new(2);
    let smf = "fd00::1";
    field.answering.insert(address(smf), 1);
    field.associate(smf);
    let out = field.ask(
        smf,
        Some(0),
        &Message::SessionEstablishmentRequest(session(peer(smf), [10, 45, 2, 1])),
    );
    let Message::SessionEstablishmentResponse(response) = parsed(&out[0]).1 else { panic!() };
    let seid = response.fseid.unwrap().seid;
    assert_eq!(response.fseid, Some(FSeid::at(seid, address("fd00::100"))));
    let delete = Message::SessionDeletionRequest(SessionDeletionRequest { refused: None });
    assert_eq!(field.answered(smf, Some(seid), &delete), Cause::ACCEPTED);
    assert_eq!(field.sessions(), [0, 0]);
}

#[test]
fn requests_are_done_once_also_over_a_failover() {
    let mut field = Field::of(3, 800);
    field.associate(SMF);
    for nth in 0..12 {
        let request = Message::SessionEstablishmentRequest(SessionEstablishmentRequest {
            fseid: FSeid::at(500 + nth, address(SMF)),
            ..session(peer(SMF), [10, 46, 0, nth as u8])
        });
        let first = field.ask(SMF, Some(0), &request);
        field.sequence -= 1;
        let second = field.ask(SMF, Some(0), &request);
        field.fail_over();
        field.wait(SECOND);
        field.sequence -= 1;
        let third = field.ask(SMF, Some(0), &request);
        assert!(first.len() == 1 && first == second, "{nth}");
        assert_eq!(first, third, "{nth}: another controller's answer");
    }
    assert_eq!(field.sessions().iter().sum::<usize>(), 12);
}

fn idle(field: &mut Field, number: u16, seid: u64) -> Vec<Datagram> {
    field.told.clear();
    let pdr = weft_functions::session::rules::PdrId(2);
    let event = SessionEvent::DownlinkData { session: SessionId(seid), pdr };
    let out = field.node(number).bench.event(event);
    field.of_node(number, out);
    field.carry();
    std::mem::take(&mut field.told)
}

/// Two control planes choose the same SEIDs, and nodes the same sequence numbers: each report
/// finds its own, and its response the node.
#[test]
fn reports_find_their_control_plane_and_responses_their_node() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.associate(OTHER);
    let mut seen = std::collections::HashSet::new();
    for from in [SMF, OTHER] {
        for number in [1, 2] {
            let seid = field
                .user(from, 1, [10, 45, number as u8, from.len() as u8 + from.as_bytes()[7]])
                .unwrap();
            let told = idle(&mut field, number, seid);
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].to, peer(from));
            let (header, message) = parsed(&told[0].octets);
            assert_eq!(header.seid, Some(1));
            assert!(matches!(message, Message::SessionReportRequest(_)));
            assert!(seen.insert((from, header.sequence)), "numbers are the proxy's");
            let response = SessionReportResponse {
                cause: Cause::SESSION_NOT_FOUND,
                ..SessionReportResponse::default()
            };
            let mut octets = Vec::new();
            let answer = Message::SessionReportResponse(response);
            answer.emit(&Header { seid: Some(seid), ..header }, &mut octets);
            // Of the other control plane it is none.
            let wrong = if from == SMF { OTHER } else { SMF };
            field.send(wrong, &octets);
            field.wait(STEP);
            let before = field.sessions().iter().sum::<usize>();
            field.send(from, &octets);
            field.wait(STEP);
            assert_eq!(field.sessions().iter().sum::<usize>(), before - 1, "the session is let go");
        }
    }
}

#[test]
fn a_report_that_is_repeated_keeps_its_number() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let seid = field.user(SMF, 1, [10, 45, 1, 1]).unwrap();
    let first = idle(&mut field, 1, seid);
    field.wait(SECOND + STEP);
    let again: Vec<_> = field.told.drain(..).collect();
    assert_eq!(first, again);
}

#[test]
fn a_node_without_room_is_passed_over_and_one_that_is_cordoned_gets_none() {
    let mut field = Field::new(2);
    field.associate(SMF);
    // Each has room for eight.
    for nth in 0..16 {
        field.user(SMF, nth, [10, 46, 0, nth as u8]).unwrap();
    }
    assert_eq!(field.sessions(), [8, 8]);
    assert_eq!(field.user(SMF, 99, [10, 46, 0, 99]), Err(Cause::NO_RESOURCES));
    let mut field = Field::new(2);
    field.associate(SMF);
    field.node(1).is_cordoned = true;
    field.meet();
    for nth in 0..8 {
        assert_eq!(field.user(SMF, nth, [10, 46, 0, nth as u8]).map(of), Ok(2));
    }
    assert_eq!(field.user(SMF, 99, [10, 45, 1, 99]), Err(Cause::NO_RESOURCES));
}

/// A node that refuses for lack of room, though the proxy thought otherwise: another one has it.
#[test]
fn what_a_node_refuses_goes_to_another() {
    let mut field = Field::new(2);
    field.associate(SMF);
    for nth in 0..6 {
        field.node(1).bench.plane.note_congestion(true);
        assert_eq!(field.user(SMF, nth, [10, 46, 0, nth as u8]).map(of), Ok(2));
    }
    assert!(field.proxy.view().counts.placed_again > 0);
    field.node(2).bench.plane.note_congestion(true);
    assert_eq!(field.user(SMF, 9, [10, 46, 0, 9]), Err(Cause::CONGESTION));
}

#[test]
fn a_node_that_does_not_answer_a_new_session_gives_way() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.node(1).is_reached = false;
    let request = |nth: u8| {
        Message::SessionEstablishmentRequest(SessionEstablishmentRequest {
            fseid: FSeid::at(nth.into(), address(SMF)),
            ..session(peer(SMF), [10, 46, 0, nth])
        })
    };
    let lost = (0..40).find(|nth| field.ask(SMF, Some(0), &request(*nth)).is_empty()).unwrap();
    let sequence = field.sequence;
    field.wait(5 * SECOND);
    let answers: Vec<_> = field.told.drain(..).collect();
    assert_eq!(answers.len(), 1, "{lost}");
    let (header, message) = parsed(&answers[0].octets);
    assert_eq!((header.sequence, message.cause()), (sequence, Some(Cause::ACCEPTED)));
    // No new session goes there any more.
    for nth in 41..44 {
        assert_eq!(field.user(SMF, nth.into(), [10, 46, 0, nth]).map(of), Ok(2));
    }
}

#[test]
fn sets_and_applications_are_of_all_nodes() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let application = PfdManagementRequest {
        applications: vec![ApplicationPfds {
            application: crate::codec::element::Text(b"video"),
            contexts: vec![PfdContext {
                contents: vec![crate::codec::element::PfdContents {
                    descriptions: vec![crate::codec::element::Text(
                        b"permit out ip from 192.0.2.1 to assigned",
                    )],
                    ..Default::default()
                }],
                refused: None,
            }],
            refused: None,
        }],
        ..Default::default()
    };
    let application = Message::PfdManagementRequest(application);
    assert_eq!(field.answered(SMF, None, &application), Cause::ACCEPTED);
    // One that joins later knows it as well.
    field.nodes.insert(3, Field::new(3).nodes.remove(&3).unwrap());
    field.meet();
    field.wait(2 * SECOND);
    let set = crate::codec::element::FqCsid {
        node: crate::codec::element::NodeAddress::Address(address(SMF)),
        identifiers: vec![5],
    };
    for number in 1..=3_u8 {
        let mut request = session(peer(SMF), [10, 45, number, 1]);
        request.pdrs[0].pdi.application = Some(crate::codec::element::Text(b"video"));
        request.sets = vec![set.clone()];
        let seid = field.establish(SMF, request).unwrap();
        assert_eq!(of(seid), u16::from(number));
    }
    let delete = Message::SessionSetDeletionRequest(SessionSetDeletionRequest {
        node: NodeId::Address(address(SMF)),
        sets: vec![set],
        refused: None,
    });
    // As long as a node is silent, its sessions stay.
    field.node(2).is_reached = false;
    field.wait(5 * SECOND);
    assert_eq!(field.answered(SMF, None, &delete), Cause::SYSTEM_FAILURE);
    field.node(2).is_reached = true;
    field.wait(5 * SECOND);
    assert_eq!(field.answered(SMF, None, &delete), Cause::ACCEPTED);
    field.wait(STEP);
    assert_eq!(field.sessions(), [0, 0, 0]);
}

#[test]
fn load_is_that_of_all_nodes() {
    let mut field = Field::new(2);
    let request = AssociationSetupRequest {
        node: NodeId::Address(address(SMF)),
        recovery: Time(1),
        cp_features: Some(crate::codec::element::CpFeatures::LOAD),
        ..Default::default()
    };
    let request = Message::AssociationSetupRequest(request);
    assert_eq!(field.answered(SMF, None, &request), Cause::ACCEPTED);
    let mut loads: Vec<LoadControl> = Vec::new();
    for nth in 0..4 {
        let request = session(peer(SMF), [10, 45, 1, nth]);
        let out = field.ask(SMF, Some(0), &Message::SessionEstablishmentRequest(request));
        let Message::SessionEstablishmentResponse(response) = parsed(&out[0]).1 else { panic!() };
        loads.extend(response.load);
    }
    let metrics: Vec<_> = loads.iter().map(|load| load.metric).collect();
    // Each is told what there was before.
    assert_eq!(metrics, [0, 6, 12, 18]);
    assert!(loads.windows(2).all(|two| two[0].sequence < two[1].sequence));
}
