//! Guaranteed bit rates are given out up to a limit.

use super::*;

const SMF: &str = "10.0.0.1";

fn bench() -> Bench {
    let mut bench = Bench::keeping_of(PfcpPlan { guaranteed: [Some(100), Some(1000)], ..plan() });
    bench.associate(peer(SMF));
    bench
}

fn qer(uplink: u64, downlink: u64) -> CreateQer {
    CreateQer { id: QerId(1), gbr: Some(Rate { uplink, downlink }), ..Default::default() }
}

fn with(user: u8, qers: Vec<CreateQer>) -> Message<'static> {
    let request = session(peer(SMF), [10, 46, 0, user]);
    Message::SessionEstablishmentRequest(SessionEstablishmentRequest { qers, ..request })
}

fn cause(bench: &mut Bench, seid: u64, request: &Message<'_>) -> Cause {
    bench.refusal(peer(SMF), Some(seid), request).0
}

fn change(uplink: u64, downlink: u64) -> Message<'static> {
    let update =
        UpdateQer { id: QerId(1), gbr: Some(Rate { uplink, downlink }), ..Default::default() };
    let request = SessionModificationRequest { update_qers: vec![update], ..Default::default() };
    Message::SessionModificationRequest(request)
}

fn seid(bench: &mut Bench, user: u8, uplink: u64, downlink: u64) -> u64 {
    let octets = bench.ask(peer(SMF), Some(0), &with(user, vec![qer(uplink, downlink)]));
    let Message::SessionEstablishmentResponse(response) = parsed(&octets).1 else {
        panic!("a response")
    };
    response.fseid.expect("it is admitted").seid
}

#[test]
fn a_rate_is_given_once() {
    let mut bench = bench();
    let first = seid(&mut bench, 1, 60, 600);
    // Each direction has a limit of its own, and a session without a rate needs none.
    for (uplink, downlink) in [(41, 0), (0, 401), (u64::MAX >> 24, 0)] {
        let refused = cause(&mut bench, 0, &with(2, vec![qer(uplink, downlink)]));
        assert_eq!(refused, Cause::NO_RESOURCES, "{uplink} {downlink}");
    }
    assert_eq!(cause(&mut bench, 0, &with(3, Vec::new())), Cause::ACCEPTED);
    let second = seid(&mut bench, 2, 40, 400);
    // What is given back can be had again.
    assert_eq!(cause(&mut bench, second, &change(50, 400)), Cause::NO_RESOURCES);
    assert_eq!(cause(&mut bench, first, &change(50, 700)), Cause::NO_RESOURCES);
    assert_eq!(cause(&mut bench, first, &change(50, 500)), Cause::ACCEPTED);
    assert_eq!(cause(&mut bench, second, &change(50, 500)), Cause::ACCEPTED);
    let deletion = Message::SessionDeletionRequest(Default::default());
    assert_eq!(cause(&mut bench, first, &deletion), Cause::ACCEPTED);
    seid(&mut bench, 4, 50, 500);
    assert_eq!(cause(&mut bench, 0, &with(5, vec![qer(1, 0)])), Cause::NO_RESOURCES);
}

#[test]
fn what_is_refused_takes_no_rate() {
    let mut bench = bench();
    let first = seid(&mut bench, 1, 60, 600);
    for request in [with(2, vec![qer(40, 400)]), change(100, 1000), change(10, 100)] {
        let of_session = matches!(request, Message::SessionModificationRequest(_));
        bench.error = Some(SessionError::NoRoom);
        let seid = if of_session { first } else { 0 };
        assert_eq!(cause(&mut bench, seid, &request), Cause::NO_RESOURCES);
    }
    assert_eq!(cause(&mut bench, 0, &with(3, vec![qer(41, 0)])), Cause::NO_RESOURCES);
    seid(&mut bench, 4, 40, 400);
}

#[test]
fn rates_are_those_of_the_last_life() {
    let mut bench = bench();
    let first = seid(&mut bench, 1, 100, 1000);
    bench.restart(3);
    assert_eq!(cause(&mut bench, 0, &with(2, vec![qer(1, 0)])), Cause::NO_RESOURCES);
    assert_eq!(cause(&mut bench, first, &change(0, 0)), Cause::ACCEPTED);
    seid(&mut bench, 3, 100, 1000);
}
