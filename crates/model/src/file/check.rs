//! Checks what a file says and makes a model of it.

use std::ops::RangeInclusive;
use std::path::Path;

use weft_yaml::locate::Source;
use weft_yaml::mistake::Mistakes;

use super::yaml::{
    ChainFile, CoresFile, DemandFile, LoadFile, MeasuredFile, ModelFile, NodeFile, PlacementFile,
    PlanFile, SizeFile, SizeShare, SweepFile,
};
use super::{Load, Measured, Model, Quantity};
use crate::calibration::{Calibration, check_costs, check_functions};
use crate::costs::Costs;
use crate::hardware::{Hardware, Profile};
use crate::plan::{Demand, Node, Placement, Request};
use crate::quantity::{Frequency, Share};
use crate::scenario::{Composition, Scenario, Traffic};

/// Frames that Ethernet knows, jumbo frames with them, in bytes.
const SIZES: RangeInclusive<f64> = 64.0..=9216.0;
/// Points of a sweep, at most.
const POINTS: usize = 10_000;
/// Nodes of a plan, at most.
const NODES: u32 = 10_000;

/// The model, or none if there are mistakes, which are noted in `source`.
///
/// # Errors
/// The mistakes of a calibration that the file names, in that file.
pub fn model(
    file: ModelFile,
    source: &mut Source<'_>,
    directory: &Path,
) -> Result<Option<Model>, Mistakes> {
    let ModelFile { metadata, hardware, costs, compositions, cores, size, chains, .. } = file;
    let (costs, measured_at) = costs_of(costs, source, directory)?;
    let mut hardware = hardware_of(hardware, "hardware", source);
    hardware.cpu.frequency = hardware.cpu.frequency.or(measured_at);
    if hardware.cpu.frequency.is_none() {
        let mistake = source.wrong("hardware", "the cpu's frequency is missing");
        mistake.hint("give `cpu: {frequency: …}`, a `profile`, or a calibration under `costs`");
    }
    if compositions.is_empty() {
        source.wrong("compositions", "a model has at least one composition");
    }
    check_cores(cores, "cores", &hardware, source);
    check_size(&size, "size", source);
    let mut traffic = Vec::new();
    for (index, chain) in chains.iter().enumerate() {
        traffic.extend(traffic_of(chain, index, &size, &costs, source));
    }
    check_chains(&chains, source);
    let composition = compositions.first().copied().unwrap_or(Composition::Call);
    let scenario = Scenario {
        hardware,
        costs,
        composition,
        workers: cores.workers as usize,
        function_cores: cores.functions as usize,
        traffic,
    };
    let (sizes, lengths) = sweep_of(&file.sweep, source);
    let measured = file.measured.iter().enumerate();
    let measured: Vec<_> =
        measured.filter_map(|(nth, one)| measured_of(one, nth, &scenario, source)).collect();
    let plan = file.plan.as_ref().map(|plan| plan_of(plan, &chains, &size, &scenario, source));
    let load = file.load.map(|load| match load {
        LoadFile::Packets(rate) => Load::Packets(rate.0),
        LoadFile::Bits(rate) => Load::Bits(rate.0),
    });
    let model = Model {
        name: metadata.name,
        scenario,
        compositions,
        load,
        sizes,
        lengths,
        measured,
        plan: plan.flatten(),
    };
    Ok(source.mistakes.is_empty().then_some(model))
}

/// The costs of the file, over those of its calibration; and the rate of the counter
/// that those were counted by.
fn costs_of(
    costs: Costs,
    source: &mut Source<'_>,
    directory: &Path,
) -> Result<(Costs, Option<Frequency>), Mistakes> {
    check_costs("costs.cpu", &costs.cpu, source);
    check_functions("costs.functions", &costs.functions, source);
    check_functions("costs.fused", &costs.fused, source);
    let nic = &costs.nic;
    for (name, cost) in
        [("receive", nic.receive), ("switch", nic.switch), ("transmit", nic.transmit)]
    {
        if cost.is_some_and(|cost| !cost.is_finite() || cost < 0.0) {
            source.wrong(&format!("costs.nic.{name}"), "a cost is a number from 0");
        }
    }
    let Some(name) = costs.calibration.clone() else { return Ok((costs, None)) };
    let path = directory.join(&name);
    if !path.is_file() {
        let mistake = source.wrong("costs.calibration", format!("there is no file `{name}`"));
        mistake.hint("`weft bench calibrate` writes one");
        return Ok((costs, None));
    }
    let calibration = Calibration::load(&path)?;
    Ok((costs.over(calibration.costs()), Some(calibration.frequency)))
}

