//! Loops that packets with certain values of tags never leave, though others do.
//!
//! Within a cycle a tag is constant that no function of it writes. Packets whose constant tags
//! have equal values, as far as conditions tell them apart, are a class. What else conditions
//! ask, header fields above all, may change with each visit and is left open.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::graph::{Value, cycles, free, possible};
use crate::check::partition::tag_values;
use crate::compile::program::{Next, NextHop, Program, To};
use crate::condition::Values;
use crate::language::field::{FieldValue, Variable};
use crate::language::vocabulary::{TagKind, Vocabulary};

/// More classes than this are not looked at one by one.
const MAX_CLASSES: usize = 4096;

/// A loop, and the packets that stay in it.
pub(super) struct Held {
    /// Its states.
    pub cycle: Vec<usize>,
    /// The tags of these packets, as a message names them.
    pub tags: String,
}

/// The loops that some packets never leave. `targets` are those that any packets go to; states
/// that are `stuck` hold all packets and are left out.
pub(super) fn held(
    program: &Program,
    vocabulary: &Vocabulary,
    targets: &[Vec<NextHop>],
    stuck: impl Fn(usize) -> bool,
    trials: &mut usize,
) -> Vec<Held> {
    let mut all = Vec::new();
    for cycle in cycles(targets, |_| true) {
        let Some(classes) = Classes::of(&cycle, program, vocabulary) else { continue };
        let search = Search { program, vocabulary, targets, classes: &classes, cycle: &cycle };
        let Some(found) = search.run(&stuck, trials) else { continue };
        for (cycle, held) in found {
            all.push(Held { cycle, tags: classes.text(&held, vocabulary) });
        }
    }
    all
}

/// The tags that are constant in a cycle, and the first value of each stretch of values that
/// conditions do not tell apart.
struct Classes {
    axes: Vec<(u8, Vec<u32>)>,
}

impl Classes {
    /// `None` where no tag is constant, and where there are too many classes.
    fn of(cycle: &[usize], program: &Program, vocabulary: &Vocabulary) -> Option<Classes> {
        let mut asked = BTreeSet::new();
        let mut changed = BTreeSet::new();
        for &id in cycle {
            let state = &program.states[id];
            tests(&state.next, &mut |slot, _| {
                asked.insert(slot);
            });
            let function = &vocabulary.functions()[usize::from(state.function.0)];
            changed.extend(function.writes.iter().copied());
            if state.next.targets().any(|target| target.set_chain.is_some()) {
                changed.extend(program.chain_slot);
            }
        }
        let mut sets: BTreeMap<u8, Vec<&Values>> = BTreeMap::new();
        let ways = program.states.iter().map(|state| &state.next).chain(&program.entries);
        for next in ways {
            tests(next, &mut |slot, values| sets.entry(slot).or_default().push(values));
        }
        let axes: Vec<(u8, Vec<u32>)> = asked
            .difference(&changed)
            .map(|slot| (*slot, numbers(tag_values(*slot, &sets[slot], vocabulary))))
            .collect();
        let count = axes.iter().try_fold(1_usize, |all, (_, one)| all.checked_mul(one.len()));
        let is_few = count.is_some_and(|count| count <= MAX_CLASSES);
        (!axes.is_empty() && is_few).then_some(Classes { axes })
    }

    fn all(&self) -> Vec<Vec<Value>> {
        let mut all = vec![Vec::new()];
        for (slot, values) in &self.axes {
            let longer = |class: &Vec<Value>, value: &u32| {
                let mut class = class.clone();
                class.push((*slot, *value));
                class
            };
            all = all
                .iter()
                .flat_map(|class| values.iter().map(move |value| longer(class, value)))
                .collect();
        }
        all
    }

    /// The classes into which packets of a class come where these tags are written.
    fn written(&self, class: &[Value], writes: &[u8]) -> Vec<Vec<Value>> {
        let mut all = vec![class.to_vec()];
        for (at, (_, values)) in self.axes.iter().enumerate() {
            if writes.contains(&class[at].0) {
                let with = |class: &Vec<Value>, value: &u32| {
                    let mut class = class.clone();
                    class[at].1 = *value;
                    class
                };
                all = all
                    .iter()
                    .flat_map(|class| values.iter().map(move |value| with(class, value)))
                    .collect();
            }
        }
        all
    }

    /// The class of packets whose tag has been set.
    fn set(&self, mut class: Vec<Value>, slot: u8, value: u32) -> Vec<Value> {
        if let Some(at) = self.axes.iter().position(|(one, _)| *one == slot) {
            class[at].1 = first_of(&self.axes[at].1, value);
        }
        class
    }

