//! Costs that are known are found.

use super::*;
use crate::machine::Machine;
use crate::results::Series;

/// Results of a machine whose costs are known: 20 to receive, 30 to transmit, 40
/// for the node, 5 for a chain, 2 for a hop, 10 and 25 for two functions; all of it
/// 10 % more at 1518 bytes.
fn results() -> Results {
    let mut results = Results::new("calibrate", Machine::default());
    let mut add = |name: String, cost: f64| {
        let mut series = Series::new(name, "frame bytes", "cycles/packet");
        for (size, factor) in [(64, 1.0), (1518, 1.1)] {
            let raw = vec![cost * factor, cost * factor, cost * factor * 3.0];
            series.points.push(Point::of(size, raw).unwrap());
        }
        results.series.push(series);
    };
    add(RECEIVE.to_owned(), 20.0);
    add(RECEIVE_AND_TRANSMIT.to_owned(), 50.0);
    add(chain_series(&[]), 90.0);
    let functions = [(PASS, 2.0), ("a", 12.0), ("b", 27.0)];
    for (index, (first, cost)) in functions.iter().enumerate() {
        add(chain_series(&[first]), 95.0 + cost);
        for (second, other) in &functions[index..] {
            add(chain_series(&[first, second]), 95.0 + cost + other);
        }
    }
    results
}

#[test]
fn costs_that_are_known_are_found() {
    let calibration = calibration(&results(), 2e9).unwrap();
    let cpu = &calibration.cpu;
    let of = |cost: &Option<Cost>, size: f64| cost.as_ref().unwrap().at(size);
    for (cost, known) in [
        (&cpu.receive, 20.0),
        (&cpu.transmit, 30.0),
        (&cpu.node, 40.0),
        (&cpu.chain, 5.0),
        (&cpu.hop, 2.0),
    ] {
        assert!((of(cost, 64.0) - known).abs() < 1e-6, "{cost:?}");
        assert!((of(cost, 1518.0) - known * 1.1).abs() < 1e-6, "{cost:?}");
    }
    let costs = calibration.costs();
    for (name, known) in [(PASS, 0.0), ("a", 10.0), ("b", 25.0)] {
        let cost = costs.function(name, false).unwrap().at(64.0);
        assert!((cost - known).abs() < 1e-6, "{name}: {cost}");
    }
}

#[test]
fn nothing_follows_from_too_little() {
    let mut few = results();
    few.series.retain(|series| series.name != RECEIVE);
    assert!(calibration(&few, 2e9).is_none());
    let mut few = results();
    few.series.retain(|series| chain_of(&series.name).is_none_or(|chain| chain.len() < 2));
    few.series.retain(|series| series.name != chain_series(&["b"]));
    // Of single functions alone, E and the functions cannot be told apart.
    assert!(calibration(&few, 2e9).is_none());
}