/// The machine, over its profile.
fn hardware_of(hardware: Hardware, path: &str, source: &mut Source<'_>) -> Hardware {
    for (name, capacity) in [
        ("cpu.frequency", hardware.cpu.frequency.map(|value| value.0)),
        ("nic.lineRate", hardware.nic.line_rate.map(|value| value.0)),
        ("nic.frequency", hardware.nic.frequency.map(|value| value.0)),
        ("nic.packetRate", hardware.nic.packet_rate.map(|value| value.0)),
        ("pcie.bandwidth", hardware.pcie.bandwidth.map(|value| value.0)),
        ("pcie.cacheLine", hardware.pcie.cache_line.map(|value| value.0)),
        ("pcie.transaction", hardware.pcie.transaction.map(|value| value.0)),
        ("memory.bandwidth", hardware.memory.bandwidth.map(|value| value.0)),
        ("softwareLink.packetRate", hardware.software_link.packet_rate.map(|value| value.0)),
        ("cpu.cores", hardware.cpu.cores.map(f64::from)),
    ] {
        if capacity.is_some_and(|capacity| capacity <= 0.0) {
            source.wrong(&format!("{path}.{name}"), "this must be more than 0");
        }
    }
    if let Some(cores) = hardware.cpu.cores {
        within(source, &format!("{path}.cpu.cores"), f64::from(cores), 1.0..=1024.0);
    }
    let Some(name) = hardware.profile.clone() else { return hardware };
    match Profile::named(&name) {
        Some(Ok(profile)) => hardware.over(profile.hardware),
        Some(Err(mistakes)) => {
            source.wrong(&format!("{path}.profile"), format!("the profile is wrong: {mistakes}"));
            hardware
        }
        None => {
            let mistake =
                source.wrong(&format!("{path}.profile"), format!("there is no profile `{name}`"));
            mistake.suggest(&name, Profile::names());
            hardware
        }
    }
}

fn check_cores(cores: CoresFile, path: &str, hardware: &Hardware, source: &mut Source<'_>) {
    within(source, &format!("{path}.workers"), f64::from(cores.workers), 1.0..=1024.0);
    within(source, &format!("{path}.functions"), f64::from(cores.functions), 0.0..=1024.0);
    let all = u64::from(cores.workers) + u64::from(cores.functions);
    if let Some(most) = hardware.cpu.cores
        && all > u64::from(most)
    {
        source.wrong(path, format!("{all} cores are asked for and the machine has {most}"));
    }
}

fn check_size(size: &SizeFile, path: &str, source: &mut Source<'_>) {
    if size.0.is_empty() {
        source.wrong(path, "at least one size is needed");
    }
    let is_one = size.0.len() == 1;
    for (nth, row) in size.0.iter().enumerate() {
        let at = if is_one { path.to_owned() } else { format!("{path}.{nth}.size") };
        within(source, &at, row.size.0, SIZES);
    }
    if size.0.iter().map(|row| row.share.0).sum::<f64>() <= 0.0 && !size.0.is_empty() {
        source.wrong(path, "the shares of the sizes add up to 0");
    }
}

fn check_chains(chains: &[ChainFile], source: &mut Source<'_>) {
    if chains.is_empty() {
        source.wrong("chains", "a model has at least one chain");
    } else if chains.iter().map(|chain| chain.share.0).sum::<f64>() <= 0.0 {
        source.wrong("chains", "the shares of the chains add up to 0");
    }
    for (index, chain) in chains.iter().enumerate() {
        if chains[..index].iter().any(|other| other.name == chain.name) {
            let message = format!("there is another chain `{}`", chain.name);
            source.wrong(&format!("chains.{index}.name"), message);
        }
    }
}

