//! Finds functions that stand next to each other and fuses them.
//!
//! Functions can become one where visiting them one after the other and letting
//! each packet pass them at once come to the same: a *region* begins at one
//! function, and every further one of it is reached from functions of the region
//! only, without a decision. All packets of a burst that meet the region enter it
//! together, in the order they came, and each takes its own way through it; so
//! whatever shares a context meets it in that order, as when functions are called.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use arrayvec::ArrayVec;
use weft_compose::{Positions, SlotShift};
use weft_rules::{Next, Program, StateId, To};

use crate::MAX_FUNCTIONS;
use crate::code::Listing;
use crate::fused::{Fused, FusedPart};

/// What is fused of a plan.
#[derive(Debug, Default)]
pub struct FusedPlan {
    /// The region that begins at a function, by its number.
    pub heads: Vec<Option<u16>>,
    /// The regions.
    pub regions: Vec<Region>,
}

/// Functions that packets enter together.
#[derive(Debug)]
pub struct Region {
    /// The functions, in the order that packets meet them.
    pub functions: ArrayVec<u16, MAX_FUNCTIONS>,
    /// The ways through it, by the state that they begin at.
    pub ways: Vec<RegionWay>,
}

/// In the place of a place on a way.
pub const NOT_ON_WAY: u8 = u8::MAX;
const _: () = assert!(MAX_FUNCTIONS < NOT_ON_WAY as usize);

/// One way through a region.
#[derive(Debug)]
pub struct RegionWay {
    /// The state it begins at.
    pub first: u32,
    /// The state of its last function.
    pub last: u32,
    /// Its functions, as positions in [`Region::functions`].
    pub functions: ArrayVec<u8, MAX_FUNCTIONS>,
    /// Where each function stands on the way, by its number; [`NOT_ON_WAY`] for others.
    pub places: Box<[u8]>,
    /// What carries packets along.
    pub fused: Arc<Fused>,
}

impl FusedPlan {
    /// The functions that packets pass in machine code, by their numbers.
    pub fn functions(&self) -> impl Iterator<Item = u16> {
        let of = |region: &Region, way: &RegionWay| -> Vec<u16> {
            way.functions.iter().map(|at| region.functions[usize::from(*at)]).collect()
        };
        self.regions
            .iter()
            .flat_map(move |region| region.ways.iter().flat_map(move |way| of(region, way)))
    }

    /// What an operator sees of it; `name` is that of a function, by its number.
    pub fn text<'n>(&self, name: impl Fn(u16) -> &'n str) -> String {
        let mut text = String::new();
        for region in &self.regions {
            for way in &region.ways {
                let functions = way.functions.iter().map(|at| region.functions[usize::from(*at)]);
                let names: Vec<_> = functions.map(&name).collect();
                show_way(&names, &way.fused, &mut text);
            }
        }
        text
    }
}

impl Region {
    /// The way that begins at a state.
    #[inline]
    pub fn way(&self, state: u32) -> Option<&RegionWay> {
        self.ways.iter().find(|way| way.first == state)
    }

    /// Packets of several ways, each with the state it begins at, in order: those in a
    /// row that go the same way at once.
    pub fn in_order<'a>(
        &'a self,
        group: &'a [(u32, Positions)],
        selected: Positions,
    ) -> impl Iterator<Item = (&'a RegionWay, Positions)> {
        let mut left = selected;
        std::iter::from_fn(move || {
            let first = left.lowest()?;
            let (state, of_state) = group.iter().find(|(_, some)| some.contains(first))?;
            let others = left.without(*of_state);
            // Up to the first packet that goes another way.
            let row = match others.lowest() {
                Some(other) => left.and(Positions::first(other)),
                None => left,
            };
            left = left.without(row);
            Some((self.way(*state)?, row))
        })
    }
}

fn show_way(names: &[&str], fused: &Fused, text: &mut String) {
    let (written, optimised) = (fused.way(), fused.optimised());
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "fused: {}\n{} micro-operations, {} once what is common is shared",
        names.join(" -> "),
        written.operations.len(),
        optimised.operations.len(),
    );
    for (number, (name, part)) in names.iter().zip(fused.parts()).enumerate() {
        let _ = writeln!(text, "\nfunction {number}: {name}\n{}", part.program);
    }
    let _ = writeln!(text, "fused\n{optimised}");
    match fused.list() {
        Ok(Listing { instructions, bytes }) => {
            let _ = writeln!(text, "machine code, {} bytes\n{instructions}", bytes.len());
            for line in bytes.chunks(32) {
                let line: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
                let _ = writeln!(text, "{line}");
            }
        }
        Err(error) => drop(writeln!(text, "{error}")),
    }
    text.push('\n');
}

/// What has been compiled and is in use.
#[derive(Debug, Default)]
pub struct Compiled(HashMap<Vec<FusedPart>, Arc<Fused>>);

impl Compiled {
    /// What runs these functions; from before if there is one. None where they
    /// cannot be compiled, which is told to the log.
    fn get(
        &mut self,
        before: &mut Compiled,
        parts: Vec<FusedPart>,
        shift: SlotShift,
    ) -> Option<Arc<Fused>> {
        if let Some(known) = self.0.get(&parts) {
            return Some(known.clone());
        }
        let fused = match before.0.remove(&parts) {
            Some(fused) => fused,
            None => match Fused::compile(parts.clone(), shift) {
                Ok(fused) => Arc::new(fused),
                Err(error) => {
                    tracing::warn!("functions are called instead of fused: {error}");
                    return None;
                }
            },
        };
        self.0.insert(parts, fused.clone());
        Some(fused)
    }
}

