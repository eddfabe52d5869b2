//! Tags, functions and the settings that are made for them.

mod process;
pub(super) mod remote;
pub(super) mod thread;
mod vf;

use std::net::IpAddr;

use serde_json::Value;
use weft_compose::{Instance, Kind, Settings, SlotShift};
use weft_function::{ConfigError, Scope, Setup, TagError, TagSlot, TagTable, TagValues};
use weft_rules::RuleSet;

use super::names;
use super::nics::Nics;
use crate::blueprint::{Composition, FunctionPlan, PortPlan};
use crate::locate::Source;
use crate::values::Entries;
use crate::wording::Complaint;
use crate::yaml::{self, NodeFile};

/// Time-stamp counter of the instances on trial; none of them runs.
const TRIAL_HZ: u64 = 1_000_000_000;

/// The functions of a file and the tags that they and the file declare.
pub(super) struct Functions {
    /// Names of the instances, in the order of the file.
    pub(super) names: Vec<String>,
    /// The instances in the same order; `None` where there is a mistake.
    pub made: Vec<Option<Made>>,
    pub tags: TagTable,
    /// Whether all functions are known and all tags have a slot.
    pub complete: bool,
    /// The addresses of all ports.
    addresses: Vec<IpAddr>,
}

/// A function with an instance of it, on trial.
pub(super) struct Made {
    pub plan: FunctionPlan,
    instance: Box<dyn Instance>,
}

impl Functions {
    /// Makes each function once and throws it away.
    pub fn of(
        file: &NodeFile,
        (ports, networks, nics): (&[PortPlan], &[String], &Nics),
        source: &mut Source<'_>,
        kinds: &[Kind],
    ) -> Functions {
        let before = source.mistakes.len();
        let known: Vec<Option<Kind>> = file
            .functions
            .0
            .iter()
            .map(|(name, function)| find(name, &function.function, source, kinds))
            .collect();
        let before_tags = source.mistakes.len();
        let tags = tags(file, networks, &known, source);
        // Without its tags, no function can be made.
        let makeable = source.mistakes.len() == before_tags;
        let complete = source.mistakes.len() == before;
        let made = file.functions.0.iter().zip(known);
        let made = made
            .map(|((name, function), kind)| {
                let kind = kind.filter(|_| makeable)?;
                make((name, function), kind, &tags, (file.composition, ports, nics), source)
            })
            .collect::<Vec<_>>();
        let plans = made.iter().flatten().map(|made: &Made| {
            let is_elsewhere = made.plan.process.is_some() || made.plan.remote.is_some();
            let Made { plan, .. } = made;
            (plan.name.as_str(), plan.stage.as_ref().or(plan.auto.as_ref()), is_elsewhere)
        });
        thread::agree(&file.functions, plans, source);
        let autos = made.iter().flatten().filter_map(|made: &Made| {
            made.plan.auto.as_ref().map(|auto| (made.plan.name.as_str(), auto))
        });
        thread::choose_for_one(autos, source);
        let names = file.functions.names().map(str::to_owned).collect();
        let addresses = ports.iter().flat_map(|port| &port.addresses).map(|one| one.0).collect();
        Functions { names, made, tags, complete, addresses }
    }

    /// Reads the settings that stand at `path` by the names of functions and
    /// are to hold for `count` times `whose`.
    pub fn settings(
        &self,
        entries: &Entries<yaml::Settings>,
        path: &str,
        whose: Whose,
        count: u32,
        source: &mut Source<'_>,
    ) -> Vec<(usize, Settings)> {
        let mut all = Vec::with_capacity(entries.0.len());
        for (name, yaml::Settings(value)) in &entries.0 {
            let path = format!("{path}.{name}");
            let Some(index) = self.names.iter().position(|function| function == name) else {
                let mistake = source.wrong_key(&path, format!("there is no function `{name}`"));
                mistake.suggest(name, self.names.iter().map(String::as_str));
                continue;
            };
            let Some(Made { plan, instance }) = &self.made[index] else { continue };
            if let Some((message, hint)) = whose.refuses(name, instance.scope()) {
                source.wrong_key(&path, message).hint(hint);
                continue;
            }
            if plan.composition == Composition::Remote {
                let message = format!("`{name}` runs at another node");
                source.wrong_key(&path, message).hint("write its settings there");
                continue;
            }
            let settings = plan.kind.settings(value).and_then(|settings| {
                instance.check(&settings, count)?;
                Ok(settings)
            });
            match settings {
                Ok(settings) => {
                    self.tunnels_begin_here(&**instance, &settings, (&path, value), source);
                    all.push((index, settings));
                }
                Err(error) => report(&error, &path, source),
            }
        }
        all
    }