/// The traffic of a chain: one part for each size.
fn traffic_of(
    chain: &ChainFile,
    index: usize,
    sizes: &SizeFile,
    costs: &Costs,
    source: &mut Source<'_>,
) -> Vec<Traffic> {
    let path = format!("chains.{index}");
    for (nth, name) in chain.functions.iter().enumerate() {
        // Fused or not, a function has a cost of its own to be compared with.
        if costs.function(name, true).is_none() {
            let known: Vec<String> = costs.functions.names().map(str::to_owned).collect();
            let message = format!("no cost is known of the function `{name}`");
            let mistake = source.wrong(&format!("{path}.functions.{nth}"), message);
            mistake.suggest(name, known.iter().map(String::as_str));
        }
    }
    let functions = match chain.length {
        Some(length) => {
            within(source, &format!("{path}.length"), f64::from(length), 1.0..=1000.0);
            if chain.functions.is_empty() {
                source.wrong(&format!("{path}.length"), "a chain without functions has no length");
            }
            chain.functions.iter().cycle().take(length.min(1000) as usize).cloned().collect()
        }
        None => chain.functions.clone(),
    };
    if let Some(own) = &chain.size {
        check_size(own, &format!("{path}.size"), source);
    }
    let sizes = chain.size.as_ref().unwrap_or(sizes);
    let sum: f64 = sizes.0.iter().map(|row| row.share.0).sum();
    let part = |row: &SizeShare| Traffic {
        name: match sizes.0.len() {
            1 => chain.name.clone(),
            _ => format!("{}, {} B", chain.name, row.size.0),
        },
        share: chain.share.0 * row.share.0 / sum.max(f64::MIN_POSITIVE),
        size: row.size.0,
        functions: functions.clone(),
    };
    sizes.0.iter().map(part).collect()
}

fn sweep_of(file: &SweepFile, source: &mut Source<'_>) -> (Vec<f64>, Vec<usize>) {
    let sizes = file.sizes;
    within(source, "sweep.sizes.from", sizes.from.0, SIZES);
    within(source, "sweep.sizes.to", sizes.to.0, SIZES);
    within(source, "sweep.sizes.step", sizes.step.0, 1.0..=9216.0);
    if sizes.from.0 > sizes.to.0 {
        source.wrong("sweep.sizes", "`from` is more than `to`");
    }
    let steps = ((sizes.to.0 - sizes.from.0) / sizes.step.0.max(1.0)).max(0.0) as usize;
    let swept = (0..=steps.min(POINTS)).map(|step| sizes.from.0 + step as f64 * sizes.step.0);
    for (nth, &length) in file.lengths.iter().enumerate() {
        within(source, &format!("sweep.lengths.{nth}"), f64::from(length), 1.0..=1000.0);
    }
    let lengths = match file.lengths.is_empty() {
        true => (1..=16).collect(),
        false => file.lengths.iter().map(|&length| length as usize).collect(),
    };
    (swept.collect(), lengths)
}

fn measured_of(
    file: &MeasuredFile,
    nth: usize,
    model: &Scenario,
    source: &mut Source<'_>,
) -> Option<Measured> {
    let path = format!("measured.{nth}");
    let quantity = match (file.rate, file.cycles) {
        (Some(rate), None) => Quantity::Rate(rate.0),
        (None, Some(cycles)) => Quantity::Cycles(cycles),
        _ => {
            source.wrong(&path, "either `rate` or `cycles` was measured");
            return None;
        }
    };
    if !(quantity.value().is_finite() && quantity.value() > 0.0) {
        source.wrong(&path, "what was measured is more than 0");
    }
    let mut scenario = model.clone();
    scenario.composition = file.composition.unwrap_or(model.composition);
    scenario.hardware.cpu.frequency = file.frequency.or(scenario.hardware.cpu.frequency);
    if file.frequency.is_some_and(|frequency| frequency.0 <= 0.0) {
        source.wrong(&format!("{path}.frequency"), "this must be more than 0");
    }
    if let Some(cores) = file.cores {
        check_cores(cores, &format!("{path}.cores"), &model.hardware, source);
        scenario.workers = cores.workers as usize;
        scenario.function_cores = cores.functions as usize;
    }
    if let Some(length) = file.length {
        within(source, &format!("{path}.length"), f64::from(length), 1.0..=1000.0);
        scenario = scenario.with_length(length.min(1000) as usize);
    }
    if let Some(size) = file.size {
        within(source, &format!("{path}.size"), size.0, SIZES);
        scenario = scenario.with_size(size.0);
    }
    let name = file.name.clone().unwrap_or_else(|| {
        let length = scenario.traffic.iter().map(|traffic| traffic.functions.len()).max();
        let (composition, size) = (scenario.composition.name(), scenario.mean_size());
        format!("{composition}, {} functions, {size:.0} B", length.unwrap_or(0))
    });
    Some(Measured { name, scenario, quantity, source: file.source.clone() })
}

