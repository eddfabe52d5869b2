//! Files: the examples are right and fit the schema, and mistakes are told at their
//! places.

use std::fs;
use std::path::{Path, PathBuf};

use weft_model::answer::{Cores, Lever};
use weft_model::graph::Part;
use weft_model::{Composition, Model, Scenario};

fn examples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_model = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("model-"))
    };
    let examples: Vec<_> = files.filter(is_model).collect();
    assert!(examples.len() >= 5);
    examples
}

fn read(text: &str) -> Result<Model, String> {
    Model::read(text, "m.yaml", Path::new(".")).map_err(|mistakes| mistakes.to_string())
}

const TEXT: &str = "\
apiVersion: weft/v1
kind: Model
metadata: {name: small}
hardware: {cpu: {frequency: 2 GHz, cores: 4}, nic: {lineRate: 10 Gbit/s}}
costs: {cpu: {receive: 50, transmit: 50}, functions: {count: 100, police: 300}}
chains:
  - {name: full, functions: [count, police]}
";

#[test]
fn the_examples_are_right_and_fit_the_schema() {
    let schema = jsonschema::validator_for(&Model::schema()).unwrap();
    for path in examples() {
        let model = Model::load(&path).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        for scenario in model.scenarios() {
            let answer = scenario.answer().unwrap();
            assert!(answer.limit.rate.is_finite() && answer.limit.rate > 0.0);
        }
        let text = fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = serde_yaml_ng::from_str(&text).unwrap();
        let wrong: Vec<_> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
    }
}

#[test]
fn a_small_model_is_reckoned() {
    let model = read(TEXT).unwrap();
    let answer = model.scenario.answer().unwrap();
    // 50 + 100 + 300 + 50 cycles of 2 GHz.
    assert_eq!((answer.limit.rate, answer.cycles()), (4e6, 500.0));
    assert_eq!(answer.bottleneck(), "worker core");
    let changes = answer.changes();
    assert_eq!(changes[0].what, Lever::Capacity("worker core".to_owned()));
    assert_eq!(changes[0].rate, 8e6);
    // Half of the dearest step.
    let Lever::Cost { what, share, .. } = &changes[1].what else { panic!("{changes:?}") };
    assert_eq!((what.as_str(), *share), ("function police", 0.6));
    assert_eq!(changes[1].rate, 2e9 / 350.0);
}

#[test]
fn cores_are_counted_until_something_else_limits() {
    let scenario = read(TEXT).unwrap().scenario;
    assert_eq!(scenario.cores_for(3e6), Ok(Cores::Enough { workers: 1, limit: 4e6 }));
    assert_eq!(scenario.cores_for(9e6), Ok(Cores::Enough { workers: 3, limit: 12e6 }));
    let Ok(Cores::Never { workers, limit, bottleneck }) = scenario.cores_for(15e6) else {
        panic!("the line carries 14.88 Mpps");
    };
    assert_eq!((workers, bottleneck.as_str()), (4, "NIC line rate"));
    assert!((limit / 14.88e6 - 1.0).abs() < 1e-3);
}

#[test]
fn a_mistake_is_told_at_line_and_column_with_a_hint() {
    // What is right, what stands in its place, where the mistake is told to stand.
    for (right, wrong, there, said) in [
        ("functions: [count, police]", "functions: [count, polic]", "polic]", "police"),
        ("frequency: 2 GHz", "frequency: 2 parsecs", "2 parsecs", "GHz"),
        ("frequency: 2 GHz", "frequency: 0", "0, cores", "more than 0"),
        ("frequency: 2 GHz, cores", "cores", "hardware", "frequency"),
        ("receive: 50", "recieve: 50", "recieve", "receive"),
        ("receive: 50", "receive: -50", "-50", "a number from 0"),
        ("kind: Model", "kind: Node", "Node", "Model"),
        ("{name: full, ", "{name: full, share: 0, ", "chains", "add up to 0"),
        ("{name: full, ", "{name: full, size: 9, ", "9, f", "64"),
        ("hardware: {", "hardware: {profile: xeon-e5-2640v2-x52, ", "xeon", "xeon-e5-2640v2-x520"),
        ("chains:", "compositions: [cal]\nchains:", "cal]", "call"),
        ("chains:", "cores: {workers: 5}\nchains:", "cores: {w", "the machine has 4"),
        ("chains:", "measured: [{length: 2}]\nchains:", "{length", "rate"),
    ] {
        assert!(TEXT.contains(right), "{right}");
        let text = TEXT.replacen(right, wrong, 1);
        let before = &text[..text.find(there).expect("it is there")];
        let line = before.lines().count().max(1) + usize::from(before.ends_with('\n'));
        let column = before.len() - before.rfind('\n').map_or(0, |end| end + 1) + 1;
        let told = read(&text).unwrap_err();
        assert!(told.starts_with(&format!("m.yaml:{line}:{column}: ")), "{wrong}: {told}");
        assert!(told.contains(said), "{wrong}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}

#[test]
fn a_calibration_that_is_not_there_is_a_mistake_of_the_file() {
    let told = read(&TEXT.replacen("costs: {", "costs: {calibration: none.yaml, ", 1));
    let told = told.unwrap_err();
    assert!(told.starts_with("m.yaml:5:22: there is no file `none.yaml`"), "{told}");
    assert!(told.contains("weft bench calibrate"), "{told}");
}

#[test]
fn every_composition_has_its_bottleneck() {
    let model = read(TEXT).unwrap();
    let costs = |scenario: &mut Scenario| {
        let cost = |cycles: f64| Some(weft_model::cost::Cost::Fixed(cycles));
        scenario.costs.cpu.ring = cost(80.0);
        scenario.costs.cpu.virtual_switch = cost(400.0);
        scenario.costs.cpu.encapsulate = cost(40.0);
        scenario.costs.cpu.decapsulate = cost(40.0);
    };
    for composition in Composition::ALL {
        let mut scenario = Scenario { composition, ..model.scenario.clone() };
        costs(&mut scenario);
        scenario.function_cores = usize::from(composition.has_function_cores());
        let answer = scenario.answer().unwrap();
        let expected = match composition {
            // Two passes and four ends of rings, against two ends and two functions.
            Composition::Classical => Part::WorkerCores,
            Composition::Thread | Composition::Process => Part::FunctionCore,
            // Twice receive, transmit and a tunnel at both ends, and the functions there.
            Composition::Remote => Part::RemoteCore,
            _ => Part::WorkerCores,
        };
        assert_eq!(answer.bottleneck_part(), Some(expected), "{composition:?}");
        assert!((answer.maximum_flow / answer.limit.rate - 1.0).abs() < 1e-9);
    }
}

#[test]
fn sizes_are_mixed_by_share() {
    let mix = "{name: full, size: [{size: 64, share: 3}, {size: 1518, share: 1}], ";
    let model = read(&TEXT.replacen("{name: full, ", mix, 1)).unwrap();
    assert_eq!(model.scenario.traffic.len(), 2);
    assert_eq!(model.scenario.mean_size(), (3.0 * 64.0 + 1518.0) / 4.0);
}
