//! Chains that are run elsewhere or as machine code, beside what the model predicts of them: the
//! cycles of the node's core, wherever the functions are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_model::cost::{At, Cost};
use weft_model::graph::Part;
use weft_model::quantity::Bytes;
use weft_model::{Calibration, Scenario, Traffic};

use super::Compared;
use crate::calibration::composed::ALONE;
use crate::calibration::cost_of;
use crate::experiments::model::components::Component;
use crate::experiments::model::composed;
use crate::results::{Abscissa, Results};
use crate::run::Cell;
use weft_rig::{Composition, Setup};

/// What is measured of these.
pub const MEASURED: &str = "measured in other compositions, cycles";

/// Chains that are run in one way.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Composed {
    /// How.
    pub composition: Composition,
    /// Functions in the chains of which the model is asked.
    #[schemars(inner(range(min = 3, max = 16)))]
    pub lengths: Vec<usize>,
}

/// Compositions, and sizes.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compositions {
    /// Bytes of the frames that the model is calibrated with.
    #[schemars(inner(range(min = 64, max = 1518)))]
    calibrated_sizes: Vec<u32>,
    /// Bytes of the frames of which it is asked.
    #[schemars(inner(range(min = 64, max = 1518)))]
    sizes: Vec<u32>,
    /// How chains are run, and how long they are.
    chains: Vec<Composed>,
}

/// One chain of which the model is asked.
struct Case<'f> {
    name: String,
    size: u32,
    way: Composition,
    functions: Vec<&'f Component>,
}

impl Compositions {
    fn cases<'f>(&'f self, functions: &'f [Component]) -> impl Iterator<Item = Case<'f>> {
        self.chains.iter().flat_map(move |Composed { composition, lengths }| {
            self.sizes.iter().flat_map(move |&size| {
                lengths.iter().map(move |&length| Case {
                    name: format!("{}, {length} in turn, {size} B", composition.name()),
                    size,
                    way: *composition,
                    functions: functions.iter().cycle().take(length).collect(),
                })
            })
        })
    }

    /// What it is calibrated with.
    pub fn calibrated(&self, users: u32, functions: &[Component]) -> Vec<Cell<(u32, Setup)>> {
        let ways: Vec<Composition> = self.chains.iter().map(|one| one.composition).collect();
        composed::cells(&self.calibrated_sizes, users, &ways, functions)
    }

    /// What it is asked of.
    pub fn asked(&self, users: u32, functions: &[Component]) -> Vec<Cell<(u32, Setup)>> {
        let cell = |case: Case<'_>| {
            let setup = composed::setup(users, case.functions, case.way);
            Cell::new(MEASURED, case.name.as_str(), (case.size, setup))
        };
        self.cases(functions).map(cell).collect()
    }

    /// What was measured, and what is predicted.
    pub fn compared(
        &self,
        functions: &[Component],
        found: &Calibration,
        results: &Results,
    ) -> Vec<Compared> {
        let Some(alone) = alone(results) else { return Vec::new() };
        let measured = |name: &str| {
            let points = &results.series(MEASURED)?.points;
            points.iter().find(|point| point.x == Abscissa::from(name)).map(cost_of)
        };
        let compared = self.cases(functions).filter_map(|case| {
            let size = f64::from(case.size);
            let names = case.functions.iter().map(|one| one.name.clone()).collect();
            // Other devices than those of called chains: what counts is what the chain adds.
            let [none, chain] =
                [Vec::new(), names].map(|names| cycles(found, case.way, size, names));
            let predicted = alone.at(size) + chain? - none?;
            let (measured, way) = (measured(&case.name)?, case.way);
            Some(Compared { name: case.name, way, measured, predicted })
        });
        compared.collect()
    }
}

/// What a packet costs the node without a function, on the devices of these trials.
fn alone(results: &Results) -> Option<Cost> {
    let mut rows: Vec<At> = Vec::new();
    for point in &results.series(ALONE)?.points {
        let Abscissa::Number(size) = point.x else { continue };
        rows.push(At { size: Bytes(size), cycles: cost_of(point) });
    }
    rows.sort_by(|a, b| a.size.0.total_cmp(&b.size.0));
    (!rows.is_empty()).then_some(Cost::Table(rows))
}

/// Cycles of the node's core for a packet that takes these functions.
fn cycles(found: &Calibration, way: Composition, size: f64, functions: Vec<String>) -> Option<f64> {
    use weft_model::Composition as Model;
    let composition = match way {
        Composition::Call => Model::Call,
        Composition::Fused => Model::Fused,
        Composition::Thread => Model::Thread,
        Composition::Process => Model::Process,
        Composition::Remote => Model::Remote,
        Composition::SoftwareVf => return None,
    };
    let traffic = vec![Traffic { name: String::new(), share: 1.0, size, functions }];
    let scenario = Scenario {
        composition,
        function_cores: usize::from(way.is_elsewhere()),
        traffic,
        ..super::scenario(found)
    };
    let system = scenario.system().ok()?;
    let is_worker = |index: usize| system.components[index].part == Part::WorkerCores;
    let charges = system.classes.iter().flat_map(|class| &class.charges);
    Some(charges.filter(|one| is_worker(one.component)).map(|one| one.cost).sum())
}
