//! Which functions of a chain stand on a thread beside the worker's: chosen by the cycles
//! that each was measured to take, so that neither has much more to do than the other.
//!
//! Of the functions with `thread: auto` those that stand on the thread follow each other in
//! the chain. Another choice has to be better by a margin, twice in a row, and comes some
//! seconds after the one before.

use std::ops::Range;

use weft_dataplane::counters::{Cycles, DropReason, Stage};
use weft_node_config::{Blueprint, Composition, StagePlan};

use crate::functions::{FunctionEntry, Functions};
use crate::plan::{self, Classes};
use crate::workers::Workers;

/// How often loads are looked at, and how long a choice stands, in nanoseconds.
const EVERY: u64 = 1_000_000_000;
const STANDS: u64 = 5_000_000_000;

/// Packets whose time was taken without which nothing is known of a function.
const ENOUGH: u64 = 64;

/// What a crossing to the thread and back costs at either end, in cycles of a packet: between
/// what `weft bench composition` finds for single packets and for whole bursts.
const CROSSING: f64 = 50.0;

/// The busier of the two is to have less to do by this part.
const MARGIN: f64 = 0.1;

/// Where a function stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// At its worker, whatever is chosen.
    Worker,
    /// On the thread, whatever is chosen.
    Thread,
    /// In a process, on another thread, at another node.
    Elsewhere,
    /// At either, as is chosen.
    Either,
}

/// A function in the order of the chain.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    at: At,
    /// Cycles of a packet here, and how many of the packets come here.
    cycles: f64,
    share: f64,
}

/// Where the time of a packet goes.
#[derive(Clone, Debug, PartialEq)]
struct Loads {
    /// Workers, which share their part.
    workers: f64,
    /// Cycles of a packet at its worker beside the functions.
    worker: f64,
    steps: Vec<Step>,
}

impl Loads {
    /// Cycles of a packet at its worker and on the thread, with these on the thread.
    fn with(&self, chosen: &Range<usize>) -> (f64, f64) {
        let (mut worker, mut thread, mut is_there) = (self.worker, 0.0, false);
        for (number, step) in self.steps.iter().enumerate() {
            let chosen = step.at == At::Either && chosen.contains(&number);
            let (cycles, was_there) = (step.cycles * step.share, is_there);
            is_there = chosen || step.at == At::Thread;
            if is_there && !was_there {
                worker += CROSSING * step.share;
                thread += CROSSING * step.share;
            }
            match step.at {
                _ if is_there => thread += cycles,
                At::Worker | At::Either => worker += cycles,
                At::Thread | At::Elsewhere => {}
            }
        }
        (worker / self.workers, thread)
    }

    fn busier(&self, chosen: &Range<usize>) -> f64 {
        let (worker, thread) = self.with(chosen);
        worker.max(thread)
    }

    /// Neighbours that had better stand on the thread.
    fn best(&self) -> Range<usize> {
        let count = self.steps.len();
        let is_end = |at: usize| self.steps[at].at == At::Either;
        let all = (0..count).flat_map(|from| (from..count).map(move |last| (from, last)));
        let ranges = all.filter(|(from, last)| is_end(*from) && is_end(*last));
        ranges.map(|(from, last)| from..last + 1).fold(0..0, |best, other| {
            if self.busier(&other) < self.busier(&best) { other } else { best }
        })
    }

    fn why(&self, chosen: &Range<usize>) -> String {
        let ((worker, thread), (called, _)) = (self.with(chosen), self.with(&(0..0)));
        match chosen.is_empty() {
            true => format!(
                "worker {called:.0} cycles per packet: no other choice is better by a tenth for long"
            ),
            false => format!(
                "worker {worker:.0}, thread {thread:.0} cycles per packet; all called, {called:.0}"
            ),
        }
    }
}

/// What had been counted at the last look, and what was chosen since.
#[derive(Debug, Default)]
pub(crate) struct Split {
    looked: u64,
    chosen: Option<u64>,
    /// A choice that was better at the last look.
    better: Option<Range<usize>>,
    counts: Counts,
    /// Cycles that stand in for the measured ones.
    assumed: Option<Assumed>,
    /// Why functions stand where they do, in one line.
    pub(crate) why: Option<String>,
}