    /// Tunnels that `settings` describe begin at an address of a port: packets back to
    /// another would not be for this node.
    fn tunnels_begin_here(
        &self,
        instance: &dyn Instance,
        settings: &Settings,
        (path, value): (&str, &Value),
        source: &mut Source<'_>,
    ) {
        for end in instance.tunnels(settings, 0) {
            if self.addresses.is_empty() || self.addresses.contains(&end.local) {
                continue;
            }
            let local = end.local.to_string();
            let is_it =
                |tunnel: &Value| tunnel.get("local").and_then(Value::as_str) == Some(&local);
            let tunnels = value.as_object().into_iter().flatten();
            let key = tunnels.filter(|(_, tunnel)| is_it(tunnel)).map(|(key, _)| key).next();
            let path = key.map_or(path.to_owned(), |key| format!("{path}.{key}.local"));
            let known = self.addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(", ");
            source
                .wrong(&path, format!("no port has the address {local}"))
                .hint(format!("the ports have {known}"));
        }
    }
}

/// Who is given settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    User,
    Group,
    Bearer,
}

impl Whose {
    /// Why settings for these are not for a function of that scope, and whose
    /// would be.
    fn refuses(self, name: &str, scope: Scope) -> Option<(String, &'static str)> {
        let (unit, place) = match (self, scope) {
            (Whose::User, Scope::User | Scope::Bearer) => return None,
            (Whose::Group, Scope::Group) | (Whose::Bearer, Scope::Bearer) => return None,
            (_, Scope::User) => ("user", "write its settings under `users`"),
            (_, Scope::Group) => ("group", "write its settings under `groups`"),
            (_, Scope::Bearer) => ("bearer", "write its settings under `users` or `bearers`"),
        };
        Some((format!("`{name}` keeps one context for each {unit}"), place))
    }
}

/// The kind of a function.
fn find(name: &str, function: &str, source: &mut Source<'_>, kinds: &[Kind]) -> Option<Kind> {
    let kind = kinds.iter().find(|kind| kind.name == function);
    if kind.is_none() {
        let path = format!("functions.{name}.function");
        let mistake = source.wrong(&path, format!("there is no function `{function}`"));
        mistake.suggest(function, kinds.iter().map(|kind| kind.name));
    }
    kind.copied()
}

/// The tags of the file, then those of the functions, in this order.
fn tags(
    file: &NodeFile,
    networks: &[String],
    kinds: &[Option<Kind>],
    source: &mut Source<'_>,
) -> TagTable {
    let mut table = TagTable::default();
    for (name, tag) in &file.tags.0 {
        let path = format!("tags.{name}");
        if table.slot(name).is_some() {
            source.wrong_key(&path, format!("every node has a tag `{name}` already"));
            continue;
        }
        if is_field(name) {
            let message = format!("`{name}` is a header field in rules");
            source.wrong_key(&path, message).hint("choose another name");
            continue;
        }
        let values = match &tag.values {
            None => TagValues::Number,
            Some(values) => {
                value_names(values, &path, source);
                TagValues::Named(values.clone())
            }
        };
        if let Err(error) = table.declare(name, values) {
            source.wrong_key(&path, error.to_string());
        }
    }
    for ((name, _), kind) in file.functions.0.iter().zip(kinds) {
        let tags = kind.iter().flat_map(|kind| kind.reads.iter().chain(kind.writes));
        for tag in tags {
            match table.declare(tag.name, tag.values.into()) {
                Ok(_) => {}
                Err(error @ TagError::Full(_)) => {
                    source.wrong_key(&format!("functions.{name}"), error.to_string());
                }
                Err(TagError::Conflict(tag)) => {
                    let message = format!("`{name}` has a tag `{tag}` with other values");
                    source.wrong_key(&format!("tags.{tag}"), message);
                }
            }
        }
    }
    table.name_values(TagSlot::CHAIN, RuleSet::chains(&file.rules));
    table.name_values(TagSlot::NETWORK, networks.to_vec());
    table
}

