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

fn found(mutation: Mutation) -> Promise {
    let scenario = scenario(mutation);
    let broken = |seed| run(&scenario, seed).violation.map(|violation| (seed, violation));
    let Some((seed, violation)) = (1..=SEEDS).find_map(broken) else {
        panic!("{mutation:?} is not seen in {SEEDS} runs");
    };
    assert_eq!(run(&scenario, seed).violation, Some(violation.clone()), "seed {seed}");
    let log = run(&Scenario { log: 10_000, ..scenario }, seed).log;
    assert!(log.iter().any(|line| line.contains("VIOLATION")), "{mutation:?}: {log:?}");
    println!("{mutation:?}: seed {seed}: {violation}");
    violation.promise
}

/// The promise that it breaks, where that is one and the same whatever else may break behind it.
fn expected(mutation: Mutation) -> Option<Promise> {
    match mutation {
        Mutation::DoubleForwarded => Some(Promise::NothingDoubled),
        Mutation::LoseHeld | Mutation::SkipDrain => Some(Promise::NothingLost),
        Mutation::OpenGateEarly => Some(Promise::Order),
        Mutation::NoMarkers => Some(Promise::Markers),
        Mutation::KeepProcessing => Some(Promise::OneOwner),
        Mutation::TrustCheckpoints | Mutation::TrustRecords | Mutation::HideLostContexts => {
            Some(Promise::Contexts)
        }
        _ => None,
    }
}

#[test]
fn each_is_seen_and_what_is_seen_is_what_is_wrong() {
    for mutation in Mutation::ALL {
        let promise = found(mutation);
        if let Some(expected) = expected(mutation) {
            assert_eq!(promise, expected, "{mutation:?}");
        }
    }
}
