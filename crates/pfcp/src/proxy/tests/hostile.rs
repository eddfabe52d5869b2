//! What anything in the network may send, and a node that errs.

use proptest::prelude::*;

use super::*;
use crate::codec::message::{MessageType, SessionDeletionRequest};

#[test]
fn strangers_are_not_answered() {
    let mut field = Field::new(2);
    for from in ["192.0.2.1", "10.0.0.77", "fd00:1::1"] {
        assert!(field.ask(from, None, &set_up(address(from), 1)).is_empty());
    }
    assert_eq!(field.proxy.view().counts.unlisted, 3);
    assert!(field.proxy.view().peers.is_empty());
}

#[test]
fn a_node_id_belongs_to_its_owner() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let seid = field.user(SMF, 1, [10, 45, 1, 1]).unwrap();
    // Another sender says it is the same control plane.
    assert_eq!(field.answered(OTHER, None, &set_up(address(SMF), 2)), Cause::REJECTED);
    let delete = Message::SessionDeletionRequest(SessionDeletionRequest { refused: None });
    assert_eq!(field.answered(OTHER, Some(seid), &delete), Cause::SESSION_NOT_FOUND);
    field.associate(OTHER);
    assert_eq!(field.answered(OTHER, Some(seid), &delete), Cause::SESSION_NOT_FOUND);
    assert_eq!(field.answered(SMF, Some(seid), &delete), Cause::ACCEPTED);
}

#[test]
fn seids_of_no_node_are_refused() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let delete = Message::SessionDeletionRequest(SessionDeletionRequest { refused: None });
    for seid in [0, 1, 3 << 48, u64::MAX, 1 << 48, 2 << 48 | 77] {
        assert_eq!(field.answered(SMF, Some(seid), &delete), Cause::SESSION_NOT_FOUND, "{seid:x}");
    }
    assert_eq!(field.proxy.view().counts.no_node, 4);
}

#[test]
fn associations_are_bounded() {
    let mut field = Field::new(1);
    for nth in 1..=4 {
        field.associate(&format!("10.0.0.{nth}"));
    }
    let fifth = set_up(address("10.0.0.5"), 1);
    assert_eq!(field.answered("10.0.0.5", None, &fifth), Cause::NO_RESOURCES);
    assert_eq!(field.proxy.view().peers.len(), 4);
}

#[test]
fn a_node_that_errs_harms_its_own_sessions() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let node = SocketAddr::new(node_address(1), 8805);
    let request = Message::SessionEstablishmentRequest(session(peer(SMF), [10, 45, 1, 1]));
    field.node(1).is_reached = false;
    assert!(field.ask(SMF, Some(0), &request).is_empty());
    // It answers with a SEID that is another node's.
    let header = Header { seid: Some(0x77), sequence: field.sequence, priority: None };
    let response = crate::codec::message::SessionEstablishmentResponse {
        cause: Cause::ACCEPTED,
        fseid: Some(FSeid::at(2 << 48 | 5, node_address(1))),
        ..Default::default()
    };
    let mut plain = Vec::new();
    Message::SessionEstablishmentResponse(response).emit(&header, &mut plain);
    let lie = Forwarded { peer: peer(SMF), node: 1 }.wrap(&plain).unwrap();
    field.proxy.receive(field.now, node, &lie);
    field.carry();
    let told: Vec<_> = field.told.drain(..).collect();
    assert_eq!(parsed(&told[0].octets).1.cause(), Some(Cause::SYSTEM_FAILURE));
    assert_eq!(field.proxy.view().counts.wrong_seids, 1);
    // It speaks as another node, or to one that is no control plane.
    for (peer, number) in [(peer(SMF), 2), (peer("192.0.2.9"), 1), (peer("10.0.1.2"), 1)] {
        let lie = Forwarded { peer, node: number }.wrap(&plain).unwrap();
        field.proxy.receive(field.now, node, &lie);
    }
    field.carry();
    assert!(field.told.is_empty());
    assert_eq!(field.proxy.view().counts.unlisted, 3);
}

#[test]
fn responses_to_nothing_change_nothing() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let view = field.proxy.view();
    for kind in MessageType::ALL.iter().filter(|kind| !kind.is_request()) {
        let seid = kind.has_seid().then_some(1);
        let header = Header { seid, sequence: 12_345, priority: None };
        let plain = Frame { header, message: *kind as u8, body: &[0, 19, 0, 1, 1] }.alone();
        assert!(field.send(SMF, &plain).is_empty(), "{kind:?}");
        // The same of a node, for itself and as answer to the proxy.
        let node = SocketAddr::new(node_address(1), 8805);
        field.proxy.receive(field.now, node, &plain);
        let own = SocketAddr::new(address(SMF), 0);
        let own = Forwarded { peer: own, node: 1 }.wrap(&plain).unwrap();
        field.proxy.receive(field.now, node, &own);
    }
    let now = field.proxy.view();
    assert_eq!((now.nodes, now.peers), (view.nodes, view.peers));
}

/// An Association Update Request says no more than its elements.
#[test]
fn a_node_goes_on_unless_it_says_that_it_stops() {
    use crate::codec::element::AssociationRelease;
    use crate::codec::message::AssociationUpdateRequest;
    let mut field = Field::new(1);
    field.associate(SMF);
    let node = SocketAddr::new(node_address(1), 8805);
    for (release, expected) in [(None, "up"), (Some(AssociationRelease::SARR), "leaving")] {
        let request = AssociationUpdateRequest { release, ..AssociationUpdateRequest::default() };
        let header = Header { seid: None, sequence: 5, priority: None };
        let mut plain = Vec::new();
        Message::AssociationUpdateRequest(request).emit(&header, &mut plain);
        let wrapped = Forwarded { peer: peer(SMF), node: 1 }.wrap(&plain).unwrap();
        field.proxy.receive(field.now, node, &wrapped);
        field.carry();
        assert_eq!(field.proxy.view().nodes[0].state, expected);
    }
    assert_eq!(field.user(SMF, 1, [10, 45, 1, 1]), Err(Cause::NO_RESOURCES));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any octets, of a control plane and of a node: nothing panics, nothing is left over, and
    /// what is answered is answered once.
    #[test]
    fn any_octets_are_borne(
        kind in 0_u8..64,
        seid: Option<u64>,
        body in proptest::collection::vec(any::<u8>(), 0..64),
        octets in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut field = Field::new(2);
        field.associate(SMF);
        let header = Header { seid, sequence: 9, priority: None };
        let plain = Frame { header, message: kind, body: &body }.alone();
        let node = SocketAddr::new(node_address(1), 8805);
        for datagram in [&plain, &octets] {
            field.proxy.receive(field.now, peer(SMF), datagram);
            field.carry();
            let wrapped = Forwarded { peer: peer(SMF), node: 1 }.wrap(datagram);
            for datagram in [Some(datagram.clone()), wrapped].into_iter().flatten() {
                field.proxy.receive(field.now, node, &datagram);
                field.carry();
            }
        }
        prop_assert!(field.told.len() <= 8);
        field.told.clear();
        prop_assert!(field.user(SMF, 1, [10, 45, 1, 1]).is_ok());
    }
}
