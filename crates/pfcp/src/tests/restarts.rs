//! Nodes that die and go on with what they have kept (TS 23.527 §4.3).

use proptest::prelude::*;
use weft_functions::session::rules::{self, Trigger, Triggers};
use weft_functions::session::usage::Volume;

use super::*;

const SMF: &str = "10.0.0.1";

fn octets(sequence: u32, seid: Option<u64>, message: &Message<'_>) -> Vec<u8> {
    let mut octets = Vec::new();
    message.emit(&Header { seid, sequence, priority: None }, &mut octets);
    octets
}

fn recovery(bench: &mut Bench) -> u32 {
    let heartbeat = Heartbeat { recovery: Time(1), ..Heartbeat::default() };
    let heartbeat = Message::HeartbeatRequest(heartbeat);
    let answer = bench.ask(peer(SMF), None, &heartbeat);
    let Message::HeartbeatResponse(response) = parsed(&answer).1 else { panic!("a heartbeat") };
    response.recovery.0
}

fn measured() -> SessionEstablishmentRequest<'static> {
    let urr = CreateUrr {
        id: UrrId(1),
        method: MeasurementMethod::VOLUM,
        triggers: ReportingTriggers::VOLTH,
        ..Default::default()
    };
    let mut request = session(peer(SMF), [10, 45, 0, 1]);
    request.pdrs.iter_mut().for_each(|pdr| pdr.urrs = vec![UrrId(1)]);
    SessionEstablishmentRequest { urrs: vec![urr], ..request }
}

fn usage(sequence: u32, trigger: Trigger) -> Usage {
    Usage {
        urr: rules::UrrId(1),
        sequence,
        triggers: [trigger].into_iter().collect::<Triggers>(),
        volume: Volume { uplink_octets: 1000, uplink_packets: 1, ..Volume::default() },
        ..Usage::default()
    }
}

#[test]
fn a_node_that_keeps_nothing_says_so_by_its_time_stamp() {
    let mut bench = Bench::new();
    bench.associate(peer(SMF));
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    assert!(bench.plane.take_kept().is_empty());
    let before = recovery(&mut bench);
    bench.store = Store::default();
    bench.restart(9);
    assert_eq!(recovery(&mut bench), before + 9);
}

#[test]
fn sessions_and_associations_go_on() {
    let mut bench = Bench::keeping();
    bench.associate(peer(SMF));
    let seid = bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    let (before, rules) = (recovery(&mut bench), bench.agent[&seid].clone());
    bench.restart(9);
    // The peer hears at once that the node is there.
    let heartbeats = bench.wait(0);
    assert!(matches!(parsed(&heartbeats[0].octets).1, Message::HeartbeatRequest(_)));
    assert_eq!(recovery(&mut bench), before);
    assert_eq!((bench.agent[&seid].clone(), bench.plane.tunnels_in_use()), (rules, 1));
    // Another session gets another tunnel, and not the address of the first.
    let thief = bench.refusal(
        peer(SMF),
        Some(0),
        &Message::SessionEstablishmentRequest(session(peer("10.0.0.2"), [10, 45, 0, 2])),
    );
    assert_eq!(thief.0, Cause::NO_ASSOCIATION);
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 2]));
    assert_eq!(bench.plane.tunnels_in_use(), 2);
    // A control plane that has restarted in the meantime loses its sessions as ever.
    bench.restart(20);
    bench.ask(peer(SMF), None, &set_up(address(SMF), 2));
    bench.wait(1);
    assert_eq!((bench.agent.len(), bench.plane.tunnels_in_use()), (0, 0));
    bench.restart(30);
    assert_eq!(bench.agent.len(), 0);
}

#[test]
fn what_was_answered_is_answered_alike() {
    let mut bench = Bench::keeping();
    bench.associate(peer(SMF));
    let request = Message::SessionEstablishmentRequest(measured());
    let request = octets(50, Some(0), &request);
    let first = bench.octets(peer(SMF), &request);
    assert!(first[0].waits, "until it is durable");
    bench.restart(1);
    let again = bench.octets(peer(SMF), &request);
    assert_eq!((again, bench.agent.len()), (first, 1));
    let seid = *bench.agent.keys().next().unwrap();
    bench.usage.insert(seid, vec![usage(0, Trigger::Termination)]);
    let deletion = octets(51, Some(seid), &Message::SessionDeletionRequest(Default::default()));
    let first = bench.octets(peer(SMF), &deletion);
    bench.restart(2);
    assert_eq!(bench.octets(peer(SMF), &deletion), first, "with the last usage");
    assert!(bench.store.sessions.is_empty() && bench.store.reported.is_empty());
}

