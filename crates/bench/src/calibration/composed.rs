//! Costs of what lies between a node and functions that are elsewhere, and of machine code.
//!
//! These trials have devices of their own, so what a chain costs is always that beyond a node
//! without a function on the same devices.

use weft_model::Calibration;
use weft_model::cost::{At, Cost};
use weft_model::quantity::Bytes;

use super::{PASS, cost_of, least_squares, number};
use crate::results::{Abscissa, Results};
use weft_rig::Composition;

/// The series of the node without a function.
pub const ALONE: &str = "between devices of compositions ()";

/// The series of a chain that is run in this way.
pub fn of_series(way: Composition, functions: &[&str]) -> String {
    format!("{} ({})", way.name(), functions.join(", "))
}

/// The functions of a series of chains that are run in this way; none of other series.
fn chain_of(series: &str, way: Composition) -> Option<Vec<&str>> {
    let list = series.strip_prefix(way.name())?.strip_prefix(" (")?.strip_suffix(')')?;
    Some(list.split(", ").collect())
}

/// What was measured at one size, beyond the node without a function.
struct Beyond<'r> {
    size: f64,
    results: &'r Results,
    alone: f64,
}

/// Adds what follows from results that have such series; `calibration` has what all compositions
/// have in common.
pub fn add(results: &Results, calibration: &mut Calibration) {
    let Some(alone) = results.series(ALONE) else { return };
    let mut sizes: Vec<Beyond<'_>> = alone
        .points
        .iter()
        .filter_map(|point| Some(Beyond { size: number(point)?, results, alone: cost_of(point) }))
        .collect();
    sizes.sort_by(|a, b| a.size.total_cmp(&b.size));
    let cpu = &calibration.cpu;
    let at = |cost: &Option<Cost>, size: f64| cost.as_ref().map_or(0.0, |cost| cost.at(size));
    let table = |cost: &dyn Fn(&Beyond<'_>) -> Option<f64>| {
        let rows = sizes.iter().filter_map(|beyond| {
            // Noise may put something cheap below zero.
            let cycles = cost(beyond)?.max(0.0);
            Some(At { size: Bytes(beyond.size), cycles })
        });
        let rows: Vec<At> = rows.collect();
        (!rows.is_empty()).then_some(Cost::Table(rows))
    };
    // There and back, whatever the number of functions.
    let thread = table(&|one| {
        let beyond = one.mean(Composition::Thread)?;
        Some((beyond - at(&cpu.chain, one.size)) / 2.0)
    });
    let ring = table(&|one| Some(one.each(Composition::Process, at(&cpu.chain, one.size))? / 2.0));
    let tunnel = table(&|one| {
        let each = one.each(Composition::Remote, at(&cpu.chain, one.size))?;
        Some((each - at(&cpu.receive, one.size) - at(&cpu.transmit, one.size)) / 2.0)
    });
    let names = fused(results);
    let columns: Vec<_> = (0..=names.len())
        .map(|column| {
            table(&|one| {
                let found = one.fused(&names)?;
                let entry = if column == 0 { at(&cpu.chain, one.size) } else { 0.0 };
                Some(found[column] - entry)
            })
        })
        .collect();
    let mut columns = columns.into_iter();
    calibration.cpu.machine_code = columns.next().flatten();
    let names = names.iter().map(|name| (*name).to_owned());
    let found = names.zip(columns).filter_map(|(name, cost)| Some((name, cost?)));
    calibration.fused.0.extend(found);
    if calibration.cpu.machine_code.is_some() {
        calibration.fused.0.push((PASS.to_owned(), Cost::NONE));
    }
    let cpu = &mut calibration.cpu;
    (cpu.thread, cpu.ring) = (thread, ring);
    (cpu.encapsulate, cpu.decapsulate) = (tunnel.clone(), tunnel);
}

/// Functions that stand in fused chains, each once, without the one that does nothing.
fn fused(results: &Results) -> Vec<&str> {
    let mut names = Vec::new();
    for series in &results.series {
        for name in chain_of(&series.name, Composition::Fused).unwrap_or_default() {
            if name != PASS && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

impl<'r> Beyond<'r> {
    /// Chains that are run in this way: their functions, and their costs beyond none.
    fn chains(&self, way: Composition) -> impl Iterator<Item = (Vec<&'r str>, f64)> {
        let (size, alone) = (Abscissa::Number(self.size), self.alone);
        self.results.series.iter().filter_map(move |series| {
            let chain = chain_of(&series.name, way)?;
            let point = series.points.iter().find(|point| point.x == size)?;
            Some((chain, cost_of(point) - alone))
        })
    }

    /// The mean over all chains.
    fn mean(&self, way: Composition) -> Option<f64> {
        let costs: Vec<f64> = self.chains(way).map(|(_, cost)| cost).collect();
        let count = costs.len();
        (count > 0).then(|| costs.iter().sum::<f64>() / count as f64)
    }

    /// What each function adds: the line through what entering a chain costs.
    fn each(&self, way: Composition, entry: f64) -> Option<f64> {
        let rows = self.chains(way).map(|(chain, cost)| (vec![chain.len() as f64], cost - entry));
        Some(least_squares(&rows.collect::<Vec<_>>())?[0])
    }

    /// Entering machine code, and each of these functions in it. The one that does nothing is no
    /// operation there, so it costs nothing.
    fn fused(&self, names: &[&str]) -> Option<Vec<f64>> {
        let rows = self.chains(Composition::Fused).map(|(chain, cost)| {
            let count = |name: &&str| chain.iter().filter(|one| *one == name).count() as f64;
            ([1.0].into_iter().chain(names.iter().map(count)).collect(), cost)
        });
        least_squares(&rows.collect::<Vec<_>>())
    }
}
