//! FAULTS rows 48 and 49: requests that are repeated, and those for which there is no room.

use super::*;

const SMF: &str = "10.0.0.1";

fn octets(sequence: u32, seid: Option<u64>, message: &Message<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    message.emit(&Header { seid, sequence, priority: None }, &mut octets);
    octets
}

#[test]
fn fault_49_a_repeated_establishment_is_one_session() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    let request = Message::SessionEstablishmentRequest(session(peer(SMF), [10, 45, 0, 1]));
    let request = octets(50, Some(0), &request);
    let first = bench.octets(peer(SMF), &request);
    let second = bench.octets(peer(SMF), &request);
    assert_eq!(first, second, "the same response");
    assert_eq!(bench.agent.len(), 1);
    // While the first is worked on, a repetition is not answered.
    let request = Message::SessionEstablishmentRequest(session(peer(SMF), [10, 45, 0, 2]));
    let request = octets(51, Some(0), &request);
    bench.plane.receive(bench.now, peer(SMF), &request);
    bench.plane.receive(bench.now, peer(SMF), &request);
    bench.work();
    assert_eq!(bench.plane.take_datagrams().len(), 1);
    assert_eq!(bench.agent.len(), 2);
    assert_eq!(bench.plane.view().counts.repeated, 2);
}

#[test]
fn fault_49_a_stale_deletion_deletes_once() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    let seid = bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    let deletion = octets(60, Some(seid), &Message::SessionDeletionRequest(Default::default()));
    let first = bench.octets(peer(SMF), &deletion);
    assert_eq!(bench.octets(peer(SMF), &deletion), first);
    // Long after, it is a request about a session that is not there.
    bench.now += 100 * SECOND;
    let late = bench.octets(peer(SMF), &deletion);
    let (_, message) = parsed(&late[0].octets);
    let Message::SessionDeletionResponse(response) = message else { panic!("{message:?}") };
    assert_eq!(response.cause, Cause::SESSION_NOT_FOUND);
}

#[test]
fn fault_48_transactions_are_bounded() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    let deletion = Message::SessionDeletionRequest(Default::default());
    for sequence in 0..10_000 {
        bench.octets(peer(SMF), &octets(sequence, Some(7), &deletion));
    }
    assert!(bench.plane.view().transactions[0] <= 64);
    // Requests that wait for the agent fill the table; others are not answered then.
    let mut bench = Bench::of(PfcpPlan { transactions: 4, ..plan() });
    bench.associate(peer(SMF));
    bench.now += 100 * SECOND;
    for number in 0..8 {
        let request = session(peer(SMF), [10, 46, 0, number]);
        let request = Message::SessionEstablishmentRequest(request);
        bench.plane.receive(bench.now, peer(SMF), &octets(number.into(), Some(0), &request));
    }
    bench.work();
    assert_eq!(bench.plane.take_datagrams().len(), 4);
    assert_eq!(bench.plane.view().counts.no_transaction, 4);
}

#[test]
fn changes_of_one_session_follow_each_other() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    let seid = bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    for (number, action) in [(70, ApplyAction::DROP), (71, ApplyAction::BUFF)] {
        let far = UpdateFar { id: FarId(2), action: Some(action), ..Default::default() };
        let request = SessionModificationRequest { update_fars: vec![far], ..Default::default() };
        let request = Message::SessionModificationRequest(request);
        bench.plane.receive(bench.now, peer(SMF), &octets(number, Some(seid), &request));
    }
    let deletion = Message::SessionDeletionRequest(Default::default());
    bench.plane.receive(bench.now, peer(SMF), &octets(72, Some(seid), &deletion));
    bench.work();
    let sequences: Vec<_> = bench
        .plane
        .take_datagrams()
        .iter()
        .map(|datagram| parsed(&datagram.octets).0.sequence)
        .collect();
    assert_eq!(sequences, [70, 71, 72]);
    assert_eq!(bench.agent.len(), 0);
}

#[test]
fn responses_from_elsewhere_are_not_heard() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    let out = bench.wait(10 * SECOND);
    let (header, _) = parsed(&out[0].octets);
    let message = Heartbeat { recovery: Time(99), ..Default::default() };
    let mut forged = Vec::new();
    Message::HeartbeatResponse(message).emit(&header, &mut forged);
    assert_eq!(bench.octets(peer("10.0.0.66"), &forged), []);
    assert!(bench.plane.view().associations[0].up);
    assert_eq!(bench.plane.view().counts.unexpected, 1);
}
