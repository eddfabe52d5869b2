//! Compiles rules for a worker, and makes the functions they lead through.

use std::collections::HashSet;
use std::sync::Arc;

use weft_compose::{Instance, SlotShift};
use weft_dataplane::forward::{Choices, Forwarding, Plan};
use weft_dataplane::offload::stage::Map;
use weft_dpdk::tsc;
use weft_function::{ConfigError, EventSender, Setup, TAG_SLOTS, TagSlot};
use weft_fusion::{FusedPart, FusedPlan};
use weft_node_config::{
    Blueprint, Composition, FunctionPlan, FusedWhen, IpfixPlan, PortPlan, StagePlan,
};
use weft_offload::thread::ThreadPool;
use weft_rules::{CachedRules, CompileError, Entry, Known, PortIndex, Program, RuleSet};

/// Hops that the cache of the lookup baseline holds.
const CACHED_HOPS: usize = 1 << 16;

/// What users may be alike in: numbers given out once keep their meaning, so
/// that users need not be touched when the configuration changes.
#[derive(Debug, Default)]
pub struct Classes {
    /// Tags of each class.
    pub tags: Vec<[u32; TAG_SLOTS]>,
}

/// More classes than users can be numbered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("users differ in more than {} ways; restart the node", u16::MAX)]
pub struct TooManyClasses;

impl Classes {
    /// The numbers of a blueprint's classes. `old` is the configuration that
    /// the classes until now were written in.
    pub fn adopt(&mut self, new: &Blueprint, old: &Blueprint) -> Result<Vec<u16>, TooManyClasses> {
        for tags in &mut self.tags {
            *tags = translate(tags, old, new);
        }
        let number = |tags: &[u32; TAG_SLOTS]| {
            let known = self.tags.iter().position(|known| known == tags);
            let number = known.unwrap_or_else(|| {
                self.tags.push(*tags);
                self.tags.len() - 1
            });
            u16::try_from(number).ok().filter(|number| *number < u16::MAX).ok_or(TooManyClasses)
        };
        new.classes().iter().map(number).collect()
    }
}

/// The same tag values in the numbers of another configuration. A tag or value
/// that is gone becomes 0, which is what a packet without a tag has.
fn translate(tags: &[u32; TAG_SLOTS], old: &Blueprint, new: &Blueprint) -> [u32; TAG_SLOTS] {
    use weft_function::TagValues;
    let mut translated = [0; TAG_SLOTS];
    for ((name, values), value) in old.tags.iter().zip(tags) {
        let Some(slot) = new.tags.slot(name) else { continue };
        let new_values = new.tags.iter().nth(slot.index()).map(|(_, values)| values);
        translated[slot.index()] = match (values, new_values) {
            (TagValues::Named(old), Some(TagValues::Named(new))) => {
                let name = old.get(*value as usize);
                let number = name.and_then(|name| new.iter().position(|one| one == name));
                let none = if slot == TagSlot::CHAIN { weft_rules::NO_CHAIN } else { 0 };
                number.map_or(none, |number| number as u32)
            }
            _ => *value,
        };
    }
    translated
}

/// What packets of each class are tagged with at each port: those of a class at
/// a port have number `port * classes + class`.
pub fn tags(blueprint: &Blueprint, classes: &[[u32; TAG_SLOTS]]) -> Vec<[u32; TAG_SLOTS]> {
    let at_port = |port: &PortPlan| {
        let (direction, network) = (port.direction as u32, port.network);
        classes.iter().map(move |class| {
            let mut tags = *class;
            tags[TagSlot::DIRECTION.index()] = direction;
            tags[TagSlot::NETWORK.index()] = network;
            tags
        })
    };
    blueprint.ports.iter().flat_map(at_port).collect()
}

/// The entries of all ports and classes, in the order of [`tags`].
pub fn entries(blueprint: &Blueprint, classes: &[[u32; TAG_SLOTS]]) -> Vec<Entry> {
    let known = |(number, tags): (usize, [u32; TAG_SLOTS])| {
        let port = number / classes.len();
        let mut tags = tags.map(Known::Value);
        blueprint.forget_written(port, &mut tags);
        Entry { port: PortIndex(port as u16), tags }
    };
    tags(blueprint, classes).into_iter().enumerate().map(known).collect()
}

/// Compiles the rules of a blueprint for these classes.
///
/// # Errors
/// [`CompileError`] when there are too many ways.
pub fn compile(
    blueprint: &Blueprint,
    classes: &[[u32; TAG_SLOTS]],
) -> Result<Program, CompileError> {
    blueprint.rules.compile(&entries(blueprint, classes))
}

/// A plan for one worker, with room for the functions that come with it.
pub fn plan(
    blueprint: &Blueprint,
    rules: &Arc<RuleSet>,
    program: &Program,
    classes: usize,
    fused: Option<&Arc<FusedPlan>>,
) -> Plan {
    let forwarding = match blueprint.forwarding {
        weft_node_config::Forwarding::Compiled => {
            Forwarding::Compiled { program: program.clone(), classes }
        }
        weft_node_config::Forwarding::Lookup => {
            Forwarding::Lookup(CachedRules::new(rules.clone(), CACHED_HOPS))
        }
    };
    let functions = Vec::with_capacity(blueprint.functions.len());
    let is_always = blueprint.fused == FusedWhen::Always;
    let choices = Choices::new(fused.map(Arc::as_ref), is_always);
    Plan { rules: rules.clone(), forwarding, functions, fused: fused.cloned(), choices }
}

