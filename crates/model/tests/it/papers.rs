//! What the papers state, computed again from their parameters.

use std::path::{Path, PathBuf};

use weft_model::file::Quantity;
use weft_model::graph::Part;
use weft_model::{Composition, Model, Scenario};

fn example(name: &str) -> Model {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    Model::load(&path).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A chain of Bauer et al. whose CPU costs next to nothing, as that of libmoon.
fn virtual_functions(length: usize, size: f64) -> Scenario {
    example("model-sr-iov.yaml").scenario.with_length(length).with_size(size)
}

fn is_near(value: f64, stated: f64) -> bool {
    (value / stated - 1.0).abs() < 1e-3
}

#[test]
fn the_line_rate_is_14_88_million_packets_of_64_bytes() {
    let mut scenario = virtual_functions(1, 64.0);
    scenario.workers = 8;
    let answer = scenario.answer().unwrap();
    assert!(is_near(answer.limit.rate, 14.88e6), "{}", answer.limit.rate);
    assert_eq!(answer.bottleneck_part(), Some(Part::NicLine));
}

#[test]
fn a_chain_of_four_asks_59_52_million_decisions_by_the_text_and_74_4_by_the_formula() {
    let line_rate = 14.88e6;
    let (text, formula) = virtual_functions(4, 64.0).switching_decisions().unwrap();
    assert!(is_near(text * line_rate, 59.52e6) && is_near(formula * line_rate, 74.4e6));
}

#[test]
fn the_nic_that_can_switch_so_often_carries_the_line_rate_and_no_more() {
    // As many decisions as the line rate asks for, by either count.
    for (decisions, frequency) in [("text", 59.52e6), ("formula", 74.4e6)] {
        let mut scenario = virtual_functions(4, 64.0);
        scenario.hardware.nic.frequency = Some(weft_model::quantity::Frequency(frequency));
        scenario.hardware.pcie.bandwidth = None;
        scenario.workers = 8;
        scenario.costs.nic.switch = Some(1.0);
        scenario.costs.nic.decisions = serde_json::from_value(decisions.into()).unwrap();
        let rate = scenario.answer().unwrap().limit.rate;
        assert!(is_near(rate, 14.88e6), "{decisions}: {rate}");
        // Half the NIC carries half of it.
        scenario.hardware.nic.frequency = Some(weft_model::quantity::Frequency(frequency / 2.0));
        let answer = scenario.answer().unwrap();
        assert!(is_near(answer.limit.rate, 7.44e6));
        assert_eq!(answer.bottleneck_part(), Some(Part::NicProcessing));
    }
}

#[test]
fn the_bus_limits_at_32_gigabits_in_the_teeth_of_a_saw() {
    let mut scenario = virtual_functions(4, 64.0);
    scenario.hardware.nic.line_rate = None;
    scenario.workers = 1000;
    let limit = |size: f64| {
        let answer = scenario.with_size(size).answer().unwrap();
        assert_eq!(answer.bottleneck_part(), Some(Part::Bus));
        answer.limit.rate
    };
    for size in 64..=1518 {
        // Whole lines of 64 bytes and a descriptor of 16, four times in each direction.
        let moved = f64::from(u32::div_ceil(size, 64) * 64 + 16);
        let rate = limit(f64::from(size));
        assert!((rate * 4.0 * moved * 8.0 - 32e9).abs() < 1.0, "{size}: {rate}");
    }
    // A tooth: within a line a longer frame costs the bus no more, beyond it does.
    assert_eq!(limit(65.0), limit(128.0));
    assert!(limit(129.0) < limit(128.0));
    // A chain of two moves half as much.
    let two = scenario.with_length(2).answer().unwrap().limit.rate;
    assert!(is_near(two, 2.0 * limit(64.0)));
}

#[test]
fn chains_over_virtual_functions_are_below_those_over_software_links_at_each_length() {
    let model = example("model-software-links.yaml");
    for length in 1..=5 {
        let rate = |composition| {
            let scenario = Scenario { composition, ..model.scenario.with_length(length) };
            scenario.answer().unwrap().limit.rate
        };
        let (software, nic) = (rate(Composition::SoftwareLinks), rate(Composition::SrIov));
        assert!(nic < software, "{length}: {nic} {software}");
    }
}

#[test]
fn software_links_cost_what_the_formula_says() {
    let mut scenario = example("model-software-links.yaml").scenario;
    for length in 1..=16_usize {
        let n = length as f64;
        scenario.composition = Composition::SoftwareLinks;
        let cycles = scenario.with_length(length).answer().unwrap().cycles();
        assert!((cycles - (600.0 + n * 769.0 + (n - 1.0) * 400.0 + 500.0)).abs() < 1e-6);
        scenario.composition = Composition::SrIov;
        let cycles = scenario.with_length(length).answer().unwrap().cycles();
        assert!((cycles - n * (600.0 + 769.0 + 500.0 + 172.0)).abs() < 1e-6);
    }
}

#[test]
fn the_compound_chain_of_table_1_follows_from_35_cycles_per_function() {
    let model = example("model-compound.yaml");
    assert_eq!(model.measured.len(), 4);
    for measured in &model.measured {
        let Quantity::Cycles(stated) = measured.quantity else { panic!("cycles are stated") };
        let predicted = measured.scenario.answer().unwrap().cycles();
        let error = predicted / stated - 1.0;
        assert!(error.abs() <= 0.05, "{}: {predicted} against {stated}", measured.name);
    }
}

#[test]
fn limit_and_maximum_flow_agree_in_the_papers_cases() {
    for name in ["model-sr-iov.yaml", "model-software-links.yaml", "model-compound.yaml"] {
        let model = example(name);
        for scenario in model.scenarios() {
            for length in 1..=16 {
                for size in [64.0, 128.0, 512.0, 1024.0, 1518.0] {
                    let answer = scenario.with_length(length).with_size(size).answer().unwrap();
                    let apart = answer.maximum_flow / answer.limit.rate - 1.0;
                    assert!(apart.abs() < 1e-9, "{name}, {length}, {size}: {apart}");
                }
            }
        }
    }
}
