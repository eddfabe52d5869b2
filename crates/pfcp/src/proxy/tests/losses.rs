//! Nodes, control planes and controllers that die.

use super::*;
use crate::codec::element::NodeAddress;
use crate::codec::message::{
    AssociationReleaseRequest, SessionDeletionRequest, SessionSetDeletionRequest,
};

fn delete() -> Message<'static> {
    Message::SessionDeletionRequest(SessionDeletionRequest { refused: None })
}

/// Which control planes were told that the sessions of which nodes are gone.
fn losses(field: &mut Field) -> Vec<(IpAddr, u16)> {
    let told = std::mem::take(&mut field.told);
    let mut all = Vec::new();
    for datagram in told {
        if let Message::SessionSetDeletionRequest(SessionSetDeletionRequest {
            node, sets, ..
        }) = parsed(&datagram.octets).1
        {
            assert_eq!(node, NodeId::Address(address(VIP)));
            assert_eq!(sets[0].node, NodeAddress::Address(address(VIP)));
            all.extend(sets[0].identifiers.iter().map(|number| (datagram.to.ip(), *number)));
        }
    }
    all
}

#[test]
fn sessions_say_which_node_they_end_with() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let request = Message::SessionEstablishmentRequest(session(peer(SMF), [10, 45, 2, 1]));
    let out = field.ask(SMF, Some(0), &request);
    let expected = field.proxy.set_of(2, address(SMF));
    assert_eq!(sets(&out[0]), [expected]);
}

#[test]
fn a_node_that_starts_anew_is_told_of_and_gets_sessions_again() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.associate(OTHER);
    let recovery = field.proxy.recovery;
    let kept = field.user(SMF, 1, [10, 45, 1, 1]).unwrap();
    let gone = field.user(SMF, 2, [10, 45, 2, 1]).unwrap();
    field.told.clear();
    field.restart(2);
    field.wait(2 * SECOND);
    assert_eq!(losses(&mut field), [(address(SMF), 2), (address(OTHER), 2)]);
    assert_eq!(field.answered(SMF, Some(gone), &delete()), Cause::SESSION_NOT_FOUND);
    assert_eq!(of(field.user(SMF, 3, [10, 45, 2, 1]).unwrap()), 2);
    assert_eq!(field.answered(SMF, Some(kept), &delete()), Cause::ACCEPTED);
    field.wait(20 * SECOND);
    assert_eq!(losses(&mut field), []);
    assert_eq!(field.proxy.recovery, recovery);
}

/// Before all control planes know, a node gets no session: it would have the number of those
/// that are to be deleted.
#[test]
fn no_session_comes_before_a_loss_is_told() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.user(SMF, 1, [10, 45, 2, 1]).unwrap();
    field.answering.clear();
    field.restart(2);
    field.wait(SECOND + 2 * STEP);
    assert_eq!(field.user(SMF, 2, [10, 45, 2, 2]), Err(Cause::NO_RESOURCES));
    assert_eq!(field.user(SMF, 3, [10, 45, 1, 2]).map(of), Ok(1));
    // A control plane that never answers does not keep it for ever.
    field.wait(5 * SECOND);
    assert_eq!(field.user(SMF, 2, [10, 45, 2, 2]).map(of), Ok(2));
}

#[test]
fn a_node_that_is_silent_for_its_lease_is_given_up_and_comes_back_empty() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let gone = field.user(SMF, 1, [10, 45, 2, 1]).unwrap();
    field.told.clear();
    field.node(2).is_reached = false;
    field.wait(6 * SECOND);
    assert_eq!(losses(&mut field), [], "it may come back");
    field.wait(8 * SECOND);
    assert_eq!(losses(&mut field), [(address(SMF), 2)]);
    assert_eq!(field.answered(SMF, Some(gone), &delete()), Cause::SESSION_NOT_FOUND);
    assert_eq!(field.sessions(), [0, 1]);
    // It was cut off, and carries packets of a session that is no more. Another controller
    // knows that as well.
    field.fail_over();
    field.node(2).is_reached = true;
    field.wait(5 * SECOND);
    assert_eq!(field.sessions(), [0, 0]);
    assert_eq!(field.user(SMF, 2, [10, 45, 2, 1]).map(of), Ok(2));
}

/// A node that is taken out is lost with its sessions. One that carries on with them, and is a node
/// again, lets them go before it gets others.
#[test]
fn a_node_that_is_taken_out_and_put_in_again_is_empty() {
    for fails_over in [false, true] {
        let mut field = Field::new(2);
        field.associate(SMF);
        let gone = field.user(SMF, 1, [10, 45, 2, 1]).unwrap();
        field.told.clear();
        let node = field.nodes.remove(&2).unwrap();
        field.meet();
        field.wait(SECOND);
        assert_eq!(losses(&mut field), [(address(SMF), 2)]);
        assert_eq!(field.answered(SMF, Some(gone), &delete()), Cause::SESSION_NOT_FOUND);
        if fails_over {
            field.fail_over();
            field.wait(SECOND);
            assert_eq!(losses(&mut field), [], "all have been told");
        }
        assert_eq!(node.bench.agent.len(), 1);
        field.nodes.insert(2, node);
        field.meet();
        field.wait(3 * SECOND);
        assert_eq!(field.sessions(), [0, 0]);
        assert_eq!(field.user(SMF, 2, [10, 45, 2, 1]).map(of), Ok(2));
    }
}

