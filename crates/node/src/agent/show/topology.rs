//! The node as a graph: ports, functions, and the rules between them as they are compiled.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use weft_function::TAG_SLOTS;
use weft_node_config::{Blueprint, Composition, FunctionPlan, PortPlan, UserPlan};
use weft_rules::{FunctionIndex, Next, NextHop, PortIndex, To, Vocabulary};

use crate::plan::{self, Trials};

/// The node as a graph.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopologyView {
    /// Ports, and behind them service paths, in the order of the configuration.
    pub ports: Vec<PortPlace>,
    /// Functions, in the order of the configuration.
    pub functions: Vec<FunctionPlace>,
    /// What leads from one place to another.
    pub rules: Vec<RuleView>,
    /// Why the rules are not shown, if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A port as the configuration has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PortPlace {
    /// Name.
    pub name: String,
    /// Its device; empty for a service path.
    pub device: String,
    /// `uplink` for packets from users, `downlink` for packets to them.
    pub direction: String,
    /// Addresses of the node at this port, with the lengths of their prefixes.
    pub addresses: Vec<String>,
    /// Octets of the longest IP packet that is sent.
    pub mtu: u16,
}

/// A function as the configuration has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FunctionPlace {
    /// Name of the instance.
    pub name: String,
    /// What function it is.
    pub kind: String,
    /// Its configuration, without keys, seeds and the like.
    #[schema(value_type = Object)]
    pub config: Value,
    /// How it is run.
    pub composition: Composition,
    /// Whether it could be fused.
    pub fusible: bool,
}

/// Packets of some users go from one place to another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuleView {
    /// Name of a port or function.
    pub from: String,
    /// Name of a port or function; `drop`, or `no_rule` where none matches.
    pub to: String,
    /// Conditions that each packet decides, one of which leads here; none where all packets
    /// of some users go here.
    pub when: Vec<String>,
}

/// Rules by the two places.
type Rules = BTreeMap<(String, String), Vec<String>>;

impl TopologyView {
    /// The graph of a configuration whose functions were made on trial.
    pub(crate) fn of(blueprint: &Blueprint, trials: &Trials) -> TopologyView {
        let rules = rules(blueprint);
        let refused = rules.as_ref().err().cloned();
        let rule = |((from, to), when)| RuleView { from, to, when };
        TopologyView {
            ports: blueprint.ports.iter().map(port).collect(),
            functions: blueprint.functions.iter().map(|plan| function(plan, trials)).collect(),
            rules: rules.unwrap_or_default().into_iter().map(rule).collect(),
            refused,
        }
    }
}

fn function(plan: &FunctionPlan, trials: &Trials) -> FunctionPlace {
    let number = trials.number(&plan.name);
    FunctionPlace {
        name: plan.name.clone(),
        kind: plan.kind.name.to_owned(),
        config: without_secrets(plan.config.clone()),
        composition: plan.composition,
        fusible: number.is_some_and(|number| trials.instance(number).lower().is_some()),
    }
}

/// The ways of one user's packets through the rules, as text, one for each port.
pub(crate) fn ways_of(blueprint: &Blueprint, user: &UserPlan) -> String {
    let classes = [blueprint.classes()[user.class]];
    ways(blueprint, &classes)
}

/// The ways of all classes of a configuration through its rules, as text.
pub fn paths(blueprint: &Blueprint) -> String {
    ways(blueprint, &blueprint.classes())
}

fn ways(blueprint: &Blueprint, classes: &[[u32; TAG_SLOTS]]) -> String {
    let entries = plan::entries(blueprint, classes);
    match blueprint.rules.compile(&entries) {
        Ok(program) => program.paths(blueprint.rules.vocabulary(), &entries).to_string(),
        Err(error) => error.to_string(),
    }
}

/// A configuration as those may see it who must not change it.
fn without_secrets(mut config: Value) -> Value {
    const SECRETS: [&str; 5] = ["key", "seed", "secret", "salt", "token"];
    match &mut config {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.to_lowercase();
                *value = match SECRETS.iter().any(|secret| name.contains(secret)) {
                    true => Value::from("hidden"),
                    false => without_secrets(value.take()),
                };
            }
        }
        Value::Array(values) => {
            values.iter_mut().for_each(|value| *value = without_secrets(value.take()));
        }
        _ => {}
    }
    config
}