fn plan_of(
    file: &PlanFile,
    chains: &[ChainFile],
    sizes: &SizeFile,
    model: &Scenario,
    source: &mut Source<'_>,
) -> Option<Request> {
    within(source, "plan.headroom", file.headroom.0, 0.0..=0.99);
    if model.composition.has_function_cores() && model.function_cores > 0 {
        let message = "a plan is for functions on the workers' cores";
        source.wrong("plan", message).hint("leave `cores.functions` out");
    }
    for (list, path) in [(file.nodes.len(), "plan.nodes"), (file.demand.len(), "plan.demand")] {
        if list == 0 {
            source.wrong(path, "this must not be empty");
        }
    }
    let mut nodes = Vec::new();
    for (nth, node) in file.nodes.iter().enumerate() {
        nodes.extend(nodes_of(node, nth, &model.hardware, source));
    }
    for (nth, node) in file.nodes.iter().enumerate() {
        if file.nodes[..nth].iter().any(|other| other.name == node.name) {
            let message = format!("there is another node `{}`", node.name);
            source.wrong(&format!("plan.nodes.{nth}.name"), message);
        }
    }
    let demand = file.demand.iter().enumerate();
    let demand: Vec<_> = demand
        .map(|(nth, demand)| demand_of(demand, nth, chains, sizes, &model.costs, source))
        .collect();
    let placement = match file.placement {
        PlacementFile::Pack => Placement::Pack,
        PlacementFile::Spread => Placement::Spread,
    };
    let demand = demand.into_iter().collect::<Option<_>>()?;
    Some(Request { headroom: file.headroom.0, placement, nodes, demand })
}

fn nodes_of(file: &NodeFile, nth: usize, base: &Hardware, source: &mut Source<'_>) -> Vec<Node> {
    let path = format!("plan.nodes.{nth}");
    within(source, &format!("{path}.count"), f64::from(file.count), 1.0..=f64::from(NODES));
    let hardware = hardware_of(file.hardware.clone(), &format!("{path}.hardware"), source);
    let hardware = hardware.over(base.clone());
    let name = |number: u32| match file.count {
        1 => file.name.clone(),
        _ => format!("{}-{number}", file.name),
    };
    let nodes = 1..=file.count.min(NODES);
    nodes.map(|number| Node { name: name(number), hardware: hardware.clone() }).collect()
}

fn demand_of(
    file: &DemandFile,
    nth: usize,
    chains: &[ChainFile],
    sizes: &SizeFile,
    costs: &Costs,
    source: &mut Source<'_>,
) -> Option<Demand> {
    let path = format!("plan.demand.{nth}");
    if file.users == 0 || file.rate.0 <= 0.0 {
        source.wrong(&path, "users and their rate must be more than 0");
    }
    if let Some(first) = file.first
        && first.0.to_bits().checked_add(file.users.saturating_sub(1)).is_none()
    {
        source.wrong(&format!("{path}.first"), "there are not so many addresses behind this one");
    }
    let Some(index) = chains.iter().position(|chain| chain.name == file.chain) else {
        let message = format!("there is no chain `{}`", file.chain);
        let names = chains.iter().map(|chain| chain.name.as_str());
        source.wrong(&format!("{path}.chain"), message).suggest(&file.chain, names);
        return None;
    };
    if let Some(size) = &file.size {
        check_size(size, &format!("{path}.size"), source);
    }
    let chain = &chains[index];
    let sizes = file.size.as_ref().or(chain.size.as_ref()).unwrap_or(sizes);
    // What is wrong with the chain itself has been noted already.
    let known = source.mistakes.len();
    let of = ChainFile {
        name: chain.name.clone(),
        share: Share(1.0),
        functions: chain.functions.clone(),
        length: chain.length,
        size: Some(sizes.clone()),
    };
    let traffic = traffic_of(&of, index, sizes, costs, source);
    source.mistakes.truncate(known);
    Some(Demand {
        name: file.name.clone(),
        users: file.users,
        first: file.first.map(|first| first.0),
        rate: file.rate.0,
        chain: file.chain.clone(),
        traffic,
    })
}

fn within(source: &mut Source<'_>, path: &str, value: f64, range: RangeInclusive<f64>) {
    if !range.contains(&value) {
        let (least, most) = (range.start(), range.end());
        source.wrong(path, format!("{value} is not between {least} and {most}"));
    }
}
