//! The experiments, one file each; their parameters stand in `experiments` at the
//! root of the repository.
//!
//! Paper values are those that the papers' texts and tables state (Lange et al.,
//! *Performance Benchmarking of a Software-Based LTE SGW*; Pinczel et al.,
//! *Towards High Performance Packet Processing for 5G*; Hahn et al., *Compound
//! Chained Network Functions*; Bauer et al., *Intra-node Resource Isolation for SFC with
//! SR-IOV*).
//! Their absolute figures come from their hardware; what must carry over is the
//! shape.

mod chain;
mod failed;
mod figure;
mod function;
pub mod handover;
mod io_environments;
mod model;
mod peers;
mod pfcp;
mod restart;
mod sgw;
mod site;
mod users;

use schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use crate::experiment::Experiment;
use crate::experiment::file::COMMON;

/// All of them, in the order in which they are listed.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment::of::<sgw::loss::SgwLoss>(),
    Experiment::of::<sgw::delay::SgwDelayKernel>(),
    Experiment::of::<sgw::delay::SgwDelayPoll>(),
    Experiment::of::<sgw::bearers::SgwBearers>(),
    Experiment::of::<sgw::bearers_delay::SgwBearersDelay>(),
    Experiment::of::<sgw::signalling::SgwSignalling>(),
    Experiment::of::<pfcp::Pfcp>(),
    Experiment::of::<restart::Restarts>(),
    Experiment::of::<site::Sites>(),
    Experiment::of::<io_environments::IoEnvironments>(),
    Experiment::of::<function::overhead::FunctionOverhead>(),
    Experiment::of::<users::Users>(),
    Experiment::of::<chain::mix::ChainMix>(),
    Experiment::of::<handover::Mobility>(),
    Experiment::of::<chain::composition::Compositions>(),
    Experiment::of::<chain::length::ChainLength>(),
    Experiment::of::<chain::delay::ChainDelay>(),
    Experiment::of::<chain::throughput::ChainThroughput>(),
    Experiment::of::<chain::overload::Overload>(),
    Experiment::of::<chain::vf::Vf>(),
    Experiment::of::<function::working_set::WorkingSet>(),
    Experiment::of::<function::mix::FunctionMix>(),
    Experiment::of::<function::functions::Functions>(),
    Experiment::of::<function::instructions::Instructions>(),
    Experiment::of::<peers::Peers>(),
    Experiment::of::<chain::size_sweep::SizeSweep>(),
    Experiment::of::<model::calibrate::Calibrate>(),
    Experiment::of::<model::Model>(),
];

/// The experiment of that name.
///
/// # Errors
/// When there is none: with the nearest name, or where to find them.
pub fn experiment(name: &str) -> Result<&'static Experiment, String> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name).ok_or_else(|| {
        let alike = |experiment: &&Experiment| strsim::jaro_winkler(experiment.name, name);
        let nearest = EXPERIMENTS.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
        match nearest.filter(|nearest| alike(nearest) > 0.8) {
            Some(nearest) => format!("no experiment {name} (did you mean {}?)", nearest.name),
            None => format!("no experiment {name} (`weft bench list` shows them)"),
        }
    })
}

/// The JSON schema of files of parameters.
pub fn schema() -> Value {
    let mut generator = SchemaGenerator::default();
    let files: Vec<_> =
        EXPERIMENTS.iter().map(|experiment| experiment.schema(&mut generator)).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Experiment",
        "description": "Parameters of an experiment of `weft bench`.",
        "oneOf": files,
        "$defs": with_common(generator.take_definitions(true)),
    })
}

/// Adds `common` to the schema of each file. A parameter that stands there is missing from the
/// efforts, so none of theirs is required; reading a file finds what is missing everywhere.
fn with_common(mut definitions: Map<String, Value>) -> Map<String, Value> {
    let mut shared = Vec::new();
    for file in definitions.values_mut() {
        let Some(properties) = file.get_mut("properties") else { continue };
        let Some(effort) = properties.get("quick").and_then(|quick| quick.get("$ref")) else {
            continue;
        };
        let effort = effort.clone();
        shared.extend(effort.as_str().map(|path| path.replace("#/$defs/", "")));
        properties[COMMON] = json!({
            "$ref": effort,
            "description": "Parameters of all efforts that do not set their own.",
        });
    }
    for name in shared {
        if let Some(Value::Object(parameters)) = definitions.get_mut(&name) {
            parameters.remove("required");
        }
    }
    definitions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_parameters_are_right() {
        for experiment in EXPERIMENTS {
            let checked = experiment.check();
            assert!(checked.is_ok(), "{}: {}", experiment.name, checked.err().unwrap());
        }
    }

    #[test]
    fn there_is_a_file_for_each_experiment_and_no_other() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files = std::fs::read_dir(folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        let mut expected: Vec<_> =
            EXPERIMENTS.iter().map(|one| format!("{}.yaml", one.name)).collect();
        expected.sort();
        assert_eq!(names, expected);
    }

    #[test]
    fn shapes_are_told_of_experiments() {
        for name in crate::shapes::experiments() {
            assert!(EXPERIMENTS.iter().any(|one| one.name == name), "{name}");
        }
    }

    #[test]
    fn an_unknown_experiment_is_told_with_a_hint() {
        assert!(experiment("users").is_ok());
        let near = experiment("user").err().unwrap();
        assert_eq!(near, "no experiment user (did you mean users?)");
        let far = experiment("zzz").err().unwrap();
        assert_eq!(far, "no experiment zzz (`weft bench list` shows them)");
    }
}
