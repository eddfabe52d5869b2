//! The experiments with the real functions, over within seconds: that every function takes
//! all packets that are made for it, and what follows from the figures is there. Nothing
//! here depends on speed.

use std::fs;

use weft_bench::experiment::{Effort, Order};
use weft_bench::experiments::experiment;
use weft_bench::results::Results;
use weft_bench::run::Watch;
use weft_rig::Failure;
use weft_rig::{MEGABYTES, Rig};

use crate::turn;

struct NobodyWatches;

impl Watch for NobodyWatches {
    fn is_over(&self) -> bool {
        false
    }

    fn progress(&self, _: usize, _: usize, _: &str) {}

    fn keep(&self, _: &Results) -> Result<(), Failure> {
        Ok(())
    }
}

/// An experiment with these parameters.
fn perform(rig: &Rig, name: &str, parameters: &str) -> Results {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join(format!("{name}.yaml"));
    let efforts = ["quick", "full", "papers"].map(|effort| format!("{effort}: {parameters}\n"));
    let head = format!("apiVersion: weft/v1\nkind: Experiment\nmetadata: {{name: {name}}}\n");
    fs::write(&path, head + &efforts.concat()).expect("a file");
    let command = String::new();
    let order = Order { effort: Effort::Quick, file: Some(&path), command, former: None };
    let experiment = experiment(name).expect("an experiment");
    let (results, ended) = experiment.perform(order, rig, &NobodyWatches).expect("parameters");
    if let Some(error) = ended {
        panic!("{name}: {error}");
    }
    results
}

fn has(results: &Results, series: &str, points: usize) {
    let found = results.series(series).unwrap_or_else(|| panic!("no series '{series}'"));
    assert_eq!(found.points.len(), points, "{series}");
}

#[test]
fn every_function_takes_all_packets() {
    let _turn = turn();
    let rig = Rig::start(MEGABYTES).expect("the environment starts");
    let functions = perform(
        &rig,
        "functions",
        "{repetitions: 1, seconds: 0.004, entries: [100], associations: [1, 100], \
          frameBytes: [128, 550], functions: []}",
    );
    for function in ["route", "nat, from inside", "nat, from outside"] {
        has(&functions, &format!("{function}, 100"), 2);
    }
    for direction in ["into", "out of"] {
        has(&functions, &format!("lwaftr, {direction} softwires, 100"), 2);
    }
    for (function, does) in [("esp-encrypt", "encrypting"), ("esp-decrypt", "decrypting")] {
        has(&functions, &format!("{function}, 1 association"), 2);
        has(&functions, &format!("{function}, 100 associations"), 2);
        has(&functions, &format!("cryptographic device alone, {does}"), 2);
    }
    for derived in ["cycles_esp_encrypt", "esp_encrypt_over_device", "esp_decrypt_over_device"] {
        assert!(functions.derived.contains_key(derived), "{derived}");
    }
    for function in ["route_100", "nat_100", "lwaftr_100", "esp_1", "esp_100"] {
        let derived = format!("work_cycles_{function}");
        assert!(functions.derived.contains_key(&derived), "{derived}");
    }
    assert_eq!(functions.figures.len(), 2);

    let mix = perform(
        &rig,
        "function-mix",
        "{repetitions: 1, seconds: 0.01, tables: {routes: 1000, softwires: 1000}, \
          functions: [{name: little, cycles: 10, accesses: 1, workingSet: 4 KiB}]}",
    );
    has(&mix, "weft call, real functions", 6);
    for series in mix.series.iter().filter(|series| series.name.ends_with("core")) {
        let functions = if series.name.contains("real") { 4 } else { 1 };
        assert_eq!(series.points.len(), functions, "{}", series.name);
    }
    assert!(mix.says.contains("esp-encrypt"), "{}", mix.says);
}