#[test]
fn a_report_that_is_not_answered_comes_again_with_its_number() {
    let mut bench = Bench::keeping();
    bench.associate(peer(SMF));
    let seid = bench.establish(peer(SMF), measured());
    let told = usage(4, Trigger::VolumeThreshold);
    let first =
        bench.event(SessionEvent::Usage { session: SessionId(seid), usage: vec![told], told: 1 });
    assert!(first[0].waits);
    let next = |bench: &Bench| bench.store.reported[&(SessionId(seid), UrrId(1))].1;
    assert_eq!(next(&bench), 5);
    bench.restart(7);
    let again = bench.wait(0);
    let again = again.iter().find(|one| parsed(&one.octets).0.seid.is_some()).unwrap();
    let ((header, again), (_, first)) = (parsed(&again.octets), parsed(&first[0].octets));
    assert_eq!(again, first);
    assert_eq!(next(&bench), 5);
    // Once it is answered it does not come any more.
    let response = SessionReportResponse { cause: Cause::ACCEPTED, ..Default::default() };
    let response = octets(header.sequence, Some(seid), &Message::SessionReportResponse(response));
    bench.octets(peer(SMF), &response);
    bench.restart(8);
    assert!(bench.wait(0).iter().all(|one| parsed(&one.octets).0.seid.is_none()));
}

#[test]
fn a_session_that_cannot_be_had_any_more_is_told() {
    let mut bench = Bench::keeping();
    bench.associate(peer(SMF));
    bench.establish(peer(SMF), session(peer(SMF), [10, 45, 0, 1]));
    let mut kept = bench.store.kept();
    kept.sessions[0].is_there = false;
    bench.plane = UserPlane::new(plan(), start(3));
    bench.plane.restore(0, kept);
    bench.store.keep(bench.plane.take_kept());
    let told = bench.wait(0);
    let told = told.iter().map(|one| parsed(&one.octets)).find(|one| one.0.seid == Some(0x77));
    let Some((_, Message::SessionReportRequest(request))) = told else { panic!("{told:?}") };
    assert_eq!(request.flags, Some(ReportRequestFlags::PSDBU));
    assert!(bench.store.sessions.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Requests in any order between restarts, of which some come before a change is durable:
    /// the rules that the node has are those that were accepted.
    #[test]
    fn accepted_changes_outlive_the_node(
        steps in proptest::collection::vec((0_u8..5, 0_u8..4, any::<bool>()), 1..40),
    ) {
        let mut bench = Bench::keeping();
        let from = peer(SMF);
        bench.associate(from);
        let first = recovery(&mut bench);
        // Of each session: its SEID, and the action of its downlink rule.
        let mut model: Vec<(u64, rules::Apply)> = Vec::new();
        for (number, (what, which, dies)) in steps.into_iter().enumerate() {
            let sequence = 1000 + number as u32;
            let at = usize::from(which);
            let (seid, message) = match (what, model.get(at).copied()) {
                (0, _) if model.len() < 4 => {
                    let request = session(from, [10, 46, 0, number as u8]);
                    (0, Message::SessionEstablishmentRequest(request))
                }
                (1 | 2, Some((seid, action))) => {
                    let action = match action {
                        rules::Apply::Drop => ApplyAction::BUFF,
                        _ => ApplyAction::DROP,
                    };
                    let far = UpdateFar { id: FarId(2), action: Some(action), ..Default::default() };
                    let request =
                        SessionModificationRequest { update_fars: vec![far], ..Default::default() };
                    (seid, Message::SessionModificationRequest(request))
                }
                (3, Some((seid, _))) => {
                    (seid, Message::SessionDeletionRequest(Default::default()))
                }
                (4, _) => {
                    bench.restart(number as u64 + 1);
                    prop_assert_eq!(recovery(&mut bench), first);
                    continue;
                }
                _ => continue,
            };
            let request = octets(sequence, Some(seid), &message);
            if dies {
                // Nothing of it is durable, and so nothing was answered.
                bench.plane.receive(bench.now, from, &request);
                bench.work();
                prop_assert!(bench.plane.take_datagrams().iter().all(|one| one.waits));
                bench.restart(number as u64 + 1);
            }
            let answer = bench.octets(from, &request);
            prop_assert_eq!(answer.len(), 1);
            let again = bench.octets(from, &request);
            prop_assert_eq!(&again, &answer);
            match parsed(&answer[0].octets).1 {
                Message::SessionEstablishmentResponse(response) => {
                    prop_assert!(response.cause.accepted());
                    model.push((response.fseid.unwrap().seid, rules::Apply::Forward));
                }
                Message::SessionModificationResponse(response) => {
                    prop_assert!(response.cause.accepted());
                    model[at].1 = match model[at].1 {
                        rules::Apply::Drop => rules::Apply::Buffer,
                        _ => rules::Apply::Drop,
                    };
                }
                Message::SessionDeletionResponse(response) => {
                    prop_assert!(response.cause.accepted());
                    model.remove(at);
                }
                other => panic!("{other:?}"),
            }
            prop_assert_eq!(bench.agent.len(), model.len());
            prop_assert_eq!(bench.plane.tunnels_in_use(), model.len());
            for (seid, action) in &model {
                let far = bench.agent[seid].fars.iter().find(|far| far.id == rules::FarId(2));
                prop_assert_eq!(far.map(|far| far.action), Some(*action));
            }
        }
    }
}