/// Fuses functions of a program. `lowered` says, by the number of a function,
/// what it does if it is to be fused. What was compiled before and is still of
/// use is not compiled again; `compiled` holds what is in use now.
pub fn fuse(
    program: &Program,
    lowered: &[Option<FusedPart>],
    shift: SlotShift,
    compiled: &mut Compiled,
) -> Option<Arc<FusedPlan>> {
    let mut before = std::mem::take(compiled);
    let mut plan = FusedPlan { heads: vec![None; lowered.len()], regions: Vec::new() };
    for functions in regions(program, lowered) {
        let ways = ways(program, &functions, lowered);
        let ways = ways.into_iter().map(|(states, parts)| {
            let number = |state: &u32| {
                let function = program.states[*state as usize].function.0;
                functions.iter().position(|one| *one == function).unwrap_or_default() as u8
            };
            let mut places = vec![NOT_ON_WAY; lowered.len()];
            for (place, state) in (0..).zip(&states) {
                let function = program.states[*state as usize].function.0;
                places[usize::from(function)] = place;
            }
            Some(RegionWay {
                places: places.into(),
                first: *states.first()?,
                last: *states.last()?,
                functions: states.iter().map(number).collect(),
                fused: compiled.get(&mut before, parts, shift)?,
            })
        });
        // One way that cannot be compiled leaves the whole region called.
        if let Some(ways) = ways.collect::<Option<Vec<_>>>() {
            plan.heads[usize::from(functions[0])] = Some(plan.regions.len() as u16);
            plan.regions.push(Region { functions, ways });
        }
    }
    (!plan.regions.is_empty()).then(|| Arc::new(plan))
}

/// Where packets come from to a state.
#[derive(Clone, Copy)]
enum Source {
    /// Always from this state to that.
    State(u32),
    /// From a port, or by a decision.
    Elsewhere,
}

fn sources(program: &Program) -> Vec<Vec<Source>> {
    let mut sources = vec![Vec::new(); program.states.len()];
    let mut note = |next: &Next, from: Source| {
        for target in next.targets() {
            if let To::State(StateId(state)) = target.to {
                let from = if let Next::Go(_) = next { from } else { Source::Elsewhere };
                sources[state as usize].push(from);
            }
        }
    };
    program.entries.iter().for_each(|entry| note(entry, Source::Elsewhere));
    for (number, state) in program.states.iter().enumerate() {
        note(&state.next, Source::State(number as u32));
    }
    sources
}

/// The regions of two functions and more.
fn regions(program: &Program, lowered: &[Option<FusedPart>]) -> Vec<ArrayVec<u16, MAX_FUNCTIONS>> {
    let sources = sources(program);
    let mut regions: Vec<ArrayVec<u16, MAX_FUNCTIONS>> = Vec::new();
    let mut region_of: HashMap<u16, usize> = HashMap::new();
    let mut rest = &program.states[..];
    while let Some(first) = rest.first() {
        let function = first.function.0;
        let start = program.states.len() - rest.len();
        let count = rest.iter().take_while(|state| state.function.0 == function).count();
        rest = &rest[count..];
        if lowered.get(usize::from(function)).is_none_or(Option::is_none) {
            continue;
        }
        // States stand in topological order, so those before are decided.
        let mut from = sources[start..start + count].iter().flatten().map(|source| match source {
            Source::State(state) => {
                region_of.get(&program.states[*state as usize].function.0).copied()
            }
            Source::Elsewhere => None,
        });
        let all_from = from.next().flatten().filter(|one| from.all(|other| other == Some(*one)));
        let region = all_from.filter(|region| !regions[*region].is_full()).unwrap_or_else(|| {
            regions.push(ArrayVec::new());
            regions.len() - 1
        });
        regions[region].push(function);
        region_of.insert(function, region);
    }
    regions.retain(|functions| functions.len() > 1);
    regions
}

/// The ways through a region: their states, and what is to be fused.
fn ways(
    program: &Program,
    functions: &[u16],
    lowered: &[Option<FusedPart>],
) -> Vec<(Vec<u32>, Vec<FusedPart>)> {
    let is_first = |(_, state): &(usize, &weft_rules::State)| state.function.0 == functions[0];
    let firsts = program.states.iter().enumerate().filter(is_first);
    let way = |(first, _): (usize, &weft_rules::State)| {
        let (mut states, mut parts) = (Vec::new(), Vec::new());
        let mut next = Some(first);
        while let Some(number) = next {
            let state = &program.states[number];
            let Some(mut part) = lowered[usize::from(state.function.0)].clone() else { break };
            next = match &state.next {
                Next::Go(target) => match target.to {
                    To::State(StateId(next)) if is_further(program, functions, next) => {
                        let slot = weft_function::TagSlot::CHAIN;
                        part.sets = target.set_chain.map(|chain| (slot, chain));
                        Some(next as usize)
                    }
                    _ => None,
                },
                Next::Branch(..) => None,
            };
            states.push(number as u32);
            parts.push(part);
        }
        (states, parts)
    };
    firsts.map(way).collect()
}

/// Whether a state is one of the region, behind its first function.
fn is_further(program: &Program, functions: &[u16], state: u32) -> bool {
    functions[1..].contains(&program.states[state as usize].function.0)
}
