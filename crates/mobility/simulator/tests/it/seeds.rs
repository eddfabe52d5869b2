//! More than a thousand runs from seeds: every promise is kept under every kind of fault,
//! alone and together. `SEEDS_TIMES=10` for ten times as many.

use weft_mobility_protocol::gate::{Bounds, Policy};
use weft_mobility_simulator::{Faults, Scenario, Statistics, run};

use crate::times;

/// Runs so many seeds; fails with the log of the first that breaks a promise.
fn seeds(scenario: Scenario, count: u64) -> Statistics {
    let mut all = Statistics::default();
    for seed in 1..=count * times() {
        let outcome = run(&scenario, seed);
        if let Some(violation) = outcome.violation {
            let log = run(&Scenario { log: 3000, ..scenario }, seed).log;
            panic!("seed {seed} of {scenario:?}: {violation}\n{}", log.join("\n"));
        }
        all += &outcome.statistics;
    }
    all
}

fn with(names: &[&str]) -> Scenario {
    let mut faults = Faults::default();
    for name in names {
        assert!(faults.add(name), "{name}");
    }
    Scenario { faults, ..Scenario::default() }
}

#[test]
fn without_faults_nothing_at_all_is_lost() {
    let all = seeds(Scenario { users: 10, moves: 50, ..with(&["none"]) }, 60);
    // Only removals cost packets.
    assert!(all.moves >= 60 * 50 && all.aborted + all.moves > 0 && all.removed > 0);
    assert!(!all.counters.contains_key("context_lost"), "{all:?}");
}

/// FAULTS 58.
#[test]
fn fault_58_messages_may_be_lost_doubled_and_late() {
    let all = seeds(with(&["messages"]), 200);
    assert!(all.messages_lost > 0 && all.messages_doubled > 0, "{all:?}");
    assert!(!all.counters.contains_key("context_lost"), "{all:?}");
}

/// FAULTS 57.
#[test]
fn fault_57_any_node_may_die() {
    let all = seeds(with(&["deaths"]), 200);
    assert!(all.deaths > 200 && all.counters.contains_key("context_lost"), "{all:?}");
    // Stations that come back have what they kept of their users.
    assert!(all.kept > 200, "{all:?}");
}

#[test]
fn the_network_may_be_cut() {
    let all = seeds(with(&["cuts"]), 150);
    assert!(all.cuts > 150 && all.counters.contains_key("downlink_gate_timeout"), "{all:?}");
}

#[test]
fn a_station_may_not_hear_that_the_radio_left() {
    let all = seeds(with(&["radio"]), 100);
    assert!(all.counters.contains_key("uplink_gate_timeout"), "{all:?}");
}

#[test]
fn contexts_may_not_fit() {
    let all = seeds(with(&["contexts"]), 100);
    assert!(all.counters.contains_key("resumed") && all.aborted > 0, "{all:?}");
}

#[test]
fn all_of_it_at_once() {
    let all = seeds(with(&["all"]), 350);
    assert!(all.deaths > 350 && all.cuts > 350 && all.adopted > 350, "{all:?}");
}

#[test]
fn gates_may_be_small_and_links_without_order() {
    let gate = Bounds { packets: 2, bytes: 300 };
    for policy in [Policy::DropNewest, Policy::DropOldest] {
        let small = Scenario { gate, policy, ..with(&["all"]) };
        let all = seeds(small, 100);
        assert!(all.lost["gate_full"] > 0, "{all:?}");
    }
    seeds(Scenario { disorder: true, ..with(&["all"]) }, 100);
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let scenario = Scenario { log: 100_000, ..with(&["all"]) };
    for seed in 1..=10 {
        assert_eq!(run(&scenario, seed), run(&scenario, seed), "seed {seed}");
    }
    assert_ne!(run(&scenario, 1).log, run(&scenario, 2).log);
}