/// A short silence is none: nothing is told, and sessions are as they were.
#[test]
fn a_node_that_comes_back_in_time_has_its_sessions() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let seid = field.user(SMF, 1, [10, 45, 2, 1]).unwrap();
    field.told.clear();
    field.node(2).is_reached = false;
    field.wait(6 * SECOND);
    field.node(2).is_reached = true;
    field.wait(3 * SECOND);
    assert_eq!(losses(&mut field), []);
    assert_eq!(field.answered(SMF, Some(seid), &delete()), Cause::ACCEPTED);
}

/// A node that lost its sessions while no controller led is found out by the next one.
#[test]
fn a_loss_between_two_controllers_is_told() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.user(SMF, 1, [10, 45, 2, 1]).unwrap();
    field.told.clear();
    field.restart(2);
    field.fail_over();
    field.wait(2 * SECOND);
    assert_eq!(losses(&mut field), [(address(SMF), 2)]);
    assert_eq!(field.user(SMF, 2, [10, 45, 2, 1]).map(of), Ok(2));
    // So is a node that is none of the site any more.
    field.nodes.remove(&1);
    field.fail_over();
    field.wait(2 * SECOND);
    assert_eq!(losses(&mut field), [(address(SMF), 1)]);
}

#[test]
fn sessions_outlive_controllers() {
    let mut field = Field::new(3);
    field.associate(SMF);
    let recovery = field.proxy.recovery;
    let seids: Vec<_> = (1..=3)
        .map(|number| field.user(SMF, number.into(), [10, 45, number, 1]).unwrap())
        .collect();
    field.fail_over();
    field.wait(SECOND);
    assert_eq!(field.proxy.recovery, recovery);
    assert_eq!(field.sessions(), [1, 1, 1]);
    for seid in seids {
        assert_eq!(field.answered(SMF, Some(seid), &delete()), Cause::ACCEPTED);
    }
}

#[test]
fn a_control_plane_that_is_lost_is_lost_to_all_nodes() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.associate(OTHER);
    field.user(SMF, 1, [10, 45, 1, 1]).unwrap();
    field.user(SMF, 2, [10, 45, 2, 1]).unwrap();
    field.user(OTHER, 3, [10, 45, 2, 2]).unwrap();
    field.answering.remove(&address(SMF));
    // Heartbeats of the proxy and of nodes, and what sessions outlive their control plane by.
    field.wait(120 * SECOND);
    assert_eq!(field.sessions(), [0, 1]);
    // One that starts anew has no sessions, at no node.
    field.answering.insert(address(OTHER), 2);
    assert_eq!(field.answered(OTHER, None, &set_up(address(OTHER), 2)), Cause::ACCEPTED);
    field.wait(STEP);
    assert_eq!(field.sessions(), [0, 0]);
}

#[test]
fn an_association_that_ends_ends_everywhere() {
    let mut field = Field::new(2);
    field.associate(SMF);
    field.user(SMF, 1, [10, 45, 1, 1]).unwrap();
    field.user(SMF, 2, [10, 45, 2, 1]).unwrap();
    let node = NodeId::Address(address(SMF));
    let release = AssociationReleaseRequest { node, refused: None };
    let release = Message::AssociationReleaseRequest(release);
    assert_eq!(field.answered(SMF, None, &release), Cause::ACCEPTED);
    field.wait(STEP);
    assert_eq!(field.sessions(), [0, 0]);
    assert_eq!(field.user(SMF, 3, [10, 45, 1, 1]), Err(Cause::NO_ASSOCIATION));
    field.fail_over();
    assert_eq!(field.user(SMF, 4, [10, 45, 1, 1]), Err(Cause::NO_ASSOCIATION));
}

#[test]
fn without_nodes_there_is_no_association() {
    let mut field = Field::new(2);
    for number in [1, 2] {
        field.node(number).is_reached = false;
    }
    field.wait(6 * SECOND);
    assert!(field.ask(SMF, None, &set_up(address(SMF), 1)).is_empty());
    field.wait(4 * SECOND);
    let told: Vec<_> = field.told.drain(..).collect();
    assert_eq!(parsed(&told[0].octets).1.cause(), Some(Cause::NO_RESOURCES));
    field.node(1).is_reached = true;
    field.wait(3 * SECOND);
    field.associate(SMF);
}

/// A proxy that hears nothing is cut off itself: no node is given up for that.
#[test]
fn a_proxy_that_is_cut_off_gives_no_node_up() {
    let mut field = Field::new(2);
    field.associate(SMF);
    let seid = field.user(SMF, 1, [10, 45, 2, 1]).unwrap();
    field.told.clear();
    let answering = std::mem::take(&mut field.answering);
    field.node(1).is_reached = false;
    field.node(2).is_reached = false;
    field.fail_over();
    field.wait(30 * SECOND);
    field.node(1).is_reached = true;
    field.answering = answering;
    field.wait(5 * SECOND);
    field.node(2).is_reached = true;
    field.wait(5 * SECOND);
    assert_eq!(losses(&mut field), []);
    assert_eq!(field.answered(SMF, Some(seid), &delete()), Cause::ACCEPTED);
}
