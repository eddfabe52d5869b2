//! Moves of a function, from many seeds: every promise is kept under every kind of fault, and
//! broken where something is built wrong on purpose.

use weft_mobility_simulator::Promise;
use weft_mobility_simulator::function_moves::{Faults, Mutation, Scenario, Statistics, run};

use crate::times;

/// Runs so many seeds; fails with the log of the first that breaks a promise.
fn seeds(scenario: Scenario, count: u64) -> Statistics {
    let mut all = Statistics::default();
    for seed in 1..=count * times() {
        let outcome = run(&scenario, seed);
        if let Some(violation) = outcome.violation {
            let log = run(&Scenario { log: 300, ..scenario }, seed).log;
            panic!("seed {seed} of {scenario:?}: {violation}\n{}", log.join("\n"));
        }
        all += &outcome.statistics;
    }
    println!("{scenario:?}: {all:?}");
    all
}

const NO_FAULTS: Faults = Faults { messages: false, deaths: false, failures: false };

const NONE: Scenario = Scenario { users: 7, orders: 20, faults: NO_FAULTS, mutation: None, log: 0 };

#[test]
fn without_faults_nothing_at_all_is_lost() {
    let all = seeds(NONE, 100);
    assert!(all.moves > 500 && all.lost == 0 && all.held > 0, "{all:?}");
}

#[test]
fn messages_may_be_lost_doubled_and_late() {
    let all = seeds(Scenario { faults: Faults { messages: true, ..NO_FAULTS }, ..NONE }, 150);
    assert!(all.messages_lost > 0 && all.messages_doubled > 0 && all.lost == 0, "{all:?}");
    assert!(all.moves > 500, "{all:?}");
}

#[test]
fn either_node_and_the_command_may_die() {
    let all = seeds(Scenario { faults: Faults { deaths: true, ..NO_FAULTS }, ..NONE }, 150);
    assert!(all.deaths > 150 && all.command_deaths > 150 && all.lost > 0, "{all:?}");
}

#[test]
fn what_a_node_is_asked_for_may_fail_or_take_long() {
    let all = seeds(Scenario { faults: Faults { failures: true, ..NO_FAULTS }, ..NONE }, 150);
    assert!(all.failed > 150 && all.lost == 0, "{all:?}");
}

#[test]
fn all_of_it_at_once() {
    let all = seeds(Scenario::default(), 350);
    assert!(all.moves > 500 && all.failed > 500 && all.joined > 500, "{all:?}");
    seeds(Scenario { orders: 200, ..Scenario::default() }, 50);
}

#[test]
fn what_is_wrong_on_purpose_is_seen() {
    let promise = |mutation| {
        let scenario = Scenario { mutation: Some(mutation), ..NONE };
        let seen = (1..=100).find_map(|seed| run(&scenario, seed).violation);
        seen.unwrap_or_else(|| panic!("{mutation:?} is not seen")).promise
    };
    for mutation in Mutation::ALL {
        let expected = match mutation {
            Mutation::LoseHeld => Promise::NothingLost,
            _ => Promise::Contexts,
        };
        assert_eq!(promise(mutation), expected, "{mutation:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let scenario = Scenario { log: 100_000, ..Scenario::default() };
    for seed in 1..=10 {
        assert_eq!(run(&scenario, seed), run(&scenario, seed), "seed {seed}");
    }
}