    /// Names one of these classes, without tags that make no difference, and with all values of
    /// the tag if it is one.
    fn text(&self, held: &BTreeSet<Vec<Value>>, vocabulary: &Vocabulary) -> String {
        let Some(class) = held.first() else { return String::new() };
        let varied = |at: usize| {
            let variants = self.written(class, &[class[at].0]);
            let held = variants.iter().filter(|variant| held.contains(*variant));
            let values: Vec<u32> = held.map(|variant| variant[at].1).collect();
            (values.len() < variants.len()).then_some((at, values))
        };
        let mut named: Vec<_> = (0..class.len()).filter_map(varied).collect();
        if named.len() > 1 {
            named.iter_mut().for_each(|(at, values)| *values = vec![class[*at].1]);
        }
        let texts: Vec<String> = named
            .iter()
            .map(|(at, values)| {
                let (slot, axis) = &self.axes[*at];
                let tag = &vocabulary.tags()[usize::from(*slot)];
                let values = match &tag.kind {
                    TagKind::Named(names) => {
                        let names = names.iter().zip(0..);
                        let is_held = |number| values.contains(&first_of(axis, number));
                        names.filter(|(_, at)| is_held(*at)).map(|(name, _)| name.clone()).collect()
                    }
                    TagKind::Number => stretches(axis, values),
                };
                format!("`{}` {}", tag.name, either(&values))
            })
            .collect();
        texts.join(" and ")
    }
}

/// The first value of the stretch in which a value is.
fn first_of(axis: &[u32], value: u32) -> u32 {
    axis.iter().copied().filter(|first| *first <= value).max().unwrap_or_default()
}

/// The stretches of numbers that begin with `values`.
fn stretches(axis: &[u32], values: &[u32]) -> Vec<String> {
    let stretch = |first: &u32| {
        let next = axis.iter().filter(|start| *start > first).min();
        match next.map_or(u32::MAX, |next| next - 1) {
            last if last == *first => first.to_string(),
            last => format!("{first}..{last}"),
        }
    };
    values.iter().map(stretch).collect()
}

fn either(values: &[String]) -> String {
    match values {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        only => only.concat(),
    }
}

fn numbers(values: Vec<Option<FieldValue>>) -> Vec<u32> {
    let number = |value| match value {
        Some(FieldValue::Number(number)) => Some(number),
        _ => None,
    };
    values.into_iter().filter_map(number).collect()
}

/// Calls back for each test of a tag.
fn tests<'n>(next: &'n Next, found: &mut impl FnMut(u8, &'n Values)) {
    let Next::Branch(arms, _) = next else { return };
    for arm in arms {
        arm.when.tests(&mut |test| {
            if let Variable::Tag(slot) = test.variable {
                found(slot, &test.values);
            }
        });
    }
}

struct Search<'s> {
    program: &'s Program,
    vocabulary: &'s Vocabulary,
    targets: &'s [Vec<NextHop>],
    classes: &'s Classes,
    cycle: &'s [usize],
}

impl Search<'_> {
    /// The loops within the cycle, and the classes that stay in each; `None` if the search
    /// takes too long.
    fn run(
        &self,
        stuck: impl Fn(usize) -> bool,
        trials: &mut usize,
    ) -> Option<BTreeMap<Vec<usize>, BTreeSet<Vec<Value>>>> {
        let reached = self.reached(trials)?;
        let inside: HashSet<usize> = self.cycle.iter().copied().collect();
        let mut found: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for class in self.classes.all() {
            let mut targets = self.targets.to_vec();
            for &id in self.cycle {
                targets[id] = self.targets(id, &class, trials)?;
            }
            let free = free(&targets, |id| inside.contains(&id));
            let is_held = |id| inside.contains(&id) && !free.contains(&id);
            for mut cycle in cycles(&targets, is_held) {
                let is_entered = cycle.iter().any(|id| reached.contains(&(*id, class.clone())));
                if is_entered && !cycle.iter().all(|id| stuck(*id)) {
                    cycle.sort_unstable();
                    found.entry(cycle).or_default().insert(class.clone());
                }
            }
        }
        Some(found)
    }

    /// Where packets of a class go behind a state.
    fn targets(&self, id: usize, class: &[Value], trials: &mut usize) -> Option<Vec<NextHop>> {
        let next = &self.program.states[id].next;
        let mut asks = false;
        tests(next, &mut |slot, _| asks |= class.iter().any(|(one, _)| *one == slot));
        match asks {
            true => possible(next, self.vocabulary, class, trials),
            false => Some(self.targets[id].clone()),
        }
    }

    /// The states that packets of each class come to.
    fn reached(&self, trials: &mut usize) -> Option<HashSet<(usize, Vec<Value>)>> {
        let mut reached = HashSet::new();
        let mut open = Vec::new();
        for entry in &self.program.entries {
            for class in self.classes.all() {
                let targets = possible(entry, self.vocabulary, &class, trials)?;
                self.follow(&targets, &class, &mut open);
            }
        }
        while let Some((id, class)) = open.pop() {
            if !reached.insert((id, class.clone())) {
                continue;
            }
            *trials = trials.checked_sub(1)?;
            let function = self.program.states[id].function;
            let writes = &self.vocabulary.functions()[usize::from(function.0)].writes;
            for class in self.classes.written(&class, writes) {
                let targets = self.targets(id, &class, trials)?;
                self.follow(&targets, &class, &mut open);
            }
        }
        Some(reached)
    }

    fn follow(&self, targets: &[NextHop], class: &[Value], open: &mut Vec<(usize, Vec<Value>)>) {
        for target in targets {
            if let To::State(next) = target.to {
                let class = match self.program.chain_slot.zip(target.set_chain) {
                    Some((slot, chain)) => self.classes.set(class.to_vec(), slot, chain),
                    None => class.to_vec(),
                };
                open.push((next.0 as usize, class));
            }
        }
    }
}