/// Cycles of a packet at its worker beside the functions, and at each function.
#[derive(Clone, Debug)]
struct Assumed {
    worker: u64,
    functions: Vec<u64>,
}

impl Assumed {
    /// What would have been counted had each packet taken these cycles.
    fn put_into(&self, counts: &mut Counts) {
        let sample = |cycles: u64, packets: u64| Sample { cycles: cycles * packets, packets };
        counts.stages = vec![sample(self.worker, counts.received)];
        for ((counted, all), cycles) in counts.functions.iter_mut().zip(&self.functions) {
            *counted = sample(*cycles, *all);
        }
    }
}

/// Sums of counters.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts {
    received: u64,
    stages: Vec<Sample>,
    functions: Vec<(Sample, u64)>,
}

/// Cycles, and the packets that took them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    cycles: u64,
    packets: u64,
}

impl Sample {
    fn add(self, cycles: &Cycles) -> Sample {
        let (more, packets) = cycles.get();
        Sample { cycles: self.cycles + more, packets: self.packets + packets }
    }

    fn since(self, before: Sample) -> Sample {
        Sample {
            cycles: self.cycles.saturating_sub(before.cycles),
            packets: self.packets.saturating_sub(before.packets),
        }
    }

    fn mean(self) -> f64 {
        self.cycles as f64 / self.packets.max(1) as f64
    }
}

impl Split {
    /// Whether `best` is to be chosen over what there is, at this time.
    fn decide(&mut self, now: u64, loads: &Loads, at: &Range<usize>, best: &Range<usize>) -> bool {
        let is_better = loads.busier(best) < loads.busier(at) * (1.0 - MARGIN);
        let again = self.better.as_ref() == Some(best);
        self.better = is_better.then(|| best.clone());
        let stands = self.chosen.is_some_and(|chosen| now.saturating_sub(chosen) < STANDS);
        is_better && again && !stands
    }
}

/// What was measured between two looks. None when too little came to tell.
fn loads(before: &Counts, now: &Counts, workers: usize, order: &[(usize, At)]) -> Option<Loads> {
    let received = now.received.saturating_sub(before.received);
    if received == 0 || before.functions.len() != now.functions.len() {
        return None;
    }
    let stages = now.stages.iter().zip(&before.stages);
    let worker = stages.map(|(now, before)| now.since(*before).mean()).sum();
    let step = |&(number, at): &(usize, At)| {
        let ((now, all), (before, all_before)) = (now.functions[number], before.functions[number]);
        let sample = now.since(before);
        if at == At::Either && sample.packets < ENOUGH {
            return None;
        }
        let share = all.saturating_sub(all_before) as f64 / received as f64;
        Some(Step { at, cycles: sample.mean(), share })
    };
    let steps = order.iter().map(step).collect::<Option<_>>()?;
    Some(Loads { workers: workers as f64, worker, steps })
}

/// What loads are taken from.
pub(crate) struct Running<'a> {
    /// The configuration at work.
    pub blueprint: &'a Blueprint,
    /// Classes of users.
    pub classes: &'a Classes,
    /// The functions, which count.
    pub functions: &'a Functions,
    /// The workers, which count.
    pub workers: &'a Workers,
}

/// Another choice that is better.
pub(crate) struct Proposal {
    /// The configuration with it.
    pub blueprint: Blueprint,
    /// Name of the thread.
    pub thread: String,
    /// Why it is better.
    pub why: String,
}

impl Split {
    /// From now on loads are as if a packet took these cycles at its worker beside the
    /// functions, and at each function.
    pub fn assume(&mut self, worker: u64, functions: &[u64]) {
        self.assumed = Some(Assumed { worker, functions: functions.to_vec() });
    }

