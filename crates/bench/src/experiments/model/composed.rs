//! Chains that are run elsewhere or as machine code, for the model: what a packet costs the core
//! of the node.

use std::time::Duration;

use weft_traffic::Rate;

use crate::calibration::composed::{ALONE, of_series};
use crate::experiments::failed::Failed;
use crate::experiments::model::components::{Component, shared};
use crate::results::Better;
use crate::run::{Cell, Run};
use weft_rig::Composition;
use weft_rig::Failure;
use weft_rig::Setup;
use weft_rig::uplink;

/// A place of a series: bytes of a frame, and the node.
pub type Chain = Cell<(u32, Setup)>;

/// The cells that costs of compositions follow from, all of the same devices: no function, and
/// chains of one and two. Where functions are elsewhere, these are `pass`, as what they do is not
/// done by the node's core; fused ones are all, each beside `pass` and in all pairs.
pub fn cells(
    sizes: &[u32],
    users: u32,
    ways: &[Composition],
    functions: &[Component],
) -> Vec<Chain> {
    let all = Component::with_pass(functions);
    let pass = &all[all.iter().position(|one| one.is_pass()).unwrap_or(0)];
    let mut cells = Vec::new();
    for &size in sizes {
        cells.push(Cell::new(ALONE, size, (size, Setup::forwarding(users))));
        for &way in ways {
            let chains: Vec<Vec<&Component>> = match way {
                Composition::Fused => pairs(&all),
                way if way.is_elsewhere() => vec![vec![pass], vec![pass, pass]],
                _ => Vec::new(),
            };
            for chain in chains {
                let names: Vec<&str> = chain.iter().map(|one| one.name.as_str()).collect();
                let series = of_series(way, &names);
                cells.push(Cell::new(series, size, (size, setup(users, chain, way))));
            }
        }
    }
    cells
}

/// All pairs, those of a function with itself among them.
fn pairs(functions: &[Component]) -> Vec<Vec<&Component>> {
    let from = |first: usize| functions[first..].iter();
    let pairs = (0..functions.len())
        .flat_map(|first| from(first).map(move |second| vec![&functions[first], second]));
    pairs.collect()
}

/// A node with such a chain, run in this way.
pub fn setup(users: u32, chain: Vec<&Component>, way: Composition) -> Setup {
    shared(users, &[(100, chain)]).taking_turns(way)
}

/// Measures them, all in each round, so that whatever the machine does meanwhile is done to all
/// alike. What x is may differ.
///
/// # Errors
/// Those of the rig; what one machine cannot run is left out, and noted.
pub fn measure(
    cells: &[(&str, Vec<Chain>)],
    (users, length): (u32, Duration),
    repetitions: u32,
    run: &mut Run<'_>,
) -> Result<(), Failure> {
    let all: Vec<_> = cells.iter().flat_map(|(_, cells)| cells.iter().cloned()).collect();
    if all.is_empty() {
        return Ok(());
    }
    if let Err(missing) = run.rig.cores.traffic() {
        run.note(format!("Compositions were left out: {missing}."));
        return Ok(());
    }
    for (x, cells) in cells {
        for cell in cells {
            run.series(&cell.series, x, "cycles/packet", Some(Better::Lower));
        }
    }
    let mut failed = Failed::default();
    run.rounds(repetitions, &all, |rig, (size, setup)| {
        let load = uplink(users, *size as usize, Rate::Unlimited);
        let cost = rig.cost_of_composed(setup, &load, length);
        failed.cost(setup.composition.name(), cost)
    })?;
    failed.tell(run);
    Ok(())
}