fn value_names(values: &[String], path: &str, source: &mut Source<'_>) {
    if values.is_empty() {
        source.wrong(&format!("{path}.values"), "a tag has at least one value");
    }
    for (index, value) in values.iter().enumerate() {
        let path = format!("{path}.values.{index}");
        names::written(value, &path, source);
        if values[..index].contains(value) {
            source.wrong(&path, format!("the value `{value}` is given twice"));
        }
    }
}

/// Words that mean something else in conditions.
fn is_field(name: &str) -> bool {
    name == "true" || weft_rules::Field::from_name(name).is_some()
}

fn make(
    (name, function): (&str, &yaml::Function),
    kind: Kind,
    tags: &TagTable,
    (default, ports, nics): (Composition, &[PortPlan], &Nics),
    source: &mut Source<'_>,
) -> Option<Made> {
    let setup = Setup {
        instance: name,
        tags,
        contexts: 1,
        worker: 0,
        tsc_hz: TRIAL_HZ,
        trial: true,
        events: None,
    };
    match kind.make(&function.config, &setup, SlotShift::default()) {
        Ok(instance) => {
            let composition = composition(name, function, default, &*instance, source);
            let vf = vf::plan(name, function, composition, (ports, nics), source);
            let process = process::plan(name, function, composition, vf, source);
            let remote = remote::plan(name, function, composition, ports, source);
            let (stage, auto) = thread::plan(name, function, composition, source);
            // Before anything is measured it is where it is without a choice.
            let composition = match (&stage, &auto) {
                (None, Some(_)) => Composition::Call,
                _ => composition,
            };
            let (name, config) = (name.to_owned(), function.config.clone());
            let plan =
                FunctionPlan { name, kind, config, composition, process, remote, stage, auto };
            Some(Made { plan, instance })
        }
        Err(error) => {
            report(&error, &format!("functions.{name}.config"), source);
            None
        }
    }
}

/// How a function is run. One that cannot be fused is called, unless the file
/// wants it fused by name.
fn composition(
    name: &str,
    function: &yaml::Function,
    default: Composition,
    instance: &dyn Instance,
    source: &mut Source<'_>,
) -> Composition {
    match (function.composition.unwrap_or(default), instance.lower()) {
        (Composition::Fused, Some(_)) => Composition::Fused,
        (Composition::Fused, None) if function.composition.is_some() => {
            let path = format!("functions.{name}.composition");
            let message = format!("{} cannot be fused under this configuration", function.function);
            source.wrong(&path, message).hint("leave it out, or write call");
            Composition::Call
        }
        (Composition::Fused, None) => Composition::Call,
        (composition, _) => composition,
    }
}

/// Notes what a function said of a value that stands at `path`.
fn report(error: &ConfigError, path: &str, source: &mut Source<'_>) {
    let path = match error.path.as_str() {
        "" => path.to_owned(),
        within => format!("{path}.{within}"),
    };
    let complaint = Complaint::of(&error.message);
    let mistake = match &complaint {
        Complaint::UnknownKey(..) => source.wrong_key(&path, complaint.message()),
        _ => source.wrong(&path, complaint.message()),
    };
    complaint.hint(mistake);
}
