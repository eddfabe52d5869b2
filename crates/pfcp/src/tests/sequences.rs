//! Random bytes and random messages in any order: an answer or none, and never a change by
//! halves.

use proptest::prelude::*;

use super::*;
use crate::codec::tests::strategy;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any messages at all, among them those about a session that there is. Every datagram that
    /// goes out can be read, and tunnels are held for no session that is not there.
    #[test]
    fn any_messages(
        messages in proptest::collection::vec((strategy::message(), 0_usize..4), 1..24),
        octets in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bench = Bench::new();
        let from = peer("10.0.0.1");
        bench.associate(from);
        let seid = bench.establish(from, session(from, [10, 45, 0, 1]));
        for (number, (message, kind)) in messages.iter().enumerate() {
            let seid = message.message_type().has_seid().then_some(if *kind == 0 { 0 } else { seid });
            let mut datagram = Vec::new();
            let header = Header { seid, sequence: 1000 + number as u32, priority: None };
            message.emit(&header, &mut datagram);
            for answer in bench.octets(from, &datagram) {
                parsed(&answer.octets);
            }
        }
        bench.octets(from, &octets);
        bench.wait(1);
        let view = bench.plane.view();
        prop_assert_eq!(view.sessions, bench.agent.len());
        if bench.agent.is_empty() {
            prop_assert_eq!(bench.plane.tunnels_in_use(), 0);
        }
    }

    /// Establishments, changes and deletions against a model: the rules that the agent has are
    /// those that were accepted.
    #[test]
    fn accepted_changes_are_what_the_agent_has(
        steps in proptest::collection::vec((0_u8..4, 0_u8..4, 0_u32..4), 1..40),
    ) {
        let mut bench = Bench::new();
        let from = peer("10.0.0.1");
        bench.associate(from);
        // Of each session: its SEID, and by FAR its action.
        let mut model: Vec<(u64, [Option<ApplyAction>; 4])> = Vec::new();
        for (what, which, far) in steps {
            let at = usize::from(which);
            match (what, model.get(at).copied()) {
                (0, _) if model.len() < 4 => {
                    let ue = [10, 46, 0, bench.commands.len() as u8];
                    let seid = bench.establish(from, session(from, ue));
                    let forward = Some(ApplyAction::FORW);
                    model.push((seid, [None, forward, forward, None]));
                }
                (1, Some((seid, fars))) => {
                    let known = fars[far as usize].is_some();
                    let update = UpdateFar {
                        id: FarId(far),
                        action: Some(ApplyAction::DROP),
                        ..Default::default()
                    };
                    // Another one that can be made stands in front of it.
                    let first = UpdateFar {
                        id: FarId(1),
                        action: Some(ApplyAction::BUFF),
                        ..Default::default()
                    };
                    let request = SessionModificationRequest {
                        update_fars: vec![first, update],
                        ..Default::default()
                    };
                    let request = Message::SessionModificationRequest(request);
                    let (cause, ..) = bench.refusal(from, Some(seid), &request);
                    prop_assert_eq!(cause.accepted(), known);
                    if known {
                        model[at].1[1] = Some(ApplyAction::BUFF);
                        model[at].1[far as usize] = Some(ApplyAction::DROP);
                    }
                }
                (2, Some((seid, fars))) => {
                    let far = CreateFar { id: FarId(far), ..to_core() };
                    let known = fars[far.id.0 as usize].is_some();
                    let request = SessionModificationRequest {
                        create_fars: vec![far.clone()],
                        ..Default::default()
                    };
                    let request = Message::SessionModificationRequest(request);
                    let (cause, ..) = bench.refusal(from, Some(seid), &request);
                    prop_assert_eq!(cause.accepted(), !known);
                    if !known {
                        model[at].1[far.id.0 as usize] = Some(ApplyAction::FORW);
                    }
                }
                (3, Some((seid, _))) => {
                    let request = Message::SessionDeletionRequest(Default::default());
                    let (cause, ..) = bench.refusal(from, Some(seid), &request);
                    prop_assert!(cause.accepted());
                    model.remove(at);
                }
                _ => {}
            }
            prop_assert_eq!(bench.agent.len(), model.len());
            prop_assert_eq!(bench.plane.tunnels_in_use(), model.len());
            for (seid, fars) in &model {
                let rules = &bench.agent[seid];
                prop_assert_eq!(rules.fars.len(), fars.iter().flatten().count());
                for far in &rules.fars {
                    let action = match far.action {
                        weft_functions::session::rules::Apply::Drop => ApplyAction::DROP,
                        weft_functions::session::rules::Apply::Forward => ApplyAction::FORW,
                        _ => ApplyAction::BUFF,
                    };
                    prop_assert_eq!(fars[far.id.0 as usize], Some(action));
                }
            }
        }
    }
}
