//! On random rules and packets: the compiled program, the interpreter and the cached lookup
//! take every packet the same way, and conditions mean what they say.

use std::sync::Arc;

use crate::common::Packet;
use crate::common::random::{Expression, Traveller, World, expression, lines, traveller, world};
use proptest::prelude::*;
use weft_rules::*;

/// Walks are compared up to so many hops, since rules may go round in a loop.
const HOPS: usize = 24;

/// One step of a packet's way: where it is, and its tags when it gets there.
type Step = (NextPlace, [u32; TAG_SLOTS]);

/// The way of a packet, if `hop` says where it goes next.
fn walk(
    world: &World,
    traveller: &Traveller,
    mut hop: impl FnMut(&Packet) -> (Option<u32>, NextPlace),
) -> Vec<Step> {
    let mut packet = traveller.packet.clone();
    let mut written = traveller.written.iter().cycle();
    let mut way = Vec::new();
    while way.len() < HOPS {
        let (set_chain, to) = hop(&packet);
        if let Some(chain) = set_chain {
            packet.tags[0] = chain;
        }
        way.push((to, packet.tags));
        let NextPlace::Function(function) = to else { break };
        for &slot in &world.functions[usize::from(function.0)] {
            packet.tags[usize::from(slot)] = *written.next().unwrap();
        }
    }
    way
}

/// Follows a place through lookups that name the next one.
fn by_lookup(
    world: &World,
    traveller: &Traveller,
    mut next: impl FnMut(Place, &Packet) -> Hop,
) -> Vec<Step> {
    let mut place = Place::Port(PortIndex(traveller.port));
    walk(world, traveller, |packet| {
        let hop = next(place, packet);
        if let NextPlace::Function(function) = hop.to {
            place = Place::Function(function);
        }
        (hop.set_chain, hop.to)
    })
}

fn by_program(world: &World, traveller: &Traveller, program: &Program, first: &Next) -> Vec<Step> {
    let mut next = first;
    walk(world, traveller, |packet| {
        let target = next.choose(packet);
        if let Some((slot, least, greatest)) = next.by_tag() {
            let is_within = (least..=greatest).contains(&packet.tag(slot));
            assert_eq!(next.arm(packet), usize::from(!is_within), "{next:?}");
        }
        let to = match target.to {
            To::State(id) => {
                let state = &program.states[id.0 as usize];
                next = &state.next;
                NextPlace::Function(state.function)
            }
            To::Port(port) => NextPlace::Port(port),
            To::Drop => NextPlace::Drop,
            To::NoRule => NextPlace::NoRule,
        };
        (target.set_chain, to)
    })
}

/// A vocabulary, the lines of a rule text, and packets.
fn scene(strange: bool) -> impl Strategy<Value = (World, Vec<String>, Vec<Traveller>)> {
    world().prop_flat_map(move |world| {
        let travellers = prop::collection::vec(traveller(&world, strange), 1..12);
        (Just(world.clone()), lines(&world), travellers)
    })
}

fn parse(world: &World, lines: &[String]) -> RuleSet {
    RuleSet::parse(&lines.join("\n"), &world.vocabulary()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn all_ways_are_the_same((world, lines, travellers) in scene(true)) {
        let rules = Arc::new(parse(&world, &lines));
        let entries: Vec<Entry> = travellers.iter().map(Traveller::entry).collect();
        let program = rules.compile(&entries).unwrap();
        let mut cached = CachedRules::new(Arc::clone(&rules), 7);
        for (traveller, first) in travellers.iter().zip(&program.entries) {
            let interpreted = by_lookup(&world, traveller, |place, packet| rules.next(place, packet));
            let compiled = by_program(&world, traveller, &program, first);
            prop_assert_eq!(&compiled, &interpreted);
            // Twice, so that some hops come from the cache.
            for _ in 0..2 {
                let looked_up =
                    by_lookup(&world, traveller, |place, packet| cached.next(place, packet));
                prop_assert_eq!(&looked_up, &interpreted);
            }
        }
    }

    #[test]
    fn programs_are_in_order((world, lines, travellers) in scene(true)) {
        let rules = parse(&world, &lines);
        let entries: Vec<Entry> = travellers.iter().map(Traveller::entry).collect();
        let program = rules.compile(&entries).unwrap();
        let mut functions: Vec<u16> = program.states.iter().map(|state| state.function.0).collect();
        let successors = |id: usize| {
            program.states[id].next.targets().filter_map(|target| match target.to {
                To::State(next) => Some(next.0 as usize),
                _ => None,
            }).collect::<Vec<_>>()
        };
        // Where no function can be met again, the next state is always a higher one.
        if !functions_repeat(&functions, successors) {
            for id in 0..program.states.len() {
                prop_assert!(successors(id).iter().all(|&next| next > id));
            }
        }
        functions.dedup();
        let runs = functions.len();
        functions.sort_unstable();
        functions.dedup();
        prop_assert_eq!(functions.len(), runs);
    }

    #[test]
    fn rules_that_are_never_reached_make_no_difference(
        (world, lines, travellers) in scene(false)
    ) {
        let rules = parse(&world, &lines);
        let ports: Vec<PortIndex> = (0..world.ports as u16).map(PortIndex).collect();
        let dead: Vec<usize> = rules
            .check(&ports)
            .iter()
            .filter(|finding| !finding.message.contains("loop"))
            .map(|finding| finding.line)
            .collect();
        let live = lines.iter().zip(1..).filter(|(line, number)| {
            line.starts_with("chain") || !dead.contains(number)
        });
        let live: Vec<String> = live.map(|(line, _)| line.clone()).collect();
        let less = parse(&world, &live);
        for traveller in &travellers {
            // Functions write numbers that named tags do not have.
            let mut traveller = traveller.clone();
            traveller.written = vec![0];
            prop_assert_eq!(
                by_lookup(&world, &traveller, |place, packet| less.next(place, packet)),
                by_lookup(&world, &traveller, |place, packet| rules.next(place, packet))
            );
        }
    }

    #[test]
    fn conditions_mean_what_they_say(
        (world, expression, travellers) in world().prop_flat_map(|world| {
            let travellers = prop::collection::vec(traveller(&world, true), 1..12);
            (Just(world.clone()), expression(&world), travellers)
        })
    ) {
        conditions_agree(&world, &expression, &travellers)?;
    }
}

fn functions_repeat(functions: &[u16], successors: impl Fn(usize) -> Vec<usize>) -> bool {
    let mut reach: Vec<Vec<bool>> = vec![vec![false; 8]; 8];
    for (id, &function) in functions.iter().enumerate() {
        for next in successors(id) {
            reach[usize::from(function)][usize::from(functions[next])] = true;
        }
    }
    for via in 0..8 {
        for from in 0..8 {
            for to in 0..8 {
                reach[from][to] |= reach[from][via] && reach[via][to];
            }
        }
    }
    (0..8).any(|function| reach[function][function])
}

fn conditions_agree(
    world: &World,
    expression: &Expression,
    travellers: &[Traveller],
) -> Result<(), TestCaseError> {
    let vocabulary = world.vocabulary();
    let condition = Condition::parse(&expression.to_string(), &vocabulary).unwrap();
    let shown = condition.display(&vocabulary).to_string();
    let again = Condition::parse(&shown, &vocabulary);
    for Traveller { packet, .. } in travellers {
        let holds = expression.holds(packet);
        prop_assert_eq!(condition.eval(packet), holds, "{}", expression);
        let again = again.as_ref().map(|again| again.eval(packet));
        prop_assert_eq!(again, Ok(holds), "{} written as {}", expression, shown);
    }
    Ok(())
}
