//! What a plane does with packets when its postures change: what waited leaves first,
//! forwarded packets before fresh ones, and what belongs to no tunnel is dropped.

use weft_mobility_protocol::gate::{Bounds, Policy};
use weft_mobility_protocol::plane::{
    Action, AnchorPlane, DropReason, Limits, Origin, StationPlane,
};
use weft_mobility_protocol::{
    AnchorPosture, Direction, Epoch, Incarnation, Leg, NodeId, Posture, Treatment, User, Ways,
};

const USER: User = User(7);
const PEER: NodeId = NodeId(2);
const OWN: Epoch = Epoch(3);
const LINK: Epoch = Epoch(4);

fn limits(policy: Policy) -> Limits {
    let bounds = |packets| Bounds { packets, bytes: 10_000 };
    Limits { user: bounds(3), node: bounds(5), policy }
}

fn posture(fresh: Treatment, forwarded: Treatment) -> Posture {
    let (fresh, forwarded) = (Ways::both(fresh), Ways::both(forwarded));
    Posture { epoch: OWN, link: LINK, fresh, forwarded }
}

fn rest(plane: &mut StationPlane<u32>) -> Vec<Action<u32>> {
    std::iter::from_fn(|| plane.next(USER)).collect()
}

#[test]
fn what_waited_leaves_forwarded_first() {
    let mut plane = StationPlane::new(limits(Policy::DropNewest));
    plane.steer(USER, posture(Treatment::Hold, Treatment::Hold));
    let mut down = |origin, packet| plane.arrive((USER, Direction::Downlink), origin, packet, 1);
    assert_eq!(down(Origin::Anchor(OWN), 10), Action::Wait { first: true });
    assert_eq!(down(Origin::Anchor(OWN), 11), Action::Wait { first: false });
    // No gate waits for an End Marker behind forwarded packets.
    assert_eq!(down(Origin::Station(LINK), 1), Action::Wait { first: false });
    assert_eq!(down(Origin::Station(LINK), 2), Action::Wait { first: false });
    assert_eq!(plane.waiting(USER), 4);
    assert_eq!(rest(&mut plane), []);

    plane.steer(USER, posture(Treatment::Hold, Treatment::Process));
    assert_eq!(rest(&mut plane), [Action::Process(1, OWN), Action::Process(2, OWN)]);
    plane.steer(USER, posture(Treatment::Forward(PEER), Treatment::Process));
    let back = [10, 11].map(|packet| Action::Forward(packet, PEER, LINK));
    assert_eq!(rest(&mut plane), back);
    assert_eq!((plane.waiting(USER), plane.used().packets), (0, 0));
}

#[test]
fn tunnels_that_are_over_are_told_apart() {
    let mut plane = StationPlane::new(limits(Policy::DropNewest));
    let whose = (USER, Direction::Downlink);
    let none = plane.arrive(whose, Origin::Anchor(OWN), 1, 1);
    assert_eq!(none, Action::Drop(1, DropReason::NoOwner));
    plane.steer(USER, posture(Treatment::Process, Treatment::Process));
    for (origin, right) in [
        (Origin::Anchor(OWN), true),
        (Origin::Anchor(LINK), false),
        (Origin::Station(LINK), true),
        (Origin::Station(OWN), false),
    ] {
        let expected = match right {
            true => Action::Process(1, OWN),
            false => Action::Drop(1, DropReason::StaleEpoch),
        };
        assert_eq!(plane.arrive(whose, origin, 1, 1), expected, "{origin:?}");
    }
    let radio = plane.arrive((USER, Direction::Uplink), Origin::Radio, 1, 1);
    assert_eq!(radio, Action::Process(1, OWN));
}

#[test]
fn bounds_are_of_the_gate_and_of_the_node() {
    for (policy, full) in [(Policy::DropNewest, 3), (Policy::DropOldest, 0)] {
        let mut plane = StationPlane::new(limits(policy));
        plane.steer(USER, posture(Treatment::Hold, Treatment::Hold));
        let up = (USER, Direction::Uplink);
        for packet in 0..3 {
            plane.arrive(up, Origin::Radio, packet, 1);
        }
        let dropped = plane.arrive(up, Origin::Radio, 3, 1);
        assert_eq!(dropped, Action::Drop(full, DropReason::GateFull));
        // Another gate has room for the node's last two.
        let last = [4, 5, 6].map(|packet| plane.arrive(up, Origin::Station(LINK), packet, 1));
        assert!(matches!(last[1], Action::Wait { .. }), "{last:?}");
        assert!(matches!(last[2], Action::Drop(_, DropReason::GateFull)), "{last:?}");
        let mut left = 0;
        plane.discard(USER, |_| left += 1);
        assert_eq!((left, plane.used().packets, plane.posture(USER)), (5, 0, None));
    }
}

#[test]
fn an_anchor_holds_the_next_way_until_it_opens() {
    let leg = |epoch| Leg { node: PEER, incarnation: Incarnation(1), epoch };
    let mut plane = AnchorPlane::new(limits(Policy::DropNewest));
    assert_eq!(plane.downlink(USER), Err(DropReason::NoOwner));
    let closed =
        AnchorPosture { downlink: Some(leg(OWN)), accept: Some(OWN), next: Some((LINK, false)) };
    plane.steer(USER, closed);
    assert_eq!(plane.uplink(USER, LINK, 10, 1), Action::Wait { first: true });
    assert_eq!(plane.uplink(USER, LINK, 11, 1), Action::Wait { first: false });
    assert_eq!(plane.uplink(USER, OWN, 1, 1), Action::Pass(1));
    assert_eq!(plane.uplink(USER, Epoch(9), 1, 1), Action::Drop(1, DropReason::StaleEpoch));
    assert_eq!(plane.next(USER), None);
    plane.steer(USER, AnchorPosture { next: Some((LINK, true)), ..closed });
    assert_eq!(plane.next(USER), Some(Action::Pass(10)));
    // The move is given up.
    plane.steer(USER, AnchorPosture { next: None, ..closed });
    assert_eq!(plane.next(USER), Some(Action::Drop(11, DropReason::StaleEpoch)));
    assert_eq!((plane.next(USER), plane.used().packets), (None, 0));
    assert_eq!(plane.downlink(USER), Ok(leg(OWN)));
}
