//! The checks can fail: each thing built wrong on purpose breaks a promise in one of
//! a few hundred runs, and the same seed breaks it again.

use weft_mobility_simulator::{Faults, Mutation, Promise, Scenario, run};

/// Seeds within which a mutation must be found.
const SEEDS: u64 = 400;

fn scenario(mutation: Mutation) -> Scenario {
    // Without faults wherever the mutation shows without.
    let mut faults = Faults::default();
    match mutation {
        Mutation::NoGateTimers | Mutation::ForgetRecords | Mutation::ForgetEpochs => {
            faults = Faults::ALL;
        }
        Mutation::IgnoreIncarnation
        | Mutation::SameIncarnation
        | Mutation::HideLostContexts
        | Mutation::TrustCheckpoints
        | Mutation::TrustRecords
        | Mutation::AnswerEarly => {
            faults.deaths = true;
            faults.messages = true;
        }
        _ => {}
    }
    Scenario { faults, mutation: Some(mutation), ..Scenario::default() }
}

fn found(mutation: Mutation) -> (u64, Promise) {
    let scenario = scenario(mutation);
    let broken = |seed| run(&scenario, seed).violation.map(|violation| (seed, violation));
    let Some((seed, violation)) = (1..=SEEDS).find_map(broken) else {
        panic!("{mutation:?} is not seen in {SEEDS} runs");
    };
    assert_eq!(run(&scenario, seed).violation, Some(violation.clone()), "seed {seed}");
    let log = run(&Scenario { log: 10_000, ..scenario }, seed).log;
    assert!(log.iter().any(|line| line.contains("VIOLATION")), "{mutation:?}: {log:?}");
    println!("{mutation:?}: seed {seed}: {violation}");
    (seed, violation.promise)
}

#[test]
fn each_is_seen() {
    for mutation in Mutation::ALL {
        found(mutation);
    }
}

#[test]
fn what_is_seen_is_what_is_wrong() {
    assert_eq!(found(Mutation::DoubleForwarded).1, Promise::NothingDoubled);
    assert_eq!(found(Mutation::LoseHeld).1, Promise::NothingLost);
    assert_eq!(found(Mutation::OpenGateEarly).1, Promise::Order);
    assert_eq!(found(Mutation::SkipDrain).1, Promise::NothingLost);
    assert_eq!(found(Mutation::NoMarkers).1, Promise::Markers);
    assert_eq!(found(Mutation::KeepProcessing).1, Promise::OneOwner);
    assert_eq!(found(Mutation::TrustCheckpoints).1, Promise::Contexts);
    assert_eq!(found(Mutation::TrustRecords).1, Promise::Contexts);
    assert_eq!(found(Mutation::HideLostContexts).1, Promise::Contexts);
}
