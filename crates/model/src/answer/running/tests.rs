//! Predictions of nodes whose figures are chosen so that they can be computed by hand.

use super::*;

const CALIBRATION: &str = "apiVersion: weft/v1\nkind: Calibration\nmetadata: {name: here}\n\
    frequency: 1 GHz\ncpu: {receive: 20, transmit: 10, node: 30, chain: 4, hop: 1, thread: 15, \
    ring: 40, machineCode: 6}\nfunctions: {counter: 5, police: 30}\nfused: {counter: 2, police: 20}\n";

fn visited(name: &str, kind: &str, share: f64, cycles: Option<f64>) -> Visited {
    Visited { name: name.into(), kind: kind.into(), share, cycles, place: Place::Worker }
}

/// 200 cycles for each packet: 140 in the stages, 20 in `count`, 80 in `police` for half of them.
fn node() -> Observed {
    let stages = [("receive", 50.0), ("parse", 20.0), ("classify", 20.0), ("transmit", 50.0)];
    Observed {
        frequency: 1e9,
        workers: 1,
        rate: 1e6,
        size: 100.0,
        stages: stages.map(|(name, cycles)| (name.to_owned(), cycles)).to_vec(),
        functions: vec![
            visited("count", "counter", 1.0, Some(20.0)),
            visited("police", "marker", 0.5, Some(80.0)),
        ],
    }
}

fn calibration() -> Calibration {
    Calibration::read(CALIBRATION, "c.yaml").unwrap()
}

fn of<'p>(prediction: &'p Prediction, wanted: &What) -> Option<&'p Change> {
    prediction.changes.iter().find(|change| change.what == *wanted)
}

#[test]
fn what_was_counted_gives_the_limit_without_a_calibration() {
    let found = node().predict(None).unwrap();
    assert!((found.rate - 5e6).abs() < 1.0, "{}", found.rate);
    assert_eq!(found.bottleneck, "the worker's core");
    assert_eq!(found.steps.len(), 6);
    assert!(found.steps.iter().all(|step| !step.calibrated && step.counted == Some(step.cycles)));
    let worker = of(&found, &What::Worker).unwrap();
    assert!((worker.rate - 1e7).abs() < 1.0);
    // Half of 50 of 200 cycles.
    let half = of(&found, &What::Half("receive".into())).unwrap();
    assert!((half.rate - 1e9 / 175.0).abs() < 1.0);
    // Nothing is known of these.
    let guessed = |change: &Change| matches!(change.what, What::Thread(_) | What::Fuse(_));
    assert!(!found.changes.iter().any(guessed));
    assert!(found.changes.windows(2).all(|two| two[0].rate >= two[1].rate));
}

#[test]
fn a_calibration_comes_before_what_was_counted() {
    let found = node().predict(Some(&calibration())).unwrap();
    // 20 + 34 + 10, `count` by its kind 5 + 1, `police` by its name (30 + 1) / 2.
    let sum = 64.0 + 6.0 + 15.5;
    assert!((found.rate - 1e9 / sum).abs() < 1.0, "{}", found.rate);
    let police = found.steps.iter().find(|step| step.what == "police").unwrap();
    assert_eq!((police.cycles, police.counted, police.calibrated), (15.5, Some(40.0), true));
    let between = &found.steps[1];
    assert_eq!((between.what.as_str(), between.counted), ("parse, classify, forward", Some(40.0)));
    // Both fused: no hops, machine code once, 2 and 20 / 2.
    let fuse = of(&found, &What::Fuse(vec!["count".into(), "police".into()])).unwrap();
    assert!((fuse.rate - 1e9 / (64.0 + 6.0 + 2.0 + 10.0)).abs() < 1.0, "{}", fuse.rate);
    // A thread for `police` costs the worker two ends for half of the packets: more than 15.5
    // is less than 15, and `count` is cheaper than its crossing.
    let thread = of(&found, &What::Thread("police".into()));
    assert!(thread.is_none() || thread.unwrap().rate > found.rate);
    assert!(of(&found, &What::Thread("count".into())).is_none());
}

#[test]
fn a_thread_helps_where_a_function_is_dear() {
    let mut node = node();
    node.functions.push(visited("heavy", "synthetic", 1.0, Some(400.0)));
    let found = node.predict(Some(&calibration())).unwrap();
    let now = 64.0 + 6.0 + 15.5 + 401.0;
    // No cost of `heavy` is calibrated: what was counted has its way to it.
    assert!((found.rate - 1e9 / (now - 1.0)).abs() < 1.0, "{}", found.rate);
    let thread = of(&found, &What::Thread("heavy".into())).unwrap();
    assert!((thread.rate - 1e9 / 430.0).abs() < 1.0, "{}", thread.rate);
    assert_eq!(thread.bottleneck, "the core of thread heavy");
    // There the thread is what limits, and one more worker brings nothing.
    node.functions[2].place = Place::Thread("heavy".into());
    let found = node.predict(Some(&calibration())).unwrap();
    assert_eq!(found.bottleneck, "the core of thread heavy");
    assert!(of(&found, &What::Worker).is_none(), "{:?}", found.changes);
}

#[test]
fn functions_whose_cores_are_elsewhere_are_named() {
    let mut node = node();
    node.functions[1].place = Place::Away;
    node.functions.push(visited("silent", "filter", 0.1, None));
    node.functions.push(visited("unused", "filter", 0.0, None));
    let found = node.predict(Some(&calibration())).unwrap();
    assert_eq!(found.left_out, ["police", "silent"]);
    let rings = found.steps.iter().find(|step| step.what == "rings of police").unwrap();
    assert_eq!(rings.cycles, 40.0);
}

#[test]
fn a_node_without_traffic_or_figures_predicts_nothing() {
    let mut idle = node();
    idle.rate = 0.0;
    assert_eq!(idle.predict(None), None);
    let nothing = Observed { stages: Vec::new(), functions: Vec::new(), ..node() };
    assert_eq!(nothing.predict(None), None);
    for frequency in [0.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Observed { frequency, ..node() }.predict(None), None);
    }
    assert_eq!(Observed { workers: 0, ..node() }.predict(None), None);
}