    /// Looks at loads when it is time; a proposal where another choice is worth it.
    pub fn look(&mut self, now: u64, running: &Running<'_>) -> Option<Proposal> {
        let blueprint = running.blueprint;
        let stage = blueprint.functions.iter().find_map(|one| one.auto.clone())?;
        if now.saturating_sub(self.looked) < EVERY {
            return None;
        }
        self.looked = now;
        let mut counts = running.counts();
        if let Some(assumed) = &self.assumed {
            assumed.put_into(&mut counts);
        }
        let before = std::mem::replace(&mut self.counts, counts);
        let order = order(blueprint, &running.classes.tags, &stage);
        let loads = loads(&before, &self.counts, running.workers.count(), &order)?;
        let (at, best) = (standing(blueprint, &order), loads.best());
        if !self.decide(now, &loads, &at, &best) {
            self.why = Some(loads.why(&at));
            return None;
        }
        let mut new = blueprint.clone();
        for (place, &(function, _)) in order.iter().enumerate() {
            let plan = &mut new.functions[function];
            if plan.auto.is_some() {
                let goes = best.contains(&place);
                plan.stage = goes.then(|| stage.clone());
                plan.composition = if goes { Composition::Thread } else { Composition::Call };
            }
        }
        Some(Proposal { blueprint: new, thread: stage.name, why: loads.why(&best) })
    }

    /// A proposal is at work.
    pub fn adopt(&mut self, now: u64, why: String) {
        (self.chosen, self.better) = (Some(now), None);
        self.why = Some(why);
    }
}

/// The functions to choose from that stand on the thread, by their places in the chain.
fn standing(blueprint: &Blueprint, order: &[(usize, At)]) -> Range<usize> {
    let is_there = |(function, at): &(usize, At)| {
        *at == At::Either && blueprint.functions[*function].stage.is_some()
    };
    let first = order.iter().position(is_there);
    let last = order.iter().rposition(is_there);
    first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
}

impl Running<'_> {
    fn counts(&self) -> Counts {
        let ports = self.workers.iter().flat_map(|link| &link.counters.ports);
        let received: u64 = ports.map(|port| port.received.packets.get()).sum();
        // What the entry holds back comes to no function, and is no load of theirs.
        let held_back = DropReason::Backpressure as usize;
        let held_back: u64 =
            self.workers.iter().map(|link| link.counters.drops[held_back].get()).sum();
        let stage = |stage: Stage| {
            let samples = self.workers.iter().map(|link| &link.counters.stages[stage as usize]);
            samples.fold(Sample::default(), Sample::add)
        };
        let function = |entry: &FunctionEntry| {
            let samples = entry.counters.iter().map(|one| &one.cycles);
            let packets = entry.counters.iter().map(|one| one.handled.packets.get()).sum();
            (samples.fold(Sample::default(), Sample::add), packets)
        };
        Counts {
            received: received.saturating_sub(held_back),
            stages: Stage::ALL.into_iter().map(stage).collect(),
            functions: self.functions.entries.iter().map(function).collect(),
        }
    }
}

