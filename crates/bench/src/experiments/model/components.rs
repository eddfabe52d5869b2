//! Functions that are measured, by the names that a model knows them by.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::calibration::PASS;
use weft_rig::setup::{Block, Setup};

/// A function to be measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CalibratedFunction")]
pub struct Component {
    /// What the model calls it.
    pub name: String,
    /// Which function it is, as `weft schema functions` lists it.
    pub function: String,
    /// Its configuration, as in a node's file.
    #[serde(default)]
    pub config: Map<String, Value>,
}

impl Component {
    /// What stands under `functions` of a node's file.
    pub fn instance(&self) -> Value {
        json!({"function": self.function, "config": self.config})
    }

    /// Whether it is the function that does nothing.
    pub fn is_pass(&self) -> bool {
        self.name == PASS
    }

    /// These, with `pass` among them.
    pub fn with_pass(functions: &[Component]) -> Vec<Component> {
        let mut all = functions.to_vec();
        if !all.iter().any(|one| one.name == PASS) {
            let (name, function) = (PASS.to_owned(), PASS.to_owned());
            all.insert(0, Component { name, function, config: Map::new() });
        }
        all
    }
}

/// A node whose users take these chains, so many percent of them each. A function that several
/// chains have is one instance; one that stands twice in a chain is two.
pub fn shared(users: u32, chains: &[(u32, Vec<&Component>)]) -> Setup {
    let mut setup = Setup::forwarding(users);
    setup.users.clear();
    let mut placed = 0;
    for (number, (percent, chain)) in chains.iter().enumerate() {
        let mut names = Vec::with_capacity(chain.len());
        for (index, one) in chain.iter().enumerate() {
            let before = chain[..index].iter().filter(|other| other.name == one.name).count();
            let name = format!("{}-{before}", one.name);
            if !setup.functions.iter().any(|(known, _)| *known == name) {
                setup.functions.push((name.clone(), one.instance()));
            }
            names.push(name);
        }
        let name = format!("chain{number}");
        setup.chains.push((name.clone(), names));
        let count = match number + 1 == chains.len() {
            true => users - placed,
            false => (u64::from(users) * u64::from(*percent) / 100) as u32,
        };
        placed += count;
        setup.users.push(Block { count, chain: Some(name) });
    }
    setup
}