fn port(plan: &PortPlan) -> PortPlace {
    PortPlace {
        name: plan.name.clone(),
        device: plan.device.clone(),
        direction: format!("{:?}", plan.direction).to_lowercase(),
        addresses: plan
            .addresses
            .iter()
            .map(|(address, length)| format!("{address}/{length}"))
            .collect(),
        mtu: plan.mtu,
    }
}

/// All hops of the compiled rules.
fn rules(blueprint: &Blueprint) -> Result<Rules, String> {
    let entries = plan::entries(blueprint, &blueprint.classes());
    let program = blueprint.rules.compile(&entries).map_err(|error| error.to_string())?;
    let vocabulary = blueprint.rules.vocabulary();
    let port = |port: PortIndex| &*blueprint.ports[usize::from(port.0)].name;
    let function = |one: FunctionIndex| &*blueprint.functions[usize::from(one.0)].name;
    let name = |target: NextHop| match target.to {
        To::State(id) => function(program.states[id.0 as usize].function),
        To::Port(number) => port(number),
        To::Drop => "drop",
        To::NoRule => "no_rule",
    };
    let mut rules = Rules::new();
    for (entry, next) in entries.iter().zip(&program.entries) {
        add(&mut rules, port(entry.port), next, name, vocabulary);
    }
    for state in &program.states {
        add(&mut rules, function(state.function), &state.next, name, vocabulary);
    }
    Ok(rules)
}

fn add<'a>(
    rules: &mut Rules,
    from: &str,
    next: &Next,
    name: impl Fn(NextHop) -> &'a str,
    vocabulary: &Vocabulary,
) {
    let mut hop = |target: NextHop, when: Option<String>| {
        let conditions = rules.entry((from.to_owned(), name(target).to_owned())).or_default();
        if let Some(when) = when.filter(|when| !conditions.contains(when)) {
            conditions.push(when);
        }
    };
    match next {
        Next::Go(target) => hop(*target, None),
        Next::Branch(arms, otherwise) => {
            for arm in arms {
                hop(arm.then, Some(arm.when.display(vocabulary).to_string()));
            }
            hop(*otherwise, Some("otherwise".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_functions::KINDS;
    use weft_node_config::read;

    use super::*;

    #[test]
    fn rules_are_hops_with_their_conditions() {
        let text = "
apiVersion: weft/v1
kind: Node
metadata: {name: graph}
ports:
  access: {device: 'ring:access', direction: uplink}
  core: {device: 'ring:core', direction: downlink}
functions:
  police:
    function: marker
    config: {meter: {singleRate: {committedRate: 1 Mbit/s, committedBurst: 16 KiB}}}
users:
  - {name: ue, match: {ipv4: 10.0.0.1}, chain: full}
rules: |
  chain full = police
  from access when chain == full -> full
  from core -> access
  from full when colour == red -> drop
  from full -> core
";
        let blueprint = read(text, "graph.yaml", KINDS).unwrap_or_else(|error| panic!("{error}"));
        let rules = rules(&blueprint).unwrap();
        let hops: Vec<_> = rules.iter().map(|((from, to), when)| (&**from, &**to, when)).collect();
        let red = vec!["colour == red".to_owned()];
        let rest = vec!["otherwise".to_owned()];
        let always = Vec::new();
        assert_eq!(
            hops,
            [
                ("access", "police", &always),
                ("core", "access", &always),
                ("police", "core", &rest),
                ("police", "drop", &red),
            ]
        );
    }

    #[test]
    fn no_secret_is_shown() {
        let config = json!({"portSeed": 7, "rate": 1, "list": [{"key": "0x00", "spi": 9}]});
        let shown = json!({"portSeed": "hidden", "rate": 1, "list": [{"key": "hidden", "spi": 9}]});
        assert_eq!(without_secrets(config), shown);
    }
}