/// The functions as packets come to them, by their numbers, and where they stand.
fn order(
    blueprint: &Blueprint,
    classes: &[[u32; weft_function::TAG_SLOTS]],
    stage: &StagePlan,
) -> Vec<(usize, At)> {
    // The rules are at work, so they can be compiled.
    let Ok(program) = plan::compile(blueprint, classes) else { return Vec::new() };
    let mut order: Vec<(usize, At)> = Vec::new();
    for state in &program.states {
        let number = usize::from(state.function.0);
        if order.iter().any(|(known, _)| *known == number) {
            continue;
        }
        let plan = &blueprint.functions[number];
        let at = match plan.composition {
            _ if plan.auto.is_some() => At::Either,
            Composition::Call | Composition::Fused => At::Worker,
            Composition::Thread if plan.stage.as_ref() == Some(stage) => At::Thread,
            _ => At::Elsewhere,
        };
        order.push((number, at));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(worker: f64, cycles: &[f64]) -> Loads {
        let step = |cycles: &f64| Step { at: At::Either, cycles: *cycles, share: 1.0 };
        Loads { workers: 1.0, worker, steps: cycles.iter().map(step).collect() }
    }

    #[test]
    fn neither_side_has_much_more_to_do_than_the_other() {
        assert_eq!(chain(100.0, &[100.0, 100.0, 100.0, 100.0]).best(), 0..2);
        assert_eq!(chain(0.0, &[500.0, 100.0, 400.0]).best(), 0..1);
        assert_eq!(chain(100.0, &[10.0, 900.0, 10.0]).best(), 1..2);
        // A crossing costs more than these.
        assert_eq!(chain(100.0, &[10.0, 10.0]).best(), 0..0);
        // Several workers share their part, and have one thread.
        let two = Loads { workers: 2.0, ..chain(100.0, &[300.0, 200.0]) };
        assert_eq!(two.with(&(1..2)), (225.0, 250.0));
        assert_eq!(two.best(), 1..2);
        assert_eq!(chain(100.0, &[]).best(), 0..0);
    }

    #[test]
    fn what_stays_at_the_worker_costs_another_crossing() {
        let mut loads = chain(0.0, &[300.0, 200.0, 300.0]);
        loads.steps[1].at = At::Worker;
        assert_eq!(loads.with(&(0..3)), (300.0, 700.0));
        assert_eq!(loads.with(&(0..1)), (550.0, 350.0));
        assert_eq!(loads.best(), 0..1);
        // Beside a function that stands there anyway, the crossing is paid already.
        loads.steps[1].at = At::Thread;
        assert_eq!(loads.with(&(0..0)), (650.0, 250.0));
        assert_eq!(loads.with(&(0..1)), (350.0, 550.0));
        // What few packets come to is not what keeps a worker busy.
        let mut rare = chain(0.0, &[300.0, 3000.0]);
        rare.steps[1].share = 0.01;
        assert_eq!(rare.with(&(1..2)), (300.5, 30.5));
    }

    #[test]
    fn a_choice_is_made_when_it_is_better_for_a_while_and_not_too_often() {
        let mut split = Split::default();
        let loads = chain(100.0, &[300.0, 300.0, 300.0]);
        let best = loads.best();
        assert!(!split.decide(0, &loads, &(0..0), &best), "only once so far");
        assert!(split.decide(EVERY, &loads, &(0..0), &best));
        split.chosen = Some(EVERY);
        assert!(!split.decide(2 * EVERY, &loads, &(0..0), &best), "too soon");
        assert!(split.decide(EVERY + STANDS, &loads, &(0..0), &best));
        // Noise of some percent moves nothing.
        for second in 0..100 {
            let more = f64::from(second % 5) * 5.0;
            let nearly = chain(100.0, &[300.0 + more, 310.0 - more, 300.0]);
            let now = 2 * STANDS + u64::from(second as u32) * EVERY;
            assert!(!split.decide(now, &nearly, &best, &nearly.best()), "{second}");
        }
    }

    #[test]
    fn what_is_measured_is_what_came_since_the_last_look() {
        let sample = |cycles, packets| Sample { cycles, packets };
        let before = Counts {
            received: 1000,
            stages: vec![sample(5000, 100)],
            functions: vec![(sample(9_000_000, 500), 1000), (sample(0, 0), 0)],
        };
        let now = Counts {
            received: 2000,
            stages: vec![sample(15_000, 200)],
            functions: vec![(sample(9_020_000, 600), 2000), (sample(64_000, 64), 500)],
        };
        let order = [(0, At::Either), (1, At::Either)];
        let loads = loads(&before, &now, 1, &order).unwrap();
        assert_eq!(loads.worker, 100.0);
        assert_eq!(loads.steps[0], Step { at: At::Either, cycles: 200.0, share: 1.0 });
        assert_eq!(loads.steps[1], Step { at: At::Either, cycles: 1000.0, share: 0.5 });
        assert_eq!(super::loads(&now, &now, 1, &order), None, "nothing came");
        let few = Counts { received: 2010, ..now.clone() };
        assert_eq!(super::loads(&now, &few, 1, &order), None, "too little");
    }
}
