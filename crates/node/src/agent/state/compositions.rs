//! How functions are run, where commands have said it otherwise than the configuration.

use serde::{Deserialize, Serialize};
use weft_node_config::{Blueprint, Composition, FunctionPlan, stage};
use weft_state::{Change, Records, StateError};

use super::{COMPOSITIONS, Persistence};

/// Version of the record.
const VERSION: u8 = 1;

/// A function's composition, as JSON. It holds as long as the configuration says what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    configured: Composition,
    composition: Composition,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    core: Option<u32>,
}

/// What the configuration says of each function.
pub(crate) type Configured = Vec<(String, Composition)>;

/// What a configuration says.
pub(crate) fn configured(blueprint: &Blueprint) -> Configured {
    let functions = blueprint.functions.iter();
    functions.map(|plan| (plan.name.clone(), plan.composition)).collect()
}

/// Runs functions as commands have said in the node's last life.
///
/// # Errors
/// [`StateError`].
pub(crate) fn restore(blueprint: &mut Blueprint, records: &dyn Records) -> Result<(), StateError> {
    records.each_of(COMPOSITIONS, &mut |key, version, octets| {
        if version != VERSION {
            return Err(format!("a composition of version {version}, of a newer release"));
        }
        let kept: Kept = serde_json::from_slice(octets).map_err(|error| error.to_string())?;
        let mut functions = blueprint.functions.iter_mut();
        let Some(plan) = functions.find(|plan| plan.name.as_bytes() == key) else { return Ok(()) };
        if plan.composition == kept.configured && can_be(plan, kept.composition) {
            let is_thread = kept.composition == Composition::Thread;
            let stage = is_thread.then(|| stage(kept.stage.as_deref(), kept.core));
            (plan.composition, plan.stage, plan.auto) = (kept.composition, stage, None);
        }
        Ok(())
    })
}

fn can_be(plan: &FunctionPlan, composition: Composition) -> bool {
    match composition {
        Composition::Process => plan.process.is_some(),
        Composition::Remote => plan.remote.is_some(),
        Composition::Vf => false,
        _ => plan.composition != Composition::Vf,
    }
}

impl Persistence {
    /// A configuration has been applied: its word holds.
    pub fn keep_configured(&mut self, blueprint: &Blueprint) {
        let before = std::mem::replace(&mut self.configured, configured(blueprint));
        let removed = before.iter().map(|(name, _)| Change::remove(COMPOSITIONS, name.as_bytes()));
        self.keep_changes(removed.collect());
    }

    /// A function is run otherwise by a command.
    pub fn keep_composition(&mut self, function: &str, blueprint: &Blueprint) {
        let change = self.composition_record(function, blueprint);
        self.keep_changes(change.into_iter().collect());
    }

    /// How functions are run where commands have said it.
    pub fn composition_records(&self, blueprint: &Blueprint) -> Vec<Change> {
        let functions = blueprint.functions.iter();
        functions.filter_map(|plan| self.composition_record(&plan.name, blueprint)).collect()
    }

    fn composition_record(&self, function: &str, blueprint: &Blueprint) -> Option<Change> {
        let plan = blueprint.functions.iter().find(|plan| plan.name == function)?;
        let (_, configured) = self.configured.iter().find(|(name, _)| name == function)?;
        let kept = Kept {
            configured: *configured,
            composition: plan.composition,
            stage: plan.stage.as_ref().map(|stage| stage.name.clone()),
            core: plan.stage.as_ref().and_then(|stage| stage.core).map(|core| core as u32),
        };
        // Names and numbers can be written.
        let octets = serde_json::to_vec(&kept).unwrap_or_default();
        let is_configured = plan.composition == *configured && plan.stage.is_none();
        Some(match is_configured {
            true => Change::remove(COMPOSITIONS, function.as_bytes()),
            false => Change::put(COMPOSITIONS, function.as_bytes(), VERSION, &octets),
        })
    }
}
