//! Many runs from seeds: every promise is kept under every kind of fault, alone and together,
//! and broken where something is built wrong on purpose. `SEEDS_TIMES=10` for ten times as many.

use weft_site_simulator::{Faults, Load, Mutation, Scenario, Statistics, measure, run};

/// How many times as many seeds are run as in `make test`: `SEEDS_TIMES`, which `make soak` sets.
fn times() -> u64 {
    std::env::var("SEEDS_TIMES").map_or(1, |times| times.parse().expect("SEEDS_TIMES is a number"))
}

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

fn with(names: &[&str]) -> Scenario {
    let mut faults = Faults::default();
    for name in names {
        assert!(faults.add(name), "{name}");
    }
    Scenario { faults, ..Scenario::default() }
}

#[test]
fn without_faults_there_is_one_leader() {
    let all = seeds(with(&["none"]), 20);
    // Stations that are drained for their upgrade end, and moves to them are given up.
    assert!(
        all.leaders == 20 * times() && all.moves[1] < 20 * times() && all.moves[0] > 500,
        "{all:?}"
    );
}

#[test]
fn replicas_and_nodes_may_die() {
    let all = seeds(with(&["deaths"]), 20);
    assert!(all.deaths.iter().all(|deaths| *deaths > 20) && all.adopted > 20 * 24, "{all:?}");
}

#[test]
fn replicas_may_stand_still_and_be_cut_off() {
    let all = seeds(with(&["standstills", "cuts"]), 20);
    assert!(all.standstills > 20 && all.cuts > 20 && all.leaders > 30, "{all:?}");
}

#[test]
fn etcd_may_fail_be_full_and_give_its_history_up() {
    let all = seeds(with(&["etcd", "full", "compaction"]), 20);
    assert!(all.etcd_faults > 200, "{all:?}");
}

#[test]
fn all_of_it_at_once() {
    let all = seeds(with(&["all"]), 100);
    assert!(all.leaders > 300 && all.answers > 5000 && all.moves[0] > 1500, "{all:?}");
    // More nodes and users, and a replica alone.
    seeds(Scenario { nodes: 9, users: 90, ..with(&["all"]) }, 10);
    seeds(Scenario { replicas: 1, ..with(&["all"]) }, 20);
}

#[test]
fn what_is_wrong_on_purpose_is_seen() {
    for mutation in Mutation::ALL {
        // Where each is seen soon: faults that it takes, and no others that are in their way.
        let (faults, orders): (&[&str], u64) = match mutation {
            Mutation::NoFence => (&["standstills", "etcd"], 60),
            Mutation::NoCount => (&["etcd"], 60),
            Mutation::StaleAnswers => (&["standstills"], 60),
            Mutation::LateStop => (&["cuts"], 60),
            Mutation::ForgetWrites | Mutation::FalseReports | Mutation::FalseLoads => {
                (&["all"], Scenario::default().orders)
            }
        };
        let sound = Scenario { orders, ..with(faults) };
        let scenario = Scenario { mutation: Some(mutation), ..sound };
        let broken = |seed| run(&scenario, seed).violation.map(|violation| (seed, violation));
        let Some((seed, violation)) = (1..=400).find_map(broken) else {
            panic!("{mutation:?} is not seen in 400 runs");
        };
        println!("{mutation:?}: seed {seed}: {violation}");
        assert_eq!(run(&scenario, seed).violation, Some(violation), "seed {seed}");
        assert_eq!(run(&sound, seed).violation, None, "seed {seed}: it is not what was seen");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let scenario = Scenario { log: 100_000, ..with(&["all"]) };
    for seed in 1..=10 {
        assert_eq!(run(&scenario, seed), run(&scenario, seed), "seed {seed}");
    }
    assert_ne!(run(&scenario, 1).log, run(&scenario, 2).log);
}

#[test]
fn a_large_site_takes_few_transactions() {
    let cost = measure(Load { users: 20_000, moves: 4000, seconds: 4 }).unwrap();
    println!("{cost:?}");
    assert_eq!(cost.moves[1], 0, "{cost:?}");
    // A station has about so many users, as they are spread by chance.
    assert!(cost.moves[0] > 12_000, "{cost:?}");
    assert!(cost.transactions * 1000 <= 2 * cost.moves[0], "{cost:?}");
    assert!(cost.keys < 4200, "{cost:?}");
}