/// The stages that functions of a blueprint stand on.
pub fn stages(blueprint: &Blueprint) -> impl Iterator<Item = &StagePlan> {
    blueprint.functions.iter().filter_map(|function| function.stage.as_ref())
}

/// What each stage is to know of the rules.
pub fn maps(threads: &ThreadPool, blueprint: &Blueprint, program: &Program) -> Vec<Arc<Map>> {
    let is_compiled = blueprint.forwarding == weft_node_config::Forwarding::Compiled;
    let remote_queue =
        |one: &FunctionPlan| one.stage.as_ref().and_then(|stage| threads.remote_queue_of(stage));
    let remote_queues: Vec<_> = blueprint.functions.iter().map(remote_queue).collect();
    threads.maps(is_compiled.then_some(program), &remote_queues)
}

/// Functions made on trial: they check settings and never meet a packet.
pub struct Trials(Vec<(String, Box<dyn Instance>)>);

impl Trials {
    /// One instance of each function of a blueprint.
    ///
    /// # Errors
    /// [`ConfigError`] as the function says it.
    pub fn of(blueprint: &Blueprint) -> Result<Trials, ConfigError> {
        let trial = |function: &FunctionPlan| {
            let setup = setup(function, blueprint, (0, 1), None);
            let instance = function.kind.make(&function.config, &setup, SlotShift::default())?;
            Ok((function.name.clone(), instance))
        };
        blueprint.functions.iter().map(trial).collect::<Result<_, _>>().map(Trials)
    }

    /// What is to be fused, by the number of the function.
    pub fn lowered(&self, blueprint: &Blueprint) -> Vec<Option<FusedPart>> {
        let part = |(plan, (_, instance)): (&FunctionPlan, &(String, Box<dyn Instance>))| {
            let program = match plan.composition {
                Composition::Fused => instance.lower()?,
                _ => return None,
            };
            Some(FusedPart { program, scope: instance.scope(), sets: None })
        };
        blueprint.functions.iter().zip(&self.0).map(part).collect()
    }

    /// The number of the function instance of that name.
    pub fn number(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| known == name)
    }

    /// The name of the function instance of that number.
    pub fn name(&self, number: usize) -> &str {
        &self.0[number].0
    }

    /// The instance of the function of that number.
    pub fn instance(&self, number: usize) -> &dyn Instance {
        &*self.0[number].1
    }
}

/// What surrounds an instance on trial, or one that is to work, which may have where to tell
/// its events.
fn setup<'a>(
    function: &'a FunctionPlan,
    blueprint: &'a Blueprint,
    (worker, contexts): (usize, usize),
    work: Option<Option<&'a EventSender>>,
) -> Setup<'a> {
    let (instance, tags) = (function.name.as_str(), &blueprint.tags);
    let is_told = |plan: &IpfixPlan| plan.port_blocks.contains(&function.name);
    let events = work.flatten().filter(|_| blueprint.ipfix.as_ref().is_some_and(is_told));
    Setup { instance, tags, contexts, worker, tsc_hz: tsc::hz(), trial: work.is_none(), events }
}

/// Makes an instance of a function for one worker.
///
/// # Errors
/// [`ConfigError`] as the function says it.
pub fn instance(
    function: &FunctionPlan,
    blueprint: &Blueprint,
    worker: usize,
    contexts: usize,
    shift: SlotShift,
    events: Option<&EventSender>,
) -> Result<Box<dyn Instance>, ConfigError> {
    let setup = setup(function, blueprint, (worker, contexts), Some(events));
    function.kind.make(&function.config, &setup, shift)
}

/// The node's numbers for the bearer profiles of a blueprint; profiles that
/// tell packets apart alike have the same number. 0 is the profile of users
/// without dedicated bearers.
pub fn bearer_profiles(
    known: &mut Vec<Vec<weft_rules::Condition>>,
    blueprint: &Blueprint,
) -> Vec<u16> {
    let mut numbers = Vec::new();
    for profile in &blueprint.bearer_profiles {
        let conditions: Vec<_> = profile.iter().map(|bearer| bearer.when.clone()).collect();
        let number = known.iter().position(|one| *one == conditions).filter(|number| *number > 0);
        let number = number.unwrap_or_else(|| {
            known.push(conditions);
            known.len() - 1
        });
        numbers.push(number as u16);
    }
    numbers
}

/// Names of the functions of `new` that go on as they are in `old`.
pub fn unchanged(old: &Blueprint, new: &Blueprint) -> HashSet<String> {
    let same = |one: &FunctionPlan, other: &FunctionPlan| {
        one.name == other.name
            && one.kind.name == other.kind.name
            && one.config == other.config
            && one.process == other.process
    };
    // An instance knows the slots of its tags, so they have to stay.
    let same_tags = old.tags.iter().map(|(name, _)| name).eq(new.tags.iter().map(|(name, _)| name));
    let known = |function: &&FunctionPlan| old.functions.iter().any(|one| same(one, function));
    let functions = new.functions.iter().filter(|_| same_tags).filter(known);
    functions.map(|function| function.name.clone()).collect()
}
